"""Instructions on 64-bit values in pairs of registers, two 16-bit values in one, pairs of floats, small floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import bits_of, compiled, float_of, fma32
from warplens.emulator.floating import flushed, read_double
from warplens.emulator.half import from_half, to_half
from warplens.emulator.handlers import handler
from warplens.emulator.integer import joined, lane_bit, predicate, set_predicate
from warplens.emulator.layout import FINE
from warplens.emulator.tensor import small_float

_LOW = np.uint64(0xFFFFFFFF)


@compiled
def _pair(R: Any, row: int, l: int) -> Any:
    return np.uint64(R[row][l]) | (np.uint64(R[row + 1][l]) << np.uint64(32))


@handler(ops.PACKED, ops.SEL2, ops.ISETP2, ops.MINMAX2)
def _wide(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Select, compare, minimum or maximum of 64-bit whole numbers."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op, bits = ins[ops.OP], np.uint32(0)
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    for l in range(32):
        a, b = _pair(R, ins[ops.A], l), _pair(R, ins[ops.B], l)
        less = np.int64(a) < np.int64(b) if ins[ops.MODE] & ops.SIGNED else a < b
        if op == ops.ISETP2:
            bits |= np.uint32(ins[ops.X] & (1 if less else 2 if a == b else 4) != 0) << np.uint32(l)
            continue
        first = lane_bit(extra, l) if op == ops.SEL2 else less == lane_bit(extra, l)
        made = a if first else b
        if lane_bit(mask, l):
            R[ins[ops.D], l], R[ins[ops.D] + 1, l] = np.uint32(made & _LOW), np.uint32(made >> np.uint64(32))
    if op == ops.ISETP2:
        set_predicate(P, ins[ops.PD], mask, joined(bits, ins[ops.Y], extra))
        set_predicate(P, ins[ops.PD2], mask, joined(np.uint32(bits ^ np.uint32(0xFFFFFFFF)), ins[ops.Y], extra))
    return FINE


@compiled
def _short(word: Any, which: int, signed: int) -> Any:
    value = np.int64((word >> np.uint32(16 * which)) & np.uint32(0xFFFF))
    return value - 65536 if signed and value >> 15 else value


@handler(ops.PACKED, ops.ADD16, ops.MINMAX16, ops.MINMAX3_16, ops.ADDMINMAX16)
def _shorts(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Add, or take the minimum or maximum of, two 16-bit values in each register."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op, signed = ins[ops.OP], ins[ops.MODE] & ops.SIGNED
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        made = np.uint32(0)
        for k in range(2):
            a, b, c = _short(R[ins[ops.A]][l], k, signed), _short(R[ins[ops.B]][l], k, signed), np.int64(0)
            c = _short(R[ins[ops.C]][l], k, signed)
            if op == ops.ADD16:
                value = (-a if ins[ops.A_XOR] else a) + (-b if ins[ops.B_XOR] else b)
            else:
                if op == ops.ADDMINMAX16:
                    a, b = _short(np.uint32((a + b) & 0xFFFF), 0, signed), c
                value = min(a, b) if lane_bit(extra, l) else max(a, b)
                if op == ops.MINMAX3_16:
                    value = min(value, c) if lane_bit(extra, l) else max(value, c)
                if ins[ops.MODE] & ops.RELU:
                    value = max(value, np.int64(0))
            made |= np.uint32(value & 0xFFFF) << np.uint32(16 * k)
        R[ins[ops.D], l] = made
    return FINE


@compiled
def _float(ins: Any, R: Any, row: int, which: int, l: int, flip: Any, keep: Any) -> Any:
    """Return half `which` of a pair of floats, or the one that stands for both (bit in X)."""
    word = np.uint32((R[row + which][l] & np.uint32(keep)) ^ np.uint32(flip))
    return float_of(flushed(word) if ins[ops.MODE] & ops.FTZ else word)


@handler(ops.PACKED, ops.FADD2, ops.FMUL2, ops.FFMA2)
def _floats(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """FADD2, FMUL2, FFMA2: two floats in a pair of registers. X: a bit for each source that is a single float."""
    ins, R = m.table[pc], m.registers[w]
    op, single = ins[ops.OP], ins[ops.X]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        low, high = np.uint32(0), np.uint32(0)
        for k in range(2):
            a = _float(ins, R, ins[ops.A], 0 if single & 1 else k, l, ins[ops.A_XOR], ins[ops.A_AND])
            b = _float(ins, R, ins[ops.B], 0 if single & 2 else k, l, ins[ops.B_XOR], ins[ops.B_AND])
            c = _float(ins, R, ins[ops.C], 0 if single & 4 else k, l, ins[ops.C_XOR], ins[ops.C_AND])
            value = np.float32(a + b) if op == ops.FADD2 else np.float32(a * b) if op == ops.FMUL2 else fma32(a, b, c)
            bits = bits_of(value) if value == value else np.uint32(0x7FFFFFFF)
            bits = flushed(bits) if ins[ops.MODE] & ops.FTZ else bits
            low, high = (bits, high) if k == 0 else (low, bits)
        R[ins[ops.D], l], R[ins[ops.D] + 1, l] = low, high
    return FINE


@handler(ops.PACKED, ops.FMNMX3)
def _extreme(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """FMNMX3: minimum or maximum of three floats; NaN only where all are, unless the instruction says NAN."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        best, known, spoiled = np.float32(0.0), False, False
        for k in range(3):
            row = ins[ops.A] if k == 0 else ins[ops.B] if k == 1 else ins[ops.C]
            flip = ins[ops.A_XOR] if k == 0 else ins[ops.B_XOR] if k == 1 else ins[ops.C_XOR]
            keep = ins[ops.A_AND] if k == 0 else ins[ops.B_AND] if k == 1 else ins[ops.C_AND]
            value = _float(ins, R, row, 0, l, flip, keep)
            if value != value:
                spoiled = True
            elif not known:
                best, known = value, True
            else:
                best = min(best, value) if lane_bit(extra, l) else max(best, value)
        nothing = not known or (spoiled and ins[ops.MODE] & ops.NAN_WINS)
        R[ins[ops.D], l] = np.uint32(0x7FFFFFFF) if nothing else bits_of(np.float32(best))
    return FINE


@compiled
def _to_small(value: Any, exponent_bits: int, fraction_bits: int) -> Any:
    """Round to a float of 8 bits, to the largest finite one where it is too large (e4m3, e5m2)."""
    if value != value:
        return np.uint32(0x7F)
    sign = np.uint32(0x80) if math.copysign(1.0, value) < 0 else np.uint32(0)
    size, bias = abs(value), (1 << (exponent_bits - 1)) - 1
    largest = np.uint32(0x7E if fraction_bits == 3 else 0x7B)
    if size == 0.0:
        return sign
    if size >= np.float64(small_float(largest, exponent_bits, fraction_bits)):
        return sign | largest
    exponent = max(np.int64(math.floor(math.log2(size))), np.int64(1 - bias))
    unit = 2.0 ** np.float64(exponent - fraction_bits)
    whole = np.int64(np.rint(size / unit))
    biased = exponent + bias if whole >> fraction_bits else np.int64(0)
    made = (max(biased, np.int64(1)) - 1 << fraction_bits) + whole if biased else whole  # the fraction may carry over
    return sign | np.uint32(min(made, np.int64(largest)))


@handler(ops.PACKED, ops.UNPACK_F8, ops.PACK_F8, ops.PACK_F8_HALF)
def _small_floats(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Conversions between pairs of fp8 (X: bits of the exponent) and fp16 pairs or two floats."""
    ins, R = m.table[pc], m.registers[w]
    op, exponent_bits = ins[ops.OP], ins[ops.X]
    fraction_bits = 7 - exponent_bits
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        a, b = R[ins[ops.A]][l], R[ins[ops.B]][l]
        if op == ops.UNPACK_F8:
            made = np.uint32(0)
            for k in range(2):
                part = np.uint32(a >> np.uint32(8 * k + 16 * ins[ops.Z])) & np.uint32(0xFF)
                value = np.float64(small_float(part, exponent_bits, fraction_bits))
                if ins[ops.MODE] & ops.RELU and not value > 0.0:
                    value = 0.0
                made |= to_half(value, 0, ops.NEAREST) << np.uint32(16 * k)
            R[ins[ops.D], l] = made
            continue
        if op == ops.PACK_F8:
            high, low = np.float64(float_of(a)), np.float64(float_of(b))
        else:
            high, low = from_half(a >> np.uint32(16), 0), from_half(a, 0)
        if ins[ops.MODE] & ops.RELU:
            high, low = (high if high > 0.0 else 0.0), (low if low > 0.0 else 0.0)
        made = _to_small(low, exponent_bits, fraction_bits)
        made |= _to_small(high, exponent_bits, fraction_bits) << np.uint32(8)
        R[ins[ops.D], l] = made | np.uint32(R[ins[ops.C]][l] << np.uint32(16))
    return FINE


@handler(ops.PACKED, ops.PACK_INTEGERS, ops.SIGN_LOGIC, ops.PRMT_MODE)
def _words(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """PACK_INTEGERS: two saturated numbers (X bits), C above them. PRMT_MODE: bytes in an order. Logic of sign bits."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op, truth = ins[ops.OP], np.uint32(0)
    for l in range(32):
        a, b, c = R[ins[ops.A]][l], R[ins[ops.B]][l], R[ins[ops.C]][l]
        if op == ops.SIGN_LOGIC:
            which = (a >> np.uint32(31) << np.uint32(2)) | (b >> np.uint32(31) << np.uint32(1)) | (c >> np.uint32(31))
            truth |= (np.uint32(ins[ops.X] >> np.int64(which)) & np.uint32(1)) << np.uint32(l)
            continue
        if not lane_bit(mask, l):
            continue
        if op == ops.PACK_INTEGERS:
            bits = ins[ops.X]
            low = -(np.int64(1) << (bits - 1)) if ins[ops.MODE] & ops.SIGNED else np.int64(0)
            high = low + (np.int64(1) << bits) - 1
            first = min(max(np.int64(np.int32(a)), low), high) & ((1 << bits) - 1)
            second = min(max(np.int64(np.int32(b)), low), high) & ((1 << bits) - 1)
            made = (first << bits) | second | (np.int64(c) << (2 * bits))
            R[ins[ops.D], l] = np.uint32(made & 0xFFFFFFFF)
            continue
        whole, by = np.uint64(a) | (np.uint64(c) << np.uint64(32)), np.int64(b) & 3
        word = np.uint32(0)
        for k in range(4):
            how = ins[ops.X]  # F4E, B4E, RC8, ECL, ECR, RC16
            at = by + k if how == 0 else (by - k) & 7 if how == 1 else by
            at = max(np.int64(k), by) if how == 3 else min(np.int64(k), by) if how == 4 else at
            at = 2 * (by & 1) + (k & 1) if how == 5 else at
            word |= np.uint32((whole >> np.uint64(8 * at)) & np.uint64(0xFF)) << np.uint32(8 * k)
        R[ins[ops.D], l] = word
    if op == ops.SIGN_LOGIC:
        set_predicate(P, ins[ops.PD], mask, truth)
    return FINE


@handler(ops.PACKED, ops.DSETP_EXTREME)
def _double_extreme(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """DSETP.MIN and .MAX: whether the first is it (or the second is NaN), and whether both are NaN."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    first, neither = np.uint32(0), np.uint32(0)
    for l in range(32):
        a = read_double(R, ins[ops.A], l, np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR]))
        b = read_double(R, ins[ops.B], l, np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR]))
        negative = math.copysign(1.0, a) < 0.0
        chosen = a < b or (a == b and negative) if ins[ops.X] else a > b or (a == b and not negative)
        first |= np.uint32(chosen or b != b) << np.uint32(l)
        neither |= np.uint32(a != a and b != b) << np.uint32(l)
    set_predicate(P, ins[ops.PD], mask, first)
    set_predicate(P, ins[ops.PD2], mask, neither)
    return FINE
