"""Arrays for compiled code behind one pointer.

A view is a block of addresses and shapes. Compiled code that is handed a view passes one word on, where a tuple of
arrays would pass a hundred, counts no references, and knows the sizes that are fixed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulator.bits import bare_array, intrinsic

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
