"""Where a warp goes next, and what its results release: in the engine and in the fluid schedule."""

from __future__ import annotations

from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import folded, inlined
from warplens.simulator.fetch import fetch, target_wait


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
