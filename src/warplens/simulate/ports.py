"""Register ports of a scheduler: two banks, each gives one operand and takes one result per cycle.

What arithmetic waits for its operands is a matter of the states of both banks (`reads`), two cycles behind the issue
stage, which it then holds. Memory and SFU read and write registers through the same ports, later than they issue. They
give way for one cycle, then they go first, and an instruction that needs the port holds the issue stage. What waits is
counted port by port in one word (`PORT_BITS`): reads of banks 0 and 1, writes of banks 0 and 1. A count is at most half
of what fits: with one less than half added to each, the upper bit says where something waits (`BELOW_HALF`,
`EACH_PORT`).
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called, folded


@folded
def settle_ports(s: int, cycle: int, scheduler: Any, ring: Any) -> None:
    """Find the ports that are taken in a cycle: where something of memory or SFUs has given way before."""
    carry = scheduler.carry
    if scheduler.port_cycle < cycle - 2:
        carry = 0  # served in the cycles without an issue
        scheduler.more = 0
    elif scheduler.port_cycle == cycle - 2:
        before = ring[s, (cycle - 1) & (at.RING - 1)]
        if before >> at.CYCLE_BITS == cycle - 1:
            carry += before & at.COUNTS
        more = (scheduler.more + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT
        carry -= (carry + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT & ~more
        scheduler.more -= more
    scheduler.carry = carry
    scheduler.taken = (carry + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT


@folded
def arbitrate(
    s: int, cycle: int, uses: int, further: int, scheduler: Any, ring: Any, pipe_free: Any, late: int
) -> bool:
    """Serve the ports for one cycle in which an instruction wants to use some; whether it must hold the issue stage.

    What it reads besides through the same port, `further`, it reads in the next cycles, before memory and SFUs.
    """
    scheduler.port_cycle = cycle
    blocked: bool = uses & scheduler.taken != 0
    more = (scheduler.more + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT
    item = ring[s, cycle & (at.RING - 1)]
    if item >> at.CYCLE_BITS != cycle:
        item = 0
    waiting = scheduler.carry + (item & at.COUNTS)
    if waiting != 0:
        used = more if blocked else uses | more
        held = item >> at.LATE_BITS & used  # the unit waits for its operand
        if held != 0:
            pipe_free[s, late] += float((held & 1) + (held >> at.PORT_BITS & 1))
        scheduler.carry = waiting - ((waiting + at.BELOW_HALF) >> (at.PORT_BITS - 1) & at.EACH_PORT & ~used)
    scheduler.more -= more
    if not blocked:
        scheduler.more += further
    return blocked


@called
def read(w: int, now: float, scheduler: Any, step: Any, warp: Any, states: Any) -> None:
    """Let an instruction that issues now have its turn at both banks, two cycles later; what it waits is held for.

    A bank that is ready before the other goes on without it.
    """
    even, odd = step.whole_even, step.whole_odd
    if w == scheduler.latest:
        even, odd = step.even, step.odd
    elif now - warp.counted <= step.slack:
        even, odd = step.soon_even, step.soon_odd
    scheduler.latest = w
    if even == 0 and odd == 0:
        return
    state_even, state_odd = scheduler.even, scheduler.odd
    idle = now - scheduler.read - 1.0
    if idle > at.SETTLED:
        idle = float(at.SETTLED)
    while idle >= 1.0:
        state_even = states[state_even, 0] >> at.WAIT_BITS
        state_odd = states[state_odd, 0] >> at.WAIT_BITS
        idle -= 1.0
    follows_even, follows_odd = states[state_even, even], states[state_odd, odd]
    state_even, state_odd = follows_even >> at.WAIT_BITS, follows_odd >> at.WAIT_BITS
    first, second = follows_even & at.WAIT_MASK, follows_odd & at.WAIT_MASK
    while first < second:
        state_even = states[state_even, 0] >> at.WAIT_BITS
        first += 1
    while second < first:
        state_odd = states[state_odd, 0] >> at.WAIT_BITS
        second += 1
    scheduler.even, scheduler.odd, scheduler.read = state_even, state_odd, now
    if first > 0:
        if scheduler.held > 0.0:
            scheduler.hold_next, scheduler.held_next = now + at.READS_BEHIND, float(first)
        else:
            scheduler.hold, scheduler.held = now + at.READS_BEHIND, float(first)


@called
def freeze(s: int, since: float, cycles: float, scheduler: Any, warps: Any, order: Any, stalls: Any) -> None:
    """Let the stall counts of all warps of a scheduler stand for the cycles in which its issue stage is held."""
    for row in range(scheduler.listed):
        warp = warps[order[s, row]]
        if warp.counted > since:
            warp.counted += cycles
            if warp.counted > warp.ready:
                stalls[warp.pc, at.WAIT] += warp.counted - warp.ready
                warp.ready = warp.counted
                warp.since = warp.counted


@called
def hold(s: int, now: float, scheduler: Any, warps: Any, order: Any, pipes: Any, pipe_free: Any, stalls: Any) -> bool:
    """Let what waits for its registers hold the issue stage, if that has begun; whether it does so now.

    All before it stands: stall counts, units of arithmetic, ports. The first warp that could go waits for that.
    """
    holds = False
    while scheduler.held > 0.0 and scheduler.hold <= now:
        since, cycles = scheduler.hold, scheduler.held
        scheduler.held, scheduler.hold = scheduler.held_next, scheduler.hold_next
        scheduler.held_next = 0.0
        freeze(s, since, cycles, scheduler, warps, order, stalls)
        if scheduler.half_free > since:
            scheduler.half_free += cycles
        if scheduler.other_free > since:
            scheduler.other_free += cycles
        for p in range(pipes.shape[0]):
            if pipes[p].places == 0 and not pipes[p].shared and pipe_free[s, p] > since:
                pipe_free[s, p] += cycles
        if scheduler.read < since:
            scheduler.read += cycles
        if scheduler.hold > since:
            scheduler.hold += cycles
        if scheduler.hold_next > since:
            scheduler.hold_next += cycles
        if now < since + cycles:
            holds = True
            scheduler.next = since + cycles
            for row in range(scheduler.listed):
                warp = warps[order[s, row]]
                if warp.ready <= now:
                    stalls[warp.pc, at.DISPATCH] += since + cycles - now
                    if warp.since < now:
                        stalls[warp.pc, at.NOT_SELECTED] += now - warp.since
                    warp.since = since + cycles
                    break
    return holds


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
