"""Types of the data in global memory, by what the code computes from them, and by the launch file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from warplens.advisor.case import Case, Site
from warplens.program.instruction import Instruction

DataType = Literal["f32", "f64", "f16", "integer", ""]  # "": only copied

_HALF = frozenset(("HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2", "VHMNMX", "HADD2_32I", "HMUL2_32I",
                   "HFMA2_32I"))  # fmt: skip
_MATRIX = frozenset(("HMMA", "HGMMA"))
_COPIES = frozenset(("MOV", "SEL", "SHFL", "FSEL"))
_MOVED = frozenset(("STG", "STS", "ST", "STL", "LDG", "LDS", "LD", "LDL", "LDSM", "STSM", "MOVM"))


def data_type(case: Case, site: Site) -> DataType:
    """Return the type of what an access moves.

    What is only copied has the type of what comes out of shared memory, where that is one; else that of the launch
    file's arrays, where floats of one width are among them and none of 16 bits or 8; without a launch file, floats.
    """
    x = site.instruction
    found = _computed(case.code, site.index)
    if found:
        return found
    shared = {_loaded(case.code, i) for i, y in enumerate(case.code) if y.opcode in ("LDS", "LDSM")} - {""}
    if len(shared) == 1 and any(y.opcode in ("STS", "STSM", "LDGSTS") for y in case.code):
        return shared.pop()
    known = {case.workload.array_types[t.name] for t in case.profile.traffic if t.name in case.workload.array_types}
    if not known:
        return "f64" if "64" in x.modifiers and _computes(case.code, "fp64") else "f32"
    floats = known & {"f32", "f64"}
    if not floats or not known <= {*floats, "i32", "u32", "i64", "u64"}:
        return "integer"
    return "f64" if floats == {"f64"} else "f32"


def _computes(code: Sequence[Instruction], kind: str) -> bool:
    return any(x.kind == kind for x in code)


def _computed(code: Sequence[Instruction], at: int) -> DataType:
    """Return the type by what is computed from loaded values, what made stored ones, or an atomic's own."""
    x = code[at]
    if x.opcode.startswith(("ATOM", "RED")):
        return "f32" if "F32" in x.text else "f64" if "F64" in x.text else "f16" if "F16" in x.text else "integer"
    return _loaded(code, at) if x.kind == "load" else _stored(code, at)


def _loaded(code: Sequence[Instruction], at: int) -> DataType:
    """Return the type that the first instruction to compute with a loaded value takes it for."""
    moved = {r for r in code[at].writes if r[:1] == "R"}
    for k in (*range(at + 1, len(code)), *range(at)):
        x = code[k]
        if moved & set(_values(x)):
            if _copies(x):
                moved |= set(x.writes)
                continue
            if x.opcode not in _MOVED:
                return _taken(x)
        moved -= set(x.writes)
        pointers = {r for o in x.operands if o.kind == "memory" for r in o.registers}
        if moved & pointers:
            return "integer"
        if not moved:
            break
    return ""


def _stored(code: Sequence[Instruction], at: int) -> DataType:
    """Return the type of what made a stored value."""
    moved = {r for r in _values(code[at]) if r[:1] == "R"}
    for k in (*range(at - 1, -1, -1), *range(len(code) - 1, at, -1)):
        x = code[k]
        if moved & set(x.writes):
            if not _copies(x):
                return "" if x.opcode in _MOVED or x.kind in ("load", "shared") else _made(x)
            moved = (moved - set(x.writes)) | {r for r in x.reads if r[:1] == "R"}
    return ""


def _values(x: Instruction) -> tuple[str, ...]:
    """Return the registers that an instruction reads, without addresses and guards."""
    pointers = {r for o in x.operands if o.kind == "memory" for r in (*o.registers, *o.descriptor)}
    pointers |= {f"R{int(r[1:]) + 1}" for r in pointers if r[:1] == "R" and r[1:].isdigit()}
    return tuple(r for r in x.reads if r not in pointers)


def _copies(x: Instruction) -> bool:
    return x.opcode in _COPIES or (x.opcode == "IMAD" and "MOV" in x.modifiers)


def _taken(x: Instruction) -> DataType:
    """Return the type that an instruction takes its operands for."""
    if x.opcode in _HALF:
        return "f16"
    if x.opcode in _MATRIX:
        return "f32" if "TF32" in x.modifiers else "f16"
    if x.kind == "fp64" or x.opcode == "DMMA" or (x.opcode == "F2F" and "F64" in x.modifiers[1:]):
        return "f64"
    floats = x.kind in ("fp32", "sfu") or x.opcode in ("F2F", "F2I", "F2FP", "FRND", "F2IP")
    return "f32" if floats else "integer"


def _made(x: Instruction) -> DataType:
    """Return the type of an instruction's result."""
    if not any(r[:1] == "R" for r in x.reads):  # a constant, by whichever unit is free
        return ""
    if x.opcode in _HALF or x.opcode == "F2FP" or (x.opcode == "F2F" and x.modifiers[:1] in (("F16",), ("BF16",))):
        return "f16"
    if x.opcode in _MATRIX:
        return "f16" if x.modifiers[1:2] == ("F16",) else "f32"
    if x.kind == "fp64" or x.opcode == "DMMA" or (x.opcode in ("F2F", "I2F") and x.modifiers[:1] == ("F64",)):
        return "f64"
    return "f32" if x.kind in ("fp32", "sfu") or x.opcode in ("I2F", "I2FP", "F2F", "FRND") else "integer"
