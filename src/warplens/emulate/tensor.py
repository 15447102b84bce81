"""Tensor-core instructions: D = A B + C over the fragments that the 32 lanes of a warp hold.

A register of A or B has `per` elements. Lane 4g+t holds of A, in register i, row g + 8 (i mod 2) and the columns from
per t + 4 per (i div 2); of B, in register i, column g and the rows from per t + 4 per i; of C and D row g (and g + 8),
columns 2t and 2t+1: the layouts of the PTX ISA's mma instructions, which all types share.

The products of one instruction are summed in double precision, from the first k to the last, C is added last, and
the sum is rounded once. The hardware adds them aligned to the largest and cuts off what is below, so that its last
bits differ where sums are inexact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulate import ops
from warplens.emulate.bits import bits_of, bits_of_double, compiled, double_of, float_of, lanes, popcount
from warplens.emulate.half import to_half
from warplens.emulate.handlers import handler
from warplens.emulate.integer_parts import keep, lane_bit
from warplens.emulate.layout import FINE

_DEEPEST, _ROWS, _COLUMNS = 64, 16, 8


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
            out[r, c] = np.float64(total)


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
def _store(R: Any, at: int, l: int, n: int, kind: int, value: Any, saturate: int) -> None:
    """Write element n of a lane's fragment of D."""
    if kind == ops.M_F16:
        keep = np.uint32(0xFFFF0000) if n & 1 == 0 else np.uint32(0xFFFF)
        made = to_half(value, 0, ops.NEAREST) << np.uint32(16 * (n & 1))
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
        R[at + n, l] = bits_of(np.float32(value))


@handler(ops.TENSOR, ops.MMA)
def _multiply(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Multiply and add; all lanes take part, those in the mask keep the result.

    X: rows, Y: depth, Z: elements per register; PD, PD2 and PS: types of A, B and of C and D; PS_NOT: saturates.
    """
    ins, R = m.table[pc], m.registers[w]
    if mask == np.uint32(0):
        return FINE
    rows, deep, per, total = ins[ops.X], ins[ops.Y], ins[ops.Z], ins[ops.PS]
    sums = np.zeros((_ROWS, _COLUMNS))
    if ins[ops.PD] == ops.M_B1:
        _bit_products(ins, R, rows, deep // 32, sums)
    else:
        a, b = np.zeros((_DEEPEST, _ROWS)), np.zeros((_DEEPEST, _COLUMNS))
        _gather(R, ins[ops.A], ins[ops.PD], per, rows, deep, a)
        _gather(R, ins[ops.B], ins[ops.PD2], per, 8, deep, b)
        for r in range(rows):
            for k in range(deep):
                x = a[k, r]
                for c in range(_COLUMNS):
                    sums[r, c] += x * b[k, c]
    for r in range(rows):
        for c in range(_COLUMNS):
            l, n = 4 * (r & 7) + c // 2, 2 * (r // 8) + (c & 1)
            sums[r, c] += _accumulated(R, ins[ops.C], l, n, total)
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
