"""Volkov 2016: Little's law in examples, and occupancy tracked by the start and the end of each warp.

Figures 3.1 and 3.2 are drawings with numbers in the text. Figures 3.3 and 5.1 to 5.4 are recordings of the paper's
GPUs; the same kinds of kernels recorded on the H200 stand in their place (data/experiments/occupancy_ladders).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from warplens.machine import load_machine
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.occupancy_ladders import MISSING, Stamped, mean_occupancy, occupancy, stamped, track
from warplens.papers.volkov_figures import WARPS, figure, needed
from warplens.papers.volkov_tables import GPUS, generation

# Figure 3.1's items by start and end; the latencies are the text's, their order is ours.
_TEN = ((0, 1), (0, 3), (1, 2), (1, 3), (3, 6), (5, 7), (6, 9), (7, 8), (8, 10), (8, 10))
_CYCLES = "cycles"
_IN_TEXT = "the paper's are recordings of its GPU, of which the text prints what stands here"


class Little(Struct, frozen=True):
    """Mean latency, throughput and concurrency of items within an interval: the second is the first's quotient."""

    latency: float
    throughput: float
    concurrency: float
    fewest: float
    most: float


def little(items: Sequence[tuple[float, float]], first: float, last: float) -> Little:
    """Return the metrics of §3.1 for items that start and end within an interval."""
    latency = float(np.mean([end - start for start, end in items]))
    times, counts = occupancy(items)
    keep = np.append(np.diff(times) > 0, False)  # moments of no length are none
    return Little(latency, len(items) / (last - first), mean_occupancy(items, first, last),
                  float(counts[keep].min()), float(counts.max()))  # fmt: skip


def figure_3_1() -> Item:
    """Figure 3.1: latency, throughput and concurrency of ten items in ten cycles."""
    result = little(_TEN, 0, 10)
    rows = [
        Row("mean latency", result.latency, "2", _CYCLES, given=True),
        Row("throughput", result.throughput, "1", "items/cycle", given=True),
        Row("concurrency, in the mean", result.concurrency, "2", "items"),
        Row("concurrency, fewest", result.fewest, "1", "items", given=True),
        Row("concurrency, most", result.most, "3", "items", given=True),
        Row("mean latency x throughput", result.latency * result.throughput, "2", "items"),
    ]
    series = [line(f"{end - start} cycles", [start, end], [n, n]) for n, (start, end) in enumerate(_TEN, 1)]
    plots = [Plot("ten items", "cycle", "item", series), Plot("concurrency", "cycle", "items", [track("items", _TEN)])]
    note = "starts and ends are ours: ten items of 1, 2 or 3 cycles, one to three at a time, as the text says"
    return figure("3.1", "an example of a concurrent process", "3.1", rows, plots, note)


def figure_3_2() -> Item:
    """Figure 3.2: three warps, and half as many memory instructions."""
    maxwell = load_machine("gtx980")
    instructions = float(needed(0.0, maxwell))  # that hide memory latency
    halves = [(2.0 * k + warp % 2, 2.0 * k + warp % 2 + 1) for warp in range(3) for k in range(8)]
    inside = mean_occupancy(halves, 2.0, 14.0)
    pin = maxwell.memory.pin_bytes_per_second or 0.0
    by_pins = pin / (128 * maxwell.chip.sm_count * maxwell.chip.clock_hz)
    rows = [
        Row("memory instructions in execution, 3 warps", inside, "1.5"),
        Row("warps for 30 of them, half of the time in each", round(instructions) / 0.5, "60", WARPS),
        Row("warps for 30 of them, two in each warp at a time", round(instructions) / 2, "15", WARPS),
        Row("§3.2: pin bandwidth", by_pins, "0.086", "IPC/SM"),
        Row("§3.2: instructions that the pins need", by_pins * maxwell.latency_cycles("load"), "33", "instructions",
            "0.0864 x 368 = 31.8; 33 would need 0.09"),
    ]  # fmt: skip
    warps = [1 + n // 8 for n in range(len(halves))]
    series = [
        line("memory access begins", [start for start, _ in halves], warps, "points"),
        line("arithmetic begins", [end for _, end in halves], warps, "points"),
    ]
    plot = Plot("three warps, half of the time in each kind", "time", "warp", series)
    return figure("3.2", "three warps and 1.5 memory accesses", "3.3", rows, [plot])


def _lanes(warps: Sequence[tuple[float, float]], first: float, last: float) -> list[Series]:
    """Return warps as horizontal lines, a lane each: a warp takes the lowest lane that is free."""
    free: list[float] = []
    points: list[tuple[float, float]] = []
    for start, end in sorted(warps):
        lane = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        if start < last and end > first:
            points += [(start, lane), (end, lane)]
    return [line("starts", *_every(points, 0), "points"), line("ends", *_every(points, 1), "points")]


def _every(points: Sequence[tuple[float, float]], which: int) -> tuple[list[float], list[float]]:
    chosen = points[which::2]
    return [x for x, _ in chosen], [y for _, y in chosen]


def _recorded(figure_number: str, what: str = "") -> list[Stamped]:
    """Return the recordings of a figure that have the starts and ends of warps."""
    return [one for one in stamped(figure_number, what) if one.warps]


def _span(one: Stamped) -> float:
    return float(max(end for _, end in one.warps))


def figure_3_3() -> Item:
    """Figure 3.3: warps of one SM, from start to end; the interval B of Figure 5.1."""
    rows, plots, notes = list[Row](), list[Plot](), [_IN_TEXT]
    for one in _recorded("5.1"):
        last = _span(one)
        first, until = 0.2 * last, 0.45 * last
        spans = [end - start for start, end in one.warps if start >= first and end <= until]
        latency = float(np.mean([e - s for s, e in one.warps]))
        mean = mean_occupancy(one.warps, 0.0, last)
        rows += [
            Row("H200: warps in execution, in the mean", mean, None, WARPS),
            Row("H200: mean warp latency", latency, None, _CYCLES),
            Row("H200: latency x throughput", latency * len(one.warps) / last, None, WARPS, "the same: Little's law"),
            Row("H200: longest warp over shortest, in the interval", max(spans) / min(spans), None, "times"),
        ]  # fmt: skip
        plots += [
            Plot("H200: warps of one SM, interval B", "cycle", "warp slot", _lanes(one.warps, first, until)),
            Plot("H200: occupancy, interval B", "cycle", WARPS, [track("warps", one.warps, first, until)]),
        ]
    notes += [] if plots else [MISSING]
    return figure("3.3", "a concurrent execution of warps", "3.4", rows, plots, *notes)


def figure_5_1() -> Item:
    """Figure 5.1: occupancy over a whole execution of blocks of four warps."""
    rows, plots, notes = list[Row](), list[Plot](), [_IN_TEXT]
    fits = load_machine("gtx680").sm.warps_max
    rows.append(Row("blocks of 4 warps that fit, as warps", 16 * 4.0, f"{fits:g}", WARPS, "Kepler: 16 blocks"))
    for one in _recorded("5.1"):
        last, quarter = _span(one), one.rounds // 4
        times, counts = occupancy(one.warps)
        ends = {"A": (0.0, quarter / one.rounds * last), "C": (0.5 * last, 0.9 * last)}
        for name, (first, until) in ends.items():
            shown = counts[(times > first) & (times < until)]
            rows.append(Row(f"H200, interval {name}: warps in execution, in the mean",
                            mean_occupancy(one.warps, first, until), None, WARPS))  # fmt: skip
            fewest = float(np.percentile(shown, 5))
            paper = "48" if name == "C" else None
            note = (
                "the paper: oscillates between 48 and 64" if paper else "the paper: drops nearly by half for a moment"
            )
            what = f"H200, interval {name}: fewest, but for one in twenty moments"
            rows.append(Row(what, fewest, paper, WARPS, note, measured=paper is not None))
        plots.append(Plot("H200: blocks of 4 warps, loads from DRAM", "cycle", WARPS, [track("warps", one.warps)]))
        plots.append(Plot("H200: start and end of each warp", "cycle", "warp slot", _lanes(one.warps, 0.0, last)))
    notes += [] if len(plots) else [MISSING]
    return figure("5.1", "occupancy tracking", "5.5-5.6", rows, plots, *notes)


def _usual(one: Stamped, below: float) -> float:
    """Return the occupancy that lasts longest of those below the given one."""
    times, counts = occupancy(one.warps)
    lasts: dict[float, float] = {}
    for count, cycles in zip(counts[:-1].tolist(), np.diff(times).tolist(), strict=True):
        lasts[count] = lasts.get(count, 0.0) + cycles
    return max((count for count in lasts if count < below), key=lambda count: lasts[count])


def figure_5_2() -> Item:
    """Figure 5.2: warps that do not divide evenly among schedulers."""
    kepler = load_machine("gtx680")
    schedulers = kepler.sm.schedulers
    busiest = math.ceil(17 / schedulers)
    rows = [
        Row("17 warps: throughput below that of 12 or 16", 100 * (1 - 17 / (busiest * schedulers)), "15", "%",
            "17 warps take as long as the 5 of one scheduler: 17 / 20"),
        Row("17 warps: left after schedulers with 4 have ended", busiest, "5", WARPS,
            "those of one scheduler, for the last fifth of the time"),
    ]  # fmt: skip
    plots = []
    if sweep := stamped("5.2"):
        plots.append(Plot("H200: reciprocal square roots", WARPS, "ops/cycle/SM", [
            line("measured", [one.warps_per_sm for one in sweep], [32 * one.ipc for one in sweep], "points"),
        ]))  # fmt: skip
        rates = {one.warps_per_sm: one.ipc for one in sweep}
        rows.append(Row("H200, 17 warps: throughput below that of 16", 100 * (1 - rates[17] / rates[16]), None, "%"))
        for one in _recorded("5.2"):
            plots.append(Plot("H200: occupancy of 17 warps", "cycle", WARPS, [track("warps", one.warps)]))
            what = "H200, 17 warps: in execution for most of the time that fewer are"
            rows.append(Row(what, _usual(one, 17), "5", WARPS, measured=True))
    notes = [_IN_TEXT] if plots else [MISSING]
    return figure("5.2", "occupancy varies due to load imbalance", "5.8", rows, plots, *notes)


def figure_5_3() -> Item:
    """Figure 5.3: throughput at full occupancy depends on the size of blocks."""
    rows, plots = list[Row](), list[Plot]()
    if sweep := stamped("5.3"):
        best = max(one.ipc for one in sweep)
        plots.append(Plot("H200: loads, 64 warps per SM", "threads per block", "share of the best throughput", [
            line("measured", [one.threads for one in sweep], [one.ipc / best for one in sweep], "points"),
        ], y_max=1.1))  # fmt: skip
        for one in sweep:
            rows.append(Row(f"H200, {one.threads} threads per block: throughput", 128 * one.ipc, None, "B/cycle/SM"))
        for one in _recorded("5.3"):
            middle = 0.1 * _span(one), 0.9 * _span(one)
            what = f"H200, {one.threads} threads per block: warps in execution, in the mean"
            rows.append(Row(what, mean_occupancy(one.warps, *middle), None, WARPS))
            plots.append(Plot(f"H200: {one.threads} threads per block", "cycle", WARPS, [track("warps", one.warps)]))
    notes = ["the paper: shorter blocks vary less and attain more"] if plots else [MISSING]
    return figure("5.3", "throughput may depend on the size of blocks", "5.8", rows, plots, *notes)


def figure_5_4() -> Item:
    """Figure 5.4: persistent threads against more blocks than fit."""
    g80 = load_machine(GPUS[0])
    kept = g80.timing("shared").needed_warps_per_scheduler
    assert kept is not None
    rows = [Row(f"{generation(g80)}: warps that hide shared memory's latency", kept * g80.sm.schedulers, "9", WARPS,
                "Table 6.3", given=True)]  # fmt: skip
    plots, rates = list[Plot](), dict[str, float]()
    for one in _recorded("5.4"):
        rates[one.what] = one.ipc
        last, (times, counts) = _span(one), occupancy(one.warps)
        full = times[1:][counts[:-1] >= one.warps_per_sm]
        what = f"H200, {one.what}: last moment with 20 warps, as a share of the time"
        note = "" if rates else "the paper, G80: half of the warps end at two thirds"
        rows.append(Row(what, 100 * float(full[-1]) / last, None, "%", note))
        mean = mean_occupancy(one.warps, 0, last)
        rows.append(Row(f"H200, {one.what}: warps in execution, in the mean", mean, None, WARPS))
        title = f"H200: shared memory, 2 blocks of 10 warps, {one.what}"
        plots.append(Plot(title, "cycle", WARPS, [track("warps", one.warps)]))
    if len(rates) == 2:
        gain = 100 * (rates["oversubscribed"] / rates["persistent"] - 1)
        rows.append(Row("H200: oversubscribed over persistent", gain, None, "%", "the paper, G80: a few percent"))
    notes = [_IN_TEXT, "G80: half of the warps end two thirds through, the last 7 % have fewer than 9"]
    return figure("5.4", "persistent threads and occupancy", "5.9", rows, plots, *notes, *([] if plots else [MISSING]))


ITEMS = (figure_3_1, figure_3_2, figure_3_3, figure_5_1, figure_5_2, figure_5_3, figure_5_4)
