"""Workloads with a profiler's counts instead of the emulator's.

From the profiler: executions and threads of every instruction, sectors and lines of global accesses, wavefronts of
shared memory, hits in L1, bytes from and to DRAM, less what ncu itself left in L2 to be written. From the emulator: the
paths of warps, and how hits and misses fall on single instructions, which a profiler does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.machine import KINDS
from warplens.program.instruction import Instruction
from warplens.workload.ncu_report import own_writes
from warplens.workload.profile import Profile, Traffic
from warplens.workload.workload import Workload

SECTOR_BYTES = 32
_FEW_STORES = 0.1  # share of sectors: up to here ncu's hit rate of L1 is that of the loads

# a short name -> ncu's column of the source page
INSTRUCTION = {
    "executed": "Instructions Executed",
    "threads": "Predicated-On Thread Instructions Executed",
    "tag_requests": "L1 Tag Requests Global",
    "shared_wavefronts": "L1 Wavefronts Shared",
    "global_sectors": "L2 Theoretical Sectors Global",
    "samples": "# Samples",
}

Columns = dict[str, list[float]]


def with_measured(
    workload: Workload, columns: Mapping[str, Sequence[float]], counters: Mapping[str, float]
) -> Workload:
    """Return the workload as a profiler counted it: `columns` per instruction and `counters` as in ncu_metrics.toml."""
    profile, code = workload.profile, workload.code
    if profile is None or not code:
        raise WarplensError(f"workload {workload.name}: only one that was counted from machine code can be measured")
    measured = {name: list(map(float, values)) for name, values in columns.items() if values}
    executed = measured.get("executed", [])
    if len(executed) < len(code) or any(executed[len(code) :]):
        raise WarplensError(
            f"workload {workload.name}: {len(code)} instructions, but the profiler saw {len(executed)}: another binary"
        )
    counts = _counted(code, profile, measured)
    if "l1_hit_percent" in counters:
        counts = _with_l1_hits(code, counts, counters["l1_hit_percent"] / 100)
    read, written = counters.get("dram_read_bytes"), own_writes(counters)
    if read is not None:
        counts = _with_misses(code, counts, read, profile.dram_read_bytes)
    counted = replace(
        profile,
        counts=counts,
        error=0.0,
        largest_error=0.0,
        l2="cold",
        traffic=_with_dram(profile.traffic, read, written),
    )
    return workload.with_values(profile=counted, notes=[*workload.notes, "counted by a profiler, with a cold L2"])


def _counted(code: Sequence[Instruction], profile: Profile, measured: Columns) -> Columns:
    """Scale what the emulator counted of each instruction to the executions, sectors and lines that were measured."""
    scaled = {name: list(values) for name, values in profile.counts.items()}
    for i, x in enumerate(code):
        before, now = scaled["executed"][i], measured["executed"][i]
        for name in scaled:
            scaled[name][i] *= now / before if before else 0.0
        scaled["executed"][i] = now
        scaled["threads"][i] = measured.get("threads", scaled["threads"])[i]
        sectors = measured.get("global_sectors", [0.0] * len(code))[i]
        if sectors and scaled["sectors"][i]:
            for name in ("l1_hit_sectors", "l2_sectors", "l2_hit_sectors"):
                scaled[name][i] *= sectors / scaled["sectors"][i]
            scaled["sectors"][i] = sectors
        lines = measured.get("tag_requests", [0.0] * len(code))[i]
        scaled["lines"][i] = lines or scaled["lines"][i]
        wavefronts = measured.get("shared_wavefronts", [0.0] * len(code))[i]
        if wavefronts and KINDS[x.kind] == "shared memory":
            scaled["wavefronts"][i] = wavefronts
    return scaled


def _with_l1_hits(code: Sequence[Instruction], counts: Columns, hits: float) -> Columns:
    """Scale what loads miss in L1 to the measured share, which holds stores too: few of them may be there."""
    loads = [i for i, x in enumerate(code) if x.kind == "load"]
    of_loads, all_of_it = sum(counts["sectors"][i] for i in loads), sum(counts["sectors"])
    missed = of_loads - sum(counts["l1_hit_sectors"][i] for i in loads)
    if not of_loads or of_loads < (1 - _FEW_STORES) * all_of_it or missed <= 0:
        return counts
    factor = (1 - hits) * of_loads / missed
    scaled = {name: list(values) for name, values in counts.items()}
    for i in loads:
        sectors = scaled["sectors"][i]
        passed = min(sectors, factor * (sectors - scaled["l1_hit_sectors"][i]))
        before = scaled["l2_sectors"][i]
        scaled["l1_hit_sectors"][i], scaled["l2_sectors"][i] = sectors - passed, passed
        scaled["l2_hit_sectors"][i] *= passed / before if before else 0.0
    return scaled


def _with_misses(code: Sequence[Instruction], counts: Columns, read: float, emulated: float) -> Columns:
    """Scale what loads miss in L2 to the bytes read from DRAM; where the emulator knew of none, all miss alike."""
    loads = [i for i, x in enumerate(code) if x.kind == "load"]
    asked = sum(counts["l2_sectors"][i] for i in loads)
    if not asked:
        return counts
    scaled = {name: list(values) for name, values in counts.items()}
    for i in loads:
        sectors, hits = scaled["l2_sectors"][i], scaled["l2_hit_sectors"][i]
        missed = (sectors - hits) * read / emulated if emulated > 0.05 * read else sectors * read / SECTOR_BYTES / asked
        scaled["l2_hit_sectors"][i] = max(0.0, sectors - missed)
    return scaled


def _with_dram(traffic: Sequence[Traffic], read: float | None, written: float | None) -> list[Traffic]:
    """Share out the measured bytes over the arrays as the emulator did, or by what each of them asks of L2."""
    rows = list(traffic) or [Traffic(name="all")]
    for field, asked, total in (
        ("dram_read_bytes", "l2_read_bytes", read),
        ("dram_written_bytes", "l2_written_bytes", written),
    ):
        if total is None:
            continue
        known = [float(getattr(t, field)) for t in rows]
        weights = known if sum(known) > 0.05 * total else [float(getattr(t, asked)) for t in rows]
        whole = sum(weights)
        shares = [w / whole for w in weights] if whole else [1 / len(rows)] * len(rows)
        rows = [replace(t, **{field: share * total}) for t, share in zip(rows, shares, strict=True)]
    return rows
