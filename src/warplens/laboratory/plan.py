"""Plans of measurements: what an entry is, and the sweeps that several experiments share.

A plan launches an entry's kernels and yields a point and one repetition's values there, every repetition. What does not
fit on this GPU is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import SCHEDULERS, Laboratory, Residency, Unfit
from warplens.laboratory.source import Kernel

# A point of a measurement and one repetition's values there.
Sample = tuple[dict[str, Any], dict[str, Any]]
Plan = Callable[[Laboratory, "Entry", "Effort"], Iterator[Sample]]


@dataclass(frozen=True)
class Effort:
    """Effort of a run: repetitions, and every point or only those that the machine file needs."""

    quick: bool = False
    repetitions: int = 3


@dataclass(frozen=True)
class Entry:
    """One measurement: `plan` launches `kernels` with `parameters`; `yields` names its result."""

    name: str
    kernels: tuple[Kernel, ...]
    plan: Plan
    yields: str
    parameters: dict[str, Any] = field(default_factory=dict)
    quick: bool = True  # whether the quick form has it
    weight: float = 1.0  # how long it takes, roughly, for the time left


_TARGET_CYCLES = 60_000  # of a launch: 30 us
_CHAIN_CYCLES = 480_000  # long enough that a trip more or less of each warp does not matter
_SLOW_CHAIN_CYCLES = 120_000  # times how often a bank is asked
NEVER = 0x7FC12345  # a value that no result has
_KEPT = ("span_cycles", "mean_warp_cycles", "warps_least", "warps_most", "ghz", "off_clock", "redone")
_TIMED = ("rate", "mean_cycles_per_count", "slowest_over_fastest", "sms", "warps_least", "warps_most", "ghz",
          "off_clock", "redone")  # fmt: skip


def occupancies(lab: Laboratory) -> list[int]:
    """Return warps per SM: one, and whole numbers per scheduler up to the most."""
    return [1, *range(SCHEDULERS, lab.facts.warps_per_sm_max + 1, SCHEDULERS)]


def chosen(entry: Entry, lab: Laboratory) -> list[int]:
    """Return the occupancies that an entry names, or all."""
    found: list[int] = entry.parameters.get("warps") or occupancies(lab)
    return found


def repetitions(entry: Entry, effort: Effort) -> int:
    """Return how often each point is measured: what was asked for, or the most that the entry is worth."""
    most: int = entry.parameters.get("most_repetitions", effort.repetitions)
    return min(effort.repetitions, most)


def some_sm(lab: Laboratory, repetition: int) -> int:
    """Return the SM that works alone: another one each time, because it is not as far to L2 from all of them."""
    return repetition * 37 % lab.facts.sm_count


def kept(values: dict[str, float], suffix: str = "") -> dict[str, float]:
    """Return the numbers of a sample that are written down, rounded to what they are worth."""
    return {f"{key}{suffix}": round(values[key], 4) for key in _KEPT if key in values}


def timed(values: dict[str, float], suffix: str = "") -> dict[str, float]:
    """Return the numbers of a sample that ran for a given time."""
    return {f"{key}{suffix}": float(f"{values[key]:.8g}") for key in _TIMED if key in values}


def trips_for(
    lab: Laboratory, name: str, resident: Residency, most: int = 20_000, cycles: int = _TARGET_CYCLES, **arguments: Any
) -> int:
    """Return how many trips take about the time of a good launch, from a short one."""
    probe, blocks = 4, resident.blocks_per_sm * lab.facts.sm_count
    records = lab.stamped(name, blocks, resident.threads, resident.shared, trips=probe, **arguments)
    taken = stamps.reduce(records)["span_cycles"]
    return int(max(4, min(most, probe * cycles / max(taken, 1.0))))


def chain_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure kernels of N and 2N links in turn, over occupancies (and strides of shared memory)."""
    half, double = entry.kernels
    register, shared = entry.parameters["register"], entry.parameters.get("width", 0)
    if entry.parameters.get("own_addresses"):  # every entry of 8 bytes leads to itself
        lab.fill(1 << 20, 0, 0, 8)
    for stride in entry.parameters.get("strides", (1,)):
        lab.operands(register) if not shared else lab.zeros()
        for warps in chosen(entry, lab):
            try:
                threads = entry.parameters.get("threads", 0)
                limit = entry.parameters.get("limit", True)
                residents = [
                    lab.residency(kernel.name, warps, limit=limit, threads=threads) for kernel in (half, double)
                ]
            except Unfit:
                continue
            if not limit:
                for kernel in (half, double):
                    lab.gpu.carve_out(lab.function(kernel.name), 0)
            slower = max(1, (stride or 32) * shared // 4)  # accesses to one bank, or to one word, take turns
            size = max(_CHAIN_CYCLES, _SLOW_CHAIN_CYCLES * slower) * half.facts["chains"]
            given = {"a": stride * max(1, shared), "c": NEVER, "size": size}
            point = {"warps": warps, "stride": stride, "threads": residents[0].threads, **half.facts}
            with _own_clock(lab, entry, double, residents[1], given):
                for repetition in range(repetitions(entry, effort)):
                    values: dict[str, float] = {}
                    for suffix, kernel, resident in (("_n", half, residents[0]), ("_2n", double, residents[1])):
                        values |= timed(_sampled(lab, kernel, resident, given), suffix)
                    yield {**point, "repetition": repetition}, values


def _sampled(lab: Laboratory, kernel: Kernel, resident: Residency, given: dict[str, Any]) -> dict[str, float]:
    blocks = resident.blocks_per_sm * lab.facts.sm_count
    return lab.sample(kernel.name, blocks, resident.threads, resident.shared, **given)


def _own_clock(
    lab: Laboratory, entry: Entry, kernel: Kernel, resident: Residency, given: dict[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Watch the clock by what this kernel holds, where the entry says that it has one of its own."""
    if not entry.parameters.get("own_clock"):
        return contextlib.nullcontext()
    blocks = resident.blocks_per_sm * lab.facts.sm_count
    return lab.at_own_clock(
        lambda: stamps.reduce(lab.stamped(kernel.name, blocks, resident.threads, resident.shared, **given))
    )


def block_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure kernels of N and 2N links with one block of so many warps per SM: barriers, loops, branches, groups."""
    half, double = entry.kernels
    lab.operands(entry.parameters.get("register", "f"))
    if entry.parameters.get("own_addresses"):  # every entry of 8 bytes leads to itself
        lab.fill(1 << 20, 0, 0, 8)
    for a in entry.parameters.get("a", (0,)):
        for warps in entry.parameters.get("warps", (1, 2, 4, 8, 16, 32)):
            try:
                residents = [lab.residency(kernel.name, warps) for kernel in (half, double)]
            except Unfit:
                continue
            given = {"a": a, "c": NEVER}
            cycles = entry.parameters.get("cycles", _TARGET_CYCLES)
            given["trips"] = trips_for(lab, half.name, residents[0], cycles=cycles, **given)
            with _own_clock(lab, entry, double, residents[1], given):
                for repetition in range(effort.repetitions):
                    values: dict[str, float] = {}
                    for suffix, kernel, resident in (("_n", half, residents[0]), ("_2n", double, residents[1])):
                        values |= kept(_sampled(lab, kernel, resident, given), suffix)
                    point = {"warps": warps, "a": a, "trips": given["trips"], **half.facts}
                    yield {**point, "repetition": repetition}, values


def between_events(lab: Laboratory, name: str, blocks: int, threads: int, **given: Any) -> dict[str, float]:
    """Return the seconds from event to event in a full queue, with a launch between them or nothing."""
    lab.launch("blocks", 1, 32, size=200_000)
    lab.gpu.mark(0)
    if name:
        lab.launch(name, blocks, threads, **given)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}
