"""The roofline of a counted kernel (Williams et al. 2009), with a point per level of memory (Yang et al. 2020).

Operations are floating-point ones, two for a fused one; a kernel without any is shown by its integer operations. Bytes
are those that each level moves for the whole grid.
"""

from __future__ import annotations

import re

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.models import Prediction
from warplens.program.instruction import Instruction
from warplens.workload import Workload
from warplens.workload.profile import Profile

SECTOR_BYTES, LINE_BYTES = 32, 128
_FLOPS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "MUFU": 1, "DADD": 1, "DMUL": 1, "DFMA": 2, "HADD2": 2, "HMUL2": 2,
          "HFMA2": 4}  # fmt: skip
_MATRIX = frozenset(("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"))
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
_SHORT = {"16816": (16, 8, 16), "1688": (16, 8, 8), "16832": (16, 8, 32), "884": (8, 8, 4), "8816": (8, 8, 16),
          "16864": (16, 8, 64), "1684": (16, 8, 4)}  # fmt: skip
_FEW = 0.01  # a unit with less of all operations has no roof drawn


class Roof(Struct, frozen=True):
    """A highest rate of operations, per second, and the machine file's key it rests on."""

    name: str
    per_second: float
    key: str


class Level(Struct, frozen=True):
    """A level of memory: what it moves for the kernel, how fast it could, and the machine file's key of that."""

    name: str
    bytes: float
    bytes_per_second: float
    key: str


class Roofline(Struct, frozen=True, kw_only=True):
    """Where a kernel lies under its roofs."""

    unit: str
    operations: float
    operations_per_second: float
    roofs: list[Roof]
    levels: list[Level]


def roofline(p: Prediction, workload: Workload, machine: Machine) -> Roofline:
    """Return the roofline of a counted kernel with its predicted rate."""
    profile = workload.profile
    if profile is None or p.seconds is None or not workload.code:
        raise WarplensError("a roofline needs a kernel that was counted from machine code")
    by_kind: dict[str, float] = {}
    for i, x in enumerate(workload.code):
        by_kind[x.kind] = by_kind.get(x.kind, 0.0) + _flops(x, i, profile)
    flops = sum(by_kind.values())
    kinds = {kind for kind, count in by_kind.items() if count > _FEW * flops}
    unit = "flop" if flops else "integer operation"
    operations = flops or sum(
        profile.counts["threads"][i] for i, x in enumerate(workload.code) if x.kind in ("int", "imul", "imul_wide")
    )
    levels = [level for level in _levels(workload.code, profile, machine) if level.bytes]
    if not operations or not levels:
        raise WarplensError("the kernel has no arithmetic or moves no data")
    return Roofline(
        unit=unit,
        operations=operations,
        operations_per_second=operations / float(p.seconds),
        roofs=_roofs(workload.code, machine, kinds),
        levels=levels,
    )


def _flops(x: Instruction, i: int, profile: Profile) -> float:
    """Return the floating-point operations of an instruction over the whole grid."""
    if x.opcode in _MATRIX:
        shape = next((s for m in x.modifiers if (s := _shape(m))), None)
        return 2.0 * shape[0] * shape[1] * shape[2] * profile.counts["executed"][i] if shape else 0.0
    if not any(r.startswith("R") for r in x.reads):  # compilers also load constants with such an instruction
        return 0.0
    return _FLOPS.get(x.opcode, 0) * profile.counts["threads"][i]


def _shape(modifier: str) -> tuple[int, int, int] | None:
    if found := _SHAPE.fullmatch(modifier):
        rows, columns, depth = map(int, found.groups())
        return rows, columns, depth
    return _SHORT.get(modifier)


def _roofs(code: list[Instruction], machine: Machine, kinds: set[str]) -> list[Roof]:
    """Return the roofs of the units that do a kernel's floating-point work, fused operations counted twice."""
    chip = machine.chip
    lanes = machine.sm.warp_size * chip.sm_count * chip.clock_hz
    rates = {"fp32": 2, "fp64": 2, "half": 4} if kinds else {"int": 1}
    made = []
    for kind, each in rates.items():
        if kinds and kind != "fp32" and kind not in kinds:
            continue
        try:
            rate = machine.peak_ipc(kind, model="roofline")
        except WarplensError:
            continue
        made.append(Roof(kind, each * rate * lanes, f"instructions.{kind}"))
    for name in sorted({_matrix_type(x) for x in code if x.opcode in _MATRIX}):
        same = [t for key, t in machine.tensor.items() if re.fullmatch(rf"(group_)?{name}(_\d+)?", key)]
        rate = max((t.peak_flops_per_cycle_per_sm or 0.0 for t in same), default=0.0)
        clock = chip.tensor_clock_hz or chip.clock_hz
        if rate:
            made.append(Roof(f"tensor cores, {name}", rate * chip.sm_count * clock, f"tensor.{name}"))
    return made


def _matrix_type(x: Instruction) -> str:
    """Return the type of a matrix instruction's operands as machine files name it."""
    named = {"BF16": "bf16", "TF32": "tf32", "E4M3": "e4m3"}
    kind = {"D": "f64", "I": "s8", "Q": "e4m3"}.get(x.opcode[0], "f16")
    return next((named[m] for m in x.modifiers if m in named), kind)


def _levels(code: list[Instruction], profile: Profile, machine: Machine) -> list[Level]:
    chip, counts = machine.chip, profile.counts
    shared = [i for i, x in enumerate(code) if KINDS.get(x.kind) == "shared memory"]
    dram = machine.memory.sustained_bytes_per_second
    l1 = machine.bandwidth.get("l1_load_16")
    found = [
        Level("DRAM", profile.dram_read_bytes + profile.dram_written_bytes,
              dram or machine.dram_bytes_per_second(model="roofline"),
              "memory.sustained_bytes_per_second" if dram else "memory.pin_bytes_per_second"),
        Level("L2", SECTOR_BYTES * profile.total("l2_sectors"), machine.cache.l2_bytes_per_second or 0.0,
              "cache.l2_bytes_per_second"),
        Level("L1", SECTOR_BYTES * profile.total("sectors"), (l1.bytes_per_second if l1 else None) or 0.0,
              "bandwidth.l1_load_16.bytes_per_second"),
    ]  # fmt: skip
    try:
        rate = machine.peak_ipc("shared", model="roofline") * LINE_BYTES * chip.sm_count * chip.clock_hz
        moved = LINE_BYTES * sum(counts["wavefronts"][i] for i in shared)
        found.append(Level("shared memory", moved, rate, "instructions.shared"))
    except WarplensError:
        pass
    return [level for level in found if level.bytes_per_second]
