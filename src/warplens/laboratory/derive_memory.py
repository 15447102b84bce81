"""From chains, streams and traffic to the memory system: latencies, bandwidths, latency under load, limits, atomics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory.fits import loaded_latency
from warplens.laboratory.gpu_session import SCHEDULERS
from warplens.laboratory.numbers import Number, digits, number
from warplens.laboratory.samples import Reading, Samples

_LANES = 32
_COALESCED = 4  # transactions of a coalesced load: sectors of a line
ADDRESS_CYCLES = 6  # from the address's instruction to the load, by the stall counts in the machine code


def _chase(samples: Samples, entry: str) -> dict[int, Reading]:
    return samples.take(entry, lambda p, v: v["mean_warp_cycles"] / p["loads"], "bytes")


def caches(samples: Samples) -> Iterator[Number]:
    """Latency of the first level and of the L2 cache, near and far; how much each holds."""
    first = _chase(samples, "chase.l1")
    if first:
        least = min(first)
        yield from number("cache.l1_latency_cycles", first[least], "chase.l1", f"one chain over {least} B")
        yield reach("cache.l1_hit_bytes", first, 1.02, "chase.l1", least)
    second = _chase(samples, "chase.l2")
    if second:
        quarter = samples.head["facts"]["attributes"].get("l2_bytes", 4 * min(second)) // 4
        yield reach("cache.l2_hit_bytes", second, 1.10, "chase.l2", max(quarter, min(second)))
    yield from _near_and_far(samples)


def reach(key: str, by_size: dict[int, Reading], tolerance: float, entry: str, small: int) -> Number:
    """Return the largest footprint up to which the latency stays that of small ones, in the median."""
    own, held = float(np.median([r.median for size, r in by_size.items() if size <= small])), 0
    for size in sorted(by_size):
        if by_size[size].median > tolerance * own:
            break
        held = size
    how = f"largest footprint within {100 * (tolerance - 1):.0f} % of the latency of those up to {small} B"
    return Number(key, float(held), entry, how)


def _near_and_far(samples: Samples) -> Iterator[Number]:
    """Mean L2 latency over SMs and lines; and of two groups of them, which the measurements themselves form."""
    probed = samples.entries.get("probe.l2", [])
    if not probed:
        return
    means = [float(np.average(v["cycles"], weights=v["counts"])) for _, v in probed]
    reading = Reading(tuple(means))
    yield from number("cache.l2_latency_cycles", reading, "probe.l2", "mean over all SMs and 256 lines")
    matrix = np.array(next((v["matrix"] for _, v in probed if v["matrix"]), []), float)
    if not matrix.size:
        return
    rest = matrix - matrix.mean(0) - matrix.mean(1, keepdims=True) + matrix.mean()
    left, strength, right = np.linalg.svd(rest)
    many = 1 + (strength[0] > 2 * strength[1])
    how = (
        f"latency of each line from each SM, less both means: the first singular value {strength[0]:.0f}, the second "
        f"{strength[1]:.0f}: {'two halves that are far from one another' if many > 1 else 'no halves'}"
    )
    yield Number("cache.l2_partitions", float(many), "probe.l2", how)
    far = np.sign(np.outer(left[:, 0], right[0])) == np.sign((np.outer(left[:, 0], right[0]) * rest).sum())
    for name, group in (("near", ~far), ("far", far)):
        how = f"mean over the SMs and lines that are {name} to one another: by the sign of the first singular vectors"
        yield Number(f"cache.l2_{name}_latency_cycles", digits(float(matrix[group].mean())), "probe.l2", how)


def tlb(samples: Samples) -> Iterator[Number]:
    """How far one translation reaches and what a further one costs, with a page of 2 MiB for every load."""
    by_size = {size: r.median for size, r in _chase(samples, "chase.tlb_2m").items() if size >= 64 << 20}
    if len(by_size) < 4:
        return
    held, _ = max(pairwise(sorted(by_size)), key=lambda pair: by_size[pair[1]] - by_size[pair[0]])
    how = "2 MiB from load to load, lines in L2: last footprint before the largest rise of the latency"
    yield Number("tlb.reach_bytes", float(held), "chase.tlb_2m", how)
    low = float(np.median([cycles for size, cycles in by_size.items() if size <= held]))
    how = f"latency over {max(by_size) >> 30} GiB less the median from 64 MiB up to the reach"
    yield Number("tlb.miss_cycles", digits(by_size[max(by_size)] - low, 3), "chase.tlb_2m", how)


def _cycles(point: dict[str, Any], values: dict[str, Any]) -> float:
    return float(values["mean_cycles_per_count"])


LOWERED = ", in cycles of a clock that the GPU lowered for it"  # where nothing else was measured


def dram_latency(samples: Samples) -> Iterator[Number]:
    """Latency of a coalesced load and what every further transaction adds."""
    alone = samples.take("mix.load.a0", _cycles, "warps")
    if not alone:
        return
    # a quarter of the most warps is too little load to matter; where the chains lie matters more
    light = Reading(tuple(reading.median for warps, reading in alone.items() if 4 * warps <= max(alone)))
    if not light.all:  # the others were at another clock
        return
    how = f"median over occupancies up to a quarter, less {ADDRESS_CYCLES} for the address; {light}"
    coalesced = light.median - ADDRESS_CYCLES
    yield Number("instructions.load.latency_cycles", float(round(coalesced)), "mix.load.a0", how)
    spread = samples.take("chase.lines", lambda p, v: v["mean_warp_cycles"] / p["loads"], "lines", where="dram")
    # later repetitions may walk the same way again and find it in the L2 cache
    random = samples.one("stream.random", _cycles, warps=0, repetition=0)
    pairs = samples.take("chase.further", _further, "few", "many", "pairs")
    for (few, many, each), reading in pairs.items():
        how = (
            f"one warp alone on {many} lines in DRAM less on {few}, over {many} less a coalesced load's {_COALESCED}: "
        )
        how += f"mean of {len(reading.all)} samples, each of {each} SMs and sets of places, spread {reading.spread:.2%}"
        extra = float(np.mean(reading.all))
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "chase.further", how)
    if pairs:
        return
    if 4 in spread and 32 in spread:
        extra = (spread[32].median - spread[4].median) / 28
        how = f"one warp alone on 32 lines in DRAM less on 4: over 28; {spread[32]}"
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "chase.lines", how)
    elif random:
        extra = (random.median - ADDRESS_CYCLES - coalesced) / (_LANES - _COALESCED)
        how = "one warp alone, 32 sectors at random in 1 GiB, first repetition, less a coalesced load's 4: over 28"
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "stream.random", how)


def _further(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Return the cycles per transaction beyond those of a coalesced load, as Table 6.7 counts them."""
    return float((values["many_cycles"] - values["few_cycles"]) / (point["many"] - _COALESCED))


def load_table(samples: Samples) -> Iterator[Number]:
    """Throughput of loads against occupancy, one in flight per warp, as Zhang & Owens read it off."""
    entry, sms = "mix.load.a0", samples.head["facts"]["attributes"]["sm_count"]
    rates = samples.take(entry, lambda p, v: v["rate"] * _LANES / sms, "warps")
    if len(rates) > 2:
        how = "4-byte loads, one in flight per warp; medians, with the point (0, 0) in front"
        yield Number("throughput.load.warps_per_sm", [0.0, *map(float, sorted(rates))], entry, how)
        found = [0.0, *(digits(rates[n].median) for n in sorted(rates))]
        yield Number("throughput.load.ops_per_cycle_per_sm", found, entry, how)


def dram_bandwidth(samples: Samples) -> Iterator[Number]:
    """DRAM bandwidth of reads, writes and mixes; the best of reads is what is sustained."""
    best: tuple[float, str, Reading] | None = None
    for entry in samples.entries:
        if not entry.startswith("bandwidth.dram.r"):
            continue
        # the first repetition loads the kernel
        reading = Reading(
            tuple(
                p["bytes"] / (v["seconds_2n"] - v["seconds_n"])
                for p, v in samples.entries[entry]
                if p["repetition"] > 0 or len(samples.entries[entry]) == 1
            )
        )
        if not reading.all:
            continue
        _, _, mix, width, *once = entry.split(".")
        name = "_".join(["dram", {"r1w0": "read", "r0w1": "write"}.get(mix, mix), width[1:], *once])
        key = f"bandwidth.{name}.bytes_per_second"
        yield from number(key, reading, entry, "2N bytes less N, without the first repetition")
        if mix == "r1w0" and (best is None or reading.median > best[0]):
            best = reading.median, entry, reading
    copy = samples.one("bandwidth.dram.copy", lambda p, v: p["bytes"] / v["seconds"])
    yield from number("bandwidth.dram_driver_copy.bytes_per_second", copy, "bandwidth.dram.copy", "read and written")
    if best:
        how = "best of 4, 8 and 16 bytes per access, 2N bytes less N"
        yield from number("memory.sustained_bytes_per_second", best[2], best[1], how)


def cache_bandwidth(samples: Samples) -> Iterator[Number]:
    """Bandwidth of L1 and L2: loads by width and stride, stores; all SMs and one. Useful bytes count."""
    clock, sms = samples.head["reference_ghz"] * 1e9, samples.head["facts"]["attributes"]["sm_count"]

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        span = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        made = point["trips"] * point.get("accesses", 8) * point["warps"]
        return float(made * _LANES * point["width"] / span)

    for level in ("l1", "l2"):
        for entry in (f"bandwidth.{level}.width", f"bandwidth.{level}.stride", f"bandwidth.{level}.store"):
            by, hot = (
                samples.take(entry, rate, "width", "stride", "sms", "warps", off_clock=off) for off in (False, True)
            )
            for width, stride in sorted({key[:2] for key in (*by, *hot)}):
                name = f"bandwidth.{level}_{'store' if entry.endswith('store') else 'load'}_{width}"
                name += f"_stride_{stride}" if stride > 1 else ""
                for count, field in ((sms, "bytes_per_second"), (1, "one_sm_bytes_per_second")):
                    for taken, note in ((by, ""), (hot, LOWERED)):
                        found = {key[3]: r for key, r in taken.items() if key[:3] == (width, stride, count)}
                        if found:
                            warps, top = max(found.items(), key=lambda one: one[1].median)
                            how = f"{warps} warps per SM, 2T trips less T{note}"
                            yield from number(f"{name}.{field}", top, entry, how, clock * count)
                            break
    loads = samples.take("bandwidth.l2.width", rate, "width", "warps", sms=sms)
    if loads:
        (width, _), top = max(loads.items(), key=lambda one: one[1].median)
        how = f"best over widths: {width} bytes per thread"
        yield from number("cache.l2_bytes_per_second", top, "bandwidth.l2.width", how, clock * sms)


def contention(samples: Samples) -> Iterator[Number]:
    """Latency against throughput, a + b x / (c - x), for DRAM, L2 and L1 (§6.4)."""
    clock = samples.head["reference_ghz"] * 1e9
    found = [n.value for n in dram_bandwidth(samples) if n.key == "memory.sustained_bytes_per_second"]
    peak = next((value for value in found if isinstance(value, float)), 0.0)
    for section, where in (("contention", "dram"), ("contention_l2", "l2"), ("contention_l1", "l1")):
        curves = []
        for width in (4, 8, 16):
            entry = "mix.load.a0" if (where, width) == ("dram", 4) else f"stream.{where}.ilp1.b{width}"
            latency = samples.take(entry, _cycles, "warps")
            rate = samples.take(entry, lambda p, v: v["rate"] * _LANES * p["width"] * clock, "warps")
            curves.append([(rate[n].median, latency[n].median) for n in sorted(latency)])
        if not all(len(curve) > 3 for curve in curves):
            continue
        fit = loaded_latency(curves, peak if where == "dram" else 0.0)
        entry = f"mix.load.a0, stream.{where}.ilp1.b8 and .b16" if where == "dram" else f"stream.{where}.ilp1.*"
        how = (
            f"least squares over widths of 4, 8 and 16 bytes with one a each, one b and c; off by {fit.mean_off:.1f} "
            f"cycles in the mean, {fit.most_off:.0f} at most, of {fit.points} points"
        )
        less = f"that of 4 bytes less {ADDRESS_CYCLES} for the address; {how}"
        yield Number(f"{section}.a_cycles", digits(fit.a[0] - ADDRESS_CYCLES), entry, less)
        yield Number(f"{section}.b_cycles", digits(fit.b), entry, how)
        yield Number(f"{section}.c_bytes_per_second", digits(fit.c), entry, how)


def distribution(samples: Samples) -> Iterator[Number]:
    """Single latencies at seven loads (Table 6.6): percentiles over all repetitions' histograms."""
    entry = "distribution.dram"
    clock = samples.head["reference_ghz"] * 1e9
    loads = samples.take(entry, lambda p, v: v["rate"] * p["chains"] * _LANES * 4 * clock, "chains", "warps")
    for i, ((chains, warps), reading) in enumerate(sorted(loads.items(), key=lambda one: one[1].median)):
        key, at = f"latency_distribution.{i}", {"chains": chains, "warps": warps}
        how = f"{warps} warps per SM, {chains} load(s) in flight each"
        yield from number(f"{key}.throughput_bytes_per_second", reading, entry, how)
        names = ("min", "p5", "p25", "p50", "p75", "p95", "max")
        for n, name in enumerate(names):
            marks = samples.one(entry, lambda p, v, n=n: v["percentiles"][n], **at)  # type: ignore[misc]
            yield from number(f"{key}.{name}_cycles", marks, entry, how)
        yield from number(f"{key}.p99_cycles", samples.one(entry, _p99, **at), entry, f"{how}, bins of 8 cycles")


def _p99(point: dict[str, Any], values: dict[str, Any]) -> float:
    share = np.cumsum(values["histogram"]) / sum(values["histogram"])
    return float((np.searchsorted(share, 0.99) + 1) * values["bin_cycles"])


def departures(samples: Samples) -> Iterator[Number]:
    """Cycles between two loads, and two transactions of one, that leave an SM; loads that wait (Listing 3.2)."""
    entry, burst = "in_flight.dram", "in_flight.burst"

    def interval(point: dict[str, Any], values: dict[str, Any]) -> float:
        issued = values["issued"]
        return float((issued[-1] - issued[-16]) / 15 / point["warps"])

    for name, lines in (("coalesced", 1), ("uncoalesced", 32)):
        key, each = f"memory.departure_{name}_cycles", f", over {lines} lines" if lines > 1 else ""
        back = samples.take(burst, lambda p, v: v["mean_warp_cycles"], "count", lines=lines, warps=32)
        if 20 in back and 40 in back:
            cycles = (back[40].median - back[20].median) / (20 * 32 * lines)
            how = f"one SM, 32 warps, loads from L2 until all are back: 40 each less 20{each}; {back[40]}"
            yield Number(key, digits(cycles, 3), burst, how)
        else:
            found = samples.one(entry, interval, blocks=1, lines=lines, warps=16)
            how = f"one SM, 16 warps: cycles between the issues of its last loads{each}"
            yield from number(key, found, entry, how, 1 / lines, 3)
    waiting = samples.one(entry, _queued, blocks=1, lines=_LANES, warps=SCHEDULERS)
    if waiting and waiting.median > 0:
        how = (
            "one SM, a warp on each scheduler, 32 lines per load, so that few leave meanwhile: loads issued before "
            f"issue slows down, less those gone at a line per cycle; {waiting}"
        )
        yield Number("memory.queued_loads_per_sm", float(round(waiting.median)), entry, how)


def _queued(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Loads of an SM that wait when further ones begin to be held back; 0 where none is."""
    issued = np.array(values["issued"])
    gaps = np.diff(issued)
    held = int(np.argmax(gaps > 2 * gaps[:3].mean()))
    return float((held + 1) * point["warps"] - issued[held] / point["lines"]) if held else 0.0


STEPS = (
    caches, tlb, dram_latency, load_table, dram_bandwidth, cache_bandwidth, contention, distribution, departures,
)  # fmt: skip
