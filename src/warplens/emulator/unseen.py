"""What no block did of those that were looked at, though others may; and what that means for the counts."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from warplens.emulator import ops
from warplens.emulator.decode import Code
from warplens.emulator.slicing import Row, followers


def ways_not_seen(code: Code, executed: npt.NDArray[np.float64], undecided: Collection[int]) -> dict[int, set[int]]:
    """Return by branch, of those on which blocks may differ, the instructions behind it that no block executed."""
    rows: list[Row] = code.table.tolist()
    ways = {i: _not_executed(rows, i, executed) for i in undecided if executed[i]}
    return {i: way for i, way in ways.items() if way}


def shares(blocks: int, seen: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return for each branch the share of all blocks that may go another way than all those that were seen there.

    Before any were seen, that no block does is as likely as that some share does, any share as likely as another
    (Wrinch and Jeffreys 1921). When n did not, the mean square of the share is 2 / ((n + 2)^2 (n + 3)).
    """
    found: npt.NDArray[np.float64] = (1 - seen / blocks) * np.sqrt(2 / (seen + 3)) / (seen + 2)
    return found


def error_of(
    ways: dict[int, set[int]],
    undecided: Collection[int],
    code: Code,
    executed: npt.NDArray[np.float64],
    share: npt.NDArray[np.float64],
) -> float:
    """Return the relative error of all executions because these shares of blocks may go another way at a branch.

    Such a block is taken to do so whenever it comes to the branch: to leave out what the branch may jump over, or to
    execute each instruction of a way that nobody took once, in a loop as often as those that are executed most.
    """
    more, most = 0.0, float(executed.max(initial=0.0))
    for branch, way in ways.items():
        turning = len(_in_loops(code, way))
        more += share[branch] * (turning * most + (len(way) - turning) * float(executed[branch]))
    less = np.zeros(len(executed))
    for branch in undecided:
        if executed[branch]:
            low, high = _jumps_over(code, branch)
            less[low:high] = np.maximum(less[low:high], share[branch])
    return (more + float((less * executed).sum())) / max(1.0, float(executed.sum()))


def _jumps_over(code: Code, branch: int) -> tuple[int, int]:
    """From where to where the instructions stand that a branch decides about: behind it, or of its loop."""
    row = code.table[branch]
    if row[ops.OP] == ops.EXIT:
        return branch + 1, len(code.table)
    to = int(row[ops.TARGET])
    return (min(branch + 1, to), max(branch + 1, to)) if row[ops.OP] == ops.BRA else (0, 0)


def _in_loops(code: Code, way: set[int]) -> set[int]:
    """The instructions of a way that a jump of it goes back over."""
    table, found = code.table, set[int]()
    for i in way:
        to = int(table[i, ops.TARGET])
        if table[i, ops.GROUP] == ops.CONTROL and table[i, ops.OP] == ops.BRA and to in way and to < i:
            found.update(range(to, i + 1))
    return found & way


def _not_executed(rows: list[Row], branch: int, executed: npt.NDArray[np.float64]) -> set[int]:
    """The instructions behind a branch that were not executed, up to those that were."""
    found: set[int] = set()
    todo = list(followers(branch, rows[branch]) or ())
    while todo:
        k = todo.pop()
        if 0 <= k < len(rows) and not executed[k] and k not in found:
            found.add(k)
            todo += followers(k, rows[k]) or ()
    return found
