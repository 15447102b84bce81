"""From the runs that the emulator notes to the ways of warps: which are the same, and what repeats in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulate.bits import entry
from warplens.kernel.profile import Path, Segment

_LONGEST_PERIOD = 64  # runs of a loop body that are looked for
_MOST_SEGMENTS = 20_000  # of all paths together


@entry
def _joined(trace: Any, warp: int, out: Any) -> int:
    """Collect the runs of one warp, joined where one goes on where another stopped; return how many."""
    count = 0
    for i in range(trace.shape[0]):
        if trace[i, 0] != warp:
            continue
        if count > 0 and out[count - 1, 1] == trace[i, 1]:
            out[count - 1, 1] = trace[i, 2]
        else:
            out[count, 0], out[count, 1] = trace[i, 1], trace[i, 2]
            count += 1
    return count


@entry
def _repeats(runs: Any, out: Any, longest: int) -> int:
    """Find what repeats: rows of (start, length, times) in `out`; return how many."""
    n = runs.shape[0]
    i = 0
    count = 0
    while i < n:
        best, best_times = 1, 1
        for period in range(1, min(longest, (n - i) // 2) + 1):
            same = 0
            while (
                i + period + same < n
                and runs[i + same, 0] == runs[i + period + same, 0]
                and runs[i + same, 1] == runs[i + period + same, 1]
            ):
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
    alone: list[tuple[int, int]] = []
    for start, length, times in found[: _repeats(runs, found, _LONGEST_PERIOD)].tolist():
        body = [(int(a), int(b)) for a, b in runs[start : start + length]]
        if times == 1:
            alone += body
            continue
        if alone:
            made.append(Segment(alone, 1))
            alone = []
        made.append(Segment(body, times))
    if alone:
        made.append(Segment(alone, 1))
    return made


def paths_of(trace: npt.NDArray[np.int32], warps: int) -> tuple[list[Path], list[int]]:
    """Return the different ways, and the way of each warp; warps behind what is worth keeping have none."""
    known: dict[bytes, int] = {}
    ways: list[tuple[list[Segment], int]] = []
    of_warp: list[int] = []
    room = np.zeros((len(trace) + 1, 2), np.int32)
    segments = 0
    for warp in range(warps):
        runs = room[: _joined(trace, warp, room)]
        key = runs.tobytes()
        if key not in known:
            made = _segments(runs)
            segments += len(made)
            if segments > _MOST_SEGMENTS and ways:
                break
            known[key] = len(ways)
            ways.append((made, 0))
        at = known[key]
        ways[at] = ways[at][0], ways[at][1] + 1
        of_warp.append(at)
    return [Path(s, n) for s, n in ways], of_warp
