"""What NVIDIA's ncu-report finds in a report of Nsight Compute, read in a process of its own.

A damaged report can abort the process that reads it: then that one ends, and here it is an error of the file.
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
from warplens.program import toolchain

_SECONDS, _BYTES_PER_SECOND = 20.0, 1e6  # of the processor
_BYTES_PER_BYTE = 500  # of memory, beside what the library itself takes


class Asked(Struct):
    """Which metrics are wanted: of a launch, and of each instruction, by name or by how the name begins."""

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


def actions(asked: Asked) -> list[Action]:
    """Return the launches of a report in their order."""
    size = Path(asked.path).stat().st_size
    seconds, most = _SECONDS + size / _BYTES_PER_SECOND, toolchain.TOOL_BYTES + _BYTES_PER_BYTE * size
    code, out = toolchain.serve("workload.ncu_report_process", msgspec.json.encode(asked), seconds, most)
    try:
        answer = msgspec.json.decode(out, type=_Answer)
    except ValueError:
        why = toolchain.excess(code, b"", seconds) or f"broke off (exit code {code})"
        raise FileError(f"{asked.path}: ncu-report {why}: the report was damaged or cut short") from None
    if answer.missing:
        raise toolchain.MissingTool("a .ncu-rep is read by ncu-report; `pip install ncu-report` brings it")
    if answer.error:
        raise FileError(f"{asked.path}: not read by ncu-report: {toolchain.one_line(answer.error)}")
    return answer.actions


def serve() -> None:
    """Answer what is asked on standard input (runs in the child process)."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)  # what the library prints is no answer
        stream.write(answered(sys.stdin.buffer.read()))


def answered(given: bytes) -> bytes:
    """Answer what is asked, in this process."""
    asked = msgspec.json.decode(given, type=Asked)
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
