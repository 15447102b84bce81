"""Launches and blocks: empty kernels, the rate of blocks, block replacement, tails, first instructions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.chase import derive_caches
from warplens.laboratory.gpu_session import Laboratory
from warplens.laboratory.plan import Effort, Entry, Sample, between_events
from warplens.laboratory.samples import Number, Reading, Samples, digits, number
from warplens.laboratory.source import ANYTHING, Expectation, Kernel

_LITTLE_CYCLES = 80  # of a copy's other instructions, by the stall counts in the machine code


def empty_kernel() -> Kernel:
    """Return the empty kernel: what a launch and a block cost."""
    return Kernel("empty", "KERNEL(empty, 1024) {}\n", Expectation(loop=False, others_at_most=4))


def short_blocks_kernel() -> Kernel:
    """Return the kernel as `blocks`, the clock read first and last of all: the gap between two blocks of an SM."""
    text = """\
KERNEL(short_blocks, 1024) {
  u64 c0 = cycles(), c1;
  Record *to = records + (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) { to->start = c0; to->start_ns = 0; to->end_ns = 1; to->sm = sm_id(); to->count = 1; }
  do c1 = cycles(); while (c1 - c0 < size);
  if (threadIdx.x % 32 == 0) to->end = cycles();
}
"""
    return Kernel("short_blocks", text, ANYTHING)


def little_copy_kernel() -> Kernel:
    """Return the kernel of one load and one store of each thread: what the first instructions of a kernel cost."""
    text = """\
KERNEL(little_copy, 256) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  ((u32 *)data)[(1 << 20) + i] = ((u32 *)data)[i];
}
"""
    return Kernel("little_copy", text, Expectation({r"LDG.*": 1, r"STG.*": 1}, 40, True, loop=False))


def entries() -> list[Entry]:
    """Return the measurements: launch overhead, first instructions, block replacement."""
    return [
        Entry("launch.empty", (empty_kernel(),), measure_empty_launches, "launch overhead, blocks per second"),
        Entry("launch.first", (empty_kernel(), little_copy_kernel()), measure_first_instructions,
              "a kernel's first instructions", weight=0.1),
        Entry("launch.blocks", (short_blocks_kernel(),), measure_blocks, "block replacement, tail"),
    ]  # fmt: skip


def measure_empty_launches(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure empty kernels: from one to the next in a queue behind a long one; on the host; by number of blocks."""
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


def measure_blocks(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure blocks of a fixed length, many times as many as fit: from a block's end to the next one's start."""
    sms = lab.facts.sm_count
    for warps in (1, 4, 8, 16, 32):
        resident = lab.residency("short_blocks", warps)
        for cycles in (2000, 20_000):
            for repetition in range(effort.repetitions):
                point = {"what": "replacement", "warps": warps, "cycles": cycles, "repetition": repetition}
                yield point, lab.watched(partial(_replaced, lab, 32 * warps, resident.shared, cycles))
    for grid in sorted({1, sms // 2, sms, sms + 1, 2 * sms - 1, 2 * sms, 2 * sms + 1, 4 * sms, 4 * sms + 1}):
        resident = lab.residency("blocks", 8)
        for repetition in range(effort.repetitions):
            point = {"what": "tail", "blocks": grid, "cycles": 10_000, "repetition": repetition}
            yield point, lab.watched(partial(_tail, lab, grid, resident.shared))


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


def measure_first_instructions(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure a kernel of one load and one store per thread, and an empty one, from event to event in a full queue."""
    for repetition in range(20 * effort.repetitions):
        for kernel in entry.kernels:
            values = lab.watched(partial(between_events, lab, kernel.name, lab.facts.sm_count, 256))
            yield {"kernel": kernel.name, "repetition": repetition}, values
    lab.forget()


def slope_of(by: dict[int, Reading]) -> tuple[float, float]:
    """Return the slope of a line through medians, and how far it is off at most."""
    keys, values = sorted(by), [by[key].median for key in sorted(by)]
    line = np.polyfit(keys, values, 1)
    return float(line[0]), float(np.abs(np.polyval(line, keys) - values).max())


def derive_replacement(samples: Samples) -> Iterator[Number]:
    """Derive the time from a block's last stamp to the next one's first, on an SM with one block slot."""
    found = samples.take("launch.blocks", lambda p, v: v["mean_gap_cycles"], "warps", what="replacement")
    yield from number("sm.block_replacement_cycles", found.get(1), "launch.blocks", "blocks of one warp, mean gap")
    if len(found) > 2:
        slope, off = slope_of(found)
        how = f"slope over {min(found)} to {max(found)} warps per block, off by at most {off:.0f} cycles"
        yield Number("sm.block_replacement_per_warp_cycles", digits(slope, 3), "launch.blocks", how)


def derive_tails(samples: Samples) -> Iterator[Number]:
    """Derive the cost of a last wave beyond its blocks' own time: one block, or one for each SM that holds one."""
    entry, clock = "launch.blocks", samples.head["reference_ghz"]
    taken = samples.take(entry, lambda p, v: v.get("grid_ns", v.get("span_ns")) * clock, "blocks", what="tail")
    sms = samples.head["facts"]["attributes"]["sm_count"]
    length = next((p["cycles"] for p, _ in samples.entries.get(entry, []) if p["what"] == "tail"), 0)
    for key, fewer, more, waves in (("tail_block", sms, sms + 1, 1), ("wave", sms, 4 * sms, 3)):
        if fewer in taken and more in taken:
            cycles = (taken[more].median - taken[fewer].median) / waves - length
            how = f"a grid of {more} blocks of {length} cycles, one to an SM, less {fewer}"
            how += f", over {waves} waves" if waves > 1 else ""
            yield Number(
                f"launch.{key}_cycles", digits(max(0.0, cycles), 3), entry, f"{how}, less these; {taken[more]}"
            )


def derive_launches(samples: Samples) -> Iterator[Number]:
    """Derive an empty kernel's duration, the time of two events, the latency there and back, the rate of blocks."""
    entry = "launch.empty"
    row = samples.one(entry, lambda p, v: v["seconds"] / p["launches"], what="queued")
    yield from number("launch.interval_seconds", row, entry, "from one to the next in a row that was queued before")
    sms = samples.head["facts"]["attributes"]["sm_count"]
    around = samples.one(entry, lambda p, v: v["seconds"], what="nothing")
    yield from number("launch.events_seconds", around, entry, "two events with nothing between them")
    marked = samples.one(entry, lambda p, v: v["seconds"], what="blocks", blocks=sms)
    yield from number(
        "launch.empty_between_events_seconds", marked, entry, f"{sms} blocks, queued, from event to event"
    )
    if marked:
        nothing = around.median if around else 0.0
        how = f"{sms} empty blocks, queued, from event to event, less two events with nothing between; {marked}"
        yield Number("launch.empty_kernel_seconds", digits(marked.median - nothing), entry, how)
    back = samples.one(entry, lambda p, v: v["seconds"], what="round trip")
    yield from number("launch.round_trip_seconds", back, entry, "from the call to the end, on the host, from Python")
    clock = samples.head["reference_ghz"] * 1e9
    times = samples.take(entry, lambda p, v: v["seconds"], "blocks", what="blocks", threads=128)
    if len(times) >= 3:
        few, many = sorted(times)[-2:]
        cycles = (times[many].median - times[few].median) / (many - few) * clock
        how = f"empty blocks of 128 threads, {many} less {few}, all SMs together"
        yield Number("launch.block_interval_cycles", digits(cycles, 3), entry, how)


def derive_first_instructions(samples: Samples) -> Iterator[Number]:
    """Derive the cost of a kernel's first instructions beyond their own time, with code and constants in no cache."""
    entry = "launch.first"
    taken = samples.take(entry, lambda p, v: v["seconds"], "kernel")
    l2 = next((n.value for n in derive_caches(samples) if n.key == "cache.l2_latency_cycles"), None)
    if "empty" not in taken or "little_copy" not in taken or not isinstance(l2, float):
        return
    copy, empty = (taken[name].median for name in ("little_copy", "empty"))
    cycles = l2 + _LITTLE_CYCLES
    seconds = copy - empty - cycles / (samples.head["reference_ghz"] * 1e9)
    how = (
        f"a block of 256 threads on each SM copies from L2, {1e6 * copy:.3f} us, less empty ones, {1e6 * empty:.3f} us,"
        f" less a load from L2 and the {_LITTLE_CYCLES} cycles of the other instructions; "
        f"medians of {len(taken['empty'].all)}"
    )
    yield Number("launch.cold_start_seconds", digits(max(0.0, seconds), 2), entry, how)
