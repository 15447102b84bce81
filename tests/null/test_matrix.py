"""Matrix instructions: the operations of one, of a warp or as a warp's part of its group's."""

from __future__ import annotations

import pytest

from warplens.program.decoding import decode_texts
from warplens.simulator.matrix import matrix_flops


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", 2 * 16 * 8 * 16),
        ("HMMA.1684.F32.TF32 R4, R8, R12, R4", 2 * 16 * 8 * 4),
        ("DMMA.16x8x16 R4, R8, R12, R4", 2 * 16 * 8 * 16),  # one warp's
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", 2 * 64 * 128 * 16 / 4),  # each of four warps executes it
    ],
)
def test_operations_of_a_matrix_instruction(text: str, flops: float) -> None:
    [instruction] = decode_texts([text]).values()
    assert matrix_flops(instruction) == flops
