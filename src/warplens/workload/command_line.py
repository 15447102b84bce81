"""Calls that are written on a command line: grid, block and arguments, with or without a launch file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError, nearest
from warplens.workload.arguments import Given, parse_given, parse_shape
from warplens.workload.interface import Interface, Parameter
from warplens.workload.launch import CONTENTS_ASSUMED, KernelCall, parse_launch
from warplens.workload.suggested_launch import starting_words

_WHERE = "command line"
_MOST_NAMED = 4  # arrays of which a note says what they are taken to hold


class Flags(Struct, frozen=True):
    """What a command line says of a call, as it is written."""

    grid: str | None = None
    block: str | None = None
    shared: int | None = None
    num_warps: int | None = None
    arguments: list[str] = []
    variables: list[str] = []

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return self != Flags()


def call_of(kernel: Interface, flags: Flags, file: str | Path) -> KernelCall:
    """Return the call of a kernel; what is missing is named, with what to write."""
    texts = [parse_given(text) for text in flags.arguments]
    kernel = replace(kernel, parameters=_with_members(kernel.parameters, texts))
    given = _by_name(texts, [p.name for p in kernel.parameters])
    shape = _shape(flags)
    if kernel.triton and "block" in shape and "num_warps" not in shape:
        shape["num_warps"] = max(1, _threads(shape["block"]) // 32)
    shape.pop("block" if kernel.triton else "num_warps", None)
    needed = {
        "--grid": "grid",
        "--num-warps" if kernel.triton else "--block": "num_warps" if kernel.triton else "block",
    }
    missing = [option for option, key in needed.items() if key not in shape]
    missing += [p.name for p in kernel.parameters if p.name not in given]
    if missing:
        words = starting_words(kernel)
        said = " ".join(
            f"{name} {words[name]}" if name.startswith("--") else f"--arg {words[name]}" for name in missing
        )
        raise WarplensError(f"{kernel.chosen}: missing: {said} (the sizes are guesses: set them to your program's)")
    taken = [p for p in kernel.parameters if not p.constant]
    arguments = [_argument(p, given[p.name]) for p in taken]
    constants = {p.name: _constant(given[p.name]) for p in kernel.parameters if p.constant}
    tree = {
        "file": str(Path(file)), "kernel": kernel.chosen, **shape, "arg": arguments,
        **({"constexpr": constants} if constants else {}), "global": _variables(flags, kernel.variables, []),
        "notes": _assumed([(row, given[p.name]) for p, row in zip(taken, arguments, strict=True)]),
    }  # fmt: skip
    return parse_launch(tree, _WHERE)


def changed(call: KernelCall, flags: Flags) -> KernelCall:
    """Return the call of a launch file with what the command line says in its place."""
    tree = msgspec.to_builtins(call)
    tree = {key: value for key, value in tree.items() if key not in ("folder", "variant")} | _shape(flags)
    rows = tree.get("arg", [])
    names = [row.get("name") or str(i) for i, row in enumerate(rows)]
    constants = tree.get("constexpr", {})
    for name, given in _by_name([parse_given(text) for text in flags.arguments], [*names, *constants]).items():
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


def _with_members(parameters: list[Parameter], given: list[Given]) -> list[Parameter]:
    """Return the parameters with members, as they are given, in the place of structures of which none are known."""
    made = list[Parameter]()
    for p in parameters:
        members = [g.name for g in given if g.name and g.name.startswith(f"{p.name}.")] if p.type == "bytes" else []
        made += [Parameter(name, "", "") for name in dict.fromkeys(members)] or [p]
    return made


def _assumed(rows: list[tuple[dict[str, Any], Given]]) -> list[str]:
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


def _threads(block: int | list[int]) -> int:
    count = 1
    for extent in [block] if isinstance(block, int) else block:
        count *= extent
    return count


def _by_name(given: list[Given], names: list[str]) -> dict[str, Given]:
    """Return what is given of each name; what is given without one goes to the first that has nothing, in order."""
    found = dict[str, Given]()
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


def _argument(p: Parameter, given: Given) -> dict[str, Any]:
    return {"name": p.name, **given.keys(p.type, p.size_bytes)}


def _constant(given: Given) -> Any:
    if given.count is not None or given.fill is not None:
        raise WarplensError(f"--arg {given.text}: a constant is a number")
    return None if given.null else given.value


def _variables(flags: Flags, known: list[Parameter], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the [[global]] tables: those that are there, and what the command line says in their place."""
    kinds = {p.name: p.type.rstrip("*") for p in known} | {
        p.name.rpartition("::")[2]: p.type.rstrip("*") for p in known
    }
    kinds |= {row["name"]: row["type"] for row in before}
    made = {row["name"]: row for row in before}
    for text in flags.variables:
        given = parse_given(text, "--global")
        if given.name is None:
            raise WarplensError(f"--global {text}: write NAME=VALUE, NAME=f32[COUNT]:FILL or NAME=TYPE:VALUE")
        if given.null:
            raise WarplensError(f"--global {text}: a variable holds numbers: write {given.name}=VALUE")
        kind = given.type or kinds.get(given.name, "") or ("f32" if isinstance(given.value, float) else "i32")
        row: dict[str, Any] = {"name": given.name, "type": kind}
        if given.count is not None:
            row |= {"count": given.count, "fill": given.fill or "random"}
        else:
            row |= {"value": given.value}
        made[given.name] = row
    return list(made.values())
