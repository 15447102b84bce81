"""Integer, logic and move instructions, over the lanes of a warp.

`ins` is a row of the code table, R the registers of the warp and behind them its constants (rows of 32 lanes), P its
predicates (a bit per lane), `mask` the lanes that execute. Sources come as (value AND a) XOR b, plus c, which
covers negation and complement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import compiled, inlined, lanes, popcount
from warplens.emulator.handlers import handler
from warplens.emulator.integer_parts import (
    dot,
    found_bit,
    joined,
    keep,
    lane_bit,
    permuted,
    plain_value,
    predicate,
    set_predicate,
    shifted,
    signed_value,
)
from warplens.emulator.layout import FINE

_LOW = np.uint64(0xFFFFFFFF)


@compiled
def _compare(code: int, a: Any, b: Any) -> bool:
    if a < b:
        return code & 1 != 0
    if a == b:
        return code & 2 != 0
    return code & 4 != 0


@compiled
def _chosen(op: int, ins: Any, a: Any, b: Any, c: Any, smaller: bool) -> Any:
    """Minimum or maximum of two or three, or of a sum and a third; with RELU not below zero."""
    mode = ins[ops.MODE]
    if op == ops.ADDMINMAX:
        a, b = (a + b) & _LOW, c
    if mode & ops.SIGNED:
        x, y = signed_value(a), signed_value(b)
        best = min(x, y) if smaller else max(x, y)
        if op == ops.MINMAX3:
            best = min(best, signed_value(c)) if smaller else max(best, signed_value(c))
        if mode & ops.RELU and best < 0:
            best = np.int64(0)
        return np.uint64(best) & _LOW
    big = min(a, b) if smaller else max(a, b)
    if op == ops.MINMAX3:
        big = min(big, c) if smaller else max(big, c)
    return big


@compiled
def _simple(op: int, ins: Any, a: Any, b: Any, c: Any, extra: bool) -> Any:
    """Operations with one 32-bit result and no carry; `extra` is the predicate source of this lane."""
    if op == ops.MOV:
        return a
    if op == ops.SEL:
        return a if extra else b
    if op == ops.SHF:
        return shifted(a, c, b, ins[ops.X])
    if op in (ops.MINMAX, ops.MINMAX3, ops.ADDMINMAX):
        return _chosen(op, ins, a, b, c, extra)
    if op == ops.IABS:
        return (_LOW - a + np.uint64(1)) & _LOW if a >> np.uint64(31) else a
    if op == ops.POPC:
        return np.uint64(popcount(np.uint32(a)))
    if op == ops.FLO:
        return found_bit(a, ins[ops.MODE] & ops.SIGNED, ins[ops.X])
    if op == ops.BREV:
        made = np.uint64(0)
        for k in range(32):
            made |= ((a >> np.uint64(k)) & np.uint64(1)) << np.uint64(31 - k)
        return made
    if op == ops.BMSK:
        start, width = min(a, np.uint64(32)), min(b, np.uint64(32))
        return (((np.uint64(1) << width) - np.uint64(1)) << start) & _LOW
    if op == ops.SGXT:
        width = b & np.uint64(31) if ins[ops.X] else min(b, np.uint64(32))
        if width == 0:
            return np.uint64(0)
        low = a & ((np.uint64(1) << width) - np.uint64(1))
        if ins[ops.MODE] & ops.SIGNED and low >> (width - np.uint64(1)):
            low |= (_LOW << width) & _LOW
        return low
    if op == ops.PRMT:
        return permuted(a, b, c)
    if op == ops.IDP4:
        return np.uint64(dot(a, b, ins[ops.X], ins[ops.Y], np.int64(0), np.int64(0)) + np.int64(c)) & _LOW
    if op == ops.IDP2:
        return np.uint64(dot(a, b, ins[ops.X], ins[ops.Y], np.int64(1), ins[ops.Z]) + np.int64(c)) & _LOW
    if op == ops.ABSDIFF:
        if ins[ops.MODE] & ops.SIGNED:
            return np.uint64(abs(signed_value(a) - signed_value(b)) + np.int64(c)) & _LOW
        return ((a - b if a > b else b - a) + c) & _LOW
    total = np.uint64(0)  # ABSDIFF4, bytes
    for k in range(4):
        x, y = (a >> np.uint64(8 * k)) & np.uint64(255), (b >> np.uint64(8 * k)) & np.uint64(255)
        d = x - y if x > y else y - x
        total = total + d if ins[ops.X] else total | (d << np.uint64(8 * k))
    return (total + c) & _LOW if ins[ops.X] else total


@handler(ops.INTEGER, ops.MOV)
def _move(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Copy a register."""
    ins, R = m.table[pc], m.registers[w]
    A, D, flip = R[ins[ops.A]], R[ins[ops.D]], np.uint32(ins[ops.A_XOR])
    plus = np.uint32(ins[ops.A_ADD])
    made = lanes()
    for l in range(32):
        made[l] = np.uint32((A[l] ^ flip) + plus)
    return keep(D, made, mask)


@handler(ops.INTEGER, ops.SEL)
def _select(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Take one of two sources, by a predicate."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, D, ax, bx = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.D]], np.uint32(ins[ops.A_XOR]), np.uint32(ins[ops.B_XOR])
    aa, ba, ap, bp = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.B_AND]), ins[ops.A_ADD], ins[ops.B_ADD]
    choice, made = predicate(P, ins[ops.PS], ins[ops.PS_NOT]), lanes()
    for l in range(32):
        x, y = np.uint32(((A[l] & aa) ^ ax) + ap), np.uint32(((B[l] & ba) ^ bx) + bp)
        made[l] = x if lane_bit(choice, l) else y
    return keep(D, made, mask)


@handler(ops.INTEGER, ops.IMAD)
def _multiply_add(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Multiply and add, 32 bits of it."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    ax, bx, cx = np.uint32(ins[ops.A_XOR]), np.uint32(ins[ops.B_XOR]), np.uint32(ins[ops.C_XOR])
    ap, bp, cp = np.uint32(ins[ops.A_ADD]), np.uint32(ins[ops.B_ADD]), np.uint32(ins[ops.C_ADD])
    carry, made = predicate(P, ins[ops.PS], ins[ops.PS_NOT]), lanes()
    for l in range(32):
        x, y = np.uint32((A[l] ^ ax) + ap), np.uint32((B[l] ^ bx) + bp)
        v = np.uint32(x * y) + np.uint32((C[l] ^ cx) + cp) + ((carry >> np.uint32(l)) & np.uint32(1))
        made[l] = np.uint32(v)
    return keep(D, made, mask)


@handler(ops.INTEGER, ops.SHF)
def _shift(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Shift a pair of registers."""
    ins, R = m.table[pc], m.registers[w]
    A, B, C, D, kind = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]], ins[ops.X]
    made = lanes()
    for l in range(32):
        made[l] = np.uint32(shifted(np.uint64(A[l]), np.uint64(C[l]), np.uint64(B[l]), kind))
    return keep(D, made, mask)


@handler(ops.INTEGER)
def _others(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run any other integer instruction, lane by lane."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op = ins[ops.OP]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    aa, ax, ap = np.uint64(ins[ops.A_AND]), np.uint64(ins[ops.A_XOR]), np.uint64(ins[ops.A_ADD])
    ba, bx, bp = np.uint64(ins[ops.B_AND]), np.uint64(ins[ops.B_XOR]), np.uint64(ins[ops.B_ADD])
    ca, cx, cp = np.uint64(ins[ops.C_AND]), np.uint64(ins[ops.C_XOR]), np.uint64(ins[ops.C_ADD])
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    for l in range(32):
        if lane_bit(mask, l):
            x, y, z = plain_value(A[l], aa, ax, ap), plain_value(B[l], ba, bx, bp), plain_value(C[l], ca, cx, cp)
            D[l] = np.uint32(_simple(op, ins, x, y, z, lane_bit(extra, l)))
    return FINE


@handler(ops.INTEGER, ops.LOP3)
def _logic(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Combine three sources by a truth table."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    ax, bx, cx = np.uint32(ins[ops.A_XOR]), np.uint32(ins[ops.B_XOR]), np.uint32(ins[ops.C_XOR])
    table, ones = ins[ops.X], np.uint32(0xFFFFFFFF)
    t0, t1, t2, t3 = _spread(table), _spread(table >> 1), _spread(table >> 2), _spread(table >> 3)
    t4, t5, t6, t7 = _spread(table >> 4), _spread(table >> 5), _spread(table >> 6), _spread(table >> 7)
    bits, made = np.uint32(0), lanes()
    for l in range(32):
        a, b, c = np.uint32(A[l] ^ ax), np.uint32(B[l] ^ bx), np.uint32(C[l] ^ cx)
        na, nb, nc = np.uint32(a ^ ones), np.uint32(b ^ ones), np.uint32(c ^ ones)
        low = na & ((nb & ((nc & t0) | (c & t1))) | (b & ((nc & t2) | (c & t3))))
        high = a & ((nb & ((nc & t4) | (c & t5))) | (b & ((nc & t6) | (c & t7))))
        made[l] = np.uint32(low | high)
    if ins[ops.PD] >= 0:
        for l in range(32):
            bits |= np.uint32(made[l] != 0) << np.uint32(l)
        extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
        set_predicate(P, ins[ops.PD], mask, joined(bits, ins[ops.Y], extra))
    return keep(D, made, mask)


@inlined
def _spread(bit: int) -> Any:
    return np.uint32(0xFFFFFFFF) if bit & 1 else np.uint32(0)


@handler(ops.INTEGER, ops.IADD3)
def _add(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Add three sources, with carries in and out."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    ax, ap = np.uint64(ins[ops.A_XOR]), np.uint64(ins[ops.A_ADD])
    bx, bp = np.uint64(ins[ops.B_XOR]), np.uint64(ins[ops.B_ADD])
    cx, cp = np.uint64(ins[ops.C_XOR]), np.uint64(ins[ops.C_ADD])
    made = lanes()
    if ins[ops.PD] < 0 and ins[ops.PD2] < 0 and not ins[ops.X]:
        fa, fb, fc, plus = np.uint32(ax), np.uint32(bx), np.uint32(cx), np.uint32(ap + bp + cp)
        for l in range(32):
            made[l] = np.uint32((A[l] ^ fa) + (B[l] ^ fb) + (C[l] ^ fc) + plus)
        return keep(D, made, mask)
    first = predicate(P, ins[ops.PS], ins[ops.PS_NOT]) if ins[ops.X] else np.uint32(0)
    second = predicate(P, ins[ops.PS2], ins[ops.PS2_NOT]) if ins[ops.X] else np.uint32(0)
    one, two = np.uint32(0), np.uint32(0)
    for l in range(32):
        v = (np.uint64(A[l]) ^ ax) + ap + (np.uint64(B[l]) ^ bx) + bp + (np.uint64(C[l]) ^ cx) + cp
        v += np.uint64(lane_bit(first, l)) + np.uint64(lane_bit(second, l))
        over = v >> np.uint64(32)
        one |= np.uint32(over >= np.uint64(1)) << np.uint32(l)
        two |= np.uint32(over >= np.uint64(2)) << np.uint32(l)
        made[l] = np.uint32(v)
    set_predicate(P, ins[ops.PD], mask, one)
    set_predicate(P, ins[ops.PD2], mask, two)
    return keep(D, made, mask)


@handler(ops.INTEGER, ops.ISETP)
def _compare_lanes(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Compare two sources."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B = R[ins[ops.A]], R[ins[ops.B]]
    code, signed = ins[ops.X], ins[ops.MODE] & ops.SIGNED
    flip = np.uint32(0x80000000) if signed else np.uint32(0)
    less, equal = np.uint32(0), np.uint32(0)
    ax, bx = np.uint32(ins[ops.A_XOR]), np.uint32(ins[ops.B_XOR])
    ap, bp = np.uint32(ins[ops.A_ADD]), np.uint32(ins[ops.B_ADD])
    for l in range(32):
        a = np.uint32((A[l] ^ ax) + ap) ^ flip
        b = np.uint32((B[l] ^ bx) + bp) ^ flip
        less |= np.uint32(a < b) << np.uint32(l)
        equal |= np.uint32(a == b) << np.uint32(l)
    more = np.uint32((less | equal) ^ np.uint32(0xFFFFFFFF))
    if ins[ops.MODE] & ops.EXTENDED:  # the upper words of 64-bit values: where equal, the lower words decide
        lower = predicate(P, ins[ops.PS2], ins[ops.PS2_NOT])
        if code == 2:
            bits = equal & lower
        elif code == 5:
            bits = np.uint32(equal ^ np.uint32(0xFFFFFFFF)) | lower
        else:
            bits = (less if code & 1 else more) | (equal & lower)
    else:
        bits = np.uint32(0)
        if code & 1:
            bits |= less
        if code & 2:
            bits |= equal
        if code & 4:
            bits |= more
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    set_predicate(P, ins[ops.PD], mask, joined(bits, ins[ops.Y], extra))
    set_predicate(P, ins[ops.PD2], mask, joined(np.uint32(bits ^ np.uint32(0xFFFFFFFF)), ins[ops.Y], extra))
    return FINE
