"""A GPU that is not there: takes launches, leaves plausible stamps. For the plans, the journal, redone samples."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from warplens.core.driver import Facts
from warplens.laboratory.nvml import State
from warplens.laboratory.source import RECORD_WORDS

ATTRIBUTES = {
    "threads_per_block_max": 1024, "shared_per_block_bytes": 49152, "constant_bytes": 65536, "warp_size": 32,
    "clock_khz": 1980000, "sm_count": 12, "memory_clock_khz": 3201000, "memory_bus_bits": 6144, "l2_bytes": 62914560,
    "threads_per_sm_max": 2048, "major": 9, "minor": 0, "l1_for_globals": 1, "shared_per_sm_bytes": 233472,
    "registers_per_sm": 65536, "shared_per_block_max_bytes": 232448, "blocks_per_sm_max": 32,
    "shared_reserved_bytes": 1024,
}  # fmt: skip


def facts() -> Facts:
    return Facts("NVIDIA Fake", "00" * 16, 13000, 141 << 30, 80 << 30, ATTRIBUTES)


class FakeWatch:
    there = False

    def state(self) -> State:
        return State()

    def driver_version(self) -> str | None:
        return None

    def memory_max_mhz(self) -> int | None:
        return None


class FakeGpu:
    """Warps take `cycles_per_trip` for a trip; the clock is `ghz`; each launch is remembered."""

    def __init__(self, ghz: float = 2.0) -> None:
        self.ghz, self.launches = ghz, list[tuple[str, int, int, int]]()
        self.next, self.fails_at = 1 << 40, -1
        self.last: tuple[str, int, int, list[Any]] = ("", 0, 0, [])

    def allocate(self, size: int) -> int:
        self.next += size
        return self.next - size

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        return ctypes.c_void_p(1)

    def function(self, module: Any, name: str) -> Any:
        return name

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        return 1 << 20, 65536

    def static_shared_bytes(self, function: Any) -> int:
        return 0

    def blocks_per_sm(self, function: Any, threads: int, shared: int) -> int:
        by_shared = 233472 // (shared + 1024)
        return min(by_shared, 2048 // threads, 32)

    def launch(self, function: str, blocks: int, threads: int, shared: int, arguments: list[Any]) -> None:
        self.launches.append((function, blocks, threads, shared))
        self.last = (function, blocks, threads, arguments)

    def get(self, address: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if data.dtype != np.uint64:
            data[:] = 300 + np.arange(data.size) % 50
            return data
        function, _, threads, arguments = self.last
        if function == "moment":  # before and behind a sample: pairs of nanoseconds and cycles for each SM
            data.reshape(2, -1, 2)[:] = [[[1000, 1000 * self.ghz]], [[101000, 101000 * self.ghz]]]
            return data
        warps = -(-threads // 32)
        size, trips = arguments[3].value, arguments[4].value
        cycles = min(
            max(size, 500) if function in ("warm", "blocks") or "stream" in function else 500 + 100 * trips, 1 << 40
        )
        table = data.reshape(-1, RECORD_WORDS)
        number = np.arange(len(table))
        table[:, 0] = 1000 + number // warps // 12 * (cycles + 700)
        table[:, 1] = table[:, 0] + cycles + number % 7
        table[:, 2] = table[:, 0] / self.ghz
        table[:, 3] = table[:, 1] / self.ghz
        table[:, 4] = number // warps % 12
        table[:, 5] = 100
        table[:, 6:8] = table[:, 0:2]
        return data

    def elapsed_seconds(self) -> float:
        return 1e-4 + 1e-6 * len(self.launches)  # twice as much, which comes later, takes longer

    def __getattr__(self, name: str) -> Any:  # what leaves no trace: copies, events, attributes, waiting
        if name in ("clear", "put", "copy", "wait", "mark", "allow_shared", "carve_out", "close"):
            return lambda *_: None
        raise AttributeError(name)
