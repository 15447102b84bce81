"""Machine instructions: operands, registers, scheduling field, instruction class, and the width of an access.

    operand    -R12.reuse   desc[UR4][R2.64+0x100]   c[0x3][0x28]   0x2a
    shape      -R0.reuse    desc[UR0][R0.64]         c[0x0][0x0]    0x0

The shape is an operand of the same kind with other numbers in it. Which registers an instruction touches follows from
opcode, modifiers and the shapes of its operands (`warplens.program.register_use`).

The classes of files/classes.toml (fp32, load, branch, ...) are those of the machine files: they give an instruction
its latency and its rate. Machine code and hand-written listings use one table.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from operator import add
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from warplens.core.files import read_toml
from warplens.machine.tables import InstructionClass

OperandKind = Literal[
    "register", "uniform", "predicate", "uniform predicate", "barrier", "scoreboard", "special", "constant",
    "immediate", "memory", "label", "other",
]  # fmt: skip

_WAITS = [tuple(i for i in range(6) if mask >> i & 1) for mask in range(64)]  # the scoreboards of each wait mask
_OFFSET = re.compile(r"\+(-?0x[0-9a-f]+)\]")
_WIDTH = re.compile(r"[USF]?(8|16|32|64|128)")
REGISTER = re.compile(r"(?<![A-Za-z0-9_.$])(UR|UP|SB|R|P|B)([0-9]{1,4})\b")
_KINDS: dict[str, OperandKind] = {
    "R": "register", "UR": "uniform", "P": "predicate", "UP": "uniform predicate", "B": "barrier", "SB": "scoreboard",
}  # fmt: skip
_NOTHING: dict[str, OperandKind] = {
    "RZ": "register", "URZ": "uniform", "PT": "predicate", "UPT": "uniform predicate",
    "PR": "predicate", "UPR": "uniform predicate",
}  # fmt: skip
_DECORATED = re.compile(r"[-~!+|]*(U?RZ|U?PT|U?PR|(UR|UP|SB|R|P|B)[0-9]{1,4})\|?(?:\.\w+)*(?:\|(?:\.\w+)*)?")
_HEXADECIMAL = re.compile(r"0x[0-9a-f]+\b")
_INDIRECT = re.compile(r"(U?R[0-9]{1,4})\s")  # BRX R2 -0x350, RET.REL.NODEC R20 `(f)
_CONSTANT = re.compile(r"(-?\|?)c\[0x([0-9a-f]+)\]\[0x[0-9a-f]+\](\|?)")
_BANK = re.compile(r"[-~|!]*c\[0x([0-9a-f]+)\]")
_CONSTANTS = ("c[", "-c[", "|c[", "~c[", "-|c[", "!c[", "cx[", "-cx[", "|cx[", "c.", "ccm[")
_MOST_REGISTERS = 8  # written in one operand

_CLASSES = Path(__file__).parent / "files" / "classes.toml"


Scoreboard = Annotated[int, Meta(ge=0, le=5)]


class Control(Struct, frozen=True, gc=False, omit_defaults=True):
    """The scheduling field of an instruction since Volta (bits 105 to 124 of its 128).

    `write_scoreboard` is released when the result is there, `read_scoreboard` when the sources have been
    read; `wait_mask` has a bit for each of the six scoreboards to wait for before issue.
    """

    stall: Annotated[int, Meta(ge=0, le=15)]
    yields: bool
    write_scoreboard: Scoreboard | None
    read_scoreboard: Scoreboard | None
    wait_mask: Annotated[int, Meta(ge=0, le=63)]
    reuse: Annotated[int, Meta(ge=0, le=15)]

    @property
    def waits(self) -> tuple[int, ...]:
        """The scoreboards that this instruction waits for."""
        return _WAITS[self.wait_mask & 63]


class Operand(Struct, frozen=True, gc=False):
    """One operand as written. A memory operand has its address registers, offset and descriptor."""

    text: str
    kind: OperandKind
    registers: tuple[str, ...] = ()
    value: float | None = None
    bank: int | None = None
    descriptor: tuple[str, ...] = ()


class Instruction(Struct, frozen=True, gc=False, omit_defaults=True):
    """One instruction. `writes` and `reads` name single registers (R4, UR6, P0, UP1, B0), groups spelled out.

    `kind` is the instruction class of the machine files; `latency_cycles` and `taken` come only from
    hand-written listings, `control` only from machine code.
    """

    text: str
    opcode: str
    kind: InstructionClass
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    latency_cycles: float | None = None
    taken: bool = False
    modifiers: tuple[str, ...] = ()
    guard: str = ""
    operands: tuple[Operand, ...] = ()
    offset: int = 0
    control: Control | None = None
    target: int | None = None
    line: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None

    @property
    def name(self) -> str:
        """Opcode with its modifiers, as the disassembler writes it."""
        return ".".join((self.opcode, *self.modifiers))


def byte_offset(operand: str) -> int:
    """Return what a memory operand adds to its register, in bytes: `desc[UR4][R2.64+0x10]`."""
    found = _OFFSET.search(operand)
    return int(found[1], 16) if found else 0


@cache
def _class_of() -> dict[str, str]:
    return {opcode: kind for kind, opcodes in read_toml(_CLASSES)["classes"].items() for opcode in opcodes}


@cache
def classified(opcode: str, modifiers: tuple[str, ...] = ()) -> str:
    """Return the class of an opcode, `other` where the table has none."""
    table = _class_of()
    return table.get(f"{opcode}.{modifiers[0]}" if modifiers else opcode) or table.get(opcode, "other")


def access_bytes(x: Instruction) -> int:
    """Return the bytes that a thread moves with a memory instruction, by the width in its name; 4 if it names none."""
    widths = [int(found.group(1)) for m in x.modifiers if (found := _WIDTH.fullmatch(m))]
    if x.opcode in ("LDSM", "STSM"):  # .M88.4: so many 8x8 matrices of 16-bit elements, a register of each
        count = next((int(m) for m in x.modifiers if m in ("2", "4")), 1)
        return 4 * count
    return max(widths) // 8 if widths else 4


# An operand, its shape, and the registers that are written in it, those of a descriptor first.
Parsed = tuple[Operand, str, tuple[str, ...]]


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Parsed:
    """Parse one operand; groups are not yet spelled out."""
    if "[" in text or text.startswith("c."):
        offset = _OFFSET.search(text)
        if offset and offset.end() == len(text):  # an address is known once it is without the offset
            operand, shape, names = parse_operand(text[: offset.start()] + "]")
            return replace(operand, text=text), shape, names
        return _bracketed(text)
    simple = _DECORATED.fullmatch(text)
    if simple:
        name, bank = simple.groups()
        if bank is None:
            return Operand(text, _NOTHING[name]), text, ()
        return Operand(text, _KINDS[bank], (name,)), text.replace(name, bank + "0", 1), (name,)
    return _unbracketed(text)


def _bracketed(text: str) -> Parsed:
    """Parse an address or a constant."""
    constant = _CONSTANT.fullmatch(text)
    if constant:
        sign, number, behind = constant.groups()
        return Operand(text, "constant", bank=int(number, 16)), f"{sign}c[0x0][0x0]{behind}", ()
    if _INDIRECT.match(text):
        return _unbracketed(text)
    pieces = REGISTER.split(text)  # text, bank, number, text, ...
    names = tuple(map(add, pieces[1::3], pieces[2::3]))
    pieces[2::3] = ["0"] * len(names)
    shape = _HEXADECIMAL.sub("0x0", "".join(pieces))
    if text.startswith(_CONSTANTS):
        bank = _BANK.match(text)
        registers = names[:_MOST_REGISTERS]
        return Operand(text, "constant", registers, bank=int(bank.group(1), 16) if bank else None), shape, registers
    head, _, rest = text.partition("[")
    descriptor: tuple[str, ...] = ()
    if head.endswith("desc") and not head.endswith("gdesc"):
        inside, _, address = rest.partition("][")
        descriptor, names = _registers(inside), _registers(address)
    names = names[:_MOST_REGISTERS]
    return Operand(text, "memory", names, descriptor=descriptor), shape, descriptor + names


def _unbracketed(text: str) -> Parsed:
    """Parse an operand that is neither a register by itself nor has brackets: a number, a label, a special register."""
    indirect = _INDIRECT.match(text)
    if indirect:
        name = indirect.group(1)
        return Operand(text, _KINDS[name.rstrip("0123456789")], (name,)), text, (name,)
    if text.startswith("`("):
        return Operand(text, "label"), "`(", ()
    if text.startswith("SR_"):
        return Operand(text, "special"), text, ()
    try:
        value = float(int(text, 16)) if "0x" in text else float(text)
        return Operand(text, "immediate", (), value), "0x0", ()
    except (ValueError, OverflowError):
        registers = _registers(text)
        return Operand(text, "other", registers), text, registers


def _registers(text: str) -> tuple[str, ...]:
    return tuple([bank + number for bank, number in REGISTER.findall(text)[:_MOST_REGISTERS]])
