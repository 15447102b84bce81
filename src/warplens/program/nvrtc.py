"""CUDA source to a cubin by NVRTC, without compiler, driver or GPU.

NVRTC runs in a process of its own (`nvrtc_compile.py`), so that a source that crashes or hangs it costs one clear line.
A process that is there for nothing else (`cli/ahead.py`) sets `RUNS_HERE`: a new one takes 0.05 s to begin.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from warplens.core.errors import RefusedSource, WarplensError
from warplens.core.processes import IDLE_SECONDS, STALLED, at_most
from warplens.program import nvrtc_process as nvrtc_compile
from warplens.program import toolchain, toolkits
from warplens.program.encoding import writer
from warplens.program.toolchain import COMPILER_BYTES, COMPILER_SECONDS, TOO_LONG, ToolError
from warplens.program.toolkits import OTHERWISE

RUNS_HERE = False  # whether this process may be lost, if NVRTC crashes
_UNKNOWN = re.compile(r"^nvrtc: error: invalid value for --gpu-architecture", re.MULTILINE)
_LOOK_SECONDS = 1.0  # how often it is looked at how long NVRTC takes
_LITTLE = 1e-3  # of the time: what looking takes


class UnknownArchitecture(WarplensError):
    """An architecture that a compiler does not know."""


def library() -> Path:
    """Return the shared library of the wheels' NVRTC, by which measuring kernels are made; else an installed one's."""
    return toolkits.wheels().nvrtc() or toolchain.tool("NVRTC")


def compile_source(source: str, name: str, arch: str, options: list[str], output: Path, by: Path | None = None) -> str:
    """Compile device code to a cubin at `output` with NVRTC (`by` this library); return its version.

    A source that it refuses is an `errors.RefusedSource` with its whole message.
    """
    request = {
        "library": str(by or library()),
        "source": source,
        "name": name,
        "arch": arch,
        "options": options,
        "out": str(output),
    }
    if RUNS_HERE:
        with at_most(COMPILER_BYTES):
            code, out, err = _here(request)
    else:
        code, out, err = _elsewhere(request)
    if beyond := toolchain.excess(code, err, COMPILER_SECONDS, COMPILER_BYTES):
        raise ToolError(
            f"{name}: NVRTC {beyond}; look for macros or templates that grow without end, "
            "and for pipes among its includes, or compile it yourself (nvcc -cubin) and give the cubin"
        )
    try:
        answer = json.loads(out)
    except ValueError:
        raise ToolError(f"{name}: NVRTC broke off (exit code {code}) on this source") from None
    if _UNKNOWN.search(str(answer.get("error", ""))):
        raise UnknownArchitecture(f"this NVRTC does not compile for {arch}; {OTHERWISE}")
    if "error" in answer:
        raise RefusedSource(f"{name}: NVRTC refused it:", str(answer["error"]) or "NVRTC failed without a message")
    return str(answer["version"])


def _elsewhere(request: dict[str, Any]) -> tuple[int, str | bytes, bytes]:
    """Let a new process answer a request; return its exit code, the answer and its errors."""
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("nvrtc_process.py"))]
    return toolchain.execute(command, COMPILER_SECONDS, COMPILER_BYTES, given=json.dumps(request).encode())


def _here(request: dict[str, Any]) -> tuple[int, str | bytes, bytes]:
    """Let a thread answer a request, so that signals are heeded meanwhile; return as a process would."""
    made, end = list[str](), time.process_time() + COMPILER_SECONDS
    thread = threading.Thread(target=lambda: made.append(nvrtc_compile.answer(request)), daemon=True)
    thread.start()
    writer(request["arch"])  # is asked for next, and read meanwhile
    moved, used = time.monotonic(), time.process_time()
    while thread.is_alive() and time.process_time() < end:
        thread.join(_LOOK_SECONDS)
        if time.process_time() - used > _LITTLE * (time.monotonic() - moved):
            moved, used = time.monotonic(), time.process_time()
        elif time.monotonic() - moved > IDLE_SECONDS:
            return STALLED, "", b""
    return (0, made[0], b"") if made else (TOO_LONG if thread.is_alive() else 1, "", b"")
