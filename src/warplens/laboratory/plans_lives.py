"""How many warps at once are measured: the lives of short blocks, reads among writes, long code, pairs of SMs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import MIB, Laboratory, Unfit
from warplens.laboratory.lives import KEPT_SMS, TURNS
from warplens.laboratory.plans import kept

_ARRAY_BYTES = 512 * MIB  # from array to array
_WARPS = 3 << 17  # in all, 128 bytes each: 48 MiB
_TURNS = 128  # and twice as many
_TOGETHER_CYCLES = 400_000
_NEVER = 0x7FC12345  # a value that no result has
_CLOCK = 1 << 32
_APART = 0.3  # of a pass, from warp to warp
PARTS = (1, 2, 4, 8, 16)  # of the warps of a block: as many wait alike


def block_lives(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Short blocks, many times as many as fit: what loads take, the longest of a block, how long its place is empty."""
    if lab.data_bytes < 4 * _ARRAY_BYTES:
        return
    for kernel in entry.kernels:
        for warps in entry.parameters["block_warps"]:
            for repetition in range(effort.repetitions):
                values = lab.watched(partial(_lives, lab, kernel.name, warps))
                yield {"block_warps": warps, **kernel.facts, "repetition": repetition}, values
    lab.forget()


def _lives(lab: Laboratory, name: str, warps: int) -> dict[str, float]:
    lab.flush()
    records = lab.stamped(name, _WARPS // warps, 32 * warps, size=_ARRAY_BYTES)
    return lives(records.reshape(-1, warps, 8).astype(np.int64))


def lives(table: np.ndarray[Any, Any]) -> dict[str, float]:
    """Reduce the records of `life`, by block and warp: in cycles, of the blocks in the middle of the run.

    latency: of a warp's loads; longest: of those of a block; drawn_P: what it would be if a P-th of its warps waited
    each for itself; block: from a block's first start until its last loads have come, on the SMs that keep clocks;
    period: from one start to the next in the same place, on those that do not.
    """
    table = table[len(table) // 8 : len(table) * 7 // 8]
    table = table[table[:, 0, 1] > 0]
    whole = table[table[:, 0, 4] < KEPT_SMS]
    start, asked, came = whole[:, :, 0], whole[:, :, 2], whole[:, :, 3]
    latency = (came - asked) % _CLOCK  # of clocks of 32 bits
    ordered = np.sort(latency, axis=None)
    rank = np.arange(len(ordered) + 1) / len(ordered)
    warps = table.shape[1]
    drawn = {
        f"drawn_{part}": float((np.diff(rank ** (warps / part)) * ordered).sum()) for part in PARTS if part <= warps
    }
    first = whole[:, :1, 0]  # any warp's start: from there forward and back
    block = ((came - first) % _CLOCK).max(axis=1) - _signed(start - first).min(axis=1)
    found = {"latency": latency.mean(), "longest": latency.max(axis=1).mean(), **drawn, "block": block.mean()}
    found |= {"period": _period(table[table[:, 0, 4] >= KEPT_SMS])}
    return {"warps_seen": float(latency.size), **{key: round(float(value), 2) for key, value in found.items()}}


def _signed(cycles: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return differences of clocks of 32 bits, forward or back."""
    return (cycles + _CLOCK // 2) % _CLOCK - _CLOCK // 2


def _period(table: np.ndarray[Any, Any]) -> float:
    """Return the mean time from one start to the next in the same place of an SM."""
    start, slot = table[:, :, 0].ravel(), (table[:, :, 4] * 64 + table[:, :, 5]).ravel()
    if not len(start):
        return 0.0
    order = np.lexsort((_signed(start - start[0]), slot))
    same = np.diff(slot[order]) == 0
    return float(_signed(np.diff(start[order]))[same].mean()) if same.any() else 0.0


def turns(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Loads of all warps turn by turn, some of them followed by a store, N and 2N turns, by blocks per SM."""
    for kernel in entry.kernels:
        for blocks in entry.parameters["blocks"]:
            try:
                place = lab.place(kernel.name, 8 * blocks, threads=256)
            except Unfit:
                continue
            grid = place.blocks_per_sm * lab.facts.sm_count
            if lab.data_bytes < 2 * _ARRAY_BYTES or 2 * _TURNS * grid * 1024 > _ARRAY_BYTES:
                continue
            for repetition in range(effort.repetitions):
                values: dict[str, float] = {}
                for suffix, trips in (("_n", _TURNS // TURNS), ("_2n", 2 * _TURNS // TURNS)):
                    lab.flush()
                    made = lab.sample(kernel.name, grid, 256, place.shared, trips=trips, size=_ARRAY_BYTES)
                    values |= {**kept(made, suffix), f"mean_span_cycles{suffix}": round(made["mean_span_cycles"], 2),
                               f"waited_cycles{suffix}": made["count"]}  # fmt: skip
                point = {"warps": 8 * blocks, "blocks": grid, "turns": _TURNS, **kernel.facts}
                yield {**point, "repetition": repetition}, values
    lab.forget()


def fetches(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Warps of each SM a third of a pass apart in code that outgrows the first instruction cache."""
    lab.operands("f")
    for kernel in entry.kernels:
        later = 0
        for warps in (1, 2, 4):
            place = lab.place(kernel.name, warps)
            given: dict[str, Any] = {"a": later if warps > 1 else 0, "c": _NEVER}
            launched = (kernel.name, lab.facts.sm_count, place.threads, place.shared)
            alone = stamps.reduce(lab.stamped(*launched, **given))  # fills the caches
            if warps == 1:
                later = int(_APART * alone["mean_warp_cycles"] / kernel.facts["passes"])
            for repetition in range(effort.repetitions):
                made = kept(lab.sample(*launched, **given))
                yield {"fetching": warps, "apart": given["a"], **kernel.facts, "repetition": repetition}, made


def read_together(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """All SMs read from L2 what each has for itself, what every other pair has together, what all pairs have."""
    kernel, sms = entry.kernels[0], lab.facts.sm_count
    lab.touch(4 * sms * kernel.facts["bytes"])
    place = lab.place(kernel.name, 16)
    for pairs in (0, 1, 2):
        for repetition in range(2 * effort.repetitions):
            take = partial(_by_pairs, lab, kernel.name, place.shared, pairs)
            yield {"pairs": pairs, **kernel.facts, "repetition": repetition}, lab.steady(take)


def _by_pairs(lab: Laboratory, name: str, shared: int, pairs: int) -> dict[str, float]:
    records = lab.stamped(name, lab.facts.sm_count, 512, shared, size=_TOGETHER_CYCLES, a=pairs, c=_NEVER)
    made, c = stamps.reduce(records), stamps.columns(records)
    rate = c["count"] / np.maximum(c["end"] - c["start"], 1)  # trips per cycle
    first = c["sm"] // 2 % 2 == 0
    return {
        "even_pairs": round(float(rate[first].mean()), 9), "odd_pairs": round(float(rate[~first].mean()), 9),
        "share": round(float(first.mean()), 6), "span_ns": made["span_ns"], "ghz": made["ghz"],
    }  # fmt: skip
