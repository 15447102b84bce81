"""Stores of one thread in a row (`emulator/rows.py`)."""

from __future__ import annotations

import pytest

from warplens.emulator.traffic import STORES, stored_before
from warplens.program.disassembly import parse_bare

ROW = "".join(f"STG.E.128 [R34.64+{16 * k:#x}], R{12 + 4 * k}\n" for k in range(4))


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        (ROW, [0, 1, 0, 1]),
        (ROW.replace("+0x10], R16\n", "+0x10], R16\nIADD3 R34, R34, R2, RZ\n"), [0, 1, 0, 0, 1]),
        (ROW.replace("[R34.64+0x30]", "[R36.64+0x30]"), [0, 1, 0, 0]),
        ("STG.E [R2.64], R4\nIADD3 R2, R2, R6, RZ\nSTG.E [R2.64+0x4], R5\n", [0, 0, 0]),
        ("STG.E [R2.64], R4\nLDG.E R5, [R6.64+0x4]\nSTG.E [R2.64+0x4], R5\n", [0, 0, 1]),
    ],
)
def test_a_sector_that_the_same_thread_completes(text: str, shares: list[float]) -> None:
    assert stored_before(parse_bare(text, "x").instructions, STORES).tolist() == shares
