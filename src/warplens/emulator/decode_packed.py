"""How instructions on 64-bit, packed 16-bit, paired and small values are decoded."""

from __future__ import annotations

from warplens.emulator import ops
from warplens.emulator.decode import CannotDecode, Line, rule

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
