"""How what the schedulers send to shared memory gets there: in a cycle the SM takes one register and one wavefront.

Each scheduler sends what it issued in order, a register in two cycles. The last one goes with the first wavefront, an
address alone is one; all before it share one way, and so does the only one of a shuffle. Of several wavefronts those go
first whose instruction has begun, then what came first, then the scheduler's that was served longest ago; registers go
by the last alone. What waits for its wavefront does not hold what its scheduler sends next. One register of results
comes back in a cycle, in the order of the last wavefronts. Code by hand of four warps is so to the cycle
(data/h200/shared_times.py).

Who goes is known when no scheduler can issue in that cycle any more: results are not known at the issue, and a warp
that waits for one sleeps until they are.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.blocks import tell, wake
from warplens.simulate.compiled import called, folded
from warplens.simulate.ports import bring


@called
def occupy(start: float, cycles: float, sm: Any) -> None:
    """Let accesses to L1, or a barrier, have the way of wavefronts for some cycles from `start` on."""
    if sm.owed < 1.0:
        sm.owed_from = start
    sm.owed += cycles
    sm.owed_until = start + cycles


@called
def request(
    w: int, s: int, pc: int, row: int, arrives: float, sm: Any, scheduler: Any, step: Any, places: int, warp: Any,
    slots: Any, results: Any, requests: Any,
) -> None:  # fmt: skip
    """Put an instruction behind what its scheduler sends to shared memory; when its results are there is not known."""
    entry = requests[s, scheduler.end & requests.shape[1] - 1]
    scheduler.end += 1
    if scheduler.end - scheduler.begun == places:
        scheduler.crowded = arrives
    sm.numbered += 1
    entry.number, entry.warp, entry.block, entry.pc, entry.row = sm.numbered, w, warp.block, pc, row
    entry.arrives, entry.due = arrives, -1.0
    entry.left = max(0, step.words - 1)
    entry.fronts = max(1, floor(step.takes))
    scheduler.rest += max(step.takes, 1.0) - entry.fronts
    if scheduler.rest >= 1.0:  # a mean of several accesses
        scheduler.rest -= 1.0
        entry.fronts += 1
    entry.total = entry.fronts
    for r in range(step.results, step.results_end):
        slot = slots[warp.slots + results[r].slot]
        slot.pending, slot.reason = sm.numbered, step.reason
    if sm.fronts_at >= at.FOREVER:  # the ways were not looked at for a while
        sm.owed, sm.owed_from = max(0.0, sm.owed_until - arrives), arrives
    sm.fronts_at = min(sm.fronts_at, arrives)


@called
def resume(
    warp: Any, setup: Any, sm: Any, w: int, schedulers: Any, steps: Any, sources: Any, slots: Any, stalls: Any,
    events: Any,
) -> float:  # fmt: skip
    """Let a warp go on if all is known that it sleeps for; return when its scheduler looks at it."""
    step = steps[warp.pc]
    awake, why = warp.since, at.SHORT
    if warp.counted > awake:
        stalls[warp.pc, at.WAIT] += warp.counted - awake
        warp.since = awake = warp.counted
    when = awake
    for k in range(step.sources, step.sources_end):
        slot = slots[warp.slots + sources[k].slot]
        if slot.pending:
            return at.FOREVER
        value = slot.value + sources[k].delta
        if value > when:
            when, why = value, slot.reason
    warp.asleep = 0
    warp.since = when
    if when > awake:
        warp.yielded = 1
        stalls[warp.pc, why] += when - awake
        if setup.telling:
            tell(events, sm, when, at.STALLED, w, warp.pc, why)
    if warp.state != at.RUNNING:
        return at.FOREVER
    warp.ready = when
    wake(schedulers[warp.home], when)
    looks: float = schedulers[warp.home].next
    return looks


@called
def inform(
    entry: Any, kind: int, value: float, setup: Any, sm: Any, schedulers: Any, steps: Any, sources: Any, results: Any,
    warps: Any, slots: Any, stalls: Any, events: Any,
) -> float:  # fmt: skip
    """Let the slots of a kind know when a result is there; return when a scheduler looks again for that."""
    looks = at.FOREVER
    warp, step = warps[entry.warp], steps[entry.pc]
    if warp.block == entry.block:  # else it has ended without it
        for r in range(step.results, step.results_end):
            slot = slots[warp.slots + results[r].slot]
            if results[r].kind == kind:
                slot.value = max(slot.value, value)
                if slot.pending == entry.number:
                    slot.pending = 0
        if warp.asleep:
            looks = resume(warp, setup, sm, entry.warp, schedulers, steps, sources, slots, stalls, events)
    return looks


@called
def leave_place(
    s: int, now: float, start: float, entry: Any, step: Any, places: int, scheduler: Any, taken: Any, full: Any,
    warps: Any, order: Any,
) -> float:  # fmt: skip
    """Free an instruction's place before shared memory; return when its scheduler looks again if all were taken."""
    taken[s, step.pipe, entry.row] = start
    looks = at.FOREVER
    if scheduler.end - scheduler.begun == places:
        full[s, step.pipe + 1] += max(0.0, now - scheduler.crowded)
        for row in range(scheduler.listed):
            warp = warps[order[s, row]]
            if warp.ready == at.AWAITED:
                warp.ready = now + 1.0
                wake(scheduler, now + 1.0)
                looks = scheduler.next
    scheduler.begun += 1
    return looks


@called
def take_front(
    s: int, now: float, setup: Any, sm: Any, steps: Any, sources: Any, results: Any, pipes: Any, warps: Any, slots: Any,
    schedulers: Any, order: Any, taken: Any, full: Any, latches: Any, requests: Any, stalls: Any, events: Any,
) -> float:  # fmt: skip
    """Let a scheduler's wavefront go; return when a scheduler looks again for that."""
    scheduler = schedulers[s]
    entry = requests[s, scheduler.head & requests.shape[1] - 1]
    step = steps[entry.pc]
    looks = at.FOREVER
    scheduler.served = now
    scheduler.used = 2.0 * now
    scheduler.gap = now + (at.WAVEFRONT_CYCLES if entry.total > 1 else 1.0)
    if entry.fronts == entry.total:
        start = now - step.enters
        freed = leave_place(s, now, start, entry, step, pipes[step.pipe].places, scheduler, taken, full, warps, order)
        looks = inform(
            entry, at.SOURCES_READ, start + step.read, setup, sm, schedulers, steps, sources, results, warps, slots,
            stalls, events,
        )  # fmt: skip
        looks = min(looks, freed)
        if setup.telling:
            tell(events, sm, start, at.BUSY, entry.warp, entry.pc, step.pipe)
    entry.fronts -= 1
    if entry.fronts == 0:
        scheduler.head += 1
        further = max(0, step.returns - 1)
        back = now + step.latency - step.enters - at.WAVEFRONT_CYCLES * (max(1.0, step.takes) - 1.0) - further
        if step.returns:
            back = max(back, sm.returned)
            sm.returned = back + step.returns * pipes[step.pipe].interval
        done = float(floor(back + further + 0.5))
        if setup.telling:
            tell(events, sm, done, at.SERVED, entry.warp, entry.pc, floor(done - entry.arrives))
        if setup.banks and step.writes:
            bring(entry.warp, s, done, scheduler, step, warps[entry.warp].slots, results, latches)
        there = inform(
            entry, at.VALUE, done, setup, sm, schedulers, steps, sources, results, warps, slots, stalls, events
        )  # fmt: skip
        looks = min(looks, there)
    return looks


@called
def send_next(now: float, steps: Any, scheduler: Any, entry: Any) -> bool:
    """Let a scheduler send what comes next; whether that is a register that shares its way with others'.

    An address alone goes at once, but behind other registers a cycle later, as do registers that come just when those
    before them are sent. With the last one comes the first wavefront; the next one of the scheduler two cycles behind.
    """
    step = steps[entry.pc]
    each = step.sends / max(1, step.words)
    if entry.due < 0.0:
        begin = scheduler.sent
        if step.words == 0 or entry.arrives == begin:
            begin += scheduler.lag
        begin = max(begin, entry.arrives)
        if begin > now:
            return False
        entry.due = begin if step.words == 0 else begin + each - 1.0
    if entry.due > now:
        return False
    if entry.left:
        return True
    if scheduler.path <= now:
        scheduler.sending += 1
        scheduler.sent, scheduler.lag = now + 1.0, 1.0
        if step.words == 0:
            scheduler.sent, scheduler.lag = now + step.sends, 0.0
        scheduler.path = now + at.WAVEFRONT_CYCLES * entry.total
    return False


@called
def next_front(now: float, setup: Any, schedulers: Any, requests: Any) -> int:
    """Return the scheduler whose wavefront goes next, or -1."""
    last, first = requests.shape[1] - 1, -1
    turn = floor(now) % setup.schedulers
    for k in range(setup.schedulers):
        s = turn + k if turn + k < setup.schedulers else turn + k - setup.schedulers
        scheduler = schedulers[s]
        if scheduler.head < scheduler.sending and scheduler.gap <= now:
            if first < 0:
                first = s
                continue
            entry = requests[s, scheduler.head & last]
            other = requests[first, schedulers[first].head & last]
            begun = entry.fronts < entry.total
            if begun != (other.fronts < other.total):
                first = s if begun else first
            elif entry.due != other.due:
                first = s if entry.due < other.due else first
            elif scheduler.served < schedulers[first].served:
                first = s
    return first


@folded
def serve_fronts(
    now: float, setup: Any, sm: Any, steps: Any, sources: Any, results: Any, pipes: Any, warps: Any, slots: Any,
    schedulers: Any, order: Any, taken: Any, full: Any, latches: Any, requests: Any, stalls: Any, events: Any,
) -> float:  # fmt: skip
    """Let a cycle of the ways to shared memory pass; return when a scheduler looks again for what came of it."""
    last = requests.shape[1] - 1
    senders, left = 0, False
    for s in range(setup.schedulers):
        scheduler = schedulers[s]
        if scheduler.head < scheduler.end:
            left = True
        sends = scheduler.sending < scheduler.end
        if sends and send_next(now, steps, scheduler, requests[s, scheduler.sending & last]):
            senders |= 1 << s
    looks = at.FOREVER
    first = -1
    if sm.owed >= 1.0 and now >= sm.owed_from:
        sm.owed -= 1.0
    elif sm.front_free < now + 1.0:
        first = next_front(now, setup, schedulers, requests)
    while first >= 0:
        step = steps[requests[first, schedulers[first].head & last].pc]
        if step.words == 1:
            senders = 0
        sm.front_free = max(sm.front_free, now) + pipes[step.pipe].interval
        known = take_front(
            first, now, setup, sm, steps, sources, results, pipes, warps, slots, schedulers, order, taken, full,
            latches, requests, stalls, events,
        )  # fmt: skip
        looks = min(looks, known)
        first = -1
        if sm.front_free < now + 1.0:  # more than one in a cycle, if somebody wants to know what that brought
            first = next_front(now, setup, schedulers, requests)
    port = -1
    for s in range(setup.schedulers):
        if senders >> s & 1 and (port < 0 or schedulers[s].used < schedulers[port].used):
            port = s
    if port >= 0:
        scheduler = schedulers[port]
        entry = requests[port, scheduler.sending & last]
        step = steps[entry.pc]
        entry.left -= 1
        entry.due = now + step.sends / step.words
        scheduler.used = 2.0 * now + 1.0
    sm.fronts_at = now + 1.0 if left else at.FOREVER
    return looks
