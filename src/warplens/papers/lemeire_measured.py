"""Lemeire et al. 2017 beside measurements of an H200: memory (Figure 2), the matrix product, and the further work.

The measured points are the laboratory's loads and mixes (data/h200/journal) and the suite's launches
(data/h200/suite/kernels); nothing of the simulator is fitted to them but the H200's `[lemeire]` latencies, which are
its loads' alone.
"""

from __future__ import annotations

import numpy as np

from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.item import Item, Plot, Row, line
from warplens.papers.laboratory import laboratory
from warplens.papers.lemeire_code import MOST_NODES
from warplens.papers.lemeire_matrix import GPUS, PAPER
from warplens.papers.lemeire_simulator import Mode, simulate
from warplens.papers.validation.kernels import PARTS, Part, launches
from warplens.papers.validation.mixes import sweeps
from warplens.workload import Workload, mix

OCCUPANCIES = (2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
EVERY = 6  # launches
ALPHAS, MIXED = (1, 16, 32, 64, 128), (4, 16, 24, 32, 48, 64)  # of the laboratory's mixes
NAMES: dict[Mode, str] = {"lemeire": "the paper's simulator", "lemeire-refined": "with issue limit and loaded latency"}
MATRICES = {
    "mmul08": ("matmul_tiled8", 2 * 1024**3), "mmul08, conflicts": ("matmul_tiled8.conflicts", 2 * 1024**3),
    "mmul16": ("matmul_tiled16", 2 * 1024**3), "mmul16, conflicts": ("matmul_tiled16.conflicts", 2 * 1024**3),
}  # fmt: skip


def figure_2() -> Item:
    """Figure 2: the memory benchmark, simulated and real; real are an H200's loads."""
    plots, h200, lab = [], load_machine("h200"), laboratory("h200")
    for name, gpu in GPUS.items():
        machine = load_machine(gpu)
        warps = [n for n in OCCUPANCIES if n <= machine.sm.warps_max]
        rates = [_gigabytes(machine, "lemeire", n) for n in warps]
        plots.append(Plot(f"{name}, simulated", "warps per compute unit", "GB/s", [line("simulated", warps, rates)]))
    real = {n: lab.gigabytes(r.median) for n, r in lab.streamed("mix.load.a0").items() if n in OCCUPANCIES}
    series, rows = [line("measured", list(real), list(real.values()), "points")], list[Row]()
    for mode, said in NAMES.items():
        rates = [_gigabytes(h200, mode, n) for n in real]
        series.append(line(said, list(real), rates))
        off = 100 * (np.array(list(real.values())) / rates - 1)
        rows.append(Row(f"H200, {said}: mean error of the time", float(off.mean()), None, "%"))
        rows.append(Row(f"H200, {said}: deviation", float(off.std()), None, "%"))
        rows.append(Row(f"H200, {said}: largest error", float(off[abs(off).argmax()]), None, "%"))
    plots.append(Plot("H200, measured and simulated", "warps per compute unit", "GB/s", series))
    notes = [
        "The error is of the simulated time: below zero it is too short, as on the paper's GPUs, whose picture has no "
        "numbers: the maximum is reached at a higher occupancy than a perfect pipeline needs.",
        "With a latency that grows with traffic ([contention] of the machine file) the gradual saturation is there.",
    ]
    title = "Figure 2: real and simulated performance of the memory benchmark"
    return Item("lemeire-figure-2", title, f"{PAPER} §IV.B; H200 by the laboratory", rows, plots, notes)


def _gigabytes(machine: Machine, mode: Mode, warps: int) -> float:
    return simulate(mix(0.0), machine, mode=mode, warps_per_sm=warps).dram_bytes_per_second / 1e9


def matrix_on_the_h200() -> Item:
    """Matrix multiplication on an H200: the paper's simulator on compiled code, and the measured times."""
    rows, h200 = list[Row](), load_machine("h200")
    known = {launch.name: launch for launch in launches()}
    said = {
        "measured": list[float](),
        "the paper's simulator": list[float](),
        "Equation (1), closed form": list[float](),
    }
    for name, (launch, operations) in MATRICES.items():
        work, seconds = known[launch].workload, known[launch].seconds
        closed = predict(work, h200, "lemeire").seconds
        assert closed is not None
        times = (seconds, simulate(work, h200, mode="lemeire").seconds, float(closed))
        for (what, found), time in zip(said.items(), times, strict=True):
            found.append(operations / time / 1e9)
            rows.append(Row(f"{name}: {what}", 1e6 * time, None, "us"))
        rows.append(Row(f"{name}: simulated over measured", times[1] / seconds, None))
    slower, ours = ([f"{found[k] / found[k + 1]:.2f}" for k in (0, 2)] for found in list(said.values())[:2])
    plot = Plot(
        "H200, 1024 x 1024", f"{', '.join(MATRICES)}", "Gflop/s",
        [line(what, range(1, 5), found, "points") for what, found in said.items()],
    )  # fmt: skip
    notes = [
        "Graphs are those of the compiled kernels: every warp's path with registers, branches and barriers as edges.",
        f"Conflicts cost {' and '.join(slower)} times the time when measured, {' and '.join(ours)} simulated: as the "
        "paper says, the simulation is more accurate where local memory is the bottleneck.",
    ]
    title = "Figure 3 on an H200: matrix multiplication from machine code"
    return Item("lemeire-matrix-on-the-h200", title, f"{PAPER} §IV.C; H200 measured", rows, [plot], notes)


def compiled_kernels() -> Item:
    """Measured kernels: the paper's simulator on their compiled graphs, and Equation (1) on their counts."""
    h200, refused = load_machine("h200"), 0
    times: dict[Part, list[tuple[float, float, float]]] = {part: [] for part in PARTS}
    for launch in launches()[::EVERY]:
        try:
            simulated = simulate(launch.workload, h200, mode="lemeire").seconds
            closed = predict(launch.workload, h200, "lemeire").seconds
        except WarplensError:  # more instructions than are unrolled, or a class of no known latency
            refused += 1
            continue
        assert closed is not None
        times[launch.part].append((launch.seconds, simulated, float(closed)))
    rows = []
    for part, found in times.items():
        real, *predicted = np.array(found).T
        for said, ours in zip(("the paper's simulator", "Equation (1), closed form"), predicted, strict=True):
            off = 100 * np.abs(ours / real - 1)
            rows.append(Row(f"{part} set, {len(real)} launches, {said}: mean error", float(off.mean()), None, "%"))
            rows.append(
                Row(f"{part} set, {len(real)} launches, {said}: median error", float(np.median(off)), None, "%")
            )
    real, simulated_, closed_ = 1e6 * np.array(times["train"]).T
    plot = Plot("H200, train set", "measured, us", "predicted, us", [
        line("the paper's simulator", real, simulated_, "points"),
        line("Equation (1), closed form", real, closed_, "points"), line("as measured", sorted(real), sorted(real)),
    ], log_x=True, log_y=True)  # fmt: skip
    notes = [
        f"Every {EVERY}th of the measured launches; {refused} are refused: their loops unroll into more than "
        f"{MOST_NODES:,} nodes, or they have a class whose latency is not known.",
    ]
    title = "Section V: graphs by a compiler, for measured kernels"
    return Item("lemeire-compiled-kernels", title, f"{PAPER} §V; H200 measured", rows, [plot], notes)


def further_work() -> Item:
    """The four improvements that the paper foresees: compiled graphs, loaded latency, issue limit, Volkov's mix."""
    h200, lab, rows, plots = load_machine("h200"), laboratory("h200"), list[Row](), list[Plot]()
    bodies = {sweep.alpha: sweep.workload for sweep in sweeps(h200) if sweep.mix == "load"}
    off: dict[str, list[float]] = {said: [] for said in ("Equation (1), closed form", *NAMES.values())}
    for alpha in ALPHAS:
        rates = lab.streamed(f"mix.load.a{alpha}")
        real = {n: 1 / rates[n].median for n in MIXED if n in rates}
        series = [line("measured", list(real), [32 * alpha / c for c in real.values()], "points")]
        for said, cycles in _of_the_mix(bodies[alpha], h200, list(real)).items():
            off[said] += [100 * (ours / theirs - 1) for ours, theirs in zip(cycles, real.values(), strict=True)]
            series.append(line(said, list(real), [32 * alpha / c for c in cycles]))
        plots.append(Plot(f"H200, alpha = {alpha}", "warps per SM", "adds/cycle/SM", series))
    for said, errors in off.items():
        rows.append(Row(f"{said}: mean error of {len(errors)} points", float(np.abs(errors).mean()), None, "%"))
        rows.append(Row(f"{said}: largest error", float(np.max(np.abs(errors))), None, "%"))
    notes = [
        "1. Graphs by a compiler: `warplens simulate --launch K.toml --mode lemeire` takes machine code. 2. Latency by "
        "occupancy and 3. the issue limit: `--mode lemeire-refined`. 4. Volkov's mix: here.",
        "The simulator of warplens itself (`--mode warplens`) has all of these, and more; `warplens validate "
        "--simulate` compares it with the same mixes.",
    ]
    title = "Section V: the further work, on Volkov's mix"
    return Item("lemeire-further-work", title, f"{PAPER} §V; H200 by the laboratory", rows, plots, notes)


def _of_the_mix(work: Workload, machine: Machine, warps: list[int]) -> dict[str, list[float]]:
    """Return cycles per body and SM at these occupancies, by the closed form and by both simulators."""
    closed = predict(work, machine, "lemeire", warps_per_sm=np.array(warps, float)).cycles
    found = {"Equation (1), closed form": np.broadcast_to(np.asarray(closed, float), len(warps)).tolist()}
    for mode, said in NAMES.items():
        found[said] = [simulate(work, machine, mode=mode, warps_per_sm=n).cycles for n in warps]
    return found
