"""How the warps of a scheduler share its issue slots, against the clocks of short loops that all of them run."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from warplens.machine import load_machine
from warplens.papers.validation.simulated import stored_code
from warplens.papers.validation.stored import read
from warplens.simulator import layout as at
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, run
from warplens.simulator.units import units

_PARTS, _TURNS = 8, 40


@cache
def _measured() -> dict[tuple[str, int], list[list[int]]]:
    return {
        (name, warps): clocks
        for name, warps, clocks in read("experiments/warp_scheduling/issue_shares.json.gz")["rows"]
    }


def _done(name: str, warps: int) -> tuple[list[float], list[float]]:
    """Return which part of its work each warp has done when the first one has all, measured and simulated."""
    clocks = _measured()[name, warps]
    end = min(c[-1] for c in clocks)
    measured = [float(np.interp(end, c, range(_PARTS + 1))) / _PARTS for c in clocks]
    made, code = (
        units(load_machine("h200")),
        stored_code(read("experiments/warp_scheduling/issue_shares_code.json.gz")["loops"][name]),
    )
    laid = from_program(code, made, paths=[WarpPath([([(0, len(code))], _TURNS)])], blocks=[[0] * (4 * warps)])
    events = np.array(run(laid, made, Options(events=2_000_000), resident=1, blocks=1).events)
    issued = events[events[:, 1] == at.ISSUED]
    own = [issued[issued[:, 2] == 4 * w][:, 0] for w in range(warps)]
    end = min(times.max() for times in own)
    return measured, [float((times <= end).mean()) for times in own]


_LOOPS = ("fadd", "fadd8_lds", "fadd8_mufu", "mufu", "lds", "hfma2", "dadd", "imad", "imad_wide", "lop3")


@pytest.mark.parametrize("name", _LOOPS)
def test_warps_go_on_as_measured(name: str) -> None:
    """Six warps of a scheduler want more than a unit or the issue port gives: all go on almost alike."""
    measured, simulated = _done(name, 6)
    assert min(measured) > 0.9
    assert max(abs(a - b) for a, b in zip(measured, simulated, strict=True)) < 0.12
