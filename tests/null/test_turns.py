"""The laboratory's loops turn by turn, to the cycle: loop_turns.json.gz, and to other targets loop_targets.json.gz."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from warplens.papers.validation.begins import BEFORE, FIRST_LATER, SCHEDULERS, behind_barrier, issues_of_few
from warplens.papers.validation.mixes import read
from warplens.program.decoding import decode_texts
from warplens.program.instruction import Control, Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import Way
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options, run

from .by_hand import h200, read_at

_WARPS, _TURNS = 8, 8
_ROWS: Any = read("h200/loop_turns.json.gz")
_TARGETS: Any = read("h200/loop_targets.json.gz")


@cache
def _code(name: str, stall: int = 0, *, of_targets: bool = False) -> tuple[list[Instruction], int]:
    """Return a loop and its place in a line, with another stall count before its branch.

    Its predicates hold when its time is up: until then what they guard does nothing.
    """
    loop = next(loop for loop in (_TARGETS if of_targets else _ROWS)["loops"] if loop["name"] == name)
    known, made = decode_texts([text for text, *_ in loop["code"]]), list[Instruction]()
    for text, stalls, yields, board, waits, reuse in loop["code"]:
        x = replace(known[text], control=Control(stalls, yields, board, None, waits, reuse))
        made.append(replace(x, writes=()) if x.guard and x.opcode != "BRA" else x)
    if stall and (control := made[-2].control):
        made[-2] = replace(made[-2], control=replace(control, stall=stall))
    return made, loop["place"]


def _clock(code: list[Instruction]) -> int:
    """Return which instruction of a loop reads the clock at its end."""
    return max(i for i, x in enumerate(code) if x.opcode == "CS2R")


def _read(code: list[Instruction], place: int, way: Way, issued: list[int], limit: float) -> list[list[int]]:
    """Return what each warp reads of the clock at the end of each turn."""
    warps = len(issued)
    laid = from_program(code, h200(), ways=[way], blocks=[[0] * warps])
    laid = replace(behind_barrier(laid, [issued], FIRST_LATER), steady=True, place=place)
    times, held = [list[int]() for _ in range(warps)], [set[int]() for _ in range(SCHEDULERS)]
    events = run(laid, h200(), Options(events=200_000), resident=1, blocks=1, limit=limit).events
    for time, what, warp, step, cycles in events:
        if what == at.HELD:
            held[int(step)].update(range(int(time), int(time + cycles)))
        elif what == at.ISSUED and step == _clock(code):
            times[int(warp)].append(int(time))
    return [[read_at(time, held[k % SCHEDULERS]) for time in each[:_TURNS]] for k, each in enumerate(times)]


def _ends(name: str, stall: int, warps: int) -> list[list[int]]:
    """Return what each warp reads of the clock at the end of each turn."""
    code, place = _code(name, stall)
    longest = max(
        end for row in _ROWS["rows"] if row[:3] == [name, stall, warps] for each in row[3] for end in each if end
    )
    way = Way([([(0, len(code))], ENDLESS)])
    return _read(code, place, way, issues_of_few(warps), longest + 2 * BEFORE)


def _right(name: str, stall: int, warps: int = _WARPS) -> list[int]:
    """Return how many turns of all warps end as measured, of the first and of the second scheduler.

    Counted is from the end of the first turn of the warp that begins first, up to the first turn that is off.
    """
    measured = next(row[3] for row in _ROWS["rows"] if row[:3] == [name, stall, warps])
    simulated, found = _ends(name, stall, warps), list[int]()
    for s in range(2):
        first = warps - SCHEDULERS + s
        right = 0
        for turn in range(_TURNS):
            ends = [(measured[k][turn], simulated[k][turn]) for k in range(s, warps, SCHEDULERS)]
            from_begin = [(m and m - (measured[first][0] or 0), e - simulated[first][0]) for m, e in ends]
            if any(m is not None and m != e for m, e in from_begin):
                break
            right += any(m is not None for m, _ in from_begin)
        found.append(right)
    return found


_LOOPS = [(name, stall) for name, stall, warps, _ in _ROWS["rows"] if warps == _WARPS and "imad_hi" not in name]


@pytest.mark.parametrize(("name", "stall"), _LOOPS)
def test_turns_of_two_warps_end_when_measured(name: str, stall: int) -> None:
    """Also where one branches six cycles behind the other, and where counts of issues say whose line comes first."""
    both = [_TURNS, _TURNS]
    assert _right(name, stall) == (both if name != "instruction.dfma" else [_TURNS, 0])  # there launches differ


_THREE = {"instruction.imad_wide": 2, "instruction.dfma": 1, "instruction.mufu_sin.ilp2": 1}  # on so many schedulers


@pytest.mark.parametrize("name", _THREE)
def test_turns_of_three_warps_end_when_measured(name: str) -> None:
    assert _right(name, 0, 12)[: _THREE[name]] == [_TURNS] * _THREE[name]


def test_high_halves_of_two_warps_take_what_was_measured() -> None:
    """They begin otherwise than simulated, but then go on as long, in the same two turns for ever."""
    measured = next(row[3] for row in _ROWS["rows"] if row[:3] == ["instruction.imad_hi", 0, _WARPS])
    simulated = _ends("instruction.imad_hi", 0, _WARPS)
    for k in (1, 5):
        lengths = [{b - a for a, b in pairwise(ends[2:])} for ends in (measured[k], simulated[k])]
        assert lengths[0] == lengths[1]


def _wrong_targets(name: str, issued: list[int], later: int = 0) -> list[int]:
    """Return how many instructions are left where the second turn of the first scheduler ends otherwise than measured.

    That is from the end of the first turn on, which may come some cycles `later` on an SM, for all its warps. Right is
    what a twentieth of the launches does.
    """
    wrong, (code, place), warps = list[int](), _code(name, of_targets=True), len(issued)
    rows = [row for row in _TARGETS["rows"] if row[:1] + row[2:4] == [name, warps, 0] and row[5]]
    begun = next(row[4] for row in rows[::-1] if row[4])  # the same in all of them, in most launches
    assert len(rows) >= 19
    for _, left, _, _, _, seconds in rows:
        way = Way([([(0, len(code))], 1), ([(_clock(code) - left, len(code))], ENDLESS)])
        ends = _read(code, place, way, issued, 2 * BEFORE + 3 * max(seconds[0][0]))[::SCHEDULERS]
        since = [tuple(each[k] - min(e[0] for e in ends) for each in ends) for k in range(2)]
        assert since[0] == tuple(end - min(begun) for end in begun)
        often = [second for second, times in seconds if times > sum(n for _, n in seconds) / 20]
        seen = {tuple(end - min(begun) - late for end in second) for second in often for late in range(later + 1)}
        if since[1] not in seen:
            wrong.append(left)
    return wrong


@pytest.mark.parametrize("name", sorted({row[0] for row in _TARGETS["rows"]}))
def test_second_turns_of_two_warps_end_when_measured_from_all_targets(name: str) -> None:
    """A branch delays a target by the places of both in their lines, even or odd."""
    assert _wrong_targets(name, issues_of_few(8)) == []


# How often the first warp of the first scheduler may have issued before: chosen by these targets, of 7 to 14.
_SPUN = {"instruction.hfma2": 10, "instruction.hfma2_1": 12, "instruction.ffma": 9, "instruction.dfma": 13}


@pytest.mark.parametrize("name", _SPUN)
def test_second_turns_of_three_warps_end_when_measured_from_all_targets(name: str) -> None:
    """Its neighbours have issued as often before as where there are two, but how long it has spun is not known."""
    assert _wrong_targets(name, [_SPUN[name], *issues_of_few(12)[1:]], later=4) == []


def test_second_turns_of_five_warps_end_when_measured_from_all_targets_but_one() -> None:
    """With one instruction left they are at the end of a line at once."""
    assert _wrong_targets("instruction.hfma2", issues_of_few(20), later=4) == [1]
