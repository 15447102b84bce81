"""Register ports of a scheduler: two banks, each gives one operand and takes one result per cycle.

Memory and SFU read and write registers through the same ports as everyone, later than they issue. They give way for one
cycle, then they go first, and an instruction that needs the port holds the issue stage. What waits is counted port by
port in one word (`PORT_BITS`): reads of banks 0 and 1, writes of banks 0 and 1.
"""

from __future__ import annotations

from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called, folded, inlined


@inlined
def served(waiting: int, used: int) -> int:
    """Return what still waits after a cycle in which an instruction used these ports."""
    left = waiting
    for port in range(4):
        if (waiting >> at.PORT_BITS * port) & at.PORT_MASK > 0 and (used >> port) & 1 == 0:
            left -= 1 << at.PORT_BITS * port
    return left


@folded
def settle_ports(s: int, cycle: int, scheduler: Any, ring: Any) -> None:
    """Find the ports that are taken in a cycle: where something has given way before."""
    scheduler.taken = 0
    if scheduler.port_cycle < cycle - 2:
        scheduler.carry = 0  # served in the cycles without an issue
    elif scheduler.port_cycle == cycle - 2:
        before = ring[s, (cycle - 1) & (at.RING - 1)]
        if before >> at.CYCLE_BITS == cycle - 1:
            scheduler.carry += before & ((1 << at.LATE_BITS) - 1)
        scheduler.carry = served(scheduler.carry, 0)
    if scheduler.carry != 0:
        for port in range(4):
            if (scheduler.carry >> at.PORT_BITS * port) & at.PORT_MASK > 0:
                scheduler.taken |= 1 << port


@folded
def arbitrate(s: int, cycle: int, uses: int, scheduler: Any, ring: Any, pipe_free: Any, late: int) -> bool:
    """Serve the ports for one cycle in which an instruction wants to use some; whether it must hold the issue stage."""
    scheduler.port_cycle = cycle
    blocked: bool = uses & scheduler.taken != 0
    item = ring[s, cycle & (at.RING - 1)]
    if item >> at.CYCLE_BITS != cycle:
        item = 0
    if scheduler.carry != 0 or item != 0:
        used = 0 if blocked else uses
        for port in range(2):
            if (used >> port) & 1 == 1 and (item >> (at.LATE_BITS + port)) & 1 == 1:  # the unit waits for its operand
                pipe_free[s, late] += 1.0
        scheduler.carry = served(scheduler.carry + (item & ((1 << at.LATE_BITS) - 1)), used)
    return blocked


@called
def book(s: int, cycle: int, start: float, done: float, uses: int, late: bool, ring: Any) -> None:
    """Note when an instruction of memory or SFU will use its ports."""
    for port in range(4):
        turn = int(start) + at.READ_AFTER if port < 2 else int(done) - at.WRITE_BEFORE
        if (uses >> port) & 1 == 1 and turn > cycle and turn < cycle + at.RING:
            item = ring[s, turn & (at.RING - 1)]
            if item >> at.CYCLE_BITS != turn:
                item = turn << at.CYCLE_BITS
            if port < 2 and late:
                item |= 1 << (at.LATE_BITS + port)
            if (item >> at.PORT_BITS * port) & at.PORT_MASK < 7:
                item += 1 << at.PORT_BITS * port
            ring[s, turn & (at.RING - 1)] = item
