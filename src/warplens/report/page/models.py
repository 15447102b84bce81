"""The page of `warplens compare --html`: all models side by side, their throughput against occupancy, their terms."""

from __future__ import annotations

from warplens.core.errors import WarplensError
from warplens.core.units import number, seconds
from warplens.machine import Machine
from warplens.models import occupancy_curve
from warplens.models.comparison import Comparison
from warplens.report import terminal
from warplens.report.page.markup import Markup, Section, document, tag
from warplens.report.page.plot import Plot, figure, line
from warplens.report.page.stacks import models
from warplens.workload import Workload


def comparison(c: Comparison, workload: Workload, machine: Machine) -> str:
    """Return the page that puts all models side by side for one workload on one machine."""
    title = f"{c.workload} on {machine.name}"
    sections = [Section("models", "Models", "All models", models(c))]
    if not workload.kernels:
        curves = Section(
            "occupancy", "Occupancy", "Throughput against occupancy", figure(_curves(c, workload, machine))
        )
        sections.append(curves)
    return document(title, tag("header", tag("h1", title), *_lead(c)), sections)


def _lead(c: Comparison) -> list[Markup]:
    """Return the answer first, then how far apart the physically possible models are."""
    best, timed = c.headline, c.possible
    if best is None:
        return []
    parts = [tag("p", seconds(float(best.seconds or 0)), class_="answer")]
    if best.interval_seconds is not None:
        parts.append(tag("p", f"{terminal.sure(best.interval_seconds)}, by the errors of {best.interval_about}"))
    said = f"by {best.model}, limited by {best.limited_by}, {number(float(best.warps_per_sm))} warps per SM."
    if timed:
        low, high = min(timed, key=lambda k: timed[k]), max(timed, key=lambda k: timed[k])
        said += (
            f" The {len(timed)} models within the hardware's limits say {seconds(timed[low])} ({low}) to "
            f"{seconds(timed[high])} ({high})."
        )
    return [*parts, tag("p", said), *(tag("p", text) for text in (best.why_not_ours, *best.flags) if text)]


def _curves(c: Comparison, workload: Workload, machine: Machine) -> Plot:
    """Plot all models' throughput in units of the tightest throughput bound."""
    series, unit = [], 1.0
    for name in c.predictions:
        try:
            found = occupancy_curve(workload, machine, name)
        except WarplensError:
            continue
        unit = found.peak if name == "volkov" and found.peak else unit
        series.append(line(name, found.warps_per_sm, found.throughput_warps_per_cycle / unit))
    title = "throughput by all models, 1 = the tightest throughput bound"
    return Plot(title, "warps per SM", "share of the bound", series, y_max=2.0)
