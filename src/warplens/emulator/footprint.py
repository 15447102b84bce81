"""Footprints of blocks: the sectors of a grid that pass L1, and the work of L2 and DRAM that follows.

A block's footprint in an array is the set of sectors that passed its L1. Beside those of its neighbours in x, y and z
it says how much is new from one block to the next; the union over the grid follows, and never exceeds the array.
Whether L2 still has what a later block asks for again depends on what is touched in between: nothing where the two
run at the same time, else what so many blocks touch, against the size of L2. An L2 in parts keeps a line in the part
where it belongs and a copy in each other part that reads it: docs/explain/emulator.md. The lookups
of the parts of an L2 are counted as a profiler does: for SMs, for one another, and for translation. A profiler's hit
rate is of these lookups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from operator import mul

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import pages
from warplens.emulator.cache import READ, WRITTEN

SECTOR_BYTES = 32
_LINE_SECTORS = 4
Map = npt.NDArray[np.uint32]


class Footprint(Struct, frozen=True):
    """Sectors of one array, as a map per page: [pages of the array that were touched, a word]."""

    pages: npt.NDArray[np.int64]
    bits: Map

    @property
    def sectors(self) -> int:
        """How many sectors."""
        return int(np.bitwise_count(self.bits).sum())

    def widened(self, sectors: int) -> Footprint:
        """Return the footprint in aligned groups of one, two or four sectors: what DRAM gives."""
        if sectors == 1:
            return self
        first = {2: 0x55555555, 4: 0x11111111}[sectors]
        any_of, bits = self.bits, np.zeros_like(self.bits)
        for shift in range(1, sectors):
            any_of = any_of | self.bits >> np.uint32(shift)
        for shift in range(sectors):
            bits |= (any_of & np.uint32(first)) << np.uint32(shift)
        return Footprint(self.pages, bits)

    def halves(self) -> tuple[int, int]:
        """Return how many halves of lines are touched, and how many of them without the other half."""
        low, high = _halves(self.bits)
        return int(np.bitwise_count(low).sum() + np.bitwise_count(high).sum()), int(np.bitwise_count(low ^ high).sum())

    def completed_by(self, other: Footprint) -> int:
        """Return how many halves that are touched without the other half the other footprint completes."""
        _, mine, theirs = np.intersect1d(self.pages, other.pages, assume_unique=True, return_indices=True)
        (low, high), (others_low, others_high) = _halves(self.bits[mine]), _halves(other.bits[theirs])
        return int(np.bitwise_count((low & ~high & others_high) | (high & ~low & others_low)).sum())

    def shared_with(self, other: Footprint) -> int:
        """Return how many sectors are in both."""
        _, mine, theirs = np.intersect1d(self.pages, other.pages, assume_unique=True, return_indices=True)
        return int(np.bitwise_count(self.bits[mine] & other.bits[theirs]).sum())


def _halves(bits: Map) -> tuple[Map, Map]:
    """Return which lines' first and second halves are touched, a bit for each line."""
    pairs = bits | bits >> np.uint32(1)
    return pairs & np.uint32(0x11111111), pairs >> np.uint32(2) & np.uint32(0x11111111)


def footprints(memory: pages.Pages, touched: Map, which: int) -> list[Footprint]:
    """Return the footprint in each array of what has run since the map was cleared; `which`: READ or WRITTEN."""
    used = np.flatnonzero(touched[: memory.table[-1], which])
    used = used[np.argsort(memory.slots[used])]
    slots, bits = memory.slots[used], touched[used, which : which + 1]
    made = []
    for row in memory.arrays:
        first = int(row[pages.FIRST_PAGE])
        low, high = np.searchsorted(slots, (first, first + -(-int(row[pages.BYTES]) // pages.PAGE_BYTES)))
        made.append(Footprint(slots[low:high] - first, bits[low:high]))
    return made


class How(Struct, frozen=True):
    """Which footprint: what is read or what is written, in groups of so many sectors."""

    writes: bool
    group: int = 1


class Block(Struct, frozen=True):
    """The footprints of one block, by array."""

    read: list[Footprint]
    written: list[Footprint]

    def of(self, array: int, how: How) -> Footprint:
        """Return the footprint in one array."""
        return (self.written if how.writes else self.read)[array].widened(how.group)

    def shares_lines_with(self, other: Block) -> bool:
        """Whether both touch some line."""
        mine, theirs = (zip(block.read, block.written, strict=True) for block in (self, other))
        return any(
            a.widened(_LINE_SECTORS).shared_with(b.widened(_LINE_SECTORS))
            for one, another in zip(mine, theirs, strict=True)
            for a, b in product(one, another)
        )


class Weighted(Struct, frozen=True):
    """A block that stands for so many."""

    block: Block
    weight: float


def of_block(memory: pages.Pages, touched: Map) -> Block:
    """Return the footprints of the block that has just run, and clear the map."""
    made = Block(footprints(memory, touched, READ), footprints(memory, touched, WRITTEN))
    touched[: memory.table[-1]] = 0
    return made


class Grid(Struct, frozen=True):
    """Where blocks lie: blocks in x, y, z, and how many are in flight at once."""

    shape: tuple[int, int, int]
    in_flight: int

    @property
    def generation(self) -> Grid:
        """The blocks that are in flight at once, as a grid."""
        left, made = self.in_flight, []
        for extent in self.shape:
            made.append(min(extent, max(1, left)))
            left = -(-left // extent)
        return Grid((made[0], made[1], made[2]), self.in_flight)

    def later_generations(self, before: int, extent: int) -> float:
        """How many generations but the first touch again what blocks along an axis share; `before`: blocks within it.

        The last one is a part of a generation, and touches all of it if it has as many blocks as lie within the axis.
        """
        whole, rest = divmod(before * extent, self.in_flight)
        return min(extent, max(1.0, whole + min(1.0, rest / before))) - 1


class L2(Struct, frozen=True):
    """The second-level cache: size, parts, how much of it may wait to be written, sectors that DRAM gives at once."""

    size_bytes: float
    parts: float = 1
    dirty_bytes: float | None = None
    group: int = 1

    @property
    def single_copy_bytes(self) -> float:
        """What it holds of data that one SM reads: in the part where it belongs, and where the SM is."""
        return self.size_bytes / (2 - 1 / self.parts)

    def kept(self, between_bytes: float) -> float:
        """Return the share that is still there after so many bytes (copies counted) have passed: all, falling to none.

        Measured on an H200 by reading again what was read (footprints.json.gz): all up to 0.9 of the size, half at
        1.1, nothing at 1.3.
        """
        if not self.size_bytes:
            return 0.0
        return min(1.0, max(0.0, (1.3 - between_bytes / self.size_bytes) / 0.4))


class Reuse(Struct, frozen=True):
    """How one array is touched: sectors per block, and the share that is new from a block to its neighbour."""

    sectors: float
    fresh: tuple[float, float, float]
    array_sectors: int
    scattered: bool = False  # by addresses without a stride

    @property
    def shared(self) -> bool:
        """Whether blocks on different SMs read the same."""
        return self.scattered or min(self.fresh) < 0.9

    def union(self, grid: Grid) -> float:
        """Sectors that a grid touches."""
        made = self.sectors
        for extent, fresh in zip(grid.shape, self.fresh, strict=True):
            made *= 1 + (extent - 1) * fresh
        return min(made, self.array_sectors)

    def room(self, grid: Grid, l2: L2) -> float:
        """Bytes of L2 that a grid takes, copies in its parts counted."""
        copies = l2.parts if self.shared else 2 - 1 / l2.parts
        return SECTOR_BYTES * self.union(grid) * copies

    def moved(self, grid: Grid, room: float, between: float, share: float, l2: L2, *, reads: bool) -> float:
        """Sectors that pass between L2 and DRAM, where L2 starts empty.

        `room` is what all arrays take of L2 in the whole grid, `between` what they take in a generation of blocks;
        `share` is this array's part of what is asked of L2. Blocks of one generation that touch the same meet in L2;
        a later one finds what is left of it.
        """
        made, new, before = self.sectors, self.sectors, 1
        for extent, fresh in zip(grid.shape, self.fresh, strict=True):
            again = grid.later_generations(before, extent) * (1 - fresh) * (1 - l2.kept(between))
            new *= 1 + (extent - 1) * fresh
            made *= 1 + (extent - 1) * fresh + again
            before *= extent
        once = min(new, self.array_sectors)
        nearly = _NEARLY_ONCE ** max(1, sum(n > 1 for n in grid.shape) - 1)
        if l2.kept(room) == 1:
            return once
        if new <= nearly * self.array_sectors and not self.scattered:  # what later generations touch again is gone
            return once * made / max(1e-9, new)
        if made <= nearly * self.array_sectors:
            return once
        own, turns = self.room(grid, l2), made / self.array_sectors
        has = l2.kept(own + (room - own) / turns)  # from one turn through the array to the next all of it passes
        if self.scattered:  # touched again at any time: L2 has the part of the array that fits beside the others
            whole = SECTOR_BYTES * self.array_sectors * l2.parts
            has = max(has if reads else l2.kept(room), min(1.0, _SCATTERED_KEPT * share * l2.size_bytes / whole))
        return once + (made - once) * (1 - has) if not self.scattered else max(once, made * (1 - has))


# Footprints of neighbours meet in the middle of a line; a union that exceeds the array by less than this is the array,
# in three dimensions by less than its square: what is new along one axis has an edge along the others.
_NEARLY_ONCE = 1.3
# Of a cache that is asked at random for single sectors: lines are kept whole, but only what was asked for is in them.
# data/experiments/l2_capacity/footprints.json.gz: a gather over 67 to 268 MB finds 24 MB, in two copies, of 63.
_SCATTERED_KEPT = 0.8


def alone(blocks: list[Weighted], neighbours: Sequence[Sequence[Block]], grid: Grid, array: int, how: How) -> float:
    """Return the share of the halves of lines that are touched in one array without the other half.

    A half that a block in flight at the same time completes is not alone (half_lines.json): the next one along
    an axis, or the one before. Of blocks half a line wide each second pair does so, so that pairs are looked at by two.
    The first block stands for the others.
    """
    found = [(b.weight, *b.block.of(array, how).halves()) for b in blocks]
    halves = sum(weight * all_of for weight, all_of, _ in found)
    if not halves:
        return 0.0
    between, completed = 1, 0.0
    for row, extent in zip(neighbours, grid.shape, strict=True):
        if row and between < grid.in_flight:
            places = [b.of(array, how) for b in (blocks[0].block, *row)]
            pairs = list(pairwise(places))[: max(1, len(row) // 2 * 2)]
            completed += sum(a.completed_by(b) + b.completed_by(a) for a, b in pairs) / len(pairs)
        between *= extent
    left = max(0.0, 1 - completed / max(1, found[0][2]))
    return left * sum(weight * single for weight, _, single in found) / halves


def reuse_of(
    blocks: list[Weighted], rows: Sequence[Sequence[Block]], array: int, size: int, how: How, scattered: bool
) -> Reuse:
    """Join what blocks touch in one array; of rows of them along each axis, what is new from one to the next."""
    fresh: list[float] = []
    for row in rows:
        places = [b.of(array, how) for b in row]
        shares = [1 - b.shared_with(a) / b.sectors for a, b in pairwise(places) if b.sectors]
        fresh.append(sum(shares) / len(shares) if shares else 1.0)
    weights = [b.weight for b in blocks] if any(b.weight for b in blocks) else [1.0] * len(blocks)  # none ran alone
    sectors = [b.block.of(array, how).sectors for b in blocks]
    mean = sum(map(mul, weights, sectors)) / sum(weights)
    return Reuse(mean, (fresh[0], fresh[1], fresh[2]), -(-size // SECTOR_BYTES), scattered)


# Requests for the same sector that come from neighbouring SMs at the same time are joined before L2: the share of them
# that is saved, by blocks per SM. data/experiments/l2_capacity/neighbouring_sms.json: 12 SMs, mean of both loops.
_SAME = 0.1  # new from a block to the next, at most: edges that they share are asked for by other warps at other times
_BLOCKS_PER_SM = (1, 2, 4, 8)
_JOINED = (0.69, 0.65, 0.52, 0.28)
# Translations that L2 looks up for an access to any place of an array: 0.33 of a sector, less what the TLBs reach.
# data/experiments/l2_capacity/translations.json: within 0.02 from 128 MiB to 32 GiB.
_WALK_SECTORS, _TLB_BYTES = 0.33, 165 << 20
_BIG_PAGE = 11  # bits of a page of 2 MiB, in pages of the emulator
_FEW_SECTORS = 16  # of a page that a block touches: each of them needs a translation of its own


# Groups of SMs (GPCs) that have a cache for code: long_code, which does not fit it, is looked up 8.0 times per turn of
# its loop (data/h200/suite/kernels/ncu.json.gz), whatever the number of warps.
_CODE_CACHES = 8
_CODE_BYTES = 16  # of an instruction


class Asked(Struct, frozen=True):
    """Sectors of one array that are asked of L2: by loads (some joined), by stores, by turns of atomics."""

    loads: float
    joinable: float  # loads, but copies that pass by L1
    stores: float
    atomic_passes: float
    of_pair: float  # of the sectors that DRAM gives at once, how many an access asks for
    translated: float  # sectors that need a translation of their own


def lookups(
    asked: Asked, reads: Reuse, grid: Grid, moved: tuple[float, float], blocks_per_sm: float, l2: L2
) -> tuple[float, float]:
    """Return the sectors that the parts of L2 look up, and of them those that are not there.

    `moved`: sectors that DRAM gives, and of them those that SMs asked for. A part that does not own what its SMs ask
    for asks the owner for all that DRAM gives at once, and keeps it. Measured (data/experiments/l2_capacity): 1.5
    lookups per sector that one SM reads, 2 per sector alone; of 8 MiB gathered repeatedly, 1.25 misses per sector.
    """
    fetched, missed = moved
    blocks = math.prod(grid.shape)  # one that stands for all, where the whole grid ran
    touches = min(asked.loads, reads.sectors * blocks if blocks > 1 else math.inf)
    readers = max(1.0, touches / max(1.0, reads.union(grid), missed))
    elsewhere = (l2.parts - 1) * (1 - (1 - 1 / l2.parts) ** readers)  # parts that ask the owner
    first = fetched * asked.of_pair * (1 / l2.parts + elsewhere)
    alone = asked.loads - _joined(asked, reads, grid, blocks_per_sm)
    written = (asked.stores + asked.atomic_passes) * (2 - 1 / l2.parts)
    not_found = min(alone, first) + fetched * (1 - 1 / l2.parts)
    return alone + fetched * elsewhere + written + _walks(asked.translated, reads.array_sectors), not_found


def _joined(asked: Asked, reads: Reuse, grid: Grid, blocks_per_sm: float) -> float:
    """Loads that are joined with those of neighbours, which are the next blocks in x."""
    if grid.shape[0] == 1 or reads.scattered or reads.fresh[0] > _SAME:
        return 0.0
    return asked.joinable * (1 - reads.fresh[0]) * float(np.interp(blocks_per_sm, _BLOCKS_PER_SM, _JOINED))


def _walks(translated: float, array_sectors: float) -> float:
    return translated * _WALK_SECTORS * max(0.0, 1 - _TLB_BYTES / 32 / max(1.0, array_sectors))


def needs_translation(block: Footprint) -> bool:
    """Whether a block touches few sectors of each large page."""
    return block.sectors <= _FEW_SECTORS * len(set((block.pages >> _BIG_PAGE).tolist()))


def code_bytes(executed: npt.NDArray[np.float64], warps: int, cache_bytes: float | None) -> float:
    """Return the bytes of code that L2 looks up: all of it for each turn of a loop where it does not fit its cache."""
    size = _CODE_BYTES * float((executed > 0).sum())
    if cache_bytes is None or size <= cache_bytes:
        return 0.0
    return _CODE_CACHES * _CODE_BYTES * float(executed.sum()) / warps
