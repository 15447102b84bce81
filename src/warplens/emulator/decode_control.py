"""How control flow, barriers and instructions without effect are decoded."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, rule


@rule("BRA", "JMP")
def _branch(line: Line) -> None:
    o = line.operands
    line.set(GROUP=ops.CONTROL, OP=ops.BRA, TARGET=line.d.index[line.x.target or 0])
    if "DIV" in line.mods or "CONV" in line.mods:
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


@rule("CALL")
def _call(line: Line) -> None:
    if "ABS" in line.mods:
        line.set(GROUP=ops.CONTROL, OP=ops.CALL_ABS, A=line.register(line.operands[0].text))
        return
    if line.operands[0].kind == "register":  # an offset in the kernel, as in RET
        line.set(GROUP=ops.CONTROL, OP=ops.RET, A=line.register(line.operands[0].text))
        return
    if line.x.target is None or line.x.target not in line.d.index:
        raise CannotDecode
    line.set(GROUP=ops.CONTROL, OP=ops.CALL, TARGET=line.d.index[line.x.target])


@rule("RET")
def _return(line: Line) -> None:
    line.set(GROUP=ops.CONTROL, OP=ops.RET, A=line.register(line.operands[0].text))


@rule("BSSY", "BSYNC", "BREAK")
def _converge(line: Line) -> None:
    barrier = next(o for o in line.operands if o.kind == "barrier")
    line.set(GROUP=ops.CONTROL, OP=getattr(ops, line.x.opcode), X=int(barrier.text.lstrip("B")))
    for operand in line.operands:
        if operand.kind in PREDICATES:
            line.predicate(operand)


@rule("BMOV")
def _move_barrier(line: Line) -> None:
    first, second = line.operands[:2]
    if first.kind == "barrier":
        line.source("A", second)
        line.set(GROUP=ops.CONTROL, OP=ops.BMOV_FROM_R, X=int(first.text.lstrip("B")))
    else:
        line.to(first)
        line.set(GROUP=ops.CONTROL, OP=ops.BMOV_TO_R, X=int(second.text.lstrip("B")), Y=int("CLEAR" in line.mods))


@rule("EXIT", "KILL")
def _exit(line: Line) -> None:
    line.set(GROUP=ops.CONTROL, OP=ops.EXIT)
    for operand in line.operands:
        if operand.kind in PREDICATES:
            line.predicate(operand)


@rule("BPT")
def _trap(line: Line) -> None:
    line.set(GROUP=ops.CONTROL, OP=ops.TRAP)


@rule("WARPSYNC")
def _warp_sync(line: Line) -> None:
    o = [x for x in line.operands if x.kind not in ("label", *PREDICATES)]
    line.set(GROUP=ops.CONTROL, OP=ops.WARPSYNC, X=int("ALL" in line.mods or not o), Y=int("EXCLUSIVE" in line.mods))
    if o:
        line.source("A", o[0])


@rule("YIELD")
def _yield(line: Line) -> None:
    line.set(GROUP=ops.CONTROL, OP=ops.YIELD)


@rule("BAR", "BARRIER")
def _barrier(line: Line) -> None:
    if "SYNC" not in line.mods and "ARV" not in line.mods and "RED" not in line.mods:
        raise CannotDecode
    o = list(line.operands)
    kind = 1 if "ARV" in line.mods else 2 if "RED" in line.mods else 0
    how = 1 if "AND" in line.mods else 2 if "OR" in line.mods else 0
    line.source("A", o[0])
    if len(o) > 1 and o[1].kind not in PREDICATES:
        line.source("B", o[1])
        line.set(Y=1)
    for operand in o[1:]:
        if operand.kind in PREDICATES:
            line.predicate(operand)
    line.set(GROUP=ops.CONTROL, OP=ops.BAR, X=kind, Z=how)


@rule("B2R")
def _barrier_result(line: Line) -> None:
    if "RESULT" not in line.mods:
        raise CannotDecode
    line.to(line.operands[0])
    if len(line.operands) > 1:
        line.into(line.operands[1])
    line.set(GROUP=ops.CONTROL, OP=ops.B2R)


@rule("NOP", "DEPBAR", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "LDGDEPBAR", "NANOSLEEP", "PREEXIT", "FENCE",
       "ACQBULK", "ENDCOLLECTIVE", "CCTLL", "UCGABAR_ARV", "UCGABAR_WAIT", "PMTRIG", "WARPGROUP", "PREFETCH", "CCTLT",
       "UTMACCTL", "UTMACMDFLUSH", "USETMAXREG", "WARPARRIVE", "UBLKPF", "UTMAPF", "UTMASTG", "UTMAREDG", "ACQSHMINIT",
       "WARPGROUPSET", "UCCTL", "UMEMSETS")  # fmt: skip
def _nothing(line: Line) -> None:
    line.set(GROUP=ops.NOTHING)
