"""What holds the issue stage of a scheduler: all that stands before it stands for as long."""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import tell
from warplens.simulator.compiled import called


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
def hold_behind(s: int, due: int, last: int, scheduler: Any, latches: Any) -> None:
    """Note for how long the issue stage is held behind the cycle in which the last stage was due.

    Holds are kept in the order of time; those behind one that comes between are as much later.
    """
    end = scheduler.holds_end
    if end - scheduler.holds == at.HOLDS:
        latches[s, at.HOLD + at.HOLDS + (end - 1 & at.HOLDS - 1)] += last - due
    else:
        while end > scheduler.holds and latches[s, at.HOLD + (end - 1 & at.HOLDS - 1)] > due + 1:
            before, place = at.HOLD + (end - 1 & at.HOLDS - 1), at.HOLD + (end & at.HOLDS - 1)
            latches[s, place] = latches[s, before] + last - due
            latches[s, place + at.HOLDS] = latches[s, before + at.HOLDS]
            end -= 1
        latches[s, at.HOLD + (end & at.HOLDS - 1)] = due + 1
        latches[s, at.HOLD + at.HOLDS + (end & at.HOLDS - 1)] = last - due
        scheduler.holds_end += 1


@called
def held_before(s: int, now: int, scheduler: Any, latches: Any) -> float:
    """Return for how many cycles what issues now is held on its way to its last stage."""
    cycles = 0
    for k in range(scheduler.holds, scheduler.holds_end):
        place = at.HOLD + (k & at.HOLDS - 1)
        if latches[s, place] <= now + at.AHEAD + at.STAGES + cycles + 1:
            cycles += latches[s, place + at.HOLDS]
    return float(cycles)


@called
def hold(
    s: int, now: float, setup: Any, sm: Any, scheduler: Any, warps: Any, order: Any, pipes: Any, pipe_free: Any,
    latches: Any, stalls: Any, events: Any,
) -> bool:  # fmt: skip
    """Let what waits for its registers hold the issue stage, if that has begun; whether it does so now.

    All before it stands: stall counts, units of arithmetic, ports. The first warp that could go waits for that.
    """
    holds = False
    place = at.HOLD + (scheduler.holds & at.HOLDS - 1)
    while scheduler.holds < scheduler.holds_end and latches[s, place] <= now:
        since, cycles = float(latches[s, place]), float(latches[s, place + at.HOLDS])
        scheduler.holds += 1
        place = at.HOLD + (scheduler.holds & at.HOLDS - 1)
        if setup.telling:
            tell(events, sm, since, at.HELD, at.NOTHING, s, floor(cycles))
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
            if since + cycles > scheduler.free:  # nobody who wakes it can go before
                scheduler.free = since + cycles
            if since + cycles > scheduler.next:
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
