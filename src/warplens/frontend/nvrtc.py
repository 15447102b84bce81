"""CUDA source to a cubin by NVRTC, without compiler, driver or GPU.

NVRTC runs in a process of its own (`nvrtc_compile.py`), so that a source that crashes or hangs it costs one clear line.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

from warplens.errors import WarplensError
from warplens.frontend import toolchain
from warplens.frontend.toolchain import COMPILER_SECONDS, TOO_LONG, MissingTool, ToolError, one_line, wheel_folders

_WHEEL = "nvidia-cuda-nvrtc"


def library() -> Path:
    """Return NVRTC's shared library from the wheels or an installed toolkit, or name what brings it."""
    for folder in (*wheel_folders(), toolchain.INSTALLED):
        found = sorted((folder / "lib").glob("libnvrtc.so.*")) or sorted((folder / "lib64").glob("libnvrtc.so.*"))
        if found:
            return found[0]
    raise MissingTool(f"NVRTC is not installed; `pip install 'warplens[cuda]'` brings it (wheel {_WHEEL})")


@cache
def version() -> str:
    """Return what tells this NVRTC from others: its wheel's version, or its file's name, size and time."""
    file = library()
    made, found = toolchain.wheel_version(file, _WHEEL), file.stat()
    return f"NVRTC {made or f'{file.resolve().name} {found.st_size} {found.st_mtime_ns}'}"


def compile_source(source: str, name: str, arch: str, options: list[str], output: Path) -> str:
    """Compile device code to a cubin at `output`; return NVRTC's version. Its own message is the error."""
    request = {
        "library": str(library()),
        "source": source,
        "name": name,
        "arch": arch,
        "options": options,
        "out": str(output),
    }
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("nvrtc_compile.py"))]
    code, out, _ = toolchain.execute(command, COMPILER_SECONDS, given=json.dumps(request).encode())
    if code == TOO_LONG:
        raise ToolError(
            f"{name}: NVRTC did not finish within {COMPILER_SECONDS:.0f} s of processor time; look for macros or "
            "templates that grow without end, or compile it yourself (nvcc -cubin) and give the cubin"
        )
    try:
        answer = json.loads(out)
    except ValueError:
        raise ToolError(f"{name}: NVRTC broke off (exit code {code}) on this source") from None
    if "gpu-architecture" in str(answer.get("error", "")):
        raise WarplensError(f"this NVRTC does not compile for {arch}; it knows sm_75 and later ones, such as sm_90")
    if "error" in answer:
        raise WarplensError(one_line(str(answer["error"])) or f"{name}: NVRTC failed without a message")
    return str(answer["version"])
