"""Hong & Kim 2009: the worked example, the schedules and the figures of the model's side."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.models import Prediction, predict
from warplens.models.published.hong_kim import parameters
from warplens.papers.coalescing import coalesced_before_1_3, transactions_1_3
from warplens.papers.item import Item, Plot, Row, line
from warplens.papers.occupancy_ladders import geometric_error, over_measured, suite
from warplens.workload import Workload, load_workload

PAPER = "Hong & Kim 2009"
MODEL = "hong-kim"
GPUS = ("8800gtx", "fx5600", "8800gt", "gtx280")
MERGE = ("sepia", "linear", "svm", "matmul-naive", "matmul-tiled", "blackscholes")
FEWER = 2.0  # Algorithm 2's count for 4-byte elements, increment 1, half-warps that do not start aligned
UNCOAL = f"#Uncoal_per_mw of the GTX280 is not printed: 32 as on the others, and {FEWER:g} by Algorithm 2."


class Case(Struct, frozen=True):
    """One timing diagram of Figures 5 to 8; the printed counts of periods that are not hidden, if any."""

    name: str
    warps: int
    periods: int
    mwp: int
    comp: float
    mem: float
    equation: int
    printed: tuple[str, str] | None = None


CASES = (
    Case("Case 1", 8, 1, 2, 1, 3, 1, ("2", "4")),
    Case("Case 2", 4, 2, 2, 1, 3, 1, ("2", "4")),
    Case("Case 3", 8, 1, 8, 1, 3, 3, ("8", "1")),
    Case("Case 4", 4, 2, 8, 1, 3, 3, ("8", "1")),
    Case("Case 5", 8, 1, 8, 3, 1, 3, ("8", "1")),
    Case("Case 6", 1, 2, 1, 1, 3, 4),
    Case("Case 7", 2, 2, 2, 1, 3, 4),
)


def term(prediction: Prediction, name: str, at: int = 0) -> float:
    """Return one value of a prediction's term."""
    return float(np.atleast_1d(prediction.terms[name].value)[at])


def fewer(workload: Workload, transactions: float) -> Workload:
    """Return the same workload with so many transactions per uncoalesced access."""
    changed = [a if a.coalesced else replace(a, transactions=transactions) for a in workload.accesses]
    return workload.with_values(accesses=changed)


def on_gpus(names: list[str]) -> dict[str, tuple[Machine, dict[str, Prediction]]]:
    """Predict workloads on the four GPUs, and with few transactions on the GTX280 (compute capability 1.3)."""
    result = {}
    for gpu, transactions in (*((gpu, None) for gpu in GPUS), ("gtx280", FEWER)):
        machine = load_machine(gpu)
        workloads = {name: load_workload(f"hong-kim-{name}") for name in names}
        if transactions is not None:
            workloads = {name: fewer(workload, transactions) for name, workload in workloads.items()}
        label = machine.name if transactions is None else f"{machine.name}, {transactions:g} transactions"
        result[label] = machine, {name: predict(workload, machine, MODEL) for name, workload in workloads.items()}
    return result


def table_2() -> Item:
    """Table 2: the model applied to the tiled matrix multiplication of Figure 12."""
    workload, machine = load_workload("hong-kim-figure12"), load_machine("hong-kim-example")
    result = predict(workload, machine, MODEL)
    rounded = "the paper rounds MWP to 2.28 before it goes on"
    notes = dict.fromkeys(("Exec_cycles_app", "Synch_cost", "Exec_cycles_with_synch"), rounded)
    notes["MWP_peak_BW"] = "the paper rounds BW_per_warp to 0.175 GB/s first"
    printed = {
        "Departure_delay": "320", "Mem_L": "730", "MWP_Without_BW_full": "2.28", "BW_per_warp": "0.175",
        "MWP_peak_BW": "28.57", "MWP": "2.28", "Comp_cycles": "132", "Mem_cycles": "4380", "CWP_full": "34.18",
        "CWP": "20", "#Rep": "1", "Exec_cycles_app": "38450", "Synch_cost": "12288", "Exec_cycles_with_synch": "50738",
    }  # fmt: skip
    rows = []
    for name, paper in printed.items():
        scale, unit = (1e-9, "GB/s") if name == "BW_per_warp" else (1.0, result.terms[name].unit)
        rows.append(Row(name, term(result, name) * scale, paper, unit, notes.get(name, "")))
    n = np.arange(1.0, 25.0)
    swept = predict(workload, machine, MODEL, warps_per_sm=n)
    plot = Plot("Figure 12's kernel with other numbers of active warps", "warps per SM", "cycles", [
        line("Exec_cycles_app", n, swept.terms["Exec_cycles_app"].value),
        line("Exec_cycles_with_synch", n, swept.terms["Exec_cycles_with_synch"].value),
    ])  # fmt: skip
    return Item("hong-kim-table-2", "Table 2: the model applied to Figure 12", f"{PAPER} §3.5", rows, [plot])


def table_3() -> Item:
    """Table 3: the columns that follow from others."""
    printed = dict(zip(GPUS, (("128", "345.6"), ("128", "384"), ("112", "336"), ("240", "933")), strict=True))
    notes = {
        "fx5600": "does not fit the printed clock of 1.35 GHz; 1.5 GHz would give 384",
        "gtx280": "three operations per core and cycle; the unrounded clock of 1.296 GHz gives 933.1",
    }
    rows, peaks = [], []
    for gpu, (cores, gflops) in printed.items():
        machine = load_machine(gpu)
        p = parameters(machine)
        ours = 8 * machine.chip.sm_count
        peaks.append(ours * p.freq * (3 if gpu == "gtx280" else 2) / 1e9)
        rows.append(Row(f"{machine.name}: processor cores, #SM x 8", ours, cores))
        rows.append(Row(f"{machine.name}: peak rate", peaks[-1], gflops, "Gflop/s", notes.get(gpu, "")))
        rows.append(Row(f"{machine.name}: bandwidth over peak", p.mem_bandwidth / 1e9 / peaks[-1], None, "B/flop"))
    x = np.arange(1.0, 5.0)
    plot = Plot("Peak arithmetic", "GPU (1 8800GTX, 2 FX5600, 3 8800GT, 4 GTX280)", "Gflop/s", [
        line("cores x clock x operations", x, peaks, "bar"),
        line("printed", x, [float(g) for _, g in printed.values()], "points"),
    ])  # fmt: skip
    note = "Two operations per core and cycle (multiply-add); on the GTX280 three (multiply-add and multiply)."
    return Item("hong-kim-table-3", "Table 3: the GPUs", f"{PAPER} §4.1", rows, [plot], [note])


def too_fast(cpi: float, machine: Machine) -> str:
    """Say that a CPI is below the cycles that an instruction takes to issue: (22) and (23) have no such limit."""
    issue = parameters(machine).issue_cycles
    return f"impossible: an instruction takes {issue:g} cycles to issue, which (23) leaves out" if cpi < issue else ""


def table_4() -> Item:
    """Table 4 and Figure 14: CPI of the micro-benchmarks, as the model says."""
    names = ["mb1", *(f"mb{i}-coalesced" for i in range(2, 8)), *(f"mb{i}-uncoalesced" for i in range(2, 8))]
    rows, coalesced, uncoalesced = [], [], []
    for label, (machine, result) in on_gpus(names).items():
        cpi = {name: term(p, "CPI") for name, p in result.items()}
        rows += [
            Row(f"{label}: {name}", value, None, "cycles/instruction", too_fast(value, machine))
            for name, value in cpi.items()
        ]
        coalesced.append(line(label, range(1, 8), [cpi[n] for n in names[:7]]))
        uncoalesced.append(line(label, range(2, 8), [cpi[n] for n in names[7:]]))
    plots = [
        Plot("CPI, coalesced", "micro-benchmark Mb", "cycles per instruction", coalesced),
        Plot("CPI, uncoalesced", "micro-benchmark Mb", "cycles per instruction", uncoalesced, log_y=True),
    ]
    if found := suite("mb", *(f"mb.{name}" for name in names[1:])):
        ratios = over_measured(found, MODEL)
        what, note = (
            "H200: geometric mean error of the times",
            "the paper's is of the four GPUs that gave the parameters",
        )
        rows.append(Row(what, geometric_error(ratios), "5.4", "%", note, measured=True))
        curves = [
            line("coalesced", range(1, 8), ratios[:7], "points"),
            line("uncoalesced", range(2, 8), ratios[7:], "points"),
        ]
        plots.append(Plot("H200: model over measured", "micro-benchmark Mb", "ratio", curves))
    notes = ["Figure 14's numbers are lost with the picture; the launch is not printed (assumed).", UNCOAL]
    title = "Table 4, Figure 14: CPI of the micro-benchmarks"
    return Item("hong-kim-table-4", title, f"{PAPER} §5.1", rows, plots, notes)


def table_5() -> Item:
    """Table 5: arithmetic intensity."""
    printed = dict(zip(MERGE, ("11.8", "3.7", "13.3", "3", "48.7", "19"), strict=True))
    notes = {
        "matmul-tiled": "the low ends of both ranges",
        "blackscholes": "137 / 7 = 19.57: the paper cuts off the fraction instead of rounding",
    }
    rows, ours = [], []
    for name, paper in printed.items():
        workload = load_workload(f"hong-kim-{name}")
        mem = float(workload.memory_instructions())
        ours.append((float(workload.total()) - mem) / mem)
        rows.append(Row(f"{name}: computation / memory instructions", ours[-1], paper, "", notes.get(name, "")))
    rows.append(Row("matmul-tiled: the high ends", 24580 / 1001, None))
    plot = Plot("Arithmetic intensity", "benchmark, in the order of the table", "instructions per memory instruction", [
        line("ours", range(1, 7), ours, "bar"),
        line("printed", range(1, 7), [float(p) for p in printed.values()], "points"),
    ])  # fmt: skip
    return Item("hong-kim-table-5", "Table 5: arithmetic intensity", f"{PAPER} §4.3", rows, [plot])


def table_6() -> Item:
    """Table 6: the memory parameters, which are inputs of the model."""
    printed = {"fx5600": ("420", "10", "4"), "gtx280": ("450", "40", "4")}
    rows, series = [], []
    for gpu, texts in printed.items():
        machine = load_machine(gpu)
        p = parameters(machine)
        ours = [float(x or 0.0) for x in (p.mem_ld, p.departure_del_uncoal, p.departure_del_coal)]
        names = ("Mem_LD", "Departure_del_uncoal", "Departure_del_coal")
        rows += [
            Row(f"{machine.name}: {name}", value, text, "cycles", given=True)
            for name, value, text in zip(names, ours, texts, strict=True)
        ]
        series.append(line(machine.name, range(1, 4), ours, "points"))
    plot = Plot("1 Mem_LD, 2, 3 departure delays, uncoalesced and coalesced", "parameter", "cycles", series, log_y=True)
    note = "the paper fits them to its micro-benchmarks; the 8800GTX and the 8800GT have the FX5600's"
    return Item("hong-kim-table-6", "Table 6: memory model parameters", f"{PAPER} §5.1", rows, [plot], [note])


def schedule(case: Case) -> list[list[tuple[float, float, str]]]:
    """Execute a case: one computation at a time, at most MWP memory periods, both first come, first served.

    Returns (start, end, kind) of each warp's periods in order.
    """
    processor = 0.0
    slots = [0.0] * case.mwp
    ready = [0.0] * case.warps
    left = [case.periods] * case.warps
    result: list[list[tuple[float, float, str]]] = [[] for _ in range(case.warps)]
    while any(left):
        warp = min((w for w in range(case.warps) if left[w]), key=lambda w: (ready[w], w))
        start = max(processor, ready[warp])
        processor = start + case.comp
        slot = slots.index(min(slots))
        begin = max(processor, slots[slot])
        ready[warp] = slots[slot] = begin + case.mem
        left[warp] -= 1
        result[warp] += [(start, processor, "computation"), (begin, begin + case.mem, "memory")]
    return result


def _total(case: Case) -> float:
    return max(end for periods in schedule(case) for _, end, _ in periods)


def _unhidden(case: Case) -> tuple[float, float]:
    """Return how many computation and memory periods make up the total; at a tie, with longer computation."""
    step = 2.0**-10
    total = _total(case)
    longer, shorter = _total(replace(case, comp=case.comp + step)), _total(replace(case, mem=case.mem - step))
    return (longer - total) / step, (total - shorter) / step


def _equation(case: Case) -> float:
    """The total by Equation (1), (3) or (4)."""
    mem_cycles, comp_cycles = case.periods * case.mem, case.periods * case.comp
    if case.equation == 1:
        return mem_cycles * case.warps / case.mwp + case.comp * case.mwp
    if case.equation == 3:
        return case.mem + comp_cycles * case.warps
    return mem_cycles + comp_cycles + case.comp * (case.mwp - 1)


def figures_5_to_8() -> Item:
    """Figures 5 to 8: the schedules, executed, against Equations (1), (3) and (4)."""
    rows, plots = [], []
    for case in CASES:
        total, (comp, mem) = _total(case), _unhidden(case)
        if case.printed is not None:
            rows.append(Row(f"{case.name}: computation periods not hidden", comp, case.printed[0], "periods"))
            rows.append(Row(f"{case.name}: memory periods not hidden", mem, case.printed[1], "periods"))
        what = f"{case.name}: schedule, against Equation ({case.equation})"
        rows.append(Row(what, total, f"{_equation(case):g}", "units", formula=True))
        traces = []
        for warp, periods in enumerate(schedule(case), 1):
            x = [t for start, end, _ in periods for t in (start, end)]
            y = [warp + (0.4 if kind == "memory" else 0.0) for _, _, kind in periods for _ in range(2)]
            traces.append(line(f"warp {warp}", x, y))
        plots.append(Plot(f"{case.name}: {case.warps} warps, MWP {case.mwp}", "time", "warp, + 0.4 in memory", traces))
    one, five, seven = CASES[0], CASES[4], CASES[6]
    serial = seven.warps * seven.periods * (seven.comp + seven.mem)
    rows += [
        Row("Case 1: CWP", (one.mem + one.comp) / one.comp, "4", "warps"),
        Row("Case 5: CWP", (five.mem + five.comp) / five.comp, None, "warps", "the paper: less than 2"),
        Row("Case 7: share of the sum of all periods", _total(seven) / serial, None, "", "the paper: roughly half"),
        Row("Case 5: Equation (23)", five.mem * five.warps / five.mwp + five.comp * (five.mwp - 1), None, "units",
            "the printed condition Comp_cycles > Mem_cycles leads to (23), the text of Case 5 to (3) and (24)"),
    ]  # fmt: skip
    notes = [
        "A computation period takes 1 unit and a memory period 3, in Case 5 the reverse (assumed).",
        "Totals: the paper's column is its equation, evaluated. Cases 6 and 7 have two periods per warp (assumed).",
        "Case 4 ties at exactly 1 to 3: 8 computation and 1 memory periods take as long as 5 and 2. We count on the "
        "side of longer computation, as the paper's text does; with longer memory periods it would be 5 and 2.",
    ]
    return Item("hong-kim-figures-5-to-8", "Figures 5-8: total execution time", f"{PAPER} §3.2", rows, plots, notes)


def algorithms() -> Item:
    """Algorithms 1 and 2 on a few index expressions of 4-byte elements."""
    expressions = (
        ("tx", 1, 0),
        ("tx + 1", 1, 1),
        ("tx + 16", 1, 16),
        ("2 tx", 2, 0),
        ("2 tx + 1", 2, 1),
        ("32 tx", 32, 0),
    )
    rows = []
    for text, increment, offset in expressions:
        starts = [increment * 16 * t + offset for t in range(8)]
        coalesced = coalesced_before_1_3(4, increment, starts)
        size, count = transactions_1_3(4, increment, starts)
        rows.append(Row(f"[{text}]: coalesced before 1.3 (1 yes, 0 no)", float(coalesced), None))
        rows.append(Row(f"[{text}]: transactions from 1.3 on", count, None, "", f"{size} B each"))
    increments = np.arange(1, 33)
    curves = [
        line(f"{size}-byte elements", increments, [transactions_1_3(size, int(i), [0])[1] for i in increments])
        for size in (1, 2, 4, 8, 16)
    ]
    plot = Plot("Algorithm 2, aligned", "increment of the index per thread", "transactions per half-warp", curves)
    return Item("hong-kim-algorithms", "Algorithms 1 and 2: coalescing", f"{PAPER}, appendix", rows, [plot])


ITEMS = (table_2, table_3, table_4, table_5, table_6, figures_5_to_8, algorithms)
