"""Loader and writer of machine files: TOML in which every number is `{ value, unit, source, ref }`.

Refused, with file and key: a bare number, a number without source or reference, a unit other than the one
its field name carries, a value outside its physical range, an unknown key. What is written is read back as the same
machine.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from warplens.core.cache import computed_once
from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.file_kinds import expect
from warplens.core.files import convert, read_toml
from warplens.core.units import unit_of
from warplens.machine.base import based
from warplens.machine.machine import Machine, Source

FOLDER = Path(__file__).parent / "files"
_QUANTITY = {"value", "unit", "source", "ref", "date"}
_FREE = {"format"}  # numbers about the file, not about the GPU
_WIDTH_OF_LIST = 60  # of texts: a longer one is written a line each
_CLOSE = 0.7  # names of GPUs are short: half the letters of mi300x are in sm_100


def list_machines() -> list[Machine]:
    """Return the machines that ship with warplens, oldest architecture first."""
    machines = [_shipped(path) for path in sorted(FOLDER.glob("*.toml"))]
    return sorted(machines, key=lambda m: (m.compute_capability is None, _version(m.compute_capability), m.id))


def load_machine(name: str | Path) -> Machine:
    """Load a machine by id, alias or the path of its file."""
    text, path = str(name), _file(name)
    if path is not None:
        return _shipped(path) if path.parent == FOLDER else load_file(path)
    known: dict[str, Machine] = {}
    for machine in list_machines():
        known |= dict.fromkeys([machine.id, *machine.aliases], machine)
    if text.lower() in known:
        return known[text.lower()]
    ids = ", ".join(machine.id for machine in list_machines())
    raise WarplensError(f"unknown GPU {text!r}{nearest(text, known, _CLOSE)}; known are {ids}, or the path of a file")


def _file(name: str | Path) -> Path | None:
    """Return the file of a machine that is named by its path or its id; an alias is in some file."""
    text = str(name)
    if isinstance(name, Path) or text.endswith(".toml") or "/" in text:
        return Path(text)
    shipped = FOLDER / f"{text.lower()}.toml"
    return shipped if re.fullmatch(r"[\w.-]{1,80}", text) and shipped.is_file() else None


@cache
def _shipped(path: Path) -> Machine:
    """Load a file that ships with warplens, once: the files do not change, nor do machines. TOML takes 0.08 s."""
    code = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    text = path.read_bytes()
    if base := re.search(rb'^base = "([\w.-]+)"$', text, re.MULTILINE):  # its numbers are in this machine too
        known = FOLDER / f"{base[1].decode()}.toml"
        code += known.read_bytes() if known.is_file() else b""
    return computed_once(f"{path.stem}.machine", FOLDER.parent, text + code, Machine, lambda: load_file(path))


def load_file(path: Path) -> Machine:
    """Load and check one machine file."""
    return parse(read_toml(path), path.name if path.parent == FOLDER else str(path))


def parse(tree: dict[str, Any], file: str) -> Machine:
    """Turn the tree of a machine file into a Machine with its sources; `file` is for messages."""
    expect(tree, "machine", file)
    if "sources" in tree:
        raise FileError(f"{file}: sources: unknown key (sources stand beside their numbers)")
    tree = _with_base(tree, file)
    sources: dict[str, Source] = {}
    plain = _plain(tree, (), sources, file)
    units = [(key, source.unit, _unit(key)) for key, source in sources.items() if source.unit != _unit(key)]
    try:
        machine = convert(plain, Machine, file)
    except FileError as error:  # 1500 "MHz" is a wrong unit before it is a wrong number
        wrong = [u for u in units if f": {u[0]}: must be" in str(error)]
        if not wrong:
            raise
        units = wrong
    for key, given, expected in units:
        raise FileError(f"{file}: {key}: unit must be {expected!r}, not {given!r}")
    for kind, table in machine.throughput.items():
        if len(table.warps_per_sm) != len(table.ops_per_cycle_per_sm) or len(table.warps_per_sm) < 2:
            raise FileError(f"{file}: throughput.{kind}: two lists of equal length, at least 2 points each")
        if sorted(set(table.warps_per_sm)) != table.warps_per_sm:
            raise FileError(f"{file}: throughput.{kind}.warps_per_sm: must increase")
    scattered = machine.random_access
    if len(scattered.footprint_bytes or ()) != len(scattered.sector_bytes_per_second or ()):
        raise FileError(f"{file}: random_access: two lists of equal length")
    return msgspec.structs.replace(machine, sources=sources)


def _with_base(tree: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the tree of a file with the numbers of the base that it names."""
    name = tree.get("base")
    if not isinstance(name, str):
        return tree
    path = FOLDER / f"{name}.toml"
    if not (re.fullmatch(r"[\w.-]+", name) and path.is_file()) or "base" in read_toml(path):
        raise FileError(f"{file}: base: must be the id of a machine that was measured, such as 'h200', not {name!r}")
    return based(tree, _shipped(path))


def _plain(node: Any, path: tuple[str, ...], sources: dict[str, Source], file: str) -> Any:
    """Return a tree with its quantities replaced by their values; check and keep their sources."""
    dotted = ".".join(path)
    if isinstance(node, dict):
        if "value" in node:
            return _quantity(node, path, sources, file)
        return {key: _plain(value, (*path, key), sources, file) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, (*path, str(i)), sources, file) for i, value in enumerate(node)]
    if isinstance(node, str) and not node.isprintable():
        raise FileError(f"{file}: {dotted}: must be text of one line without control characters, not {node[:80]!r}")
    if isinstance(node, (int, float)) and not isinstance(node, bool) and path[-1] not in _FREE:
        raise FileError(f"{file}: {dotted}: a number without a source; write {{ value, unit, source, ref }}")
    return node


def _quantity(node: dict[str, Any], path: tuple[str, ...], sources: dict[str, Source], file: str) -> Any:
    dotted = ".".join(path)
    for key in (key for key in node if key not in _QUANTITY):
        raise FileError(f"{file}: {dotted}.{key}: unknown key{nearest(key, _QUANTITY)}")
    for key in ("unit", "source", "ref"):
        if key not in node:
            raise FileError(f"{file}: {dotted}: has no {key}")
    value = node["value"]
    for x in value if isinstance(value, list) else [value]:
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise FileError(f"{file}: {dotted}: value must be a number, not {type(x).__name__}")
        if not -sys.float_info.max <= x <= sys.float_info.max:
            raise FileError(f"{file}: {dotted}: value must be finite, not {str(x)[:20]}")
    about = {k: str(v) if isinstance(v, datetime.date) else v for k, v in node.items() if k != "value"}
    for key, text in about.items():
        _plain(text, (*path, key), sources, file)
    source = convert(about, Source, f"{file}: {dotted}")
    if source.source == "measured" and source.date is None:
        raise FileError(f"{file}: {dotted}: a measured number needs its date")
    sources[dotted] = source
    return value


def _unit(dotted: str) -> str:
    """Return the unit a key must have; `latency_to` and lists have names and numbers for keys."""
    named = next((key for key in reversed(dotted.split(".")) if not key.isdigit()), "")
    return "cycles" if ".latency_to." in dotted else unit_of(named)


def _version(capability: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", capability or "0"))


def tree_of(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain tables, without sources and without the fields that it does not have."""

    def known(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: value for key, own in node.items() if (value := known(own)) not in (None, {}, [])}
        return [known(value) for value in node] if isinstance(node, list) else node

    found: dict[str, Any] = known({key: own for key, own in msgspec.to_builtins(machine).items() if key != "sources"})
    return found


def parsed(tree: dict[str, Any], sources: dict[str, Source], file: str) -> Machine:
    """Return the Machine of plain tables and sources, checked as a file is."""
    return parse(_quantities(tree, (), sources), file)


def _quantities(node: Any, path: tuple[str, ...], sources: dict[str, Source]) -> Any:
    key = ".".join(path)
    if key in sources:
        source = sources[key]
        about = {"unit": source.unit or unit_of(path[-1]), "source": source.source, "ref": source.ref}
        return {"value": node, **about, **({"date": source.date} if source.date else {})}
    if isinstance(node, dict):
        return {name: _quantities(value, (*path, name), sources) for name, value in node.items()}
    if isinstance(node, list):
        return [_quantities(value, (*path, str(i)), sources) for i, value in enumerate(node)]
    return node


def toml_of(machine: Machine, comment: str = "") -> str:
    """Return the text of a machine's file."""
    tree = _quantities(tree_of(machine), (), machine.sources)
    head = [f"# {line}" for line in comment.splitlines()]
    tables = {key: value for key, value in tree.items() if _is_table(value) or _is_tables(value)}
    head += [f"{key} = {_value(value)}" for key, value in tree.items() if key not in tables]
    parts = ["\n".join(head)]
    for key, value in tables.items():
        parts += ["\n".join(lines) for lines in _table((key,), value)]
    return "\n\n".join(parts) + "\n"


def _is_table(node: Any) -> bool:
    return isinstance(node, dict) and "value" not in node


def _is_tables(node: Any) -> bool:
    return isinstance(node, list) and bool(node) and all(_is_table(one) for one in node)


def _table(path: tuple[str, ...], node: Any) -> Iterator[list[str]]:
    """Yield the blocks of lines of a table: its own keys, then the tables within, `latency_to` as dotted keys."""
    if isinstance(node, list):
        for one in node:
            yield [f"[[{'.'.join(path)}]]", *(f"{key} = {_value(value)}" for key, value in one.items())]
        return
    own = [f"{key} = {_value(value)}" for key, value in node.items() if not _is_table(value)]
    for name, value in node.get("latency_to", {}).items():
        own.append(f"latency_to.{name} = {_value(value)}")
    if own:
        yield [f"[{'.'.join(path)}]", *own]
    for key, value in node.items():
        if _is_table(value) and key != "latency_to":
            yield from _table((*path, key), value)


def _value(node: Any) -> str:
    if isinstance(node, dict):
        return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in node.items()) + " }"
    if isinstance(node, list):
        inside = ", ".join(_value(one) for one in node)
        texts = node and isinstance(node[0], str) and len(inside) > _WIDTH_OF_LIST
        return "[\n" + "".join(f"  {_value(one)},\n" for one in node) + "]" if texts else f"[{inside}]"
    return _number(node) if isinstance(node, (int, float)) else json.dumps(node, ensure_ascii=False)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    short = f"{value:.10g}"
    return (short if float(short) == value else repr(float(value))).replace("e+", "e")
