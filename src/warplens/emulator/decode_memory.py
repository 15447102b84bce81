"""Decoding rules of memory instructions, of barriers in shared memory and of bulk copies."""

from __future__ import annotations

import re

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, rule
from warplens.program.instruction import Operand

_MEMORY = re.compile(r"\[([^\[\]]*)\]$")
_TERM = re.compile(r"^(-?)(U?R(?:\d+|Z))((?:\.\w+)*)$")
_SPACES = {"LDG": ops.GLOBAL, "STG": ops.GLOBAL, "LDS": ops.SHARED, "STS": ops.SHARED, "LDL": ops.LOCAL,
           "STL": ops.LOCAL, "LD": ops.GENERIC, "ST": ops.GENERIC, "ATOMG": ops.GLOBAL, "ATOMS": ops.SHARED,
           "ATOM": ops.GENERIC, "RED": ops.GENERIC, "REDG": ops.GLOBAL, "REDS": ops.SHARED, "LDSM": ops.SHARED,
           "STSM": ops.SHARED, "LDGSTS": ops.GLOBAL, "QSPC": ops.GENERIC, "ULDS": ops.SHARED}  # fmt: skip


def _size(line: Line) -> int:
    for name, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1), ("256", 32)):
        if name in line.mods:
            return size
    return 4


def _terms(text: str) -> list[str]:
    match = _MEMORY.search(text)
    if not match:
        raise CannotDecode
    return [part for part in re.split(r"\+", match.group(1).replace(" ", "")) if part]


def _address(line: Line, operand: Operand) -> None:
    """Set base (A), uniform base (B) and offset (X) of an address; Y says how wide they are and the scale."""
    pairs = set(line.x.reads)
    offset, how = 0, 0
    for term in _terms(operand.text):
        found = _TERM.match(term)
        if not found:
            offset += int(term, 16) if "0x" in term else int(term)
            continue
        name, suffix = found.group(2), found.group(3)
        if name in ("RZ", "URZ"):
            continue
        number = int(name.lstrip("UR"))
        second = f"{'UR' if name.startswith('UR') else 'R'}{number + 1}"
        far = line.x.opcode in ("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "QSPC")
        wide = far and second in pairs and ".U32" not in suffix and ".64" in suffix
        wide = wide or (far and ".64" not in suffix and ".U32" not in suffix and "E" in line.mods and second in pairs)
        if name.startswith("UR"):
            line.set(B=line.d.rows[name])
            how |= 2 * (far and second in pairs)
        else:
            line.set(A=line.d.rows[name])
            how |= 1 * wide
            scale = re.search(r"\.X(\d+)", suffix)
            how |= (int(scale.group(1)).bit_length() - 1 << 2) if scale else 0
    line.set(X=offset, Y=how)


def _joined(line: Line, low: Operand, high: Operand) -> Operand:
    """Return the first of two groups of four registers, which must be next to each other (256 bits)."""
    if line.register(high.text) != line.register(low.text) + 4:
        raise CannotDecode
    return low


@rule("LDG", "LDS", "LDL", "LD", "ULDS")
def _load(line: Line) -> None:
    o = line.operands
    if o[0].kind in PREDICATES:
        raise CannotDecode
    line.to(_joined(line, o[1], o[0]) if _size(line) == 32 else o[0])
    _address(line, next(x for x in o if x.kind == "memory"))
    signed = bool(line.mods & {"S8", "S16"})
    line.set(GROUP=ops.MEMORY, OP=ops.LOAD, Z=_size(line) | _SPACES[line.x.opcode] << 8, MODE=ops.SIGNED * signed)


@rule("STG", "STS", "STL", "ST")
def _store(line: Line) -> None:
    o = line.operands
    _address(line, o[0])
    line.set(C=line.register((_joined(line, o[1], o[2]) if _size(line) == 32 else o[1]).text))
    line.set(GROUP=ops.MEMORY, OP=ops.STORE, Z=_size(line) | _SPACES[line.x.opcode] << 8)


@rule("ATOMG", "ATOMS", "ATOM", "RED", "REDG", "REDS")
def _atomic(line: Line) -> None:
    o = list(line.operands)
    if "ARRIVE" in line.mods:
        arrival_of_sm80(line)
        return
    at = next(n for n, x in enumerate(o) if x.kind == "memory")
    reduction = line.x.opcode.startswith("RED")
    for operand in o[:at]:
        if operand.kind in PREDICATES:
            line.into(operand)
        else:
            line.to(operand)
    _address(line, o[at])
    if "POPC" in line.mods:  # ATOMS.POPC.INC: counts the lanes; adds one for each
        kind, how = ops.T_U32, ops.ADD_TO
        line.set(C=line.d.pooled(("bits", 1, 0)))
    else:
        kind = _atomic_type(line)
        how = next(ops.ATOMICS[m] for m in line.x.modifiers if m in ops.ATOMICS)
        line.set(C=line.register(o[at + 1].text))
    other = line.register(o[at + 2].text) if len(o) > at + 2 and o[at + 2].kind == "register" else line.d.zero
    wide = kind in (ops.T_U64, ops.T_S64, ops.T_F64)
    line.set(GROUP=ops.MEMORY, OP=ops.REDUCTION if reduction else ops.ATOMIC, C_AND=other, C_XOR=kind, C_ADD=how)
    line.set(Z=(8 if wide else 4) | _SPACES[line.x.opcode] << 8, MODE=int("CAST" in line.mods))


def _atomic_type(line: Line) -> int:
    for name, kind in (("F32", ops.T_F32), ("F64", ops.T_F64), ("F16x2", ops.T_F16X2), ("BF16x2", ops.T_BF16X2),
                       ("S32", ops.T_S32), ("S64", ops.T_S64), ("64", ops.T_U64), ("U64", ops.T_U64)):  # fmt: skip
        if name in line.mods:
            return kind
    if line.mods & {"F32x2", "F32x4", "F16x4", "F16x8"}:
        raise CannotDecode
    return ops.T_U32


@rule("LDGSTS")
def _copy(line: Line) -> None:
    o = line.operands
    _address(line, o[1])
    offset, base, uniform = 0, line.d.zero, line.d.zero
    for term in _terms(o[0].text):
        found = _TERM.match(term)
        if found and found.group(2).startswith("UR"):
            uniform = line.register(found.group(2))
        elif found:
            base = line.register(found.group(2))
        else:
            offset += int(term, 16)
    if len(o) > 2:
        line.predicate(o[2])
    line.set(GROUP=ops.MEMORY, OP=ops.COPY, C=base, C_ADD=offset, C_XOR=uniform, C_AND=line.d.zero)
    line.set(Z=_size(line) | ops.GLOBAL << 8, MODE=int("BYPASS" in line.mods) | 2 * int("ZFILL" in line.mods))


@rule("LDSM", "STSM")
def _matrices(line: Line) -> None:
    count = 4 if "4" in line.mods else 2 if "2" in line.mods else 1
    storing = line.x.opcode == "STSM"
    _address(line, next(o for o in line.operands if o.kind == "memory"))
    if storing:
        line.set(C=line.register(line.operands[1].text))
    else:
        line.to(line.operands[0])
    op = ops.STORE_MATRIX if storing else ops.LOAD_MATRIX
    line.set(GROUP=ops.MEMORY, OP=op, Z=count | ops.SHARED << 8, MODE=int("MT88" in line.mods))


_QUERIES = {"G": ops.GLOBAL, "S": ops.SHARED, "L": ops.LOCAL, "D": ops.CONSTANT}


@rule("QSPC")
def _query(line: Line) -> None:
    line.into(line.operands[0])
    _address(line, line.operands[2])
    # D: shared memory of another block; there is none, clusters have one block
    space = next(code for m, code in _QUERIES.items() if m in line.mods)
    line.set(GROUP=ops.MEMORY, OP=ops.SPACE_QUERY, Z=space | ops.GENERIC << 8)


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
