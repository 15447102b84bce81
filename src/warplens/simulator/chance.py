"""The mean over draws where chance decides: whether accesses hit, and how long DRAM takes for each.

Of a small grid one SM's draws make up to a fifth of the time. So the SM is run several times, each with draws of its
own, until the mean is known to `KNOWN`, `MOST` runs are made, or the budget of instructions is spent. All but the time
is of the run nearest to the mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.simulator import layout as at
from warplens.simulator.code import Code, StepArrays
from warplens.simulator.run import Options, Run
from warplens.simulator.units import Units

KNOWN = 0.01  # of the mean: its error at 95 %; as the runs end when it is small, it holds less often (test_ends)
FEWEST, MOST = 3, 32  # runs, for an error and for a mean
STUDENT = (4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's t, 97.5 %: of 3, 4, 5 ... 10 and more runs
SEEDS, NEXT_SEED = 1 << 28, 1_000_003  # what is drawn from a seed then fits into 64 bits
ONCE = "one run with random latencies: with another seed the time differs"


class Mean(Struct, frozen=True):
    """The mean of some runs, its error at 95 % (none of fewer than three), all instructions, the run nearest to it."""

    cycles: float
    error_cycles: float
    issued: int
    run: Run
    options: Options
    notes: list[str]


def by_chance(laid: StepArrays, units: Units, code: Code) -> bool:
    """Whether draws say how long an access takes that is made: one that hits now and then, or that goes to DRAM."""
    steps = laid.steps
    l2_sure = (steps.l2_hit >= 1) | (steps.l2_hit <= 0) & (units.spread.shape[1] == 1)
    sure = (steps.l1_hit >= 1) | (steps.l1_hit <= 0) & l2_sure
    return bool((np.isin(steps.kind, (at.LOAD, at.STORE)) & ~sure & (code.executed() > 0)).any())


def mean_over_draws(one: Callable[[Options], Run], options: Options, budget: float, most: int = MOST) -> Mean:
    """Return the mean over so many runs, each with a seed of its own, or as many of them as it takes to know it.

    The first one keeps events, if any are to be kept.
    """
    each, runs, error = list[Options](), list[Run](), math.inf
    for k in range(most):
        other = replace(options, seed=(options.seed + k * NEXT_SEED) % SEEDS, events=0)
        each.append(other if k else options)
        runs.append(one(each[-1]))
        ends, issued = [made.end_cycle for made in runs], sum(made.issued for made in runs)
        if len(runs) >= FEWEST:
            factor = STUDENT[min(len(runs) - FEWEST, len(STUDENT) - 1)]
            error = factor * statistics.stdev(ends) / math.sqrt(len(runs))
        if error <= KNOWN * statistics.mean(ends) or issued + runs[0].issued > budget:
            break
    mean, known = statistics.mean(ends), len(runs) >= FEWEST
    near = min(range(len(runs)), key=lambda k: abs(ends[k] - mean))
    notes = [] if known else [ONCE if len(runs) == 1 else ONCE.replace("one run", "two runs")]
    return Mean(mean, error if known else 0.0, issued, runs[near], each[near], notes)
