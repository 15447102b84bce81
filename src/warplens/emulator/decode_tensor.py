"""How tensor-core instructions are decoded."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import CannotDecode, Line, rule
from warplens.program.instruction import Operand

_PER_REGISTER = {ops.M_F16: 2, ops.M_BF16: 2, ops.M_TF32: 1, ops.M_F64: 1, ops.M_S8: 4, ops.M_U8: 4, ops.M_S4: 8,
                 ops.M_U4: 8, ops.M_E4M3: 4, ops.M_E5M2: 4, ops.M_B1: 32}  # fmt: skip
_TYPES = {"S8": ops.M_S8, "U8": ops.M_U8, "S4": ops.M_S4, "U4": ops.M_U4, "E4M3": ops.M_E4M3, "E5M2": ops.M_E5M2}


def _shape(text: str) -> tuple[int, int]:
    """Return rows and depth of a shape: 16816 and 16x8x16 are 16 x 8 x 16, 884 is 8 x 8 x 4; columns are always 8."""
    match = re.fullmatch(r"(16|8)x?8x?(\d+)", text)
    if not match:
        raise CannotDecode
    return int(match.group(1)), int(match.group(2))


def _fragment(line: Line, operand: Operand) -> int:
    if operand.kind != "register" or operand.text.startswith("-"):
        raise CannotDecode
    return line.register(operand.text)


@rule("HMMA", "IMMA", "DMMA", "BMMA", "QMMA")
def _matrix(line: Line) -> None:
    opcode, mods = line.x.opcode, line.x.modifiers
    o = line.operands
    if "SP" in line.mods or len(o) != 4:
        raise CannotDecode
    rows, deep = _shape(mods[0])
    named = [_TYPES[m] for m in mods if m in _TYPES]
    if opcode == "DMMA":
        a = b = total = ops.M_F64
    elif opcode in ("IMMA", "QMMA"):
        (a, b), total = named, ops.M_S32
    elif opcode == "BMMA":
        a, b, total = ops.M_B1, ops.M_B1, ops.M_S32
    else:
        a = b = ops.M_BF16 if "BF16" in mods else ops.M_TF32 if "TF32" in mods else ops.M_F16
    if opcode in ("HMMA", "QMMA"):
        total = {"F16": ops.M_F16, "F32": ops.M_F32}[mods[1]]
        if rows == 8:
            raise CannotDecode  # Volta's quarters of a warp, in no later machine
    line.to(o[0])
    line.set(A=_fragment(line, o[1]), B=_fragment(line, o[2]), C=_fragment(line, o[3]))
    line.set(GROUP=ops.TENSOR, OP=ops.MMA, X=rows, Y=deep, Z=_PER_REGISTER[a], PD=a, PD2=b, PS=total)
    line.set(PS_NOT=int("SAT" in mods), PS2_NOT=int("AND" in mods))


@rule("MOVM")
def _transpose(line: Line) -> None:
    if line.x.modifiers != ("16", "MT88"):
        raise CannotDecode
    line.to(line.operands[0])
    line.source("A", line.operands[1])
    line.set(GROUP=ops.TENSOR, OP=ops.MOVM)
