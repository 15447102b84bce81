"""Banks: the turns that shared memory, and L1's memory of lines, take for the lanes of an access."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator.bits import compiled, inlined, popcount
from warplens.emulator.integer_parts import lane_bit
from warplens.emulator.layout import ADDRESS, CONTIGUOUS, COUNT, KEYS, LINE, PATTERN, QUEUE, SCATTERED, SLOTS, USE, WORD


@inlined
def entered(s: Any, keys: Any, first: int, count: int, key: Any) -> int:
    """Return which of the keys so far (from `first` on) this one is; `count`: none, it is now the last.

    A hash table of 128 slots for at most 64 keys; a slot holds the number of the use and which key it is, so that
    slots of earlier uses count as empty.
    """
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(57))
    while s[SLOTS + slot] >> 8 == s[USE]:
        which = s[SLOTS + slot] & 255
        if keys[first + which] == key:
            return which
        slot = (slot + 1) & 127
    s[SLOTS + slot] = s[USE] << 8 | count
    keys[first + count] = key
    return count


@compiled
def _paired(address: Any, mask: Any, first: int, lanes: int) -> bool:
    """Whether every lane asks for the same as the one beside it (or that is idle), or as the one two beside it."""
    one = two = True
    for l in range(first, first + lanes):
        if lane_bit(mask, l):
            one = one and (not lane_bit(mask, l ^ 1) or address[l] == address[l ^ 1])
            two = two and (not lane_bit(mask, l ^ 2) or address[l] == address[l ^ 2])
    return one or two


@compiled
def _longest(s: Any, mask: Any, first: int, lanes: int, words: int) -> Any:
    """Return the longest queue of different words at one bank among some lanes."""
    for bank in range(32):
        s[COUNT + bank] = 0
    s[USE] += 1
    found, worst = np.int64(0), np.int64(0)
    for l in range(first, first + lanes):
        if lane_bit(mask, l):
            for k in range(words):
                word = (s[ADDRESS + l] >> 2) + k
                if entered(s, s, KEYS, found, word) == found:
                    found += 1
                    s[COUNT + (word & 31)] += 1
                    worst = max(worst, s[COUNT + (word & 31)])
    return worst


@compiled
def _served(s: Any, mask: Any, first: int, lanes: int, words: int) -> Any:
    """Return the wavefronts that some lanes take; mostly no bank is asked for two different words."""
    low, high = np.int64(1 << 62), np.int64(-1)
    for l in range(first, first + lanes):
        word = s[ADDRESS + l] >> 2
        low, high = min(low, word if lane_bit(mask, l) else low), max(high, word if lane_bit(mask, l) else high)
    if high < 0:
        return np.int64(0)
    if high + words - low <= 32:  # 32 neighbouring words are in 32 banks
        return np.int64(1)
    asked = np.uint32(0)
    for l in range(first, first + lanes):
        if lane_bit(mask, l):
            for k in range(words):
                word = (s[ADDRESS + l] >> 2) + k
                bank = np.uint32(1) << np.uint32(word & 31)
                if asked & bank == np.uint32(0):
                    asked |= bank
                    s[WORD + (word & 31)] = word
                elif s[WORD + (word & 31)] != word:
                    return _longest(s, mask, first, lanes, words)
    return np.int64(1)


@compiled
def shared_wavefronts(address: Any, mask: Any, size: int) -> int:
    """Return how many wavefronts a shared-memory access takes: in each, a bank serves one word.

    Accesses of 8 bytes go by half-warps, of 16 bytes by quarters; two of these go together where neighbouring lanes
    (one or two apart) ask for the same. Measured on an H200: data/h200/suite/kernels/ncu.json.gz.
    """
    if address[PATTERN] != SCATTERED and mask == np.uint32(0xFFFFFFFF):
        if address[PATTERN] == CONTIGUOUS:
            return max(1, size >> 2)
        return 2 if size == 16 else 1
    if size <= 4:
        return max(1, _served(address, mask, np.int64(0), np.int64(32), np.int64(1)))
    lanes, words, total = 16 if size == 8 else 8, size >> 2, 0
    for first in range(0, 32, 2 * lanes):
        if _paired(address, mask, first, 2 * lanes):
            total += _served(address, mask, first, 2 * lanes, words)
        else:
            total += _served(address, mask, first, lanes, words) + _served(address, mask, first + lanes, lanes, words)
    return max(1, total)


@compiled
def tag_queue(s: Any, lines: int) -> Any:
    """Return the cycles in which L1 looks up the lines of an access: each of its four banks of tags takes one a cycle.

    Which bank a line is in was found by the times of 411 patterns on an H200: data_path.json.
    """
    worst = np.int64(0)
    for bank in range(4):
        s[COUNT + bank] = 0
    for i in range(lines):
        line = s[LINE + i]
        bank = (popcount(np.uint32(line & 53)) & 1) | 2 * (popcount(np.uint32(line & 218)) & 1)
        s[COUNT + bank] += 1
        worst = max(worst, s[COUNT + bank])
    return worst


@compiled
def queue(memory: Any, pc: int, mask: Any) -> None:
    """Count the longest queue of lanes at one address."""
    s, longest, found = memory.scratch, np.int64(0), np.int64(0)
    s[USE] += 1
    for l in range(32):
        if lane_bit(mask, l):
            at = entered(s, s, KEYS, found, s[ADDRESS + l])
            if at == found:
                found += 1
                s[COUNT + at] = 0
            s[COUNT + at] += 1
            longest = max(longest, s[COUNT + at])
    memory.stats[pc, QUEUE] += longest
