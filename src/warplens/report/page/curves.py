"""Numbers of the two curves of a kernel: throughput against occupancy, and the roofline.

The roofline is that of Williams et al. 2009, with a point per level of memory (Yang et al. 2020). Operations are
floating-point ones, two for a fused one; a kernel without any is shown by its integer operations. Bytes are those that
each level moves for the whole grid.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.models import Prediction, predict
from warplens.models.registry import Comparison
from warplens.program.instruction import Instruction
from warplens.simulator.matrix import matrix_flops
from warplens.workload import Workload
from warplens.workload.counted import walk
from warplens.workload.profile import Profile

_POINTS = 5  # occupancies of the curve
_WALKED = 60_000  # instructions that all its predictions may go through: about 0.3 s
_PREPARED = 8  # what it takes to prepare an instruction, in units of going through it
_PATHS = 4  # paths of warps that our closed form goes through
_REACHED = 0.95  # of the throughput bound


class Point(Struct, frozen=True):
    """Throughput at one occupancy, in warps per cycle and SM, by each bound alone and as predicted."""

    warps_per_sm: float
    by_latency: float
    by_throughput: float
    predicted: float
    seconds: float


class OccupancyCurve(Struct, frozen=True, kw_only=True):
    """The curve of one model; `now` is the answer itself, `band` how far off it may be, as factors of throughput.

    `needed_warps` is where the bounds meet, `reached_warps` where the curve comes within 5 % of the throughput bound.
    """

    model: str
    warps_max: float
    fitting_warps: float
    now: Point
    points: list[Point]
    needed_warps: float | None
    reached_warps: float | None
    band: tuple[float, float] | None


def occupancy_curve(p: Prediction, c: Comparison, workload: Workload, machine: Machine) -> OccupancyCurve:
    """Return the curve of our closed form, of Volkov's bounds where ours is silent."""
    model = next((name for name in ("warplens-fast", "volkov") if name in c.predictions), None)
    launch = workload.launch
    if model is None or launch is None or p.seconds is None:
        raise WarplensError("no model gives a throughput at other occupancies")
    base, per_block, most = c.predictions[model], int(launch.warps_per_block), machine.sm.warps_max
    here = float(base.warps_per_sm)
    in_grid = math.ceil(float(launch.blocks) / machine.chip.sm_count)  # more than that cannot be on an SM
    blocks, count = max(1, min(in_grid, int(most // per_block))), _affordable(workload)
    chosen = {here, *(float(per_block * round(1 + (blocks - 1) * k / max(1, count - 1))) for k in range(count))}
    points = [_point(base if n == here else predict(workload, machine, model, warps_per_sm=n)) for n in sorted(chosen)]
    now = replace(
        next(x for x in points if x.warps_per_sm == here),
        warps_per_sm=float(p.warps_per_sm),
        predicted=float(p.throughput_warps_per_cycle or 0.0),
        seconds=float(p.seconds),
    )
    fast, slow = p.interval_seconds or (0.0, 0.0)
    return OccupancyCurve(
        model=model,
        warps_max=most,
        fitting_warps=here,
        now=now,
        points=points,
        needed_warps=_met(points, lambda x: x.by_latency / x.by_throughput - 1 if x.by_throughput else 0.0),
        reached_warps=_met(points, lambda x: x.predicted / x.by_throughput - _REACHED if x.by_throughput else 0.0),
        band=(float(p.seconds) / slow, float(p.seconds) / fast) if p.interval_seconds else None,
    )


def _affordable(workload: Workload) -> int:
    """Return how many occupancies can be predicted in a fraction of a second."""
    if workload.profile is None:
        return _POINTS
    commonest = sorted(workload.profile.paths, key=lambda path: -path.warps)[:_PATHS]
    each = _PREPARED * len(workload.code) + sum(len(walk(path).weights) for path in commonest)
    return min(_POINTS, _WALKED // (1 + each))


def _point(p: Prediction) -> Point:
    """Return the bounds of a prediction as throughputs."""
    throughput = float(p.throughput_warps_per_cycle or 0.0)
    warps, latency = throughput * float(p.cycles or 0.0), float(p.limits.get("latency", 0.0))
    slowest = max((float(cycles) for name, cycles in p.limits.items() if name != "latency"), default=0.0)
    by_latency, by_throughput = (warps / cycles if cycles else math.inf for cycles in (latency, slowest))
    return Point(float(p.warps_per_sm), by_latency, by_throughput, throughput, float(p.seconds or 0.0))


def _met(points: list[Point], over: Callable[[Point], float]) -> float | None:
    """Return the occupancy from which something is above zero, between those that were predicted."""
    n, under = 0.0, -1.0
    for x in points:
        if (now := over(x)) >= 0:
            return n + (x.warps_per_sm - n) * -under / (now - under)
        n, under = x.warps_per_sm, now
    return None


SECTOR_BYTES, LINE_BYTES = 32, 128
_FLOPS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "MUFU": 1, "DADD": 1, "DMUL": 1, "DFMA": 2, "HADD2": 2, "HMUL2": 2,
          "HFMA2": 4}  # fmt: skip
_MATRIX = frozenset(("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"))
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
        if x.opcode in _MATRIX:
            each = (matrix_flops(x) or 0.0) * profile.counts["executed"][i]
        elif any(r.startswith("R") for r in x.reads):  # compilers also load constants with such an instruction
            each = _FLOPS.get(x.opcode, 0) * profile.counts["threads"][i]
        else:
            continue
        by_kind[x.kind] = by_kind.get(x.kind, 0.0) + each
    flops = sum(by_kind.values())
    kinds = {kind for kind, count in by_kind.items() if count > _FEW * flops}
    integers = (i for i, x in enumerate(workload.code) if x.kind in ("int", "imul", "imul_wide"))
    operations = flops or sum(profile.counts["threads"][i] for i in integers)
    levels = [level for level in _levels(workload.code, profile, machine) if level.bytes]
    if not operations or not levels:
        raise WarplensError("the kernel has no arithmetic or moves no data")
    return Roofline(
        unit="flop" if flops else "integer operation",
        operations=operations,
        operations_per_second=operations / float(p.seconds),
        roofs=_roofs(workload.code, machine, kinds),
        levels=levels,
    )


def _roofs(code: list[Instruction], machine: Machine, kinds: set[str]) -> list[Roof]:
    """Return the roofs of the units that do a kernel's floating-point work, fused operations counted twice."""
    chip = machine.chip
    lanes = machine.sm.warp_size * chip.sm_count * chip.clock_hz
    rates = {"fp32": 2, "fp64": 2, "half": 4} if kinds else {"int": 1}
    roofs = []
    for kind, each in rates.items():
        if kinds and kind != "fp32" and kind not in kinds:
            continue
        with contextlib.suppress(WarplensError):
            rate = machine.peak_ipc(kind, model="roofline")
            roofs.append(Roof(kind, each * rate * lanes, f"instructions.{kind}"))
    for name in sorted({_matrix_type(x) for x in code if x.opcode in _MATRIX}):
        same = [t for key, t in machine.tensor.items() if re.fullmatch(rf"(group_)?{name}(_\d+)?", key)]
        rate = max((t.peak_flops_per_cycle_per_sm or 0.0 for t in same), default=0.0)
        clock = chip.tensor_clock_hz or chip.clock_hz
        if rate:
            roofs.append(Roof(f"tensor cores, {name}", rate * chip.sm_count * clock, f"tensor.{name}"))
    return roofs


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
    with contextlib.suppress(WarplensError):
        rate = machine.peak_ipc("shared", model="roofline") * LINE_BYTES * chip.sm_count * chip.clock_hz
        moved = LINE_BYTES * sum(counts["wavefronts"][i] for i in shared)
        found.append(Level("shared memory", moved, rate, "instructions.shared"))
    return [level for level in found if level.bytes_per_second]
