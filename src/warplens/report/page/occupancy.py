"""The picture of throughput against occupancy: both bounds, the curve with its band, where the kernel is."""

from __future__ import annotations

import math

from warplens.core.units import number
from warplens.report.page.axes import Axes, axes, picture, ticks
from warplens.report.page.content import Content
from warplens.report.page.curve import OccupancyCurve, Point
from warplens.report.page.markup import Markup, joined, more, seconds, table, tag, value


def occupancy(content: Content) -> Markup:
    """Return the section on occupancy."""
    c = content.curve
    if c is None:
        return tag("p", content.missing.get("curve", "unknown"), class_="dim")
    top = _top(c)
    made = picture(_alternative(c), lambda width: _draw(c, width, top))
    return joined((tag("figure", made, tag("figcaption", *_said(c))), more("The numbers", _numbers(c))))


def _top(c: OccupancyCurve) -> float:
    """Return the throughput bound at the operating point: what 100 % is."""
    bound = c.now.by_throughput
    return bound if math.isfinite(bound) and bound > 0 else max(x.predicted for x in (*c.points, c.now))


def _draw(c: OccupancyCurve, width: float, top: float) -> tuple[float, Markup]:
    height = 300.0
    a = axes(width, height, (0, c.warps_max), (0, 1.25))
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
    parts += [a.line(_clipped(latency, 1.25), "latency"), a.line(bound, "throughput"), a.line(curve, "curve")]
    parts += [a.mark((x.warps_per_sm, x.predicted / top), _told(x, top, c.model), "point", 3) for x in c.points]
    if c.needed_warps is not None:
        parts += _needed(a, c.needed_warps)
    parts.append(a.label((0.6 * c.warps_max, bound[-1][1]), "throughput bound", (0, -8), class_="l-throughput"))
    parts.append(_beside(a, _clipped(latency, 0.7)[-1]))
    parts.append(
        a.mark((c.now.warps_per_sm, c.now.predicted / top), "now: " + _told(c.now, top, "the answer"), "now", 7)
    )
    near = c.now.warps_per_sm > 0.8 * c.warps_max
    parts.append(
        a.label((c.now.warps_per_sm, c.now.predicted / top), "now", (-12 if near else 12, 20), class_="l-now",
                text_anchor="end" if near else "start")
    )  # fmt: skip
    return height, joined(parts)


def _beside(a: Axes, at: tuple[float, float]) -> Markup:
    """Return the name of the latency bound: left of its line where there is room, else right of it."""
    left = a.x(at[0]) > 150
    return a.label(at, "latency bound", (-8 if left else 10, -2 if left else 14), class_="l-latency",
                   text_anchor="end" if left else "start")  # fmt: skip


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


def _needed(a: Axes, warps: float) -> list[Markup]:
    right = a.x(warps) > 0.7 * a.width
    name = a.label((warps, 0.0), f"bounds meet: {number(warps, 3)}", (-6 if right else 6, -8), class_="l-needed",
                   text_anchor="end" if right else "start")  # fmt: skip
    return [tag("path", class_="needed", d=f"M{a.x(warps):g} {a.y.first:g}V{a.y.last:g}"), name]


def _told(x: Point, top: float, by: str) -> str:
    return (
        f"{number(x.warps_per_sm)} warps per SM: {x.predicted / top:.0%} of the throughput bound, "
        f"{seconds(x.seconds)} by {by}; latency alone allows {_share(x.by_latency / top)}, "
        f"throughput alone {_share(x.by_throughput / top)}"
    )


def _share(x: float) -> str:
    return f"{x:.0%}" if math.isfinite(x) else "any"


def _said(c: OccupancyCurve) -> list[object]:
    """Say in words what the picture shows."""
    why = f"where the curve of {c.model} first comes within 5 % of the throughput bound, between the dots"
    have = f"the kernel has {number(c.now.warps_per_sm)}"
    if c.reached_warps is None:
        share = c.now.predicted / _top(c)
        said: list[object] = [
            f"The kernel stays below 95 % of the throughput bound at any occupancy; now it has {share:.0%}."
        ]
    else:
        reached = value(f"{number(c.reached_warps, 3)} warps per SM", why)
        said = ["The kernel comes within 5 % of the throughput bound from ", reached, f" on; {have}."]
    if c.needed_warps is not None:
        meet = value(f"{number(c.needed_warps, 3)} warps", "Volkov 2016 §3.10: the least that could hide the latency")
        said += [" The two bounds meet at ", meet, ": fewer cannot hide the latency; near there, both cost time."]
    band = " The band is the 90 % interval of the answer, carried along the curve." if c.band else ""
    dots = f" Dots are predicted by {c.model}" + ("; the ring is the answer itself." if c.now.predicted else ".")
    return [*said, dots, band]


def _alternative(c: OccupancyCurve) -> str:
    reached = "never" if c.reached_warps is None else f"from {number(c.reached_warps, 3)} warps per SM on"
    return (
        f"Throughput against warps per SM. Within 5 % of the throughput bound: {reached}. "
        f"Now: {number(c.now.warps_per_sm)} warps per SM."
    )


def _numbers(c: OccupancyCurve) -> Markup:
    rows = [
        [number(x.warps_per_sm), seconds(x.seconds), number(x.predicted, 3), number(x.by_latency, 3),
         number(x.by_throughput, 3)]
        for x in c.points
    ]  # fmt: skip
    head = ["warps per SM", ("time", f"by {c.model}"), ("warps per cycle and SM", f"by {c.model}"),
            ("by latency alone", "warps of the SM / the latency limit"),
            ("by throughput alone", "warps of the SM / the largest other limit")]  # fmt: skip
    return table(head, rows, range(5), caption="throughput at some occupancies")
