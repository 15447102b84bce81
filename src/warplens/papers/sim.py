"""Sim et al. 2012 (GPUPerf): the micro-benchmarks, the parameters and the benefits on the Tesla C2050."""

from __future__ import annotations

import numpy as np

from warplens.machine import load_machine
from warplens.models import Prediction, predict
from warplens.models.published.sim2012 import parameters
from warplens.papers import sim_cases, sim_fmm
from warplens.papers.item import Grid, Item, Plot, Row, Series, line
from warplens.workload import load_workload, mix

PAPER = "Sim et al. 2012"
MODEL = "sim2012"


def _term(prediction: Prediction, name: str) -> float:
    return float(prediction.terms[name].value)


def figure_6_and_7() -> Item:
    """Figures 6 and 7: performance against warps per SM for ILP 1 to 4, and B_itilp."""
    machine, n = load_machine("c2050"), np.arange(1.0, 33.0)
    printed = {1: "18", 2: "10", 3: "8", 4: None}
    rows: list[Row] = []
    speed: list[Series] = []
    benefit: list[Series] = []
    base = predict(load_workload("sim-itilp-ilp1"), machine, MODEL, warps_per_sm=1.0).cycles
    old = predict(load_workload("sim-itilp-ilp1"), machine, "hong-kim", warps_per_sm=n).cycles
    assert base is not None and old is not None
    for ilp, paper in printed.items():
        answer = predict(load_workload(f"sim-itilp-ilp{ilp}"), machine, MODEL, warps_per_sm=n)
        performance = np.asarray(base / answer.cycles)  # type: ignore[operator]
        enough = float(n[np.argmax(performance >= np.max(performance) * (1 - 1e-12))])
        note = "ITILP_max / ILP = 18 / ILP, rounded up; the paper measured" if paper else ""
        rows.append(
            Row(f"ILP = {ilp}: warps at saturation", enough, paper, "warps/SM", note, measured=paper is not None)
        )
        speed.append(line(f"ILP = {ilp}", n, performance))
        benefit.append(line(f"ILP = {ilp}", n, answer.terms["B_itilp"].value / answer.terms["T_exec"].value))
    speed.append(line("MWP-CWP, any ILP", n, np.broadcast_to(base / old, n.shape)))
    rows.append(Row("ITILP_max", _term(predict(load_workload("sim-itilp-ilp1"), machine, MODEL), "ITILP_max"), None, "",
                    "the paper: measured performance is stable where ITILP is around 18 to 24"))  # fmt: skip
    plots = [
        Plot("Performance over that of one warp with ILP 1", "warps per SM", "normalised performance", speed),
        Plot("B_itilp over T_exec", "warps per SM", "share of the time", benefit, y_max=1),
    ]
    notes = [
        "Counts and launch of the micro-benchmark are not printed: 1000 fp32 instructions per warp (assumed).",
        "The numbers of warps are read off a measurement (Figure 6), so they test the model, not our digits.",
        "ILP = 4 is ours: the text names 1, 2 and 3.",
    ]
    return Item("sim-figure-6-and-7", "Figures 6 and 7: inter-thread ILP", f"{PAPER} §6.1", rows, plots, notes)


def figure_8() -> Item:
    """Figure 8: time and B_serial against SFU instructions per eight FMA."""
    machine = load_machine("c2050")
    x = list(range(9))
    answers = [predict(load_workload(f"sim-sfu-{k}"), machine, MODEL) for k in x]
    old = [predict(load_workload(f"sim-sfu-{k}"), machine, "hong-kim") for k in x]
    hidden = max(k for k, p in zip(x, answers, strict=True) if _term(p, "O_SFU") == 0)
    rows = [
        Row("SFU instructions per eight FMA that cost nothing", hidden, "1", "",
            "1/8 is just SFU_width / SIMD_width = 4/32; the paper says almost hidden, of measurement and model"),
        Row("O_SFU at 1 per eight FMA", _term(answers[1], "O_SFU"), None, "cycles"),
    ]  # fmt: skip
    share = [_term(p, "B_serial") / _term(p, "T_exec") for p in answers]
    rows += [Row(f"B_serial over T_exec at {k} per eight FMA", share[k], None) for k in (2, 4, 8)]
    times = [[1e3 * float(p.seconds) for p in side if p.seconds is not None] for side in (answers, old)]
    axis = "SFU instructions per eight FMA"
    plots = [
        Plot("Execution time", axis, "ms", [line(MODEL, x, times[0]), line("MWP-CWP (hong-kim)", x, times[1])]),
        Plot(
            "B_serial over the predicted time", axis, "share of the time", [line("B_serial", x, share, "bar")], y_max=1
        ),
    ]
    notes = [
        "Iterations, launch and ILP of the micro-benchmark are not printed and assumed, and so is the range 0 to 8.",
        "Equation (9) charges all SFU instructions times F_SFU, so the time grows quadratically at first.",
    ]
    return Item("sim-figure-8", "Figure 8: contention for special function units", f"{PAPER} §6.1", rows, plots, notes)


def table_2() -> Item:
    """Table 2: the machine parameters of the equations, as the paper has them of the C2050 and we of the H200."""
    machines = [load_machine(name) for name in ("c2050", "h200")]
    fields = {"Gamma": "gamma", "Delta": "delta", "DRAM_lat": "dram_lat", "FP_lat": "fp_lat", "hit_lat": "hit_lat",
              "SIMD_width": "simd_width", "SFU_width": "sfu_width", "mem_peak_bandwidth": "bandwidth"}  # fmt: skip
    found = [parameters(machine, MODEL) for machine in machines]
    levels = [machine.cache for machine in machines]
    cells = {
        name: [f"{value:g}" if (value := getattr(p, field)) is not None
               else f"{c.l1_latency_cycles:g} in L1, {c.l2_latency_cycles:g} in L2" for p, c in zip(found, levels,
                                                                                                  strict=True)]
        for name, field in fields.items()
    }  # fmt: skip
    keys = ("sim.gamma", "sim.departure_delay_cycles", "instructions.load.latency_cycles",
            "instructions.fp32.latency_cycles", "cache.l2_latency_cycles", "sm.cuda_cores",
            "instructions.sfu.peak_ops_per_cycle_per_scheduler", "memory.pin_bytes_per_second")  # fmt: skip
    grid = Grid(["parameter", *(machine.name for machine in machines), "of the H200"],
                [[name, *both, f"{key}: {machines[1].sources[key].source}"]
                 for (name, both), key in zip(cells.items(), keys, strict=True)])  # fmt: skip
    notes = [
        "The paper's are inputs (Tables 2, 3); the H200's are measured (`warplens machine show h200`).",
        "Gamma, the cost of a barrier, is 64 by the paper's simulations; by two programs that differ in their barriers "
        f"it is {found[1].gamma:g} on the H200.",
    ]
    return Item("sim-table-2", "Table 2: parameters of two machines", f"{PAPER} §4, §6", notes=notes, grids=[grid])


def table_3() -> Item:
    """Table 3: what follows from the parameters of the C2050."""
    machine = load_machine("c2050")
    p = parameters(machine, MODEL)
    n = np.arange(1.0, 49.0)
    loads = mix(0.0)
    answer = predict(loads, machine, MODEL)
    cap = _term(answer, "avg_DRAM_lat / Delta")
    assert p.delta is not None
    bandwidth = 128 / p.delta * machine.chip.clock_hz * machine.chip.sm_count
    quoted = "printed in Volkov 2016 §7.4, from this table"
    rows = [
        Row("ITILP_max", _term(answer, "ITILP_max"), None, "", "Equation (5): 18 / (32 / 32)"),
        Row("BW_per_warp", _term(answer, "BW_per_warp") / 1e9, None, "GB/s", "Equation (A.7)"),
        Row("MWP_peak_bw", _term(answer, "MWP_peak_bw"), "30.7", "warps/SM", quoted),
        Row("cap on MWP by the departure delay", cap, "22", "warps/SM", quoted),
        Row("bandwidth at one transaction per departure delay", bandwidth / 1e9, "103", "GB/s", quoted),
        Row("SFU_width / SIMD_width", p.sfu_width / p.simd_width, None, "", "Equation (10)"),
    ]
    curves = [
        line(label, n, predict(loads, machine, model, warps_per_sm=n).terms["MWP"].value)
        for label, model in (("with the departure delay", MODEL), ("without", "sim2012-no-departure"))
    ]
    plot = Plot("MWP of coalesced loads on the C2050", "warps per SM", "warps", curves)
    return Item("sim-table-3", "Table 3: the Tesla C2050", f"{PAPER} §6, Appendix A", rows, [plot])


def benefits() -> Item:
    """Equations (1) and (18) to (23) for shipped workloads on the C2050."""
    machine = load_machine("c2050")
    rows: list[Row] = []
    points: list[Series] = []
    bars: list[Series] = []
    names = ("T_comp", "T_mem", "T_overlap", "T_exec", "T_fp", "T_mem_min")
    metrics = ("B_itilp", "B_serial", "B_fp", "B_memlp")
    for name in ("saxpy", "hong-kim-matmul-tiled", "hong-kim-svm", "sim-sfu-4"):
        answer = predict(load_workload(name), machine, MODEL)
        t = {what: _term(answer, what) for what in (*names, *metrics)}
        rows += [Row(f"{name}: {what}", value, None, "cycles") for what, value in t.items()]
        x = [t["T_mem"], t["T_mem"] - t["T_overlap"], t["T_mem_min"]]
        y = [t["T_comp"], t["T_comp"], t["T_fp"]]
        points.append(line(name, np.divide(x, t["T_exec"]), np.divide(y, t["T_exec"]), "points"))
        bars.append(line(name, range(1, 5), [t[what] / t["T_exec"] for what in metrics], "bar"))
    points.append(line("y = x", [0.0, 1.0], [0.0, 1.0]))
    plots = [
        Plot("Benefit chart: A, A' and the ideal, over T_exec", "memory cost", "computation cost", points),
        Plot("Benefits over T_exec", "benefit (1 itilp, 2 serial, 3 fp, 4 memlp)", "share of the time", bars),
    ]
    notes = [
        "The benefits printed for FMM_U (0, 0, 6068 and 9691) cannot be regenerated: its counts are not printed.",
        "In the chart each workload has three points: (T_mem, T_comp), (T_mem - T_overlap, T_comp), (T_mem_min, T_fp).",
    ]
    return Item("sim-benefits", "Potential benefits of shipped workloads", f"{PAPER} §3, §4.2", rows, plots, notes)


ITEMS = (figure_6_and_7, figure_8, table_2, table_3, benefits, *sim_fmm.ITEMS, *sim_cases.ITEMS)
