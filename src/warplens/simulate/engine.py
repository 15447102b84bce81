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

from warplens.simulate.layout import (
    AT_BARRIER, BANKS, BARRIER, BARRIER_WAIT, BLOCKS, BRANCH, BRANCH_TAKEN, CLASS, DEADLOCK, DEPTH, DISPATCH, DRAM_BYTES, DRAM_RATE, ENDED, FINISHED, FIXED, FOREVER, GREEDY, HOLDS, IDLE,
    INTERVAL, ISSUED, L1_HIT, L1_LATENCY, L2_BYTES, L2_HIT, L2_LATENCY, L2_RATE, LATENCY, LEFT, LG, LOAD, LOADED,
    M_DRAM_FREE, M_L2_FREE, M_MOVED, MARK_EVERY, MATH, MIO, MSHRS, NOT_SELECTED, OLDEST, OPERANDS_LATE, OUT_BEGUN,
    OUT_ENDED, OUT_EVENTS, OUT_ISSUED, OUT_MARKS, OUT_RANDOM, OUT_REQUESTS, OUT_STATUS, P_ARRIVED, P_BLOCK, P_LIVE,
    PAIRS, PASSES, PIPE, POLICY, QUEUED, REACHED, READ, READ_AFTER, READS, READY, REASON, REPLACE, RESIDENT, RESOLVING,
    RESULTS, RESULTS_END, RING, ROUND_ROBIN, RUNNING, S_FREE, S_LAST, S_LISTED, S_NEXT, S_PORTS, SCHEDULERS, SELECTED,
    SERVED, SHARED, SINCE, SOURCES, SOURCES_END, STAGGER, STALL, STALLED, STARTED, STORE, STREAMS, STRICT, TIME_LIMIT,
    TIME_UP, VALUE, W_BLOCK, W_END, W_PC, W_RUN, W_SECOND, W_SEGMENT, W_STATE, W_TIMES, WAIT, WAITING, WARPS, WIDTH,
    WRITE_BEFORE, YOUNGEST,
)  # fmt: skip

try:
    from numba import njit

    entry: Any = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    inner: Any = njit(
        cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True
    )
except ImportError:  # without the extra: the same results, more slowly

    def entry(function: Any) -> Any:
        """Leave the function as it is."""
        return function

    inner = entry


@inner
def tell(events: Any, out: Any, time: float, kind: int, warp: int, instruction: int, detail: int) -> None:
    """Keep an event while there is room."""
    row = out[OUT_EVENTS]
    if row < events.shape[0]:
        events[row, 0] = int(time)
        events[row, 1] = kind
        events[row, 2] = warp
        events[row, 3] = instruction
        events[row, 4] = detail
        out[OUT_EVENTS] = row + 1


@inner
def draw(out: Any) -> float:
    """Return the next random number of [0, 1)."""
    out[OUT_RANDOM] = (out[OUT_RANDOM] * 1103515245 + 12345) & 0x7FFFFFFF
    return out[OUT_RANDOM] / 2147483648.0


@inner
def begin_blocks(
    now: float, path_at: Any, segments: Any, runs: Any, warp_paths: Any, options: Any, settings: Any, code: Any,
    lanes: Any, times: Any, slots: Any, order: Any, turns: Any, clocks: Any, places: Any, starts: Any, blocks: Any,
    events: Any, out: Any,
) -> None:  # fmt: skip
    """Put the next block on each place that takes one now: all of its warps are ready."""
    per_block = options[WARPS]
    streams = options[STREAMS]
    for lane in range(options[RESIDENT] * per_block):
        place = lane // per_block
        k = lane % per_block
        if starts[place, 0] > now:
            continue
        if k == 0:
            number = out[OUT_BEGUN]
            out[OUT_BEGUN] += 1
            places[place, P_BLOCK] = number
            places[place, P_LIVE] = per_block
            places[place, P_ARRIVED] = 0
            if number < blocks.shape[0]:
                blocks[number, 0] = now
                blocks[number, 2] = place
            tell(events, out, now, STARTED, lane, -1, number)
        if k == per_block - 1:
            starts[place, 0] = FOREVER
            starts[place, 1] = 0.0
        s = lane % options[SCHEDULERS]
        path = warp_paths[places[place, P_BLOCK] % warp_paths.shape[0], k // streams] * streams + k % streams
        if k % streams == 0:
            for slot in range(slots.shape[1]):
                slots[lane // streams, slot] = FOREVER if streams > 1 else 0.0
        segment = path_at[path]
        if segment == path_at[path + 1]:  # a stream without instructions
            places[place, P_LIVE] -= 1
            continue
        first = segments[segment, 0]
        pc = runs[first, 0]
        lanes[lane, W_END] = path_at[path + 1]
        lanes[lane, W_SEGMENT] = segment
        lanes[lane, W_TIMES] = 0
        lanes[lane, W_RUN] = first
        lanes[lane, W_PC] = pc
        lanes[lane, W_STATE] = RUNNING
        lanes[lane, W_BLOCK] = place
        lanes[lane, W_SECOND] = 0
        begin = now + float(int(settings[STAGGER] * draw(out)))
        times[lane, SINCE] = begin
        times[lane, READY] = FOREVER if streams > 1 and code[pc, SOURCES_END] > code[pc, SOURCES] else begin
        order[s, turns[s, S_LISTED]] = lane
        turns[s, S_LISTED] += 1
        if clocks[s, S_FREE] > begin:
            begin = clocks[s, S_FREE]
        if begin < clocks[s, S_NEXT]:
            clocks[s, S_NEXT] = begin


@inner
def memory(
    pc: int, start: float, code: Any, timing: Any, options: Any, settings: Any, spread: Any, levels: Any,
    outstanding: Any, out: Any,
) -> float:  # fmt: skip
    """Return when an access to global memory that leaves the pipe at `start` is served."""
    chance = draw(out)
    hit = timing[pc, L1_HIT]
    if chance < hit:
        return start + settings[L1_LATENCY]
    limited = options[MSHRS] > 0 and code[pc, CLASS] == LOAD
    row = out[OUT_REQUESTS] % outstanding.shape[0]
    if limited and outstanding[row] > start:
        start = outstanding[row]
    if levels[M_L2_FREE] > start:
        start = levels[M_L2_FREE]
    levels[M_L2_FREE] = start + timing[pc, L2_BYTES] / settings[L2_RATE]
    moved = timing[pc, DRAM_BYTES]
    if chance < hit + (1.0 - hit) * timing[pc, L2_HIT]:
        done = start + settings[L2_LATENCY]
    else:
        latency = timing[pc, LATENCY] + settings[LOADED]
        if spread.shape[0] > 1:
            where = draw(out) * (spread.shape[0] - 1)
            step = int(where)
            latency *= spread[step] + (where - step) * (spread[step + 1] - spread[step])
        done = start + latency
        # A burst queues for DRAM; the wait that is in the loaded latency already does not count twice.
        begin = levels[M_DRAM_FREE] if levels[M_DRAM_FREE] > start else start
        levels[M_DRAM_FREE] = begin + moved / settings[DRAM_RATE]
        if begin - start > settings[LOADED]:
            done += begin - start - settings[LOADED]
        levels[M_MOVED] += moved
    if limited:
        outstanding[row] = done
        out[OUT_REQUESTS] += 1
    return done


@inner
def end_warp(
    w: int, s: int, end: float, options: Any, settings: Any, lanes: Any, times: Any, order: Any, turns: Any,
    places: Any, starts: Any, blocks: Any, events: Any, out: Any,
) -> None:  # fmt: skip
    """Take a warp off its scheduler; with the last one the block ends and its place takes the next."""
    place = lanes[w, W_BLOCK]
    lanes[w, W_STATE] = IDLE
    times[w, READY] = FOREVER
    gone = 0
    for k in range(turns[s, S_LISTED]):
        if order[s, k] == w:
            gone = 1
        elif gone == 1:
            order[s, k - 1] = order[s, k]
    turns[s, S_LISTED] -= 1
    if turns[s, S_LAST] == w:
        turns[s, S_LAST] = -1
    places[place, P_LIVE] -= 1
    if starts[place, 1] > end:  # of all warps that have ended
        end = starts[place, 1]
    starts[place, 1] = end
    if places[place, P_LIVE] > 0:
        return
    number = places[place, P_BLOCK]
    if number < blocks.shape[0]:
        blocks[number, 1] = end
    out[OUT_ENDED] += 1
    tell(events, out, end, ENDED, place * options[WARPS], -1, number)
    coming = out[OUT_BEGUN]
    for other in range(starts.shape[0]):
        if starts[other, 0] < FOREVER:
            coming += 1
    if coming < options[BLOCKS]:
        starts[place, 0] = end + settings[REPLACE]


@inner
def open_barrier(
    place: int, w: int, leave: float, options: Any, lanes: Any, times: Any, clocks: Any, stalls: Any, events: Any,
    out: Any,
) -> None:  # fmt: skip
    """Let all warps of a block leave its barrier."""
    per_block = options[WARPS]
    for v in range(place * per_block, (place + 1) * per_block):
        if lanes[v, W_STATE] != WAITING:
            continue
        lanes[v, W_STATE] = RUNNING
        if v == w:
            continue
        pc = lanes[v, W_PC]
        if leave > times[v, SINCE]:
            stalls[pc, AT_BARRIER] += leave - times[v, SINCE]
            times[v, SINCE] = leave
        times[v, READY] = times[v, SINCE]
        tell(events, out, times[v, READY], LEFT, v, pc, -1)
        s = v % options[SCHEDULERS]
        when = times[v, READY] if times[v, READY] > clocks[s, S_FREE] else clocks[s, S_FREE]
        if when < clocks[s, S_NEXT]:
            clocks[s, S_NEXT] = when


@inner
def wake_streams(
    group: int, now: float, code: Any, sources: Any, deltas: Any, slots: Any, options: Any, lanes: Any, times: Any,
    clocks: Any,
) -> None:  # fmt: skip
    """Let results of one pipe wake the same warp's instructions in the others (the paper's graph)."""
    streams = options[STREAMS]
    for v in range(group * streams, (group + 1) * streams):
        if lanes[v, W_STATE] == RUNNING and times[v, READY] >= FOREVER:
            pc = lanes[v, W_PC]
            when = now
            for k in range(code[pc, SOURCES], code[pc, SOURCES_END]):
                value = slots[group, sources[k]] + deltas[k]
                if value > when:
                    when = value
            times[v, READY] = when
            times[v, SINCE] = when
            s = v % options[SCHEDULERS]
            if when < clocks[s, S_FREE]:
                when = clocks[s, S_FREE]
            if when < clocks[s, S_NEXT]:
                clocks[s, S_NEXT] = when


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
        for s in range(schedulers):
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
                if kind == LOAD or kind == STORE:
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
                    if streams > 1 or value > slots[group, slot]:
                        slots[group, slot] = value
                        slot_reason[group, slot] = code[pc, REASON]

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
