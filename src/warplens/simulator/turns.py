"""Which warp of a scheduler goes: the first ready one of its list, or the one that has issued least."""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import called, folded


@called
def pick(s: int, now: float, turn: int, passed: int, scheduler: Any, warps: Any, order: Any) -> int:
    """Return the row of the first ready warp of a scheduler's list from `turn` on, or -1.

    `soonest` is when those that are not ready will be. The first `passed` ones are known not to be ready.
    """
    found = -1
    for k in range(passed, scheduler.listed):
        row = turn + k
        if row >= scheduler.listed:
            row -= scheduler.listed
        warp = warps[order[s, row]]
        if warp.ready <= now:
            found = row
            break
        if warp.ready < scheduler.soonest:
            scheduler.soonest = warp.ready
    return found


@called
def went(cycle: int, s: int, warps: Any, latches: Any) -> int:
    """Return the warp that issued in one of the last cycles, or -1: none, or another block has its place now."""
    entry = latches[s, at.WENT + (cycle & at.ISSUES - 1)] - 1
    w: int = entry & (1 << at.WARP_BITS) - 1 if entry >= 0 else 0
    return w if entry >= 0 and warps[w].block == entry >> at.WARP_BITS else -1


@folded
def count_issues(s: int, now: float, setup: Any, scheduler: Any, warps: Any, order: Any, latches: Any) -> None:
    """Count what the warps of a scheduler issued up to some cycles ago; one issue too many halves all counts."""
    until = floor(now) - setup.counted_after
    turn = scheduler.counted + 1
    scheduler.counted = until
    if until > turn + at.ISSUES - 1:
        until = turn + at.ISSUES - 1
    while turn <= until:
        w = went(turn, s, warps, latches)
        latches[s, at.WENT + (turn & at.ISSUES - 1)] = 0
        if w >= 0:
            if warps[w].used < setup.counting:
                warps[w].used += 1
            else:
                for row in range(scheduler.listed):
                    warps[order[s, row]].used >>= 1
        turn += 1


@called
def waits_too(w: int, barred: int, now: float, queue: int, scheduler: Any, steps: Any, warps: Any) -> bool:
    """Whether a warp is ready and has to wait as a barred one, and nothing else comes of looking at its pipe again.

    It asks for the same pipe, has before, and, where that has a `queue`, has yielded for it.
    """
    warp = warps[w]
    same: bool = warp.ready <= now and warp.seen >= warp.since and warp.yielded >= queue and w != scheduler.last
    if same:
        step, other = steps[warp.pc], steps[warps[barred].pc]
        same = step.pipe == other.pipe and step.both == other.both
    return same


@folded
def pick_least(
    s: int, now: float, barred: int, queue: int, setup: Any, scheduler: Any, steps: Any, warps: Any, order: Any
) -> int:
    """Return the row of the warp that goes, of the oldest block of a scheduler that has a ready one, or -1.

    Those go first that did not yield, then the one that has issued least of late, then the youngest. `soonest` is when
    those that are not ready will be. `barred`: a warp whose pipe was just found to have no room, or -1; those that
    would be found next and ask for the same wait as long.
    """
    found = place = -1
    most = 4 * setup.counting
    least = most - 1
    soonest = at.FOREVER
    rows = scheduler.listed
    for row in range(rows):
        w = order[s, row]
        warp = warps[w]
        if warp.place != place:
            if found >= 0:
                rows = row
                break
            place = warp.place
        used = warp.used
        first = 2 * setup.counting if warp.yielded else 0
        if setup.first_lines and first == 0:
            used = 0  # two warps run while others fall behind (fetch.json.gz)
        when = warp.ready
        if barred >= 0 and waits_too(w, barred, now, queue, scheduler, steps, warps):
            when = warps[barred].ready
        used += most if when > now else first
        soonest = when if when < soonest else soonest
        found = row if used <= least else found
        least = used if used <= least else least
    if barred >= 0:
        for row in range(rows):
            w = order[s, row]
            warp = warps[w]
            first = 2 * setup.counting if warp.yielded else 0
            used = first + (0 if setup.first_lines and first == 0 else warp.used)
            before = found < 0 or warp.place != place or used < least or (used == least and row > found)
            if before and waits_too(w, barred, now, queue, scheduler, steps, warps):
                warp.ready = warps[barred].ready
    scheduler.soonest = soonest
    return found
