"""Control flow: groups of lanes that part at branches and meet again, barriers between the warps of a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulate import ops
from warplens.emulate.bits import compiled, trailing_zeros
from warplens.emulate.exchange import count_bits
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
    last = s.warps[w, GROUPS] - 1
    s.warps[w, PC + g], s.warps[w, MASK + g] = s.warps[w, PC + last], s.warps[w, MASK + last]
    s.warps[w, STATE + g], s.warps[w, DATA + g] = s.warps[w, STATE + last], s.warps[w, DATA + last]
    s.warps[w, GROUPS] = last


@compiled
def _new_group(s: Any, w: int, pc: int, mask: Any) -> None:
    g = s.warps[w, GROUPS]
    s.warps[w, PC + g], s.warps[w, MASK + g], s.warps[w, STATE + g], s.warps[w, DATA + g] = pc, mask, READY, 0
    s.warps[w, GROUPS] = g + 1


@compiled
def _meet(s: Any, w: int) -> None:
    """Join the groups that wait for one another and have all arrived."""
    for b in range(16):
        waiting = np.uint32(0)
        for g in range(s.warps[w, GROUPS]):
            if s.warps[w, STATE + g] == AT_SYNC and s.warps[w, DATA + g] == b:
                waiting |= np.uint32(s.warps[w, MASK + g])
        if waiting and (s.warps[w, SYNC + b] & s.warps[w, LIVE] & np.uint32(waiting ^ _ALL)) == 0:
            _join(s, w, AT_SYNC, b, waiting)
    waiting, wanted = np.uint32(0), np.uint32(0)
    for g in range(s.warps[w, GROUPS]):
        if s.warps[w, STATE + g] == AT_WARPSYNC:
            waiting |= np.uint32(s.warps[w, MASK + g])
            wanted |= np.uint32(s.warps[w, DATA + g])
    if waiting and (wanted & s.warps[w, LIVE] & np.uint32(waiting ^ _ALL)) == 0:
        for g in range(s.warps[w, GROUPS]):
            if s.warps[w, STATE + g] == AT_WARPSYNC:
                s.warps[w, DATA + g] = 0
        _join(s, w, AT_WARPSYNC, 0, waiting)


@compiled
def _join(s: Any, w: int, state: int, data: int, mask: Any) -> None:
    """Make one group of those in a state at the same place; others at other places become ready too."""
    first = -1
    g = 0
    while g < s.warps[w, GROUPS]:
        if s.warps[w, STATE + g] == state and s.warps[w, DATA + g] == data:
            s.warps[w, STATE + g] = READY
            if first >= 0 and s.warps[w, PC + g] == s.warps[w, PC + first]:
                s.warps[w, MASK + first] |= s.warps[w, MASK + g]
                _drop_group(s, w, g)
                continue
            if first < 0:
                first = g
        g += 1


@compiled
def _release(s: Any, slot: int, b: int) -> None:
    """Let all groups of a block that wait at a barrier go on."""
    for w in range(s.warps.shape[0]):
        if s.warps[w, SLOT] != slot:
            continue
        for g in range(s.warps[w, GROUPS]):
            if s.warps[w, STATE + g] == AT_BARRIER and s.warps[w, DATA + g] == b:
                s.warps[w, STATE + g] = READY
                s.warps[w, RESULT + 0], s.warps[w, RESULT + 1] = (
                    s.blocks[slot, REDUCED + 0],
                    s.blocks[slot, REDUCED + 1] + 2 * s.blocks[slot, REDUCED + 2],
                )
        g = 0
        while g < s.warps[w, GROUPS]:  # lanes that left the barrier at the same place go on together
            k = g + 1
            while k < s.warps[w, GROUPS]:
                same = s.warps[w, STATE + g] == READY and s.warps[w, STATE + k] == READY
                if same and s.warps[w, PC + k] == s.warps[w, PC + g]:
                    s.warps[w, MASK + g] |= s.warps[w, MASK + k]
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
    s.warps[w, LIVE] &= np.uint32(mask ^ _ALL)
    s.warps[w, MASK + g] &= np.uint32(mask ^ _ALL)
    slot = s.warps[w, SLOT]
    s.blocks[slot, ALIVE] -= count_bits(mask)
    for b in range(16):
        if s.blocks[slot, ARRIVED + b] > 0:
            _check_barrier(s, slot, b)


@compiled
def _branch(s: Any, w: int, g: int, taken: Any, target: int) -> None:
    """Send the lanes of a group that take a branch to its target, the others on."""
    mask, pc = np.uint32(s.warps[w, MASK + g]), s.warps[w, PC + g]
    stay = np.uint32(mask & np.uint32(taken ^ _ALL))
    if taken == 0:
        s.warps[w, PC + g] = pc + 1
    elif stay == 0:
        s.warps[w, PC + g] = target
    else:
        s.warps[w, PC + g], s.warps[w, MASK + g] = pc + 1, stay
        _new_group(s, w, target, taken)


@compiled
def _jump(s: Any, w: int, g: int, active: Any, A: Any, offset: Any, count: int) -> int:
    """Send each lane to the address in its register."""
    mask, pc = np.uint32(s.warps[w, MASK + g]), s.warps[w, PC + g]
    rest = np.uint32(active)
    stay = np.uint32(mask & np.uint32(active ^ _ALL))
    first = True
    if stay:
        s.warps[w, PC + g], s.warps[w, MASK + g] = pc + 1, stay
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
            s.warps[w, PC + g], s.warps[w, MASK + g] = target, same
            first = False
        else:
            _new_group(s, w, target, same)
        rest &= np.uint32(same ^ _ALL)
    return FINE


@compiled
def _barrier(ins: Any, R: Any, P: Any, s: Any, w: int, g: int, active: Any) -> None:
    """Arrive at a barrier, and wait there unless it is only an arrival."""
    slot = s.warps[w, SLOT]
    lane = np.int64(trailing_zeros(np.uint32(active)))
    b = np.int64(R[ins[ops.A]][lane]) & 15
    if ins[ops.Y]:
        s.blocks[slot, EXPECTED + b] = np.int64(R[ins[ops.B]][lane])
    else:
        s.blocks[slot, EXPECTED + b] = 0
    s.warps[w, PC + g] += 1
    s.blocks[slot, ARRIVED + b] += count_bits(active)
    if ins[ops.X] == 2:
        yes = np.uint32(predicate(P, ins[ops.PS], ins[ops.PS_NOT]) & active)
        s.blocks[slot, REDUCED + 0] += count_bits(yes)
        if yes != active:
            s.blocks[slot, REDUCED + 1] = 0
        if yes:
            s.blocks[slot, REDUCED + 2] = 1
    if ins[ops.X] != 1:
        s.warps[w, STATE + g], s.warps[w, DATA + g] = AT_BARRIER, b
    _check_barrier(s, slot, b)


@compiled
def control(ins: Any, R: Any, P: Any, s: Any, w: int, g: int, active: Any, count: int) -> int:
    """Run one instruction of control flow; the group's place moves here."""
    op, pc = ins[ops.OP], s.warps[w, PC + g]
    if op == ops.BRA:
        taken = active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]) & predicate(P, ins[ops.PS2], ins[ops.PS2_NOT])
        _branch(s, w, g, np.uint32(taken), ins[ops.TARGET])
        return FINE
    if op == ops.CALL:
        _branch(s, w, g, active, ins[ops.TARGET])
        return FINE
    if op == ops.BRA_DIV:
        wanted = np.uint32(R[ins[ops.A]][0])
        apart = (wanted & np.uint32(s.warps[w, MASK + g] ^ _ALL)) != 0
        _branch(s, w, g, np.uint32(active) if apart != (ins[ops.X] != 0) else np.uint32(0), ins[ops.TARGET])
        return FINE
    if op in (ops.BRX, ops.RET):
        if active == 0:
            s.warps[w, PC + g] = pc + 1
            return FINE
        return _jump(s, w, g, active, R[ins[ops.A]].copy(), ins[ops.X], count)
    if op == ops.EXIT:
        going = np.uint32(active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        if going:
            _leave(s, w, g, going)
        if s.warps[w, MASK + g] == 0:
            _drop_group(s, w, g)
        else:
            s.warps[w, PC + g] = pc + 1
        _meet(s, w)
        return FINE
    if op == ops.BAR:
        if active == 0:
            s.warps[w, PC + g] = pc + 1
        else:
            _barrier(ins, R, P, s, w, g, active)
        return FINE
    if op == ops.TRAP:
        if active:
            return TRAPPED
        s.warps[w, PC + g] = pc + 1
        return FINE
    s.warps[w, PC + g] = pc + 1
    if op == ops.BSSY:
        s.warps[w, SYNC + ins[ops.X]] = np.uint32(active)
    elif op == ops.BREAK:
        going = np.uint32(active & predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        s.warps[w, SYNC + ins[ops.X]] &= np.uint32(going ^ _ALL)
        _meet(s, w)
    elif op == ops.BSYNC:
        if active:
            s.warps[w, STATE + g], s.warps[w, DATA + g] = AT_SYNC, ins[ops.X]
            _meet(s, w)
    elif op == ops.WARPSYNC:
        if active:
            wanted = (
                np.uint32(s.warps[w, LIVE])
                if ins[ops.X]
                else np.uint32(R[ins[ops.A]][np.int64(trailing_zeros(active))])
            )
            s.warps[w, STATE + g], s.warps[w, DATA + g] = AT_WARPSYNC, np.int64(wanted)
            _meet(s, w)
    elif op == ops.BMOV_TO_R:
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = s.warps[w, SYNC + ins[ops.X]]
        if ins[ops.Y]:
            s.warps[w, SYNC + ins[ops.X]] = np.uint32(0)
    elif op == ops.BMOV_FROM_R:
        if active:
            s.warps[w, SYNC + ins[ops.X]] = R[ins[ops.A]][np.int64(trailing_zeros(active))]
    elif op == ops.B2R:
        how = s.warps[w, RESULT + 1]
        for l in range(32):
            if lane_bit(active, l):
                R[ins[ops.D], l] = np.uint32(s.warps[w, RESULT + 0])
        set_predicate(P, ins[ops.PD], active, _ALL if how & 1 else np.uint32(0))
    return FINE


@compiled
def rotate(s: Any, w: int) -> None:
    """Put the first group of a warp behind the others, so that all of them go on."""
    last = s.warps[w, GROUPS] - 1
    for column in (PC, MASK, STATE, DATA):
        first = s.warps[w, column]
        for g in range(last):
            s.warps[w, column + g] = s.warps[w, column + g + 1]
        s.warps[w, column + last] = first
