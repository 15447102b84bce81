"""Sim et al. 2012 on an H200: the fast multipole method's U-list phase, Figures 1, 4 and 9 to 12.

The 44 variants of examples/fmm were timed on the H200 (`warplens validate --kernels`); GPUPerf (`sim2012`) and MWP-CWP
(`hong-kim`) predict them from the counts of the emulator and the parameters of its machine file. The paper's figures
print no numbers: a row's `paper` is the number that a sentence of the paper says of its C2050, where one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.models import Prediction, predict
from warplens.papers.item import Grid, Item, Plot, Row, Series, line
from warplens.papers.validation.kernel_errors import rank_correlation
from warplens.papers.validation.kernels import launches

PAPER, GPU = "Sim et al. 2012", "h200"
MODEL, OLDER = "sim2012", "hong-kim"
BENEFITS = ("B_itilp", "B_memlp", "B_fp", "B_serial")
_SINGLE = ("shmem", "pref", "ujam", "vecpack", "tight", "rsqrt")  # trans needs shmem
_FIRST_FOUR = ("shmem", "tight", "rsqrt", "ujam")
_LADDER = ("", "vecpack", "rsqrt-vecpack", "shmem-rsqrt-vecpack", "shmem-ujam-rsqrt-vecpack",
           "shmem-pref-ujam-rsqrt-vecpack")  # fmt: skip
_HELPS, _LITTLE = 1.02, 1.05  # speedups from which an optimisation helps, up to which it hardly does
_OURS = "The paper's figure, of a C2050, prints no numbers."
H200 = "Times are ncu's durations on an H200 with a warm L2; parameters are those of its machine file."


class Timed(Struct, frozen=True):
    """A measured launch and the answers of both models; terms in cycles of the kernel's busiest SM."""

    name: str
    seconds: float
    newer: Prediction
    older: Prediction

    def term(self, name: str) -> float:
        """Return a term of GPUPerf."""
        return float(self.newer.terms[name].value)

    def share(self, name: str) -> float:
        """Return a term of GPUPerf over its T_exec."""
        return self.term(name) / self.term("T_exec")

    @property
    def predicted(self) -> tuple[float, float]:
        """The seconds of GPUPerf and of MWP-CWP."""
        return float(self.newer.seconds or 0.0), float(self.older.seconds or 0.0)


@cache
def timed(kernels: tuple[str, ...]) -> dict[str, Timed]:
    """Return the measured launches of some launch files by name, with both models' answers."""
    machine = load_machine(GPU)
    return {
        x.name: Timed(x.name, x.seconds, predict(x.workload, machine, MODEL), predict(x.workload, machine, OLDER))
        for x in launches(GPU)
        if x.kernel in kernels
    }


def on_silicon(make: Callable[[], Item]) -> Callable[[], Item]:
    """Make an item of measurements, or without them one that says where they are: the wheel has none."""

    @wraps(make)
    def item() -> Item:
        try:
            return make()
        except WarplensError as error:
            name = f"sim-{make.__name__}".replace("_", "-")
            return Item(name, (make.__doc__ or name).strip(), PAPER, notes=[f"not made: {error}"])

    return item


def variants() -> dict[str, Timed]:
    """Return the FMM variants by the names of their optimisations; the baseline's is empty."""
    return {name.partition(".")[2]: one for name, one in timed(("ulist",)).items()}


class Speedups(Struct, frozen=True):
    """Speedups over a baseline: as measured, by GPUPerf, by MWP-CWP."""

    measured: npt.NDArray[np.float64]
    newer: npt.NDArray[np.float64]
    older: npt.NDArray[np.float64]

    def errors(self) -> tuple[float, float]:
        """Return the mean errors of both models, shares of the measured speedup."""
        return tuple(float(np.mean(np.abs(x / self.measured - 1))) for x in (self.newer, self.older))  # type: ignore[return-value]


def speedups(base: Timed, others: Sequence[Timed]) -> Speedups:
    """Return the speedups of some launches over one."""
    predicted = np.array([one.predicted for one in others])
    speedups = np.array(base.predicted) / predicted
    return Speedups(base.seconds / np.array([one.seconds for one in others]), speedups[:, 0], speedups[:, 1])


def bars(s: Speedups, title: str, axis: str) -> Plot:
    """Return a plot of speedups, one place for each launch."""
    at = range(1, len(s.measured) + 1)
    return Plot(title, axis, "speedup over the baseline", [
        line("measured", at, s.measured, "bar"), line("GPUPerf (sim2012)", at, s.newer, "points"),
        line("MWP-CWP (hong-kim)", at, s.older, "points"),
    ])  # fmt: skip


def table(names: Sequence[str], s: Speedups) -> Grid:
    """Return the speedups in numbers."""
    columns = zip(names, s.measured, s.newer, s.older, strict=True)
    rows = [[name, *(f"{x:.2f}" for x in given)] for name, *given in columns]
    return Grid(["speedup over the baseline", "measured", "sim2012", "hong-kim"], rows)


def claim(what: str, ours: float, paper: str, said: str, unit: str = "") -> Row:
    """Return a row for a sentence of the paper about its C2050, beside the same number on the H200."""
    return Row(what, ours, paper, unit, f"the paper, of its C2050: {said}", measured=True)


def claims(*said: tuple[str, bool | np.bool_]) -> list[str]:
    """Return a note for each sentence of the paper: whether it holds on the H200."""
    return [f"{'Holds' if true else 'Does not hold'} on the H200: {what}." for what, true in said]


def figure_1() -> Item:
    """Figure 1: four optimisations alone, and on top of shared memory."""
    found = variants()
    names = [*_FIRST_FOUR, *(f"shmem-{one}" for one in ("tight", "ujam", "rsqrt"))]
    s = speedups(found[""], [found[name] for name in names])
    of = dict(zip(names, zip(s.measured, s.newer, strict=True), strict=True))
    alone = [of[name][0] >= _HELPS for name in _FIRST_FOUR]
    onto = {one: of[f"shmem-{one}"][0] / of["shmem"][0] for one in ("tight", "rsqrt")}
    model = {one: of[f"shmem-{one}"][1] / of["shmem"][1] for one in ("tight", "rsqrt")}
    rows = [
        claim("optimisations of the four that help alone", sum(alone), "4", "each of the four improves the baseline"),
        Row("tight on top of shmem, measured", onto["tight"], None, "times as fast",
            "the paper: the kernel would not be improved much; it holds where this is near 1"),
        Row("tight on top of shmem, sim2012", model["tight"], None, "times as fast"),
        Row("rsqrt on top of shmem, measured", onto["rsqrt"], None, "times as fast",
            "the paper: significantly improved"),
        Row("rsqrt on top of shmem, sim2012", model["rsqrt"], None, "times as fast"),
    ]  # fmt: skip
    notes = [
        *claims(("each of the four improves the baseline", all(alone)),
                ("tight on top of shared memory buys little (up to 5 %)", onto["tight"] <= _LITTLE),
                ("rsqrt on top of shared memory buys much (over 1.5 times)", onto["rsqrt"] > 1.5),
                ("the model says the same of both", model["tight"] < 1.1 and model["rsqrt"] > 1.5)),
        H200, "The text names three of the four optimisations; the fourth, ujam, is our choice.", _OURS,
    ]  # fmt: skip
    return Item("sim-figure-1", "Figure 1: four optimisations of FMM_U on an H200", f"{PAPER} §1", rows,
                [bars(s, "Speedup over the baseline", f"{', '.join(names)}")], notes, [table(names, s)])  # fmt: skip


def chart(named: dict[str, Timed], title: str, unit: float = 1.0) -> Plot:
    """Return the benefit chart (Figures 4, 14): A, A' and the ideal of each kernel, and where both costs are equal."""
    points: list[Series] = []
    most = 0.0
    for name, one in named.items():
        x = np.array([one.term("T_mem"), one.term("T'_mem"), one.term("T_mem_min")]) * unit
        y = np.array([one.term("T_comp"), one.term("T_comp"), one.term("T_fp")]) * unit
        points.append(line(f"{name}: A, A', ideal", x, y, "points"))
        most = max(most, *x, *y)
    diagonal = line("y = x: above it limited by computation", [0.0, most], [0.0, most])
    return Plot(title, "memory cost in cycles of an SM", "computation cost in cycles of an SM", [*points, diagonal])


def figure_4() -> Item:
    """Figure 4: the benefit chart, here of the FMM baseline and its best variant."""
    found = variants()
    best = min(found, key=lambda name: found[name].seconds)
    rows: list[Row] = []
    for label, one in (("baseline", found[""]), (best, found[best])):
        names = ("T_comp", "T_mem", "T_overlap", "T'_mem", "T_exec", "T_fp", "T_mem_min", *BENEFITS)
        equations = {name: one.newer.terms[name].equation for name in names}
        rows += [Row(f"{label}: {name}", one.term(name), None, "cycles", equations[name]) for name in names]
    notes = [
        "A is (T_mem, T_comp), A' is (T_mem - T_overlap, T_comp), the ideal is (T_mem_min, T_fp).",
        "The paper's chart is a drawing; these are the FMM baseline and the fastest variant on an H200.",
    ]
    named = {"baseline": found[""], best: found[best]}
    return Item("sim-figure-4", "Figure 4: the benefit chart", f"{PAPER} §3", rows,
                [chart(named, "Benefit chart of FMM_U on an H200")], notes)  # fmt: skip


def figure_9() -> Item:
    """Figure 9: the improvement by each optimisation alone, by both models."""
    found = variants()
    s = speedups(found[""], [found[name] for name in _SINGLE])
    newer, older = s.errors()
    pref = _SINGLE.index("pref")
    opposite = [int(np.sum((s.measured >= _HELPS) & (x < 1))) for x in (s.newer, s.older)]
    rows = [
        Row("mean error of the speedup, sim2012", 100 * newer, None, "%", "the paper: predicts the impact of each"),
        Row("mean error of the speedup, hong-kim", 100 * older, None, "%",
            "the paper: often less than the actual benefit, or even the opposite"),
        Row("optimisations that help and are predicted to harm, sim2012", opposite[0], None),
        Row("optimisations that help and are predicted to harm, hong-kim", opposite[1], None),
        Row("prefetching, measured", float(s.measured[pref]), None, "times as fast", "the paper: an improvement"),
        Row("prefetching, sim2012", float(s.newer[pref]), None, "times as fast"),
        Row("prefetching, hong-kim", float(s.older[pref]), None, "times as fast", "the paper: a degradation"),
    ]  # fmt: skip
    notes = claims(("GPUPerf predicts the improvements more accurately than MWP-CWP", newer < older),
                   ("prefetching improves the kernel", s.measured[pref] >= _HELPS),
                   ("MWP-CWP often predicts less than the actual benefit",
                    np.mean(s.older < s.measured) > 0.5))  # fmt: skip
    return Item("sim-figure-9", "Figure 9: both models on optimisations of FMM_U, on an H200", f"{PAPER} §6.1", rows,
                [bars(s, "Speedup over the baseline", ", ".join(_SINGLE))], [*notes, H200, _OURS],
                [table(_SINGLE, s)])  # fmt: skip


def figure_10() -> Item:
    """Figure 10: 44 combinations of optimisations, measured and predicted."""
    found = variants()
    names = sorted(found, key=lambda name: -found[name].seconds)
    every = [found[name] for name in names]
    s = speedups(found[""], every)
    newer, older = s.errors()
    best = int(np.argmax(s.measured))
    rows = [Row("variants", len(every), None, "", "the paper: 44, by its rules of what can be combined")]
    for label, x, error in (("sim2012", s.newer, newer), ("hong-kim", s.older, older)):
        chosen = int(np.argmax(x))
        rows += [
            Row(f"mean error of the speedup, {label}", 100 * error, None, "%"),
            Row(f"rank correlation of the times, {label}", rank_correlation(x, s.measured), None),
            Row(f"time of the variant that is fastest by {label}, over the best",
                float(s.measured[best] / s.measured[chosen]), None, "times",
                f"{names[chosen] or 'baseline'}; the best is {names[best]}"),
        ]  # fmt: skip
    seconds = np.array([one.predicted for one in every])
    off = np.mean(np.abs(seconds / np.array([[one.seconds] for one in every]) - 1), axis=0)
    rows += [
        Row(f"mean error of the time, {label}", 100 * float(x), None, "%")
        for label, x in zip(("sim2012", "hong-kim"), off, strict=True)
    ]
    chosen = int(np.argmax(s.newer))
    notes = [
        *claims(("the model closely estimates the speedup (10 % in the mean)", newer <= 0.1),
                ("it follows the trend (rank correlation over 0.9)", rank_correlation(s.newer, s.measured) > 0.9),
                ("it finds the best combinations (within 5 % of the best)",
                 s.measured[best] / s.measured[chosen] <= 1.05)),
        H200,
        "The variants of the picture, from left to right, are those of the table.",
    ]  # fmt: skip
    return Item("sim-figure-10", "Figure 10: 44 variants of FMM_U on an H200", f"{PAPER} §6.2.2", rows,
                [bars(s, "Speedup over the baseline", "variant, the slowest first")], notes,
                [table([name or "baseline" for name in names], s)])  # fmt: skip


def figure_11() -> Item:
    """Figure 11: what shared memory buys, against B_itilp of the kernel without it; shares of the time before."""
    found = variants()
    pairs = [(name, with_it) for name in found
             if "shmem" not in name and (with_it := "-".join(filter(None, ("shmem", name)))) in found]  # fmt: skip
    actual = np.array([1 - found[with_it].seconds / found[name].seconds for name, with_it in pairs])
    said = np.array([found[name].share("B_itilp") for name, _ in pairs])
    tight = np.array(["tight" in name for name, _ in pairs])
    rows = [
        Row("combinations", len(pairs), None),
        Row("rank correlation of B_itilp and the benefit", rank_correlation(said, actual), None),
        Row("mean difference, without tight", 100 * float(np.abs(said - actual)[~tight].mean()), None, "% of the time",
            "the paper: B_itilp predicts the benefit closely but for tight"),
        Row("mean difference, with tight", 100 * float(np.abs(said - actual)[tight].mean()), None, "% of the time"),
        Row("largest B_memlp", 100 * max(found[name].share("B_memlp") for name, _ in pairs), "0", "% of the time",
            "the paper, of its C2050: B_memlp = 0", measured=True),
    ]  # fmt: skip
    at = range(1, len(pairs) + 1)
    plot = Plot("Shared memory on top of each combination", "combination, in the order of the table",
                "share of the time before", [line("measured benefit", at, actual, "bar"),
                                             line("B_itilp", at, said, "points")])  # fmt: skip
    grid = Grid(["shmem on top of", "measured benefit", "B_itilp"],
                [[name or "baseline", f"{a:.3f}", f"{b:.3f}"]
                 for (name, _), a, b in zip(pairs, actual, said, strict=True)])  # fmt: skip
    return Item("sim-figure-11", "Figure 11: what shared memory buys, and B_itilp, on an H200", f"{PAPER} §6.2.3", rows,
                [plot], [*claims(
                    ("B_itilp predicts the benefit of shared memory closely (within 5 % of the time), without tight",
                     np.abs(said - actual)[~tight].mean() <= 0.05)), H200], [grid])  # fmt: skip


def figure_12() -> Item:
    """Figure 12: speedup and benefits while optimisations are added one by one."""
    found = variants()
    steps = [found[name] for name in _LADDER]
    s = speedups(steps[0], steps)
    base = steps[0].term("T_exec")
    benefits = {name: np.array([one.term(name) for one in steps]) / base for name in BENEFITS}
    labels = ["baseline", "+ vecpack", "+ rsqrt", "+ shmem", "+ ujam", "+ pref"]
    b_fp = benefits["B_fp"]
    rows = [
        claim("B_serial of the baseline", benefits["B_serial"][0], "0", "B_serial = 0", "of the time"),
        claim("B_memlp of the baseline", benefits["B_memlp"][0], "0", "B_memlp = 0", "of the time"),
        claim("B_itilp over B_fp of the baseline", float(benefits["B_itilp"][0] / b_fp[0]), f"{6068 / 9691:.3f}",
              "B_itilp = 6068, B_fp = 9691 in units that are not printed"),
        Row("B_fp from the baseline to ujam", float(b_fp[4] / b_fp[0]), None, "times", "the paper: decreases"),
        Row("B_fp by pref", float(b_fp[5] / b_fp[4]), None, "times", "the paper: slightly increases"),
        Row("speedup by pref, measured", float(s.measured[5] / s.measured[4]), None, "times",
            "the paper: no improvement"),
        Row("speedup by pref, sim2012", float(s.newer[5] / s.newer[4]), None, "times"),
    ]  # fmt: skip
    at = range(1, len(labels) + 1)
    plots = [
        bars(s, "Speedup over the baseline", ", ".join(labels)),
        Plot("Benefits over the baseline's T_exec", ", ".join(labels), "share of the baseline's time",
             [line(name, at, values) for name, values in benefits.items()]),
    ]  # fmt: skip
    notes = claims(("the potential decreases as optimisations are applied", bool(b_fp[4] < b_fp[0])),
                   ("prefetching on top does not improve the kernel", s.measured[5] / s.measured[4] < _HELPS),
                   ("prefetching increases B_fp slightly", b_fp[5] > b_fp[4]))  # fmt: skip
    grid = Grid(["benefits over the baseline's time", *BENEFITS],
                [[label, *(f"{benefits[name][i]:.3f}" for name in BENEFITS)]
                 for i, label in enumerate(labels)])  # fmt: skip
    return Item("sim-figure-12", "Figure 12: optimisations of FMM_U one by one, on an H200", f"{PAPER} §6.2.3", rows,
                plots, [*notes, H200], [table(labels, s), grid])  # fmt: skip


ITEMS = tuple(map(on_silicon, (figure_1, figure_4, figure_9, figure_10, figure_11, figure_12)))
