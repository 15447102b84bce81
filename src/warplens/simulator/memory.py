"""Memory behind an SM: hits in L1 and L2, the SM's part of L2 and DRAM under load, and the instruction caches.

The instruction caches matter to code that outgrows them: lines of eight instructions, first in, first out. With a line
the next one is asked for too, so that a lone warp has its lines at the rate of the level's latency. What is behind the
first cache serves all SMs: it takes its time for each line, of whichever warp (data/experiments/instruction_fetch).
"""

from __future__ import annotations

from math import exp, floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.blocks import draw
from warplens.simulator.compiled import called, inlined


@inlined
def beyond(load: float, curve: Any) -> float:
    """Return the cycles that a level's latency is above that without load, at a load in B/cycle (Volkov §6.4)."""
    x = min(load, 0.98 * curve.c)
    waited: float = max(0.0, curve.a + curve.b * x / (curve.c - x) - curve.unloaded)
    return waited


@called
def follow_load(now: float, setup: Any, sm: Any, curves: Any, loads: Any) -> None:
    """Find the latencies under the traffic of late, and the nearest load at which single latencies were measured."""
    fade = exp((sm.load_at - now) / setup.average)
    sm.load_at = now
    sm.load *= fade
    sm.written *= fade
    sm.l2_load *= fade
    curve = curves[0]
    for_writes = curve.written * min(1.0, sm.written / curve.c)
    sm.waited = beyond(sm.load, curve) + for_writes
    sm.l2_waited = beyond(sm.l2_load, curves[1])
    like = sm.load  # reads alone that wait as long
    if for_writes > 0.0 and curve.b > 0.0:
        x = min(sm.load, 0.98 * curve.c)
        queued = x / (curve.c - x) + for_writes / curve.b
        like = curve.c * queued / (1.0 + queued)
    sm.row = 0
    while sm.row + 1 < loads.shape[0] and loads[sm.row + 1] + loads[sm.row] < 2.0 * like:
        sm.row += 1


@called
def spread_out(number: int, pc: int, turns: int, setup: Any) -> float:
    """Return a random number of [0, 1) for the access of one of many that are numbered in a row.

    Of 64 in a row each takes another sixty-fourth of the range, so that a few stand for all of them; in which order
    is another matter for every instruction and turn.
    """
    mixed = ((setup.seed * 1021 + turns) * 16381 + pc) * 1009 + (number >> 6)
    mixed = ((mixed & 0x7FFFFFFF) * 40503 + 12345) & 0x7FFFFFFF
    mixed = ((mixed >> 15) ^ mixed) * 1103515245 & 0x7FFFFFFF
    mixed = ((mixed >> 13) ^ mixed) * 40503 & 0x7FFFFFFF
    mixed = (mixed >> 16) ^ mixed
    place = ((number & 63) * (mixed | 1) + (mixed >> 6)) & 63
    place = ((place ^ (place >> 3)) * ((mixed >> 12) | 1) + (mixed >> 18)) & 63
    within = ((mixed ^ number * 2654435) * 1103515245 + 12345) & 0x7FFFFFFF
    made: float = ((place ^ (place >> 3)) + within / 2147483648.0) / 64.0
    return made


@inlined
def far(
    step: Any, start: float, behind: float, w: int, pc: int, warp: Any, setup: Any, sm: Any, spread: Any
) -> float:  # fmt: skip
    """Return when DRAM has served an access: by the latency at the traffic of late, and no sooner than its turn."""
    sm.load += step.dram_bytes / setup.average
    sm.moved += step.dram_bytes
    if step.kind == at.STORE:
        sm.written += step.dram_bytes / setup.average
    latency = step.latency + sm.waited
    if spread.shape[1] > 1:
        where = draw(sm)
        if setup.alike:
            groups = (setup.warps - 1) // setup.alike + 1
            where = spread_out(warp.block * groups + w % setup.warps // setup.alike, 2 * pc, warp.turns, setup)
        where *= spread.shape[1] - 1
        low = floor(where)
        latency *= spread[sm.row, low] + (where - low) * (spread[sm.row, low + 1] - spread[sm.row, low])
    # A burst queues for DRAM; the wait that is in the loaded latency already does not count twice.
    begin = max(sm.dram_free, start + behind)
    sm.dram_free = begin + step.dram_cycles
    done: float = start + latency + max(0.0, begin - start - sm.waited)
    return done


@called
def access(
    step: Any, start: float, w: int, pc: int, warp: Any, setup: Any, sm: Any, curves: Any, loads: Any, spread: Any,
    outstanding: Any,
) -> float:  # fmt: skip
    """Return when a warp's access to global memory, instruction `pc`, that leaves its pipe at `start` is served."""
    chance = draw(sm)
    if setup.alike:
        chance = spread_out(warp.block * setup.warps + w % setup.warps, 2 * pc + 1, warp.turns, setup)
    done: float = start + setup.l1_latency
    if chance >= step.l1_hit:
        if start >= sm.load_at + at.FOLLOW:
            follow_load(start, setup, sm, curves, loads)
        limited = setup.mshrs and step.kind == at.LOAD
        row = sm.requests % outstanding.shape[0]
        if limited:
            start = max(start, outstanding[row])
        sm.l2_load += step.l2_bytes / setup.average
        behind = max(0.0, sm.l2_free - start)
        sm.l2_free = start + behind + step.l2_cycles
        if chance < step.l1_hit + (1.0 - step.l1_hit) * step.l2_hit:
            done = start + setup.l2_latency + max(behind, sm.l2_waited)
        else:
            done = far(step, start, behind, w, pc, warp, setup, sm, spread)
        if limited:
            outstanding[row] = done
            sm.requests += 1
    return done


@called
def send_registers(now: float, step: Any, scheduler: Any) -> float:
    """Send an instruction's registers to shared memory, then its wavefronts; return when it would have begun alone.

    An address alone (a load) goes at once, but behind other registers a cycle later, as do registers that come just
    when those before them are sent. The next wavefront of a scheduler comes two cycles behind.
    """
    begin = scheduler.sent
    if step.enters == 0.0 or now == begin:
        begin += scheduler.lag
    if now > begin:
        begin = now
    scheduler.sent = begin + step.sends
    scheduler.lag = 1.0 if step.enters > 0.0 else 0.0
    first = begin + step.enters
    if scheduler.path > first:
        first = scheduler.path
    scheduler.path = first + at.WAVEFRONT_CYCLES * step.takes
    return float(first - step.enters)


@called
def fetch(line: int, now: float, setup: Any, sm: Any, lines: Any) -> float:
    """Return when a warp that comes to a line finds its instructions; it and the next are asked for, unless there."""
    begin = now
    for number in range(line, line + 2):
        if number < setup.lines:
            row = lines[number]
            if sm.fetched - row.number >= setup.first_lines:
                wait = setup.second_wait
                if sm.deep - row.deep >= setup.second_lines:
                    wait = setup.memory_wait
                    sm.deep += 1
                    row.deep = sm.deep
                sm.fetch_free = max(sm.fetch_free, now) + setup.fetch_interval
                sm.fetched += 1
                row.number = sm.fetched
                row.there = max(sm.fetch_free, begin + wait)
            begin = row.there
    there: float = lines[line].there
    return there


# Cycles from the issue of a branch until it asks for its target's line, until it asks again, and from when a line has
# the port until it is there (`instruction_cache.port_cycles` of the H200).
ASKS, AGAIN, COMES = 5.0, 2.0, 6.0


@called
def target_wait(now: float, setup: Any, scheduler: Any) -> float:
    """Return the cycles from a taken branch's issue until its target's line is there, if the port is taken; else 0.

    The warps of a scheduler share one port to their instructions, which each line takes for some cycles: targets first,
    then the two lines that are asked for behind each of them. Who finds it taken asks again.
    """
    asks = now + ASKS
    begin = asks
    if scheduler.lines > asks:
        begin = max(asks + AGAIN, scheduler.targets)
    scheduler.targets = begin + setup.port
    scheduler.lines = max(scheduler.lines, begin) + 3.0 * setup.port
    return begin + COMES - now if begin > asks else 0.0
