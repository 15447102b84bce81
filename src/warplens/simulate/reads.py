"""How arithmetic reads its registers: for each bank a machine of states, learned from an H200 (data/h200/read_ports).

The registers of a scheduler lie in two banks, even and odd numbers. An instruction has three lanes, A, B and C, for its
operands. What a bank does next depends on the lanes it serves, now and in the last few cycles: a state. An input is an
instruction, by its lanes of that bank, or a cycle without one; the output is for how many cycles it waits. What runs
on the units of double precision (HFMA2.MMA too) reads later than the others: it was learned with them, apart from what
operands do that are not in their registers yet.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.kernel.instruction import Instruction, Operand
from warplens.simulate import layout as at

_NUMBER = re.compile(r"R(\d+)")
_SOURCES = ("register", "constant", "immediate", "uniform", "memory")
# Sums of two read the second operand where others have the third: a product with one, and a sum.
_SUMS = ("FADD", "HADD2", "DADD")
SOON = 6.0  # cycles from the issue of an instruction until its result is in its register
_LANES = {1: (1,), 2: (0, 1), 3: (0, 1, 2)}
_PREDICATES_ONLY = ("FCHK", "R2P")  # as comparisons: their first register is no result


@cache
def _learned() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(__file__).with_name("files").joinpath("register_reads.json").read_text())
    return read


@cache
def read_states() -> Any:
    """Return the states of a bank: for each and each input the next one, and in its lowest bits the cycles to wait."""
    learned = _learned()
    following = np.array([[int(x) for x in row.split()] for row in learned["next"]], np.int64)
    waits = np.array([[int(x) for x in row] for row in learned["waits"]], np.int64)
    return following << at.WAIT_BITS | waits


class Inputs(Struct, frozen=True, gc=False):
    """What an instruction is to both banks: right behind one of its warp, behind another's, and that soon enough.

    An operand that was made up to six cycles before is not in its register yet, and comes otherwise: so it is if the
    instruction issues at most `slack` cycles later than its warp's stall counts allow.
    """

    own: tuple[int, int] = (0, 0)
    other: tuple[int, int] = (0, 0)
    soon: tuple[int, int] = (0, 0)
    slack: float = -1.0


class Reader:
    """Goes through the code of a warp: which registers are made shortly before, and which lanes keep theirs for reuse.

    A lane keeps an operand that is marked until its next one. The units of double precision have lanes of their own.
    """

    def __init__(self) -> None:
        self.lanes: dict[tuple[bool, int], str] = {}
        self.made: dict[str, float] = {}
        self.now = 0.0

    def reads(self, x: Instruction, stall: float, *, fixed: bool) -> Inputs:
        """Return what the next instruction is to the banks; its warp may issue again after its stall."""
        late, lanes, plain = _wanted(x.text, x.opcode, x.kind, x.modifiers, x.reads, x.operands)
        own, other = list[tuple[int, str]](), list[tuple[int, str]]()
        for lane, wanted, marked in lanes:
            other += wanted
            if not wanted or self.lanes.get((late, lane)) != wanted[0][1]:
                own += wanted
            if marked:
                self.lanes[late, lane] = wanted[0][1]
            else:
                self.lanes.pop((late, lane), None)
        away = {r: self.now - self.made[r] for _, r in other if self.now - self.made.get(r, -SOON - 1.0) <= SOON}
        if x.target is not None:
            self.lanes.clear()
        self.made.update(dict.fromkeys(x.writes, self.now if fixed else -SOON - 1.0))
        self.now += stall
        fresh = frozenset(away)
        soon = _inputs(tuple(other), late, fresh) if away else plain
        slack = SOON - max(away.values()) if away else -1.0
        return Inputs(soon if len(own) == len(other) else _inputs(tuple(own), late, fresh), plain, soon, slack)


_Wanted = tuple[tuple[int, str], ...]  # lanes and registers


@lru_cache(16384)
def _wanted(
    text: str,
    opcode: str,
    kind: str,
    modifiers: tuple[str, ...],
    reads: tuple[str, ...],
    operands: tuple[Operand, ...],
) -> tuple[bool, list[tuple[int, _Wanted, bool]], tuple[int, int]]:
    """Return whether an instruction reads late, what it reads by its lanes and whether these keep it, and its inputs.

    It is a function of what long code has few of that differ, wherever they stand.
    """
    late = kind == "fp64" or (opcode == "HFMA2" and "MMA" in modifiers)
    found = list[tuple[int, _Wanted, bool]]()
    for lane, o in _lanes(opcode, operands):
        wide = kind == "fp64" or (lane == 2 and "WIDE" in modifiers)
        wanted = tuple((lane, r) for r in (_pair(o.registers) if wide else o.registers) if r in reads)
        found.append((lane, wanted, bool(wanted) and f"{wanted[0][1]}.reuse" in text))
    return late, found, _inputs(tuple(one for _, wanted, _ in found for one in wanted), late)


def _lanes(opcode: str, operands: tuple[Operand, ...]) -> list[tuple[int, Operand]]:
    """Return the operands that an instruction reads, and their lanes."""
    while operands and operands[0].kind == "predicate":
        operands = operands[1:]
    if operands and operands[0].kind == "register" and "SETP" not in opcode and opcode not in _PREDICATES_ONLY:
        operands = operands[1:]
    behind = (*(o.kind for o in operands[1:]), "")
    sources = [o for o, next_one in zip(operands, behind, strict=False)
               if o.kind in _SOURCES and not o.kind == next_one == "immediate"][:3]  # fmt: skip
    return list(zip((0, 2) if opcode in _SUMS else _LANES.get(len(sources), ()), sources, strict=False))


@lru_cache(1024)
def _pair(registers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the two registers of a number of 64 bits."""
    numbers = [int(m[1]) for r in registers[:1] if (m := _NUMBER.fullmatch(r))]
    return tuple(f"R{n + k}" for n in numbers for k in (0, 1))


@lru_cache(4096)
def _inputs(
    wanted: tuple[tuple[int, str], ...], late: bool, fresh: frozenset[str] = frozenset()
) -> tuple[int, int]:  # fmt: skip
    """Return the inputs of both banks for registers by their lane.

    A lane that reads is an `e`, or an `x` where another one reads the same register, or a `d` where it is fresh: one.
    """
    found = []
    for bank in (0, 1):
        lanes = {lane: r for lane, r in wanted if _bank(r) == bank}
        several = {lane for lane, r in lanes.items() if list(lanes.values()).count(r) > 1} if len(lanes) > 1 else ()
        first = next((lane for lane, r in lanes.items() if r in fresh), None) if fresh and not several else None
        letters = ["n" if k not in lanes else "x" if k in several else "d" if k == first else "e" for k in range(3)]
        found.append(lanes_input("".join(letters), late=late))
    return found[0], found[1]


@lru_cache(1024)
def _bank(register: str) -> int | None:
    """Return the bank that a register lies in; none for those of other files."""
    match = _NUMBER.fullmatch(register)
    return int(match[1]) % 2 if match else None


@cache
def lanes_input(lanes: str, *, late: bool) -> int:
    """Return the input of a bank that serves these lanes."""
    symbols: list[str] = _learned()["symbols"]
    if lanes == "nnn" and not late:
        return 0
    name = "late " * late + lanes
    for known in (name, name.replace("x", "e"), name.replace("d", "e")):
        if known in symbols:
            return symbols.index(known)
    raise AssertionError(name)


def first_state(*, late: bool) -> int:
    """Return the state that a bank is in at first, in code with instructions of double precision or without."""
    return int(_learned()["first"][late])
