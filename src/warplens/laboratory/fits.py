"""Fits of formulas from the papers to measured points."""

from __future__ import annotations

import numpy as np
from msgspec import Struct


class LoadedLatency(Struct, frozen=True):
    """Latency at throughput x of curve i: a[i] + b x / (c - x); and how far the points are from it, in cycles."""

    a: list[float]
    b: float
    c: float
    mean_off: float
    most_off: float
    points: int


def loaded_latency(curves: list[list[tuple[float, float]]], peak: float = 0.0) -> LoadedLatency:
    """Fit Volkov's curve (§6.4) to points (throughput, latency), with an a of its own for each curve.

    For each c above the highest throughput, a and b are a linear least-squares problem, in which a point's error counts
    relative to its latency: where the latency is high it is little known. The c with the least error is kept, of those
    above `peak`, a throughput that was reached otherwise: the curve cannot end before it.
    """
    x = np.array([point[0] for curve in curves for point in curve])
    y = np.array([point[1] for curve in curves for point in curve])
    which = np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])
    best: tuple[float, np.ndarray, float, np.ndarray] | None = None
    for c in max(1.002 * x.max(), peak) * np.geomspace(1.0, 1.5, 400):
        basis = np.stack([*(np.where(which == i, 1.0, 0.0) for i in range(len(curves))), x / (c - x)], axis=1)
        found, *_ = np.linalg.lstsq(basis / y[:, None], np.ones_like(y), rcond=None)
        off = basis @ found - y
        error = float(((off / y) ** 2).sum())
        if best is None or error < best[0]:
            best = error, found, float(c), np.abs(off)
    assert best is not None
    _, found, c, off = best
    return LoadedLatency(found[:-1].tolist(), float(found[-1]), c, float(off.mean()), float(off.max()), len(x))
