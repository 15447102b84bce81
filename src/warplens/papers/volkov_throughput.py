"""Volkov 2016: what hides arithmetic and memory latency (§4.3, 4.4, 4.8) and the parameters of chapter 6.

The papers' GPUs have machine files with what is printed; the H200 beside them has the laboratory's journal, where it is
installed. What a GPU of the time measured is marked as the paper's measurement.
"""

from __future__ import annotations

import math

import numpy as np

from warplens.laboratory.instructions import needed_warps as warps_for_rate
from warplens.laboratory.samples import Reading
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.laboratory import Laboratory, beside
from warplens.papers.measured_figures import warps_for_loads
from warplens.papers.measured_tables import table_6_1 as measured_table_6_1
from warplens.papers.measured_tables import table_6_2 as measured_table_6_2
from warplens.papers.volkov_figures import ALPHA, GBPS, WARPS, figure, floats, gigabytes, needed, needed_by, occupancies
from warplens.papers.volkov_hardware import YEAR_OF_H200, YEARS
from warplens.papers.volkov_tables import GPUS, PAPER, generation
from warplens.workload import mix

_GIB = 1 << 30
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


def _points(name: str, rates: dict[int, Reading], scale: float = 1.0, chains: int = 1) -> Series:
    return line(name, [n * chains for n in sorted(rates)], [rates[n].median * scale for n in sorted(rates)], "points")


def figure_4_2() -> Item:
    """Figure 4.2: occupancies that hide arithmetic and memory latency, and the table of their ratios."""
    rows, alone, with_loads, linear = [], [], [], []
    for gpu in GPUS:
        m = load_machine(gpu)
        s, adds = m.stream_saturation, m.timing("fp32").needed_warps_per_scheduler
        assert s is not None and adds is not None and s.at_90_percent_warps_per_scheduler is not None
        at_90, name, per = s.at_90_percent_warps_per_scheduler, generation(m), m.sm.schedulers
        paper = f"{m.printed.memory_to_arithmetic_factor:g}"
        what = f"{name}: 90 % of memory's peak (Table 6.4) over adds (Table 6.3)"
        rows.append(Row(what, at_90 / adds, paper, "times"))
        ours = needed_by("volkov-contention", m, np.zeros(1))[0] / float(needed(math.inf, m))
        rows.append(Row(f"{name}: by the models, with contention", ours, paper, "times", measured=True))
        alone.append(adds * per)
        with_loads.append(at_90 * per)
        linear.append(float(needed(0.0, m)))
    names, x = [generation(load_machine(gpu)) for gpu in GPUS], list(YEARS.values())
    series = [line("adds, measured", x, alone), line("loads at 90 %, measured", x, with_loads),
              line("loads, latency x throughput", x, linear)]  # fmt: skip
    notes = ["G80 with multiply-adds, for which 6 warps are needed: the paper's 3.3 times, 20 / 6"]
    if lab := beside():
        peak = lab.peak("instruction.fadd")
        adds_found, loads_found = warps_for_rate(lab.chained("instruction.fadd"), 0.9 * peak), warps_for_loads(lab)
        if adds_found is not None and loads_found is not None:
            series.append(line("H200, adds at 90 %", [YEAR_OF_H200], [adds_found], "points"))
            series.append(line("H200, loads in flight at 90 %", [YEAR_OF_H200], [loads_found[0]], "points"))
            what = "H200: loads in flight over warps of adds, both at 90 %"
            note = f"loads: {loads_found[1]}; {lab.machine.sm.warps_max:g} warps fit"
            rows.append(Row(what, loads_found[0] / adds_found, None, "times", note))
        names.append(f"{lab.name} (H200)")
    plot = Plot(", ".join(names), "year", WARPS, series)
    return figure("4.2", "occupancies needed to hide arithmetic and memory latencies", "4.3", rows, [plot], *notes)


def figure_4_3() -> Item:
    """Figure 4.3: loads that do not coalesce need fewer warps, on Maxwell and on the H200."""
    maxwell = load_machine("gtx980")
    n = occupancies(maxwell)
    stride = predict(mix(0.0, stride=2), maxwell, "volkov", warps_per_sm=n)
    peak = float(floats(stride.ipc)[-1])
    random = maxwell.peak_ipc("load_random")
    slow = maxwell.latency_cycles("load_random")
    at_90 = maxwell.timing("load_random").needed_warps_per_scheduler
    assert at_90 is not None
    rows = [
        Row("stride 2: peak", peak, "0.041", "IPC/SM", "half of Table 6.4's bandwidth: two transactions of 128 bytes"),
        Row("stride 2: latency", maxwell.latency_cycles("load"), "376", "cycles", "ours: of stride 1", measured=True),
        Row("stride 2: warps for 90 %, latency x throughput", 0.9 * 376 * peak, "20", WARPS,
            "ours has no gradual saturation", measured=True),
        Row("random: peak", random, "0.0029", "IPC/SM", "Table 6.1's 0.023 x 4 / 32"),
        Row("random: latency", slow, "534", "cycles", given=True),
        Row("random: warps for 90 %", at_90 * maxwell.sm.schedulers, "3", WARPS, "Table 6.3's 0.75 x 4"),
        Row("random: warps for 90 %, latency x throughput", 0.9 * slow * random, "3", WARPS, measured=True),
    ]  # fmt: skip
    plots = [
        Plot("Maxwell, stride 2", WARPS, "IPC/SM", [line("two bounds", n, floats(stride.ipc))]),
        Plot("Maxwell, random", WARPS, "IPC/SM", [line("two bounds", n, np.minimum(n / slow, random))]),
    ]
    if lab := beside():
        rates = _random_by_warps(lab)
        series = [_points("H200, 1 GiB", rates), line("H200, latency x throughput", *_two_bounds_of_random(lab, rates))]
        plots.append(Plot("H200, random", WARPS, "IPC/SM", series))
        best = max(r.median for r in rates.values())
        found = warps_for_rate(rates, 0.9 * best)
        rows.append(Row("H200, random: peak", best, None, "IPC/SM"))
        rows.append(Row("H200, random: warps for 90 %", math.nan if found is None else found, None, WARPS))
    return figure("4.3", "non-coalesced accesses require fewer warps", "4.3", rows, plots)


def _random_by_warps(lab: Laboratory, size: int = _GIB) -> dict[int, Reading]:
    """Return random loads of a warp per cycle and SM in an array of so many bytes, by warps per SM."""
    found = lab.samples.take("stream.random", lambda p, v: v["rate"] / lab.sms, "warps", bytes=size)
    return {warps: reading for warps, reading in found.items() if warps}


def _two_bounds_of_random(lab: Laboratory, rates: dict[int, Reading]) -> tuple[list[float], list[float]]:
    alone = lab.samples.one("stream.random", lambda p, v: float(v["mean_cycles_per_count"]), warps=0)
    assert alone is not None
    best, most = max(r.median for r in rates.values()), float(max(rates))
    knee = alone.median * best
    return [0.0, knee, most], [0.0, best, best]


def memory_wall(machine: Machine) -> float:
    """Return pin bandwidth over the adds of all CUDA cores, in bytes per operation (§4.4)."""
    assert machine.memory.pin_bytes_per_second is not None and machine.sm.cuda_cores is not None
    adds = machine.chip.sm_count * machine.sm.cuda_cores * machine.chip.clock_hz
    return machine.memory.pin_bytes_per_second / adds


def figure_4_4() -> Item:
    """Figure 4.4: memory bandwidth lags behind arithmetic throughput."""
    years = [*YEARS.values(), YEAR_OF_H200]
    machines = [*map(load_machine, GPUS), load_machine("h200")]
    ratios = [memory_wall(m) for m in machines]
    rows = [
        Row(f"{generation(m)}: bytes per operation", r, None, "B/op") for m, r in zip(machines, ratios, strict=True)
    ]
    fits = {}
    for what, count, paper in (("the five GPUs", 5, "1.24"), ("the five and the H200", 6, None)):
        slope, start = np.polyfit(years[:count], np.log(ratios[:count]), 1)
        fits[what] = line(f"fit of {what}", years, np.exp(start + slope * np.array(years)))
        note = "the paper's fit is over all GeForce GPUs" if paper else "the H200 has HBM3e, beside its chip"
        rows.append(Row(f"{what}: a year's factor", math.exp(-slope), paper, "times", note, measured=paper is not None))
    series = [line("pin bandwidth / CUDA cores", years, ratios, "points"), *fits.values()]
    plot = Plot("Memory wall", "year", "bytes per operation", series, log_y=True)
    note = "the dots of other GeForce GPUs are from the vendor's pages of the time and not printed"
    return figure("4.4", "memory bandwidth lags behind arithmetic", "4.4", rows, [plot], note)


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
            line("two bounds", n, own), _points("measured", rates, scale),
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
        plots.append(Plot("H200, loads only", WARPS, GBPS, [_points(f"ILP = {i}", r, scale) for i, r in rates.items()]))
        plots.append(Plot("H200, the same by loads in flight", "warps per SM x ILP", GBPS, [
            _points(f"ILP = {i}", r, scale, i) for i, r in rates.items()
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
            line("measured", sizes, shown, "points"),
            line("L2 cache", [(lab.machine.cache.l2_bytes or 0) / (1 << 20)], [0.0], "rule"),
        ], log_x=True))  # fmt: skip
        stream = lab.machine.dram_bytes_per_second() / 1e9
        rows += [Row(f"H200: {size:g} MiB", y, None, GBPS) for size, y in zip(sizes, shown, strict=True)]
        note = "32 bytes are moved for 4: 8 times would be the data alone"
        rows.append(Row("H200: streaming over random at the largest array", stream / shown[-1], None, "times", note))
    note = "the curves of the five GPUs are the paper's measurements and not printed as numbers"
    return figure("6.6", "unstructured accesses against the size of the data", "6.7", rows, plots, note)


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


def guide_example() -> Item:
    """The programming guide's example: 600 cycles, 4 cycles per instruction, 30 instructions per load (§4.8)."""
    latency, cpi, alpha = 600.0, 4.0, 30.0
    machine = load_machine("gtx280").with_values(instructions__load__latency_cycles=latency)
    assert machine.peak_ipc("fp32") * cpi == 1
    guide, refined, own = (
        float(floats(predict(mix(alpha), machine, model).needed_warps_per_sm))
        for model in ("cuda-guide", "cuda-guide-refined", "volkov")
    )
    rows = [
        Row("instructions issued while one warp waits", latency / cpi, "150"),
        Row("warps that supply them", guide, "5", WARPS),
        Row("with the warp that waits", guide + 1, "6", WARPS),
        Row("refined: (alpha + 1) instructions, and the warp that waits", refined, None, WARPS, "600 / (4 x 31) + 1"),
        Row("by the two bounds, GT200's adds of 24 cycles", own, None, WARPS, "arithmetic latency counts, too"),
    ]
    alphas = np.geomspace(1, 256, 81)
    plots = []
    for m, name in ((machine, "GT200 with 600 cycles"), (load_machine("h200"), "H200")):
        series = [
            line(label, alphas, floats(predict(mix(alphas), m, model).needed_warps_per_sm))
            for label, model in (("guide", "cuda-guide"), ("refined", "cuda-guide-refined"), ("two bounds", "volkov"))
        ]
        plots.append(Plot(name, ALPHA, "warps per SM needed", series, log_x=True, log_y=True))
    title = "The CUDA C programming guide's example"
    return Item("volkov-guide-example", title, f"{PAPER} §4.8", rows, plots)


ITEMS = (figure_4_2, figure_4_3, figure_4_4, guide_example, figure_6_1, figure_6_2, figure_6_6, table_6_1, table_6_2)
