"""Tensor-core instructions: D = A B + C over the fragments that the 32 lanes of a warp hold.

A register of A or B has `per` elements. Lane 4g+t holds of A, in register i, row g + 8 (i mod 2) and the columns from
per t + 4 per (i div 2); of B, in register i, column g and the rows from per t + 4 per i; of C and D row g (and g + 8),
columns 2t and 2t+1: the layouts of the PTX ISA's mma instructions, which all types share.

Floats are summed as an H200 does, bit for bit (docs/explain/emulator.md): all products of an instruction and C
are aligned to the largest exponent among them, each is cut off 25 bits below it, the sum of what is left is exact, and
is cut off to fp32 or rounded to fp16 once. The exponent of a product is the sum of those of its factors. Integers and
bits are exact; fp64 and 8-bit floats (no instruction of an H200 but those of warp groups has them) add in double
precision, from the first k to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import (
    bits_of,
    bits_of_double,
    compiled,
    double_of,
    float_of,
    lanes,
    popcount,
    real_lanes,
    real_matrix,
    wide_lanes,
    wide_matrix,
)
from warplens.emulator.floating import rounded
from warplens.emulator.half import to_half
from warplens.emulator.handlers import handler
from warplens.emulator.integer import keep, lane_bit
from warplens.emulator.layout import FINE

_COLUMNS = 8
_KEPT = 25  # bits behind the point of the largest
_LOWEST = -10_000  # an exponent below all sums of two others


@compiled
def small_float(bits: Any, exponent_bits: int, fraction_bits: int) -> Any:
    """Return the value of a float of at most 16 bits; without infinities where the fraction has three bits (e4m3)."""
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = np.int64(bits >> np.uint32(fraction_bits)) & ((1 << exponent_bits) - 1)
    fraction = np.int64(bits) & ((1 << fraction_bits) - 1)
    sign = np.uint32(bits >> np.uint32(exponent_bits + fraction_bits)) & np.uint32(1)
    largest = (1 << exponent_bits) - 1
    if exponent == 0:
        value = np.float32(fraction) * float_of(np.uint32(128 - bias - fraction_bits) << np.uint32(23))
        return -value if sign else value
    made = np.uint32(sign << np.uint32(31)) | np.uint32(fraction << (23 - fraction_bits))
    if fraction_bits == 3:
        if exponent == largest and fraction == 7:
            return np.float32(np.nan)
    elif exponent == largest:
        return float_of(np.uint32(made | np.uint32(0x7F800000)))
    return float_of(np.uint32(made | np.uint32((exponent + 127 - bias) << 23)))


@compiled
def _element(word: Any, kind: int, k: int) -> Any:
    """Return element k of a register as a double, which holds all types but fp64 and bits exactly."""
    if kind == ops.M_F16:
        return np.float64(small_float(np.uint32(word >> np.uint32(16 * k)) & np.uint32(0xFFFF), 5, 10))
    if kind == ops.M_BF16:
        return np.float64(float_of(np.uint32((word >> np.uint32(16 * k)) << np.uint32(16))))
    if kind == ops.M_TF32:
        return np.float64(float_of(np.uint32(word & np.uint32(0xFFFFE000))))
    bits = 4 if kind in (ops.M_S4, ops.M_U4) else 8
    part = np.uint32(word >> np.uint32(bits * k)) & np.uint32((1 << bits) - 1)
    if kind == ops.M_E4M3:
        return np.float64(small_float(part, 4, 3))
    if kind == ops.M_E5M2:
        return np.float64(small_float(part, 5, 2))
    value = np.int64(part)
    if kind in (ops.M_S8, ops.M_S4) and value >> (bits - 1):
        value -= 1 << bits
    return np.float64(value)


@compiled
def _gather(R: Any, first: int, kind: int, per: int, rows: int, deep: int, out: Any) -> None:
    """Unpack a fragment to out[k, row]: A with 8 or 16 rows, B as its transpose with 8."""
    tall = rows // 8
    for i in range(tall * (deep // (4 * per))):
        for l in range(32):
            row, k = (l >> 2) + 8 * (i % tall), per * (l & 3) + 4 * per * (i // tall)
            for j in range(per):
                if kind == ops.M_F64:
                    low, high = np.uint64(R[first + 2 * i][l]), np.uint64(R[first + 2 * i + 1][l])
                    out[k, row] = double_of(low | (high << np.uint64(32)))
                else:
                    out[k + j, row] = _element(R[first + i][l], kind, j)


@compiled
def _bit_products(ins: Any, R: Any, rows: int, words: int, out: Any) -> None:
    """Count the bits that two rows of single bits have in common (AND) or in which they differ (XOR)."""
    tall = rows // 8
    for r in range(rows):
        for c in range(8):
            total = np.int64(0)
            for k in range(words):
                a = R[ins[ops.A] + r // 8 + tall * (k // 4)][4 * (r & 7) + (k & 3)]
                b = R[ins[ops.B] + k // 4][4 * c + (k & 3)]
                total += np.int64(popcount(np.uint32(a & b if ins[ops.PS2_NOT] else a ^ b)))
            out[r, c] += np.float64(total)


@compiled
def _exponent(value: Any, least: int) -> Any:
    """Return the exponent of a finite float that is kept as a double; of denormal ones the least, of zero very low."""
    if value == 0.0:
        return _LOWEST
    return max(np.int64((bits_of_double(value) >> np.uint64(52)) & np.uint64(2047)) - 1023, least)


@compiled
def _power(exponent: Any) -> Any:
    return double_of(np.uint64(np.int64(exponent) + 1023) << np.uint64(52))


@compiled
def _aligned_sums(a: Any, b: Any, kind: int, total: int, rows: int, deep: int, sums: Any) -> None:
    """Add the products of each row and column to sums, which have C: aligned to the largest, 25 bits of each."""
    least, least_of_sums = -14 if kind == ops.M_F16 else -126, -14 if total == ops.M_F16 else -126
    exponents = wide_matrix()
    for k in range(deep):
        for c in range(_COLUMNS):
            exponents[k, c] = _exponent(b[k, c], least)
    largest, scales, totals = wide_lanes(), real_lanes(), real_lanes()
    for r in range(rows):
        for c in range(_COLUMNS):
            largest[c] = _exponent(sums[r, c], least_of_sums)
        for k in range(deep):
            own = _exponent(a[k, r], least)
            for c in range(_COLUMNS):
                largest[c] = max(largest[c], own + exponents[k, c])
        for c in range(_COLUMNS):
            scales[c] = _power(_KEPT - max(largest[c], -600))
            totals[c] = np.trunc(sums[r, c] * scales[c])
        for k in range(deep):
            x = a[k, r]
            for c in range(_COLUMNS):
                totals[c] += np.trunc(x * b[k, c] * scales[c])
        for c in range(_COLUMNS):
            sums[r, c] = totals[c] / scales[c]


@compiled
def _plain_sums(a: Any, b: Any, rows: int, deep: int, sums: Any) -> None:
    """Add the products of each row and column to each other, then to sums, in double precision."""
    totals = real_lanes()
    for r in range(rows):
        totals[:_COLUMNS] = 0.0
        for k in range(deep):
            x = a[k, r]
            for c in range(_COLUMNS):
                totals[c] += x * b[k, c]
        for c in range(_COLUMNS):
            sums[r, c] += totals[c]


@compiled
def _is_finite(values: Any, rows: int, columns: int) -> bool:
    for r in range(rows):
        for c in range(columns):
            if not abs(values[r, c]) < np.inf:
                return False
    return True


@compiled
def add_products(a: Any, b: Any, kind: int, total: int, rows: int, deep: int, sums: Any) -> None:
    """Add to sums, which have C, the products of A, as a[k, row], and B, as b[k, column]."""
    if kind not in (ops.M_F16, ops.M_BF16, ops.M_TF32):
        _plain_sums(a, b, rows, deep, sums)
        return
    finite = _is_finite(a, deep, rows) and _is_finite(b, deep, _COLUMNS) and _is_finite(sums, rows, _COLUMNS)
    plain = real_matrix()
    for r in range(rows):
        for c in range(_COLUMNS):
            plain[r, c] = sums[r, c]
    if not finite:
        _plain_sums(a, b, rows, deep, plain)
    _aligned_sums(a, b, kind, total, rows, deep, sums)
    for r in range(rows):
        for c in range(_COLUMNS):
            if not abs(plain[r, c]) < np.inf:  # what involves an infinity or NaN is that, or NaN
                sums[r, c] = plain[r, c]


@compiled
def _accumulated(R: Any, at: int, l: int, n: int, kind: int) -> Any:
    """Return element n (of four, or two) of a lane's fragment of C."""
    if kind == ops.M_F16:
        word = np.uint32(R[at + n // 2][l] >> np.uint32(16 * (n & 1))) & np.uint32(0xFFFF)
        return np.float64(small_float(word, 5, 10))
    if kind == ops.M_F64:
        return double_of(np.uint64(R[at + 2 * n][l]) | (np.uint64(R[at + 2 * n + 1][l]) << np.uint64(32)))
    word = R[at + n][l]
    return np.float64(np.int32(word)) if kind == ops.M_S32 else np.float64(float_of(word))


@compiled
def result_bits(value: Any, kind: int) -> Any:
    """Return the bits of a sum as fp16 or fp32. Zero is never negative, and what is too large for fp32 is infinite."""
    if kind == ops.M_F16:
        made = to_half(value, 0, ops.NEAREST)
        return np.uint32(0) if made == np.uint32(0x8000) else made
    if value != value:
        return np.uint32(0x7FFFFFFF)
    made = bits_of(np.float32(value)) if abs(value) >= 2.0**128 else rounded(value, 0.0, ops.ZERO)
    return np.uint32(0) if made == np.uint32(0x80000000) else made


@compiled
def _store(R: Any, at: int, l: int, n: int, kind: int, value: Any, saturate: int) -> None:
    """Write element n of a lane's fragment of D."""
    if kind == ops.M_F16:
        keep = np.uint32(0xFFFF0000) if n & 1 == 0 else np.uint32(0xFFFF)
        made = result_bits(value, kind) << np.uint32(16 * (n & 1))
        R[at + n // 2, l] = np.uint32(R[at + n // 2][l] & keep) | np.uint32(made)
    elif kind == ops.M_F64:
        bits = bits_of_double(value)
        R[at + 2 * n, l] = np.uint32(bits & np.uint64(0xFFFFFFFF))
        R[at + 2 * n + 1, l] = np.uint32(bits >> np.uint64(32))
    elif kind == ops.M_S32:
        if saturate:
            value = min(max(value, -2147483648.0), 2147483647.0)
        R[at + n, l] = np.uint32(np.uint64(np.int64(value)) & np.uint64(0xFFFFFFFF))
    else:
        R[at + n, l] = result_bits(value, kind)


@handler(ops.TENSOR, ops.MMA)
def _multiply(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Multiply and add; all lanes take part, those in the mask keep the result.

    X: rows, Y: depth, Z: elements per register; PD, PD2 and PS: types of A, B and of C and D; PS_NOT: saturates.
    """
    ins, R = m.table[pc], m.registers[w]
    if mask == np.uint32(0):
        return FINE
    rows, deep, per, total = ins[ops.X], ins[ops.Y], ins[ops.Z], ins[ops.PS]
    sums = real_matrix()
    for r in range(rows):
        for c in range(_COLUMNS):
            l, n = 4 * (r & 7) + c // 2, 2 * (r // 8) + (c & 1)
            sums[r, c] = _accumulated(R, ins[ops.C], l, n, total)
    if ins[ops.PD] == ops.M_B1:
        _bit_products(ins, R, rows, deep // 32, sums)
    else:
        a, b = real_matrix(), real_matrix()
        _gather(R, ins[ops.A], ins[ops.PD], per, rows, deep, a)
        _gather(R, ins[ops.B], ins[ops.PD2], per, 8, deep, b)
        add_products(a, b, ins[ops.PD], total, rows, deep, sums)
    for r in range(rows):
        for c in range(_COLUMNS):
            l, n = 4 * (r & 7) + c // 2, 2 * (r // 8) + (c & 1)
            if lane_bit(mask, l):
                _store(R, ins[ops.D], l, n, total, sums[r, c], ins[ops.PS_NOT])
    return FINE


@handler(ops.TENSOR, ops.MOVM)
def _transpose(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Transpose an 8x8 matrix of 16-bit elements, a row in the registers of four lanes (MOVM)."""
    ins, R, turned = m.table[pc], m.registers[w], lanes()
    A = R[ins[ops.A]]
    for l in range(32):
        made = np.uint32(0)
        for h in range(2):
            row, column = 2 * (l & 3) + h, l >> 2
            word = A[4 * row + column // 2]
            made |= (np.uint32(word >> np.uint32(16 * (column & 1))) & np.uint32(0xFFFF)) << np.uint32(16 * h)
        turned[l] = made
    return keep(R[ins[ops.D]], turned, mask)
