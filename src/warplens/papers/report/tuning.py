"""The tuner against measured spaces, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from warplens.machine import Machine
from warplens.papers.validation.tuning import TuningResult
from warplens.report import terminal


def tuning(found: Sequence[TuningResult], machine: Machine) -> list[RenderableType]:
    """Return the answer of `warplens validate --tuning`."""
    near = {limit: sum(r.chosen_loss <= limit for r in found) for limit in (0.05, 0.1)}
    first = sum(r.top_loss <= 0.02 for r in found)
    rows = [
        [
            r.kernel, str(r.legal), f"{r.emulated} ({100 * r.share:.1f} %)", f"{r.best_us:.1f} us",
            f"{r.predicted_us:.1f} us", f"{r.chosen_us:.1f} us", f"{100 * r.chosen_loss:+.1f} %",
            f"{100 * r.top_loss:+.1f} %",
            f"{100 * r.middle_loss:+.0f} %", f"{r.span:.1f} x",
        ]
        for r in found
    ]  # fmt: skip
    heads = ["kernel", "legal", "emulated", "best", "predicted", "takes", "loss", "of 5", "middle", "span"]
    return [
        f"Tuning by prediction on {machine.name}: of {len(found)} kernels, the choice is within 5 % of the best for "
        f"{near[0.05]}, within 10 % for {near[0.1]}; the best of five measured is within 2 % for {first}",
        terminal.table(heads, rows, set(range(1, len(heads)))),
        "loss: the predicted best over the true best; of 5: the fastest of the first five; middle: a median one",
    ]
