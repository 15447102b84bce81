"""Reports of Nsight Compute (.ncu-rep): every kernel in one, with its machine code, its launch and what was counted.

Needs ncu-report (NVIDIA's; extra `ncu`, which reads reports without a GPU) for the counts. The machine
code is in the report as a cubin: control codes and source lines with it.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import read_bytes
from warplens.program.cubin import embedded_cubins, parse_cubin
from warplens.program.load import program_in
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.ncu_metrics import LAUNCH, UNITS, Record
from warplens.workload.ncu_report_process import Action, Asked, actions

# a short name (as in ncu.py) -> the metric that has a value for each instruction
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
    values = [*_SHAPE.values(), *LAUNCH.values(), _DYNAMIC, _GPU]
    found = actions(Asked(str(path), values, list(COLUMNS.values()), _STALLED))
    if not found:
        raise FileError(f"{path}: no profiled kernel in it, or not a report of Nsight Compute")
    cubins = list(embedded_cubins(data))
    programs: dict[str, Program] = {}
    made = []
    for action in found:
        if action.name is None:
            raise FileError(f"{path}: a kernel without a name: the report was damaged or cut short")
        if action.name not in programs:
            programs[action.name] = _program(action.name, cubins, path)
        made.append(_reported(action, programs[action.name], path))
    return made


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
    places = {start + x.offset: i for i, x in enumerate(program.instructions)}
    columns = {short: _column(action, metric, places) for short, metric in COLUMNS.items()}
    stalls = {
        metric.removeprefix(_STALLED): _column(action, metric, places)
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


def _column(action: Action, name: str, places: dict[int, int]) -> list[int]:
    """Return a value for each instruction (`places`: by address), or nothing where the metric has none."""
    found = {places[pc]: value for pc, value in action.instances[name] if pc in places}
    return [found.get(i, 0) for i in range(len(places))] if found else []
