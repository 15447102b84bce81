"""Triton's compiler: a kernel of a Python file to machine code, in a process of its own and without a GPU.

Only Triton's part of the file is looked at (triton_source.py). What a launch compiles the kernel for is said by
`workload/triton_call.py`.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import read_text
from warplens.program import toolchain
from warplens.program.toolchain import MissingTool, ToolError, one_line
from warplens.program.triton_source import TritonSource, extract

TRITON_SECONDS = 240.0  # of processor time: a large kernel takes half a minute


class Target(Struct, frozen=True):
    """What a kernel is compiled for: types by parameter, constants, parameters that 16 divides, compiler options."""

    signature: dict[str, str]
    constexprs: dict[str, bool | int | float | str | None]
    divisible: list[str]
    options: dict[str, int]


def split_name(file: str) -> tuple[str, str | None]:
    """Split `file.py:kernel` at the colon."""
    found = re.fullmatch(r"(.+\.py):(\w+)", file)
    return (found.group(1), found.group(2)) if found else (file, None)


def read_source(path: Path, kernel: str | None) -> tuple[TritonSource, str]:
    """Return Triton's part of a Python file, and the name of the kernel that is meant."""
    source = extract(read_text(path), str(path))
    return source, _chosen(source, kernel, path)


def compile_source(
    source: TritonSource, name: str, path: Path, target: Target, arch: str
) -> tuple[bytes, dict[str, Any]]:
    """Compile a kernel; return its cubin and what the compiler says of it: warps, shared memory, version."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        out = Path(folder) / "kernel.cubin"
        request = {
            "text": source.text, "file": str(path), "kernel": name, "chains": source.chains,
            "capability": int(re.sub(r"\D", "", arch)), "out": str(out), "signature": target.signature,
            "constexprs": target.constexprs, "divisible": target.divisible, "options": target.options,
        }  # fmt: skip
        answer = _asked(request, f"{path}:{name}")
        return out.read_bytes(), answer


def _chosen(source: TritonSource, kernel: str | None, path: Path) -> str:
    names = list(source.parameters)
    if not names:
        raise FileError(f"{path}: no function under @triton.jit in it")
    if kernel is None and len(names) == 1:
        return names[0]
    if kernel not in names:
        asked = "name one of its kernels" if kernel is None else f"no kernel {kernel!r}{nearest(kernel, names)}"
        raise FileError(f"{path}: {asked}; there are: {', '.join(names)}")
    return kernel


def _asked(request: dict[str, Any], what: str) -> dict[str, Any]:
    """Let the child process compile; its message is the error."""
    code, out = toolchain.serve("program.triton_process", json.dumps(request).encode(), TRITON_SECONDS)
    if beyond := toolchain.excess(code, b"", TRITON_SECONDS):
        raise ToolError(f"{what}: Triton {beyond}")
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        raise ToolError(f"{what}: Triton broke off (exit code {code})") from None
    if "missing" in answer:
        raise MissingTool(f"Triton is not installed ({answer['missing']}); `pip install triton` brings it")
    if "error" in answer:
        raise WarplensError(f"{what}: {one_line(str(answer['error']))}")
    return answer
