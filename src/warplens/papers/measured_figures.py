"""Volkov's figures for a GPU that the laboratory measured: points measured, curves modelled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
from msgspec import structs

from warplens.laboratory.instructions import needed_warps
from warplens.laboratory.samples import Reading
from warplens.machine import load_machine
from warplens.machine.tables import Contention
from warplens.models import predict
from warplens.models.published.volkov_contention import loaded_latency
from warplens.papers.item import Grid, Item, Plot, Row, Series, line
from warplens.papers.laboratory import Laboratory
from warplens.papers.volkov_figures import (
    ADDS,
    ALPHA,
    ALPHAS,
    GBPS,
    OURS,
    WARPS,
    Kind,
    crossing,
    curves,
    needed,
    needed_by,
)
from warplens.papers.volkov_tables import GPUS, PAPER, generation
from warplens.workload import mix

_LOOP = 9  # instructions of a loop's trip around the loads
_SHARE = 0.9  # of the peak
_NEAR = 0.9  # of the most that a curve comes to: beyond, latency says how many loads wait, not what they cost
_BEST = "measured: the best sample of each occupancy; the journal has all of them"
_TIMES = "several chains per warp: the warps needed times the chains, which is what would be needed with one each"


def _figure(
    lab: Laboratory, number: str, title: str, section: str, rows: list[Row], plots: list[Plot], *notes: str
) -> Item:
    identity = f"volkov-figure-{number}-{lab.machine.id}"
    return Item(identity, f"Figure {number}: {title}", f"{PAPER} §{section}; {lab.name} by the laboratory", rows, plots,
                [*notes, _BEST])  # fmt: skip


def _points(name: str, rates: dict[int, Reading], scale: float = 1.0) -> Series:
    return line(name, sorted(rates), [rates[n].median * scale for n in sorted(rates)], "points")


def figure_4_1(lab: Laboratory) -> Item:
    """Adds only, and loads only, against occupancy."""
    m, adds, loads = lab.machine, lab.chained("instruction.fadd"), lab.streamed("mix.load.a0")
    measured = [_points("measured", adds, 32), _points("measured", loads, lab.gigabytes(1.0))]
    plots = [curves("", m, alpha, OURS, points) for alpha, points in zip((math.inf, 0.0), measured, strict=True)]
    rows = [
        Row("adds only: warps needed by the two bounds", float(needed(math.inf, m)), None, WARPS),
        Row("adds only: 90 % of peak measured at", needed_warps(adds, 3.6) or math.nan, None, WARPS),
        Row("loads only: warps needed by the two bounds", float(needed(0.0, m)), None, WARPS),
        Row(f"loads only: measured at {max(loads)} warps", lab.gigabytes(loads[max(loads)].median), None, GBPS),
    ]
    return _figure(lab, "4.1", "hiding arithmetic and memory latency", "4.2", rows, plots)


def figure_4_2(lab: Laboratory) -> Item:
    """Occupancy needed for arithmetic and for memory, on the five GPUs and this one; on this one measured, too."""
    machines = [*map(load_machine, GPUS), lab.machine]
    arithmetic, memory = ([float(needed(alpha, m)) for m in machines] for alpha in (math.inf, 0.0))
    names = [generation(m) for m in machines]
    rows = [
        [n, f"{a:.0f}", f"{b:.0f}", f"{m.sm.warps_max:g}"]
        for n, a, b, m in zip(names, arithmetic, memory, machines, strict=True)
    ]
    adds = needed_warps(lab.chained("instruction.fadd"), _SHARE * lab.peak("instruction.fadd"))
    loads = warps_for_loads(lab)
    series = [
        line("adds only", np.arange(len(names)), arithmetic, "points"),
        line("loads only", np.arange(len(names)), memory, "points"),
    ]
    notes = []
    if adds is not None:
        rows.append([f"{names[-1]}, measured at 90 %", f"{adds:.1f}", f"{loads[0]:.0f}" if loads else "-", ""])
        series.append(line("adds only, measured at 90 %", [len(names) - 1.0], [adds], "points"))
    if loads:
        series.append(line("loads only, measured at 90 %", [len(names) - 1.0], [loads[0]], "points"))
        notes.append(f"loads measured: {loads[1]}")
    grid = Grid(["warps/SM", "adds only", "loads only", "fit"], rows)
    plot = Plot(", ".join(names), "generation", "warps per SM needed", series)
    result = _figure(
        lab, "4.2", "occupancies needed to hide arithmetic and memory latencies", "4.3", [], [plot], *notes
    )
    return Item(result.id, result.title, result.source, [], result.plots, result.notes, [grid])


def warps_for_loads(lab: Laboratory) -> tuple[float, str] | None:
    """Return the 4-byte loads in flight per SM that attain 90 % of DRAM's bandwidth, and how they were made.

    That many warps would be needed with one load each. Of several loads in flight per warp the fewest that do it.
    """
    for chains in (1, 2, 4, 8):
        entry = "mix.load.a0" if chains == 1 else f"stream.dram.ilp{chains}.b4"
        found = needed_warps(lab.streamed(entry), _SHARE * lab.machine.dram_bytes_per_cycle() / 128)
        if found is not None:
            return chains * found, f"{found:.1f} warps of {chains} load(s) in flight each ({entry})"
    return None


def figure_4_5(lab: Laboratory) -> Item:
    """Needed occupancy against alpha: by the two bounds, and measured at 90 % of what the hardware allows."""
    m = lab.machine
    alphas = np.unique(np.append(np.geomspace(0.25, 1024, 97), crossing(m)))
    rows = [
        Row("alpha = 0", float(needed(0.0, m)), None, WARPS),
        Row(f"largest, at alpha = {crossing(m):.1f}", float(needed(crossing(m), m)), None, WARPS),
        Row("alpha infinite", float(needed(math.inf, m)), None, WARPS),
    ]
    series = [
        line("two bounds", alphas, needed(alphas, m)),
        line("two bounds, 90 % of peak", alphas, needed(alphas, m, _SHARE)),
        line("warps that fit", alphas, m.sm.warps_max),
        *measured_cusp(lab, "load"),
    ]
    plot = Plot(f"{lab.name}, adds and loads", ALPHA, "warps per SM needed", series, log_x=True)
    return _figure(lab, "4.5", "occupancy needed against arithmetic intensity", "4.5", rows, [plot], _TIMES)


def _alphas(lab: Laboratory, other: str) -> list[int]:
    found = (re.fullmatch(rf"mix\.{other}\.a(\d+)", name) for name in lab.samples.entries)
    return sorted(int(match[1]) for match in found if match)


def measured_cusp(lab: Laboratory, other: Kind) -> list[Series]:
    """Warps at which a mix attains 90 % of what the hardware allows: with one chain each, and with several.

    Where the warps that fit do not attain it with one chain each, they may with several: their number times the chains
    is what would be needed with one. A mix that does not attain it either way has no point.
    """
    one: dict[float, float] = {}
    several: dict[float, float] = {}
    for alpha in filter(None, _alphas(lab, other)):
        for chains in (1, 2, 4, 8):
            entry = f"mix.{other}.a{alpha}" + (f".ilp{chains}" if chains > 1 else "")
            if entry not in lab.samples.entries:
                continue
            found = needed_warps(*_rates_and_goal(lab, other, entry, alpha, chains))
            if found is not None:
                (one if chains == 1 else several)[float(alpha)] = chains * found
                break
    result = [line("measured", list(one), list(one.values()), "points")]
    if several:
        result.append(line("measured, several chains per warp", list(several), list(several.values()), "points"))
    return result


def unattained(lab: Laboratory, other: Kind) -> str:
    """Say at which alphas no occupancy and no number of chains attains 90 %: where `measured_cusp` has no point."""
    there = {x for series in measured_cusp(lab, other) for x in series.x}
    missed = [alpha for alpha in _alphas(lab, other) if alpha and alpha not in there]
    if not missed:
        return ""
    most = [max(_attained(lab, other, alpha)) for alpha in missed]
    several = any(re.fullmatch(rf"mix\.{other}\.a\d+\.ilp\d", name) for name in lab.samples.entries)
    tried = "and chains" if several else "with one chain each, the only one measured,"
    return (
        f"at alpha = {', '.join(map(str, missed))} no number of warps {tried} attains it: "
        f"{', '.join(f'{100 * share:.1f}' for share in most)} % at most"
    )


def _attained(lab: Laboratory, other: Kind, alpha: int) -> Iterator[float]:
    """Yield the shares of what the hardware allows that a mix attains, by chains and warps."""
    for chains in (1, 2, 4, 8):
        entry = f"mix.{other}.a{alpha}" + (f".ilp{chains}" if chains > 1 else "")
        if entry in lab.samples.entries:
            rates, goal = _rates_and_goal(lab, other, entry, alpha, chains)
            yield from (_SHARE * reading.median / goal for reading in rates.values())


def _rates_and_goal(
    lab: Laboratory, other: Kind, entry: str, alpha: int, chains: int
) -> tuple[dict[int, Reading], float]:
    """Return a mix's rates by warps per SM, and 90 % of what the hardware allows."""
    m = lab.machine
    if other == "load":
        around = _LOOP / (lab.samples.entries[entry][0][0]["unroll"] * chains)
        bound = min(m.dram_bytes_per_cycle() / 128, m.issue_ipc() / (alpha + 2 + around))
        return lab.streamed(entry), _SHARE * bound
    return lab.chained(entry), _SHARE * min(m.peak_ipc(other), m.issue_ipc() / (alpha + 1))


def figure_4_6(lab: Laboratory) -> Item:
    """The cusp of adds and loads at 90 % of peak."""
    m = lab.machine
    alphas = np.unique(np.append(ALPHAS, crossing(m)))
    dots = measured_cusp(lab, "load")
    series = [
        line("two bounds", alphas, needed(alphas, m, 0.9)),
        line("with memory contention", alphas, needed_by("volkov-contention", m, alphas)),
        line("warps that fit", alphas, m.sm.warps_max),
        *dots,
    ]
    first = min(dots[0].x, default=None)
    notes = [_TIMES] if len(dots) > 1 else []
    if first is None or first > 1:
        known = f"from alpha = {first:g} on" if first is not None else "never"
        notes.append(f"{m.sm.warps_max:g} warps with one 4-byte load each attain 90 % {known}")
    if missed := unattained(lab, "load"):
        notes.append(f"no point: {missed}")
    plot = Plot(f"{lab.name}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True)
    return _figure(lab, "4.6", "cusp behaviour in the model and the experiment", "4.5", [], [plot], *notes)


def figure_4_7(lab: Laboratory) -> Item:
    """Instructions of each kind in execution at a time, against occupancy: by Little's law, measured and modelled."""
    m, plots, rows = lab.machine, [], []
    alu = m.latency_cycles("fp32")
    known = _alphas(lab, "load")
    for alpha in (16, 64) if {16, 64} <= set(known) else known[1:3]:  # the quick form has other ones
        entry = f"mix.load.a{alpha}"
        rates, waits = lab.streamed(entry), lab.stream_latency(entry)
        shown = sorted(rates)
        # a turn is the load, alpha adds and the address: what it takes beyond these is the load's
        loads = [rates[n].median * (waits[n].median - (alpha + 1) * alu) for n in shown]
        adds = [rates[n].median * alpha * alu for n in shown]
        n = np.arange(1.0, m.sm.warps_max + 1)
        result = predict(mix(float(alpha)), m, "volkov-contention", warps_per_sm=n)
        series = []
        for kind, points in (("arithmetic", adds), ("memory", loads)):
            model = np.broadcast_to(result.terms[f"{kind} instructions in execution"].value, n.shape)
            series += [line(f"{kind}, model", n, model), line(f"{kind}, measured", shown, points, "points")]
            rows.append(Row(f"alpha = {alpha}: {kind} in execution at {shown[-1]} warps", points[-1], None, "per SM"))
        plots.append(Plot(f"{lab.name}, alpha = {alpha}", WARPS, "instructions in execution per SM", series))
    note = "the dissertation's figure is a drawing of six warps; this is what it explains, on this GPU"
    return _figure(lab, "4.7", "concurrent execution of adds and loads", "4.6", rows, plots, note)


def _other_cusp(lab: Laboratory, number: str, title: str, other: Kind) -> Item:
    m = lab.machine
    series = [line("two bounds", ALPHAS, needed(ALPHAS, m, 0.9, other=other)), *measured_cusp(lab, other)]
    plots = [Plot(f"{lab.name}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True)]
    for alpha in [a for a in _alphas(lab, other) if a in (1, 4, 16)]:
        rates = lab.chained(f"mix.{other}.a{alpha}")
        n = np.arange(1.0, m.sm.warps_max + 1)
        result = predict(mix(float(alpha), other=other), m, "volkov", warps_per_sm=n).fp32_ops_per_cycle
        shown = [line("two bounds", n, result), _points("measured", rates, 32.0 * alpha)]
        plots.append(Plot(f"{lab.name}, alpha = {alpha}", WARPS, ADDS, shown))
    return _figure(lab, number, title, "4.7", [], plots)


def figure_4_8(lab: Laboratory) -> Item:
    """The cusp with SFU instructions."""
    return _other_cusp(lab, "4.8", "cusp behaviour with SFU instructions", "sfu")


def figure_4_9(lab: Laboratory) -> Item:
    """The cusp with shared-memory accesses."""
    return _other_cusp(lab, "4.9", "cusp behaviour with shared memory accesses", "shared")


def figure_5_5(lab: Laboratory) -> Item:
    """Streaming reads against occupancy, by width and by loads in flight: measured, and by the contention model."""
    m, plots, rows = lab.machine, list[Plot](), []
    peak, n = m.dram_bytes_per_second() / 1e9, np.arange(1.0, m.sm.warps_max + 1)
    for chains in (1, 2, 4):
        series = []
        for width in (4, 8, 16):
            entry = "mix.load.a0" if (chains, width) == (1, 4) else f"stream.dram.ilp{chains}.b{width}"
            rates = lab.streamed(entry)
            series.append(_points(f"{width} bytes per thread", rates, lab.gigabytes(1.0, width)))
            if m.contention is None or not rates:
                continue
            series.append(line(f"{width} bytes, model", n, attained(lab, n * chains, width)))
            shown = np.array(sorted(rates), float)
            off = attained(lab, shown * chains, width) / series[-2].y - 1
            what = f"{chains} load(s) of {width} bytes: model off by, in the mean"
            rows.append(Row(what, 100 * float(np.abs(off).mean()), None, "%"))
        series.append(line("peak", n[[0, -1]], peak))
        plots.append(Plot(f"{chains} load(s) in flight per warp", WARPS, GBPS, series))
    note = "model: all loads that may be in flight, at a latency of a + b x / (c - x), up to the peak"
    return _figure(lab, "5.5", "throughputs attained in streaming accesses", "5.10", rows, plots, note)


def attained(lab: Laboratory, loads: np.ndarray, width: int) -> np.ndarray:
    """Return GB/s of the device with so many loads in flight per SM, of so many bytes per thread (§6.5)."""
    fit = lab.machine.contention
    assert fit is not None
    a, b, c = fit.a_cycles, fit.b_cycles, fit.c_bytes_per_second / 1e9
    want = lab.gigabytes(1.0, width) * loads  # GB/s times cycles: x (a + b x / (c - x)) = want
    linear, square = a * c + want, b - a
    x = 2 * want * c / (linear + np.sqrt(linear**2 + 4 * square * want * c))
    return np.minimum(x, lab.machine.dram_bytes_per_second() / 1e9)


def figure_6_3(lab: Laboratory) -> Item:
    """Mean latency against throughput, by level and loads in flight per warp: measured, and how far the fit is off."""
    plots, rows, m = [], [], lab.machine
    fits = ("dram", m.contention), ("l2", m.contention_l2), ("l1", m.contention_l1)
    for where, fit, chains in ((where, fit, chains) for where, fit in fits if fit for chains in (1, 2, 4, 8)):
        curves_of = {width: _loaded(lab, where, chains, width) for width in (4, 8, 16)}
        if not any(x.size for x, _ in curves_of.values()):
            continue
        series = [line(f"{width} bytes per thread", *xy, "points") for width, xy in curves_of.items()]
        found = [one for xy in curves_of.values() if (one := _with_own_start(fit, *xy))]
        start = fit.a_cycles if chains == 1 or not found else float(np.median([a for a, _ in found]))
        x_fit = np.linspace(0, 0.985, 120) * fit.c_bytes_per_second
        series.append(line("a + b x / (c - x)", x_fit / 1e9, loaded_latency(fit, x_fit, start)))
        title = f"{where}, {chains} load(s) in flight"
        plots.append(Plot(f"{lab.name}, {title}", GBPS, "cycles", series, y_max=5 * fit.a_cycles))
        off = [one for _, each in found for one in each]
        rows.append(Row(f"{title}: off b x / (c - x), {len(off)} points", 100 * float(np.mean(off)), None, "%"))
    note = (
        f"off: in the mean, up to {100 * _NEAR:g} % of the most that a curve comes to, with an a for each, b and c "
        "those of one load in flight"
    )
    return _figure(lab, "6.3", "mean memory latency increases with throughput", "6.4", rows, plots, note)


def _loaded(lab: Laboratory, where: str, chains: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return GB/s and mean latencies of loads, by occupancy."""
    entry = "mix.load.a0" if (where, chains, width) == ("dram", 1, 4) else f"stream.{where}.ilp{chains}.b{width}"
    rates, waits = lab.streamed(entry), lab.stream_latency(entry)
    shown = sorted(rates)
    return np.array([lab.gigabytes(rates[n].median, width) for n in shown]), np.array([waits[n].median for n in shown])


def _with_own_start(fit: Contention, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return an a for latencies before more warps bring no more, and how far these are off the fit with it."""
    most = min(fit.c_bytes_per_second / 1e9, x.max(initial=0.0))
    near = (np.arange(x.size) < np.argmax(x)) & (x < _NEAR * most) if x.size else np.zeros(0, bool)
    if not near.any():
        return None
    rise = loaded_latency(fit, 1e9 * x[near], 0.0)
    start = float(np.median(y[near] - rise))
    return start, np.abs((rise + start) / y[near] - 1)


def figure_6_5(lab: Laboratory) -> Item:
    """Histograms of single latencies at growing loads."""
    sums: dict[tuple[int, int], np.ndarray] = {}
    bins = 8
    for point, values in lab.samples.entries.get("distribution.dram", []):
        key = point["chains"], point["warps"]
        counts, bins = np.array(values["histogram"], float), values["bin_cycles"]
        old = sums.get(key, np.zeros(0))
        total = np.zeros(max(old.size, counts.size))
        total[: old.size] += old
        total[: counts.size] += counts
        sums[key] = total
    plots, rows = [], []
    for (chains, warps), total in sums.items():
        last = int(np.searchsorted(np.cumsum(total) / total.sum(), 0.998))
        title = f"{warps} warps per SM, {chains} load(s) in flight each"
        shown = [line("latencies", np.arange(last) * bins, total[:last] / total.sum())]
        mean = float((np.arange(total.size) + 0.5) @ total / total.sum()) * bins
        at = {"chains": chains, "warps": warps}
        load = lab.samples.one("distribution.dram", lambda p, v: lab.gigabytes(v["rate"] * p["chains"] / lab.sms), **at)
        if load and (result := _spread_by_others(lab, 1e9 * load.median)) is not None:
            edges = np.arange(last + 1) * bins
            share = np.diff(np.interp(edges, result, np.linspace(0, 1, result.size)))
            shown.append(line("model", edges[:-1], share))
            modelled = float((result[1:] + result[:-1]).mean() / 2)
            rows.append(Row(f"{title}: mean by the model, against {mean:.0f} measured", modelled, None, "cycles"))
        plots.append(Plot(title, "cycles", "share", shown))
    note = "model: the mean by a + b x / (c - x), spread about it as at the next lower and the next higher load"
    figure = _figure(lab, "6.5", "distribution of individual memory latencies", "6.6", rows, plots)
    return structs.replace(figure, notes=[note, "measured: the single latencies of all repetitions"])


def _spread_by_others(lab: Laboratory, load: float) -> np.ndarray | None:
    """Return quantiles of single latencies at a load (B/s), from those that were measured at others."""
    fit = lab.machine.contention
    names = (("min", 0.0), ("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99),
             ("max", 1.0))  # fmt: skip
    rows = [d for d in lab.machine.latency_distribution if abs(d.throughput_bytes_per_second / load - 1) > 0.005]
    if fit is None or len(rows) < 2:
        return None
    loads, table, steps = [], [], np.linspace(0, 1, 401)
    for d in sorted(rows, key=lambda d: d.throughput_bytes_per_second):
        known = [(share, value) for name, share in names if (value := getattr(d, f"{name}_cycles")) is not None]
        quantiles = np.interp(steps, [share for share, _ in known], [value for _, value in known])
        loads.append(d.throughput_bytes_per_second)
        table.append(quantiles / ((quantiles[1:] + quantiles[:-1]).mean() / 2))
    shape: np.ndarray = np.array([np.interp(load, loads, column) for column in np.array(table).T])
    return shape * float(loaded_latency(fit, load, fit.a_cycles))


FIGURES = (figure_4_1, figure_4_2, figure_4_5, figure_4_6, figure_4_7, figure_4_8, figure_4_9, figure_5_5, figure_6_3,
           figure_6_5)  # fmt: skip
