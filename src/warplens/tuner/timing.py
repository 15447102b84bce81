"""Timing of calls on the GPU at hand, and of the best candidates of a search."""

from __future__ import annotations

import ctypes
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.driver import Driver, Gpu
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.program.compile import compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.declarations import choose
from warplens.tuner.choose import Candidate
from warplens.tuner.spec import Configuration, Sweep
from warplens.tuner.tune import Tuned
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall

Measure = Callable[[KernelCall], float]
_PASSES = 3  # of ten launches each; on an H200 the first of three was 2.3 to 2.8 % above the least in 3 of 80
_CHUNK = 1 << 21  # elements made at a time
_LARGE_SHARED = 48 << 10  # more dynamic shared memory has to be asked for
_DELAY_NS = 250_000  # longer than Python takes to ask for a launch and two events
# Keeps the GPU busy for so many nanoseconds, so that the timed launch is in the queue at the first event.
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
    """Times calls; calls with the same array contents share them, and what kernels write stays."""

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


class Measured(Struct, frozen=True):
    """A candidate and its measured time."""

    candidate: Candidate
    seconds: float


def on_gpu(machine: Machine) -> Measure:
    """Return a function that times a call on the first GPU; refuse a machine without one."""
    timer = Timer(Gpu(Driver()))

    def seconds(call: KernelCall) -> float:
        path, options = source_of(call, architecture(machine, OLDEST))
        with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
            cubin = compile_file(path, options, Path(folder)).cubin.read_bytes()
        kernel = choose(parse_cubin(cubin, str(path)).kernels(), call.kernel, str(path))
        return timer.seconds(call, cubin, kernel)

    return seconds


def measure(sweep: Sweep, tuned: Tuned, measure_call: Measure, top: int) -> list[Measured]:
    """Time so many candidates, each chosen by the times of those before it; return them, the fastest first.

    All of them are timed again, and the least counts: one timing alone may be off by more than they differ.
    """
    calls = {c.number: c.call for c in sweep.configurations() if isinstance(c, Configuration)}
    timed = tuned.measured(top, lambda candidate: measure_call(calls[candidate.number]))
    chosen, first = zip(*timed, strict=True)
    again = ([measure_call(calls[candidate.number]) for candidate in chosen] for _ in range(_PASSES - 1))
    least = map(min, zip(first, *again, strict=True))
    return sorted(map(Measured, chosen, least), key=lambda m: m.seconds)
