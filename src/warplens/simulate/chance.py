"""The mean over SMs where chance decides: whether accesses hit, and how long DRAM takes for each.

Single SMs of a small grid differ by up to a fifth. So several are run, each with draws of its own, until their mean is
known to `ALIKE`, `MOST` are run, or the budget of instructions is spent. All but the time is of the SM nearest to it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.simulate import layout as at
from warplens.simulate.code import StepArrays
from warplens.simulate.run import Options, Run
from warplens.simulate.units import Units

ALIKE = 0.005  # of the mean: its standard error
FEWEST, MOST = 3, 32  # SMs, for a standard error and for a mean
SEEDS = 1 << 62  # of SMs: 64 bits hold all that is drawn from them
NEXT_SEED = 1_000_003


class Mean(Struct, frozen=True):
    """The mean of some SMs' cycles, two standard errors, all instructions, and the run nearest to the mean."""

    cycles: float
    error_cycles: float
    issued: int
    run: Run
    options: Options


def by_chance(laid: StepArrays, units: Units) -> bool:
    """Whether draws say how long an access takes: one that hits now and then, or that goes to DRAM."""
    steps = laid.steps
    l2_sure = (steps.l2_hit >= 1) | (steps.l2_hit <= 0) & (units.spread.shape[1] == 1)
    sure = (steps.l1_hit >= 1) | (steps.l1_hit <= 0) & l2_sure
    return bool((np.isin(steps.kind, (at.LOAD, at.STORE)) & ~sure).any())


def mean_over_sms(one: Callable[[Options], Run], options: Options, sms: int, budget: float, most: int = MOST) -> Mean:
    """Return the mean over so many SMs, or as many of them as it takes to know it."""
    runs, error = list[Run](), math.inf
    seeds = [options.seed, *((options.seed + k * NEXT_SEED) % SEEDS for k in range(1, min(sms, most)))]
    each = [replace(options, seed=seed) for seed in seeds]
    for way in each:
        runs.append(one(way))
        ends, issued = [made.end_cycle for made in runs], sum(made.issued for made in runs)
        if len(runs) >= FEWEST:
            error = statistics.stdev(ends) / math.sqrt(len(runs))
        if error <= ALIKE * statistics.mean(ends) or issued + runs[0].issued > budget:
            break
    mean = statistics.mean(ends)
    near = min(range(len(runs)), key=lambda k: abs(ends[k] - mean))
    return Mean(mean, 2 * error if len(runs) >= FEWEST else 0.0, issued, runs[near], each[near])
