"""How floating-point instructions, comparisons and conversions are decoded."""

from __future__ import annotations

import re

import numpy as np

from warplens.emulator import ops
from warplens.emulator.decode import PREDICATES, CannotDecode, Line, rule
from warplens.emulator.decode_packed import compare_pairs, extreme_doubles, small_floats
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
