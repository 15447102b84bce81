"""A kernel's time by the fluid schedule, from a part of it: some rounds of its blocks, some turns of its loops.

What one more block takes is read from when blocks end within one run, away from its beginning and its end; what one
more turn of the loops takes from two lengths of them. Time goes on along these lines. What is short is followed whole,
with some draws where chance decides (`chance`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec import Struct

from warplens.simulator.chance import by_chance, mean_over_draws
from warplens.simulator.code import Code, StepArrays, first_part, lay_steps, sampled
from warplens.simulator.fluid_run import run_fluid
from warplens.simulator.run import Options, Run
from warplens.simulator.units import Units

BUDGET = 120_000  # instructions that are followed
LONGER = 4  # times the shorter loops are the longer ones
MOST = 8  # draws


class Flowed(Struct, frozen=True):
    """Cycles of all blocks on one SM, and the run that was followed last."""

    cycles: float
    run: Run


class _Rounds(Struct, frozen=True):
    """Cycles and instructions of all blocks of a code, and the run that they come from."""

    cycles: float
    instructions: float
    run: Run


class _Bench(Struct, frozen=True):
    """An SM that takes so many blocks at a time; it keeps the code's instructions laid out."""

    units: Units
    resident: int
    laid: StepArrays

    def rounds(self, code: Code, blocks: int, budget: float, each: float) -> _Rounds:
        """Run as many rounds of blocks as the budget has instructions for, and go on with what a block adds.

        `each`: instructions of a mean block of the grid.
        """
        size = min(self.resident, blocks)
        count = blocks % size + size * max(2, round(budget / (code.block_instructions * size)))
        if count > blocks - size // 2:
            count = blocks
        one = partial(run_fluid, code, self.units, resident=size, blocks=count, laid=self.laid)
        if count >= blocks and by_chance(self.laid, self.units, code):
            mean = mean_over_draws(one, Options(), BUDGET, MOST)
            return _Rounds(mean.cycles, mean.run.issued, mean.run)
        made = one(Options())
        if count >= blocks:
            return _Rounds(made.end_cycle, made.issued, made)
        ends = np.sort(made.blocks[:, 1])
        begin = size if count >= 5 * size else 0  # the first ones all begin at once
        end = count - size if count >= 3 * size else count  # the last ones have the SM for themselves
        per_block = (ends[end - size : end].mean() - ends[begin : begin + size].mean()) / (end - begin - size)
        left = max(0.0, blocks * each - made.issued) / code.block_instructions
        return _Rounds(made.end_cycle + left * float(per_block), blocks * each, made)


def kernel_fluid(code: Code, units: Units, *, resident: int, blocks: int) -> Flowed:
    """Return the cycles that all these blocks take on one SM."""
    bench = _Bench(units, min(resident, blocks), lay_steps(code.steps))
    each = code.grid_mean or code.block_instructions
    few = min(blocks, blocks % bench.resident + 2 * bench.resident)
    if each * few <= 1.5 * BUDGET:
        made = bench.rounds(code, blocks, BUDGET, each)
        return Flowed(made.cycles, made.run)
    short, long = _lengths(code, few)
    if short.block_instructions == code.block_instructions:
        made = bench.rounds(code, blocks, 0.0, each)
        return Flowed(made.cycles, made.run)
    first, last = (bench.rounds(c, blocks, 0.0, c.block_instructions) for c in (short, long))
    more = (blocks * each - last.instructions) / max(1.0, last.instructions - first.instructions)
    return Flowed(max(last.cycles, last.cycles + more * (last.cycles - first.cycles)), last.run)


def _lengths(code: Code, blocks: int) -> tuple[Code, Code]:
    """Return the code with two lengths of its loops, or two first parts where it has none to cut."""
    share = BUDGET / (1 + LONGER) / (code.block_instructions * blocks)
    cut = sampled(code, share, 1), sampled(code, LONGER * share, 2)
    if cut[-1].block_instructions * blocks > 3 * BUDGET:
        return first_part(code, min(1.0, 2 * share)), first_part(code, min(1.0, 2 * LONGER * share))
    return cut
