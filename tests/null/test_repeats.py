"""Grids of many rounds without chance: blocks repeat themselves, and go on so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.null.test_simulate import listing
from warplens import api
from warplens.kernel import Launch
from warplens.simulate.code import Floats
from warplens.simulate.repeats import turn
from warplens.simulate.run import Options

OPERATIONS = ("FADD R1, R1, R3\n", "FADD R2, R1, R3\n", "FFMA R4, R4, R5, R6\n", "IMAD R7, R7, R2, R1\n",
              "MUFU R1, R1\n", "LDS R8, [R9]\n", "DFMA R10, R10, R2, R1\n", "BAR\n")  # fmt: skip
SHAPES = ((1, 32), (2, 5), (4, 16), (8, 8), (8, 3), (16, 4), (32, 2))  # warps of a block, blocks of an SM


@settings(max_examples=25)
@given(
    text=st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=40).map("".join),
    shape=st.sampled_from(SHAPES),
    rounds=st.sampled_from((12, 40, 90)),
    more=st.integers(0, 131),
)
def test_what_repeats_itself_ends_when_all_of_it_does(
    text: str, shape: tuple[int, int], rounds: int, more: int
) -> None:
    warps, resident = shape
    launch = Launch(grid=132 * resident * rounds + 132 * (more % resident), block=32 * warps, blocks_per_sm=resident)
    short, whole = (
        api.simulate(listing(text, launch=launch), "h200", options=Options(full=full)) for full in (False, True)
    )
    if any("repeat themselves" in note for note in short.notes):
        assert abs(short.cycles - whole.cycles) <= short.error_cycles + 2 <= 0.0101 * whole.cycles + 2
        assert short.lines[0].executed == whole.lines[0].executed
        for reason, share in whole.stalls.items():
            assert short.stalls[reason] == pytest.approx(share, abs=0.02)


def test_most_kernels_without_chance_are_found_to_repeat_themselves() -> None:
    texts = ("FADD R1, R1, R3\n" * 20, "MUFU R1, R1\n" * 20, "LDS R4, [R5]\n" * 8 + "BAR\n", "".join(OPERATIONS))
    found = 0
    for text in texts:
        for warps, resident in SHAPES:
            launch = Launch(grid=132 * resident * 100, block=32 * warps, blocks_per_sm=resident)
            made = api.simulate(listing(text, launch=launch), "h200")
            found += any("repeat themselves" in note for note in made.notes)
    assert found >= 0.75 * len(texts) * len(SHAPES)


def test_a_turn_is_what_begins_and_lasts_alike() -> None:
    number = np.arange(60.0)
    begins = 100.0 * number + 30.0 * (number % 3)  # three take turns
    lasts = 400.0 + 7.0 * (number % 3)

    def blocks(begins: Floats, lasts: Floats) -> Floats:
        ends = begins + lasts
        ends[-4:] = 0.0  # not known yet
        return np.stack([begins, ends, number % 4]).T

    assert turn(blocks(begins, lasts), 4) == 3
    assert turn(blocks(begins, lasts + 5.0 * number), 4) == 0  # they last ever longer
    assert turn(blocks(begins + number**2, lasts), 4) == 0  # they come ever more slowly
    assert turn(blocks(np.where(number < 55, begins, begins + 40.0), lasts), 4) == 0  # not for as long as asked for
    assert turn(blocks(begins, lasts)[:6], 4) == 0  # too few


def test_chance_kinds_of_blocks_and_events_are_not_taken_for_a_repetition() -> None:
    launch = Launch(grid=132 * 8 * 40, block=256, blocks_per_sm=8)
    for text, options in (
        ("LD R1, [R2]\nFADD R1, R1, R3\n", Options()),
        ("FADD R1, R1, R3\n" * 20, Options(full=True)),
        ("FADD R1, R1, R3\n" * 20, Options(events=100)),
    ):
        made = api.simulate(listing(text, launch=launch), "h200", options=options)
        assert not any("repeat themselves" in note for note in made.notes)
