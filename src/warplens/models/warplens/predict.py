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
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine, taken
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.residency import Residency
from warplens.models.warplens.block_scheduling import handed_out
from warplens.models.warplens.latency_bound import Levels, Load, latency_bound
from warplens.models.warplens.limits import atomic_cycles, dram_cycles, l2_cycles, laid_out, unit_cycles
from warplens.simulator.code import Code
from warplens.simulator.fluid_schedule import kernel_fluid
from warplens.simulator.sampling import BUDGET
from warplens.simulator.simulation import simulate
from warplens.simulator.units import Units
from warplens.workload import Number, Workload
from warplens.workload.profile import Profile

NAME = "warplens"


def predict(workload: Workload, machine: Machine, residency: Residency, *, simulated: bool = True) -> Prediction:
    """Predict a kernel's time from its code and its profile; the analytical form where it is not to be `simulated`."""
    profile = workload.profile
    if profile is None or not workload.code:
        raise MissingField(NAME, f"workload {workload.name}", "profile (count it with `warplens analyze`)")
    if np.ndim(residency.warps_per_sm):
        raise WarplensError(f"{NAME} takes one occupancy at a time, not an array")
    sms, blocks = machine.chip.sm_count, profile.grid_blocks
    resident = max(1, int(residency.blocks_per_sm))
    spread, laid, made, chip, busy, slower, latency, levels = _limits(workload, profile, machine, resident)
    slowest = max([*busy.values(), *chip.values()])
    terms = {
        "warp latency": Term(latency / spread.rounds / slower, "cycles", "alone on an SM"),
        "rounds": Term(spread.rounds),
        "dram latency": Term(levels.dram, "cycles", "under load"),
        "l2 latency": Term(levels.l2, "cycles", "under load"),
    }
    # The latency of all rounds is an estimate: the simulation, in which warps do wait, says what it comes to at most.
    limits: dict[str, Number] = {"latency": latency, **chip, **busy}
    notes, run, stalls = list[str](), None, dict[str, float]()
    start = launch_cycles(machine, profile)
    if simulated:
        known = laid if workload.launch is not None and workload.launch.blocks == blocks else None
        run = simulate(workload, machine, warps_per_sm=float(residency.warps_per_sm), code=known)
        terms["simulated"] = Term(
            run.cycles,
            "cycles",
            f"by what is left out and by chance {run.error_cycles:.3g} off" if run.error_cycles else "",
        )
        on_sm, stalls, notes = slower * run.cycles, run.stalls, [*run.notes]
    else:
        fits = max(1, int(float(residency.warps_per_sm) // profile.warps_per_block))
        flowed = kernel_fluid(laid, made, resident=fits, blocks=math.ceil(blocks / sms))
        terms["fluid"] = Term(flowed.cycles, "cycles")
        on_sm, stalls = slower * flowed.cycles, flowed.run.shares
    terms |= {f"stall: {reason}": Term(100 * share, "%") for reason, share in stalls.items() if share >= 0.01}
    cycles = max(slowest, on_sm * spread.longer)
    parts = {"launch": start, **_stack(stalls, workload, profile, levels, on_sm), "tail": on_sm * (spread.longer - 1)}
    part = _PARTS.get(max({**chip, **busy}.items(), key=lambda item: item[1])[0], "issue")
    parts[part] = parts.get(part, 0.0) + cycles - on_sm * spread.longer
    if slower > 1:
        held = (machine.chip.tensor_clock_hz or 0) / 1e9
        notes.append(f"matrix instructions: the SMs' clock falls to {held:.2f} GHz")
    if machine.base is not None:
        said = f"{len(taken(machine))} numbers of {machine.id} are derived from the {machine.base}'s"
        notes.append(f"{said} (warplens machine show {machine.id})")
    return answer(
        NAME if simulated else f"{NAME}-fast",
        workload,
        machine,
        replace(residency, warps_per_sm=resident * residency.warps_per_block),  # whole blocks, whatever was asked for
        cycles=cycles + start,
        bounds={name: value >= 0.999 * max(slowest, latency) for name, value in limits.items()},
        limits={**limits, "latency": min(latency, cycles)},
        parts={name: value for name, value in parts.items() if value},
        terms={**terms, "launch": Term(start, "cycles")},
        notes=notes,
        simulation=run,
    )


class _Limits(NamedTuple):
    """What both forms of the model need: the code laid out, and what each limit alone would take."""

    spread: Schedule
    laid: Code
    units: Units
    chip: dict[str, float]
    busy: dict[str, float]
    slower: float  # so many times is the clock, where matrix instructions lower it
    latency: float
    levels: Levels


_LAST: list[tuple[Workload, Machine, int, _Limits]] = []  # one form of the model asks what the other just did


def _limits(workload: Workload, profile: Profile, machine: Machine, resident: int) -> _Limits:
    for known, on, of, found in _LAST:
        if known is workload and on is machine and of == resident:
            return found
    sms, code = machine.chip.sm_count, workload.code
    spread = schedule(profile, int(sms), resident)
    chip = {"dram bandwidth": dram_cycles(code, profile, machine), "l2 bandwidth": l2_cycles(code, profile, machine)}
    if queues := atomic_cycles(code, profile, machine):
        chip["atomics"] = queues
    made, laid = laid_out(workload, machine)
    busy = {name: c / sms * spread.uneven for name, c in unit_cycles(laid.steps, profile, made).items()}
    slower = clock_ratio(busy, machine)
    busy = {name: slower * c for name, c in busy.items()}
    load = Load(chip["dram bandwidth"], chip["l2 bandwidth"], max([*busy.values(), *chip.values()]), made)
    latency, levels = latency_bound(code, profile, load, spread.rounds * slower)
    _LAST[:] = [(workload, machine, resident, _Limits(spread, laid, made, chip, busy, slower, latency, levels))]
    return _LAST[0][-1]


# Which part of the time a limit belongs to, and a stall by Nsight's name.
_PARTS = {"dram bandwidth": "dram", "l2 bandwidth": "l2", "l1 misses": "l2", "atomics": "l2",
          "shared memory and l1": "shared memory", "latency": "dependency"}  # fmt: skip
_STALLS = {"selected": "issue", "not_selected": "issue", "math": "issue", "dispatch": "issue", "wait": "dependency",
           "branch_resolving": "dependency", "short_sb": "shared memory", "mio": "shared memory", "lg": "l1",
           "barrier": "barriers", "no_inst": "issue", "drain": "l1"}  # fmt: skip


def _stack(
    stalls: Mapping[str, float], workload: Workload, profile: Profile, levels: Levels, cycles: float
) -> dict[str, float]:
    """Return what the simulated time is made of: a warp's cycles by what it waits for; memory by its levels."""
    made: dict[str, float] = {}
    shared = any(KINDS[x.kind] in ("shared memory", "shuffle") for x in workload.code)
    for reason, share in stalls.items():
        for part, of_it in [(_STALLS[reason], 1.0)] if reason in _STALLS else levels.shares(profile):
            if part == "shared memory" and not shared:  # SFUs, special registers, constants
                part = "dependency"
            made[part] = made.get(part, 0.0) + share * of_it * cycles
    return made


_INSTRUCTION_BYTES = 16
_MATRIX_SHARE = 0.1  # of the time: from here on the tensor cores draw the power that lowers the clock


def clock_ratio(busy: Mapping[str, float], machine: Machine) -> float:
    """Return how much slower the SMs' clock is than the machine's: matrix instructions lower it."""
    slow = machine.chip.tensor_clock_hz
    if slow is None or busy.get("tensor cores", 0.0) < _MATRIX_SHARE * max(busy.values()):
        return 1.0
    return machine.chip.clock_hz / slow


_COLD_ALTOGETHER = 16  # SMs: from here on first accesses take no longer (data/h200/suite/short/study)


def launch_cycles(machine: Machine, profile: Profile) -> float:
    """Return the cycles that a kernel's launch takes beside its blocks' own, code beyond the caches among them."""
    sms, asks = min(profile.grid_blocks, machine.chip.sm_count), profile.total("l2_sectors") > 0
    return start_cycles(machine, sms, accesses_memory=asks) + cold_code_cycles(machine, profile)


def start_cycles(machine: Machine, sms: float, *, accesses_memory: bool) -> float:
    """Return the cycles that a launch takes beside its blocks' own, as a profiler reports its duration.

    An empty kernel's time; the launch of the first block of each of so many SMs, one after the other; and, where the
    kernel accesses global memory, what its first constants, translations and the flush behind its last store take.
    """
    launch = machine.launch
    seconds = launch.empty_kernel_seconds or 0.0
    if accesses_memory:
        alone, altogether = launch.cold_start_one_seconds or 0.0, launch.cold_start_seconds or 0.0
        share = min(1.0, (sms - 1) / (_COLD_ALTOGETHER - 1))
        seconds += alone + share * max(0.0, altogether - alone)
    return seconds * machine.chip.clock_hz + sms * (launch.block_interval_cycles or 0.0)


def cold_code_cycles(machine: Machine, profile: Profile) -> float:
    """Return what code beyond the caches takes that a flush of L2 leaves alone, where L2 is cold: it is in DRAM."""
    cache = machine.instruction_cache
    if profile.l2 != "cold" or not (cache.kept_bytes and cache.cold_interval_cycles):
        return 0.0
    executed = sum(n > 0 for n in profile.counts["executed"])
    return max(0.0, executed - cache.kept_bytes / _INSTRUCTION_BYTES) * cache.cold_interval_cycles


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
    last, busiest = handed_out(tuple(w for _, w in profile.sampled), count, sms, resident)
    rounds = last + (blocks - count) / min(count, sms * resident)
    uneven = 1 + (busiest - 1) * count / blocks
    return Schedule(rounds, uneven, rounds / _rounds_of_sm(profile, on_busiest, resident))


def _rounds_of_sm(profile: Profile, blocks: int, resident: int) -> float:
    """Return the time of the blocks that stand for those of one SM, as they are simulated, in units of a mean one's.

    Where not all of them are simulated, the others are taken as mean ones of the grid.
    """
    work, mean = profile.block_instructions or [1.0], profile.total("executed") / profile.grid_blocks
    if mean * blocks > BUDGET:
        mean = sum(work) / len(work)
    places, count = [0.0] * min(blocks, resident), min(blocks, _SCHEDULED)
    for k in range(count):
        heapq.heapreplace(places, places[0] + work[k % len(work)] / mean)
    return max(places) + (blocks - count) / len(places)
