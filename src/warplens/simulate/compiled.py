"""How the engine's functions are compiled: plain Python is the definition, Numba runs the same source.

Statements are plain on purpose (no tuples, arrays made by the caller): that halves the time to compile. Each branch
takes 4 ms of it, each comparison and each item of an array 2 ms, a field 0.4 ms; so a switch is `if setup.greedy`, not
`> 0`. `max` and `min` are compiled once for each kind of function: they are used in those that are `called`. So is
`int`: `floor` is not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

try:
    import numba
    from numba.core import registry

    _jit: Any = numba.njit  # its types describe less than it takes
    _config: Any = numba.config
except ImportError:  # without the extra: the same results, more slowly
    _jit = None

_ALWAYS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


# LLVM's first level makes the engine as fast as its third, in half of the time: none of its loops can be vectorised,
# and nothing counts references.
_LIGHT: dict[str, Any] = {}
if _jit is not None:
    _LIGHT = {"OPT": type(_config.OPT)(1), "LOOP_VECTORIZE": 0, "LLVM_REFPRUNE_PASS": 0}


@contextmanager
def compiling() -> Iterator[None]:
    """Do not look for garbage meanwhile: Numba makes millions of objects that live on, a tenth of its time.

    LLVM is asked for less than by default, for what is compiled here only.
    """
    collecting = gc.isenabled()
    gc.disable()
    before = {name: getattr(_config, name) for name in _LIGHT}
    if _LIGHT:
        registry.cpu_target.target_context.codegen()  # made once for all that Numba compiles: by its own settings
        vars(_config).update(_LIGHT)
    try:
        yield
    finally:
        if _LIGHT:
            vars(_config).update(before)
        if collecting:
            if not gc.get_freeze_count():  # what is new counts as old, and is not looked through at once
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def inlined(function: Callable[..., Any]) -> Any:
    """Put a function into each that calls it, before types are known: a few statements, or calls of others."""
    return function if _jit is None else _jit(inline="always", **_ALWAYS)(function)


def folded(function: Callable[..., Any]) -> Any:
    """Compile a function by itself, then put it into its caller: what runs in every cycle, where a call costs as much.

    It runs faster than what is inlined before. Not within one another: each level is optimised again.
    """
    return function if _jit is None else _jit(no_cpython_wrapper=True, forceinline=True, **_ALWAYS)(function)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls, now and then."""
    return function if _jit is None else _jit(no_cpython_wrapper=True, **_ALWAYS)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return function if _jit is None else _jit(cache=True, **_ALWAYS)(function)
