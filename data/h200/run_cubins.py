"""Run committed cubins on the GPU at hand, through the driver API alone: lone-warp cycles and occupancy.

    python data/h200/run_cubins.py lone data/h200/lone_warp.cubin > lone_warp.json
    python data/h200/run_cubins.py occupancy data/h200/registers > occupancy.json
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from pathlib import Path

cuda = ctypes.CDLL("libcuda.so.1")


def check(code: int, what: str) -> None:
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        raise SystemExit(f"{what}: {name.value!r}")


def start() -> dict[str, object]:
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "context")
    check(cuda.cuCtxSetCurrent(context), "context")
    cuda.cuDriverGetVersion(ctypes.byref(version))
    name = ctypes.create_string_buffer(100)
    cuda.cuDeviceGetName(name, 100, device)
    return {"gpu": name.value.decode(), "driver": version.value, "command": "python " + " ".join(sys.argv)}


def load(path: Path) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), path.read_bytes()), str(path))
    return module


def function(module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    check(cuda.cuModuleGetFunction(ctypes.byref(found), module, name.encode()), name)
    return found


def memory(size: int) -> ctypes.c_uint64:
    pointer = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), "memory")
    check(cuda.cuMemsetD32_v2(pointer, 0, ctypes.c_size_t(size // 4)), "memory")
    return pointer


def lone(path: Path) -> dict[str, object]:
    result, module = start(), load(path)
    buffers = [memory(8192) for _ in range(4)]
    arguments = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.byref(b), ctypes.c_void_p) for b in buffers])
    source = path.with_suffix(".cu").read_text()
    cycles: dict[str, list[int]] = {}
    for name in re.findall(r"^KERNEL\((\w+)\) ", source, re.M):
        kernel, value = function(module, name), ctypes.c_int()
        cycles[name] = []
        for _ in range(9):
            check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, arguments, None), name)
            check(cuda.cuCtxSynchronize(), name)
            check(cuda.cuMemcpyDtoH_v2(ctypes.byref(value), buffers[3], ctypes.c_size_t(4)), name)
            cycles[name].append(value.value)
    return {**result, "cycles": cycles}


def occupancy(folder: Path) -> dict[str, object]:
    result, rows = start(), []
    for path in sorted(folder.glob("*.cubin")):
        kernel, registers, static, blocks = function(load(path), "pressure"), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        check(cuda.cuFuncGetAttribute(ctypes.byref(registers), 4, kernel), "registers")
        check(cuda.cuFuncGetAttribute(ctypes.byref(static), 1, kernel), "shared")
        check(cuda.cuFuncSetAttribute(kernel, 8, 232448), "dynamic shared memory")
        for threads in (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 704, 768, 864, 896, 960, 992, 1024):
            for shared in (0, 1, 1024, 3000, 4096, 7168, 10240, 16384, 23000, 33000, 49152, 65536, 77000, 115712, 120000, 232448):
                size = ctypes.c_size_t(shared)
                check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(blocks), kernel, threads, size), "occupancy")
                rows.append([registers.value, threads, static.value + shared, blocks.value])
    return {**result, "columns": ["registers_per_thread", "threads_per_block", "shared_bytes", "blocks_per_sm"], "rows": rows}


if __name__ == "__main__":
    json.dump({"lone": lone, "occupancy": occupancy}[sys.argv[1]](Path(sys.argv[2])), sys.stdout)
