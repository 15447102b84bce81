"""From waiting to numbers: sources, places before units, barriers beside shared memory, split sectors, cold code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warplens.measure.numbers import Number, digits
from warplens.measure.plans_waits import BLOCK_WARPS, SHIFTS
from warplens.measure.samples import Point, Reading, Samples, per_link
from warplens.measure.waits import AT_ONCE, ROWS, WORDS

_KINDS = {"mufu_rsq": "sfu", "lds": "shared", "shfl": "shuffle"}
_LANES, _WORD_BYTES, _INSTRUCTION_BYTES = 32, 4, 16
_SLOWER = 0.05  # of its own time, by which code that L2 has lost takes longer


def sources(samples: Samples) -> Iterator[Number]:
    """From issue until the sources have been read: from one to the next that waits for it."""
    for name, kind in _KINDS.items():
        entry = f"wait.sources.{name}"
        taken = samples.one(entry, lambda p, v: per_link(p, v) / p["chains"], warps=1)
        if taken:
            how = f"one warp, each waits until the one before has read its sources, in whole cycles; {taken}"
            yield Number(f"instructions.{kind}.read_cycles", float(round(taken.median)), entry, how)


def places(samples: Samples) -> Iterator[Number]:
    """How far the issue of a row of instructions runs ahead of their unit: what waits before it."""
    for entry, key in (("wait.queue.sfu", "sfu_place_cycles"), ("wait.queue.shared", "queued_per_scheduler")):
        issuing = samples.take(entry, lambda p, v: v["issuing"], "count", warps=1)
        if len(issuing) < 4:
            continue
        *_, fewer, many = sorted(issuing)
        each = (issuing[many].median - issuing[fewer].median) / (many - fewer)
        ahead = each * (many - 1) - (issuing[many].median - issuing[min(issuing)].median)
        how = f"one warp, {many} in a row: one per {each:.2f} cycles, issued {ahead:.1f} cycles ahead of that"
        value = float(round(ahead / each))
        if key == "sfu_place_cycles":
            value, how = float(round(each - ahead)), f"{how}: one place, free again so much later than at once"
        yield Number(f"sm.{key}", value, entry, f"{how}; {issuing[many]}")


def meetings(samples: Samples) -> Iterator[Number]:
    """For how long the data path stands when a block meets: what a turn with a barrier takes longer than without."""
    entry = "wait.barrier"

    def cycles(point: Point, values: dict[str, Any]) -> float:
        longer: float = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        return longer / (point["turns"] * point["blocks"])

    taken = samples.take(entry, cycles, "store", "accesses", "barrier")
    more = {
        store: [taken[at].median - taken[*at[:2], False].median for at in taken if at[0] == store and at[2]]
        for store in (False, True)
    }
    if all(more.values()):
        reads, stores = (", ".join(f"{one:.1f}" for one in more[store]) for store in (False, True))
        how = (
            f"blocks of {BLOCK_WARPS} warps, as many as fit: cycles of a turn of 4, 8, 16 reads and a barrier less "
            f"those without, {reads}, of as many stores, {stores}: mean of reads and stores, in whole cycles"
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

    def fit(blocks: float, warps: float) -> tuple[float, float]:
        """Return the squared error, and the seconds."""
        left = own / (1 + (blocks / between) ** 2) + (1 - own) / (1 + (warps / between) ** 2)
        seconds = float(left @ more / (left @ left))
        return float(((seconds * left - more) ** 2).mean()), seconds

    grid = np.geomspace(1e6, 1e8, 231)  # steps of 2 %
    _, blocks, warps = min((fit(b, w)[0], b, w) for b in grid for w in grid)
    error, seconds = fit(blocks, warps)
    how = f"copies of {AT_ONCE} rows at once, one word off the sectors less at whole ones: least squares of three"
    how += f" numbers over {len(shapes)} widths and turns, {1e12 * np.sqrt(error):.1f} ps off (rms)"
    for key, value in (("sector_seconds", seconds), ("blocks_bytes", blocks), ("warps_bytes", warps)):
        yield Number(f"scattered.split_{key}", digits(value, 2), entry, how)


def _row_seconds(point: Point, values: dict[str, Any]) -> float:
    """Return the seconds that the copy of 32 words takes, of the second half of the table."""
    return float((values["seconds_2n"] - values["seconds_n"]) / (WORDS * ROWS / 2 / _LANES))


def cold_code(samples: Samples) -> Iterator[Number]:
    """Straight code after a flush of L2: how much of it is kept elsewhere, cycles per instruction beyond."""
    entry, clock = "wait.code", samples.head["reference_ghz"] * 1e9
    taken = samples.take(entry, lambda p, v: v["seconds"] * clock, "links", "flushed", chains=1)
    more = {n: taken[n, True].median - at.median for (n, flushed), at in taken.items() if not flushed}
    kept = max((n for n, longer in more.items() if longer < _SLOWER * taken[n, False].median), default=0)
    beyond = sorted(n for n in more if n > kept)
    if not kept or len(beyond) < 2:
        return
    each = np.polyfit(beyond, [more[n] for n in beyond], 1)[0]
    start = beyond[-1] - more[beyond[-1]] / each
    listed = ", ".join(f"{n}: {more[n]:.0f}" for n in sorted(more))
    how = f"dependent multiply-adds on all SMs, cycles more after a flush of L2, by their number: {listed}"
    yield Number("instruction_cache.kept_bytes", digits(start * _INSTRUCTION_BYTES, 2), entry, f"{how}; where that begins")
    yield Number("instruction_cache.cold_interval_cycles", digits(float(each), 3), entry, f"{how}; slope")


STEPS = (sources, places, meetings, splits, cold_code)
