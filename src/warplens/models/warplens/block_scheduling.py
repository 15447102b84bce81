"""Scheduling of unequal blocks onto block slots: each goes to the slot that is free first, the lowest of several.

Plain Python is the definition; Numba runs the same source, a hundred times as fast.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from warplens.core.native import Entry, refuse_without_numba


@lru_cache(64)
def handed_out(sampled: tuple[float, ...], count: int, sms: int, resident: int) -> tuple[float, float]:
    """Return when the last place is done, in mean blocks, and the work of the busiest SM over the mean."""
    work = np.random.default_rng(0).choice(sampled, count)
    work = work / work.mean()
    size = min(count, sms * resident)
    given: list[Any] = [work, np.zeros(size), np.arange(size), np.zeros(sms)]
    refuse_without_numba("how blocks that differ are handed out")
    _compiled(*given)
    _, free, _, per_sm = given
    return float(max(free)), float(max(per_sm)) / (count / sms)


def _hand_out(work: Any, free: Any, places: Any, per_sm: Any) -> None:
    """Give each block to the first place of a heap, which then is free so much later, and sinks to where it belongs."""
    size, sms = len(free), len(per_sm)
    for each in work:
        when, place = free[0] + each, places[0]
        per_sm[place % sms] += each
        at, below = 0, 1
        while below < size:
            beside = below + 1
            if beside < size and (
                free[beside] < free[below] or (free[beside] == free[below] and places[beside] < places[below])
            ):
                below = beside
            if when < free[below] or (when == free[below] and place < places[below]):
                break
            free[at], places[at] = free[below], places[below]
            at, below = below, 2 * below + 1
        free[at], places[at] = when, place


def _sources() -> tuple[Path, ...]:
    return (Path(__file__),)


_compiled = Entry(_hand_out, {"nogil": True, "error_model": "numpy", "_nrt": False}, _sources)
