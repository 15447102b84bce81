"""Operands of instructions: kind, registers written in them, and shape.

    operand    -R12.reuse   desc[UR4][R2.64+0x100]   c[0x3][0x28]   0x2a
    shape      -R0.reuse    desc[UR0][R0.64]         c[0x0][0x0]    0x0

The shape is an operand of the same kind with other numbers in it. Which registers an instruction touches follows
from opcode, modifiers and the shapes of its operands (`warplens.program.register_use`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import add

from msgspec.structs import replace

from warplens.program.instruction import Operand, OperandKind

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
_OFFSET = re.compile(r"-?0x[0-9a-f]+\]")
_INDIRECT = re.compile(r"(U?R[0-9]{1,4})\s")  # BRX R2 -0x350, RET.REL.NODEC R20 `(f)
_CONSTANT = re.compile(r"(-?\|?)c\[0x([0-9a-f]+)\]\[0x[0-9a-f]+\](\|?)")
_BANK = re.compile(r"[-~|!]*c\[0x([0-9a-f]+)\]")
_CONSTANTS = ("c[", "-c[", "|c[", "~c[", "-|c[", "!c[", "cx[", "-cx[", "|cx[", "c.", "ccm[")
_MOST_DIGITS = 4  # of a register
_MOST_REGISTERS = 8  # written in one operand

# An operand, its shape, and the registers that are written in it, those of a descriptor first.
Parsed = tuple[Operand, str, tuple[str, ...]]


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Parsed:
    """Parse one operand; groups are not yet spelled out."""
    bank = text.rstrip("0123456789")
    if bank in _KINDS and 1 <= len(text) - len(bank) <= _MOST_DIGITS:
        return Operand(text, _KINDS[bank], (text,)), bank + "0", (text,)
    if "[" in text:
        base, _, offset = text.rpartition("+")
        if _OFFSET.fullmatch(offset):  # an address is known once it is without the offset
            operand, shape, names = parse_operand(base + "]")
            return replace(operand, text=text), shape, names
        return _bracketed(text)
    simple = _DECORATED.fullmatch(text)
    if simple:
        name, bank = simple.groups()
        if bank is None:
            return Operand(text, _NOTHING[name]), text, ()
        return Operand(text, _KINDS[bank], (name,)), text.replace(name, bank + "0", 1), (name,)
    return _bracketed(text) if text.startswith("c.") else _unbracketed(text)


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
