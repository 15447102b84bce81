"""Traffic of each array at L2 and DRAM, from the counts of the grid and the footprints of the blocks that ran.

Stores of one thread in a row complete one another's sectors; blocks on one SM evict one another's lines from L1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import layout
from warplens.emulator.footprint import (
    L2,
    SECTOR_BYTES,
    Block,
    Grid,
    Part,
    Reuse,
    Weighted,
    alone,
    reuse_of,
)
from warplens.emulator.sample import Counts
from warplens.program.instruction import Instruction, access_bytes, byte_offset
from warplens.program.program import Program
from warplens.workload.profile import CACHED, COLUMNS, Fewer, Traffic

STORES = ("STG", "ST", "STL")
_LOCAL = ("LDL", "STL")
_WORDS = 8  # of a sector
_COPY = "LDGSTS"
_ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
_SCATTERED = 0.5  # of the accesses follow no stride
_OWN_PARTS = 1.3  # times the array: the sectors that blocks in flight touch, if each has its own part of it


class Around(Struct, frozen=True):
    """Neighbouring blocks that ran side by side: the share of its sectors that each instruction found in L2.

    `inside`: how many times as much it is within the grid, where no block lacks a neighbour.
    """

    met: npt.NDArray[np.float64]
    inside: float


class Seen(Struct, frozen=True):
    """Counts of the grid and of the blocks resident together, and footprints of blocks.

    The first of `alone` has the `neighbours`, rows of them in x, y and z; `together` is of the resident blocks. A grid
    that ran whole is one block without neighbours, and `rows` are a block of it and those beside it.
    """

    total: Counts
    resident: Counts
    alone: list[Weighted]
    neighbours: list[list[Block]]
    together: Block | None
    grid: Grid
    lone: Counts  # of one block
    rows: list[list[Block]]


class _Array(Struct, frozen=True):
    """One array: how it is read (as DRAM gives it, and by sectors) and written, and the sectors asked of L2."""

    reads: Reuse
    sectors_read: float
    writes: Reuse
    asked_reads: float
    asked_writes: float  # by stores and atomics
    stored: float  # by stores
    bytes_written: float  # by threads
    stored_again: float  # sectors, each by the thread that stored a part of it just before
    refetched: float
    read_alone: float
    written_alone: float
    atomic_passes: float


def traffic_of(program: Program, names: list[str], sizes: list[int], seen: Seen, l2: L2, cold: bool) -> list[Traffic]:
    """Return the traffic of each array (their names and sizes in bytes)."""
    kinds = np.array([x.opcode for x in program.instructions])
    again = stored_before(program.instructions, STORES)
    arrays = [_array(kinds, seen, k, size, l2, again) for k, size in enumerate(sizes)]
    both = [a.reads if a.reads.sectors >= a.writes.sectors else a.writes for a in arrays]
    needed, between = (sum(r.copies_bytes(g, l2) for r in both) for g in (seen.grid, seen.grid.generation))
    asked = max(1.0, sum(a.asked_reads + a.asked_writes for a in arrays))
    left = _left(seen.grid, needed, between, l2)
    dirty = SECTOR_BYTES * left * sum(a.writes.union(seen.grid) for a in arrays)
    left *= min(1.0, (l2.dirty_bytes or l2.size_bytes) / max(1.0, dirty))
    traffic = []
    for name, a in zip(names, arrays, strict=True):
        share = (a.asked_reads + a.asked_writes) / asked
        fetched = a.reads.moved(seen.grid, needed, between, share, l2, reads=True) * a.refetched
        written = a.writes.moved(seen.grid, needed, between, share, l2, reads=False)
        if cold:  # sectors that are left in L2 at the end are not written yet
            written = max(0.0, written - left * a.writes.union(seen.grid))
        else:  # L2 has the sectors that the same call left there before
            fetched, written = fetched * (1 - l2.kept(needed)), written * (1 - l2.kept(needed))
        traffic.append(_traffic(name, a, seen, fetched, written))
    read, written = (SECTOR_BYTES * float(seen.total[kinds == x, layout.L2_SECTORS].sum()) for x in _LOCAL)
    if read or written:  # beyond L1; taken to be in L2, where each warp finds the words that the one before it left
        traffic.append(Traffic(name="local memory", l2_read_bytes=read, l2_written_bytes=written))
    return traffic


def _left(grid: Grid, needed: float, between: float, l2: L2) -> float:
    """Return the share of what blocks write that is in L2 at the end, beside what every generation touches again.

    A block writes when it has read: on average half a generation passes between the two.
    """
    generations = math.prod(grid.shape) / grid.in_flight
    if generations <= 1:
        return min(1.0, l2.size_bytes / max(1.0, needed))
    passing = (needed - between) / (generations - 1)
    staying = max(0.0, between - passing)
    last = max(0.0, l2.size_bytes - staying) / max(1.0, passing) + 0.5
    return min(1.0, last / generations)


def _filled(a: _Array, written: float) -> float:
    """Return the sectors read from DRAM because they leave L2 half written, before all of their words came."""
    if not a.writes.scattered or a.reads.sectors or not written:
        return 0.0
    there = min(1.0, a.bytes_written / SECTOR_BYTES / written)  # the share of their words
    return written * (1 - there**_WORDS)


def _array(
    kinds: npt.NDArray[np.str_], seen: Seen, k: int, size: int, l2: L2, again: npt.NDArray[np.float64]
) -> _Array:
    total, resident = seen.total, seen.resident
    here, stores, atomics = total[:, layout.ARRAY] == k + 1, np.isin(kinds, STORES), np.isin(kinds, _ATOMICS)
    asked = total[:, layout.L2_SECTORS]
    loose = all(
        c[here, layout.REGULAR].sum() < _SCATTERED * c[here, layout.LOOKUPS].sum() for c in (resident, seen.lone)
    )
    reads, plain, writes = (
        reuse_of(seen.alone, seen.rows, k, size, part, loose)
        for part in (Part(False, l2.group), Part(False), Part(True))
    )
    refetched = 1.0
    own_parts = not reads.shared and reads.sectors * seen.grid.in_flight <= _OWN_PARTS * reads.array_sectors
    if seen.together is not None and own_parts:
        loads = (resident[:, layout.ARRAY] == k + 1) & ~stores
        missed = float((resident[loads, layout.L2_SECTORS] - resident[loads, layout.L2_HITS]).sum())
        refetched = max(1.0, missed / max(1, seen.together.of(k, Part(False)).sectors))

    def lone(part: Part) -> float:
        return alone(seen.alone, seen.neighbours, seen.grid, k, part)

    return _Array(
        reads, plain.sectors, writes,
        float(asked[here & ~stores].sum()), float(asked[here & (stores | atomics)].sum()),
        float(asked[here & stores].sum()), float(total[here & stores, layout.USEFUL_BYTES].sum()),
        float((asked * again)[here & stores].sum()), refetched, lone(Part(False)), lone(Part(True)),
        _passes(total[here & atomics]),
    )  # fmt: skip


def _split(a: _Array, grid: Grid, written: float) -> tuple[float, float]:
    """Return the sectors that different blocks, and different warps of a block, store in parts, and that leave L2.

    Requests beyond the sectors of all blocks are stores of the same block again, but for those of the same thread,
    which come at once; requests beyond the sectors of the grid are those of neighbours. Two stores at least that fill
    a part make one such sector. Sectors that are read as well are in L2 when they are stored.
    """
    stored, union = a.stored, a.writes.union(grid)
    if a.reads.sectors or not stored or not union:
        return 0.0, 0.0
    touched = a.writes.sectors * math.prod(grid.shape)
    blocks, warps = max(0.0, touched - union), max(0.0, stored - touched - a.stored_again)
    in_parts = stored * min(1.0, max(0.0, 2 * (1 - a.bytes_written / SECTOR_BYTES / stored)))
    share = min(1.0, in_parts / 2 / max(1.0, blocks + warps)) * min(1.0, written / union)
    return blocks * share, warps * share


def _traffic(name: str, a: _Array, seen: Seen, fetched: float, written: float) -> Traffic:
    """Return the traffic of an array, of which so many sectors are fetched and written."""
    grid, filled = seen.grid, _filled(a, written)
    split_blocks, split_warps = _split(a, grid, written)
    missed = min(a.asked_reads, fetched * a.sectors_read / max(1e-9, a.reads.sectors))
    return Traffic(
        name=name,
        read_footprint_bytes=float(a.reads.union(grid) * SECTOR_BYTES),
        written_footprint_bytes=float(a.writes.union(grid) * SECTOR_BYTES),
        l2_read_bytes=float(a.asked_reads * SECTOR_BYTES),
        l2_written_bytes=float(a.asked_writes * SECTOR_BYTES),
        l2_missed_bytes=float(missed * SECTOR_BYTES),
        dram_read_bytes=float(fetched * SECTOR_BYTES),
        dram_written_bytes=float(written * SECTOR_BYTES),
        dram_filled_bytes=float(filled * SECTOR_BYTES),
        read_alone=a.read_alone,
        written_alone=a.written_alone,
        read_together=0.0 if a.reads.scattered or grid.shape[0] == 1 else min(1.0, max(0.0, 1 - a.reads.fresh[0])),
        split_blocks=split_blocks,
        split_warps=split_warps,
        stored_in_flight_bytes=a.bytes_written * min(1.0, grid.in_flight / math.prod(grid.shape)),
        atomic_passes=a.atomic_passes,
    )


def _passes(atomics: Counts) -> float:
    """Return the passes of L2 for atomics: a sector each, and again for each further thread in the longest queue."""
    return float((atomics[:, layout.L2_SECTORS] + atomics[:, layout.QUEUE] - atomics[:, layout.REQUESTS]).sum())


def spread_hits(program: Program, total: Counts, traffic: list[Traffic], around: Around | None = None) -> None:
    """Give each instruction its part of the L2 hits of the array that it touches; what is written always hits.

    Of blocks that run side by side and touch the same, the first misses. All have their share of the hits beyond that.
    """
    stores = np.array([x.opcode in STORES for x in program.instructions])
    asked = total[:, layout.L2_SECTORS]
    total[:, layout.L2_HITS] = asked
    met = np.zeros(len(total)) if around is None else around.met
    for k, t in enumerate(traffic):
        here = (total[:, layout.ARRAY] == k + 1) & ~stores
        hits = (1 - t.l2_missed_bytes / max(t.l2_read_bytes, 1.0)) * asked[here].sum()
        found = asked[here] * met[here]
        if around is not None and found.sum():
            found = np.minimum(asked[here], found * min(around.inside, hits / found.sum()))
        rest = asked[here] - found
        total[here, layout.L2_HITS] = found + rest * max(0.0, hits - found.sum()) / max(1.0, rest.sum())


def spread_l1(total: Counts, resident: Counts, stores: npt.NDArray[np.bool_]) -> None:
    """Give each instruction the L1 hits, replays and L2 requests per sector that it has among the resident blocks.

    Stores that L1 joins are of one array: all stores to it have their share of what reaches L2 of them.
    """
    sectors, resident = resident[:, layout.SECTORS], np.array(resident)
    seen = sectors > 0
    for array in set(resident[stores, layout.ARRAY].tolist()):
        here = stores & (resident[:, layout.ARRAY] == array)
        passed = resident[here, layout.L2_SECTORS].sum() / max(1.0, sectors[here].sum())
        resident[here, layout.L2_SECTORS] = passed * sectors[here]
    for column in (layout.L1_HITS, layout.L2_SECTORS, layout.REPLAYS, layout.PASSED):
        share = np.divide(resident[:, column], sectors, out=np.zeros_like(sectors), where=seen)
        total[seen, column] = share[seen] * total[seen, layout.SECTORS]
    total[~seen, layout.L1_HITS], total[~seen, layout.L2_SECTORS] = 0, total[~seen, layout.SECTORS]
    total[~seen, layout.PASSED] = total[~seen, layout.REQUESTS]


def stored_before(code: Sequence[Instruction], stores: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the share of its sectors that a thread stored to just before, by instruction.

    By the same address register, which nothing has written since, and in the same straight run.
    """
    targets = {x.target for x in code if x.target is not None}
    shares, rows = np.zeros(len(code)), dict[tuple[str, ...], set[int]]()
    for i, x in enumerate(code):
        if x.offset in targets:
            rows.clear()
        memory = next((o for o in x.operands if o.kind == "memory"), None) if x.opcode in stores else None
        if memory is not None:
            first = byte_offset(memory.text)
            touched = {at // SECTOR_BYTES for at in (first, first + access_bytes(x) - 1)}
            seen = rows.setdefault(memory.registers, set())
            shares[i] = len(touched & seen) / len(touched)
            seen |= touched
        if x.target is not None:
            rows.clear()
        rows = (
            {base: seen for base, seen in rows.items() if not set(base) & set(x.writes)} if rows and x.writes else rows
        )
    return shares


_LOADS = ("LDG", "LD")


def lost_share(code: list[Instruction], counts: Counts, together: Block) -> float:
    """Return the share of the sectors that loads ask of L2 that L1 had before: each is asked for once.

    Of local memory all of it: a word is stored, and is in L1 then, before it is loaded.
    """
    by_l1 = [x.opcode in _LOADS or (x.opcode == _COPY and "BYPASS" not in x.modifiers) for x in code]
    local = float(counts[[x.opcode == _LOCAL[0] for x in code], layout.L2_SECTORS].sum())
    asked = float(counts[by_l1, layout.L2_SECTORS].sum())
    once = sum(footprint.sectors for footprint in together.read)
    return (max(0.0, asked - once) + local) / max(1.0, asked + local)


def fewer(blocks_per_sm: int, l1_bytes: float, total: Counts, traffic: list[Traffic]) -> Fewer:
    """Return the counts of the caches when so many blocks share an SM."""
    accesses = np.flatnonzero(total[:, layout.SECTORS])
    columns = {name: total[accesses, COLUMNS.index(name)].tolist() for name in CACHED}
    return Fewer(
        blocks_per_sm=blocks_per_sm, l1_bytes=l1_bytes, accesses=accesses.tolist(), counts=columns, traffic=traffic
    )
