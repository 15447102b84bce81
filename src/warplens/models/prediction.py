"""Prediction of a model: the time, the limit, and every term with its equation number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
from msgspec import Struct

from warplens.core.units import number, printable, seconds, sure
from warplens.machine import Machine
from warplens.models.bounds import Residency
from warplens.simulator.simulation import Simulation
from warplens.workload import Number, Workload

# The limit of a kernel whose latency is not hidden, by the largest part of its time.
_LATENCY_OF = {"dram": "dram latency", "l2": "l2 latency", "l1": "l1 latency", "barriers": "barriers",
               "shared memory": "shared memory latency", "dependency": "instruction latency", "launch": "launch",
               "tail": "the last blocks"}  # fmt: skip


class Term(Struct, frozen=True):
    """One intermediate value under the paper's own symbol."""

    value: Number
    unit: str = ""
    equation: str = ""


class Work(Struct, frozen=True):
    """The work of one warp, by which a throughput becomes familiar rates."""

    instructions: Number
    fp32_ops: Number
    dram_bytes: Number
    active_sms: Number
    clock_hz: float


class Prediction(Struct, frozen=True, kw_only=True):
    """A model's answer. Each number may be an array over configurations."""

    model: str
    machine: str
    workload: str
    per: str  # "kernel"; of a steady-state workload "body and SM"; "program" of several kernels
    warps_per_sm: Number
    cycles: Number | None  # the kernel's duration; None from a model that only gives the warps needed
    seconds: Number | None
    bounds: list[str]
    bound_index: Any  # into `bounds`
    needed_warps_per_sm: Number | None = None
    throughput_warps_per_cycle: Number | None = None
    work: Work | None = None
    limits: dict[str, Number] = {}  # cycles that each limit alone would take
    parts: dict[str, Number] = {}  # cycles that add up to `cycles`
    terms: dict[str, Term] = {}
    notes: list[str] = []
    flags: list[str] = []  # what is physically impossible about the answer
    interval_seconds: tuple[float, float] | None = None  # at 90 % (warplens/intervals.py)
    interval_about: str = ""  # the evidence of the interval, or why there is none
    simulation: Simulation | None = None  # of a model that simulates
    why_not_ours: str = ""  # why our own model has no answer, where another model's is shown

    def __repr__(self) -> str:
        """Return the answer in two lines, as the console shows it."""
        head = f"{printable(self.workload)} on {printable(self.machine)}"
        answer = self.warps_per_sm if self.seconds is None else self.seconds
        if np.ndim(answer):
            return f"{head}\n  {np.size(answer):,} times by {self.model}"
        head += f": {number(float(self.warps_per_sm))} warps per SM"
        if self.seconds is None:
            return f"{head}\n  {self.model} gives no time"
        time = seconds(float(self.seconds)) + ("" if self.per in ("kernel", "program") else f" per {self.per}")
        time += f", {sure(self.interval_seconds)}" if self.interval_seconds is not None else ""
        return f"{head}\n  {time}   by {self.model}      limited by: {self.limited_by}"

    @property
    def bound(self) -> Any:
        """Name of the kernel's limit; an array of names for an array of configurations."""
        if np.ndim(self.bound_index) == 0:
            return self.bounds[int(self.bound_index)]
        return np.asarray(self.bounds)[self.bound_index]

    @property
    def limited_by(self) -> str:
        """Name of the kernel's limit for readers: the latency of the largest part of the time, or the launch.

        The launch is the limit where it takes longer than the bound alone.
        """
        bound = str(self.bound)
        if bound != "latency" and bound in self.limits and self._launch_cycles > float(self.limits[bound]):
            return "launch"
        waits = {name: float(cycles) for name, cycles in self.parts.items() if name in _LATENCY_OF}
        if bound != "latency" or not waits:
            return bound
        return _LATENCY_OF[max(waits, key=lambda name: waits[name])]

    @property
    def alone(self) -> dict[str, float]:
        """Cycles that each limit alone would take and the launch, longest first, by the names of `limited_by`."""
        limits = {name: float(cycles) for name, cycles in self.limits.items()}
        if self.bound == "latency" and self.limited_by.endswith("latency"):
            limits[self.limited_by] = limits.pop("latency")
        if self._launch_cycles:
            limits["launch"] = self._launch_cycles
        return dict(sorted(limits.items(), key=lambda item: -item[1]))

    @property
    def _launch_cycles(self) -> float:
        return float(self.parts.get("launch", 0.0))

    @property
    def ipc(self) -> Number | None:
        """Instructions per cycle and SM."""
        return self._rate(lambda work: work.instructions)

    @property
    def fp32_ops_per_cycle(self) -> Number | None:
        """Single-precision operations per cycle and SM (the dissertation's adds/cycle)."""
        return self._rate(lambda work: work.fp32_ops)

    @property
    def dram_bytes_per_second(self) -> Number | None:
        """DRAM traffic of the whole device."""
        return self._rate(lambda work: work.dram_bytes * work.active_sms * work.clock_hz)

    def _rate(self, per_warp: Callable[[Work], Number]) -> Number | None:
        if self.throughput_warps_per_cycle is None or self.work is None:
            return None
        return plain(self.throughput_warps_per_cycle * per_warp(self.work))


class Details(TypedDict, total=False):
    """Optional parts of an answer (see Prediction)."""

    limits: dict[str, Number]
    parts: dict[str, Number]
    needed: Number  # warps per SM
    clock_hz: float  # where it is not the machine's
    notes: list[str]
    simulation: Simulation | None


def answer(
    model: str,
    workload: Workload,
    machine: Machine,
    residency: Residency,
    *,
    cycles: Number | None,
    bounds: dict[str, Any] | str,
    terms: dict[str, Term],
    **details: Unpack[Details],
) -> Prediction:
    """Assemble a Prediction from the cycles of the whole kernel (steady state: of one body per SM).

    `bounds` is the name of the bound, or names with a condition each: the first whose condition holds is the bound, the
    last one if none holds.
    """
    names = [bounds] if isinstance(bounds, str) else list(bounds)
    index = np.intp(0) if isinstance(bounds, str) else _first(list(bounds.values()))
    clock = details.get("clock_hz", machine.chip.clock_hz)
    needed = details.get("needed")
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = None if cycles is None else np.divide(residency.warps_on_sm, cycles)
    return Prediction(
        model=model,
        machine=machine.id,
        workload=workload.name,
        per="body and SM" if workload.steady else "kernel",
        warps_per_sm=plain(residency.warps_per_sm),
        cycles=None if cycles is None else plain(cycles),
        seconds=None if cycles is None else plain(cycles / clock),
        bounds=names,
        bound_index=index,
        needed_warps_per_sm=None if needed is None else plain(needed),
        throughput_warps_per_cycle=None if rate is None else plain(rate),
        work=Work(
            workload.total(),
            workload.executed().get("fp32", 0.0) * machine.sm.warp_size,
            workload.dram_bytes(),
            residency.active_sms,
            clock,
        ),
        limits={name: plain(value) for name, value in details.get("limits", {}).items()},
        parts={name: plain(value) for name, value in details.get("parts", {}).items()},
        terms={name: Term(plain(t.value), t.unit, t.equation) for name, t in terms.items()},
        notes=details.get("notes", []),
        simulation=details.get("simulation"),
    )


def plain(x: Any) -> Number:
    """Return a zero-dimensional result as a float, and arrays unchanged."""
    return float(x) if np.ndim(x) == 0 else x


def _first(conditions: list[Any]) -> Any:
    """Return the index of the first condition that holds, or of the last one."""
    index: Any = np.intp(len(conditions) - 1)
    for i in range(len(conditions) - 2, -1, -1):
        index = np.where(conditions[i], i, index)
    return index
