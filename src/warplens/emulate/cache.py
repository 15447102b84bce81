"""Caches as sets of lines with sectors: which sectors of an access hit, what goes on to the next level.

A cache is a table of ways per set: tag, which of its four 32-byte sectors are there, which are dirty, when it was last
used. L1 belongs to an SM, writes through and does not keep what it writes unless the line is there; L2 is one for the
chip, keeps what is written and writes it back when the line is replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulate.bits import compiled

# the columns of statistics that this file counts (see access.py)
_L1_HITS, _L2_SECTORS, _L2_HITS, _DRAM_SECTORS = 8, 9, 10, 11
_LINE, _LINE_SECTORS = 32, 64  # and the places of its scratch array


# Planes of a cache: tags, sectors present, sectors dirty, time of last use; the way behind the last one counts.
TAG, PRESENT, DIRTY, USED = range(4)
# Counters in the first place of the last plane's extra way: time, sectors read from below, sectors written back.
TIME, READ_BELOW, WRITTEN_BACK = range(3)

Cache = npt.NDArray[np.int64]  # [planes, caches, sets, ways + 1]


def new_cache(count: int, size_bytes: int, ways: int) -> Cache:
    """Make `count` empty caches of this size with 128-byte lines."""
    sets = max(3, size_bytes // (128 * ways))
    made = np.zeros((4, count, sets, ways + 1), np.int64)
    made[TAG] = -1
    return made


@compiled
def _index(line: Any, sets: int) -> Any:
    """Spread lines over the sets: strides that are powers of two must not all meet in one."""
    mixed = np.uint64(line)
    mixed ^= mixed >> np.uint64(17)
    mixed ^= (mixed >> np.uint64(9)) * np.uint64(0x9E37)
    return np.int64(mixed % np.uint64(sets))


@compiled
def _bits(mask: Any) -> int:
    return (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1)


@compiled
def read_sectors(cache: Any, which: int, line: Any, wanted: Any, write: bool) -> int:
    """Ask a cache for sectors of a line, keep them; return which of them were there."""
    ways = cache.shape[3] - 1
    counters = cache[USED, which]
    counters[TIME, ways] += 1
    at = _index(line, cache.shape[2])
    way, when = 0, np.int64(2**62)
    there = False
    for k in range(ways):
        if cache[TAG, which, at, k] == line:
            way, there = k, True
            break
        if cache[USED, which, at, k] < when:
            way, when = k, cache[USED, which, at, k]
    if not there:
        counters[WRITTEN_BACK, ways] += _bits(cache[DIRTY, which, at, way])
        cache[TAG, which, at, way] = line
        cache[PRESENT, which, at, way] = 0
        cache[DIRTY, which, at, way] = 0
    hits = cache[PRESENT, which, at, way] & wanted
    cache[PRESENT, which, at, way] |= wanted
    if write:
        cache[DIRTY, which, at, way] |= wanted
    cache[USED, which, at, way] = counters[TIME, ways]
    return hits


@compiled
def lookup(l1: Any, l2: Any, stats: Any, pc: int, scratch: Any, count: int, writes: int, sm: int, local: bool) -> None:
    """Send the lines of one access through the caches. writes: 0 a load, 1 a store, 2 an atomic (done in L2)."""
    for i in range(count):
        line, wanted = scratch[_LINE + i], scratch[_LINE_SECTORS + i]
        missing = wanted
        if l1.shape[1] > 0 and (writes == 0 or (writes == 1 and local)):
            hits = read_sectors(l1, sm % l1.shape[1], line, wanted, False)
            stats[pc, _L1_HITS] += _bits(hits)
            missing = wanted & ~hits if writes == 0 else wanted
        if missing == 0 or l2.shape[1] == 0:
            continue
        stats[pc, _L2_SECTORS] += _bits(missing)
        hits = read_sectors(l2, 0, line, missing, writes > 0)
        stats[pc, _L2_HITS] += _bits(hits)
        if writes != 1:  # a full sector that is written needs not be read
            below = _bits(missing & ~hits)
            stats[pc, _DRAM_SECTORS] += below
            l2[USED, 0, READ_BELOW, l2.shape[3] - 1] += below
