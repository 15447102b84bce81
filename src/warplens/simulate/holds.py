"""What holds the issue stage of a scheduler: all that stands before it stands for as long."""

from __future__ import annotations

from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called


@called
def freeze(s: int, since: float, cycles: float, scheduler: Any, warps: Any, order: Any, stalls: Any) -> None:
    """Let the stall counts of all warps of a scheduler stand for the cycles in which its issue stage is held."""
    for row in range(scheduler.listed):
        warp = warps[order[s, row]]
        if warp.counted > since:
            warp.counted += cycles
            if warp.counted > warp.ready:
                stalls[warp.pc, at.WAIT] += warp.counted - warp.ready
                warp.ready = warp.counted
                warp.since = warp.counted


@called
def hold(s: int, now: float, scheduler: Any, warps: Any, order: Any, pipes: Any, pipe_free: Any, stalls: Any) -> bool:
    """Let what waits for its registers hold the issue stage, if that has begun; whether it does so now.

    All before it stands: stall counts, units of arithmetic, ports. The first warp that could go waits for that.
    """
    holds = False
    while scheduler.held > 0.0 and scheduler.hold <= now:
        since, cycles = scheduler.hold, scheduler.held
        scheduler.held, scheduler.hold = scheduler.held_next, scheduler.hold_next
        scheduler.held_next, scheduler.hold_next = scheduler.held_last, scheduler.hold_last
        scheduler.held_last = 0.0
        freeze(s, since, cycles, scheduler, warps, order, stalls)
        if scheduler.half_free > since:
            scheduler.half_free += cycles
        if scheduler.other_free > since:
            scheduler.other_free += cycles
        for p in range(pipes.shape[0]):
            if pipes[p].places == 0 and not pipes[p].shared and pipe_free[s, p] > since:
                pipe_free[s, p] += cycles
        if now < since + cycles:
            holds = True
            scheduler.next = since + cycles
            for row in range(scheduler.listed):
                warp = warps[order[s, row]]
                if warp.ready <= now:
                    stalls[warp.pc, at.DISPATCH] += since + cycles - now
                    if warp.since < now:
                        stalls[warp.pc, at.NOT_SELECTED] += now - warp.since
                    warp.since = since + cycles
                    break
    return holds
