"""Loads and stores: addresses of the lanes, the words they touch, and what the access costs the memory system.

Costs are counted per instruction, in the columns of `stats`: requests, bytes asked for, 32-byte sectors and 128-byte
lines touched (global, local), wavefronts of shared memory (each bank serves one word at a time; lanes that ask for
the same word share it), and the longest queue at one address (atomics).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.bits import compiled, inlined, lanes, trailing_zeros, wide_lanes
from warplens.emulator.handlers import ACCOUNT, SMALL, call, handler, service
from warplens.emulator.integer import keep, lane_bit
from warplens.emulator.lanes import count_bits
from warplens.emulator.layout import (
    ADDRESS,
    CONTIGUOUS,
    ERROR,
    FINE,
    HINT,
    LOCAL_RANGE,
    LOCAL_WINDOW,
    MISALIGNED,
    NO_PAGES,
    OUT_OF_RANGE,
    PATTERN,
    RECALLED,
    REQUESTS,
    SAME,
    SCATTERED,
    SHARED_RANGE,
    SHARED_WINDOW,
    SLOT,
    SM,
    USEFUL_BYTES,
    WAVEFRONTS,
)
from warplens.emulator.pages import CHANGED, PAGE_BYTES, PAGE_WORDS, array_of, find_array, locate, locate_line, no_pages
from warplens.emulator.wavefronts import (
    PATTERN_COUNT,
    PATTERN_ENDS,
    PATTERN_LINE_SECTORS,
    PATTERN_LINES,
    PATTERN_ODD,
    PATTERN_PLACES,
    PATTERN_WAVEFRONTS,
    PATTERN_WHICH,
    first_line,
    recall,
    shared_wavefronts,
    touch,
)

LOCAL_BASE = 1 << 46  # where local memory lies for the caches
_LINE_WORDS, _PAGE_BITS, _IN_PAGE = 32, np.uint32(8), np.uint32(PAGE_WORDS - 1)
_ALL = np.uint32(0xFFFFFFFF)


@compiled
def lane_addresses(m: Any, pc: int, w: int, mask: Any) -> None:
    """Compute the address of each lane, and see whether all 32 ask for neighbouring places, or for the same.

    Base + uniform base + offset; Y: 1 base of 64 bits, 2 uniform base of 64 bits, then a shift.
    """
    ins, R, s, made = m.table[pc], m.registers[w], m.scratch, wide_lanes()
    A, A2, B, B2 = R[ins[ops.A]], R[ins[ops.A] + 1], R[ins[ops.B]], R[ins[ops.B] + 1]
    how, offset, size = ins[ops.Y], ins[ops.X], ins[ops.Z] & 255
    wide = np.uint32(_ALL if how & 1 else 0)
    if how <= 1:
        for l in range(32):
            made[l] = (np.int64(A2[l] & wide) << 32) + np.int64(A[l]) + np.int64(B[l]) + offset
    else:
        wide_base = np.uint32(_ALL if how & 2 else 0)
        shift = 0 if how & 1 else how >> 2
        for l in range(32):
            base = (np.int64(A[l]) << shift) + (np.int64(A2[l] & wide) << 32)
            made[l] = base + np.int64(B[l]) + (np.int64(B2[l] & wide_base) << 32) + offset
    start, apart, differ = made[0], np.int64(0), np.int64(0)
    for l in range(32):
        s[ADDRESS + l] = made[l]
        apart |= made[l] - start - l * size
        differ |= made[l] - start
    s[PATTERN] = SCATTERED
    if mask == _ALL and apart == 0:
        s[PATTERN] = CONTIGUOUS
    elif mask == _ALL and differ == 0:
        s[PATTERN] = SAME


@compiled
def space_of(m: Any, pc: int, mask: Any, space: int) -> Any:
    """Return the lanes whose access goes to a space; of a generic one the upper word of the address tells."""
    if m.table[pc, ops.Z] >> 8 != ops.GENERIC:
        return np.uint32(mask) if m.table[pc, ops.Z] >> 8 == space else np.uint32(0)
    found = np.uint32(0)
    for l in range(32):
        window = m.scratch[ADDRESS + l] >> 32
        there = ops.SHARED if window == SHARED_WINDOW else ops.LOCAL if window == LOCAL_WINDOW else ops.GLOBAL
        found |= np.uint32(there == space) << np.uint32(l)
    return np.uint32(found & mask)


@compiled
def next_part(m: Any, pc: int, rest: Any) -> Any:
    """Return a space and the lanes that go there, of those left: one part only, unless the address is generic.

    Local memory comes last: the accounts replace addresses there by those of the caches.
    """
    s, space, part = m.scratch, m.table[pc, ops.Z] >> 8, np.uint32(rest)
    if space == ops.GENERIC:
        space, part = np.int64(ops.SHARED), space_of(m, pc, rest, np.int64(ops.SHARED))
        if part == 0:
            space, part = np.int64(ops.GLOBAL), space_of(m, pc, rest, np.int64(ops.GLOBAL))
        if part == 0:
            space, part = np.int64(ops.LOCAL), np.uint32(rest)
        if part != _ALL:
            s[PATTERN] = SCATTERED
    s[RECALLED] = -1
    return space, part


@service(ACCOUNT)
def _account(m: Any, pc: int, w: int, how: int, mask: Any) -> int:
    """Count what an access costs. how: the space, and 16 times 0 for a load, 1 for a store, 2 for an atomic."""
    space, writes = how & 15, how >> 4
    s, stats, place, size = m.scratch, m.stats, m.warps[w], m.table[pc, ops.Z] & 255
    if space == ops.SHARED:
        stats[pc, REQUESTS] += 1
        stats[pc, USEFUL_BYTES] += size * count_bits(mask)
        known = s[PATTERN] != SCATTERED
        stats[pc, WAVEFRONTS] += (
            shared_wavefronts(s, mask, size) if known else m.patterns[recall(m, mask, size), PATTERN_WAVEFRONTS]
        )
        return FINE
    if space == ops.LOCAL:
        start = LOCAL_BASE + w * (m.local.shape[1] >> 5) * 128  # a warp has that of the one before it in its place
        s[PATTERN] = CONTIGUOUS if s[PATTERN] == SAME and size >= 4 else SCATTERED
        step = 31 if s[PATTERN] == CONTIGUOUS else 1  # of neighbours the first and the last are enough
        for l in range(0, 32, step):
            s[ADDRESS + l] = start + ((s[ADDRESS + l] & 0xFFFFFF) >> 2) * 128 + 4 * l
        for k in range(max(1, size >> 2)):  # the words of a thread lie 128 bytes apart
            if k:
                stats[pc, REQUESTS] -= 1
                for l in range(0, 32, step):
                    s[ADDRESS + l] += 128
            s[RECALLED] = -1
            touch(m, pc, mask, min(size, np.int64(4)), writes, place[SM], True)
        return FINE
    touch(m, pc, mask, size, writes, place[SM], False)
    return FINE


@compiled
def read(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any) -> Any:
    """Read the 32-bit word at an address; return (status, word)."""
    at = (address & 0xFFFFFF) >> 2
    if space == ops.SHARED:
        if at >= memory.shared.shape[1]:
            return SHARED_RANGE, np.uint32(0)
        return FINE, memory.shared[slot, at]
    if space == ops.LOCAL:
        at = 32 * at + lane
        if at >= memory.local.shape[1]:
            return LOCAL_RANGE, np.uint32(0)
        return FINE, memory.local[warp, at]
    page, place, array = locate(memory, address, np.int64(1), memory.scratch[HINT])
    if page < 0:
        return OUT_OF_RANGE if page == -1 else NO_PAGES, np.uint32(0)
    memory.scratch[HINT] = array
    return FINE, memory.pages.words[page, place]


@compiled
def write(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any, value: Any) -> None:
    """Write the 32-bit word at an address that has been read before."""
    at = (address & 0xFFFFFF) >> 2
    if space == ops.SHARED:
        memory.shared[slot, at] = value
    elif space == ops.LOCAL:
        memory.local[warp, 32 * at + lane] = value
    else:
        page, place, array = locate(memory, address, np.int64(1), memory.scratch[HINT])
        memory.pages.words[page, place] = value
        memory.pages.arrays[array, CHANGED] = 1


@compiled
def failed(memory: Any, status: int, lane: int, address: Any, size: int) -> int:
    """Remember what failed, for the message."""
    s = memory.scratch
    s[ERROR + 1], s[ERROR + 2], s[ERROR + 3] = lane, address, size
    return status


@compiled
def write_part(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any, size: int, value: Any) -> Any:
    """Write a byte or half inside its word."""
    status, old = read(memory, space, warp, slot, lane, address)
    if status == FINE:
        shift = np.uint32(8 * (address & 3))
        keep = (np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF)) << shift
        made = np.uint32((old & np.uint32(keep ^ np.uint32(0xFFFFFFFF))) | ((np.uint32(value) << shift) & keep))
        write(memory, space, warp, slot, lane, address, made)
    return status


@service(SMALL)
def _move_small(m: Any, pc: int, w: int, space: int, mask: Any) -> int:
    """Load or store bytes and halves, lane by lane."""
    ins, R, slot = m.table[pc], m.registers[w], m.warps[w, SLOT]
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = m.scratch[ADDRESS + l]
        if address & (size - 1):
            return failed(m, np.int64(MISALIGNED), l, address, size)
        if storing:
            status = write_part(m, space, w, slot, l, address, size, R[first, l])
        else:
            status, word = read(m, space, w, slot, l, address)
            value = np.uint32(word >> np.uint32(8 * (address & 3)))
            value &= np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF)
            if ins[ops.MODE] & ops.SIGNED and value >> np.uint32(8 * size - 1):
                value |= np.uint32(0xFFFFFF00) if size == 1 else np.uint32(0xFFFF0000)
            R[first, l] = value
        if status != FINE:
            return failed(m, status, l, address, size)
    return FINE


@compiled
def _first_wrong(m: Any, mask: Any, size: int, limit: int, failure: int) -> int:
    """Say which lane first asks for what is not there."""
    for l in range(32):
        address = m.scratch[ADDRESS + l] & 0xFFFFFF
        if lane_bit(mask, l) and address & (size - 1):
            return failed(m, np.int64(MISALIGNED), l, address, size)
        if lane_bit(mask, l) and (address + size) >> 2 > limit:
            return failed(m, failure, l, address, size)
    return FINE


@inlined
def _move_inside(m: Any, pc: int, w: int, mask: Any, words: Any, per_lane: int, failure: int) -> int:
    """Load or store words of shared memory (one copy) or of local memory (a copy per lane, side by side)."""
    ins, R, s, at = m.table[pc], m.registers[w], m.scratch, lanes()
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    limit = words.shape[0] // per_lane
    odd, top, beside = np.int64(0), np.int64(0), np.int64(1 if per_lane > 1 else 0)
    for l in range(32):
        address = s[ADDRESS + l] & 0xFFFFFF if lane_bit(mask, l) else np.int64(0)
        odd |= address
        top = max(top, address)
    if odd & (size - 1) or (top + size) >> 2 > limit:
        return _first_wrong(m, mask, size, limit, failure)
    if ins[ops.MODE] & ops.NO_VALUES:
        return FINE
    for l in range(32):
        address = s[ADDRESS + l] & 0xFFFFFF if lane_bit(mask, l) else np.int64(0)
        at[l] = np.uint32((address >> 2) * per_lane + l * beside)
    if storing:
        for l in range(32):
            if lane_bit(mask, l):
                for k in range(size >> 2):
                    words[at[l] + np.uint32(k * per_lane)] = R[first + k, l]
        return FINE
    made = lanes()
    for k in range(size >> 2):
        for l in range(32):
            made[l] = words[at[l] + np.uint32(k * per_lane)]
        keep(R[first + k], made, mask)
    return FINE


@compiled
def _move_rows(m: Any, pc: int, w: int) -> int:
    """Load or store words that lie at the same place of every lane's local memory: side by side."""
    ins, R, words, start = m.table[pc], m.registers[w], m.local[w], m.scratch[ADDRESS] & 0xFFFFFF
    size, storing, made = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE, lanes()
    first = ins[ops.C] if storing else ins[ops.D]
    if start & (size - 1) or (start + size) >> 2 > words.shape[0] >> 5:
        return _first_wrong(m, _ALL, size, words.shape[0] >> 5, np.int64(LOCAL_RANGE))
    for k in range(0 if ins[ops.MODE] & ops.NO_VALUES else size >> 2):
        D, at = R[first + k], np.uint32(32 * ((start >> 2) + k))
        for l in range(32):
            made[l] = D[l] if storing else words[at + np.uint32(l)]
        if storing:
            for l in range(32):
                words[at + np.uint32(l)] = made[l]
        else:
            keep(D, made, _ALL)
    return FINE


@compiled
def _move_span(m: Any, pc: int, w: int, size: int) -> bool:
    """Load or store neighbouring words of global memory, page by page; whether it could be done."""
    ins, R, s, start = m.table[pc], m.registers[w], m.scratch, m.scratch[ADDRESS]
    storing, per_lane = ins[ops.OP] == ops.STORE, size >> 2
    first = ins[ops.C] if storing else ins[ops.D]
    count = np.int64(32 if s[PATTERN] == CONTIGUOUS else 1)
    l = np.int64(0)
    while l < count:
        address = start + l * size
        here = min(count - l, (PAGE_BYTES - (address & (PAGE_BYTES - 1))) >> np.int64(trailing_zeros(np.uint32(size))))
        page, at, array = locate(m, address, here * size, s[HINT])
        if page < 0:
            return False
        s[HINT] = array
        if storing:
            m.pages.arrays[array, CHANGED] = 1
        words = m.pages.words[page]
        for k in range(per_lane):
            D = R[first + k]
            if count == 1 and storing:
                words[at + k] = D[31]  # the last lane wins
            elif count == 1:
                value = words[at + k]
                for i in range(32):
                    D[i] = value
            elif storing:
                for i in range(here):
                    words[at + k + i * per_lane] = D[l + i]
            else:
                for i in range(here):
                    D[l + i] = words[at + k + i * per_lane]
        l += here
    return True


@compiled
def _first_outside(m: Any, mask: Any, size: int) -> int:
    """Say which lane first asks for a place of global memory where it may not."""
    for l in range(32):
        address = m.scratch[ADDRESS + l]
        if not lane_bit(mask, l):
            continue
        if find_array(m.pages, address, size) < 0:
            return failed(m, np.int64(OUT_OF_RANGE), l, address, size)
        if address & (size - 1):
            return failed(m, np.int64(MISALIGNED), l, address, size)
    return NO_PAGES


@compiled
def places(m: Any, mask: Any, size: int, at: Any, storing: bool, moving: bool) -> int:
    """Find the word of global memory that each lane asks for, counted over all pages: once for lanes in one line."""
    s, row, starts = m.scratch, m.patterns[recall(m, mask, size)], lanes()
    start = first_line(s, mask)
    if row[PATTERN_ODD]:
        return _first_outside(m, mask, size)
    if not moving:  # it is only seen whether it may go there
        for i in range(row[PATTERN_COUNT]):
            array = array_of(m, (start + row[PATTERN_LINES + i]) << 7, row[PATTERN_ENDS + i], s[HINT])
            if array < 0:
                return _first_outside(m, mask, size)
            s[HINT] = array
        return FINE
    for i in range(row[PATTERN_COUNT]):
        line, sectors = start + row[PATTERN_LINES + i], np.uint32(row[PATTERN_LINE_SECTORS + i])
        page, array = locate_line(m, line, sectors, row[PATTERN_ENDS + i], s[HINT])
        if page < 0:
            return _first_outside(m, mask, size)
        s[HINT] = array
        starts[i] = np.uint32(page * PAGE_WORDS + (line & 7) * _LINE_WORDS)
        if storing:
            m.pages.arrays[array, CHANGED] = 1
    for l in range(32):
        at[l] = starts[row[PATTERN_WHICH + l]] + np.uint32((row[PATTERN_PLACES + l] >> 2) & (_LINE_WORDS - 1))
    return FINE


@compiled
def _move_global(m: Any, pc: int, w: int, mask: Any) -> int:
    """Load or store words of global memory."""
    ins, R, s = m.table[pc], m.registers[w], m.scratch
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    if s[PATTERN] != SCATTERED and s[ADDRESS] & (size - 1) == 0 and _move_span(m, pc, w, size):
        return FINE
    at, made, words = lanes(), lanes(), m.pages.words
    status = places(m, mask, size, at, storing, True)
    if status != FINE:
        return status
    for k in range(size >> 2):
        D = R[first + k]
        if storing:
            for l in range(32):
                if lane_bit(mask, l):
                    words[at[l] >> _PAGE_BITS, (at[l] & _IN_PAGE) + np.uint32(k)] = D[l]
        else:
            for l in range(32):
                made[l] = words[at[l] >> _PAGE_BITS, (at[l] & _IN_PAGE) + np.uint32(k)]
            keep(D, made, mask)
    return FINE


@handler(ops.MEMORY, ops.LOAD, ops.STORE)
def _move(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Load to or store from registers."""
    ins = m.table[pc]
    if no_pages(m):
        return NO_PAGES
    if mask == np.uint32(0):
        return FINE
    lane_addresses(m, pc, w, mask)
    rest, storing = np.uint32(mask), np.int64(ins[ops.OP] == ops.STORE)
    status: Any = np.int64(FINE)
    while rest and status == FINE:
        space, part = next_part(m, pc, rest)
        rest ^= part
        if ins[ops.MODE] & ops.NO_VALUES and space == ops.GLOBAL:
            status = places(m, part, ins[ops.Z] & 255, lanes(), storing != 0, False)
        elif ins[ops.Z] & 255 < 4 and not ins[ops.MODE] & ops.NO_VALUES:
            status = call(m.services[SMALL], m, pc, w, space, part)
        elif space == ops.SHARED:
            status = _move_inside(m, pc, w, part, m.shared[m.warps[w, SLOT]], np.int64(1), np.int64(SHARED_RANGE))
        elif space == ops.LOCAL and m.scratch[PATTERN] == SAME:
            status = _move_rows(m, pc, w)
        elif space == ops.LOCAL:
            status = _move_inside(m, pc, w, part, m.local[w], np.int64(32), np.int64(LOCAL_RANGE))
        else:
            status = _move_global(m, pc, w, part)
        if status == FINE:
            status = call(m.services[ACCOUNT], m, pc, w, space + 16 * storing, part)
    return status
