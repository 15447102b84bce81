"""Remedies for global memory: coalesced accesses, wider accesses, fewer bytes, fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from warplens.advisor.case import LINE_BYTES, Answer, Case, Proposal, Site, refused
from warplens.advisor.data_types import data_type
from warplens.advisor.overlay import scaled_traffic, with_counts, with_launch, with_traffic
from warplens.advisor.rewrite import Copy, Repeat, Run, Way, as_written, joined_threads, joined_turns, rewritten
from warplens.advisor.rows import warp_per_row
from warplens.advisor.dataflow import address_instructions, indirect, registers_written
from warplens.core.units import quantity
from warplens.program.instruction import byte_offset
from warplens.workload.profile import Path, Segment
from warplens.workload.workload import Workload

_DATA = ("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors")
WORTH = 1.25  # sectors over the least from which an access is not coalesced
_OWN_SECTOR = 0.95  # sectors per thread from which lanes do not share them
_WIDEST = 16  # bytes per thread
_IN_LINES = "blocks 32 threads wide; rows that begin at multiples of 128 bytes (cudaMallocPitch)"
_RUNS = 64  # straight runs of a turn, from which it is no turn of one loop that could be joined with the next
_LIVE = 16  # registers of a joined turn that are alive at a time


def coalesce(case: Case) -> Answer:
    """Each access in as few sectors as its bytes fill; nothing is fetched that nobody asked for."""
    name = "coalesce"
    if not case.global_sites:
        return refused(name, case.without_global)
    scattered = [s for s in case.global_sites if _is_scattered(s)]
    if not scattered:
        return refused(name, "its accesses to global memory are coalesced")
    gathers = indirect(case.code, case.executed)
    sites = [s for s in scattered if s.index not in gathers]
    if not sites:
        return refused(name, "the addresses of its scattered accesses come from memory: only other data would help")
    by_rows = warp_per_row(case, sites)
    if by_rows is not None:
        return [replace(by_rows, workload=_as_asked(by_rows.workload, case))]
    sites.sort(key=lambda s: s.least_sectors - s.sectors)
    new = _dense(sites)
    made = _as_asked(with_counts(case.workload, new), case)
    title = _scattered_title(sites[0])
    return [
        Proposal(
            name=name,
            title=title,
            workload=made,
            how=_IN_LINES if sites[0].sectors <= WORTH * sites[0].least_sectors else "",
            assumption="neighbouring threads access neighbouring elements: another layout, or a tile in shared memory",
            where=case.places(s.index for s in sites),
            changes={"sectors": {str(i): v["sectors"] for i, v in new.items()}},
            no_help="other limits hide what its scattered accesses cost",
        )
    ]


def _scattered_title(s: Site) -> str:
    """Say what an access touches too much of: sectors that it asks little of, or lines that its sectors lie in."""
    sectors, lines, least = (f"{x / s.requests:.3g}" for x in (s.sectors, s.lines, s.least_sectors))
    if s.sectors > WORTH * s.least_sectors:
        return f"coalesce this access: {sectors} sectors in {lines} lines per request, {least} sectors would do"
    fewest = max(1.0, s.useful_bytes / LINE_BYTES / s.requests)
    return f"fewer lines per access: its {sectors} sectors lie in {lines} lines per request, {fewest:.3g} would do"


def _is_scattered(s: Site) -> bool:
    """Whether an access touches more sectors than its bytes fill, or full ones in more lines than it needs."""
    lines = max(s.requests, s.useful_bytes / LINE_BYTES)
    return s.sectors > WORTH * s.least_sectors or (s.sectors > 0.9 * s.least_sectors and s.lines > 1.5 * lines)


def _dense(sites: Sequence[Site]) -> dict[int, dict[str, float]]:
    """Return the counts of accesses whose sectors are full: each brings its share of what all of them ask of L2."""
    made: dict[int, dict[str, float]] = {}
    for kind in dict.fromkeys(s.instruction.kind for s in sites):
        group = [s for s in sites if s.instruction.kind == kind]
        sectors, l2, hits = (
            sum(getattr(s, n) for s in group) for n in ("least_sectors", "l2_sectors", "l2_hit_sectors")
        )
        asked = min(1.0, l2 / sectors)  # per sector, of L2
        missed = min(l2 - hits, asked * sectors) / sectors
        for s in group:
            lines = max(s.requests, s.useful_bytes / LINE_BYTES)
            made[s.index] = {
                "sectors": s.least_sectors, "lines": lines, "wavefronts": min(s.wavefronts, lines),
                "l2_sectors": asked * s.least_sectors, "l1_hit_sectors": (1 - asked) * s.least_sectors,
                "l2_hit_sectors": (asked - missed) * s.least_sectors, "queue": s.queue,
            }  # fmt: skip
    return made


def _as_asked(workload: Workload, case: Case) -> Workload:
    """Let DRAM move no more than what threads ask for, as streams."""
    loads = sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "load")
    stores = sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "store")
    read, written = case.profile.dram_read_bytes, case.profile.dram_written_bytes
    shares = min(1.0, loads / read) if read else 1.0, min(1.0, stores / written) if written else 1.0
    less = with_traffic(scaled_traffic(workload, *shares), lambda t: replace(t, read_alone=0.0, written_alone=0.0))
    touched = (
        sum(t.read_footprint_bytes for t in case.profile.traffic),
        sum(t.written_footprint_bytes for t in case.profile.traffic),
    )
    return _kept(less, case, min(touched[0], loads) + min(touched[1], stores), sum(touched))


def _kept(workload: Workload, case: Case, touched: float, before: float) -> Workload:
    """Let L2 keep what arrays have left, from one launch to the next, where that is small enough and was not before."""
    size = case.machine.cache.l2_hit_bytes
    if case.profile.l2 != "warm" or size is None or not touched < size < before:
        return workload
    assert workload.profile is not None
    asked = workload.profile.counts["l2_sectors"]
    made = with_counts(workload, {i: {"l2_hit_sectors": n} for i, n in enumerate(asked) if n})
    return with_traffic(made, lambda t: replace(t, l2_missed_bytes=0.0, dram_read_bytes=0.0, dram_written_bytes=0.0))


def vector_accesses(case: Case) -> Answer:
    """Up to 16 bytes per thread and access: neighbouring accesses joined, of a thread, of some turns or threads."""
    name = "vector-loads"
    narrow = [s for s in case.global_sites if _is_narrow(s)]
    if not case.global_sites:
        return refused(name, case.without_global)
    if not narrow:
        wide = any(s.bytes_per_thread >= _WIDEST for s in case.global_sites)
        return refused(name, "already 16 bytes per thread" if wide else "no coalesced access is narrower than 16 bytes")
    found = _neighbours(case, narrow) or _joined(case, narrow)
    return found or refused(name, "too few iterations or blocks to join")


def _is_narrow(s: Site) -> bool:
    plain = s.instruction.opcode in ("LDG", "STG", "LD", "ST")
    return plain and s.bytes_per_thread <= _WIDEST / 2 and s.sectors <= WORTH * s.least_sectors


def _joined(case: Case, narrow: Sequence[Site]) -> list[Proposal]:
    """Join turns of the loops that have the accesses, or else threads."""
    factor = int(_WIDEST // max(1.0, *(s.bytes_per_thread for s in narrow)))
    indices = {s.index for s in narrow}
    once = address_instructions(case.code)

    def repeats(i: int) -> Repeat:
        return Repeat(1, float(factor)) if i in indices else Repeat(1 if i in once else factor)

    def has_access(segment: Segment) -> bool:
        return len(segment.runs) <= _RUNS and any(first <= i < stop for first, stop in segment.runs for i in indices)

    loops = [s for s in case.loops() if has_access(s)]
    if loops:
        made, how = joined_turns(case.workload, factor, repeats, has_access), f"{factor} iterations of the loop as one"
        inside = case.inside(loops)
    elif case.profile.grid_blocks >= 2 * factor:
        made, how = joined_threads(case.workload, factor, repeats), f"{factor} elements per thread"
        inside = set(range(len(case.code)))
    else:
        return []
    live = min(_LIVE, registers_written(case.code, (i for i in inside if i not in once)))
    registers = min(255, case.launch.registers_per_thread + (factor - 1) * live)
    width = max(s.bytes_per_thread for s in narrow)
    return [
        Proposal(
            name="vector-loads",
            title=f"wider accesses: {width * factor:.0f} bytes per thread instead of {width:.0f} ({how})",
            workload=with_launch(made, registers_per_thread=registers),
            assumption="the elements of a thread are neighbours and aligned; addresses are computed once",
            where=case.places(indices),
            changes={"factor": factor, "registers_per_thread": registers},
            joins=frozenset(inside if loops else ("threads",)),
            no_help="the number of accesses does not limit",
        )
    ]


def _neighbours(case: Case, narrow: Sequence[Site]) -> list[Proposal]:
    """Join accesses of one thread to neighbouring words: same address register, offsets one behind the other."""
    groups: dict[tuple[str, str, int], list[tuple[int, Site]]] = {}
    for s in narrow:
        memory = next((o for o in s.instruction.operands if o.kind == "memory"), None)
        if memory is None or s.bytes_per_thread < 1:
            continue
        offset, width = byte_offset(memory.text), round(s.bytes_per_thread)
        key = s.instruction.opcode, memory.text.partition("+")[0].rstrip("]"), width
        groups.setdefault(key, []).append((offset, s))
    leaders, followers = dict[int, float](), set[int]()
    for (_, _, width), members in groups.items():
        row: list[tuple[int, Site]] = []
        for offset, s in sorted(members, key=lambda m: (m[0], m[1].index)):
            if row and offset == row[-1][0] + width and offset - row[0][0] + width <= _WIDEST:
                row.append((offset, s))
                followers.add(s.index)
            else:
                row = [(offset, s)]
            leaders[row[0][1].index] = float(len(row))
    if not followers:
        return []
    leaders = {i: n for i, n in leaders.items() if n > 1}

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        return [([([changed(r) for r in as_written(s)], s.times) for s in path.segments], 1.0)]

    def changed(run: Run) -> Run:
        kept = (c for c in run if c.origin not in followers)
        return tuple(Copy(c.origin, carries=leaders.get(c.origin, 1.0)) for c in kept)

    most = max(leaders.values())
    return [
        Proposal(
            name="vector-loads",
            title=f"one wide access for {most:.0f} neighbouring ones of a thread",
            workload=rewritten(case.workload, rewrite),
            assumption="the words are aligned, so that one access of up to 16 bytes takes them",
            where=case.places(leaders),
            changes={"joined": {str(i): n for i, n in leaders.items()}},
            no_help="the number of accesses does not limit",
        )
    ]


def lower_precision(case: Case) -> Answer:
    """Half the bytes of the floating-point data of 32 or 64 bits in global memory."""
    name = "lower-precision"
    sites = [s for s in case.global_sites if s.bytes_per_thread >= 4 and s.instruction.kind in ("load", "store")]
    if not sites:
        return refused(name, "it moves no data of four bytes or more" if case.global_sites else case.without_global)
    types = {s.index: data_type(case, s) for s in sites}
    floats = [s for s in sites if types[s.index] in ("f32", "f64")]
    if not floats:
        halves = "f16" in types.values()
        return refused(name, "its data are 16 bits wide already" if halves else "it moves no 32-bit or 64-bit floats")
    new = {s.index: _halved(s) for s in floats}
    left = [_asked_share(case, new, kind) for kind in ("load", "store")]
    touched = sum(max(t.read_footprint_bytes, t.written_footprint_bytes) for t in case.profile.traffic)
    spared = 0.5 * sum(s.useful_bytes for s in floats) / max(1.0, sum(s.useful_bytes for s in case.global_sites))
    doubles = sum(s.useful_bytes for s in floats if types[s.index] == "f64")
    widths = (32, 64) if doubles > 0.5 * sum(s.useful_bytes for s in floats) else (16, 32)
    made = _kept(scaled_traffic(with_counts(case.workload, new), *left), case, (1 - spared) * touched, touched)
    return [
        Proposal(
            name=name,
            title=f"half the bytes: {widths[0]}-bit instead of {widths[1]}-bit floats in memory",
            workload=made,
            assumption="all of these data may be stored at half the width; converting them costs nothing",
            where=case.places(s.index for s in floats),
            changes={"bytes": 0.5},
            no_help="the bytes moved do not limit",
        )
    ]


def _asked_share(case: Case, new: Mapping[int, Mapping[str, float]], kind: str) -> float:
    """Return which share of what accesses of a kind ask of L2 is left; a lane with a sector of its own asks for it."""
    now = {s.index: s.l2_sectors for s in case.global_sites if s.instruction.kind == kind}
    then = sum(new.get(i, {}).get("l2_sectors", n) for i, n in now.items())
    return then / sum(now.values()) if sum(now.values()) else 0.5


def _halved(s: Site) -> dict[str, float]:
    """Counts of an access to half as many bytes; a lane that has a sector of its own has one then, too.

    Such lanes miss half as often if most of what they ask for is what the sector has kept from their turn before.
    """
    if s.sectors >= _OWN_SECTOR * s.threads:
        fewer = 0.5 if s.l1_hit_sectors > 0.5 * s.sectors else 1.0
        misses = {"l2_sectors": fewer * s.l2_sectors, "l2_hit_sectors": fewer * s.l2_hit_sectors}
        kept = s.sectors - fewer * (s.sectors - s.l1_hit_sectors)
        return misses | {"useful_bytes": 0.5 * s.useful_bytes, "l1_hit_sectors": kept}
    least = max(0.5, s.requests / max(s.requests, s.sectors))  # a request touches a sector at least
    made = {name: least * getattr(s, name) for name in _DATA}
    return made | {"useful_bytes": 0.5 * s.useful_bytes, "wavefronts": max(s.requests, 0.5 * s.wavefronts)}


def fuse(case: Case) -> Answer:
    """The largest array that is read comes from the kernel that makes it, not through memory."""
    name = "fuse"
    arrays = sorted(case.profile.traffic, key=lambda t: -t.dram_read_bytes)
    total = case.profile.dram_read_bytes
    if not total or str(case.prediction.bound) != "dram bandwidth":
        return refused(name, "DRAM traffic does not limit")
    array = arrays[0]
    missed = {s.index: s.l2_sectors - s.l2_hit_sectors for s in case.global_sites if s.instruction.kind == "load"}
    gathers = indirect(case.code, case.executed)
    if sum(n for i, n in missed.items() if i in gathers) > 0.5 * sum(missed.values()):
        return refused(name, f"which elements of {array.name} a thread reads is known from memory only")
    share = array.dram_read_bytes / total
    left = 1 - share
    new = {s.index: {c: left * getattr(s, c) for c in _DATA} for s in case.global_sites if s.instruction.kind == "load"}
    made = with_counts(case.workload, new)
    unread = replace(array, dram_read_bytes=0.0, l2_read_bytes=0.0)
    made = with_traffic(made, lambda t: unread if t.name == array.name else t)
    return [
        Proposal(
            name=name,
            title=f"fuse with the producer of {array.name}: {quantity(array.dram_read_bytes, 'B', 3)} less to read",
            workload=made,
            assumption=f"another kernel makes {array.name}, and its result can stay in registers",
            where=case.places(s.index for s in case.global_sites if s.instruction.kind == "load"),
            changes={"not_read": array.name},
            no_help="reading is not what limits",
        )
    ]
