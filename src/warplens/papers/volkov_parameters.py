"""Volkov 2016, §5.10 and chapter 6: throughputs, latencies and their distribution, with the H200 beside.

What a GPU of the time measured is marked as the paper's measurement, or as given where it is an input of the models.
"""

from __future__ import annotations

import math

import numpy as np

from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.laboratory import beside
from warplens.papers.measured_figures import figure_5_5 as measured_figure_5_5
from warplens.papers.measured_figures import figure_6_5 as measured_figure_6_5
from warplens.papers.measured_tables import table_6_1 as measured_table_6_1
from warplens.papers.measured_tables import table_6_2 as measured_table_6_2
from warplens.papers.validation.stored import read
from warplens.papers.volkov_figures import GBPS, WARPS, curves, figure, floats, gigabytes, needed, occupancies
from warplens.papers.volkov_hardware import YEARS
from warplens.papers.volkov_tables import GPUS, PAPER, generation
from warplens.papers.volkov_throughput import points
from warplens.workload import mix

_TABLE_6_1 = {  # operations per cycle and scheduler: add, SFU, shared, 2-way conflicts, streaming, random
    "8800gtx": ("8", "2", "6", "3", "0.86", "0.027"), "gtx280": ("8", "2", "8", "4", "0.89", "0.016"),
    "gtx480": ("16", "2", "8", "4", "0.97", "0.029"), "gtx680": ("32", "8", "8", "4", "1.07", "0.034"),
    "gtx980": ("32", "8", "8", "4", "0.65", "0.023"),
}  # fmt: skip
_TABLE_6_2 = {
    "8800gtx": ("20", "32", "38", "54", "444", "644"), "gtx280": ("24", "34", "40", "56", "434", "662"),
    "gtx480": ("18", "22", "26", "58", "513", "1571"), "gtx680": ("9", "9", "24", "56", "301", "1213"),
    "gtx980": ("6", "13", "24", "26", "368", "534"),
}  # fmt: skip
_KINDS = ("fp32", "sfu", "shared", "shared_2way", "load", "load_random")


def figure_5_5() -> Item:
    """Figure 5.5: streaming reads against occupancy."""
    machines = [load_machine(gpu) for gpu in GPUS]
    shares = [100 * (m.dram_bytes_per_second() / (m.memory.pin_bytes_per_second or math.nan)) for m in machines]
    rows = [
        Row("lowest peak, of the pin bandwidth", min(shares), "80", "%", "Kepler: Tables 6.4 and 2.7"),
        Row("highest peak, of the pin bandwidth", max(shares), "97", "%", "GT200"),
    ]
    plots = []
    for m in machines:
        peak = line("peak (Table 6.4)", [1.0, m.sm.warps_max], m.dram_bytes_per_second() / 1e9)
        plots.append(curves("", m, 0.0, {"with memory contention": "volkov-contention"}, peak))
    if lab := beside():
        own = measured_figure_5_5(lab)
        plots += own.plots
        rows += own.rows
    note = "the dots of the five GPUs are the paper's measurements and not printed as numbers"
    return figure("5.5", "throughputs attained in streaming accesses", "5.10", rows, plots, note)


def figure_6_5() -> Item:
    """Figure 6.5: single latencies on Kepler, by the percentiles that Table 6.6 prints."""
    kepler = load_machine("gtx680")
    spreads, peak = kepler.latency_distribution, kepler.dram_bytes_per_second()
    shares = [100 * d.throughput_bytes_per_second / peak for d in spreads]
    names = (("min", 0), ("p5", 5), ("p25", 25), ("p50", 50), ("p75", 75), ("p95", 95), ("max", 100))
    low, high = spreads[0], spreads[-1]
    rows = [
        Row("lowest load, of the peak", shares[0], "2.5", "%"),
        Row("intermediate load, of the peak", shares[4], "69", "%"),
        Row("highest load, of the peak", shares[-1], "94", "%"),
        Row("lowest load: width of the middle 90 %", (low.p95_cycles or 0) - (low.p5_cycles or 0), "32", "cycles"),
        Row("lowest load: longest over the mean of 303", (low.max_cycles or 0) / 303, "1.8", "times"),
        Row("highest load: 5th percentile", high.p5_cycles or 0, "340", "cycles", given=True),
        Row("highest load: 95th percentile", high.p95_cycles or 0, "708", "cycles", given=True),
    ]
    series = [
        line(f"{share:.0f} % of peak", [getattr(d, f"{name}_cycles") for name, _ in names], [p for _, p in names])
        for d, share in zip(spreads, shares, strict=True)
    ]
    plots = [Plot("Kepler, Table 6.6", "cycles", "percentile", series, log_x=True)]
    if lab := beside():
        own = measured_figure_6_5(lab)
        plots += own.plots
        rows += own.rows
    note = "the paper draws densities; its percentiles are what it prints"
    return figure("6.5", "distribution of individual memory latencies", "6.6", rows, plots, note)


def figure_6_1() -> Item:
    """Figure 6.1: shared-memory accesses on Maxwell against occupancy."""
    maxwell = load_machine("gtx980")
    n, scale = occupancies(maxwell), 32.0
    two = floats(predict(mix(0.0, other="shared"), maxwell, "volkov", warps_per_sm=n).ipc) * scale
    warps = float(needed(0.0, maxwell, other="shared"))
    kept = maxwell.timing("shared").needed_warps_per_scheduler
    assert kept is not None
    rows = [
        Row("warps needed, latency x throughput", warps, "24", WARPS),
        Row("share of peak at 24 warps", 100 * float(two[n == 24][0]) / scale, "92", "%",
            "odd, says the paper: 32 warps attain 99 %", measured=True),
        Row("warps at peak", warps, f"{kept * maxwell.sm.schedulers:g}", WARPS, measured=True),
    ]  # fmt: skip
    plots = [Plot("Maxwell, shared memory", WARPS, "ops/cycle", [line("two bounds", n, two)])]
    if lab := beside():
        rates = lab.chained("instruction.lds")
        m = lab.machine
        own = floats(predict(mix(0.0, other="shared"), m, "volkov", warps_per_sm=n).ipc) * scale
        plots.append(Plot("H200, shared memory", WARPS, "ops/cycle", [
            line("two bounds", n, own), points("measured", rates, scale),
        ]))  # fmt: skip
        need = float(needed(0.0, m, other="shared"))
        near = min((w for w in rates if w >= need), default=max(rates))
        share = rates[near].median / max(r.median for r in rates.values())
        rows.append(Row("H200: warps needed, latency x throughput", need, None, WARPS))
        rows.append(Row(f"H200: share of peak at {near} warps", 100 * share, None, "%"))
    return figure("6.1", "throughput in shared memory accesses", "6.1", rows, plots)


def figure_6_2() -> Item:
    """Figure 6.2: loads in flight of one warp do what more warps do."""
    fermi = load_machine("gtx480")
    n = occupancies(fermi)
    most, s = fermi.sm.warps_max, fermi.stream_saturation
    assert s is not None
    plots = [Plot("Fermi, loads only", WARPS, GBPS, [
        line(f"ILP = {ilp}, contention model", n, gigabytes(0.0, fermi, "volkov-contention", ilp * n)) for ilp in (1, 2)
    ])]  # fmt: skip
    share = float(gigabytes(0.0, fermi, "volkov-contention", most)) / (fermi.dram_bytes_per_second() / 1e9)
    rows = [
        Row("Fermi: warps per scheduler for 95 %, twice those of ILP = 2", 2 * 12.5,
            f"{s.at_95_percent_warps_per_scheduler:g}", "warps/scheduler", given=True),
        Row("Fermi: share of peak that ILP = 1 comes to", 100 * share, "95", "%", "the paper: less than 95 %",
            measured=True),
    ]  # fmt: skip
    if lab := beside():
        chains = {1: "mix.load.a0", 2: "mix.load.a0.ilp2", 4: "mix.load.a0.ilp4"}
        rates = {ilp: lab.streamed(entry) for ilp, entry in chains.items()}
        scale = lab.gigabytes(1.0)
        plots.append(Plot("H200, loads only", WARPS, GBPS, [points(f"ILP = {i}", r, scale) for i, r in rates.items()]))
        plots.append(Plot("H200, the same by loads in flight", "warps per SM x ILP", GBPS, [
            points(f"ILP = {i}", r, scale, i) for i, r in rates.items()
        ]))  # fmt: skip
        for ilp in (2, 4):
            both = [w for w in rates[ilp] if w * ilp in rates[1]]
            off = [rates[ilp][w].median / rates[1][w * ilp].median - 1 for w in both]
            what = f"H200: ILP = {ilp} at n warps over ILP = 1 at {ilp} n, in the mean over {len(both)} occupancies"
            rows.append(Row(what, 1 + float(np.mean(off)), None, "ratio"))
    return figure("6.2", "instruction-level parallelism in the place of warps", "6.3", rows, plots)


def figure_6_6() -> Item:
    """Figure 6.6: random loads against the size of the array."""
    rows, plots = [], []
    printed = {"gtx280": "56", "gtx480": "33", "gtx980": "28"}
    for gpu in GPUS:
        m = load_machine(gpu)
        stream, random = (
            m.timing(kind).peak_ops_per_cycle_per_scheduler or math.nan for kind in ("load", "load_random")
        )
        note = "the paper: 28 to 33 on all but GT200" if gpu not in printed else ""
        what = f"{generation(m)}: streaming over random, at the array size chosen (Table 6.1)"
        rows.append(Row(what, stream / random, printed.get(gpu), "times", note))
    if lab := beside():
        found = lab.samples.take("stream.random", lambda p, v: v["rate"] / lab.sms, "bytes", "warps")
        rates = {size: r.median for (size, warps), r in sorted(found.items()) if warps == lab.machine.sm.warps_max}
        sizes = [size / (1 << 20) for size in rates]
        shown = [lab.gigabytes(rate) for rate in rates.values()]
        plots.append(Plot("H200, random loads of 4 bytes", "MiB of the array", GBPS, [
            line("each load waits for the one before", sizes, shown, "points"),
            *_independent_random(),
            line("L2 cache", [(lab.machine.cache.l2_bytes or 0) / (1 << 20)], [0.0], "rule"),
        ], log_x=True))  # fmt: skip
        stream = lab.machine.dram_bytes_per_second() / 1e9
        rows += [Row(f"H200: {size:g} MiB", y, None, GBPS) for size, y in zip(sizes, shown, strict=True)]
        note = "32 bytes are moved for 4: 8 times would be the data alone"
        rows.append(Row("H200: streaming over random at the largest array", stream / shown[-1], None, "times", note))
    note = "the curves of the five GPUs are the paper's measurements and not printed as numbers"
    return figure("6.6", "unstructured accesses against the size of the data", "6.7", rows, plots, note)


def _independent_random() -> list[Series]:
    """Return random loads that do not wait for one another, over the size of the array (data/experiments)."""
    try:
        every = read("experiments/dram_granularity/scattered.json.gz")["rows"]
    except WarplensError:
        return []
    rows = [r for r in every if r["what"] == "load" and (r["lanes"], r["blocks"], r["ilp"]) == (1, 264, 4)]
    sizes = [r["bytes"] / (1 << 20) for r in rows]
    return [line("independent loads", sizes, [4 * r["pieces_per_ns"] for r in rows], "points")]


def _specified(m: Machine) -> tuple[float | None, ...]:
    """Return what the hardware's specification gives for Table 6.1, streaming from Table 6.4's peak."""
    per, shared = m.sm.schedulers, m.shared_memory
    assert shared is not None and m.sm.cuda_cores is not None and m.sm.sfu_units is not None
    assert shared.banks is not None and shared.access_interval_cycles is not None
    smem = shared.banks / shared.access_interval_cycles / per
    stream = m.dram_bytes_per_cycle() / 128 * 32 / per
    adds = min(m.sm.cuda_cores / per, 32 / m.sm.issue_interval_cycles)
    return adds, m.sm.sfu_units / per, smem, smem / 2, stream, None


def table_6_1() -> Item:
    """Table 6.1: peak throughputs, against the hardware's specification."""
    rows, x = [], list(YEARS.values())
    columns: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for gpu, printed in _TABLE_6_1.items():
        m = load_machine(gpu)
        for kind, ours, text in zip(_KINDS, _specified(m), printed, strict=True):
            kept = m.timing(kind).peak_ops_per_cycle_per_scheduler or math.nan
            odd = gpu == "8800gtx" and kind.startswith("shared")
            note = "16 banks every 2 cycles would be 8, 4 with conflicts: the paper finds no reason" if odd else ""
            what, unit, value = f"{generation(m)} {kind}", "ops/cycle/scheduler", kept if ours is None else ours
            rows.append(Row(what, value, text, unit, note, measured=odd, given=ours is None))
            columns[kind].append(kept)
    series = [line(kind, x, y) for kind, y in columns.items()]
    plot = Plot("Peak throughputs", "year", "ops/cycle/scheduler", series, log_y=True)
    grids = measured_table_6_1(lab).grids if (lab := beside()) else []
    note = (
        "ours: cores, SFUs and banks by cycle and scheduler, at most one warp an issue; streaming by Table 6.4's peak"
    )
    title = "Table 6.1: peak instruction throughputs"
    return Item("volkov-table-6.1", title, f"{PAPER} §6.1", rows, [plot], [note], grids)


def table_6_2() -> Item:
    """Table 6.2: latencies, as the paper measured them, with the H200's beside."""
    rows, x = [], list(YEARS.values())
    columns: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for gpu, printed in _TABLE_6_2.items():
        m = load_machine(gpu)
        for kind, text in zip(_KINDS, printed, strict=True):
            kept = m.timing(kind).latency_cycles or math.nan
            rows.append(Row(f"{generation(m)} {kind}", kept, text, "cycles", given=True))
            columns[kind].append(kept)
    for gpu, text in zip(GPUS, ("16", "16", "32", "32", "2"), strict=True):
        m = load_machine(gpu)
        more = m.latency_cycles("shared_2way") - m.latency_cycles("shared")
        rows.append(Row(f"{generation(m)}: 2-way conflicts take longer by (§6.2)", more, text, "cycles"))
    plot = Plot("Latencies", "year", "cycles", [line(k, x, y) for k, y in columns.items()], log_y=True)
    grids = measured_table_6_2(lab).grids if (lab := beside()) else []
    title, notes = "Table 6.2: register dependency latencies", ["the paper's measurements are the model's inputs"]
    return Item("volkov-table-6.2", title, f"{PAPER} §6.1", rows, [plot], notes, grids)


ITEMS = (figure_5_5, figure_6_1, figure_6_2, figure_6_5, figure_6_6, table_6_1, table_6_2)
