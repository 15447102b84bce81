"""Decoding rules of integer, logic, move and lane-exchange instructions."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, in_banks, predicate_row, rule
from warplens.emulator.decode_float import (
    add_halves,
    extreme_halves,
    extreme_pair,
    logic_of_signs,
    permute_by_mode,
    select_pair,
)


@rule("MOV", "UMOV", "MOV32I", "R2UR", "IABS", "POPC", "UPOPC", "BREV", "UBREV", "FLO", "UFLO", "I2I")
def _unary(line: Line) -> None:
    opcode = line.x.opcode.removeprefix("U") if line.x.opcode != "UMOV" else "MOV"
    written, given, _ = line.split()
    line.to(written[0])
    wide = bool(line.mods & {"64", "S64", "U64"})
    line.source("A", given[0], width=2 if wide else 1)
    if wide:
        if opcode != "MOV" or line.fields[ops.A_XOR]:
            raise CannotDecode
        line.set(GROUP=ops.INTEGER, OP=ops.MOV2)
        return
    if opcode == "R2UR":
        if len(written) > 1:  # a predicate: whether the lanes differ
            line.into(written[1])
        line.set(GROUP=ops.LANES, OP=ops.R2UR, X=int(len(written) > 1))
        return
    if opcode == "I2I":
        to = next(m for m in line.x.modifiers if m in ("S8", "U8", "S16", "U16"))
        line.set(GROUP=ops.CONVERT, OP=ops.I2I, X=int(to[1:]), MODE=ops.SIGNED if to[0] == "S" else 0)
        return
    line.set(GROUP=ops.INTEGER, OP=getattr(ops, {"MOV32I": "MOV"}.get(opcode, opcode)))
    if opcode == "FLO":
        line.set(MODE=0 if "U32" in line.mods else ops.SIGNED, X=int("SH" in line.mods))


@rule("RPCMOV")
def _spare_register(line: Line) -> None:
    """Move to or from Rpc, two words that a thread has beside its registers."""
    first, second = (o.text for o in line.operands)
    rows = line.d.rows
    line.set(GROUP=ops.INTEGER, OP=ops.MOV, D=rows[first] if first != "RZ" else line.d.sink)
    line.set(A=rows[second] if second != "RZ" else line.d.zero)


@rule("LEPC")
def _own_place(line: Line) -> None:
    """The address of a label, or of the instruction itself; code begins at address 0."""
    line.to(line.operands[0])
    place = line.x.target if len(line.operands) > 1 else line.x.offset
    if place is None:
        raise CannotDecode
    line.set(GROUP=ops.INTEGER, OP=ops.MOV2, A=line.d.pooled(("bits", place, 0), ("bits", 0, 0)))


@rule("CS2R", "S2R", "S2UR", "CS2UR")
def _special_register(line: Line) -> None:
    line.to(line.operands[0])
    name = line.operands[1].text
    wide = line.x.opcode.startswith("CS2") and "32" not in line.mods
    line.set(GROUP=ops.LANES, OP=ops.S2R + 100, X=ops.SPECIAL[name], Y=int(wide))


@rule("LDC", "ULDC", "LDCU")
def _constant(line: Line) -> None:
    operand = line.operands[1]
    wide = 2 if "64" in line.mods else 4 if "128" in line.mods else 1
    line.to(line.operands[0])
    small = next((m for m in ("U8", "S8", "U16", "S16") if m in line.mods), None)
    match = re.fullmatch(r"c\[0x([0-9a-f]+)\]\[(?:(U?R(?:\d+|Z))\+?)?(-?0x[0-9a-f]+)?\]", operand.text)
    if not match:
        raise CannotDecode
    bank, register, offset = int(match.group(1), 16), match.group(2), int(match.group(3) or "0", 16)
    if register in (None, "RZ", "URZ") and small is None and wide < 4:
        line.set(A=line.d.pooled(*(("bank", bank, offset + 4 * k) for k in range(wide))))
        line.set(GROUP=ops.INTEGER, OP=ops.MOV2 if wide == 2 else ops.MOV)
        return
    if not in_banks(bank):
        raise CannotDecode
    base = line.d.zero if register is None else line.register(register)
    size = int(small[1:]) // 8 if small else 4 * wide
    mode = ops.SIGNED if small and small[0] == "S" else 0
    end = len(line.d.program.constants.get(bank, b"")) if bank else 1 << 16  # bank 0 is the driver's
    line.set(GROUP=ops.INTEGER, OP=ops.LOAD_CONSTANT, A=base, X=offset, Y=bank, Z=size, MODE=mode, C_ADD=end)


@rule("IADD3", "UIADD3", "VIADD", "IADD", "UVIADD")
def _add(line: Line) -> None:
    written, given, behind = line.split()
    if "16x2" in line.mods:
        add_halves(line)
        return
    line.to(written[0])
    for n, operand in enumerate(written[1:3]):
        line.into(operand, n == 0)
    if "64" in line.mods:
        for which, operand in zip("ABC", given, strict=False):
            line.source(which, operand, width=2)
        if "X" in line.mods or line.fields[ops.PD] >= 0 or line.fields[ops.PD2] >= 0:
            raise CannotDecode
        line.set(GROUP=ops.INTEGER, OP=ops.UIADD64)
        return
    for which, operand in zip("ABC", given, strict=False):
        line.source(which, operand)
    if "X" in line.mods:
        line.set(X=1, PS_NOT=1, PS2_NOT=1)
        for n, operand in enumerate(behind[:2]):
            line.predicate(operand, n == 0)
    line.set(GROUP=ops.INTEGER, OP=ops.IADD3)


@rule("IMAD", "UIMAD", "IMUL")
def _multiply(line: Line) -> None:
    written, given, behind = line.split()
    line.to(written[0])
    if len(written) > 1:
        line.into(written[1])
    wide = "WIDE" in line.mods or "HI" in line.mods
    line.source("A", given[0])
    line.source("B", given[1])
    if len(given) > 2:
        line.source("C", given[2], width=2 if wide else 1)
    line.set(PS_NOT=1)
    if "X" in line.mods and behind:
        line.predicate(behind[0])
    signed = "U32" not in line.mods
    op = ops.IMAD_WIDE if "WIDE" in line.mods else ops.IMAD_HI if "HI" in line.mods else ops.IMAD
    line.set(GROUP=ops.INTEGER, OP=op, MODE=ops.SIGNED if signed else 0)


@rule("LOP3", "ULOP3")
def _logic(line: Line) -> None:
    written, given, behind = line.split()
    line.to(written[0])
    if len(written) > 1:
        line.into(written[1])
    table = int(given.pop().text, 16)
    for which, operand in zip("ABC", given, strict=True):
        line.source(which, operand)
    line.set(GROUP=ops.INTEGER, OP=ops.LOP3, X=table, Y=ops.AND if "PAND" in line.mods else ops.OR, PS_NOT=1)
    if behind:
        line.predicate(behind[0])


@rule("PLOP3", "UPLOP3")
def _predicate_logic(line: Line) -> None:
    o = line.operands
    if ".SIGN" in line.x.text:
        logic_of_signs(line)
        return
    line.into(o[0])
    line.into(o[1], False)
    line.predicate(o[2])
    line.predicate(o[3], False)
    third = o[4]
    line.set(A=predicate_row(third.text.lstrip("!")), B=int("!" in third.text), C=line.d.zero)
    line.set(GROUP=ops.INTEGER, OP=ops.PLOP3, X=int(o[5].text, 16), Y=int(o[6].text, 16))


@rule("SHF", "USHF")
def _shift(line: Line) -> None:
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=True):
        line.source(which, operand)
    kind = 1 * ("R" in line.mods) + 2 * ("HI" in line.mods) + 4 * ("W" in line.mods)
    kind += 8 * ("S32" in line.mods or "S64" in line.mods) + 16 * ("U64" in line.mods or "S64" in line.mods)
    line.set(GROUP=ops.INTEGER, OP=ops.SHF, X=kind)


@rule("LEA", "ULEA")
def _scaled_sum(line: Line) -> None:
    if line.mods & {"64", "S64", "U64"}:
        raise CannotDecode
    written, given, behind = line.split()
    line.to(written[0])
    if len(written) > 1:
        line.into(written[1])
    shift = int(given.pop().text, 16)
    line.source("A", given[0])
    line.source("B", given[1])
    if len(given) > 2:
        line.source("C", given[2])
    line.set(PS_NOT=1)
    if "X" in line.mods and behind:
        line.predicate(behind[0])
    high = "HI" in line.mods
    line.set(GROUP=ops.INTEGER, OP=ops.LEA_HI if high else ops.LEA, X=shift, MODE=ops.SIGNED * ("SX32" in line.mods))


@rule("SEL", "USEL", "FSEL")
def _select(line: Line) -> None:
    if "64" in line.mods:
        select_pair(line)
        return
    line.to(line.operands[0])
    kind = "f32" if line.x.opcode == "FSEL" else "int"
    line.source("A", line.operands[1], kind)
    line.source("B", line.operands[2], kind)
    line.predicate(line.operands[3])
    line.set(GROUP=ops.INTEGER, OP=ops.SEL)


@rule("IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX", "UIMNMX", "UVIMNMX")
def _extreme(line: Line) -> None:
    if line.mods & {"S16x2", "U16x2"}:
        extreme_halves(line)
        return
    if line.mods & {"S64", "U64"}:
        extreme_pair(line)
        return
    written, given, behind = line.split()
    line.to(written[0])
    for which, operand in zip("ABC", given, strict=False):
        line.source(which, operand)
    line.predicate(behind[0])
    op = {"VIMNMX3": ops.MINMAX3, "VIADDMNMX": ops.ADDMINMAX}.get(line.x.opcode, ops.MINMAX)
    mode = (0 if "U32" in line.mods else ops.SIGNED) | (ops.RELU if "RELU" in line.mods else 0)
    line.set(GROUP=ops.INTEGER, OP=op, MODE=mode)


@rule("BMSK", "UBMSK", "SGXT", "USGXT", "PRMT", "UPRMT")
def _bits(line: Line) -> None:
    opcode = line.x.opcode.removeprefix("U")
    if opcode == "PRMT" and line.mods:
        permute_by_mode(line)
        return
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=False):
        line.source(which, operand)
    line.set(GROUP=ops.INTEGER, OP=getattr(ops, opcode), X=int("W" in line.mods))
    line.set(MODE=0 if "U32" in line.mods else ops.SIGNED)


@rule("IDP")
def _dot(line: Line) -> None:
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=True):
        line.source(which, operand)
    types = [m for m in line.x.modifiers if m in ("S8", "U8", "S16", "U16")]
    line.set(GROUP=ops.INTEGER, OP=ops.IDP2 if "2A" in line.mods else ops.IDP4, X=int(types[0][0] == "S"))
    line.set(Y=int(types[1][0] == "S"), Z=int("HI" in line.mods))


@rule("VABSDIFF", "VABSDIFF4")
def _difference(line: Line) -> None:
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=True):
        line.source(which, operand)
    four = line.x.opcode == "VABSDIFF4"
    if four and "U8" not in line.mods:
        raise CannotDecode
    line.set(GROUP=ops.INTEGER, OP=ops.ABSDIFF4 if four else ops.ABSDIFF, X=int("ACC" in line.mods))
    line.set(MODE=0 if "U32" in line.mods else ops.SIGNED)


@rule("P2R", "R2P", "UP2UR", "UR2UP")
def _packed_predicates(line: Line) -> None:
    o = line.operands
    if line.mods & {"B1", "B2", "B3"}:
        raise CannotDecode
    line.set(Z=8 * line.x.opcode.startswith("U"))  # the first of them
    if line.x.opcode in ("P2R", "UP2UR"):
        line.to(o[0])
        line.source("A", o[2])
        line.set(GROUP=ops.INTEGER, OP=ops.P2R, X=int(o[3].text, 16))
    else:
        line.source("A", o[1])
        line.set(GROUP=ops.INTEGER, OP=ops.R2P, X=int(o[2].text, 16) if len(o) > 2 else 0x7F)


@rule("SHFL")
def _shuffle(line: Line) -> None:
    o = line.operands
    line.into(o[0])
    line.to(o[1])
    for which, operand in zip("ABC", o[2:5], strict=True):
        line.source(which, operand)
    how = {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}[line.x.modifiers[0]]
    line.set(GROUP=ops.LANES, OP=ops.SHFL, X=how)


@rule("VOTE", "VOTEU")
def _vote(line: Line) -> None:
    o = list(line.operands)
    if o[0].kind in ("register", "uniform"):
        line.to(o.pop(0))
        if len(o) > 1:
            line.into(o.pop(0))
    else:
        line.into(o.pop(0))
    line.predicate(o[0])
    how = 0 if "ANY" in line.mods else 1 if "ALL" in line.mods else 2
    line.set(GROUP=ops.LANES, OP=ops.VOTE, X=how, Y=int(line.x.opcode == "VOTEU"))


@rule("MATCH")
def _match(line: Line) -> None:
    o = list(line.operands)
    if o[0].kind in PREDICATES:
        line.into(o.pop(0))
    line.to(o[0])
    line.source("A", o[1], width=2)
    line.set(GROUP=ops.LANES, OP=ops.MATCH, X=int("ALL" in line.mods), Y=int("U64" in line.mods))


@rule("REDUX", "CREDUX")
def _reduce(line: Line) -> None:
    line.to(line.operands[0])
    line.source("A", line.operands[1])
    names = {"OR": 1, "XOR": 2, "SUM": 3, "MIN": 4, "MAX": 5}
    how = next((names[m] for m in line.x.modifiers if m in names), 0)
    line.set(GROUP=ops.LANES, OP=ops.REDUX, X=how, MODE=ops.SIGNED * ("S32" in line.mods))


@rule("ELECT")
def _elect(line: Line) -> None:
    line.into(line.operands[0])
    line.set(GROUP=ops.LANES, OP=ops.ELECT)
