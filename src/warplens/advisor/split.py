"""A kernel in two: where registers keep warps away that only one part of it needs, each part as a kernel of its own.

The cut is behind a loop or before the next one. A part is the ways of warps up to the cut, or from it on, with as many
registers as are alive in it at a time. What is alive at the cut goes through memory: written by the first kernel, read
by the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.live_registers import MOST, alive_in
from warplens.advisor.occupancy import fits
from warplens.advisor.overlay import with_launch
from warplens.advisor.rewrite import Way, as_written, rewritten
from warplens.machine import occupancy
from warplens.workload.profile import Path, Profile, Segment, Traffic
from warplens.workload.workload import Workload

_CUTS = 4  # pairs of loops between which a cut is tried
_UNIT = 8  # registers per thread are given out in such steps
_STORES = ("STG", "ST", "STL", "RED", "REDG")


def split(case: Case) -> Answer:
    """Two kernels in the place of one, each with the registers that its part needs."""
    name, now = "split", fits(case)
    there, on_sm = now.warps_per_sm, -(-case.profile.grid_blocks // int(case.machine.chip.sm_count))
    if there >= case.machine.sm.warps_max and on_sm >= now.blocks_per_sm:
        return refused(name, f"occupancy is 100 % already ({there} warps per SM)")
    if on_sm <= now.blocks_per_sm:
        return refused(name, "the grid has no more blocks for an SM")
    if now.limiter != "registers":
        return refused(name, f"its occupancy is limited by {now.limiter}, not by registers that a part of it needs")
    path = max(case.profile.paths, key=lambda p: p.warps * p.instructions, default=None)
    loops = [] if path is None else [k for k, s in enumerate(path.segments) if s.times > 1]
    if path is None or len(loops) < 2:
        return refused(name, "it has no two loops to cut between")
    if sum(s.instructions // s.times for s in path.segments) > MOST:
        return refused(name, "its way is too long to follow its registers")
    ends = [path.segments[k].runs for k in loops]
    places = [at for a, b in pairwise(ends) for at in (max(stop for _, stop in a), min(start for start, _ in b))]
    made = [p for behind in dict.fromkeys(places[: 2 * _CUTS]) if (p := _cut(case, path, behind)) is not None]
    return made or refused(name, "its parts need about as many registers each, or share loops or shared memory")


def _cut(case: Case, path: Path, behind: int) -> Proposal | None:
    """Propose to cut the code before an instruction, if that lets more warps of a part onto an SM."""
    pieces = [_runs(s, behind, first) for s in path.segments for first in (True, False)]
    first = [s for s in pieces[::2] if s.runs]
    last = [s for s in pieces[1::2] if s.runs]
    at = len(first)
    if not last or any(s.times > 1 for s in _both(pieces)) or _returns(path, behind):
        return None
    alive = alive_in(case.code, Path([*first, *last]))
    spare = max(0, case.launch.registers_per_thread - max(a.most for a in alive))
    needs = [_UNIT * -(-(max(a.most for a in part) + spare) // _UNIT) for part in (alive[:at], alive[at:])]
    needs = [min(n, case.launch.registers_per_thread) for n in needs]
    parts = [_kernel(case, behind, needs[0], first=True), _kernel(case, behind, needs[1], first=False)]
    warps = [fits_with(case, part) for part in parts]
    if max(warps) <= fits(case).warps_per_sm or _meet_in_shared(case, parts):
        return None
    values = len(alive[at].first)
    moved = 4.0 * values * 32 * case.warps
    parts = [_carrying(part, case, moved, writes=k == 0) for k, part in enumerate(parts)]
    line = _line(case, last)
    cut = f"instruction {last[0].runs[0][0]}" if line is None else f"line {line}"
    title = f"split in two before {cut}: {needs[0]} and {needs[1]} registers, {warps[0]} and {warps[1]} warps per SM"
    return Proposal(
        name="split",
        title=title,
        workload=parts[0],
        then=parts[1],
        assumption=f"what is alive at the cut, {values} words per thread, goes through memory to the second kernel",
        where=case.places(i for first, stop in last[0].runs for i in range(first, stop)),
        changes={"before_line": line, "registers": needs, "carried_bytes": moved},
        no_help="the second launch, and what it has to read again, cost as much as more warps save",
    )


def _line(case: Case, part: Sequence[Segment]) -> int | None:
    """Return the source line at which a part begins: if with a loop, whose head is behind its body, the first of it."""
    at = part[0].runs[0][0]
    loops = (case.inside([s]) for s in part if s.times > 1)
    lines = [case.code[i].line for i in next((loop for loop in loops if at in loop), {at})]
    return min((n for n in lines if n is not None), default=None)


def fits_with(case: Case, workload: Workload) -> int:
    """Return the warps per SM of a part."""
    launch = workload.launch
    assert launch is not None
    return occupancy(
        case.machine,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=launch.registers_per_thread,
        shared_bytes_per_block=launch.shared_bytes_per_block,
    ).warps_per_sm


def _runs(segment: Segment, behind: int, first: bool) -> Segment:
    """Return the runs of a segment before an instruction, or from it on."""
    cut = [(start, min(stop, behind)) if first else (max(start, behind), stop) for start, stop in segment.runs]
    return Segment([(start, stop) for start, stop in cut if start < stop], segment.times)


def _both(pieces: Sequence[Segment]) -> list[Segment]:
    """Return the segments that lie on both sides of a cut."""
    return [a for a, b in zip(pieces[::2], pieces[1::2], strict=True) if a.runs and b.runs]


def _returns(path: Path, behind: int) -> bool:
    """Whether a way comes back before the cut once it is behind it."""
    sides = [start >= behind for s in path.segments for start, _ in s.runs]
    return sides != sorted(sides)


def _kernel(case: Case, behind: int, registers: int, *, first: bool) -> Workload:
    """Return one part as a kernel; a warp that has nothing in it does what it does at its beginning, and leaves."""

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        parts = [_runs(s, behind, first) for s in path.segments]
        way = [(as_written(s), s.times) for s in parts if s.runs]
        return [(way or [(as_written(path.segments[0]), 1)], 1.0)]

    made = rewritten(case.workload, rewrite)
    shared = case.launch.shared_bytes_per_block if _shared(made) else 0
    return with_launch(made, registers_per_thread=registers, shared_bytes_per_block=shared)


def _shared(workload: Workload, stores: bool | None = None) -> bool:
    profile = workload.profile
    assert profile is not None
    executed = profile.counts["executed"]
    kinds = [x.opcode for i, x in enumerate(workload.code) if x.kind == "shared" and executed[i]]
    return any(stores is None or kind.startswith("ST") == stores for kind in kinds)


def _meet_in_shared(case: Case, parts: Sequence[Workload]) -> bool:
    return _shared(parts[0], stores=True) and _shared(parts[1], stores=False)


def _carrying(part: Workload, case: Case, moved: float, *, writes: bool) -> Workload:
    """Give a part its share of what arrays move, and what goes from the first to the second kernel."""
    profile = part.profile
    assert profile is not None
    read, written = (_share(profile, case, stores) for stores in (False, True))
    beyond = 0.0 if moved <= 0.5 * (case.machine.cache.l2_bytes or 0.0) else moved
    carried = (
        Traffic(name="carried", written_footprint_bytes=moved, l2_written_bytes=moved, dram_written_bytes=beyond)
        if writes
        else Traffic(name="carried", read_footprint_bytes=moved, l2_read_bytes=moved, dram_read_bytes=beyond)
    )
    traffic = [_scaled(t, read, written) for t in profile.traffic]
    return part.with_values(profile=replace(profile, traffic=[*traffic, carried], crowding=None))


def _share(profile: Profile, case: Case, stores: bool) -> float:
    """Which share of what the kernel asks of L2 by loads, or by stores, a part asks for."""
    chosen = [i for i, x in enumerate(case.code) if (x.opcode in _STORES) == stores]
    now, before = (sum(p.counts["l2_sectors"][i] for i in chosen) for p in (profile, case.profile))
    return now / before if before else 0.0


def _scaled(t: Traffic, read: float, written: float) -> Traffic:
    by = {name: written if "written" in name else read for name in t.__struct_fields__ if name.endswith("_bytes")}
    return replace(t, **{name: share * getattr(t, name) for name, share in by.items()})
