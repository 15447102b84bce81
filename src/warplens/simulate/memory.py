"""The memory behind an SM: hits in L1 and L2, the SM's part of L2 and DRAM, latency under the load that it makes."""

from __future__ import annotations

import math
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.blocks import draw
from warplens.simulate.compiled import called, inlined


@called
def follow_load(now: float, setup: Any, sm: Any, loads: Any) -> None:
    """Find the latency under the traffic of late, and the nearest load at which single latencies were measured."""
    sm.load *= math.exp((sm.load_at - now) / setup.average)
    sm.load_at = now
    x = sm.load
    if x > 0.98 * setup.curve_c:
        x = 0.98 * setup.curve_c
    sm.waited = setup.curve_a + setup.curve_b * x / (setup.curve_c - x) - setup.unloaded
    if sm.waited < 0.0:
        sm.waited = 0.0
    sm.row = 0
    while sm.row + 1 < loads.shape[0] and loads[sm.row + 1] + loads[sm.row] < 2.0 * x:
        sm.row += 1


@inlined
def far(step: Any, start: float, setup: Any, sm: Any, loads: Any, spread: Any) -> Any:
    """Return when DRAM has served an access: by the latency at the traffic of late, and no sooner than its turn."""
    if start >= sm.load_at + at.FOLLOW:
        follow_load(start, setup, sm, loads)
    sm.load += step.dram_bytes / setup.average
    sm.moved += step.dram_bytes
    latency = step.latency + sm.waited
    if spread.shape[1] > 1:
        where = draw(sm) * (spread.shape[1] - 1)
        low = int(where)
        latency *= spread[sm.row, low] + (where - low) * (spread[sm.row, low + 1] - spread[sm.row, low])
    # A burst queues for DRAM; the wait that is in the loaded latency already does not count twice.
    begin = sm.dram_free if sm.dram_free > start else start
    sm.dram_free = begin + step.dram_bytes / setup.dram_rate
    if begin - start > sm.waited:
        latency += begin - start - sm.waited
    return start + latency


@called
def access(step: Any, start: float, setup: Any, sm: Any, loads: Any, spread: Any, outstanding: Any) -> Any:
    """Return when an access to global memory that leaves its pipe at `start` is served."""
    chance = draw(sm)
    if chance < step.l1_hit:
        return start + setup.l1_latency
    limited = setup.mshrs > 0 and step.kind == at.LOAD
    row = sm.requests % outstanding.shape[0]
    if limited and outstanding[row] > start:
        start = outstanding[row]
    if sm.l2_free > start:
        start = sm.l2_free
    sm.l2_free = start + step.l2_bytes / setup.l2_rate
    if chance < step.l1_hit + (1.0 - step.l1_hit) * step.l2_hit:
        done = start + setup.l2_latency
    else:
        done = far(step, start, setup, sm, loads, spread)
    if limited:
        outstanding[row] = done
        sm.requests += 1
    return done
