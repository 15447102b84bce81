"""Volkov 2016: the model curves of the figures of chapters 3 and 4, and what the text prints about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import structs

from warplens.machine import Machine, load_machine
from warplens.models import Prediction, needed_warps, predict
from warplens.models.bounds import arithmetic_ipc, memory_latency
from warplens.models.occupancy_curve import peak_throughput
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.volkov_tables import GPUS, PAPER, fitted_slots, generation
from warplens.program import parse_listing
from warplens.program.lone_warp import schedule
from warplens.workload import Number, load_workload, mix

Floats = npt.NDArray[np.float64]
Kind = Literal["load", "sfu", "shared"]
ALPHAS: Floats = np.sqrt(2.0) ** np.arange(-4, 21)  # 0.25 to 1024
WARPS, ADDS, GBPS, ALPHA = "warps per SM", "adds/cycle/SM", "GB/s", "alpha, adds per other instruction"
OURS = {"two bounds": "volkov", "with memory contention": "volkov-contention"}


def figure(number: str, title: str, section: str, rows: Sequence[Row], plots: Sequence[Plot], *notes: str) -> Item:
    """Make the item of one figure."""
    plain = [structs.replace(row, ours=float(row.ours)) for row in rows]  # no NumPy scalars: items are written to files
    head = (f"volkov-figure-{number}", f"Figure {number}: {title}", f"{PAPER} §{section}")
    return Item(*head, plain, list(plots), list(notes))


def occupancies(machine: Machine) -> Floats:
    """Warps per SM for a smooth curve, up to what the machine holds."""
    return np.arange(0.5, machine.sm.warps_max + 0.25, 0.5)


def floats(value: Number | None) -> Floats:
    """A predicted number or array as an array."""
    assert value is not None
    return np.asarray(value, dtype=float)


def at(alpha: Number, machine: Machine, model: str, n: Number) -> Prediction:
    """Predict the mix of adds and loads at n warps per SM."""
    return predict(mix(alpha), machine, model, warps_per_sm=n)


def adds(alpha: Number, machine: Machine, model: str, n: Number) -> Floats:
    """Adds per cycle and SM in the mix of adds and loads."""
    return floats(at(alpha, machine, model, n).fp32_ops_per_cycle)


def gigabytes(alpha: Number, machine: Machine, model: str, n: Number) -> Floats:
    """GB/s of the whole device in the mix of adds and loads."""
    return floats(at(alpha, machine, model, n).dram_bytes_per_second) / 1e9


def curves(title: str, machine: Machine, alpha: float, models: Mapping[str, str], *more: Series) -> Plot:
    """Plot throughput against occupancy under these models: adds per cycle, or GB/s where there are no adds."""
    n = occupancies(machine)
    rate, unit = (gigabytes, GBPS) if alpha == 0 else (adds, ADDS)
    series = [line(name, n, np.broadcast_to(rate(alpha, machine, model, n), n.shape)) for name, model in models.items()]
    name = f"{generation(machine)}, alpha = {'infinite' if math.isinf(alpha) else f'{alpha:g}'}"
    return Plot(f"{name}{f': {title}' if title else ''}", WARPS, unit, [*series, *more])


def needed(alpha: Number, machine: Machine, fraction: float = 1.0, *, other: Kind = "load") -> Floats:
    """Warps per SM that the two bounds need for this fraction of a peak: proportional to it."""
    return fraction * floats(predict(mix(alpha, other=other), machine, "volkov").needed_warps_per_sm)


def needed_by(model: str, machine: Machine, alphas: Floats, fraction: float = 0.9) -> Floats:
    """Warps per SM at which a model attains this fraction of the hardware's bound (not a number if it never does)."""
    found = []
    for alpha in alphas.tolist():
        own, bound = (peak_throughput(mix(alpha), machine, m) for m in (model, "volkov"))
        assert own is not None and bound is not None
        share = fraction * bound / own
        warps = needed_warps(mix(alpha), machine, model, share) if share <= 1 else None
        found.append(math.nan if warps is None else warps)
    return np.array(found)


def figure_3_4() -> Item:
    """The basic pattern: latency-bound, then throughput-bound; here for streaming loads on Maxwell."""
    machine = load_machine("gtx980")
    n = occupancies(machine)
    knee, peak = float(needed(0.0, machine)), machine.dram_bytes_per_second() / 1e9
    two, gradual = (gigabytes(0.0, machine, model, n) / peak for model in OURS.values())
    series = [
        line("two bounds", n / knee, two),
        line("gradual saturation (contention model)", n / knee, gradual),
        line("occupancy / latency bound", n / knee, n / knee),
        line("throughput bound", n / knee, 1.0),
    ]
    plot = Plot("Maxwell, loads only", "occupancy / needed occupancy", "throughput / peak", series, y_max=1.2)
    return figure("3.4", "the basic performance pattern", "3.5", [], [plot], "the paper draws it without numbers")


def figure_3_5() -> Item:
    """The issue cycles of Listing 3.5's vector add, and its longest path."""
    kepler = load_machine("gtx680")
    code = parse_listing(load_workload("volkov-listing-3.5").warps[0].listing)
    cycles = (result := schedule([code], kepler)).issue_cycles[0]
    rows = [Row(f"{i}. {c.name} issues at", cycles[i - 1], None, "cycles") for i, c in enumerate(code, 1)]
    rows += [
        Row("longest path", result.latency_cycles, "544", "cycles"),
        Row("from the exit to the next block", result.latency_cycles - cycles[-1], "201", "cycles"),
        Row("pairs issued together", float(sum(result.dual_issued[0])), "4"),
    ]
    series = [
        line("instruction", range(1, len(code) + 1), cycles, "points"),
        line("longest path", [i + 1 for i in result.path], [cycles[i] for i in result.path]),
    ]
    steps = ", ".join(f"{i + 1}. {code[i].name}" for i in result.awaited)
    plot = Plot("Kepler, vector add", "instruction", "issue cycle", series)
    note = f"longest path: the results of {steps} are waited for one after the other, then the exit"
    return figure("3.5", "program execution graph of the vector add", "3.8", rows, [plot], note)


def figure_3_6() -> Item:
    """Memory throughput of the vector add on Kepler against occupancy."""
    kepler, workload = load_machine("gtx680"), load_workload("volkov-listing-3.5")
    n = occupancies(kepler)
    shown = {name: predict(workload, kepler, model, warps_per_sm=n) for name, model in OURS.items()}
    rates = {name: floats(p.dram_bytes_per_second) / 1e9 for name, p in shown.items()}
    two, ipc = rates["two bounds"], floats(shown["two bounds"].ipc)[-1]
    rows = [
        Row("per warp", two[0] / n[0], "6.35", GBPS),
        Row("at most", two[-1], "154", GBPS),
        Row("best throughput", two[-1], "156", GBPS, measured=True),
        Row("instructions at the best throughput", ipc, "0.54", "IPC/SM", measured=True),
    ]
    plot = Plot("Kepler, vector add", WARPS, GBPS, [line(name, n, y) for name, y in rates.items()])
    return figure("3.6", "throughput of the vector add", "3.8", rows, [plot])


def figure_4_1() -> Item:
    """Maxwell with adds only and with loads only."""
    maxwell = load_machine("gtx980")
    rows = [
        Row("adds only: warps needed", float(needed(math.inf, maxwell)), "24", WARPS),
        Row("loads only: warps needed", float(needed(0.0, maxwell)), "30", WARPS),
    ]
    for fraction, paper in ((0.9, "40"), (0.95, "46")):
        ours = needed_by("volkov-contention", maxwell, np.zeros(1), fraction)[0]
        rows.append(Row(f"loads only, contention: {fraction:.0%} of peak at", ours, paper, WARPS, measured=True))
    plots = [curves("", maxwell, alpha, OURS) for alpha in (math.inf, 0.0)]
    return figure("4.1", "hiding arithmetic and memory latency on Maxwell", "4.2", rows, plots)


def crossing(machine: Machine) -> float:
    """The alpha at which the mix of adds and loads is bound by memory and by issue or cores at once."""
    memory = machine.dram_bytes_per_cycle() / 128
    return min(arithmetic_ipc(machine, "volkov") / memory, machine.issue_ipc() / memory - 1)


def cusp_rows(machine: Machine) -> list[Row]:
    """Needed occupancy at both ends and at the maximum; where the paper prints it (Maxwell), beside that."""
    name, alpha, most = generation(machine), crossing(machine), machine.sm.warps_max
    low, peak, high = ("30", "54", "24") if machine.id == "gtx980" else (None, None, None)
    largest = float(needed(alpha, machine))
    note = f"more than the {most:g} warps that fit" if largest > most else ""
    if peak is not None:
        note = "the paper adds both ends; at the cusp the load takes an issue slot too"
    return [
        Row(f"{name}, alpha = 0", float(needed(0.0, machine)), low, WARPS),
        Row(f"{name}, largest, at alpha = {alpha:.1f}", largest, peak, WARPS, note),
        Row(f"{name}, alpha infinite", float(needed(math.inf, machine)), high, WARPS),
    ]


def figure_4_5() -> Item:
    """Needed occupancy against alpha on Maxwell: the cusp."""
    maxwell = load_machine("gtx980")
    alphas = np.unique(np.append(np.geomspace(0.25, 1024, 97), crossing(maxwell)))
    ends = float(needed(0.0, maxwell) + needed(math.inf, maxwell))
    note = "the paper's is alu_thru / mem_thru; with the load's own issue slot it is one less"
    rows = [
        *cusp_rows(maxwell),
        Row("Maxwell, sum of both ends", ends, "54", WARPS),
        Row("alpha of the largest", crossing(maxwell), "49", "", note),
    ]
    series = [line("two bounds", alphas, needed(alphas, maxwell))]
    plot = Plot("Maxwell, adds and loads", ALPHA, "warps per SM needed", series, log_x=True)
    return figure("4.5", "occupancy needed against arithmetic intensity", "4.5", rows, [plot])


def figure_4_6() -> Item:
    """The cusp at 90 % of peak on all five GPUs, without and with memory contention."""
    rows, plots, notes = [], [], []
    for machine in map(load_machine, GPUS):
        name, most = generation(machine), machine.sm.warps_max
        rows += cusp_rows(machine)
        alphas = np.unique(np.append(ALPHAS, crossing(machine)))
        shown = {"two bounds": needed(alphas, machine, 0.9)}
        shown["with memory contention"] = needed_by("volkov-contention", machine, alphas)
        if machine.contention_refined is not None:
            shown["refined contention"] = needed_by("volkov-contention-refined", machine, alphas)
        for label, y in shown.items():
            beyond = alphas[y > most]
            if beyond.size:
                span = f"alpha {beyond[0]:.3g} to {beyond[-1]:.3g}"
                notes.append(f"{name}, {label}: for {span} more than the {most:g} warps that fit are needed")
        series = [
            line(label, alphas, y) for label, y in {**shown, "warps that fit": np.full(alphas.size, most)}.items()
        ]
        plots.append(Plot(f"{name}, 90 % of peak", ALPHA, "warps per SM needed", series, log_x=True))
    notes += ["rows: the two bounds at 100 % of peak; curves: at 90 %", "peak is that of the hardware, for every model"]
    return figure("4.6", "cusp behaviour on five GPUs", "4.5", rows, plots, *notes)


def _issued(alpha: int, warps: int, alu_lat: int, mem_lat: int, cycles: int) -> list[tuple[int, int, bool]]:
    """Issue warps in order, one arithmetic instruction a cycle: (warp, cycle, is it a memory access)."""
    ready, position = [0] * warps, [0] * warps
    issued = []
    for cycle in range(cycles):
        core_free = True
        for warp in range(warps):
            memory = position[warp] == 0
            if ready[warp] > cycle or not (memory or core_free):
                continue
            core_free = core_free and memory
            issued.append((warp + 1, cycle, memory))
            ready[warp] = cycle + (mem_lat if memory else alu_lat)
            position[warp] = (position[warp] + 1) % (alpha + 1)
    return issued


def figure_4_7() -> Item:
    """Six warps of four adds per load: three of each kind in execution at any time."""
    alpha, n, alu_lat, mem_lat = 4, 6, 3, 12
    machine = load_machine("huang-synthetic").with_values(  # 1 add a cycle, and loads issue beside them
        sm__issue_interval_cycles=0.5, memory__pin_bytes_per_second=1e13,
        instructions__fp32__latency_cycles=alu_lat, instructions__load__latency_cycles=mem_lat,
    )  # fmt: skip
    result = at(float(alpha), machine, "volkov", float(n))
    first, last = 48, 96  # after the warps have spread out
    issued = [i for i in _issued(alpha, n, alu_lat, mem_lat, last) if i[1] >= first - mem_lat]
    running = {
        kind: [sum(c <= t < c + lat for _, c, m in issued if m is memory) for t in range(first, last)]
        for kind, memory, lat in (("arithmetic", False, alu_lat), ("memory", True, mem_lat))
    }
    rows = []
    for kind, counts in running.items():
        rows.append(Row(f"{kind} instructions in execution, schedule: fewest", float(min(counts)), "3"))
        rows.append(Row(f"{kind} instructions in execution, schedule: most", float(max(counts)), "3"))
        rows.append(Row(f"{kind}, Little's law", float(result.terms[f"{kind} instructions in execution"].value), "3"))
    loads = float(floats(result.throughput_warps_per_cycle))
    rows += [
        Row("memory throughput", loads, "0.25", "IPC"),
        Row("arithmetic throughput", alpha * loads, "1", "IPC"),
        Row("the same with 5 warps", float(adds(alpha, machine, "volkov", 5.0)) / 32, None, "IPC", "below peak"),
        Row("warps needed without memory instructions", float(needed(math.inf, machine)), "3", WARPS),
    ]
    series = []
    for name, memory in (("arithmetic instruction issues", False), ("memory instruction issues", True)):
        shown = [i for i in issued if i[2] is memory and i[1] >= first]
        series.append(line(name, [c - first for _, c, _ in shown], [w for w, _, _ in shown], "points"))
    plot = Plot("6 warps, alpha = 4, latencies 3 and 12", "cycle", "warp", series)
    note = "the schedule is ours: warps in order, one add a cycle, loads beside; shown after a start of 48 cycles"
    return figure("4.7", "an example of a concurrent execution", "4.6", rows, [plot], note)


def _other_cusp(number: str, title: str, other: Kind, gpus: Sequence[str]) -> Item:
    """The cusp with SFU or shared-memory instructions, and what further issue slots do on Maxwell."""
    alphas = np.geomspace(1 / 16, 256, 97)
    rows, plots = [], []
    for machine in map(load_machine, gpus):
        machines = {"two bounds": machine}
        if machine.timing(other).fitted_issue_slots is not None:
            machines["with fitted issue slots"] = fitted_slots(machine, other)
        series = []
        for label, m in machines.items():
            y = needed(alphas, m, 0.9, other=other)
            top = int(np.argmax(y))
            name = generation(m) + (", fitted issue slots" if m is not machine else "")
            rows.append(Row(f"{name}: largest, at alpha = {alphas[top]:.3g}", y[top], None, WARPS))
            for end, text in ((0.0, "alpha = 0"), (math.inf, "alpha infinite")):
                rows.append(Row(f"{name}: {text}", float(needed(end, m, 0.9, other=other)), None, WARPS))
            series.append(line(label, alphas, y))
        where = f"{generation(machine)}, 90 % of peak"
        plots.append(Plot(where, f"alpha, adds per {other}", "warps per SM needed", series, log_x=True))
    maxwell = load_machine("gtx980")
    alpha = float(maxwell.issue_ipc() / maxwell.peak_ipc(other) - 1)  # where issue begins to bind
    n = occupancies(maxwell)
    rates = {}
    for label, m in {"two bounds": maxwell, "with fitted issue slots": fitted_slots(maxwell, other)}.items():
        rates[label] = floats(predict(mix(alpha, other=other), m, "volkov", warps_per_sm=n).fp32_ops_per_cycle)
    plots.append(Plot(f"Maxwell, alpha = {alpha:g}", WARPS, ADDS, [line(label, n, y) for label, y in rates.items()]))
    lower = 100 * (1 - rates["with fitted issue slots"][-1] / rates["two bounds"][-1])
    rows.append(Row(f"Maxwell, alpha = {alpha:g}: fitted slots lower the peak by", lower, None, "%"))
    note = (
        "the paper prints no numbers here; the alphas of its two Maxwell examples are lost, ours is where issue binds"
    )
    return figure(number, title, "4.7", rows, plots, note)


def figure_4_8() -> Item:
    """The cusp with SFU instructions."""
    return _other_cusp("4.8", "cusp behaviour with SFU instructions", "sfu", GPUS)


def figure_4_9() -> Item:
    """The cusp with shared-memory accesses; on G80 and GT200 they need further instructions."""
    return _other_cusp("4.9", "cusp behaviour with shared memory accesses", "shared", GPUS[2:])


def guide_cases() -> list[tuple[Machine, float]]:
    """The five GPUs, each with Table 4.3's alpha."""
    machines = [load_machine(gpu) for gpu in GPUS]
    return [(m, float(m.printed.guide_alpha)) for m in machines if m.printed.guide_alpha is not None]


def figure_4_10() -> Item:
    """The programming guide's estimate, and the one with arithmetic latency, on the throughput curve."""
    rows, plots = [], []
    for machine, alpha in guide_cases():
        name, kepler = f"{generation(machine)}, alpha = {alpha:g}", machine.id == "gtx680"
        guide = float(floats(predict(mix(alpha), machine, "cuda-guide").needed_warps_per_sm))
        better = guide + machine.latency_cycles("fp32") * arithmetic_ipc(machine, "volkov")
        note = "more than the 64 warps that fit" if kepler else ""
        rows.append(Row(f"{name}: guide", guide, f"{machine.printed.guide_needed_warps:g}", WARPS))
        rows.append(Row(f"{name}: better estimate", better, "74" if kepler else None, WARPS, note))
        real = needed_by("volkov-contention", machine, np.array([alpha]))[0] / guide
        note = "ours: contention model at 90 % of peak over the guide; paper: experiment over the guide, about"
        rows.append(Row(f"{name}: needed / guide", real, "2", "ratio", note, measured=True))
        rules = [line("guide", [guide], [0.0], "rule"), line("better estimate", [better], [0.0], "rule")]
        plots.append(curves("", machine, alpha, OURS, *rules))
    return figure("4.10", "the programming guide's estimate", "4.8", rows, plots)


def _isolated(machine: Machine, alpha: float, n: Floats, merge: Callable[[Floats, Floats], Floats]) -> Floats:
    """Adds per cycle and SM if both kinds of instructions ran alone and their times were merged like this."""
    arithmetic = np.maximum(machine.latency_cycles("fp32") / n, 1 / arithmetic_ipc(machine, "volkov"))
    memory = np.maximum(memory_latency(machine, "volkov") / n, 128 / machine.dram_bytes_per_cycle())
    return np.asarray(32 * alpha / merge(alpha * arithmetic, memory), dtype=float)


def _isolated_figure(
    number: str, title: str, section: str, merge: Callable[[Floats, Floats], Floats], rows: Callable[..., list[Row]]
) -> Item:
    """Compare merged times with the two bounds at Table 4.3's alphas."""
    result, plots = [], []
    for machine, alpha in guide_cases():
        n = occupancies(machine)
        merged = _isolated(machine, alpha, n, merge)
        plots.append(curves("", machine, alpha, {"two bounds": "volkov"}, line(title, n, merged)))
        result += rows(f"{generation(machine)}, alpha = {alpha:g}", merged / adds(alpha, machine, "volkov", n))
    return figure(number, title, section, result, plots)


def figure_4_11() -> Item:
    """Arithmetic time and memory time overlap: too fast at small occupancies."""

    def rows(name: str, ratio: Floats) -> list[Row]:
        """The overestimate at the smallest occupancy."""
        note = "ours: over the two bounds; paper: over experiment, about"
        return [Row(f"{name}: overestimate at small occupancy", ratio[0], "2", "ratio", note, measured=True)]

    return _isolated_figure("4.11", "times that overlap", "4.11", np.maximum, rows)


def figure_4_12() -> Item:
    """Arithmetic time and memory time add: too slow at large occupancies."""

    def rows(name: str, ratio: Floats) -> list[Row]:
        """The quotients at both ends of the curve."""
        ends = {"one warp": ratio[1], "full occupancy": ratio[-1]}
        return [Row(f"{name}: at {end}, over the two bounds", float(y), None, "ratio") for end, y in ends.items()]

    return _isolated_figure("4.12", "times that add", "4.12", np.add, rows)


def figure_4_13() -> Item:
    """The two bounds at the same alphas, and Maxwell with eight issue slots per load."""
    plots = [curves("", machine, alpha, OURS) for machine, alpha in guide_cases()]
    maxwell, alpha = guide_cases()[-1]
    n = occupancies(maxwell)
    plain, slower = (adds(alpha, m, "volkov", n) for m in (maxwell, fitted_slots(maxwell, "load")))
    plots[-1] = curves("", maxwell, alpha, OURS, line("8 issue slots per load", n, slower))
    over = 100 * (plain[-1] / slower[-1] - 1)
    note = "ours: over the fit with 8 slots per load, (64 + 8) / 65; paper: over experiment, about"
    rows = [Row("Maxwell, alpha = 64: saturated throughput too high by", over, "12", "%", note, measured=True)]
    return figure("4.13", "the two bounds", "4.12", rows, plots)


ITEMS = (figure_3_4, figure_3_5, figure_3_6, figure_4_1, figure_4_5, figure_4_6, figure_4_7, figure_4_8, figure_4_9,
         figure_4_10, figure_4_11, figure_4_12, figure_4_13)  # fmt: skip
