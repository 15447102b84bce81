"""How waiting is measured: rows of instructions for one unit, barriers beside shared memory, strips, cold code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import SCHEDULERS, Laboratory, Place
from warplens.laboratory.plans import between_events, kept
from warplens.laboratory.source import Kernel
from warplens.laboratory.waits import COPY_AT, ROWS, WORDS

_QUEUE_TRIPS = 100
_MEETING_ACCESSES = 6400  # of a warp: long enough for a clock while the data path is busy
CONFLICT_WORDS = 32  # from lane to lane: all in one bank, so that an access takes 32 cycles
BLOCK_WARPS = 4  # of the blocks that meet: as many of them as fit, so that others always have something to ask for
TURNS = (2, 4, 8, 16, 32)  # of a strip
_COPIES = 20  # of each in a sample
SHIFTS = (1, 8)  # words from a line to where a row begins: in the middle of a sector, and at a whole one
_NEVER = 0x7FC12345  # a value that no result has


def queues(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """So many instructions of one unit in a row: cycles until the last is issued; a lone warp, one per scheduler."""
    lab.operands("f")
    for kernel in entry.kernels:
        for warps in (1, SCHEDULERS):
            place = lab.place(kernel.name, warps)
            for repetition in range(effort.repetitions):
                values = lab.steady(partial(_issuing, lab, kernel, place))
                yield {"warps": warps, **kernel.facts, "repetition": repetition}, values


def _issuing(lab: Laboratory, kernel: Kernel, place: Place) -> dict[str, float]:
    """Return the cycles until the last instruction of a row was issued: mean over warps, and the longest."""
    given = {"trips": _QUEUE_TRIPS, "a": CONFLICT_WORDS, "c": _NEVER}
    records = lab.stamped(kernel.name, lab.facts.sm_count, place.threads, place.shared, **given)
    made, each = stamps.reduce(records), stamps.columns(records)["count"] / _QUEUE_TRIPS
    return {"issuing": round(float(each.mean()), 3), "longest": round(float(each.max()), 3), **kept(made),
            "span_ns": made["span_ns"]}  # fmt: skip


def meetings(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Blocks of four warps, as many as fit, in turns of accesses to shared memory and a barrier: N and 2N turns."""
    warps = lab.facts.warps_per_sm_max
    for kernel in entry.kernels:
        place = lab.place(kernel.name, warps, threads=32 * BLOCK_WARPS)
        grid = place.blocks_per_sm * lab.facts.sm_count
        turns = _MEETING_ACCESSES // kernel.facts["accesses"]
        for repetition in range(effort.repetitions):
            values: dict[str, float] = {}
            for suffix, trips in (("_n", turns), ("_2n", 2 * turns)):
                made = lab.sample(kernel.name, grid, place.threads, place.shared, trips=trips, c=_NEVER)
                values |= {**kept(made, suffix), f"mean_span_cycles{suffix}": round(made["mean_span_cycles"], 2)}
            point = {"warps": warps, "blocks": place.blocks_per_sm, "turns": turns, **kernel.facts}
            yield {**point, "repetition": repetition}, values


def strips(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Strips of a table copied from top to bottom, half of it and all, by width, turns and where rows begin.

    The GPU may lower its clock for them, on some more than on others: they are watched by the clock that they hold.
    """
    if lab.data_bytes < 2 * COPY_AT:
        return
    for kernel in entry.kernels:
        for shift in SHIFTS:
            copied = partial(_copied, lab, kernel.name, kernel.facts, shift)
            with lab.at_own_clock(partial(lab.clocked, partial(copied, TURNS[0], 3))):
                for turns in TURNS:
                    for repetition in range(2 * effort.repetitions):
                        point = {"turns": turns, "shift": shift, **kernel.facts, "repetition": repetition}
                        yield point, lab.watched(partial(copied, turns))
    lab.forget()


def _copied(
    lab: Laboratory, name: str, facts: dict[str, int], shift: int, turns: int, copies: int = _COPIES
) -> dict[str, float]:
    """Return the seconds of half a table and of all of it: the mean of some turns, without the fastest and slowest."""
    blocks = WORDS // facts["words"] * (ROWS // (turns * facts["rows"]))
    given = {"size": WORDS + 2 * shift, "trips": turns, "a": shift}
    taken = np.sort([
        [between_events(lab, name, n, max(128, facts["words"]), **given)["seconds"] for n in (blocks // 2, blocks)]
        for _ in range(copies)
    ], axis=0)  # fmt: skip
    half, whole = taken[1:-1].mean(axis=0)
    return {"seconds_n": float(f"{half:.6g}"), "seconds_2n": float(f"{whole:.6g}")}


def cold_code(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Long code on all SMs, one warp each, just after it ran and after L2 was read full of something else."""
    lab.operands("f")
    for kernel in entry.kernels:
        for flushed in (False, True):
            for repetition in range(5 * effort.repetitions):
                values = lab.watched(partial(_run_through, lab, kernel.name, flushed))
                yield {"flushed": flushed, **kernel.facts, "repetition": repetition}, values


def _run_through(lab: Laboratory, name: str, flushed: bool) -> dict[str, float]:
    if flushed:
        lab.flush()
    else:
        lab.launch(name, lab.facts.sm_count, 32, c=_NEVER)
    return between_events(lab, name, lab.facts.sm_count, 32, c=_NEVER)
