"""On which schedulers the warps of blocks are, as measured; one that does more than others is on each in turn."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from warplens.machine import load_machine
from warplens.papers.validation.stored import data_file
from warplens.simulator import layout as at
from warplens.simulator.code import Code, WarpPath
from warplens.simulator.from_workload import from_workload
from warplens.simulator.run import Options, run
from warplens.simulator.sampling import kernel
from warplens.simulator.units import units
from warplens.workload import mix


@pytest.mark.parametrize("warps", [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16])
def test_warps_are_on_the_schedulers_that_were_measured(warps: int) -> None:
    """Relative to the first block: on the GPU it begins where the last grid ended."""
    resident = min(24, 64 // warps)
    runs = json.loads(data_file("experiments/block_scheduling/warp_slots.json").read_text())["runs"]
    places = next(r["places"] for r in runs if r["warps"] == warps)[:resident]
    measured = sorted(((first - places[0][0]) % 4 for first, *_ in places))
    assert all([(w - block[0]) % 4 for w in block] == [k % 4 for k in range(warps)] for block in places)
    made = units(load_machine("h200"))
    code = from_workload(mix(4.0), made, 4)
    laid = Code(name="m", steps=code.steps, paths=[WarpPath([([(0, len(code.steps))], 2)])], blocks=[[0] * warps])
    events = np.array(run(laid, made, Options(events=100_000), resident=resident, blocks=resident).events)
    issued = events[events[:, 1] == at.ISSUED]
    home = {int(w): int(s) for _, _, w, _, s in issued}
    simulated = [[home[b * warps + k] for k in range(warps)] for b in range(resident)]
    assert all([(w - block[0]) % 4 for w in block] == [k % 4 for k in range(warps)] for block in simulated)
    assert sorted((block[0] - simulated[0][0]) % 4 for block in simulated) == measured
    if warps % 4 == 0:
        assert {(b[0] - a[0]) % 4 for a, b in pairwise(simulated)} == {1}


def test_a_warp_that_does_more_than_others_is_not_always_on_the_same_scheduler() -> None:
    made = units(load_machine("h200"))
    code = from_workload(mix(64.0, other="sfu"), made, 4)
    long, short = WarpPath([([(0, len(code.steps))], 16)]), WarpPath([([(0, len(code.steps))], 4)])
    laid = Code(name="uneven", steps=code.steps, paths=[long, short], blocks=[[0, 1, 1, 1]])
    even = Code(name="even", steps=code.steps, paths=[WarpPath([([(0, len(code.steps))], 7)])], blocks=[[0] * 4])
    uneven, alike = (run(x, made, Options(), resident=16, blocks=16).end_cycle for x in (laid, even))
    assert uneven < 1.25 * alike  # on one scheduler: 16 / 7 of it


def test_what_a_window_has_more_of_is_not_taken_for_the_grid() -> None:
    """Of blocks that load and then compute the window has more loads than the grid, and DRAM seemed to take longer."""
    made = units(load_machine("h200"))
    code = from_workload(mix(8.0), made, 4)
    assert code.steps[0].l2_bytes
    way = WarpPath([([(0, 1)], 48), ([(1, len(code.steps))], 130)])
    laid = Code(name="long", steps=code.steps, paths=[way], blocks=[[0] * 4])
    assert laid.executed() == pytest.approx([4 * 48.0] + [4 * 130.0] * (len(code.steps) - 1))
    part, whole = (kernel(laid, made, Options(full=full), resident=12, blocks=400).cycles for full in (False, True))
    assert part == pytest.approx(whole, rel=0.05)
