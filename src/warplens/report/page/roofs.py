"""The picture of the roofline: a slope per level of memory, a roof per unit, a point per level."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warplens.core.units import number, quantity
from warplens.report.page import origins
from warplens.report.page.axes import Axes, axes, decades, picture
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, more, table, tag, value
from warplens.report.page.roofline import Level, Roofline

_NEAR = 1.1  # slopes as close as this cover each other: the later one is dashed
_WIDE = 90  # pixels of a level's name
_COLOURS = {"DRAM": "c-blue", "L2": "c-cyan", "L1": "c-teal", "shared memory": "c-orange"}


def roofs(content: Content) -> Markup:
    """Return the section on the roofline."""
    r = content.roofline
    if r is None or not r.roofs:
        return tag(
            "p", content.missing.get("roofline", "the machine file has no rate for its arithmetic"), class_="dim"
        )
    rate = quantity(r.operations_per_second, f"{_short(r)}/s", 3)
    nearest = max(r.levels, key=lambda level: _used(r, level))
    highest = max(r.roofs, key=lambda roof: roof.per_second)
    share = r.operations_per_second / highest.per_second
    said = (
        f"{_rate(r.operations_per_second, r)} of at most {_rate(highest.per_second, r)} ({share:.0%}, {highest.name}). "
        f"The busiest level of memory is {nearest.name}, at {_used(r, nearest):.0%} of its rate."
    )
    made = picture(f"Roofline: {rate}. {said}", lambda width: _draw(content, r, width))
    figure = tag("figure", made, _key(content, r), tag("figcaption", said))
    return joined((figure, more("The numbers", _numbers(content, r))))


def _short(r: Roofline) -> str:
    return "flop" if r.unit == "flop" else "op"


def _rate(x: float, r: Roofline) -> str:
    return quantity(x, "flop/s", 3).replace("flop", _short(r))


def _used(r: Roofline, level: Level) -> float:
    """Return the share of a level's bandwidth that the predicted time uses."""
    return level.bytes * r.operations_per_second / r.operations / level.bytes_per_second


def _draw(content: Content, r: Roofline, width: float) -> tuple[float, Markup]:
    height = 330.0
    intensities = [r.operations / level.bytes for level in r.levels]
    top = max(roof.per_second for roof in r.roofs)
    ridges = [top / level.bytes_per_second for level in r.levels]
    x = 10 ** math.floor(math.log10(min(intensities) / 2)), 10 ** math.ceil(math.log10(max(*ridges, *intensities) * 2))
    low = min(r.operations_per_second / 3, min(x[0] * level.bytes_per_second for level in r.levels) * 3)
    y = 10 ** math.floor(math.log10(max(low, top / 1e5))), 10 ** math.ceil(math.log10(top * 1.5))
    a = axes(width, height, x, y, log_x=True, log_y=True)
    xs = [(v, f"{v:g}") for v in decades(*x, 8 if width > 400 else 4)]
    ys = [(v, _rate(v, r).removesuffix(f"{_short(r)}/s")) for v in decades(*y)]
    parts = [a.frame(xs, ys, (f"{_short(r)} per byte of each level", f"{_short(r)}/s"))]
    for roof in r.roofs:
        parts.append(a.line([(x[0], roof.per_second), (x[1], roof.per_second)], "roof"))
        label = f"{roof.name} {_rate(roof.per_second, r)}"
        parts.append(a.label((x[1], roof.per_second), label, (-4, -6), text_anchor="end", class_="l-roof"))
    starts = [max(x[0], y[0] / level.bytes_per_second) for level in r.levels]
    for k, (level, start) in enumerate(zip(r.levels, starts, strict=True)):
        slope, ridge = _COLOURS[level.name], top / level.bytes_per_second
        covers = any(_NEAR > level.bytes_per_second / other.bytes_per_second > 1 / _NEAR for other in r.levels[:k])
        parts.append(a.line([(start, start * level.bytes_per_second), (ridge, top)],
                            f"slope {slope}" + " near" * covers))  # fmt: skip
    for i, (level, intensity) in enumerate(zip(r.levels, intensities, strict=True)):  # equal ones stay visible
        why = f"{level.name}: {_told(content, r, level)}"
        parts.append(a.mark((intensity, r.operations_per_second), why, f"level {_COLOURS[level.name]}", 10 - 2 * i))
    return height, joined((*parts, *_names(a, r, intensities)))


def _names(a: Axes, r: Roofline, intensities: Sequence[float]) -> list[Markup]:
    """Return the name of each level below its point; those of points that are near stand one below the other."""
    made, taken = list[Markup](), list[tuple[float, int]]()
    for level, intensity in sorted(zip(r.levels, intensities, strict=True), key=lambda pair: pair[1]):
        x = a.x(intensity)
        row = next(k for k in range(len(r.levels)) if all(k != other or x - at > _WIDE for at, other in taken))
        taken.append((x, row))
        made.append(a.label((intensity, r.operations_per_second), level.name, (0, 24 + 14 * row),
                            text_anchor="middle", class_=f"l-level {_COLOURS[level.name]}"))  # fmt: skip
    return made


def _key(content: Content, r: Roofline) -> Markup:
    """Return which colour is which level, below the picture as elsewhere: in it, roofs and slopes would cross it."""
    return tag(
        "ul",
        *(
            tag("li", tag("i", class_=f"swatch {_COLOURS[level.name]}"),
                value(f"{level.name} {quantity(level.bytes_per_second, 'B/s', 3)}", _told(content, r, level)))
            for level in r.levels
        ),
        class_="key",
    )  # fmt: skip


def _told(content: Content, r: Roofline, level: Level) -> str:
    source = origins.number_of(content.machine, level.key) or level.key
    return (
        f"{quantity(level.bytes, 'B', 3)} moved, {number(r.operations / level.bytes, 3)} {_short(r)}/B, "
        f"{_used(r, level):.0%} of {quantity(level.bytes_per_second, 'B/s', 3)}. {source}"
    )


def _numbers(content: Content, r: Roofline) -> Markup:
    rows = [
        [level.name, quantity(level.bytes, "B", 3), number(r.operations / level.bytes, 3),
         quantity(level.bytes_per_second, "B/s", 3), f"{_used(r, level):.0%}",
         origins.number_of(content.machine, level.key) or level.key]
        for level in r.levels
    ]  # fmt: skip
    head = ["level", ("moved", "by the whole grid, counted by the emulator (docs/profile.md)"), f"{_short(r)} per byte",
            "bandwidth", ("used", "bytes moved / predicted time / bandwidth"), "source"]  # fmt: skip
    return table(head, rows, (1, 2, 3, 4), caption="levels of memory")
