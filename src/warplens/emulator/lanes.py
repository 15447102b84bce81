"""Lanes of a warp: the groups that diverge, wait, reconverge and yield, and the instructions that exchange values.

Those are shuffles, votes and reductions; special registers are here too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import compiled, inlined, lanes, popcount, trailing_zeros
from warplens.emulator.handlers import handler
from warplens.emulator.integer import keep, lane_bit, predicate, set_predicate
from warplens.emulator.layout import (
    AT_SYNC,
    AT_WARPSYNC,
    DATA,
    FINE,
    GROUPS,
    LIVE,
    MASK,
    PC,
    READY,
    SHARED_WINDOW,
    STATE,
    SYNC,
    WORK,
    YIELDS,
)

_ALL = np.uint32(0xFFFFFFFF)
_PATIENCE = 100  # times that lanes give way before others stop waiting for them: see docs/explain/emulator.md


@compiled
def drop_group(s: Any, w: int, g: int) -> None:
    """Forget a group; the last one takes its number."""
    warp = s.warps[w]
    last = warp[GROUPS] - 1
    warp[PC + g], warp[MASK + g] = warp[PC + last], warp[MASK + last]
    warp[STATE + g], warp[DATA + g] = warp[STATE + last], warp[DATA + last]
    warp[GROUPS] = last


@compiled
def new_group(s: Any, w: int, pc: int, mask: Any) -> None:
    """Let lanes go their own way from a place."""
    warp = s.warps[w]
    g = warp[GROUPS]
    warp[PC + g], warp[MASK + g], warp[STATE + g], warp[DATA + g] = pc, mask, READY, 0
    warp[GROUPS] = g + 1


@compiled
def meet(s: Any, w: int) -> None:
    """Join the groups that wait for one another and have all arrived."""
    g = 0
    while g < s.warps[w, GROUPS]:
        state, data = s.warps[w, STATE + g], s.warps[w, DATA + g]
        if state in (AT_SYNC, AT_WARPSYNC):
            wanted = _wanted(s, w, g)
            waiting = np.uint32(0)
            for k in range(s.warps[w, GROUPS]):
                same = s.warps[w, STATE + k] == state and s.warps[w, DATA + k] == data
                if same and _wanted(s, w, k) == wanted:
                    waiting |= np.uint32(s.warps[w, MASK + k])
            if (wanted & s.warps[w, LIVE] & np.uint32(waiting ^ _ALL)) == 0:
                _join(s, w, state, data, waiting)
        g += 1


@compiled
def _wanted(s: Any, w: int, g: int) -> Any:
    """Return the lanes that a waiting group waits for."""
    data = s.warps[w, DATA + g]
    if s.warps[w, STATE + g] == AT_SYNC:
        return partners(s, w, data, s.warps[w, MASK + g])
    return np.uint32(s.warps[w, LIVE]) if data < 0 else np.uint32(data)


@compiled
def partners(s: Any, w: int, b: int, mask: Any) -> Any:
    """Return the lanes that a group meets at a barrier register; its lanes all hold the same."""
    return np.uint32(s.warps[w, SYNC + 32 * b + np.int64(trailing_zeros(np.uint32(mask)))])


@compiled
def set_partners(s: Any, w: int, b: int, active: Any, lanes: Any) -> None:
    """Say which lanes these meet at a barrier register."""
    for l in range(32):
        if lane_bit(active, l):
            s.warps[w, SYNC + 32 * b + l] = lanes


@compiled
def _join(s: Any, w: int, state: int, data: int, mask: Any) -> None:
    """Make one group of those in a state, of these lanes, at the same place; those at other places become ready too."""
    first = -1
    g = 0
    s.warps[w, YIELDS] = 0
    while g < s.warps[w, GROUPS]:
        there = s.warps[w, STATE + g] == state and s.warps[w, DATA + g] == data
        if there and np.uint32(s.warps[w, MASK + g]) & mask:
            s.warps[w, STATE + g] = READY
            if first >= 0 and s.warps[w, PC + g] == s.warps[w, PC + first]:
                s.warps[w, MASK + first] |= s.warps[w, MASK + g]
                drop_group(s, w, g)
                continue
            if first < 0:
                first = g
        g += 1


@compiled
def give_way(s: Any, w: int, g: int) -> None:
    """Let lanes that have waited long for these go on without them: one of them may hold the lock that these want.

    Lanes make progress though the compiler has them meet behind the loop (Volta's independent thread scheduling).
    """
    warp = s.warps[w]
    mine, waiting, wanted = np.uint32(warp[MASK + g]), np.uint32(0), np.uint32(0)
    for k in range(warp[GROUPS]):
        if warp[STATE + k] == AT_SYNC and _wanted(s, w, k) & mine and (wanted == 0 or _wanted(s, w, k) == wanted):
            wanted = _wanted(s, w, k)
            waiting |= np.uint32(warp[MASK + k])
            b = warp[DATA + k]
    warp[YIELDS] = warp[YIELDS] + 1 if waiting else 0
    if warp[YIELDS] > _PATIENCE:
        set_partners(s, w, b, wanted, np.uint32(wanted & np.uint32(waiting ^ _ALL)))
        set_partners(s, w, b, waiting, waiting)
        meet(s, w)


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


@handler(ops.LANES, ops.SHFL)
def _shuffled(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Read a register of another lane."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, made = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], lanes()
    inside, how = np.uint32(0), ins[ops.X]
    for l in range(32):
        step, clamp, segment = np.int64(B[l] & 31), np.int64(C[l] & 31), np.int64((C[l] >> np.uint32(8)) & 31)
        largest = (l & segment) | (clamp & ~segment)
        if how == 0:  # IDX
            source = (l & segment) | (step & ~segment & 31)
            ok = source <= largest
        elif how == 1:  # UP
            source = l - step
            ok = source >= largest
        elif how == 2:  # DOWN
            source = l + step
            ok = source <= largest
        else:  # BFLY
            source = l ^ step
            ok = source <= largest
        if not ok:
            source = l
        inside |= np.uint32(ok) << np.uint32(l)
        made[l] = A[source & 31]
    set_predicate(P, ins[ops.PD], mask, inside)
    return keep(R[ins[ops.D]], made, mask)


@handler(ops.LANES, ops.MATCH)
def _matched(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Find the lanes that hold the same value."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A = R[ins[ops.A]]
    A2, made = R[ins[ops.A] + 1] if ins[ops.Y] else A, lanes()
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        same = np.uint32(0)
        for k in range(32):
            if lane_bit(mask, k) and A[k] == A[l] and A2[k] == A2[l]:
                same |= np.uint32(1) << np.uint32(k)
        if ins[ops.X]:  # ALL
            same = same if same == mask else np.uint32(0)
        made[l] = same
        if ins[ops.X]:
            set_predicate(P, ins[ops.PD], np.uint32(1) << np.uint32(l), _ALL if same else np.uint32(0))
    return keep(R[ins[ops.D]], made, mask)


@compiled
def _reduced(ins: Any, A: Any, mask: Any) -> Any:
    """Reduce the active lanes: AND, OR, XOR, SUM, MIN, MAX."""
    how, signed = ins[ops.X], ins[ops.MODE] & ops.SIGNED
    first = True
    total = np.int64(0)
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        v = np.int64(np.int32(A[l])) if signed else np.int64(A[l])
        if first:
            total, first = v, False
        elif how == 0:
            total &= v
        elif how == 1:
            total |= v
        elif how == 2:
            total ^= v
        elif how == 3:
            total += v
        elif how == 4:
            total = min(total, v)
        else:
            total = max(total, v)
    return np.uint32(np.uint64(total) & np.uint64(0xFFFFFFFF))


@handler(ops.LANES)
def _exchange(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run one instruction that looks at other lanes. Uniform results go to all lanes of their row."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op = ins[ops.OP]
    if mask == np.uint32(0):
        return FINE
    D = R[ins[ops.D]]
    if op == ops.VOTE:
        bits = np.uint32(predicate(P, ins[ops.PS], ins[ops.PS_NOT]) & mask)
        how = ins[ops.X]
        yes = bits != 0 if how == 0 else bits == mask if how == 1 else bits == mask or bits == 0
        for l in range(32):
            if ins[ops.Y] or lane_bit(mask, l):
                D[l] = bits
        set_predicate(P, ins[ops.PD], _ALL if ins[ops.Y] else mask, _ALL if yes else np.uint32(0))
        return FINE
    A = R[ins[ops.A]]
    lowest = np.int64(trailing_zeros(np.uint32(mask)))
    if op == ops.ELECT:
        set_predicate(P, ins[ops.PD], mask, np.uint32(1) << np.uint32(lowest))
        return FINE
    value = np.uint32(A[lowest]) if op == ops.R2UR else _reduced(ins, A, mask)
    if op == ops.R2UR and ins[ops.X]:
        differ = False
        for l in range(32):
            differ |= lane_bit(mask, l) and A[l] != value
        set_predicate(P, ins[ops.PD], mask, _ALL if differ else np.uint32(0))
    for l in range(32):
        D[l] = value
    return FINE


@handler(ops.LANES, ops.S2R + 100)
def _special(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Read a special register; the clock counts the instructions of the warp."""
    ins, R = m.table[pc], m.registers[w]
    threads, place = m.threads[w], m.warps[w]
    which, clock = ins[ops.X], place[WORK]
    D = R[ins[ops.D]]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        value = np.int64(0)
        one = np.int64(1) << np.int64(l)
        if which <= ops.SR_TID_Z:
            value = threads[which, l]
        elif which <= ops.SR_CTAID_Z:
            value = place[which - ops.SR_CTAID_X]
        elif which == ops.SR_LANE:
            value = np.int64(l)
        elif which == ops.SR_CLOCK:
            value = np.int64(clock)
        elif which == ops.SR_LANE_EQ:
            value = one
        elif which == ops.SR_LANE_LT:
            value = one - 1
        elif which == ops.SR_LANE_LE:
            value = 2 * one - 1
        elif which == ops.SR_LANE_GT:
            value = np.int64(0xFFFFFFFF) - (2 * one - 1)
        elif which == ops.SR_LANE_GE:
            value = np.int64(0xFFFFFFFF) - (one - 1)
        elif which == ops.SR_SMID:
            value = place[3]
        elif which == ops.SR_WARPID:
            value = place[4]
        elif which == ops.SR_SHARED_WINDOW:
            value = np.int64(SHARED_WINDOW)
        elif which == ops.SR_ONE:
            value = np.int64(1)
        elif which == ops.SR_TID:
            value = threads[0, l] | (threads[1, l] << 16) | (threads[2, l] << 26)
        D[l] = np.uint32(value & 0xFFFFFFFF)
        if ins[ops.Y]:
            R[ins[ops.D] + 1, l] = np.uint32(0)
    return FINE


@inlined
def count_bits(mask: Any) -> Any:
    """Return how many lanes are in a mask."""
    return np.int64(popcount(np.uint32(mask)))
