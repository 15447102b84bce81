"""Accuracy of the models on the measured mixes: a table on the terminal, pictures in HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from warplens.machine import Machine
from warplens.papers import ModelError, Plot
from warplens.papers.item import Series, line
from warplens.papers.validation.mixes import needed
from warplens.papers.validation.simulated import NAME
from warplens.papers.validation.stored import Judged, Sweep
from warplens.report.page import markup
from warplens.report.page.markup import Section, document, joined, tag
from warplens.report.page.svg import figure
from warplens.report.terminal import table

_HEAD = ["model", "points", "mean error", "median", "worst", "at, with warps", "needed", "unphysical"]
_NUMBERS = {1, 2, 3, 4, 6, 7}
_NOTE = "needed: warps of a scheduler by which the occupancy for 90 % of the highest rate is off, at the worst alpha"
_OWN_MEMORY = f"{NAME}: with the memory that this run's own loads found; the others with the machine file's"
# One of each kind: 21 lines would hide one another.
_SHOWN = ("simulate", "volkov-contention", "volkov", "lemeire", "sim2012", "hong-kim", "kothapalli-max", "roofline")
_HIGHEST = 100.0  # percent: what is further off lies beyond the picture
_ALPHA = "adds per other instruction (alpha)"


def answer(found: Sequence[ModelError], machine: Machine) -> list[RenderableType]:
    """Render the accuracy table, best model first."""
    rows: list[list[RenderableType]] = [[*_cells(e)[:-1], Text(_cells(e)[-1], "red")] for e in found]
    notes = [_NOTE, *([_OWN_MEMORY] if any(e.model == NAME for e in found) else [])]
    return [Text(_lead(found[0], machine), "bold"), "", table(_HEAD, rows, _NUMBERS), *notes]


def page(judged: Sequence[Judged], found: Sequence[ModelError], machine: Machine) -> str:
    """Return the HTML page: the cusp of each mix, the error against alpha of each kind of model, the table."""
    shown = [j for name in _SHOWN for j in judged if j.model == name]
    mixes = list(dict.fromkeys(sweep.mix for j in judged for sweep in j.sweeps))
    needs = (
        "As Volkov's Figure 7.14: the warps with which a mix reaches 90 % of its highest rate, measured and by each "
        "model. Where both bounds are near one another, more warps are needed than at either end: the cusp."
    )
    errs = "As Volkov's Figures 7.11 to 7.13: the error at each measured occupancy. Negative is too fast."
    cusps = joined((tag("p", needs), *(figure(cusp(mix, shown)) for mix in mixes)))
    errors = joined((tag("p", errs), *(figure(against_alpha(j)) for j in shown)))
    all_models = joined((markup.table(_HEAD, map(_cells, found), _NUMBERS), tag("p", _NOTE)))
    sections = [
        Section("needed", "Needed occupancy", "Needed occupancy against alpha", cusps),
        Section("errors", "Errors", "Error against alpha", errors),
        Section("models", "Models", "All models", all_models),
    ]
    title = f"How far the models are off on the mixes of {machine.name}"
    return document(title, tag("header", tag("h1", title), tag("p", _lead(found[0], machine))), sections)


def cusp(mix: str, judged: Sequence[Judged]) -> Plot:
    """Plot the needed occupancy of a mix against alpha: measured, and by each model."""
    longest = max((_of(mix, j) for j in judged), key=len)
    x = [sweep.alpha for sweep, _ in longest]
    series: list[Series] = [line("measured", x, [needed(s.warps_per_sm, s.cycles) for s, _ in longest], "points")]
    for j in judged:
        mine = _of(mix, j)
        y = [needed(sweep.warps_per_sm, cycles) for sweep, cycles in mine]
        series += [line(j.model, [sweep.alpha for sweep, _ in mine], y)] if mine else []
    return Plot(f"adds and {mix}: 90 % of the highest rate", _ALPHA, "warps per SM needed", series, log_x=True)


def against_alpha(judged: Judged) -> Plot:
    """Plot a model's errors against alpha, a colour for each mix."""
    series: list[Series] = []
    for mix in dict.fromkeys(sweep.mix for sweep in judged.sweeps):
        mine = _of(mix, judged)
        x = [sweep.alpha for sweep, cycles in mine for _ in cycles]
        y = np.concatenate([100 * (np.array(cycles) / np.array(sweep.cycles) - 1) for sweep, cycles in mine])
        series.append(line(f"add/{mix}", x, y, "points"))
    y_max = _HIGHEST if max(max(s.y) for s in series) > _HIGHEST else None
    return Plot(f"{judged.model}: error against alpha", _ALPHA, "error, %", series, log_x=True, y_max=y_max)


def _of(mix: str, judged: Judged) -> list[tuple[Sweep, list[float]]]:
    """Return the sweeps of a mix with what a model says of them, by alpha."""
    pairs = zip(judged.sweeps, judged.cycles, strict=True)
    return sorted((pair for pair in pairs if pair[0].mix == mix), key=lambda pair: pair[0].alpha)


def _lead(best: ModelError, machine: Machine) -> str:
    error = f"{best.mean_percent:.1f} % mean error"
    return f"best on {machine.name}: {best.model}, {error} over {best.points} measured points"


def _cells(e: ModelError) -> list[str]:
    return [
        e.model, str(e.points), f"{e.mean_percent:.1f} %", f"{e.median_percent:.1f} %", f"{e.worst_percent:+.0f} %",
        e.worst_at.removesuffix(" warps"), f"{e.needed_warps_off:+.1f}", str(e.unphysical or ""),
    ]  # fmt: skip
