"""Numba with as much as the engine needs: while it is compiled, what buys nothing there is left out of Numba."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
def compiling() -> Iterator[None]:
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
