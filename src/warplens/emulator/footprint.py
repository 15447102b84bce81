"""Footprints of blocks: the sectors of a grid that pass L1, and the work of L2 and DRAM that follows.

A block's footprint in an array is the set of sectors that passed its L1. Beside those of its neighbours in x, y and z
it says how much is new from one block to the next; the union over the grid follows, and never exceeds the array.
Whether L2 still has what a later block asks for again depends on what is touched in between: nothing where the two
run at the same time, else what so many blocks touch, against the size of L2. An L2 in parts keeps a line in the part
where it belongs and a copy in each other part that reads it: docs/explain/emulator.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import mul

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import pages
from warplens.emulator.cache import READ, WRITTEN

SECTOR_BYTES = 32
Map = npt.NDArray[np.uint32]


class Footprint(Struct, frozen=True):
    """Sectors of one array, as a map per page: [pages of the array that were touched, a word]."""

    pages: npt.NDArray[np.int64]
    bits: Map

    @property
    def sectors(self) -> int:
        """The number of sectors."""
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
    found = []
    for row in memory.arrays:
        first = int(row[pages.FIRST_PAGE])
        low, high = np.searchsorted(slots, (first, first + -(-int(row[pages.BYTES]) // pages.PAGE_BYTES)))
        found.append(Footprint(slots[low:high] - first, bits[low:high]))
    return found


class Part(Struct, frozen=True):
    """A part of a footprint: the sectors that are read or those that are written, in groups of so many."""

    writes: bool
    group: int = 1


class Block(Struct, frozen=True):
    """The footprints of one block, by array."""

    read: list[Footprint]
    written: list[Footprint]

    def of(self, array: int, part: Part) -> Footprint:
        """Return the footprint in one array."""
        return (self.written if part.writes else self.read)[array].widened(part.group)


class Weighted(Struct, frozen=True):
    """A block that stands for so many."""

    block: Block
    weight: float


def of_block(memory: pages.Pages, touched: Map) -> Block:
    """Return the footprints of the block that has just run, and clear the map."""
    block = Block(footprints(memory, touched, READ), footprints(memory, touched, WRITTEN))
    touched[: memory.table[-1]] = 0
    return block


class Grid(Struct, frozen=True):
    """Blocks in x, y and z, and how many are in flight at once."""

    shape: tuple[int, int, int]
    in_flight: int

    @property
    def generation(self) -> Grid:
        """The blocks that are in flight at once, as a grid."""
        left, shape = self.in_flight, []
        for extent in self.shape:
            shape.append(min(extent, max(1, left)))
            left = -(-left // extent)
        return Grid((shape[0], shape[1], shape[2]), self.in_flight)

    def later_generations(self, before: int, extent: int) -> float:
        """Return the generations but the first that touch again what blocks along an axis share.

        `before`: blocks within the axis. The last one is a part of a generation, and touches all of it if it has as
        many blocks as are within the axis.
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
        """The bytes of data that it holds if one SM reads them: in the home part, and in the SM's."""
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
    """Sectors of one array that a block touches, and the share of them that is new from a block to its neighbour."""

    sectors: float
    fresh: tuple[float, float, float]
    array_sectors: int
    scattered: bool = False  # by addresses without a stride

    @property
    def shared(self) -> bool:
        """True if blocks on different SMs read the same."""
        return self.scattered or min(self.fresh) < 0.9

    def union(self, grid: Grid) -> float:
        """Sectors that a grid touches."""
        sectors = self.sectors
        for extent, fresh in zip(grid.shape, self.fresh, strict=True):
            sectors *= 1 + (extent - 1) * fresh
        return min(sectors, self.array_sectors)

    def copies_bytes(self, grid: Grid, l2: L2) -> float:
        """Bytes of L2 that a grid takes, copies in its parts counted."""
        copies = l2.parts if self.shared else 2 - 1 / l2.parts
        return SECTOR_BYTES * self.union(grid) * copies

    def moved(self, grid: Grid, needed: float, between: float, share: float, l2: L2, *, reads: bool) -> float:
        """Sectors that pass between L2 and DRAM, where L2 starts empty.

        `needed`: bytes that all arrays take of L2 in the whole grid; `between`: in a generation of blocks;
        `share`: this array's part of the requests to L2. Blocks of one generation that touch the same meet in L2;
        a later one finds what is left of it.
        """
        total, new, before = self.sectors, self.sectors, 1
        for extent, fresh in zip(grid.shape, self.fresh, strict=True):
            again = grid.later_generations(before, extent) * (1 - fresh) * (1 - l2.kept(between))
            new *= 1 + (extent - 1) * fresh
            total *= 1 + (extent - 1) * fresh + again
            before *= extent
        once = min(new, self.array_sectors)
        nearly = _NEARLY_ONCE ** max(1, sum(n > 1 for n in grid.shape) - 1)
        if l2.kept(needed) == 1:
            return once
        if new <= nearly * self.array_sectors and not self.scattered:  # what later generations touch again is gone
            return once * total / max(1e-9, new)
        if total <= nearly * self.array_sectors:
            return once
        own, times = self.copies_bytes(grid, l2), total / self.array_sectors
        has = l2.kept(own + (needed - own) / times)  # from one pass over the array to the next all of it passes
        if self.scattered:  # touched again at any time: L2 has the part of the array that fits beside the others
            whole = SECTOR_BYTES * self.array_sectors * l2.parts
            has = max(has if reads else l2.kept(needed), min(1.0, _SCATTERED_KEPT * share * l2.size_bytes / whole))
        return once + (total - once) * (1 - has) if not self.scattered else max(once, total * (1 - has))


# Footprints of neighbours meet in the middle of a line; a union that exceeds the array by less than this is the array,
# in three dimensions by less than its square: what is new along one axis has an edge along the others.
_NEARLY_ONCE = 1.3
# Of a cache that is asked at random for single sectors: lines are kept whole, but only what was asked for is in them.
# data/experiments/l2_capacity/footprints.json.gz: a gather over 67 to 268 MB finds 24 MB, in two copies, of 63.
_SCATTERED_KEPT = 0.8


def alone(blocks: list[Weighted], neighbours: Sequence[Sequence[Block]], grid: Grid, array: int, part: Part) -> float:
    """Return the share of the halves of lines that are touched in one array without the other half.

    A half that a block in flight at the same time completes is not alone (half_lines.json): the next one along
    an axis, or the one before. Of blocks half a line wide each second pair does so, so that pairs are looked at by two.
    The first block stands for the others.
    """
    found = [(b.weight, *b.block.of(array, part).halves()) for b in blocks]
    halves = sum(weight * all_of for weight, all_of, _ in found)
    if not halves:
        return 0.0
    between, completed = 1, 0.0
    for row, extent in zip(neighbours, grid.shape, strict=True):
        if row and between < grid.in_flight:
            near = [b.of(array, part) for b in (blocks[0].block, *row)]
            pairs = list(pairwise(near))[: max(1, len(row) // 2 * 2)]
            completed += sum(a.completed_by(b) + b.completed_by(a) for a, b in pairs) / len(pairs)
        between *= extent
    left = max(0.0, 1 - completed / max(1, found[0][2]))
    return left * sum(weight * single for weight, _, single in found) / halves


def reuse_of(
    blocks: list[Weighted], rows: Sequence[Sequence[Block]], array: int, size: int, part: Part, scattered: bool
) -> Reuse:
    """Return the reuse of one array; `rows`: blocks along each axis, for the sectors new from one to the next."""
    fresh: list[float] = []
    for row in rows:
        near = [b.of(array, part) for b in row]
        shares = [1 - b.shared_with(a) / b.sectors for a, b in pairwise(near) if b.sectors]
        fresh.append(sum(shares) / len(shares) if shares else 1.0)
    weights = [b.weight for b in blocks] if any(b.weight for b in blocks) else [1.0] * len(blocks)  # none ran alone
    sectors = [b.block.of(array, part).sectors for b in blocks]
    mean = sum(map(mul, weights, sectors)) / sum(weights)
    return Reuse(mean, (fresh[0], fresh[1], fresh[2]), -(-size // SECTOR_BYTES), scattered)
