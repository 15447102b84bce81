"""Pictures of a kernel: what its time is made of, its warps cycle by cycle, its curve over occupancy, its roofline.

Parts of the time and stall reasons have one colour where they are the same thing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import groupby

from warplens.core.units import number, quantity
from warplens.report.page.content import Content, number_source
from warplens.report.page.curves import Level, OccupancyCurve, Point, Roofline
from warplens.report.page.markup import Markup, joined, more, seconds, table, tag, value
from warplens.report.page.svg import Marked, Plot, Scale, Series, columns, described, figure, picture, ticks
from warplens.report.simulation import in_words
from warplens.simulator.views import READY, Slice, Timeline

_TOP_PERCENT = 125.0  # of the throughput bound: the upper edge of the picture
_HUES = {"DRAM": "blue", "L2": "cyan", "L1": "teal", "shared memory": "orange"}
_SHOWN = 0.005  # shares below this have no bar
_ROW, _LEFT, _TOP, _RIGHT = 15, 34, 8, 16  # pixels of the timeline
_MOST = 16  # warps
_COLOURS = {
    "launch": "grey", "issue": "green", "dependency": "purple", "shared memory": "orange", "l1": "teal", "l2": "cyan",
    "dram": "blue", "barriers": "red", "tail": "pink",
    "selected": "green", "not_selected": "lime", "math": "pink", "dispatch": "grey", "wait": "purple",
    "branch_resolving": "violet", "short_sb": "amber", "mio": "orange", "long_sb": "blue", "lg": "cyan",
    "barrier": "red", READY: "lime", "drain": "teal", "no_inst": "grey",
}  # fmt: skip
_PARTS = {
    "launch": "an empty kernel, a cold start, handing out the first blocks",
    "issue": "warps issue, or wait for their turn or a busy pipe",
    "dependency": "fixed latencies and branches",
    "shared memory": "results of and queues to shared memory and SFUs",
    "l1": "waits for memory, by where sectors are found: L1", "l2": "waits for memory, by where sectors are found: L2",
    "dram": "waits for memory, by where sectors are found: DRAM", "barriers": "waits at barriers",
    "tail": "blocks that differ: the last ones run alone",
}  # fmt: skip


def _stack(shares: Mapping[str, float], label: str, told: Callable[[str], tuple[str, str]]) -> Markup:
    """Return one bar of shares with its key; `told` gives the name of a share and its origin."""
    shown, cells, entries = dict[str, float](), list[Markup](), dict[str, tuple[str, str]]()
    for n, s in sorted(shares.items(), key=lambda item: -item[1]):
        if s >= _SHOWN:
            name, why = told(n)
            written, shown[n] = f"{s:.0%}" if s >= 0.06 else "", s
            cells.append(tag("span", written, class_=f"cell {_colour(n)}", style=f"flex-grow:{s:.4f}",
                             title=f"{name}: {s:.1%}. {why}"))  # fmt: skip
            entries[n] = f"{name} {s:.0%}" if s >= 0.01 else f"{name} {s:.1%}", f"{s:.1%}. {why}"
    alternative = f"{label}: " + ", ".join(f"{n} {s:.0%}" for n, s in shown.items())
    return joined((tag("div", *cells, class_="stack", role="img", aria_label=alternative), _key(entries)))


def _key(entries: Mapping[str, tuple[str, str]]) -> Markup:
    """Return what colours mean: of each name a text, and its origin."""
    items = [tag("li", tag("i", class_=f"swatch {_colour(n)}"), value(*shown)) for n, shown in entries.items()]
    return tag("ul", *items, class_="key")


def _colour(name: str) -> str:
    return f"c-{_COLOURS.get(name, 'grey')}"


def time_stack(content: Content) -> Markup:
    """Return what the predicted time is made of, and what a warp's time is made of."""
    p = content.prediction
    own = p if p.parts else content.comparison.predictions.get("warplens", p)
    if not own.parts:
        return tag("p", "No model that says what the time is made of speaks about this kernel.", class_="dim")
    total, run = float(own.cycles or 1.0), own.simulation
    parts = {name: float(c) / total for name, c in own.parts.items()}

    def part(name: str) -> tuple[str, str]:
        took = seconds(parts[name] * float(own.seconds or 0), 3)
        return name, f"{took}: {_PARTS.get(name, name)}; by {own.model} (docs/explain/how-a-prediction-is-made.md)"

    def reason(r: str) -> tuple[str, str]:
        return in_words(r), f"Nsight's stall_{r}: share of warp-cycles, simulated (docs/explain/simulator.md)"

    shown = [tag("h3", "The kernel's time"), _stack(parts, "what the time is made of", part)]
    if run is not None:
        shown += [tag("h3", "A warp's time: what it waits for"), _stack(run.stalls, "what warps wait for", reason)]
        error = run.error_cycles / run.cycles if run.cycles else 0.0
        ran = f"Simulated: {run.simulated_instructions:,} instructions of one SM, {number(run.ipc, 3)} per cycle."
        far = f" Sampling error of its cycles: ± {error:.1%} (blocks left out, and chance)." if error >= 5e-4 else ""
        shown.append(tag("p", ran + far, class_="dim"))
    return joined(shown)


def warps(content: Content) -> Markup:
    """Return the timeline: a row per warp of a scheduler, coloured by what it waits for, dark where it issues."""
    t = content.timeline
    if t is None or not t.warps:
        return tag("p", content.missing.get("timeline", content.missing.get("simulation", "unknown")), class_="dim")
    shown = list(t.warps)[:_MOST]
    said = (
        f"The first {t.cycles:,} cycles of {len(shown)} warps, those of one of the {t.schedulers} schedulers, of "
        f"{t.warps_on_sm} on the SM. The upper edge of a row is dark where the warp issues."
    )
    reasons = sorted({reason for w in shown for reason in t.shares(w)} - {"selected"})
    key = _key({reason: (in_words(reason), f"{in_words(reason)} (docs/explain/simulator.md)") for reason in reasons})
    rows = [[str(w), *(f"{t.shares(w).get(c, 0.0):.0%}" for c in ("selected", *reasons))] for w in shown]
    numbers = table(["warp", "issuing", *reasons], rows, range(len(reasons) + 2), caption="shares by warp")
    timeline = picture(said, lambda width: _draw_warps(t, shown, width))
    return joined((tag("figure", timeline, key, tag("figcaption", said)), more("The numbers", numbers)))


def _draw_warps(t: Timeline, shown: list[int], width: float) -> tuple[float, Markup]:
    across, bottom = Scale(0, t.cycles, _LEFT, width - _RIGHT), _TOP + _ROW * len(shown)
    parts = [*columns(across, ticks(0, t.cycles, 8 if width > 400 else 4), _TOP, bottom, "cycles"),
             tag("text", "warp", class_="axis", x=0, y=bottom + 34)]  # fmt: skip
    for k, warp in enumerate(shown):
        y = _TOP + _ROW * k
        ordered = sorted(t.shares(warp).items(), key=lambda item: -item[1])
        why = f"warp {warp}: " + ", ".join(f"{what} {share:.0%}" for what, share in ordered)
        label = tag("text", warp, class_="tick", x=_LEFT - 6, y=y + 11, text_anchor="end")
        hit = tag("rect", x=_LEFT, y=y, width=across.last - _LEFT, height=_ROW, class_="reach")
        parts.append(described(why, hit, label, *_strips(t.warps[warp], across, y), class_="warp"))
    return bottom + 40.0, joined(parts)


def _strips(slices: list[Slice], across: Scale, y: float) -> list[Markup]:
    """Return a path per colour: each bin has that of what took most of it; and a path of ticks where it issued."""
    bins = int((across.last - across.first) // 2)  # two pixels each
    spent: list[dict[str, float]] = [{} for _ in range(bins)]
    size, wide, paths = across.high / bins, (across.last - across.first) / bins, defaultdict[str, str](str)
    for s in slices:
        first, last = int(s.first_cycle / size), min(bins - 1, int((s.end_cycle - 1e-9) / size))
        for b in range(first, last + 1):
            part = min(s.end_cycle, (b + 1) * size) - max(s.first_cycle, b * size)
            spent[b][s.what] = spent[b].get(s.what, 0.0) + part
    waits = [max((w for w in bin_ if w != "selected"), key=lambda w: bin_[w], default="") for bin_ in spent]
    for what, run in groupby(range(bins), key=lambda b: waits[b]):
        first, *others = run
        w = wide * (1 + len(others))
        paths[f"strip {_colour(what)}" if what else ""] += f"M{_LEFT + first * wide:.1f} {y + 4:g}h{w:.1f}v9h-{w:.1f}z"
    for b in range(bins):
        if "selected" in spent[b]:
            paths["issued"] += f"M{_LEFT + b * wide:.1f} {y + 1:g}h{wide:.1f}v3h-{wide:.1f}z"
    return [tag("path", d=d, class_=kind) for kind, d in paths.items() if kind]


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
    rows = [[number(x.warps_per_sm), seconds(x.seconds), *(number(y / percent, 3) for y in (
             x.predicted, x.by_latency, x.by_throughput))] for x in c.points]  # fmt: skip
    head = ["warps per SM", ("time", f"by {c.model}"), "% of the throughput bound", "by latency", "by throughput"]
    return figure(plot, tag("p", *say_occupancy(c)), numbers=table(head, rows, range(5), caption="some occupancies"))


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
