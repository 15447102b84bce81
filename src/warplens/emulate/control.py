"""Control flow: groups of lanes that part at branches and meet again, barriers between the warps of a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulate import ops
from warplens.emulate.bits import compiled, trailing_zeros
from warplens.emulate.exchange import count_bits
from warplens.emulate.handlers import handler
from warplens.emulate.integer_parts import lane_bit, predicate, set_predicate
from warplens.emulate.layout import (
    ALIVE,
    ARRIVED,
    AT_BARRIER,
    AT_SYNC,
    AT_WARPSYNC,
    BAD_TARGET,
    DATA,
    EXPECTED,
    FINE,
    GROUPS,
    LIVE,
    MASK,
    PC,
    READY,
    REDUCED,
    RESULT,
    SLOT,
    STATE,
    SYNC,
    TRAPPED,
)

_ALL = np.uint32(0xFFFFFFFF)


@compiled
def _drop_group(s: Any, w: int, g: int) -> None:
    warp = s.warps[w]
    last = warp[GROUPS] - 1
    warp[PC + g], warp[MASK + g] = warp[PC + last], warp[MASK + last]
    warp[STATE + g], warp[DATA + g] = warp[STATE + last], warp[DATA + last]
    warp[GROUPS] = last


@compiled
def _new_group(s: Any, w: int, pc: int, mask: Any) -> None:
    warp = s.warps[w]
    g = warp[GROUPS]
    warp[PC + g], warp[MASK + g], warp[STATE + g], warp[DATA + g] = pc, mask, READY, 0
    warp[GROUPS] = g + 1


@compiled
def _meet(s: Any, w: int) -> None:
    """Join the groups that wait for one another and have all arrived."""
    warp = s.warps[w]
    for b in range(16):
        waiting = np.uint32(0)
        for g in range(warp[GROUPS]):
            if warp[STATE + g] == AT_SYNC and warp[DATA + g] == b:
                waiting |= np.uint32(warp[MASK + g])
        if waiting and (warp[SYNC + b] & warp[LIVE] & np.uint32(waiting ^ _ALL)) == 0:
            _join(s, w, np.int64(AT_SYNC), b)
    waiting, wanted = np.uint32(0), np.uint32(0)
    for g in range(warp[GROUPS]):
        if warp[STATE + g] == AT_WARPSYNC:
            waiting |= np.uint32(warp[MASK + g])
            wanted |= np.uint32(warp[DATA + g])
    if waiting and (wanted & warp[LIVE] & np.uint32(waiting ^ _ALL)) == 0:
        for g in range(warp[GROUPS]):
            if warp[STATE + g] == AT_WARPSYNC:
                warp[DATA + g] = 0
        _join(s, w, np.int64(AT_WARPSYNC), np.int64(0))


@compiled
def _join(s: Any, w: int, state: int, data: int) -> None:
    """Make one group of those in a state at the same place; others at other places become ready too."""
    warp = s.warps[w]
    first, g = np.int64(-1), np.int64(0)
    while g < warp[GROUPS]:
        if warp[STATE + g] == state and warp[DATA + g] == data:
            warp[STATE + g] = READY
            if first >= 0 and warp[PC + g] == warp[PC + first]:
                warp[MASK + first] |= warp[MASK + g]
                _drop_group(s, w, g)
                continue
            if first < 0:
                first = g
        g += 1


@compiled
def _release(s: Any, slot: int, b: int) -> None:
    """Let all groups of a block that wait at a barrier go on."""
    per_block = s.warps.shape[0] // s.blocks.shape[0]
    for w in range(slot * per_block, (slot + 1) * per_block):
        warp = s.warps[w]
        for g in range(warp[GROUPS]):
            if warp[STATE + g] == AT_BARRIER and warp[DATA + g] == b:
                warp[STATE + g] = READY
                warp[RESULT + 0], warp[RESULT + 1] = (
                    s.blocks[slot, REDUCED + 0],
                    s.blocks[slot, REDUCED + 1] + 2 * s.blocks[slot, REDUCED + 2],
                )
        g = np.int64(0)
        while g < warp[GROUPS]:  # lanes that left the barrier at the same place go on together
            k = g + 1
            while k < warp[GROUPS]:
                same = warp[STATE + g] == READY and warp[STATE + k] == READY
                if same and warp[PC + k] == warp[PC + g]:
                    warp[MASK + g] |= warp[MASK + k]
                    _drop_group(s, w, k)
                else:
                    k += 1
            g += 1
    s.blocks[slot, ARRIVED + b] = 0
    s.blocks[slot, REDUCED + 0], s.blocks[slot, REDUCED + 1], s.blocks[slot, REDUCED + 2] = 0, 1, 0


@compiled
def _check_barrier(s: Any, slot: int, b: int) -> None:
    wanted = s.blocks[slot, EXPECTED + b] if s.blocks[slot, EXPECTED + b] > 0 else s.blocks[slot, ALIVE]
    if s.blocks[slot, ARRIVED + b] >= wanted and s.blocks[slot, ARRIVED + b] > 0:
        _release(s, slot, b)


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
        _new_group(s, w, target, taken)


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
        same = np.uint32(0)
        for l in range(32):
            if lane_bit(rest, l) and A[l] == A[lane]:
                same |= np.uint32(1) << np.uint32(l)
        target = (np.int64(np.int32(A[lane])) + offset) >> 4
        if target < 0 or target >= count:
            return BAD_TARGET
        if first:
            warp[PC + g], warp[MASK + g] = target, same
            first = False
        else:
            _new_group(s, w, target, same)
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
        s.blocks[slot, REDUCED + 0] += count_bits(yes)
        if yes != active:
            s.blocks[slot, REDUCED + 1] = 0
        if yes:
            s.blocks[slot, REDUCED + 2] = 1
    if ins[ops.X] != 1:
        warp[STATE + g], warp[DATA + g] = AT_BARRIER, b
    _check_barrier(s, slot, b)


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
    if op == ops.CALL:
        _branch(s, w, g, active, ins[ops.TARGET])
        return FINE
    if op == ops.BRA_DIV:
        wanted = np.uint32(R[ins[ops.A]][0])
        apart = (wanted & np.uint32(warp[MASK + g] ^ _ALL)) != 0
        _branch(s, w, g, np.uint32(active) if apart != (ins[ops.X] != 0) else np.uint32(0), ins[ops.TARGET])
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
            _drop_group(s, w, g)
        else:
            warp[PC + g] = pc + 1
        _meet(s, w)
        return FINE
    if op == ops.BAR:
        if active == 0:
            warp[PC + g] = pc + 1
        else:
            _barrier(ins, R, P, s, w, g, active)
        return FINE
    if op == ops.TRAP:
        if active:
            return TRAPPED
        warp[PC + g] = pc + 1
        return FINE
    warp[PC + g] = pc + 1
    if op == ops.BSSY:
        warp[SYNC + ins[ops.X]] = np.uint32(active)
    elif op == ops.BREAK:
        going = np.uint32(active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        warp[SYNC + ins[ops.X]] &= np.uint32(going ^ _ALL)
        _meet(s, w)
    elif op == ops.BSYNC:
        if active:
            warp[STATE + g], warp[DATA + g] = AT_SYNC, ins[ops.X]
            _meet(s, w)
    elif op == ops.WARPSYNC:
        if active:
            wanted = np.uint32(warp[LIVE]) if ins[ops.X] else np.uint32(R[ins[ops.A]][np.int64(trailing_zeros(active))])
            warp[STATE + g], warp[DATA + g] = AT_WARPSYNC, np.int64(wanted)
            _meet(s, w)
    elif op == ops.BMOV_TO_R:
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = warp[SYNC + ins[ops.X]]
        if ins[ops.Y]:
            warp[SYNC + ins[ops.X]] = np.uint32(0)
    elif op == ops.BMOV_FROM_R:
        if active:
            warp[SYNC + ins[ops.X]] = R[ins[ops.A]][np.int64(trailing_zeros(active))]
    elif op == ops.B2R:
        how = warp[RESULT + 1]
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = np.uint32(warp[RESULT + 0])
        set_predicate(P, ins[ops.PD], active, _ALL if how & 1 else np.uint32(0))
    return FINE


@compiled
def rotate(s: Any, w: int) -> None:
    """Put the first group of a warp behind the others, so that all of them go on."""
    warp = s.warps[w]
    last = warp[GROUPS] - 1
    for column in (PC, MASK, STATE, DATA):
        first = warp[column]
        for g in range(last):
            warp[column + g] = warp[column + g + 1]
        warp[column + last] = first
