"""Bits as numbers and numbers as bits, and the fused multiply-add, for compiled code.

Numba is imported only when something is compiled: see `warplens.core.native`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from warplens.core.native import Entry, Later, there

if not there():
    raise ImportError("Numba is not installed")


@cache
def sources() -> tuple[Path, ...]:
    """Return the files of this package: what was compiled from others is not used."""
    return tuple(sorted(Path(__file__).parent.glob("*.[pj]*")))  # also the tables that become constants of the code


def _jitted(function: Callable[..., Any], **options: Any) -> Any:
    def make() -> Any:
        import numba

        jit: Any = numba.njit  # its types describe less than it takes
        return jit(**options, **OPTIONS)(function)

    return Later(make, function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Let compiled code call what a function generates."""

    def make() -> Any:
        from numba import extending

        made: Any = extending.intrinsic
        return made(function)

    return Later(make)


def _cast(source: str, target: str, ir_target: str, *bits: int) -> Any:
    def cast(context: Any, value: Any) -> Any:
        from llvmlite import ir
        from numba import types

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], getattr(ir, ir_target)(*bits))

        return getattr(types, target)(getattr(types, source)), generate

    return intrinsic(cast)


float_of = _cast("uint32", "float32", "FloatType")
bits_of = _cast("float32", "uint32", "IntType", 32)
double_of = _cast("uint64", "float64", "DoubleType")
bits_of_double = _cast("float64", "uint64", "IntType", 64)


def _fused(name: str) -> Any:
    def fused(context: Any, a: Any, b: Any, c: Any) -> Any:
        from numba import types

        kind: Any = getattr(types, name)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return kind(kind, kind, kind), generate

    return intrinsic(fused)


fma32 = _fused("float32")
fma64 = _fused("float64")


def _count(name: str) -> Any:
    def count(context: Any, value: Any) -> Any:
        from llvmlite import ir
        from numba import types

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            no = ir.Constant(ir.IntType(1), 0)
            if name == "ctpop":
                return builder.ctpop(arguments[0])
            return getattr(builder, name)(arguments[0], no)

        return types.uint32(types.uint32), generate

    return intrinsic(count)


popcount = _count("ctpop")
leading_zeros = _count("ctlz")
trailing_zeros = _count("cttz")


OPTIONS = {"error_model": "numpy", "nogil": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls; it becomes a part of what calls it."""
    return _jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small function into the place that calls it."""
    return _jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def entry(function: Callable[..., Any]) -> Entry:
    """Compile a function that Python calls."""
    return Entry(function, {**OPTIONS, "_nrt": False}, sources)


def bare_array(context: Any, builder: Any, dtype: Any, data: Any, sizes: list[Any]) -> Any:
    """Generate an array that nobody counts references to: its rows cost nothing to take."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.np import arrayobj

    arrays: Any = arrayobj
    codegen: Any = cgutils
    word = ir.IntType(64)
    item = word(context.get_abi_sizeof(context.get_data_type(dtype)))
    strides, step = [item] * len(sizes), item
    for k in reversed(range(len(sizes))):
        strides[k] = step
        step = builder.mul(step, sizes[k])
    array = arrays.make_array(types.Array(dtype, len(sizes), "C"))(context, builder)
    arrays.populate_array(
        array, data=data, shape=codegen.pack_array(builder, sizes), strides=codegen.pack_array(builder, strides),
        itemsize=item, meminfo=None,
    )  # fmt: skip
    return array._getvalue()


def _own(name: str, kind: str, *bits: int, shape: tuple[int, ...] = (32,)) -> Any:
    def own(context: Any) -> Any:
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils

        dtype, item = getattr(types, name), getattr(ir, kind)(*bits)
        codegen: Any = cgutils

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            items = codegen.alloca_once(builder, ir.ArrayType(item, math.prod(shape)))
            sizes = [ir.IntType(64)(n) for n in shape]
            return bare_array(context, builder, dtype, builder.bitcast(items, item.as_pointer()), sizes)

        return types.Array(dtype, len(shape), "C")(), generate

    return intrinsic(own)


# 32 items of the function's own: loops that read some rows of registers and may write one of them are slow.
lanes = _own("uint32", "IntType", 32)
wide_lanes = _own("int64", "IntType", 64)
real_lanes = _own("float64", "DoubleType")
# The same for matrices: what Numba would allocate needs Numba in every process (native.py).
real_matrix = _own("float64", "DoubleType", shape=(64, 16))
wide_matrix = _own("int64", "IntType", 64, shape=(64, 8))
