"""What an asynchronous copy from global to shared memory costs (LDGSTS): sectors and wavefronts.

Counted on an H200 (asynchronous_copies.json): a copy that passes by L1 moves 16 bytes at a time from a sector to
a sector; one through L1 reads a line in each wavefront and writes to banks as a store does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator.bits import compiled, wide_lanes
from warplens.emulator.integer_parts import lane_bit
from warplens.emulator.layout import ADDRESS, INTO, WORD


@compiled
def _different(mask: Any, source: Any, target: Any) -> Any:
    """Return how many different pairs the lanes have; these are moved to the front."""
    found = np.int64(0)
    for l in range(32):
        new = lane_bit(mask, l)
        k = found - 1  # most are as the one before
        while new and k >= 0:
            new = not (source[k] == source[l] and target[k] == target[l])
            k -= 1
        if new:
            source[found], target[found] = source[l], target[l]
            found += 1
    return found


@compiled
def passing_sectors(s: Any, mask: Any) -> Any:
    """Return the sectors of a copy that passes by L1: one that goes to two sectors of shared memory counts twice."""
    source, target = wide_lanes(), wide_lanes()
    for l in range(32):
        source[l], target[l] = s[ADDRESS + l] >> 5, s[INTO + l] >> 5
    return _different(mask, source, target)


@compiled
def _shift(s: Any, mask: Any, l: int) -> int:
    """Return how the 16 bytes of a lane lie in their sectors: in the same half of both, or from which to the other.

    Two halves that change places within their sectors are as one that stays (data/h200/suite/triton: swizzled tiles).
    """
    half = s[ADDRESS + l] >> 4 & 1
    if s[INTO + l] >> 4 & 1 == half:
        return 0
    for i in range(32):
        k = l ^ i  # the one beside it first
        if i and lane_bit(mask, k) and s[ADDRESS + k] == s[ADDRESS + l] ^ 16 and s[INTO + k] == s[INTO + l] ^ 16:
            return 0
    return 1 + half


@compiled
def passing_wavefronts(s: Any, mask: Any) -> Any:
    """Return the wavefronts of a copy that passes by L1: from one line to one line, all shifted alike."""
    source, target = wide_lanes(), wide_lanes()
    for l in range(32):
        source[l], target[l] = s[ADDRESS + l] >> 7, s[INTO + l] >> 7 << 2 | _shift(s, mask, l)
    return _different(mask, source, target)


@compiled
def _fits(s: Any, l: int, words: int, banks: Any) -> bool:
    """Whether no bank that a lane writes to has another word in this wavefront; `banks`: those that have one."""
    for k in range(words):
        word = (s[INTO + l] >> 2) + k
        if banks >> np.uint32(word & 31) & np.uint32(1) and s[WORD + (word & 31)] != word:
            return False
    return True


@compiled
def copying_wavefronts(s: Any, mask: Any, size: int) -> Any:
    """Return the wavefronts of a copy through L1: of each that the banks of shared memory need, one per line read."""
    words, total = size >> 2, np.int64(0)
    lanes = 32 // words
    for first in range(0, 32, lanes):
        left = mask & np.uint32(((np.uint64(1) << np.uint64(lanes)) - np.uint64(1)) << np.uint64(first))
        while left:
            banks, joined = np.uint32(0), np.uint32(0)
            for l in range(first, first + lanes):
                if not lane_bit(left, l) or not _fits(s, l, words, banks):
                    continue
                for k in range(words):
                    word = (s[INTO + l] >> 2) + k
                    banks |= np.uint32(1) << np.uint32(word & 31)
                    s[WORD + (word & 31)] = word
                new = True
                for other in range(first, l):
                    new = new and not (lane_bit(joined, other) and s[ADDRESS + other] >> 7 == s[ADDRESS + l] >> 7)
                joined |= np.uint32(1) << np.uint32(l)
                total += np.int64(new)
            left &= joined ^ np.uint32(0xFFFFFFFF)
    return total
