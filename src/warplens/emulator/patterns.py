"""What an access costs depends on where its lanes lie from the line of the first one: worked out once per pattern.

Kernels ask for the same few patterns again and again, line after line. A table keeps what was worked out: a row per
pattern, at a place that some of its lanes choose; the one that was there before makes room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator.bits import compiled, trailing_zeros, wide_lanes
from warplens.emulator.integer_parts import lane_bit
from warplens.emulator.layout import ADDRESS, PATTERN_ROWS, RECALLED, USE
from warplens.emulator.wavefronts import entered, shared_wavefronts

# Columns of a row: of each lane its place from the line of the first lane, and which of the lines it is in; lanes that
# take part, bytes of each; different lines and sectors, wavefronts of shared memory, whether a place is no multiple of
# the size; then the lines, from that of the first lane, their sectors, and how far into them the lanes go, in bytes.
PLACES, WHICH, LANES, SIZE, COUNT, SECTORS, WAVEFRONTS, ODD = 0, 32, 64, 65, 66, 67, 68, 69
LINES, LINE_SECTORS, ENDS = 70, 102, 134
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
        row[WHICH + l] = 0
        if not lane_bit(mask, l):
            continue
        place = row[PLACES + l]
        odd |= place & (size - 1)
        line, bit = place >> 7, np.int64(1) << ((place >> 5) & 3)
        if found == 0 or row[LINES + at] != line:
            at = entered(s, row, LINES, found, line)
            if at == found:
                row[LINE_SECTORS + at] = row[ENDS + at] = 0
                found += 1
        row[WHICH + l] = at
        sectors += row[LINE_SECTORS + at] & bit == 0
        row[LINE_SECTORS + at] |= bit
        row[ENDS + at] = max(row[ENDS + at], (place & (_LINE_BYTES - 1)) + size)
    row[LANES], row[SIZE], row[COUNT], row[SECTORS], row[ODD] = np.int64(mask), size, found, sectors, odd
    row[WAVEFRONTS] = shared_wavefronts(s, mask, size)


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
        differ |= row[PLACES + l] ^ made[l]
    if differ | row[LANES] ^ np.int64(mask) | row[SIZE] ^ size:
        for l in range(32):
            row[PLACES + l] = made[l]
        _work_out(s, row, mask, size)
    s[RECALLED] = at
    return at
