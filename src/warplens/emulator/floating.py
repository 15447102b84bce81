"""Single- and double-precision arithmetic and special functions, over the lanes of a warp.

Results are the hardware's bit for bit: round to nearest by the processor that runs us, other roundings through a
double that is rounded to odd, any NaN of single precision as 0x7fffffff, special functions by the unit's own tables.
A double is a pair of registers, the lower word first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import bits_of, bits_of_double, compiled, double_of, float_of, fma32, fma64, inlined, lanes
from warplens.emulator.handlers import handler
from warplens.emulator.integer import joined, keep, lane_bit, predicate, set_predicate
from warplens.emulator.layout import FINE
from warplens.emulator.special import special, special_word

_NAN = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_NORMAL = np.uint32(0x00800000)


@inlined
def _cut(bits: Any, least: Any) -> Any:
    """Return the bits of a float, zero of its sign if it is smaller than what has the bits `least`."""
    return np.uint32(bits & _SIGN) if (bits & _MAGNITUDE) < least else np.uint32(bits)


@compiled
def flushed(bits: Any) -> Any:
    """Return the bits of a float with a denormal number as zero of its sign."""
    return _cut(bits, _NORMAL)


@compiled
def rounded(value: Any, rest: Any, mode: int) -> Any:
    """Round value + rest (a double and what it lost) to a float in a rounding mode; return its bits."""
    if rest != 0.0 and math.isfinite(value):  # round to odd: the lost part becomes a sticky last bit
        bits = bits_of_double(value)
        if bits & np.uint64(1) == np.uint64(0):
            outward = (rest > 0.0) == (value > 0.0)
            odd = bits + np.uint64(1) if outward else bits - np.uint64(1)
            value = rest if value == 0.0 else double_of(odd)
    near = np.float32(value)
    made = bits_of(near)
    if mode == ops.NEAREST or math.isnan(value) or math.isinf(value):
        return made
    exact = np.float64(near)
    away = abs(exact) > abs(value)
    if mode == ops.ZERO or (mode == ops.DOWN and value > 0.0) or (mode == ops.UP and value < 0.0):
        return np.uint32(made - np.uint32(1)) if away else made
    if exact == value or away:
        return made
    return np.uint32(made + np.uint32(1))


@compiled
def _lost_in_sum(a: Any, b: Any, total: Any) -> Any:
    """Return what a sum of doubles lost to rounding (Knuth's two-sum)."""
    back = total - a
    return (a - (total - back)) + (b - back)


@compiled
def _finished(bits: Any, mode: int) -> Any:
    if (bits & _MAGNITUDE) > _INFINITY:
        return np.uint32(0) if mode & ops.SATURATE else _NAN
    if mode & ops.FTZ:
        bits = flushed(bits)
    if mode & ops.SATURATE:
        value = float_of(np.uint32(bits))
        if value <= np.float32(0):
            return np.uint32(0)
        if value > np.float32(1):
            return np.uint32(0x3F800000)
    return np.uint32(bits)


@compiled
def arithmetic(op: int, a: Any, b: Any, c: Any, mode: int, scale: int) -> Any:
    """Add, multiply or multiply-add the bits of floats."""
    if mode & ops.FTZ:
        a, b, c = flushed(a), flushed(b), flushed(c)
    x, y, z = float_of(np.uint32(a)), float_of(np.uint32(b)), float_of(np.uint32(c))
    direction = mode & 3
    if scale:
        x *= np.float32(2.0**scale)
    if direction == ops.NEAREST:
        if op == ops.FADD:
            made = bits_of(np.float32(x + y))
        elif op == ops.FMUL:
            made = bits_of(np.float32(x * y))
        else:
            made = bits_of(fma32(x, y, z))
        return _finished(made, mode)
    first, second = np.float64(x), np.float64(y)
    if op == ops.FADD:
        total = first + second
        return _finished(rounded(total, _lost_in_sum(first, second, total), direction), mode)
    product = first * second  # exact: 48 bits
    if op == ops.FMUL:
        return _finished(rounded(product, 0.0, direction), mode)
    third = np.float64(z)
    total = product + third
    return _finished(rounded(total, _lost_in_sum(product, third, total), direction), mode)


@compiled
def least(a: Any, b: Any, smaller: bool, mode: int) -> Any:
    """Return the smaller or larger of the bits of two floats; a number wins over NaN unless NAN is asked for."""
    if mode & ops.FTZ:
        a, b = flushed(a), flushed(b)
    a_nan, b_nan = (a & _MAGNITUDE) > _INFINITY, (b & _MAGNITUDE) > _INFINITY
    if a_nan or b_nan:
        if mode & ops.NAN_WINS or (a_nan and b_nan):
            return _NAN
        return np.uint32(b) if a_nan else np.uint32(a)
    # order of the bits as sign and magnitude, minus zero below zero
    x = np.int64(a & _MAGNITUDE) if a & _SIGN == 0 else -np.int64(a & _MAGNITUDE) - 1
    y = np.int64(b & _MAGNITUDE) if b & _SIGN == 0 else -np.int64(b & _MAGNITUDE) - 1
    made = np.uint32(a) if (x < y) == smaller else np.uint32(b)
    if mode & ops.XOR_SIGN:
        made = np.uint32((made & _MAGNITUDE) | ((a ^ b) & _SIGN))
    return made


@compiled
def holds(code: int, a: Any, b: Any) -> bool:
    """Whether a comparison holds: the bits of its code are less, equal, greater, unordered."""
    if a < b:
        return code & 1 != 0
    if a == b:
        return code & 2 != 0
    if a > b:
        return code & 4 != 0
    return code & 8 != 0


@compiled
def _division_is_special(a: Any, b: Any) -> Any:
    """Whether a quotient's fast path could go wrong: exponents near the ends, zeros, infinities, NaN.

    An H200 says so of 0 / 2 too (ncu's counts of monte_carlo_option.p2).
    """
    ea, eb = np.int64((a >> np.uint32(23)) & np.uint32(255)), np.int64((b >> np.uint32(23)) & np.uint32(255))
    return eb == 0 or eb >= 253 or ea == 255 or ea <= 24 or ea - eb >= 126 or ea - eb <= -125


@inlined
def _fused(ins: Any, R: Any, mask: Any, least: Any) -> int:
    """FFMA, rounded to nearest: by far the most frequent. What is smaller than `least` becomes zero."""
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    ca, cx = np.uint32(ins[ops.C_AND]), np.uint32(ins[ops.C_XOR])
    made = lanes()
    for l in range(32):
        x, y = float_of(_cut(A[l] & aa ^ ax, least)), float_of(_cut(B[l] & ba ^ bx, least))
        v = fma32(x, y, float_of(_cut(C[l] & ca ^ cx, least)))
        made[l] = _cut(bits_of(v), least) if v == v else _NAN
    return keep(D, made, mask)


@inlined
def _plain(op: int, ins: Any, R: Any, mask: Any, least: Any) -> int:
    """FADD and FMUL, rounded to nearest. What is smaller than `least` becomes zero."""
    A, B, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.D]]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    add, made = op == ops.FADD, lanes()
    for l in range(32):
        x, y = float_of(_cut(A[l] & aa ^ ax, least)), float_of(_cut(B[l] & ba ^ bx, least))
        v = np.float32(x + y) if add else np.float32(x * y)
        made[l] = _cut(bits_of(v), least) if v == v else _NAN
    return keep(D, made, mask)


@inlined
def _nearest(op: int, ins: Any, R: Any, mask: Any, least: Any) -> int:
    return _fused(ins, R, mask, least) if op == ops.FFMA else _plain(op, ins, R, mask, least)


@handler(ops.SINGLE, ops.FSETP, ops.FSET, ops.FCHK)
def _compare(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """FSETP, FSET and FCHK."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    op = ins[ops.OP]
    A, B, mode = R[ins[ops.A]], R[ins[ops.B]], ins[ops.MODE]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    bits = np.uint32(0)
    for l in range(32):
        if lane_bit(mask, l):
            x, y = np.uint32((A[l] & aa) ^ ax), np.uint32((B[l] & ba) ^ bx)
            if mode & ops.FTZ:
                x, y = flushed(x), flushed(y)
            on = _division_is_special(x, y) if op == ops.FCHK else holds(ins[ops.X], float_of(x), float_of(y))
            bits |= np.uint32(on) << np.uint32(l)
    if op == ops.FCHK:
        set_predicate(P, ins[ops.PD], mask, bits)
        return FINE
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    yes = joined(bits, ins[ops.Y], extra)
    if op == ops.FSET:
        on = np.uint32(0x3F800000) if ins[ops.Z] else np.uint32(0xFFFFFFFF)
        for l in range(32):
            if lane_bit(mask, l):
                R[ins[ops.D], l] = on if lane_bit(yes, l) else np.uint32(0)
        return FINE
    set_predicate(P, ins[ops.PD], mask, yes)
    set_predicate(P, ins[ops.PD2], mask, joined(np.uint32(bits ^ np.uint32(0xFFFFFFFF)), ins[ops.Y], extra))
    return FINE


@handler(ops.SINGLE, ops.FADD, ops.FMUL, ops.FFMA)
def _arithmetic(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Add, multiply or multiply-add."""
    ins, R = m.table[pc], m.registers[w]
    op, mode = ins[ops.OP], ins[ops.MODE]
    if mode == 0 and ins[ops.X] == 0:
        return _nearest(op, ins, R, mask, np.uint32(0))
    if mode == ops.FTZ and ins[ops.X] == 0:
        return _nearest(op, ins, R, mask, _NORMAL)
    A, B, C, D = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.C]], R[ins[ops.D]]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    ca, cx = np.uint32(ins[ops.C_AND]), np.uint32(ins[ops.C_XOR])
    for l in range(32):
        if lane_bit(mask, l):
            x, y, z = np.uint32((A[l] & aa) ^ ax), np.uint32((B[l] & ba) ^ bx), np.uint32((C[l] & ca) ^ cx)
            D[l] = arithmetic(op, x, y, z, mode, ins[ops.X])
    return FINE


@handler(ops.SINGLE, ops.FMNMX)
def _least(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Take the smaller or larger of two, by a predicate."""
    ins, R, P = m.table[pc], m.registers[w], m.predicates[w]
    A, B, D, mode = R[ins[ops.A]], R[ins[ops.B]], R[ins[ops.D]], ins[ops.MODE]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    ba, bx = np.uint32(ins[ops.B_AND]), np.uint32(ins[ops.B_XOR])
    extra = predicate(P, ins[ops.PS], ins[ops.PS_NOT])
    for l in range(32):
        if lane_bit(mask, l):
            x, y = np.uint32((A[l] & aa) ^ ax), np.uint32((B[l] & ba) ^ bx)
            D[l] = least(x, y, lane_bit(extra, l), mode)
    return FINE


@handler(ops.SINGLE, ops.MUFU)
def _function(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run the special-function unit."""
    ins, R = m.table[pc], m.registers[w]
    A, D, mode = R[ins[ops.A]], R[ins[ops.D]], ins[ops.MODE]
    aa, ax = np.uint32(ins[ops.A_AND]), np.uint32(ins[ops.A_XOR])
    for l in range(32):
        if lane_bit(mask, l):
            made = special(ins[ops.X], np.uint32((A[l] & aa) ^ ax))
            D[l] = _finished(made, mode) if mode else made
    return FINE


_DOUBLE_NAN = np.uint64(0xFFF8000000000000)


@compiled
def read_double(R: Any, index: int, lane: int, keep: Any, flip: Any) -> Any:
    """Return a double from a pair of rows, its upper word masked and flipped (absolute value, sign)."""
    low, high = R[index][lane], R[index + 1][lane]
    return double_of((np.uint64((high & keep) ^ flip) << np.uint64(32)) | np.uint64(low))


@compiled
def write_double(R: Any, index: int, lane: int, value: Any) -> None:
    """Write a double to a pair of rows; any NaN in the hardware's form."""
    bits = bits_of_double(value) if value == value else _DOUBLE_NAN
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
def _result(op: int, x: Any, y: Any, z: Any, mode: int) -> Any:
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
            write_double(R, ins[ops.D], l, _result(op, x, y, z, mode))
    if op == ops.DSETP:
        set_predicate(P, ins[ops.PD], mask, joined(bits, ins[ops.Y], extra))
        set_predicate(P, ins[ops.PD2], mask, joined(np.uint32(bits ^ np.uint32(0xFFFFFFFF)), ins[ops.Y], extra))
    return FINE
