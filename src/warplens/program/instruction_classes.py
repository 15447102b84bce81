"""Opcodes to instruction classes: one table (files/classes.toml) for machine code and hand-written listings."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from warplens.core.files import read_toml
from warplens.program.instruction import Instruction

_FILE = Path(__file__).parent / "files" / "classes.toml"


@cache
def _table() -> dict[str, str]:
    return {opcode: kind for kind, opcodes in read_toml(_FILE)["classes"].items() for opcode in opcodes}


@cache
def classified(opcode: str, modifiers: tuple[str, ...] = ()) -> str:
    """Return the class of an opcode, `other` where the table has none."""
    table = _table()
    return table.get(f"{opcode}.{modifiers[0]}" if modifiers else opcode) or table.get(opcode, "other")


def unknown(instructions: list[Instruction]) -> dict[str, int]:
    """Return the opcodes that the table does not have, each with how often it occurs."""
    return dict(Counter(i.opcode for i in instructions if classified(i.opcode, i.modifiers) == "other"))
