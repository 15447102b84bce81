"""How what the schedulers send to shared memory gets there: in a cycle the SM takes one register and one wavefront.

Each scheduler sends what it issued in order, a register in two cycles, and takes only so many that it has not read. An
address alone is let in by turn: one in a cycle, of the scheduler that was let in longest ago, and of each scheduler in
two cycles: who has lost a cycle to another does not make up for it (data/h200/shared_beside.py). Of other instructions
the last register goes with the first wavefront; all before it share one way, by turn too, and so does the only one of a
shuffle. Of several wavefronts those go first whose instruction has begun, then what was sent first, then the
scheduler's that was served longest ago. What waits for its wavefront does not hold what its scheduler sends next. One
register of results comes back in a cycle, in the order of the last wavefronts. Code by hand of four warps is so to the
cycle (data/h200/shared_times.py).

Who goes is known when no scheduler can issue in that cycle any more: results are not known at the issue, and a warp
that waits for one sleeps until they are.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import tell, wake
from warplens.simulator.compiled import called, folded
from warplens.simulator.ports import bring

_NOTHING, _REGISTER, _LOAD = 0, 1, 2
READ_AHEAD = 3  # addresses that a scheduler has read and that wait to be let in, at most


@called
def occupy(start: float, cycles: float, sm: Any) -> None:
    """Let accesses to L1, or a barrier, have the way of wavefronts for some cycles from `start` on."""
    if sm.owed < 1.0:
        sm.owed_from = start
    sm.owed += cycles
    sm.owed_until = start + cycles


@called
def request(
    w: int, s: int, pc: int, row: int, arrives: float, sm: Any, scheduler: Any, step: Any, places: int, setup: Any,
    warp: Any, slots: Any, results: Any, requests: Any,
) -> None:  # fmt: skip
    """Put an instruction behind what its scheduler sends to shared memory; when its results are there is not known."""
    entry = requests[s, scheduler.end & requests.shape[1] - 1]
    scheduler.end += 1
    if scheduler.end - scheduler.begun == places or 0 < setup.unsent <= scheduler.end - scheduler.reading:
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
        slot.pending, slot.reason, slot.early = sm.numbered, step.reason, at.LOOKED_AT
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
        if value > warp.seen and value + slot.early > awake:
            warp.yielded = 1
        if value > when:
            when, why = value, slot.reason
    warp.asleep = 0
    warp.since = when
    if when > awake:
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


@folded
def begins(scheduler: Any, step: Any, entry: Any) -> float:
    """Return when a scheduler can begin to send an instruction.

    An address alone goes at once, but behind other registers a cycle later, as do registers that come just when those
    before them are sent.
    """
    begin: float = scheduler.sent
    if step.words == 0 or entry.arrives == begin:
        begin += scheduler.lag
    if entry.arrives > begin:
        begin = entry.arrives
    return begin


@called
def takes(s: int, now: float, places: int, setup: Any, steps: Any, scheduler: Any, requests: Any) -> bool:
    """Whether a scheduler takes one more for shared memory: what it reads in this cycle leaves its place at once."""
    if scheduler.end - scheduler.begun >= places:
        return False
    if setup.unsent == 0 or scheduler.end - scheduler.reading < setup.unsent:
        return True
    entry = requests[s, scheduler.reading & requests.shape[1] - 1]
    step = steps[entry.pc]
    if step.words == 0:
        ahead = scheduler.reading - scheduler.sending
        return bool(ahead < READ_AHEAD and begins(scheduler, step, entry) <= now)
    return bool(step.words > 1 and entry.left == 0 and 0.0 <= entry.due <= now)


@called
def ease(
    s: int, now: float, pipe: int, setup: Any, steps: Any, scheduler: Any, places: int, full: Any, warps: Any,
    order: Any, requests: Any,
) -> float:  # fmt: skip
    """Let those look again who found no place before shared memory, if there is one in the next cycle; return when."""
    looks = at.FOREVER
    if takes(s, now + 1.0, places, setup, steps, scheduler, requests):
        full[s, pipe + 1] += max(0.0, now - scheduler.crowded)
        scheduler.eased = now
        for row in range(scheduler.listed):
            warp = warps[order[s, row]]
            if warp.ready == at.AWAITED:
                warp.ready = now + 1.0
                wake(scheduler, now + 1.0)
                looks = scheduler.next
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
    scheduler.gap = now + (at.WAVEFRONT_CYCLES if entry.total > 1 else 1.0)
    if entry.fronts == entry.total:
        start = now - step.enters
        taken[s, step.pipe, entry.row] = start
        scheduler.begun += 1
        been_read = max(start + step.read, now + 1.0)  # no sooner than it is known
        looks = inform(
            entry, at.SOURCES_READ, been_read, setup, sm, schedulers, steps, sources, results, warps, slots,
            stalls, events,
        )  # fmt: skip
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
        done = max(float(floor(back + further + 0.5)), now + 1.0)
        if setup.banks and step.writes:
            done = bring(entry.warp, s, done, scheduler, step, warps[entry.warp].slots, results, latches)
        if setup.telling:
            tell(events, sm, done, at.SERVED, entry.warp, entry.pc, floor(done - entry.arrives))
        there = inform(
            entry, at.VALUE, done, setup, sm, schedulers, steps, sources, results, warps, slots, stalls, events
        )  # fmt: skip
        looks = min(looks, there)
    return looks


@called
def read_next(now: float, steps: Any, scheduler: Any, entry: Any) -> None:
    """Let a scheduler read the next address that comes alone, if it can: in two cycles each, also while others wait."""
    step = steps[entry.pc]
    if step.words == 0 and scheduler.reading - scheduler.sending < READ_AHEAD:
        begin = begins(scheduler, step, entry)
        if begin <= now:
            entry.due = begin
            scheduler.reading += 1
            scheduler.sent, scheduler.lag = begin + step.sends, 0.0


@called
def send_next(now: float, steps: Any, scheduler: Any, entry: Any) -> int:
    """Return what a scheduler would send in this cycle where it is to be found who sends: nothing, a register, a load.

    The last register of others shares no way: it is sent.
    """
    step = steps[entry.pc]
    if step.words == 0:
        asks = scheduler.sending < scheduler.reading and scheduler.entered + step.sends <= now
        return _LOAD if asks else _NOTHING
    if entry.due < 0.0:
        begin = begins(scheduler, step, entry)
        if begin > now:
            return _NOTHING
        entry.due = begin + step.sends / step.words - 1.0
    if entry.due > now:
        return _NOTHING
    if entry.left > 0 or step.words == 1:
        return _REGISTER
    sent(now, scheduler)
    return _NOTHING


@called
def sent(now: float, scheduler: Any) -> None:
    """Note that the last register of an instruction is sent; what its scheduler sends next comes two cycles later."""
    scheduler.sending += 1
    scheduler.reading += 1
    scheduler.used = now + 0.5
    scheduler.sent, scheduler.lag = now + 1.0, 1.0


@folded
def turn_of(now: float, asks: int, setup: Any, schedulers: Any) -> int:
    """Return the scheduler whose load is let in of those that ask, or -1: the one that was let in longest ago."""
    first, turn = -1, floor(now) % setup.schedulers
    for k in range(setup.schedulers):
        s = turn + k if turn + k < setup.schedulers else turn + k - setup.schedulers
        if asks >> s & 1 and (first < 0 or schedulers[s].entered < schedulers[first].entered):
            first = s
    return first


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
    senders, asks, left = 0, 0, False
    for s in range(setup.schedulers):
        scheduler = schedulers[s]
        if scheduler.head < scheduler.end:
            left = True
        if scheduler.reading < scheduler.end:
            read_next(now, steps, scheduler, requests[s, scheduler.reading & last])
        if scheduler.sending < scheduler.end:
            sends = send_next(now, steps, scheduler, requests[s, scheduler.sending & last])
            if sends == _REGISTER:
                senders |= 1 << s
            elif sends == _LOAD:
                asks |= 1 << s
    if asks:
        s = turn_of(now, asks, setup, schedulers)
        scheduler = schedulers[s]
        entry = requests[s, scheduler.sending & last]
        entry.due = scheduler.entered = now
        scheduler.used = now + 0.5
        scheduler.sending += 1
    port = -1
    for s in range(setup.schedulers):
        if senders >> s & 1 and (port < 0 or schedulers[s].used < schedulers[port].used):
            port = s
    if port >= 0:
        scheduler = schedulers[port]
        entry = requests[port, scheduler.sending & last]
        step = steps[entry.pc]
        if entry.left == 0:
            entry.due = now
            sent(now, scheduler)
        else:
            entry.left -= 1
            entry.due = now + step.sends / step.words
            scheduler.used = now
    looks = at.FOREVER
    first = -1
    if sm.owed >= 1.0 and now >= sm.owed_from:
        sm.owed -= 1.0
    elif sm.front_free < now + 1.0:
        first = next_front(now, setup, schedulers, requests)
    while first >= 0:
        step = steps[requests[first, schedulers[first].head & last].pc]
        sm.front_free = max(sm.front_free, now) + pipes[step.pipe].interval
        known = take_front(
            first, now, setup, sm, steps, sources, results, pipes, warps, slots, schedulers, order, taken, full,
            latches, requests, stalls, events,
        )  # fmt: skip
        looks = min(looks, known)
        first = -1
        if sm.front_free < now + 1.0:  # more than one in a cycle, if somebody wants to know what that brought
            first = next_front(now, setup, schedulers, requests)
    for s in range(setup.schedulers):
        scheduler = schedulers[s]
        if scheduler.crowded > scheduler.eased:
            pipe = steps[requests[s, scheduler.end - 1 & last].pc].pipe
            places = pipes[pipe].places
            again = ease(s, now, pipe, setup, steps, scheduler, places, full, warps, order, requests)
            looks = min(looks, again)
    sm.fronts_at = now + 1.0 if left else at.FOREVER
    return looks
