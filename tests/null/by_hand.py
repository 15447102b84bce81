"""Code that scripts under data/h200 write by hand, made anew and simulated, for tests against what was measured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from tests.null.test_reads import _text
from warplens.machine import load_machine
from warplens.papers.validation.stored import data_file
from warplens.program.decoding import decode_texts
from warplens.program.instruction import Control, Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options
from warplens.simulator.sampling import steady
from warplens.simulator.units import Units, units

# The text of an instruction, its stall count, whether it yields, and the operands that it keeps, if any.
Placed = tuple[str, int, bool] | tuple[str, int, bool, int]
_LOOP = 88  # slots of the loop of data/h200/on_units.py; behind them:
_END: list[Placed] = [
    ("NOP", 11, False), ("CS2R.32 R64, SR_CLOCKLO", 5, True), ("VIADD R3, R3, 0x1", 5, True),
    ("ISETP.GE.AND P0, PT, R3, R0, PT", 13, True), ("@!P0 BRA `(.L_x_2)", 5, False),
]  # fmt: skip


@cache
def script(name: str) -> Any:
    """Return a script of data/h200: it makes again what it measured."""
    folder = str(data_file(f"h200/{name}.py").parent)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


@cache
def h200() -> Units:
    return units(load_machine("h200"))


def placed(slot: Any) -> Placed:
    """Return a slot of a script as text."""
    return _text(slot), slot[2], slot[3], slot[4]


def program(code: Sequence[Placed]) -> list[Instruction]:
    known = decode_texts([each[0] for each in code])
    return [
        replace(known[text], control=Control(stall, yields, None, None, 0, *(kept or [0])))
        for text, stall, yields, *kept in code
    ]


def read_at(issued: int, held: set[int]) -> int:
    """Return what a clock says that issues in a cycle: it is read three stages later, all of which a hold stops."""
    return [t for t in range(issued + 1, issued + 4 + len(held)) if t not in held][2] - 3


def held_cycles(events: Any) -> set[int]:
    """Return the cycles in which the first scheduler's issue stage was held."""
    told = events[(events[:, 1] == at.HELD) & (events[:, 3] == 0)]
    return {t + k for t, _, _, _, cycles in told.tolist() for k in range(cycles)}


def turn_cycles(code: Sequence[Placed], warps: int = 1) -> float:
    """Return what a turn of the loop of units.json.gz takes that is filled with this code."""
    filled = list(code) * (_LOOP // len(code))
    made = program([*filled, *[("NOP", 1, False)] * (_LOOP - len(filled)), *_END])
    laid = from_program(made, h200(), paths=[WarpPath([([(0, len(made))], ENDLESS)])], blocks=[[0] * (4 * warps)])
    found = steady(replace(laid, steady=True, bodies=1.0), h200(), Options(limit_cycles=20_000))
    return found.cycles * 4 * warps
