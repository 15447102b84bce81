"""Lemeire et al. 2017: Equation (1), Figures 1 to 3, and the rates and warps that Tables I to III imply."""

from __future__ import annotations

import numpy as np

from warplens.machine import load_machine
from warplens.models import predict
from warplens.models.published import lemeire as model
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.lemeire_matrix import GPUS, PAPER, figure_3
from warplens.papers.lemeire_measured import compiled_kernels, figure_2, further_work, matrix_on_the_h200
from warplens.workload import load_workload

INSTRUCTIONS = 1000  # N of Equation (1); the paper says only that it is great


def equation_1() -> Item:
    """Equation (1): time of N dependent instructions per warp, and the knee at Lambda/lambda warps."""
    rows: list[Row] = []
    plots: list[Plot] = []
    for name, gpu in GPUS.items():
        machine = load_machine(gpu)
        n = np.arange(1.0, machine.sm.warps_max + 1)
        times: list[Series] = []
        hulls: list[Series] = []
        for operation in ("fadd", "cos", "loop", "memory"):
            lat = machine.lemeire[operation]
            knee = lat.completion_cycles / lat.issue_cycles
            t = model.equation_1(lat.issue_cycles, lat.completion_cycles, INSTRUCTIONS, n)
            at = model.equation_1(lat.issue_cycles, lat.completion_cycles, INSTRUCTIONS, knee)
            rows.append(Row(f"{name} {operation}: knee, Lambda / lambda", knee, None, "warps"))
            rise = float(at) / INSTRUCTIONS / lat.completion_cycles
            note = "just above 1: up to here more warps cost almost nothing"
            rows.append(Row(f"{name} {operation}: t / (N Lambda) at the knee", rise, None, "", note))
            times.append(line(operation, n, t))
            hulls.append(line(operation, n, np.asarray(t) / (INSTRUCTIONS * n)))
        plots.append(
            Plot(f"{name}: time of {INSTRUCTIONS} instructions per warp", "warps", "cycles", times, log_y=True)
        )
        title = f"{name}: cycles per warp instruction, from Lambda down to lambda"
        plots.append(Plot(title, "warps", "cycles", hulls, log_y=True))
    notes = [
        "The first form of the equation holds up to the knee (time by completion), the second beyond (time by issue)."
    ]
    return Item(
        "lemeire-equation-1", "Equation (1): the boat hull of a pipeline", f"{PAPER} §III.A", rows, plots, notes
    )


def figure_1() -> Item:
    """Figure 1: the least cycles of its kernel for one warp."""
    rows: list[Row] = []
    steps: list[Series] = []
    for name, gpu in GPUS.items():
        machine = load_machine(gpu)
        memory, index, fmadd = (machine.lemeire[o] for o in ("memory", "fadd", "fmadd"))
        parts = (index.completion_cycles, memory.issue_cycles, memory.completion_cycles, fmadd.completion_cycles,
                 memory.issue_cycles)  # fmt: skip
        rows.append(Row(f"{name}: cycles of one warp", sum(parts), None, "cycles", " + ".join(f"{p:g}" for p in parts)))
        closed = float(
            predict(load_workload("lemeire-figure-1"), machine, "lemeire", warps_per_sm=1.0).terms["sum of N L"].value
        )
        note = "sum of completion latencies of the counted workload; it sees no overlap of the two loads unless mlp = 2"
        rows.append(Row(f"{name}: closed form of the model lemeire", closed, None, "cycles", note))
        steps.append(line(name, range(6), np.concatenate([[0.0], np.cumsum(parts)])))
    plot = Plot(
        "Along the longest path", "step (index, issue of a load, load, fmadd, issue of the store)", "cycles", steps
    )
    notes = [
        "The paper prints the formula only. The index computation is in no table: fadd's completion latency (assumed).",
        "The two loads issue back to back, and the store counts with its issue only.",
    ]
    return Item("lemeire-figure-1", "Figure 1: one warp of a simple kernel", f"{PAPER} §III.C", rows, [plot], notes)


# Tables I to III and the text of section IV.C, as printed: lambda and Lambda on Fermi and on Pascal.
_PRINTED = {
    "fadd": ("1", "18", "0.25", "6"), "cos": ("8", "40", "1", "14"), "loop": ("4", "58", "1.75", "29"),
    "memory": ("23", "521", "12", "378"), "local_memory": ("2", "47", "1", "30"),
    "matrix_a_8x8": ("20", "162", "7", "210"), "matrix_b_8x8": ("45", "479", "8", "409"),
    "matrix_a_16x16": ("13", "244", "6", "247"), "matrix_b_16x16": ("17", "561", "10", "444"),
    "barrier": ("3", "40", "2", "70"), "fmadd": ("1", "18", "0.25", "6"),
    "local_memory_conflict": ("16", "250", "7", "100"),
}  # fmt: skip
_CHIPS = {"Fermi": ("14", "448", "1150"), "Pascal": ("10", "1280", "1506")}
# Table II: mean error and deviation in percent, on Fermi and on Pascal; and the operation of the H200's table.
_ERRORS = {
    "fadd": ("2.79", "0.56", "0.55", "4.14", "fadd"), "cos": ("0.45", "0.52", "0.19", "3.80", "sfu"),
    "memory": ("3.74", "4.18", "11.59", "7.19", "memory"),
}  # fmt: skip


def tables_1_to_3() -> Item:
    """Tables I to III: the GPUs, lambda, Lambda and their errors, and the warps and rates that follow."""
    rows: list[Row] = []
    points: list[Series] = []
    for k, (name, gpu) in enumerate(GPUS.items()):
        machine = load_machine(gpu)
        knees = []
        cores = machine.chip.sm_count * (machine.sm.cuda_cores or 0)
        chip = (machine.chip.sm_count, cores, machine.chip.clock_hz / 1e6)
        what = (("compute units", ""), ("compute elements", ""), ("base clock", "MHz"))
        rows += [
            Row(f"{name}: {label}", ours, printed, unit, given=True)
            for (label, unit), ours, printed in zip(what, chip, _CHIPS[name], strict=True)
        ]
        for operation, lat in machine.lemeire.items():
            knees.append(lat.completion_cycles / lat.issue_cycles)
            label, printed = f"{name} {operation}", _PRINTED[operation][2 * k : 2 * k + 2]
            rows.append(Row(f"{label}: lambda", lat.issue_cycles, printed[0], "cycles", given=True))
            rows.append(Row(f"{label}: Lambda", lat.completion_cycles, printed[1], "cycles", given=True))
            rows.append(Row(f"{label}: warps for peak", knees[-1], None, "warps"))
        device = machine.chip.sm_count * machine.chip.clock_hz / 1e9
        add, memory = machine.lemeire["fadd"], machine.lemeire["memory"]
        rows.append(Row(f"{name}: peak additions, 32 / lambda", 32 / add.issue_cycles * device, None, "Gop/s"))
        rows.append(Row(f"{name}: peak bandwidth, 128 B / lambda", 128 / memory.issue_cycles * device, None, "GB/s"))
        points.append(line(name, range(1, len(knees) + 1), knees, "points"))
    rows += _errors()
    order = ", ".join(load_machine("c2050").lemeire)
    plot = Plot("Warps for peak throughput", "operation, in the order of the notes", "Lambda / lambda", points)
    notes = [
        f"Operations in the plot: {order}.",
        "The conflicting local-memory access is in the text of §IV.C. The errors are the paper's, beside those of the "
        "same benchmarks on an H200 (its [lemeire] section); the H200's journal has no error of the loop.",
    ]
    title = "Tables I to III: GPUs, latencies and warps for peak"
    return Item("lemeire-tables-1-to-3", title, f"{PAPER} §IV", rows, [plot], notes)


def _errors() -> list[Row]:
    """Return Table II's errors of the boat hull, beside the H200's of the same benchmark."""
    rows, measured = [], load_machine("h200").lemeire
    for operation, (*printed, own) in _ERRORS.items():
        error, deviation = measured[own].mean_error_percent, measured[own].error_deviation_percent
        assert error is not None and deviation is not None
        for k, name in enumerate(GPUS):
            for what, ours, paper in (
                ("mean error", error, printed[2 * k]),
                ("deviation", deviation, printed[2 * k + 1]),
            ):
                rows.append(Row(f"{name} {operation}: {what} (ours: H200)", ours, paper, "%", measured=True))
    return rows


ITEMS = (equation_1, figure_1, figure_2, tables_1_to_3, figure_3, matrix_on_the_h200, further_work, compiled_kernels)
