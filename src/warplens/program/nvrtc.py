"""NVRTC: CUDA source to a cubin, without nvcc, driver or GPU.

NVRTC runs in a process of its own (`nvrtc_process.py`), so that a source that crashes or hangs it costs one clear line.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from warplens.core.errors import RefusedSource, WarplensError
from warplens.core.processes import ToolError, excess, execute
from warplens.program import toolchain
from warplens.program.toolchain import COMPILER_BYTES, COMPILER_SECONDS, OTHERWISE

_UNKNOWN = re.compile(r"^nvrtc: error: invalid value for --gpu-architecture", re.MULTILINE)


def library() -> Path:
    """Return the shared library of the wheels' NVRTC, which compiles measuring kernels; else an installed one's."""
    return toolchain.wheels().tool("NVRTC") or toolchain.tool("NVRTC")


def compile_source(source: str, name: str, arch: str, options: list[str], output: Path, by: Path | None = None) -> str:
    """Compile device code to a cubin at `output` with NVRTC (`by` this library); return its version.

    A source that it refuses is an `errors.RefusedSource` with its whole message.
    """
    request = {
        "library": str(by or library()), "source": source, "name": name, "out": str(output),
        "options": [f"--gpu-architecture={arch}", *options],
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("nvrtc_process.py"))]
    code, out, err = execute(command, COMPILER_SECONDS, COMPILER_BYTES, sent=json.dumps(request).encode())
    if beyond := excess(code, err, COMPILER_SECONDS, COMPILER_BYTES):
        raise ToolError(
            f"{name}: NVRTC {beyond}; look for macros or templates that grow without end, "
            "and for pipes among its includes, or compile it yourself (nvcc -cubin) and give the cubin"
        )
    try:
        answer = json.loads(out)
    except ValueError:
        raise ToolError(f"{name}: NVRTC broke off (exit code {code}) on this source") from None
    if _UNKNOWN.search(str(answer.get("error", ""))):
        raise WarplensError(f"this NVRTC does not compile for {arch}; {OTHERWISE}")
    if "error" in answer:
        raise RefusedSource(f"{name}: NVRTC refused it:", str(answer["error"]) or "NVRTC failed without a message")
    return str(answer["version"])
