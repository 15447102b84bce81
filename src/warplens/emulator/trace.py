"""From the runs that the emulator notes to the ways of warps: which are the same, and what repeats in them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulator.bits import entry
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
