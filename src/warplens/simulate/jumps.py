"""How a warp gets what is behind a taken branch: the warps of a scheduler share one port to their instructions.

A branch asks for the line of its target some cycles after its issue, and behind it for the two next ones; each takes
the port for two cycles. One that finds the port taken, or others waiting for it, or that meets the last instruction of
a line, which asks for a line too, asks again three cycles later and then goes before all lines that are not targets
(data/h200/branches.json.gz).
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called

# Cycles from the issue of a branch until it asks; until it asks again; from there to the line behind that of its
# target, the first time; and from when a line has the port until its first instruction can issue.
ASKS, AGAIN, BEHIND, COMES = 4, 3, 3, 6
TARGET, LATE, NEXT, LAST = 1, 2, 3, 4  # what a warp asks for: its target, the same again, the two lines behind it


@called
def jump(w: int, s: int, now: float, scheduler: Any, warp: Any, latches: Any) -> None:
    """Let a warp ask for the target of its branch."""
    if warp.asks == 0:
        if scheduler.asking == 0:
            scheduler.settled = floor(now)
        latches[s, at.ASKING + scheduler.asking] = w
        scheduler.asking += 1
    warp.asks, warp.asks_at, warp.crossed = TARGET, floor(now) + ASKS, 0
    warp.line = now + float(ASKS + BEHIND + COMES)


@called
def end_line(w: int, s: int, now: float, onward: bool, warp: Any, latches: Any) -> None:
    """Let a warp at the end of a line ask for another one; if it goes on it needs what its last jump asked for."""
    at_port = floor(now) + 1
    latches[s, at.LINES + (at_port & at.ISSUES - 1)] = at_port << at.WARP_BITS | w
    if onward:
        warp.crossed = 1 if warp.asks else 0
        if warp.line > warp.ready:
            warp.ready = warp.line
            warp.why = at.NO_INST


@called
def come(when: float, warp: Any, stalls: Any) -> None:
    """Let a warp wait until its instruction is there."""
    if when > warp.ready:
        stalls[warp.pc, at.NO_INST] += when - warp.ready
        warp.ready = when
        warp.since = when


@called
def take(s: int, cycle: int, scheduler: Any, warps: Any, latches: Any, stalls: Any) -> int:
    """Give the port to what waits for it, a target before other lines; return whose it is, or -1."""
    found = -1
    late = False
    if cycle >= scheduler.port:
        for k in range(scheduler.asking):
            w = latches[s, at.ASKING + k]
            warp = warps[w]
            if warp.asks_at <= cycle:
                if warp.asks == LATE and (not late or warp.asks_at < warps[found].asks_at):
                    found, late = w, True
                elif warp.asks >= NEXT and not late and w > found:
                    found = w
    if found >= 0:
        scheduler.port = cycle + 2
        warp = warps[found]
        if warp.asks == LATE:
            come(cycle + COMES + warp.far, warp, stalls)
        elif warp.asks == NEXT:
            warp.line = float(cycle + COMES)
            if warp.crossed:
                come(warp.line, warp, stalls)
        if warp.asks == LAST:
            warp.asks = 0
            scheduler.asking -= 1
            k = 0
            while latches[s, at.ASKING + k] != found:
                k += 1
            latches[s, at.ASKING + k] = latches[s, at.ASKING + scheduler.asking]
        else:
            warp.asks += 1
            warp.asks_at = cycle + 2
    return found


@called
def meets(w: int, s: int, cycle: int, scheduler: Any, warps: Any, latches: Any) -> bool:
    """Whether a target that is asked for the first time has to wait for others that do."""
    others = False
    for k in range(scheduler.asking):
        v = latches[s, at.ASKING + k]
        other = warps[v]
        if v != w and other.asks >= LATE:
            others = others or other.asks != LAST or v > w or max(other.asks_at, scheduler.port) != cycle + 1
    return others


@called
def settle(s: int, now: float, scheduler: Any, warps: Any, latches: Any, stalls: Any) -> None:
    """Serve what the warps of a scheduler asked for up to now."""
    cycle = scheduler.settled + 1
    while cycle <= now and scheduler.asking:
        served = take(s, cycle, scheduler, warps, latches, stalls)
        line = latches[s, at.LINES + (cycle - 1 & at.ISSUES - 1)]
        asker = line & (1 << at.WARP_BITS) - 1
        if line >> at.WARP_BITS == cycle - 1:
            lost = served >= 0 and served != asker
            for k in range(scheduler.asking):
                v = latches[s, at.ASKING + k]
                lost = lost or (warps[v].asks >= NEXT and v < asker and warps[v].asks_at == cycle + 1)
            if lost:
                again = cycle - 1 + AGAIN
                latches[s, at.LINES + (again & at.ISSUES - 1)] = again << at.WARP_BITS | asker
        for k in range(scheduler.asking):
            w = latches[s, at.ASKING + k]
            warp = warps[w]
            if warp.asks == TARGET and warp.asks_at == cycle:
                line = latches[s, at.LINES + (cycle & at.ISSUES - 1)]
                if served >= 0 or line >> at.WARP_BITS == cycle or meets(w, s, cycle, scheduler, warps, latches):
                    warp.asks, warp.asks_at = LATE, cycle + AGAIN
                    come(cycle + AGAIN + COMES + warp.far, warp, stalls)
                    warp.line = float(cycle + AGAIN + 2 + COMES)
                else:
                    warp.asks, warp.asks_at = NEXT, cycle + BEHIND
        cycle += 1
    scheduler.settled = floor(now)
