"""Hong & Kim 2009 over threads per block and warps: Figures 3, 4, 15 to 23, with the H200 beside.

The total work is kept: with more threads per block there are fewer blocks. The H200's times are those of the kernels
of examples/, which do the same work (data/experiments/occupancy_ladders).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.models import Prediction, predict
from warplens.models.published.hong_kim import parameters
from warplens.papers.hong_kim import FEWER, GPUS, MERGE, MODEL, PAPER, UNCOAL, fewer, term, too_fast
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.occupancy_ladders import MISSING, geometric_error, over_measured, suite, timed
from warplens.workload import Launch, Workload, load_workload

BLOCKS = (4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 512)
TILES = (4, 5, 8, 10, 16, 20)  # of the tiled product, tile x tile threads: divisors of 2000
SVM = {"Naive": "svm_naive", "Constant": "svm_constant", "Constant+Optimized": "svm_coalesced"}
_KERNELS = dict(zip(MERGE, ("sepia", "linear", "svm_coalesced", "matmul_naive", "matmul_tiled", "black_scholes"),
                    strict=True))  # of examples/  # fmt: skip
_OF_SUITE = {**_KERNELS, "matmul-tiled": "matmul_tiled16.n2000"}
_THREADS, _ENOUGH, _MOST = "threads per block", 64, 24  # from 64 on, says §2.4, the time hardly varies
_H200 = "the work is the paper's; kernels and numbers of bytes are those of examples/"


def by_block(workload: Workload, machine: Machine, blocks: Sequence[int] = BLOCKS) -> list[Prediction]:
    """Predict for each number of threads per block, the total work kept."""
    own = workload.launch
    assert own is not None
    total = float(own.blocks) * float(own.threads_per_block)
    launches = [
        Launch(math.ceil(total / t), t, registers_per_thread=own.registers_per_thread,
               shared_bytes_per_block=own.shared_bytes_per_block)
        for t in blocks
    ]  # fmt: skip
    return [predict(workload.with_values(launch=launch), machine, MODEL) for launch in launches]


def svm(version: str) -> Workload:
    """Return the counts of a version of SVM (§2.4).

    Constant+Optimized has Table 5's. Constant has the same, uncoalesced. Naive also loads the model's vectors, which
    the others have in constant memory: twice the loads (assumed, as the paper prints no counts).
    """
    if version == "Constant+Optimized":
        return load_workload("hong-kim-svm-optimized")
    workload = load_workload("hong-kim-svm-naive")
    if version == "Constant":
        return workload
    (access,) = workload.accesses
    return workload.with_values(accesses=[replace(access, count=2 * float(access.count))])


def tiled(tile: int) -> Workload:
    """Return the tiled product's counts for a tile: Table 5's ranges are those of tiles of 20 and of 4.

    Memory instructions are 2 x 2000 / tile + 1; computation instructions are a constant and a share for each tile.
    """
    slope = (24580 - 9780) / (2000 / 4 - 2000 / 20)
    computation = 9780 + slope * (2000 / tile - 2000 / 20)
    launch = Launch((2000 // tile) ** 2, tile * tile, registers_per_thread=18, shared_bytes_per_block=8 * tile**2 + 88)
    workload = load_workload("hong-kim-matmul-tiled")
    accesses = [replace(workload.accesses[0], count=2 * 2000 / tile + 1)]
    return workload.with_values(instructions={"fp32": computation}, accesses=accesses, launch=launch)


def _milliseconds(result: Sequence[Prediction]) -> list[float]:
    return [1e3 * float(p.seconds) for p in result if p.seconds is not None]


def _measured(kernel: str) -> dict[int, float]:
    """Return the H200's milliseconds by threads per block."""
    return {one.threads: one.us / 1e3 for one in timed("threads", kernel)}


def merge(name: str, machine: Machine, transactions: float | None = None) -> dict[int, Prediction]:
    """Predict a Merge benchmark by threads per block; of the tiled product, by tiles."""

    def changed(workload: Workload) -> Workload:
        return workload if transactions is None else fewer(workload, transactions)

    if name == "matmul-tiled":
        return {tile * tile: predict(changed(tiled(tile)), machine, MODEL) for tile in TILES}
    result = by_block(changed(load_workload(f"hong-kim-{name}")), machine)
    return dict(zip(BLOCKS, result, strict=True))


def _times(name: str, machine: Machine) -> Series:
    """Return a Merge benchmark's time over threads per block."""
    result = merge(name, machine)
    return line(name, list(result), _milliseconds(list(result.values())))


def figure_3() -> Item:
    """Figure 3: what constant memory and coalescing bring SVM."""
    fx5600, at = load_machine("fx5600"), BLOCKS.index(128)
    times = {version: _milliseconds(by_block(svm(version), fx5600)) for version in SVM}
    plots = [Plot(fx5600.name, _THREADS, "ms", [line(v, BLOCKS, y) for v, y in times.items()], log_y=True)]
    rows = []
    for version, paper in (("Constant+Optimized", "24.36"), ("Constant", "1.79")):
        ours = times["Naive"][at] / times[version][at]
        note = "counts of Naive are not printed: twice the loads, uncoalesced (assumed)"
        rows.append(Row(f"{version} over Naive", ours, paper, "times", note, measured=True))
    for version, y in times.items():
        late = [ms for t, ms in zip(BLOCKS, y, strict=True) if t >= _ENOUGH]
        rows.append(Row(f"{version}: longest over shortest from 64 threads on", max(late) / min(late), None, "times",
                        "the paper: no significant variation"))  # fmt: skip
    notes = [MISSING]
    if measured := {version: _measured(kernel) for version, kernel in SVM.items() if _measured(kernel)}:
        plots.append(Plot("H200, measured", _THREADS, "ms", [line(v, list(y), list(y.values()), "points")
                                                             for v, y in measured.items()], log_y=True))  # fmt: skip
        for version in ("Constant+Optimized", "Constant"):
            what, gain = f"H200, measured: {version} over Naive", measured["Naive"][128] / measured[version][128]
            rows.append(
                Row(what, gain, None, "times", "L1 serves what does not coalesce" if "Optimized" in version else "")
            )
        notes = [_H200]
    return Item("hong-kim-figure-3", "Figure 3: optimizations of SVM", f"{PAPER} §2.4", rows, plots, notes)


def figure_4() -> Item:
    """Figure 4: occupancy of SVM."""
    fx5600 = load_machine("fx5600")
    shares = [float(p.warps_per_sm) / fx5600.sm.warps_max for p in by_block(svm("Constant"), fx5600)]
    low = min(share for t, share in zip(BLOCKS, shares, strict=True) if t >= 32)
    rows = [
        Row("lowest occupancy of full warps", low, "0.35", "", "eight blocks of one warp, of 24 warps: a third"),
        Row("highest occupancy", max(shares), "1"),
    ]
    plots = [Plot(f"{fx5600.name}: 9 registers, 44 bytes of shared memory", _THREADS, "occupancy", [
        line("model", BLOCKS, shares, "points")], y_max=1.0)]  # fmt: skip
    notes = ["registers of Naive and Constant are not printed: those of Table 5"]
    if timed("threads", "svm_naive"):
        h200 = load_machine("h200")
        series = []
        for version, kernel in SVM.items():
            found = timed("threads", kernel)
            warps = [one.blocks_per_sm * math.ceil(one.threads / 32) / h200.sm.warps_max for one in found]
            series.append(line(version, [one.threads for one in found], warps, "points"))
        plots.append(Plot("H200, as the driver says", _THREADS, "occupancy", series, y_max=1.0))
    return Item("hong-kim-figure-4", "Figure 4: occupancy of SVM", f"{PAPER} §2.4", rows, plots, notes)


def _merge_figure(number: str, gpu: str, *, measured: bool = False) -> Item:
    """Make Figure 15 or 16: total times of the Merge benchmarks over threads per block."""
    machine = load_machine(gpu)
    series = [_times(name, machine) for name in MERGE]
    plots, rows = [Plot(machine.name, _THREADS, "ms", series, log_x=True, log_y=True)], []
    for one in series:
        late = [y for x, y in zip(one.x, one.y, strict=True) if x >= _ENOUGH]
        tiles = one.name == "matmul-tiled"
        note = "the paper: more threads, less time" if tiles else "the paper: mostly the same"
        what = "16 threads over 400" if tiles else "longest over shortest from 64 threads on"
        value = one.y[0] / one.y[-1] if tiles else max(late) / min(late)
        rows.append(Row(f"{one.name}: {what}", value, None, "times", note))
        rows.append(Row(f"{one.name}: at {one.x[-1]:g} threads", one.y[-1], None, "ms"))
    notes = [
        "The paper's times are measurements of its GPU; the picture has no numbers.",
        UNCOAL,
        "Tiled product: tiles of 4 to 20, counts between Table 5's ends; 8 bytes of shared memory per thread.",
    ]
    if measured and (found := {name: _measured(kernel) for name, kernel in _KERNELS.items() if _measured(kernel)}):
        shown = [line(name, list(y), list(y.values()), "points") for name, y in found.items()]
        plots.append(Plot("H200, measured", _THREADS, "ms", shown, log_x=True, log_y=True))
        for name, y in found.items():
            tiles = name == "matmul-tiled"
            late = list(y.values()) if tiles else [ms for t, ms in y.items() if t >= _ENOUGH]
            what = f"{min(y)} threads over {max(y)}" if tiles else "longest over shortest from 64 threads on"
            value = late[0] / late[-1] if tiles else max(late) / min(late)
            rows.append(Row(f"H200, {name}: {what}", value, None, "times"))
        notes.append(_H200 + "; the products are of 2048 x 2048 there.")
    title = f"Figure {number}: total time of the Merge benchmarks on {machine.name}"
    return Item(f"hong-kim-figure-{number}", title, f"{PAPER} §5.2", rows, plots, notes)


def figure_15() -> Item:
    """Figure 15: total times on the FX5600."""
    return _merge_figure("15", "fx5600")


def figure_16() -> Item:
    """Figure 16: total times on the GTX280, and on the H200."""
    return _merge_figure("16", "gtx280", measured=True)


def figure_17() -> Item:
    """Figures 17 to 20: CPI, CWP, MWP and occupancy of the Merge benchmarks, in the mean over threads per block."""
    rows: list[Row] = []
    series: dict[str, list[Series]] = {"CPI": [], "CWP": [], "MWP": [], "occupancy": []}
    lowest = []
    for gpu, transactions in (*((gpu, None) for gpu in GPUS), ("gtx280", FEWER)):
        machine = load_machine(gpu)
        label = machine.name if transactions is None else f"{machine.name}, {transactions:g} transactions"
        values: dict[str, list[float]] = {what: [] for what in series}
        for name in MERGE:
            result = merge(name, machine, transactions).values()
            for what in ("CPI", "CWP", "MWP"):
                values[what].append(float(np.mean([term(p, what) for p in result])))
            share = float(np.mean([float(p.warps_per_sm) / machine.sm.warps_max for p in result]))
            values["occupancy"].append(100 * share)
            least = min(term(p, "CPI") for p in result)
            rows.append(
                Row(f"{label}: {name}: CPI", values["CPI"][-1], None, "cycles/instruction", too_fast(least, machine))
            )
            rows.append(Row(f"{label}: {name}: occupancy", 100 * share, None, "%"))
        for what, found in values.items():
            series[what].append(line(label, range(1, 7), found, "points"))
        lowest.append(f"{label}: {MERGE[int(np.argmin(values['CPI']))]}")
    axis = "benchmark (Sepia, Linear, SVM, Mat. naive, Mat. tiled, Blackscholes)"
    plots = [
        Plot("Figure 17: CPI", axis, "cycles per instruction", series["CPI"], log_y=True),
        Plot("Figure 18: CWP", axis, "warps per SM", series["CWP"]),
        Plot("Figure 19: MWP", axis, "warps per SM", series["MWP"]),
        Plot("Figure 20: occupancy", axis, "%", series["occupancy"], y_max=100),
    ]
    if launches := suite(*_OF_SUITE.values()):
        ratios = over_measured(launches, MODEL)
        plots.append(Plot("H200: model over measured", axis, "ratio", [line(MODEL, range(1, 7), ratios, "points")]))
        what, note = "H200: geometric mean error of the times", "the paper's is of CPI on its four GPUs"
        rows.append(Row(what, geometric_error(ratios), "13.3", "%", note, measured=True))
    notes = [
        "In the mean over 4 to 512 threads per block, as in the paper; which of these it takes is not printed.",
        "A note of `impossible` is for the smallest CPI of them.",
        "The paper: the 8800GT has the highest CPI. Here the three G80 GPUs agree: no bandwidth limit.",
        "The paper: occupancies above 70 % but for Linear and the tiled product.",
        "The paper: SVM has the lowest CPI. Lowest here: " + "; ".join(lowest) + ".",
        UNCOAL,
    ]
    return Item("hong-kim-figure-17", "Figures 17-20: the Merge benchmarks", f"{PAPER} §5.2", rows, plots, notes)


def _mwp(machine: Machine, workload: Workload, n: np.ndarray) -> Prediction:
    return predict(workload, machine, MODEL, warps_per_sm=n)


def figure_21() -> Item:
    """Figure 21: MWP against the number of warps, coalesced and not."""
    n, coalesced = np.arange(1.0, 33.0), load_workload("hong-kim-mb2-coalesced")
    gtx280, small = load_machine("gtx280"), load_machine("8800gt")
    most = {m.id: float(np.max(_mwp(m, coalesced, n).terms["MWP"].value)) for m in (gtx280, small)}
    rows = [
        Row("coalesced, 8800GT: largest MWP", most["8800gt"], "9", "warps",
            "MWP_peak_BW = 57.6 / (1.5 x 128 / 420 x 14): the figure's title says GTX280, its curve is the 8800GT's"),
        Row("coalesced, GTX280: largest MWP", most["gtx280"], None, "warps", "Equations (5) to (7), Tables 3 and 6"),
    ]  # fmt: skip
    names = ("MWP", "MWP_peak_BW", "MWP_Without_BW_full")
    plots = []
    for m in (small, gtx280):
        terms = _mwp(m, coalesced, n).terms
        curves = [line(name, n, np.broadcast_to(terms[name].value, n.shape)) for name in names]
        plots.append(Plot(f"Coalesced, {m.name}", "warps per SM", "warps", curves, y_max=32))
    lines = []
    for transactions in (2.0, 3.0, 32.0):
        found = _mwp(gtx280, fewer(load_workload("hong-kim-mb2-uncoalesced"), transactions), n).terms["MWP"].value
        first = transactions == FEWER
        note = f"{UNCOAL[:-1]}, for unaligned 4-byte elements" if first else ""
        what = f"uncoalesced, {transactions:g} transactions: largest MWP"
        rows.append(Row(what, float(np.max(found)), "5" if first else None, "warps", note))
        lines.append(line(f"MWP, {transactions:g} transactions", n, found))
    p = parameters(gtx280)
    assert p.departure_del_uncoal is not None
    transactions = (p.mem_ld - p.departure_del_uncoal) / (4 * p.departure_del_uncoal)
    rows.append(
        Row("uncoalesced: transactions that would give 5", transactions, None, "", "Mem_L / Departure_delay = 5")
    )
    plots.append(Plot(f"Uncoalesced, {gtx280.name}", "warps per SM", "warps", lines))
    return Item("hong-kim-figure-21", "Figure 21: MWP against warps", f"{PAPER} §5.3", rows, plots)


def _analysis(title: str, result: Sequence[Prediction], names: Mapping[str, str]) -> Plot:
    curves = [line(label, BLOCKS, [term(p, name) for p in result]) for label, name in names.items()]
    without = [min(term(p, "MWP_Without_BW_full"), float(p.warps_per_sm)) for p in result]
    return Plot(title, _THREADS, "warps", [*curves, line("MWP_Without_BW", BLOCKS, without)])


_CURVES = {"N": "#Active_warps_per_SM (N)", "MWP_peak_BW": "MWP_peak_BW", "MWP": "MWP", "CWP": "CWP"}


def figure_22() -> Item:
    """Figure 22: what limits the optimised SVM."""
    fx5600 = load_machine("fx5600")
    result = by_block(svm("Constant+Optimized"), fx5600)
    peak = term(result[BLOCKS.index(128)], "MWP_peak_BW")
    rows = [
        Row("limiting MWP term (MWP_peak_BW)", peak, "12", "warps"),
        Row("MWP_peak_BW that N has to reach", peak, "40", "warps",
            "the same paragraph says 12 and then 40; an SM of the FX5600 holds 24 warps"),
    ]  # fmt: skip
    plots = [_analysis(f"Constant+Optimized on the {fx5600.name}", result, _CURVES)]
    return Item("hong-kim-figure-22", "Figure 22: MWP and CWP of the optimised SVM", f"{PAPER} §5.3", rows, plots)


def figure_23() -> Item:
    """Figure 23: what limits the naive SVM."""
    fx5600 = load_machine("fx5600")
    result = by_block(svm("Naive"), fx5600)
    full = term(result[BLOCKS.index(128)], "MWP_Without_BW_full")
    fewest = min(float(p.warps_per_sm) for t, p in zip(BLOCKS, result, strict=True) if t >= 32)
    rows = [
        Row("limiting MWP term (MWP_Without_BW)", full, "2", "warps"),
        Row("fewest warps per SM, which the paper says are always more", fewest, None, "warps"),
    ]
    plots = [_analysis(f"Naive on the {fx5600.name}", result, _CURVES)]
    return Item("hong-kim-figure-23", "Figure 23: MWP and CWP of the naive SVM", f"{PAPER} §5.3", rows, plots)


ITEMS = (figure_3, figure_4, figure_15, figure_16, figure_17, figure_21, figure_22, figure_23)
