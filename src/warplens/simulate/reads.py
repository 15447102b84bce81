"""How arithmetic reads its registers, as random code on an H200 shows it (data/h200/read_words).

The registers of a scheduler lie in two banks, even and odd numbers. An instruction has three lanes, A, B and C, for its
operands, and each bank has a latch for each lane; the units of double precision (HFMA2.MMA too) have latches of their
own. An instruction goes through three stages, one a cycle, and can read in each of them (`ports.read`). Here it is said
what it reads: which registers of each bank, in which lanes, which of them it keeps for reuse, and how many instructions
before they were made, since what has just been made is not in its register yet.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from warplens.kernel.instruction import Instruction, Operand
from warplens.simulate import layout as at

_NUMBER = re.compile(r"R(\d+)")
_SOURCES = ("register", "constant", "immediate", "uniform", "memory")
# Sums of two read the second operand where others have the third: a product with one, and a sum.
_SUMS = ("FADD", "HADD2", "DADD")
_LANES = {1: (1,), 2: (0, 1), 3: (0, 1, 2)}
_PREDICATES_ONLY = ("FCHK", "R2P")  # as comparisons: their first register is no result
_MADE, _MADE_APART = float(at.MADE), at.MADE + 2.0  # the second for the units of double precision


class Operands(Struct, frozen=True, gc=False):
    """What an instruction reads of the even and of the odd bank, as words of the engine's (`layout.READ_BITS`).

    `apart`: it has the latches of double precision. `made`: cycles until its result is in its register, when it has
    left. `extra`: cycles for which a wide product stays in the last stage.
    """

    even: int = 0
    odd: int = 0
    apart: bool = False
    made: float = 0.0
    extra: float = 0.0
    writes: int = 0  # a bit for each bank that its result lies in


class Reader:
    """Goes through the code of a warp: which registers were made how many instructions before."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}
        self.count = 0

    def reads(self, x: Instruction, *, fixed: bool, extra: float = 0.0) -> Operands:
        """Return what the next instruction reads; its result has a fixed time, or others wait by scoreboard."""
        apart, wanted = _wanted(x.opcode, x.kind, x.modifiers, x.reads, x.operands, x.control.reuse if x.control else 0)
        words = [0, 0]
        several = [0, 0]
        for register, number, lanes, keeps in reversed(wanted):
            back = self.count - self.made.get(register, -at.REMEMBERED)
            entry = number | lanes << at.LANES_AT | keeps << at.KEEPS_AT
            if back < at.REMEMBERED:
                entry |= back << at.BACK_AT
            if words[number % 2] or lanes & lanes - 1:
                several[number % 2] = at.SEVERAL
            words[number % 2] = words[number % 2] << at.READ_BITS | entry
        if x.target is not None:
            self.made.clear()
        for register in x.writes:
            if fixed:
                self.made[register] = self.count
            else:
                self.made.pop(register, None)
        self.count += 1
        even, odd = (word | more for word, more in zip(words, several, strict=True))
        return Operands(even, odd, apart, _MADE_APART if apart else _MADE, extra, written(x.writes))


@lru_cache(16384)
def _wanted(
    opcode: str,
    kind: str,
    modifiers: tuple[str, ...],
    reads: tuple[str, ...],
    operands: tuple[Operand, ...],
    reuse: int,
) -> tuple[bool, list[tuple[str, int, int, int]]]:
    """Return whether an instruction has the units of double precision, and its registers in the order of their lanes.

    A register has a number, the lanes that read it and those that keep it, a bit for each.
    """
    apart = kind == "fp64" or (opcode == "HFMA2" and "MMA" in modifiers)
    found = dict[str, list[int]]()
    for lane, o in _lanes(opcode, operands):
        wide = kind == "fp64" or (lane == 2 and kind == "imul_wide")
        for r in _pair(o.registers) if wide else o.registers:
            if r in reads and _NUMBER.fullmatch(r):
                lanes = found.setdefault(r, [0, 0])
                lanes[0] |= 1 << lane
                lanes[1] |= reuse & 1 << lane
    return apart, [(r, int(r[1:]), lanes, keeps) for r, (lanes, keeps) in found.items()]


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
def written(registers: tuple[str, ...]) -> int:
    """Return the banks that registers lie in, a bit for each."""
    numbers = [int(m[1]) for r in registers if (m := _NUMBER.fullmatch(r))]
    return any(n % 2 == 0 for n in numbers) | any(n % 2 for n in numbers) << 1
