"""Numba with as much as the engine needs: while it is compiled, what buys nothing there is left out of Numba.

Half of the time went into that: Numba serves all of Python and NumPy, and each function by itself. The engine has no
closures, generators, expressions of arrays or references to count, and nobody calls a part of it alone. Numba is as it
was when the engine is compiled; a statement that needs more than is left does not compile, and says so, but for a
variable of two types of numbers, which becomes the wider one, and an index below zero, which reads what is before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import getattr_static
from types import SimpleNamespace
from typing import Any


def _remembered(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Numba's that always answers alike, with a memory.

    Five are asked again and again: what an operation on some types gives (of 2559 searches in the engine 125 are not
    the same as one before), of what type a field is, how large a type is (LLVM reads a text for that), what a record is
    called: all fields, and whether a function of Numba's own has some argument.
    """
    known: dict[Any, Any] = {}

    def found(*given: Any) -> Any:
        key = tuple([tuple(each.items()) if isinstance(each, dict) else each for each in given])
        if key not in known:
            known[key] = search(*given)
        return known[key]

    return found


def _of_any_number(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return Numba's search for a compiled function: not one for 0 and one for all numbers, where a variable begins so.

    A function that is given such a variable was compiled twice.
    """
    from numba.core import types

    general: Any = types.unliteral

    def found(function: Any, context: Any, args: Any, kws: Any) -> Any:
        return search(function, context, tuple([general(each) for each in args]), kws)

    return found


def _not_yet(*_: Any) -> None:
    """Link, optimise and load nothing: machine code is made of the entry alone, with all that it calls (`optimize`)."""


def _unchanged(_: Any, __: Any, code: Any) -> Any:
    """Rewrite nothing: the engine has no `with`, no dicts, and no call with more than thirty arguments."""
    return code


def _same(block: Any) -> Any:
    """Copy nothing: what is inlined was translated for that, and is used once."""
    return block


def _array(kind: Any) -> Any:
    """Return how an array is looked at: where it is, and its shape. Numba stores and loads it for that."""

    def look(context: Any, builder: Any, value: Any) -> Any:
        model = context.data_model_manager[kind]
        return SimpleNamespace(data=model.get(builder, value, "data"), shape=model.get(builder, value, "shape"))

    return look


def _item(context: Any, builder: Any, kind: Any, array: Any, _: Any, indices: Any, boundscheck: Any = None) -> Any:
    """Find an item of an array: no index is negative, where Numba would count from the end, and none is a slice."""
    if kind.layout != "C" or len(indices) != kind.ndim:
        raise NotImplementedError(f"the engine's arrays are whole, and asked for one item: {kind}")
    place = indices[0]
    for axis in range(1, kind.ndim):
        place = builder.add(builder.mul(place, builder.extract_value(array.shape, axis)), indices[axis])
    return builder.gep(array.data, [place]), (), ()


def _lifetimes(processor: Any, **_: Any) -> None:
    """Work out where variables are last used when somebody asks for it; Numba does after each pass.

    It also notes where they end, to count references: a store and a load for each, which LLVM then has to remove.
    """
    from numba.core import postproc, transforms

    ordered: Any = transforms.canonicalize_cfg
    lifetime: Any = postproc.VariableLifetime
    code = processor.func_ir
    code.blocks = ordered(code.blocks)
    code.variable_lifetime, code.generator_info = lifetime(code.blocks), None


def _passes(name: str, *chosen: Any) -> Any:
    from numba.core import compiler_machinery

    manager: Any = compiler_machinery.PassManager
    made = manager(name)
    for each in chosen:
        made.add_pass(each)
    made.finalize()
    return made


def _untyped(_: Any, name: str = "untyped") -> Any:
    """Return Numba's passes before types are known, all there are for what is inlined: 4 of 17.

    A variable has one type, and is stored wherever it is assigned: LLVM tells its values apart, sooner than Numba.
    """
    from numba.core import untyped_passes as first

    return _passes(name, first.TranslateByteCode, first.FixupArgs, first.IRProcessing, first.InlineInlinables)


def _all(state: Any, name: str = "nopython") -> Any:
    """Return Numba's passes for a function, from its source to LLVM: 7 of 27."""
    from numba.core import typed_passes as then

    before = [each for each, _ in _untyped(state).passes]
    return _passes(name, *before, then.NopythonTypeInference, then.NativeLowering, then.NoPythonBackend)


def _linked(library: Any) -> Any:
    """Put all that the entry calls into its module, once; Numba does so with each function and with all that it calls.

    Nobody else calls it: what LLVM then puts into the one place where it is called makes the engine 5 % faster.
    """
    module, libraries = library._final_module, [library]
    own = {function.name for function in module.functions if not function.is_declaration}
    for each in libraries:  # and those that are found on the way
        for called in each._linking_libraries:
            if called not in libraries:
                libraries.append(called)
                module.link_in(called._final_module, preserve=True)
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"
    return module


def optimize(library: Any) -> None:
    """Optimise the entry with all that it calls, once; Numba does so with each function and with all that it calls.

    At LLVM's first level, without unrolled loops: they are no faster, and none can be vectorised. Its second takes
    0.5 s more, for 1 or 2 % of speed. Each function by itself first, by four passes: without them the engine is 4 to
    6 % slower, and all of LLVM's for a function take 0.3 s more for nothing.
    """
    from llvmlite import binding

    machine, module = library.codegen._tm, _linked(library)
    options = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    for function in module.functions:
        if not function.is_declaration:
            passes = binding.create_new_function_pass_manager()
            passes.add_sroa_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
            passes.add_jump_threading_pass()
            passes.run(function, builder)
    builder.getModulePassManager().run(module, builder)


def _changes() -> list[tuple[Any, str, Any]]:
    from llvmlite.ir import Type
    from numba.core import base, codegen, inline_closurecall, interpreter, postproc, types
    from numba.core.compiler import DefaultPassBuilder
    from numba.core.typing.context import BaseContext
    from numba.np import arrayobj

    library, generator = codegen.JITCodeLibrary, codegen.JITCPUCodegen
    search, size, name = vars(types.BaseFunction)["get_call_type"], vars(Type)["get_abi_size"], types.Record.__repr__
    return [
        (types.BaseFunction, "get_call_type", _remembered(search)), (Type, "get_abi_size", _remembered(size)),
        (types.Record, "__repr__", _remembered(name)), (base, "_has_loc", _remembered(base._has_loc)),
        (BaseContext, "resolve_getattr", _remembered(vars(BaseContext)["resolve_getattr"])),
        (types.Dispatcher, "get_call_type", _of_any_number(vars(types.Dispatcher)["get_call_type"])),
        (library, "_optimize_functions", _not_yet), (library, "finalize", _not_yet),
        (generator, "set_env", _not_yet), (postproc.PostProcessor, "run", _lifetimes),
        (interpreter.Interpreter, "post_process", _unchanged), (arrayobj, "basic_indexing", _item),
        (arrayobj, "make_array", _array),
        (inline_closurecall, "copy", SimpleNamespace(deepcopy=_same)),
        (DefaultPassBuilder, "define_untyped_pipeline", staticmethod(_untyped)),
        (DefaultPassBuilder, "define_nopython_pipeline", staticmethod(_all)),
    ]  # fmt: skip


@contextmanager
def compiling() -> Iterator[None]:
    """Leave out of Numba what the engine does not need, meanwhile.

    Nobody looks for garbage either: Numba makes millions of objects that live on, a tenth of its time.
    """
    from numba.core import registry

    collecting = gc.isenabled()
    gc.disable()
    registry.cpu_target.target_context.codegen()  # made once for all that Numba compiles: by its own settings
    changes = _changes()
    before = [(kind, name, getattr_static(kind, name)) for kind, name, _ in changes]
    for kind, name, changed in changes:
        setattr(kind, name, changed)
    try:
        yield
    finally:
        for kind, name, own in before:
            setattr(kind, name, own)
        if collecting:
            if not gc.get_freeze_count():  # what is new counts as old, and is not looked through at once
                gc.freeze()
                gc.unfreeze()
            gc.enable()
