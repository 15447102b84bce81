"""How the engine's functions are compiled: plain Python is the definition, Numba runs the same source.

Statements are plain on purpose (no tuples, arrays made by the caller): that halves the time to compile. Each branch,
each comparison and each item of an array takes 2 to 3 ms of it, `max` and `min` 4, a field 1; so a switch is
`if setup.greedy`, not `> 0`, and `max` and `min` are used in functions that are `called`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warplens.native import Entry, Later, there

_THERE = there()  # without the extra: the same results, more slowly
_ALWAYS = {"nogil": True, "error_model": "numpy", "_nrt": False}
_FILES = ("blocks", "compiled", "engine", "fetch", "fluid", "holds", "layout", "memory", "onward", "ports",
          "results", "turns")  # fmt: skip


def _sources() -> tuple[Path, ...]:
    """Return the files of the engine: what was compiled from others is not used."""
    return tuple(Path(__file__).with_name(f"{name}.py") for name in _FILES)


def _searched_once(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return Numba's search for what an operation on some types gives, with a memory.

    It has none: of 2559 searches in the engine 125 are not the same as one before, and they took a third of all time.
    """
    known: dict[Any, Any] = {}

    def found(function: Any, context: Any, args: Any, kws: Any) -> Any:
        key = function, context, args, tuple(kws.items())
        if key not in known:
            known[key] = search(function, context, args, kws)
        return known[key]

    return found


def _optimize(library: Any) -> None:
    """Optimise once: Numba does so twice, the first time for what counts references."""
    passes, builder = library._codegen._module_pass_manager()
    passes.run(library._final_module, builder)


def _not_yet(*_: Any) -> None:
    """Load nothing: machine code is made of the entry alone, with all that it calls, and not of each function."""


def _lifetimes(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Work out where variables are last used when somebody asks for it: Numba does after each pass, for other modes."""
    from numba.core import postproc, transforms

    ordered: Any = transforms.canonicalize_cfg
    lifetime: Any = postproc.VariableLifetime
    code = processor.func_ir
    code.blocks = ordered(code.blocks)
    code.variable_lifetime, code.generator_info = lifetime(code.blocks), None
    if emit_dels:
        processor._insert_var_dels(extend_lifetimes=extend_lifetimes)


@contextmanager
def _compiling() -> Iterator[None]:
    """Do not look for garbage meanwhile: Numba makes millions of objects that live on, a tenth of its time.

    LLVM's first level makes the engine as fast as its third, in half of the time: none of its loops can be vectorised,
    and nothing counts references. It is asked for that, and Numba looks up each operation once, here only.
    """
    import numba
    from numba.core import codegen, postproc, registry
    from numba.core.types import BaseFunction

    config, target = vars(numba.config), registry.cpu_target
    light = {"OPT": type(config["OPT"])(1), "LOOP_VECTORIZE": 0, "LLVM_REFPRUNE_PASS": 0}
    library, generator = codegen.JITCodeLibrary, codegen.JITCPUCodegen
    changes: list[tuple[Any, str, Any]] = [
        (BaseFunction, "get_call_type", _searched_once(vars(BaseFunction)["get_call_type"])),
        (library, "_optimize_final_module", _optimize), (library, "_finalize_specific", _not_yet),
        (generator, "_add_module", _not_yet), (generator, "set_env", _not_yet),
        (postproc.PostProcessor, "run", _lifetimes),
    ]  # fmt: skip
    collecting = gc.isenabled()
    gc.disable()
    target.target_context.codegen()  # made once for all that Numba compiles: by its own settings
    before = {name: config[name] for name in light}
    methods = [(kind, name, getattr(kind, name)) for kind, name, _ in changes]
    config.update(light)
    for kind, name, method in changes:
        setattr(kind, name, method)
    try:
        yield
    finally:
        config.update(before)
        for kind, name, method in methods:
            setattr(kind, name, method)
        if collecting:
            if not gc.get_freeze_count():  # what is new counts as old, and is not looked through at once
                gc.freeze()
                gc.unfreeze()
            gc.enable()


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

    It runs faster than what is inlined before. Not within one another: each level is optimised again.
    """
    return _later(function, no_cpython_wrapper=True, forceinline=True)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls, now and then."""
    return _later(function, no_cpython_wrapper=True)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return Entry(function, _ALWAYS, _sources, _compiling) if _THERE else function
