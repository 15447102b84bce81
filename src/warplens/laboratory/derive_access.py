"""From scattered loads, atomics and local memory to what they cost: sectors, lines, banks, words that are shared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory.derive_memory import LOWERED
from warplens.laboratory.numbers import Number, digits, number
from warplens.laboratory.samples import Reading, Samples, Take

_LANES, _SECTOR_BYTES = 32, 32
_STEP = 1.5  # between as long and twice as long
_GOOD = 0.9  # of the places where words may lie: which parts of L2 they fall into decides; a peak is a good one's


def random_access(samples: Samples) -> Iterator[Number]:
    """Bytes of sectors per second where every lane of a load is somewhere else, by footprint."""
    clock, entry = samples.head["reference_ghz"] * 1e9, "stream.random"
    most = samples.head["facts"]["attributes"]["threads_per_sm_max"] // _LANES

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        return float(values["rate"] * point["chains"] * _LANES * _SECTOR_BYTES * clock)

    by_size = samples.take(entry, rate, "bytes", warps=most)
    if len(by_size) < 2:
        return
    sizes = sorted(by_size)
    worst = max(by_size[size].spread for size in sizes)
    how = (
        f"4-byte loads, every lane in another sector, {most} warps per SM; medians, spread at most {100 * worst:.2g} %"
    )
    yield Number("random_access.footprint_bytes", [float(size) for size in sizes], entry, how)
    found = [digits(by_size[size].median) for size in sizes]
    yield Number("random_access.sector_bytes_per_second", found, entry, how)


def sectors(samples: Samples) -> Iterator[Number]:
    """Sectors from DRAM where a stream takes one of every 32, 64, 128 or 256 bytes; one SM alone."""

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        touched = point["bytes"] / (4 * point["stride"]) * _SECTOR_BYTES
        return float(touched / (values["seconds_2n"] - values["seconds_n"]))

    for stride in (8, 16, 32, 64):
        entry = f"bandwidth.dram.s{stride}"
        found = [r for n, r in samples.take(entry, rate, "repetition").items() if n > 0]  # the first loads the kernel
        if found:
            reading = Reading(tuple(r.median for r in found))
            how = f"4-byte loads, {4 * stride} bytes from lane to lane; bytes of sectors; 2N bytes less N"
            yield from number(f"bandwidth.dram_sectors_{4 * stride}.bytes_per_second", reading, entry, how)
    yield from _granularity(samples, rate)
    clock, entry = samples.head["reference_ghz"] * 1e9, "stream.dram.one_sm"
    alone = samples.take(entry, lambda p, v: v["rate"] * p["chains"] * _LANES * p["width"] * clock, "warps")
    if alone:
        warps, top = max(alone.items(), key=lambda one: one[1].median)
        how = f"one SM alone, {warps} warps of 4 loads in flight each"
        yield from number("bandwidth.dram_read_16.one_sm_bytes_per_second", top, entry, how)


def _granularity(samples: Samples, rate: Take) -> Iterator[Number]:
    """What DRAM gives at least: the largest distance of sectors at which all that lies between them is fetched too."""
    found = {4 * n: samples.one(f"bandwidth.dram.s{n}", rate) for n in (8, 16, 32, 64)}
    known = {apart: reading.median for apart, reading in found.items() if reading}
    if _SECTOR_BYTES not in known or len(known) < 2:
        return
    spans = {apart: sectors * apart / _SECTOR_BYTES for apart, sectors in known.items()}
    held = max(apart for apart, span in spans.items() if span <= 1.1 * known[_SECTOR_BYTES])
    spread = ", ".join(f"{apart} B {span / 1e12:.2f} TB/s" for apart, span in spans.items())
    how = f"one sector of every so many bytes, bytes that are passed over counted: {spread}: the last that is no faster"
    yield Number("cache.dram_bytes", float(held), "bandwidth.dram.s8 to s64", how)


def _interval(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Return an SM's cycles from one load to the next."""
    span = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
    return float(span / (point["trips"] * point.get("accesses", 8) * point["warps"]))


def lines(samples: Samples) -> Iterator[Number]:
    """Sectors and lines, by loads that hit in L2, 4 bytes per lane, with twice the distance between lanes each time.

    A load takes twice as long while that makes twice the sectors of it, no longer while it has a sector for each lane
    and several of them in a line, and longer again when every lane has a line of its own.
    """
    entry, sms = "bandwidth.l2.stride", samples.head["facts"]["attributes"]["sm_count"]
    taken = {s: samples.take(entry, _interval, "warps", sms=sms, stride=s) for s in (2, 4, 8, 16, 32)}
    cycles = {4 * s: min(r.median for r in found.values()) for s, found in taken.items() if found}
    if len(cycles) < len(taken):
        return
    steps = list(pairwise(cycles))
    sector = next((at for at, next_at in steps if cycles[next_at] < _STEP * cycles[at]), 0)
    line = next((to for at, to in steps if at >= sector and cycles[to] > _STEP * cycles[at]), 0)
    how = "; ".join(f"{apart} B from lane to lane {each:.1f} cycles" for apart, each in cycles.items())
    if sector and line:
        yield Number(
            "cache.sector_bytes", float(sector), entry, f"{how}: the first that twice as far apart is no slower"
        )
        yield Number("cache.line_bytes", float(line), entry, f"{how}: the first beyond that is slower again")


def first_level(samples: Samples) -> Iterator[Number]:
    """What a load that hits in the first level keeps it busy for: by lines, and by words in one bank."""
    sms, entry = samples.head["facts"]["attributes"]["sm_count"], "bandwidth.l1.stride"

    def cycles_of(entry: str, **only: Any) -> tuple[dict[int, Reading], str]:
        """Return readings by warps; what the first level does in a cycle does not depend on the clock."""
        found = samples.take(entry, _interval, "warps", sms=sms, **only)
        hot = samples.take(entry, _interval, "warps", sms=sms, off_clock=True, **only)
        return (found, "") if found else (hot, LOWERED)

    plain, note = cycles_of("bandwidth.l1.width", width=4)
    if plain:
        warps, least = min(plain.items(), key=lambda one: one[1].median)
        how = f"4 bytes per lane, one line, {warps} warps per SM, 2T trips less T{note}"
        yield from number("cache.l1_request_interval_cycles", least, "bandwidth.l1.width", how, worth=3)
    by_stride = {
        stride: min(readings, key=lambda r: r.median)
        for stride in (2, 3, 4, 5, 8, 9, 16, 17, 32, 33)
        if (readings := list(cycles_of(entry, stride=stride)[0].values()))
    }
    for key, strides, what in (
        ("cache.l1_line_interval_cycles", (5, 9, 17, 33), "words in different banks"),
        ("cache.l1_conflict_interval_cycles", (2, 4, 8, 16, 32), "words as many to a bank"),
    ):
        if all(stride in by_stride for stride in strides):
            cycles = [by_stride[stride].median for stride in strides]
            slope, start = np.polyfit(strides, cycles, 1)
            off = float(np.abs(np.polyval((slope, start), strides) - cycles).max())
            how = (
                f"loads that hit in {strides[0]} to {strides[-1]} lines, {what}: slope, off by at most {off:.2f} cycles"
            )
            yield Number(key, digits(float(slope), 3), entry, how)
    entry = "chase.lines"
    alone = samples.take(entry, lambda p, v: v["mean_warp_cycles"] / p["loads"], "lines", where="l1")
    if 1 in alone and 16 in alone:  # of 8 bytes per lane half a warp is done at a time
        how = f"one warp alone, 8 bytes per lane, twice 16 lines less twice 1: over 30; {alone[16]}"
        more = (alone[16].median - alone[1].median) / 30
        yield Number("cache.l1_extra_line_cycles", digits(more, 3), entry, how)


def atomics(samples: Samples) -> Iterator[Number]:
    """Atomic additions to global memory by pattern, with a result and without.

    All warps are at work while they count: the last ones to end would have the memory for themselves. What is
    on its way in the queues is the same after twice the time.
    """
    entry = "atomic.global"
    if not all("cycles" in point for point, _ in samples.entries.get(entry, [])):
        return  # a journal of before, when they made a number of trips

    def each(point: dict[str, Any], values: dict[str, Any]) -> float:
        return float(values["mean_cycles_per_count_2n"] / point["links"])

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        more = (values["count_2n"] - values["count_n"]) / values["sms_n"]
        return float(more * point["links"] * _LANES / point["cycles"])

    short = {"spread": "spread", "per warp": "per_warp", "per SM": "per_sm", "one": "same"}
    short |= {f"bins {n}": f"bins_{n}" for n in (32, 1024, 32768)}
    for kernel, name in (("atom_add", "global"), ("red_add", "global_reduce")):
        for pattern, ending in short.items():
            key, at = f"atomics.{name}_{ending}", dict[str, Any](kernel=kernel, pattern=pattern)
            if kernel == "atom_add":
                alone = samples.one(entry, each, warps=1, **at)
                yield from number(f"{key}.latency_cycles", alone, entry, f"{pattern}, one warp on every SM")
            rates = samples.take(entry, rate, "warps", **at)
            tops = {warps: float(np.quantile(reading.all, _GOOD)) for warps, reading in rates.items()}
            if tops:
                warps = max(tops, key=lambda n: tops[n])
                how = f"{pattern}, all SMs, {warps} warps each, what one place in ten exceeds; {rates[warps]}"
                yield Number(f"{key}.peak_ops_per_cycle_per_sm", digits(tops[warps], 3), entry, how)


STEPS = (random_access, sectors, lines, first_level, atomics)
