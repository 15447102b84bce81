"""Interfaces of kernels: the parameters of a launch, with names and types from the source where it can be read.

    types    the demangled name; of `extern "C"` kernels the source
    names    the source, where it has a kernel of this name with so many parameters
    sizes    the cubin

A structure by value is replaced by its members where the source declares them and they add up to its size.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from warplens.core.files import read_text
from warplens.program import declarations
from warplens.program.compile import Options
from warplens.program.cubin import Cubin, variables_of
from warplens.program.declarations import demangled, fitting, split_top
from warplens.program.load import Kernel as Found
from warplens.program.load import found_kernels
from warplens.program.triton import called_functions, extract, pointers_of, split_name
from warplens.workload.launch import SCALAR_BYTES, Argument, structure_layout

_SCALARS = {
    "char": "i8", "signed char": "i8", "unsigned char": "u8", "bool": "u8", "short": "i16", "unsigned short": "u16",
    "int": "i32", "unsigned int": "u32", "unsigned": "u32", "long": "i64", "long long": "i64", "unsigned long": "u64",
    "unsigned long long": "u64", "float": "f32", "double": "f64", "__half": "f16", "half": "f16",
    "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "__nv_fp8_e4m3": "u8", "__nv_fp8_e5m2": "u8",
    "size_t": "u64", "ssize_t": "i64", "ptrdiff_t": "i64", "uintptr_t": "u64", "clock_t": "i64", "uint": "u32",
    "uchar": "u8", "ushort": "u16", "ulong": "u64", "longlong": "i64", "ulonglong": "u64", "__nv_bfloat16_": "bf16",
    **{f"{sign}int{bits}_t": f"{'u' if sign else 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_POINTER_BYTES = 8
_UNKNOWN_BYTES = 16  # of an element behind a pointer to void or to a structure: the most that one access takes


class Parameter(Struct, frozen=True):
    """One parameter of a launch: its name, its type in a launch file (empty: unknown), its type in the source.

    `lanes` is how many elements of the type one of the source has: 4 of a `float4 *`. A `constant` is compiled in, as
    are a variable's first contents.
    """

    name: str
    type: str
    written: str
    size_bytes: int = 0
    lanes: int = 1
    constant: bool = False

    @property
    def is_pointer(self) -> bool:
        """True if it points to an array."""
        return self.type.endswith("*")


class Interface(Struct, frozen=True):
    """The interface of a kernel. `chosen` is its name for `--kernel`; `body` its text, where there is a source.

    `tile` is the extent of its arrays in shared memory, `threads_max` and `threads_required` its launch bounds.
    """

    chosen: str
    demangled: str
    parameters: list[Parameter]
    variables: list[Parameter] = []
    body: str = ""
    tile: int | None = None
    threads_max: int | None = None
    threads_required: tuple[int, int, int] | None = None
    triton: bool = False


def interfaces(
    path: str | Path, options: Options | None = None, found_there: list[Found] | None = None
) -> list[Interface]:
    """Return the interface of every kernel in a file; `found_there` are its kernels, where they are known."""
    name, _ = split_name(str(path))
    if Path(name).suffix == ".py":
        return _of_triton(Path(name))
    there = found_kernels(Path(path), options or Options()) if found_there is None else found_there
    found = {kernel.name: kernel for kernel in there}
    readable = demangled(list(found))
    text = (
        declarations.with_types(declarations.without_comments(read_text(Path(path))))
        if Path(path).suffix in (".cu", ".cuh")
        else ""
    )
    declared, structures, variables = (
        declarations.declared_kernels(text),
        declarations.declared_structures(text),
        declarations.declared_variables(text),
    )
    entries = declarations.ptx_types(read_text(Path(path))) if Path(path).suffix == ".ptx" else {}
    each = []
    for mangled, kernel in found.items():
        cubin, long = kernel.container, readable[mangled]
        if not isinstance(cubin, Cubin):
            continue  # a listing has no parameters
        uses = cubin.resources(mangled)
        sizes = [size for _, size in uses.parameters]
        head = re.sub(r"<.*", "", long[: _opening(long)] if long.endswith(")") else long)
        bare = head.rpartition(" ")[2].rpartition("::")[2]  # no return type, namespace, template arguments, parameters
        known = next((k for k in declared if k.name == bare and len(k.parameters) == len(sizes)), None)
        if known is None and len(entries.get(mangled, ())) == len(sizes):
            known = declarations.Kernel(mangled, [(written, "") for written in entries[mangled]], "")
        body = known.body if known else ""
        each.append(Interface(
            _chosen(long, list(readable.values())), long, _parameters(long, sizes, known, structures),
            _variables(cubin, variables), body, declarations.shared_extent(body, long, text), uses.threads_max,
            uses.threads_required,
        ))  # fmt: skip
    return each


def _opening(long: str) -> int:
    """Return where the parameters of a demangled name begin: at the bracket that its last one closes."""
    depth = 0
    for at in range(len(long) - 1, -1, -1):
        depth += (long[at] == ")") - (long[at] == "(")
        if depth == 0:
            return at
    return len(long)


def _chosen(long: str, names: list[str]) -> str:
    """Return the shortest name that chooses this kernel."""
    short = long[: _opening(long)].removeprefix("void ") if long.endswith(")") else long
    known = {name: name for name in names}
    return next((name for name in (short, long.partition("(")[0]) if fitting(known, name) == [long]), long)


def _parameters(
    long: str, sizes: list[int], known: declarations.Kernel | None, structures: dict[str, list[tuple[str, str]]]
) -> list[Parameter]:
    """Return the parameters of a launch; a structure is replaced by its members."""
    types = split_top(long[_opening(long) + 1 : -1]) if long.endswith(")") else []
    types = [] if types == ["void"] else types
    if len(types) != len(sizes):
        types = [written for written, _ in known.parameters] if known else [""] * len(sizes)
    names = [f"arg{i}" for i in range(len(sizes))]
    if known and len({name for _, name in known.parameters if name and name not in _SCALARS}) == len(sizes):
        names = [name for _, name in known.parameters]
    parameters = list[Parameter]()
    for written, name, size in zip(types, names, sizes, strict=True):
        parameters += _members(written, name, size, structures) or [_parameter(written, name, size)]
    return parameters


def _parameter(written: str, name: str, size: int) -> Parameter:
    """Return a parameter of a type as it is written; bytes where the type is a structure, and what size it has."""
    written = "" if written == "?" else written
    kind, lanes = launch_type(written)
    if kind and size and (_POINTER_BYTES if kind.endswith("*") else SCALAR_BYTES[kind] * lanes) != size:
        kind, lanes = "", 1
    if (lanes > 1 and not kind.endswith("*")) or (not kind and (written or size not in (1, 2, 4, 8))):
        by_size = {1: "u8", 2: "u16", 4: "i32"}  # an enumeration, most often
        kind, lanes = ("bytes", 1) if lanes > 1 or size not in by_size else (by_size[size], 1)
    return Parameter(name, kind, _shown(written) or f"{size} bytes", size, lanes)


def launch_type(written: str) -> tuple[str, int]:
    """Return the type in a launch file of one as C++ or the demangler writes it, and how many of it that is."""
    plain = _shown(written)
    depth = plain.count("*")
    base = plain.replace("*", "").strip()
    if depth > 1:
        return "u64*", 1
    if base in _SCALARS:
        return _SCALARS[base] + "*" * depth, 1
    vector = re.fullmatch(r"(\w+?)([1-4])", base)
    if vector and vector[1] in _SCALARS:
        return _SCALARS[vector[1]] + "*" * depth, int(vector[2])
    return ("u8*", _UNKNOWN_BYTES) if depth else ("", 1)


def _shown(written: str) -> str:
    """Return a type without qualifiers, its pointers behind it."""
    plain = re.sub(r"\b(const|volatile|restrict|__restrict__|__restrict|__grid_constant__|struct)\b", " ", written)
    base = " ".join(plain.replace("*", " ").split()).removeprefix("std::")
    order = ("unsigned", "signed", "char", "short", "long", "int")
    words = base.split()
    if len(words) > 1 and set(words) <= set(order):  # `long unsigned int` is `unsigned long`
        words.sort(key=order.index)
        base = " ".join(w for w in words if w not in ("int", "signed")) or "int"
        base = {"unsigned": "unsigned int", "char": "char"}.get(base, base)
    return base + (" " + "*" * plain.count("*") if "*" in plain else "")


def _members(
    written: str, name: str, size: int, structures: dict[str, list[tuple[str, str]]]
) -> list[Parameter] | None:
    """Return the members of a structure by value as parameters, if they fill it by the layout of C."""
    fields = structures.get(_shown(written).rpartition("::")[2])
    if not fields or "*" in written:
        return None
    members = list[Parameter]()
    for kind, member in fields:
        inner = _shown(kind).rpartition("::")[2]
        if inner in structures and "*" not in kind:
            return None  # a structure within: its padding is not known here
        found, lanes = launch_type(kind)
        if not found or (lanes > 1 and not found.endswith("*")):
            return None
        width = _POINTER_BYTES if found.endswith("*") else SCALAR_BYTES[found]
        members.append(Parameter(f"{name}.{member}", found, _shown(kind), width, lanes))
    return members if structure_layout([Argument(type=m.type) for m in members])[1] == size else None


def _variables(cubin: Cubin, declared: dict[str, tuple[str, bool]]) -> list[Parameter]:
    """Return the variables of a module, with their types where the source has them."""
    variables = []
    names = demangled(list(sizes := variables_of(cubin)))
    for symbol, name in names.items():
        if name.startswith("__") or "::__" in name:
            continue  # the compiler's own
        written, is_set = declared.get(name.rpartition("::")[2], ("", False))
        kind, lanes = launch_type(written) if written else ("", 1)
        variables.append(Parameter(name, kind, _shown(written), sizes[symbol], lanes, is_set))
    return variables


def _of_triton(path: Path) -> list[Interface]:
    """Return the kernels of a Python file: Triton's functions that no other one calls; types follow from their use."""
    text = read_text(path)
    source = extract(text, str(path))
    called = called_functions(source.text)
    pointers = pointers_of(source.text)
    kernels = []
    for name, parameters in source.parameters.items():
        parameters_of = [
            Parameter(p, "", "tl.constexpr", constant=True) if constant
            else Parameter(p, "f32*" if p in pointers[name] else "i32", "pointer" if p in pointers[name] else "number")
            for p, constant in parameters.items()
        ]  # fmt: skip
        if name not in called:
            kernels.append(Interface(name, name, parameters_of, body=source.text, triton=True))
    return kernels
