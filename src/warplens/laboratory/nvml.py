"""Clocks, temperature, throttling and other processes of a GPU, by NVML through ctypes. Without it all is None.

NVML looks, it changes nothing: clocks are measured as they are found.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_SM, _MEMORY = 1, 2
# What throttle reasons mean, by bit; idle and the clocks that an application asked for are no throttling.
_REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal, software", 0x40: "thermal, hardware",
    0x80: "power brake",
}  # fmt: skip


@dataclass(frozen=True)
class State:
    """A GPU at one moment."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    sm_max_mhz: int | None = None
    temperature_celsius: int | None = None
    power_milliwatts: int | None = None
    throttled: tuple[str, ...] = ()


class Watch:
    """View of one GPU by NVML."""

    def __init__(self, uuid: str) -> None:
        """Find the GPU by the driver's UUID, which CUDA_VISIBLE_DEVICES does not renumber."""
        self._library: Any = None
        self._device = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        name = f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
        if (
            library.nvmlInit_v2() == 0
            and library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self._device)) == 0
        ):
            self._library = library

    @property
    def there(self) -> bool:
        """True if NVML answers."""
        return self._library is not None

    def _number(self, call: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        function = getattr(self._library, call, None)
        if function is None or function(self._device, *arguments, ctypes.byref(value)) != 0:
            return None
        return int(value.value)

    def state(self) -> State:
        """Return clocks, temperature, power and why the clocks are lower than they might be."""
        if not self.there:
            return State()
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong) or 0
        return State(
            sm_mhz=self._number("nvmlDeviceGetClockInfo", _SM),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", _MEMORY),
            sm_max_mhz=self._number("nvmlDeviceGetMaxClockInfo", _SM),
            temperature_celsius=self._number("nvmlDeviceGetTemperature", 0),
            power_milliwatts=self._number("nvmlDeviceGetPowerUsage"),
            throttled=tuple(text for bit, text in _REASONS.items() if reasons & bit),
        )

    def memory_max_mhz(self) -> int | None:
        """Return the memory clock's maximum."""
        return self._number("nvmlDeviceGetMaxClockInfo", _MEMORY) if self.there else None

    def driver_version(self) -> str | None:
        """Return the version of the driver, such as 580.159.04."""
        text = ctypes.create_string_buffer(96)
        if not self.there or self._library.nvmlSystemGetDriverVersion(text, 96) != 0:
            return None
        return text.value.decode("ascii", "replace")

    def other_processes(self, own: int) -> list[int] | None:
        """Return the process ids of others that compute on the GPU; None where NVML does not say."""
        if not self.there:
            return None
        count = ctypes.c_uint(64)

        class Info(ctypes.Structure):
            _fields_ = (
                ("pid", ctypes.c_uint),
                ("used", ctypes.c_ulonglong),
                ("instance", ctypes.c_uint),
                ("compute", ctypes.c_uint),
            )

        found = (Info * 64)()
        function = getattr(self._library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if function is None or function(self._device, ctypes.byref(count), found) != 0:
            return None
        return [int(found[i].pid) for i in range(count.value) if found[i].pid != own]
