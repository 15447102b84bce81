"""Charts of a kernel: throughput against occupancy, and the roofline."""

from __future__ import annotations

import math

from warplens.core.units import number, quantity
from warplens.report.page.content import Content, number_source
from warplens.report.page.curves import Level, OccupancyCurve, Point, Roofline
from warplens.report.page.markup import Markup, seconds, table, tag, value
from warplens.report.page.svg import Marked, Plot, Series, figure

_TOP_PERCENT = 125.0  # of the throughput bound: the upper edge of the picture
_HUES = {"DRAM": "blue", "L2": "cyan", "L1": "teal", "shared memory": "orange"}


def occupancy(content: Content) -> Markup:
    """Return the chart of throughput against occupancy: both bounds, the curve with its band, where the kernel is."""
    c = content.curve
    if c is None:
        return tag("p", content.missing.get("curve", "unknown"), class_="dim")
    percent = _bound(c) / 100
    warps = [x.warps_per_sm for x in c.points]
    curve, bound = [x.predicted / percent for x in c.points], [x.by_throughput / percent for x in c.points]
    latency = [min(9 * _TOP_PERCENT, x.by_latency / percent) for x in c.points]
    series: list[Series] = [
        Marked(f"predicted by {c.model}", [0.0, *warps], [0.0, *curve], hue="blue"),
        Marked("latency bound", [0.0, *warps], [0.0, *latency], hue="purple"),
        Marked("throughput bound", [0.0, *warps, c.warps_max], [bound[0], *bound, bound[-1]], hue="orange"),
    ]
    if c.band is not None:
        low, high = ([at * factor for at in curve] for factor in c.band)
        series.append(
            Marked("90 % interval", [0.0, *warps, *reversed(warps)], [0.0, *high, *reversed(low)], "area", hue="blue")
        )
    if c.needed_warps is not None:
        series.append(Marked("bounds meet", [c.needed_warps], [0.0], "rule", hue="grey"))
    whys = [_describe(x, percent, c.model) for x in c.points]
    series.append(Marked("predicted", warps, curve, "spots", hue="blue", whys=whys, radius=3))
    now = "now: " + _describe(c.now, percent, "the answer")
    at = [c.now.warps_per_sm], [c.now.predicted / percent]
    series.append(Marked("now", *at, "spots", hue="ink", whys=[now], named=True, radius=7))
    plot = Plot("", "warps per SM", "throughput, % of the throughput bound", series, y_max=_TOP_PERCENT)
    return figure(plot, tag("p", *say_occupancy(c)))


def _bound(c: OccupancyCurve) -> float:
    """Return the throughput bound at the operating point: what 100 % is."""
    bound = c.now.by_throughput
    return bound if math.isfinite(bound) and bound > 0 else max(x.predicted for x in (*c.points, c.now))


def _describe(x: Point, percent: float, by: str) -> str:
    """Say what a point of the curve is."""
    shares = (f"{y / percent:.0f}%" if math.isfinite(y / percent) else "any" for y in (x.by_latency, x.by_throughput))
    latency, throughput = shares
    return (
        f"{number(x.warps_per_sm)} warps per SM: {x.predicted / percent:.0f}% of the throughput bound, "
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
    """Return the roofline: a slope per level of memory, a roof per unit, a spot per level."""
    r = content.roofline
    if r is None or not r.roofs:
        why = content.missing.get("roofline", "the machine file has no rate for its arithmetic")
        return tag("p", why, class_="dim")
    nearest = max(r.levels, key=lambda level: _used(r, level))
    highest = max(r.roofs, key=lambda roof: roof.per_second)
    said = (
        f"{_rate(r.operations_per_second, r)} of at most {_rate(highest.per_second, r)} "
        f"({r.operations_per_second / highest.per_second:.0%}, {highest.name}). "
        f"The busiest level of memory is {nearest.name}, at {_used(r, nearest):.0%} of its rate."
    )
    rows = [
        [level.name, quantity(level.bytes, "B", 3), number(r.operations / level.bytes, 3),
         quantity(level.bytes_per_second, "B/s", 3), f"{_used(r, level):.0%}",
         number_source(content.machine, level.key) or level.key]
        for level in r.levels
    ]  # fmt: skip
    head = ["level", ("moved", "by the whole grid, counted by the emulator (docs/explain/emulator.md)"),
            f"{_operation(r)} per byte", "bandwidth", ("used", "bytes moved / predicted time / bandwidth"),
            "source"]  # fmt: skip
    numbers = table(head, rows, (1, 2, 3, 4), caption="levels of memory")
    whys = [f"{name}: {moved} moved, {each} {_operation(r)}/B, {used} of {rate}. {origin}"
            for name, moved, each, rate, used, origin in rows]  # fmt: skip
    return figure(_roofs(r, whys), tag("p", said), numbers=numbers)


def _roofs(r: Roofline, whys: list[str]) -> Plot:
    """Return the roofline as a plot; `whys`: by level, what its spot is."""
    intensities = [r.operations / level.bytes for level in r.levels]
    top = max(roof.per_second for roof in r.roofs)
    ridges = [top / level.bytes_per_second for level in r.levels]
    x = [
        10 ** math.floor(math.log10(min(intensities) / 2)),
        10 ** math.ceil(math.log10(max(*ridges, *intensities) * 2)),
    ]
    low = min(r.operations_per_second / 3, min(x[0] * level.bytes_per_second for level in r.levels) * 3)
    least = 10 ** math.floor(math.log10(max(low, top / 1e5)))
    series: list[Series] = [
        Marked(f"{roof.name} {_rate(roof.per_second, r)}", x, [roof.per_second] * 2, hue="ink") for roof in r.roofs
    ]
    for level, why in zip(r.levels, whys, strict=True):
        rate = level.bytes_per_second
        ends = [max(x[0], least / rate), top / rate]
        name = f"{level.name} {quantity(rate, 'B/s', 3)}"
        series.append(Marked(name, ends, [end * rate for end in ends], hue=_HUES[level.name], whys=[why]))
    for i, (level, at, why) in enumerate(zip(r.levels, intensities, whys, strict=True)):  # equal ones stay visible
        series.append(Marked(level.name, [at], [r.operations_per_second], "spots", hue=_HUES[level.name], whys=[why],
                             named=True, radius=10 - 2 * i))  # fmt: skip
    unit = _operation(r)
    return Plot("", f"{unit} per byte of each level", f"{unit}/s", series, log_x=True, log_y=True, y_max=top * 1.5)


def _operation(r: Roofline) -> str:
    return "flop" if r.unit == "flop" else "op"


def _rate(x: float, r: Roofline) -> str:
    return quantity(x, "flop/s", 3).replace("flop", _operation(r))


def _used(r: Roofline, level: Level) -> float:
    """Return the share of a level's bandwidth that the predicted time uses."""
    return level.bytes * r.operations_per_second / r.operations / level.bytes_per_second
