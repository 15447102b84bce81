"""Our own model: the kernel's machine code, simulated on one SM, and the limits of the chip.

    time = launch + the longest of
           - what the simulator says of the blocks of one SM (`warplens`), or, in the analytical form (`warplens-fast`),
             rounds of resident blocks, each as long as a warp alone takes, with latencies under the kernel's own load
           - what each unit of an SM takes for all its warps: issue, pipes, shared memory and L1
           - what L2 and DRAM take for the whole grid, over the SMs

It needs a workload that was counted from machine code (`warplens analyze`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from warplens.errors import MissingField, WarplensError
from warplens.kernel import Number, Workload
from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Profile
from warplens.kernel.walk import Walk, lone_warp_cycles, walk
from warplens.machine import Machine
from warplens.models.limits import SECTOR_BYTES, atomic_cycles, dram_cycles, l2_cycles, unit_cycles
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.residency import Residency
from warplens.simulate.from_program import from_program
from warplens.simulate.simulation import Simulation, simulate
from warplens.simulate.units import units

NAME = "warplens"
_ROUNDS = 12  # of the fixed point


def predict(workload: Workload, machine: Machine, residency: Residency, *, simulated: bool = True) -> Prediction:
    """Predict a kernel's time from its code and its profile; the analytical form where it is not to be `simulated`."""
    profile = workload.profile
    if profile is None or not workload.code:
        raise MissingField(NAME, f"workload {workload.name}", "profile (count it with `warplens analyze`)")
    if np.ndim(residency.warps_per_sm):
        raise WarplensError(f"{NAME} takes one occupancy at a time, not an array")
    sms, blocks = machine.chip.sm_count, profile.grid_blocks
    resident = max(1, int(residency.blocks_per_sm))
    spread = schedule(profile, int(sms), resident)
    uneven, code = spread.uneven, workload.code
    chip = {"dram bandwidth": dram_cycles(code, profile, machine), "l2 bandwidth": l2_cycles(code, profile, machine)}
    if queues := atomic_cycles(code, profile, machine):
        chip["atomics"] = queues
    made = units(machine, min(sms, blocks))
    steps = from_program(code, made, profile, name=workload.name).steps
    busy = {name: c / sms * uneven for name, c in unit_cycles(steps, profile, made).items()}
    slower = clock_ratio(busy, machine)
    busy = {name: slower * c for name, c in busy.items()}
    slowest = max([*busy.values(), *chip.values()])
    latency, levels = _latency_bound(workload, profile, machine, spread.rounds * slower, slowest)
    terms = {
        "warp latency": Term(latency / spread.rounds / slower, "cycles", "alone on an SM"),
        "rounds": Term(spread.rounds),
        "dram latency": Term(levels.dram, "cycles", "under load"),
        "l2 latency": Term(levels.l2, "cycles", "under load"),
    }
    limits: dict[str, Number] = {"latency": latency, **chip, **busy}
    cycles = max(slowest, latency)
    notes: list[str] = []
    start = start_cycles(machine, min(blocks, sms * resident))
    most = max(limits, key=lambda name: float(limits[name]))
    parts = {"launch": start, _PARTS.get(most, "issue"): cycles}
    if simulated:
        run = simulate(workload, machine, warps_per_sm=float(residency.warps_per_sm))
        terms["simulated"] = Term(run.cycles, "cycles", f"off by at most {run.error_cycles:.3g}")
        terms |= {f"stall: {reason}": Term(100 * share, "%") for reason, share in run.stalls.items() if share >= 0.01}
        on_sm = slower * run.cycles
        cycles, notes = max(slowest, on_sm * spread.longer), [*run.notes]
        parts = {"launch": start, **_stack(run, profile, levels, on_sm), "tail": on_sm * (spread.longer - 1)}
        part = _PARTS.get(max({**chip, **busy}.items(), key=lambda item: item[1])[0], "issue")
        parts[part] = parts.get(part, 0.0) + cycles - on_sm * spread.longer
    if slower > 1:
        notes.append(
            f"matrix instructions: the SMs' clock falls to {(machine.chip.tensor_clock_hz or 0) / 1e9:.2f} GHz"
        )
    return answer(
        NAME if simulated else f"{NAME}-fast",
        workload,
        machine,
        residency,
        cycles=cycles + start,
        bounds={name: value >= 0.999 * max(slowest, latency) for name, value in limits.items()},
        limits=limits,
        parts={name: value for name, value in parts.items() if value},
        terms={**terms, "launch": Term(start, "cycles")},
        notes=notes,
    )


# Which part of the time a limit belongs to, and a stall by Nsight's name.
_PARTS = {"dram bandwidth": "dram", "l2 bandwidth": "l2", "l1 misses": "l2", "atomics": "l2",
          "shared memory and l1": "shared memory", "latency": "dependency"}  # fmt: skip
_STALLS = {"selected": "issue", "not_selected": "issue", "math": "issue", "dispatch": "issue", "wait": "dependency",
           "branch_resolving": "dependency", "short_sb": "shared memory", "mio": "shared memory", "lg": "l1",
           "barrier": "barriers"}  # fmt: skip


def _stack(run: Simulation, profile: Profile, levels: Levels, cycles: float) -> dict[str, float]:
    """Return what the simulated time is made of: a warp's cycles by what it waits for; memory by its levels."""
    made: dict[str, float] = {}
    for reason, share in run.stalls.items():
        for part, of_it in [(_STALLS[reason], 1.0)] if reason in _STALLS else levels.shares(profile):
            made[part] = made.get(part, 0.0) + share * of_it * cycles
    return made


_MATRIX_SHARE = 0.1  # of the time: from here on the tensor cores draw the power that lowers the clock


def clock_ratio(busy: Mapping[str, float], machine: Machine) -> float:
    """Return how much slower the SMs' clock is than the machine's: matrix instructions lower it."""
    slow = machine.chip.tensor_clock_hz
    if slow is None or busy.get("tensor cores", 0.0) < _MATRIX_SHARE * max(busy.values()):
        return 1.0
    return machine.chip.clock_hz / slow


def start_cycles(machine: Machine, first_blocks: float) -> float:
    """Return what a launch takes before its first blocks are at work, all of them handed out one after the other."""
    launch = machine.launch
    seconds = (launch.empty_kernel_seconds or 0.0) + (launch.events_seconds or 0.0) + (launch.cold_start_seconds or 0.0)
    return seconds * machine.chip.clock_hz + first_blocks * (launch.block_interval_cycles or 0.0)


class Schedule(Struct, frozen=True):
    """How the blocks of a grid lie on the SMs.

    `rounds`: the time of all in units of a mean block's; `uneven`: the work of the busiest SM over the mean;
    `longer`: the time over that of rounds of blocks that are all alike.
    """

    rounds: float
    uneven: float
    longer: float


_SCHEDULED = 20_000  # blocks; what the last ones leave uneven does not grow with more


def schedule(profile: Profile, sms: int, resident: int) -> Schedule:
    """Hand the blocks out, each to the place that is free first; blocks that differ come in any order."""
    blocks, on_busiest = profile.grid_blocks, math.ceil(profile.grid_blocks / sms)
    alike = Schedule(math.ceil(on_busiest / resident), on_busiest * sms / blocks, 1.0)
    if profile.heaviest:
        mean = profile.total("executed") / blocks
        heavy = sum(profile.block_instructions) / max(1, len(profile.block_instructions)) / mean
        return Schedule(1.0, alike.uneven * max(1.0, heavy), 1.0)
    if not profile.sampled or blocks <= sms:
        return alike
    count = min(blocks, _SCHEDULED)
    work = np.random.default_rng(0).choice([w for _, w in profile.sampled], count)
    work = work / work.mean()
    places = [(0.0, i) for i in range(min(count, sms * resident))]
    per_sm = np.zeros(sms)
    for each in work:
        free, place = heapq.heappop(places)
        per_sm[place % sms] += each
        heapq.heappush(places, (free + each, place))
    tail = max(places)[0] - count / len(places)
    rounds = blocks / (sms * resident) + tail
    uneven = 1 + (float(per_sm.max()) / (count / sms) - 1) * count / blocks
    return Schedule(rounds, uneven, rounds / alike.rounds)


def _latency_bound(
    workload: Workload, profile: Profile, machine: Machine, rounds: float, slowest: float
) -> tuple[float, Levels]:
    """Return the cycles of all rounds of blocks if each takes what its longest warp takes alone, and the latencies.

    Latencies grow with the traffic, which is the slower the longer they are: a fixed point.
    """
    ways = [(walk(path), path.warps) for path in profile.paths]
    between = machine.sm.block_replacement_cycles or 0.0
    between += (machine.sm.block_replacement_per_warp_cycles or 0.0) * profile.warps_per_block
    cycles = slowest
    for _ in range(_ROUNDS):
        levels = Levels.under_load(profile, machine, cycles)
        latency = rounds * (warp_cycles(workload.code, profile, ways, machine, levels) + between)
        new = max(slowest, latency)
        if abs(new - cycles) < 1e-3 * cycles:
            break
        cycles = 0.5 * (cycles + new)
    return latency, levels


class Levels(Struct, frozen=True):
    """Latencies of the levels of memory, in cycles, under a load."""

    l1: float
    l2: float
    dram: float

    @staticmethod
    def under_load(profile: Profile, machine: Machine, cycles: float) -> Levels:
        """Return the latencies when the grid's traffic takes so many cycles."""
        seconds = cycles / machine.chip.clock_hz
        dram = machine.timing("load").latency_cycles or 0.0
        if machine.contention is not None:
            c = machine.contention
            x = min(0.98 * c.c_bytes_per_second, (profile.dram_read_bytes + profile.dram_written_bytes) / seconds)
            dram = max(dram, c.a_cycles + c.b_cycles * x / (c.c_bytes_per_second - x))
        l2 = machine.cache.l2_latency_cycles or dram
        if machine.contention_l2 is not None:
            c = machine.contention_l2
            x = min(0.98 * c.c_bytes_per_second, SECTOR_BYTES * profile.total("l2_sectors") / seconds)
            l2 = max(l2, c.a_cycles + c.b_cycles * x / (c.c_bytes_per_second - x))
        return Levels(machine.cache.l1_latency_cycles or l2, l2, dram)

    def shares(self, profile: Profile) -> list[tuple[str, float]]:
        """Return how the time that is waited for memory falls to its levels: sectors by where they are found."""
        asked, found = profile.total("l2_sectors"), profile.total("l2_hit_sectors")
        times = {"l1": profile.total("l1_hit_sectors") * self.l1, "l2": found * self.l2,
                 "dram": (asked - found) * self.dram}  # fmt: skip
        total = sum(times.values())
        return [(level, time / total) for level, time in times.items()] if total else [("dram", 1.0)]


def warp_cycles(
    code: list[Instruction], profile: Profile, ways: list[tuple[Walk, int]], machine: Machine, levels: Levels
) -> float:
    """Return what a warp alone takes: the mean over the ways of warps, scaled to the mean warp's instructions."""
    latencies = [_latency(x, i, profile, machine, levels) for i, x in enumerate(code)]
    chosen = sorted(ways, key=lambda w: -w[1])[:4]
    total = sum(n for _, n in chosen)
    cycles = sum(n * lone_warp_cycles(code, way, machine, latencies) for way, n in chosen)
    counted = sum(n * sum(way.weights) for way, n in chosen)
    if profile.heaviest:
        return max(lone_warp_cycles(code, way, machine, latencies) for way, _ in chosen)
    mean = profile.total("executed") / (profile.grid_blocks * profile.warps_per_block)
    return cycles / total * mean / max(1.0, counted / total)


def _latency(x: Instruction, i: int, profile: Profile, machine: Machine, levels: Levels) -> float:
    """Return the latency of an instruction's result: of an access by how often it passes L1 and L2."""
    timing = machine.timing(x.kind).latency_cycles or 0.0
    requests = profile.counts["requests"][i]
    if not requests:
        return timing
    if x.kind not in ("load", "store") and profile.counts["wavefronts"][i]:
        more = profile.counts["wavefronts"][i] / requests - 1
        conflict = machine.shared_memory.conflict_cycles if machine.shared_memory else None
        return timing + (conflict or 2.0) * max(0.0, more)
    if x.kind not in ("load", "store"):
        return timing
    beyond = min(1.0, profile.counts["l2_sectors"][i] / requests)
    missed = profile.counts["l2_sectors"][i] - profile.counts["l2_hit_sectors"][i]
    far = min(beyond, missed / requests)
    return (1 - beyond) * levels.l1 + (beyond - far) * levels.l2 + far * levels.dram
