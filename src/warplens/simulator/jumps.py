"""How a warp gets what is behind a taken branch: the warps of a scheduler share one port to their instructions.

Each line takes the port for two cycles. A branch asks for that of its target five cycles after its issue; if the port
is not free, or others come first that wait for it, it waits too, before all lines that are no targets, and has lost
three cycles at least. Behind its target a warp asks for the two next lines, and at the end of each line for another
one: these wait for the port in this order (data/h200/branches.json.gz), but the second of the two for a line of a warp
that has issued less (loop_turns.json.gz). A warp that comes for its target goes before those that wait for such a
second line, or at the end of another one, if they have issued more, or as often and are older. A branch can delay the
target of another one by a cycle (loop_targets.json.gz).
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import called
from warplens.simulator.turns import count_issues, went

FIRST, TARGET, SECOND, THIRD = 1, 2, 3, 4  # what a warp asks for: its target once, its target, the two lines behind it
# Cycles from the issue of a branch until it asks; then until it asks again, or for the next line; from when a line has
# the port until it is there; and from the issue of a branch until what its warp asked for before is dropped.
ASKS, AGAIN, COMES, DROPS = 5, 2, 6, 6
TAKES = 2  # cycles of the port
NEXT = 1  # cycle by which counts of issues are ahead when they decide about a line
MEETS = 4.0  # cycles from the issue of a branch until another's target comes that is delayed by it
SHORTLY = 6.0  # cycles before that branch within which its warp issued something
KEPT = at.LINES_KEPT - 1


@called
def jump(w: int, s: int, now: float, scheduler: Any, warp: Any, latches: Any) -> None:
    """Let a warp ask for the target of its branch."""
    cycle = floor(now)
    if warp.asks == 0:
        if scheduler.asking == 0 and scheduler.settled < cycle - at.LINES_KEPT // 2:
            scheduler.settled = cycle - at.LINES_KEPT // 2  # lines that were asked for before are there
        latches[s, at.ASKING + scheduler.asking] = w
        scheduler.asking += 1
    warp.asks, warp.asks_at, warp.crossed = FIRST, cycle + ASKS, 0
    warp.drops_at = cycle + DROPS
    warp.line = now + float(ASKS + AGAIN + COMES)


@called
def end_line(w: int, s: int, now: float, onward: bool, scheduler: Any, warp: Any, latches: Any) -> None:
    """Let a warp at the end of a line ask for another one; if it goes on it needs what its last jump asked for.

    While that is not there it is not the one that issues again.
    """
    cycle = floor(now) + 1
    latches[s, at.LINES + (cycle & KEPT)] = cycle << at.WARP_BITS | w
    if onward:
        warp.crossed = 1 if warp.asks else 0
        if warp.line > now and scheduler.last == w:
            scheduler.last = -1
        if warp.line > warp.ready:
            warp.ready = warp.line
            warp.why = at.NO_INST


@called
def come(when: float, warp: Any, stalls: Any) -> None:
    """Let a warp wait until its instruction is there."""
    if when > (warp.since if warp.asleep else warp.ready):
        if when > warp.since:
            stalls[warp.pc, at.NO_INST] += when - warp.since
            warp.since = when
        if not warp.asleep:
            warp.ready = when


@called
def delay_target(w: int, s: int, pc: int, now: float, scheduler: Any, warps: Any, latches: Any, stalls: Any) -> None:
    """Let another's target that would come four cycles behind a branch come a cycle later.

    So it is if the branch and that target are both at even places of their lines or both at odd ones
    (loop_targets.json.gz), and if the warp that branches issued something less than six cycles before
    (loop_turns.json.gz). A target that waits for an operand until then is taken to come then.
    """
    if warps[w].drops_at == floor(now) + DROPS and warps[w].seen > now - SHORTLY:
        for k in range(scheduler.asking):
            other = warps[latches[s, at.ASKING + k]]
            if other.why == at.RESOLVING and other.ready == now + MEETS and (other.pc + pc) & 1 == 0:
                come(other.ready + 1.0, other, stalls)


@called
def asked(cycle: int, s: int, latches: Any) -> int:
    """Return the warp that asked for another line in a cycle and waits for it, or -1."""
    line = latches[s, at.LINES + (cycle & KEPT)]
    warp: int = line & (1 << at.WARP_BITS) - 1 if line and line >> at.WARP_BITS == cycle else -1
    return warp


@called
def serve_asked(found: int, cycle: int, s: int, scheduler: Any, warps: Any, latches: Any, stalls: Any) -> None:
    """Give the port to a warp that waits for it, for its target or a line behind that."""
    warp = warps[found]
    scheduler.port = cycle + TAKES
    if warp.asks == THIRD:
        warp.asks = 0
        scheduler.asking -= 1
        k = 0
        while latches[s, at.ASKING + k] != found:
            k += 1
        latches[s, at.ASKING + k] = latches[s, at.ASKING + scheduler.asking]
    else:
        if warp.asks == TARGET:
            come(cycle + COMES + warp.far, warp, stalls)
            warp.line = float(cycle + AGAIN + COMES)
        elif warp.asks == SECOND:
            warp.line = float(cycle + COMES)
            if warp.crossed:
                come(warp.line, warp, stalls)
        warp.asks = SECOND if warp.asks == FIRST else warp.asks + 1
        warp.asks_at = cycle + AGAIN


@called
def issued_less(one: int, other: int, counts: int, most: int, warps: Any) -> bool:
    """Whether a warp has issued less than another of late, if one more issue of the warp `counts` counts."""
    ones, others = warps[one].used, warps[other].used
    if counts >= 0 and warps[counts].used >= most:
        ones, others = ones >> 1, others >> 1
    elif counts == one:
        ones += 1
    elif counts == other:
        others += 1
    less: bool = ones < others
    return less


@called
def goes_first(w: int, other: int, counts: int, most: int, warps: Any) -> bool:
    """Whether a warp's target comes before another's line: it has issued less, or as often and is younger."""
    first: bool = issued_less(w, other, counts, most, warps)
    return first or (w > other and not issued_less(other, w, counts, most, warps))


@called
def may_go(
    w: int, cycle: int, s: int, counts: int, most: int, scheduler: Any, warps: Any, latches: Any
) -> bool:  # fmt: skip
    """Whether a warp that asks for its target for the first time goes before all that wait for the port."""
    may = True
    for k in range(scheduler.asking):
        other = latches[s, at.ASKING + k]
        if other != w and warps[other].asks_at <= cycle:
            may = may and warps[other].asks == THIRD and goes_first(w, other, counts, most, warps)
    for before in range(scheduler.lines, cycle):
        other = asked(before, s, latches)
        if other >= 0 and other != w:
            may = may and goes_first(w, other, counts, most, warps)
    return may


@called
def use_port(
    cycle: int, s: int, counts: int, most: int, scheduler: Any, warps: Any, latches: Any, stalls: Any
) -> None:  # fmt: skip
    """Serve one of those that ask in a cycle, if the port is free; one more issue of the warp `counts` counts here."""
    first = found = -1
    for k in range(scheduler.asking):
        w = latches[s, at.ASKING + k]
        warp = warps[w]
        if warp.drops_at == cycle:  # what it asked for at the end of a line before it branched
            for before in range(scheduler.lines, cycle + 1):
                if asked(before, s, latches) == w:
                    latches[s, at.LINES + (before & KEPT)] = 0
        if warp.asks_at <= cycle:
            if warp.asks == FIRST:
                first = w
            else:
                best = warps[max(found, 0)]
                later = found < 0 or warp.asks < best.asks
                if not later and warp.asks == best.asks:
                    later = warp.asks_at < best.asks_at or (warp.asks_at == best.asks_at and w > found)
                if later:
                    found = w
    scheduler.lines = max(scheduler.lines, cycle - KEPT)
    while scheduler.lines <= cycle and asked(scheduler.lines, s, latches) < 0:
        scheduler.lines += 1
    free = cycle >= scheduler.port
    if first >= 0:
        if free and may_go(first, cycle, s, counts, most, scheduler, warps, latches):
            found = first
        else:
            warps[first].asks, warps[first].asks_at = TARGET, cycle + AGAIN
            come(cycle + AGAIN + COMES + warps[first].far, warps[first], stalls)
    if free and found >= 0 and warps[found].asks == THIRD and scheduler.lines <= cycle:
        line = asked(scheduler.lines, s, latches)  # of which the warp may have issued less
        if line >= 0 and line != found and issued_less(line, found, counts, most, warps):
            found = -1
    if free and found >= 0:
        serve_asked(found, cycle, s, scheduler, warps, latches, stalls)
    elif free and scheduler.lines <= cycle:
        latches[s, at.LINES + (scheduler.lines & KEPT)] = 0
        scheduler.port = cycle + TAKES
    for k in range(scheduler.asking):  # who waits on is no sooner there than if the next cycle were its own
        warp = warps[latches[s, at.ASKING + k]]
        if warp.asks_at <= cycle and warp.asks == TARGET:
            come(cycle + 1 + COMES + warp.far, warp, stalls)
        elif warp.asks_at <= cycle and warp.asks == SECOND:
            warp.line = max(warp.line, float(cycle + 1 + COMES))
            if warp.crossed:
                come(warp.line, warp, stalls)


@called
def settle(
    s: int, now: float, setup: Any, scheduler: Any, warps: Any, order: Any, latches: Any, stalls: Any
) -> None:  # fmt: skip
    """Serve what the warps of a scheduler asked for up to now."""
    cycle = scheduler.settled + 1
    while cycle <= now and scheduler.asking:
        counts = -1
        if setup.counting:
            until = min(cycle + NEXT, floor(now))
            if until > scheduler.counted + setup.counted_after:
                count_issues(s, float(until), setup, scheduler, warps, order, latches)
            if until < cycle + NEXT:  # this one does not count yet for who goes now
                counts = went(cycle + NEXT - setup.counted_after, s, warps, latches)
        use_port(cycle, s, counts, setup.counting, scheduler, warps, latches, stalls)
        cycle += 1
    scheduler.settled = floor(now)
