"""Content of the page, gathered once for the page and for `--json`, and the origin of its numbers in words.

Nothing here is predicted anew but the throughput at a few other occupancies; the simulation is the one that the
prediction was made by, and the timeline runs some thousand cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from warplens.advisor import Advised
from warplens.core.errors import WarplensError
from warplens.core.units import quantity, unit_of
from warplens.machine import KINDS, Machine, Occupancy
from warplens.models import Prediction
from warplens.models.bounds import Use, occupancy_of, worksheet
from warplens.models.registry import Comparison
from warplens.report.analysis import unknown_shares
from warplens.report.page.curves import LINE_BYTES, SECTOR_BYTES, OccupancyCurve, Roofline, occupancy_curve, roofline
from warplens.report.terminal import instruction_text, value_at
from warplens.simulator import Simulation
from warplens.simulator.views import Timeline, timeline
from warplens.workload import Workload


class Touches(Struct, frozen=True, kw_only=True):
    """Means over the requests of a warp by one instruction; shares are of its sectors."""

    space: str
    requests_per_warp: float
    threads: float
    bytes_per_thread: float
    sectors: float
    lines: float
    wavefronts: float
    l1_hits: float
    l2_hits: float

    @property
    def least_wavefronts(self) -> float:
        """Wavefronts that its bytes need without conflicts; fewer where threads ask for the same words."""
        return min(self.wavefronts, max(1.0, self.threads * self.bytes_per_thread / LINE_BYTES))

    @property
    def conflict_degree(self) -> float:
        """Wavefronts over those that it needs."""
        return self.wavefronts / self.least_wavefronts if self.wavefronts else 1.0

    @property
    def useful_share(self) -> float:
        """Share of the bytes of its sectors that threads asked for (more than 1: threads share them)."""
        return self.threads * self.bytes_per_thread / (SECTOR_BYTES * self.sectors) if self.sectors else 0.0


class Row(Struct, frozen=True, kw_only=True):
    """One instruction. `share` is of all warp-cycles of the simulation, `stalls` that share by reason."""

    number: int
    offset: int
    text: str
    line: int | None
    runs_per_warp: float
    share: float
    stalls: dict[str, float]
    touches: Touches | None


class Content(Struct, frozen=True, kw_only=True):
    """All that is known of one kernel on one machine; what is not known is None or empty, and `missing` says why."""

    prediction: Prediction
    comparison: Comparison
    workload: Workload
    machine: Machine
    advised: Advised | None
    occupancy: Occupancy | None
    curve: OccupancyCurve | None
    worksheet: list[Use]
    roofline: Roofline | None
    instructions: list[Row]
    timeline: Timeline | None
    missing: dict[str, str]


def gather(p: Prediction, c: Comparison, workload: Workload, machine: Machine, advised: Advised | None) -> Content:
    """Gather what the page shows of a prediction, all models' answers, and the advice."""
    missing: dict[str, str] = {}

    def tried(name: str, make: Any, *given: Any) -> Any:
        try:
            return make(*given)
        except WarplensError as error:
            missing[name] = str(error)
            return None

    own = c.predictions.get("warplens")
    simulation = None if own is None else own.simulation
    if simulation is None:
        missing["simulation"] = c.silent.get("warplens", "our model did not simulate this kernel")
    return Content(
        prediction=p,
        comparison=c,
        workload=workload,
        machine=machine,
        advised=advised,
        occupancy=tried("occupancy", occupancy_of, workload, machine),
        curve=tried("curve", occupancy_curve, p, c, workload, machine),
        worksheet=tried("worksheet", worksheet, workload, machine, "volkov") or [],
        roofline=tried("roofline", roofline, p, workload, machine),
        instructions=_rows(workload, simulation),
        timeline=None if own is None else tried("timeline", timeline, workload, machine, float(own.warps_per_sm)),
        missing=missing,
    )


def data(content: Content) -> dict[str, Any]:
    """Return what `analyze` answers, and what the page shows of it, for JSON."""
    p, advised, profile = content.prediction, content.advised, content.workload.profile
    return {
        "prediction": p,
        "occupancy": content.occupancy,
        "limits_cycles": {**p.limits, **{name: cycles for name, cycles in p.parts.items() if name == "launch"}},
        "advice": [] if advised is None else advised.advice,
        "combinations": [] if advised is None else advised.combinations,
        "models_seconds": {name: q.seconds for name, q in content.comparison.predictions.items()},
        "silent": content.comparison.silent,
        "workload": structs.replace(content.workload, code=[], profile=None),
        "traffic": [] if profile is None else profile.traffic,
        "sampling": None if profile is None else {
            "grid_blocks": profile.grid_blocks, "emulated_blocks": profile.emulated_blocks, "exact": profile.exact,
            "error_fraction": profile.error, "largest_error_fraction": profile.largest_error,
            "unsure": profile.unsure,
        },
        "unknown_fraction": None if profile is None else unknown_shares(profile),
        "benefits": None if advised is None else advised.benefits,
        "curve": content.curve,
        "worksheet": [{**structs.asdict(use), "cycles": use.cycles} for use in content.worksheet],
        "roofline": content.roofline,
        "instructions": content.instructions,
        "timeline": None if content.timeline is None else msgspec.to_builtins(content.timeline, str_keys=True),
        "terms": {name: q.terms for name, q in content.comparison.predictions.items()},
        "missing": content.missing,
    }  # fmt: skip


def _rows(workload: Workload, simulation: Simulation | None) -> list[Row]:
    """Return the rows of a counted kernel; without a simulation they have no stalls."""
    profile = workload.profile
    if profile is None:
        return []
    warps = profile.grid_blocks * profile.warps_per_block
    lines = simulation.lines if simulation is not None and len(simulation.lines) == len(workload.code) else []
    total, found = sum(line.cycles for line in lines) or 1.0, list[Row]()
    for i, x in enumerate(workload.code):
        stalls = {reason: cycles / total for reason, cycles in lines[i].stalls.items()} if lines else {}
        count = {name: column[i] for name, column in profile.counts.items()}
        found.append(Row(
            number=i, offset=x.offset, text=instruction_text(x), line=x.line, runs_per_warp=count["executed"] / warps,
            share=sum(stalls.values()), stalls=stalls, touches=_touches(count, KINDS.get(x.kind, ""), warps),
        ))  # fmt: skip
    return found


def _touches(count: Mapping[str, float], unit: str, warps: float) -> Touches | None:
    requests, sectors, in_l2 = count["requests"], count["sectors"], count["l2_sectors"]
    if not requests:
        return None
    threads = count["threads"] / max(1.0, count["executed"])
    return Touches(
        space="shared" if unit == "shared memory" else "global", requests_per_warp=requests / warps, threads=threads,
        bytes_per_thread=count["useful_bytes"] / max(1.0, requests * threads), sectors=sectors / requests,
        lines=count["lines"] / requests, wavefronts=count["wavefronts"] / requests,
        l1_hits=count["l1_hit_sectors"] / sectors if sectors else 0.0,
        l2_hits=count["l2_hit_sectors"] / in_l2 if in_l2 else 0.0,
    )  # fmt: skip


# For each limit: what it takes alone, and the keys of the machine file that this rests on.
_LIMITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "launch": ("an empty kernel, a cold start, handing out the first blocks", ("launch.empty_kernel_seconds",)),
    "latency": ("rounds of resident blocks x what a warp takes alone, latencies under the kernel's own load; at most "
                "the kernel's own time",
                ("contention.a_cycles", "cache.l2_latency_cycles", "sm.block_replacement_cycles")),
    "dram bandwidth": ("bytes that the grid moves from and to DRAM / the rate of their mix of reads and writes",
                       ("memory.sustained_bytes_per_second",)),
    "l2 bandwidth": ("requests and sectors that pass L1 x the time that L2 takes for each",
                     ("cache.l2_bytes_per_second",)),
    "l1 misses": ("sectors that one SM asks of L2 / the rate of one SM alone",
                  ("bandwidth.l2_load_16.one_sm_bytes_per_second",)),
    "shared memory and l1": ("wavefronts of shared memory and L1 x cycles each, on the busiest SM",
                             ("shared_memory.access_interval_cycles", "cache.l1_request_interval_cycles")),
    "issue": ("issue slots of all warps of the busiest SM / schedulers", ("sm.schedulers",)),
    "atomics": ("turns of L2 for atomics on the array where they take longest / their rate", ()),
}  # fmt: skip


def limit_source(name: str, p: Prediction, machine: Machine) -> str:
    """Say what one limit's time is made of."""
    cycles = quantity(p.alone[name], "cycles")
    if not p.model.startswith("warplens"):
        return f"{cycles} at {quantity(machine.chip.clock_hz, 'Hz')}; limits of {p.model} (docs/reference/models.md)"
    known = name if name in p.limits or name == "launch" else "latency"
    what, keys = _LIMITS.get(known, (f"instructions for {name} x cycles each, on the busiest SM", ()))
    sources = filter(None, (number_source(machine, key) for key in keys))
    return ". ".join([f"{cycles}: {what} (docs/explain/how-a-prediction-is-made.md)", *sources])


def number_source(machine: Machine, key: str) -> str:
    """Say what a number of the machine file is and who says so; nothing where the file lacks it."""
    if key not in machine.sources:
        return ""
    written, source, reference = value_source(machine, key)
    return f"{key} = {written}, {source}: {reference}"


def value_source(machine: Machine, key: str) -> tuple[str, str, str]:
    """Return a number of the machine file as written, its kind of source with the date, and the reference."""
    source, found = machine.sources[key], value_at(machine, key)
    written = quantity(found, unit_of(key.rpartition(".")[2])) if isinstance(found, (int, float)) else str(found)
    return written, f"{source.source}{f', {source.date}' if source.date else ''}", source.ref


def used_keys(workload: Workload, machine: Machine) -> list[str]:
    """Return the keys of the machine file that a prediction of this workload may rest on."""
    kinds = {*workload.executed(), *(x.kind for x in workload.code)} & KINDS.keys()
    starts = ("chip.", "sm.", "memory.", "cache.", "shared_memory.", "contention.", "contention_l2.", "launch.",
              "packets.", "scattered.", *(f"instructions.{kind}." for kind in kinds))  # fmt: skip
    return [key for key in machine.sources if key.startswith(starts)]
