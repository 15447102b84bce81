"""Straight code of up to seven warps of a scheduler: when each comes where (data/h200/crowds.py, tails.py).

The warp that spun before issues again some cycles after all began. That halves the counts of all if its own is full,
which is not known of the crowds: a place is right if the clock is as simulated either way. The tails' is not full.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from warplens.papers.validation.mixes import read
from warplens.program.instruction import Control
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, Way
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, run

from .by_hand import Placed, h200, placed, program, read_at, script

_PADS = 6  # the barrier and NOPs before the code of the warp that is looked at; others have one NOP less
_SPINS = 200, 202  # what spins issues so often: with the second its count is full when it issues again
_BARRIER: Placed = ("BAR.SYNC.DEFER_BLOCKING 0x0", 6, False)
_NOP: Placed = ("NOP", 1, False)
_CLOCK: Placed = ("CS2R.32 R2, SR_CLOCKLO", 2, False)


@cache
def _codes(data: str) -> Any:
    return script(data).codes()


@cache
def _laid(data: str, number: int) -> Code:
    slots = _codes(data)[number][2]
    before = [_BARRIER, *[_NOP] * (_PADS - 1), _CLOCK]
    boards = script("crowds").BOARDS
    texts = [placed((slot[0][:-1] if slot[0] in boards else slot[0], *slot[1:])) for slot in slots]
    made = program([*before, *texts, *[("NOP", 11, False)] * 2])
    for place, (what, _, stall, yields, _) in enumerate(slots, len(before)):
        if what in boards:
            board, has, waits = boards[what]
            control = Control(stall, yields, board if has else None, None, waits << board, 0)
            made[place] = replace(made[place], control=control)
    return from_program(made, h200(), ways=[Way([([(0, len(made))], 1)])], blocks=[[0]])


def _clocks(data: str, number: int, warps: int, seen: int, spins: int, place: int | None) -> list[list[int]]:
    """Return the clock at each instruction of the warps behind the barrier if one reads it in place of one of them."""
    laid = _laid(data, number)
    steps, size = list(laid.steps), len(laid.steps)
    mine = list(laid.steps)  # a copy of the code for this warp
    if place is not None:
        mine[_PADS + 1 + script("crowds").GAPS + place] = replace(mine[_PADS], stall=11.0)
    steps += [
        *mine,
        *[Step(label="spins", stall=8.0)] * spins,
        steps[0],
        Step(label="NOP", stall=11.0),
        Step(label="NOP"),
    ]
    others = Way([([(0, 1), (2, size)], 1)])
    ways = [others, Way([([(size, 2 * size)], 1)]), Way([([(2 * size, len(steps))], 1)]), Way([([(1, 2)], 1)])]
    blocks = [[way for warp in range(warps) for way in (int(warp == seen), 3, 3, 3)] + [2, 3, 3, 3]]
    laid = replace(laid, steps=steps, ways=ways, blocks=blocks, place=-_PADS % at.LINE_INSTRUCTIONS)
    issued, held = [list[int]() for _ in range(warps)], set[int]()
    events = run(laid, h200(), Options(events=40_000), resident=1, blocks=1).events
    for time, what, warp, step, cycles in events.tolist():
        if what == at.HELD and step == 0:
            held.update(range(time, time + cycles))
        elif what == at.ISSUED and warp % 4 == 0 and warp // 4 < warps and step % size >= _PADS:
            issued[warp // 4].append(time)
    clocks = [[read_at(time, held) for time in each] for each in issued]
    return [[time - clocks[-1][0] for time in each] for each in clocks]


def _right(data: str, number: int, row: Any) -> tuple[int, int]:
    """Return how many clocks of a code are right, and of how many: those whose begin is as simulated."""
    _, warps, *looks = row
    right = known = 0
    first = 1 + script("crowds").GAPS
    for seen, (begins, clocks) in enumerate(looks):
        modes = _SPINS if data == "crowds" else _SPINS[:1]
        whole = {spins: _clocks(data, number, warps, seen, spins, None) for spins in modes}
        fits = [spins for spins, found in whole.items() if [each[0] for each in found] == begins]
        for place, clock in enumerate(clocks):
            if clock is None or not fits:
                continue
            known += 1
            right += clock in [whole[spins][seen][first + place] for spins in fits] or clock in [
                _clocks(data, number, warps, seen, spins, place)[seen][first + place] for spins in fits
            ]
    return right, known


def _share(warps: int, kind: str, least: float = 0.5, data: str = "crowds") -> float:
    """Return the share of right clocks of all codes whose name begins so; so many have to begin as simulated."""
    found = [
        _right(data, number, row)
        for number, row in enumerate(read(f"h200/{data}.json.gz")["rows"])
        if row[1] == warps and row[0].startswith(kind)
    ]
    known = sum(known for _, known in found)
    assert known >= least * len(found) * warps * script("crowds").LENGTH
    return sum(right for right, _ in found) / known


_EXACT = {
    3: ("halves", "one register", "two chains", "lop3 fadd", "imad lop3", "dfma", "lds fadd"),
    4: ("halves", "one register", "lop3 fadd", "imad lop3", "dfma"),
    5: ("halves", "one register", "lop3 fadd", "imad lop3"),
    7: ("one register", "dfma"),
}
_TAILS = {("tail 1", 1): 0.97, ("tail 1", 2): 1.0, ("tail 1", 3): 0.99, ("tail 1", 4): 1.0, ("tail 4", 1): 1.0,
          ("tail 4", 2): 1.0, ("tail 4", 3): 0.97, ("tail 4", 4): 0.94}  # fmt: skip


@pytest.mark.parametrize("kind", _EXACT[3])
def test_three_warps_come_to_every_instruction_when_measured(kind: str) -> None:
    assert _share(3, kind) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("warps", "kind"), [(warps, kind) for warps in (4, 5, 7) for kind in _EXACT[warps]])
def test_a_crowd_comes_to_every_instruction_when_measured(warps: int, kind: str) -> None:
    assert _share(warps, kind, 0.6 if warps == 5 else 0.14) == 1


def test_random_adds_of_three_warps_come_when_measured() -> None:
    assert _share(3, "adds", 0.87) >= 0.997


@pytest.mark.slow
@pytest.mark.parametrize(("warps", "least"), [(4, 0.97), (5, 0.98), (7, 0.84)])
def test_random_adds_of_a_crowd_come_when_measured(warps: int, least: float) -> None:
    assert _share(warps, "adds", 0.22) >= least


def test_the_warp_that_spun_halves_the_counts_once_in_two() -> None:
    plain, halved = (_clocks("crowds", 0, 3, 2, spins, None) for spins in _SPINS)
    assert plain != halved


def test_who_ran_ahead_leaves_the_turn_as_measured() -> None:
    """A warp whose loads find room runs to its end, and the next one by the rule: its load had a place when it came."""
    assert _share(3, "lds 4 fadd") == 1


@pytest.mark.parametrize(("kind", "warps"), _TAILS)
def test_adds_and_chains_of_loads_come_when_measured(kind: str, warps: int) -> None:
    """Loads of shared memory in a row, of several warps: one more is taken while fewer than six are not sent."""
    assert _share(warps, kind) >= _TAILS[kind, warps]


_LOADS = {("tail", 2): 0.99, ("chain", 2): 0.6, ("chain", 3): 0.66}  # how many begin as simulated
_MORE_LOADS = {("tail", 3): 0.93, ("tail", 4): 0.86, ("tail", 5): 0.44, ("tail", 6): 0.37, ("chain", 4): 0.84,
               ("chain", 5): 0.84, ("chain", 6): 0.88, ("chain", 7): 0.86}  # fmt: skip


@pytest.mark.parametrize(("kind", "warps"), _LOADS)
def test_loads_behind_adds_by_chance_come_when_measured(kind: str, warps: int) -> None:
    """Who waited for an operand is known some cycles before, and results of loads wait for those that came before."""
    assert _share(warps, kind, _LOADS[kind, warps], "tails") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "warps"), _MORE_LOADS)
def test_loads_of_a_crowd_by_chance_come_when_measured(kind: str, warps: int) -> None:
    assert _share(warps, kind, 0.28, "tails") >= _MORE_LOADS[kind, warps]


@pytest.mark.parametrize(("kind", "warps", "share"), [
    ("high", 1, 1.0), ("high", 2, 1.0), pytest.param("high", 3, 0.96, marks=pytest.mark.slow),
    ("sfu", 1, 1.0), ("sfu", 2, 1.0), pytest.param("sfu", 3, 0.9, marks=pytest.mark.slow),
])  # fmt: skip
def test_products_and_sfus_of_warps_in_step_come_when_measured(kind: str, warps: int, share: float) -> None:
    """High halves whose sum was just made take no port for it; an SFU that gives way delays all that is in it."""
    assert _share(warps, kind, 0.3) >= share
