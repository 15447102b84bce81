"""Decoder of machine instructions to rows of the emulator's code table.

Registers become rows of a table per warp (general ones first, then uniform ones), immediates and constants rows of a
pool behind them, predicates bits. What no rule here knows becomes UNKNOWN: its results are unknown values, and the
analysis goes on.
"""

from __future__ import annotations

import importlib
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import ops
from warplens.emulator.layout import BANK_BYTES, BANKS
from warplens.program.instruction import Instruction, Operand
from warplens.program.program import Program

_ALL = 0xFFFFFFFF
_SIGN = 0x80000000
_LARGEST = 1 << 63
_RELATIVE = frozenset(("BRX", "LEPC"))  # their results depend on their own address
PREDICATES = ("predicate", "uniform predicate")
REGISTERS = ("register", "uniform")

Key = tuple[str, int, int]  # ("bits", value, 0), ("address", half of a variable's, 0) or ("bank", bank, offset)


class Code(Struct, frozen=True):
    """A decoded program: the table, what the pool holds, how many rows a warp needs, rows and predicates by name.

    `arrays`: for each instruction the number of the pointer to whose array it goes, -1: any; empty: nobody looked.
    """

    table: npt.NDArray[np.int64]
    pool: list[Key]
    rows: dict[str, int]
    row_count: int
    reads: list[tuple[int, ...]]
    writes: list[tuple[int, ...]]
    unknown: dict[str, int]
    arrays: list[int] = []


class CannotDecode(Exception):
    """An instruction that no rule knows."""


def decode(program: Program) -> Code:
    """Decode a program."""
    for part in ("integer", "float", "memory"):
        importlib.import_module(f"warplens.emulator.decode_{part}")  # fills the table of rules
    return _Decoder(program).code()


_COLUMN = vars(ops)  # their numbers by name


def predicate_row(name: str) -> int:
    """Return the number of a predicate: P0 to P6, PT (7), UP0 to UP6 (8 on), UPT (15)."""
    base = 8 if name.startswith("U") else 0
    return base + (7 if name.endswith("PT") else int(name.lstrip("UP")))


class _Decoder:
    def __init__(self, program: Program) -> None:
        self.program = program
        groups = {names for x in program.instructions for names in (x.reads, x.writes)}
        names = {r for names in groups for r in names}
        general = max((int(n[1:]) for n in names if re.fullmatch(r"R\d+", n)), default=0)
        uniform = max((int(n[2:]) for n in names if re.fullmatch(r"UR\d+", n)), default=-1)
        self.rows = {f"R{i}": i for i in range(general + 4)}
        start = len(self.rows)
        self.rows.update({f"UR{i}": start + i for i in range(uniform + 4)})
        self.rows.update({f"Rpc.{part}": len(self.rows) + k for k, part in enumerate(("LO", "HI"))})
        self.sink = len(self.rows)  # four rows that take what is written to RZ
        self.count = self.sink + 4
        self.pool: list[Key] = [("bits", 0, 0)] * 16  # RZ, as wide as the largest fragment of a matrix
        self.pool_at: dict[tuple[Key, ...], int] = {}
        self.index = {x.offset: i for i, x in enumerate(program.instructions)}
        zero = self.zero = self.count
        columns = {
            "D": self.sink, "A": zero, "B": zero, "C": zero, "A_AND": _ALL, "B_AND": _ALL, "C_AND": _ALL, "PD": -1,
            "PD2": -1, "PS": 7, "PS2": 7, "GUARD": 7, "TARGET": -1,
        }  # fmt: skip
        numbered = {_COLUMN[name]: value for name, value in columns.items()}
        self.blank = [numbered.get(column, 0) for column in range(ops.COLUMNS)]
        self.numbers: dict[tuple[str, ...], tuple[int, ...]] = {}

    def code(self) -> Code:
        table, which, unknown = list[list[int]](), list[int](), dict[str, int]()
        known: dict[str, int] = {}  # rows by their text: long code has few that are written differently
        for x in self.program.instructions:
            at = known.get(x.text)
            if at is None:
                at = len(table)
                table.append(self._fields(x))
                if x.target is None and x.opcode not in _RELATIVE:
                    known[x.text] = at
            which.append(at)
            if table[at][ops.GROUP] == ops.UNKNOWN:
                unknown[x.name] = unknown.get(x.name, 0) + 1
        reads = [self._numbers(x.reads) for x in self.program.instructions]
        writes = [self._numbers(x.writes) for x in self.program.instructions]
        rows = np.array(table, np.int64).reshape(-1, ops.COLUMNS)[np.array(which, np.int64)]
        rows[_awaiting(self.program.instructions), ops.AWAITS] = 1
        return Code(rows, self.pool, self.rows, self.count, reads, writes, unknown)

    def _fields(self, x: Instruction) -> list[int]:
        """Return the row of an instruction; what no rule knows is unknown."""
        line = Line(self, x)
        try:
            line.decode()
            if not -_LARGEST <= min(line.fields) <= max(line.fields) < _LARGEST:
                raise CannotDecode
        except (CannotDecode, ValueError, IndexError, KeyError, AttributeError, StopIteration, OverflowError):
            line = Line(self, x)
            line.set(GROUP=ops.UNKNOWN)
        return line.fields

    def _numbers(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Rows of registers; predicates behind the rows."""
        if names not in self.numbers:
            found = []
            for name in names:
                if name in self.rows:
                    found.append(self.rows[name])
                elif re.fullmatch(r"U?P\d", name):
                    found.append(-1 - predicate_row(name))  # counted from the end: behind all rows
            self.numbers[names] = tuple(found)
        return self.numbers[names]

    def pooled(self, *keys: Key) -> int:
        """Return the row of constants, next to each other."""
        if any(kind == "bank" and not in_banks(bank, at) for kind, bank, at in keys):
            raise CannotDecode
        if keys not in self.pool_at:
            self.pool_at[keys] = len(self.pool)
            self.pool += [*keys, *([("bits", 0, 0)] if len(keys) == 1 else [])]
        return self.count + self.pool_at[keys]


_GLOBAL_LOADS = frozenset(("LD", "LDG", "ATOM", "ATOMG"))


def _awaiting(instructions: Sequence[Instruction]) -> list[int]:
    """Return which instructions wait for a load, by the scoreboards: the last one before them that sets it is one.

    The list is gone through twice, so that the head of a loop knows of the loads at its end.
    """
    pending, found, before = 0, set[int](), [-1] * len(instructions)
    for _ in range(2):
        for i, x in enumerate(instructions):
            if before[i] == pending:  # from here on it is as it was
                break
            before[i] = pending
            if x.control is None:
                continue
            if x.control.wait_mask & pending:
                found.add(i)
            pending &= ~x.control.wait_mask
            if x.control.write_scoreboard is not None:
                bit = 1 << x.control.write_scoreboard
                pending = pending | bit if x.opcode in _GLOBAL_LOADS else pending & ~bit
    return sorted(found)


class Line:
    """One instruction on its way to a row of the table."""

    def __init__(self, decoder: _Decoder, x: Instruction) -> None:
        self.d, self.x = decoder, x
        self.mods = set(x.modifiers)
        self.fields = decoder.blank.copy()
        if x.guard:
            self.set(GUARD=predicate_row(x.guard.lstrip("@!")), GUARD_NOT=int("!" in x.guard))

    def set(self, **values: int) -> None:
        """Set columns by name."""
        fields = self.fields
        for name, value in values.items():
            fields[_COLUMN[name]] = value

    def decode(self) -> None:
        """Apply the rule of the opcode."""
        rule = RULES.get(self.x.opcode)
        if rule is None:
            raise CannotDecode
        rule(self)

    # ---- operands
    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands as written."""
        return self.x.operands

    def register(self, text: str, zero: int | None = None) -> int:
        """Return the row of a register; `zero`: that of RZ, where it is not the row of zeros."""
        name = _bare(text)
        return (self.d.zero if zero is None else zero) if name in ("RZ", "URZ") else self.d.rows[name]

    def to(self, operand: Operand) -> None:
        """Name the destination register."""
        self.set(D=self.register(operand.text, self.d.sink))

    def results(self, written: Sequence[Operand]) -> None:
        """Name the destination register, and the predicates behind it."""
        self.to(written[0])
        for n, operand in enumerate(written[1:3]):
            self.into(operand, n == 0)

    def sources(self, operands: Sequence[Operand], kind: str = "int", width: int = 1) -> None:
        """Set sources A, B and C, as many as there are."""
        for which, operand in zip("ABC"[: len(operands)], operands, strict=True):
            self.source(which, operand, kind, width)

    def source(self, which: str, operand: Operand, kind: str = "int", width: int = 1) -> None:
        """Set source A, B or C: its row and what turns it into its negative, complement or absolute value."""
        if operand.kind in REGISTERS:
            at = self.register(operand.text)
        elif operand.text.startswith("32@"):
            at = self.d.pooled(("address", self._address_part(operand.text.replace(".reuse", "")), 0))
        else:
            at = self.d.pooled(*_constants(operand.text, operand.kind, kind, width))
        self.fields[_COLUMN[which]] = at
        for column, value in _changes(which, operand.text, operand.kind, kind):
            self.fields[column] = value

    def _address_part(self, text: str) -> int:
        """Return half of a variable's address: `32@lo(table)`, `32@hi((table + 0x8))`."""
        match = re.fullmatch(r"32@(lo|hi)\(+([\w.$]+)(?:\s*\+\s*(0x[0-9a-f]+|\d+))?\)+", text)
        if not match:
            raise CannotDecode
        whole = self.d.program.symbols[match.group(2)] + int(match.group(3) or "0", 0)
        return whole >> 32 if match.group(1) == "hi" else whole & _ALL

    def predicate(self, operand: Operand, first: bool = True) -> None:
        """Set a predicate source."""
        text = operand.text
        name = text.lstrip("!")
        values = {"PS" if first else "PS2": predicate_row(name), ("PS" if first else "PS2") + "_NOT": int("!" in text)}
        self.set(**values)

    def into(self, operand: Operand, first: bool = True) -> None:
        """Name a destination predicate; what goes to PT is dropped."""
        row = predicate_row(operand.text)
        self.set(**{"PD" if first else "PD2": -1 if row % 8 == 7 else row})

    def split(self) -> tuple[list[Operand], list[Operand], list[Operand]]:
        """Return destination (register, then predicates), sources, and predicates behind them."""
        given = list(self.operands)
        written = [given.pop(0)]
        if written[0].kind in PREDICATES and given and given[0].kind in REGISTERS:
            written = [given.pop(0), written[0]]  # LOP3.LUT P0, R2, ...
        while given and given[0].kind in PREDICATES and any(o.kind not in PREDICATES for o in given):
            written.append(given.pop(0))
        behind: list[Operand] = []
        while given and given[-1].kind in PREDICATES:
            behind.insert(0, given.pop())
        return written, given, behind

    # ---- forms that many instructions share
    def plain(self, group: int, op: int, kind: str = "int", width: int = 1, **columns: int) -> None:
        """Set a destination, up to three sources of a kind, the predicate behind them, and these columns."""
        written, given, behind = self.split()
        self.to(written[0])
        self.sources(given, kind, width)
        if behind:
            self.predicate(behind[0])
        self.set(GROUP=group, OP=op, **columns)

    def refuse_changes(self) -> None:
        """Refuse sources that are negated or complemented."""
        if any(self.fields[column] for column in (ops.A_XOR, ops.B_XOR, ops.C_XOR)):
            raise CannotDecode

    def first(self, codes: Mapping[str, int]) -> int:
        """Return the code of the first modifier that has one."""
        for name in self.x.modifiers:
            if name in codes:
                return codes[name]
        raise CannotDecode

    def size(self, sizes: Mapping[str, int], default: int) -> int:
        """Return the value of the first of these modifiers that is there."""
        return next((value for name, value in sizes.items() if name in self.mods), default)

    def joins(self) -> int:
        """Return how a comparison is joined with a predicate."""
        return ops.AND if "AND" in self.mods else ops.OR if "OR" in self.mods else ops.XOR

    def signed(self) -> int:
        """Return the mode of a signed number, unless the instruction says that it has no sign."""
        return 0 if "U32" in self.mods else ops.SIGNED

    def rounding(self) -> int:
        """Return rounding and flags of a floating-point instruction."""
        return _rounding(self.x.modifiers)


@lru_cache(4096)
def _rounding(modifiers: tuple[str, ...]) -> int:
    found = [ops.ROUND[m] for m in modifiers if m in ops.ROUND]
    mode = found[0] if found else 0
    for name, flag in (("FTZ", ops.FTZ), ("SAT", ops.SATURATE), ("NAN", ops.NAN_WINS), ("XORSIGN", ops.XOR_SIGN),
                       ("RELU", ops.RELU), ("BF16_V2", ops.BF16), ("BF16", ops.BF16)):  # fmt: skip
        if name in modifiers:
            mode |= flag
    return mode


@lru_cache(4096)
def _bare(text: str) -> str:
    match = re.search(r"(U?R(?:\d+|Z))", text)
    if not match:
        raise CannotDecode
    return match.group(1)


@lru_cache(4096)
def _constants(text: str, operand: str, kind: str, width: int) -> tuple[Key, ...]:
    """Return the constants of the pool for a source that is no register."""
    text = text.replace(".reuse", "")
    if operand != "constant":
        return tuple(("bits", b, 0) for b in _immediate(text, kind, width))
    match = re.search(r"c\[0x([0-9a-f]+)\]\s*\[0x([0-9a-f]+)\]", text)
    if not match:
        raise CannotDecode
    bank, offset = int(match.group(1), 16), int(match.group(2), 16)
    return tuple(("bank", bank, offset + 4 * k) for k in range(width))


@lru_cache(4096)
def _changes(which: str, text: str, operand: str, kind: str) -> list[tuple[int, int]]:
    """Return the columns, and their values, that make a source its negative, complement or absolute value."""
    if operand not in ("register", "uniform", "constant") and not text.startswith("32@"):
        return []  # an immediate is what it says
    column = _COLUMN[f"{which}_XOR"]
    if kind == "int":
        if text.startswith("-"):
            return [(column, _ALL), (_COLUMN[f"{which}_ADD"], 1)]
        return [(column, _ALL)] if text.startswith("~") else []
    sign = 0x8000 if kind == "half" else _SIGN
    absolute = [(_COLUMN[f"{which}_AND"], _ALL ^ sign)] if "|" in text else []
    return [*absolute, (column, sign)] if text.startswith("-") else absolute


def _immediate(text: str, kind: str, width: int) -> list[int]:
    """Return the words of an immediate: whole numbers as they are, floats by their bits."""
    text = text.strip()
    hexadecimal = text.startswith(("0x", "-0x"))
    if hexadecimal or kind == "int":
        value = int(text, 16) if hexadecimal else int(float(text)) if "." in text or "e" in text else int(text)
        return [(value >> 32 * k) & _ALL for k in range(width)]
    number = float_of(text)
    if kind == "f64":
        bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        return [bits & _ALL, bits >> 32] if width == 2 else [bits >> 32]
    if number != number:
        return [0x7FFFFFFF]
    return [int(np.float32(number).view(np.uint32))]


def float_of(text: str) -> float:
    """Return the number that nvdisasm prints."""
    return float("nan") if "QNAN" in text else float(text)


def in_banks(bank: int, offset: int = 0) -> bool:
    """Return whether the emulator has an offset of a constant bank; what is elsewhere is not known."""
    return bank < BANKS and 0 <= offset < BANK_BYTES


RULES: dict[str, Callable[[Line], None]] = {}


def rule(*opcodes: str) -> Callable[[Callable[[Line], None]], Callable[[Line], None]]:
    """Say how these opcodes are decoded."""

    def keep(function: Callable[[Line], None]) -> Callable[[Line], None]:
        RULES.update(dict.fromkeys(opcodes, function))
        return function

    return keep
