"""Handlers of instructions: a compiled function per operation or group of operations, called by its address.

Each is compiled on its own, when a program first has such an instruction, and kept on disk. The engine calls through
addresses, so that no function is compiled a second time as a part of another.

    @handler(ops.SINGLE, ops.FFMA)
    def _fused(m, pc, w, g, mask):     # machine, place in the code, warp, group of lanes, lanes that execute
        ...
        return FINE

A handler gets its arrays as a view: a block of addresses and shapes behind one pointer. Compiled code passes one word
on, where a tuple of arrays would pass a hundred, counts no references, and knows the sizes that are fixed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.core.native import Function
from warplens.emulator import layout, ops
from warplens.emulator.bits import OPTIONS, bare_array, intrinsic, sources

Shape = tuple[int, ...]  # 0: read from the block


class View:
    """What a view holds: name of each array, its element type and shape, or another view in its place."""

    def __init__(self, name: str, **fields: tuple[Any, Shape] | View) -> None:
        self.name, self.fields = name, fields
        self.places, self.words = dict[str, int](), 0
        for key, field in fields.items():
            self.places[key] = self.words
            self.words += field.words if isinstance(field, View) else 1 + len(field[1])

    def describe(self, arrays: Any, block: Block) -> None:
        """Write the addresses and shapes of arrays, found by name in a mapping, to a block that has others or none.

        Most of them are those that it has.
        """
        held, words = block.held, block.words
        for key, field in self.fields.items():
            value = arrays[key]
            if value is held.get(key):
                continue
            if isinstance(field, View):
                inner = Block(field, words[self.places[key] :])
                field.describe(value._asdict(), inner)
            else:
                dtype, shape = field
                assert value.dtype == dtype, key
                assert value.flags.c_contiguous, key
                assert value.ndim == len(shape), key
                assert all(wanted in (0, size) for wanted, size in zip(shape, value.shape, strict=True)), key
                at = self.places[key]
                words[at : at + 1 + len(shape)] = (value.ctypes.data, *value.shape)
            held[key] = value


class Block:
    """What compiled code reads of a view: addresses and shapes, and the arrays that these are of."""

    def __init__(self, view: View, words: npt.NDArray[np.int64] | None = None) -> None:
        self.words = np.zeros(view.words, np.int64) if words is None else words
        self.held: dict[str, Any] = {}
        self.address = int(self.words.ctypes.data)


@cache
def view_type(view: View) -> Any:
    """Return Numba's type of a view."""
    return _types()(view)


@cache
def _types() -> Any:
    """Tell Numba of views: in machine code each is a pointer; an attribute is an array, or the view in its place."""
    from llvmlite import ir
    from numba import types
    from numba.core.typing.templates import AttributeTemplate, infer_getattr
    from numba.extending import lower_getattr_generic, models, register_model
    from numba.np.numpy_support import from_dtype

    decorators: Any = (infer_getattr, lower_getattr_generic, register_model)  # their types describe less than they take
    infer, lower, register = decorators

    class ViewType(types.Type):
        def __init__(self, view: View) -> None:
            super().__init__(name=f"View({view.name})")
            self.view = view

    @register(ViewType)
    class Model(models.OpaqueModel):
        pass

    @infer
    class Attributes(AttributeTemplate):
        key = ViewType

        def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
            field = kind.view.fields.get(name)
            if field is None or isinstance(field, View):
                return field and view_type(field)
            return types.Array(from_dtype(np.dtype(field[0])), len(field[1]), "C")

    @lower(ViewType)  # type: ignore[untyped-decorator]
    def attribute(context: Any, builder: Any, kind: Any, pointer: Any, name: str) -> Any:
        """Make an array of what the block says; the block does not change while compiled code runs."""
        word, view = ir.IntType(64), kind.view
        block, at, field = builder.bitcast(pointer, word.as_pointer()), view.places[name], view.fields[name]
        if isinstance(field, View):
            return builder.bitcast(builder.gep(block, [word(at)]), context.get_value_type(view_type(field)))

        def read(place: int) -> Any:
            value = builder.load(builder.gep(block, [word(place)]))
            value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value

        dtype, shape = from_dtype(np.dtype(field[0])), field[1]
        data = builder.inttoptr(read(at), context.get_data_type(dtype).as_pointer())
        sizes = [word(size) if size else read(at + 1 + k) for k, size in enumerate(shape)]
        return bare_array(context, builder, dtype, data, sizes)

    return ViewType


def viewed(view: View) -> Any:
    """Return a function for compiled code that turns the address of a block into its view."""

    def at(context: Any, address: Any) -> Any:
        from numba import types

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(view_type(view)))

        return view_type(view)(types.int64), generate

    return intrinsic(at)


PAGES = View(
    "Pages", arrays=(np.int64, (0, 13)), numbers=(np.float64, (0, 2)), table=(np.int32, (0,)),
    words=(np.uint32, (0, 256)), filled=(np.uint32, (0,)), slots=(np.int64, (0,)), given=(np.uint8, (0,)),
)  # fmt: skip
# All that an instruction reaches: the arrays of engine.State, engine.Names and engine.Memory, and its own code.
MACHINE = View(
    "Machine", table=(np.int64, (0, ops.COLUMNS)), handlers=(np.int64, (0,)), services=(np.int64, (0,)),
    reads=(np.int64, (0,)), reads_at=(np.int64, (0,)), writes=(np.int64, (0,)), writes_at=(np.int64, (0,)),
    registers=(np.uint32, (0, 0, 32)), predicates=(np.uint32, (0, 17)), threads=(np.int64, (0, 3, 32)),
    warps=(np.int64, (0, layout.WARP_COLUMNS)), blocks=(np.int64, (0, layout.BLOCK_COLUMNS)),
    unknown=(np.uint32, (0, 0)), flags=(np.int64, (0,)), pages=PAGES, shared=(np.uint32, (0, 0)),
    local=(np.uint32, (0, 0)), banks=(np.uint32, (0, 0)), stats=(np.int64, (0, layout.STATISTICS)),
    scratch=(np.int64, (layout.SCRATCH,)), l1=(np.int64, (4, 0, 0, 0)), l2=(np.int64, (4, 0, 0, 0)),
    touched=(np.uint32, (0, 0)), trace=(np.int32, (0, 3)), calls=(np.int64, (0,)), marks_global=(np.uint32, (0, 8)),
    marks_shared=(np.uint32, (0, 0)), marks_local=(np.uint32, (0, 0)),
    assumed=(np.int64, (0, 3)), turns=(np.int64, (0, 0)), samples=(np.int64, (0, 0, layout.SAMPLE_COLUMNS)),
    patterns=(np.int64, (layout.PATTERN_ROWS, layout.PATTERN_COLUMNS)), idle=(np.int64, (0, 2)),
)  # fmt: skip
_PARTS = (
    "integer", "floating", "half", "lanes", "access", "atomics", "control", "pages",
    "cache", "packed", "tensor", "asynchronous", "marks",
)  # fmt: skip
ANY = -1
_OPERATIONS = 1 << 16  # more than a group has
FILL, ACCOUNT, SMALL, CACHES, MARKS = range(5)  # services: what several handlers call, to be compiled only once


@cache
def _signature() -> Any:
    """Return Numba's signature of a handler."""
    from numba import types

    whole: Any = types.int64
    return whole(view_type(MACHINE), whole, whole, whole, types.uint32)


def _compiled(function: Callable[..., Any]) -> Function:
    return Function(function, _signature, OPTIONS, sources)


_HANDLERS: dict[tuple[int, int], Function] = {}
_SERVICES: dict[int, Function] = {}


def handler(group: int, *operations: int) -> Callable[[Callable[..., Any]], Function]:
    """Say that a function runs these operations of a group; without operations, all that no other function runs."""

    def keep(function: Callable[..., Any]) -> Function:
        made = _compiled(function)
        _HANDLERS.update({(group, op): made for op in operations or (ANY,)})
        return made

    return keep


def service(number: int) -> Callable[[Callable[..., Any]], Function]:
    """Say that a function is this service; its four arguments after the machine mean what it says."""

    def keep(function: Callable[..., Any]) -> Function:
        _SERVICES[number] = _compiled(function)
        return _SERVICES[number]

    return keep


def services(table: npt.NDArray[np.int64], l1: npt.NDArray[np.int64], unknown: bool) -> list[Function | None]:
    """Return the services; that of the caches only if there are any, that of marks if values may be unknown."""
    made = [_SERVICES[number] for number in (FILL, ACCOUNT, SMALL)]
    copies = (table[:, ops.GROUP] == ops.ASYNC) & (table[:, ops.OP] == ops.TENSOR_LOAD)
    unknown = unknown or bool((copies | (table[:, ops.GROUP] == ops.UNKNOWN)).any())
    return [*made, _SERVICES[CACHES] if l1.size else None, _SERVICES[MARKS] if unknown else None]


@cache
def _import_parts() -> None:
    """Fill the table of handlers."""
    for part in _PARTS:
        importlib.import_module(f"warplens.emulator.{part}")


def handlers(table: npt.NDArray[np.int64]) -> tuple[list[Function | None], npt.NDArray[np.int64]]:
    """Return the functions that a code table needs (None: nothing to run), and which of them runs each row."""
    _import_parts()
    numbers, each = np.unique(table[:, ops.GROUP] * _OPERATIONS + table[:, ops.OP], return_inverse=True)
    pairs = [divmod(number, _OPERATIONS) for number in numbers.tolist()]
    return [_HANDLERS.get((group, op)) or _HANDLERS.get((group, ANY)) for group, op in pairs], each


def _call(context: Any, address: Any, m: Any, pc: Any, w: Any, g: Any, mask: Any) -> Any:
    from llvmlite import ir
    from numba import types

    handler = _signature()

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = [context.get_value_type(kind) for kind in handler.args]
        kind = ir.FunctionType(context.get_value_type(handler.return_type), kinds)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(types.int64, *handler.args), generate


call = intrinsic(_call)  # the handler at an address
