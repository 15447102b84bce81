"""Reports of Nsight Compute (.ncu-rep): every kernel in one, with its machine code, its launch and what was counted.

Needs ncu-report (NVIDIA's; extra `ncu`, which reads reports without a GPU) for the counts. The machine
code is in the report as a cubin: control codes and source lines with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from warplens.errors import FileError
from warplens.frontend.cubin import embedded_cubins, parse_cubin, read_bytes
from warplens.frontend.load import program_in
from warplens.frontend.ncu import LAUNCH, UNITS, Record
from warplens.frontend.toolchain import MissingTool
from warplens.kernel.launch import KernelCall
from warplens.kernel.program import Program

# a short name (as in ncu.py) -> the metric that has a value for each instruction
COLUMNS = {
    "executed": "inst_executed",
    "threads": "thread_inst_executed_true",
    "tag_requests": "memory_l1_tag_requests_global",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "global_sectors": "memory_l2_theoretical_sectors_global",
    "samples": "smsp__pcsamp_sample_count",
}
_STALLED = "smsp__pcsamp_warps_issue_stalled_"
# what a prediction wants of a report, and the option of ncu that brings it
_WANTED = {
    "time_ns": ("the measured time", "--section SpeedOfLight"),
    "l1_hit_percent": ("hits in L1", "--section MemoryWorkloadAnalysis"),
    "dram_read_bytes": ("bytes read from DRAM", "--section MemoryWorkloadAnalysis_Tables"),
    "dram_write_bytes": ("bytes written to DRAM", "--section MemoryWorkloadAnalysis_Tables"),
}
_COUNTS = "counts per instruction (ncu --section SourceCounters, or --set full)"


class Reported(Struct, frozen=True):
    """One profiled launch: machine code, call, counts; `missing` names what the report lacks and what brings it."""

    program: Program
    call: KernelCall
    record: Record
    gpu: str
    missing: list[str] = []


def load_report(path: str | Path) -> list[Reported]:
    """Read every kernel of a report, in the order of its launches."""
    path = Path(path)
    data = read_bytes(path)
    context = _library().load_report(str(path))
    actions = [
        context.range_by_idx(r).action_by_idx(a)
        for r in range(context.num_ranges())
        for a in range(context.range_by_idx(r).num_actions())
    ]
    if not actions:
        raise FileError(f"{path}: no profiled kernel in it, or not a report of Nsight Compute")
    cubins = list(embedded_cubins(data))
    programs: dict[str, Program] = {}
    found = []
    for action in actions:
        name = action.name(action.NameBase_MANGLED)
        if name is None:
            raise FileError(f"{path}: a kernel without a name: the report was damaged or cut short")
        if name not in programs:
            programs[name] = _program(name, cubins, path)
        found.append(_reported(action, programs[name], path))
    return found


def _library() -> Any:
    try:
        return importlib.import_module("ncu_report")
    except ImportError:
        raise MissingTool("a .ncu-rep is read by ncu-report; `pip install ncu-report` brings it") from None


def _program(name: str, cubins: list[bytes], path: Path) -> Program:
    for data in cubins:
        if name in parse_cubin(data, str(path)).kernels():
            return program_in(data, name, path)
    raise FileError(f"{path}: {name}: no machine code in the report (ncu --section SourceCounters brings it)")


def _reported(action: Any, program: Program, path: Path) -> Reported:
    shape = {f"{what}{axis}": int(_value(action, f"launch__{what}_dim_{axis}") or 0)
             for what in ("grid", "block") for axis in "xyz"}  # fmt: skip
    if not all(shape.values()):
        raise FileError(f"{path}: {program.demangled}: no shape of the launch (ncu --section LaunchStats)")
    counters = {short: value for short, metric in LAUNCH.items() if (value := _value(action, metric)) is not None}
    start = min(
        (pc for pc, _ in _instances(_metric(action, COLUMNS["executed"]))), default=0
    )  # every instruction has one
    places = {start + x.offset: i for i, x in enumerate(program.instructions)}
    columns = {short: _column(action, metric, places) for short, metric in COLUMNS.items()}
    stalls = {
        metric.removeprefix(_STALLED): _column(action, metric, places)
        for metric in action.metric_names()
        if metric.startswith(_STALLED) and not metric.endswith("_not_issued")
    }
    missing = [] if columns["executed"] else [_COUNTS]
    missing += [f"{what} (ncu {option})" for short, (what, option) in _WANTED.items() if short not in counters]
    return Reported(
        program=program,
        call=KernelCall(
            kernel=program.name,
            grid=[shape[f"grid{axis}"] for axis in "xyz"],
            block=[shape[f"block{axis}"] for axis in "xyz"],
            dynamic_shared_bytes=int(_value(action, "launch__shared_mem_per_block_dynamic") or 0),
            l2="cold",
        ),
        record=Record(
            kernel=program.demangled,
            **{short: values for short, values in columns.items() if any(values)},
            stalls={reason: values for reason, values in stalls.items() if any(values)},
            counters=counters,
        ),
        gpu=_text(action, "device__attribute_display_name"),
        missing=missing,
    )


def _metric(action: Any, name: str) -> Any:
    try:
        return action.metric_by_name(name)
    except (KeyError, ValueError):
        return None


def _value(action: Any, name: str) -> float | None:
    """Return a number of the launch, in bytes or nanoseconds where it has a unit."""
    metric = _metric(action, name)
    if metric is None or not metric.has_value():
        return None
    value = metric.value()
    return float(value) * UNITS.get(metric.unit(), 1) if isinstance(value, int | float) else None


def _text(action: Any, name: str) -> str:
    metric = _metric(action, name)
    return str(metric.value()) if metric is not None and metric.has_value() else ""


def _column(action: Any, name: str, places: dict[int, int]) -> list[int]:
    """Return a value for each instruction (`places`: by address), or nothing where the metric has none."""
    found = {places[pc]: value for pc, value in _instances(_metric(action, name)) if pc in places}
    return [found.get(i, 0) for i in range(len(places))] if found else []


def _instances(metric: Any) -> Iterator[tuple[int, int]]:
    if metric is None or not metric.has_correlation_ids():
        return
    at = metric.correlation_ids()
    for i in range(metric.num_instances()):
        yield int(at.as_uint64(i)), int(metric.as_uint64(i))
