"""Timing of the best candidates on the GPU at hand, and their choice, one by one, by the greatest expected gain.

The model's error, log(measured / predicted), is assumed to be normal. One part is common to all candidates of a kernel,
one to those with the same limit, and one to neighbours, less so over a distance. Estimates add an error of their own,
whose size the search has found. A timed candidate gives the error there, so that the predictions of all others
move with it and become surer nearby. Timed next is the candidate whose expected gain over the fastest so far is the
greatest: one that is predicted to be fast, or one that is uncertain (expected improvement: Jones, Schonlau and Welch
1998).

No size of an error comes from a tuning space: they are those of our model on the train set of kernels, where the means
of functions differ by `COMMON`, launches of one function by `LIMIT` more where another part of the machine limits
them, and by `OWN` where it is the same one. The part of neighbours falls to 1/e over the length of an axis.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.core.driver import Driver, Gpu
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.program.compile import compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.declarations import choose as choose_kernel
from warplens.tuner.expression import Value
from warplens.tuner.spec import Configuration, Sweep
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
# Standard deviations of log(predicted / measured) over the train set (models/warplens/confidence.json): of the means of
# its functions; of two launches of a function, over the root of two, with the same limit; what another limit adds.
COMMON, OWN, LIMIT = 0.099, 0.073, 0.054
_NOISE = 0.005  # of a measured median: the difference of two runs (data/h200/suite/tuning/README.md)
_LEAST_VARIANCE = 1e-12  # where every estimate was right, all others are zero
_FAILED = 3.0  # standard deviations: an error beyond is a failed prediction, and tells little about its neighbours

Floats = npt.NDArray[np.float64]


class Candidate(Struct, frozen=True):
    """A legal configuration: predicted where it was emulated, estimated else."""

    number: int
    values: dict[str, Value]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seconds: float
    emulated: bool
    bound: str = ""
    position: tuple[float, ...] = ()  # from 0 to 1 on each axis
    doubt: float = 0.0  # standard deviation of the logarithm of an estimate over the prediction


def choose(
    candidates: Sequence[Candidate], count: int, measure: Callable[[Candidate], float]
) -> list[tuple[Candidate, float]]:
    """Measure so many candidates, the first one first; return them in this order with their seconds."""
    errors = _Errors(candidates)
    chosen, found = list[int](), list[float]()
    while len(chosen) < min(count, len(candidates)):
        gains = errors.gains(chosen, np.log(found)) if chosen else -np.arange(len(candidates), dtype=float)
        gains[chosen] = -math.inf
        chosen.append(int(gains.argmax()))
        found.append(measure(candidates[chosen[-1]]))
    return [(candidates[at], seconds) for at, seconds in zip(chosen, found, strict=True)]


class _Errors:
    """Correlated errors of candidates, and the expected gains when some are known."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.expected: Floats = np.log([c.seconds for c in candidates])
        self.doubts = np.array([c.doubt for c in candidates])
        self.limits = np.array([c.bound for c in candidates])
        self.positions = positions(c.position for c in candidates)
        self.variance = COMMON**2 + LIMIT**2 + OWN**2 + self.doubts**2

    def gains(self, chosen: list[int], found: Floats) -> Floats:
        """Return the expected gain of each candidate over the fastest, from the log times of those chosen."""
        same = self.limits[chosen][:, None] == self.limits
        sizes = OWN**2 + self.doubts[chosen][:, None] * self.doubts
        between = COMMON**2 + LIMIT**2 * same + sizes * nearness(self.positions, chosen)
        off = found - self.expected[chosen]
        noise = _NOISE**2 + failures(off, np.sqrt(self.variance[chosen]))
        mean, deviation = posterior(between, chosen, self.variance, off, noise)
        return expected_gain(found.min() - self.expected - mean, deviation)


def positions(of: Iterable[tuple[float, ...]]) -> Floats:
    """Return the positions of candidates, a row each."""
    rows = list(of)
    table: Floats = np.array(rows, dtype=float).reshape(len(rows), -1)
    return table


def nearness(positions: Floats, known: Sequence[int]) -> Floats:
    """Return the correlation of errors of some with those of all: 1 at no distance, 1/e over the length of an axis."""
    correlation: Floats = np.exp(-np.sqrt(((positions[known][:, None] - positions) ** 2).sum(2)))
    return correlation


def failures(off: Floats, deviation: Floats) -> Floats:
    """Return the variance of errors that others do not share: an error far beyond its deviation is a failure."""
    variance: Floats = np.where(np.abs(off) > _FAILED * deviation, off**2, 0.0)
    return variance


def posterior(
    between: Floats, known: Sequence[int], variance: Floats, off: Floats, noise: float | Floats
) -> tuple[Floats, Floats]:
    """Return mean and deviation of normal errors of which some are known, from the covariances of these with all."""
    weights = np.linalg.solve(between[:, known] + (noise + _LEAST_VARIANCE) * np.eye(len(known)), between)
    left = variance - (weights * between).sum(0)
    return off @ weights, np.sqrt(np.maximum(left, _LEAST_VARIANCE))


def expected_gain(gain: Floats, deviation: Floats) -> Floats:
    """Return the mean of the positive part of normal gains."""
    z = gain / deviation
    below = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in z])
    expected: Floats = gain * below + deviation * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return expected


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
        kernel = choose_kernel(parse_cubin(cubin, str(path)).kernels(), call.kernel, str(path))
        return timer.seconds(call, cubin, kernel)

    return seconds


def measure(sweep: Sweep, candidates: Sequence[Candidate], measure_call: Measure, top: int) -> list[Measured]:
    """Time so many candidates, each chosen by the times of those before it; return them, the fastest first.

    All of them are timed again, and the least counts: one timing alone may be off by more than they differ.
    """
    calls = {c.number: c.call for c in sweep.configurations() if isinstance(c, Configuration)}
    timed = choose(candidates, top, lambda candidate: measure_call(calls[candidate.number]))
    chosen, first = zip(*timed, strict=True)
    again = ([measure_call(calls[candidate.number]) for candidate in chosen] for _ in range(_PASSES - 1))
    least = map(min, zip(first, *again, strict=True))
    return sorted(map(Measured, chosen, least), key=lambda m: m.seconds)
