"""How the memory system is measured: chains under load, one chain alone, atomics, single latencies, requests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import GIB, KIB, MIB, Laboratory, Place, Unfit
from warplens.laboratory.plans import chosen, kept, repetitions, some_sm, timed

_BUDGET_CYCLES = 200_000  # of a stream: 100 us
_MULTIPLIER, _INCREMENT = 1664525, 1013904223  # a full cycle through any power of two
_APART = 0x9E3779B1  # entries between the beginnings of two random chains
_BINS = (32, 1024, 32768)  # words of an array, every lane at another
# How long atomics run: where few words are asked by all, long enough for so many trips of a warp, within limits.
_ATOMICS_CYCLES, _ATOMICS_TRIPS, _ATOMICS_LONGER = 400_000, 32, 40
# From one repetition to the next: which parts of L2 words fall into. An array begins with a page, as allocations do;
# one that begins anywhere else lies less evenly over the parts of L2.
ELSEWHERE_BYTES = 18 * MIB
_PLACES = 10  # repetitions for each that others have, of atomics that take little time
_SINGLES = ("samples", "mean_cycles", "percentiles", "bin_cycles", "histogram")  # of single latencies
_MORE = 4  # repetitions for each that others have: of short times, that vary
_PAIRS, _NODES = 22, 1024  # SMs of a sample of further lines, each at so many places


def stream_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Chains of loads over occupancies, from DRAM, from a part of the L2 cache, or from the first level.

    `dirty`: the array is written anew before each launch, so that the L2 cache is full of what must be written back.
    `one_sm`: one block of the whole device. `threads`: the most of a block.
    """
    kernel = entry.kernels[0]
    where, width, chains = entry.parameters["where"], kernel.facts["width"], kernel.facts["chains"]
    lab.zeros()
    for warps in chosen(entry, lab):
        try:
            threads = entry.parameters.get("threads", 0)
            place = lab.place(kernel.name, warps, limit=where != "l1", threads=threads)
            if where == "l1":
                lab.gpu.carve_out(lab.function(kernel.name), 0)
            section, most = _sections(lab, where, place, chains, width)
        except Unfit:
            continue
        blocks = 1 if entry.parameters.get("one_sm") else place.blocks_per_sm * lab.facts.sm_count
        given = {"size": _BUDGET_CYCLES, "trips": most // kernel.facts["unroll"], "a": section}
        for repetition in range(repetitions(entry, effort)):
            if entry.parameters.get("dirty"):
                lab.forget()
                _sections(lab, where, place, chains, width)
            elif where == "dram":
                lab.flush()
            made = lab.sample(kernel.name, blocks, place.threads, place.shared, **given)
            point = {"where": where, "warps": warps, **kernel.facts, "threads": place.threads, "repetition": repetition}
            yield point, timed(made)


def _sections(lab: Laboratory, where: str, place: Place, chains: int, width: int) -> tuple[int, int]:
    """Write the chain that a place needs; return the entries of a section and the most loads of a chain."""
    count = place.blocks_per_sm * lab.facts.sm_count * chains
    if where == "dram":
        entries = min(4 * GIB, lab.data_bytes - GIB) // width
        section = entries // count // place.threads * place.threads
        lab.fill(entries, place.threads, 0, width)
        return section, section // place.threads - 8
    total = lab.facts.attributes["l2_bytes"] // 4 if where == "l2" else 16 * KIB * lab.facts.sm_count
    section = max(1, total // width // count // place.threads) * place.threads
    if where == "l1" and section * width * chains * place.blocks_per_sm > 64 * KIB:
        raise Unfit("more than the first level holds")
    lab.fill(section * count, place.threads, section, width)
    lab.touch(section * count * width // 16 * 16, times=2)
    return section, 1 << 30


def random_sweep(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Every thread at another place: over footprints at full occupancy, over occupancies at one footprint (§6.7)."""
    kernel = entry.kernels[0]
    lab.zeros()
    width = kernel.facts["width"]
    sizes = [s for s in (MIB << k for k in range(0, 15, 3 if effort.quick else 1)) if s + GIB <= lab.data_bytes]
    most = lab.facts.warps_per_sm_max
    points = [(size, most) for size in sizes] + [(GIB, w) for w in chosen(entry, lab)]
    for size, warps in points:
        entries = min(size // width, 1 << 30)
        try:
            place = lab.place(kernel.name, warps)
        except Unfit:
            continue
        lab.fill(entries, _MULTIPLIER, _INCREMENT, width, random=True)
        if size <= lab.facts.attributes["l2_bytes"]:
            lab.touch(size, times=2)
        blocks = place.blocks_per_sm * lab.facts.sm_count
        given = {"size": _BUDGET_CYCLES, "trips": 1 << 30, "a": entries, "c": _APART}
        for repetition in range(effort.repetitions):
            if size > lab.facts.attributes["l2_bytes"]:
                lab.flush()
            made = lab.sample(kernel.name, blocks, place.threads, place.shared, **given)
            yield {"bytes": size, "warps": warps, **kernel.facts, "repetition": repetition}, timed(made)
    one = lab.place(kernel.name, 1)  # one warp of the whole device: the latency with nothing else going on
    lab.fill(GIB // width, _MULTIPLIER, _INCREMENT, width, random=True)
    for repetition in range(effort.repetitions):
        lab.flush()
        given = {"size": _BUDGET_CYCLES, "trips": 1 << 30, "a": GIB // width, "c": _APART}
        made = lab.sample(kernel.name, 1, 32, one.shared, **given)
        yield {"bytes": GIB, "warps": 0, **kernel.facts, "repetition": repetition}, timed(made)


def _chain(lab: Laboratory, offsets: np.ndarray[Any, Any], seed: int) -> int:
    """Link 8-byte addresses at these offsets of the data into one ring in random order; return the first offset."""
    order = np.random.default_rng(seed).permutation(offsets)
    pairs = np.stack([order, np.roll(order, -1)], axis=1).astype(np.uint64)
    lab.gpu.put(lab.out + 256, pairs)
    lab.launch("scatter", -(-len(order) // 256), 256, trips=len(order))
    lab.forget()
    return int(order[0])


def chase_sizes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """One chain in one warp over growing footprints: latency of each level, sizes of the caches, reach of the TLBs.

    At most `nodes` places are visited. Where the footprint has more, it is read as a whole first and the chain is a
    sample of it; where it has fewer, the chain is walked once before the clock starts.
    """
    kernel, stride = entry.kernels[0], entry.parameters["stride"]
    most: int = entry.parameters.get("nodes", 8192)
    place = lab.place(kernel.name, 1, limit=entry.parameters.get("limit", True))
    if not entry.parameters.get("limit", True):
        lab.gpu.carve_out(lab.function(kernel.name), 0)
    if shared := entry.parameters.get("shared_bytes", 0):
        lab.gpu.allow_shared(lab.function(kernel.name), shared)
        place = Place(place.blocks_per_sm, place.threads, shared)
    lab.zeros()
    for size in entry.parameters["quick_sizes" if effort.quick else "sizes"]:
        if size + GIB > lab.data_bytes:
            continue
        count = size // stride
        rng = np.random.default_rng(size)
        picked = np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
        offsets = picked * stride + (picked * 128 % 4096 if stride >= 4096 else 0)  # not all in one set of a cache
        for repetition in range(effort.repetitions):
            first = _chain(lab, offsets, repetition)
            if count > most and entry.parameters.get("touch", True):
                lab.touch(size // 16 * 16, times=2)
            loads = max(8, min(len(offsets) - 16 if count > most else 4096, 4096) // 8 * 8)
            given = {"size": first, "trips": loads // 8, "b": 0 if count > most else len(offsets)}
            sm = some_sm(lab, repetition) if entry.parameters.get("spread") else 0
            made = _alone(lab, kernel.name, place, sm, given)
            yield {"bytes": size, "stride": stride, "loads": loads, "sm": sm, "repetition": repetition}, kept(made)


def _alone(lab: Laboratory, name: str, place: Place, sm: int, given: dict[str, int]) -> dict[str, float]:
    """Run on one SM: a block goes to every SM, and those on others leave at once."""
    blocks = lab.facts.sm_count * place.blocks_per_sm
    return lab.steady(lambda: stamps.reduce(lab.stamped(name, blocks, 32, place.shared, a=sm, **given)))


def probes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Every SM times single loads that hit the L2 cache, line by line: how far each part of it is from each SM."""
    kernel, lines = entry.kernels[0], 256
    offsets = np.arange(lines) * (32 * KIB + 128)  # 8 MiB
    first = _chain(lab, offsets, 1)
    place = lab.place(kernel.name, 1)
    for repetition in range(effort.repetitions):
        given = {"size": first, "trips": lines, "a": 0xFFFFFFFF, "shared": place.shared}
        found = lab.watched(partial(_probed, lab, kernel.name, lines, given))
        yield {"lines": lines, "repetition": repetition}, found


def _probed(lab: Laboratory, name: str, lines: int, given: dict[str, int]) -> dict[str, Any]:
    sms = lab.facts.sm_count
    ids = stamps.columns(lab.stamped(name, sms, 32, **given))["sm"]
    taken = lab.results(sms * lines).reshape(sms, lines)
    values, counts = np.unique(taken, return_counts=True)
    return {
        "cycles": values.tolist(), "counts": counts.tolist(), "sm": ids.tolist(),
        "sm_means": np.round(taken.mean(axis=1), 2).tolist(),
        "line_means": np.round(taken.mean(axis=0), 2).tolist(), "matrix": taken[:, :48].tolist(),
    }  # fmt: skip


def atomics(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Atomic additions for a time and twice that: every thread its own word, a word per warp, one of all, some bins."""
    patterns = {"spread": (1024, 32, 1), "per warp": (1024, 32, 0), "per SM": (1024, 0, 0), "one": (0, 0, 0)}
    patterns |= {f"bins {bins}": (7919, 104729, _APART) for bins in _BINS}
    lab.zeros()
    for kernel in entry.kernels:
        for name, (a, b, c) in patterns.items():
            lab.fill(1 << 20, 0, 0, 4)
            words = int(name.removeprefix("bins ")) if name.startswith("bins") else 1 << 20
            for warps in (1, 4, 16, 32):
                place = lab.place(kernel.name, warps)
                blocks = place.blocks_per_sm * lab.facts.sm_count
                given = {"a": a, "b": b, "c": c, "trips": words - 1, "size": _ATOMICS_CYCLES}
                probe = stamps.reduce(lab.stamped(kernel.name, blocks, place.threads, place.shared, **given))
                trips = probe["count"] / (place.blocks_per_sm * place.threads / 32 * probe["sms"])
                size = int(_ATOMICS_CYCLES * min(_ATOMICS_LONGER, max(1.0, _ATOMICS_TRIPS / max(trips, 0.1))))
                point = {"kernel": kernel.name, "pattern": name, "warps": warps, "cycles": size, **kernel.facts}
                for repetition in range((_PLACES if size == _ATOMICS_CYCLES else 2) * effort.repetitions):
                    values: dict[str, float] = {}
                    given["offset"] = repetition * ELSEWHERE_BYTES
                    lab.fill(1 << 20, 0, 0, 4, offset=given["offset"])
                    for suffix, longer in (("_n", 1), ("_2n", 2)):
                        given["size"] = size * longer
                        made = lab.sample(kernel.name, blocks, place.threads, place.shared, **given)
                        values |= {**timed(made, suffix), f"count{suffix}": made["count"]}
                    yield {**point, "repetition": repetition}, values


def latency_distributions(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Single latencies of loads from DRAM at seven loads (§6.6): percentiles and histogram."""
    lab.zeros()
    full = lab.facts.warps_per_sm_max
    loads = [(1, 2), (1, full // 4), (1, full // 2), (1, full * 3 // 4), (1, full), (2, full * 3 // 4), (2, full)]
    for chains, warps in loads:
        kernel = entry.kernels[chains - 1]
        try:
            place = lab.place(kernel.name, warps)
        except Unfit:
            continue
        section, most = _sections(lab, "dram", place, chains, 4)
        blocks = place.blocks_per_sm * lab.facts.sm_count
        for repetition in range(effort.repetitions):
            given = {"size": 2 * _BUDGET_CYCLES, "trips": most, "a": section, "c": 0x7FC12345}
            found = lab.steady(partial(_one_by_one, lab, kernel.name, blocks, place, given))
            yield {"chains": chains, "warps": warps, "repetition": repetition}, {
                **timed(found), **{key: found[key] for key in _SINGLES}}  # fmt: skip


def _one_by_one(lab: Laboratory, name: str, blocks: int, place: Place, given: dict[str, int]) -> dict[str, Any]:
    lab.flush()
    made = stamps.reduce(lab.stamped(name, blocks, place.threads, place.shared, **given))
    taken = lab.results(blocks * 512)
    taken = taken[taken > 0]
    marks = np.percentile(taken, [0, 5, 25, 50, 75, 95, 100])
    counts = np.histogram(taken, np.arange(0, 8001, 8))[0]
    found = len(taken), float(taken.mean()), np.round(marks, 1).tolist(), 8, np.trim_zeros(counts, "b").tolist()
    return {**made, **dict(zip(_SINGLES, found, strict=True))}


def requests_in_flight(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """When each of many independent loads was issued, by warps and by lines that a load touches: limits and delays."""
    kernel, sms = entry.kernels[0], lab.facts.sm_count
    count = kernel.facts["count"]
    lab.zeros()
    for blocks in (1, sms):
        for lines, apart in ((1, 4), (4, 16), (8, 32), (32, 128)):
            for warps in (1, 2, 4, 8, 16):
                if (blocks * warps + 1) * 4 * MIB > lab.data_bytes - GIB:
                    continue
                for repetition in range(effort.repetitions):
                    made, taken = _issued(lab, kernel.name, blocks, warps, apart, count)
                    point = {
                        "blocks": blocks,
                        "sectors": {1: 4, 4: 16, 8: 32, 32: 32}[lines],
                        "lines": lines,
                        "warps": warps,
                    }
                    yield {**point, "repetition": repetition}, {
                        "issued": np.round(taken[:, :count].mean(axis=0), 1).tolist(),
                        "all_back": float(taken[:, count].mean()), **kept(made),
                    }  # fmt: skip


def _issued(
    lab: Laboratory, name: str, blocks: int, warps: int, apart: int, count: int
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Return the stamps of a launch at the reference clock, and when each load of each warp was issued."""

    def take() -> dict[str, Any]:
        lab.flush()
        made = stamps.reduce(lab.stamped(name, blocks, 32 * warps, a=apart, b=4 * MIB))
        return {**made, "taken": lab.results(blocks * warps * (count + 1)).reshape(-1, count + 1)}

    made = lab.watched(take)
    return made, made["taken"]


def bursts(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """So many loads at once from the L2 cache, by warps and lines per load, one SM: cycles between two that leave."""
    lab.zeros()
    for kernel in entry.kernels:
        for lines, apart in ((1, 4), (4, 16), (8, 32), (32, 128)):
            for warps in (1, 4, 16, 32):
                for repetition in range(_MORE * effort.repetitions):
                    given = {"a": apart, "b": 256 * KIB, "c": some_sm(lab, repetition)}
                    made = lab.watched(partial(_burst, lab, kernel.name, 32 * warps, given))
                    yield {"lines": lines, "warps": warps, **kernel.facts, "repetition": repetition}, kept(made)


def _burst(lab: Laboratory, name: str, threads: int, given: dict[str, int]) -> dict[str, float]:
    return stamps.reduce(lab.stamped(name, lab.facts.sm_count, threads, **given))


def line_counts(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """One warp's chain with its lanes on 1 to 32 lines: from the L2 cache, from DRAM (Table 6.7), from the first level.

    The nodes are 4 KiB each: 1024 of them lie in the L2 cache, or 4 MiB apart in DRAM; 32 in the first level.
    """
    beyond, first_level = entry.kernels
    for where, apart, nodes, kernel in (
        ("l2", 4 * KIB, 1024, beyond), ("dram", 4 * MIB, 1024, beyond), ("l1", 4 * KIB, 32, first_level),
    ):  # fmt: skip
        if nodes * apart + GIB > lab.data_bytes:
            continue
        place = lab.place(kernel.name, 1, limit=where != "l1")
        if where == "l1":
            lab.gpu.carve_out(lab.function(kernel.name), 0)
        begin = _nodes(lab, np.random.default_rng(1).permutation(nodes) * apart)
        loads, before = (nodes - 32, 0) if where != "l1" else (1024, nodes)
        for lines in (1, 2, 4, 8, 16, 32):
            given = {"size": begin, "trips": loads // 8, "c": lines, "b": before}
            for repetition in range(_MORE * effort.repetitions):
                sm = some_sm(lab, repetition)
                if where == "dram":
                    lab.flush()
                else:
                    _alone(lab, kernel.name, place, sm, given)
                made = _alone(lab, kernel.name, place, sm, given)
                yield {"where": where, "lines": lines, "loads": loads, "repetition": repetition}, kept(made)


def further_lines(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """As `line_counts` in DRAM, on one line and on many, at other places and on another SM each time: their mean.

    A single difference moves by a twelfth with the places, so that it takes many.
    """
    kernel = entry.kernels[0]
    place, rng = lab.place(kernel.name, 1), np.random.default_rng(1)
    few, many = entry.parameters["lines"]
    for repetition in range(_MORE * effort.repetitions):
        sms = [some_sm(lab, repetition * _PAIRS + n) for n in range(_PAIRS)]
        values = lab.watched(partial(_few_and_many, lab, kernel.name, place, rng, sms, (few, many)))
        yield {"few": few, "many": many, "pairs": _PAIRS, "repetition": repetition}, values


def _few_and_many(
    lab: Laboratory, name: str, place: Place, rng: np.random.Generator, sms: list[int], lines: tuple[int, int]
) -> dict[str, Any]:
    """Return a warp's cycles per load with its lanes on so many lines each, the mean over SMs."""
    room, taken = (min(4 * GIB, lab.data_bytes - GIB)) // (4 * KIB), []
    for sm in sms:
        nodes = rng.permutation(np.unique(rng.integers(0, room, _NODES + 32)))
        begin, loads = _nodes(lab, nodes * (4 * KIB)), (len(nodes) - 32) // 8 * 8
        for count in lines:
            lab.flush()
            blocks, given = lab.facts.sm_count * place.blocks_per_sm, {"size": begin, "trips": loads // 8, "c": count}
            made = stamps.reduce(lab.stamped(name, blocks, 32, place.shared, a=sm, **given))
            taken.append(made["mean_warp_cycles"] / loads)
    return dict(zip(("few_cycles", "many_cycles"), np.reshape(taken, (-1, 2)).mean(axis=0).round(3), strict=True))


def _nodes(lab: Laboratory, order: np.ndarray[Any, Any]) -> int:
    """Link nodes of 32 lines at these offsets, every line with the address of the next node; return the first one."""
    order = order.astype(np.uint64)
    begins = np.repeat(order, 32) + np.tile(np.arange(32, dtype=np.uint64) * 128, len(order))
    pairs = np.stack([begins, np.repeat(np.roll(order, -1), 32)], axis=1).astype(np.uint64)
    lab.gpu.put(lab.out + 256, pairs)
    lab.launch("scatter", -(-len(pairs) // 256), 256, trips=len(pairs))
    lab.forget()
    return int(order[0])
