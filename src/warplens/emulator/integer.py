"""Integer, logic and move instructions, over the lanes of a warp: 32-bit and 64-bit values, bytes, bits, predicates.

`ins` is a row of the code table, R the registers of the warp and behind them its constants (rows of 32 lanes), P its
predicates (a bit per lane), `mask` the lanes that execute. Sources come as (value AND a) XOR b, plus c, which
covers negation and complement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import compiled, inlined, lanes, leading_zeros, popcount
from warplens.emulator.handlers import handler
from warplens.emulator.layout import FINE

_LOW = np.uint64(0xFFFFFFFF)


@inlined
def lane_bit(mask: Any, lane: int) -> bool:
    """Whether a lane's bit is set."""
    return (np.uint32(mask) >> np.uint32(lane)) & np.uint32(1) != 0


@inlined
def predicate(P: Any, index: int, negated: int) -> Any:
    """Return a predicate's bits, complemented if asked."""
    return np.uint32(P[index] ^ np.uint32(0xFFFFFFFF)) if negated else np.uint32(P[index])


@inlined
def set_predicate(P: Any, index: int, mask: Any, bits: Any) -> None:
    """Write the bits of the lanes in the mask; index 7 and 15 (always true) are left alone."""
    if index >= 0:
        P[index] = (P[index] & np.uint32(mask ^ np.uint32(0xFFFFFFFF))) | (np.uint32(bits) & np.uint32(mask))


@inlined
def keep(D: Any, made: Any, mask: Any) -> int:
    """Write what was made for the lanes in the mask to a row of registers."""
    if mask == np.uint32(0xFFFFFFFF):
        for l in range(32):
            D[l] = made[l]
    else:
        for l in range(32):
            D[l] = made[l] if lane_bit(mask, l) else D[l]
    return FINE


@inlined
def joined(a: Any, how: int, b: Any) -> Any:
    """Combine two sets of bits by AND, OR or XOR."""
    if how == ops.AND:
        return np.uint32(a & b)
    return np.uint32(a | b) if how == ops.OR else np.uint32(a ^ b)


@inlined
def plain_value(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a source: masked, flipped, and added to."""
    return (((np.uint64(x) & a) ^ b) + c) & _LOW


@inlined
def signed_value(x: Any) -> Any:
    """Return 32 bits as a signed number."""
    return np.int64(np.int32(np.uint32(x)))


@compiled
def table_logic(a: Any, b: Any, c: Any, table: int) -> Any:
    """Combine three words by a truth table of eight bits."""
    made = np.uint64(0)
    for k in range(8):
        if table >> k & 1:
            made |= (a if k & 4 else a ^ _LOW) & (b if k & 2 else b ^ _LOW) & (c if k & 1 else c ^ _LOW)
    return made & _LOW


@handler(ops.INTEGER, ops.MOV2, ops.UIADD64)
def _pair(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Copy a pair of registers, or add three of them."""
    ins, R = m.table[pc], m.registers[w]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    A2, B2, C2, D2 = R[ins[ops.A] + 1], R[ins[ops.B] + 1], R[ins[ops.C] + 1], R[ins[ops.D] + 1]
    low, high = lanes(), lanes()
    ax, bx, cx = ins[ops.A_XOR] != 0, ins[ops.B_XOR] != 0, ins[ops.C_XOR] != 0
    if ins[ops.OP] == ops.MOV2:
        for l in range(32):
            low[l], high[l] = A[l], A2[l]
    else:
        for l in range(32):
            a, b = (np.uint64(A2[l]) << np.uint64(32)) | A[l], (np.uint64(B2[l]) << np.uint64(32)) | B[l]
            c = (np.uint64(C2[l]) << np.uint64(32)) | C[l]
            v = (np.uint64(0) - a if ax else a) + (np.uint64(0) - b if bx else b) + (np.uint64(0) - c if cx else c)
            low[l], high[l] = np.uint32(v & _LOW), np.uint32(v >> np.uint64(32))
    keep(D, low, mask)
    return keep(D2, high, mask)


@handler(ops.INTEGER, ops.LEA, ops.LEA_HI)
def _shifted_sum(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """LEA: (a << s) + b, or the upper word of (c:a << s), plus b."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    aa, ax, ap = np.uint64(ins[ops.A_AND]), np.uint64(ins[ops.A_XOR]), np.uint64(ins[ops.A_ADD])
    ba, bx, bp = np.uint64(ins[ops.B_AND]), np.uint64(ins[ops.B_XOR]), np.uint64(ins[ops.B_ADD])
    ca, cx, cp = np.uint64(ins[ops.C_AND]), np.uint64(ins[ops.C_XOR]), np.uint64(ins[ops.C_ADD])
    carry, s, upper = predicate(P, ins[ops.PS], ins[ops.PS_NOT]), np.uint64(ins[ops.X]), ins[ops.OP] == ops.LEA_HI
    made, out, signed = lanes(), np.uint32(0), ins[ops.MODE] & ops.SIGNED != 0
    for l in range(32):
        x, y = plain_value(A[l], aa, ax, ap), plain_value(B[l], ba, bx, bp)
        one = np.uint64((carry >> np.uint32(l)) & np.uint32(1))
        if upper:
            sign = _LOW if x >> np.uint64(31) else np.uint64(0)
            high = sign if signed else plain_value(C[l], ca, cx, cp)
            v = ((((high << np.uint64(32)) | x) << s) >> np.uint64(32)) + y + one
        else:
            v = ((x << s) & _LOW) + y + one
        out |= np.uint32((v >> np.uint64(32)) & np.uint64(1)) << np.uint32(l)
        made[l] = np.uint32(v)
    set_predicate(P, ins[ops.PD], mask, out)
    return keep(D, made, mask)


@handler(ops.INTEGER, ops.IMAD_WIDE, ops.IMAD_HI)
def _wide_product(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Multiply to 64 bits and add a pair."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, C, C2, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.C] + 1], R[ins[ops.D]]
    ax, bx, negative = np.uint32(ins[ops.A_XOR]), np.uint32(ins[ops.B_XOR]), ins[ops.C_XOR] != 0
    ap, bp, signed = np.uint32(ins[ops.A_ADD]), np.uint32(ins[ops.B_ADD]), ins[ops.MODE] & ops.SIGNED != 0
    carry, out = predicate(P, ins[ops.PS], ins[ops.PS_NOT]), np.uint32(0)
    low, high = lanes(), lanes()
    for l in range(32):
        x, y = np.uint32((A[l] ^ ax) + ap), np.uint32((B[l] ^ bx) + bp)
        product = np.uint64(np.int64(np.int32(x)) * np.int64(np.int32(y))) if signed else np.uint64(x) * np.uint64(y)
        third = (np.uint64(C2[l]) << np.uint64(32)) | np.uint64(C[l])
        third = np.uint64(0) - third if negative else third
        v = product + third
        more = v + np.uint64((carry >> np.uint32(l)) & np.uint32(1))
        out |= np.uint32((v < product) | (more < v)) << np.uint32(l)
        low[l], high[l] = np.uint32(more & _LOW), np.uint32(more >> np.uint64(32))
    set_predicate(P, ins[ops.PD], mask, out)
    if ins[ops.OP] == ops.IMAD_HI:
        return keep(D, high, mask)
    keep(D, low, mask)
    return keep(R[ins[ops.D] + 1], high, mask)


@handler(ops.INTEGER, ops.PLOP3, ops.P2R, ops.R2P)
def _predicates(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Logic on predicates, and predicates as a register."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op = ins[ops.OP]
    D = R[ins[ops.D]]
    if op == ops.PLOP3:
        a = np.uint64(predicate(P, ins[ops.PS], ins[ops.PS_NOT]))
        b = np.uint64(predicate(P, ins[ops.PS2], ins[ops.PS2_NOT]))
        c = np.uint64(predicate(P, ins[ops.A], ins[ops.B]))
        first, second = np.uint32(table_logic(a, b, c, ins[ops.X])), np.uint32(table_logic(a, b, c, ins[ops.Y]))
        set_predicate(P, ins[ops.PD], mask, first)
        set_predicate(P, ins[ops.PD2], mask, second)
        return FINE
    A, first_one = R[ins[ops.A]], ins[ops.Z]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        if op == ops.P2R:
            value = np.uint32(A[l]) & np.uint32(ins[ops.X] ^ 0xFFFFFFFF)
            for k in range(7):
                if ins[ops.X] >> k & 1 and lane_bit(P[first_one + k], l):
                    value |= np.uint32(1 << k)
            D[l] = value
        else:
            for k in range(7):
                if ins[ops.X] >> k & 1:
                    bit = np.uint32(1) << np.uint32(l)
                    on = (np.uint32(A[l]) >> np.uint32(k + ins[ops.Y])) & np.uint32(1)
                    at = first_one + k
                    P[at] = (P[at] | bit) if on else (P[at] & np.uint32(bit ^ np.uint32(0xFFFFFFFF)))
    return FINE


@compiled
def dot(a: Any, b: Any, a_signed: int, b_signed: int, wide: int, high: int) -> Any:
    """Sum the products of four bytes, or of two halves with two bytes (of the low or high half of b)."""
    total = np.int64(0)
    count = 2 if wide else 4
    for k in range(count):
        bits_a = 16 if wide else 8
        x = np.int64((a >> np.uint64(bits_a * k)) & np.uint64((1 << bits_a) - 1))
        if a_signed and x >> np.int64(bits_a - 1):
            x -= np.int64(1) << np.int64(bits_a)
        y = np.int64((b >> np.uint64(8 * k + (16 if wide and high else 0))) & np.uint64(255))
        if b_signed and y >> np.int64(7):
            y -= np.int64(256)
        total += x * y
    return total


@compiled
def permuted(a: Any, selector: Any, c: Any) -> Any:
    """Pick four bytes of the pair c:a; the top bit of a selector spreads the byte's sign."""
    whole = (c << np.uint64(32)) | a
    made = np.uint64(0)
    for k in range(4):
        pick = (selector >> np.uint64(4 * k)) & np.uint64(15)
        byte = (whole >> (np.uint64(8) * (pick & np.uint64(7)))) & np.uint64(255)
        if pick & np.uint64(8):
            byte = np.uint64(255) if byte & np.uint64(128) else np.uint64(0)
        made |= byte << np.uint64(8 * k)
    return made


@compiled
def found_bit(x: Any, signed: int, shift: int) -> Any:
    """Return the place of the highest set bit (of the highest that differs from the sign), or -1."""
    value = np.uint32(x)
    if signed and np.int32(value) < 0:
        value = value ^ np.uint32(0xFFFFFFFF)
    if value == 0:
        return np.uint64(0xFFFFFFFF)
    zeros = np.uint64(leading_zeros(value))
    return zeros if shift else np.uint64(31) - zeros


@compiled
def shifted(low: Any, high: Any, amount: Any, kind: int) -> Any:
    """Shift the pair high:low. Bits of kind: 1 right, 2 high word, 4 wrap, 8 signed, 16 of 64 bits."""
    limit = np.uint64(64 if kind & 16 else 32)
    s = amount & (limit - np.uint64(1)) if kind & 4 else min(amount, limit)
    whole = (high << np.uint64(32)) | low
    if kind & 1:
        if kind & 8:
            value = np.uint64(np.int64(whole) >> np.int64(min(s, np.uint64(63))))
        else:
            value = whole >> s if s < np.uint64(64) else np.uint64(0)
        if kind & 2:
            return value >> np.uint64(32)
        return value & _LOW
    value = whole << s if s < np.uint64(64) else np.uint64(0)
    if kind & 2:
        return value >> np.uint64(32)
    return (low << s) & _LOW if s < np.uint64(64) else np.uint64(0)


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
