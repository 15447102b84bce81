"""The engine: one SM, cycle by cycle where something happens.

Plain Python is the definition; Numba compiles the same source. Everything is in arrays (`layout`): the program, the
ways of the warps, the machine, the state, and what comes out. All that an instruction waits for is known when its
predecessor issues, because pipes and memory serve in the order of arrival: a warp then has one number, the cycle from
which it may issue. What is left to decide in a cycle is which of the ready warps of a scheduler goes first, and whether
its pipe and its register ports are free.

Statements are plain on purpose (no tuples, no min and max, arrays made by the caller): that halves the time to compile.
"""

from __future__ import annotations

from typing import Any

# isort: off
from warplens.simulate.layout import (
    AT_BARRIER, BANKS, BARRIER, BARRIER_WAIT, BLOCKS, BRANCH, BRANCH_TAKEN, CLASS, DEADLOCK, DEPTH, DISPATCH, FIXED,
    FOREVER, GREEDY, HOLDS, INTERVAL, ISSUED, LATENCY, LG, LOAD, MARK_EVERY, MATH, MIO, MOVED, NOT_SELECTED, OLDEST,
    OPERANDS_LATE, OUT_ENDED, OUT_ISSUED, OUT_MARKS, OUT_STATUS, PAIRS, PASSES, PIPE, POLICY, P_ARRIVED, P_LIVE,
    QUEUED, REACHED, READ, READS, READY, READ_AFTER, REASON, RESOLVING, RESULTS, RESULTS_END, RING, ROUND_ROBIN,
    SCHEDULERS, SELECTED, SERVED, SHARED, SINCE, SOURCES, SOURCES_END, STALL, STALLED, STORE, STREAMS, STRICT, S_FREE,
    S_LAST, S_LISTED, S_NEXT, S_PORTS, TIME_LIMIT, TIME_UP, VALUE, WAIT, WAITING, WARPS, WIDTH, WRITE_BEFORE, W_BLOCK,
    W_END, W_PC, W_RUN, W_SECOND, W_SEGMENT, W_STATE, W_TIMES, YOUNGEST,
)  # fmt: skip

# isort: on
from warplens.simulate.parts import begin_blocks, end_warp, entry, memory, open_barrier, tell, wake_streams


@entry
def simulate(
    code: Any, timing: Any, sources: Any, deltas: Any, results: Any, result_kinds: Any, pipes: Any,
    path_at: Any, segments: Any, runs: Any, warp_paths: Any, options: Any, settings: Any, spread: Any,
    lanes: Any, times: Any, slots: Any, slot_reason: Any, order: Any, turns: Any, clocks: Any, pipe_free: Any,
    places: Any, starts: Any, due: Any, carry: Any, levels: Any, outstanding: Any,
    counts: Any, stalls: Any, blocks: Any, marks: Any, events: Any, out: Any,
) -> None:  # fmt: skip
    """Run all blocks through one SM, or up to the time limit; fill counts, stalls, blocks, marks, events and out.

    Long because what runs in every cycle is here: a call that passes arrays costs as much as the work of a cycle.
    """
    schedulers = options[SCHEDULERS]
    streams = options[STREAMS]
    policy = options[POLICY]
    greedy = options[GREEDY] > 0
    banked = options[BANKS] > 0
    telling = events.shape[0] > 0
    issued = 0
    while out[OUT_ENDED] < options[BLOCKS]:
        now = FOREVER  # the next cycle in which anything can happen
        for s in range(schedulers):
            if clocks[s, S_NEXT] < now:
                now = clocks[s, S_NEXT]
        starting = False
        for place in range(starts.shape[0]):
            if starts[place, 0] <= now:
                now = starts[place, 0]
                starting = now < FOREVER
        if now >= FOREVER:
            out[OUT_STATUS] = DEADLOCK
            break
        while out[OUT_MARKS] < marks.shape[0] and (out[OUT_MARKS] + 1) * settings[MARK_EVERY] <= now:
            marks[out[OUT_MARKS]] = issued
            out[OUT_MARKS] += 1
        if now > settings[TIME_LIMIT]:
            out[OUT_STATUS] = TIME_UP
            break
        if starting:
            begin_blocks(
                now, path_at, segments, runs, warp_paths, options, settings, code, lanes, times, slots, order, turns,
                clocks, places, starts, blocks, events, out,
            )  # fmt: skip
        cycle = int(now)
        for turn_of in range(schedulers):  # in turn, so that none has the first say at the units they share
            s = (turn_of + cycle) % schedulers
            if clocks[s, S_NEXT] > now:
                continue

            # 1. Choose a warp: the last one again if the policy is greedy, else by age or in turn.
            soonest = FOREVER
            chosen = -1
            count = turns[s, S_LISTED]
            offset = 0
            if policy == ROUND_ROBIN:
                for k in range(count):
                    if order[s, k] == turns[s, S_LAST]:
                        offset = k + 1
            for k in range(-1, count):
                w = turns[s, S_LAST]
                if k < 0:
                    if not greedy or w < 0 or times[w, READY] > now:
                        continue
                elif policy == OLDEST:
                    w = order[s, k]
                elif policy == YOUNGEST:
                    w = order[s, count - 1 - k]
                else:
                    w = order[s, (k + offset) % count]
                when = times[w, READY]
                if when > now:
                    if when < soonest:
                        soonest = when
                    continue
                pc = lanes[w, W_PC]
                pipe = code[pc, PIPE]
                if pipe >= 0:
                    behind = pipe_free[0 if pipes[pipe, SHARED] > 0 else s, pipe] - now
                    room = pipes[pipe, DEPTH] + 1.0
                    if behind >= room:  # the pipe, or the queue before it, is full
                        until = now + float(int(behind - room + 1.0))
                        kind = code[pc, CLASS]
                        if now > times[w, SINCE]:
                            stalls[pc, NOT_SELECTED] += now - times[w, SINCE]
                        stalls[pc, MATH if kind == FIXED else MIO if kind == QUEUED else LG] += until - now
                        times[w, READY] = until
                        times[w, SINCE] = until
                        if until < soonest:
                            soonest = until
                        continue
                chosen = w
                break

            # 2. Register ports. Memory and SFU read and write registers through the same ports as everyone. They give
            # way for one cycle, then they go first, and an instruction that needs the port holds the issue stage.
            if banked:
                pc = lanes[chosen, W_PC] if chosen >= 0 else 0
                fixed = chosen >= 0 and code[pc, CLASS] == FIXED
                blocked = False
                for port in range(4):
                    waiting = carry[s, port]
                    if turns[s, S_PORTS] < cycle - 2:
                        waiting = 0  # served in the cycles without an issue
                    elif turns[s, S_PORTS] == cycle - 2:
                        item = due[s, port, (cycle - 1) & (RING - 1)]
                        waiting += (item & 7) if item >> 4 == cycle - 1 else 0
                        waiting -= 1 if waiting > 0 else 0
                    carry[s, port] = waiting
                    if fixed and waiting > 0 and code[pc, READS + port] > 0:
                        blocked = True
                for port in range(4):
                    item = due[s, port, cycle & (RING - 1)]
                    if item >> 4 != cycle:
                        item = 0
                    waiting = carry[s, port] + (item & 7)
                    if blocked or not fixed or code[pc, READS + port] == 0:
                        waiting -= 1 if waiting > 0 else 0
                    elif item & 8:  # the unit waits for its operand
                        pipe_free[s, options[OPERANDS_LATE]] += 1.0
                    carry[s, port] = waiting
                turns[s, S_PORTS] = cycle
                if blocked:
                    stalls[pc, DISPATCH] += 1.0
                    times[chosen, SINCE] += 1.0
                    turns[s, S_LAST] = chosen
                    clocks[s, S_NEXT] = now + 1.0
                    continue
            if chosen < 0:
                clocks[s, S_NEXT] = soonest if soonest > clocks[s, S_FREE] else clocks[s, S_FREE]
                continue

            w = chosen
            turns[s, S_LAST] = w
            place = lanes[w, W_BLOCK]
            group = w // streams
            again = True
            while again:  # twice where two instructions issue together
                again = False
                pc = lanes[w, W_PC]
                kind = code[pc, CLASS]
                issued += 1
                counts[pc] += 1
                stalls[pc, SELECTED] += 1.0
                if now > times[w, SINCE]:
                    stalls[pc, NOT_SELECTED] += now - times[w, SINCE]
                if telling:
                    tell(events, out, now, ISSUED, w, pc, s)
                if now + timing[pc, HOLDS] > clocks[s, S_FREE]:
                    clocks[s, S_FREE] = now + timing[pc, HOLDS]

                # 3. Pipe and memory: when the result is there.
                start = now
                pipe = code[pc, PIPE]
                if pipe >= 0:
                    own = 0 if pipes[pipe, SHARED] > 0 else s
                    if pipe_free[own, pipe] > start:
                        start = pipe_free[own, pipe]
                    pipe_free[own, pipe] = start + pipes[pipe, INTERVAL] * timing[pc, PASSES]
                    if own == 0 and pipes[pipe, SHARED] > 0:
                        start += pipes[pipe, INTERVAL] * (timing[pc, PASSES] - 1.0)  # the last pass counts
                done = start + timing[pc, LATENCY]
                if kind in (LOAD, STORE):
                    done = memory(pc, start, code, timing, options, settings, spread, levels, outstanding, out)
                if kind != FIXED and kind != BARRIER:
                    done = float(int(done + 0.5))
                    if telling:
                        tell(events, out, done, SERVED, w, pc, int(done - now))
                    if banked:
                        for port in range(4):
                            turn = int(start) + READ_AFTER if port < 2 else int(done) - WRITE_BEFORE
                            if code[pc, READS + port] > 0 and turn > cycle and turn < cycle + RING:
                                item = due[s, port, turn & (RING - 1)]
                                if item >> 4 != turn:
                                    item = turn << 4
                                if port < 2 and pipe == options[OPERANDS_LATE]:
                                    item |= 8
                                due[s, port, turn & (RING - 1)] = item + 1 if item & 7 < 7 else item
                for r in range(code[pc, RESULTS], code[pc, RESULTS_END]):
                    value = done if result_kinds[r] == VALUE else start + timing[pc, READ]
                    slot = results[r]
                    because = code[pc, REASON]
                    if result_kinds[r] == MOVED:
                        value = slots[group, slot - 1]
                        because = slot_reason[group, slot - 1]
                    if streams > 1 or value > slots[group, slot]:
                        slots[group, slot] = value
                        slot_reason[group, slot] = because

                # 4. The warp's next instruction: behind this one, elsewhere, or there is none.
                run = lanes[w, W_RUN]
                nxt = pc + 1
                jump = timing[pc, BRANCH]
                finished = False
                if nxt == runs[run, 1]:
                    segment = lanes[w, W_SEGMENT]
                    run += 1
                    if run == segments[segment, 1]:
                        lanes[w, W_TIMES] += 1
                        run = segments[segment, 0]
                        if lanes[w, W_TIMES] == segments[segment, 2]:
                            segment += 1
                            lanes[w, W_SEGMENT] = segment
                            lanes[w, W_TIMES] = 0
                            finished = segment == lanes[w, W_END]
                            if not finished:
                                run = segments[segment, 0]
                    if not finished:
                        lanes[w, W_RUN] = run
                        if runs[run, 0] != nxt and settings[BRANCH_TAKEN] > jump:
                            jump = settings[BRANCH_TAKEN]
                        nxt = runs[run, 0]
                lanes[w, W_PC] = nxt

                # 5. When the warp may go on: its stall count, a jump, a barrier, what the next instruction waits for.
                first = now + timing[pc, STALL]
                wake = first
                why = WAIT
                if now + jump > wake:
                    wake = now + jump
                    why = RESOLVING
                if kind == BARRIER:
                    places[place, P_ARRIVED] += 1
                    lanes[w, W_STATE] = WAITING
                    if telling:
                        tell(events, out, now, REACHED, w, pc, places[place, P_ARRIVED])
                if finished:
                    if streams > 1:  # the paper: with its result, or with its issue where none is waited for
                        wake = now + timing[pc, READ]
                    end_warp(
                        w, s, wake, options, settings, lanes, times, order, turns, places, starts, blocks, events, out
                    )
                # A barrier opens when all warps of the block are there; those that ended do not count, unless strict.
                if places[place, P_ARRIVED] > 0:
                    present = options[WARPS] if options[STRICT] > 0 else places[place, P_LIVE]
                    if places[place, P_ARRIVED] >= present:
                        places[place, P_ARRIVED] = 0
                        leave = now + settings[BARRIER_WAIT]
                        if kind == BARRIER and first > leave:
                            leave = first
                        open_barrier(place, w, leave, options, lanes, times, clocks, stalls, events, out)
                        if kind == BARRIER and leave > wake:
                            wake = leave
                            why = AT_BARRIER
                if not finished:
                    if first > now + 1.0:
                        stalls[nxt, WAIT] += first - now - 1.0
                    if wake > first:
                        stalls[nxt, why] += wake - first
                    when = wake
                    latest = now
                    for k in range(code[nxt, SOURCES], code[nxt, SOURCES_END]):
                        value = slots[group, sources[k]] + deltas[k]
                        if value > latest:
                            latest = value
                        if value > when:
                            when = value
                            why = slot_reason[group, sources[k]]
                    if when < FOREVER:
                        stalls[nxt, why] += when - wake
                        if telling and when > now + 1.0:
                            tell(events, out, when, STALLED, w, nxt, why)
                    times[w, READY] = when
                    times[w, SINCE] = when
                    if lanes[w, W_STATE] == WAITING:
                        times[w, READY] = FOREVER
                    elif options[WIDTH] > 1 and code[nxt, PAIRS] > 0 and lanes[w, W_SECOND] == 0 and latest <= now:
                        # Dual issue: the second of a pair goes in the same cycle if its pipe has room.
                        pipe = code[nxt, PIPE]
                        full = 0.0
                        if pipe >= 0:
                            full = pipe_free[0 if pipes[pipe, SHARED] > 0 else s, pipe] - now - pipes[pipe, DEPTH]
                        if full < 1.0:
                            again = True
                            times[w, SINCE] = now
                    lanes[w, W_SECOND] = 1 if again else 0
            if streams > 1:
                wake_streams(group, now, code, sources, deltas, slots, options, lanes, times, clocks)
            clocks[s, S_NEXT] = clocks[s, S_FREE] if turns[s, S_LISTED] > 0 else FOREVER
    out[OUT_ISSUED] = issued
