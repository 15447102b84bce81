"""A steady state, until its rate is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.simulator.code import Code, Floats, Ints, lay_steps
from warplens.simulator.run import MARKS, Options, Run, run
from warplens.simulator.units import Units

STAGGER = 64.0  # cycles within which warps begin
BUDGET = 300_000  # instructions of the run that counts, unless it is to be full


class Measured(Struct, frozen=True):
    """Cycles of a kernel or of one body, the bound of the error, and the run that they come from."""

    cycles: float
    error_cycles: float
    simulated_instructions: int
    load: float  # DRAM traffic of this SM, B/cycle
    run: Run
    notes: list[str]


def steady(code: Code, units: Units, options: Options) -> Measured:
    """Return the cycles that one SM spends per body of an endless repetition, from a part without the start.

    The run is long enough for the budget of instructions, and for every warp to make a good number of turns. What is
    repeated is the last part of each way; warps begin by chance, unless other parts before it say when.
    """
    way, laid, blocks = code.ways[0], lay_steps(code.steps), len(code.blocks)
    turn = sum(stop - start for start, stop in way.segments[-1][0])
    apart = STAGGER if len(way.segments) == 1 else 0.0
    first = run(code, units, options, resident=blocks, blocks=blocks, limit=16_384.0, stagger=apart, laid=laid)
    per_cycle = max(first.issued, 1) / 16_384
    limit = max(65_536.0, BUDGET / per_cycle, 64 * code.warps_per_block * blocks / per_cycle)
    limit = options.limit_cycles or min(limit, 4e6)
    every = float(np.floor(limit / MARKS))
    made = run(
        code, units, options, resident=blocks, blocks=blocks, limit=every * MARKS + 1, stagger=apart, mark_every=every,
        laid=laid,
    )  # fmt: skip
    parts = np.diff(made.marks[MARKS // 4 - 1 :]) / every
    if parts.mean() <= 0:
        raise WarplensError(f"{code.name}: nothing issues in a steady state")
    cycles = float(turn / code.bodies / parts.mean())
    error = 2 * float(parts.std() / np.sqrt(len(parts)) / parts.mean()) * cycles
    served = turn / code.bodies * busiest(laid.steps, made.counts, units) / made.issued
    if served > cycles:  # nobody waits for what the unit still has to serve
        made, cycles = replace(made, end_cycle=made.end_cycle * served / cycles), served
    return Measured(cycles, error, first.issued + made.issued, made.dram_bytes / made.end_cycle, made, [])


def busiest(steps: Any, counts: Ints | Floats, units: Units) -> float:
    """Return the cycles that the busiest unit of an SM takes for so many of each instruction, awaited or not."""
    beyond = counts * (1 - steps.l1_hit)
    cycles = [float(beyond @ steps.l2_cycles), float((beyond * (1 - steps.l2_hit)) @ steps.dram_cycles)]
    own = counts * steps.passes * units.pipes.interval[steps.pipe]
    for unit in set(units.pipes.unit.tolist()):
        taken = float(own[(steps.pipe >= 0) & (units.pipes.unit[steps.pipe] == unit)].sum())
        cycles.append(taken / (1 if units.pipes.shared[unit] else units.machine.sm.schedulers))
    return max(cycles)
