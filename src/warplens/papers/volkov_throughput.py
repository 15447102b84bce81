"""Volkov 2016: the warps that hide arithmetic and memory latency (§1.3, 4.3, 4.4, 4.8), with the H200 beside.

The paper's GPUs have machine files with what is printed; the H200 beside them has the laboratory's journal, where it is
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
from warplens.papers.occupancy_ladders import stamped
from warplens.papers.volkov_figures import (
    ALPHA,
    WARPS,
    curves,
    cusp_rows,
    figure,
    floats,
    needed,
    needed_by,
    occupancies,
)
from warplens.papers.volkov_hardware import YEAR_OF_H200, YEARS
from warplens.papers.volkov_tables import GPUS, PAPER, generation
from warplens.workload import mix

_GIB = 1 << 30


def points(name: str, rates: dict[int, Reading], scale: float = 1.0, chains: int = 1) -> Series:
    """Return what the laboratory measured, over warps per SM times chains."""
    return line(name, [n * chains for n in sorted(rates)], [rates[n].median * scale for n in sorted(rates)], "points")


def figure_1_2() -> Item:
    """Figure 1.2: prior models and this one on the mix of adds and loads."""
    g80, fermi, maxwell = (load_machine(gpu) for gpu in ("8800gtx", "gtx480", "gtx980"))
    guide = float(floats(predict(mix(64.0), maxwell, "cuda-guide").needed_warps_per_sm))
    both = {"two bounds": "volkov", "with memory contention": "volkov-contention"}
    plots = [
        curves("a, left", fermi, 32.0, {"Sim et al.": "sim2012", **both}),
        curves("a, right", maxwell, 64.0, both, line("programming guide", [guide], [0.0], "rule")),
        curves("b, left", g80, 0.0, {"Baghsorkhi et al.": "baghsorkhi", **both}),
        curves("b, right", fermi, 0.0, {"Huang et al.": "huang-rr", **both}),
        curves("c, left", g80, 11.0, {"Baghsorkhi et al.": "baghsorkhi", **both}),
        curves("c, right", maxwell, 64.0, both),
    ]
    note = "GPUs and alphas are not printed here: those of §4.8 and chapter 7, whose items have the numbers"
    return figure("1.2", "estimated performance in the simplistic workload", "1.3", [], plots, note)


def figure_1_3() -> Item:
    """Figure 1.3: the cusp."""
    maxwell = load_machine("gtx980")
    rows = cusp_rows(maxwell)
    alphas = np.geomspace(0.25, 1024, 97)
    plot = Plot(
        "Maxwell", ALPHA, "warps per SM needed", [line("two bounds", alphas, needed(alphas, maxwell))], log_x=True
    )
    return figure("1.3", "cusp behaviour", "1.5", rows, [plot], "the GPU is not printed; Figure 4.5's is taken")


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
        rates = random_by_warps(lab)
        series = [points("H200, 1 GiB", rates), line("H200, latency x throughput", *_two_bounds_of_random(lab, rates))]
        plots.append(Plot("H200, random", WARPS, "IPC/SM", series))
        best = max(r.median for r in rates.values())
        warps = warps_for_rate(rates, 0.9 * best)
        rows.append(Row("H200, random: peak", best, None, "IPC/SM"))
        rows.append(Row("H200, random: warps for 90 %", math.nan if warps is None else warps, None, WARPS))
    for what in ("stride 1", "stride 2"):
        if found := stamped("4.3", what):
            alone, full = found[0], found[-1]
            rows += [
                Row(f"H200, {what}: latency of a lone warp", alone.mean_warp_cycles / alone.count, None, "cycles"),
                Row(
                    f"H200, {what}: at {full.warps_per_sm:g} warps", full.ipc, None, "IPC/SM", "the peak is not reached"
                ),
            ]
    if both := {what: stamped("4.3", what) for what in ("stride 1", "stride 2") if stamped("4.3", what)}:
        series = [line(w, [x.warps_per_sm for x in f], [x.ipc for x in f], "points") for w, f in both.items()]
        plots.append(Plot("H200, strides", WARPS, "IPC/SM", series))
    return figure("4.3", "non-coalesced accesses require fewer warps", "4.3", rows, plots)


def random_by_warps(lab: Laboratory, size: int = _GIB) -> dict[int, Reading]:
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


ITEMS = (figure_1_2, figure_1_3, figure_4_2, figure_4_3, figure_4_4, guide_example)
