"""How barriers in shared memory and bulk copies are decoded."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import CannotDecode, Line, rule
from warplens.program.instruction import Operand

# What MODE says of an arrival.
OLD_FORMAT, BYTES_CAME, LEAVES, MASK_OF_LANES = 1, 2, 4, 8


def _register(line: Line, operand: Operand) -> int:
    """Return the row of the one register in an address."""
    match = re.search(r"\[(U?R(?:\d+|Z))(?:\.64)?\]$", operand.text)
    if not match:
        raise CannotDecode
    return line.register(match.group(1))


def _shared_address(line: Line, operand: Operand) -> None:
    match = re.search(r"\[([^\[\]]*)\]$", operand.text)
    if not match:
        raise CannotDecode
    offset = 0
    for term in match.group(1).replace(" ", "").split("+"):
        if re.fullmatch(r"UR(\d+|Z)", term):
            line.set(B=line.register(term))
        elif re.fullmatch(r"R(\d+|Z)", term):
            line.set(A=line.register(term))
        else:
            offset += int(term, 16)
    line.set(X=offset, GROUP=ops.ASYNC)


@rule("SYNCS")
def _barrier(line: Line) -> None:
    o, mods = line.operands, line.x.modifiers
    if "CCTL" in mods:
        line.set(GROUP=ops.NOTHING)
        return
    if not line.mods & {"64", "TRANS64"} or len(o) != 3:
        raise CannotDecode
    _shared_address(line, o[1])
    line.set(C=line.register(o[2].text))
    if "PHASECHK" in mods:
        line.into(o[0])
        line.set(OP=ops.MBARRIER_WAIT if "TRYWAIT" in mods else ops.MBARRIER_TEST)
        return
    line.to(o[0])
    if "EXCH" in mods:
        line.set(OP=ops.MBARRIER_SET)
        return
    if mods[0] != "ARRIVE":
        raise CannotDecode
    how = next((m for m in mods if re.fullmatch("A[01R]T[01RX]", m)), "A1TR")  # arrivals and bytes; R: a register
    number = {"0": 0, "1": 1, "R": -1, "X": -1}
    mode = BYTES_CAME * (how[3] == "X") + LEAVES * ("OPTOUT" in mods) + MASK_OF_LANES * ("TMASK" in mods)
    line.set(OP=ops.MBARRIER_ARRIVE, Y=number[how[1]], Z=number[how[3]], MODE=mode)


@rule("ARRIVES")
def _copies_arrive(line: Line) -> None:
    """Arrive when earlier copies of the thread are done, which they are: by a count, or by a byte that was expected."""
    _shared_address(line, line.operands[0])
    if "ARVCNT" in line.mods:
        line.set(OP=ops.MBARRIER_ARRIVE, Y=1)
    elif "TRANSCNT" in line.mods:
        line.set(OP=ops.MBARRIER_ARRIVE, Z=1, MODE=BYTES_CAME)
    else:
        line.set(OP=ops.MBARRIER_ARRIVE, MODE=OLD_FORMAT)


def arrival_of_sm80(line: Line) -> None:
    """ATOMS.ARRIVE.64: arrive at a barrier in the format of sm_80."""
    line.to(line.operands[0])
    _shared_address(line, line.operands[1])
    line.set(OP=ops.MBARRIER_ARRIVE, MODE=OLD_FORMAT)


@rule("UBLKCP", "UBLKRED")
def _bulk(line: Line) -> None:
    o, mods = line.operands, line.x.modifiers
    loads = mods[:2] == ("S", "G")
    if not (loads or mods[:2] == ("G", "S")) or len(o) != 3 or line.mods & {"MULTICAST"}:
        raise CannotDecode
    line.set(A=_register(line, o[0]), B=_register(line, o[1]), C=line.register(o[2].text), GROUP=ops.ASYNC)
    if line.x.opcode == "UBLKCP":
        line.set(OP=ops.BULK_LOAD if loads else ops.BULK_STORE)
        return
    types = {"F32": ops.T_F32, "S32": ops.T_S32, "U32": ops.T_U32, "F16x2": ops.T_F16X2, "BF16x2": ops.T_BF16X2}
    named = [types.get(m) for m in mods if re.fullmatch(r"B?[FSU]\d+(x2)?(\.\w+)*", m)]
    if None in named or line.mods & {"64", "U64", "S64", "F64", "F16", "BF16"}:
        raise CannotDecode
    how = next(ops.ATOMICS[m] for m in mods if m in ops.ATOMICS)
    line.set(OP=ops.BULK_REDUCE, Y=how, Z=named[0] if named and named[0] is not None else ops.T_U32)


@rule("UTMALDG")
def _by_tensor_map(line: Line) -> None:
    line.set(A=_register(line, line.operands[0]), GROUP=ops.ASYNC, OP=ops.TENSOR_LOAD)


@rule("STAS", "REDAS")
def _with_signal(line: Line) -> None:
    reduces = line.x.opcode == "REDAS"
    words = 4 if "128" in line.mods else 2 if "64" in line.mods else 1
    if reduces and (words > 1 or line.mods & {"S32", "MIN", "MAX"}):
        raise CannotDecode
    how = next((ops.ATOMICS[m] for m in line.x.modifiers if m in ops.ATOMICS), ops.EXCHANGE)
    line.set(A=_register(line, line.operands[0]), C=line.register(line.operands[1].text), GROUP=ops.ASYNC)
    line.set(OP=ops.REDUCE_AND_SIGNAL if reduces else ops.STORE_AND_SIGNAL, Y=how, Z=words)
