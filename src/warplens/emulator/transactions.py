"""What an access to global or local memory costs: sectors, lines, wavefronts of L1, and what the caches say."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import patterns
from warplens.emulator.bits import compiled, popcount
from warplens.emulator.handlers import CACHES, call
from warplens.emulator.layout import (
    ADDRESS,
    CONTIGUOUS,
    LINE,
    LINE_SECTORS,
    LINES,
    PASSES,
    PATTERN,
    REQUESTS,
    SAMPLE_LANES,
    SAMPLE_PLACES,
    SAMPLE_SIZE,
    SCATTERED,
    SECTORS,
    USEFUL_BYTES,
    WAVEFRONTS,
)
from warplens.emulator.patterns import first_line, recall
from warplens.emulator.wavefronts import tag_queue


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
    lines = row[patterns.COUNT]
    for i in range(lines):
        s[LINE + i], s[LINE_SECTORS + i] = start + row[patterns.LINES + i], row[patterns.LINE_SECTORS + i]
    s[PASSES] = 1  # the words of one line are in different banks
    if lines > 1:
        s[PASSES] = max(row[patterns.WAVEFRONTS], tag_queue(s, lines))
    memory.stats[pc, WAVEFRONTS] += s[PASSES]
    count_access(memory, pc, size * np.int64(popcount(mask)), row[patterns.SECTORS], lines, writes, sm, local)


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
