"""Session on a GPU that measures: its memory, its kernels, their launches, a watch on the clock.

A sample at another clock than the reference is done again after warming up, three times at most; then it is kept with a
mark, and nothing is derived from it (Volkov 2016 §5.4). So is one where twice as much took no longer: that cannot be.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.core.driver import Facts, Gpu
from warplens.core.errors import WarplensError
from warplens.laboratory import stamps
from warplens.laboratory.nvml import State, Watch
from warplens.laboratory.source import RECORD_WORDS, ZERO_AT

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
SCHEDULERS = 4  # of an SM, on every GPU from compute capability 7.5 on
_RECORDS_BYTES, _OUT_BYTES = 32 * MIB, 64 * MIB
_CLOCK_TOLERANCE = 0.01
_TRIES, _REDO_SECONDS = 3, 30.0  # for one sample, for a whole run
_WARM_CYCLES = 2_000_000
OUT_START = 256  # byte of `out` where a kernel's own results begin
_MOMENTS_AT, _MOST_SMS = _OUT_BYTES - 32 * KIB, 1024  # where in `out` SMs leave moments, before and behind a sample

# What every kernel takes beside its three arrays; what a number means is the template's.
_NUMBERS: dict[str, Any] = {
    "size": ctypes.c_uint64, "trips": ctypes.c_uint32, "a": ctypes.c_uint32, "b": ctypes.c_uint32,
    "c": ctypes.c_uint32, "value": ctypes.c_float,
}  # fmt: skip


class Unfit(WarplensError):
    """A point that this GPU cannot run: too many warps, registers or bytes."""


@dataclass(frozen=True)
class Residency:
    """Resident blocks of an SM: their number, threads of each, shared memory that keeps further blocks away."""

    blocks_per_sm: int
    threads: int
    shared: int


class Laboratory:
    """One GPU with buffers and kernels."""

    def __init__(self, gpu: Gpu, facts: Facts, watch: Watch, cubins: dict[str, bytes]) -> None:
        """Take memory: at most 64 GiB, and no more than half of what is free; plans leave 1 GiB of it to others."""
        self.gpu, self.facts, self.watch = gpu, facts, watch
        self._cubins, self._modules, self._functions = cubins, dict[int, Any](), dict[str, Any]()
        self.data_bytes = min(64 * GIB, facts.free_bytes // 2) // GIB * GIB
        if self.data_bytes < 2 * GIB:
            raise WarplensError(f"measuring needs 4 GiB of free GPU memory, {facts.free_bytes >> 20} MiB are free")
        self.data = gpu.allocate(self.data_bytes)
        self.records, self.out = gpu.allocate(_RECORDS_BYTES), gpu.allocate(_OUT_BYTES)
        gpu.clear(self.data, self.data_bytes)
        self._filled: tuple[int, ...] = ()
        self.reference_ghz = 0.0
        self.timer_ns = 1.0
        self.redo_seconds = _REDO_SECONDS

    def function(self, name: str) -> ctypes.c_void_p:
        """Return a kernel, loaded when first used."""
        if name not in self._functions:
            if name not in self._cubins:
                raise WarplensError(f"kernel {name} was not built for {self.facts.arch}")
            cubin = self._cubins[name]
            if id(cubin) not in self._modules:
                self._modules[id(cubin)] = self.gpu.load(cubin)
            self._functions[name] = self.gpu.function(self._modules[id(cubin)], name)
        found: ctypes.c_void_p = self._functions[name]
        return found

    def variable(self, kernel: str, name: str) -> int:
        """Return the address of a variable in the module of a kernel."""
        self.function(kernel)
        return self.gpu.variable(self._modules[id(self._cubins[kernel])], name)[0]

    def residency(self, name: str, warps_per_sm: int, *, limit: bool = True, threads: int = 0) -> Residency:
        """Return how to put so many warps on each SM: one block up to 1024 threads, else as few as need be.

        With `limit` the rest of the shared memory is taken, so that no further block fits (§5.7). With `threads` the
        blocks have no more than these.
        """
        if warps_per_sm > self.facts.warps_per_sm_max:
            raise Unfit(f"{warps_per_sm} warps per SM; this GPU has {self.facts.warps_per_sm_max} at most")
        most = (threads or self.facts.attributes["threads_per_block_max"]) // 32
        blocks = next(n for n in range(1, 65) if warps_per_sm % n == 0 and warps_per_sm // n <= most)
        function, threads, shared = self.function(name), warps_per_sm // blocks * 32, 0
        if limit:
            a, static = self.facts.attributes, self.gpu.static_shared_bytes(function)
            each = a["shared_per_sm_bytes"] // blocks - a["shared_reserved_bytes"] - static
            shared = max(0, min(each, a["shared_per_block_max_bytes"] - static) // 1024 * 1024)
            self.gpu.allow_shared(function, shared)
        fits = self.gpu.blocks_per_sm(function, threads, shared)
        if fits < blocks:
            raise Unfit(f"{blocks} blocks of {threads} threads of {name} do not fit on an SM: {fits} do")
        return Residency(blocks, threads, shared)

    def launch(
        self, name: str, blocks: int, threads: int, shared: int = 0, *, offset: int = 0, **numbers: float
    ) -> None:
        """Launch a kernel with its numbers by name; does not wait. `offset` moves the beginning of the data."""
        if unknown := numbers.keys() - _NUMBERS.keys():
            raise TypeError(f"kernels take {', '.join(_NUMBERS)}, not {', '.join(unknown)}")
        arguments: list[Any] = [ctypes.c_uint64(at) for at in (self.records, self.data + offset, self.out)]
        for key, kind in _NUMBERS.items():
            value = numbers.get(key, 0)
            arguments.append(kind(int(value) & 0xFFFFFFFF) if kind is ctypes.c_uint32 else kind(value))
        self.gpu.launch(self.function(name), blocks, threads, shared, arguments)

    def stamped(self, name: str, blocks: int, threads: int, shared: int = 0, **arguments: Any) -> np.ndarray[Any, Any]:
        """Launch a kernel, wait, and return its records."""
        warps = blocks * ((threads + 31) // 32)
        if (warps + 1) * RECORD_WORDS * 8 > _RECORDS_BYTES:
            raise Unfit(f"{warps} warps leave more stamps than there is room for")
        self.gpu.clear(self.records, (warps + 1) * RECORD_WORDS * 8)  # behind the last one the blocks are counted
        self.launch(name, blocks, threads, shared, **arguments)
        return self.gpu.get(self.records, np.empty(warps * RECORD_WORDS, np.uint64))

    def sample(self, name: str, blocks: int, threads: int, shared: int = 0, **arguments: Any) -> dict[str, float]:
        """Launch a kernel and reduce its stamps; a sample at another clock is done again."""
        return self.steady(lambda: stamps.reduce(self.stamped(name, blocks, threads, shared, **arguments)))

    def watched(self, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Take a sample that has no clock of its own: timed by events, by the GPU's timer, by single latencies.

        Every SM reads timer and clock before it and behind it, so that the mean clock of the whole sample is known.
        """
        values = self.steady(lambda: self.clocked(take))
        return {**{key: value for key, value in values.items() if key != "span_ns"}, "ghz": round(values["ghz"], 4)}

    def clocked(self, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Take a sample with its clock, whatever that is."""
        sms = self.facts.sm_count
        self.gpu.clear(self.out + _MOMENTS_AT, 2 * _MOST_SMS * 16)
        self.launch("moment", sms, 32, a=_MOMENTS_AT // 8)
        values = take()
        self.launch("moment", sms, 32, a=_MOMENTS_AT // 8 + 2 * _MOST_SMS)
        words = self.gpu.get(self.out + _MOMENTS_AT, np.empty(4 * _MOST_SMS, np.uint64)).reshape(2, -1, 2)
        seen = words[:, (words[:, :, 0] > 0).all(axis=0)].astype(np.int64)  # SMs that both launches came to
        nanoseconds, ticks = (seen[1] - seen[0]).T
        if not len(ticks):
            return {**values, "ghz": 0.0}
        return {**values, "ghz": float(np.median(ticks / nanoseconds)), "span_ns": float(nanoseconds.min())}

    def steady(self, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Take a sample until its clock is the reference; mark it if it never is, or if too much time went into it."""
        tries, values = 0, take()
        while not (self._is_steady(values) and stamps.possible(values)):
            if tries >= _TRIES or self.redo_seconds <= 0:
                return {**values, "redone": tries, **({} if self._is_steady(values) else {"off_clock": 1})}
            begin = time.monotonic()
            self.warm_up(0.02)
            tries, values = tries + 1, take()
            self.redo_seconds -= time.monotonic() - begin
        return {**values, "redone": tries} if tries else values

    def _is_steady(self, values: dict[str, Any]) -> bool:
        if not self.reference_ghz or not values.get("ghz"):
            return True
        blur = 2 * self.timer_ns / max(values.get("span_ns", 0.0), 1.0)  # the timer ticks coarsely
        return bool(abs(values["ghz"] / self.reference_ghz - 1) <= _CLOCK_TOLERANCE + blur)

    def warm_up(self, seconds: float) -> float:
        """Keep all SMs busy for a while; return the clock in GHz at the end."""
        end, ghz = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            records = self.stamped("warm", self.facts.sm_count, 1024, size=_WARM_CYCLES, value=1.0)
            ghz = stamps.reduce(records)["ghz"]
        return ghz

    def find_reference(self) -> None:
        """Take the clock that the GPU holds under load for reference, and see how finely its timer ticks."""
        self.warm_up(0.5)
        clocks = []
        for _ in range(9):
            records = self.stamped("warm", self.facts.sm_count, 1024, size=_WARM_CYCLES, value=1.0)
            clocks.append(stamps.reduce(records)["ghz"])
            stamped = stamps.columns(records)
            moments = np.unique(np.r_[stamped["start_ns"], stamped["end_ns"]])
            ticks = np.diff(moments[moments > 0])
            self.timer_ns = float(np.gcd.reduce(ticks)) if len(ticks) else self.timer_ns
        self.reference_ghz = float(np.median(clocks))

    @contextlib.contextmanager
    def at_own_clock(self, take: Callable[[], dict[str, float]]) -> Iterator[None]:
        """Take the clock that a kernel itself holds for reference: some instructions make the GPU lower it."""
        reference = self.reference_ghz
        self.reference_ghz = float(np.median([take()["ghz"] for _ in range(5)]))
        try:
            yield
        finally:
            self.reference_ghz = reference

    def operands(self, register: str, values: tuple[float, ...] = (1.0, 0.5, 0.25, 0.75, 0.5)) -> None:
        """Write what chains begin with and combine with, as the register's type, and a zero to add."""
        kinds = {"f": np.float32, "d": np.float64, "r": np.uint32, "l": np.uint64}
        raw = np.zeros(OUT_START, np.uint8)
        given = np.array(values if register in "fd" else [int(64 * v) for v in values], kinds[register])
        raw[: given.nbytes] = given.view(np.uint8)
        raw[ZERO_AT : ZERO_AT + 4] = 0
        self.gpu.put(self.out, raw)

    def zeros(self) -> None:
        """Set all operands to zero."""
        self.gpu.put(self.out, np.zeros(OUT_START, np.uint8))

    def results(self, count: int, kind: Any = np.uint32) -> np.ndarray[Any, Any]:
        """Return what a kernel wrote to `out`."""
        return self.gpu.get(self.out + OUT_START, np.empty(count, kind))

    def fill(self, entries: int, step: int, section: int, width: int, *, random: bool = False, offset: int = 0) -> None:
        """Write a chain into the data, unless it is there already."""
        key = (entries, step, section, width, int(random), offset)
        if entries * width + offset > self.data_bytes:
            raise Unfit(f"{entries * width >> 20} MiB of data; {self.data_bytes >> 20} MiB are there")
        if key != self._filled:
            where = {"offset": offset, "size": entries, "a": step, "b": section, "c": width, "trips": int(random)}
            self.launch("fill", 16 * self.facts.sm_count, 512, **where)
            self._filled = key

    def touch(self, size: int, offset: int = 0, times: int = 1) -> None:
        """Read a part of the data, so that it lies in the L2 cache."""
        self.launch("touch", 4 * self.facts.sm_count, 512, size=size, trips=times, offset=offset)

    def flush(self) -> None:
        """Clear the L2 cache: read more than twice what fits, elsewhere. Nothing is left to write back."""
        size = max(256 * MIB, 4 * self.facts.attributes["l2_bytes"])
        self.touch(size // MIB * MIB, self.data_bytes - size // MIB * MIB)

    def forget(self) -> None:
        """Forget the chain that was in the data: it was written over."""
        self._filled = ()

    def state(self) -> State:
        """Return clocks, temperature and throttling."""
        return self.watch.state()
