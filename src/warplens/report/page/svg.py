"""SVG pictures with axes, and plots of series of numbers with a key and the numbers.

A picture is drawn twice, wide and for a narrow screen, so that letters keep their size. Colours come from the page's
style, so that it follows the theme. Every mark that says a number can be reached with the keyboard and has its origin
as a title.

Series of a plot differ by colour and by dashes or the shape of their marks, so that they can be told from each other in
black and white too. A logarithmic axis leaves out what is not above zero; `y_max` cuts the picture off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from warplens.core.units import number
from warplens.report.page.markup import Markup, joined, more, table, tag

WIDE, NARROW = 720, 330  # pixels
Kind = Literal["line", "points", "bar", "rule"]
Points = list[tuple[float, float]]
_HEIGHT = 300.0
_HUES = ("blue", "orange", "green", "red", "purple", "cyan", "pink", "grey")
_DASHES = (None, "8 4", "2 3", "9 3 2 3")  # of lines, in their order
_MARKS = ("h0", "m-4 0h8m-4-4v8", "m-3-3l6 6m0-6l-6 6", "m-3-3h6v6h-6z")  # dot, plus, cross, square
_MOST_ROWS = 40  # of the numbers of a line; those of points are all listed


class Scale(Struct, frozen=True):
    """From values to pixels, evenly or by logarithm."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def __call__(self, x: float) -> float:
        """Return the pixel of a value, kept within the picture."""
        return self.pixel(min(max(x, self.low), self.high))

    def pixel(self, x: float) -> float:
        """Return the pixel of a value, wherever it lies."""
        low, high = self.low, self.high
        share = math.log(x / low) / math.log(high / low) if self.log else (x - low) / (high - low)
        return round(self.first + share * (self.last - self.first), 1)


class Axes(Struct, frozen=True):
    """A frame with a scale each way."""

    width: float
    height: float
    x: Scale
    y: Scale

    def line(self, points: Iterable[tuple[float, float]], class_: str) -> Markup:
        """Return a line through points."""
        return tag("path", class_=class_, d=self._path(points))

    def area(self, upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]], class_: str) -> Markup:
        """Return the area between two lines."""
        return tag("path", class_=class_, d=self._path([*upper, *reversed(lower)]) + "z")

    def _path(self, points: Iterable[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.x(a):g} {self.y(b):g}" for a, b in points)

    def label(self, at: tuple[float, float], what: object, move: tuple[float, float] = (0, 0), **given: str) -> Markup:
        """Return text at a point, moved by so many pixels."""
        return tag("text", what, x=self.x(at[0]) + move[0], y=self.y(at[1]) + move[1], **given)

    def mark(self, at: tuple[float, float], why: str, class_: str, radius: float = 5) -> Markup:
        """Return a point that says what it is."""
        spot = tag("circle", cx=self.x(at[0]), cy=self.y(at[1]), r=radius)
        reach = tag("circle", cx=self.x(at[0]), cy=self.y(at[1]), r=12, class_="reach")
        return described(why, reach, spot, class_=class_)

    def frame(
        self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]], titles: tuple[str, str]
    ) -> Markup:
        """Return grid lines with their labels, and what the axes are."""
        x, y = self.x, self.y
        parts: list[Markup] = []
        for at, label in ys:
            parts.append(tag("path", class_="grid", d=f"M{x.first:g} {y(at):g}H{x.last:g}"))
            parts.append(tag("text", label, class_="tick", x=x.first - 6, y=y(at) + 4, text_anchor="end"))
        for at, label in xs:
            parts.append(tag("path", class_="grid", d=f"M{x(at):g} {y.first:g}V{y.last:g}"))
            parts.append(tag("text", label, class_="tick", x=x(at), y=y.first + 16, text_anchor="middle"))
        parts.append(tag("text", titles[0], class_="axis", x=x.last, y=y.first + 34, text_anchor="end"))
        parts.append(tag("text", titles[1], class_="axis", x=0, y=12))
        return joined(parts)


def described(why: str, *children: object, **attributes: str | float | None) -> Markup:
    """Return a group of SVG that says what it is when reached."""
    return tag("g", tag("title", why), *children, tabindex="0", role="img", aria_label=why, **attributes)


def axes(
    width: float, height: float, x: tuple[float, float], y: tuple[float, float], *,
    log_x: bool = False, log_y: bool = False,
) -> Axes:  # fmt: skip
    """Return axes over two ranges, with a margin for the labels."""
    left, right, top, bottom = 52 if log_y else 42, 14, 26, 42
    return Axes(width, height, Scale(*x, left, width - right, log_x), Scale(*y, height - bottom, top, log_y))


def picture(alternative: str, draw: Callable[[float], tuple[float, Markup]]) -> Markup:
    """Return a picture in both widths with its text alternative; `draw` takes a width, returns height and content."""
    images = []
    for width, class_ in ((WIDE, "wide"), (NARROW, "narrow")):
        height, content = draw(width)
        images.append(
            tag("svg", content, class_=f"picture {class_}", viewBox=f"0 0 {width:g} {height:g}", role="group",
                aria_label=alternative, width=width, height=height)
        )  # fmt: skip
    return joined(images)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values in a range, at most so many."""
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float, most: int = 8) -> list[float]:
    """Return powers of ten in a range, at most so many; where there are fewer than three, also 2 and 5 times them."""
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high) + 1e-9)
    powers = [10.0**k for k in range(first, last + 1) if 10.0**k >= low * (1 - 1e-9)]
    if len(powers) < 3:
        between = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
        powers = [x for x in between if low * (1 - 1e-9) <= x <= high * (1 + 1e-9)]
    return powers[:: max(1, math.ceil(len(powers) / most))]


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
    image = picture(
        f"{plot.title}: {plot.y} against {plot.x}; {', '.join(s.name for s in plot.series)}",
        lambda width: (_HEIGHT, _draw(plot, shown, width)),
    )
    entries = [
        tag("li", _sample(i, s), f"{s.name}, at {number(s.x[0], 3)}" if s.kind == "rule" and s.x else s.name)
        for i, s in enumerate(plot.series)
    ]
    key = tag("figcaption", tag("ul", *entries, class_="key"))
    numbers = more("The numbers", _numbers(plot), printed=False)
    return joined((tag("h3", plot.title), tag("figure", image, key), numbers))


def _points(s: Series, plot: Plot) -> Points:
    """Return the points that the axes can show; a line goes along x."""
    found = [(x, y) for x, y in zip(s.x, s.y, strict=True) if (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)]
    return sorted(found, key=lambda point: point[0]) if s.kind == "line" else found


def _draw(plot: Plot, shown: Sequence[Points], width: float) -> Markup:
    a = _axes(plot, shown, width)
    across, up = (decades if log else ticks for log in (plot.log_x, plot.log_y))
    bars = any(s.kind == "bar" for s in plot.series)  # they stand at whole numbers
    xs = [(x, _tick(x)) for x in across(a.x.low, a.x.high, 8 if width > 400 else 4) if not bars or x == round(x)]
    frame = a.frame(xs, [(y, _tick(y)) for y in up(a.y.low, a.y.high, 6)], (plot.x, plot.y))
    x, y, wide, high = a.x.first - 5, a.y.last - 5, a.x.last - a.x.first + 10, a.y.first - a.y.last + 10
    order = sorted(range(len(shown)), key=lambda i: plot.series[i].kind == "points")  # over the lines
    shapes = [_shape(i, s, tag("title", s.name), _path(a, i, plot, shown[i])) for i in order for s in [plot.series[i]]]
    inner = tag("svg", *shapes, x=x, y=y, width=wide, height=high, viewBox=f"{x:g} {y:g} {wide:g} {high:g}")
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


def _shape(i: int, s: Series, title: Markup | str, path: str) -> Markup:
    """Return the path of the series with this number in its colour and style."""
    dash = {"line": _DASHES[_style(i)], "rule": "4 3"}.get(s.kind)
    shapes = tag("path", d=path, stroke_dasharray=dash)
    kind = "dots" if s.kind == "points" and _style(i) == 0 else s.kind
    return tag("g", title, shapes, class_=f"series {kind} c-{_HUES[i % len(_HUES)]}")


def _sample(i: int, s: Series) -> Markup:
    """Return what a series looks like, for the key."""
    path = {"points": f"M14 6{_MARKS[_style(i)]}", "bar": "M9 1h10v10h-10z", "rule": "M14 0V12"}
    shapes = _shape(i, s, "", path.get(s.kind, "M0 6H28"))
    return tag("svg", shapes, class_="sample", width=28, height=12, aria_hidden="true")


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
