"""Which unit serves which instruction, and what rows of uniform registers cost: loops by hand on an H200."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from warplens.papers.validation.stored import read

from .by_hand import Placed, placed, turn_cycles

_INSTRUCTIONS = 80
_OTHERS = ("", "FADD", "FADD FADD", "IADD3", "IMAD", "HFMA2", "HFMA2.MMA")
_URZ = 63
_PLAIN, _SLOTS = 132.0, 17  # cycles of a turn that waits for nothing, and how often a uniform instruction is in it


@cache
def _measured() -> dict[str, Any]:
    return read("experiments/register_ports/units.json.gz")


def _off(name: str, other: str, warps: int) -> float:
    """Return by which part the simulated turn is too slow."""
    row = _measured()["instructions"][name]
    one: Placed = row["text"], 1, False
    simulated = turn_cycles([one, *map(placed, _measured()["others"][other])], warps)
    return simulated / float(row["cycles"][other][warps - 1]) - 1


def _wrong(other: str, warps: int, first: int, every: int) -> tuple[int, list[tuple[str, float]]]:
    names = list(_measured()["instructions"])
    assert len(names) == _INSTRUCTIONS and tuple(_measured()["others"]) == _OTHERS
    off = {name: _off(name, other, warps) for name in names[first::every]}
    return len(off), [(name, by) for name, by in off.items() if abs(by) > 0.03]


@pytest.mark.parametrize("other", _OTHERS)
def test_an_instruction_takes_its_unit(other: str) -> None:
    """Every fourth, others with each; `test-all` takes all of them."""
    assert _wrong(other, 1, _OTHERS.index(other) % 4, 4) == (_INSTRUCTIONS // 4, [])


@pytest.mark.slow
@pytest.mark.parametrize("other", _OTHERS)
def test_every_instruction_takes_its_unit(other: str) -> None:
    assert _wrong(other, 1, 0, 1) == (_INSTRUCTIONS, [])


@pytest.mark.slow
@pytest.mark.parametrize("other", _OTHERS)
def test_two_warps_share_units(other: str) -> None:
    """Multiply-adds with two operands of a bank are up to 23 % too slow in turn with adds: nothing else is off."""
    count, wrong = _wrong(other, 2, 0, 1)
    known = {"FFMA", "FFMA RZ", "FFMA RM", "FFMA RP"} if other.startswith("FADD") else set[str]()
    assert count == _INSTRUCTIONS and {name for name, _ in wrong} <= known


def test_units_are_told_apart() -> None:
    """What is explained: alone nearly all take two cycles, in turn with another only those of the other's unit."""
    cycles = [row["cycles"] for row in _measured()["instructions"].values()]
    slow = {other: sum(row[other][0] > 1.5 * _PLAIN for row in cycles) for other in _OTHERS}
    assert slow == {"": 73, "FADD": 2, "FADD FADD": 0, "IADD3": 38, "IMAD": 12, "HFMA2": 22, "HFMA2.MMA": 1}


def _rows_off(name: str, every: int) -> list[float]:
    """Return by how many cycles simulated turns of words are too long."""
    pairs = list(zip(_measured()["words"][name], _measured()[name], strict=True))[::every]
    return [turn_cycles([*map(placed, word)]) - cycles for word, cycles in pairs]


@pytest.mark.parametrize(
    ("every", "words"), [(15, 65), pytest.param(1, 963, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_rows_of_uniform_registers_take_what_was_measured(every: int, words: int) -> None:
    """To 1.5 cycles of a turn; two are 14 and 21 too short: in them one of two or three adds reads such a register."""
    off = _rows_off("uniform", every) + _rows_off("rows", every)
    assert len(off) == words and sum(abs(cycles) > 1.5 for cycles in off) <= (2 if every == 1 else 0)


def test_a_uniform_instruction_costs_a_slot_where_it_reads_two_rows() -> None:
    """Measured: rows of four registers, and only if what follows reads a uniform register too."""
    seen = {False: 0, True: 0}
    for name, words in _measured()["words"].items():
        for word, cycles in zip(words, _measured()[name], strict=True):
            if len(word) == 5 and {slot[0] for slot in word[1:]} in ({"FADD"}, {"FADD.U"}):
                read = {register // 4 for register in word[0][1][1:] if register != _URZ}
                costs = len(read) > 1 and word[1][0] == "FADD.U"
                assert cycles == _PLAIN + _SLOTS * costs, word
                seen[costs] += 1
    assert seen == {False: 584, True: 334}
