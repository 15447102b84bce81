"""What loads of one scheduler cost another: loads among adds, and a warp that loads alone (shared_beside.py)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.papers.validation.mixes import read
from warplens.papers.validation.simulated import stored_code
from warplens.simulator.code import Step, Way
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options, run
from warplens.simulator.units import units

CYCLES, SCHEDULERS, WARPS = 60_000.0, 4, 32
MANY, BESIDE, NONE = range(3)  # ways
_TOO_SLOW = pytest.mark.xfail(strict=True, reason="1.8 % too slow since who waited does not go on")
_NOT_KNOWN = pytest.mark.xfail(strict=True, reason="who is let in where two schedulers send in all cycles is not known")


def _loads(code: list[Any], counts: Any) -> int:
    return int(sum(count for count, x in zip(counts, code, strict=True) if x.opcode == "LDS"))


@cache
def _cycles(adds: int, warps: int, others: int) -> tuple[float, float]:
    """Return the cycles of a load with its adds of one of the other schedulers, and of a load of the warp beside."""
    loop = next(row for row in read("h200/shared_beside.json.gz")["loops"] if row["adds"] == adds)
    many, beside = stored_code(loop["code"]), stored_code(loop["beside"])
    made, size = units(load_machine("h200")), len(many)
    ways = [Way([([(0, size)], ENDLESS)]), Way([([(size, size + len(beside))], ENDLESS)])]
    laid = from_program([*many, *beside], made, ways=ways, blocks=[[MANY]])
    steps, end = [*laid.steps, Step(label="end")], Way([([(len(laid.steps), len(laid.steps) + 1)], 1)])
    last = SCHEDULERS - 1
    block = [
        BESIDE if w == last else MANY if w % SCHEDULERS < others and w // SCHEDULERS < warps else NONE
        for w in range(WARPS)
    ]
    laid = replace(laid, steps=steps, ways=[*laid.ways, end], blocks=[block], steady=True)
    done = run(laid, made, Options(), resident=1, blocks=1, limit=CYCLES, stagger=64.0)
    stop = size + len(beside)
    return (
        CYCLES * others / _loads(many, done.counts[:size]),
        CYCLES / _loads(beside, done.counts[size:stop]),
    )


@cache
def _measured() -> dict[tuple[int, int, int], tuple[float, float]]:
    return {(a, w, o): (many, beside) for a, w, o, many, beside in read("h200/shared_beside.json.gz")["rows"]}


@pytest.mark.parametrize(
    ("adds", "warps"), [(0, 3), (0, 4), (1, 3), (1, 4), pytest.param(2, 3, marks=_TOO_SLOW), (2, 4)]
)
def test_who_loses_a_cycle_to_another_does_not_make_up_for_it(adds: int, warps: int) -> None:
    assert _cycles(adds, warps, 1)[0] == pytest.approx(_measured()[adds, warps, 1][0], rel=0.01)


def test_each_load_of_one_costs_another_one_a_cycle() -> None:
    """Four loads under way: one in two cycles, but for a cycle for each load of the warp beside."""
    many, beside = _measured()[0, 4, 1]
    lost = beside - 2 * beside / many
    assert lost == pytest.approx(1, abs=0.05)
    many, beside = _cycles(0, 4, 1)
    assert beside - 2 * beside / many == pytest.approx(lost, abs=0.05)


def test_loads_beside_others_take_as_long_as_measured() -> None:
    off = [abs(_cycles(*key)[0] / many - 1) for key, (many, _) in _measured().items()]
    assert len(off) == 90 and float(np.mean(off)) < 0.006 and max(off) < 0.04


@pytest.mark.parametrize(
    ("adds", "warps", "others"), [(0, 4, 1), (1, 8, 1), (2, 4, 2), pytest.param(0, 8, 2, marks=_NOT_KNOWN)]
)
def test_a_warp_beside_waits_as_measured(adds: int, warps: int, others: int) -> None:
    assert _cycles(adds, warps, others)[1] == pytest.approx(_measured()[adds, warps, others][1], rel=0.01)
