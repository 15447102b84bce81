"""Decorators of the engine's compiled functions: plain Python is the definition, Numba runs the same source.

Statements are plain on purpose (no tuples, arrays made by the caller): that halves the time to compile. A variable has
one type in all of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from warplens.core.native import Entry, Later, refuse_without_numba, there

_THERE = there()
_ALWAYS = {"nogil": True, "error_model": "numpy", "_nrt": False}
_FILES = (
    "blocks", "compiled", "engine", "fluid", "layout", "memory", "register_ports", "register_writes", "scheduler",
)  # fmt: skip


def _sources() -> tuple[Path, ...]:
    """Return the files of the engine: what was compiled from others is not used."""
    return tuple(Path(__file__).with_name(f"{name}.py") for name in _FILES)


def _later(function: Callable[..., Any], **options: Any) -> Any:
    def make() -> Any:
        import numba

        jit: Any = numba.njit  # its types describe less than it takes
        return jit(no_cfunc_wrapper=True, **options, **_ALWAYS)(function)

    return Later(make, function) if _THERE else function


def inlined(function: Callable[..., Any]) -> Any:
    """Put a function into each that calls it, before types are known: a few statements, or calls of others."""
    return _later(function, inline="always")


def folded(function: Callable[..., Any]) -> Any:
    """Compile a function by itself, then put it into its caller: what runs in every cycle, where a call costs as much.

    It runs faster than what is inlined before.
    """
    return _later(function, no_cpython_wrapper=True, forceinline=True)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls, now and then."""
    return _later(function, no_cpython_wrapper=True)


def _refusing(*_: Any) -> Any:
    """Stand in for what Python calls where nothing can be compiled."""
    refuse_without_numba("the simulator")


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return Entry(function, _ALWAYS, _sources) if _THERE else _refusing
