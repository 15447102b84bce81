"""Where results are written: each bank of registers takes one a cycle, and arithmetic does not wait for it.

A result of an SFU that comes when arithmetic writes gives way once; then it goes first, and the instruction is held.
One of shared memory waits for a cycle in which arithmetic writes nothing there, for fifteen of them, and then holds two
instructions (data/h200/read_words.py). All is counted by when arithmetic that writes in that cycle has its last stage.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called


@called
def come_back(bank: int, s: int, turn: int, latches: Any) -> None:
    """Note the cycle in which a result of shared memory comes back."""
    back, first = latches[s, at.BACK + bank], latches[s, at.FROM + bank]
    if back == 0 or turn - first >= at.PORT_CYCLES:
        latches[s, at.BACK + bank], latches[s, at.FROM + bank] = 1, turn
    else:
        place = max(turn - first, 0)
        while place < at.PORT_CYCLES and back >> place & 1:
            place += 1
        latches[s, at.BACK + bank] = back | 1 << place


@called
def give_way(bank: int, s: int, turn: int, latches: Any) -> int:
    """Return for how long arithmetic that writes in a cycle is held for a result of shared memory.

    Each cycle before in which it wrote nothing took one of them; the one that has waited too long holds it.
    """
    back, first, free = latches[s, at.BACK + bank], latches[s, at.FROM + bank], latches[s, at.WROTE + bank] + 1
    held, times = 0, latches[s, at.HELD + bank]
    while back != 0 and (max(first, free) < turn or times == at.FORCED):
        if times < at.FORCED:
            free = max(first, free) + 1
        times = 0
        back >>= 1
        first += 1
        while back != 0 and back & 1 == 0:
            back >>= 1
            first += 1
    if back != 0 and first + at.PATIENCE <= turn:
        held = 1
        times += 1
    latches[s, at.BACK + bank], latches[s, at.FROM + bank] = back, first
    latches[s, at.WROTE + bank], latches[s, at.HELD + bank] = turn + held, times
    return held


@called
def write(last: int, s: int, cycle: int, step: Any, latches: Any, pipe_free: Any, sfu: int) -> int:
    """Let a result of arithmetic be written; return the instruction's last stage.

    A result of an SFU gives way to it once, and the SFU stands meanwhile; the next one of arithmetic comes behind it.
    What takes longer to be made meets results that come as much later.
    """
    later = floor(step.made) - at.MADE
    held = 0
    for bank in range(2):
        if step.writes >> bank & 1:
            turn = last + later
            ahead = turn - cycle
            if latches[s, at.PASSED + bank] + 1 == turn:
                held = max(held, 1)
                latches[s, at.PASSED + bank] = 0
            elif latches[s, at.DUE + bank] >> ahead & 1:
                latches[s, at.PASSED + bank] = turn
                pipe_free[s, sfu] += 1.0
                for each in range(2):
                    due = latches[s, at.DUE + each]
                    latches[s, at.DUE + each] = due >> ahead + 1 << ahead + 2 | due & (1 << ahead + 1) - 1
            if latches[s, at.BACK + bank]:
                held = max(held, give_way(bank, s, turn, latches))
            else:
                latches[s, at.WROTE + bank] = turn
    return last + held
