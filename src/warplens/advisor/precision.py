"""Remedy of narrower floats in global memory; types of data, by the code that uses them and the launch file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from warplens.advisor.case import Answer, Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import addressing, pointers
from warplens.advisor.memory import DATA, with_l2_hits
from warplens.advisor.overlay import scaled_traffic, with_counts
from warplens.program.instruction import Instruction

_OWN_SECTOR = 0.95  # sectors per thread from which lanes do not share them
DataType = Literal["f32", "f64", "f16", "integer", ""]  # "": only copied

_HALF = frozenset(("HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2", "VHMNMX", "HADD2_32I", "HMUL2_32I",
                   "HFMA2_32I"))  # fmt: skip
_MATRIX = frozenset(("HMMA", "HGMMA"))
_COPIES = frozenset(("MOV", "SEL", "SHFL", "FSEL"))
_MOVED = frozenset(("STG", "STS", "ST", "STL", "LDG", "LDS", "LD", "LDL", "LDSM", "STSM", "MOVM"))


def lower_precision(case: Case) -> Answer:
    """Store floats of 32 or 64 bits in global memory at half the width.

    Applies where: floats of 32 or 64 bits.
    Overlay: half their bytes; results change; listed last.
    """
    sites = [s for s in case.global_sites if s.bytes_per_thread >= 4 and s.instruction.kind in ("load", "store")]
    if not sites:
        return Refusal("it moves no data of four bytes or more") if case.global_sites else case.without_global
    types = {s.index: data_type(case, s) for s in sites}
    floats = [s for s in sites if types[s.index] in ("f32", "f64")]
    if not floats:
        halves = "f16" in types.values()
        return Refusal("its data are 16 bits wide already" if halves else "it moves no 32-bit or 64-bit floats")
    new = {s.index: _halved(s) for s in floats}
    left = [_asked_share(case, new, kind) for kind in ("load", "store")]
    touched = sum(max(t.read_footprint_bytes, t.written_footprint_bytes) for t in case.profile.traffic)
    spared = 0.5 * sum(s.useful_bytes for s in floats) / max(1.0, sum(s.useful_bytes for s in case.global_sites))
    doubles = sum(s.useful_bytes for s in floats if types[s.index] == "f64")
    widths = (32, 64) if doubles > 0.5 * sum(s.useful_bytes for s in floats) else (16, 32)
    less = scaled_traffic(with_counts(case.workload, new), *left)
    return Proposal(
        title=f"half the bytes: {widths[0]}-bit instead of {widths[1]}-bit floats in memory",
        workload=with_l2_hits(less, case, (1 - spared) * touched, touched),
        assumption="all of these data may be stored at half the width; converting them costs nothing",
        where=case.locations(s.index for s in floats),
        changes={"bytes": 0.5},
        no_help="the bytes moved do not limit",
    )


def _asked_share(case: Case, new: Mapping[int, Mapping[str, float]], kind: str) -> float:
    """Return the share of requests to L2 that is left to accesses of a kind; lanes keep sectors of their own."""
    now = {s.index: s.l2_sectors for s in case.global_sites if s.instruction.kind == kind}
    then = sum(new.get(i, {}).get("l2_sectors", n) for i, n in now.items())
    return then / sum(now.values()) if sum(now.values()) else 0.5


def _halved(s: Site) -> dict[str, float]:
    """Return the counts of an access to half as many bytes; a lane that has a sector of its own keeps one.

    Such lanes miss half as often if most of their requests hit the sector of their iteration before.
    """
    if s.sectors >= _OWN_SECTOR * s.threads:
        fewer = 0.5 if s.l1_hit_sectors > 0.5 * s.sectors else 1.0
        misses = {"l2_sectors": fewer * s.l2_sectors, "l2_hit_sectors": fewer * s.l2_hit_sectors}
        kept = s.sectors - fewer * (s.sectors - s.l1_hit_sectors)
        return misses | {"useful_bytes": 0.5 * s.useful_bytes, "l1_hit_sectors": kept}
    least = max(0.5, s.requests / max(s.requests, s.sectors))  # a request touches a sector at least
    data = {name: least * getattr(s, name) for name in DATA}
    return data | {"useful_bytes": 0.5 * s.useful_bytes, "wavefronts": max(s.requests, 0.5 * s.wavefronts)}


def data_type(case: Case, site: Site) -> DataType:
    """Return the type of the data that an access moves.

    Data that are only copied have the type of loads from shared memory, if these have one; else that of the launch
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
        return "f64" if "64" in x.modifiers and any(y.kind == "fp64" for y in case.code) else "f32"
    floats = known & {"f32", "f64"}
    if not floats or not known <= {*floats, "i32", "u32", "i64", "u64"}:
        return "integer"
    return "f64" if floats == {"f64"} else "f32"


def _computed(code: Sequence[Instruction], at: int) -> DataType:
    """Return the type by the consumers of loaded values, the producers of stored ones, or an atomic's own."""
    x = code[at]
    if x.opcode.startswith(("ATOM", "RED")):
        return "f32" if "F32" in x.text else "f64" if "F64" in x.text else "f16" if "F16" in x.text else "integer"
    return _loaded(code, at) if x.kind == "load" else _stored(code, at)


def _loaded(code: Sequence[Instruction], at: int) -> DataType:
    """Return the operand type of the first instruction that computes with a loaded value."""
    moved = {r for r in code[at].writes if r[:1] == "R"}
    for k in (*range(at + 1, len(code)), *range(at)):
        x = code[k]
        if moved & (set(x.reads) - addressing(x)):
            if _copies(x):
                moved |= set(x.writes)
                continue
            if x.opcode not in _MOVED:
                return _operand_type(x)
        moved -= set(x.writes)
        if moved.intersection(pointers(x)):
            return "integer"
    return ""


def _stored(code: Sequence[Instruction], at: int) -> DataType:
    """Return the result type of the producer of a stored value."""
    moved = {r for r in set(code[at].reads) - addressing(code[at]) if r[:1] == "R"}
    for k in (*range(at - 1, -1, -1), *range(len(code) - 1, at, -1)):
        x = code[k]
        if moved & set(x.writes):
            if not _copies(x):
                return "" if x.opcode in _MOVED or x.kind in ("load", "shared") else _result_type(x)
            moved = (moved - set(x.writes)) | {r for r in x.reads if r[:1] == "R"}
    return ""


def _copies(x: Instruction) -> bool:
    return x.opcode in _COPIES or (x.opcode == "IMAD" and "MOV" in x.modifiers)


def _operand_type(x: Instruction) -> DataType:
    """Return the type of an instruction's operands."""
    if x.opcode in _HALF:
        return "f16"
    if x.opcode in _MATRIX:
        return "f32" if "TF32" in x.modifiers else "f16"
    if x.kind == "fp64" or x.opcode == "DMMA" or (x.opcode == "F2F" and "F64" in x.modifiers[1:]):
        return "f64"
    floats = x.kind in ("fp32", "sfu") or x.opcode in ("F2F", "F2I", "F2FP", "FRND", "F2IP")
    return "f32" if floats else "integer"


def _result_type(x: Instruction) -> DataType:
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
