"""Plots: series of numbers over a pair of axes, drawn with the page's own SVG, with a key and the numbers.

Series differ by colour and by dashes or the shape of their marks, so that they can be told from each other in black
and white too. A logarithmic axis leaves out what is not above zero; `y_max` cuts the picture off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from warplens.core.units import number
from warplens.report.page.axes import Axes, axes, decades, picture, ticks
from warplens.report.page.markup import Markup, joined, more, table, tag

Kind = Literal["line", "points", "bar", "rule"]
Points = list[tuple[float, float]]
_HEIGHT = 300.0
_HUES = ("blue", "orange", "green", "red", "purple", "cyan", "pink", "grey")
_DASHES = (None, "8 4", "2 3", "9 3 2 3")  # of lines, in their order
_MARKS = ("h0", "m-4 0h8m-4-4v8", "m-3-3l6 6m0-6l-6 6", "m-3-3h6v6h-6z")  # dot, plus, cross, square
_MOST_ROWS = 40  # of the numbers of a line; those of points are all listed


class Series(Struct, frozen=True):
    """One line or set of points of a plot; a rule is a vertical line at its x."""

    name: str
    x: list[float]
    y: list[float]
    kind: Kind = "line"


class Plot(Struct, frozen=True):
    """One picture: series over a common pair of axes."""

    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = False
    log_y: bool = False
    y_max: float | None = None


def line(name: str, x: Any, y: Any, kind: Kind = "line") -> Series:
    """Return a series from arrays, without points that are not finite."""
    xs, ys = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    keep = np.isfinite(xs) & np.isfinite(ys)
    return Series(name, xs[keep].tolist(), ys[keep].tolist(), kind)


def figure(plot: Plot) -> Markup:
    """Return a plot as a figure: its title, the picture for wide and narrow screens, the key, the numbers folded."""
    shown = [_points(s, plot) for s in plot.series]
    made = picture(
        f"{plot.title}: {plot.y} against {plot.x}; {', '.join(s.name for s in plot.series)}",
        lambda width: (_HEIGHT, _draw(plot, shown, width)),
    )
    entries = [
        tag("li", _sample(i, s), f"{s.name}, at {number(s.x[0], 3)}" if s.kind == "rule" and s.x else s.name)
        for i, s in enumerate(plot.series)
    ]
    key = tag("figcaption", tag("ul", *entries, class_="key"))
    numbers = more("The numbers", _numbers(plot), printed=False)
    return joined((tag("h3", plot.title), tag("figure", made, key), numbers))


def _points(s: Series, plot: Plot) -> Points:
    """Return the points that the axes can show; a line goes along x."""
    found = [(x, y) for x, y in zip(s.x, s.y, strict=True) if (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)]
    return sorted(found, key=lambda point: point[0]) if s.kind == "line" else found


def _draw(plot: Plot, shown: Sequence[Points], width: float) -> Markup:
    a = _axes(plot, shown, width)
    across, up = (decades if log else ticks for log in (plot.log_x, plot.log_y))
    xs = [(x, _tick(x)) for x in across(a.x.low, a.x.high, 8 if width > 400 else 4)]
    frame = a.frame(xs, [(y, _tick(y)) for y in up(a.y.low, a.y.high, 6)], (plot.x, plot.y))
    x, y, wide, high = a.x.first - 5, a.y.last - 5, a.x.last - a.x.first + 10, a.y.first - a.y.last + 10
    order = sorted(range(len(shown)), key=lambda i: plot.series[i].kind == "points")  # over the lines
    drawn = [_drawn(i, s, tag("title", s.name), _path(a, i, plot, shown[i])) for i in order for s in [plot.series[i]]]
    inner = tag("svg", *drawn, x=x, y=y, width=wide, height=high, viewBox=f"{x:g} {y:g} {wide:g} {high:g}")
    return joined((frame, inner))  # an inner SVG cuts off what lies beyond the axes


def _path(a: Axes, i: int, plot: Plot, points: Points) -> str:
    """Return the path of the series with this number; bars at one x stand side by side."""
    at = [(a.x.pixel(x), a.y.pixel(y)) for x, y in points]
    foot, kind = f"{a.y.first:g}", plot.series[i].kind
    if kind == "bar":
        bars = [k for k, s in enumerate(plot.series) if s.kind == "bar"]
        wide = min(20.0, 0.7 * (a.x.last - a.x.first) / (a.x.high - a.x.low) / len(bars))
        left = wide * (bars.index(i) - len(bars) / 2)
        return "".join(f"M{x + left:.1f} {foot}V{y:g}h{wide - 1:.1f}V{foot}z" for x, y in at)
    if kind == "rule":
        return "".join(f"M{x:g} {foot}V{a.y.last:g}" for x, _ in at)
    if kind == "points":
        return "".join(f"M{x:g} {y:g}{_MARKS[_style(i)]}" for x, y in at)
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in _bends(at)) if at else ""


def _bends(points: Points) -> Points:
    """Return the points of a line without those that lie on it anyway, to a tenth of a pixel."""
    kept = points[:1]
    for (x, y), (x1, y1) in pairwise(points[1:]):
        x0, y0 = kept[-1]
        if abs((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) > 0.1 * math.hypot(x1 - x0, y1 - y0):
            kept.append((x, y))
    return [*kept, *points[1:][-1:]]


def _style(i: int) -> int:
    """Return which of four styles a series has: no two of 32 have both colour and style in common."""
    return (i + i // len(_HUES)) % 4


def _drawn(i: int, s: Series, title: Markup | str, path: str) -> Markup:
    """Return the path of the series with this number in its colour and style."""
    dash = {"line": _DASHES[_style(i)], "rule": "4 3"}.get(s.kind)
    drawn = tag("path", d=path, stroke_dasharray=dash)
    kind = "dots" if s.kind == "points" and _style(i) == 0 else s.kind
    return tag("g", title, drawn, class_=f"series {kind} c-{_HUES[i % len(_HUES)]}")


def _sample(i: int, s: Series) -> Markup:
    """Return what a series looks like, for the key."""
    path = {"points": f"M14 6{_MARKS[_style(i)]}", "bar": "M9 1h10v10h-10z", "rule": "M14 0V12"}
    drawn = _drawn(i, s, "", path.get(s.kind, "M0 6H28"))
    return tag("svg", drawn, class_="sample", width=28, height=12, aria_hidden="true")


def _axes(plot: Plot, shown: Sequence[Points], width: float) -> Axes:
    """Return axes over all points: x as far as they go, y from zero or, by logarithm, from a power of ten."""
    x = [p[0] for points in shown for p in points] or [1.0]
    y = [p[1] for s, points in zip(plot.series, shown, strict=True) if s.kind != "rule" for p in points] or [1.0]
    beside = 0.5 if any(s.kind == "bar" for s in plot.series) else 0.0
    left, right = min(x) - beside, max(x) + beside
    if left == right:
        left, right = left / 2, right * 2 or 1.0
    high = max(y) if plot.y_max is None else plot.y_max
    if plot.log_y:
        low, high = 10.0 ** math.floor(math.log10(min(y))), 10.0 ** math.ceil(math.log10(high) - 1e-9)
    else:
        low = min(0.0, *y)
    high = high if high > low else 10 * low or 1.0
    if plot.y_max is None and not plot.log_y:
        grid = ticks(low, high, 6)
        step = grid[1] - grid[0]
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return axes(width, _HEIGHT, (left, right), (low, high), log_x=plot.log_x, log_y=plot.log_y)


def _tick(x: float) -> str:
    """Write a number at an axis as short as it can be: `25k`."""
    for least, factor, prefix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(x) >= least:
            return f"{number(x / factor, 3)}{prefix}"
    return number(x, 3)


def _numbers(plot: Plot) -> Markup:
    """Return the points as a table: a row per x, a column per series, some forty rows of a longer line."""
    series = [s for s in plot.series if s.kind != "rule"]
    rows: dict[float, list[str]] = {}
    for column, s in enumerate(series):
        each = max(1, math.ceil(len(s.x) / _MOST_ROWS)) if s.kind == "line" else 1
        for i in {*range(0, len(s.x), each), len(s.x) - 1} if s.x else ():
            cells = rows.setdefault(float(f"{s.x[i]:.5g}"), [""] * len(series))
            cells[column] += f"{', ' if cells[column] else ''}{number(s.y[i])}"
    head = [plot.x, *(s.name for s in series)]
    return table(head, [[number(x), *cells] for x, cells in sorted(rows.items())], range(len(head)), caption=plot.title)
