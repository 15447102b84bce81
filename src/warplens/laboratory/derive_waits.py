"""From waiting to numbers: sources, places before units, barriers beside shared memory, split sectors, cold code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warplens.laboratory.gpu_session import SCHEDULERS
from warplens.laboratory.numbers import Number, digits
from warplens.laboratory.plans_waits import BLOCK_WARPS, CONFLICT_WORDS, SHIFTS
from warplens.laboratory.samples import Point, Samples, per_link
from warplens.laboratory.waits import AT_ONCE, ROWS, WORDS

_KINDS = {"mufu_rsq": "sfu", "lds": "shared", "shfl": "shuffle"}
_APART = 2  # cycles from one MUFU to the next: their stall count
_HELD = 8  # cycles of a warp per instruction of a row, from which on issue waits for the unit
_LANES, _WORD_BYTES, _INSTRUCTION_BYTES = 32, 4, 16
_SLOWER = 0.1  # of its own time, by which code that L2 has lost takes longer


def sources(samples: Samples) -> Iterator[Number]:
    """From issue until the sources have been read: from one to the next, which waits for that."""
    for name, kind in _KINDS.items():
        entry = f"wait.sources.{name}"
        taken = samples.one(entry, lambda p, v: per_link(p, v) / p["chains"], warps=1)
        if taken:
            how = f"one warp, each waits until the one before has read its sources, in whole cycles; {taken}"
            yield Number(f"instructions.{kind}.read_cycles", float(round(taken.median)), entry, how)


def places(samples: Samples) -> Iterator[Number]:
    """How far the issue of a row of instructions runs ahead of their unit: what waits before it."""
    entry = "wait.queue.sfu"
    issuing = samples.take(entry, lambda p, v: v["issuing"], "count", warps=1)
    if len(issuing) > 3 and 2 in issuing:
        *_, fewer, many = sorted(issuing)
        each = (issuing[many].median - issuing[fewer].median) / (many - fewer)
        # the first is taken at once, the second waits, the third is issued when the second was taken, and so on
        late = issuing[many].median - issuing[2].median + _APART - each * (many - 2)
        how = (
            f"one warp, {many} in a row: one per {each:.2f} cycles, each issued so long after the one before was taken"
        )
        yield Number("sm.sfu_place_cycles", float(round(late)), entry, f"{how}; {issuing[many]}")
    entry = "wait.queue.shared"
    longest = samples.take(entry, lambda p, v: v["longest"], "count", warps=SCHEDULERS)
    held = {n: SCHEDULERS * n - r.median / CONFLICT_WORDS for n, r in longest.items() if r.median > _HELD * n}
    if len(held) > 2:
        listed = ", ".join(f"{n}: {held[n]:.0f}" for n in sorted(held))
        how = (
            f"a warp on each scheduler reads {CONFLICT_WORDS} words of one bank, so many times in a row: issued in all "
            f"less those done, one per {CONFLICT_WORDS} cycles, when the last is issued: {listed}; a quarter of these"
        )
        yield Number(
            "sm.queued_per_scheduler", float(round(float(np.median([*held.values()])) / SCHEDULERS)), entry, how
        )


def meetings(samples: Samples) -> Iterator[Number]:
    """For how long the data path stands when a block meets: what a turn with a barrier takes longer than without."""
    entry = "wait.barrier"

    def cycles(point: Point, values: dict[str, Any]) -> float:
        longer: float = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        return float(longer / (point["turns"] * point["blocks"]))

    taken = samples.take(entry, cycles, "store", "accesses", "barrier")
    both = [at[:2] for at in taken if at[2] and (*at[:2], False) in taken]
    more = {
        store: [taken[*at, True].median - taken[*at, False].median for at in both if at[0] == store]
        for store in (False, True)
    }
    if all(more.values()):
        reads, stores = (", ".join(f"{one:.1f}" for one in more[store]) for store in (False, True))
        how = (
            f"blocks of {BLOCK_WARPS} warps, as many as fit: cycles of a turn of some reads and a barrier less those "
            f"without, {reads}, of some stores, {stores}: mean of reads and stores, in whole cycles"
        )
        mean = (np.mean(more[False]) + np.mean(more[True])) / 2
        yield Number("sm.barrier_data_path_cycles", float(round(mean)), entry, how)


def splits(samples: Samples) -> Iterator[Number]:
    """What a sector takes of DRAM that two stores fill, if it leaves L2 in between, and when half of them do.

    Neighbours drift apart with the root of the turns, each of which waits: between two stores to a sector the threads
    in flight store what all of them store in their lives over that root.
    """
    entry = "wait.strips"
    taken = samples.take(entry, _row_seconds, "words", "turns", "shift")
    shapes = sorted({at[:2] for at in taken if all((*at[:2], shift) in taken for shift in SHIFTS)})
    if len(shapes) < 10:
        return
    attributes = samples.head["facts"]["attributes"]
    in_flight = attributes["sm_count"] * attributes["threads_per_sm_max"]
    split, whole = SHIFTS
    words, turns = np.array(shapes, float).T
    own = np.minimum(1.0, _LANES / words)  # of the ends of a warp's words those that are a block's
    per_row = np.maximum(1.0, _LANES / words)
    more = np.array([taken[*at, split].median - taken[*at, whole].median for at in shapes]) / per_row
    between = _WORD_BYTES * in_flight * AT_ONCE * np.sqrt(turns)

    grid = np.geomspace(1e6, 1e8, 921)  # steps of half a percent
    gone = 1 / (1 + (grid[:, None] / between) ** 2)
    of_blocks, of_warps = own * gone, (1 - own) * gone
    # for each pair of the grid, least squares of the seconds: with left = of_blocks + of_warps, left.more / left.left
    both = np.add.outer(of_blocks @ more, of_warps @ more)
    squares = np.add.outer((of_blocks**2).sum(1), (of_warps**2).sum(1)) + 2 * of_blocks @ of_warps.T
    b, w = np.unravel_index(np.argmax(both**2 / squares), both.shape)
    blocks, warps, seconds = grid[b], grid[w], both[b, w] / squares[b, w]
    error = (more @ more - both[b, w] * seconds) / len(more)
    how = f"copies of {AT_ONCE} rows at once, one word off the sectors less at whole ones: least squares of three"
    how += f" numbers over {len(shapes)} widths and turns, {1e12 * np.sqrt(error):.1f} ps off (rms)"
    for key, value in (("sector_seconds", seconds), ("blocks_bytes", blocks), ("warps_bytes", warps)):
        yield Number(f"scattered.split_{key}", digits(float(value), 3), entry, how)


def _row_seconds(point: Point, values: dict[str, Any]) -> float:
    """Return the seconds that the copy of 32 words takes, of the second half of the table."""
    return float((values["seconds_2n"] - values["seconds_n"]) / (WORDS * ROWS / 2 / _LANES))


def cold_code(samples: Samples) -> Iterator[Number]:
    """Straight code after a flush of L2: how much of it is kept elsewhere, cycles per instruction beyond."""
    entry, clock = "wait.code", samples.head["reference_ghz"] * 1e9
    taken = samples.take(entry, lambda p, v: v["seconds"] * clock, "links", "flushed", chains=1)
    more = {n: taken[n, True].median - at.median for (n, flushed), at in taken.items() if not flushed}
    kept = [n for n, longer in more.items() if longer < _SLOWER * taken[n, False].median]
    beyond = sorted(n for n in more if kept and n > max(kept))
    if not beyond:
        return
    start = float(np.median([more[n] for n in kept]))  # arguments and first instructions
    each = (more[beyond[-1]] - start) / (beyond[-1] - max(kept))
    listed = ", ".join(f"{n}: {more[n]:.0f}" for n in sorted(more))
    how = f"dependent multiply-adds on all SMs, cycles more after a flush of L2, by their number: {listed}; "
    held = float(max(kept) * _INSTRUCTION_BYTES)
    yield Number("instruction_cache.kept_bytes", held, entry, f"{how}the last that take less than a tenth longer")
    how += f"{beyond[-1]} less those, per instruction"
    yield Number("instruction_cache.cold_interval_cycles", digits(each, 3), entry, how)


STEPS = (sources, places, meetings, splits, cold_code)
