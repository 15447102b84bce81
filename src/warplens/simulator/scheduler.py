"""Warp schedulers: which warp of a scheduler issues, and where it goes next.

It is the first ready one of the list, or the one that has issued least. Behind an instruction a warp has its next one
when its stall count is over, its branch resolved and its line there; results release the slots that others wait for.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import called, folded, inlined
from warplens.simulator.memory import fetch, target_wait


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


@inlined
def onward(pc: int, now: float, setup: Any, warp: Any, segments: Any, runs: Any) -> Any:
    """Move a warp to what comes next on its way, behind this one or elsewhere; whether its way is at its end."""
    finished = False
    following = pc + 1
    if following == runs[warp.run].stop:
        warp.run += 1
        segment = segments[warp.segment]
        if warp.run == segment.end:
            warp.turn += 1
            warp.turns += 1
            warp.run = segment.first
            if now >= setup.window:
                finished = True
            elif warp.turn == segment.times:
                warp.turn = 0
                warp.segment += 1
                finished = warp.segment == warp.end
                if not finished:
                    warp.run = segments[warp.segment].first
        following = runs[warp.run].first
    warp.pc = following
    return finished


@folded
def advance(
    pc: int, now: float, setup: Any, sm: Any, scheduler: Any, step: Any, warp: Any, segments: Any, runs: Any,
    code_lines: Any,
) -> bool:  # fmt: skip
    """Move a warp to its next instruction, behind this one or elsewhere; whether its way is at its end.

    Noted is when it has that instruction, and for what it waits: stall count, branch, its line.
    """
    finished: bool = onward(pc, now, setup, warp, segments, runs)
    following = warp.pc
    warp.ready = now + step.stall
    if setup.banks:
        warp.ready -= step.extra
    warp.why = at.WAIT
    away = step.branch
    if following != pc + 1 and setup.branch_taken > away and not finished:
        away = setup.branch_taken
    if setup.port > 0.0 and not finished:
        if following != pc + 1:
            away = max(away, target_wait(now, setup, scheduler))
        elif following & 7 == 0:  # it asks for another line
            scheduler.lines = max(scheduler.lines, now + 1.0) + setup.port
    if now + away > warp.ready:
        warp.ready = now + away
        warp.why = at.RESOLVING
    if setup.first_lines and following >> 3 != pc >> 3 and not finished:
        there = fetch(following >> 3, now, setup, sm, code_lines)
        if there > warp.ready:
            warp.ready = there
            warp.why = at.NO_INST
    return finished


@inlined
def release(start: float, done: float, setup: Any, step: Any, warp: Any, slots: Any, results: Any) -> None:
    """Let the slots of an instruction's results know their time."""
    for r in range(step.results, step.results_end):
        result = results[r]
        value = done if result.kind == at.VALUE else start + step.read
        slot = slots[warp.slots + result.slot]
        reason = step.reason
        if result.kind == at.MOVED:
            before = slots[warp.slots + result.slot - 1]
            value = before.value
            reason = before.reason
        if setup.streams > 1 or value > slot.value:
            slot.value = value
            slot.reason = reason
