"""Parts of the engine that run now and then: blocks that begin and end, barriers, the memory behind the SM, events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# isort: off
from warplens.simulate.layout import (
    AT_BARRIER, BLOCKS, CLASS, DRAM_BYTES, DRAM_RATE, ENDED, FOREVER, IDLE, L1_HIT, L1_LATENCY, L2_BYTES, L2_HIT,
    L2_LATENCY, L2_RATE, LATENCY, LEFT, LOAD, LOADED, MSHRS, M_DRAM_FREE, M_L2_FREE, M_MOVED, OUT_BEGUN, OUT_ENDED,
    OUT_EVENTS, OUT_RANDOM, OUT_REQUESTS, P_ARRIVED, P_BLOCK, P_LIVE, READY, REPLACE, RESIDENT, RUNNING, SCHEDULERS,
    SINCE, SOURCES, SOURCES_END, STAGGER, STARTED, STREAMS, S_FREE, S_LAST, S_LISTED, S_NEXT, WAITING, WARPS, W_BLOCK,
    W_END, W_PC, W_RUN, W_SECOND, W_SEGMENT, W_STATE, W_TIMES,
)  # fmt: skip
# isort: on

try:
    import numba

    _jit: Any = numba.njit  # its types describe less than it takes
except ImportError:  # without the extra: the same results, more slowly
    _jit = None


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls."""
    if _jit is None:
        return function
    return _jit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return (
        function if _jit is None else _jit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    )


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
