"""Charts as SVG: series of numbers over a common pair of axes, with a key and the numbers as a table.

A picture is drawn twice, wide and for a narrow screen, so that letters keep their size. Colours come from the page's
style, so that it follows the theme. A mark that says a number can be reached with the keyboard and has its origin as a
title.

Series differ by colour and by dashes or the shape of their marks, so that they can be told from each other in black and
white too. A logarithmic axis leaves out what is not above zero; `y_max` cuts the picture off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from warplens.core.units import number
from warplens.report.page.markup import Markup, joined, more, table, tag, value

WIDE, NARROW = 720, 330  # pixels
Kind = Literal["line", "points", "bar", "rule", "area", "arrow", "spots"]
Points = list[tuple[float, float]]
_HEIGHT = 300.0
_MARGIN = 14, 26, 42  # right, top, bottom
_HUES = ("blue", "orange", "green", "red", "purple", "cyan", "pink", "grey")
_DASHES = (None, "8 4", "2 3", "9 3 2 3")  # of lines, in their order
_MARKS = ("h0", "m-4 0h8m-4-4v8", "m-3-3l6 6m0-6l-6 6", "m-3-3h6v6h-6z")  # dot, plus, cross, square
_MOST_ROWS = 40  # of the numbers of a line; those of points are all listed
_NAME = 14  # pixels: the height of a name beside a spot; a letter has half of that
_HEAD = 9, 0.45  # pixels of an arrow's head, and its angle


class Scale(Struct, frozen=True):
    """From values to pixels, evenly or by logarithm; also of values beyond the picture."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def __call__(self, x: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        share = math.log(x / low) / math.log(high / low) if self.log else (x - low) / (high - low)
        return round(self.first + share * (self.last - self.first), 1)


def described(why: str, *children: object, **attributes: str | float | None) -> Markup:
    """Return a group of SVG that says what it is when reached."""
    return tag("g", tag("title", why), *children, tabindex="0", role="img", aria_label=why, **attributes)


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
    """One line or set of marks of a plot.

    A rule is a vertical line at its x, an area the inside of a closed line, an arrow points to its last point, and
    spots are rings.
    """

    name: str
    x: list[float]
    y: list[float]
    kind: Kind = "line"


class Marked(Series, frozen=True):
    """A series with a colour of its own. `whys`: what each spot is when it is reached; of one only, also in the key.

    Its name stands below its spots where it is `named`; where spots cover each other, they differ in `radius`.
    """

    hue: str = ""
    whys: list[str] = []
    named: bool = False
    radius: float = 5


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


def figure(plot: Plot, *said: object, numbers: Markup | None = None) -> Markup:
    """Return a plot as a figure: title, picture for wide and narrow screens, key, what is `said`, the numbers folded.

    Without a title it stands below a heading that has it.
    """
    series = [s if isinstance(s, Marked) else Marked(*astuple(s)) for s in plot.series]
    shown = [_points(s, plot) for s in series]
    names = ", ".join(s.name for s in series)
    image = picture(
        f"{plot.title or 'Plot'}: {plot.y} against {plot.x}; {names}",
        lambda width: (_HEIGHT, _draw(plot, series, shown, width)),
    )
    entries = [
        tag("li", _sample(i, s), value(s.name, s.whys[0]) if len(s.whys) == 1
            else f"{s.name}, at {number(s.x[0], 3)}" if s.kind == "rule" and s.x else s.name)
        for i, s in enumerate(series) if not s.named
    ]  # fmt: skip
    key = tag("figcaption", tag("ul", *entries, class_="key"), *said)
    title = tag("h3", plot.title) if plot.title else ""
    folded = more("The numbers", _numbers(plot) if numbers is None else numbers, printed=numbers is not None)
    return joined((title, tag("figure", image, key), folded))


def _points(s: Series, plot: Plot) -> Points:
    """Return the points that the axes can show; a line goes along x."""
    found = [(x, y) for x, y in zip(s.x, s.y, strict=True) if (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)]
    return sorted(found, key=lambda point: point[0]) if s.kind == "line" else found


def _draw(plot: Plot, series: Sequence[Marked], shown: Sequence[Points], width: float) -> Markup:
    x, y = _scales(plot, shown, width)
    across, up = (decades if log else ticks for log in (plot.log_x, plot.log_y))
    bars = sum(s.kind == "bar" for s in series)  # they stand at whole numbers
    at_x = [at for at in across(x.low, x.high, 8 if width > 400 else 4) if not bars or at == round(at)]
    parts = [tag("text", plot.y, class_="axis", x=0, y=12), *columns(x, at_x, y.last, y.first, plot.x)]
    for at in up(y.low, y.high, 6):
        parts.append(tag("path", class_="grid", d=f"M{x.first:g} {y(at):g}H{x.last:g}"))
        parts.append(tag("text", _tick(at), class_="tick", x=x.first - 6, y=y(at) + 4, text_anchor="end"))
    order = sorted(range(len(shown)), key=lambda i: series[i].kind in ("points", "spots"))  # over the lines
    wide = min(20.0, 0.7 * (x.last - x.first) / (x.high - x.low) / max(1, bars))
    left, shapes, names = -wide * bars / 2, list[Markup](), list[tuple[float, float, Marked]]()
    for i in order:
        s, at_pixels = series[i], [(x(a), y(b)) for a, b in shown[i]]
        if s.kind == "spots":
            names += [(a, b, s) for a, b in at_pixels if s.named]
            for (a, b), why in zip(at_pixels, s.whys, strict=True):
                rings = [tag("circle", cx=a, cy=b, r=r, class_=c) for r, c in ((12, "reach"), (s.radius, None))]
                shapes.append(described(why, *rings, class_=f"series spots {_colour(i, s)}"))
        else:
            shapes.append(_shape(i, s, tag("title", s.name), _path(i, s, at_pixels, y, (left, wide))))
        left += wide * (s.kind == "bar")  # bars at one x stand side by side
    box = x.first - 8, y.last - 8, x.last - x.first + 16, y.first - y.last + 16
    view = "{:g} {:g} {:g} {:g}".format(*box)
    cut = dict(zip(("x", "y", "width", "height"), box, strict=True))
    inner = tag("svg", *shapes, **cut, viewBox=view)  # cuts off what lies beyond the axes
    return joined((*parts, inner, *_named(names, x.last, y.first)))


def columns(x: Scale, ticks: Sequence[float], top: float, bottom: float, title: str) -> list[Markup]:
    """Return the grid of an x axis, from top to bottom, with its numbers and its title below."""
    parts = [tag("text", title, class_="axis", x=x.last, y=bottom + 34, text_anchor="end")]
    for at in ticks:
        parts.append(tag("path", class_="grid", d=f"M{x(at):g} {top:g}V{bottom:g}"))
        parts.append(tag("text", _tick(at), class_="tick", x=x(at), y=bottom + 16, text_anchor="middle"))
    return parts


def _path(i: int, s: Marked, at: Points, y: Scale, bar: tuple[float, float]) -> str:
    """Return the path of the series with this number; `bar`: where a bar begins beside its x, and its width."""
    if s.kind == "bar":
        return "".join(f"M{x + bar[0]:.1f} {y.first:g}V{top:g}h{bar[1] - 1:.1f}V{y.first:g}z" for x, top in at)
    if s.kind == "rule":
        return "".join(f"M{x:g} {y.first:g}V{y.last:g}" for x, _ in at)
    if s.kind == "points":
        return "".join(f"M{x:g} {top:g}{_MARKS[_style(i)]}" for x, top in at)
    if not at:
        return ""
    end = _head(*at[-2:]) if s.kind == "arrow" else "z" if s.kind == "area" else ""
    return "M" + "L".join(f"{x:g} {top:g}" for x, top in _bends(at)) + end


def _head(begin: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the head of an arrow."""
    angle, (x, y), (length, half) = math.atan2(end[1] - begin[1], end[0] - begin[0]), end, _HEAD
    tips = [(x - length * math.cos(a), y - length * math.sin(a)) for a in (angle - half, angle + half)]
    return f"M{tips[0][0]:.1f} {tips[0][1]:.1f}L{x:g} {y:g}L{tips[1][0]:.1f} {tips[1][1]:.1f}"


def _named(spots: Sequence[tuple[float, float, Marked]], right: float, bottom: float) -> list[Markup]:
    """Return the names of spots, each below its own, or above it near the bottom; where they are near, in a column."""
    names, taken = list[Markup](), list[tuple[float, float, float]]()
    for x, y, s in sorted(spots, key=lambda spot: spot[:2]):
        step = _NAME if y < bottom - 3 * _NAME else -_NAME
        wide, at = len(s.name) * _NAME / 2, y + (1.4 if step > 0 else 0.8) * step
        first = x - 7 - wide if x + wide > right else x + 7
        while any(abs(at - row) < _NAME and first < end and begin < first + wide for row, begin, end in taken):
            at += step
        taken.append((at, first, first + wide))
        side = {"x": x - 7, "text_anchor": "end"} if first < x else {"x": x + 7}
        names.append(tag("text", s.name, y=at, **side))
    return names


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


def _colour(i: int, s: Marked) -> str:
    return f"c-{s.hue or _HUES[i % len(_HUES)]}"


def _shape(i: int, s: Marked, title: Markup | str, path: str) -> Markup:
    """Return the path of the series with this number in its colour and style."""
    dash = {"line": _DASHES[_style(i)], "rule": "4 3"}.get(s.kind)
    shapes = tag("path", d=path, stroke_dasharray=dash)
    kind = "dots" if s.kind == "points" and _style(i) == 0 else s.kind
    return tag("g", title, shapes, class_=f"series {kind} {_colour(i, s)}")


def _sample(i: int, s: Marked) -> Markup:
    """Return what a series looks like, for the key."""
    path = {
        "points": f"M14 6{_MARKS[_style(i)]}", "bar": "M9 1h10v10h-10z", "rule": "M14 0V12", "area": "M4 1h20v10h-20z",
        "spots": "M19 6a5 5 0 1 0 -10 0a5 5 0 1 0 10 0z", "arrow": f"M2 6H26{_head((2, 6), (26, 6))}",
    }  # fmt: skip
    shapes = _shape(i, s, "", path.get(s.kind, "M0 6H28"))
    return tag("svg", shapes, class_="sample", width=28, height=12, aria_hidden="true")


def _scales(plot: Plot, shown: Sequence[Points], width: float) -> tuple[Scale, Scale]:
    """Return scales over all points: x as far as they go, y from zero or, by logarithm, from a power of ten."""
    x = [p[0] for points in shown for p in points] or [1.0]
    y = [p[1] for s, points in zip(plot.series, shown, strict=True) if s.kind != "rule" for p in points] or [1.0]
    beside = 0.5 if any(s.kind == "bar" for s in plot.series) else 0.0
    first, last = min(x) - beside, max(x) + beside
    if first == last:
        first, last = first / 2, last * 2 or 1.0
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
    right, top, bottom = _MARGIN
    left = 52 if plot.log_y else 42
    return Scale(first, last, left, width - right, plot.log_x), Scale(low, high, _HEIGHT - bottom, top, plot.log_y)


def _tick(x: float) -> str:
    """Write a number at an axis as short as it can be: `25k`."""
    for least, factor, prefix in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(x) >= least:
            return f"{number(x / factor, 3)}{prefix}"
    return number(x, 3)


def _numbers(plot: Plot) -> Markup:
    """Return the points as a table: a row per x, a column per series, some forty rows of a longer line."""
    series = [s for s in plot.series if s.kind in ("line", "points", "bar")]
    rows: dict[float, list[str]] = {}
    for column, s in enumerate(series):
        each = max(1, math.ceil(len(s.x) / _MOST_ROWS)) if s.kind == "line" else 1
        for i in {*range(0, len(s.x), each), len(s.x) - 1} if s.x else ():
            cells = rows.setdefault(float(f"{s.x[i]:.5g}"), [""] * len(series))
            cells[column] += f"{', ' if cells[column] else ''}{number(s.y[i])}"
    head = [plot.x, *(s.name for s in series)]
    return table(head, [[number(x), *cells] for x, cells in sorted(rows.items())], range(len(head)), caption=plot.title)
