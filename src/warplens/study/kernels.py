"""Every model against the measured launches of real kernels: the suite under examples/, timed on an H200.

The workloads were counted by the emulator (kernels/workloads.json.gz, by data/h200/count_launches.py); the times are
medians with a warm L2 (times.json.gz). A third of the kernels, by a hash of their name, is the test set: nobody
looks at its residuals when a model is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.errors import WarplensError, nearest
from warplens.kernel import Workload
from warplens.machine import Machine, load_machine
from warplens.models import MODELS, predict
from warplens.study.validation import read

_FOLDERS = {"h200": "h200/kernels"}
Part = Literal["train", "test"]
PARTS: tuple[Part, Part] = ("train", "test")


class Launch(Struct, frozen=True):
    """One measured launch: its name (launch file, variant), its workload, and the median time in seconds."""

    name: str
    workload: Workload
    seconds: float

    @property
    def kernel(self) -> str:
        """The launch file's name: what the sets are split by."""
        return self.name.partition(".")[0]

    @property
    def part(self) -> Part:
        """Whether it is in the test set."""
        return "test" if is_test(self.kernel) else "train"


class KernelError(Struct, frozen=True):
    """How far one model is off over the launches of a set, in percent of the measured time."""

    model: str
    part: Part
    launches: int
    mean_percent: float
    median_percent: float
    bias_percent: float
    within_20_percent: float
    rank_correlation: float
    worst_percent: float
    worst_at: str


def is_test(kernel: str) -> bool:
    """Whether a kernel belongs to the test set: one in three, by a hash of its name."""
    return hashlib.sha256(kernel.encode()).digest()[0] % 3 == 0


def launches(gpu: str = "h200") -> list[Launch]:
    """Read the measured launches of a machine."""
    machine = load_machine(gpu)
    if machine.id not in _FOLDERS:
        raise WarplensError(f"no kernels were measured on {machine.name}; there are some of: {', '.join(_FOLDERS)}")
    folder = _FOLDERS[machine.id]
    times = read(f"{folder}/times.json.gz")["launches"]
    workloads = read(f"{folder}/workloads.json.gz")["workloads"]
    return [
        Launch(name, msgspec.convert(tree, Workload), 1e-6 * times[name]["warm_us"])
        for name, tree in workloads.items()
        if name in times
    ]


def validate_kernels(
    gpu: str = "h200", models: Iterable[str] | None = None, progress: Callable[[str], None] | None = None
) -> list[KernelError]:
    """Return the error of each model (or of those named) over each set, the most accurate on the test set first.

    The simulated model is among them only where it is named: it takes seconds for a launch.
    """
    machine, measured = load_machine(gpu), launches(gpu)
    made: list[KernelError] = []
    for model in models or [name for name in MODELS if name != "warplens"]:
        if model not in MODELS:
            raise WarplensError(f"unknown model {model!r}{nearest(model, MODELS)}")
        for part in PARTS:
            chosen = [x for x in measured if x.part == part]
            found = _error(model, part, machine, chosen, progress or (lambda text: None))
            made += [found] if found is not None else []
    order = {e.model: e.mean_percent for e in made if e.part == "test"}
    return sorted(made, key=lambda e: (order.get(e.model, np.inf), e.part == "train"))


def _error(
    model: str, part: Part, machine: Machine, measured: list[Launch], progress: Callable[[str], None]
) -> KernelError | None:
    predicted: dict[str, tuple[float, float]] = {}
    for launch in measured:
        progress(f"{model}, {launch.name}")
        try:
            seconds = predict(launch.workload, machine, model).seconds
        except WarplensError:
            continue
        if seconds is not None:
            predicted[launch.name] = float(seconds), launch.seconds
    if not predicted:
        return None
    ours, theirs = np.array(list(predicted.values())).T
    error = 100 * (ours / theirs - 1)
    worst = int(np.argmax(np.abs(error)))
    return KernelError(
        model, part, len(error), float(np.abs(error).mean()), float(np.median(np.abs(error))), float(error.mean()),
        float(100 * (np.abs(error) <= 20).mean()), rank_correlation(ours, theirs), float(error[worst]),
        list(predicted)[worst],
    )  # fmt: skip


def rank_correlation(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation."""
    if len(a) < 2:
        return 1.0
    first, second = (np.argsort(np.argsort(x)).astype(float) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
