"""What no block did that was looked at, and others may do if their data say so; and what that means for the counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warplens.emulate import ops
from warplens.emulate.decode import Code
from warplens.emulate.slicing import Row, followers, is_idle


def ways_not_seen(code: Code, executed: npt.NDArray[np.float64]) -> dict[int, set[int]]:
    """Return by branch the instructions that were not executed and would be if data had said otherwise there.

    Data are what is loaded from memory, what atomics return, and floating-point numbers. What depends only on places
    of threads and blocks and on the call's arguments is none: blocks of every place are looked at. `code` is that of
    `needed_only`: what no branch depends on decides nothing.
    """
    rows: list[Row] = code.table.tolist()
    reads = [(*read, -1 - row[ops.GUARD]) for row, read in zip(rows, code.reads, strict=True)]
    does = [i for i, row in enumerate(rows) if not is_idle(row)]
    data = {n for i in does if _is_data(rows[i]) for n in code.writes[i]}
    others, before = {(reads[i], code.writes[i]) for i in does}, -1
    while len(data) != before:
        before = len(data)
        data.update(*(writes for read, writes in others if not data.isdisjoint(read)))
    branches = [i for i in does if rows[i][ops.GROUP] == ops.CONTROL and not data.isdisjoint(reads[i])]
    ways = {i: _not_executed(rows, i, executed) for i in branches if executed[i]}
    return {i: way for i, way in ways.items() if way}


def error_of(
    ways: dict[int, set[int]], executed: npt.NDArray[np.float64], blocks: int, seen: npt.NDArray[np.int64]
) -> float:
    """Return the relative error of all executions because of ways that no block took that was seen at the branch.

    Before any were seen, that no block takes a way is as likely as that some share does, any share as likely as another
    (Wrinch and Jeffreys 1921). When n did not, the mean square of the share is 2 / ((n + 2)^2 (n + 3)). A block that
    takes a way is taken to do so whenever it comes to the branch, and to execute each instruction of it once: of loops
    there it is not known how often.
    """
    total = 0.0
    for branch, way in ways.items():
        n = int(seen[branch])
        share = (1 - n / blocks) * (2 / (n + 3)) ** 0.5 / (n + 2)
        total += share * len(way) * float(executed[branch])
    return total / max(1.0, float(executed.sum()))


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


def _is_data(row: Row) -> bool:
    """Whether what an instruction writes is data, whatever it reads."""
    loads = row[ops.GROUP] == ops.MEMORY and row[ops.OP] in (ops.LOAD, ops.ATOMIC, ops.LOAD_MATRIX)
    return loads or row[ops.GROUP] in (ops.SINGLE, ops.DOUBLE, ops.HALF, ops.TENSOR)
