"""Remedies for memory accesses: coalesced, wider, without bank conflicts, or left out by fusion."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from warplens.advisor.case import LINE_BYTES, Answer, Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import indirect, inside
from warplens.advisor.overlay import scaled_traffic, with_counts, with_launch, with_traffic
from warplens.advisor.parallelism import registers_of
from warplens.advisor.rewrite import Copy, Repeat, Run, joined_iterations, joined_threads, with_runs
from warplens.core.units import quantity
from warplens.workload.profile import Segment
from warplens.workload.workload import Workload

DATA = ("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors")
WORTH = 1.25  # sectors over the least from which an access is not coalesced
_CONFLICTS = 1.05  # wavefronts over the least from which an access has conflicts
_WIDEST = 16  # bytes per thread
_IN_LINES = "blocks 32 threads wide; rows that begin at multiples of 128 bytes (cudaMallocPitch)"
_RUNS = 64  # straight runs of an iteration, from which it cannot be joined with the next


def coalesce(case: Case) -> Answer:
    """Give each access as few sectors as its bytes fill; nothing is fetched that no thread requests.

    Applies where: an access has over 1.25 times the sectors that its bytes fill, or 1.5 times the lines.
    Overlay: as few sectors and lines as the bytes fill.
    """
    if not case.global_sites:
        return case.without_global
    scattered = [s for s in case.global_sites if _is_scattered(s)]
    if not scattered:
        return Refusal("its accesses to global memory are coalesced")
    gathers = indirect(case.code, case.executed)
    sites = [s for s in scattered if s.index not in gathers]
    if not sites:
        return Refusal("the addresses of its scattered accesses come from memory: only other data would help")
    sites.sort(key=lambda s: s.least_sectors - s.sectors)
    new = _dense(sites)
    return Proposal(
        title=scattered_title(sites[0]),
        workload=_with_requested_traffic(with_counts(case.workload, new), case),
        how=_IN_LINES if sites[0].sectors <= WORTH * sites[0].least_sectors else "",
        assumption="neighbouring threads access neighbouring elements: another layout, or a tile in shared memory",
        where=case.locations(s.index for s in sites),
        changes={"sectors": {str(i): v["sectors"] for i, v in new.items()}},
        no_help="other limits hide what its scattered accesses cost",
    )


def scattered_title(s: Site) -> str:
    """Name what an access touches too much of: sectors that it uses little of, or lines that its sectors lie in."""
    sectors, lines, least = (f"{x / s.requests:.3g}" for x in (s.sectors, s.lines, s.least_sectors))
    if s.sectors > WORTH * s.least_sectors:
        return f"coalesce this access: {sectors} sectors in {lines} lines per request, {least} sectors would do"
    fewest = max(1.0, s.useful_bytes / LINE_BYTES / s.requests)
    return f"fewer lines per access: its {sectors} sectors lie in {lines} lines per request, {fewest:.3g} would do"


def _is_scattered(s: Site) -> bool:
    """Return True if an access touches more sectors than its bytes fill, or full ones in more lines than it needs."""
    full = s.sectors > 0.9 * s.least_sectors
    return s.sectors > WORTH * s.least_sectors or (full and s.lines > 1.5 * s.least_lines)


def _dense(sites: Sequence[Site]) -> dict[int, dict[str, float]]:
    """Return the counts of accesses whose sectors are full: each has its share of the requests of all to L2."""
    counts: dict[int, dict[str, float]] = {}
    for kind in dict.fromkeys(s.instruction.kind for s in sites):
        group = [s for s in sites if s.instruction.kind == kind]
        sectors, l2, hits = (
            sum(getattr(s, n) for s in group) for n in ("least_sectors", "l2_sectors", "l2_hit_sectors")
        )
        asked = min(1.0, l2 / sectors)  # per sector, of L2
        missed = min(l2 - hits, asked * sectors) / sectors
        for s in group:
            counts[s.index] = {
                "sectors": s.least_sectors, "lines": s.least_lines, "wavefronts": min(s.wavefronts, s.least_lines),
                "l2_sectors": asked * s.least_sectors, "l1_hit_sectors": (1 - asked) * s.least_sectors,
                "l2_hit_sectors": (asked - missed) * s.least_sectors, "queue": s.queue,
            }  # fmt: skip
    return counts


def _with_requested_traffic(workload: Workload, case: Case) -> Workload:
    """Reduce DRAM traffic to the bytes that threads request, as streams."""
    loads = sum(s.useful_bytes for s in case.loads)
    stores = sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "store")
    read, written = case.profile.dram_read_bytes, case.profile.dram_written_bytes
    shares = [min(1.0, asked / moved) if moved else 1.0 for asked, moved in ((loads, read), (stores, written))]
    less = with_traffic(scaled_traffic(workload, *shares), lambda t: replace(t, read_alone=0.0, written_alone=0.0))
    reads, writes = (sum(getattr(t, f"{x}_footprint_bytes") for t in case.profile.traffic) for x in ("read", "written"))
    return with_l2_hits(less, case, min(reads, loads) + min(writes, stores), reads + writes)


def with_l2_hits(workload: Workload, case: Case, touched: float, before: float) -> Workload:
    """Keep all data in L2 from one launch to the next, if they fit only now; `touched` and `before` are bytes."""
    size = case.machine.cache.l2_hit_bytes
    if case.profile.l2 != "warm" or size is None or not touched < size < before:
        return workload
    assert workload.profile is not None
    asked = workload.profile.counts["l2_sectors"]
    hits = with_counts(workload, {i: {"l2_hit_sectors": n} for i, n in enumerate(asked) if n})
    return with_traffic(hits, lambda t: replace(t, l2_missed_bytes=0.0, dram_read_bytes=0.0, dram_written_bytes=0.0))


def vector_loads(case: Case) -> Answer:
    """Move up to 16 bytes per thread and access: join neighbouring accesses of a thread, of iterations or threads.

    Applies where: coalesced accesses of at most 8 bytes per thread.
    Overlay: neighbouring accesses of a thread, or of 2 to 16 threads, become one.
    """
    narrow = [
        s for s in case.global_sites
        if s.instruction.opcode in ("LDG", "STG", "LD", "ST")
        and s.bytes_per_thread <= _WIDEST / 2 and s.sectors <= WORTH * s.least_sectors
    ]  # fmt: skip
    if not case.global_sites:
        return case.without_global
    if not narrow:
        wide = any(s.bytes_per_thread >= _WIDEST for s in case.global_sites)
        return Refusal("already 16 bytes per thread" if wide else "no coalesced access is narrower than 16 bytes")
    found = _neighbours(case, narrow) or _joined(case, narrow)
    return found or Refusal("too few iterations or blocks to join")


def _joined(case: Case, narrow: Sequence[Site]) -> Proposal | None:
    """Join accesses of several iterations of the loops that have the accesses, or else threads."""
    factor = int(_WIDEST // max(1.0, *(s.bytes_per_thread for s in narrow)))
    indices = {s.index for s in narrow}

    def repeats(i: int) -> Repeat:
        return Repeat(1, float(factor)) if i in indices else Repeat(1 if i in case.addresses else factor)

    def has_access(segment: Segment) -> bool:
        return len(segment.runs) <= _RUNS and not indices.isdisjoint(inside(segment))

    loops = [s for s in case.loops if has_access(s)]
    everything = case.inside(loops) if loops else set(range(len(case.code)))
    if loops:
        joined = joined_iterations(case.workload, factor, repeats, has_access)
        how = f"{factor} iterations of the loop as one"
    elif case.profile.grid_blocks >= 2 * factor:
        joined, how = joined_threads(case.workload, factor, repeats), f"{factor} elements per thread"
    else:
        return None
    registers = registers_of(case, factor, everything - case.addresses)
    width = max(s.bytes_per_thread for s in narrow)
    return Proposal(
        title=f"wider accesses: {width * factor:.0f} bytes per thread instead of {width:.0f} ({how})",
        workload=with_launch(joined, registers_per_thread=registers),
        assumption="the elements of a thread are neighbours and aligned; addresses are computed once",
        where=case.locations(indices),
        changes={"factor": factor, "registers_per_thread": registers},
        joins=frozenset(everything if loops else ("threads",)),
        no_help="the number of accesses does not limit",
    )


def _neighbours(case: Case, narrow: Sequence[Site]) -> Proposal | None:
    """Join accesses of one thread to neighbouring words: same address register, offsets one behind the other."""
    groups: dict[tuple[str, str, int], list[Site]] = {}
    for s in narrow:
        if s.operand and s.bytes_per_thread >= 1:
            groups.setdefault((s.instruction.opcode, s.base, round(s.bytes_per_thread)), []).append(s)
    leaders, followers = dict[int, float](), set[int]()
    for (_, _, width), members in groups.items():
        row: list[Site] = []
        for s in sorted(members, key=lambda s: (s.offset, s.index)):
            if row and s.offset == row[-1].offset + width and s.offset - row[0].offset + width <= _WIDEST:
                row.append(s)
                followers.add(s.index)
            else:
                row = [s]
            leaders[row[0].index] = float(len(row))
    if not followers:
        return None
    leaders = {i: n for i, n in leaders.items() if n > 1}

    def join(run: Run) -> Run:
        kept = (c for c in run if c.origin not in followers)
        return tuple(Copy(c.origin, carries=leaders.get(c.origin, 1.0)) for c in kept)

    most = max(leaders.values())
    return Proposal(
        title=f"one wide access for {most:.0f} neighbouring ones of a thread",
        workload=with_runs(case.workload, join),
        assumption="the words are aligned, so that one access of up to 16 bytes takes them",
        where=case.locations(leaders),
        changes={"joined": {str(i): n for i, n in leaders.items()}},
        no_help="the number of accesses does not limit",
    )


def remove_conflicts(case: Case) -> Answer:
    """Give each access as few wavefronts as its bytes need: pad the array, or change its layout.

    Applies where: a shared access takes more wavefronts than its bytes need.
    Overlay: as many wavefronts as bytes need.
    """
    if not case.shared_sites:
        return Refusal("it uses no shared memory")
    sites = [
        s for s in case.shared_sites
        if s.wavefronts > _CONFLICTS * s.least_lines and not s.instruction.opcode.startswith("ATOM")
    ]  # fmt: skip
    if not sites:
        return Refusal("its accesses to shared memory have no bank conflicts")
    sites.sort(key=lambda s: s.least_lines - s.wavefronts)
    new = {s.index: {"wavefronts": s.least_lines} for s in sites}
    worst = max(s.wavefronts / s.least_lines for s in sites)
    return Proposal(
        title=f"remove the bank conflicts: up to {worst:.3g} passes where one would do",
        workload=with_counts(case.workload, new),
        assumption="padding or another layout removes all of them, without further instructions",
        where=case.locations(s.index for s in sites),
        changes={"wavefronts": {str(i): v["wavefronts"] for i, v in new.items()}},
        no_help="other limits hide the conflicts",
    )


def fuse(case: Case) -> Answer:
    """Take the largest array from the kernel that makes it, not from memory.

    Applies where: DRAM bandwidth limits, and most reads have addresses that are not loaded.
    Overlay: the largest array is not read.
    """
    arrays = sorted(case.profile.traffic, key=lambda t: -t.dram_read_bytes)
    total = case.profile.dram_read_bytes
    if not total or str(case.prediction.bound) != "dram bandwidth":
        return Refusal("DRAM traffic does not limit")
    array = arrays[0]
    missed = {s.index: s.l2_sectors - s.l2_hit_sectors for s in case.loads}
    gathers = indirect(case.code, case.executed)
    if sum(n for i, n in missed.items() if i in gathers) > 0.5 * sum(missed.values()):
        return Refusal(f"which elements of {array.name} a thread reads is known from memory only")
    left = 1 - array.dram_read_bytes / total
    less = with_counts(case.workload, {s.index: {c: left * getattr(s, c) for c in DATA} for s in case.loads})
    unread = replace(array, dram_read_bytes=0.0, l2_read_bytes=0.0)
    return Proposal(
        title=f"fuse with the producer of {array.name}: {quantity(array.dram_read_bytes, 'B', 3)} less to read",
        workload=with_traffic(less, lambda t: unread if t.name == array.name else t),
        assumption=f"another kernel makes {array.name}, and its result can stay in registers",
        where=case.locations(s.index for s in case.loads),
        changes={"not_read": array.name},
        no_help="reading is not what limits",
    )
