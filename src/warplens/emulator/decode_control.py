"""Decoding rules of control flow, barriers, tensor-core instructions and instructions without effect."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, rule
from warplens.program.instruction import Operand


@rule("EXIT", "KILL", "BPT", "YIELD", "BSSY", "BSYNC", "BREAK")
def _simple(line: Line) -> None:
    """Decode the operation with the barrier register and the last predicate that it names."""
    line.set(GROUP=ops.CONTROL, OP=getattr(ops, {"KILL": "EXIT", "BPT": "TRAP"}.get(line.x.opcode, line.x.opcode)))
    for operand in line.operands if line.x.opcode not in ("BPT", "YIELD") else ():
        if operand.kind in PREDICATES:
            line.predicate(operand)
        elif operand.kind == "barrier":
            line.set(X=int(operand.text.lstrip("B")))


@rule("BRA", "JMP")
def _branch(line: Line) -> None:
    o = line.operands
    line.set(GROUP=ops.CONTROL, OP=ops.BRA, TARGET=line.d.index[line.x.target or 0])
    if line.mods & {"DIV", "CONV"}:
        if len(o) > 1:
            line.source("A", o[0])
        else:  # all lanes
            line.set(A_XOR=0xFFFFFFFF)
        line.set(OP=ops.BRA_DIV, X=int("CONV" in line.mods))
        return
    for n, operand in enumerate([x for x in o if x.kind in PREDICATES]):
        line.predicate(operand, n == 0)
    if "ANY" in line.mods:  # all lanes go if one of them does
        line.set(OP=ops.BRA_ANY)


@rule("BRX")
def _indirect(line: Line) -> None:
    match = re.match(r"(R\d+)\s*(-?0x[0-9a-f]+)?", line.operands[0].text)
    if not match:
        raise CannotDecode
    line.set(GROUP=ops.CONTROL, OP=ops.BRX, A=line.d.rows[match.group(1)])
    line.set(X=int(match.group(2) or "0", 16) + line.x.offset + 16)


@rule("CALL", "RET")
def _call(line: Line) -> None:
    line.set(GROUP=ops.CONTROL)
    if "ABS" in line.mods and line.x.opcode == "CALL":
        line.set(OP=ops.CALL_ABS, A=line.register(line.operands[0].text))
    elif line.x.opcode == "RET" or line.operands[0].kind == "register":  # an offset in the kernel
        line.set(OP=ops.RET, A=line.register(line.operands[0].text))
    else:
        line.set(OP=ops.CALL, TARGET=line.d.index[-1 if line.x.target is None else line.x.target])


@rule("BMOV")
def _move_barrier(line: Line) -> None:
    first, second = line.operands[:2]
    if first.kind == "barrier":
        line.source("A", second)
        line.set(GROUP=ops.CONTROL, OP=ops.BMOV_FROM_R, X=int(first.text.lstrip("B")))
    else:
        line.to(first)
        line.set(GROUP=ops.CONTROL, OP=ops.BMOV_TO_R, X=int(second.text.lstrip("B")), Y=int("CLEAR" in line.mods))


@rule("WARPSYNC")
def _warp_sync(line: Line) -> None:
    o = [x for x in line.operands if x.kind not in ("label", *PREDICATES)]
    line.set(GROUP=ops.CONTROL, OP=ops.WARPSYNC, X=int("ALL" in line.mods or not o), Y=int("EXCLUSIVE" in line.mods))
    if o:
        line.source("A", o[0])


@rule("BAR", "BARRIER")
def _barrier(line: Line) -> None:
    kind = line.size({"ARV": 1, "RED": 2, "SYNC": 0}, -1)
    if kind < 0:
        raise CannotDecode
    o = line.operands
    line.source("A", o[0])
    if len(o) > 1 and o[1].kind not in PREDICATES:
        line.source("B", o[1])
        line.set(Y=1)
    for operand in o[1:]:
        if operand.kind in PREDICATES:
            line.predicate(operand)
    line.set(GROUP=ops.CONTROL, OP=ops.BAR, X=kind, Z=line.size({"AND": 1, "OR": 2}, 0))


@rule("B2R")
def _barrier_result(line: Line) -> None:
    if "RESULT" not in line.mods:
        raise CannotDecode
    line.results(line.operands[:2])
    line.set(GROUP=ops.CONTROL, OP=ops.B2R)


@rule("NOP", "DEPBAR", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "LDGDEPBAR", "NANOSLEEP", "PREEXIT", "FENCE",
       "ACQBULK", "ENDCOLLECTIVE", "CCTLL", "UCGABAR_ARV", "UCGABAR_WAIT", "PMTRIG", "WARPGROUP", "PREFETCH", "CCTLT",
       "UTMACCTL", "UTMACMDFLUSH", "USETMAXREG", "WARPARRIVE", "UBLKPF", "UTMAPF", "UTMASTG", "UTMAREDG", "ACQSHMINIT",
       "WARPGROUPSET", "UCCTL", "UMEMSETS")  # fmt: skip
def _nothing(line: Line) -> None:
    line.set(GROUP=ops.NOTHING)


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
    line.plain(ops.TENSOR, ops.MOVM)
