"""Time calls of kernels, as launch files say them, on the GPU at hand."""

from __future__ import annotations

import ctypes
import statistics
from typing import Any

import numpy as np

from warplens.core.driver import Gpu
from warplens.core.errors import WarplensError
from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall

_CHUNK = 1 << 21  # elements made at a time
_LARGE_SHARED = 48 << 10  # more dynamic shared memory has to be asked for
_DELAY_NS = 250_000  # longer than Python takes to ask for a launch and two events
# Keeps the GPU busy for so many nanoseconds, so that what is timed is in the queue when the first event is passed.
_DELAY = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry delay(.param .u64 nanoseconds)
{
  .reg .u64 %start, %now, %limit;
  .reg .pred %more;
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %limit;
  @%more bra again;
  ret;
}
\0"""


class Timer:
    """Times calls; arrays are made once for all calls that hold the same. What kernels write is not put back."""

    def __init__(self, gpu: Gpu) -> None:
        """Take a GPU."""
        self.gpu = gpu
        self.arrays: dict[tuple[object, ...], int] = {}
        self.delay = gpu.function(gpu.load(_DELAY), "delay")

    def seconds(self, call: KernelCall, cubin: bytes, kernel: str, repetitions: int = 10) -> float:
        """Return the median time of a call with a warm L2, in seconds."""
        module = self.gpu.load(cubin)
        try:
            function = self.gpu.function(module, kernel)
            if call.dynamic_shared_bytes > _LARGE_SHARED:
                self.gpu.allow_shared(function, call.dynamic_shared_bytes)
            arguments = [self._argument(a, seed, call.folder) for seed, a in enumerate(call.arguments)]
            launch = function, call.grid_shape, call.block_shape, call.dynamic_shared_bytes, arguments
            self.gpu.launch(*launch)
            return statistics.median(self._once(launch) for _ in range(repetitions))
        finally:
            self.gpu.unload(module)

    def _once(self, launch: tuple[Any, ...]) -> float:
        self.gpu.launch(self.delay, 1, 1, 0, [ctypes.c_uint64(_DELAY_NS)])
        self.gpu.mark(0)
        self.gpu.launch(*launch)
        self.gpu.mark(1)
        return self.gpu.elapsed_seconds()

    def _argument(self, argument: Argument, seed: int, folder: str) -> Any:
        if not argument.is_pointer:
            return _scalar(argument)
        if argument.count is None:
            return ctypes.c_uint64(0)
        key = (argument.element, argument.count, argument.fill, seed, folder if "file" in argument.fill else "")
        if key not in self.arrays:
            self.arrays[key] = self._array(argument, seed, folder)
        return ctypes.c_uint64(self.arrays[key])

    def _array(self, argument: Argument, seed: int, folder: str) -> int:
        count, size = argument.count or 0, SCALAR_BYTES[argument.element]
        address = self.gpu.allocate(max(1, count * size))
        self.gpu.clear(address, count * size)
        values = contents(argument, seed, folder)
        for at in range(0, count if argument.fill != "zeros" else 0, _CHUNK):
            self.gpu.put(address + at * size, values(np.arange(at, min(count, at + _CHUNK), dtype=np.int64)))
        return address


def _scalar(argument: Argument) -> Any:
    """Return the bytes of an argument that is not an array."""
    if argument.type == "bytes":
        data = bytes.fromhex(str(argument.value))
    elif argument.type in ("f16", "bf16"):
        raise WarplensError(f"{argument.name}: a scalar of type {argument.type} cannot be measured yet")
    else:
        value = float(argument.value or 0) if argument.type[0] == "f" else int(argument.value or 0)
        data = np.array([value]).astype(dtype_of(argument.type)).tobytes()
    return (ctypes.c_char * len(data)).from_buffer_copy(data)
