"""Launches on the GPU at hand: their arrays, what is put back before a run, and times between two events.

Arrays hold what the launch file says, with the argument's number as seed. Each is written once, stays on the GPU and is
shared by the launches that only read it, until all of them are too many; outputs belong to one launch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from warplens.core.driver import Driver, Gpu
from warplens.core.errors import WarplensError
from warplens.laboratory.nvml import Watch
from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall

_LARGE_SHARED = 48 << 10  # more dynamic shared memory has to be asked for
_DELAY_NS = 250_000  # longer than Python takes to ask for two launches and two events
_CHUNK = 1 << 21  # elements that a thread computes at a time
_KEPT_BYTES = 8 << 30  # arrays that stay for later launches; a profiler saves all of them at every launch
# A kernel that waits and touches no memory. As PTX, which the driver compiles itself.
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
"""


class Device:
    """The first GPU, with modules by file and a kernel that delays."""

    def __init__(self) -> None:
        """Take the GPU."""
        self.driver = Driver()
        self.start()

    def start(self) -> None:
        """Make a context."""
        self.gpu = Gpu(self.driver)
        self.facts = self.gpu.facts()
        self.watch = Watch(self.facts.uuid)
        self._modules = dict[Path, ctypes.c_void_p]()
        self._delay = self.gpu.function(self.gpu.load(_DELAY), "delay")

    def reset(self) -> None:
        """Give back a context that was lost, and make another."""
        self.gpu.close()
        self.start()

    def about(self) -> dict[str, object]:
        """Return what identifies the measurement."""
        return {
            "gpu": self.facts.name,
            "cuda": self.facts.driver,
            "driver": self.watch.driver_version(),
            "date": time.strftime("%Y-%m-%d"),
            "command": "python -m warplens.papers.validation.suite " + " ".join(sys.argv[1:]),
        }

    def clocks_mhz(self) -> dict[str, int | None]:
        """Return the clocks of this moment."""
        state = self.watch.state()
        return {"sm": state.sm_mhz, "memory": state.memory_mhz}

    def memory(self, size: int) -> int:
        """Return the address of new memory, zeroed."""
        address = self.gpu.allocate(max(1, size))
        self.gpu.clear(address, size)
        return address

    def kernel(self, cubin: Path, name: str, dynamic_shared_bytes: int) -> ctypes.c_void_p:
        """Return a kernel of a cubin."""
        if cubin not in self._modules:
            self._modules[cubin] = self.gpu.load(cubin.read_bytes())
        found = self.gpu.function(self._modules[cubin], name)
        if dynamic_shared_bytes > _LARGE_SHARED:
            self.gpu.allow_shared(found, dynamic_shared_bytes)
        return found

    def timed(self, *launches: Launch) -> float:
        """Return the microseconds between two events around launches that are queued when the first event passes."""
        self.gpu.launch(self._delay, 1, 1, 0, [ctypes.c_uint64(_DELAY_NS)])
        self.gpu.mark(0)
        for launch in launches:
            launch.run()
        self.gpu.mark(1)
        return round(1e6 * self.gpu.elapsed_seconds(), 3)


class Arrays:
    """Arrays on the GPU by what they hold."""

    def __init__(self, device: Device) -> None:
        """Begin with none."""
        self._gpu, self._device, self._bytes = device.gpu, device, 0
        self._kept = dict[tuple[object, ...], int]()
        self._pool = ThreadPoolExecutor(os.cpu_count())

    def get(self, argument: Argument, seed: int, folder: str) -> int:
        """Return the array of an argument, not to be written to."""
        key = (argument.element, argument.count, argument.fill, seed, folder if "file" in argument.fill else "")
        if key not in self._kept:
            array = self._device.memory(size_of(argument))
            self._bytes += size_of(argument)
            if argument.fill != "zeros":
                self._fill(array, argument, seed, folder)
            self._kept[key] = array
        return self._kept[key]

    def trim(self) -> None:
        """Give back all arrays if they are more than stay between launches."""
        if self._bytes > _KEPT_BYTES:
            for array in self._kept.values():
                self._gpu.free(array)
            self._kept, self._bytes = {}, 0

    def _fill(self, array: int, argument: Argument, seed: int, folder: str) -> None:
        values, count, size = contents(argument, seed, folder), argument.count or 0, SCALAR_BYTES[argument.element]
        starts = range(0, count, _CHUNK)
        parts = self._pool.map(lambda at: values(np.arange(at, min(count, at + _CHUNK), dtype=np.int64)), starts)
        for at, part in zip(starts, parts, strict=True):
            self._gpu.put(array + at * size, part)


class Launch:
    """One launch, ready to run: its kernel, its arrays, and what is put back before a run."""

    def __init__(self, device: Device, arrays: Arrays, entry: dict[str, Any], call: KernelCall, folder: Path) -> None:
        """Load the kernel and make its arguments."""
        self._device, self._gpu, self.call = device, device.gpu, call
        self._kernel = device.kernel(folder / entry["cubin"], entry["kernel"], call.dynamic_shared_bytes)
        self._restored = list[tuple[int, int, int]]()
        self.outputs = dict[str, tuple[Argument, int]]()
        self._arguments = [self._argument(arrays, argument, seed) for seed, argument in enumerate(call.arguments)]
        self.restore()

    def _argument(self, arrays: Arrays, argument: Argument, seed: int) -> Any:
        if not argument.is_pointer:
            return scalar(argument)
        if argument.count is None:
            return ctypes.c_uint64(0)
        kept = arrays.get(argument, seed, self.call.folder)
        if not argument.name.startswith("out"):
            return ctypes.c_uint64(kept)
        written = self._device.memory(size_of(argument))
        self._restored.append((written, kept, size_of(argument)))
        self.outputs[argument.name] = (argument, written)
        return ctypes.c_uint64(written)

    @property
    def overwrites_its_input(self) -> bool:
        """True if the kernel reads what it writes, so that a second run may do other work."""
        return any(argument.fill != "zeros" for argument, _ in self.outputs.values())

    @property
    def array_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(size_of(a) for a in self.call.arguments if a.is_pointer)

    def restore(self) -> None:
        """Put back what a run may have changed."""
        for written, kept, size in self._restored:
            self._gpu.copy(written, kept, size)

    def run(self) -> None:
        """Launch; does not wait."""
        call = self.call
        self._gpu.launch(self._kernel, call.grid_shape, call.block_shape, call.dynamic_shared_bytes, self._arguments)

    def results(self, most: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs, or the first elements of each."""
        return {
            name: self._gpu.get(written, np.empty(min(n for n in (argument.count or 0, most) if n is not None),
                                                  dtype_of(argument.element)))
            for name, (argument, written) in self.outputs.items()
        }  # fmt: skip

    def free(self) -> None:
        """Give back the memory of this launch."""
        for written, _, _ in self._restored:
            self._gpu.free(written)


def size_of(argument: Argument) -> int:
    """Return the bytes of an array."""
    return (argument.count or 0) * SCALAR_BYTES[argument.element]


def scalar(argument: Argument) -> Any:
    """Return the bytes of an argument that is not an array."""
    if argument.type == "bytes":
        data = bytes.fromhex(str(argument.value))
    elif argument.type in ("f16", "bf16"):
        raise WarplensError(f"{argument.name}: a scalar of type {argument.type} cannot be run here; pass it as bytes")
    else:
        value = float(argument.value or 0) if argument.type[0] == "f" else int(argument.value or 0)
        data = np.array([value]).astype(dtype_of(argument.type)).tobytes()
    return (ctypes.c_char * len(data)).from_buffer_copy(data)
