"""What no block did of those that were looked at, though others may; and what that means for the counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warplens.emulate import ops
from warplens.emulate.decode import Code
from warplens.emulate.slicing import Row, followers
from warplens.emulate.steadiness import undecided


def ways_not_seen(code: Code, executed: npt.NDArray[np.float64], *, corners: bool = True) -> dict[int, set[int]]:
    """Return by branch the instructions that were not executed, and may be in other blocks.

    Data decide there, or what else does not follow from what blocks at the `corners` of the grid do, if these ran: see
    `undecided`. `code` is that of `needed_only`: what no branch depends on decides nothing.
    """
    rows: list[Row] = code.table.tolist()
    control = np.flatnonzero((code.table[:, ops.GROUP] == ops.CONTROL) & (executed > 0)).tolist()
    ways = {i: way for i in control if (way := _not_executed(rows, i, executed))}
    undecided_ones = undecided(code, corners=corners) if ways else ()
    return {i: way for i, way in ways.items() if i in undecided_ones}


def error_of(
    ways: dict[int, set[int]],
    code: Code,
    executed: npt.NDArray[np.float64],
    blocks: int,
    seen: npt.NDArray[np.int64],
) -> float:
    """Return the relative error of all executions because of ways that no block took of those seen at the branch.

    Before any were seen, that no block takes a way is as likely as that some share does, any share as likely as another
    (Wrinch and Jeffreys 1921). When n did not, the mean square of the share is 2 / ((n + 2)^2 (n + 3)). A block that
    takes a way is taken to do so whenever it comes to the branch, and to execute each instruction of it once, or in a
    loop as often as those do that are executed most.
    """
    total, most = 0.0, float(executed.max(initial=0.0))
    for branch, way in ways.items():
        n, each = int(seen[branch]), float(executed[branch])
        share = (1 - n / blocks) * (2 / (n + 3)) ** 0.5 / (n + 2)
        turning = len(_in_loops(code, way))
        total += share * (turning * most + (len(way) - turning) * each)
    return total / max(1.0, float(executed.sum()))


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
