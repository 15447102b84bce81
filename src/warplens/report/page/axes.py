"""Pictures in SVG, with axes: drawn twice, wide and for a narrow screen, so that letters keep their size.

Colours come from the page's style, so that a picture follows the theme. Every mark that says a number can be reached
with the keyboard and has its origin as a title.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from warplens.report.page.markup import Markup, joined, tag, text

WIDE, NARROW = 720, 330  # pixels


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
        return told(why, reach, spot, class_=class_)

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


def told(why: str, *children: object, **attributes: str | float | None) -> Markup:
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
    made = []
    for width, class_ in ((WIDE, "wide"), (NARROW, "narrow")):
        height, content = draw(width)
        made.append(
            tag("svg", content, class_=f"picture {class_}", viewBox=f"0 0 {width:g} {height:g}", role="group",
                aria_label=alternative, width=width, height=height)
        )  # fmt: skip
    return joined(made)


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


def apart(wanted: Sequence[float], least: float) -> list[float]:
    """Return places (in pixels, downwards) moved so that they keep a least distance, in the order given."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    found = list(wanted)
    for before, after in pairwise(order):
        found[after] = max(found[after], found[before] + least)
    return found


def plain(alternative: object) -> Markup:
    """Return a text alternative that is read, not seen."""
    return tag("p", text(alternative), class_="unseen")
