"""Launch files: one call of a kernel, with its grid, block, arguments and the contents of its arrays.

    file = "saxpy.cu"
    kernel = "saxpy"
    grid = [4096, 1, 1]
    block = [256, 1, 1]
    [[arg]]
    name = "n"
    type = "i32"
    value = 1048576
    [[arg]]
    name = "x"
    type = "f32*"
    count = 1048576
    fill = "random"
    [variant.small]              # the same call with some keys replaced
    grid = 4
    arg.n = 1024                 # an argument by its name
    arg.x.count = 1024

A Triton kernel's has `num_warps` in the place of `block`, and its compile-time constants in a table [constexpr].
Nothing in a launch file is evaluated as code; `fill` is one of the functions of `warplens.workload.contents`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from warplens.core import file_kinds as kinds
from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import convert, read_toml

SCALAR_BYTES = {
    "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
}  # fmt: skip
_INTEGERS = {f"u{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)}
_INTEGERS |= {f"i{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)}
CONTENTS_ASSUMED = "contents assumed: "  # begins the note of a call whose arrays' contents nobody wrote
_NO_BLOCK = "a Triton kernel's follows from num_warps"
_LARGEST_MEMORY = 1 << 40
_LARGEST_GRID = (2**31 - 1, 65535, 65535)

Extent = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Shape = Extent | Annotated[list[Extent], Meta(min_length=1, max_length=3)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a launch file: an unknown key is refused."""


class Argument(_Part, frozen=True):
    """A kernel argument: a scalar with its `value`, a pointer (`f32*`) to `count` elements, or raw `bytes` in hex.

    `align` is what a structure given as `bytes` is aligned to, in bytes. Without a `fill` an array holds zeros, and an
    answer that depends on them says so.
    """

    type: str
    name: str = ""
    value: float | int | str | None = None
    count: Annotated[int, Meta(ge=0, le=1 << 44)] | None = None
    fill: str = ""
    align: Literal[1, 2, 4, 8, 16, 32, 64, 128] | None = None

    @property
    def is_pointer(self) -> bool:
        """True if the argument points to an array."""
        return self.type.endswith("*")

    @property
    def element(self) -> str:
        """The scalar type, of the elements for a pointer."""
        return self.type.rstrip("*")

    @property
    def size_bytes(self) -> int:
        """Bytes of the argument among the kernel's parameters."""
        if self.is_pointer:
            return 8
        return len(str(self.value)) // 2 if self.type == "bytes" else SCALAR_BYTES[self.type]

    @property
    def align_bytes(self) -> int:
        """The divisor of its offset among the parameters: its size, 8 for `bytes` unless `align` says another."""
        return self.align or (8 if self.is_pointer else SCALAR_BYTES.get(self.type, 8))


class Variable(_Part, frozen=True, kw_only=True):
    """A `__device__` or `__constant__` variable: its one `value`, or the `fill` of its elements.

    `count` is the number of elements that are filled: all where none is given.
    """

    name: Annotated[str, Meta(min_length=1)]
    type: str
    value: float | int | str | None = None
    count: Annotated[int, Meta(ge=0, le=1 << 28)] | None = None
    fill: str = "zeros"


class Assumption(_Part, frozen=True):
    """An assumption on a branch or an access of a source line that depends on unknown values."""

    line: Annotated[int, Meta(ge=1)]
    taken_fraction: Annotated[float, Meta(ge=0, le=1)] | None = None
    trips: Annotated[float, Meta(ge=1, le=1e9)] | None = None
    bytes_apart: Annotated[int, Meta(ge=0, le=1 << 20)] | None = None


class KernelCall(_Part, frozen=True, kw_only=True):
    """One call of a kernel. Paths in it are relative to `folder`, where its file lies."""

    format: Literal[1] = 1
    kernel: str | None = None
    grid: Shape
    block: Shape | None = None
    dynamic_shared_bytes: Annotated[int, Meta(ge=0, le=1 << 24)] = 0
    l2: Literal["warm", "cold"] = "warm"
    file: str | None = None
    defines: list[str] = []
    includes: list[str] = []
    flags: list[str] = []
    fast_math: bool = False
    register_limit: Annotated[int, Meta(ge=16, le=255)] | None = None
    num_warps: Literal[1, 2, 4, 8, 16, 32] | None = None
    num_stages: Annotated[int, Meta(ge=1, le=16)] | None = None
    constexpr: dict[str, bool | int | float | str | None] = {}
    source: str = ""
    notes: list[str] = []
    arguments: list[Argument] = field(default_factory=list, name="arg")
    variables: list[Variable] = field(default_factory=list, name="global")
    assumptions: list[Assumption] = field(default_factory=list, name="assume")
    folder: str = "."
    variant: str = ""

    @property
    def grid_shape(self) -> tuple[int, int, int]:
        """Blocks in x, y and z."""
        return _three(self.grid)

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """Threads of a block in x, y and z; a Triton kernel's compiler may add warps of its own to them."""
        return _three(self.block if self.block is not None else 32 * (self.num_warps or 0))

    @property
    def blocks(self) -> int:
        """Blocks of the whole grid."""
        return math.prod(self.grid_shape)

    @property
    def threads_per_block(self) -> int:
        """Threads of one block."""
        return math.prod(self.block_shape)


def load_launch(path: str | Path, variant: str = "") -> KernelCall:
    """Read a launch file. `variant` names variants of it to apply, separated by commas, in this order."""
    path = Path(path)
    return parse_launch(kinds.read(path, "launch"), str(path), variant, folder=str(path.parent))


def default_fill(kind: str) -> str:
    """Return the contents of an array for which none are written: numbers, or whole ones small enough for indices."""
    return "random" if kind[0] in "fb" or SCALAR_BYTES[kind.rstrip("*")] == 1 else "hash_mod(64)"


def list_variants(path: str | Path) -> list[str]:
    """Return the names of the variants in a launch file."""
    table = read_toml(Path(path)).get("variant", {})
    return list(table) if isinstance(table, dict) else []


def parse_launch(tree: dict[str, Any], file: str, variant: str = "", folder: str = ".") -> KernelCall:
    """Turn the tree of a launch file into a call; `file` is for messages."""
    kinds.expect(tree, "launch", file)
    tree = dict(tree)
    variants = tree.pop("variant", {})
    if not isinstance(variants, dict):
        raise FileError(f"{file}: variant: must be tables, as in [variant.small]")
    for key in ("folder", "variant"):
        if key in tree:
            raise FileError(f"{file}: {key}: unknown key")
    for name in [part.strip() for part in variant.split(",") if part.strip()]:
        if name not in variants:
            there = f"; there are: {', '.join(variants)}" if variants else "; it has none"
            raise FileError(f"{file}: no variant {name!r}{nearest(name, variants) or there}")
        tree = _overlaid(tree, variants[name], f"{file}: variant.{name}")
    call = convert({**tree, "folder": folder, "variant": variant}, KernelCall, file)
    _check(call, file)
    return call


def _overlaid(tree: dict[str, Any], changes: Any, where: str) -> dict[str, Any]:
    """Return the tree with the keys of a variant replaced; arguments are replaced by name."""
    if not isinstance(changes, dict):
        raise FileError(f"{where}: must be a table")
    merged = {**tree, **{key: value for key, value in changes.items() if key not in ("arg", "constexpr")}}
    constants = tree.get("constexpr", {}), changes.get("constexpr", {})
    if all(isinstance(table, dict) for table in constants) and any(constants):
        merged["constexpr"] = constants[0] | constants[1]
    by_name = changes.get("arg", {})
    if not isinstance(by_name, dict):
        raise FileError(f"{where}.arg: must be a table of arguments by name, as in arg.n = 1024")
    arguments = [dict(a) if isinstance(a, dict) else a for a in tree.get("arg", [])]
    names = [a.get("name") if isinstance(a, dict) else None for a in arguments]
    for name, change in by_name.items():
        if name not in names:
            raise FileError(f"{where}.arg.{name}: no such argument{nearest(name, [n for n in names if n])}")
        arguments[names.index(name)].update(change if isinstance(change, dict) else {"value": change})
    return {**merged, "arg": arguments} if arguments else merged


def _check(call: KernelCall, file: str) -> None:
    """Refuse a call that the types allow and a GPU does not."""
    if (call.block is None) == (call.num_warps is None):
        raise FileError(f"{file}: block: {'missing' if call.block is None else _NO_BLOCK}")
    if call.threads_per_block > 1024:
        raise FileError(f"{file}: block: {call.threads_per_block} threads; a block has at most 1024")
    if call.block_shape[2] > 64:
        raise FileError(f"{file}: block: {call.block_shape[2]} threads in z; a block has at most 64 there")
    for extent, most, axis in zip(call.grid_shape, _LARGEST_GRID, "xyz", strict=True):
        if extent > most:
            raise FileError(f"{file}: grid: {extent} blocks in {axis}; a grid has at most {most} there")
    for i, argument in enumerate(call.arguments):
        _check_argument(argument, f"{file}: arg.{argument.name or i}")
    for variable in call.variables:
        _check_variable(variable, f"{file}: global.{variable.name}")
    for assumption in call.assumptions:
        beliefs = (assumption.taken_fraction, assumption.trips, assumption.bytes_apart)
        if sum(belief is not None for belief in beliefs) != 1:
            raise FileError(f"{file}: assume of line {assumption.line}: one of taken_fraction, trips, bytes_apart")
    size = sum((a.count or 0) * SCALAR_BYTES[a.element] for a in call.arguments if a.is_pointer)
    if size > _LARGEST_MEMORY:
        raise FileError(f"{file}: arg: arrays of {size:,} bytes; no GPU has more than {_LARGEST_MEMORY:,}")


def _check_argument(argument: Argument, where: str) -> None:
    kind = argument.element
    if kind not in SCALAR_BYTES and argument.type != "bytes":
        known = (*SCALAR_BYTES, *(f"{k}*" for k in SCALAR_BYTES), "bytes")
        raise FileError(f"{where}.type: unknown type {argument.type!r}{nearest(argument.type, known)}")
    if argument.align is not None and argument.type != "bytes":
        raise FileError(f"{where}.align: only for bytes; a {argument.type} is aligned to its size")
    if argument.is_pointer:
        if (argument.count is None) == (argument.value is None):
            raise FileError(f"{where}: a pointer needs the `count` of its elements (or `value = 0`, a null pointer)")
        if argument.value not in (None, 0):
            raise FileError(f"{where}.value: a pointer can only be 0; give its array by `count` and `fill`")
        return
    if argument.count is not None:
        raise FileError(f"{where}.count: only a pointer has elements; did you mean {argument.type!r} with a *?")
    if argument.value is None:
        raise FileError(f"{where}: missing `value`")
    if argument.type == "bytes":
        if not isinstance(argument.value, str) or not re.fullmatch(r"([0-9a-fA-F]{2})+", argument.value):
            raise FileError(
                f"{where}.value: {argument.value!r}: a structure's bytes are written in hex, as in '0000803f'; or give "
                f"its members one by one, as in --arg {argument.name or 'p'}.n=i32:1024 (docs/reference/launch-file.md)"
            )
    elif isinstance(argument.value, str):
        raise FileError(f"{where}.value: must be a number, not text")
    elif kind in _INTEGERS:
        (low, high), value = _INTEGERS[kind], argument.value
        if not low <= value <= high or value != int(value):  # in this order: int() of nan and inf fails
            raise FileError(f"{where}.value: {kind} holds whole numbers from {low} to {high}, not {value}")


def _check_variable(variable: Variable, where: str) -> None:
    if variable.type.endswith("*"):
        raise FileError(f"{where}.type: a variable that is a pointer cannot be given; {variable.type[:-1]!r} fills one")
    if variable.value is None:
        like = Argument(type=f"{variable.type}*", name=variable.name, count=variable.count or 0)
    elif variable.count is not None:
        raise FileError(f"{where}: a `value`, or `count` and `fill` of its elements, not both")
    else:
        like = Argument(type=variable.type, name=variable.name, value=variable.value)
    _check_argument(like, where)


def check_parameters(
    call: KernelCall, parameter_bytes: int, kernel: str, parameters: tuple[tuple[int, int], ...] = ()
) -> list[int]:
    """Return the offset of each argument among the kernel's parameters; refuse a call that does not fit.

    `parameters` has offset and size of each parameter where the compiler recorded them: a structure may be aligned, and
    its members may be given as arguments of their own.
    """
    if [size for _, size in parameters] == [a.size_bytes for a in call.arguments]:
        return [offset for offset, _ in parameters]
    if (found := _of_members(call.arguments, parameters)) is not None:
        return found
    offsets, _ = structure_layout(call.arguments)
    at = offsets[-1] + call.arguments[-1].size_bytes if offsets else 0
    if at != parameter_bytes:
        raise WarplensError(
            f"{kernel} takes {parameter_bytes} bytes of arguments, the launch file gives {at} "
            f"({len(call.arguments)} arguments: {', '.join(a.type for a in call.arguments) or 'none'})"
            + _first_unlike(call.arguments, parameters)
        )
    for i, (argument, first) in enumerate(zip(call.arguments, offsets, strict=True)):
        inside = [o <= first and first + argument.size_bytes <= o + size for o, size in parameters]
        if parameters and not any(inside):
            wanted = next((f": there is one of {size} bytes" for o, size in parameters if o == first), "")
            raise WarplensError(
                f"{kernel}: arg.{argument.name or i} ({argument.type}, {argument.size_bytes} bytes) does not fit the "
                f"parameter at its place{wanted}"
            )
    return offsets


def _of_members(arguments: list[Argument], parameters: tuple[tuple[int, int], ...]) -> list[int] | None:
    """Return the offsets where each parameter is one argument, or a structure whose members are arguments in a row.

    A structure ends where its strictest member's alignment says, as in C: what follows it is not taken for a member.
    """
    fitting = {len(arguments): list[int]()}  # by how many arguments lie before it: offsets from a place on
    for first, size in reversed(parameters):
        found = dict[int, list[int]]()
        for stop, rest in fitting.items():
            for start in range(stop - 1, -1, -1):
                offsets, end = structure_layout(arguments[start:stop])
                if end == size:
                    found.setdefault(start, [first + offset for offset in offsets] + rest)
                if end > size:
                    break
        fitting = found
    return fitting.get(0)


def structure_layout(members: Sequence[Argument]) -> tuple[list[int], int]:
    """Return the offset of each member of a structure and its size, as in C."""
    at, offsets = 0, list[int]()
    for member in members:
        offsets.append(-(-at // member.align_bytes) * member.align_bytes)
        at = offsets[-1] + member.size_bytes
    strictest = max((member.align_bytes for member in members), default=1)
    return offsets, -(-at // strictest) * strictest


def _first_unlike(arguments: list[Argument], parameters: tuple[tuple[int, int], ...]) -> str:
    """Say which argument is the first that is missing, too many, or of another size than the parameter at its place."""
    for i, (_, size) in enumerate(parameters):
        if i == len(arguments):
            return f"; number {i + 1}, of {size} bytes, is missing"
        if arguments[i].size_bytes != size:
            named = f" ({arguments[i].name})" if arguments[i].name else ""
            return f"; number {i + 1}{named} has {arguments[i].size_bytes} bytes, the kernel's has {size}"
    return f"; number {len(parameters) + 1} is one too many" if parameters else ""


def _three(shape: int | list[int]) -> tuple[int, int, int]:
    values = [shape] if isinstance(shape, int) else [*shape]
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
