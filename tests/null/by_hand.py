"""Code that scripts under data/h200 write by hand, made anew and simulated, for tests against what was measured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from msgspec.structs import replace

from tests.null.test_reads import _text
from warplens.machine import load_machine
from warplens.papers.validation.mixes import data_file
from warplens.program.decoding import decode_texts
from warplens.program.instruction import Control, Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import Step, Way
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options, run
from warplens.simulator.steady import steady
from warplens.simulator.units import Units, units

# The text of an instruction, its stall count, whether it yields, and the operands that it keeps, if any.
Placed = tuple[str, int, bool] | tuple[str, int, bool, int]
Part = tuple[list[tuple[int, int]], int]  # of a way: straight runs, and how often
_BEGIN = 400  # the simulated cycle from which on a code begins
_LOOP = 88  # slots of the loop of units.json.gz; behind them:
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


@contextmanager
def without_port() -> Iterator[None]:
    """Let branches wait for nobody else's."""
    setup = h200().setup[0]
    setup.jumps = 0
    try:
        yield
    finally:
        setup.jumps = 1


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
    laid = from_program(made, h200(), ways=[Way([([(0, len(made))], ENDLESS)])], blocks=[[0] * (4 * warps)])
    found = steady(replace(laid, steady=True, bodies=1.0), h200(), Options(limit_cycles=20_000))
    return found.cycles * 4 * warps


def issues(
    code: Sequence[Placed],
    ways: Sequence[Part],
    waits: list[int],
    counts: list[int],
    place: int,
) -> list[list[tuple[int, int]]]:
    """Return the steps and cycles of the issues of the warps of a scheduler: their runs through a code, and how often.

    Before it each issues as often as its count says; its last one there takes the cycles of `waits`. The code begins at
    that place of a line. Warps of the other schedulers end at once.
    """
    made = program(code)
    laid = from_program(made, h200(), ways=[Way([([(0, len(made))], 1)])], blocks=[[0]])
    first, before = len(laid.steps), Step(label="before", stall=8.0, yields=True)
    steps = [*laid.steps, before, *(replace(before, stall=float(cycles)) for cycles in waits), Step(label="NOP")]
    taken = [
        Way([([(first, first + 1)], counts[k] - 1), ([(first + 1 + k, first + 2 + k)], 1), way])
        for k, way in enumerate(ways)
    ]
    taken.append(Way([([(first + 1 + len(ways), first + 2 + len(ways))], 1)]))
    blocks = [[way for k in range(len(ways)) for way in (k, *[len(ways)] * 3)]]
    laid = replace(laid, steps=steps, ways=taken, blocks=blocks, place=place)
    found = [list[tuple[int, int]]() for _ in waits]
    for time, what, warp, step, _ in run(laid, h200(), Options(events=20_000), resident=1, blocks=1).events.tolist():
        if what == at.ISSUED and warp % 4 == 0:
            found[warp // 4].append((step, time))
    return found


def issues_from(
    begins: list[int],
    code: Sequence[Placed],
    ways: Sequence[Part],
    counts: list[int],
    place: int,
) -> list[list[tuple[int, int]]]:
    """Return the same where the first issue of each warp in the code is at a given time, of those in the code alone."""
    late = issues(code, ways, [_BEGIN] * len(begins), counts, place)
    waits = [_BEGIN + begin - each[count - 1][1] for begin, each, count in zip(begins, late, counts, strict=True)]
    found = [each[count:] for each, count in zip(issues(code, ways, waits, counts, place), counts, strict=True)]
    first = min(each[0][1] for each in found) - min(begins)
    return [[(step, time - first) for step, time in each] for each in found]
