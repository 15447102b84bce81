"""Bits as numbers and numbers as bits, and the fused multiply-add, for compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

_jit: Any = njit  # their types describe less than they take
_intrinsic: Any = intrinsic
_array_module: Any = arrayobj
_codegen: Any = cgutils


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


OPTIONS = {"error_model": "numpy", "nogil": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls; it becomes a part of what calls it."""
    return _jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return _jit(cache=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small function into the place that calls it."""
    return _jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, **OPTIONS)(function)


def bare_array(context: Any, builder: Any, dtype: Any, data: Any, sizes: list[Any]) -> Any:
    """Generate an array that nobody counts references to: its rows cost nothing to take."""
    word = ir.IntType(64)
    item = word(context.get_abi_sizeof(context.get_data_type(dtype)))
    strides, step = [item] * len(sizes), item
    for k in reversed(range(len(sizes))):
        strides[k] = step
        step = builder.mul(step, sizes[k])
    array = _array_module.make_array(types.Array(dtype, len(sizes), "C"))(context, builder)
    _array_module.populate_array(
        array, data=data, shape=_codegen.pack_array(builder, sizes), strides=_codegen.pack_array(builder, strides),
        itemsize=item, meminfo=None,
    )  # fmt: skip
    return array._getvalue()


def _own(dtype: Any, item: Any) -> Any:
    @_intrinsic  # type: ignore[untyped-decorator]
    def own(context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            items = _codegen.alloca_once(builder, ir.ArrayType(item, 32))
            return bare_array(context, builder, dtype, builder.bitcast(items, item.as_pointer()), [ir.IntType(64)(32)])

        return types.Array(dtype, 1, "C")(), generate

    return own


# 32 items of the function's own: loops that read some rows of registers and may write one of them are slow.
lanes = _own(types.uint32, ir.IntType(32))
wide_lanes = _own(types.int64, ir.IntType(64))
real_lanes = _own(types.float64, ir.DoubleType())
