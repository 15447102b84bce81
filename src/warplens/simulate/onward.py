"""What the engine and the fluid schedule have in common: where a warp goes next, and what its results release."""

from __future__ import annotations

from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import inlined


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
