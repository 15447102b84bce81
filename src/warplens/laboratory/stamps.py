"""Numbers from the warps' stamps: time by SM, mean warp, occupancy as it was, the clock (Volkov 2016 §5.5, §5.6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.core.errors import WarplensError
from warplens.laboratory.source import RECORD_WORDS

Array = np.ndarray[Any, Any]


def columns(records: Array) -> dict[str, Array]:
    """Return the stamps of the warps that ran, by name."""
    table = records.reshape(-1, RECORD_WORDS)
    table = table[table[:, 1] > 0]
    if not len(table):
        raise WarplensError("no warp left a stamp: the kernel did not run")
    names = ("start", "end", "start_ns", "end_ns", "sm", "count", "start_clock", "end_clock")
    return {name: table[:, i].astype(np.int64) for i, name in enumerate(names)}


def reduce(records: Array) -> dict[str, float]:
    """Reduce one launch to a few numbers.

    span_cycles: from the first start to the last end on an SM, where that is longest; mean_warp_cycles: mean of
    the warps' own times; rate: sum over the warps of count over cycles; warps: on an SM at once, least and most over
    the SMs that had any; ghz: cycles over nanoseconds, from readings of clock and timer side by side.
    """
    c = columns(records)
    order = np.argsort(c["sm"], kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(c["sm"][order]) != 0])
    starts = np.minimum.reduceat(c["start"][order], first)
    ends = np.maximum.reduceat(c["end"][order], first)
    own = c["end"] - c["start"]
    at_once = occupancy(c)
    clocked = c["start_ns"] > 0  # one warp of a block
    nanoseconds = float((c["end_ns"] - c["start_ns"])[clocked].sum())
    ticks = float((c["end_clock"] - c["start_clock"])[clocked].sum())
    first_ns = float(c["start_ns"][clocked].min()) if clocked.any() else 0.0
    rates = c["count"] / np.maximum(own, 1)
    counted = c["count"] > 0
    each = own[counted] / c["count"][counted]
    return {
        "span_cycles": float((ends - starts).max()),
        "mean_span_cycles": float((ends - starts).mean()),
        "mean_warp_cycles": float(own.mean()),
        "least_warp_cycles": float(own.min()),
        "most_warp_cycles": float(own.max()),
        "count": float(c["count"].sum()),
        "rate": float(rates.sum()),
        "mean_cycles_per_count": float(each.mean()) if counted.any() else 0.0,
        "slowest_over_fastest": float(rates.max() / max(float(rates.min()), 1e-12)),
        "span_ns": float(c["end_ns"].max()) - first_ns,
        "sms": float(len(first)),
        "warps_least": float(at_once.min()),
        "warps_most": float(at_once.max()),
        "ghz": ticks / nanoseconds if nanoseconds > 0 else 0.0,
    }


def possible(values: dict[str, Any]) -> bool:
    """Return whether twice as much took longer, in a sample that has both: else something else held up the first."""
    for key in ("seconds", "nanoseconds", "span_cycles", "mean_span_cycles"):
        once, twice = values.get(f"{key}_n"), values.get(f"{key}_2n")
        if once is not None and twice is not None and not np.all(np.asarray(twice) > np.asarray(once)):
            return False
    return True


def occupancy(c: dict[str, Array]) -> Array:
    """Return the most warps that were on each SM at once, by walking through starts and ends in order."""
    sm = np.r_[c["sm"], c["sm"]]
    time = np.r_[c["start"], c["end"]]
    change = np.r_[np.ones(len(c["sm"]), np.int64), -np.ones(len(c["sm"]), np.int64)]
    order = np.lexsort((change, time, sm))  # at the same moment ends come first
    running = np.cumsum(change[order])  # every SM's changes sum to zero, so that it begins anew at each SM
    first = np.flatnonzero(np.r_[True, np.diff(sm[order]) != 0])
    return np.asarray(np.maximum.reduceat(running, first))
