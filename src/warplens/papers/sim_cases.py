"""Sim et al. 2012 on an H200: micro-benchmarks, the reduction and two Parboil kernels (Figures 13 to 16, Tables 4, 5).

examples/reduction has the seven kernels K0 to K6, examples/cutoff and examples/angular have cutcp and tpacf before and
after their optimisations, examples/micro those of Figures 6 and 8. All are timed and predicted as in `sim_fmm`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from warplens.papers.item import Grid, Item, Plot, Row, line
from warplens.papers.sim_fmm import (
    BENEFITS,
    GPU,
    H200,
    PAPER,
    Timed,
    bars,
    chart,
    claim,
    claims,
    on_silicon,
    speedups,
    timed,
)
from warplens.papers.validation.kernels import Launch, launches

_REDUCTIONS = {"K0": "reduction_k0_k2", "K1": "reduction_k0_k2.k1", "K2": "reduction_k0_k2.k2", "K3": "reduction_k3_k5",
               "K4": "reduction_k3_k5.k4", "K5": "reduction_k3_k5.k5", "K6": "reduction_k6"}  # fmt: skip
_PARBOIL = {"cutcp": ("cutoff_baseline", "cutoff_binned"), "tpacf": ("angular_baseline", "angular_tiled")}
# Table 4 and Table 5: which technique each kernel has; for Table 5 the metrics that the paper relates to it.
_TABLE_4 = (
    ("Eliminating divergent branches", "K1 K2 K3 K4 K5 K6"), ("Eliminating bank conflicts", "K2 K3 K4 K5 K6"),
    ("Reducing idle threads (single)", "K3 K4 K5"), ("Loop unrolling (last warp)", "K4"),
    ("Loop unrolling (completed)", "K5 K6"), ("Reducing idle threads (multiple)", "K6"),
)  # fmt: skip
_TABLE_5 = (
    ("Regularization", "cutcp", ("B_fp",)), ("Binning", "cutcp", ("B_fp",)), ("Coarsening", "cutcp", ("B_fp",)),
    ("Tiling/Data Reuse", "tpacf", ("B_memlp", "B_fp")),
    ("Privatization", "tpacf", ("B_memlp", "B_serial", "B_itilp")),
)  # fmt: skip
_NOTHING = 0.01  # a share of the time that counts as none


def _reductions() -> dict[str, Timed]:
    found = timed(tuple(sorted({name.partition(".")[0] for name in _REDUCTIONS.values()})))
    return {k: found[name] for k, name in _REDUCTIONS.items()}


def _parboil() -> dict[str, tuple[Timed, Timed]]:
    found = timed(tuple(name for pair in _PARBOIL.values() for name in pair))
    return {k: (found[before], found[after]) for k, (before, after) in _PARBOIL.items()}


def _seconds(one: Timed) -> tuple[float, float, float]:
    return (one.seconds, *one.predicted)


def table_4() -> Item:
    """Table 4: the techniques of K0 to K6, and what the emulator counts of them."""
    by_name: dict[str, Launch] = {x.name: x for x in launches(GPU)}
    rows: list[Row] = []
    counted: dict[str, list[str]] = {}
    for k, name in _REDUCTIONS.items():
        work = by_name[name].workload
        assert work.profile is not None and work.launch is not None
        executed, threads = (float(np.sum(work.profile.counts[key])) for key in ("executed", "threads"))
        shared = [a for a in work.accesses if a.space == "shared"]
        degree = sum(float(a.count * a.conflict_degree) for a in shared) / sum(float(a.count) for a in shared)
        counted[k] = [f"{100 * threads / (32 * executed):.0f} %", f"{degree:.2f}", f"{float(work.launch.blocks):.0f}",
                      f"{float(work.barriers):.1f}", f"{executed / 1e6:.2f}"]  # fmt: skip
        rows.append(Row(f"{k}: warp instructions of the grid", executed / 1e6, None, "millions"))
    executed_all = [row.ours for row in rows]
    marks = Grid(
        ["Table 4", *_REDUCTIONS],
        [[what, *("O" if k in where.split() else "" for k in _REDUCTIONS)] for what, where in _TABLE_4],
    )
    what = ("active lanes", "bank conflict degree", "blocks", "barriers per warp", "warp instructions, millions")
    columns = [[label, *(counted[k][i] for k in _REDUCTIONS)] for i, label in enumerate(what)]  # fmt: skip
    notes = claims(
        ("the number of instructions was significantly reduced by each optimization",
         all(b < a for a, b in pairwise(executed_all))),
    )  # fmt: skip
    plot = Plot("Warp instructions of the grid", ", ".join(_REDUCTIONS), "millions",
                [line("executed", range(len(rows)), executed_all, "bar")])  # fmt: skip
    return Item("sim-table-4", "Table 4: techniques on the reduction kernels, counted", f"{PAPER} §6.3.1", rows, [plot],
                notes=[*notes, "Counts are those of the emulator for examples/reduction, of the whole grid."],
                grids=[marks, Grid(["counted", *_REDUCTIONS], columns)])  # fmt: skip


def figure_13() -> Item:
    """Figure 13: the reduction's time, measured and predicted."""
    found = _reductions()
    times = 1e6 * np.array([_seconds(one) for one in found.values()])
    s = speedups(found["K0"], list(found.values()))
    off = np.abs(times[:, 1:] / times[:, :1] - 1).mean(axis=0)
    rows = [Row(f"mean error of the time, {label}", 100 * float(x), None, "%")
            for label, x in zip(("sim2012", "hong-kim"), off, strict=True)]  # fmt: skip
    rows += [Row(f"mean error of the speedup over K0, {label}", 100 * x, None, "%")
             for label, x in zip(("sim2012", "hong-kim"), s.errors(), strict=True)]  # fmt: skip
    order = [list(np.argsort(times[:, i])) for i in range(3)]
    notes = [
        H200,
        *claims(("the model closely estimates the execution time over optimizations (within 20 %)", off[0] <= 0.2),
                ("(ours) sim2012 orders the seven kernels as they were measured", order[1] == order[0]),
                ("(ours) hong-kim orders the seven kernels as they were measured", order[2] == order[0])),
    ]  # fmt: skip
    at, labels = range(len(found)), list(found)
    plot = Plot("Time of the reduction", ", ".join(labels), "us",
                [line("measured", at, times[:, 0], "bar"), line("GPUPerf (sim2012)", at, times[:, 1], "points"),
                 line("MWP-CWP (hong-kim)", at, times[:, 2], "points")])  # fmt: skip
    grid = Grid(["us", "measured", "sim2012", "hong-kim"],
                [[k, *(f"{x:.1f}" for x in row)] for k, row in zip(labels, times, strict=True)])  # fmt: skip
    return Item("sim-figure-13", "Figure 13: time of the reduction kernels on an H200", f"{PAPER} §6.3.2", rows, [plot],
                notes, [grid])  # fmt: skip


def figure_14() -> Item:
    """Figure 14: the benefit chart of the reduction kernels."""
    found = _reductions()
    computing = [k for k, one in found.items() if one.term("T_comp") > one.term("T_mem")]
    first_six = [one for k, one in found.items() if k != "K6"]
    itilp, memlp = (max(one.share(name) for one in first_six) for name in ("B_itilp", "B_memlp"))
    gap = float(np.mean([(one.term("T_comp") - one.term("T_fp")) / one.term("T_exec") for one in first_six]))
    rows = [
        claim("kernels of K0 to K5 that are limited by computation", sum(k != "K6" for k in computing), "6",
              "from K0 to K5 the kernels are in the compute-bounded zone"),
        claim("B_memlp of K0 to K5, the largest", memlp, "0", "all memory cost is hidden", "of the time"),
        claim("B_itilp of K0 to K5, the largest", itilp, "0", "ITILP is at its peak from K0 on", "of the time"),
        Row("T_comp - T_fp of K0 to K5, the mean", gap, None, "of the time", "the paper: huge gaps"),
        claim("K6 limited by memory: 1 is yes", float("K6" not in computing), "1", "K6 becomes memory bounded"),
    ]  # fmt: skip
    names = ("T_comp", "T_mem", "T_overlap", "T_fp", "T_mem_min", *BENEFITS)
    grid = Grid(["thousands of cycles of an SM", *names],
                [[k, *(f"{one.term(name) / 1e3:.1f}" for name in names)] for k, one in found.items()])  # fmt: skip
    notes = [
        *claims(
            ("K0 to K5 are limited by computation", {*computing} >= {*found} - {"K6"}),
            ("K6 is limited by memory", "K6" not in computing),
            ("B_memlp and B_itilp of K0 to K5 are nothing", max(itilp, memlp) <= _NOTHING),
        ),
        "A is (T_mem, T_comp), A' is (T_mem - T_overlap, T_comp), the ideal is (T_mem_min, T_fp).",
    ]  # fmt: skip
    return Item("sim-figure-14", "Figure 14: benefit chart of the reduction kernels on an H200", f"{PAPER} §6.3.2",
                rows, [chart(found, "Benefit chart of K0 to K6 on an H200")], notes, [grid])  # fmt: skip


def table_5() -> Item:
    """Table 5: the techniques of cutcp and tpacf, their metrics, and how these change on the H200."""
    found = _parboil()
    rows: list[Row] = []
    changes: dict[str, dict[str, float]] = {}
    for k, (before, after) in found.items():
        base = before.term("T_exec")
        changes[k] = {name: (before.term(name) - after.term(name)) / base for name in BENEFITS}
        rows += [Row(f"{k}: {name} less by", changes[k][name], None, "of the time before") for name in BENEFITS]
    marks = Grid(["Table 5", "cutcp", "tpacf", "metrics", "less by, of the time before"],
                 [[what, *("O" if k == where else "" for k in found), ", ".join(metrics),
                   ", ".join(f"{changes[where][name]:.2f}" for name in metrics)]
                  for what, where, metrics in _TABLE_5])  # fmt: skip
    related = {(where, name) for _, where, metrics in _TABLE_5 for name in metrics}
    notes = claims(*(
        (f"the techniques of {k} reduce {name}", changes[k][name] > _NOTHING) for k, name in sorted(related)
    ))  # fmt: skip
    series = [line(k, range(1, 5), list(changes[k].values()), "points") for k in found]
    plot = Plot("Less of each benefit metric", "1 B_itilp, 2 B_memlp, 3 B_fp, 4 B_serial", "share of the time before",
                series)  # fmt: skip
    return Item("sim-table-5", "Table 5: techniques on cutcp and tpacf, and their benefit metrics", f"{PAPER} §6.4.1",
                rows, [plot], [*notes, H200], [marks])  # fmt: skip


def figure_15() -> Item:
    """Figure 15: cutcp and tpacf before and after, measured and predicted."""
    found = _parboil()
    rows: list[Row] = []
    every = {f"{k} {what}": one for k, pair in found.items() for what, one in zip(("baseline", "optimised"), pair,
                                                                              strict=True)}  # fmt: skip
    times = 1e6 * np.array([_seconds(one) for one in every.values()])
    gains = {k: np.array(_seconds(before)) / np.array(_seconds(after)) for k, (before, after) in found.items()}
    for k, gain in gains.items():
        rows += [Row(f"{k}: speedup, {label}", float(x), None, "times")
                 for label, x in zip(("measured", "sim2012", "hong-kim"), gain, strict=True)]  # fmt: skip
    off = np.abs(times[:, 1:] / times[:, :1] - 1).mean(axis=0)
    rows += [Row(f"mean error of the time, {label}", 100 * float(x), None, "%")
             for label, x in zip(("sim2012", "hong-kim"), off, strict=True)]  # fmt: skip
    notes = [
        H200,
        *claims(
            ("the techniques of cutcp are effective (over 1.5 times)", gains["cutcp"][0] > 1.5),
            ("those of tpacf are not (under 1.2 times)", gains["tpacf"][0] < 1.2),
            ("the model predicts both", gains["cutcp"][1] > 1.5 and gains["tpacf"][1] < 1.2),
        ),
    ]  # fmt: skip
    at, labels = range(len(every)), list(every)
    plot = Plot("Time of cutcp and tpacf", ", ".join(labels), "us",
                [line("measured", at, times[:, 0], "bar"), line("GPUPerf (sim2012)", at, times[:, 1], "points"),
                 line("MWP-CWP (hong-kim)", at, times[:, 2], "points")])  # fmt: skip
    grid = Grid(["us", "measured", "sim2012", "hong-kim"],
                [[k, *(f"{x:.1f}" for x in row)] for k, row in zip(labels, times, strict=True)])  # fmt: skip
    return Item("sim-figure-15", "Figure 15: time of cutcp and tpacf on an H200", f"{PAPER} §6.4.2", rows, [plot],
                notes, [grid])  # fmt: skip


def figure_16() -> Item:
    """Figure 16: the benefit metrics of cutcp and tpacf over the baseline's time."""
    found = _parboil()
    rows: list[Row] = []
    series = []
    left: dict[str, tuple[float, float]] = {}
    for k, pair in found.items():
        base = pair[0].term("T_exec")
        sums = [sum(one.term(name) for name in BENEFITS) / base for one in pair]
        left[k] = (sums[0], sums[1])
        for what, one in zip(("baseline", "optimised"), pair, strict=True):
            shares = [one.term(name) / base for name in BENEFITS]
            rows += [Row(f"{k} {what}: {name}", x, None, "of the baseline's time")
                     for name, x in zip(BENEFITS, shares, strict=True)]  # fmt: skip
            series.append(line(f"{k} {what}", range(1, 5), shares, "points"))
    tpacf = found["tpacf"]
    notes = [
        *claims(
            ("cutcp's optimised version has most of its potential", left["cutcp"][1] < 0.5 * left["cutcp"][0]),
            ("tpacf has a high potential of B_itilp", tpacf[0].share("B_itilp") > 0.1),
            ("most requests of tpacf hit the caches: no B_memlp", tpacf[0].share("B_memlp") <= _NOTHING),
            ("the optimisations of tpacf leave most of its potential", left["tpacf"][1] > 0.5 * left["tpacf"][0]),
        ),
        H200,
    ]  # fmt: skip
    plot = Plot("Benefits over the baseline's time", "1 B_itilp, 2 B_memlp, 3 B_fp, 4 B_serial",
                "share of the baseline's time", series)  # fmt: skip
    return Item("sim-figure-16", "Figure 16: benefit metrics of cutcp and tpacf on an H200", f"{PAPER} §6.4.2", rows,
                [plot], notes)  # fmt: skip


def figure_6_on_h200() -> Item:
    """Figure 6 on an H200: what instruction-level parallelism buys with few warps."""
    found = timed(("itilp",))
    names = {1: "itilp", **{n: f"itilp.ilp{n}" for n in (2, 3, 4)}}
    s = speedups(found["itilp"], [found[name] for name in names.values()])
    rows = [Row(f"ILP = {n}: speedup, {label}", float(x[i]), None, "times")
            for i, n in enumerate(names) for label, x in (("measured", s.measured), ("sim2012", s.newer),
                                                          ("hong-kim", s.older)) if n > 1]  # fmt: skip
    rows.append(Row("ITILP of ILP = 1, sim2012", found["itilp"].term("ITILP"), None, "",
                    f"ITILP_max is {found['itilp'].term('ITILP_max'):g}"))  # fmt: skip
    notes = [*claims(("more ILP is faster where warps are few", bool(np.all(np.diff(s.measured) > 0))),
                     ("GPUPerf follows (10 % in the mean)", s.errors()[0] <= 0.1),
                     ("MWP-CWP does not see it", bool(np.all(s.older < 1.05)))), H200]  # fmt: skip
    plot = bars(s, "Speedup over ILP = 1", "instruction-level parallelism")
    return Item("sim-figure-6-on-h200", "Figure 6 on an H200: ILP with few warps", f"{PAPER} §6.1", rows, [plot], notes)


def figure_8_on_h200() -> Item:
    """Figure 8 on an H200: special-function instructions among multiply-adds."""
    found = timed(("sfu",))
    every = [found["sfu"], *(found[f"sfu.sfu{n}"] for n in range(1, 9))]
    times = 1e6 * np.array([_seconds(one) for one in every])
    off = np.abs(times[:, 1:] / times[:, :1] - 1).mean(axis=0)
    hidden = max(n for n in range(9) if times[n, 0] <= 1.1 * times[0, 0])
    rows = [
        Row("SFU instructions per eight FMA that cost nothing (10 %), measured", hidden, "1", "", measured=True,
            note="the paper: 1, of its C2050, with 32 lanes and 4 SFUs; the H200 has 128 and 16"),
        *(Row(f"mean error of the time, {label}", 100 * float(x), None, "%")
          for label, x in zip(("sim2012", "hong-kim"), off, strict=True)),
    ]  # fmt: skip
    notes = [
        *claims(("GPUPerf predicts the contention more accurately than MWP-CWP", off[0] < off[1])),
        "hong-kim has M_Factor (31) for the SFU from the H200's file; the paper's MWP-CWP had none.",
        H200,
    ]
    x = range(9)
    plot = Plot("Time", "SFU instructions per eight FMA", "us",
                [line("measured", x, times[:, 0], "bar"), line("GPUPerf (sim2012)", x, times[:, 1]),
                 line("MWP-CWP (hong-kim)", x, times[:, 2])])  # fmt: skip
    return Item("sim-figure-8-on-h200", "Figure 8 on an H200: contention for special function units", f"{PAPER} §6.1",
                rows, [plot], notes)  # fmt: skip


ITEMS = tuple(
    map(on_silicon, (figure_6_on_h200, figure_8_on_h200, table_4, figure_13, figure_14, table_5, figure_15, figure_16))
)
