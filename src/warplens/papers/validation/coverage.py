"""The calibration of intervals from the train set's errors, and how often intervals hold over a set of launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from warplens.core.files import write_whole
from warplens.models.warplens.intervals import FILE, Calibration, Interval, Residual, around
from warplens.papers.validation.kernels import PARTS, Part
from warplens.papers.validation.points import Point

_OUTDATED = 0.01  # a prediction that has moved by 1 % since the errors were kept


class Coverage(Struct, frozen=True):
    """Of how many launches of a set the interval held the measured time; its width as high over low, median."""

    model: str
    part: Part
    launches: int
    covered_percent: float
    median_width: float


def residuals(predicted: Iterable[Point]) -> list[Residual]:
    """Return the errors of the train set."""
    return [
        Residual(p.function, p.bound, float(f"{p.seconds:.4g}"), round(p.log_ratio, 4))
        for p in predicted
        if p.part == "train"
    ]


def coverage(predicted: Sequence[Point]) -> list[Coverage]:
    """Return how often the intervals of one run's points hold, each kernel judged by the others of the train set."""
    known, found = residuals(predicted), []
    for part in PARTS:
        covered, widths = [], []
        for p in predicted:
            if p.part != part:
                continue
            it = around(p.seconds, p.bound, p.function, known, p.sampling_error, p.unknown)
            if isinstance(it, Interval):
                covered.append(it.low <= p.measured_seconds <= it.high)
                widths.append(it.high / it.low)
        if covered:
            share, width = 100 * float(np.mean(covered)), float(np.median(widths))
            found.append(Coverage(predicted[0].run, part, len(covered), share, width))
    return found


def outdated(predicted: Sequence[Point], known: Calibration) -> bool:
    """Return whether the errors of one run over all launches differ from those that were kept."""
    now, kept = residuals(predicted), known.models.get(predicted[0].run, [])
    if len(now) < len(kept):
        return False  # a part of the launches says nothing
    pairs = zip(now, kept, strict=False)
    return len(now) != len(kept) or any(abs(a.log_ratio - b.log_ratio) > _OUTDATED for a, b in pairs)


def calibrate(gpu: str, predicted: Sequence[Point], command: str) -> Calibration:
    """Make the calibration of all runs among the points."""
    runs = dict.fromkeys(p.run for p in predicted)
    return Calibration(
        gpu=gpu, command=command, models={n: residuals(p for p in predicted if p.run == n) for n in runs}
    )


def save(calibration: Calibration, path: Path = FILE) -> None:
    """Write the calibration, one launch a line, so that a change can be read."""
    head = msgspec.to_builtins(calibration)
    models = ",\n".join(
        f'"{name}": [\n' + ",\n".join(msgspec.json.encode(r).decode() for r in rows) + "\n]"
        for name, rows in calibration.models.items()
    )
    about = ",\n".join(f'"{key}": {msgspec.json.encode(head[key]).decode()}' for key in ("format", "gpu", "command"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "{\n" + about + ',\n"models": {\n' + models + "\n}\n}\n")
