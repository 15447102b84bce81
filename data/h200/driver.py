"""The driver API by ctypes: memory, modules, launches, events of the first GPU, for run_launches.py."""

from __future__ import annotations

import ctypes
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

LARGE_SHARED = 48 << 10  # more dynamic shared memory has to be asked for
DELAY_NS = 250_000  # longer than Python takes to ask for two launches and two events
# Waits so many nanoseconds and touches no memory. As PTX, which the driver compiles itself.
DELAY = b"""
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


class Failure(Exception):
    """What the driver refused."""


class Gpu:
    """The first GPU: memory, modules, launches, events."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.start()
        self.nvml = self._nvml()

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver; an error becomes a Failure."""
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise Failure(f"{name}: {(text.value or b'error').decode()} ({code})")

    def start(self) -> None:
        """Make a context; what an earlier one held is gone."""
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.modules: dict[Path, ctypes.c_void_p] = {}
        self.delayer: ctypes.c_void_p | None = None
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def reset(self) -> None:
        """Throw the context away after a fault and begin anew."""
        self.call("cuDevicePrimaryCtxReset_v2", self.device)
        self.start()

    def about(self) -> dict[str, object]:
        """Return what identifies the measurement."""
        version, name = ctypes.c_int(), ctypes.create_string_buffer(100)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetName", name, 100, self.device)
        driver = Path("/proc/driver/nvidia/version")
        found = re.search(r"\b\d+\.\d+(\.\d+)?\b", driver.read_text()) if driver.exists() else None
        return {
            "gpu": name.value.decode(),
            "cuda": version.value,
            "driver": found.group() if found else None,
            "date": time.strftime("%Y-%m-%d"),
            "command": "python " + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        }

    def _nvml(self) -> tuple[ctypes.CDLL, ctypes.c_void_p] | None:
        try:
            library, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        except OSError:
            return None
        failed = library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
        return None if failed else (library, device)

    def clocks_mhz(self) -> dict[str, int | None]:
        """Return the clocks of this moment."""
        found: dict[str, int | None] = {"sm": None, "memory": None}
        if self.nvml is None:
            return found
        library, device = self.nvml
        for name, kind in (("sm", 1), ("memory", 2)):
            value = ctypes.c_uint()
            if not library.nvmlDeviceGetClockInfo(device, kind, ctypes.byref(value)):
                found[name] = value.value
        return found

    def memory(self, size: int) -> ctypes.c_uint64:
        """Return new memory, zeroed."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        self.call("cuMemsetD8_v2", pointer, 0, ctypes.c_size_t(size))
        return pointer

    def copy(self, to: ctypes.c_uint64, source: ctypes.c_uint64, size: int) -> None:
        """Copy on the GPU."""
        self.call("cuMemcpyDtoD_v2", to, source, ctypes.c_size_t(size))

    def put(self, to: ctypes.c_uint64, offset: int, data: np.ndarray[Any, Any]) -> None:
        """Copy to the GPU."""
        at = ctypes.c_uint64(to.value + offset)
        self.call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))

    def get(self, source: ctypes.c_uint64, data: np.ndarray[Any, Any]) -> None:
        """Copy from the GPU."""
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), source, ctypes.c_size_t(data.nbytes))

    def function(self, cubin: Path, name: str, dynamic_shared_bytes: int) -> ctypes.c_void_p:
        """Return a kernel of a cubin."""
        if cubin not in self.modules:
            self.modules[cubin] = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(self.modules[cubin]), cubin.read_bytes())
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), self.modules[cubin], name.encode())
        if dynamic_shared_bytes > LARGE_SHARED:
            self.call("cuFuncSetAttribute", found, 8, dynamic_shared_bytes)
        return found

    def delay(self) -> None:
        """Keep the GPU busy while the host asks for what is timed: times are then not those of the asking."""
        if self.delayer is None:
            module, found = ctypes.c_void_p(), ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(module), DELAY)
            self.call("cuModuleGetFunction", ctypes.byref(found), module, b"delay")
            self.delayer = found
        nanoseconds = ctypes.c_uint64(DELAY_NS)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(nanoseconds))
        self.call("cuLaunchKernel", self.delayer, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)

    def wait(self) -> None:
        """Wait for all that was asked."""
        self.call("cuCtxSynchronize")
