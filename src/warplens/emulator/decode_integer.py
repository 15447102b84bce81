"""Decoding rules of integer, logic, move and lane-exchange instructions."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, REGISTERS, CannotDecode, Line, in_banks, predicate_row, rule
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
    opcode = line.x.opcode.removeprefix("U").removesuffix("32I")
    written, given, _ = line.split()
    line.to(written[0])
    wide = bool(line.mods & {"64", "S64", "U64"})
    line.source("A", given[0], width=2 if wide else 1)
    if wide:
        if opcode != "MOV" or line.fields[ops.A_XOR]:
            raise CannotDecode
        line.set(GROUP=ops.INTEGER, OP=ops.MOV2)
    elif opcode == "R2UR":
        line.results(written)  # a predicate: true where the lanes differ
        line.set(GROUP=ops.LANES, OP=ops.R2UR, X=int(len(written) > 1))
    elif opcode == "I2I":
        to = next(m for m in line.x.modifiers if m in ("S8", "U8", "S16", "U16"))
        line.set(GROUP=ops.CONVERT, OP=ops.I2I, X=int(to[1:]), MODE=ops.SIGNED if to[0] == "S" else 0)
    else:
        line.set(GROUP=ops.INTEGER, OP=getattr(ops, opcode))
        if opcode == "FLO":
            line.set(MODE=line.signed(), X=int("SH" in line.mods))


@rule("RPCMOV")
def _spare_register(line: Line) -> None:
    """Move to or from Rpc, two words that a thread has beside its registers."""
    first, second = (o.text for o in line.operands)
    rows = line.d.rows
    line.set(GROUP=ops.INTEGER, OP=ops.MOV, D=rows[first] if first != "RZ" else line.d.sink)
    line.set(A=rows[second] if second != "RZ" else line.d.zero)


@rule("LEPC")
def _code_address(line: Line) -> None:
    """Load the address of a label, or of the instruction itself; code begins at address 0."""
    line.to(line.operands[0])
    at = line.x.target if len(line.operands) > 1 else line.x.offset
    if at is None:
        raise CannotDecode
    line.set(GROUP=ops.INTEGER, OP=ops.MOV2, A=line.d.pooled(("bits", at, 0), ("bits", 0, 0)))


@rule("CS2R", "S2R", "S2UR", "CS2UR")
def _special_register(line: Line) -> None:
    line.to(line.operands[0])
    wide = line.x.opcode.startswith("CS2") and "32" not in line.mods
    line.set(GROUP=ops.LANES, OP=ops.S2R + 100, X=ops.SPECIAL[line.operands[1].text], Y=int(wide))


@rule("LDC", "ULDC", "LDCU")
def _constant(line: Line) -> None:
    wide = line.size({"64": 2, "128": 4}, 1)
    line.to(line.operands[0])
    small = next((m for m in ("U8", "S8", "U16", "S16") if m in line.mods), None)
    form = r"c\[0x([0-9a-f]+)\]\[(?:(U?R(?:\d+|Z))\+?)?(-?0x[0-9a-f]+)?\]"
    match = re.fullmatch(form, line.operands[1].text)
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
    line.results(written)
    if "64" in line.mods:
        line.sources(given, width=2)
        if "X" in line.mods or line.fields[ops.PD] >= 0 or line.fields[ops.PD2] >= 0:
            raise CannotDecode
        line.set(GROUP=ops.INTEGER, OP=ops.UIADD64)
        return
    line.sources(given)
    if "X" in line.mods:
        line.set(X=1, PS_NOT=1, PS2_NOT=1)
        for n, operand in enumerate(behind[:2]):
            line.predicate(operand, n == 0)
    line.set(GROUP=ops.INTEGER, OP=ops.IADD3)


@rule("IMAD", "UIMAD", "IMUL")
def _multiply(line: Line) -> None:
    written, given, behind = line.split()
    line.results(written[:2])
    line.sources(given[:2])
    if len(given) > 2:
        line.source("C", given[2], width=2 if line.mods & {"WIDE", "HI"} else 1)
    line.set(GROUP=ops.INTEGER, OP=line.size({"WIDE": ops.IMAD_WIDE, "HI": ops.IMAD_HI}, ops.IMAD), PS_NOT=1)
    if "X" in line.mods and behind:
        line.predicate(behind[0])
    line.set(MODE=line.signed())


@rule("LOP3", "ULOP3")
def _logic(line: Line) -> None:
    written, given, behind = line.split()
    line.results(written[:2])
    table = int(given.pop().text, 16)
    line.sources(given)
    line.set(GROUP=ops.INTEGER, OP=ops.LOP3, X=table, Y=ops.AND if "PAND" in line.mods else ops.OR, PS_NOT=1)
    if behind:
        line.predicate(behind[0])


@rule("PLOP3", "UPLOP3")
def _predicate_logic(line: Line) -> None:
    o = line.operands
    if ".SIGN" in line.x.text:
        logic_of_signs(line)
        return
    for n in range(2):
        line.into(o[n], n == 0)
        line.predicate(o[2 + n], n == 0)
    third = o[4].text
    line.set(A=predicate_row(third.lstrip("!")), B=int("!" in third), C=line.d.zero)
    line.set(GROUP=ops.INTEGER, OP=ops.PLOP3, X=int(o[5].text, 16), Y=int(o[6].text, 16))


@rule("SHF", "USHF")
def _shift(line: Line) -> None:
    kind = 1 * ("R" in line.mods) + 2 * ("HI" in line.mods) + 4 * ("W" in line.mods)
    kind += 8 * ("S32" in line.mods or "S64" in line.mods) + 16 * ("U64" in line.mods or "S64" in line.mods)
    line.plain(ops.INTEGER, ops.SHF, X=kind)


@rule("LEA", "ULEA")
def _scaled_sum(line: Line) -> None:
    if line.mods & {"64", "S64", "U64"}:
        raise CannotDecode
    written, given, behind = line.split()
    line.results(written[:2])
    shift = int(given.pop().text, 16)
    line.sources(given)
    line.set(GROUP=ops.INTEGER, OP=ops.LEA_HI if "HI" in line.mods else ops.LEA, X=shift, PS_NOT=1)
    if "X" in line.mods and behind:
        line.predicate(behind[0])
    line.set(MODE=ops.SIGNED * ("SX32" in line.mods))


@rule("SEL", "USEL", "FSEL")
def _select(line: Line) -> None:
    if "64" in line.mods:
        select_pair(line)
    else:
        line.plain(ops.INTEGER, ops.SEL, "f32" if line.x.opcode == "FSEL" else "int")


@rule("IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX", "UIMNMX", "UVIMNMX")
def _extreme(line: Line) -> None:
    if line.mods & {"S16x2", "U16x2"}:
        extreme_halves(line)
        return
    if line.mods & {"S64", "U64"}:
        extreme_pair(line)
        return
    op = {"VIMNMX3": ops.MINMAX3, "VIADDMNMX": ops.ADDMINMAX}.get(line.x.opcode, ops.MINMAX)
    line.plain(ops.INTEGER, op, MODE=line.signed() | (ops.RELU if "RELU" in line.mods else 0))


@rule("BMSK", "UBMSK", "SGXT", "USGXT", "PRMT", "UPRMT")
def _bits(line: Line) -> None:
    opcode = line.x.opcode.removeprefix("U")
    if opcode == "PRMT" and line.mods:
        permute_by_mode(line)
    else:
        line.plain(ops.INTEGER, getattr(ops, opcode), X=int("W" in line.mods), MODE=line.signed())


@rule("IDP")
def _dot(line: Line) -> None:
    signs = [int(m[0] == "S") for m in line.x.modifiers if m in ("S8", "U8", "S16", "U16")]
    op = ops.IDP2 if "2A" in line.mods else ops.IDP4
    line.plain(ops.INTEGER, op, X=signs[0], Y=signs[1], Z=int("HI" in line.mods))


@rule("VABSDIFF", "VABSDIFF4")
def _difference(line: Line) -> None:
    four = line.x.opcode == "VABSDIFF4"
    if four and "U8" not in line.mods:
        raise CannotDecode
    op = ops.ABSDIFF4 if four else ops.ABSDIFF
    line.plain(ops.INTEGER, op, X=int("ACC" in line.mods), MODE=line.signed())


@rule("P2R", "R2P", "UP2UR", "UR2UP")
def _packed_predicates(line: Line) -> None:
    o = line.operands
    if line.mods & {"B1", "B2", "B3"}:
        raise CannotDecode
    line.set(GROUP=ops.INTEGER, Z=8 * line.x.opcode.startswith("U"))  # the first of them
    if line.x.opcode in ("P2R", "UP2UR"):
        line.to(o[0])
        line.source("A", o[2])
        line.set(OP=ops.P2R, X=int(o[3].text, 16))
    else:
        line.source("A", o[1])
        line.set(OP=ops.R2P, X=int(o[2].text, 16) if len(o) > 2 else 0x7F)


@rule("SHFL")
def _shuffle(line: Line) -> None:
    o = line.operands
    line.into(o[0])
    line.to(o[1])
    line.sources(o[2:5])
    line.set(GROUP=ops.LANES, OP=ops.SHFL, X=line.first({"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}))


@rule("VOTE", "VOTEU")
def _vote(line: Line) -> None:
    o = list(line.operands)
    if o[0].kind in REGISTERS:
        line.to(o.pop(0))
    if len(o) > 1:
        line.into(o.pop(0))
    line.predicate(o[0])
    line.set(GROUP=ops.LANES, OP=ops.VOTE, X=line.size({"ANY": 0, "ALL": 1}, 2), Y=int(line.x.opcode == "VOTEU"))


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
    operation = line.size({"OR": 1, "XOR": 2, "SUM": 3, "MIN": 4, "MAX": 5}, 0)
    line.set(GROUP=ops.LANES, OP=ops.REDUX, X=operation, MODE=ops.SIGNED * ("S32" in line.mods))


@rule("ELECT")
def _elect(line: Line) -> None:
    line.into(line.operands[0])
    line.set(GROUP=ops.LANES, OP=ops.ELECT)
