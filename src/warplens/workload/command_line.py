"""Calls that are written on a command line: grid, block and arguments, with or without a launch file.

[NAME=]NUMBER              a scalar; of a pointer, how many elements it points to
[NAME=][TYPE][COUNT]       an array; the type may be left out where the kernel's is known
[NAME=]TYPE:VALUE          a scalar of a type, or bytes:HEX
[NAME=]null                a null pointer
...:FILL                   behind an array: its contents, as in a launch file
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError, nearest
from warplens.workload.interface import Interface, Parameter
from warplens.workload.launch import CONTENTS_ASSUMED, SCALAR_BYTES, KernelCall, default_fill, parse_launch
from warplens.workload.suggested_launch import starting_words

_NAME = re.compile(r"([A-Za-z_][\w.:]*)=(.*)", re.DOTALL)
_ARRAY = re.compile(r"([a-z]\w*)?\*?\[([^\]]*)\](?::(.+))?", re.DOTALL)
_TYPED = re.compile(r"([a-z]+\d*):(.+)", re.DOTALL)
_HOW = "write NAME=NUMBER, NAME=[COUNT] or NAME=f32[COUNT]:FILL (docs/reference/launch-file.md)"
_WHERE = "command line"
_MOST_NAMED = 4  # arrays of which a note says what they are taken to hold


class ArgumentText(Struct, frozen=True):
    """One argument as it is written; parts that are not written are None."""

    text: str
    name: str | None = None
    type: str | None = None
    count: int | None = None
    value: float | int | str | None = None
    fill: str | None = None
    null: bool = False

    def keys(self, kind: str, size_bytes: int = 0) -> dict[str, Any]:
        """Return the keys of an [[arg]] of this type, or of the type that was written; unknown is an empty one."""
        known = kind or self._guessed(size_bytes)
        base, pointer = self.type or known.rstrip("*"), known.endswith("*") or self.count is not None
        if self.null:
            return {"type": f"{base or 'u8'}*", "value": 0}
        if not base:
            raise WarplensError(f"{self.text}: the type of its elements is not known: write it, as in f32[1024]")
        if not pointer:
            if self.fill is not None:
                raise WarplensError(f"{self.text}: only an array is filled; it is a {base}")
            return {"type": base, "value": self.value}
        count = self.count if self.count is not None else self.value
        if not isinstance(count, int):
            raise WarplensError(f"{self.text}: a pointer is given by the number of its elements, as in [1024]")
        return {"type": f"{base}*", "count": count, "fill": self.fill or default_fill(base)}

    def _guessed(self, size_bytes: int) -> str:
        """Return a type for a number of an unknown one, by its size."""
        if self.type or self.count is not None or not isinstance(self.value, (int, float)):
            return ""
        whole = isinstance(self.value, int)
        if whole and size_bytes == 8:
            raise WarplensError(
                f"{self.text}: 8 bytes of an unknown type: write f32[{self.value}] for an array, or i64:{self.value}"
            )
        return {1: "i8", 2: "i16" if whole else "f16", 8: "f64"}.get(size_bytes, "i32" if whole else "f32")


def parse_argument(text: str, option: str = "--arg") -> ArgumentText:
    """Read an argument as it is written; `option` is for messages."""
    named = _NAME.fullmatch(text.strip())
    name, rest = (named[1], named[2].strip()) if named else (None, text.strip())
    if rest in ("null", "nullptr", "NULL"):
        return ArgumentText(text, name, null=True)
    if array := _ARRAY.fullmatch(rest):
        if array[1] is not None and array[1] not in SCALAR_BYTES:
            raise WarplensError(f"{option} {text}: unknown type {array[1]!r}{nearest(array[1], SCALAR_BYTES)}")
        count = _number(array[2], text, option)
        if not isinstance(count, int):
            raise WarplensError(f"{option} {text}: the number of elements is a whole number, not {array[2].strip()!r}")
        return ArgumentText(text, name, array[1], count, fill=array[3])
    if (typed := _TYPED.fullmatch(rest)) and (typed[1] in SCALAR_BYTES or typed[1] == "bytes"):
        value = typed[2].strip() if typed[1] == "bytes" else _number(typed[2], text, option)
        return ArgumentText(text, name, typed[1], value=value)
    number, _, fill = rest.partition(":")
    return ArgumentText(text, name, value=_number(number, text, option), fill=fill or None)


def _number(written: str, text: str, option: str) -> float | int:
    plain = written.strip().replace("_", "")
    try:
        return int(plain, 0)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError:
        raise WarplensError(f"{option} {text}: {written.strip()!r} is no number; {_HOW}") from None


def parse_shape(text: str, option: str) -> int | list[int]:
    """Read `128`, `128,64` or `128x64x1`."""
    parts = re.split(r"\s*[,x]\s*", text.strip().strip("()[]"))
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise WarplensError(f"{option} takes one to three whole numbers, as in 1024 or 128,64, not {text!r}")
    return int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]


class Flags(Struct, frozen=True):
    """The options of a command line that describe a call, as they are written."""

    grid: str | None = None
    block: str | None = None
    shared: int | None = None
    num_warps: int | None = None
    arguments: list[str] = []
    variables: list[str] = []

    def __bool__(self) -> bool:
        """Return whether any is given."""
        return self != Flags()


def call_of(kernel: Interface, flags: Flags, file: str | Path) -> KernelCall:
    """Return the call of a kernel; what is missing is named, with what to write."""
    texts = [parse_argument(text) for text in flags.arguments]
    parameters = list[Parameter]()
    for p in kernel.parameters:  # members, as they are given, replace a structure of which none are known
        members = [g.name for g in texts if g.name and g.name.startswith(f"{p.name}.")] if p.type == "bytes" else []
        parameters += [Parameter(name, "", "") for name in dict.fromkeys(members)] or [p]
    kernel = replace(kernel, parameters=parameters)
    given = _by_name(texts, [p.name for p in kernel.parameters])
    shape = _shape(flags)
    if kernel.triton and "block" in shape and "num_warps" not in shape:
        block = shape["block"]
        shape["num_warps"] = max(1, (block if isinstance(block, int) else math.prod(block)) // 32)
    shape.pop("block" if kernel.triton else "num_warps", None)
    needed = {"--grid": "grid"} | ({"--num-warps": "num_warps"} if kernel.triton else {"--block": "block"})
    missing = [option for option, key in needed.items() if key not in shape]
    missing += [p.name for p in kernel.parameters if p.name not in given]
    if missing:
        words = starting_words(kernel)
        said = " ".join(f"{name if name.startswith('--') else '--arg'} {words[name]}" for name in missing)
        raise WarplensError(f"{kernel.chosen}: missing: {said} (the sizes are guesses: set them to your program's)")
    passed = [p for p in kernel.parameters if not p.constant]
    arguments = [{"name": p.name, **given[p.name].keys(p.type, p.size_bytes)} for p in passed]
    constants = {p.name: _constant(given[p.name]) for p in kernel.parameters if p.constant}
    tree = {
        "file": str(Path(file)), "kernel": kernel.chosen, **shape, "arg": arguments,
        **({"constexpr": constants} if constants else {}), "global": _variables(flags, kernel.variables, []),
        "notes": _assumed([(row, given[p.name]) for p, row in zip(passed, arguments, strict=True)]),
    }  # fmt: skip
    return parse_launch(tree, _WHERE)


def changed(call: KernelCall, flags: Flags) -> KernelCall:
    """Return the call of a launch file with its values replaced by those of the command line."""
    tree = msgspec.to_builtins(call)
    tree = {key: value for key, value in tree.items() if key not in ("folder", "variant")} | _shape(flags)
    rows = tree.get("arg", [])
    names = [row.get("name") or str(i) for i, row in enumerate(rows)]
    constants = tree.get("constexpr", {})
    for name, given in _by_name([parse_argument(text) for text in flags.arguments], [*names, *constants]).items():
        if name in constants:
            constants[name] = _constant(given)
            continue
        row = rows[names.index(name)]
        keys = given.keys(str(row["type"]))
        if "fill" in row and given.fill is None and "fill" in keys:
            keys["fill"] = row["fill"]
        rows[names.index(name)] = {**({"name": row["name"]} if "name" in row else {}), **keys}
    if flags.variables:
        tree["global"] = _variables(flags, [], tree.get("global", []))
    return replace(parse_launch(tree, _WHERE, folder=call.folder), variant=call.variant)


def _assumed(rows: list[tuple[dict[str, Any], ArgumentText]]) -> list[str]:
    """Return a note of the arrays of whole numbers whose contents nobody wrote: they are often indices or lengths."""
    chosen = [f"{row['name']} = {row['fill']}" for row, given in rows
              if given.fill is None and "fill" in row and row["type"][0] in "iu"]  # fmt: skip
    more = f" and {len(chosen) - _MOST_NAMED} more" if len(chosen) > _MOST_NAMED else ""
    return [f"{CONTENTS_ASSUMED}{', '.join(chosen[:_MOST_NAMED])}{more}"] if chosen else []


def _shape(flags: Flags) -> dict[str, Any]:
    said = {
        "grid": None if flags.grid is None else parse_shape(flags.grid, "--grid"),
        "block": None if flags.block is None else parse_shape(flags.block, "--block"),
        "dynamic_shared_bytes": flags.shared, "num_warps": flags.num_warps,
    }  # fmt: skip
    return {key: value for key, value in said.items() if value is not None}


def _by_name(given: list[ArgumentText], names: list[str]) -> dict[str, ArgumentText]:
    """Return the argument given for each name; those without a name go to the first free names, in order."""
    found = dict[str, ArgumentText]()
    for one in given:
        if one.name is None:
            continue
        if one.name not in names:
            there = f"; there are: {', '.join(names)}" if names else "; it takes none"
            raise WarplensError(f"--arg {one.text}: no argument {one.name!r}{nearest(one.name, names) or there}")
        if one.name in found:
            raise WarplensError(f"--arg {one.name} is given twice")
        found[one.name] = one
    for one in given:
        if one.name is None:
            free = next((name for name in names if name not in found), None)
            if free is None:
                raise WarplensError(f"--arg {one.text}: one too many: the kernel takes {', '.join(names) or 'none'}")
            found[free] = one
    return found


def _constant(given: ArgumentText) -> Any:
    if given.count is not None or given.fill is not None:
        raise WarplensError(f"--arg {given.text}: a constant is a number")
    return None if given.null else given.value


def _variables(flags: Flags, known: list[Parameter], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the [[global]] tables `before`, those that the command line gives replaced or added."""
    kinds = {name: p.type.rstrip("*") for p in known for name in (p.name, p.name.rpartition("::")[2])}
    kinds |= {row["name"]: row["type"] for row in before}
    rows = {row["name"]: row for row in before}
    for text in flags.variables:
        given = parse_argument(text, "--global")
        if given.name is None:
            raise WarplensError(f"--global {text}: write NAME=VALUE, NAME=f32[COUNT]:FILL or NAME=TYPE:VALUE")
        if given.null:
            raise WarplensError(f"--global {text}: a variable holds numbers: write {given.name}=VALUE")
        kind = given.type or kinds.get(given.name, "") or ("f32" if isinstance(given.value, float) else "i32")
        filled = {"count": given.count, "fill": given.fill or "random"}
        keys = {"value": given.value} if given.count is None else filled
        rows[given.name] = {"name": given.name, "type": kind, **keys}
    return list(rows.values())
