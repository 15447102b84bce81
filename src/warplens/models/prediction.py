"""What a model says: the time, the bound, and every term on the way with its equation number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.units import number, printable, seconds, sure
from warplens.machine import Machine
from warplens.models.residency import Residency
from warplens.simulator.simulation import Simulation
from warplens.workload import Number, Workload

# What limits a kernel whose latency is not hidden, by the part of its time that is the largest.
_LATENCY_OF = {"dram": "dram latency", "l2": "l2 latency", "l1": "l1 latency", "barriers": "barriers",
               "shared memory": "shared memory latency", "dependency": "instruction latency", "launch": "launch",
               "tail": "the last blocks"}  # fmt: skip


class Term(Struct, frozen=True):
    """One intermediate value under the paper's own symbol."""

    value: Number
    unit: str = ""
    equation: str = ""


class Work(Struct, frozen=True):
    """What one warp does, to turn a throughput into rates that people know."""

    instructions: Number
    fp32_ops: Number
    dram_bytes: Number
    active_sms: Number
    clock_hz: float


class Prediction(Struct, frozen=True, kw_only=True):
    """A model's answer. Arrays in, arrays out: each number may be an array over configurations.

    `cycles` and `seconds` are the kernel's duration; for a steady-state workload, what one SM spends per
    body. A model that only says how many warps are needed has None there. `limits` are the cycles that each
    limit alone would take; `parts` what the time is made of, as cycles that add up to `cycles`. `interval_seconds` is
    what we are 90 % sure of (warplens/intervals.py), `interval_about` what that rests on, or why there is none. `flags`
    say in words what is physically impossible about the answer. `simulation` is there where the model simulated.
    `why_not_ours` says why our own model is silent, where another answers in its stead.
    """

    model: str
    machine: str
    workload: str
    per: str
    warps_per_sm: Number
    cycles: Number | None
    seconds: Number | None
    bounds: list[str]
    bound_index: Any
    needed_warps_per_sm: Number | None = None
    throughput_warps_per_cycle: Number | None = None
    work: Work | None = None
    limits: dict[str, Number] = {}
    parts: dict[str, Number] = {}
    terms: dict[str, Term] = {}
    notes: list[str] = []
    flags: list[str] = []
    interval_seconds: tuple[float, float] | None = None
    interval_about: str = ""
    simulation: Simulation | None = None
    why_not_ours: str = ""

    def __repr__(self) -> str:
        """Say the answer in two lines, as the console does: all of it has its names."""
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
        """The name of what limits the kernel; an array of names for an array of configurations."""
        if np.ndim(self.bound_index) == 0:
            return self.bounds[int(self.bound_index)]
        return np.asarray(self.bounds)[self.bound_index]

    @property
    def limited_by(self) -> str:
        """The name of what limits the kernel, in words: of latency, whose it is, by the largest part of the time.

        It is the launch where this takes longer than the bound alone.
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


def answer(
    model: str,
    workload: Workload,
    machine: Machine,
    residency: Residency,
    *,
    cycles: Number | None,
    bounds: dict[str, Any] | str,
    terms: dict[str, Term],
    limits: dict[str, Number] | None = None,
    parts: dict[str, Number] | None = None,
    needed: Number | None = None,
    clock_hz: float | None = None,
    notes: list[str] | None = None,
    simulation: Simulation | None = None,
) -> Prediction:
    """Assemble a Prediction from the cycles of the whole kernel (steady state: of one body per SM).

    `bounds` is the name of the bound, or names with a condition each: the first that holds is the bound,
    the last name is taken where none holds.
    """
    names = [bounds] if isinstance(bounds, str) else list(bounds)
    index = np.intp(0) if isinstance(bounds, str) else _first(list(bounds.values()))
    clock = machine.chip.clock_hz if clock_hz is None else clock_hz
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
        limits={name: plain(value) for name, value in (limits or {}).items()},
        parts={name: plain(value) for name, value in (parts or {}).items()},
        terms={name: Term(plain(t.value), t.unit, t.equation) for name, t in terms.items()},
        notes=notes or [],
        simulation=simulation,
    )


def plain(x: Any) -> Number:
    """Turn a zero-dimensional result into a float; leave arrays as they are."""
    return float(x) if np.ndim(x) == 0 else x


def _first(conditions: list[Any]) -> Any:
    """Return the index of the first condition that holds, of the last one where none does."""
    index: Any = np.intp(len(conditions) - 1)
    for i in range(len(conditions) - 2, -1, -1):
        index = np.where(conditions[i], i, index)
    return index
