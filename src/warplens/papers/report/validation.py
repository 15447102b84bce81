"""Accuracy of the models on measured kernels: tables on the terminal, pictures in HTML, data for JSON.

best on NVIDIA H200: warplens, 8.1 % mean error over 132 launches of the test set

model      set    launches  mean error  median   bias  within 20 %   rank  worst  at
warplens   test        132       8.1 %   4.2 %  -1.0 %         91 %  0.981  -61 %
warplens   train       187       7.0 %   4.0 %  -0.8 %         93 %  0.990  -55 %  stride.s32
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.text import Text

from warplens.core.units import number, seconds
from warplens.machine import Machine
from warplens.papers import Plot
from warplens.papers.item import Series, line
from warplens.papers.validation.ablation import ALL, Ablation
from warplens.papers.validation.coverage import Coverage
from warplens.papers.validation.kernel_errors import OURS, Agreement, KernelError, KernelValidation
from warplens.papers.validation.points import Point
from warplens.papers.validation.stalls import LARGEST, WITHIN, Stalls
from warplens.report.page import markup
from warplens.report.page.markup import Section, document, joined, tag
from warplens.report.page.svg import figure
from warplens.report.terminal import table

_NEAR = 20.0  # percent: the lines beside the diagonal
_HEAD = ["model", "set", "launches", "mean error", "median", "bias", "within 20 %", "rank", "worst", "at"]
_GROUP_HEAD = ["", "set", "launches", "kernels", "mean error", "median", "bias", "within 20 %"]
_PAPERS_SHOWN = 3
_PARTS = ("train", "test")


def answer(found: KernelValidation, machine: Machine, *, unblind: bool = False) -> list[RenderableType]:
    """Render the tables, the answer first."""
    test = [e for e in found.errors if e.part == "test"]
    if not test:
        return [Text("no model gives a time for a measured kernel of the test set", "bold red")]
    best = test[0]
    lead = f"best on {machine.name}: {best.model}, {best.mean_percent:.1f} % mean error over {best.launches} launches "
    parts: list[RenderableType] = [Text(lead + "of the test set", "bold"), "", error_table(found.errors)]
    parts += ["", *[Text(line) for line in (*map(_agrees, found.agreement), *map(_covers, found.coverage))]]
    parts += [
        Text(f"the intervals of {name} rest on errors that it no longer makes: --calibrate keeps today's", "yellow")
        for name in found.outdated
    ]
    ours = _first(found)
    for title, groups in (("by what limits", found.by_bound), ("by kind of kernel", found.by_kind)):
        cells = [_group(e) for e in groups if e.model == ours]
        if cells:
            parts += ["", Text(f"{ours}, {title}", "bold"), table(_GROUP_HEAD, cells, {2, 3, 4, 5, 6, 7})]
    worst = _worst(found, unblind)
    if worst:
        which = "both sets" if unblind else "the train set"
        rows = [[p.launch, f"{p.percent:+.0f} %", seconds(p.seconds), seconds(p.measured_seconds), p.bound]
                for p in worst]  # fmt: skip
        head = ["launch", "error", "predicted", "measured", "limited by"]
        parts += ["", Text(f"{ours}, furthest off in {which}", "bold"), table(head, rows, {1, 2, 3})]
    return parts


def error_table(errors: Sequence[KernelError]) -> RenderableType:
    """Render the errors of all models or runs."""
    return table(_HEAD, map(_error, errors), {2, 3, 4, 5, 6, 7, 8})


def _error(e: KernelError) -> list[str]:
    return [e.model, *_group(e)[1:3], *_group(e)[4:], f"{e.rank_correlation:.3f}", f"{e.worst_percent:+.0f} %",
            e.worst_at]  # fmt: skip


def ablation(found: Sequence[Ablation], model: str, every: int) -> list[RenderableType]:
    """Render what each mechanism is worth, the most on the train set first."""
    by_name: dict[str, dict[str, Ablation]] = {}
    for each in found:
        by_name.setdefault(each.mechanism, {})[each.part] = each
    rows = []
    for name, parts in by_name.items():
        cells = [name]
        for part in _PARTS:
            a = parts.get(part)
            worse = "" if a is None or name == ALL else f"{a.worse_percent:+.2f}"
            moved = "" if a is None or name == ALL else f"{a.moved_percent:.0f} %"
            cells += ["-" if a is None else f"{a.mean_percent:.2f} %", worse, moved]
        rows.append(cells)
    which = "every launch" if every == 1 else f"one of {every} launches"
    lead = f"{model} without each of its mechanisms, over {which}: mean error, points worse, launches that it moves"
    head = ["without", "train", "worse", "moved", "test", "worse", "moved"]
    return [Text(lead, "bold"), "", table(head, rows, set(range(1, 7)))]


def stalls(found: Sequence[Stalls]) -> list[RenderableType]:
    """Render for how many launches the largest stall reasons agree, and which are off how often in the train set."""
    agree = f"{sum(x.agrees for x in found)} of {len(found)} launches: the {LARGEST} largest stall reasons agree with "
    rows, wrong = [], [x.off for x in found if not x.agrees and x.part == "train"]
    for part in _PARTS:
        those = [x for x in found if x.part == part]
        kernels = {x.name.partition(".")[0] for x in those if x.agrees}
        rows.append([part, str(len(those)), str(sum(x.agrees for x in those)), str(len(kernels))])
    counted = Counter((reason, "too much" if off > 0 else "too little") for off, reason in wrong)
    return [
        Text(f"{agree}ncu's samples within {100 * WITHIN:.0f} points"),
        table(["set", "launches", "agree", "kernels of these"], rows),
        table(["farthest off, train set", "simulated", "launches"], [[*k, str(n)] for k, n in counted.most_common()]),
    ]


def stall_data(found: Sequence[Stalls], *, unblind: bool = False) -> dict[str, Any]:
    """Return the same for JSON: each launch of the train set, the test set's only as numbers unless unblind."""
    counts = {p: {"launches": sum(x.part == p for x in found), "agree": sum(x.part == p and x.agrees for x in found)}
              for p in _PARTS}  # fmt: skip
    return {"stalls": counts, "launches": [x for x in found if unblind or x.part == "train"]}


def data(found: KernelValidation, *, unblind: bool = False) -> dict[str, Any]:
    """Return the same for machines; single launches of the test set only where they are asked for."""
    shown = [p for p in found.points if unblind or p.part == "train"]
    rows = [{**msgspec.to_builtins(p), "error_percent": p.percent} for p in shown]
    names = ("gpu", "errors", "by_bound", "by_kind", "agreement", "coverage", "outdated")
    return {**{name: getattr(found, name) for name in names}, "worst": _worst(found, unblind), "points": rows}


def page(found: KernelValidation, machine: Machine) -> str:
    """Return the HTML page: tables, predicted against measured, error against time and against alpha."""
    ours = _first(found)
    mine = [p for p in found.points if p.run == ours]
    others = [e.model for e in found.errors if e.part == "test" and e.model not in OURS][:_PAPERS_SHOWN]
    others += ["roofline"] if "roofline" not in others and any(p.run == "roofline" for p in found.points) else []
    alphas = [against_alpha(name, [p for p in found.points if p.run == name]) for name in (ours, *others)]
    said = (
        "As Volkov's Figures 7.11 to 7.13: the error against alpha, the arithmetic instructions per access to global "
        "memory."
    )
    rows = [_error(e)[:8] for e in found.errors]
    sections = [
        Section("measured", "Measured", "Predicted against measured", figure(against_measured(ours, mine))),
        Section("time", "Time", "Error against time", figure(against_time(ours, mine))),
        Section("alpha", "Alpha", "Error against arithmetic per load", joined((tag("p", said), *map(figure, alphas)))),
        Section("models", "Models", "All models", markup.table(_HEAD[:8], rows, range(2, 8))),
    ]
    for short, title, groups in (("Limits", "By what limits", found.by_bound),
                                 ("Kinds", "By kind of kernel", found.by_kind)):  # fmt: skip
        cells = [_group(e) for e in groups if e.model == ours]
        body = markup.table(_GROUP_HEAD, cells, range(2, 8))
        sections.append(Section(short.lower(), short, f"{title} ({ours})", body))
    title = f"How far the models are off on {machine.name}"
    return document(title, tag("header", tag("h1", title), *(tag("p", text) for text in _leads(found))), sections)


def against_measured(name: str, points: Sequence[Point]) -> Plot:
    """Plot predicted against measured time, with the diagonal and 20 % to both sides."""
    x = [1e6 * p.measured_seconds for p in points] or [1.0]
    ends = [min(x), max(x)]
    series = _by_part(points, lambda p: 1e6 * p.measured_seconds, lambda p: 1e6 * p.seconds)
    lines = {"as measured": 1.0, "20 % longer": 1 + _NEAR / 100, "20 % shorter": 1 - _NEAR / 100}
    series += [line(label, ends, [factor * at for at in ends]) for label, factor in lines.items()]
    return Plot(f"{name}: predicted against measured", "measured, us", "predicted, us", series, log_x=True, log_y=True)


def against_time(name: str, points: Sequence[Point]) -> Plot:
    """Plot the error against the measured time."""
    series = _by_part(points, lambda p: 1e6 * p.measured_seconds, lambda p: p.percent)
    return Plot(f"{name}: error against time", "measured, us", "error, %", series, log_x=True, y_max=100)


def against_alpha(name: str, points: Sequence[Point]) -> Plot:
    """Plot the error against arithmetic per access; kernels without the one or the other are left out."""
    series = _by_part([p for p in points if 0 < p.alpha < float("inf")], lambda p: p.alpha, lambda p: p.percent)
    title = f"{name}: error against alpha"
    return Plot(title, "arithmetic instructions per access", "error, %", series, log_x=True, y_max=100)


def _by_part(points: Sequence[Point], x: Callable[[Point], float], y: Callable[[Point], float]) -> list[Series]:
    """Return the points of each set."""
    sets = [[p for p in points if p.part == part] for part in _PARTS]
    return [line(part, list(map(x, s)), list(map(y, s)), "points") for part, s in zip(_PARTS, sets, strict=True)]


def _first(found: KernelValidation) -> str:
    """Return the model that the details are of: ours where it is there, else the best."""
    runs = {p.run for p in found.points}
    return next((name for name in OURS if name in runs), found.errors[0].model)


def _worst(found: KernelValidation, unblind: bool) -> list[Point]:
    """Return the launches that are furthest off; of the test set only where that is asked for."""
    if not unblind:
        return found.worst
    mine = [p for p in found.points if p.run == _first(found)]
    return sorted(mine, key=lambda p: -abs(p.log_ratio))[: len(found.worst)]


def _leads(found: KernelValidation) -> list[str]:
    return [
        *(f"{e.model}: {e.mean_percent:.1f} % mean error over {e.launches} launches of the {e.part} set"
          for e in found.errors if e.model == _first(found)),
        *map(_agrees, found.agreement),
        *map(_covers, found.coverage),
    ]  # fmt: skip


def _agrees(a: Agreement) -> str:
    return (
        f"warplens-fast is within 5 % of warplens on {a.within_5_percent:.0f} % of {a.launches} launches of the "
        f"{a.part} set ({a.mean_percent:.1f} % apart in the mean)"
    )


def _covers(c: Coverage) -> str:
    left = ", each kernel left out in turn" if c.part == "train" else ""
    return (
        f"the 90 % interval of {c.model} holds on {c.covered_percent:.0f} % of {c.launches} launches of the {c.part} "
        f"set{left}; high over low {number(c.median_width, 3)} in the median"
    )


def _group(e: KernelError) -> list[str]:
    return [
        e.group, e.part, str(e.launches), str(e.kernels), f"{e.mean_percent:.1f} %", f"{e.median_percent:.1f} %",
        f"{e.bias_percent:+.1f} %", f"{e.within_20_percent:.0f} %",
    ]  # fmt: skip
