"""Decoding rules of floating point, comparisons, conversions, packed and paired values, and matrix products."""

from __future__ import annotations

import re

import numpy as np

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, REGISTERS, CannotDecode, Line, float_of, rule
from warplens.program.instruction import Operand

_WIDTH = {"S8": 8, "U8": 8, "S16": 16, "U16": 16, "S32": 32, "U32": 32, "S64": 64, "U64": 64, "F16": 16, "BF16": 16,
          "F32": 32, "F64": 64}  # fmt: skip


@rule("FADD", "FMUL", "FFMA", "FADD32I", "FMUL32I", "FFMA32I", "FMNMX", "UFADD", "UFMUL", "UFFMA", "UFMNMX")
def _single(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("32I").removeprefix("U")
    scaled = next((m for m in line.x.modifiers if re.fullmatch("[DM][248]", m)), "M1")
    scale = (int(scaled[1:]).bit_length() - 1) * (-1 if scaled[0] == "D" else 1)
    line.plain(ops.SINGLE, getattr(ops, opcode), "f32", MODE=line.rounding(), X=scale)


@rule("FSET")
def _compare_into_register(line: Line) -> None:
    code, join = line.first(ops.COMPARE), line.joins()
    line.plain(ops.SINGLE, ops.FSET, "f32", X=code, Y=join, Z=int("BF" in line.mods), MODE=line.rounding())


@rule("FCHK")
def _check_division(line: Line) -> None:
    line.into(line.operands[0])
    line.sources(line.operands[1:3], "f32")
    line.set(GROUP=ops.SINGLE, OP=ops.FCHK)


@rule("MUFU")
def _special_function(line: Line) -> None:
    if "F16" in line.mods:
        raise CannotDecode
    code = ops.SPECIAL_FUNCTIONS[line.x.modifiers[0]]
    if code in (ops.RCP64H, ops.RSQ64H):
        line.plain(ops.DOUBLE, ops.DMUFU, "f64", X=code)
    else:
        line.plain(ops.SINGLE, ops.MUFU, "f32", X=code, MODE=line.rounding())


@rule("DADD", "DMUL", "DFMA", "DMNMX")
def _double(line: Line) -> None:
    line.plain(ops.DOUBLE, getattr(ops, line.x.opcode), "f64", 2, MODE=line.rounding())


def _half_sources(line: Line, given: list[Operand]) -> list[Operand]:
    """Set the sources of a half instruction; two immediates make one pair. Return what is left."""
    swizzle, which = 0, 0
    while given and which < 3 and given[0].kind not in PREDICATES:
        operand = given.pop(0)
        name = "ABC"[which]
        if operand.kind in (*REGISTERS, "constant"):
            line.source(name, operand, "half")
            code = 1 if ".H0_H0" in operand.text else 2 if ".H1_H1" in operand.text else 0
            swizzle |= code << 2 * which
        else:
            if not given or given[0].kind not in ("immediate", "other"):
                raise CannotDecode
            pair = _half_pair([operand.text, given.pop(0).text], "BF16_V2" in line.mods)
            line.set(**{name: line.d.pooled(("bits", pair, 0))})
        which += 1
    line.set(X=swizzle)
    return given


def _half_pair(texts: list[str], bf16: bool) -> int:
    """Return two immediates as one word: nvdisasm prints the high half first."""
    word = 0
    for text in texts:
        number = float_of(text)
        bits = int(np.float32(number).view(np.uint32)) >> 16 if bf16 else int(np.float16(number).view(np.uint16))
        word = word << 16 | bits
    return word


@rule("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I", "HSET2")
def _half(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("_32I")
    written, given, behind = line.split()
    line.to(written[0])
    _half_sources(line, given)
    if behind:
        line.predicate(behind[0])
    if opcode == "HSET2":
        line.set(Y=line.joins() | 16 * ("BF" in line.mods), Z=line.first(ops.COMPARE))
    op = ops.HADD2_F32 if opcode == "HADD2" and "F32" in line.mods else getattr(ops, opcode)
    line.set(GROUP=ops.HALF, OP=op, MODE=line.rounding())


# Operation, types of result and source where they are not named.
_CONVERSIONS = {
    "F2I": (ops.F2I, "S32", "F32"), "I2F": (ops.I2F, "F32", "S32"), "F2F": (ops.F2F, "F32", "F32"),
    "FRND": (ops.FRND, "F32", "F32"),
}  # fmt: skip


@rule("F2I", "I2F", "I2FP", "F2F", "FRND", "UF2I", "UI2F", "UI2FP", "UF2F", "UFRND")
def _conversion(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("P").removeprefix("U")
    written, given, _ = line.split()
    line.to(written[0])
    op, to, of = _CONVERSIONS[opcode]
    found = [m for m in line.x.modifiers if m in _WIDTH]
    if to[0] == of[0] and found:
        to, of = found[0], found[min(1, len(found) - 1)]
    elif to[0] != of[0]:
        for name in found:
            to, of = (name, of) if (name[0] in "FB") == (to[0] in "FB") else (to, name)
    kind = "f64" if of == "F64" else "half" if of in ("F16", "BF16") else "f32" if of[0] == "F" else "int"
    line.source("A", given[0], kind, 2 if _WIDTH[of] == 64 else 1)
    part = 1 if ".H1" in given[0].text else 0
    if opcode == "I2F":
        byte = re.search(r"\.B([0-3])", given[0].text)
        part = int(byte.group(1)) if byte else 2 * part
    mode = line.rounding() & ~ops.BF16 | (ops.BF16 if "BF16" in (to, of) else 0)
    mode |= ops.SIGNED if (to if opcode == "F2I" else of)[0] == "S" else 0
    line.set(GROUP=ops.CONVERT, OP=op, X=_WIDTH[to], Y=_WIDTH[of], Z=part, MODE=mode)


@rule("F2FP")
def _pack(line: Line) -> None:
    if line.mods & _SMALL.keys():
        _small_floats(line)
        return
    if "PACK_AB" not in line.mods or line.mods - {"F16", "BF16", "F32", "PACK_AB", "RELU", "RZ", "RN"}:
        raise CannotDecode
    written, given, _ = line.split()
    line.to(written[0])
    line.sources(given[:2], "f32")
    line.set(GROUP=ops.CONVERT, OP=ops.F2FP, MODE=line.rounding())


_COMPARISONS = {
    "ISETP": ("int", ops.INTEGER, ops.ISETP), "FSETP": ("f32", ops.SINGLE, ops.FSETP),
    "DSETP": ("f64", ops.DOUBLE, ops.DSETP), "HSETP2": ("half", ops.HALF, ops.HSETP2),
}  # fmt: skip


@rule("ISETP", "UISETP", "FSETP", "UFSETP", "DSETP", "HSETP2")
def _compare(line: Line) -> None:
    o = line.operands
    line.into(o[0])
    line.into(o[1], False)
    if line.x.opcode == "DSETP" and line.mods & {"MIN", "MAX"}:
        if o[4].text != "PT":
            raise CannotDecode
        line.sources(o[2:4], "f64", 2)
        line.set(GROUP=ops.PACKED, OP=ops.DSETP_EXTREME, X=int("MIN" in line.mods))
        return
    code = line.first(ops.COMPARE)
    if line.mods & {"S64", "U64"}:
        line.sources(o[2:4], width=2)
        line.predicate(o[4])
        line.refuse_changes()
        mode = ops.SIGNED if "S64" in line.mods else 0
        line.set(GROUP=ops.PACKED, OP=ops.ISETP2, X=code, Y=line.joins(), MODE=mode)
        return
    kind, group, op = _COMPARISONS[line.x.opcode.removeprefix("U")]
    line.set(GROUP=group, OP=op, X=code, Y=line.joins())
    if kind == "half":
        rest = _half_sources(line, list(o[2:]))
        line.set(Z=code)
    else:
        line.sources(o[2:4], kind, 2 if kind == "f64" else 1)
        rest = list(o[4:])
    if rest:
        line.predicate(rest[0])
    mode = line.rounding()
    if kind == "int":
        mode = line.signed()
        if "EX" in line.mods:
            mode |= ops.EXTENDED
            line.predicate(rest[1], False)
    line.set(MODE=mode)


_PERMUTE_MODES = {"F4E": 0, "B4E": 1, "RC8": 2, "ECL": 3, "ECR": 4, "RC16": 5}
_SMALL = {"E4M3": 4, "E5M2": 5}  # bits of the exponent


def select_pair(line: Line) -> None:
    """Decode SEL.64."""
    line.plain(ops.PACKED, ops.SEL2, width=2)
    line.refuse_changes()


def extreme_pair(line: Line) -> None:
    """Decode IMNMX with .S64 or .U64: two predicates, destination, sources, which of them."""
    o = line.operands
    if [x.text for x in o[:2]] not in (["PT", "PT"], ["UPT", "UPT"]) or o[6].text not in ("!PT", "!UPT"):
        raise CannotDecode
    line.to(o[2])
    line.sources(o[3:5], width=2)
    line.predicate(o[5])
    line.refuse_changes()
    line.set(GROUP=ops.PACKED, OP=ops.MINMAX2, MODE=ops.SIGNED if "S64" in line.mods else 0)


def extreme_halves(line: Line) -> None:
    """Decode VIMNMX, VIMNMX3, VIADDMNMX with .S16x2 or .U16x2."""
    op = {"VIMNMX3": ops.MINMAX3_16, "VIADDMNMX": ops.ADDMINMAX16}.get(line.x.opcode, ops.MINMAX16)
    mode = (ops.SIGNED if "S16x2" in line.mods else 0) | (ops.RELU if "RELU" in line.mods else 0)
    line.plain(ops.PACKED, op, MODE=mode)
    line.refuse_changes()


def add_halves(line: Line) -> None:
    """Decode VIADD.16x2."""
    line.plain(ops.PACKED, ops.ADD16)


def permute_by_mode(line: Line) -> None:
    """Decode PRMT with an order of bytes by name."""
    line.plain(ops.PACKED, ops.PRMT_MODE, X=_PERMUTE_MODES[line.x.modifiers[0]])
    line.refuse_changes()


def logic_of_signs(line: Line) -> None:
    """Decode PLOP3 over the sign bits of three registers."""
    o = line.operands
    if not all(".SIGN" in x.text for x in o[2:5]) or int(o[6].text, 16) or o[1].text != "PT":
        raise CannotDecode
    line.into(o[0])
    for which, operand in zip("ABC", o[2:5], strict=True):
        line.set(**{which: line.register(operand.text)})
    line.set(GROUP=ops.PACKED, OP=ops.SIGN_LOGIC, X=int(o[5].text, 16))


@rule("FADD2", "FMUL2", "FFMA2")
def _floats(line: Line) -> None:
    line.to(line.operands[0])
    single = 0
    for n, (which, operand) in enumerate(zip("ABC", line.operands[1:], strict=False)):
        pair = ".F32x2" in operand.text
        if pair and "HI_LO" not in operand.text:
            raise CannotDecode
        line.source(which, operand, "f32", 2 if pair and operand.kind == "constant" else 1)
        single |= 0 if pair else 1 << n
    if line.rounding() & 3:
        raise CannotDecode
    line.set(GROUP=ops.PACKED, OP=getattr(ops, line.x.opcode), X=single, MODE=line.rounding())


@rule("FMNMX3")
def _three_floats(line: Line) -> None:
    line.plain(ops.PACKED, ops.FMNMX3, "f32", MODE=line.rounding())


@rule("I2IP")
def _pack_integers(line: Line) -> None:
    to = line.x.modifiers[0]
    if line.x.modifiers[1:] != ("S32", "SAT"):
        raise CannotDecode
    line.plain(ops.PACKED, ops.PACK_INTEGERS, X=int(to[1:]), MODE=ops.SIGNED if to[0] == "S" else 0)
    line.refuse_changes()


def _small_floats(line: Line) -> None:
    """Decode F2FP to and from fp8."""
    o, mods = line.operands, line.mods
    line.to(o[0])
    if "UNPACK_B" in mods and "F16" in mods:
        line.source("A", o[1])
        line.set(OP=ops.UNPACK_F8, Z=int(".H1" in o[1].text))
    elif "PACK_AB_MERGE_C" in mods and {"F32", "SATFINITE"} <= mods:
        line.sources(o[1:])
        line.set(OP=ops.PACK_F8)
    elif "UNPACK_B_MERGE_C" in mods and {"F16", "SATFINITE"} <= mods:
        line.source("A", o[1])
        line.source("C", o[2])
        line.set(OP=ops.PACK_F8_HALF)
    else:
        raise CannotDecode
    line.refuse_changes()
    line.set(GROUP=ops.PACKED, X=line.first(_SMALL), MODE=line.rounding())


_PER_REGISTER = {ops.M_F16: 2, ops.M_BF16: 2, ops.M_TF32: 1, ops.M_F64: 1, ops.M_S8: 4, ops.M_U8: 4, ops.M_S4: 8,
                 ops.M_U4: 8, ops.M_E4M3: 4, ops.M_E5M2: 4, ops.M_B1: 32}  # fmt: skip
_ELEMENTS = {"S8": ops.M_S8, "U8": ops.M_U8, "S4": ops.M_S4, "U4": ops.M_U4, "E4M3": ops.M_E4M3, "E5M2": ops.M_E5M2}


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
    named = [_ELEMENTS[m] for m in mods if m in _ELEMENTS]
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
