"""How the warps of a loop behind a barrier begin it, read from the turns of the laboratory's (`warplens measure`).

Those of a scheduler begin two cycles apart, the last one first, and begin to wait one cycle apart; the first of a block
comes later. How often each has issued before says who goes first. With two warps of a scheduler that is known: the
first one has spun alone, which took from the counts of its neighbours on the scheduler; those of the others count alike
(data/h200/loop_turns.json.gz). With more it differs between SMs and launches, and so do the ways in which such a loop
goes on for ever: what was measured is a mean over them. Second turns of three and five warps fit if the first has
issued 9 to 13 times and its neighbours as often as where there are two (loop_targets.json.gz); it is taken that the
warps of each other scheduler have issued alike.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, Way

SCHEDULERS = 4
BEFORE, ISSUE = 200.0, 16.0  # cycles of what is simulated before a loop, and of each instruction but the last of that
FIRST_LATER = 10.0  # cycles by which the first warp of the laboratory's blocks begins later than it would
SPUN, BESIDE, OTHERS = 12, 4, 1  # issues before, of the first warp, its neighbours and the others
SPUN_BY_CHANCE = range(9, 14)  # of the first warp, with more than two on a scheduler
PERIOD = 9  # counts of issues that differ: one too many halves them all


def issues_of_few(warps: int) -> list[int]:
    """Return how often the warps of a block of the laboratory have issued before; read from two on a scheduler."""
    return [SPUN if w == 0 else BESIDE if w % SCHEDULERS == 0 else OTHERS for w in range(warps)]


def issues_by_chance(warps: int, chance: Random) -> list[int]:
    """Return how often the warps of a block of the laboratory may have issued before, more than two on a scheduler."""
    of_others = [1 + chance.randrange(PERIOD) for _ in range(SCHEDULERS)]
    others = [BESIDE if w % SCHEDULERS == 0 else of_others[w % SCHEDULERS] for w in range(1, warps)]
    return [chance.choice(SPUN_BY_CHANCE), *others]


def behind_barrier(loop: Code, issued: list[list[int]], later: float = 0.0) -> Code:
    """Return a loop as its blocks begin it if their warps have issued so often before.

    `later`: cycles by which the first warp of a block comes later than it would.
    """
    waits = [
        [(len(block) - 1 - warp) // SCHEDULERS + later * (warp == 0) for warp in range(len(block))]
        for block in loop.blocks
    ]
    return _begun(loop, issued, waits)


def at_times(code: Code, begins: list[float]) -> Code:
    """Return code whose only block has warps that begin so many cycles later than the first.

    Those of a scheduler begin to wait one cycle apart, the last one first.
    """
    waits = [begin - (len(begins) - 1 - warp) // SCHEDULERS for warp, begin in enumerate(begins)]
    return _begun(code, [[1] * len(begins)], [waits])


def _begun(code: Code, issued: list[list[int]], waits: list[list[float]]) -> Code:
    """Return code whose warps have issued so often before they begin, and wait so many cycles longer than need be."""
    steps, ways, blocks = list(code.steps), list[Way](), list[list[int]]()
    for block, counts, times in zip(code.blocks, issued, waits, strict=True):
        blocks.append([*range(len(ways), len(ways) + len(block))])
        for way, count, time in zip(block, counts, times, strict=True):
            steps += [Step(label="pad")] * (-len(steps) % at.LINE_INSTRUCTIONS)
            first = len(steps)
            last = Step(label="before", stall=BEFORE - ISSUE * (count - 1) + time, yields=0)
            steps += [*[Step(label="before", stall=ISSUE)] * (count - 1), last]
            ways.append(Way([([(first, len(steps))], 1), *code.ways[way].segments]))
    return replace(code, steps=steps, ways=ways, blocks=blocks)
