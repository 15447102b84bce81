"""The rate of a grid of many rounds of blocks, from one round or a few.

When a grid has run for long, the blocks of an SM are at different places of their ways. A run that begins so, with
blocks spread evenly over them, soon goes at the rate that a run from the start comes to after some rounds: the cycles
from the beginning of one block to that of another, most of a round later, over the instructions issued meanwhile. So
that neither chance nor what is left of the start counts, the time between is at least `WINDOW` instructions long, and
doubled until its halves are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from warplens.simulator.code import Code, in_midst
from warplens.simulator.run import Course, Run
from warplens.simulator.steady import BUDGET

MANY = 16  # rounds: what the start and the tail take besides is a few hundredths of these
LONGEST = BUDGET // 2  # instructions of a round, and of all of a window that is doubled
WINDOW = BUDGET // 8
PART = 0.75  # of a round that is longer than this
DOUBLED = 4  # times, at most
HALVES_DIFFER = 0.02  # of the halves' rates


class Window(Struct, frozen=True):
    """What has come out at the begin of a window and at its end, by how much its halves differ, and what it cost."""

    first: Run
    last: Run
    apart: float
    simulated: int
    begun: int  # blocks


def window(course: Callable[[Code, int], Course], code: Code, resident: int) -> Window:
    """Return some rounds of blocks in the midst of many; `course` takes the code and the number of its blocks."""
    rounds = math.ceil(WINDOW / (code.block_instructions * resident))
    before = resident + (resident if rounds > 1 else max(1, resident // 8))
    size = max(2, math.ceil(resident * (rounds if rounds > 1 else PART)))
    most = before + size * DOUBLED
    run = course(in_midst(code, resident, most - resident), most + 1)
    looks = [run.held(before + part) for part in (0, size // 2, size)]
    while apart(looks) > HALVES_DIFFER and before + 2 * size <= most and 2 * looks[-1].issued <= LONGEST:
        size *= 2
        looks = [looks[0], looks[-1], run.held(before + size)]
    return Window(looks[0], looks[-1], apart(looks), run.simulated, before + size)


def apart(runs: list[Run]) -> float:
    """Return by how much the steps from the first run to the second and to the third differ, over the larger one."""
    first, middle, last = runs
    slopes = [(b.end_cycle - a.end_cycle) / max(1, b.issued - a.issued) for a, b in ((first, middle), (middle, last))]
    return abs(slopes[1] - slopes[0]) / (max(slopes) or 1.0)
