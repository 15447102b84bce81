"""Sectors and lines, and what a load keeps L1 busy for: derived from bandwidths by stride."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory.bandwidth import LOWERED
from warplens.laboratory.samples import Number, Reading, Samples, Take, digits, number
from warplens.laboratory.source import LANES, SECTOR_BYTES

_STEP = 1.5  # between as long and twice as long


def derive_sectors(samples: Samples) -> Iterator[Number]:
    """Derive sectors from DRAM where a stream takes one of every 32, 64, 128 or 256 bytes; one SM alone."""

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        touched = point["bytes"] / (4 * point["stride"]) * SECTOR_BYTES
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
    alone = samples.take(entry, lambda p, v: v["rate"] * p["chains"] * LANES * p["width"] * clock, "warps")
    if alone:
        warps, top = max(alone.items(), key=lambda one: one[1].median)
        how = f"one SM alone, {warps} warps of 4 loads in flight each"
        yield from number("bandwidth.dram_read_16.one_sm_bytes_per_second", top, entry, how)


def _granularity(samples: Samples, rate: Take) -> Iterator[Number]:
    """Derive the least that DRAM transfers: the largest distance of sectors at which all between them is fetched."""
    found = {4 * n: samples.one(f"bandwidth.dram.s{n}", rate) for n in (8, 16, 32, 64)}
    known = {pitch: reading.median for pitch, reading in found.items() if reading}
    if SECTOR_BYTES not in known or len(known) < 2:
        return
    spans = {pitch: sectors * pitch / SECTOR_BYTES for pitch, sectors in known.items()}
    largest = max(pitch for pitch, span in spans.items() if span <= 1.1 * known[SECTOR_BYTES])
    spread = ", ".join(f"{pitch} B {span / 1e12:.2f} TB/s" for pitch, span in spans.items())
    how = f"one sector of every so many bytes, bytes that are passed over counted: {spread}: the last that is no faster"
    yield Number("cache.dram_bytes", float(largest), "bandwidth.dram.s8 to s64", how)


def _interval(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Return an SM's cycles from one load to the next."""
    span = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
    return float(span / (point["trips"] * point.get("accesses", 8) * point["warps"]))


def derive_lines(samples: Samples) -> Iterator[Number]:
    """Derive sectors and lines, by loads that hit in L2, 4 bytes per lane, the distance of lanes doubled each time.

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
    how = "; ".join(f"{pitch} B from lane to lane {each:.1f} cycles" for pitch, each in cycles.items())
    if sector and line:
        yield Number(
            "cache.sector_bytes", float(sector), entry, f"{how}: the first that twice as far apart is no slower"
        )
        yield Number("cache.line_bytes", float(line), entry, f"{how}: the first beyond that is slower again")


def derive_first_level(samples: Samples) -> Iterator[Number]:
    """Derive for how long a load that hits in L1 keeps it busy: by lines, and by words in one bank."""
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
