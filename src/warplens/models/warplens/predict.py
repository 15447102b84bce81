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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine, taken
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.warplens.limits import (
    Levels,
    Load,
    atomic_cycles,
    dram_cycles,
    l2_cycles,
    latency_bound,
    unit_cycles,
)
from warplens.simulator.code import Code
from warplens.simulator.fluid_schedule import kernel_fluid
from warplens.simulator.sampling import BUDGET
from warplens.simulator.simulation import lowered, simulate
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
    blocks, resident = profile.grid_blocks, max(1, int(residency.blocks_per_sm))
    found = _limits(workload, profile, machine, resident)
    spread, slower, levels, alone = found.schedule, found.slower, found.levels, {**found.chip, **found.busy}
    slowest = max([*found.busy.values(), *found.chip.values()])
    terms = {
        "warp latency": Term(found.latency / spread.rounds / slower, "cycles", "alone on an SM"),
        "rounds": Term(spread.rounds),
        "dram latency": Term(levels.dram, "cycles", "under load"),
        "l2 latency": Term(levels.l2, "cycles", "under load"),
    }
    # The latency of all rounds is an estimate: the simulation, in which warps do wait, says what it comes to at most.
    limits: dict[str, Number] = {"latency": found.latency, **alone}
    notes, run = list[str](), None
    start = launch_cycles(machine, profile)
    if simulated:
        run = simulate(workload, machine, warps_per_sm=float(residency.warps_per_sm))
        error = f"by what is left out and by chance {run.error_cycles:.3g} off" if run.error_cycles else ""
        terms["simulated"] = Term(run.cycles, "cycles", error)
        on_sm, stalls, notes = slower * run.cycles, run.stalls, [*run.notes]
    else:
        fits = max(1, int(float(residency.warps_per_sm) // profile.warps_per_block))
        on_busiest = math.ceil(blocks / machine.chip.sm_count)
        flowed = kernel_fluid(found.code, found.units, resident=fits, blocks=on_busiest)
        terms["fluid"] = Term(flowed.cycles, "cycles")
        on_sm, stalls = slower * flowed.cycles, flowed.run.shares
    terms |= {f"stall: {reason}": Term(100 * share, "%") for reason, share in stalls.items() if share >= 0.01}
    cycles = max(slowest, on_sm * spread.longer)
    parts = {"launch": start, **_stack(stalls, workload, profile, levels, on_sm), "tail": on_sm * (spread.longer - 1)}
    part = _PARTS.get(max(alone, key=lambda name: alone[name]), "issue")
    parts[part] = parts.get(part, 0.0) + cycles - on_sm * spread.longer
    if slower > 1:
        clock = (machine.chip.tensor_clock_hz or 0) / 1e9
        notes.append(f"matrix instructions: the SMs' clock falls to {clock:.2f} GHz")
    if machine.base is not None:
        said = f"{len(taken(machine))} numbers of {machine.id} are derived from the {machine.base}'s"
        notes.append(f"{said} (warplens machine show {machine.id})")
    return answer(
        NAME if simulated else f"{NAME}-fast",
        workload,
        machine,
        replace(residency, warps_per_sm=resident * residency.warps_per_block),  # whole blocks, whatever was asked for
        cycles=cycles + start,
        bounds={name: value >= 0.999 * max(slowest, found.latency) for name, value in limits.items()},
        limits={**limits, "latency": min(found.latency, cycles)},
        parts={name: value for name, value in parts.items() if value},
        terms={**terms, "launch": Term(start, "cycles")},
        notes=notes,
        simulation=run,
    )


class _Limits(NamedTuple):
    """Lowered code and the cycles of each limit alone, for both forms of the model."""

    schedule: Schedule
    code: Code
    units: Units
    chip: dict[str, float]
    busy: dict[str, float]
    slower: float  # the clock's ratio, where matrix instructions lower it
    latency: float
    levels: Levels


_LAST: list[tuple[Workload, Machine, int, _Limits]] = []  # one form of the model asks for those of the other


def _limits(workload: Workload, profile: Profile, machine: Machine, resident: int) -> _Limits:
    for known, last, of, found in _LAST:
        if known is workload and last is machine and of == resident:
            return found
    sms, instructions = machine.chip.sm_count, workload.code
    spread = schedule(profile, int(sms), resident)
    dram, l2 = (rate(instructions, profile, machine) for rate in (dram_cycles, l2_cycles))
    chip = {"dram bandwidth": dram, "l2 bandwidth": l2}
    if queues := atomic_cycles(instructions, profile, machine):
        chip["atomics"] = queues
    code, on = lowered(workload, machine, profile.grid_blocks)
    busy = {name: c / sms * spread.uneven for name, c in unit_cycles(code.steps, profile, on).items()}
    slower = clock_ratio(busy, machine)
    busy = {name: slower * c for name, c in busy.items()}
    load = Load(dram, l2, max([*busy.values(), *chip.values()]), on)
    latency, levels = latency_bound(instructions, profile, load, spread.rounds * slower)
    found = _Limits(spread, code, on, chip, busy, slower, latency, levels)
    _LAST[:] = [(workload, machine, resident, found)]
    return found


# Part of the time of a limit, and of a stall by Nsight's name.
_PARTS = {"dram bandwidth": "dram", "l2 bandwidth": "l2", "l1 misses": "l2", "atomics": "l2",
          "shared memory and l1": "shared memory", "latency": "dependency"}  # fmt: skip
_STALLS = {"selected": "issue", "not_selected": "issue", "math": "issue", "dispatch": "issue", "wait": "dependency",
           "branch_resolving": "dependency", "short_sb": "shared memory", "mio": "shared memory", "lg": "l1",
           "barrier": "barriers", "no_inst": "issue", "drain": "l1"}  # fmt: skip


def _stack(
    stalls: Mapping[str, float], workload: Workload, profile: Profile, levels: Levels, cycles: float
) -> dict[str, float]:
    """Return the parts of the simulated time: a warp's cycles by stall reason, those of memory by its levels."""
    parts: dict[str, float] = {}
    shared = any(KINDS[x.kind] in ("shared memory", "shuffle") for x in workload.code)
    for reason, share in stalls.items():
        for part, of_it in [(_STALLS[reason], 1.0)] if reason in _STALLS else levels.shares(profile):
            if part == "shared memory" and not shared:  # SFUs, special registers, constants
                part = "dependency"
            parts[part] = parts.get(part, 0.0) + share * of_it * cycles
    return parts


_INSTRUCTION_BYTES = 16
_MATRIX_SHARE = 0.1  # of the time: from here on the tensor cores draw the power that lowers the clock


def clock_ratio(busy: Mapping[str, float], machine: Machine) -> float:
    """Return the machine's clock over that of the SMs, which matrix instructions lower."""
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
    """Return the cycles of code beyond the caches that a flush of L2 leaves in DRAM, where L2 is cold."""
    cache = machine.instruction_cache
    if profile.l2 != "cold" or not (cache.kept_bytes and cache.cold_interval_cycles):
        return 0.0
    executed = sum(n > 0 for n in profile.counts["executed"])
    return max(0.0, executed - cache.kept_bytes / _INSTRUCTION_BYTES) * cache.cold_interval_cycles


class Schedule(Struct, frozen=True):
    """Schedule of a grid's blocks on the SMs.

    `rounds`: the time of all in units of a mean block's; `uneven`: the work of the busiest SM over the mean;
    `longer`: the time over that of rounds of equal blocks.
    """

    rounds: float
    uneven: float
    longer: float


_SCHEDULED = 20_000  # blocks; what the last ones leave uneven does not grow with more


def schedule(profile: Profile, sms: int, resident: int) -> Schedule:
    """Assign the blocks, each to the block slot that is free first; blocks that differ come in any order."""
    blocks, on_busiest = profile.grid_blocks, math.ceil(profile.grid_blocks / sms)
    equal = Schedule(math.ceil(on_busiest / resident), on_busiest * sms / blocks, 1.0)
    if profile.heaviest:
        mean = profile.total("executed") / blocks
        heavy = sum(profile.block_instructions) / max(1, len(profile.block_instructions)) / mean
        return Schedule(1.0, equal.uneven * max(1.0, heavy), 1.0)
    if not profile.sampled or blocks <= sms:
        return equal
    count = min(blocks, _SCHEDULED)
    last, busiest = assigned(tuple(w for _, w in profile.sampled), count, sms, resident)
    rounds = last + (blocks - count) / min(count, sms * resident)
    uneven = 1 + (busiest - 1) * count / blocks
    return Schedule(rounds, uneven, rounds / _rounds_of_sm(profile, on_busiest, resident))


@lru_cache(64)
def assigned(sampled: tuple[float, ...], count: int, sms: int, resident: int) -> tuple[float, float]:
    """Return the end of the last block, in mean blocks, and the work of the busiest SM over the mean.

    Each block goes to the block slot that is free first, the lowest of several.
    """
    work = np.random.default_rng(0).choice(sampled, count)
    slots, per_sm = [(0.0, k) for k in range(min(count, sms * resident))], [0.0] * sms
    for each in (work / work.mean()).tolist():
        free, slot = slots[0]
        heapq.heapreplace(slots, (free + each, slot))
        per_sm[slot % sms] += each
    return max(slots)[0], max(per_sm) / (count / sms)


def _rounds_of_sm(profile: Profile, blocks: int, resident: int) -> float:
    """Return the time of the blocks that stand for those of one SM, as they are simulated, in units of a mean one's.

    Where not all of them are simulated, the others are taken as mean ones of the grid.
    """
    work, mean = profile.block_instructions or [1.0], profile.total("executed") / profile.grid_blocks
    if mean * blocks > BUDGET:
        mean = sum(work) / len(work)
    slots, count = [0.0] * min(blocks, resident), min(blocks, _SCHEDULED)
    for k in range(count):
        heapq.heapreplace(slots, slots[0] + work[k % len(work)] / mean)
    return max(slots) + (blocks - count) / len(slots)
