"""How arithmetic, shared memory, control and launches are measured: which launches, at which occupancies.

A plan yields a point and one repetition's values there, every repetition. What does not fit on this GPU is left out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import SCHEDULERS, Laboratory, Place, Unfit
from warplens.laboratory.source import Kernel

_TARGET_CYCLES = 60_000  # of a launch: 30 us
_CHAIN_CYCLES = 480_000  # long enough that a trip more or less of each warp does not matter
_SLOW_CHAIN_CYCLES = 120_000  # times how often a bank is asked
_NEVER = 0x7FC12345  # a value that no result has
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
    lab: Laboratory, name: str, place: Place, most: int = 20_000, cycles: int = _TARGET_CYCLES, **arguments: Any
) -> int:
    """Return how many trips take about the time of a good launch, from a short one."""
    probe, blocks = 4, place.blocks_per_sm * lab.facts.sm_count
    records = lab.stamped(name, blocks, place.threads, place.shared, trips=probe, **arguments)
    taken = stamps.reduce(records)["span_cycles"]
    return int(max(4, min(most, probe * cycles / max(taken, 1.0))))


def chain_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Kernels of N and 2N links in turn, over occupancies (and strides of shared memory)."""
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
                places = [lab.place(kernel.name, warps, limit=limit, threads=threads) for kernel in (half, double)]
            except Unfit:
                continue
            if not limit:
                for kernel in (half, double):
                    lab.gpu.carve_out(lab.function(kernel.name), 0)
            slower = max(1, (stride or 32) * shared // 4)  # accesses to one bank, or to one word, take turns
            size = max(_CHAIN_CYCLES, _SLOW_CHAIN_CYCLES * slower) * half.facts["chains"]
            given = {"a": stride * max(1, shared), "c": _NEVER, "size": size}
            point = {"warps": warps, "stride": stride, "threads": places[0].threads, **half.facts}
            with _own_clock(lab, entry, double, places[1], given):
                for repetition in range(repetitions(entry, effort)):
                    values: dict[str, float] = {}
                    for suffix, kernel, place in (("_n", half, places[0]), ("_2n", double, places[1])):
                        values |= timed(_sampled(lab, kernel, place, given), suffix)
                    yield {**point, "repetition": repetition}, values


def _sampled(lab: Laboratory, kernel: Kernel, place: Place, given: dict[str, Any]) -> dict[str, float]:
    blocks = place.blocks_per_sm * lab.facts.sm_count
    return lab.sample(kernel.name, blocks, place.threads, place.shared, **given)


def _own_clock(
    lab: Laboratory, entry: Entry, kernel: Kernel, place: Place, given: dict[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Watch the clock by what this kernel holds, where the entry says that it has one of its own."""
    if not entry.parameters.get("own_clock"):
        return contextlib.nullcontext()
    blocks = place.blocks_per_sm * lab.facts.sm_count
    return lab.at_own_clock(
        lambda: stamps.reduce(lab.stamped(kernel.name, blocks, place.threads, place.shared, **given))
    )


def block_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Kernels of N and 2N links with one block per SM of so many warps: barriers, loops, branches, groups of warps."""
    half, double = entry.kernels
    lab.operands(entry.parameters.get("register", "f"))
    if entry.parameters.get("own_addresses"):  # every entry of 8 bytes leads to itself
        lab.fill(1 << 20, 0, 0, 8)
    for a in entry.parameters.get("a", (0,)):
        for warps in entry.parameters.get("warps", (1, 2, 4, 8, 16, 32)):
            try:
                places = [lab.place(kernel.name, warps) for kernel in (half, double)]
            except Unfit:
                continue
            given = {"a": a, "c": _NEVER}
            cycles = entry.parameters.get("cycles", _TARGET_CYCLES)
            given["trips"] = trips_for(lab, half.name, places[0], cycles=cycles, **given)
            with _own_clock(lab, entry, double, places[1], given):
                for repetition in range(effort.repetitions):
                    values: dict[str, float] = {}
                    for suffix, kernel, place in (("_n", half, places[0]), ("_2n", double, places[1])):
                        values |= kept(_sampled(lab, kernel, place, given), suffix)
                    point = {"warps": warps, "a": a, "trips": given["trips"], **half.facts}
                    yield {**point, "repetition": repetition}, values


def code_sizes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Loops of growing length in one warp per SM, and in one per scheduler: instruction caches."""
    lab.operands("f")
    for kernel in entry.kernels:
        for warps in (1, SCHEDULERS):
            place = lab.place(kernel.name, warps)
            trips = max(4, 100_000 // kernel.facts["links"])
            for repetition in range(effort.repetitions):
                made = lab.sample(kernel.name, lab.facts.sm_count, place.threads, place.shared, trips=trips, c=_NEVER)
                yield {"warps": warps, "trips": trips, **kernel.facts, "repetition": repetition}, kept(made)


def constant_sizes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """A chain through growing parts of constant memory, 64 bytes from load to load, in one warp."""
    kernel = entry.kernels[0]
    lab.zeros()
    table, stride = lab.variable(kernel.name, "table"), 16
    for size in (256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 24576, 32768, 49152, 65536):
        nodes = size // 4 // stride
        content = np.zeros(16384, np.uint32)
        content[np.arange(nodes) * stride] = (np.arange(nodes) + 1) % nodes * stride
        lab.gpu.put(table, content)
        place, trips = lab.place(kernel.name, 1), max(32, 2 * nodes // 8)
        for repetition in range(2 * effort.repetitions):
            sm = some_sm(lab, repetition)
            launched = (kernel.name, lab.facts.sm_count, 32, place.shared)
            lab.stamped(*launched, trips=trips, b=sm, c=0xFFFFFFF)  # the whole chain once
            made = lab.sample(*launched, trips=trips, b=sm, c=0xFFFFFFF)
            yield {"bytes": size, "loads": 8 * trips, "sm": sm, "repetition": repetition}, kept(made)


def empty_launches(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Empty kernels: from one to the next in a row that waits behind a long one; on the host; by number of blocks."""
    many = 50 if effort.quick else 200
    for repetition in range(max(5, effort.repetitions)):
        values = lab.watched(partial(_in_a_row, lab, many))
        yield {"what": "queued", "launches": many, "repetition": repetition}, values
        yield {"what": "nothing", "repetition": repetition}, lab.watched(partial(between_events, lab, "", 0, 0))
        yield {"what": "round trip", "repetition": repetition}, lab.watched(partial(_there_and_back, lab))
    sms = lab.facts.sm_count
    for threads in (32, 128, 256, 512, 1024):
        for waves in (1, 64, 256, 512, 1024):
            for repetition in range(effort.repetitions):
                point = {"what": "blocks", "threads": threads, "blocks": waves * sms, "repetition": repetition}
                yield point, lab.watched(partial(between_events, lab, "empty", waves * sms, threads))


def between_events(lab: Laboratory, name: str, blocks: int, threads: int, **given: Any) -> dict[str, float]:
    """Return the seconds from event to event in a full queue, with a launch between them or nothing."""
    lab.launch("blocks", 1, 32, size=200_000)
    lab.gpu.mark(0)
    if name:
        lab.launch(name, blocks, threads, **given)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def _in_a_row(lab: Laboratory, many: int) -> dict[str, float]:
    lab.launch("blocks", 1, 32, size=int(many * 1e5))  # 50 us for each launch that is asked for meanwhile
    lab.gpu.mark(0)
    for _ in range(many):
        lab.launch("empty", 1, 32)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def _there_and_back(lab: Laboratory) -> dict[str, float]:
    lab.gpu.wait()
    begin = time.perf_counter()
    lab.launch("empty", 1, 32)
    lab.gpu.wait()
    return {"seconds": time.perf_counter() - begin}


def block_replacement(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Blocks of a fixed length, several times as many as fit: from a block's end to the next one's start on its SM."""
    sms = lab.facts.sm_count
    for warps in (1, 4, 8, 16, 32):
        place = lab.place("short_blocks", warps)
        for cycles in (2000, 20_000):
            for repetition in range(effort.repetitions):
                point = {"what": "replacement", "warps": warps, "cycles": cycles, "repetition": repetition}
                yield point, lab.watched(partial(_replaced, lab, 32 * warps, place.shared, cycles))
    for grid in sorted({1, sms // 2, sms, sms + 1, 2 * sms - 1, 2 * sms, 2 * sms + 1, 4 * sms, 4 * sms + 1}):
        place = lab.place("blocks", 8)
        for repetition in range(effort.repetitions):
            point = {"what": "tail", "blocks": grid, "cycles": 10_000, "repetition": repetition}
            yield point, lab.watched(partial(_tail, lab, grid, place.shared))


def _tail(lab: Laboratory, grid: int, shared: int) -> dict[str, float]:
    records = stamps.columns(lab.stamped("blocks", grid, 256, shared, size=10_000))
    starts = records["start_ns"][records["start_ns"] > 0]
    return {
        "grid_ns": float(records["end_ns"].max() - starts.min()),
        "last_start_ns": float(starts.max() - starts.min()),
    }


def _replaced(lab: Laboratory, threads: int, shared: int, cycles: int) -> dict[str, float]:
    sms = lab.facts.sm_count
    return _gaps(stamps.columns(lab.stamped("short_blocks", 8 * sms, threads, shared, size=cycles)), threads)


def _gaps(records: dict[str, Any], threads: int) -> dict[str, float]:
    """Return how long an SM with room for one block waits between two, over all SMs."""
    warps = threads // 32
    starts = records["start"].reshape(-1, warps).min(axis=1)
    ends = records["end"].reshape(-1, warps).max(axis=1)
    sm = records["sm"].reshape(-1, warps)[:, 0]
    order = np.lexsort((starts, sm))
    same = np.diff(sm[order]) == 0
    gaps = (starts[order][1:] - ends[order][:-1])[same]
    spread = (records["start"].reshape(-1, warps).max(axis=1) - starts).mean()
    return {
        "gaps": float(len(gaps)),
        "mean_gap_cycles": float(gaps.mean()),
        "median_gap_cycles": float(np.median(gaps)),
        "least_gap_cycles": float(gaps.min()),
        "most_gap_cycles": float(gaps.max()),
        "mean_start_spread_cycles": float(spread),
    }
