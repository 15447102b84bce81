"""Register ports of a scheduler: two banks, each gives one operand and takes one result per cycle.

Memory and SFU read and write registers through the same ports as everyone, later than they issue. They give way for one
cycle, then they go first, and an instruction that needs the port holds the issue stage. What waits is counted port by
port in one word (`PORT_BITS`): reads of banks 0 and 1, writes of banks 0 and 1. A count is at most half of what fits:
with one less than half added to each, the upper bit says where something waits (`BELOW_HALF`, `EACH_PORT`).
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called, folded


@folded
def settle_ports(s: int, cycle: int, scheduler: Any, ring: Any) -> None:
    """Find the ports that are taken in a cycle: where something has given way before."""
    carry = scheduler.carry
    if scheduler.port_cycle < cycle - 2:
        carry = 0  # served in the cycles without an issue
    elif scheduler.port_cycle == cycle - 2:
        before = ring[s, (cycle - 1) & (at.RING - 1)]
        if before >> at.CYCLE_BITS == cycle - 1:
            carry += before & at.COUNTS
        carry -= (carry + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT
    scheduler.carry = carry
    scheduler.taken = (carry + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT


@folded
def arbitrate(
    s: int, cycle: int, uses: int, further: int, scheduler: Any, ring: Any, pipe_free: Any, late: int
) -> bool:
    """Serve the ports for one cycle in which an instruction wants to use some; whether it must hold the issue stage.

    What it reads besides through the same port, `further`, it reads in the next cycles, before others. One operand of
    the next instruction, if that is of the same warp (`own`), may come a cycle late, behind these.
    """
    if scheduler.port_cycle != cycle - 1:
        scheduler.own = 0
    scheduler.port_cycle = cycle
    several = (further + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT
    behind = uses & scheduler.taken & scheduler.own & ~several
    uses -= behind
    further += behind
    blocked: bool = uses & scheduler.taken != 0
    scheduler.own = 0
    item = ring[s, cycle & (at.RING - 1)]
    if item >> at.CYCLE_BITS != cycle:
        item = 0
    waiting = scheduler.carry + (item & at.COUNTS)
    if waiting != 0:
        used = 0 if blocked else uses
        held = item >> at.LATE_BITS & used  # the unit waits for its operand
        if held != 0:
            pipe_free[s, late] += float((held & 1) + (held >> at.PORT_BITS & 1))
        scheduler.carry = waiting - ((waiting + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT & ~used)
    if not blocked:
        scheduler.own = (several | behind) & ~((scheduler.carry + at.BELOW_HALF) >> (at.PORT_BITS - 1))
        scheduler.carry += further
    return blocked


@called
def freeze(s: int, now: float, cycles: float, scheduler: Any, warps: Any, order: Any, stalls: Any) -> None:
    """Let the stall counts of all warps of a scheduler stand for the cycles in which its issue stage is held."""
    for row in range(scheduler.listed):
        warp = warps[order[s, row]]
        if warp.counted > now:
            warp.counted += cycles
            if warp.counted > warp.ready:
                stalls[warp.pc, at.WAIT] += warp.counted - warp.ready
                warp.ready = warp.counted
                warp.since = warp.counted


@called
def book(s: int, cycle: int, start: float, done: float, uses: int, late: bool, ring: Any) -> None:
    """Note when an instruction of memory or SFU will use its ports."""
    read = floor(start) + (at.LATE_READ_AFTER if late else at.READ_AFTER)
    for port in range(4):
        turn = read if port < 2 else floor(done) - at.WRITE_BEFORE
        if uses >> at.PORT_BITS * port & 1 == 1 and turn > cycle and turn < cycle + at.RING:
            item = ring[s, turn & (at.RING - 1)]
            if item >> at.CYCLE_BITS != turn:
                item = turn << at.CYCLE_BITS
            if port < 2 and late:
                item |= 1 << (at.LATE_BITS + at.PORT_BITS * port)
            if item >> at.PORT_BITS * port & at.PORT_MASK < 7:
                item += 1 << at.PORT_BITS * port
            ring[s, turn & (at.RING - 1)] = item
