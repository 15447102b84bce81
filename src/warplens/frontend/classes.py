"""Opcodes to instruction classes: a table (files/classes.toml). An unknown opcode is kept and can be reported."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from warplens.files import read_toml
from warplens.kernel.instruction import Instruction

_FILE = Path(__file__).parent / "files" / "classes.toml"


@cache
def _table() -> dict[str, str]:
    tree = read_toml(_FILE)
    return {opcode: kind for kind, opcodes in tree["classes"].items() for opcode in opcodes}


@cache
def classified(opcode: str, modifiers: tuple[str, ...] = ()) -> str:
    """Return the class of an opcode, `other` where the table has none."""
    table = _table()
    if modifiers and f"{opcode}.{modifiers[0]}" in table:
        return table[f"{opcode}.{modifiers[0]}"]
    return table.get(opcode, "other")


def unknown(instructions: list[Instruction]) -> dict[str, int]:
    """Return the opcodes that the table does not have, each with how often it occurs."""
    return dict(Counter(i.opcode for i in instructions if i.opcode not in _table()))
