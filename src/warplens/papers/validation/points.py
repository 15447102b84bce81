"""Predictions of measured launches: one point per launch and run, made by a few processes where that pays.

A run is a model on a machine under a name of its own, so that an ablation is the same model on a machine with one
number less.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models import predict
from warplens.models.warplens.intervals import uncertainty
from warplens.papers.validation.kernels import Launch, Part
from warplens.workload import Workload

Watch = Callable[[int, int], None]  # launches done, launches in all


class Run(Struct, frozen=True):
    """A model on a machine, under the name that its points carry."""

    name: str
    model: str
    machine: Machine


class Point(Struct, frozen=True, kw_only=True):
    """One launch, predicted and measured.

    `alpha` is arithmetic instructions per access to global memory (infinite without one), `sampling_error` the
    relative standard error of the emulated counts, `unknown` the share of instructions and addresses not known.
    """

    run: str
    launch: str
    kernel: str
    function: str
    part: Part
    family: str
    bound: str
    seconds: float
    measured_seconds: float
    alpha: float
    sampling_error: float = 0.0
    unknown: float = 0.0

    @property
    def percent(self) -> float:
        """The error in percent of the measured time; negative where the model is too fast."""
        return 100 * (self.seconds / self.measured_seconds - 1)

    @property
    def log_ratio(self) -> float:
        """The natural logarithm of predicted over measured."""
        return math.log(self.seconds / self.measured_seconds)


def points(
    measured: Sequence[Launch], runs: Sequence[Run], *, processes: int = 1, watch: Watch | None = None
) -> list[Point]:
    """Predict every launch with every run, in the order of the launches; a run that cannot speak leaves no point."""
    by_launch: dict[int, list[Point]] = {}
    for done, (i, found) in enumerate(_all(measured, runs, processes), start=1):
        by_launch[i] = found
        if watch is not None:
            watch(done, len(measured))
    return [point for i in sorted(by_launch) for point in by_launch[i]]


def alpha(workload: Workload) -> float:
    """Return the arithmetic instructions per access to global or local memory; infinite without any."""
    accesses = float(workload.memory_instructions())
    return (float(workload.total()) - accesses) / accesses if accesses else math.inf


def _all(measured: Sequence[Launch], runs: Sequence[Run], processes: int) -> Iterator[tuple[int, list[Point]]]:
    """Yield the points of each launch with its number, as they are ready."""
    if processes <= 1:
        yield from ((i, _of_launch(launch, runs)) for i, launch in enumerate(measured))
        return
    import multiprocessing  # not for those who only ask how sure a prediction is
    from concurrent.futures import ProcessPoolExecutor, as_completed

    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with ProcessPoolExecutor(processes, context, _begin, (list(runs),)) as pool:
        waiting = {pool.submit(_next, launch): i for i, launch in enumerate(measured)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_RUNS: list[Run] = []  # of a process of the pool


def _begin(runs: list[Run]) -> None:
    _RUNS[:] = runs


def _next(launch: Launch) -> list[Point]:
    return _of_launch(launch, _RUNS)


def _of_launch(launch: Launch, runs: Iterable[Run]) -> list[Point]:
    predicted = []
    for run in runs:
        with contextlib.suppress(WarplensError):  # a model that does not speak about this workload
            p = predict(launch.workload, run.machine, run.model)
            if p.seconds is not None and np.isfinite(p.seconds) and p.seconds > 0:
                predicted.append(point(launch, run.name, float(p.seconds), str(p.bound)))
    return predicted


def point(launch: Launch, run: str, seconds: float, bound: str) -> Point:
    """Put a prediction beside the measurement."""
    error, unknown = uncertainty(launch.workload)
    return Point(
        run=run,
        launch=launch.name,
        kernel=launch.kernel,
        function=launch.workload.name,
        part=launch.part,
        family=launch.family,
        bound=bound,
        seconds=seconds,
        measured_seconds=launch.seconds,
        alpha=alpha(launch.workload),
        sampling_error=error,
        unknown=unknown,
    )
