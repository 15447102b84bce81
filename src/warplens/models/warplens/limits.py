"""Limits of a counted kernel: the cycles that each unit of an SM, L2 and DRAM alone would take.

Units of an SM come from the simulator's reading of the machine code (its pipes, passes and register banks), so that
both say the same. L2 and DRAM take streams and scattered accesses at the rates that were measured for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens.core.errors import MissingField
from warplens.machine import Machine
from warplens.program.instruction import Instruction
from warplens.simulator.code import Code, Step
from warplens.simulator.from_program import from_program
from warplens.simulator.simulation import busy_sms
from warplens.simulator.traffic import SECTOR_BYTES as SECTOR_BYTES
from warplens.simulator.traffic import atomic_cycles as atomic_cycles
from warplens.simulator.traffic import dram_seconds, l1_miss_cycles, l2_seconds
from warplens.simulator.units import PIPES, Units, units
from warplens.workload import Workload
from warplens.workload.profile import Profile

_NAMES = {
    "cuda cores": "fp32", "integer": "integer", "product": "integer products", "sfu units": "sfu", "fp64 units": "fp64",
    "tensor cores": "tensor cores", "warp-group products": "tensor cores",
    "shared memory": "shared memory and l1", "memory system": "shared memory and l1",
}  # fmt: skip


_LAST: list[tuple[Workload, Machine, Units, Code]] = []  # all models ask for what the first has laid out


def laid_out(workload: Workload, machine: Machine) -> tuple[Units, Code]:
    """Return the units of a machine and a counted kernel's code on them, as the simulator reads both."""
    profile = workload.profile
    if profile is None:
        raise MissingField("warplens", f"workload {workload.name}", "profile (count it with `warplens analyze`)")
    for known, on, made, laid in _LAST:
        if known is workload and on is machine:
            return made, laid
    made = units(machine, busy_sms(machine, profile.grid_blocks))
    laid = from_program(workload.code, made, profile, name=workload.name)
    _LAST[:] = [(workload, machine, made, laid)]
    return made, laid


def unit_cycles(steps: Sequence[Step], profile: Profile, on: Units) -> dict[str, float]:
    """Return the cycles for which the whole grid keeps each unit of an SM busy, as if one SM did all."""
    schedulers = on.machine.sm.schedulers
    busy = {"issue": 0.0}
    widths = [(float(pipe.interval), 1.0 if pipe.shared else schedulers) for pipe in on.pipes]
    for step, count in zip(steps, profile.counts["executed"], strict=True):
        busy["issue"] += count * step.issue_cycles / schedulers
        if step.pipe >= 0 and count and PIPES[step.pipe] in _NAMES:
            name, (interval, width) = _NAMES[PIPES[step.pipe]], widths[step.pipe]
            busy[name] = busy.get(name, 0.0) + count * step.passes * interval / width
    beside = sum(count * step.beside for step, count in zip(steps, profile.counts["executed"], strict=True))
    if beside:
        busy["shared memory and l1"] = busy.get("shared memory and l1", 0.0) + beside
    misses = l1_miss_cycles(profile, on.machine, range(len(steps)))
    return busy | ({"l1 misses": misses} if misses else {})


def l2_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that L2 takes for the packets of the whole grid: the longer of the way there and back."""
    return machine.chip.clock_hz * max(l2_seconds(code, profile, machine))


def dram_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that DRAM takes for the whole grid."""
    return machine.chip.clock_hz * dram_seconds(code, profile, machine)
