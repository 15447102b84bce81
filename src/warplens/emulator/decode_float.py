"""Decoding rules of floating-point instructions, comparisons, conversions, and packed and paired values."""

from __future__ import annotations

import re

import numpy as np

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, rule
from warplens.program.instruction import Operand

_WIDTH = {"S8": 8, "U8": 8, "S16": 16, "U16": 16, "S32": 32, "U32": 32, "S64": 64, "U64": 64, "F16": 16, "BF16": 16,
          "F32": 32, "F64": 64}  # fmt: skip


@rule("FADD", "FMUL", "FFMA", "FADD32I", "FMUL32I", "FFMA32I", "FMNMX", "UFADD", "UFMUL", "UFFMA", "UFMNMX")
def _single(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("32I").removeprefix("U")
    written, given, behind = line.split()
    line.to(written[0])
    for which, operand in zip("ABC", given, strict=False):
        line.source(which, operand, "f32")
    if opcode == "FMNMX":
        line.predicate(behind[0])
    scale = next((int(m[1:]).bit_length() - 1 for m in line.x.modifiers if re.fullmatch("[DM][248]", m)), 0)
    divided = any(re.fullmatch("D[248]", m) for m in line.x.modifiers)
    line.set(GROUP=ops.SINGLE, OP=getattr(ops, opcode), MODE=line.rounding(), X=-scale if divided else scale)


@rule("FSET")
def _compare_into_register(line: Line) -> None:
    o = line.operands
    line.to(o[0])
    line.source("A", o[1], "f32")
    line.source("B", o[2], "f32")
    line.predicate(o[3])
    code = next(ops.COMPARE[m] for m in line.x.modifiers if m in ops.COMPARE)
    how = ops.AND if "AND" in line.mods else ops.OR if "OR" in line.mods else ops.XOR
    line.set(GROUP=ops.SINGLE, OP=ops.FSET, X=code, Y=how, Z=int("BF" in line.mods), MODE=line.rounding())


@rule("FCHK")
def _check_division(line: Line) -> None:
    line.into(line.operands[0])
    line.source("A", line.operands[1], "f32")
    line.source("B", line.operands[2], "f32")
    line.set(GROUP=ops.SINGLE, OP=ops.FCHK)


@rule("MUFU")
def _special_function(line: Line) -> None:
    line.to(line.operands[0])
    if "F16" in line.mods:
        raise CannotDecode
    code = ops.SPECIAL_FUNCTIONS[line.x.modifiers[0]]
    if code in (ops.RCP64H, ops.RSQ64H):
        line.source("A", line.operands[1], "f64")
        line.set(GROUP=ops.DOUBLE, OP=ops.DMUFU, X=code)
        return
    line.source("A", line.operands[1], "f32")
    line.set(GROUP=ops.SINGLE, OP=ops.MUFU, X=code, MODE=line.rounding())


@rule("DADD", "DMUL", "DFMA", "DMNMX")
def _double(line: Line) -> None:
    written, given, behind = line.split()
    line.to(written[0])
    for which, operand in zip("ABC", given, strict=False):
        line.source(which, operand, "f64", 2)
    if behind:
        line.predicate(behind[0])
    line.set(GROUP=ops.DOUBLE, OP=getattr(ops, line.x.opcode), MODE=line.rounding())


def _half_sources(line: Line, given: list[Operand]) -> list[Operand]:
    """Set the sources of a half instruction; two immediates make one pair. Return what is left."""
    swizzle, which = 0, 0
    while given and which < 3 and given[0].kind not in PREDICATES:
        operand = given.pop(0)
        name = "ABC"[which]
        if operand.kind in ("register", "uniform", "constant"):
            line.source(name, operand, "half")
            code = 1 if ".H0_H0" in operand.text else 2 if ".H1_H1" in operand.text else 0
            swizzle |= code << 2 * which
        else:
            pair = [operand.text, given.pop(0).text] if given and given[0].kind in ("immediate", "other") else None
            if pair is None:
                raise CannotDecode
            line.set(**{name: line.d.pooled(("bits", _half_pair(pair, bool(line.mods & {"BF16_V2"})), 0))})
        which += 1
    line.set(X=swizzle)
    return given


def _half_pair(texts: list[str], bf16: bool) -> int:
    """Return two immediates as one word: nvdisasm prints the high half first."""
    made = 0
    for text in texts:
        special = {"+INF": float("inf"), "-INF": float("-inf"), "+QNAN": float("nan"), "-QNAN": float("nan")}
        number = special.get(text.strip()) if text.strip() in special else float(text)
        wide, narrow = np.float32(number).view(np.uint32), np.float16(number).view(np.uint16)
        bits = int(wide) >> 16 if bf16 else int(narrow)
        made = made << 16 | bits
    return made


@rule("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I")
def _half(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("_32I")
    written, given, behind = line.split()
    line.to(written[0])
    mode = line.rounding()
    _half_sources(line, given)
    if behind:
        line.predicate(behind[0])
    op = ops.HADD2_F32 if opcode == "HADD2" and "F32" in line.mods else getattr(ops, opcode)
    line.set(GROUP=ops.HALF, OP=op, MODE=mode)


@rule("HSET2")
def _half_compare(line: Line) -> None:
    written, given, behind = line.split()
    line.to(written[0])
    _half_sources(line, given)
    line.predicate(behind[0])
    code = next(ops.COMPARE[m] for m in line.x.modifiers if m in ops.COMPARE)
    how = ops.AND if "AND" in line.mods else ops.OR if "OR" in line.mods else ops.XOR
    line.set(GROUP=ops.HALF, OP=ops.HSET2, Y=how | 16 * ("BF" in line.mods), Z=code, MODE=line.rounding())


def _types(line: Line, defaults: tuple[str, str], floats: tuple[bool, bool]) -> tuple[str, str]:
    """Return the types of result and source; what is not named is the default."""
    found = [m for m in line.x.modifiers if m in _WIDTH]
    to, of = defaults
    for name in found:
        is_float = name[0] in "FB"
        if floats[0] != floats[1]:
            to, of = (name, of) if is_float == floats[0] else (to, name)
    if floats[0] and floats[1] and found:
        to, of = (found[0], found[1]) if len(found) > 1 else (found[0], found[0])
    return to, of


@rule("F2I", "I2F", "I2FP", "F2F", "FRND", "UF2I", "UI2F", "UI2FP", "UF2F", "UFRND")
def _conversion(line: Line) -> None:
    opcode = line.x.opcode.removesuffix("P").removeprefix("U")
    written, given, _ = line.split()
    line.to(written[0])
    floats = {"F2I": (False, True), "I2F": (True, False), "F2F": (True, True), "FRND": (True, True)}[opcode]
    defaults = {"F2I": ("S32", "F32"), "I2F": ("F32", "S32"), "F2F": ("F32", "F32"), "FRND": ("F32", "F32")}[opcode]
    to, of = _types(line, defaults, floats)
    kind = "f64" if of == "F64" else "half" if of in ("F16", "BF16") else "f32" if of[0] == "F" else "int"
    line.source("A", given[0], kind, 2 if _WIDTH[of] == 64 else 1)
    part = 1 if ".H1" in given[0].text else 0
    byte = re.search(r"\.B([0-3])", given[0].text)
    if opcode == "I2F":
        part = int(byte.group(1)) if byte else 2 * part
    mode = line.rounding() & ~ops.BF16
    signed = (to if opcode == "F2I" else of)[0] == "S"
    mode |= (ops.SIGNED if signed else 0) | (ops.BF16 if "BF16" in (to, of) else 0)
    op = {"F2I": ops.F2I, "I2F": ops.I2F, "F2F": ops.F2F, "FRND": ops.FRND}[opcode]
    line.set(GROUP=ops.CONVERT, OP=op, X=_WIDTH[to], Y=_WIDTH[of], Z=part, MODE=mode)


@rule("F2FP")
def _pack(line: Line) -> None:
    if line.mods & {"E4M3", "E5M2"}:
        small_floats(line)
        return
    if "PACK_AB" not in line.mods or line.mods - {"F16", "BF16", "F32", "PACK_AB", "RELU", "RZ", "RN"}:
        raise CannotDecode
    written, given, _ = line.split()
    line.to(written[0])
    line.source("A", given[0], "f32")
    line.source("B", given[1], "f32")
    line.set(GROUP=ops.CONVERT, OP=ops.F2FP, MODE=line.rounding())


@rule("ISETP", "UISETP", "FSETP", "UFSETP", "DSETP", "HSETP2")
def _compare(line: Line) -> None:
    o = line.operands
    if line.mods & {"S64", "U64"}:
        compare_pairs(line)
        return
    if line.x.opcode == "DSETP" and line.mods & {"MIN", "MAX"}:
        extreme_doubles(line)
        return
    line.into(o[0])
    line.into(o[1], False)
    code = next((ops.COMPARE[m] for m in line.x.modifiers if m in ops.COMPARE), None)
    if code is None:
        raise CannotDecode
    how = ops.AND if "AND" in line.mods else ops.OR if "OR" in line.mods else ops.XOR
    kind, group, op = {
        "ISETP": ("int", ops.INTEGER, ops.ISETP), "UISETP": ("int", ops.INTEGER, ops.ISETP),
        "FSETP": ("f32", ops.SINGLE, ops.FSETP), "UFSETP": ("f32", ops.SINGLE, ops.FSETP),
        "DSETP": ("f64", ops.DOUBLE, ops.DSETP),
        "HSETP2": ("half", ops.HALF, ops.HSETP2),
    }[line.x.opcode]  # fmt: skip
    line.set(GROUP=group, OP=op, X=code, Y=how)
    if line.x.opcode == "HSETP2":
        rest = _half_sources(line, list(o[2:]))
        line.set(Z=code)
    else:
        for which, operand in zip("AB", o[2:4], strict=True):
            line.source(which, operand, kind, 2 if kind == "f64" else 1)
        rest = list(o[4:])
    if rest:
        line.predicate(rest[0])
    mode = line.rounding()
    if kind == "int":
        mode = 0 if "U32" in line.mods else ops.SIGNED
        if "EX" in line.mods:
            mode |= ops.EXTENDED
            line.predicate(rest[1], False)
    line.set(MODE=mode)


_PERMUTE_MODES = {"F4E": 0, "B4E": 1, "RC8": 2, "ECL": 3, "ECR": 4, "RC16": 5}
_SMALL = {"E4M3": 4, "E5M2": 5}


def select_pair(line: Line) -> None:
    """SEL.64."""
    o = line.operands
    line.to(o[0])
    line.source("A", o[1], width=2)
    line.source("B", o[2], width=2)
    line.predicate(o[3])
    _plain_sources(line)
    line.set(GROUP=ops.PACKED, OP=ops.SEL2)


def compare_pairs(line: Line) -> None:
    """ISETP with .S64 or .U64."""
    o = line.operands
    line.into(o[0])
    line.into(o[1], False)
    line.source("A", o[2], width=2)
    line.source("B", o[3], width=2)
    line.predicate(o[4])
    _plain_sources(line)
    code = next(ops.COMPARE[m] for m in line.x.modifiers if m in ops.COMPARE)
    how = ops.AND if "AND" in line.mods else ops.OR if "OR" in line.mods else ops.XOR
    mode = ops.SIGNED if "S64" in line.mods else 0
    line.set(GROUP=ops.PACKED, OP=ops.ISETP2, X=code, Y=how, MODE=mode)


def extreme_doubles(line: Line) -> None:
    """DSETP.MIN and DSETP.MAX."""
    o = line.operands
    if o[4].text != "PT":
        raise CannotDecode
    line.into(o[0])
    line.into(o[1], False)
    line.source("A", o[2], "f64", 2)
    line.source("B", o[3], "f64", 2)
    line.set(GROUP=ops.PACKED, OP=ops.DSETP_EXTREME, X=int("MIN" in line.mods))


def extreme_pair(line: Line) -> None:
    """IMNMX with .S64 or .U64: two predicates, destination, sources, which of them."""
    o = line.operands
    if [x.text for x in o[:2]] not in (["PT", "PT"], ["UPT", "UPT"]) or o[6].text not in ("!PT", "!UPT"):
        raise CannotDecode
    line.to(o[2])
    line.source("A", o[3], width=2)
    line.source("B", o[4], width=2)
    line.predicate(o[5])
    _plain_sources(line)
    line.set(GROUP=ops.PACKED, OP=ops.MINMAX2, MODE=ops.SIGNED if "S64" in line.mods else 0)


def extreme_halves(line: Line) -> None:
    """VIMNMX, VIMNMX3, VIADDMNMX with .S16x2 or .U16x2."""
    written, given, behind = line.split()
    line.to(written[0])
    for which, operand in zip("ABC", given, strict=False):
        line.source(which, operand)
    line.predicate(behind[0])
    _plain_sources(line)
    op = {"VIMNMX3": ops.MINMAX3_16, "VIADDMNMX": ops.ADDMINMAX16}.get(line.x.opcode, ops.MINMAX16)
    mode = (ops.SIGNED if "S16x2" in line.mods else 0) | (ops.RELU if "RELU" in line.mods else 0)
    line.set(GROUP=ops.PACKED, OP=op, MODE=mode)


def add_halves(line: Line) -> None:
    """VIADD.16x2."""
    _, given, _ = line.split()
    line.to(line.operands[0])
    line.source("A", given[0])
    line.source("B", given[1])
    line.set(GROUP=ops.PACKED, OP=ops.ADD16)


def permute_by_mode(line: Line) -> None:
    """PRMT with an order of bytes by name."""
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=False):
        line.source(which, operand)
    _plain_sources(line)
    line.set(GROUP=ops.PACKED, OP=ops.PRMT_MODE, X=_PERMUTE_MODES[line.x.modifiers[0]])


def logic_of_signs(line: Line) -> None:
    """PLOP3 over the sign bits of three registers."""
    o = line.operands
    if not all(".SIGN" in x.text for x in o[2:5]) or int(o[6].text, 16) or o[1].text != "PT":
        raise CannotDecode
    line.into(o[0])
    for which, operand in zip("ABC", o[2:5], strict=True):
        line.set(**{which: line.register(operand.text)})
    line.set(GROUP=ops.PACKED, OP=ops.SIGN_LOGIC, X=int(o[5].text, 16))


def _plain_sources(line: Line) -> None:
    """Refuse sources that are negated or complemented."""
    for name in ("A_XOR", "B_XOR", "C_XOR"):
        if line.fields[getattr(ops, name)]:
            raise CannotDecode


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
    written, given, behind = line.split()
    line.to(written[0])
    for which, operand in zip("ABC", given, strict=True):
        line.source(which, operand, "f32")
    line.predicate(behind[0])
    line.set(GROUP=ops.PACKED, OP=ops.FMNMX3, MODE=line.rounding())


@rule("I2IP")
def _pack_integers(line: Line) -> None:
    to = line.x.modifiers[0]
    if line.x.modifiers[1:] != ("S32", "SAT"):
        raise CannotDecode
    line.to(line.operands[0])
    for which, operand in zip("ABC", line.operands[1:], strict=True):
        line.source(which, operand)
    _plain_sources(line)
    line.set(GROUP=ops.PACKED, OP=ops.PACK_INTEGERS, X=int(to[1:]), MODE=ops.SIGNED if to[0] == "S" else 0)


def small_floats(line: Line) -> None:
    """F2FP to and from fp8."""
    o, mods = line.operands, line.mods
    exponent_bits = next(_SMALL[m] for m in line.x.modifiers if m in _SMALL)
    line.to(o[0])
    if "UNPACK_B" in mods and "F16" in mods:
        line.source("A", o[1])
        line.set(OP=ops.UNPACK_F8, Z=int(".H1" in o[1].text))
    elif "PACK_AB_MERGE_C" in mods and {"F32", "SATFINITE"} <= mods:
        for which, operand in zip("ABC", o[1:], strict=True):
            line.source(which, operand)
        line.set(OP=ops.PACK_F8)
    elif "UNPACK_B_MERGE_C" in mods and {"F16", "SATFINITE"} <= mods:
        line.source("A", o[1])
        line.source("C", o[2])
        line.set(OP=ops.PACK_F8_HALF)
    else:
        raise CannotDecode
    _plain_sources(line)
    line.set(GROUP=ops.PACKED, X=exponent_bits, MODE=line.rounding())
