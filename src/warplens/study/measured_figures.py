"""Volkov's figures for a GPU that the laboratory measured: points measured, curves modelled."""

from __future__ import annotations

import math
import re

import numpy as np

from warplens.kernel import mix
from warplens.machine import load_machine
from warplens.measure.derive_instructions import needed_warps
from warplens.measure.samples import Reading
from warplens.models import predict
from warplens.models.volkov_contention import loaded_latency
from warplens.study.item import Grid, Item, Plot, Row, Series, line
from warplens.study.laboratory import Laboratory
from warplens.study.volkov_figures import (
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
from warplens.study.volkov_tables import GPUS, PAPER, generation

_LOOP = 9  # instructions of a loop's trip around the loads


def _figure(
    lab: Laboratory, number: str, title: str, section: str, rows: list[Row], plots: list[Plot], *notes: str
) -> Item:
    identity = f"volkov-figure-{number}-{lab.machine.id}"
    return Item(identity, f"Figure {number}: {title}", f"{PAPER} §{section}; {lab.name} by the laboratory", rows, plots,
                list(notes))  # fmt: skip


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
    """Occupancy needed for arithmetic and for memory, on the five GPUs and this one."""
    machines = [*map(load_machine, GPUS), lab.machine]
    arithmetic, memory = ([float(needed(alpha, m)) for m in machines] for alpha in (math.inf, 0.0))
    names = [generation(m) for m in machines]
    rows = [
        [n, f"{a:.0f}", f"{b:.0f}", f"{m.sm.warps_max:g}"]
        for n, a, b, m in zip(names, arithmetic, memory, machines, strict=True)
    ]
    grid = Grid(["warps/SM", "adds only", "loads only", "fit"], rows)
    series = [
        line("adds only", np.arange(len(names)), arithmetic, "points"),
        line("loads only", np.arange(len(names)), memory, "points"),
    ]
    plot = Plot(", ".join(names), "generation", "warps per SM needed", series)
    made = _figure(lab, "4.2", "occupancies needed to hide arithmetic and memory latencies", "4.3", [], [plot])
    return Item(made.id, made.title, made.source, [], made.plots, [], [grid])


def figure_4_5(lab: Laboratory) -> Item:
    """Needed occupancy against alpha, by the two bounds."""
    m = lab.machine
    alphas = np.unique(np.append(np.geomspace(0.25, 1024, 97), crossing(m)))
    rows = [
        Row("alpha = 0", float(needed(0.0, m)), None, WARPS),
        Row(f"largest, at alpha = {crossing(m):.1f}", float(needed(crossing(m), m)), None, WARPS),
        Row("alpha infinite", float(needed(math.inf, m)), None, WARPS),
    ]
    series = [line("two bounds", alphas, needed(alphas, m)), line("warps that fit", alphas, m.sm.warps_max)]
    plot = Plot(f"{lab.name}, adds and loads", ALPHA, "warps per SM needed", series, log_x=True)
    return _figure(lab, "4.5", "occupancy needed against arithmetic intensity", "4.5", rows, [plot])


def _alphas(lab: Laboratory, other: str) -> list[int]:
    found = (re.fullmatch(rf"mix\.{other}\.a(\d+)", name) for name in lab.samples.entries)
    return sorted(int(match[1]) for match in found if match)


def _measured_cusp(lab: Laboratory, other: Kind, fraction: float = 0.9) -> Series:
    """Warps at which a mix attains this fraction of what the hardware allows; none where that takes more than fit."""
    m, x, y = lab.machine, [], []
    for alpha in _alphas(lab, other):
        entry = f"mix.{other}.a{alpha}"
        if other == "load":
            rates = lab.streamed(entry)
            unroll = lab.samples.entries[entry][0][0]["unroll"]
            bound = min(m.dram_bytes_per_cycle() / 128, m.issue_ipc() / (alpha + 2 + _LOOP / unroll))
        else:
            rates = lab.chained(entry)
            bound = min(m.peak_ipc(other), m.issue_ipc() / (alpha + 1))
        found = needed_warps(rates, fraction * bound)
        if found is not None and alpha:
            x.append(float(alpha))
            y.append(found)
    return line("measured", x, y, "points")


def figure_4_6(lab: Laboratory) -> Item:
    """The cusp of adds and loads at 90 % of peak."""
    m = lab.machine
    alphas = np.unique(np.append(ALPHAS, crossing(m)))
    series = [
        line("two bounds", alphas, needed(alphas, m, 0.9)),
        line("with memory contention", alphas, needed_by("volkov-contention", m, alphas)),
        line("warps that fit", alphas, m.sm.warps_max),
        _measured_cusp(lab, "load"),
    ]
    dots = series[-1]
    note = (
        f"measured from alpha = {dots.x[0]:g} on; below, {m.sm.warps_max:g} warps with one 4-byte load each attain less"
        if dots.x
        else "no mix attains 90 % with the warps that fit"
    )
    plot = Plot(f"{lab.name}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True)
    return _figure(lab, "4.6", "cusp behaviour in the model and the experiment", "4.5", [], [plot], note)


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
        made = predict(mix(float(alpha)), m, "volkov-contention", warps_per_sm=n)
        series = []
        for kind, points in (("arithmetic", adds), ("memory", loads)):
            model = np.broadcast_to(made.terms[f"{kind} instructions in execution"].value, n.shape)
            series += [line(f"{kind}, model", n, model), line(f"{kind}, measured", shown, points, "points")]
            rows.append(Row(f"alpha = {alpha}: {kind} in execution at {shown[-1]} warps", points[-1], None, "per SM"))
        plots.append(Plot(f"{lab.name}, alpha = {alpha}", WARPS, "instructions in execution per SM", series))
    note = "the dissertation's figure is a drawing of six warps; this is what it explains, on this GPU"
    return _figure(lab, "4.7", "concurrent execution of adds and loads", "4.6", rows, plots, note)


def _other_cusp(lab: Laboratory, number: str, title: str, other: Kind) -> Item:
    m = lab.machine
    series = [line("two bounds", ALPHAS, needed(ALPHAS, m, 0.9, other=other)), _measured_cusp(lab, other)]
    plots = [Plot(f"{lab.name}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True)]
    for alpha in [a for a in _alphas(lab, other) if a in (1, 4, 16)]:
        rates = lab.chained(f"mix.{other}.a{alpha}")
        n = np.arange(1.0, m.sm.warps_max + 1)
        made = predict(mix(float(alpha), other=other), m, "volkov", warps_per_sm=n).fp32_ops_per_cycle
        shown = [line("two bounds", n, made), _points("measured", rates, 32.0 * alpha)]
        plots.append(Plot(f"{lab.name}, alpha = {alpha}", WARPS, ADDS, shown))
    return _figure(lab, number, title, "4.7", [], plots)


def figure_4_8(lab: Laboratory) -> Item:
    """The cusp with SFU instructions."""
    return _other_cusp(lab, "4.8", "cusp behaviour with SFU instructions", "sfu")


def figure_4_9(lab: Laboratory) -> Item:
    """The cusp with shared-memory accesses."""
    return _other_cusp(lab, "4.9", "cusp behaviour with shared memory accesses", "shared")


def figure_5_5(lab: Laboratory) -> Item:
    """Streaming reads against occupancy, by width and by loads in flight."""
    peak = lab.machine.dram_bytes_per_second() / 1e9
    plots = []
    for chains in (1, 2, 4):
        series = []
        for width in (4, 8, 16):
            entry = "mix.load.a0" if (chains, width) == (1, 4) else f"stream.dram.ilp{chains}.b{width}"
            series.append(_points(f"{width} bytes per thread", lab.streamed(entry), lab.gigabytes(1.0, width)))
        fit = np.array([1.0, lab.machine.sm.warps_max])
        plots.append(Plot(f"{chains} load(s) in flight per warp", WARPS, GBPS, [*series, line("peak", fit, peak)]))
    return _figure(lab, "5.5", "throughputs attained in streaming accesses", "5.10", [], plots)


def figure_6_3(lab: Laboratory) -> Item:
    """Mean latency against throughput: measured, and the fit."""
    plots = []
    for where, fit in (("dram", lab.machine.contention), ("l2", lab.machine.contention_l2)):
        if fit is None:
            continue
        series = []
        for width in (4, 8, 16):
            entry = "mix.load.a0" if (where, width) == ("dram", 4) else f"stream.{where}.ilp1.b{width}"
            rates, waits = lab.streamed(entry), lab.stream_latency(entry)
            x = [lab.gigabytes(rates[n].median, width) for n in sorted(rates)]
            series.append(line(f"{width} bytes per thread", x, [waits[n].median for n in sorted(rates)], "points"))
        x_fit = np.linspace(0, 0.985, 120) * fit.c_bytes_per_second
        series.append(line("a + b x / (c - x)", x_fit / 1e9, loaded_latency(fit, x_fit, fit.a_cycles)))
        plots.append(Plot(f"{lab.name}, {where}", GBPS, "cycles", series, y_max=5 * fit.a_cycles))
    return _figure(lab, "6.3", "mean memory latency increases with throughput", "6.4", [], plots)


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
    plots = []
    for (chains, warps), total in sums.items():
        last = int(np.searchsorted(np.cumsum(total) / total.sum(), 0.998))
        title = f"{warps} warps per SM, {chains} load(s) in flight each"
        shown = line("latencies", np.arange(last) * bins, total[:last] / total.sum())
        plots.append(Plot(title, "cycles", "share", [shown]))
    return _figure(lab, "6.5", "distribution of individual memory latencies", "6.6", [], plots)


FIGURES = (figure_4_1, figure_4_2, figure_4_5, figure_4_6, figure_4_7, figure_4_8, figure_4_9, figure_5_5, figure_6_3,
           figure_6_5)  # fmt: skip
