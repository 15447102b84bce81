"""Process of NVRTC: it compiles one source, as `warplens.program.nvrtc` requests.

This file is run by itself, without the rest of warplens, so that the process begins at once. It reads a request in JSON
on standard input and answers in JSON; the cubin goes to the file that the request names.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys

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
