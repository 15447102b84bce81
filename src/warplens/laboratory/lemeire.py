"""Lemeire's two latencies of an operation from the boat-hull curve (Lemeire 2017 §III-B): issue and completion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warplens.laboratory.instructions import best, curve, latency
from warplens.laboratory.samples import Number, Point, Samples, digits, per_link

_CHAINS = {"fadd": "fadd", "fmadd": "ffma_1", "sfu": "mufu_rsq", "local_memory": "lds"}


def derive_operations(samples: Samples) -> Iterator[Number]:
    """Derive arithmetic, special function, shared memory: completion of a lone warp, issue at the peak, error between.

    An instruction of each of W warps takes max(completion, W issue) cycles; the error is that of this over occupancies.
    """
    for name, operation in _CHAINS.items():
        entry = f"instruction.{operation}"
        alone, top, found = latency(samples, entry), best(samples, entry), curve(samples, entry)
        if not alone or not top:
            continue
        issue, completion = 1 / top[2].median, alone.median
        measured = np.array([n / reading.median for n, reading in found.items()])
        predicted = np.maximum(completion, np.array(list(found)) * issue)
        yield from _pair(name, issue, completion, entry, 100 * (predicted / measured - 1))


def derive_memory(samples: Samples) -> Iterator[Number]:
    """Derive global memory: completion with little load, issue at the best rate of 4-byte loads."""
    entry = "mix.load.a0"
    sms = samples.head["facts"]["attributes"]["sm_count"]
    alone = samples.take(entry, lambda p, v: v["mean_cycles_per_count"], "warps")
    rates = [
        reading.median
        for name in (entry, *(f"stream.dram.ilp{n}.b4" for n in (2, 4, 8)))
        for reading in samples.take(name, lambda p, v: v["rate"] * p["chains"] / sms, "warps").values()
    ]
    if alone and rates:
        issue, completion = 1 / max(rates), min(reading.median for reading in alone.values())
        measured = np.array([reading.median for reading in alone.values()])
        predicted = np.maximum(completion, np.array(list(alone)) * issue)
        yield from _pair("memory", issue, completion, entry, 100 * (predicted / measured - 1))


def derive_control(samples: Samples) -> Iterator[Number]:
    """Derive barriers and loops: completion of a lone warp, issue from what further warps add."""
    found = samples.take("control.barrier", per_link, "warps")
    if 1 in found and len(found) > 2:
        slope = float(np.polyfit(list(found), [r.median for r in found.values()], 1)[0])
        yield from _pair("barrier", slope, found[1].median, "control.barrier", None)
    entry = "control.loop"
    trips, hot = samples.take(entry, _around, "warps"), samples.take(entry, _around, "warps", off_clock=True)
    if 1 in trips and (32 in trips or 32 in hot):
        issue, note = (trips[32], "") if 32 in trips else (hot[32], ", at a clock that the GPU lowered for it")
        yield from _pair("loop", issue.median / 32, trips[1].median, entry, None, note)


def _around(point: Point, values: dict[str, Any]) -> float:
    """Return the cycles of a trip beyond those of its links."""
    return float(values["mean_warp_cycles_n"] / point["trips"] - point["links"] * per_link(point, values))


def _pair(
    name: str, issue: float, completion: float, entry: str, errors: np.ndarray | None, note: str = ""
) -> Iterator[Number]:
    key, how = f"lemeire.{name}", f"cycles of an SM between two, where that is least{note}"
    yield Number(f"{key}.issue_cycles", digits(issue, 3), entry, how)
    yield Number(f"{key}.completion_cycles", digits(completion, 3), entry, "cycles of a lone warp")
    if errors is not None:
        how = "of max(completion, warps x issue) over occupancies, one chain per warp"
        yield Number(f"{key}.mean_error_percent", digits(float(errors.mean()), 3), entry, f"mean {how}")
        yield Number(f"{key}.error_deviation_percent", digits(float(errors.std()), 3), entry, f"deviation {how}")
