"""NVRTC: CUDA source to a cubin, without nvcc, driver or GPU.

NVRTC runs in a process of its own, so that a source that crashes or hangs it costs one clear line. That process runs
this file by itself, without the rest of warplens, and begins at once. It reads a request in JSON on standard input and
answers in JSON; the cubin goes to the file that the request names.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
from pathlib import Path

if __name__ != "__main__":
    from warplens.core.errors import RefusedSource, WarplensError
    from warplens.core.processes import ToolError, excess, execute
    from warplens.program import toolchain
    from warplens.program.toolchain import COMPILER_BYTES, COMPILER_SECONDS, OTHERWISE

_UNKNOWN = re.compile(r"^nvrtc: error: invalid value for --gpu-architecture", re.MULTILINE)
# Headers that device code likes to include and NVRTC does not have: what it needs of them is built in.
_STUBS = {
    "cstdint": "#pragma once\n#include <stdint.h>\n",
    "stdint.h": (
        "#pragma once\ntypedef signed char int8_t; typedef short int16_t; typedef int int32_t;\n"
        "typedef long long int64_t;\n"
        "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;\n"
        "typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t; typedef long long intptr_t;\n"
    ),
    **dict.fromkeys(("cstdio", "stdio.h", "cstdlib", "stdlib.h", "math.h", "cmath", "assert.h", "cassert", "cstring",
                     "string.h", "cstddef", "stddef.h", "climits", "limits.h", "cfloat", "float.h",
                     "cuda_runtime.h", "cuda.h", "device_launch_parameters.h"), "#pragma once\n"),
}  # fmt: skip


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
    command = [sys.executable, "-I", "-S", str(Path(__file__))]
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


def _load_builtins(library: str) -> None:
    """Load what NVRTC loads by its name, and of older versions does not look for beside itself."""
    folder = os.path.dirname(library)  # noqa: PTH120 (pathlib takes longer than the rest of the start)
    for name in os.listdir(folder):  # noqa: PTH208
        if name.startswith("libnvrtc-builtins.so."):
            with contextlib.suppress(OSError):
                ctypes.CDLL(os.path.join(folder, name))  # noqa: PTH118


def _compile(request: dict[str, object]) -> dict[str, str]:
    _load_builtins(str(request["library"]))
    nvrtc = ctypes.CDLL(str(request["library"]))
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    program = ctypes.c_void_p()
    array = ctypes.c_char_p * len(_STUBS)
    source = str(request["source"]).encode("utf-8", "replace").replace(b"\0", b" ")
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, str(request["name"]).encode("utf-8", "surrogateescape"), len(_STUBS),
        array(*map(str.encode, _STUBS.values())), array(*map(str.encode, _STUBS)),
    )  # fmt: skip
    options = request["options"]
    assert isinstance(options, list)
    pointers = (ctypes.c_char_p * len(options))(*[str(o).encode("utf-8", "surrogateescape") for o in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), pointers)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(max(1, size.value))
        nvrtc.nvrtcGetProgramLog(program, log)
        return {"error": log.value.decode("utf-8", "replace")}
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(max(1, size.value))
    if nvrtc.nvrtcGetCUBIN(program, cubin) or not size.value:
        return {"error": "NVRTC made no machine code for this architecture: name a real one such as sm_90"}
    with open(str(request["out"]), "wb") as stream:  # noqa: PTH123 (pathlib takes longer than the rest of the start)
        stream.write(cubin.raw[: size.value])
    return {"version": f"NVRTC {major.value}.{minor.value}"}


if __name__ == "__main__":
    try:
        reply = _compile(json.loads(sys.stdin.buffer.read()))
    except OSError as error:
        reply = {"error": f"NVRTC could not be loaded: {error}"}
    sys.stdout.write(json.dumps(reply))
