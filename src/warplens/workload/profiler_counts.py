"""Profile from a profiler's counts alone, where nothing was emulated.

A profiler says how often each instruction ran, not in which order. The path of a warp follows from the flow graph:
every loop runs as many iterations as its header ran per entry, and in it the blocks that ran in at least half of them.
Hits in the caches are known for the whole launch only: every load has the same share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warplens.machine import KINDS
from warplens.program.control_flow import Flow, Loop
from warplens.program.instruction import Instruction, access_bytes
from warplens.program.program import Program
from warplens.workload.profile import COLUMNS, Path, Profile, Segment, Traffic

SECTOR_BYTES = 32
_MOST_SEGMENTS = 4000  # of a path: outer iterations beyond that are left out, and who uses the path scales it
# What ncu leaves in L2 to be written is driven out by whatever the kernel brings there: bytes that a kernel that only
# reads has read, and bytes written meanwhile (footprints.json.gz, cold, read; in one way from the first to the last).
_BROUGHT, _DRIVEN_OUT = (28 << 20, 36 << 20, 48 << 20), (0.0, 1.0e6, 2.4e6)

Runs = list[tuple[int, int]]


def profile_of(
    program: Program,
    flow: Flow,
    shape: tuple[int, int],
    columns: Mapping[str, Sequence[float]],
    counters: Mapping[str, float],
) -> Profile:
    """Return the profile of a launch of `shape` (blocks, warps of a block) from what a profiler counted.

    `columns` (per instruction) and `counters` (of the launch) are those of `warplens.workload.ncu_report`.
    """
    blocks, warps = shape
    code = program.instructions
    counts = _counts(code, columns, counters)
    path = Path(typical_path(flow, [n / (blocks * warps) for n in counts["executed"]]), warps)
    stores = SECTOR_BYTES * sum(n for n, x in zip(counts["l2_sectors"], code, strict=True) if x.kind == "store")
    loads = SECTOR_BYTES * sum(n for n, x in zip(counts["l2_sectors"], code, strict=True) if x.kind == "load")
    traffic = Traffic(
        name="all",
        l2_read_bytes=loads,
        l2_written_bytes=stores,
        dram_read_bytes=counters.get("dram_read_bytes", loads),
        dram_written_bytes=stores if (written := own_writes(counters)) is None else written,
    )
    return Profile(
        grid_blocks=blocks, warps_per_block=warps, emulated_blocks=0, exact=True, counts=counts,
        paths=[path], blocks=[[0] * warps], traffic=[traffic], l2="cold",
        notes=["counted by a profiler, with a cold L2; the way of a warp put together from the counts"],
    )  # fmt: skip


def _counts(
    code: Sequence[Instruction], columns: Mapping[str, Sequence[float]], counters: Mapping[str, float]
) -> dict[str, list[float]]:
    """Return the columns of a profile; what was not measured follows from the widths of the accesses."""
    nothing = [0.0] * len(code)
    measured = {name: [float(n) for n in columns.get(name) or nothing] for name in columns}
    counts = {name: [0.0] * len(code) for name in COLUMNS}
    counts["executed"] = measured["executed"]
    counts["threads"] = measured.get("threads") or [32 * n for n in measured["executed"]]
    hits = counters.get("l1_hit_percent", 0.0) / 100
    for i, x in enumerate(code):
        if KINDS[x.kind] not in ("memory system", "shared memory") or not counts["threads"][i]:
            continue
        counts["requests"][i] = counts["executed"][i]
        counts["useful_bytes"][i] = counts["threads"][i] * access_bytes(x)
        if KINDS[x.kind] == "shared memory":
            least = max(counts["executed"][i], counts["useful_bytes"][i] / 128)
            counts["wavefronts"][i] = measured.get("shared_wavefronts", nothing)[i] or least
            counts["requests"][i] = min(counts["executed"][i], counts["wavefronts"][i])  # others: predicated off
            continue
        sectors = measured.get("global_sectors", nothing)[i] or counts["useful_bytes"][i] / SECTOR_BYTES
        counts["sectors"][i] = sectors
        counts["lines"][i] = counts["wavefronts"][i] = measured.get("tag_requests", nothing)[i] or sectors / 4
        counts["requests"][i] = min(counts["executed"][i], counts["lines"][i])
        counts["l1_hit_sectors"][i] = hits * sectors if x.kind == "load" else 0.0
        counts["l2_sectors"][i] = sectors - counts["l1_hit_sectors"][i]
    read, loads = counters.get("dram_read_bytes"), [i for i, x in enumerate(code) if x.kind == "load"]
    asked = SECTOR_BYTES * sum(counts["l2_sectors"][i] for i in loads)
    found = max(0.0, 1 - read / asked) if asked and read is not None else 0.0
    for i in loads:
        counts["l2_hit_sectors"][i] = found * counts["l2_sectors"][i]
    return counts


def typical_path(flow: Flow, per_warp: Sequence[float]) -> list[Segment]:
    """Return the path of the mean warp, given how often each instruction ran per warp."""
    often = [per_warp[block.first] for block in flow.blocks]
    return [Segment(runs, times) for runs, times in _region(flow, often, None, 1.0)]


def _region(flow: Flow, often: Sequence[float], outer: int | None, per: float) -> list[tuple[Runs, int]]:
    """Return the runs of a loop's body (or of the program) in the order of the code, inner loops spelled out."""
    inner = {i: loop for i, loop in enumerate(flow.loops) if loop.parent == outer}
    within = range(len(flow.blocks)) if outer is None else sorted(flow.loops[outer].blocks)
    parts: list[tuple[Runs, int]] = []
    done: set[int] = set()
    for b in within:
        if b in done:
            continue
        found = next(((i, loop) for i, loop in inner.items() if b in loop.blocks), None)
        if found is not None:
            index, loop = found
            done |= set(loop.blocks)
            parts += _repeated(flow, often, index, loop, per)
        elif often[b] >= 0.5 * per and often[b] > 0:
            parts.append(([(flow.blocks[b].first, flow.blocks[b].last + 1)], 1))
    merged: list[tuple[Runs, int]] = []  # what runs once joined with what follows and runs once
    for runs, times in parts:
        if merged and times == 1 and merged[-1][1] == 1:
            merged[-1] = (_joined([*merged[-1][0], *runs]), 1)
        else:
            merged.append((list(runs), times))
    return merged


def _repeated(flow: Flow, often: Sequence[float], index: int, loop: Loop, per: float) -> list[tuple[Runs, int]]:
    trips = round(often[loop.header] / per) if per else 0
    if trips < 1:
        return []
    body = _region(flow, often, index, often[loop.header])
    if len(body) == 1 and body[0][1] == 1:
        return [(body[0][0], trips)]
    return body * min(trips, max(1, _MOST_SEGMENTS // max(1, len(body))))


def _joined(runs: Runs) -> Runs:
    joined: Runs = []
    for first, stop in runs:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return joined


def own_writes(counters: Mapping[str, float]) -> float | None:
    """Return the bytes that the kernel itself has written to DRAM, without those that the profiler left in L2."""
    written = counters.get("dram_write_bytes")
    if written is None:
        return None
    brought = written + counters.get("dram_read_bytes", 0.0)
    return max(0.0, written - float(np.interp(brought, _BROUGHT, _DRIVEN_OUT)))
