"""What an access costs the memory system: sectors, lines, wavefronts of shared memory, queues at one address."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulate.bits import compiled
from warplens.emulate.cache import lookup
from warplens.emulate.integer_parts import lane_bit
from warplens.emulate.layout import (
    ADDRESS,
    CONTIGUOUS,
    COUNT,
    LINE,
    LINE_SECTORS,
    LINES,
    PATTERN,
    QUEUE,
    REQUESTS,
    SAME,
    SCATTERED,
    SECTORS,
    USEFUL_BYTES,
    WORD,
)


@compiled
def find_pattern(scratch: Any, mask: Any, size: int) -> None:
    """See whether all 32 lanes ask for neighbouring places, or for the same."""
    scratch[PATTERN] = SCATTERED
    if mask != np.uint32(0xFFFFFFFF):
        return
    start, apart, differ = scratch[ADDRESS], np.int64(0), np.int64(0)
    for l in range(32):
        apart |= scratch[ADDRESS + l] - start - l * size
        differ |= scratch[ADDRESS + l] - start
    if apart == 0:
        scratch[PATTERN] = CONTIGUOUS
    elif differ == 0:
        scratch[PATTERN] = SAME


@compiled
def _paired(address: Any, mask: Any, first: int, lanes: int, step: int) -> bool:
    """Whether every lane asks for the same as the lane `step` beside it (or that one is idle)."""
    for l in range(first, first + lanes):
        if lane_bit(mask, l) and lane_bit(mask, l ^ step) and address[l] != address[l ^ step]:
            return False
    return True


@compiled
def _served(scratch: Any, mask: Any, first: int, lanes: int, words: int) -> int:
    """Return the longest queue of different words at one bank among some lanes."""
    for bank in range(32):
        scratch[WORD + bank], scratch[COUNT + bank] = -1, 0
    worst = 0
    for l in range(first, first + lanes):
        if not lane_bit(mask, l):
            continue
        for k in range(words):
            word = (scratch[l] >> 2) + k
            bank = word & 31
            if scratch[WORD + bank] == word:
                continue
            if scratch[COUNT + bank] == 0:
                scratch[WORD + bank] = word
            else:
                again = False
                for m in range(first, l):  # a bank with several words: was this one among them?
                    start = scratch[m] >> 2
                    again = again or (lane_bit(mask, m) and start <= word < start + words)
                if again:
                    continue
            scratch[COUNT + bank] += 1
            worst = max(worst, scratch[COUNT + bank])
    return worst


@compiled
def shared_wavefronts(address: Any, mask: Any, size: int) -> int:
    """Return how many wavefronts a shared-memory access takes: in each, a bank serves one word.

    Accesses of 8 bytes go by half-warps, of 16 bytes by quarters; two of these go together where neighbouring lanes
    (one or two apart) ask for the same. Measured on an H200: data/h200/kernels/ncu.json.gz.
    """
    if address[PATTERN] != SCATTERED and mask == np.uint32(0xFFFFFFFF):
        if address[PATTERN] == CONTIGUOUS:
            return max(1, size >> 2)
        return 2 if size == 16 else 1
    if size <= 4:
        return max(1, _served(address, mask, 0, 32, 1))
    lanes, words, total = 16 if size == 8 else 8, size >> 2, 0
    for first in range(0, 32, 2 * lanes):
        if _paired(address, mask, first, 2 * lanes, 1) or _paired(address, mask, first, 2 * lanes, 2):
            total += _served(address, mask, first, 2 * lanes, words)
        else:
            total += _served(address, mask, first, lanes, words) + _served(address, mask, first + lanes, lanes, words)
    return max(1, total)


@compiled
def touch(memory: Any, pc: int, mask: Any, size: int, writes: int, sm: int, local: bool) -> None:
    """Count the sectors and lines of a global or local access, and ask the caches."""
    s = memory.scratch
    found = 0
    sectors = 0
    if s[PATTERN] != SCATTERED:
        last = s[ADDRESS + 31] + size - 1
        for sector in range(s[ADDRESS] >> 5, (last >> 5) + 1):
            line, bit = sector >> 2, np.int64(1) << (sector & 3)
            if found and s[LINE + found - 1] == line:
                s[LINE_SECTORS + found - 1] |= bit
            else:
                s[LINE + found], s[LINE_SECTORS + found] = line, bit
                found += 1
            sectors += 1
        _count_access(memory, pc, size * 32, sectors, found, writes, sm, local)
        return
    useful = 0
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        line, bit = s[ADDRESS + l] >> 7, np.int64(1) << ((s[ADDRESS + l] >> 5) & 3)
        at = found - 1
        while at >= 0 and s[LINE + at] != line:
            at -= 1
        if at < 0:
            s[LINE + found], s[LINE_SECTORS + found] = line, bit
            found += 1
            sectors += 1
        elif not s[LINE_SECTORS + at] & bit:
            s[LINE_SECTORS + at] |= bit
            sectors += 1
        useful += size
    _count_access(memory, pc, useful, sectors, found, writes, sm, local)


@compiled
def _count_access(
    memory: Any, pc: int, useful: int, sectors: int, lines: int, writes: int, sm: int, local: bool
) -> None:
    stats = memory.stats
    stats[pc, USEFUL_BYTES] += useful
    stats[pc, REQUESTS] += 1
    stats[pc, SECTORS] += sectors
    stats[pc, LINES] += lines
    if memory.l1.shape[1] > 0:
        lookup(memory, pc, lines, writes, sm, local)


@compiled
def queue(memory: Any, pc: int, mask: Any) -> None:
    """Count the longest queue of lanes at one address."""
    longest = 0
    for l in range(32):
        if lane_bit(mask, l):
            same = 0
            for k in range(32):
                if lane_bit(mask, k) and memory.scratch[ADDRESS + k] == memory.scratch[ADDRESS + l]:
                    same += 1
            longest = max(longest, same)
    memory.stats[pc, QUEUE] += longest


@compiled
def _count(mask: Any) -> int:
    found = 0
    for l in range(32):
        found += lane_bit(mask, l)
    return found
