"""CUDA driver through ctypes: devices, modules, memory, launches, events. Needs libcuda.so.1 and nothing else.

The return code of every call is checked. An error that a user can mend (no driver, no GPU, one too old, none free) is
one line that says what to do; anything else is a `DriverError` with the name that the driver gives it. After some
errors a context is lost (`DriverError.lost`): the caller opens a new `Gpu`.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from warplens.core.errors import WarplensError, refuse

T = TypeVar("T")
Shape = int | tuple[int, int, int]
OLDEST = (7, 5)  # what the compilers of today still make code for
_ATTRIBUTES = {
    "threads_per_block_max": 1, "shared_per_block_bytes": 8, "constant_bytes": 9, "warp_size": 10, "clock_khz": 13,
    "sm_count": 16, "memory_clock_khz": 36, "memory_bus_bits": 37, "l2_bytes": 38, "threads_per_sm_max": 39,
    "major": 75, "minor": 76, "l1_for_globals": 79, "shared_per_sm_bytes": 81, "registers_per_sm": 82,
    "shared_per_block_max_bytes": 97, "blocks_per_sm_max": 106, "shared_reserved_bytes": 111,
}  # fmt: skip
_STATIC_SHARED, _DYNAMIC_SHARED, _CARVE_OUT = 1, 8, 9  # attributes of a function; the last two may be set
_NO_MEMORY, _UNAVAILABLE = 2, 46
_SAID = {  # by return code: what a user can mend
    100: "the NVIDIA driver finds no GPU; see `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set",
    35: "the NVIDIA driver is too old; update it",
    209: "the driver has no use for this machine code: it is for another GPU, or the driver is too old",
}
_LOST = {214, 219, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 720, 721}  # the context is of no further use


class DriverError(WarplensError):
    """A call of the driver that failed; `lost` says that the context went with it."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        """Say which call failed and how the driver puts it."""
        super().__init__(f"{call}: {name} ({code}): {text}")
        self.code = code
        self.lost = code in _LOST


@dataclass(frozen=True)
class Facts:
    """The facts of a GPU by its driver, in the driver's units (kHz, B)."""

    name: str
    uuid: str
    driver: int
    memory_bytes: int
    free_bytes: int
    attributes: dict[str, int]

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, such as (9, 0)."""
        return self.attributes["major"], self.attributes["minor"]

    @property
    def arch(self) -> str:
        """The architecture to compile for, such as sm_90."""
        return "sm_{}{}".format(*self.capability)

    @property
    def sm_count(self) -> int:
        """Number of SMs."""
        return self.attributes["sm_count"]

    @property
    def warps_per_sm_max(self) -> int:
        """Most warps on an SM."""
        return self.attributes["threads_per_sm_max"] // 32


class Driver:
    """The library, its calls checked."""

    def __init__(self) -> None:
        """Load the library and start it; without driver or GPU the error says what to do."""
        try:
            self._library: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise WarplensError(
                "no NVIDIA driver here (libcuda.so.1 is missing): measuring needs a GPU; run this on a machine with one"
            ) from None
        self.check("cuInit", self._library.cuInit(0))

    def check(self, call: str, code: int) -> None:
        """Raise the error of a return code."""
        if code == 0:
            return
        refuse(code in _SAID, _SAID.get(code, ""))
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        self._library.cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(call, code, (name.value or b"?").decode(), (text.value or b"unknown error").decode())

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise WarplensError(f"the NVIDIA driver is too old: it has no {name}; update it") from None
        self.check(name, function(*arguments))

    def ask(self, name: str, kind: Callable[[], T], *arguments: Any) -> T:
        """Call a function that writes its answer, a value of a ctypes kind, through its first argument."""
        found = kind()
        self.call(name, ctypes.byref(found), *arguments)  # type: ignore[arg-type]
        return found

    def uuid(self, index: int) -> str:
        """Return a GPU's UUID in hexadecimal, without opening the GPU."""
        if not 0 <= index < self.count():
            raise WarplensError(f"there is no GPU {index}: the driver finds {self.count()}, counted from 0")
        return bytes(
            self.ask("cuDeviceGetUuid", ctypes.c_ubyte * 16, self.ask("cuDeviceGet", ctypes.c_int, index))
        ).hex()

    def count(self) -> int:
        """Return the number of GPUs."""
        return self.ask("cuDeviceGetCount", ctypes.c_int).value


class Gpu:
    """One GPU with a context of its own, its modules and its memory."""

    def __init__(self, driver: Driver, index: int = 0) -> None:
        """Open a GPU; one too old, or in use by others, is one line."""
        self.driver, self.index = driver, index
        self._uuid = driver.uuid(index)
        self._device = driver.ask("cuDeviceGet", ctypes.c_int, index)
        major, minor = self._attribute(_ATTRIBUTES["major"]), self._attribute(_ATTRIBUTES["minor"])
        old = f"compute capability {major}.{minor}: compilers make code from 7.5 on; use a newer GPU"
        refuse((major, minor) < OLDEST, f"{self._name()} has {old}")
        try:
            driver.call("cuCtxSetCurrent", driver.ask("cuDevicePrimaryCtxRetain", ctypes.c_void_p, self._device))
        except DriverError as error:
            if error.code in (_UNAVAILABLE, _NO_MEMORY):
                other = "is in use by other processes and takes no further one; end them (see `nvidia-smi`)"
                raise WarplensError(f"{self._name()} {other}") from None
            raise
        self._events = [driver.ask("cuEventCreate", ctypes.c_void_p, 0) for _ in range(2)]

    def close(self) -> None:
        """Release the GPU with all that was created on it; also after the context was lost."""
        self.driver.call("cuDevicePrimaryCtxReset_v2", self._device)
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def _attribute(self, number: int) -> int:
        return self.driver.ask("cuDeviceGetAttribute", ctypes.c_int, number, self._device).value

    def _name(self) -> str:
        name = ctypes.create_string_buffer(128)
        self.driver.call("cuDeviceGetName", name, 128, self._device)
        return name.value.decode("utf-8", "replace")

    def facts(self) -> Facts:
        """Return what the driver says of the GPU."""
        total = self.driver.ask("cuDeviceTotalMem_v2", ctypes.c_size_t, self._device).value
        free = self.driver.ask("cuMemGetInfo_v2", ctypes.c_size_t, ctypes.byref(ctypes.c_size_t())).value
        version, attributes = self.driver.ask("cuDriverGetVersion", ctypes.c_int).value, dict.fromkeys(_ATTRIBUTES, 0)
        for name, number in _ATTRIBUTES.items():
            with contextlib.suppress(DriverError):  # an attribute that this driver does not know
                attributes[name] = self._attribute(number)
        return Facts(self._name(), self._uuid, version, total, free, attributes)

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        """Load a module."""
        return self.driver.ask("cuModuleLoadData", ctypes.c_void_p, cubin)

    def unload(self, module: ctypes.c_void_p) -> None:
        """Unload a module."""
        self.driver.call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """Return a kernel of a module."""
        return self.driver.ask("cuModuleGetFunction", ctypes.c_void_p, module, name.encode())

    def variable(self, module: ctypes.c_void_p, name: str) -> tuple[int, int]:
        """Return address and size of a module's variable."""
        size = ctypes.c_size_t()
        found = self.driver.ask("cuModuleGetGlobal_v2", ctypes.c_uint64, ctypes.byref(size), module, name.encode())
        return found.value, size.value

    def allow_shared(self, function: ctypes.c_void_p, size: int) -> None:
        """Allow a kernel so much dynamic shared memory at launch."""
        self.driver.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, ctypes.c_int(size))

    def carve_out(self, function: ctypes.c_void_p, percent: int) -> None:
        """Ask for a share of the first-level memory as shared memory; -1 leaves it to the driver."""
        self.driver.call("cuFuncSetAttribute", function, _CARVE_OUT, ctypes.c_int(percent))

    def static_shared_bytes(self, function: ctypes.c_void_p) -> int:
        """Return the shared memory that a kernel's code asks for."""
        return self.driver.ask("cuFuncGetAttribute", ctypes.c_int, _STATIC_SHARED, function).value

    def blocks_per_sm(self, function: ctypes.c_void_p, threads: int, shared: int) -> int:
        """Return how many blocks fit on an SM by the driver's own calculation."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return self.driver.ask(name, ctypes.c_int, function, threads, ctypes.c_size_t(shared)).value

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes."""
        try:
            return self.driver.ask("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(size)).value
        except DriverError as error:
            if error.code == _NO_MEMORY:
                missing = f"the GPU has no {size >> 20} MiB free"
                raise WarplensError(f"{missing}: another process has them (see `nvidia-smi`)") from None
            raise

    def free(self, address: int) -> None:
        """Give memory back."""
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(address))

    def clear(self, address: int, size: int) -> None:
        """Set bytes to zero; does not wait."""
        self.driver.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size))

    def put(self, address: int, data: np.ndarray[Any, Any]) -> None:
        """Copy an array to the GPU."""
        data = np.ascontiguousarray(data)
        where, size = ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), where, size)

    def get(self, address: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Fill an array from the GPU; waits for what was launched before."""
        where, size = ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", where, ctypes.c_uint64(address), size)
        return data

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the GPU; does not wait."""
        self.driver.call("cuMemcpyDtoD_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size))

    def launch(
        self, function: ctypes.c_void_p, blocks: Shape, threads: Shape, shared: int, arguments: Sequence[Any]
    ) -> None:
        """Launch a kernel with ctypes values for arguments; does not wait. Blocks and threads may be in x, y, z."""
        pointers = [ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments]
        array = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        extents = [(n, 1, 1) if isinstance(n, int) else n for n in (blocks, threads)]
        shape = [ctypes.c_uint(n) for extent in extents for n in extent]
        self.driver.call("cuLaunchKernel", function, *shape, ctypes.c_uint(shared), None, array, None)

    def mark(self, which: int) -> None:
        """Record one of the two events."""
        self.driver.call("cuEventRecord", self._events[which], None)

    def elapsed_seconds(self) -> float:
        """Wait for the second event; return the time between the two."""
        milliseconds = ctypes.c_float()
        self.driver.call("cuEventSynchronize", self._events[1])
        self.driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), *self._events)
        return milliseconds.value / 1e3

    def wait(self) -> None:
        """Wait for all that was launched."""
        self.driver.call("cuCtxSynchronize")
