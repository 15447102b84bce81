"""Write ports of the register file, and the stalls of the issue stage that reads and writes cause.

Each bank of registers takes one result a cycle, and arithmetic does not wait for it. A result of an SFU that comes when
arithmetic writes gives way once; then it goes first, and the instruction is held. Those of shared memory wait in a row
for cycles in which arithmetic writes nothing there. When none has been written for sixteen cycles the issue stops until
one has (data/experiments/register_ports). All is counted by when arithmetic that writes in that cycle has its last
stage.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import tell
from warplens.simulator.compiled import called


@called
def come_back(bank: int, s: int, turn: int, waits: int, latches: Any) -> int:
    """Put a result of memory that comes back in a cycle behind the others of its bank.

    Return when it is written if no arithmetic comes between: behind those before it, but for one that was noted before
    it and comes later.
    """
    first, behind = latches[s, at.FIRST + bank], latches[s, at.BEHIND + bank]
    row, came = at.BACK + bank * at.PLACES, turn
    if behind > first:
        came = max(turn, (latches[s, row + (behind - 1 & at.PLACES - 1)] >> at.CAME_AT) + 1)
    free = max(latches[s, at.WROTE + bank], latches[s, at.LEFT_AT + bank]) + 1
    if behind - first == at.PLACES:  # the first one is in its register, or soon will be
        free = max(free, latches[s, row + (first & at.PLACES - 1)] >> at.CAME_AT) + 1
        latches[s, at.LEFT_AT + bank] = free - 1
        first += 1
        latches[s, at.FIRST + bank] = first
    latches[s, row + (behind & at.PLACES - 1)] = came << at.CAME_AT | waits
    latches[s, at.BEHIND + bank] = behind + 1
    return max(turn, free + behind - first) if came == turn else turn


@called
def postpone(warp: Any, slot: int, value: float, steps: Any, sources: Any, slots: Any, stalls: Any) -> None:
    """Let a result be there no sooner than this, and its warp wait if it waits for it."""
    slots[slot].value = value
    step = steps[warp.pc]
    for k in range(step.sources, step.sources_end):
        at_barrier = warp.state == at.WAITING
        later = value + sources[k].delta - (warp.since if at_barrier else warp.ready)
        mine = warp.slots + sources[k].slot == slot
        if mine and not at_barrier and later > 0.0:
            warp.yielded = 1
        if mine and later > 0.0:
            stalls[warp.pc, slots[slot].reason] += later
            warp.since = value + sources[k].delta
            if not at_barrier:
                warp.ready = warp.since


@called
def note_late(s: int, due: int, done: int, waits: int, latches: Any) -> None:
    """Remember when a result of an SFU is written and when it is there, and who waits for it."""
    for k in range(at.LATE, at.LATE + at.LATE_KEPT - 1):
        latches[s, k] = latches[s, k + 1]
        latches[s, k + at.LATE_KEPT] = latches[s, k + at.LATE_KEPT + 1]
    latches[s, at.LATE + at.LATE_KEPT - 1] = due << at.CAME_AT | waits
    latches[s, at.LATE + 2 * at.LATE_KEPT - 1] = done


@called
def stand(
    s: int, turn: int, ahead: int, latches: Any, steps: Any, sources: Any, warps: Any, slots: Any, stalls: Any
) -> None:
    """Let an SFU stand for a cycle: all its results that are written later come a cycle later."""
    for bank in range(2):
        due = latches[s, at.DUE + bank]
        latches[s, at.DUE + bank] = due >> ahead + 1 << ahead + 2 | due & (1 << ahead + 1) - 1
    for k in range(at.LATE, at.LATE + at.LATE_KEPT):
        entry = latches[s, k]
        if entry >> at.CAME_AT > turn:
            latches[s, k] = entry + (1 << at.CAME_AT)
            latches[s, k + at.LATE_KEPT] += 1
            slot = (entry & (1 << at.SLOT_BITS) - 1) - 1
            done = float(latches[s, k + at.LATE_KEPT])
            if slot >= 0 and done > slots[slot].value:
                warp = warps[entry >> at.SLOT_BITS & (1 << at.WARP_BITS) - 1]
                postpone(warp, slot, done, steps, sources, slots, stalls)


@called
def give_way(
    bank: int, s: int, turn: int, latches: Any, steps: Any, sources: Any, warps: Any, slots: Any, stalls: Any
) -> None:
    """Let results of shared memory wait for arithmetic that writes in a cycle; note when the issue stops for them.

    Each cycle before in which it wrote nothing took one of them.
    """
    first, behind = latches[s, at.FIRST + bank], latches[s, at.BEHIND + bank]
    row = at.BACK + bank * at.PLACES
    left = latches[s, at.LEFT_AT + bank]
    free = max(latches[s, at.WROTE + bank], left) + 1
    late = at.PATIENCE
    waiting = True
    while waiting and first < behind:
        came = latches[s, row + (first & at.PLACES - 1)] >> at.CAME_AT
        due = max(came, left + 1) + at.PATIENCE
        when = max(came, free)
        waiting = when < turn
        late = (when if waiting else turn) - due
        if (late > 0 if waiting else late >= at.STOPPED) and latches[s, at.KNOWN + bank] != due:
            latches[s, at.KNOWN + bank] = due
            latches[s, at.STOP], latches[s, at.STOPS] = due + at.UNHEARD, min(late, at.STOPPED)
        if waiting:
            left = when
            free = when + 1
            first += 1
    place, free = first, turn + 1
    while place < behind:
        entry = latches[s, row + (place & at.PLACES - 1)]
        if entry >> at.CAME_AT >= free:
            break
        slot = (entry & (1 << at.SLOT_BITS) - 1) - 1
        value = float(free + at.RETURNS)
        if slot >= 0 and value > slots[slot].value:
            warp = warps[entry >> at.SLOT_BITS & (1 << at.WARP_BITS) - 1]
            postpone(warp, slot, value, steps, sources, slots, stalls)
        place += 1
        free += 1
    latches[s, at.FIRST + bank], latches[s, at.LEFT_AT + bank] = first, left
    latches[s, at.WROTE + bank] = turn


@called
def write(
    last: int, s: int, cycle: int, step: Any, latches: Any, pipe_free: Any, sfu: int, steps: Any, sources: Any,
    warps: Any, slots: Any, stalls: Any,
) -> int:  # fmt: skip
    """Let a result of arithmetic be written; return the instruction's last stage.

    A result of an SFU gives way to it once, and the SFU stands meanwhile; the next one of arithmetic comes behind it.
    What takes longer to be made meets results that come as much later.
    """
    later = floor(step.made) - at.MADE
    held = stood = 0
    for bank in range(2):
        if step.writes >> bank & 1:
            turn = last + later
            ahead = turn - cycle
            if latches[s, at.PASSED + bank] + 1 == turn:
                held = max(held, 1)
                latches[s, at.PASSED + bank] = 0
            elif ahead < at.PORT_CYCLES and latches[s, at.DUE + bank] >> ahead & 1:
                latches[s, at.PASSED + bank] = turn
                if not stood:
                    stood = 1
                    if pipe_free[s, sfu] > turn:
                        pipe_free[s, sfu] += 1.0
                    stand(s, turn, ahead, latches, steps, sources, warps, slots, stalls)
            if latches[s, at.FIRST + bank] < latches[s, at.BEHIND + bank]:
                give_way(bank, s, turn + held, latches, steps, sources, warps, slots, stalls)
            else:
                latches[s, at.WROTE + bank] = turn
    return last + held


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
