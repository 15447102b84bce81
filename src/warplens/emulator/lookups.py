"""What the parts of an L2 look up, as a profiler counts it: for SMs, for one another, and for translation.

None of this is what DRAM gives or what SMs get; a profiler's hit rate is of these lookups.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator.footprint import L2, Footprint, Grid, Reuse

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
    for asks the owner for all that DRAM gives at once, and keeps it. Found so in footprints.json.gz: 1.5 lookups per
    sector that one SM reads, 2 per sector alone; of 8 MiB that are gathered again and again, 1.25 misses per sector.
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
