"""Errors of the models on real kernels: statistics over points, for train and test set.

Errors are of time: predicted over measured, less one, in percent. Of the test set only statistics over three launches
or more are given, and no launch by name, so that one can work on a model with this table before one's eyes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.core.errors import WarplensError, nearest
from warplens.machine import load_machine
from warplens.models import MODELS
from warplens.models.warplens.intervals import shipped
from warplens.papers.validation.coverage import Coverage, coverage, outdated
from warplens.papers.validation.kernels import PARTS, Part, launches
from warplens.papers.validation.points import Point, Run, Watch, points

OURS = ("warplens", "warplens-fast")
AGREE_PERCENT = 5.0
_FEWEST = 3  # launches of the test set that a number may be about
_WORST = 12


class KernelError(Struct, frozen=True, kw_only=True):
    """Error of one model over the launches of a set, or of a `group` of it, in percent of the measured time."""

    model: str
    part: Part
    group: str = ""
    launches: int
    kernels: int
    mean_percent: float
    median_percent: float
    bias_percent: float
    within_20_percent: float
    rank_correlation: float
    worst_percent: float
    worst_at: str = ""


class Agreement(Struct, frozen=True):
    """Difference of the closed form from the simulated one, over the launches of a set."""

    part: Part
    launches: int
    within_5_percent: float
    mean_percent: float


class KernelValidation(Struct, frozen=True, kw_only=True):
    """Every model against every measured launch.

    `by_bound` and `by_kind` are of our own models; `worst` are launches of the train set, of the first of them;
    `outdated` are those of ours whose intervals rest on errors that they no longer make.
    """

    gpu: str
    errors: list[KernelError]
    by_bound: list[KernelError]
    by_kind: list[KernelError]
    worst: list[Point]
    agreement: list[Agreement]
    coverage: list[Coverage]
    outdated: list[str] = []
    points: list[Point]


def validate_kernels(
    gpu: str = "h200",
    models: Sequence[str] | None = None,
    *,
    every: int = 1,
    processes: int = 1,
    watch: Watch | None = None,
) -> KernelValidation:
    """Hold each model (or those named) against the measured launches (or every n-th of them)."""
    names = list(models or MODELS)
    for name in names:
        if name not in MODELS:
            raise WarplensError(f"unknown model {name!r}{nearest(name, MODELS)}")
    machine = load_machine(gpu)
    predicted = points(
        launches(machine.id)[::every], [Run(n, n, machine) for n in names], processes=processes, watch=watch
    )
    return judged(machine.id, predicted)


def judged(gpu: str, predicted: Sequence[Point]) -> KernelValidation:
    """Make the tables of points."""
    ours = [name for name in OURS if any(p.run == name for p in predicted)]
    main = [p for p in predicted if p.run in ours[:1]]
    return KernelValidation(
        gpu=gpu,
        errors=errors(predicted),
        by_bound=groups([p for p in predicted if p.run in ours], lambda p: p.bound),
        by_kind=groups([p for p in predicted if p.run in ours], lambda p: p.family),
        worst=sorted((p for p in main if p.part == "train"), key=lambda p: -abs(p.log_ratio))[:_WORST],
        agreement=agreement(predicted),
        coverage=[c for name in ours for c in coverage([p for p in predicted if p.run == name])],
        outdated=[n for n in ours if outdated([p for p in predicted if p.run == n], shipped())],
        points=list(predicted),
    )


def errors(predicted: Iterable[Point]) -> list[KernelError]:
    """Return the error of each run over each set, the most accurate on the test set first."""
    by_run: dict[str, list[Point]] = {}
    for p in predicted:
        by_run.setdefault(p.run, []).append(p)
    found = [
        error(run, part, chosen)
        for run, all_of_it in by_run.items()
        for part in PARTS
        if (chosen := [p for p in all_of_it if p.part == part])
    ]
    order = {e.model: e.mean_percent for e in found if e.part == "test"}
    return sorted(found, key=lambda e: (order.get(e.model, np.inf), e.model, e.part == "train"))


def groups(predicted: Iterable[Point], of: Callable[[Point], str]) -> list[KernelError]:
    """Return the error by group, the commonest first; of the test set no group of fewer than three launches."""
    found: dict[tuple[str, str, Part], list[Point]] = {}
    for p in predicted:
        found.setdefault((p.run, of(p), p.part), []).append(p)
    kept = {key: chosen for key, chosen in found.items() if key[2] == "train" or len(chosen) >= _FEWEST}
    order = {key[:2]: sum(len(v) for k, v in kept.items() if k[:2] == key[:2]) for key in kept}
    keys = sorted(kept, key=lambda k: (OURS.index(k[0]) if k[0] in OURS else 9, -order[k[:2]], k[1], k[2] == "test"))
    return [error(run, part, kept[run, group, part], group) for run, group, part in keys]


def error(run: str, part: Part, chosen: Sequence[Point], group: str = "") -> KernelError:
    """Return the statistics of some points of one run; the worst launch is named in the train set only."""
    percent = np.array([p.percent for p in chosen])
    size = np.abs(percent)
    worst = int(np.argmax(size))
    return KernelError(
        model=run,
        part=part,
        group=group,
        launches=len(chosen),
        kernels=len({p.kernel for p in chosen}),
        mean_percent=float(size.mean()),
        median_percent=float(np.median(size)),
        bias_percent=float(percent.mean()),
        within_20_percent=float(100 * (size <= 20).mean()),
        rank_correlation=rank_correlation(
            np.array([p.seconds for p in chosen]), np.array([p.measured_seconds for p in chosen])
        ),
        worst_percent=float(percent[worst]),
        worst_at=chosen[worst].launch if part == "train" else "",
    )


def agreement(predicted: Iterable[Point]) -> list[Agreement]:
    """Return how near `warplens-fast` is to `warplens`, where both spoke."""
    seconds = {(p.run, p.launch): p.seconds for p in predicted}
    found = []
    for part in PARTS:
        off = [
            100 * abs(seconds["warplens-fast", p.launch] / p.seconds - 1)
            for p in predicted
            if p.run == "warplens" and p.part == part and ("warplens-fast", p.launch) in seconds
        ]
        if off:
            near = 100 * float(np.mean(np.array(off) <= AGREE_PERCENT))
            found.append(Agreement(part, len(off), near, float(np.mean(off))))
    return found


def rank_correlation(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation; equal values share the mean of their ranks."""
    first, second = _ranks(a), _ranks(b)
    if len(a) < 2 or not first.std() or not second.std():
        return 1.0 if len(a) < 2 else 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[inverse], np.float64)
