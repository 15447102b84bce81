"""Where results are written: each bank of registers takes one a cycle, and arithmetic does not wait for it.

A result of an SFU that comes when arithmetic writes gives way once; then it goes first, and the instruction is held.
Those of shared memory wait in a row for cycles in which arithmetic writes nothing there. When none has been written for
sixteen cycles the issue stops until one has. All is counted by when arithmetic that writes in
that cycle has its last stage.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
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
        if mine and not at_barrier and later + slots[slot].early > 0.0:
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
