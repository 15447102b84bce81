"""Reports of Nsight Compute (.ncu-rep): every kernel in one, with its machine code, its launch and its counts.

Needs ncu-report (NVIDIA's; extra `ncu`, which reads reports without a GPU). The machine code is in the report as a
cubin, with control codes and source lines. A damaged report can abort the process that reads it: that is one of its
own (`serve`), and here it is an error of the file. ncu flushes the caches before each of its passes: these are numbers
of a cold L2.

Nothing is emulated. A profiler says how often each instruction ran, not in which order: the path of a warp follows from
the flow graph. Every loop runs as many iterations as its header ran per entry, and in it the blocks that ran in at
least half of them. Hits in the caches are known for the whole launch only: every load has the same share.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import read_bytes, read_toml
from warplens.core.processes import MissingTool, excess
from warplens.machine import KINDS
from warplens.program import toolchain
from warplens.program.control_flow import Flow, Loop
from warplens.program.cubin import embedded_cubins, parse_cubin
from warplens.program.instruction import Instruction, access_bytes
from warplens.program.load import program_in
from warplens.program.program import Program
from warplens.workload import profile
from warplens.workload.launch import KernelCall
from warplens.workload.profile import COLUMNS as PROFILE_COLUMNS
from warplens.workload.profile import Profile, Segment, Traffic

_METRICS: dict[str, Any] = read_toml(Path(__file__).parent / "files" / "ncu_metrics.toml")
LAUNCH: dict[str, str] = _METRICS["launch"]  # ncu's metric by our short name
COLUMNS: dict[str, str] = _METRICS["columns"]  # those that have a value for each instruction
UNITS: dict[str, float] = _METRICS["units"]  # in bytes and nanoseconds
_SHAPE = {f"{what}{axis}": f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"}
_DYNAMIC, _GPU = "launch__shared_mem_per_block_dynamic", "device__attribute_display_name"
_STALLED = "smsp__pcsamp_warps_issue_stalled_"
_COUNTS = "counts per instruction (ncu --section SourceCounters, or --set full)"
_SECONDS, _BYTES_PER_SECOND = 20.0, 1e6  # of the processor
_BYTES_PER_BYTE = 500  # of memory, beside what the library itself takes
SECTOR_BYTES = 32
_MOST_SEGMENTS = 4000  # of a path: outer iterations beyond that are left out, and who uses the path scales it
# What ncu leaves in L2 to be written is driven out by whatever the kernel brings there: bytes that a kernel that only
# reads has read, and bytes written meanwhile (footprints.json.gz, cold, read; the same from the first to the last).
_BROUGHT, _DRIVEN_OUT = (28 << 20, 36 << 20, 48 << 20), (0.0, 1.0e6, 2.4e6)

Runs = list[tuple[int, int]]


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
    found = _actions(path)
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
    missing += [
        f"{what} (ncu {option})" for short, (what, option) in _METRICS["wanted"].items() if short not in counters
    ]
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


class Action(Struct):
    """One profiled launch: its kernel's mangled name, metrics with their units, and those of each instruction."""

    name: str | None
    values: dict[str, tuple[float | str, str]]
    instances: dict[str, list[tuple[int, int]]]  # address and value


class _Answer(Struct):
    actions: list[Action] = []
    missing: bool = False
    error: str = ""


def _actions(path: Path) -> list[Action]:
    """Return the launches of a report in their order."""
    size = path.stat().st_size
    seconds, most = _SECONDS + size / _BYTES_PER_SECOND, toolchain.TOOL_BYTES + _BYTES_PER_BYTE * size
    code, out = toolchain.serve("workload.ncu_report", str(path).encode(errors="surrogateescape"), seconds, most)
    try:
        answer = msgspec.json.decode(out, type=_Answer)
    except ValueError:
        why = excess(code, b"", seconds) or f"broke off (exit code {code})"
        raise FileError(f"{path}: ncu-report {why}: the report was damaged or cut short") from None
    if answer.missing:
        raise MissingTool("a .ncu-rep is read by ncu-report; `pip install ncu-report` brings it")
    if answer.error:
        raise FileError(f"{path}: not read by ncu-report: {toolchain.one_line(answer.error)}")
    return answer.actions


def serve() -> None:
    """Answer the request on standard input (runs in the child process)."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)  # text that the library prints is no answer
        stream.write(answered(sys.stdin.buffer.read()))


def answered(request: bytes) -> bytes:
    """Return the launches of the report that a request names, read in this process."""
    try:
        library: Any = importlib.import_module("ncu_report")
    except ImportError:
        return msgspec.json.encode(_Answer(missing=True))
    try:
        context = library.load_report(request.decode(errors="surrogateescape"))
        ranges = (context.range_by_idx(i) for i in range(context.num_ranges()))
        found = [part.action_by_idx(i) for part in ranges for i in range(part.num_actions())]
        return msgspec.json.encode(_Answer([_read(action) for action in found]))
    except Exception as error:  # whatever a library thinks of a damaged file
        return msgspec.json.encode(_Answer(error=ascii(error)))


def _read(action: Any) -> Action:
    more = [n for n in action.metric_names() if n.startswith(_STALLED)]
    instances = {name: list(_instances(_metric(action, name))) for name in (*COLUMNS.values(), *more)}
    values: dict[str, tuple[float | str, str]] = {}
    for name in (*_SHAPE.values(), *LAUNCH.values(), _DYNAMIC, _GPU):
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


def profile_of(
    program: Program,
    flow: Flow,
    shape: tuple[int, int],
    columns: Mapping[str, Sequence[float]],
    counters: Mapping[str, float],
) -> Profile:
    """Return the profile of a launch of `shape` (blocks, warps of a block) from what a profiler counted.

    `columns` (per instruction) and `counters` (of the launch) are those of `warplens.workload.ncu_report`.
    """
    blocks, warps = shape
    code = program.instructions
    counts = _counts(code, columns, counters)
    path = profile.Path(typical_path(flow, [n / (blocks * warps) for n in counts["executed"]]), warps)
    stores = SECTOR_BYTES * sum(n for n, x in zip(counts["l2_sectors"], code, strict=True) if x.kind == "store")
    loads = SECTOR_BYTES * sum(n for n, x in zip(counts["l2_sectors"], code, strict=True) if x.kind == "load")
    traffic = Traffic(
        name="all",
        l2_read_bytes=loads,
        l2_written_bytes=stores,
        dram_read_bytes=counters.get("dram_read_bytes", loads),
        dram_written_bytes=stores if (written := own_writes(counters)) is None else written,
    )
    return Profile(
        grid_blocks=blocks, warps_per_block=warps, emulated_blocks=0, exact=True, counts=counts,
        paths=[path], blocks=[[0] * warps], traffic=[traffic], l2="cold",
        notes=["counted by a profiler, with a cold L2; the path of a warp put together from the counts"],
    )  # fmt: skip


def _counts(
    code: Sequence[Instruction], columns: Mapping[str, Sequence[float]], counters: Mapping[str, float]
) -> dict[str, list[float]]:
    """Return the columns of a profile; what was not measured follows from the widths of the accesses."""
    nothing = [0.0] * len(code)
    measured = {name: [float(n) for n in columns.get(name) or nothing] for name in columns}
    counts = {name: [0.0] * len(code) for name in PROFILE_COLUMNS}
    counts["executed"] = measured["executed"]
    counts["threads"] = measured.get("threads") or [32 * n for n in measured["executed"]]
    hits = counters.get("l1_hit_percent", 0.0) / 100
    for i, x in enumerate(code):
        if KINDS[x.kind] not in ("memory system", "shared memory") or not counts["threads"][i]:
            continue
        counts["requests"][i] = counts["executed"][i]
        counts["useful_bytes"][i] = counts["threads"][i] * access_bytes(x)
        if KINDS[x.kind] == "shared memory":
            least = max(counts["executed"][i], counts["useful_bytes"][i] / 128)
            counts["wavefronts"][i] = measured.get("shared_wavefronts", nothing)[i] or least
            counts["requests"][i] = min(counts["executed"][i], counts["wavefronts"][i])  # others: predicated off
            continue
        sectors = measured.get("global_sectors", nothing)[i] or counts["useful_bytes"][i] / SECTOR_BYTES
        counts["sectors"][i] = sectors
        counts["lines"][i] = counts["wavefronts"][i] = measured.get("tag_requests", nothing)[i] or sectors / 4
        counts["requests"][i] = min(counts["executed"][i], counts["lines"][i])
        counts["l1_hit_sectors"][i] = hits * sectors if x.kind == "load" else 0.0
        counts["l2_sectors"][i] = sectors - counts["l1_hit_sectors"][i]
    read, loads = counters.get("dram_read_bytes"), [i for i, x in enumerate(code) if x.kind == "load"]
    asked = SECTOR_BYTES * sum(counts["l2_sectors"][i] for i in loads)
    found = max(0.0, 1 - read / asked) if asked and read is not None else 0.0
    for i in loads:
        counts["l2_hit_sectors"][i] = found * counts["l2_sectors"][i]
    return counts


def typical_path(flow: Flow, per_warp: Sequence[float]) -> list[Segment]:
    """Return the path of the mean warp, given how often each instruction ran per warp."""
    often = [per_warp[block.first] for block in flow.blocks]
    return [Segment(runs, times) for runs, times in _region(flow, often, None, 1.0)]


def _region(flow: Flow, often: Sequence[float], outer: int | None, per: float) -> list[tuple[Runs, int]]:
    """Return the runs of a loop's body (or of the program) in the order of the code, inner loops spelled out."""
    inner = {i: loop for i, loop in enumerate(flow.loops) if loop.parent == outer}
    within = range(len(flow.blocks)) if outer is None else sorted(flow.loops[outer].blocks)
    parts: list[tuple[Runs, int]] = []
    done: set[int] = set()
    for b in within:
        if b in done:
            continue
        found = next(((i, loop) for i, loop in inner.items() if b in loop.blocks), None)
        if found is not None:
            index, loop = found
            done |= set(loop.blocks)
            parts += _repeated(flow, often, index, loop, per)
        elif often[b] >= 0.5 * per and often[b] > 0:
            parts.append(([(flow.blocks[b].first, flow.blocks[b].last + 1)], 1))
    merged: list[tuple[Runs, int]] = []  # what runs once joined with what follows and runs once
    for runs, times in parts:
        if merged and times == 1 and merged[-1][1] == 1:
            merged[-1] = (_joined([*merged[-1][0], *runs]), 1)
        else:
            merged.append((list(runs), times))
    return merged


def _repeated(flow: Flow, often: Sequence[float], index: int, loop: Loop, per: float) -> list[tuple[Runs, int]]:
    trips = round(often[loop.header] / per) if per else 0
    if trips < 1:
        return []
    body = _region(flow, often, index, often[loop.header])
    if len(body) == 1 and body[0][1] == 1:
        return [(body[0][0], trips)]
    return body * min(trips, max(1, _MOST_SEGMENTS // max(1, len(body))))


def _joined(runs: Runs) -> Runs:
    joined: Runs = []
    for first, stop in runs:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return joined


def own_writes(counters: Mapping[str, float]) -> float | None:
    """Return the bytes that the kernel itself has written to DRAM, without those that the profiler left in L2."""
    written = counters.get("dram_write_bytes")
    if written is None:
        return None
    brought = written + counters.get("dram_read_bytes", 0.0)
    return max(0.0, written - float(np.interp(brought, _BROUGHT, _DRIVEN_OUT)))
