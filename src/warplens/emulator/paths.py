"""Paths of warps: the distinct ones, the loops in them, and the error bound for those that no sampled block took."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulator import ops
from warplens.emulator.bits import entry
from warplens.emulator.decode import Code
from warplens.emulator.slicing import Row, followers
from warplens.workload.profile import Path, Segment

_LONGEST_PERIOD = 64  # runs of a loop body that are looked for
_MOST_SEGMENTS = 20_000  # of all paths together


@entry
def _joined(runs: Any, out: Any) -> int:
    """Join the runs of one warp where one goes on where another stopped; return how many are left."""
    count = 0
    for i in range(runs.shape[0]):
        if count > 0 and out[count - 1, 1] == runs[i, 0]:
            out[count - 1, 1] = runs[i, 1]
        else:
            out[count, 0], out[count, 1] = runs[i, 0], runs[i, 1]
            count += 1
    return count


@entry
def _repeats(runs: Any, out: Any, longest: int) -> int:
    """Find what repeats of runs, a word each: rows of (start, length, times) in `out`; return how many."""
    n = runs.shape[0]
    i = 0
    count = 0
    while i < n:
        best, best_times = 1, 1
        for period in range(1, min(longest, (n - i) // 2) + 1):
            same = 0
            while i + period + same < n and runs[i + same] == runs[i + period + same]:
                same += 1
            times = 1 + same // period
            if times > 1 and times * period > best * best_times:
                best, best_times = period, times
        out[count, 0], out[count, 1], out[count, 2] = i, best, best_times
        count += 1
        i += best * best_times
    return count


def _segments(runs: npt.NDArray[np.int32]) -> list[Segment]:
    """Return the segments of a way; single runs that follow one another make one."""
    found = np.zeros((len(runs), 3), np.int64)
    made: list[Segment] = []
    alone = 0  # where the single runs begin that are not in a segment yet

    def keep(start: int, end: int, times: int) -> None:
        if end > start:
            firsts, stops = runs[start:end].T.tolist()
            made.append(Segment(list(zip(firsts, stops, strict=True)), times))

    words = runs.view(np.int64).reshape(-1)
    for start, length, times in found[: _repeats(words, found, _LONGEST_PERIOD)].tolist():
        if times > 1:
            keep(alone, start, 1)
            keep(start, start + length, times)
            alone = start + length * times
    keep(alone, len(runs), 1)
    return made


def paths_of(trace: npt.NDArray[np.int32], warps: int) -> tuple[list[Path], list[int]]:
    """Return the different ways, and the way of each warp; warps behind what is worth keeping have none."""
    known, noted = dict[bytes, int](), dict[bytes, int]()
    ways: list[tuple[list[Segment], int]] = []
    of_warp: list[int] = []
    order = np.argsort(trace[:, 0], kind="stable")
    sorted_runs = np.ascontiguousarray(trace[order, 1:])
    bounds = np.searchsorted(trace[order, 0], np.arange(warps + 1)).tolist()
    room = np.zeros((len(trace) + 1, 2), np.int32)
    segments = 0
    for start, end in pairwise(bounds):
        mine = sorted_runs[start:end]
        as_noted = mine.tobytes()
        if as_noted not in noted:
            runs = room[: _joined(mine, room)]
            key = runs.tobytes()
            if key not in known:
                made = _segments(runs)
                segments += len(made)
                if segments > _MOST_SEGMENTS and ways:
                    break
                known[key] = len(ways)
                ways.append((made, 0))
            noted[as_noted] = known[key]
        at = noted[as_noted]
        ways[at] = ways[at][0], ways[at][1] + 1
        of_warp.append(at)
    return [Path(s, n) for s, n in ways], of_warp


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
