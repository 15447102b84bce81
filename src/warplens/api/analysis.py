"""Analysis of a kernel's call: time, interval, limit and remedies, as values, as the first screen and as a page."""

from __future__ import annotations

import dataclasses
import importlib
import io
import math
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from warplens.api.counting import DEFAULT_MACHINE, Effort, counted, load_report, machine_of, only_kernel
from warplens.api.request import Call, Request, load
from warplens.api.verbs import advised, compared, predict
from warplens.core.errors import WarplensError
from warplens.core.files import write_whole
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.models.registry import Comparison
from warplens.workload import Workload
from warplens.workload.launch import KernelCall

if TYPE_CHECKING:
    from warplens.advisor import Advice, Advised

_MOST_CODE = 40_000  # instructions of all remedies that are tried: twenty of a kernel of a thousand
_WIDTH = 110  # columns of the first screen in a session


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """The answer of `analyze`: its repr is the first screen, and a notebook shows the page.

    `model` is the name of the model that was asked for, None for the most complete one that speaks; `fast` says that
    nothing is simulated and no remedy tried. What takes long is computed when it is first read.
    """

    workload: Workload
    call: KernelCall
    machine: Machine
    model: str | None = None
    fast: bool = False

    def of(self, workload: Workload) -> Analysis:
        """Return the same answer for a workload that has since been counted further, as remedies need it."""
        found = dataclasses.replace(self, workload=workload)
        vars(found).update({key: vars(self)[key] for key in ("prediction", "_ours") if key in vars(self)})
        return found

    @cached_property
    def prediction(self) -> Prediction:
        """Return the prediction that the first screen shows."""
        if self.model is not None:
            return predict(self.workload, self.machine, self.model)
        if self._ours is not None:
            return self._ours
        if (answer := self.comparison.headline) is None:
            why = next(iter(self.comparison.silent.values()), "no model speaks")
            raise WarplensError(f"no model gives a time for {self.workload.name} on {self.machine.name}: {why}")
        return answer

    @cached_property
    def _ours(self) -> Prediction | None:
        """Return our own model's answer, where it gives a time and no other model is asked for."""
        if self.model is not None:
            return None
        try:
            answer = predict(self.workload, self.machine, "warplens-fast" if self.fast else "warplens")
        except WarplensError:
            return None
        return None if answer.seconds is None else answer

    @cached_property
    def comparison(self) -> Comparison:
        """Return the answers of all models; `fast` leaves out those that simulate."""
        return compared(self.workload, self.machine, simulated=not self.fast, known=self._ours)

    @cached_property
    def advised(self) -> Advised | None:
        """Return all advice, also on what cannot help; None where our own model does not speak."""
        base = self.comparison.predictions.get("warplens")
        return None if base is None else advised(self.workload, self.machine, base=base, most_code=_MOST_CODE)

    @property
    def time(self) -> float:
        """Return the predicted duration of the kernel in seconds."""
        return float(self.prediction.seconds or math.nan)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the seconds between which the time lies with 90 %; None where no measured launch says."""
        return self.prediction.interval_seconds

    @property
    def limit(self) -> str:
        """Return the name of what limits the kernel."""
        return self.prediction.limited_by

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds that each limit alone would take, longest first."""
        cycle = self.time / float(self.prediction.cycles or math.nan)
        return {name: float(cycles) * cycle for name, cycles in self.prediction.alone.items()}

    @property
    def remedies(self) -> tuple[Advice, ...]:
        """Return the remedies that help, best first."""
        return () if self.advised is None else self.advised.helpful

    @property
    def notes(self) -> list[str]:
        """Return a note on everything that was assumed, sampled or is unknown."""
        emulated = [] if self.workload.profile is None else self.workload.profile.notes
        return [*dict.fromkeys([*self.call.notes, *emulated, *self.workload.notes, *self.prediction.notes])]

    @property
    def _content(self) -> Any:
        """Gather all that the page shows."""
        from warplens.report.page.content import gather

        return gather(self.prediction, self.comparison, self.workload, self.machine, self.advised)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as `--json` prints it."""
        from warplens.report.page.content import data

        return data(self._content)

    def to_json(self) -> str:
        """Return the answer as JSON, with its schema version."""
        from warplens.report.data import document

        return document(self.to_dict())

    def page(self) -> str:
        """Return the page: one self-contained HTML document."""
        from warplens.report.page.frame import page

        return page(self._content, self.to_json())

    def to_html(self, path: str | Path) -> None:
        """Write the page to a file, whole or not at all."""
        write_whole(Path(path), self.page())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each instruction: text, source line, runs, share of time, stalls."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise WarplensError("to_frame() needs pandas: pip install pandas") from None
        return pandas.json_normalize(msgspec.to_builtins(self._content.instructions))

    def __repr__(self) -> str:
        """Return the first screen."""
        from warplens.report import analysis, terminal

        file = io.StringIO()
        console = type(terminal.console())(file=file, width=_WIDTH, color_system=None, highlight=False, emoji=False)
        top = terminal.headline(self.prediction, self.call, self.machine)
        for part in (*top, *analysis.rest(self.prediction, self.workload, self.advised)):
            console.out(part, highlight=False) if isinstance(part, str) else console.print(part)
        return file.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        return f'<iframe srcdoc="{escape(self.page())}" style="border: 0; width: 100%; height: 48em"></iframe>'


def analyze(
    file: str | Path | None = None,
    launch: KernelCall | str | Path | None = None,
    machine: Machine | str = DEFAULT_MACHINE,
    *,
    model: str | None = None,
    effort: Effort = "full",
    **call: Unpack[Call],
) -> Analysis:
    """Predict the time of a kernel's call, and find what limits it and what would help.

    `file` is CUDA source, PTX, a cubin or program, Triton's `file.py:kernel`, a launch file or a profiler's report. The
    call is that of the `launch` file, or `grid`, `block` and `args` (see `Call`). `effort` is how much of the grid is
    emulated: "exact" is all of it, "fast" is the least, without remedies.
    """
    gpu = machine_of(machine)
    if str(file).endswith(".ncu-rep"):
        workload, run_call = only_kernel(load_report(str(file), gpu, call.get("kernel")), str(file))
    else:
        program, run_call = load(Request.of(file, launch, call), gpu)
        workload = counted(program, run_call, gpu, effort)
    found = Analysis(workload, run_call, gpu, model, effort == "fast")
    _ = found.prediction  # so that an error is raised here
    return found


def count(
    file: str | Path | None = None,
    launch: KernelCall | str | Path | None = None,
    machine: Machine | str = DEFAULT_MACHINE,
    *,
    effort: Effort = "full",
    **call: Unpack[Call],
) -> Workload:
    """Compile a kernel, emulate a part of its grid, and return what it executes as a workload. As `analyze` otherwise.

    A saved workload needs neither compiler nor emulator again.
    """
    gpu = machine_of(machine)
    return counted(*load(Request.of(file, launch, call), gpu), gpu, effort)
