"""The fluid schedule of an SM: bursts that share issue slots and pipes, accesses that queue, barriers, blocks.

Between two events every burst that runs on a scheduler goes on at a steady rate: that of a warp alone, or as much as
those before it leave of the issue slots and of the pipes (the oldest block goes first, within a block who came first).
Those before it use a share U of a resource; a wait for it at random takes U / (1 - U) of a turn. Units that serve in
turn, L1's data path, L2 and DRAM, have what is queued before them (Lindley's recursion); latencies follow the traffic
as in the engine, whose memory, blocks, barriers and instruction cache these are. There is no clock: an event is the
end of a burst or of a wait.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import begin_blocks, queue
from warplens.simulator.compiled import called, entry, folded
from warplens.simulator.engine import meet
from warplens.simulator.memory import access, fetch, send_registers
from warplens.simulator.scheduler import onward, release

FLOW = at.record("", "left rate begun")  # a warp's burst: cycles left of it (-1: it waits), how fast, since when
_LEAST, _NOTHING = 0.01, 1e-6  # of the issue slots: not worth giving out; what is left of what is used up


@folded
def share(
    s: int, now: float, scheduler: Any, bursts: Any, demands: Any, waits: Any, warps: Any, flows: Any, order: Any,
    followed: Any, rest: Any,
) -> None:  # fmt: skip
    """Let all bursts of a scheduler go on up to now, begin those that are ready, and give each its rate, in order.

    `soonest` is when the first of them ends, that of the warp `last`; `next` is then, or when a warp is ready.
    """
    soonest = ready = at.FOREVER
    past, followed[s] = now - followed[s], now
    for r in range(rest.shape[0]):
        rest[r] = 1.0
    before = 0.0
    greedy, scheduler.turn, kept = scheduler.turn, -1, -1
    for row in range(0 if greedy < 0 else -1, scheduler.listed):
        w = greedy if row < 0 else order[s, row]
        if w == greedy and row >= 0:
            continue
        flow, b = flows[w], warps[w].pc
        left = flow.left - past * flow.rate
        if flow.left < 0.0:
            if warps[w].ready > now:
                ready = min(ready, warps[w].ready)
                if w == greedy and warps[w].why == at.NO_INST:
                    kept = w  # it waits for its code alone, and goes on before the others
                continue
            left = bursts[b].cycles
            flow.begun = now
        flow.left = left = max(0.0, left)
        flow.rate = 0.0
        if rest[0] < _LEAST:
            continue
        rate, slower, others = 1.0, 1.0, (before - 1.0) / max(1.0, before)
        for r in range(rest.shape[0]):
            free, part = rest[r], demands[b, r]
            if free < 1.0:
                used = 1.0 - free
                slower += waits[b, r] * used / (1.0 - used * others)
                if part * rate > free:
                    rate = free / part
        rate = min(rate, 1.0 / slower)
        for r in range(rest.shape[0]):
            rest[r] = max(_NOTHING, rest[r] - rate * demands[b, r])
        flow.rate = rate
        if rate * demands[b, 0] > 0.5:
            scheduler.turn = w  # it has most of the slots, and keeps them
        if left < (soonest - now) * rate:
            soonest = now + left / rate
            scheduler.last = w
        before += 1.0
    if kept >= 0:
        scheduler.turn = kept
    scheduler.soonest = soonest
    scheduler.next = min(soonest, ready)


@called
def send(
    w: int, s: int, pc: int, when: float, later: float, setup: Any, sm: Any, scheduler: Any, step: Any, pipes: Any,
    pipe_free: Any, taken: Any, asked: Any, curves: Any, loads: Any, spread: Any, outstanding: Any, slots: Any,
    warps: Any, results: Any,
) -> float:  # fmt: skip
    """Send an instruction to its unit and note when its result is there; return by how much its warp is held.

    A full queue before the unit holds the warp: by so much all that follows comes later.
    """
    warp, start = warps[w], when + later
    if step.pipe >= 0 and (step.kind != at.FIXED or pipes[step.pipe].places < 0):
        pipe = pipes[step.pipe]
        own = 0 if pipe.shared else s
        free = pipe_free[own, pipe.unit]
        place = 0
        if pipe.places > 0:
            place = asked[s, step.pipe] % pipe.places
            until = taken[s, step.pipe, place]
            if until - start >= 1.0:
                later += until - start
                start = until
        pipe_free[own, pipe.unit] = max(free, when) + pipe.interval * step.passes
        sent = send_registers(start, step, scheduler) if step.sends > 0.0 else start
        start = max(sent, free)
        if pipe.places > 0:
            taken[s, step.pipe, place] = start + pipe.held
            asked[s, step.pipe] += 1
        if pipe.shared and step.sends == 0.0:
            start += pipe.interval * (step.passes - 1.0)  # the last pass counts
    done = start + step.latency
    if step.kind == at.LOAD or step.kind == at.STORE:
        done = access(
            step, start, w, pc, warp, setup, sm, curves, loads, spread, outstanding
        )  # fmt: skip
        warp.stored = max(warp.stored, done if step.kind == at.LOAD else start + setup.drain)
    release(start, done, setup, step, warp, slots, results)
    warp.since = start
    return later


@called
def move_on(b: int, now: float, setup: Any, sm: Any, bursts: Any, warp: Any, segments: Any, runs: Any,
            code_lines: Any) -> bool:  # fmt: skip
    """Move a warp to its next burst, behind this one or elsewhere; whether its way is at its end.

    Noted is when it has that burst's instructions, and for what it waits: stall count, branch, its line.
    """
    finished: bool = onward(b, now, setup, warp, segments, runs)
    following = warp.pc
    warp.ready, warp.why = now + bursts[b].stall, at.WAIT
    jump = bursts[b].branch
    if bursts[following].first != bursts[b].last + 1 and not finished:
        jump = max(jump, setup.branch_taken - 1.0)
    if now + jump > warp.ready:
        warp.ready, warp.why = now + jump, at.RESOLVING
    line = bursts[following].first >> 3
    if setup.first_lines and line != bursts[b].last >> 3 and not finished:
        there = fetch(line, now, setup, sm, code_lines)
        if there > warp.ready:
            warp.ready, warp.why = there, at.NO_INST
    return finished


@folded
def finish(
    w: int, s: int, now: float, setup: Any, sm: Any, bursts: Any, operations: Any, steps: Any, sources: Any,
    results: Any, pipes: Any, segments: Any, runs: Any, curves: Any, loads: Any, spread: Any, code_lines: Any,
    warps: Any, flow: Any, slots: Any, schedulers: Any, order: Any, pipe_free: Any, taken: Any, asked: Any, places: Any,
    outstanding: Any, stalls: Any, blocks: Any, events: Any,
) -> None:  # fmt: skip
    """Send what a burst sends, then let its warp go on, wait for its block, or end."""
    warp = warps[w]
    b = warp.pc
    burst = bursts[b]
    last = steps[burst.last]
    stalls[b, at.SELECTED] += burst.slots
    stalls[b, at.WAIT] += burst.cycles - burst.slots
    stalls[b, at.NOT_SELECTED] += max(0.0, now - flow.begun - burst.cycles)
    sm.issued += burst.last - burst.first + 1
    later = 0.0
    warp.since = now
    for k in range(burst.operations, burst.operations_end):
        operation = operations[k]
        when = max(flow.begun, now - (burst.cycles - operation.offset) / flow.rate)
        later = send(
            w, s, operation.step, when, later, setup, sm, schedulers[s], steps[operation.step], pipes, pipe_free, taken,
            asked, curves, loads, spread, outstanding, slots, warps, results,
        )  # fmt: skip
    stalls[b, at.MIO] += later
    start, now = warp.since, now + later
    flow.left, flow.rate = -1.0, 0.0
    finished = move_on(b, now, setup, sm, bursts, warp, segments, runs, code_lines)
    if finished or last.kind == at.BARRIER:
        meet(
            w, s, b, now, start, finished, setup, sm, last, warps, slots, schedulers, order, pipe_free, places, blocks,
            stalls, events,
        )  # fmt: skip
    if finished or burst.yields:
        schedulers[s].turn = -1
    if finished:
        return
    following, awake, when, why = bursts[warp.pc], warp.ready, warp.ready, warp.why
    stalls[b, why] += max(0.0, awake - now)
    for k in range(following.sources, following.sources_end):
        slot = slots[warp.slots + sources[k].slot]
        if slot.value + sources[k].delta > when:
            when, why = slot.value + sources[k].delta, slot.reason
    stalls[b, why] += when - awake
    if burst.yields or when > awake:
        schedulers[s].turn = -1
        queue(w, s, when, setup, schedulers[s], warps, order)
    warp.ready, warp.since = when, when
    if warp.state == at.WAITING:
        warp.ready = at.FOREVER


@entry
def flow_through(
    bursts: Any, operations: Any, demands: Any, waits: Any, steps: Any, sources: Any, results: Any, pipes: Any,
    path_at: Any, segments: Any, runs: Any, warp_paths: Any, setups: Any, curves: Any, loads: Any, spread: Any,
    code_lines: Any, warps: Any, flows: Any, slots: Any, schedulers: Any, order: Any, followed: Any, rest: Any,
    pipe_free: Any, taken: Any, asked: Any, places: Any, outstanding: Any, stalls: Any, blocks: Any, events: Any,
    sms: Any,
) -> None:  # fmt: skip
    """Run all blocks through one SM; fill stalls, blocks and the SM."""
    setup, sm = setups[0], sms[0]
    while sm.ended < setup.blocks:
        now = sm.next_start  # or the next event of a scheduler
        for s in range(setup.schedulers):
            now = min(now, schedulers[s].next)
        if now >= at.FOREVER:
            sm.status = at.DEADLOCK
            break
        if sm.next_start <= now:
            begin_blocks(
                now, setup, sm, bursts, path_at, segments, runs, warp_paths, warps, slots, schedulers, order, places,
                blocks, events,
            )  # fmt: skip
        first = floor(now) % setup.schedulers
        for k in range(setup.schedulers):
            s = first + k if first + k < setup.schedulers else first + k - setup.schedulers
            scheduler = schedulers[s]
            if scheduler.next > now:
                continue
            w = scheduler.last
            if scheduler.soonest <= now:
                finish(
                    w, s, now, setup, sm, bursts, operations, steps, sources, results, pipes, segments, runs, curves,
                    loads, spread, code_lines, warps, flows[w], slots, schedulers, order, pipe_free, taken, asked,
                    places, outstanding, stalls, blocks, events,
                )  # fmt: skip
            share(s, now, scheduler, bursts, demands, waits, warps, flows, order, followed, rest)
