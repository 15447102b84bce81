"""Control flow: lanes that diverge at branches and reconverge, barriers between the warps of a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import compiled, trailing_zeros
from warplens.emulator.handlers import handler
from warplens.emulator.integer import lane_bit, predicate, set_predicate
from warplens.emulator.lanes import count_bits, drop_group, give_way, meet, new_group, partners, set_partners
from warplens.emulator.layout import (
    ALIVE,
    ARRIVED,
    ASKED_ANY,
    AT_BARRIER,
    AT_SYNC,
    AT_WARPSYNC,
    BAD_CALL,
    BAD_TARGET,
    DATA,
    ERROR,
    EXPECTED,
    FINE,
    GROUPS,
    HEAP,
    HEAP_BYTES,
    HEAP_USED,
    LIVE,
    MASK,
    PC,
    READY,
    REDUCED,
    RESULT,
    SAID_NO,
    SLOT,
    STATE,
    SYNC,
    SYSTEM_WINDOW,
    TRAPPED,
)

_ALL = np.uint32(0xFFFFFFFF)


@compiled
def _release(s: Any, slot: int, b: int) -> None:
    """Let all groups of a block that wait at a barrier go on."""
    per_block = s.warps.shape[0] // s.blocks.shape[0]
    for w in range(slot * per_block, (slot + 1) * per_block):
        warp = s.warps[w]
        for g in range(warp[GROUPS]):
            if warp[STATE + g] == AT_BARRIER and warp[DATA + g] == b:
                warp[STATE + g] = READY
                yes, all_of_them = s.blocks[slot, REDUCED + b], s.blocks[slot, SAID_NO + b] == 0
                warp[RESULT + 0], warp[RESULT + 1] = yes, yes > 0 if s.blocks[slot, ASKED_ANY + b] else all_of_them
        g = np.int64(0)
        while g < warp[GROUPS]:  # lanes that left the barrier at the same place go on together
            k = g + 1
            while k < warp[GROUPS]:
                same = warp[STATE + g] == READY and warp[STATE + k] == READY
                if same and warp[PC + k] == warp[PC + g]:
                    warp[MASK + g] |= warp[MASK + k]
                    drop_group(s, w, k)
                else:
                    k += 1
            g += 1
    for column in (ARRIVED, REDUCED, SAID_NO, ASKED_ANY):
        s.blocks[slot, column + b] = 0


@compiled
def _check_barrier(s: Any, slot: int, b: int) -> None:
    wanted = s.blocks[slot, EXPECTED + b] if s.blocks[slot, EXPECTED + b] > 0 else s.blocks[slot, ALIVE]
    if s.blocks[slot, ARRIVED + b] >= wanted and s.blocks[slot, ARRIVED + b] > 0:
        _release(s, slot, b)


@compiled
def _lanes_gone(s: Any, w: int, b: int) -> int:
    """Return how many lanes of a warp count at a barrier though they have ended: all, once the living wait there.

    A barrier that names how many threads it waits for counts warps, whole ones (PTX ISA, barrier).
    """
    warp, waiting = s.warps[w], np.uint32(0)
    for g in range(warp[GROUPS]):
        if warp[STATE + g] == AT_BARRIER and warp[DATA + g] == b:
            waiting |= np.uint32(warp[MASK + g])
    return 32 - count_bits(waiting) if waiting and waiting == np.uint32(warp[LIVE]) else 0


@compiled
def _leave(s: Any, w: int, g: int, mask: Any) -> None:
    """End the lanes of a group."""
    warp = s.warps[w]
    warp[LIVE] &= np.uint32(mask ^ _ALL)
    warp[MASK + g] &= np.uint32(mask ^ _ALL)
    slot = warp[SLOT]
    s.blocks[slot, ALIVE] -= count_bits(mask)
    for b in range(16):
        if s.blocks[slot, ARRIVED + b] > 0:
            if s.blocks[slot, EXPECTED + b] > 0:
                s.blocks[slot, ARRIVED + b] += _lanes_gone(s, w, b)
            _check_barrier(s, slot, b)


@compiled
def _branch(s: Any, w: int, g: int, taken: Any, target: int) -> None:
    """Send the lanes of a group that take a branch to its target, the others on."""
    warp = s.warps[w]
    mask, pc = np.uint32(warp[MASK + g]), warp[PC + g]
    stay = np.uint32(mask & np.uint32(taken ^ _ALL))
    if taken == 0:
        warp[PC + g] = pc + 1
    elif stay == 0:
        warp[PC + g] = target
    else:
        warp[PC + g], warp[MASK + g] = pc + 1, stay
        new_group(s, w, target, taken)


@compiled
def _lanes_with(A: Any, value: Any, among: Any) -> Any:
    """Return the lanes that hold a value."""
    same = np.uint32(0)
    for l in range(32):
        if lane_bit(among, l) and A[l] == value:
            same |= np.uint32(1) << np.uint32(l)
    return same


@compiled
def _jump(s: Any, w: int, g: int, active: Any, A: Any, offset: Any, count: int) -> int:
    """Send each lane to the address in its register."""
    warp = s.warps[w]
    mask, pc = np.uint32(warp[MASK + g]), warp[PC + g]
    rest = np.uint32(active)
    stay = np.uint32(mask & np.uint32(active ^ _ALL))
    first = True
    if stay:
        warp[PC + g], warp[MASK + g] = pc + 1, stay
        first = False
    while rest:
        lane = np.int64(trailing_zeros(rest))
        same = _lanes_with(A, A[lane], rest)
        target = (np.int64(np.int32(A[lane])) + offset) >> 4
        if target < 0 or target >= count:
            return BAD_TARGET
        if first:
            warp[PC + g], warp[MASK + g] = target, same
            first = False
        else:
            new_group(s, w, target, same)
        rest &= np.uint32(same ^ _ALL)
    return FINE


@compiled
def _barrier(ins: Any, R: Any, P: Any, s: Any, w: int, g: int, active: Any) -> None:
    """Arrive at a barrier, and wait there unless it is only an arrival."""
    warp = s.warps[w]
    slot = warp[SLOT]
    lane = np.int64(trailing_zeros(np.uint32(active)))
    b = np.int64(R[ins[ops.A]][lane]) & 15
    if ins[ops.Y]:
        s.blocks[slot, EXPECTED + b] = np.int64(R[ins[ops.B]][lane])
    else:
        s.blocks[slot, EXPECTED + b] = 0
    warp[PC + g] += 1
    s.blocks[slot, ARRIVED + b] += count_bits(active)
    if ins[ops.X] == 2:
        yes = np.uint32(predicate(P, ins[ops.PS], ins[ops.PS_NOT]) & active)
        s.blocks[slot, REDUCED + b] += count_bits(yes)
        s.blocks[slot, SAID_NO + b] |= yes != active
        s.blocks[slot, ASKED_ANY + b] |= ins[ops.Z] == 2
    if ins[ops.X] != 1:
        warp[STATE + g], warp[DATA + g] = AT_BARRIER, b
    if ins[ops.Y]:
        arrived = active == np.uint32(warp[LIVE]) and ins[ops.X] == 1
        s.blocks[slot, ARRIVED + b] += 32 - count_bits(active) if arrived else _lanes_gone(s, w, b)
    _check_barrier(s, slot, b)


@compiled
def _trapped(s: Any, active: Any) -> int:
    s.scratch[ERROR + 1] = np.int64(trailing_zeros(np.uint32(active)))
    return TRAPPED


@compiled
def _wait_for_lanes(ins: Any, A: Any, s: Any, w: int, g: int, active: Any) -> None:
    """Wait for the lanes of a mask. Lanes with another one wait for theirs, apart if it says so or some are missing."""
    warp = s.warps[w]
    missing, rest = np.uint32(0), np.uint32(0)
    for l in range(32):
        if lane_bit(active, l):
            missing |= np.uint32(A[l] & np.uint32(warp[LIVE]) & np.uint32(warp[MASK + g] ^ _ALL))
    first = A[np.int64(trailing_zeros(np.uint32(active)))]
    if not ins[ops.X] and (ins[ops.Y] or missing):
        rest = _lanes_with(A, first, active) ^ active
    warp[MASK + g] ^= rest
    warp[STATE + g], warp[DATA + g] = AT_WARPSYNC, np.int64(-1) if ins[ops.X] else np.int64(first)  # -1: all that live
    while rest:
        value = A[np.int64(trailing_zeros(np.uint32(rest)))]
        new_group(s, w, warp[PC + g], _lanes_with(A, value, rest))
        k = warp[GROUPS] - 1
        warp[STATE + k], warp[DATA + k] = AT_WARPSYNC, np.int64(value)
        rest ^= np.uint32(warp[MASK + k])
    meet(s, w)


@compiled
def _converge(ins: Any, R: Any, P: Any, s: Any, w: int, g: int, active: Any) -> None:
    """Run an instruction by which groups of lanes meet. Each lane has its own B0 to B15: calls may nest unevenly."""
    op, b = ins[ops.OP], ins[ops.X]
    if op == ops.BSSY:
        set_partners(s, w, b, active, np.uint32(active))
    elif op == ops.BREAK:
        going = np.uint32(active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        if going:
            lanes = partners(s, w, b, going)
            set_partners(s, w, b, lanes | going, np.uint32(lanes & np.uint32(going ^ _ALL)))
            meet(s, w)
    elif op == ops.BSYNC:
        s.warps[w, STATE + g], s.warps[w, DATA + g] = AT_SYNC, b
        meet(s, w)
    elif op == ops.WARPSYNC:
        _wait_for_lanes(ins, R[ins[ops.A]], s, w, g, active)
    elif op == ops.BMOV_TO_R:
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = s.warps[w, SYNC + 32 * b + l]
        if ins[ops.Y]:
            set_partners(s, w, b, active, np.uint32(0))
    elif op == ops.BMOV_FROM_R:
        for l in range(32):
            if lane_bit(active, l):
                s.warps[w, SYNC + 32 * b + l] = R[ins[ops.A]][l]
    elif op == ops.B2R:
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = np.uint32(s.warps[w, RESULT + 0])
        set_predicate(P, ins[ops.PD], active, _ALL if s.warps[w, RESULT + 1] else np.uint32(0))


@compiled
def _call(s: Any, pc: int, w: int, g: int, active: Any) -> int:
    """Call by address: code of the kernel, or a function of the system, whose result is in R4 and R5."""
    ins, R, count = s.table[pc], s.registers[w], s.table.shape[0]
    if active == 0:
        s.warps[w, PC + g] += 1
        return FINE
    lane = np.int64(trailing_zeros(np.uint32(active)))
    low, high = R[ins[ops.A]], R[ins[ops.A] + 1]
    if high[lane] != SYSTEM_WINDOW:
        return _jump(s, w, g, active, low, np.int64(0), count)
    which = np.int64(low[lane]) >> 4
    what = s.calls[which] if which < s.calls.shape[0] else ops.SYSTEM_UNKNOWN
    if what == ops.SYSTEM_TRAPS:
        return _trapped(s, active)
    if what == ops.SYSTEM_UNKNOWN:
        return BAD_CALL
    for l in range(32):
        if not lane_bit(active, l):
            continue
        size, place = np.int64(R[4][l]), np.int64(0)
        if what == ops.SYSTEM_ALLOCATES and size > 0 and s.flags[HEAP_USED] + size <= HEAP_BYTES:
            place = HEAP + s.flags[HEAP_USED]
            s.flags[HEAP_USED] += (size + 15) & ~15
        R[4, l], R[5, l] = np.uint32(place & 0xFFFFFFFF), np.uint32(place >> 32)
    s.warps[w, PC + g] += 1
    return FINE


@handler(ops.CONTROL)
def _control(s: Any, pc: int, w: int, g: int, active: Any) -> int:
    """Run one instruction of control flow; the group's place moves here."""
    warp = s.warps[w]
    ins, R, P, count = s.table[pc], s.registers[w], s.predicates[w], s.table.shape[0]
    op = ins[ops.OP]
    if op == ops.BRA:
        taken = active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]) & predicate(P, ins[ops.PS2], ins[ops.PS2_NOT])
        _branch(s, w, g, np.uint32(taken), ins[ops.TARGET])
        return FINE
    if op == ops.BRA_ANY:
        taken = active & predicate(P, ins[ops.PS], ins[ops.PS_NOT])
        _branch(s, w, g, np.uint32(warp[MASK + g]) if taken else np.uint32(0), ins[ops.TARGET])
        return FINE
    if op == ops.CALL_ABS:
        return _call(s, pc, w, g, active)
    if op == ops.CALL:
        _branch(s, w, g, active, ins[ops.TARGET])
        return FINE
    if op == ops.BRA_DIV:
        lane = np.int64(trailing_zeros(np.uint32(warp[MASK + g])))
        wanted = np.uint32(R[ins[ops.A]][lane] ^ np.uint32(ins[ops.A_XOR])) & np.uint32(warp[LIVE])
        apart = (wanted & np.uint32(active ^ _ALL)) != 0  # lanes whose guard says no are not there
        all_or_none = np.uint32(warp[MASK + g]) if apart != (ins[ops.X] != 0) else np.uint32(0)
        _branch(s, w, g, all_or_none, ins[ops.TARGET])
        return FINE
    if op in (ops.BRX, ops.RET):
        if active == 0:
            warp[PC + g] = pc + 1
            return FINE
        return _jump(s, w, g, active, R[ins[ops.A]], ins[ops.X], count)
    if op == ops.EXIT:
        going = np.uint32(active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        if going:
            _leave(s, w, g, going)
        if warp[MASK + g] == 0:
            drop_group(s, w, g)
        else:
            warp[PC + g] = pc + 1
        meet(s, w)
        return FINE
    if op == ops.BAR:
        if active == 0:
            warp[PC + g] = pc + 1
        else:
            _barrier(ins, R, P, s, w, g, active)
        return FINE
    if op == ops.YIELD:
        warp[PC + g] = pc + 1
        give_way(s, w, g)
        return FINE
    if op == ops.TRAP:
        if active:
            return _trapped(s, active)
        warp[PC + g] = pc + 1
        return FINE
    warp[PC + g] = pc + 1
    if active:
        _converge(ins, R, P, s, w, g, active)
    return FINE
