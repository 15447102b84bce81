"""Products of warp groups move their registers through the ports of arithmetic (warp_group_products.json)."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from warplens.machine import load_machine
from warplens.papers.validation.simulated import stored_code
from warplens.papers.validation.stored import data_file, read
from warplens.simulator import layout as at
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, Run, run
from warplens.simulator.units import units

_TURNS, _GROUPS = 60, 100
_LEFT_WAITING = pytest.mark.xfail(strict=True, reason="the warp that makes products gets its slots too late")


@cache
def _measured() -> dict[tuple[int, str, str, bool], tuple[float, float]]:
    """Return cycles of a turn of the arithmetic and of 16 products."""
    rows = json.loads(data_file("experiments/register_ports/warp_group_products.json").read_text())["rows"]
    return {(n, factor, beside, groups > 0): (turn, products) for n, factor, beside, groups, turn, products in rows}


def _beside(columns: int, factor: str, beside: str, groups: int, turns: int, options: Options) -> Run:
    """Run so many turns of the arithmetic with so many groups of products beside it."""
    group, loop = map(
        stored_code,
        read("experiments/register_ports/warp_group_products_code.json.gz")["loops"][f"{factor}{columns}_{beside}"],
    )
    made, end = units(load_machine("h200")), len(group) + len(loop)
    others = WarpPath([([(0, len(group))], groups)] if groups else [([(end - 1, end)], 1)])
    ways = [others, WarpPath([([(len(group), end)], turns)])]
    laid = from_program([*group, *loop], made, paths=ways, blocks=[[0] * 4 + [1] * 4])
    return run(laid, made, options, resident=1, blocks=1)


def _turn(columns: int, factor: str, beside: str, groups: int) -> float:
    """Return the simulated cycles of a turn of the arithmetic."""
    events = np.array(_beside(columns, factor, beside, groups, _TURNS, Options(events=1_000_000)).events)
    times = events[(events[:, 1] == at.ISSUED) & (events[:, 2] == 4)][:, 0]
    return float(times[-1] - times[0]) / _TURNS


_SHORT = 64, "ffma8"
_LINES_WAIT = pytest.mark.xfail(strict=True, reason="6 % too fast: lines behind a branch target cost nothing")
_KINDS = {
    (columns, factor, beside): _LEFT_WAITING if factor != "half" else _LINES_WAIT if (columns, beside) == _SHORT else ()
    for columns, factor in ((64, "half"), (128, "half"), (64, "shared"), (128, "shared"), (64, "registers"))
    for beside in ("fmul8", "ffma8")
}


@pytest.mark.parametrize(
    ("columns", "factor", "beside"), [pytest.param(*kind, marks=marks) for kind, marks in _KINDS.items()]
)
def test_products_take_ports_from_arithmetic(columns: int, factor: str, beside: str) -> None:
    """64 instructions take 1.2 to 1.6 times as long beside products; no number of this is fitted."""
    measured = _measured()[columns, factor, beside, True][0] / _measured()[columns, factor, beside, False][0]
    simulated = _turn(columns, factor, beside, _GROUPS) / _turn(columns, factor, beside, 0)
    assert measured > 1.15
    assert simulated == pytest.approx(measured, rel=0.04)


def test_the_banks_of_both_are_full() -> None:
    """FMUL reads a register of each bank, 16 products 16 x 32 of both: together that is what two banks give in time."""
    turn, products = _measured()[64, "shared", "fmul8", True]
    idle, _ = _measured()[64, "shared", "fmul8", False]
    each = 16 * 32 / 2 + (products / (turn - (idle - 64))) * 64  # reads of a bank while 16 products are made
    assert each / products == pytest.approx(1.0, abs=0.05)


def test_compiled_and_plain_python_agree() -> None:
    one, two = (_beside(64, "half", "fmul8", 2, 8, Options(compiled=c, events=20_000)) for c in (True, False))
    assert one.end_cycle == two.end_cycle and np.array_equal(one.events, two.events)
