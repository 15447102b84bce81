"""Writer of machine files: a Machine with its sources as TOML that the loader reads back as the same machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from warplens.core.units import unit_of
from warplens.machine.loader import parse
from warplens.machine.machine import Machine, Source

_WIDTH_OF_LIST = 60


def tree_of(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain tables, without sources and without the fields that it does not have."""
    plain: dict[str, Any] = msgspec.to_builtins(machine)
    del plain["sources"]
    found: dict[str, Any] = _without_nothing(plain)
    return found


def _without_nothing(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {key: _without_nothing(value) for key, value in node.items()}
        return {key: value for key, value in kept.items() if value not in (None, {}, [])}
    return [_without_nothing(value) for value in node] if isinstance(node, list) else node


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
    text = repr(float(value)).replace("e+", "e")
    short = f"{value:.10g}".replace("e+", "e")
    return short if float(short) == value else text
