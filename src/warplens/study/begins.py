"""How the warps of a loop of the laboratory (`warplens measure`) begin it, read from its turns.

Behind the barrier those of a scheduler begin two cycles apart, the last one first, and begin to wait one cycle apart;
the first of the block comes later. How often each has issued before says who goes first: the first one has spun alone,
which took from the counts of its neighbours on the scheduler; those of the others count alike. All this was read from
data/h200/loop_turns.json.gz, the counts from its turns of eight warps (tests/null/test_turns.py).
"""

from __future__ import annotations

from msgspec.structs import replace

from warplens.simulate import layout as at
from warplens.simulate.code import Code, Step, Way

SCHEDULERS = 4
BEFORE, ISSUE = 200.0, 16.0  # cycles of what is simulated before a loop, and of each instruction but the last of that
FIRST_LATER = 10.0  # cycles by which the first warp begins later than it would
SPUN, BESIDE, OTHERS = 12, 4, 1  # issues before, of the first warp, its neighbours and the others


def _begin(warp: int, warps: int) -> float:
    """Return how long a warp of a block waits before it begins."""
    return 1.0 * ((warps - 1 - warp) // SCHEDULERS) + FIRST_LATER * (warp == 0)


def _issued(warp: int) -> int:
    """Return how often a warp has issued before."""
    return SPUN if warp == 0 else BESIDE if warp % SCHEDULERS == 0 else OTHERS


def behind_barrier(loop: Code, warps: int) -> Code:
    """Return a loop, the only way of its code, whose blocks of so many warps begin it as in the laboratory."""
    steps, ways, turns = list(loop.steps), list[Way](), loop.ways[0].segments
    for warp in range(warps):
        steps += [Step(label="pad")] * (-len(steps) % at.LINE_INSTRUCTIONS)
        first, issues = len(steps), _issued(warp) - 1
        wait = BEFORE - ISSUE * issues + _begin(warp, warps)
        steps += [*[Step(label="before", stall=ISSUE)] * issues, Step(label="before", stall=wait, yields=0)]
        ways.append(Way([([(first, len(steps))], 1), *turns]))
    return replace(loop, steps=steps, ways=ways, blocks=[[*range(warps)]] * len(loop.blocks))
