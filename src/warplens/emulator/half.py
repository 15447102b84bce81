"""Half-precision pairs (fp16 and bf16) and conversions between number types, over the lanes of a warp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import bits_of, bits_of_double, compiled, double_of, float_of, fma64, lanes
from warplens.emulator.floating import flushed, holds, read_double, rounded, write_double
from warplens.emulator.handlers import handler
from warplens.emulator.integer import joined, keep, lane_bit, predicate, set_predicate
from warplens.emulator.layout import FINE

_LOW = np.uint64(0xFFFFFFFF)


@compiled
def _two_to(exponent: Any) -> Any:
    """Return a power of two that is a normal double."""
    return double_of(np.uint64(exponent + 1023) << np.uint64(52))


@compiled
def from_half(bits: Any, bf16: int) -> Any:
    """Return the value of 16 bits as fp16 or bf16, as a double."""
    h = np.uint32(bits & np.uint32(0xFFFF))
    if bf16:
        return np.float64(float_of(np.uint32(h << np.uint32(16))))
    sign = -1.0 if h >> np.uint32(15) else 1.0
    exponent, fraction = np.int64((h >> np.uint32(10)) & np.uint32(31)), np.float64(h & np.uint32(1023))
    if exponent == 31:
        return sign * math.inf if fraction == 0.0 else math.nan
    if exponent == 0:
        return sign * fraction * 2.0**-24
    return sign * (1.0 + fraction / 1024.0) * _two_to(exponent - 15)


@compiled
def to_half(value: Any, bf16: int, mode: int) -> Any:
    """Round a double to 16 bits as fp16 or bf16."""
    if value != value:
        return np.uint32(0x7FFF)
    digits, lowest, largest = (8, -133, 3.3895313892515355e38) if bf16 else (11, -24, 65504.0)
    sign = np.uint32(0x8000) if bits_of_double(value) >> np.uint64(63) else np.uint32(0)
    size = abs(value)
    if math.isinf(size):
        return np.uint32(sign | np.uint32(0x7F80 if bf16 else 0x7C00))
    if size == 0.0:
        return sign
    exponent = np.int64((bits_of_double(size) >> np.uint64(52)) & np.uint64(2047)) - 1023
    unit = _two_to(max(exponent - (digits - 1), np.int64(lowest)))
    scaled = size / unit
    whole = np.floor(scaled)
    rest = scaled - whole
    negative = sign != 0
    if mode == ops.NEAREST:
        if rest > 0.5 or (rest == 0.5 and np.int64(whole) & 1):
            whole += 1.0
    elif rest > 0.0 and ((mode == ops.UP and not negative) or (mode == ops.DOWN and negative)):
        whole += 1.0
    made = whole * unit
    if made > largest:
        toward = mode == ops.ZERO or (mode == ops.DOWN and not negative) or (mode == ops.UP and negative)
        if toward:
            return np.uint32(sign | np.uint32(0x7F7F if bf16 else 0x7BFF))
        return np.uint32(sign | np.uint32(0x7F80 if bf16 else 0x7C00))
    if bf16:
        return np.uint32(sign | (bits_of(np.float32(made)) >> np.uint32(16)))
    if made < 2.0**-14:
        return np.uint32(sign | np.uint32(made * 2.0**24))
    exponent = np.int64((bits_of_double(made) >> np.uint64(52)) & np.uint64(2047)) - 1023
    return np.uint32(sign | np.uint32((exponent + 15) << 10) | np.uint32((made / _two_to(exponent) - 1.0) * 1024.0))


@compiled
def _part(word: Any, code: int, which: int) -> Any:
    """Return half `which` of an operand: code 0 both as they are, 1 the low one twice, 2 the high one twice."""
    high = which if code == 0 else code - 1
    return np.uint32((word >> np.uint32(16)) & np.uint32(0xFFFF)) if high else np.uint32(word & np.uint32(0xFFFF))


@handler(ops.HALF)
def half(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run one instruction on pairs of halves. X has the swizzle of A, B, C in two bits each."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op, mode = ins[ops.OP], ins[ops.MODE]
    bf16 = mode & ops.BF16
    A, B, C = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]]
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    swizzle = ins[ops.X]
    one, two = np.uint32(0), np.uint32(0)
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        made = np.uint32(0)
        for k in range(2):
            a = from_half((_part(A[l], swizzle & 3, k) & np.uint32(ins[ops.A_AND])) ^ np.uint32(ins[ops.A_XOR]), bf16)
            b = from_half(
                (_part(B[l], swizzle >> 2 & 3, k) & np.uint32(ins[ops.B_AND])) ^ np.uint32(ins[ops.B_XOR]), bf16
            )
            c = from_half(
                (_part(C[l], swizzle >> 4 & 3, k) & np.uint32(ins[ops.C_AND])) ^ np.uint32(ins[ops.C_XOR]), bf16
            )
            if op == ops.HADD2_F32:
                if k == 0:
                    made = bits_of(np.float32(a + b))
                continue
            if op in (ops.HSETP2, ops.HSET2):
                on = np.uint32(holds(ins[ops.Z], a, b)) << np.uint32(l)
                if k == 0:
                    one |= on
                else:
                    two |= on
                continue
            if op == ops.HADD2:
                value = a + b
            elif op == ops.HMUL2:
                value = a * b
            elif op == ops.HFMA2:
                value = fma64(a, b, c)
            else:
                value = (b if a != a else a) if a != a or b != b else min(a, b) if lane_bit(extra, l) else max(a, b)
            if mode & ops.RELU and not value > 0.0:
                value = 0.0
            if mode & ops.SATURATE:
                value = min(max(value, 0.0), 1.0) if value == value else 0.0
            made |= to_half(value, bf16, ops.NEAREST) << np.uint32(16 * k)
        if op == ops.HSET2:
            low, high = np.uint32(0), np.uint32(0)
            on = np.uint32(0xFFFF) if not ins[ops.Y] >> 4 else np.uint32(0x3F80 if bf16 else 0x3C00)
            how = ins[ops.Y] & 15
            low = on if lane_bit(joined(one, how, extra), l) else low
            high = on if lane_bit(joined(two, how, extra), l) else high
            R[ins[ops.D], l] = low | (high << np.uint32(16))
        elif op != ops.HSETP2:
            R[ins[ops.D], l] = made
    if op == ops.HSETP2:
        set_predicate(P, ins[ops.PD], mask, joined(one, ins[ops.Y], extra))
        set_predicate(P, ins[ops.PD2], mask, joined(two, ins[ops.Y], extra))
    return FINE


@compiled
def _whole(value: Any, mode: int) -> Any:
    """Round a double to a whole number in a rounding mode."""
    if mode == ops.ZERO:
        return np.trunc(value)
    if mode == ops.DOWN:
        return np.floor(value)
    return np.ceil(value) if mode == ops.UP else np.rint(value)


@compiled
def _to_integer(value: Any, bits: int, signed: int, mode: int) -> Any:
    """Convert to a whole number with saturation; NaN is zero (the lowest value for 64 bits and signed)."""
    if value != value:
        return np.uint64(0) if bits <= 32 else np.uint64(0x8000000000000000)
    low = -_two_to(bits - 1) if signed else 0.0
    high = _two_to(bits - 1 if signed else bits)
    if value <= low:
        return np.uint64(np.int64(low))
    if value >= high:
        return (
            (np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1)
            if signed
            else (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - bits))
        )
    near = _whole(value, mode)
    if near >= high:
        return (
            (np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1)
            if signed
            else (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - bits))
        )
    return np.uint64(np.int64(near)) if near < 2.0**63 else np.uint64(near)


@compiled
def _source(ins: Any, R: Any, l: int) -> Any:
    """Return the floating-point source of a conversion as a double; Y has its bits, MODE says bf16."""
    bits = ins[ops.Y]
    if bits == 64:
        return read_double(R, ins[ops.A], l, np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR]))
    word = R[ins[ops.A]][l]
    if bits == 32:
        word = np.uint32((word & np.uint32(ins[ops.A_AND])) ^ np.uint32(ins[ops.A_XOR]))
        return np.float64(float_of(flushed(word) if ins[ops.MODE] & ops.FTZ else word))
    picked = _part(word, ins[ops.Z] + 1, 0)
    return from_half((picked & np.uint32(ins[ops.A_AND])) ^ np.uint32(ins[ops.A_XOR]), ins[ops.MODE] & ops.BF16)


@compiled
def _keep(ins: Any, R: Any, l: int, value: Any) -> None:
    """Store a double as the destination type, X bits wide."""
    mode = ins[ops.MODE]
    if ins[ops.X] == 64:
        write_double(R, ins[ops.D], l, value)
    elif ins[ops.X] == 32:
        if mode & ops.SATURATE:
            value = min(max(value, 0.0), 1.0) if value == value else 0.0
        bits = rounded(value, 0.0, mode & 3)
        R[ins[ops.D], l] = bits if value == value else np.uint32(0x7FFFFFFF)
    else:
        R[ins[ops.D], l] = to_half(value, mode & ops.BF16, mode & 3)


@compiled
def _integer_source(ins: Any, R: Any, l: int) -> Any:
    """Return the whole-number source of a conversion as (magnitude, negative)."""
    bits, word = ins[ops.Y], np.uint64(R[ins[ops.A]][l])
    if bits == 64:
        word |= np.uint64(R[ins[ops.A] + 1][l]) << np.uint64(32)
    else:
        word = (word >> np.uint64(8 * ins[ops.Z])) & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    if ins[ops.MODE] & ops.SIGNED and (word >> np.uint64(bits - 1)) & np.uint64(1):
        full = np.uint64(0) if bits == 64 else np.uint64(1) << np.uint64(bits)
        return full - word, True
    return word, False


@compiled
def _whole_to_single(A: Any, D: Any, signed: int, mask: Any) -> int:
    """Convert words to floats, the most frequent conversion: a double holds each, and is rounded once."""
    made = lanes()
    for l in range(32):
        value = np.float64(np.int32(A[l])) if signed else np.float64(A[l])
        made[l] = bits_of(np.float32(value))
    return keep(D, made, mask)


@handler(ops.CONVERT)
def convert(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run one conversion for the lanes in the mask. X: bits of the result, Y: bits of the source, Z: which part."""
    ins, R = m.table[pc], m.registers[w]
    op, mode = ins[ops.OP], ins[ops.MODE]
    if op == ops.I2F and ins[ops.X] == 32 and ins[ops.Y] == 32 and ins[ops.Z] == 0 and mode & 3 == ops.NEAREST:
        return _whole_to_single(R[ins[ops.A]], R[ins[ops.D]], mode & ops.SIGNED, mask)
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        if op == ops.F2I:
            made = _to_integer(_source(ins, R, l), ins[ops.X], mode & ops.SIGNED, mode & 3)
            R[ins[ops.D], l] = np.uint32(made & _LOW)
            if ins[ops.X] == 64:
                R[ins[ops.D] + 1, l] = np.uint32(made >> np.uint64(32))
        elif op == ops.I2F:
            size, negative = _integer_source(ins, R, l)
            top = size & np.uint64(0xFFFFFFFFFFFFF800)
            value, rest = np.float64(top), np.float64(size - top)  # both exact
            total = value + rest
            lost = rest - (total - value)
            if negative:
                total, lost = -total, -lost
            if ins[ops.X] == 32:
                R[ins[ops.D], l] = rounded(total, lost, mode & 3)
            else:
                _keep(ins, R, l, total)
        elif op == ops.F2F:
            _keep(ins, R, l, _source(ins, R, l))
        elif op == ops.FRND:
            value = _source(ins, R, l)
            if math.isfinite(value):
                value = math.copysign(_whole(value, mode & 3), value)
            _keep(ins, R, l, value)
        elif op == ops.F2FP:
            a = np.uint32((R[ins[ops.A]][l] & np.uint32(ins[ops.A_AND])) ^ np.uint32(ins[ops.A_XOR]))
            b = np.uint32((R[ins[ops.B]][l] & np.uint32(ins[ops.B_AND])) ^ np.uint32(ins[ops.B_XOR]))
            high, low = np.float64(float_of(a)), np.float64(float_of(b))
            if mode & ops.RELU:
                high, low = (high if high > 0.0 else 0.0), (low if low > 0.0 else 0.0)
            bf16 = mode & ops.BF16
            R[ins[ops.D], l] = to_half(low, bf16, mode & 3) | (to_half(high, bf16, mode & 3) << np.uint32(16))
        elif op == ops.I2I:
            value = np.int64(np.int32(R[ins[ops.A]][l]))
            low_limit = -(1 << (ins[ops.X] - 1)) if mode & ops.SIGNED else 0
            high_limit = (1 << (ins[ops.X] - 1)) - 1 if mode & ops.SIGNED else (1 << ins[ops.X]) - 1
            R[ins[ops.D], l] = np.uint32(np.uint64(min(max(value, low_limit), high_limit)) & _LOW)
    return FINE
