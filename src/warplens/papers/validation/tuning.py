"""The tuner against measured spaces: every configuration of some kernels was timed on a GPU (data/h200/suite/tuning).

For each kernel: how much slower the predicted best is than the true best, from how small a share of the space that was
emulated; and the same for the fastest of the first five when these are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.papers.validation.stored import data_file, read
from warplens.tuner.expression import Value
from warplens.tuner.run import Engine
from warplens.tuner.spec import load_sweep
from warplens.tuner.timing import choose
from warplens.tuner.tune import tune

_FOLDERS = {"h200": "h200/suite/tuning"}
TOP = 5


class TuningResult(Struct, frozen=True):
    """One kernel: how far the choices are from the best, as a share of its time; `span` is the worst over the best."""

    kernel: str
    legal: int
    emulated: int
    pruned: int
    best_us: float
    predicted_us: float
    chosen_us: float
    chosen_loss: float
    top_us: float
    top_loss: float
    middle_loss: float
    span: float
    chosen: dict[str, Value]
    best: dict[str, Value]

    @property
    def share(self) -> float:
        """Share of the legal configurations that were emulated."""
        return self.emulated / self.legal


def kernels(gpu: str) -> list[str]:
    """Return the kernels whose spaces were measured on a GPU."""
    machine = load_machine(gpu)
    if machine.id not in _FOLDERS:
        raise WarplensError(f"no tuning space was measured on {machine.name}; there are some of: {', '.join(_FOLDERS)}")
    folder = data_file(f"{_FOLDERS[machine.id]}/README.md").parent
    return sorted(f.name.removesuffix(".json.gz") for f in folder.glob("*.json.gz"))


def measured_times(gpu: str, kernel: str) -> dict[int, float]:
    """Return the median times of a space in microseconds, by the number of the configuration."""
    found = read(f"{_FOLDERS[load_machine(gpu).id]}/{kernel}.json.gz")
    return {point["number"]: point["us"] for point in found["points"] if "us" in point and "error" not in point}


def validate_tuning(
    gpu: str = "h200",
    only: list[str] | None = None,
    *,
    model: str = "warplens",
    share: float = 0.05,
    cache: str | None = None,
    engine: Engine | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> list[TuningResult]:
    """Tune each measured kernel by prediction and look up what its choices take."""
    known = kernels(gpu)
    for name in only or []:
        if name not in known:
            raise WarplensError(f"no tuning space {name!r}; there are: {', '.join(known)}")
    return [_result(gpu, kernel, model, share, cache, engine, watch) for kernel in only or known]


def _result(
    gpu: str,
    kernel: str,
    model: str,
    share: float,
    cache: str | None,
    engine: Engine | None,
    watch: Callable[[str, int, int], None] | None,
) -> TuningResult:
    machine = load_machine(gpu)
    spec = Path(data_file(f"{_FOLDERS[machine.id]}/{kernel}.toml"))

    def told(what: str, done: int, total: int) -> None:
        if watch is not None:
            watch(f"{kernel}: {what}", done, total)

    found = tune(
        load_sweep(spec), machine, model=model, share=share, cache=Cache(cache), engine=engine, watch=told
    )  # fmt: skip
    times, legal = measured_times(gpu, kernel), len(found.candidates)
    candidates = [c for c in found.candidates if c.number in times]
    values = {c.number: c.values for c in candidates}
    best = min(values, key=lambda n: times[n])
    ranked = sorted(times[n] for n in values)
    chosen = candidates[0]
    first = choose(candidates, TOP, lambda c: 1e-6 * times[c.number])
    top = min((c.number for c, _ in first), key=lambda n: times[n])
    return TuningResult(
        kernel=kernel,
        legal=legal,
        emulated=found.emulated,
        pruned=found.pruned,
        best_us=times[best],
        predicted_us=1e6 * chosen.seconds,
        chosen_us=times[chosen.number],
        chosen_loss=times[chosen.number] / times[best] - 1,
        top_us=times[top],
        top_loss=times[top] / times[best] - 1,
        middle_loss=ranked[len(ranked) // 2] / times[best] - 1,
        span=ranked[-1] / ranked[0],
        chosen=chosen.values,
        best=values[best],
    )
