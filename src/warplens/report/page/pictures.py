"""Pictures of the two curves of a kernel: throughput against occupancy, and the roofline, each with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warplens.core.units import number, quantity
from warplens.report.page.content import Content, number_source
from warplens.report.page.curves import Level, OccupancyCurve, Point, Roofline
from warplens.report.page.markup import Markup, joined, more, seconds, table, tag, value
from warplens.report.page.svg import Axes, axes, decades, picture, ticks

_TOP = 1.25  # of the throughput bound: the upper edge of the picture
_NEAR = 1.1  # slopes as close as this cover each other: the later one is dashed
_WIDE = 90  # pixels of a level's name
_COLOURS = {"DRAM": "c-blue", "L2": "c-cyan", "L1": "c-teal", "shared memory": "c-orange"}


def occupancy(content: Content) -> Markup:
    """Return the picture of throughput against occupancy: both bounds, the curve with its band, where the kernel is."""
    c = content.curve
    if c is None:
        return tag("p", content.missing.get("curve", "unknown"), class_="dim")
    reached = "never" if c.reached_warps is None else f"from {number(c.reached_warps, 3)} warps per SM on"
    alternative = (
        f"Throughput against warps per SM. Within 5 % of the throughput bound: {reached}. "
        f"Now: {number(c.now.warps_per_sm)} warps per SM."
    )
    rows = [
        [number(x.warps_per_sm), seconds(x.seconds), number(x.predicted, 3), number(x.by_latency, 3),
         number(x.by_throughput, 3)]
        for x in c.points
    ]  # fmt: skip
    head = ["warps per SM", ("time", f"by {c.model}"), ("warps per cycle and SM", f"by {c.model}"),
            ("by latency alone", "warps of the SM / the latency limit"),
            ("by throughput alone", "warps of the SM / the largest other limit")]  # fmt: skip
    numbers = table(head, rows, range(5), caption="throughput at some occupancies")
    image = picture(alternative, lambda width: draw_occupancy(c, width))
    return joined((tag("figure", image, tag("figcaption", *say_occupancy(c))), more("The numbers", numbers)))


def _bound(c: OccupancyCurve) -> float:
    """Return the throughput bound at the operating point: what 100 % is."""
    bound = c.now.by_throughput
    return bound if math.isfinite(bound) and bound > 0 else max(x.predicted for x in (*c.points, c.now))


def draw_occupancy(c: OccupancyCurve, width: float) -> tuple[float, Markup]:
    """Return the height and the picture."""
    height, top = 300.0, _bound(c)
    a = axes(width, height, (0, c.warps_max), (0, _TOP))
    xs = [(x, number(x)) for x in ticks(0, c.warps_max, 8 if width > 400 else 4)]
    ys = [(y / 100, f"{y} %") for y in (0, 25, 50, 75, 100)]
    curve = [(0.0, 0.0), *((x.warps_per_sm, x.predicted / top) for x in c.points)]
    latency = [(0.0, 0.0), *((x.warps_per_sm, min(9.0, x.by_latency / top)) for x in c.points)]
    bound = [(x.warps_per_sm, x.by_throughput / top) for x in c.points]
    bound = [(0.0, bound[0][1]), *bound, (c.warps_max, bound[-1][1])]
    parts = [a.frame(xs, ys, ("warps per SM", "throughput, of the throughput bound"))]
    if c.band is not None:
        low, high = c.band
        parts.append(a.area([(x, y * high) for x, y in curve], [(x, y * low) for x, y in curve], "band"))
    parts += [a.line(_clipped(latency, _TOP), "latency"), a.line(bound, "throughput"), a.line(curve, "curve")]
    parts += [a.mark((x.warps_per_sm, x.predicted / top), _describe(x, top, c.model), "point", 3) for x in c.points]
    if c.needed_warps is not None:
        warps = c.needed_warps
        meet = f"bounds meet: {number(warps, 3)}"
        parts.append(tag("path", class_="needed", d=f"M{a.x(warps):g} {a.y.first:g}V{a.y.last:g}"))
        parts.append(_beside(a, (warps, 0.0), meet, "l-needed", (6, -8), left=a.x(warps) > 0.7 * a.width))
    parts.append(a.label((0.6 * c.warps_max, bound[-1][1]), "throughput bound", (0, -8), class_="l-throughput"))
    at = _clipped(latency, 0.7)[-1]
    left = a.x(at[0]) > 150
    parts.append(_beside(a, at, "latency bound", "l-latency", (8, -2) if left else (10, 14), left=left))
    now = c.now.warps_per_sm, c.now.predicted / top
    parts.append(a.mark(now, "now: " + _describe(c.now, top, "the answer"), "now", 7))
    parts.append(_beside(a, now, "now", "l-now", (12, 20), left=c.now.warps_per_sm > 0.8 * c.warps_max))
    return height, joined(parts)


def _beside(
    a: Axes, at: tuple[float, float], what: str, class_: str, move: tuple[float, float], *, left: bool
) -> Markup:
    """Return a name right of a point, or left of it."""
    across, down = move
    return a.label(at, what, (-across if left else across, down), class_=class_, text_anchor="end" if left else "start")


def _clipped(points: list[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """Return a rising line up to the top of the picture."""
    kept: list[tuple[float, float]] = []
    for x, y in points:
        if y <= top:
            kept.append((x, y))
            continue
        x0, y0 = kept[-1]
        return [*kept, (x0 + (x - x0) * (top - y0) / (y - y0), top)]
    return kept


def _describe(x: Point, top: float, by: str) -> str:
    """Say what a point of the curve is."""
    shares = (f"{y / top:.0%}" if math.isfinite(y / top) else "any" for y in (x.by_latency, x.by_throughput))
    latency, throughput = shares
    return (
        f"{number(x.warps_per_sm)} warps per SM: {x.predicted / top:.0%} of the throughput bound, "
        f"{seconds(x.seconds)} by {by}; latency alone allows {latency}, throughput alone {throughput}"
    )


def say_occupancy(c: OccupancyCurve) -> list[object]:
    """Say in words what the picture shows."""
    why = f"where the curve of {c.model} first comes within 5 % of the throughput bound, between the dots"
    if c.reached_warps is None:
        share = c.now.predicted / _bound(c)
        said: list[object] = [
            f"The kernel stays below 95 % of the throughput bound at any occupancy; now it has {share:.0%}."
        ]
    else:
        reached = value(f"{number(c.reached_warps, 3)} warps per SM", why)
        have = f"the kernel has {number(c.now.warps_per_sm)}"
        said = ["The kernel comes within 5 % of the throughput bound from ", reached, f" on; {have}."]
    if c.needed_warps is not None:
        meet = value(f"{number(c.needed_warps, 3)} warps", "Volkov 2016 §3.10: the least that could hide the latency")
        said += [" The two bounds meet at ", meet, ": fewer cannot hide the latency; near there, both cost time."]
    band = " The band is the 90 % interval of the answer, carried along the curve." if c.band else ""
    dots = f" Dots are predicted by {c.model}" + ("; the ring is the answer itself." if c.now.predicted else ".")
    return [*said, dots, band]


def roofline(content: Content) -> Markup:
    """Return the picture of the roofline: a slope per level of memory, a roof per unit, a point per level."""
    r = content.roofline
    if r is None or not r.roofs:
        why = content.missing.get("roofline", "the machine file has no rate for its arithmetic")
        return tag("p", why, class_="dim")
    rate = quantity(r.operations_per_second, f"{_operation(r)}/s", 3)
    nearest = max(r.levels, key=lambda level: _used(r, level))
    highest = max(r.roofs, key=lambda roof: roof.per_second)
    share = r.operations_per_second / highest.per_second
    said = (
        f"{_rate(r.operations_per_second, r)} of at most {_rate(highest.per_second, r)} ({share:.0%}, {highest.name}). "
        f"The busiest level of memory is {nearest.name}, at {_used(r, nearest):.0%} of its rate."
    )
    origins = {level.name: number_source(content.machine, level.key) or level.key for level in r.levels}
    whys = {
        level.name: f"{quantity(level.bytes, 'B', 3)} moved, {number(r.operations / level.bytes, 3)} {_operation(r)}/B,"
        f" {_used(r, level):.0%} of {quantity(level.bytes_per_second, 'B/s', 3)}. {origins[level.name]}"
        for level in r.levels
    }
    image = picture(f"Roofline: {rate}. {said}", lambda width: draw_roofline(r, whys, width))
    entries = [
        tag("li", tag("i", class_=f"swatch {_COLOURS[level.name]}"),
            value(f"{level.name} {quantity(level.bytes_per_second, 'B/s', 3)}", whys[level.name]))
        for level in r.levels
    ]  # fmt: skip
    rows = [
        [level.name, quantity(level.bytes, "B", 3), number(r.operations / level.bytes, 3),
         quantity(level.bytes_per_second, "B/s", 3), f"{_used(r, level):.0%}", origins[level.name]]
        for level in r.levels
    ]  # fmt: skip
    head = ["level", ("moved", "by the whole grid, counted by the emulator (docs/explain/emulator.md)"),
            f"{_operation(r)} per byte", "bandwidth", ("used", "bytes moved / predicted time / bandwidth"),
            "source"]  # fmt: skip
    figure = tag("figure", image, tag("ul", *entries, class_="key"), tag("figcaption", said))
    return joined((figure, more("The numbers", table(head, rows, (1, 2, 3, 4), caption="levels of memory"))))


def _operation(r: Roofline) -> str:
    return "flop" if r.unit == "flop" else "op"


def _rate(x: float, r: Roofline) -> str:
    return quantity(x, "flop/s", 3).replace("flop", _operation(r))


def _used(r: Roofline, level: Level) -> float:
    """Return the share of a level's bandwidth that the predicted time uses."""
    return level.bytes * r.operations_per_second / r.operations / level.bytes_per_second


def draw_roofline(r: Roofline, whys: dict[str, str], width: float) -> tuple[float, Markup]:
    """Return the height and the picture; `whys`: by level, what its point is."""
    height, unit = 330.0, f"{_operation(r)}/s"
    intensities = [r.operations / level.bytes for level in r.levels]
    top = max(roof.per_second for roof in r.roofs)
    ridges = [top / level.bytes_per_second for level in r.levels]
    x = 10 ** math.floor(math.log10(min(intensities) / 2)), 10 ** math.ceil(math.log10(max(*ridges, *intensities) * 2))
    low = min(r.operations_per_second / 3, min(x[0] * level.bytes_per_second for level in r.levels) * 3)
    y = 10 ** math.floor(math.log10(max(low, top / 1e5))), 10 ** math.ceil(math.log10(top * 1.5))
    a = axes(width, height, x, y, log_x=True, log_y=True)
    xs = [(v, f"{v:g}") for v in decades(*x, 8 if width > 400 else 4)]
    parts = [a.frame(xs, [(v, _rate(v, r).removesuffix(unit)) for v in decades(*y)],
                     (f"{_operation(r)} per byte of each level", unit))]  # fmt: skip
    for roof in r.roofs:
        parts.append(a.line([(x[0], roof.per_second), (x[1], roof.per_second)], "roof"))
        label = f"{roof.name} {_rate(roof.per_second, r)}"
        parts.append(a.label((x[1], roof.per_second), label, (-4, -6), text_anchor="end", class_="l-roof"))
    for k, level in enumerate(r.levels):
        rate = level.bytes_per_second
        start = max(x[0], y[0] / rate)
        covers = any(_NEAR > rate / other.bytes_per_second > 1 / _NEAR for other in r.levels[:k])
        slope = f"slope {_COLOURS[level.name]}" + " near" * covers
        parts.append(a.line([(start, start * rate), (top / rate, top)], slope))
    for i, (level, intensity) in enumerate(zip(r.levels, intensities, strict=True)):  # equal ones stay visible
        why = f"{level.name}: {whys[level.name]}"
        parts.append(a.mark((intensity, r.operations_per_second), why, f"level {_COLOURS[level.name]}", 10 - 2 * i))
    return height, joined((*parts, *_names(a, r, intensities)))


def _names(a: Axes, r: Roofline, intensities: Sequence[float]) -> list[Markup]:
    """Return the name of each level below its point; those of points that are near stand one below the other."""
    names, rows = list[Markup](), list[tuple[float, int]]()
    for level, intensity in sorted(zip(r.levels, intensities, strict=True), key=lambda pair: pair[1]):
        x = a.x(intensity)
        row = next(k for k in range(len(r.levels)) if all(k != other or x - at > _WIDE for at, other in rows))
        rows.append((x, row))
        names.append(a.label((intensity, r.operations_per_second), level.name, (0, 24 + 14 * row),
                            text_anchor="middle", class_=f"l-level {_COLOURS[level.name]}"))  # fmt: skip
    return names
