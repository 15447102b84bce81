"""The special-function unit (MUFU), bit for bit as an H200 has it.

One interpolator serves all functions (Oberman and Siu, "A high-performance area-efficient multifunction
interpolator", ARITH 2005): the upper bits of the argument choose a segment, the 17 below are l, and the result is
C0 + C1 l + C2 l^2, cut off behind the last bit of a float. The numbers here have 41 bits behind the point. Tables and
biases are in special_functions.json, found by laboratory/special_functions from the outputs for every mantissa.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import bits_of_double, compiled

_TABLES: dict[str, Any] = json.loads((Path(__file__).parent / "special_functions.json").read_text())
_ORDER = ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "tanh")
_SIZES = [len(_TABLES[name]["segments"]) for name in _ORDER]
_RCP, _RSQ, _SQRT, _EX2, _LG2, _SIN, _TANH = (sum(_SIZES[:k]) for k in range(len(_ORDER)))  # their first rows
# Rows of C0 (with the bias of its function) in 2^-41, C1 in 2^-24 and C2 in 2^-26: l has 17 bits, its square 15.
_ROWS = np.array(
    [[(c0 << 15) + _TABLES[name]["bias"], c1, 4 * c2] for name in _ORDER for c0, c1, c2 in _TABLES[name]["segments"]],
    np.int64,
)
# Binades of tanh from 2^-8: how many bits of the mantissa are below l, and the first segment.
_TANH_BELOW = np.array([6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3])
_TANH_FIRST = np.array([0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43]) + _TANH
_POINT = 41
_REBIAS = (1023 + _POINT - 127) << 23  # from a double's exponent to a float's
_FRACTION = 0x7FFFFF
_HIDDEN = 0x800000
_INFINITY = 0x7F800000
_NAN = 0x7FFFFFFF


def _squares() -> Any:
    """Return l squared with 15 bits behind the point, by l without its last two bits, which play no part.

    Partial products below 2^-15 are never added. In the rest one of the two bits is among the upper seven.
    """
    low = np.arange(0, 1 << 17, 4)
    rows = [(low >> a & 1) * (((low & ((1 << a) - 1)) >> (18 - a)) + (1 << (2 * a - 19))) for a in range(10, 17)]
    return np.sum(rows, axis=0).astype(np.uint16)


_SQUARES = _squares()


@compiled
def _interpolated(row: int, low: int) -> int:
    return int(_ROWS[row, 0] + _ROWS[row, 1] * low + _ROWS[row, 2] * _SQUARES[low >> 2])


@compiled
def _normal(size: int) -> int:
    """Return the bits of the float of a fixed-point number, cut off: a double holds all of its bits."""
    return int(bits_of_double(np.float64(size)) >> np.uint64(29)) - _REBIAS if size else 0


@compiled
def _reciprocal(exponent: int, fraction: int, middle: int) -> Any:
    """Return exponent (biased by `middle`) and fraction of 1/x as one number of 23 bits behind the exponent."""
    size = _interpolated(_RCP + (fraction >> 16), (fraction & 0xFFFF) << 1) >> (_POINT - 24)
    return ((2 * middle - 2 - exponent) << 23) + size


@compiled
def _root_of_reciprocal(exponent: int, fraction: int, middle: int) -> Any:
    """Return 1/sqrt(x) in the same way; of an even power of two it is exact."""
    odd = (exponent ^ middle) & 1
    half = (exponent - middle - odd) >> 1
    size = 1 << 24
    if odd or fraction:
        size = _interpolated(_RSQ + 64 * odd + (fraction >> 17), fraction & 0x1FFFF) >> (_POINT - 24)
    return ((middle - 2 - half) << 23) + size


@compiled
def _root(exponent: int, fraction: int) -> Any:
    odd = (exponent ^ 127) & 1
    size = _interpolated(_SQRT + 64 * odd + (fraction >> 17), fraction & 0x1FFFF) >> (_POINT - 23)
    return ((126 + ((exponent - 127 - odd) >> 1)) << 23) + size


@compiled
def _fixed(exponent: int, fraction: int, point: int) -> Any:
    """Return a positive float with so many bits behind the point, cut off; at most 40 bits before it."""
    shift = min(exponent - 150 + point, 40)
    return (fraction | _HIDDEN) << shift if shift >= 0 else (fraction | _HIDDEN) >> min(-shift, 24)


@compiled
def _power_of_two(negative: bool, exponent: int, fraction: int) -> Any:
    """Return 2^x. A negative argument is the complement of its bits, one too little unless it is whole."""
    turned = _fixed(exponent, fraction, 23)
    if negative:
        turned = ~turned if turned & _FRACTION else -turned
    below = turned & _FRACTION
    made = ((126 + (turned >> 23)) << 23) + (_interpolated(_EX2 + (below >> 17), below & 0x1FFFF) >> (_POINT - 23))
    return min(made, _INFINITY) if made >= _HIDDEN else 0


@compiled
def _logarithm(exponent: int, fraction: int) -> Any:
    """Return log2(x): of absolute precision, so that near 1 only the first bits mean something."""
    if exponent == 127 and fraction == 0:
        return 0
    total = ((exponent - 127) << _POINT) + _interpolated(_LG2 + (fraction >> 17), fraction & 0x1FFFF)
    total >>= 5  # no bits below 2^-36, and a negative number is the complement of its bits
    return _normal(total << 5) if total >= 0 else _normal(~total << 5) | 0x80000000


@compiled
def _sine(quarters: int, negative: bool, exponent: int, fraction: int) -> Any:
    """Return the sine of an angle in turns, so many quarters later; falling quarters have the complement."""
    angle = _fixed(exponent, fraction, 25) + (quarters << 23)
    below = ~angle & _FRACTION if angle >> 23 & 1 else angle & _FRACTION
    size = _normal(_interpolated(_SIN + (below >> 17), below & 0x1FFFF))
    return size | 0x80000000 if (angle >> 24 & 1) ^ int(negative and quarters == 0) else size


@compiled
def _hyperbolic_tangent(bits: int, exponent: int, fraction: int) -> Any:
    sign = bits & 0x80000000
    if exponent < 119:  # below 2^-8
        return bits
    if exponent >= 130:
        return sign | 0x3F800000
    low = fraction >> _TANH_BELOW[exponent - 119]
    return sign | _normal(_interpolated(_TANH_FIRST[exponent - 119] + (low >> 17), low & 0x1FFFF))


@compiled
def special(code: int, word: Any) -> Any:
    """Return the bits of a function of a float. Denormal arguments and results are zero, except of tanh."""
    bits = int(word)
    negative, exponent, fraction = bits >> 31 != 0, bits >> 23 & 255, bits & _FRACTION
    sign = bits & 0x80000000
    if exponent == 255 and fraction:
        return np.uint32(_NAN)
    if code == ops.TANH:
        return np.uint32(_hyperbolic_tangent(bits, exponent, fraction))
    if code == ops.SIN or code == ops.COS:
        if exponent == 255:
            return np.uint32(_NAN)
        return np.uint32(_sine(int(code == ops.COS), negative, exponent, fraction))
    if code == ops.EX2:
        if exponent >= 135:
            return np.uint32(0 if negative else _INFINITY)
        return np.uint32(_power_of_two(negative, exponent, fraction))
    if exponent == 0:
        if code == ops.SQRT:
            return np.uint32(sign)
        return np.uint32(0xFF800000 if code == ops.LG2 else sign | _INFINITY)
    if negative and code != ops.RCP:
        return np.uint32(_NAN)
    if exponent == 255:
        return np.uint32(sign if code == ops.RCP or code == ops.RSQ else _INFINITY)
    if code == ops.RCP:
        made = _reciprocal(exponent, fraction, 127)
        return np.uint32(sign | made if made >= _HIDDEN else sign)
    if code == ops.RSQ:
        return np.uint32(_root_of_reciprocal(exponent, fraction, 127))
    return np.uint32(_root(exponent, fraction) if code == ops.SQRT else _logarithm(exponent, fraction))


@compiled
def special_word(code: int, word: Any) -> Any:
    """Return the upper word of 1/x or 1/sqrt(x) of a double from its upper word: 20 bits of the float's function."""
    bits = int(word)
    sign, exponent, fraction = bits & 0x80000000, bits >> 20 & 2047, bits & 0xFFFFF
    if exponent == 2047 and fraction:
        return np.uint32(_NAN)
    if exponent == 0:
        return np.uint32(sign | 0x7FF00000)
    if sign and code == ops.RSQ64H:
        return np.uint32(_NAN)
    if exponent == 2047:
        return np.uint32(sign)
    if code == ops.RSQ64H:
        return np.uint32(_root_of_reciprocal(exponent, fraction << 3, 1023) >> 3)
    made = _reciprocal(exponent, fraction << 3, 1023) >> 3
    return np.uint32(sign | made if made >= 1 << 20 else sign)
