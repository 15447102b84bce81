"""Bits as numbers and numbers as bits, and the fused multiply-add, for compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_jit: Any = njit  # their types describe less than they take
_intrinsic: Any = intrinsic
_carray: Any = vars(numba)["carray"]


def _cast(source: Any, target: Any, ir_target: Any) -> Any:
    @_intrinsic  # type: ignore[untyped-decorator]
    def cast(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], ir_target)

        return target(source), generate

    return cast


float_of = _cast(types.uint32, types.float32, ir.FloatType())
bits_of = _cast(types.float32, types.uint32, ir.IntType(32))
double_of = _cast(types.uint64, types.float64, ir.DoubleType())
bits_of_double = _cast(types.float64, types.uint64, ir.IntType(64))


def _fused(kind: Any) -> Any:
    @_intrinsic  # type: ignore[untyped-decorator]
    def fused(context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return kind(kind, kind, kind), generate

    return fused


fma32 = _fused(types.float32)
fma64 = _fused(types.float64)


def _count(name: str) -> Any:
    @_intrinsic  # type: ignore[untyped-decorator]
    def count(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            no = ir.Constant(ir.IntType(1), 0)
            if name == "ctpop":
                return builder.ctpop(arguments[0])
            return getattr(builder, name)(arguments[0], no)

        return types.uint32(types.uint32), generate

    return count


popcount = _count("ctpop")
leading_zeros = _count("ctlz")
trailing_zeros = _count("cttz")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls."""
    return _jit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return _jit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)


@_intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.uintp), generate


# The same memory as an array that nobody counts references to: its rows cost nothing to take.
@compiled
def bare_u32(x: Any) -> Any:
    """Return a bare array of 32-bit words."""
    return _carray(_pointer(x.ctypes.data), x.shape, np.uint32)


@compiled
def bare_i64(x: Any) -> Any:
    """Return a bare array of 64-bit whole numbers."""
    return _carray(_pointer(x.ctypes.data), x.shape, np.int64)


@compiled
def bare_i32(x: Any) -> Any:
    """Return a bare array of 32-bit whole numbers."""
    return _carray(_pointer(x.ctypes.data), x.shape, np.int32)


@compiled
def bare_f64(x: Any) -> Any:
    """Return a bare array of doubles."""
    return _carray(_pointer(x.ctypes.data), x.shape, np.float64)


@compiled
def bare_u8(x: Any) -> Any:
    """Return a bare array of bytes."""
    return _carray(_pointer(x.ctypes.data), x.shape, np.uint8)
