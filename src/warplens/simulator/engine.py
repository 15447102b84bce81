"""The engine: one SM, cycle by cycle where something happens.

Plain Python is the definition; Numba compiles the same source (`compiled`). Everything is in arrays of records
(`layout`): the program, the ways of the warps, the machine, the state, and what comes out. All that an instruction
waits for is known when its predecessor issues, because pipes and memory serve in the order of arrival: a warp then has
one number, the cycle from which it may issue. What is left to decide in a cycle is which of the ready warps of a
scheduler goes first, and whether its pipe and its register ports are free.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import begin_blocks, end_warp, open_barrier, tell, wake_streams
from warplens.simulator.compiled import called, entry, folded, inlined
from warplens.simulator.memory import access, send_registers
from warplens.simulator.register_ports import ask, begin_moving, bring, read
from warplens.simulator.register_writes import held_before, hold
from warplens.simulator.scheduler import advance, count_issues, pick, pick_least, release


@folded
def has_room(
    w: int, s: int, now: float, setup: Any, sm: Any, scheduler: Any, steps: Any, pipes: Any, pipe_free: Any, taken: Any,
    asked: Any, full: Any, warps: Any, events: Any,
) -> bool:  # fmt: skip
    """Whether the pipe of a warp's instruction, or the queue before it, takes it now; if not, when it will is noted."""
    warp = warps[w]
    step = steps[warp.pc]
    free = True
    if step.pipe >= 0 and pipes[step.pipe].places >= 0:
        pipe = pipes[step.pipe]
        until = pipe_free[s, step.pipe]
        if pipe.places > 0:
            until = taken[s, step.pipe, asked[s, step.pipe]]  # when the one so many places before it was taken
        if pipe.half and scheduler.other_free > now:
            if step.both or pipe.half == at.ONE:
                if scheduler.other_free > until:
                    until = scheduler.other_free
            elif scheduler.half_free > now:
                until = max(until, min(scheduler.half_free, scheduler.other_free))
        if step.both and scheduler.half_free > until:
            until = scheduler.half_free
        behind = until - now
        if behind >= 1.0:
            free = False
            until = now + float(floor(behind))
            known = full[s, step.pipe + 1] - (until - now)
            if warp.seen < warp.since:  # when it became ready; what is full from now on was so up to now not yet
                before = known - warp.full
                warp.full += before * (warp.since - warp.seen) / (now - warp.seen)
                warp.seen = warp.since
            if setup.telling:
                if now > warp.ready:
                    tell(events, sm, now, at.STALLED, w, warp.pc, at.NOT_SELECTED)
                tell(events, sm, until, at.STALLED, w, warp.pc, step.room)
            warp.ready = until
            if until < scheduler.soonest:
                scheduler.soonest = until
        missed = behind >= 1.0
        if not missed and pipe.places > 0 and warp.seen < warp.since - 1.0:
            crowded = taken[s, step.pipe, pipe.places]
            missed = crowded < warp.since and warp.since - 1.0 < until
        if missed and pipe.places > 0 and setup.counting and (scheduler.last == w or not warp.yielded):
            # what a queue has no place for, or had none when it became ready, lets others go first
            free = False
            warp.yielded = 1
            if scheduler.last == w:
                scheduler.last = -1
    return free


@folded
def serve(
    w: int, s: int, now: float, setup: Any, sm: Any, scheduler: Any, step: Any, pipes: Any, pipe_free: Any, taken: Any,
    asked: Any, full: Any, curves: Any, loads: Any, spread: Any, latches: Any, outstanding: Any, slots: Any,
    warp: Any, results: Any, events: Any,
) -> float:  # fmt: skip
    """Send an instruction through its pipe and memory; its slots then know their time. Return when the pipe took it."""
    start = now
    if step.kind != at.FIXED and scheduler.holds < scheduler.holds_end:
        start += held_before(s, floor(now), scheduler, latches)
    arrives = start
    if step.pipe >= 0:
        pipe = pipes[step.pipe]
        if step.both or (pipe.half == at.EITHER and scheduler.half_free <= now):
            scheduler.half_free = now + 2.0
        elif pipe.half:
            scheduler.other_free = now + (2.0 if pipe.half == at.EITHER else step.takes)
        if step.both:
            scheduler.other_free = now + 2.0
        own = 0 if pipe.shared else s
        free = pipe_free[own, pipe.unit]
        if free > start:
            start = free
        until = start + pipe.interval * step.takes
        pipe_free[own, pipe.unit] = until
        if step.moves > 0.0 and setup.banks:
            begin_moving(start, until, step, scheduler)
        if step.sends > 0.0:
            sent = send_registers(arrives, step, scheduler)
            if sent > start:
                start = sent
        if pipe.places > 0:
            row = asked[s, step.pipe]
            held = pipe.held
            if held > until - start:
                held = until - start
            if pipe.places > 1 or step.pipe != setup.late:
                free = start  # its place is; that of an SFU when the one before is done
            taken[s, step.pipe, row] = held + free
            row = row + 1 if row + 1 < pipe.places else 0
            asked[s, step.pipe] = row
            until = taken[s, step.pipe, row]
            if until > now:
                taken[s, step.pipe, pipe.places] = now
        if until - now >= 2.0 and pipe.places >= 0:
            full[s, step.pipe + 1] += floor(until - now) - 1.0  # from the next cycle on
        if pipe.shared and step.sends == 0.0:
            start += pipe.interval * (step.takes - 1.0)  # the last pass counts
        if setup.telling:
            tell(events, sm, start, at.BUSY, w, warp.pc, step.pipe)
    done = start + step.latency
    if step.kind == at.LOAD or step.kind == at.STORE:
        if setup.telling:
            tell(events, sm, start, at.SENT, w, warp.pc, floor(step.l2_bytes))
        done = access(step, start, w, warp.pc, warp, setup, sm, curves, loads, spread, outstanding)
        away = done if step.kind == at.LOAD else start + setup.drain
        if away > warp.stored:  # no warp ends before what it asked for has come, and its stores have left
            warp.stored = away
    if step.kind == at.QUEUED or step.kind == at.LOAD or step.kind == at.STORE:
        done = float(floor(done + 0.5))
        if setup.telling:
            tell(events, sm, done, at.SERVED, w, warp.pc, floor(done - now))
        if setup.banks and step.even + step.odd + step.writes > 0:
            ask(w, s, floor(now), start, done, step.pipe == setup.late, scheduler, step, warp.slots, results, latches)
            # those that take long are taken to find a free cycle
            if step.pipe != setup.late and floor(done) < floor(now) + at.PORT_CYCLES:
                bring(w, s, done, scheduler, step, warp.slots, results, latches)
    release(start, done, setup, step, warp, slots, results)
    return start


@folded
def wait_for(
    w: int, s: int, now: float, before: Any, setup: Any, sm: Any, steps: Any, sources: Any, slots: Any, pipes: Any,
    pipe_free: Any, full: Any, warps: Any, stalls: Any, events: Any,
) -> bool:  # fmt: skip
    """Find when a warp may issue its next instruction; whether that is now, as the second of a pair.

    It lets others go first unless it is held by a fixed stall alone that does not yield, as by a branch.
    """
    warp = warps[w]
    step = steps[warp.pc]
    first = now + before.stall
    if setup.banks:
        first -= before.extra
    # With a stall of one the cycle in which it yields is none of those that holds stop.
    warp.counted = first - 1.0 if before.yields == 2 else first
    awake = warp.ready
    why = warp.why
    if first > now + 1.0:
        stalls[warp.pc, at.WAIT] += first - now - 1.0
    if awake > first:
        stalls[warp.pc, why] += awake - first
    when = awake
    latest = now
    seen = 0.0
    for k in range(step.sources, step.sources_end):
        source = sources[k]
        slot = slots[warp.slots + source.slot]
        value = slot.value + source.delta
        if value > latest:
            latest = value
        if value > now and value > seen:
            seen = value
        if value > when:
            when = value
            why = slot.reason
    if when < at.FOREVER:
        stalls[warp.pc, why] += when - awake
        if setup.telling and when > now + 1.0:
            tell(events, sm, when, at.STALLED, w, warp.pc, why)
    warp.yielded = 1 if before.yields or seen > awake else 0
    warp.ready = when
    warp.since = when
    warp.seen = now
    warp.full = full[s, step.pipe + 1]
    again = False
    if warp.state == at.WAITING:
        warp.ready = at.FOREVER
    elif setup.width > 1 and step.pairs and not warp.second and latest <= now:
        again = True  # dual issue: in the same cycle, if its pipe has room
        if step.pipe >= 0:
            again = pipes[step.pipe].places != 0 or pipe_free[s, step.pipe] < now + 1.0
        if again:
            warp.since = now
    warp.second = 1 if again else 0
    return again


@called
def meet(
    w: int, s: int, pc: int, now: float, start: float, finished: bool, setup: Any, sm: Any, step: Any, warps: Any,
    slots: Any, schedulers: Any, order: Any, pipe_free: Any, places: Any, blocks: Any, stalls: Any, events: Any,
) -> None:  # fmt: skip
    """Let a warp come to a barrier or to its end, and those go on that waited for it."""
    warp = warps[w]
    place = places[warp.place]
    if step.kind == at.BARRIER:
        place.arrived += 1
        warp.state = at.WAITING
        warp.barrier = pc
        tell(events, sm, now, at.REACHED, w, pc, place.arrived)
    if finished:
        end = warp.ready
        if setup.streams > 1:  # the paper: with its result, or with its issue where none is waited for
            end = now + step.read
        elif warp.stored > end:
            stalls[pc, at.DRAIN] += warp.stored - end
            end = warp.stored
            tell(events, sm, end, at.STALLED, w, pc, at.DRAIN)
        for slot in range(warp.slots, warp.slots + setup.results):  # counts: with the last result
            value = slots[slot].value
            if value > end:
                stalls[pc, slots[slot].reason] += value - end
                end = value
        end_warp(w, s, now, end, setup, sm, warps, schedulers, order, places, blocks, events)
    # A barrier opens when all warps of the block are there; those that ended do not count, unless strict.
    if place.arrived and place.arrived >= (setup.warps if setup.strict else place.live):
        place.arrived = 0
        leave = now + setup.barrier_wait
        if step.kind == at.BARRIER:
            leave = max(leave + start - now, now + step.stall)
            held = max(now, pipe_free[0, setup.data_path])
            pipe_free[0, setup.data_path] = held + setup.barrier_held
        open_barrier(warp.place, w, leave, setup, sm, warps, schedulers, order, stalls, events)
        if step.kind == at.BARRIER and leave > warp.ready:
            warp.ready = leave
            warp.why = at.AT_BARRIER


@inlined
def issue(
    w: int, s: int, now: float, setup: Any, sm: Any, steps: Any, sources: Any, results: Any, pipes: Any,
    segments: Any, runs: Any, curves: Any, loads: Any, spread: Any, code_lines: Any, warps: Any, slots: Any,
    schedulers: Any, order: Any, pipe_free: Any, taken: Any, asked: Any, full: Any, places: Any,
    latches: Any, outstanding: Any, stalls: Any, blocks: Any, events: Any,
) -> bool:  # fmt: skip
    """Issue a warp's instruction and move the warp on; whether the next one issues with it."""
    warp, scheduler = warps[w], schedulers[s]
    pc = warp.pc
    step = steps[pc]
    sm.issued += 1
    stalls[pc, at.SELECTED] += 1.0
    if now > warp.since:
        waited = now - warp.since
        without = full[s, step.pipe + 1] - warp.full
        if without > 0.0:
            without *= waited / (now - warp.seen)
            if without > waited:
                without = waited
            stalls[pc, step.room] += without
            waited -= without
        stalls[pc, at.NOT_SELECTED] += waited
    if setup.telling:
        tell(events, sm, now, at.ISSUED, w, pc, s)
    free = now + step.holds
    if setup.banks:
        free -= step.extra
    if free > scheduler.free:
        scheduler.free = free
    start = serve(
        w, s, now, setup, sm, scheduler, step, pipes, pipe_free, taken, asked, full, curves, loads, spread, latches,
        outstanding, slots, warp, results, events,
    )  # fmt: skip
    if step.yields and setup.yielding:
        scheduler.last = -1
    finished = advance(pc, now, setup, sm, scheduler, step, warp, segments, runs, code_lines)
    if finished or step.kind == at.BARRIER:
        meet(
            w, s, pc, now, start, finished, setup, sm, step, warps, slots, schedulers, order, pipe_free, places, blocks,
            stalls, events,
        )  # fmt: skip
    again = False
    if not finished:
        again = wait_for(
            w, s, now, step, setup, sm, steps, sources, slots, pipes, pipe_free, full, warps, stalls, events,
        )  # fmt: skip
    return again


@inlined
def select(
    s: int, now: float, setup: Any, sm: Any, scheduler: Any, steps: Any, pipes: Any, pipe_free: Any, taken: Any,
    asked: Any, full: Any, warps: Any, order: Any, latches: Any, events: Any,
) -> int:  # fmt: skip
    """Return the warp that issues, or -1; `next` is then when the scheduler looks again.

    The last one again if the policy is greedy and it did not have to wait, else the one that has issued least, the
    first or the next in turn, if its pipe has room.
    """
    scheduler.soonest = at.FOREVER
    if setup.counting and now > scheduler.counted + setup.counted_after:
        count_issues(s, now, setup, scheduler, warps, order, latches)
    w = scheduler.last
    again = setup.greedy > 0 and w >= 0 and warps[w].ready <= now and not (setup.counting and warps[w].yielded)
    searching, passed, barred, queue = True, 0, -1, 0
    while searching:
        if not again:
            if setup.counting:
                row = pick_least(s, now, barred, queue, setup, scheduler, steps, warps, order)
            else:
                turn = scheduler.turn if setup.in_turn and scheduler.turn < scheduler.listed else 0
                row = pick(s, now, turn, passed, scheduler, warps, order)
            if not setup.in_turn:
                passed = row  # if this one has no room it is not ready
            w = -1
            if row >= 0:
                w = order[s, row]
                scheduler.turn = row + 1
        again = False
        searching = w >= 0 and not has_room(
            w, s, now, setup, sm, scheduler, steps, pipes, pipe_free, taken, asked, full, warps, events
        )
        if searching and warps[w].ready > now and not setup.telling:
            barred, queue = w, 1 if pipes[steps[warps[w].pc].pipe].places else 0
    if w < 0:
        scheduler.next = scheduler.soonest if scheduler.soonest > scheduler.free else scheduler.free
    else:
        last = scheduler.last
        if not setup.first_lines or last < 0 or warps[last].why != at.NO_INST or warps[last].ready <= now:
            scheduler.last = w
    return w


@entry
def simulate(
    steps: Any, sources: Any, results: Any, pipes: Any, path_at: Any, segments: Any, runs: Any,
    warp_paths: Any, setups: Any, curves: Any, loads: Any, spread: Any, code_lines: Any, warps: Any, slots: Any,
    schedulers: Any, order: Any, pipe_free: Any, taken: Any, asked: Any, full: Any, places: Any,
    latches: Any, outstanding: Any, stalls: Any, blocks: Any, marks: Any, events: Any, sms: Any,
) -> None:  # fmt: skip
    """Run all blocks through one SM, or up to a limit or a pause; fill stalls, blocks, marks, events and the SM."""
    setup, sm = setups[0], sms[0]
    while sm.ended < setup.blocks and sm.coming < setup.pause:
        now = sm.next_start  # or the next cycle in which a scheduler looks again
        for s in range(setup.schedulers):
            if schedulers[s].next < now:
                now = schedulers[s].next
        if now >= at.FOREVER:
            sm.status = at.DEADLOCK
            break
        while sm.marks < marks.shape[0] and (sm.marks + 1) * setup.mark_every <= now:
            marks[sm.marks] = sm.issued
            sm.marks += 1
        if now > setup.time_limit:
            sm.status = at.TIME_UP
            break
        if sm.next_start <= now:
            begin_blocks(
                now, setup, sm, steps, path_at, segments, runs, warp_paths, warps, slots, schedulers, order, places,
                blocks, events,
            )  # fmt: skip
        first = floor(now) % setup.schedulers
        for k in range(setup.schedulers):  # in turn, so that none has the first say at the units they share
            s = first + k if first + k < setup.schedulers else first + k - setup.schedulers
            scheduler = schedulers[s]
            if scheduler.next > now:
                continue
            if scheduler.holds < scheduler.holds_end and hold(
                s, now, setup, sm, scheduler, warps, order, pipes, pipe_free, latches, stalls, events
            ):
                continue
            w = select(
                s, now, setup, sm, scheduler, steps, pipes, pipe_free, taken, asked, full, warps, order, latches,
                events,
            )  # fmt: skip
            if w < 0:
                continue
            warps[w].count += 1
            latches[s, at.WENT + (floor(now) & at.ISSUES - 1)] = (warps[w].block << at.WARP_BITS | w) + 1
            step = steps[warps[w].pc]
            if setup.banks and step.kind == at.FIXED and step.pipe >= 0:
                read(
                    w, s, setup.schedulers + w, floor(now), scheduler, step, warps[w], latches, pipe_free, setup.late,
                    steps, sources, warps, slots, stalls,
                )  # fmt: skip
            if step.yields:
                scheduler.dropped += 1
            again = True
            while again:  # twice where two instructions issue together
                again = issue(
                    w, s, now, setup, sm, steps, sources, results, pipes, segments, runs, curves, loads,
                    spread, code_lines, warps, slots, schedulers, order, pipe_free, taken, asked, full, places,
                    latches, outstanding, stalls, blocks, events,
                )  # fmt: skip
            if setup.streams > 1:
                wake_streams(w // setup.streams, now, setup, steps, sources, slots, warps, schedulers)
            scheduler.next = scheduler.free if scheduler.listed else at.FOREVER
