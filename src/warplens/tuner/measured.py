"""Measure the best candidates of a search on the GPU at hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from warplens.core.driver import Driver, Gpu
from warplens.machine import Machine
from warplens.program.compile import compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.kernel_names import choose
from warplens.tuner.choose import Candidate
from warplens.tuner.spec import Configuration, Sweep
from warplens.tuner.timing import Timer
from warplens.tuner.tune import Tuned
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.launch import KernelCall

Measure = Callable[[KernelCall], float]
_PASSES = 3  # of ten launches each; on an H200 the first of three was 2.3 to 2.8 % above the least in 3 of 80


class Measured(Struct, frozen=True):
    """A candidate and its measured time."""

    candidate: Candidate
    seconds: float


def on_gpu(machine: Machine) -> Measure:
    """Return what times a call on the first GPU; where there is none, that is said."""
    timer = Timer(Gpu(Driver()))

    def seconds(call: KernelCall) -> float:
        path, options = source_of(call, architecture(machine, OLDEST))
        with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
            cubin = compile_file(path, options, Path(folder)).cubin.read_bytes()
        kernel = choose(parse_cubin(cubin, str(path)).kernels(), call.kernel, str(path))
        return timer.seconds(call, cubin, kernel)

    return seconds


def measure(sweep: Sweep, tuned: Tuned, measure_call: Measure, top: int) -> list[Measured]:
    """Time so many candidates, each chosen by what the ones before it took; return them, the fastest first.

    All of them are timed again in turn, and the least counts: one timing alone may be off by more than they differ.
    """
    calls = {c.number: c.call for c in sweep.configurations() if isinstance(c, Configuration)}
    timed = tuned.measured(top, lambda candidate: measure_call(calls[candidate.number]))
    chosen, first = zip(*timed, strict=True)
    again = ([measure_call(calls[candidate.number]) for candidate in chosen] for _ in range(_PASSES - 1))
    least = map(min, zip(first, *again, strict=True))
    return sorted(map(Measured, chosen, least), key=lambda m: m.seconds)
