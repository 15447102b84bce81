"""Volkov 2016: the model curves of the figures of chapters 6 and 7, and what the text prints about them.

The experiments behind chapter 7's figures are not published as numbers. Where the paper divides a model by
an experiment, we divide it by the dissertation's own refined model, memory contention included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from warplens.kernel import mix
from warplens.machine import Machine, load_machine
from warplens.machine.machine import Sim
from warplens.models import predict
from warplens.models.volkov_contention import loaded_latency
from warplens.study.item import Item, Plot, Row, Series, line
from warplens.study.volkov_figures import (
    ADDS, ALPHA, GBPS, OURS, WARPS, Floats, adds, at, curves, figure, floats, gigabytes, needed, needed_by, occupancies,
)  # fmt: skip
from warplens.study.volkov_tables import GPUS, generation

ALPHAS: Floats = np.sqrt(2.0) ** np.arange(19)  # §7.9: 1 to 512
RELATIVE = "ours: over the contention model; paper: over experiment"
HUANG = {"Huang et al., round robin": "huang-rr", "Huang et al., greedy then oldest": "huang-gto"}


def figure_6_3() -> Item:
    """Mean memory latency against memory throughput: the fits."""
    rows, plots = [], []
    for machine in map(load_machine, GPUS):
        name, fit, refined = generation(machine), machine.contention, machine.contention_refined
        assert fit is not None
        peak, unloaded = machine.dram_bytes_per_second(), machine.latency_cycles("load")
        x = np.linspace(0, peak, 121)
        series = [line("fit", x / 1e9, loaded_latency(fit, x))]
        if refined is not None:
            below = x[x < 0.99 * refined.c_bytes_per_second]
            series.append(line("refined fit", below / 1e9, loaded_latency(refined, below)))
        rows.append(Row(f"{name}: fit at no load, over the latency measured", fit.a_cycles / unloaded, None, "ratio"))
        for share in (0.5, 0.9, 1.0):
            ours = float(loaded_latency(fit, share * peak))
            rows.append(Row(f"{name}: latency at {share:.0%} of peak", ours, None, "cycles"))
        plots.append(Plot(name, GBPS, "mean memory latency, cycles", series, y_max=3 * unloaded))
    note = "the model takes the unloaded latency where a fit lies under it (Fermi and Kepler); the curves are the bare fits"
    return figure("6.3", "mean memory latency increases with throughput", "6.4", rows, plots, note)


def figure_6_4() -> Item:
    """The two bounds with and without memory contention on Kepler."""
    kepler = load_machine("gtx680")
    rows = []
    for alpha, n in ((0.0, 32.0), (32.0, 64.0), (64.0, 32.0)):
        x = float(floats(at(alpha, kepler, "volkov-contention", n).throughput_warps_per_cycle))
        ours = x * (300 + 32 * x / (0.1477 - x) + 9 * alpha)  # the printed equation, solved for n
        what = f"alpha = {alpha:g}: the printed equation gives our throughput at"
        rows.append(Row(what, ours, f"{n:g}", WARPS))
    full = float(adds(32.0, kepler, "volkov-contention", 64.0))
    rows.append(Row("alpha = 32 at full occupancy (§7.5)", full, "89", ADDS, measured=True))
    plots = [curves("", kepler, alpha, OURS) for alpha in (0.0, 8.0, 32.0, 64.0, 128.0, 512.0)]
    return figure("6.4", "the model with memory contention on Kepler", "6.5", rows, plots)


def whole(machine: Machine) -> Floats:
    """The occupancies that are whole numbers of warps per scheduler, in warps per SM."""
    return np.arange(machine.sm.schedulers, machine.sm.warps_max + 0.5, machine.sm.schedulers)


def quotients(model: str, machine: Machine, alphas: Floats, reference: str = "volkov-contention") -> Floats:
    """A model's throughput over the reference's: a row per alpha, a column per whole occupancy."""
    n, column = whole(machine)[None, :], alphas[:, None]
    shape = (alphas.size, n.size)
    ours, theirs = (
        floats(at(column, machine, m, n).throughput_warps_per_cycle) * np.ones(shape) for m in (model, reference)
    )
    return np.asarray(ours / theirs)


def worst(model: str, machine: Machine, alpha: float) -> tuple[float, float]:
    """The smallest and the largest of a model's quotients at one alpha."""
    found = quotients(model, machine, np.array([alpha]))
    return float(found.min()), float(found.max())


def over(what: str, model: str, machine: Machine, alpha: float, paper: str, more: str = "") -> Row:
    """The largest overestimate at one alpha, beside the one that the paper observed."""
    name = f"{what}{generation(machine)}, alpha = {alpha:g}: overestimate at most"
    note = RELATIVE + (f"; {more}" if more else "")
    return Row(name, worst(model, machine, alpha)[1], paper, "ratio", note, measured=True)


def figure_7_1() -> Item:
    """Hong & Kim's model and the two bounds on GT200, alpha = 32, with §7.1's latency and clock."""
    gt200 = load_machine("gtx280").with_values(hong_kim__mem_ld_cycles=434.0, hong_kim__clock_hz=1.296e9)
    one = at(32.0, gt200, "hong-kim", 1.0)
    slow, fast = (float(adds(32.0, gt200, model, 1.0)) for model in ("volkov", "hong-kim"))
    flat = float(floats(at(math.inf, gt200, "hong-kim", 1.0).ipc))
    alone = float(floats(at(math.inf, gt200, "volkov", 1.0).ipc))
    rows = [
        Row("cap of MWP", float(one.terms["MWP_peak_BW"].value), "12.4", "warps"),
        Row("cap of CWP", float(one.terms["CWP_full"].value), "4.3", "warps"),
        Row("overestimate at small occupancy", fast / slow, "2.1", "ratio", "ours: over the two bounds"),
        Row("adds only, one warp: Hong & Kim", 1 / flat, "4", "cycles per instruction"),
        Row("adds only, one warp: two bounds", 1 / alone, "24", "cycles per instruction", measured=True),
    ]
    plots = [curves("", gt200, 32.0, {"Hong & Kim": "hong-kim", **OURS})]
    return figure("7.1", "Hong & Kim's model on GT200", "7.1", rows, plots)


def _baghsorkhi(alpha: float, n: float) -> float:
    """§7.2's closed form for the G80: the warp latency per body, with the constants printed there."""
    x = alpha * max(4.0, 20 / n) + 4
    return max(37.0, x, 440 - (n - 2) * x)


def _baghsorkhi_rows(g80: Machine, alpha: float) -> list[Row]:
    rows = []
    for n in (1.0, 4.0, 12.0, 24.0):
        ours = 1 / float(floats(at(alpha, g80, "baghsorkhi", n).throughput_warps_per_cycle))
        paper = f"{_baghsorkhi(alpha, n):.4g}"
        rows.append(Row(f"alpha = {alpha:g}, n = {n:g}: warp latency", ours, paper, "cycles"))
    return rows


def figure_7_2() -> Item:
    """Baghsorkhi et al.'s model on G80: loads only, and the odd shape at alpha = 11."""
    g80 = load_machine("8800gtx")
    slow, fast, real = (float(gigabytes(0.0, g80, m, 24.0)) for m in ("baghsorkhi", "volkov", "volkov-contention"))
    share = float(gigabytes(0.0, g80, "volkov-contention", 20.0)) / (g80.dram_bytes_per_second() / 1e9)
    warps = needed_by("baghsorkhi", g80, np.zeros(1), 1.0)[0]
    rows = [
        *_baghsorkhi_rows(g80, 0.0),
        *_baghsorkhi_rows(g80, 11.0),
        Row("alpha = 0: warps needed", warps, None, WARPS, "the paper says: over 100"),
        Row(
            "alpha = 0, full occupancy: underestimate",
            real / slow,
            "8",
            "ratio",
            f"{RELATIVE}, more than",
            measured=True,
        ),
        Row("alpha = 0, full occupancy: two bounds over Baghsorkhi et al.", fast / slow, None, "ratio"),
        Row("alpha = 0: contention model at 20 warps", 100 * share, "94", "% of peak", measured=True),
    ]
    plots = [curves("", g80, alpha, {"Baghsorkhi et al.": "baghsorkhi", **OURS}) for alpha in (0.0, 11.0)]
    note = "the paper's warp latencies are its closed form, evaluated with its printed constants"
    return figure("7.2", "Baghsorkhi et al.'s model on G80", "7.2", rows, plots, note)


def figure_7_3() -> Item:
    """Baghsorkhi et al.'s model on G80 at alpha = 32."""
    g80 = load_machine("8800gtx")
    rows = [*_baghsorkhi_rows(g80, 32.0), over("", "baghsorkhi", g80, 32.0, "1.7")]
    plots = [curves("", g80, 32.0, {"Baghsorkhi et al.": "baghsorkhi", **OURS})]
    return figure("7.3", "Baghsorkhi et al.'s model on G80, alpha = 32", "7.2", rows, plots)


def figure_7_4() -> Item:
    """The throughput tables that Zhang & Owens' model reads on GT200."""
    gt200 = load_machine("gtx280")
    n = occupancies(gt200)
    plots, rows = [], []
    for kind, alpha, peak in (
        ("fp32", math.inf, 32 * gt200.peak_ipc("fp32")),
        ("load", 0.0, gt200.dram_bytes_per_cycle() / 4),
    ):
        table = gt200.throughput[kind]  # type: ignore[index]
        two = floats(at(alpha, gt200, "volkov", n).ipc) * 32
        series = [line("table", table.warps_per_sm, table.ops_per_cycle_per_sm, "points"), line("two bounds", n, two)]
        plots.append(Plot(f"GT200, {kind}", WARPS, "ops/cycle/SM", series))
        rows.append(Row(f"{kind}: last entry of the table", table.ops_per_cycle_per_sm[-1] / peak, None, "of peak"))
    note = "our tables are the few points that the paper's Tables 6.1 to 6.4 print; it read off a measured curve"
    return figure("7.4", "input of Zhang & Owens' model on GT200", "7.3", rows, plots, note)


def _added(machine: Machine, alpha: float, n: Floats) -> Series:
    """Zhang & Owens' tables with arithmetic and memory times added instead of overlapped."""
    times: Floats = np.zeros(n.shape)
    for kind, count in (("fp32", alpha), ("load", 1.0)):
        table = machine.throughput[kind]  # type: ignore[index]
        times = times + count * 32 / np.interp(n, table.warps_per_sm, table.ops_per_cycle_per_sm)
    return line("Zhang & Owens, times added", n, 32 * alpha / times)


def figure_7_5() -> Item:
    """Zhang & Owens' model on GT200 at alpha = 16."""
    gt200 = load_machine("gtx280")
    n = occupancies(gt200)
    rows = [over("", "zhang-owens", gt200, 16.0, "1.9")]
    plots = [curves("", gt200, 16.0, {"Zhang & Owens": "zhang-owens", **OURS}, _added(gt200, 16.0, n))]
    return figure("7.5", "Zhang & Owens' model on GT200, alpha = 16", "7.3", rows, plots)


def _newer(model: str, label: str, printed: Sequence[str], more: str = "") -> tuple[list[Row], list[Plot]]:
    """A model on Fermi and Kepler at alpha = 32 and on Maxwell at 64, with the printed worst factors."""
    cases = zip(("gtx480", "gtx680", "gtx980"), (32.0, 32.0, 64.0), printed, strict=True)
    rows, plots = [], []
    for gpu, alpha, paper in cases:
        machine = load_machine(gpu)
        rows.append(over("", model, machine, alpha, paper, more))
        plots.append(curves("", machine, alpha, {label: model, **OURS}))
    return rows, plots


def figure_7_6() -> Item:
    """Zhang & Owens' model on the newer GPUs."""
    more = "the paper says 1.9 or 2.0 for the three GPUs together"
    rows, plots = _newer("zhang-owens", "Zhang & Owens", ("2.0", "2.0", "2.0"), more)
    return figure("7.6", "Zhang & Owens' model on newer GPUs", "7.3", rows, plots)


def figure_7_7() -> Item:
    """Sim et al.'s model on the newer GPUs, and its caps on the C2050."""
    rows, plots = _newer("sim2012", "Sim et al.", ("1.8", "2.0", "1.9"))
    c2050, fermi = load_machine("c2050"), load_machine("gtx480")
    own = Sim(simd_width=32, sfu_width=4, fp_lat_cycles=18, dram_lat_cycles=513, departure_delay_cycles=32)
    told = {m.id: at(32.0, m, "sim2012", 48.0).terms for m in (c2050, fermi)}
    delayed = at(32.0, fermi.with_values(sim=own), "sim2012", 48.0).terms
    per_warp, cap = (float(told["c2050"][name].value) for name in ("BW_per_warp", "avg_DRAM_lat / Delta"))
    slow, late = (float(delayed[name].value) for name in ("BW_per_warp", "avg_DRAM_lat / Delta"))
    rows += [
        Row("C2050: cap of MWP by bandwidth", float(told["c2050"]["MWP_peak_bw"].value), "30.7", "warps"),
        Row("C2050: cap of MWP by departure delay", cap, "22", "warps"),
        Row("C2050: BW_per_warp", per_warp / 1e9, "0.335", GBPS),
        Row("C2050: throughput at that cap", per_warp * cap * c2050.chip.sm_count / 1e9, "103", GBPS),
        Row("GTX 480: cap of MWP by bandwidth", float(told["gtx480"]["MWP_peak_bw"].value), "30.7", "warps"),
        Row("GTX 480: throughput if the departure delay were 32", slow * late * fermi.chip.sm_count / 1e9, "84", GBPS),
    ]
    for n in (1.0, 8.0, 24.0, 48.0):  # §7.4's closed form for the GTX 480
        comp = 33 * n * max(18 / n, 1.0)
        mwp, cwp = min(n, 30.7), min(n, 1 + 513 / (33 * max(18 / n, 1.0)))
        memory = n * 513 / min(mwp, max(1.0, cwp - 1))
        paper = max(comp, memory if cwp > mwp else memory + comp / n)
        ours = float(at(32.0, fermi, "sim2012", n).terms["T_exec"].value)
        rows.append(Row(f"GTX 480, alpha = 32, n = {n:g}: T_exec", ours, f"{paper:.4g}", "cycles"))
    note = "the paper's T_exec is its closed form, evaluated with its printed constants"
    return figure("7.7", "Sim et al.'s model on newer GPUs", "7.4", rows, plots, note)


def figure_7_8() -> Item:
    """Huang et al.'s model without bandwidth: loads only on Fermi, alpha = 32 on Kepler."""
    fermi, kepler = load_machine("gtx480"), load_machine("gtx680")
    note = "32 lanes x 32 adds x 64 warps / 589 cycles = 111.3; the printed number counts the load too (33 instructions: 114.7)"
    rows = [
        Row("Fermi, alpha = 0, n = 48: round robin", float(gigabytes(0.0, fermi, "huang-rr", 48.0)), "252", GBPS),
        Row("Fermi, alpha = 0, n = 48: greedy then oldest", float(gigabytes(0.0, fermi, "huang-gto", 48.0)), "252", GBPS),
        Row("Fermi, alpha = 0, n = 48: contention model", float(gigabytes(0.0, fermi, "volkov-contention", 48.0)), "151", GBPS, measured=True),
    ]  # fmt: skip
    for name, model in {**HUANG, "two bounds": "volkov"}.items():
        full = float(adds(32.0, kepler, model, 64.0))
        rows.append(Row(f"Kepler, alpha = 32, n = 64: {name}", full, "115", ADDS, note))
    real = float(adds(32.0, kepler, "volkov-contention", 64.0))
    rows.append(Row("Kepler, alpha = 32, n = 64: contention model", real, "89", ADDS, measured=True))
    plots = [curves("", machine, alpha, {**HUANG, **OURS}) for machine, alpha in ((fermi, 0.0), (kepler, 32.0))]
    return figure("7.8", "Huang et al.'s model", "7.5-7.6", rows, plots)


def figure_7_9() -> Item:
    """Huang et al.'s model with adds only on Maxwell: beyond the peak."""
    maxwell, synthetic = load_machine("gtx980"), load_machine("huang-synthetic")
    rows = [
        Row("Maxwell, n = 64: round robin", float(adds(math.inf, maxwell, "huang-rr", 64.0)), "341", ADDS),
        Row("Maxwell, n = 64: two bounds", float(adds(math.inf, maxwell, "volkov", 64.0)), "128", ADDS),
    ]
    for machine, paper in ((maxwell, "20"), (synthetic, "4")):
        far = float(floats(at(math.inf, machine, "huang-gto", 1e7).ipc)) / machine.issue_ipc()
        rows.append(Row(f"{machine.name}: greedy then oldest, over peak", 100 * (far - 1), paper, "%"))
    full = float(adds(math.inf, maxwell, "huang-gto", 64.0)) / 128
    rows.append(Row("Maxwell, n = 64: greedy then oldest, over peak", 100 * (full - 1), None, "%"))
    plots = [curves("", maxwell, math.inf, {**HUANG, "two bounds": "volkov"})]
    return figure("7.9", "Huang et al.'s model, adds only", "7.5-7.6", rows, plots)


def _pieces(name: str, machine: Machine, alpha: float, model: str) -> list[Series]:
    """A curve in pieces: up to rho = 1, while time is negative, and beyond."""
    n = np.arange(0.5, machine.sm.warps_max + 0.01, 0.05)
    made = at(alpha, machine, model, n)
    rho, y = floats(made.terms["rho"].value), floats(made.fp32_ops_per_cycle)
    parts = {"rho < 1": rho < 1, "negative time": (rho > 1) & (y < 0), "rho > 1": (rho > 1) & (y > 0)}
    return [line(f"{name}, {part}", n[mask], y[mask]) for part, mask in parts.items() if np.any(mask)]


def figure_7_10() -> Item:
    """Huang et al.'s model with bandwidth terms: singular, and negative behind that."""
    synthetic, fermi = load_machine("huang-synthetic"), load_machine("gtx480")
    one = at(0.0, synthetic, "huang-rr-bandwidth", 1.0).terms["rho"].value
    terms = {n: at(0.0, synthetic, "huang-rr-bandwidth", n).terms for n in (29.0, 32.0)}
    strided = predict(mix(0.0, stride=2), fermi, "huang-rr-bandwidth", warps_per_sm=17.0).terms
    rows = [
        Row("synthetic GPU: s", float(terms[32.0]["s"].value), "0.667", "cycles"),
        Row("synthetic GPU, n = 32: rho", float(terms[32.0]["rho"].value), "1.14"),
        Row("synthetic GPU, n = 29: rho", float(terms[29.0]["rho"].value), "1.03"),
        Row("synthetic GPU, n = 29: Bandwidth_delay", float(terms[29.0]["Bandwidth_delay"].value), "-11", "cycles"),
        Row("synthetic GPU, n = 29, alpha = 0: CPI", float(terms[29.0]["CPI_final"].value), "-0.7", "cycles"),
        Row("synthetic GPU, alpha = 16: singular at", 1 / float(one), "28.1", WARPS, "where rho = 1"),
        Row("Fermi, stride 2, n = 17: Bandwidth_delay", float(strided["Bandwidth_delay"].value), "-120", "cycles"),
        Row("Fermi, stride 2, n = 17, alpha = 0: CPI", float(strided["CPI_final"].value), "-89", "cycles"),
    ]
    for name, model in HUANG.items():
        ours = float(adds(32.0, fermi, f"{model}-bandwidth", 34.0))
        rows.append(Row(f"Fermi, alpha = 32, n = 34: {name}", ours, "-12", ADDS))
    plots = []
    for machine, alpha in ((synthetic, 16.0), (fermi, 32.0)):
        series = [s for name, model in HUANG.items() for s in _pieces(name, machine, alpha, f"{model}-bandwidth")]
        series = [Series(s.name, s.x, [max(-64.0, min(64.0, y)) for y in s.y]) for s in series]
        plots.append(Plot(f"{generation(machine)}, alpha = {alpha:g}", WARPS, ADDS, series, y_max=64.0))
    note = (
        "the curves are cut at 64 adds/cycle/SM to either side: the throughput has a pole where the time crosses zero"
    )
    return figure("7.10", "Huang et al.'s model with bandwidth terms", "7.7-7.8", rows, plots, note)


def _ranges(machine: Machine, models: Mapping[str, str]) -> Plot:
    """Smallest and largest quotient against alpha, for each of the models."""
    series = []
    for name, model in models.items():
        found = quotients(model, machine, ALPHAS)
        series += [
            line(f"{name}, smallest", ALPHAS, found.min(axis=1)),
            line(f"{name}, largest", ALPHAS, found.max(axis=1)),
        ]
    return Plot(generation(machine), ALPHA, "over the contention model", series, log_x=True, log_y=True)


def _basic(machine: Machine, paper: str) -> Row:
    """The two bounds' largest overestimate over all alphas."""
    ours = float(quotients("volkov", machine, ALPHAS).max())
    note = f"{RELATIVE}, which saturates more gradually still"
    return Row(f"two bounds, {generation(machine)}: overestimate at most", ours, paper, "ratio", note, measured=True)


def figure_7_11() -> Item:
    """Errors of the models that fail when latency-bound, against alpha."""
    g80, gt200, fermi = (load_machine(gpu) for gpu in GPUS[:3])
    low, high = worst("baghsorkhi", g80, 32.0)
    early = quotients("sim2012", fermi, np.ones(1))[0]  # alpha = 1; 2, 4, 6, ... warps per SM
    spread = np.abs(quotients("zhang-owens", gt200, np.ones(1)) - 1).max()
    table = f"{RELATIVE}, which was also the input; our table ends at 95 % of peak"
    rows = [
        Row("Baghsorkhi et al., G80, alpha = 32: smallest quotient", low, "0.975", "ratio", RELATIVE, measured=True),
        Row("Baghsorkhi et al., G80, alpha = 32: largest quotient", high, "1.710", "ratio", RELATIVE, measured=True),
    ]
    for alpha, paper in ((1.0, "7.6"), (8.0, "2.7")):
        ours = 1 / worst("baghsorkhi", g80, alpha)[0]
        name = f"Baghsorkhi et al., G80, alpha = {alpha:g}: underestimate"
        rows.append(Row(name, ours, paper, "ratio", RELATIVE, measured=True))
    rows += [
        Row("Sim et al., Fermi, alpha = 1, n = 2: underestimate", 1 / early[0], "2", "ratio", RELATIVE, measured=True),
        Row(
            "Sim et al., Fermi, alpha = 1, n = 4: underestimate", 1 / early[1], "1.3", "ratio", RELATIVE, measured=True
        ),
        over("Sim et al., ", "sim2012", fermi, 1.0, "1.25"),
        Row("Zhang & Owens, GT200, alpha = 1: error at most", 100 * spread, "6", "%", table, measured=True),
        _basic(g80, "1.34"),
        _basic(gt200, "1.28"),
        _basic(fermi, "1.28"),
    ]
    for name, model, machine in (("Baghsorkhi et al.", "baghsorkhi", g80), ("Zhang & Owens", "zhang-owens", gt200),
                                 ("Sim et al.", "sim2012", fermi)):  # fmt: skip
        most = float(quotients(model, machine, ALPHAS).max())
        rows.append(Row(f"{name}: overestimate at most", most, "1.7", "ratio", f"{RELATIVE}, over", measured=True))
    plots = [
        _ranges(g80, {"Baghsorkhi et al.": "baghsorkhi", "two bounds": "volkov"}),
        _ranges(gt200, {"Zhang & Owens": "zhang-owens", "two bounds": "volkov"}),
        _ranges(fermi, {"Sim et al.": "sim2012", "two bounds": "volkov"}),
    ]
    note = "the paper gives 1.25 to 1.28 for the two bounds on all GPUs but G80; the rows show the larger"
    return figure("7.11", "estimation error against alpha", "7.9", rows, plots, note)


def figure_7_12() -> Item:
    """Errors of the two bounds on Kepler and Maxwell."""
    machines = [load_machine(gpu) for gpu in GPUS[3:]]
    rows = [_basic(machine, "1.28") for machine in machines]
    plots = [_ranges(machine, {"two bounds": "volkov"}) for machine in machines]
    return figure("7.12", "estimation error of the two bounds on newer GPUs", "7.9", rows, plots)


def figure_7_13() -> Item:
    """Errors of Huang et al.'s model against alpha: large where throughput-bound."""
    rows, plots = [], []
    for machine in map(load_machine, GPUS[2:]):
        plots.append(_ranges(machine, {**HUANG, "two bounds": "volkov"}))
        for name, model in HUANG.items():
            for alpha in (1.0, 512.0):
                ours = worst(model, machine, alpha)[1]
                what = f"{name}, {generation(machine)}, alpha = {alpha:g}: overestimate at most"
                rows.append(Row(what, ours, None, "ratio"))
    most = max(row.ours for row in rows if "alpha = 1:" in row.what)
    note = f"{RELATIVE}, a factor of 2 and above on some GPUs"
    rows.append(Row("largest at alpha = 1", most, "2", "ratio", note, measured=True))
    return figure("7.13", "errors of Huang et al.'s model against alpha", "7.9", rows, plots)


def figure_7_14() -> Item:
    """Needed occupancy against alpha: the two bounds have a cusp, three prior models have none."""
    alphas = np.concatenate([[0.0], np.sqrt(2.0) ** np.arange(-2, 19), [math.inf]])
    rows, plots = [], []
    for gpu, name, model in zip(GPUS[:3], ("Baghsorkhi et al.", "Zhang & Owens", "Sim et al."),
                                ("baghsorkhi", "zhang-owens", "sim2012"), strict=True):  # fmt: skip
        machine = load_machine(gpu)
        shown = {name: needed_by(model, machine, alphas), "two bounds": needed(alphas, machine, 0.9)}
        for label, y in shown.items():
            height = float(np.nanmax(y) / max(y[0], y[-1]))
            rows.append(Row(f"{generation(machine)}, {label}: largest over the larger end", height, None, "ratio"))
        series = [line(label, alphas[1:-1], y[1:-1]) for label, y in shown.items()]
        plots.append(Plot(f"{generation(machine)}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True))
    note = "a ratio of 1: no cusp; the paper finds none in the three models but a slight one in Sim et al.'s"
    return figure("7.14", "prior models have no cusp", "7.10", rows, plots, note)


ITEMS = (figure_6_3, figure_6_4, figure_7_1, figure_7_2, figure_7_3, figure_7_4, figure_7_5, figure_7_6, figure_7_7,
         figure_7_8, figure_7_9, figure_7_10, figure_7_11, figure_7_12, figure_7_13, figure_7_14)  # fmt: skip
