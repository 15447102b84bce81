"""From launches, barriers and long code to what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from warplens.laboratory.control import NOP_CYCLES
from warplens.laboratory.derive_memory import ADDRESS_CYCLES, caches
from warplens.laboratory.numbers import Number, digits, number
from warplens.laboratory.samples import Reading, Samples, per_link

_INSTRUCTION_BYTES = 16
_LITTLE_CYCLES = 80  # of a copy's other instructions, by the stall counts in the machine code


def barriers(samples: Samples) -> Iterator[Number]:
    """From one barrier to the next: one warp, and what each further warp of the block adds."""
    by_warps = samples.take("control.barrier", per_link, "warps")
    yield from number("sm.barrier_cycles", by_warps.get(1), "control.barrier", "one warp, 2N barriers less N")
    if len(by_warps) > 2:
        slope, off = _slope(by_warps)
        how = f"slope over {min(by_warps)} to {max(by_warps)} warps per block, off by at most {off:.2f} cycles"
        yield Number("sm.barrier_per_warp_cycles", digits(slope, 3), "control.barrier", how)


def branches(samples: Samples) -> Iterator[Number]:
    """A branch that is not taken, beyond what it skips; what half a warp's going another way adds."""
    entry = "control.branch.uniform"
    flat = samples.take(entry, per_link, "a", "body", warps=1)
    multiply = samples.one("instruction.fmul", per_link, warps=1, stride=1)
    if (0, 8) in flat and multiply:
        cycles = flat[0, 8].median - 8 * multiply.median
        how = f"one warp, branch and 8 FMUL, less these; {flat[0, 8]}"
        yield Number("sm.branch_not_taken_cycles", digits(max(0.0, cycles), 3), entry, how)
    if (32, 8) in flat:
        how = f"one warp, branches that all lanes take, in whole cycles; {flat[32, 8]}"
        yield Number("sm.branch_taken_cycles", float(round(flat[32, 8].median)), entry, how)
    entry = "control.branch.region"
    with_it = samples.one(entry, per_link, warps=1)
    without = samples.one("control.branch.straight", per_link, warps=1)
    if with_it and without:
        cycles = with_it.median - without.median + NOP_CYCLES
        how = f"one warp, all lanes skip: less the same with a NOP in place of each BSYNC; {with_it}"
        yield Number("sm.reconverge_cycles", digits(cycles, 3), entry, how)
    alone = samples.one("control.fence", per_link, warps=1)
    yield from number("sm.fence_cycles", alone, "control.fence", "one warp, 2N fences less N", worth=3)
    entry = "control.branch.divergent"
    split = samples.take(entry, per_link, "a", warps=1)
    if 0 in split and 16 in split:
        how = f"one warp: half of the lanes skip 40 FMUL, less none does; {split[16]}"
        yield Number("sm.divergence_cycles", digits(max(0.0, split[16].median - split[0].median), 3), entry, how)


def _slope(by: dict[int, Reading]) -> tuple[float, float]:
    keys, values = sorted(by), [by[key].median for key in sorted(by)]
    line = np.polyfit(keys, values, 1)
    return float(line[0]), float(np.abs(np.polyval(line, keys) - values).max())


def replacement(samples: Samples) -> Iterator[Number]:
    """From a block's last stamp to the next one's first, on an SM with room for one."""
    found = samples.take("launch.blocks", lambda p, v: v["mean_gap_cycles"], "warps", what="replacement")
    yield from number("sm.block_replacement_cycles", found.get(1), "launch.blocks", "blocks of one warp, mean gap")
    if len(found) > 2:
        slope, off = _slope(found)
        how = f"slope over {min(found)} to {max(found)} warps per block, off by at most {off:.0f} cycles"
        yield Number("sm.block_replacement_per_warp_cycles", digits(slope, 3), "launch.blocks", how)


def tails(samples: Samples) -> Iterator[Number]:
    """What a last wave costs beyond its blocks' own time: one block, or one for each SM that has room for one."""
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


def launches(samples: Samples) -> Iterator[Number]:
    """An empty kernel's duration, what two events add to it, the way there and back, the rate of blocks."""
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


def code(samples: Samples) -> Iterator[Number]:
    """Loops of growing length: what the instruction caches hold, cycles per instruction beyond."""
    found = samples.take("control.code", lambda p, v: v["mean_warp_cycles"] / p["trips"] / p["links"], "links", warps=1)
    levels = plateaus([(n, found[n].median) for n in sorted(found)])
    if len(levels) != 3:
        return
    how = "FFMA in a loop, one warp: last length before the cycles per instruction rise"
    names = ("first", "second")
    for name, (last, _), (_, beyond), far in zip(names, levels, levels[1:], ("second", "memory"), strict=False):
        yield Number(f"instruction_cache.{name}_bytes", float(last * _INSTRUCTION_BYTES), "control.code", how)
        key = f"instruction_cache.{far}_interval_cycles"
        yield Number(key, digits(beyond, 3), "control.code", "cycles per instruction beyond")


def plateaus(points: list[tuple[int, float]], step: float = 1.1) -> list[tuple[int, float]]:
    """Split a rising curve into levels: for each the last size that is on it, and the value there.

    A level begins where two neighbours are within `step` of one another; sizes between two levels belong to none.
    """
    levels: list[tuple[int, float]] = []
    for (size, value), (larger, next_value) in pairwise(points):
        if next_value <= step * value:
            if levels and value <= step * levels[-1][1]:
                levels[-1] = (larger, levels[-1][1])
            else:
                levels.append((larger, value))
        elif levels and value <= step * levels[-1][1]:
            levels[-1] = (size, levels[-1][1])
    return levels


def constants(samples: Samples) -> Iterator[Number]:
    """A chain of indexed loads from constant memory over growing footprints."""
    entry = "control.constant"
    found = samples.take(entry, lambda p, v: v["mean_warp_cycles"] / p["loads"], "bytes")
    if len(found) < 4:
        return
    least, most = found[min(found)], found[max(found)]
    held = max(size for size, r in found.items() if r.median < (least.median + most.median) / 2)
    how = "last footprint whose latency is nearer to that of the least than to that of 64 KiB"
    yield Number("constant_cache.first_bytes", float(held), entry, how)
    for key, reading, size in (
        ("constant_cache.first_latency_cycles", least, min(found)),
        ("constant_cache.second_latency_cycles", most, max(found)),
        ("instructions.constant.latency_cycles", least, min(found)),
    ):
        how = f"LDC over {size} B, less {ADDRESS_CYCLES} for the address, in whole cycles; {reading}"
        yield Number(key, float(round(reading.median - ADDRESS_CYCLES)), entry, how)


def first_instructions(samples: Samples) -> Iterator[Number]:
    """What a kernel's first instructions cost beyond their own time: what they need is in no cache near by."""
    entry = "launch.first"
    taken = samples.take(entry, lambda p, v: v["seconds"], "kernel")
    l2 = next((n.value for n in caches(samples) if n.key == "cache.l2_latency_cycles"), None)
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


STEPS = (barriers, branches, replacement, tails, launches, code, constants, first_instructions)
