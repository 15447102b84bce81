"""Register reads of arithmetic: banks and lanes, as random code on an H200 shows them (data/h200/read_words).

The registers of a scheduler lie in two banks, even and odd numbers. An instruction has three lanes, A, B and C, for its
operands, and the reuse cache of each bank has an entry for each lane; the units of double precision (HFMA2.MMA too)
have a reuse cache of their own. An instruction goes through three stages, one a cycle, and can read in each of them
(`register_ports.read`). `Operands` has the registers of each bank, their lanes, which of them are kept for reuse, and
how many instructions before they were written, since a fresh result is not in its register yet.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from warplens.program.instruction import Instruction, Operand, OperandKind
from warplens.simulator import layout as at

_NUMBER = re.compile(r"R(\d+)")
_UNIFORM = re.compile(r"UR(\d+)")
_SOURCES = ("register", "constant", "immediate", "uniform", "memory")
# Sums of two read the second operand where others have the third: a product with one, and a sum.
_SUMS = ("FADD", "HADD2", "DADD")
_LANES = {1: (1,), 2: (0, 1), 3: (0, 1, 2)}
_PREDICATES_ONLY = ("FCHK", "R2P")  # as comparisons: their first register is no result
_RESULT, _DOUBLE_RESULT = float(at.MADE), at.MADE + 2.0  # cycles; the second for the units of double precision


class Operands(Struct, frozen=True, gc=False):
    """Registers that an instruction reads of the even and of the odd bank, as the engine's words (`layout.READ_BITS`).

    `double`: it has the reuse cache of double precision. `result_cycles`: until its result is in its register, when it
    has left. `extra`: cycles for which a wide product stays in the last stage.
    """

    even: int = 0
    odd: int = 0
    double: bool = False
    result_cycles: float = 0.0
    extra: float = 0.0
    writes: int = 0  # a bit for each bank that its result lies in
    rows: int = 0  # of uniform registers that it reads


# A lane that reads a register, and whether it keeps it.
_LANE_BITS = {
    (lane, keeps): 1 << lane + at.LANES_AT | keeps << lane + at.KEEPS_AT for lane in range(3) for keeps in (0, 1)
}
_Wanted = tuple[Operands, list[tuple[str, int, int]]]


class Reader:
    """Reader of a warp's code that knows how many instructions before registers were written."""

    def __init__(self) -> None:
        self.written: dict[str, int] = {}
        self.count = 0
        # By text, class, reuse flags and extra cycles: loops are unrolled.
        self.known: dict[tuple[str, str, int, float], _Wanted] = {}

    def reads(self, x: Instruction, *, fixed: bool, extra: float = 0.0) -> Operands:
        """Return what the next instruction reads; its result has a fixed time, or others wait by scoreboard."""
        fresh, count, control = self.written, self.count, x.control
        key = x.text, x.kind, control.reuse if control else 0, extra
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = _wanted(x, key[2], extra)
        wanted, registers = found
        even = odd = 0
        for register, bank, at_bit in registers if fresh else ():
            back = count - fresh.get(register, -at.REMEMBERED)
            if back < at.REMEMBERED:
                if bank:
                    odd |= back << at_bit
                else:
                    even |= back << at_bit
        self.passes(x, fixed=fixed)
        return replace(wanted, even=wanted.even | even, odd=wanted.odd | odd) if even or odd else wanted

    def passes(self, x: Instruction, *, fixed: bool) -> None:
        """Go on behind an instruction, whatever it reads."""
        if x.target is not None:
            self.written.clear()
        for register in x.writes:
            if fixed:
                self.written[register] = self.count
            else:
                self.written.pop(register, None)
        self.count += 1


def _wanted(x: Instruction, reuse: int, extra: float) -> _Wanted:
    """Return what an instruction reads, but for when registers were written.

    For that its registers, each with its bank and its bit of the word. Words have them in the order of lanes: a
    register has a number, the lanes that read it and those that keep it, a bit for each.
    """
    double = x.kind == "fp64" or (x.opcode == "HFMA2" and "MMA" in x.modifiers)
    found, kind, reads = dict[tuple[str, bool], int](), x.kind, x.reads
    for lane, o in _lanes(x.opcode, x.operands):
        added = lane == 2 and kind == "imul_wide"  # read by itself, though a factor may be the same register
        for r in _pair(o.registers) if added or kind == "fp64" else o.registers:
            if r in reads and number_of(r) is not None:
                found[r, added] = found.get((r, added), 0) | _LANE_BITS[lane, reuse >> lane & 1]
    words, ends, registers = [0, 0], [0, 0], list[tuple[str, int, int]]()
    for (r, _), lanes_and_keeps in found.items():
        number = number_of(r) or 0
        bank, lanes = number % 2, lanes_and_keeps >> at.LANES_AT & 0o7
        end = ends[bank]
        words[bank] |= (number | lanes_and_keeps) << end | (at.SEVERAL if end or lanes & lanes - 1 else 0)
        registers.append((r, bank, end + at.BACK_AT))
        ends[bank] = end + at.READ_BITS
    cycles, rows = _DOUBLE_RESULT if double else _RESULT, uniform_rows(reads)
    return Operands(words[0], words[1], double, cycles, extra, written(x.writes), rows), registers


@lru_cache(1024)
def number_of(register: str) -> int | None:
    """Return the number of a general register; None: it is another one."""
    found = _NUMBER.fullmatch(register)
    return int(found[1]) if found else None


def _lanes(opcode: str, operands: tuple[Operand, ...]) -> list[tuple[int, Operand]]:
    """Return the operands that an instruction reads, and their lanes."""
    return [(lane, operands[i]) for lane, i in _sources(opcode, tuple([o.kind for o in operands]))]


@lru_cache(1024)
def _sources(opcode: str, kinds: tuple[OperandKind, ...]) -> list[tuple[int, int]]:
    """Return the lanes that an instruction with operands of these kinds reads, and the number of each one's operand."""
    first = 0
    while first < len(kinds) and kinds[first] == "predicate":
        first += 1
    named = first < len(kinds) and kinds[first] == "register"
    if named and "SETP" not in opcode and opcode not in _PREDICATES_ONLY:
        first += 1
    behind = (*kinds[1:], "")
    sources = [i for i in range(first, len(kinds))
               if kinds[i] in _SOURCES and not kinds[i] == behind[i] == "immediate"][:3]  # fmt: skip
    return list(zip((0, 2) if opcode in _SUMS else _LANES.get(len(sources), ()), sources, strict=False))


@lru_cache(1024)
def _pair(registers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the two registers of a number of 64 bits."""
    numbers = [n for r in registers[:1] if (n := number_of(r)) is not None]
    return tuple(f"R{n + k}" for n in numbers for k in (0, 1))


@lru_cache(4096)
def written(registers: tuple[str, ...]) -> int:
    """Return the banks that registers lie in, a bit for each."""
    numbers = [n for r in registers if (n := number_of(r)) is not None]
    return any(n % 2 == 0 for n in numbers) | any(n % 2 for n in numbers) << 1


@lru_cache(4096)
def uniform_rows(registers: tuple[str, ...]) -> int:
    """Return how many rows of four uniform registers are read, as an H200 does (units.json.gz)."""
    return len({int(found[1]) // 4 for r in registers if (found := _UNIFORM.fullmatch(r))})
