"""The advisor's constants are what nvcc makes of small kernels."""

from __future__ import annotations

import pytest

from tests.cuda.remedies.constants import costs, longest_unrolled, side_cost, temporaries
from warplens.advisor import reuse, tiles

pytestmark = [pytest.mark.cuda, pytest.mark.slow, pytest.mark.xdist_group("emulator")]


def test_registers_of_a_further_result_and_loops_that_vanish() -> None:
    assert round(temporaries()) == reuse._TEMPORARY
    assert longest_unrolled() == tiles._UNROLLED


def test_what_a_tile_with_a_halo_costs() -> None:
    tile, element, partly = costs(once=False)
    assert (round(tile), round(element)) == (tiles._TILE, tiles._ELEMENT)
    assert partly == pytest.approx(tiles._PARTLY, abs=0.1)
    tile, element, _ = costs(once=True)
    assert (round(tile), round(element)) == (tiles._TILE_ONCE, tiles._ELEMENT_ONCE)
    assert round(side_cost()) == tiles._SIDE
