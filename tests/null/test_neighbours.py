"""Blocks beside one another: halves of lines that a neighbour completes, and blocks that differ on the SMs."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.emulator import layout
from warplens.emulator.footprint import Block, Footprint, Grid, Part, Weighted, alone, reuse_of
from warplens.emulator.traffic import Around, spread_hits
from warplens.models.warplens.predict import schedule
from warplens.program.decoding import parse_listing
from warplens.program.program import Program
from warplens.workload.profile import Profile, Traffic


def _block(bits: int) -> Block:
    return Block([Footprint(np.array([0]), np.array([[bits]], np.uint32))], [])


@pytest.mark.parametrize(
    ("next_block", "in_flight", "share"),
    [(0xFFFF0000, 8, 1 / 3), (0x0000FC00, 8, 0.0), (0x0000FC00, 1, 1 / 3)],
    ids=["elsewhere", "completes it", "not in flight"],
)
def test_a_half_that_a_neighbour_in_flight_completes_is_not_alone(
    next_block: int, in_flight: int, share: float
) -> None:
    block = _block(0x000003F0)  # the second line whole, the first half of the third
    found = alone([Weighted(block, 1)], [[_block(next_block)], [], []], Grid((64, 1, 1), in_flight), 0, Part(False))
    assert found == pytest.approx(share)


def test_fewer_blocks_than_fit_take_a_round() -> None:
    work = [100.0, 120.0, 80.0, 100.0]
    profile = Profile(
        grid_blocks=200, warps_per_block=1, emulated_blocks=200, exact=True, counts={"executed": [20_000.0]},
        block_instructions=work, sampled=[(i, work[i % 4]) for i in range(200)],
    )  # fmt: skip
    made = schedule(profile, 132, 8)
    assert made.rounds == pytest.approx(1.2, rel=0.02)
    assert 0.9 < made.longer < 1.3


def test_a_half_that_the_block_before_completes_is_not_alone() -> None:
    """The block before does for it what it does for the next one: it ends in the line where that one begins."""
    block = _block(0x000007FC)  # from the second half of the first line to a sector of the third line's second half
    found = alone([Weighted(block, 1)], [[_block(0x0007FC00)], [], []], Grid((64, 1, 1), 8), 0, Part(False))
    assert found == 0.0


@pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
def test_blocks_half_a_line_wide_fill_lines_with_the_one_beside_them(first: int) -> None:
    """Of 16 x 16 threads that store a word each: which of a pair is looked at makes no difference."""
    row = [_block(0x3 << 2 * k) for k in range(first, first + 9)]
    found = alone([Weighted(row[0], 1)], [row[1:], [], []], Grid((64, 1, 1), 8), 0, Part(False))
    assert found == 0.0


def test_blocks_of_which_none_ran_alone_count_alike() -> None:
    blocks = [Weighted(_block(0xF), 0), Weighted(_block(0xFF), 0)]
    assert reuse_of(blocks, [[], [], []], 0, 4096, Part(False), scattered=False).sectors == 6


def test_of_blocks_that_read_the_same_the_first_misses() -> None:
    total = np.zeros((2, layout.STATISTICS))
    total[:, layout.ARRAY], total[:, layout.L2_SECTORS] = 1, 100
    program = Program("k", "k", "sm_90", parse_listing("LDG R0, [R2]\nLDG R1, [R3]"))
    traffic = [Traffic(name="a", l2_read_bytes=200 * 32, l2_missed_bytes=120 * 32)]
    spread_hits(program, total, traffic, Around(np.array([0.5, 0.0]), 1.5))
    # Half of the first load's in the middle of few blocks are three quarters within the grid; five more hit anywhere.
    assert total[:, layout.L2_HITS].tolist() == pytest.approx([75 + 25 / 125 * 5, 100 / 125 * 5])
    spread_hits(program, total, traffic)
    assert total[:, layout.L2_HITS].tolist() == pytest.approx([40, 40])
