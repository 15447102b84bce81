"""Cost of an access: sectors and lines of global memory, wavefronts of shared memory and of L1.

Banks: the wavefronts that shared memory, and L1's memory of lines, take for the lanes of an access.

Patterns: a cost depends on the offsets of the lanes from the line of the first one. A table keeps it, a row per
pattern, at an index that some of the lanes choose; a new pattern replaces the one that was there.

Asynchronous copies from global to shared memory (LDGSTS), counted on an H200 (data/experiments/l1_data_path): a copy
that bypasses L1 moves 16 bytes at a time from a sector to a sector; one through L1 reads a line in each wavefront and
writes to banks as a store does.

Machines before compute capability 3 have coalescing rules of their own (`transactions_per_access`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulator import layout
from warplens.emulator.bits import compiled, inlined, popcount, trailing_zeros, wide_lanes
from warplens.emulator.handlers import CACHES, call
from warplens.emulator.integer import lane_bit
from warplens.emulator.layout import (
    ADDRESS,
    CONTIGUOUS,
    COUNT,
    INTO,
    KEYS,
    LINE,
    LINE_SECTORS,
    LINES,
    PASSES,
    PATTERN,
    PATTERN_ROWS,
    QUEUE,
    RECALLED,
    REQUESTS,
    SAMPLE_LANES,
    SAMPLE_PLACES,
    SAMPLE_SIZE,
    SCATTERED,
    SECTORS,
    SLOTS,
    USE,
    USEFUL_BYTES,
    WAVEFRONTS,
    WORD,
)
from warplens.machine import Machine
from warplens.workload.workload import transactions


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


# Columns of a row: of each lane its place from the line of the first lane, and which of the lines it is in; lanes that
# take part, bytes of each; different lines and sectors, wavefronts of shared memory, whether a place is no multiple of
# the size; then the lines, from that of the first lane, their sectors, and how far into them the lanes go, in bytes.
PATTERN_PLACES, PATTERN_WHICH, PATTERN_LANES, PATTERN_SIZE, PATTERN_COUNT = 0, 32, 64, 65, 66
PATTERN_SECTORS, PATTERN_WAVEFRONTS, PATTERN_ODD = 67, 68, 69
PATTERN_LINES, PATTERN_LINE_SECTORS, PATTERN_ENDS = 70, 102, 134
_LINE_BYTES = 128


@compiled
def first_line(s: Any, mask: Any) -> Any:
    """Return the line of the first lane that takes part, from which a row counts."""
    return s[ADDRESS + np.int64(trailing_zeros(np.uint32(mask)))] >> 7


@compiled
def _work_out(s: Any, row: Any, mask: Any, size: int) -> None:
    """Fill a row of which the places are there: lines in the order of the first lanes that ask for them."""
    found, sectors, odd, at = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    s[USE] += 1
    for l in range(32):
        row[PATTERN_WHICH + l] = 0
        if not lane_bit(mask, l):
            continue
        place = row[PATTERN_PLACES + l]
        odd |= place & (size - 1)
        line, bit = place >> 7, np.int64(1) << ((place >> 5) & 3)
        if found == 0 or row[PATTERN_LINES + at] != line:
            at = entered(s, row, PATTERN_LINES, found, line)
            if at == found:
                row[PATTERN_LINE_SECTORS + at] = row[PATTERN_ENDS + at] = 0
                found += 1
        row[PATTERN_WHICH + l] = at
        sectors += row[PATTERN_LINE_SECTORS + at] & bit == 0
        row[PATTERN_LINE_SECTORS + at] |= bit
        row[PATTERN_ENDS + at] = max(row[PATTERN_ENDS + at], (place & (_LINE_BYTES - 1)) + size)
    row[PATTERN_LANES], row[PATTERN_SIZE], row[PATTERN_COUNT], row[PATTERN_SECTORS], row[PATTERN_ODD] = (
        np.int64(mask),
        size,
        found,
        sectors,
        odd,
    )
    row[PATTERN_WAVEFRONTS] = shared_wavefronts(s, mask, size)


@compiled
def recall(m: Any, mask: Any, size: int) -> Any:
    """Return the row of the pattern in which the lanes of this access lie; at least one lane takes part.

    The scratch array has it, or -1 for an access that was not looked at yet.
    """
    s, made, differ = m.scratch, wide_lanes(), np.int64(0)
    if s[RECALLED] >= 0:
        return s[RECALLED]
    start = first_line(s, mask) << 7
    for l in range(32):
        made[l] = s[ADDRESS + l] - start if lane_bit(mask, l) else np.int64(0)
    some = made[0] + 3 * made[1] + 5 * made[8] + 7 * made[16] + 11 * made[31] + np.int64(mask)
    some += 13 * made[9] + 17 * made[17] + 19 * made[24] + 23 * made[25]  # of each matrix of LDSM two rows
    at = np.int64((np.uint64(some) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (PATTERN_ROWS - 1)
    row = m.patterns[at]
    for l in range(32):
        differ |= row[PATTERN_PLACES + l] ^ made[l]
    if differ | row[PATTERN_LANES] ^ np.int64(mask) | row[PATTERN_SIZE] ^ size:
        for l in range(32):
            row[PATTERN_PLACES + l] = made[l]
        _work_out(s, row, mask, size)
    s[RECALLED] = at
    return at


@compiled
def _sample(memory: Any, pc: int, mask: Any, size: int) -> None:
    """Keep the places of an access, as long as there is room for more of this instruction."""
    at = memory.stats[pc, REQUESTS]
    if at < memory.samples.shape[1]:
        row, s = memory.samples[pc, at], memory.scratch
        row[SAMPLE_LANES], row[SAMPLE_SIZE] = np.int64(mask), size
        for l in range(32):
            step = size * l if s[PATTERN] == CONTIGUOUS else 0
            row[SAMPLE_PLACES + l] = s[ADDRESS + l] if s[PATTERN] == SCATTERED else s[ADDRESS] + step


@compiled
def touch(memory: Any, pc: int, mask: Any, size: int, writes: int, sm: int, local: bool) -> None:
    """Count the sectors and lines of a global or local access, and ask the caches."""
    s = memory.scratch
    if memory.samples.shape[1] > 0:
        _sample(memory, pc, mask, size)
    found = np.int64(0)
    if s[PATTERN] != SCATTERED:
        first, last = s[ADDRESS] >> 5, (s[ADDRESS + 31] + size - 1) >> 5
        for line in range(first >> 2, (last >> 2) + 1):
            low, high = max(first - 4 * line, np.int64(0)), min(last - 4 * line, np.int64(3))
            s[LINE + found], s[LINE_SECTORS + found] = line, (2 << high) - (1 << low)
            found += 1
        s[PASSES] = max(1, size >> 2) if s[PATTERN] == CONTIGUOUS else 1
        memory.stats[pc, WAVEFRONTS] += s[PASSES]
        count_access(memory, pc, size * 32, last - first + 1, found, writes, sm, local)
        return
    row, start = memory.patterns[recall(memory, mask, size)], first_line(s, mask)
    lines = row[PATTERN_COUNT]
    for i in range(lines):
        s[LINE + i], s[LINE_SECTORS + i] = start + row[PATTERN_LINES + i], row[PATTERN_LINE_SECTORS + i]
    s[PASSES] = 1  # the words of one line are in different banks
    if lines > 1:
        s[PASSES] = max(row[PATTERN_WAVEFRONTS], tag_queue(s, lines))
    memory.stats[pc, WAVEFRONTS] += s[PASSES]
    count_access(memory, pc, size * np.int64(popcount(mask)), row[PATTERN_SECTORS], lines, writes, sm, local)


@compiled
def count_access(
    memory: Any, pc: int, useful: int, sectors: int, lines: int, writes: int, sm: int, local: bool
) -> None:
    """Count an access to global or local memory, and ask the caches; the lines are in the scratch array."""
    stats = memory.stats
    stats[pc, USEFUL_BYTES] += useful
    stats[pc, REQUESTS] += 1
    stats[pc, SECTORS] += sectors
    stats[pc, LINES] += lines
    if memory.l1.shape[1] > 0:
        call(memory.services[CACHES], memory, pc, lines, sm, np.uint32(writes * 2 + local))


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


def transactions_per_access(machine: Machine, samples: npt.NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Return transactions and bytes per access, by the machine's generation, of the accesses that were kept."""
    capability = float(machine.compute_capability or 9)
    made: list[tuple[float, float]] = []
    for rows in samples:
        found = [
            transactions(
                capability,
                [int(a) if row[layout.SAMPLE_LANES] >> l & 1 else None
                 for l, a in enumerate(row[layout.SAMPLE_PLACES :])],
                int(row[layout.SAMPLE_SIZE]),
            )
            for row in rows
            if row[layout.SAMPLE_LANES]
        ]  # fmt: skip
        made.append(
            (float(np.mean([n for n, _ in found])), float(np.mean([b for _, b in found]))) if found else (0.0, 0.0)
        )
    return [n for n, _ in made], [b for _, b in made]
