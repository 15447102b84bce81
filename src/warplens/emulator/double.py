"""Double-precision arithmetic over the lanes of a warp: pairs of registers, the lower word first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import bits_of_double, compiled, double_of, fma64
from warplens.emulator.handlers import handler
from warplens.emulator.integer_parts import joined, lane_bit, predicate, set_predicate
from warplens.emulator.layout import FINE
from warplens.emulator.single import holds
from warplens.emulator.special import special_word

_NAN = np.uint64(0xFFF8000000000000)


@compiled
def read_double(R: Any, index: int, lane: int, keep: Any, flip: Any) -> Any:
    """Return a double from a pair of rows, its upper word masked and flipped (absolute value, sign)."""
    low, high = R[index][lane], R[index + 1][lane]
    return double_of((np.uint64((high & keep) ^ flip) << np.uint64(32)) | np.uint64(low))


@compiled
def write_double(R: Any, index: int, lane: int, value: Any) -> None:
    """Write a double to a pair of rows; any NaN in the hardware's form."""
    bits = bits_of_double(value) if value == value else _NAN
    R[index, lane] = np.uint32(bits & np.uint64(0xFFFFFFFF))
    R[index + 1, lane] = np.uint32(bits >> np.uint64(32))


@compiled
def _above(x: Any) -> Any:
    """Return the next double above a finite one; NumPy's function for that is one of Numba's, which is not loaded."""
    bits = bits_of_double(x)
    if x == 0.0:
        return double_of(np.uint64(1))
    return double_of(bits + np.uint64(1) if x > 0.0 else bits - np.uint64(1))


@compiled
def _directed(near: Any, rest: Any, mode: int) -> Any:
    """Turn a result rounded to nearest, with the sign of what it lost, into another rounding."""
    if mode == ops.NEAREST or rest == 0.0 or not math.isfinite(near):
        return near
    down = (mode == ops.DOWN) or (mode == ops.ZERO and near > 0.0)
    up = (mode == ops.UP) or (mode == ops.ZERO and near < 0.0)
    if down and rest < 0.0:
        return -_above(-near)
    if up and rest > 0.0:
        return _above(near)
    return near


@compiled
def _arithmetic(op: int, x: Any, y: Any, z: Any, mode: int) -> Any:
    if op == ops.DADD:
        total = x + y
        back = total - x
        return _directed(total, (x - (total - back)) + (y - back), mode)
    if op == ops.DMUL:
        product = x * y
        return _directed(product, fma64(x, y, -product) if mode else 0.0, mode)
    value = fma64(x, y, z)
    if mode == ops.NEAREST or not math.isfinite(value):
        return value
    product = x * y
    low = fma64(x, y, -product)
    total = product + z
    back = total - product
    lost = (product - (total - back)) + (z - back)
    return _directed(value, (total - value) + (lost + low), mode)


@handler(ops.DOUBLE)
def double(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run one double-precision instruction for the lanes in the mask."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op, mode = ins[ops.OP], ins[ops.MODE] & 3
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    ca, cx = np.uint32(ins[ops.C_AND]), np.uint32(ins[ops.C_XOR])
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    bits = np.uint32(0)
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        if op == ops.DMUFU:  # works on the upper word alone
            R[ins[ops.D], l] = special_word(ins[ops.X], np.uint32((R[ins[ops.A]][l] & aa) ^ ax))
            continue
        x = read_double(R, ins[ops.A], l, aa, ax)
        y = read_double(R, ins[ops.B], l, ba, bx)
        if op == ops.DSETP:
            bits |= np.uint32(holds(ins[ops.X], x, y)) << np.uint32(l)
        elif op == ops.DMNMX:
            least, most = (min(x, y), max(x, y)) if x == x and y == y else (y, y) if x != x else (x, x)
            made = least if lane_bit(extra, l) else most
            write_double(R, ins[ops.D], l, made)
        else:
            z = read_double(R, ins[ops.C], l, ca, cx)
            write_double(R, ins[ops.D], l, _arithmetic(op, x, y, z, mode))
    if op == ops.DSETP:
        set_predicate(P, ins[ops.PD], mask, joined(bits, ins[ops.Y], extra))
        set_predicate(P, ins[ops.PD2], mask, joined(np.uint32(bits ^ np.uint32(0xFFFFFFFF)), ins[ops.Y], extra))
    return FINE
