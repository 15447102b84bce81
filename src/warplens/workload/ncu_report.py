"""Reports of Nsight Compute (.ncu-rep): every kernel in one, with its machine code, its launch and its counts.

Needs ncu-report (NVIDIA's; extra `ncu`, which reads reports without a GPU). The machine code is in the report as a
cubin, with control codes and source lines. A damaged report can abort the process that reads it: that is one of its
own (`serve`), and here it is an error of the file. ncu flushes the caches before each of its passes: these are numbers
of a cold L2.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import read_bytes
from warplens.core.processes import MissingTool, excess
from warplens.program import toolchain
from warplens.program.cubin import embedded_cubins, parse_cubin
from warplens.program.load import program_in
from warplens.program.program import Program
from warplens.workload.launch import KernelCall

# a short name -> ncu's metric
LAUNCH = {
    "time_ns": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "sm_clock_hz": "smsp__cycles_elapsed.avg.per_second",
    "instructions": "smsp__inst_executed.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "blocks_per_sm": "launch__occupancy_limit_blocks",
    "issue_active_percent": "smsp__issue_active.avg.pct",
}
# ncu chooses a unit for each column; we keep bytes and nanoseconds
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
         "nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9}  # fmt: skip
# a short name -> the metric that has a value for each instruction
COLUMNS = {
    "executed": "inst_executed",
    "threads": "thread_inst_executed_true",
    "tag_requests": "memory_l1_tag_requests_global",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "global_sectors": "memory_l2_theoretical_sectors_global",
    "samples": "smsp__pcsamp_sample_count",
}
_SHAPE = {f"{what}{axis}": f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"}
_DYNAMIC, _GPU = "launch__shared_mem_per_block_dynamic", "device__attribute_display_name"
_STALLED = "smsp__pcsamp_warps_issue_stalled_"
# what a prediction needs of a report, and the option of ncu that brings it
_WANTED = {
    "time_ns": ("the measured time", "--section SpeedOfLight"),
    "l1_hit_percent": ("hits in L1", "--section MemoryWorkloadAnalysis"),
    "dram_read_bytes": ("bytes read from DRAM", "--section MemoryWorkloadAnalysis_Tables"),
    "dram_write_bytes": ("bytes written to DRAM", "--section MemoryWorkloadAnalysis_Tables"),
}
_COUNTS = "counts per instruction (ncu --section SourceCounters, or --set full)"
_SECONDS, _BYTES_PER_SECOND = 20.0, 1e6  # of the processor
_BYTES_PER_BYTE = 500  # of memory, beside what the library itself takes


class Record(Struct, frozen=True):
    """One launch as ncu counted it: a number per instruction for the whole grid, and counters of the launch."""

    kernel: str
    executed: list[int] = []
    threads: list[int] = []
    tag_requests: list[int] = []
    shared_wavefronts: list[int] = []
    global_sectors: list[int] = []
    samples: list[int] = []
    stalls: dict[str, list[int]] = {}
    counters: dict[str, float] = {}


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
    values = [*_SHAPE.values(), *LAUNCH.values(), _DYNAMIC, _GPU]
    found = _actions(Asked(str(path), values, list(COLUMNS.values()), _STALLED))
    if not found:
        raise FileError(f"{path}: no profiled kernel in it, or not a report of Nsight Compute")
    cubins = list(embedded_cubins(data))
    programs: dict[str, Program] = {}
    launches = []
    for action in found:
        if action.name is None:
            raise FileError(f"{path}: a kernel without a name: the report was damaged or cut short")
        if action.name not in programs:
            programs[action.name] = _program(action.name, cubins, path)
        launches.append(_reported(action, programs[action.name], path))
    return launches


def _program(name: str, cubins: list[bytes], path: Path) -> Program:
    for data in cubins:
        if name in parse_cubin(data, str(path)).kernels():
            return program_in(data, name, path)
    raise FileError(f"{path}: {name}: no machine code in the report (ncu --section SourceCounters brings it)")


def _reported(action: Action, program: Program, path: Path) -> Reported:
    shape = {key: int(_value(action, metric) or 0) for key, metric in _SHAPE.items()}
    if not all(shape.values()):
        raise FileError(f"{path}: {program.demangled}: no shape of the launch (ncu --section LaunchStats)")
    counters = {short: value for short, metric in LAUNCH.items() if (value := _value(action, metric)) is not None}
    # every instruction has one
    start = min((pc for pc, _ in action.instances[COLUMNS["executed"]]), default=0)
    positions = {start + x.offset: i for i, x in enumerate(program.instructions)}
    columns = {short: _column(action, metric, positions) for short, metric in COLUMNS.items()}
    stalls = {
        metric.removeprefix(_STALLED): _column(action, metric, positions)
        for metric in action.instances
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
            dynamic_shared_bytes=int(_value(action, _DYNAMIC) or 0),
            l2="cold",
        ),
        record=Record(
            kernel=program.demangled,
            **{short: values for short, values in columns.items() if any(values)},
            stalls={reason: values for reason, values in stalls.items() if any(values)},
            counters=counters,
        ),
        gpu=str(action.values.get(_GPU, ("", ""))[0]),
        missing=missing,
    )


def _value(action: Action, name: str) -> float | None:
    """Return a number of the launch, in bytes or nanoseconds where it has a unit."""
    value, unit = action.values.get(name, (None, ""))
    return float(value) * UNITS.get(unit, 1) if isinstance(value, float) else None


def _column(action: Action, name: str, positions: dict[int, int]) -> list[int]:
    """Return a value for each instruction (`positions`: by address), or nothing where the metric has none."""
    found = {positions[pc]: value for pc, value in action.instances[name] if pc in positions}
    return [found.get(i, 0) for i in range(len(positions))] if found else []


class Asked(Struct):
    """The metrics that are wanted: of a launch, and of each instruction, by name or by how the name begins."""

    path: str
    values: list[str]
    instances: list[str]
    prefix: str


class Action(Struct):
    """One profiled launch: its kernel's mangled name, metrics with their units, and those of each instruction."""

    name: str | None
    values: dict[str, tuple[float | str, str]]
    instances: dict[str, list[tuple[int, int]]]  # address and value


class _Answer(Struct):
    actions: list[Action] = []
    missing: bool = False
    error: str = ""


def _actions(asked: Asked) -> list[Action]:
    """Return the launches of a report in their order."""
    size = Path(asked.path).stat().st_size
    seconds, most = _SECONDS + size / _BYTES_PER_SECOND, toolchain.TOOL_BYTES + _BYTES_PER_BYTE * size
    code, out = toolchain.serve("workload.ncu_report", msgspec.json.encode(asked), seconds, most)
    try:
        answer = msgspec.json.decode(out, type=_Answer)
    except ValueError:
        why = excess(code, b"", seconds) or f"broke off (exit code {code})"
        raise FileError(f"{asked.path}: ncu-report {why}: the report was damaged or cut short") from None
    if answer.missing:
        raise MissingTool("a .ncu-rep is read by ncu-report; `pip install ncu-report` brings it")
    if answer.error:
        raise FileError(f"{asked.path}: not read by ncu-report: {toolchain.one_line(answer.error)}")
    return answer.actions


def serve() -> None:
    """Answer the request on standard input (runs in the child process)."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)  # text that the library prints is no answer
        stream.write(answered(sys.stdin.buffer.read()))


def answered(request: bytes) -> bytes:
    """Answer a request, in this process."""
    asked = msgspec.json.decode(request, type=Asked)
    try:
        library: Any = importlib.import_module("ncu_report")
    except ImportError:
        return msgspec.json.encode(_Answer(missing=True))
    try:
        context = library.load_report(asked.path)
        ranges = (context.range_by_idx(i) for i in range(context.num_ranges()))
        found = [part.action_by_idx(i) for part in ranges for i in range(part.num_actions())]
        return msgspec.json.encode(_Answer([_read(action, asked) for action in found]))
    except Exception as error:  # whatever a library thinks of a damaged file
        return msgspec.json.encode(_Answer(error=ascii(error)))


def _read(action: Any, asked: Asked) -> Action:
    more = [n for n in action.metric_names() if n.startswith(asked.prefix)]
    instances = {name: list(_instances(_metric(action, name))) for name in (*asked.instances, *more)}
    values: dict[str, tuple[float | str, str]] = {}
    for name in asked.values:
        metric = _metric(action, name)
        value = metric.value() if metric is not None and metric.has_value() else None
        if isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value)):
            values[name] = value, str(metric.unit())
    return Action(action.name(action.NameBase_MANGLED), values, instances)


def _metric(action: Any, name: str) -> Any:
    try:
        return action.metric_by_name(name)
    except (KeyError, ValueError):
        return None


def _instances(metric: Any) -> Iterator[tuple[int, int]]:
    if metric is None or not metric.has_correlation_ids():
        return
    at = metric.correlation_ids()
    for i in range(metric.num_instances()):
        yield int(at.as_uint64(i)), int(metric.as_uint64(i))
