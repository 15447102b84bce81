"""Decoding rules of memory, barriers, bulk copies, control flow, and instructions without effect."""

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


_SIZES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1, "256": 32}
_TYPES = {"F32": ops.T_F32, "F64": ops.T_F64, "F16x2": ops.T_F16X2, "BF16x2": ops.T_BF16X2, "S32": ops.T_S32,
          "S64": ops.T_S64, "64": ops.T_U64, "U64": ops.T_U64}  # fmt: skip
_FAR = frozenset(("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "QSPC"))  # addresses of 64 bits


def _size(line: Line) -> int:
    return line.size(_SIZES, 4)


def _terms(text: str) -> list[str]:
    match = _MEMORY.search(text)
    if not match:
        raise CannotDecode
    return [part for part in re.split(r"\+", match.group(1).replace(" ", "")) if part]


def _address(line: Line, operand: Operand) -> None:
    """Set base (A), uniform base (B) and offset (X) of an address; Y says how wide they are and the scale."""
    pairs, far, offset, form = set(line.x.reads), line.x.opcode in _FAR, 0, 0
    for term in _terms(operand.text):
        found = _TERM.match(term)
        if not found:
            offset += int(term, 16) if "0x" in term else int(term)
            continue
        name, suffix = found.group(2), found.group(3)
        if name in ("RZ", "URZ"):
            continue
        number = int(name.lstrip("UR"))
        uniform = name.startswith("UR")
        wide = far and f"{'UR' if uniform else 'R'}{number + 1}" in pairs
        line.set(**{"B" if uniform else "A": line.d.rows[name]})
        if uniform:
            form |= 2 * wide
        else:
            form |= wide and ".U32" not in suffix and (".64" in suffix or "E" in line.mods)
            scale = re.search(r"\.X(\d+)", suffix)
            form |= (int(scale.group(1)).bit_length() - 1 << 2) if scale else 0
    line.set(X=offset, Y=form)


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
        kind, operation = ops.T_U32, ops.ADD_TO
        line.set(C=line.d.pooled(("bits", 1, 0)))
    else:
        kind, operation = line.size(_TYPES, ops.T_U32), line.first(ops.ATOMICS)
        if kind == ops.T_U32 and line.mods & {"F32x2", "F32x4", "F16x4", "F16x8"}:
            raise CannotDecode
        line.set(C=line.register(o[at + 1].text))
    other = line.register(o[at + 2].text) if len(o) > at + 2 and o[at + 2].kind == "register" else line.d.zero
    wide = kind in (ops.T_U64, ops.T_S64, ops.T_F64)
    line.set(GROUP=ops.MEMORY, OP=ops.REDUCTION if reduction else ops.ATOMIC, C_AND=other, C_XOR=kind, C_ADD=operation)
    line.set(Z=(8 if wide else 4) | _SPACES[line.x.opcode] << 8, MODE=int("CAST" in line.mods))


def _shared_operand(line: Line, operand: Operand) -> tuple[int, int, int]:
    """Return the rows of base and uniform base of an address in shared memory, and the offset."""
    base, uniform, offset = line.d.zero, line.d.zero, 0
    for term in _terms(operand.text):
        found = _TERM.match(term)
        if found and found.group(2).startswith("UR"):
            uniform = line.register(found.group(2))
        elif found:
            base = line.register(found.group(2))
        else:
            offset += int(term, 16)
    return base, uniform, offset


@rule("LDGSTS")
def _copy(line: Line) -> None:
    o = line.operands
    _address(line, o[1])
    base, uniform, offset = _shared_operand(line, o[0])
    if len(o) > 2:
        line.predicate(o[2])
    line.set(GROUP=ops.MEMORY, OP=ops.COPY, C=base, C_ADD=offset, C_XOR=uniform, C_AND=line.d.zero)
    line.set(Z=_size(line) | ops.GLOBAL << 8, MODE=int("BYPASS" in line.mods) | 2 * int("ZFILL" in line.mods))


@rule("LDSM", "STSM")
def _matrices(line: Line) -> None:
    count = line.size({"4": 4, "2": 2}, 1)
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
    base, uniform, offset = _shared_operand(line, operand)
    line.set(A=base, B=uniform, X=offset, GROUP=ops.ASYNC)


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
    counts = next((m for m in mods if re.fullmatch("A[01R]T[01RX]", m)), "A1TR")  # arrivals and bytes; R: a register
    number = {"0": 0, "1": 1, "R": -1, "X": -1}
    mode = BYTES_CAME * (counts[3] == "X") + LEAVES * ("OPTOUT" in mods) + MASK_OF_LANES * ("TMASK" in mods)
    line.set(OP=ops.MBARRIER_ARRIVE, Y=number[counts[1]], Z=number[counts[3]], MODE=mode)


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
    types = {"U32": ops.T_U32, **{name: _TYPES[name] for name in ("F32", "S32", "F16x2", "BF16x2")}}
    named = [types.get(m) for m in mods if re.fullmatch(r"B?[FSU]\d+(x2)?(\.\w+)*", m)]
    if None in named or line.mods & {"64", "U64", "S64", "F64", "F16", "BF16"}:
        raise CannotDecode
    line.set(OP=ops.BULK_REDUCE, Y=line.first(ops.ATOMICS), Z=named[0] if named and named[0] is not None else ops.T_U32)


@rule("UTMALDG")
def _by_tensor_map(line: Line) -> None:
    line.set(A=_register(line, line.operands[0]), GROUP=ops.ASYNC, OP=ops.TENSOR_LOAD)


@rule("STAS", "REDAS")
def _with_signal(line: Line) -> None:
    reduces = line.x.opcode == "REDAS"
    words = 4 if "128" in line.mods else 2 if "64" in line.mods else 1
    if reduces and (words > 1 or line.mods & {"S32", "MIN", "MAX"}):
        raise CannotDecode
    operation = line.size(ops.ATOMICS, ops.EXCHANGE)
    line.set(A=_register(line, line.operands[0]), C=line.register(line.operands[1].text), GROUP=ops.ASYNC)
    line.set(OP=ops.REDUCE_AND_SIGNAL if reduces else ops.STORE_AND_SIGNAL, Y=operation, Z=words)


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
def _block_barrier(line: Line) -> None:
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
