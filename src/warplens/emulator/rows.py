"""Stores of one thread in a row: sectors that its own next instructions complete."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warplens.emulator.footprint import SECTOR_BYTES
from warplens.program.instruction import Instruction, access_bytes, byte_offset


def stored_before(code: Sequence[Instruction], stores: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the share of its sectors that a thread stored to just before, by instruction.

    By the same address register, which nothing has written since, and on the same straight way.
    """
    targets = {x.target for x in code if x.target is not None}
    made, rows = np.zeros(len(code)), dict[tuple[str, ...], set[int]]()
    for i, x in enumerate(code):
        if x.offset in targets:
            rows.clear()
        memory = next((o for o in x.operands if o.kind == "memory"), None) if x.opcode in stores else None
        if memory is not None:
            first = byte_offset(memory.text)
            touched = {at // SECTOR_BYTES for at in (first, first + access_bytes(x) - 1)}
            seen = rows.setdefault(memory.registers, set())
            made[i] = len(touched & seen) / len(touched)
            seen |= touched
        if x.target is not None:
            rows.clear()
        rows = (
            {base: seen for base, seen in rows.items() if not set(base) & set(x.writes)} if rows and x.writes else rows
        )
    return made
