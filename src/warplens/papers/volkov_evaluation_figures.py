"""Volkov 2016: the model curves of the figures of chapters 6 and 7, and what the text prints about them.

The experiments behind chapter 7's figures are not published as numbers. Where the paper divides a model by
an experiment, we divide it by the dissertation's own refined model, memory contention included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from warplens.machine import Machine, load_machine
from warplens.machine.papers import Sim
from warplens.models import predict
from warplens.models.published.volkov_contention import loaded_latency
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.volkov_figures import (
    ADDS,
    ALPHA,
    GBPS,
    OURS,
    WARPS,
    Floats,
    adds,
    at,
    curves,
    figure,
    floats,
    gigabytes,
    needed,
    needed_by,
    occupancies,
)
from warplens.papers.volkov_tables import GPUS, generation
from warplens.workload import mix

ALPHAS: Floats = np.sqrt(2.0) ** np.arange(19)  # §7.9: 1 to 512
CLOSED = "the paper's warp latencies and T_exec are its closed forms, evaluated with its printed constants"
RELATIVE = "ours: over the contention model; paper: over experiment"
PRIOR = {"8800gtx": ("Baghsorkhi et al.", "baghsorkhi"), "gtx280": ("Zhang & Owens", "zhang-owens"),
         "gtx480": ("Sim et al.", "sim2012")}  # each with the kind of GPU it was made for  # fmt: skip
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
        for share in (0.0, 0.5, 0.9, 1.0):
            ours = float(loaded_latency(fit, share * peak))
            rows.append(Row(f"{name}: latency at {share:.0%} of peak", ours, None, "cycles"))
        plots.append(Plot(name, GBPS, "mean memory latency, cycles", series, y_max=3 * unloaded))
    note = "curves: the bare fits; the model takes the unloaded latency where a fit lies under it (Fermi, Kepler)"
    return figure("6.3", "mean memory latency increases with throughput", "6.4", rows, plots, note)


def figure_6_4() -> Item:
    """The two bounds with and without memory contention on Kepler."""
    kepler = load_machine("gtx680")
    rows = []
    for alpha, n in ((0.0, 32.0), (32.0, 64.0), (64.0, 32.0)):
        ours = float(floats(at(alpha, kepler, "volkov-contention", n).throughput_warps_per_cycle))
        lat, c = 300 + 9 * alpha, 0.1477  # x (lat + 32 x / (c - x)) = n is a quadratic in x
        x = min(*np.roots([32 - lat, lat * c + n, -n * c]), 0.1338, 4 / (alpha + 1))
        rows.append(Row(f"alpha = {alpha:g}, n = {n:g}: memory throughput", ours, f"{x:.4g}", "IPC/SM", formula=True))
    plots = [curves("", kepler, alpha, OURS) for alpha in (0.0, 8.0, 32.0, 64.0, 128.0, 512.0)]
    note = "the paper's column is its printed equation, solved with its printed constants"
    return figure("6.4", "the model with memory contention on Kepler", "6.5", rows, plots, note)


def whole(machine: Machine) -> Floats:
    """The occupancies that are whole numbers of warps per scheduler, in warps per SM."""
    return np.arange(machine.sm.schedulers, machine.sm.warps_max + 0.5, machine.sm.schedulers)


def quotients(model: str, machine: Machine, alphas: Floats) -> Floats:
    """A model's throughput over the contention model's: a row per alpha, a column per whole occupancy."""
    n, column = whole(machine)[None, :], alphas[:, None]
    rates = [floats(at(column, machine, m, n).throughput_warps_per_cycle) for m in (model, "volkov-contention")]
    return np.broadcast_to(rates[0] / rates[1], (alphas.size, n.size))


def worst(model: str, machine: Machine, *alphas: float) -> tuple[float, float]:
    """The smallest and the largest of a model's quotients at these alphas (at all of §7.9 if none is given)."""
    found = quotients(model, machine, np.array(alphas) if alphas else ALPHAS)
    return float(found.min()), float(found.max())


def seen(what: str, ours: float, paper: str, more: str = "", unit: str = "ratio") -> Row:
    """A quotient of ours beside one that the paper observed."""
    return Row(what, ours, paper, unit, RELATIVE + more, measured=True)


def over(label: str, model: str, machine: Machine, alpha: float, paper: str, more: str = "") -> Row:
    """The largest overestimate at one alpha, beside the one that the paper observed."""
    what = f"{label}{generation(machine)}, alpha = {alpha:g}: overestimate at most"
    return seen(what, worst(model, machine, alpha)[1], paper, more)


def figure_7_1() -> Item:
    """Hong & Kim's model and the two bounds on GT200, alpha = 32, with §7.1's latency and clock."""
    gt200 = load_machine("gtx280").with_values(hong_kim__mem_ld_cycles=434.0, hong_kim__clock_hz=1.296e9)
    one = at(32.0, gt200, "hong-kim", 1.0)
    slow, fast = (float(adds(32.0, gt200, model, 1.0)) for model in ("volkov", "hong-kim"))
    flat, alone = (float(floats(at(math.inf, gt200, model, 1.0).ipc)) for model in ("hong-kim", "volkov"))
    rows = [
        Row("cap of MWP", float(one.terms["MWP_peak_BW"].value), "12.4", "warps"),
        Row("cap of CWP", float(one.terms["CWP_full"].value), "4.3", "warps"),
        Row("overestimate at small occupancy", fast / slow, "2.1", "ratio", "(434 + 24 x 32) / (434 + 4 x 33)"),
        Row("adds only, one warp: Hong & Kim", 1 / flat, "4", "cycles per instruction"),
        Row("adds only, one warp: two bounds", 1 / alone, "24", "cycles per instruction", measured=True),
    ]
    plots = [curves("", gt200, 32.0, {"Hong & Kim": "hong-kim", **OURS})]
    return figure("7.1", "Hong & Kim's model on GT200", "7.1", rows, plots)


def _baghsorkhi_rows(g80: Machine, alpha: float) -> list[Row]:
    """Warp latency per body on the G80, beside §7.2's closed form with the constants printed there."""
    rows = []
    for n in (1.0, 4.0, 12.0, 24.0):
        x = alpha * max(4.0, 20 / n) + 4
        paper = f"{max(37.0, x, 440 - (n - 2) * x):.4g}"
        ours = 1 / float(floats(at(alpha, g80, "baghsorkhi", n).throughput_warps_per_cycle))
        rows.append(Row(f"alpha = {alpha:g}, n = {n:g}: warp latency", ours, paper, "cycles", formula=True))
    return rows


def figure_7_2() -> Item:
    """Baghsorkhi et al.'s model on G80: loads only, and the odd shape at alpha = 11."""
    g80 = load_machine("8800gtx")
    slow, real = (float(gigabytes(0.0, g80, m, 24.0)) for m in ("baghsorkhi", "volkov-contention"))
    share = float(gigabytes(0.0, g80, "volkov-contention", 20.0)) / (g80.dram_bytes_per_second() / 1e9)
    warps = needed_by("baghsorkhi", g80, np.zeros(1), 1.0)[0]
    rows = [
        *_baghsorkhi_rows(g80, 0.0),
        *_baghsorkhi_rows(g80, 11.0),
        Row("alpha = 0: warps needed", warps, None, WARPS, "the paper says: over 100"),
        seen("alpha = 0, full occupancy: underestimate", real / slow, "8", "; it says: more than"),
        Row("alpha = 0: contention model at 20 warps", 100 * share, "94", "% of peak", measured=True),
    ]
    plots = [curves("", g80, alpha, {"Baghsorkhi et al.": "baghsorkhi", **OURS}) for alpha in (0.0, 11.0)]
    return figure("7.2", "Baghsorkhi et al.'s model on G80", "7.2", rows, plots, CLOSED)


def figure_7_3() -> Item:
    """Baghsorkhi et al.'s model on G80 at alpha = 32."""
    g80 = load_machine("8800gtx")
    rows = [*_baghsorkhi_rows(g80, 32.0), over("", "baghsorkhi", g80, 32.0, "1.7")]
    plots = [curves("", g80, 32.0, {"Baghsorkhi et al.": "baghsorkhi", **OURS})]
    return figure("7.3", "Baghsorkhi et al.'s model on G80, alpha = 32", "7.2", rows, plots, CLOSED)


def figure_7_4() -> Item:
    """The throughput tables that Zhang & Owens' model reads on GT200."""
    gt200 = load_machine("gtx280")
    n = occupancies(gt200)
    plots, rows = [], []
    peaks = {"fp32": 32 * gt200.peak_ipc("fp32"), "load": gt200.dram_bytes_per_cycle() / 4}
    for kind, alpha in (("fp32", math.inf), ("load", 0.0)):
        table = gt200.throughput[kind]
        two = floats(at(alpha, gt200, "volkov", n).ipc) * 32
        series = [line("table", table.warps_per_sm, table.ops_per_cycle_per_sm, "points"), line("two bounds", n, two)]
        plots.append(Plot(f"GT200, {kind}", WARPS, "ops/cycle/SM", series))
        last = table.ops_per_cycle_per_sm[-1] / peaks[kind]
        rows.append(Row(f"{kind}: last entry of the table", last, None, "of peak"))
    note = "our tables are the few points that the paper's Tables 6.1 to 6.4 print; it read off a measured curve"
    return figure("7.4", "input of Zhang & Owens' model on GT200", "7.3", rows, plots, note)


def _added(machine: Machine, alpha: float) -> Series:
    """Zhang & Owens' tables with arithmetic and memory times added instead of overlapped."""
    n, times = occupancies(machine), np.zeros(1)
    for kind, count in (("fp32", alpha), ("load", 1.0)):
        table = machine.throughput[kind]
        times = times + count * 32 / np.interp(n, table.warps_per_sm, table.ops_per_cycle_per_sm)
    return line("Zhang & Owens, times added", n, 32 * alpha / times)


def figure_7_5() -> Item:
    """Zhang & Owens' model on GT200 at alpha = 16."""
    gt200 = load_machine("gtx280")
    rows = [over("", "zhang-owens", gt200, 16.0, "1.9")]
    plots = [curves("", gt200, 16.0, {"Zhang & Owens": "zhang-owens", **OURS}, _added(gt200, 16.0))]
    return figure("7.5", "Zhang & Owens' model on GT200, alpha = 16", "7.3", rows, plots)


def _newer(model: str, label: str, printed: Sequence[str], more: str = "") -> tuple[list[Row], list[Plot]]:
    """A model on Fermi and Kepler at alpha = 32 and on Maxwell at 64, with the printed worst factors."""
    rows, plots = [], []
    for gpu, alpha, paper in zip(GPUS[2:], (32.0, 32.0, 64.0), printed, strict=True):
        machine = load_machine(gpu)
        rows.append(over("", model, machine, alpha, paper, more))
        plots.append(curves("", machine, alpha, {label: model, **OURS}))
    return rows, plots


def figure_7_6() -> Item:
    """Zhang & Owens' model on the newer GPUs."""
    rows, plots = _newer("zhang-owens", "Zhang & Owens", ("2.0", "2.0", "2.0"), "; it says 1.9 or 2.0 for all three")
    note = (
        "our load tables jump from 1 warp to 80 % of peak: straight in between, too low (Kepler at 4 warps: by a sixth)"
    )
    return figure("7.6", "Zhang & Owens' model on newer GPUs", "7.3", rows, plots, note)


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
        mwp, cwp = min(n, 30.7), min(n, 1 + 513 * n / comp)
        memory = n * 513 / min(mwp, max(1.0, cwp - 1))
        paper = max(comp, memory if cwp > mwp else memory + comp / n)
        ours = float(at(32.0, fermi, "sim2012", n).terms["T_exec"].value)
        rows.append(Row(f"GTX 480, alpha = 32, n = {n:g}: T_exec", ours, f"{paper:.4g}", "cycles", formula=True))
    return figure("7.7", "Sim et al.'s model on newer GPUs", "7.4", rows, plots, CLOSED)


def figure_7_8() -> Item:
    """Huang et al.'s model without bandwidth: loads only on Fermi, alpha = 32 on Kepler."""
    fermi, kepler = load_machine("gtx480"), load_machine("gtx680")
    note = "32 lanes x 32 adds x 64 warps / 589 cycles = 111.3; with the load counted (33 for 32) it would be 114.7"
    rows = []
    for name, model in HUANG.items():
        rows.append(Row(f"Fermi, alpha = 0, n = 48: {name}", float(gigabytes(0.0, fermi, model, 48.0)), "252", GBPS))
    real = float(gigabytes(0.0, fermi, "volkov-contention", 48.0))
    rows.append(Row("Fermi, alpha = 0, n = 48: contention model", real, "151", GBPS, measured=True))
    for name, model in (("Huang et al., round robin", "huang-rr"), ("two bounds", "volkov")):
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
    full = 100 * (float(adds(math.inf, maxwell, "huang-gto", 64.0)) / 128 - 1)
    rows.append(Row("Maxwell, n = 64: greedy then oldest, over peak", full, None, "%"))
    plots = [curves("", maxwell, math.inf, {**HUANG, "two bounds": "volkov"})]
    return figure("7.9", "Huang et al.'s model, adds only", "7.5-7.6", rows, plots)


def _pieces(name: str, machine: Machine, alpha: float, model: str) -> list[Series]:
    """A curve in pieces: up to rho = 1, while time is negative, and beyond."""
    n = np.arange(0.5, machine.sm.warps_max + 0.01, 0.05)
    result = at(alpha, machine, model, n)
    rho, y = floats(result.terms["rho"].value), floats(result.fp32_ops_per_cycle)
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
    note = "the curves are cut at +-64 adds/cycle/SM: the throughput has a pole where the time crosses zero"
    return figure("7.10", "Huang et al.'s model with bandwidth terms", "7.7-7.8", rows, plots, note)


def _ranges(machine: Machine, models: Mapping[str, str]) -> Plot:
    """Smallest and largest quotient against alpha, for each of the models."""
    series = []
    for name, model in models.items():
        found = quotients(model, machine, ALPHAS)
        series.append(line(f"{name}, smallest", ALPHAS, found.min(axis=1)))
        series.append(line(f"{name}, largest", ALPHAS, found.max(axis=1)))
    return Plot(generation(machine), ALPHA, "over the contention model", series, log_x=True, log_y=True)


def _basic(machine: Machine, paper: str) -> Row:
    """The two bounds' largest overestimate over all alphas."""
    what = f"two bounds, {generation(machine)}: overestimate at most"
    return seen(what, worst("volkov", machine)[1], paper, ", which saturates more gradually still")


def figure_7_11() -> Item:
    """Errors of the models that fail when latency-bound, against alpha."""
    g80, gt200, fermi = (load_machine(gpu) for gpu in PRIOR)
    low, high = worst("baghsorkhi", g80, 32.0)
    early = quotients("sim2012", fermi, np.ones(1))[0]  # alpha = 1; 2, 4, 6, ... warps per SM
    spread = 100 * float(np.abs(quotients("zhang-owens", gt200, np.ones(1)) - 1).max())
    table = ", which was also the input; our table ends at 95 % of peak"
    rows = [
        seen("Baghsorkhi et al., G80, alpha = 32: smallest quotient", low, "0.975"),
        seen("Baghsorkhi et al., G80, alpha = 32: largest quotient", high, "1.710"),
    ]
    for alpha, paper in ((1.0, "7.6"), (8.0, "2.7")):
        what = f"Baghsorkhi et al., G80, alpha = {alpha:g}: underestimate"
        rows.append(seen(what, 1 / worst("baghsorkhi", g80, alpha)[0], paper))
    rows += [
        seen("Sim et al., Fermi, alpha = 1, n = 2: underestimate", 1 / float(early[0]), "2"),
        seen("Sim et al., Fermi, alpha = 1, n = 4: underestimate", 1 / float(early[1]), "1.3"),
        over("Sim et al., ", "sim2012", fermi, 1.0, "1.25"),
        seen("Zhang & Owens, GT200, alpha = 1: error at most", spread, "6", table, "%"),
        *(_basic(machine, paper) for machine, paper in ((g80, "1.34"), (gt200, "1.28"), (fermi, "1.28"))),
    ]
    plots = []
    for machine, (name, model) in zip((g80, gt200, fermi), PRIOR.values(), strict=True):
        rows.append(seen(f"{name}: overestimate at most", worst(model, machine)[1], "1.7", "; it says: over"))
        plots.append(_ranges(machine, {name: model, "two bounds": "volkov"}))
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
                what = f"{name}, {generation(machine)}, alpha = {alpha:g}: overestimate at most"
                rows.append(Row(what, worst(model, machine, alpha)[1], None, "ratio"))
    most = max(row.ours for row in rows if "alpha = 1:" in row.what)
    rows.append(seen("largest at alpha = 1", most, "2", "; it says: 2 and above on some GPUs"))
    return figure("7.13", "errors of Huang et al.'s model against alpha", "7.9", rows, plots)


def figure_7_14() -> Item:
    """Needed occupancy against alpha: the two bounds have a cusp, three prior models have none."""
    alphas = np.concatenate([[0.0], np.sqrt(2.0) ** np.arange(-2, 19), [math.inf]])
    rows, plots = [], []
    for gpu, (name, model) in PRIOR.items():
        machine = load_machine(gpu)
        shown = {name: needed_by(model, machine, alphas), "two bounds": needed(alphas, machine, 0.9)}
        for label, y in shown.items():
            height = float(np.nanmax(y) / max(y[0], y[-1]))
            rows.append(Row(f"{generation(machine)}, {label}: largest over the larger end", height, None, "ratio"))
        series = [line(label, alphas[1:-1], y[1:-1]) for label, y in shown.items()]
        plots.append(Plot(f"{generation(machine)}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True))
    note = "a ratio of 1: no cusp; the paper finds none, but a slight one in Sim et al.; peak is the hardware's for all"
    return figure("7.14", "prior models have no cusp", "7.10", rows, plots, note)


ITEMS = (figure_6_3, figure_6_4, figure_7_1, figure_7_2, figure_7_3, figure_7_4, figure_7_5, figure_7_6, figure_7_7,
         figure_7_8, figure_7_9, figure_7_10, figure_7_11, figure_7_12, figure_7_13, figure_7_14)  # fmt: skip
