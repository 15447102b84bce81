"""Memory instructions: addresses of the lanes, the words they touch, and what the access costs the memory system.

Costs are counted per instruction, in the columns of `stats`: requests, bytes asked for, 32-byte sectors and 128-byte
lines touched (global, local), wavefronts of shared memory (each bank serves one word at a time; lanes that ask for
the same word share it), and the longest queue at one address (atomics).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warplens.emulate import ops
from warplens.emulate.bits import bits_of, bits_of_double, compiled, double_of, float_of
from warplens.emulate.exchange import count_bits
from warplens.emulate.half import from_half, to_half
from warplens.emulate.integer_parts import lane_bit, set_predicate
from warplens.emulate.layout import (
    ADDRESS,
    CONTIGUOUS,
    ERROR,
    FINE,
    HINT,
    LOCAL_RANGE,
    MISALIGNED,
    NO_PAGES,
    OUT_OF_RANGE,
    PATTERN,
    REQUESTS,
    SCATTERED,
    SHARED_RANGE,
    USEFUL_BYTES,
    WAVEFRONTS,
)
from warplens.emulate.pages import FILLED, locate
from warplens.emulate.transactions import find_pattern, queue, shared_wavefronts, touch

# Where the windows of shared and local memory lie among generic addresses (upper words).
SHARED_WINDOW, LOCAL_WINDOW = 0x7F00, 0x7F01
LOCAL_BASE = 1 << 46  # where local memory lies for the caches


class Memory(NamedTuple):
    """All that a memory instruction reaches."""

    pages: Any
    shared: Any  # words of each resident block
    local: Any  # words of each warp, by lane
    banks: Any  # constant banks: words, one row per bank
    stats: Any
    scratch: Any
    l1: Any  # caches, and the map of touched sectors: see cache.py
    l2: Any
    touched: Any
    trace: Any  # rows of warp, first instruction, one behind the last: the runs in order


@compiled
def _addresses(ins: Any, R: Any, mask: Any, out: Any) -> None:
    """Compute base + uniform base + offset for each lane. Y: 1 base of 64 bits, 2 uniform of 64 bits, then a shift."""
    A, B, how, offset = R[ins[ops.A]], R[ins[ops.B]], ins[ops.Y], ins[ops.X]
    shift = how >> 2
    if how & 1:
        A2 = R[ins[ops.A] + 1]
        for l in range(32):
            out[l] = (np.int64(A2[l]) << 32) + np.int64(A[l]) + offset
    else:
        for l in range(32):
            out[l] = (np.int64(A[l]) << shift) + offset
    if how & 2:
        B2 = R[ins[ops.B] + 1]
        for l in range(32):
            out[l] += (np.int64(B2[l]) << 32) + np.int64(B[l])
    else:
        for l in range(32):
            out[l] += np.int64(B[l])


@compiled
def _space(ins: Any, memory: Any, mask: Any) -> int:
    """Return the space of an access; a generic one is told by the upper word of its first address."""
    space = ins[ops.Z] >> 8
    if space != ops.GENERIC:
        return space
    for l in range(32):
        if lane_bit(mask, l):
            window = memory.scratch[ADDRESS + l] >> 32
            if window == SHARED_WINDOW:
                return ops.SHARED
            return ops.LOCAL if window == LOCAL_WINDOW else ops.GLOBAL
    return ops.GLOBAL


@compiled
def _read(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any) -> Any:
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
    page, place, array = locate(memory.pages, address, memory.scratch[HINT])
    if page < 0:
        return OUT_OF_RANGE if page == -1 else NO_PAGES, np.uint32(0)
    memory.scratch[HINT] = array
    return FINE, memory.pages.words[page, place]


@compiled
def _write(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any, value: Any) -> None:
    """Write the 32-bit word at an address that has been read before."""
    at = (address & 0xFFFFFF) >> 2
    if space == ops.SHARED:
        memory.shared[slot, at] = value
    elif space == ops.LOCAL:
        memory.local[warp, 32 * at + lane] = value
    else:
        page, place, _ = locate(memory.pages, address, memory.scratch[HINT])
        memory.pages.words[page, place] = value


@compiled
def _failed(memory: Any, status: int, lane: int, address: Any, size: int) -> int:
    s = memory.scratch
    s[ERROR + 1], s[ERROR + 2], s[ERROR + 3] = lane, address, size
    return status


@compiled
def _part(memory: Any, space: int, warp: int, slot: int, lane: int, address: Any, size: int, value: Any) -> Any:
    """Write a byte or half inside its word."""
    status, old = _read(memory, space, warp, slot, lane, address)
    if status == FINE:
        shift = np.uint32(8 * (address & 3))
        keep = (np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF)) << shift
        made = np.uint32((old & np.uint32(keep ^ np.uint32(0xFFFFFFFF))) | ((np.uint32(value) << shift) & keep))
        _write(memory, space, warp, slot, lane, address, made)
    return status


@compiled
def _move_small(ins: Any, R: Any, mask: Any, memory: Any, space: int, warp: int, slot: int) -> int:
    """Load or store bytes and halves, lane by lane."""
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = memory.scratch[ADDRESS + l]
        if address & (size - 1):
            return _failed(memory, np.int64(MISALIGNED), l, address, size)
        if storing:
            status = _part(memory, space, warp, slot, l, address, size, R[first, l])
        else:
            status, word = _read(memory, space, warp, slot, l, address)
            value = np.uint32(word >> np.uint32(8 * (address & 3)))
            value &= np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF)
            if ins[ops.MODE] & ops.SIGNED and value >> np.uint32(8 * size - 1):
                value |= np.uint32(0xFFFFFF00) if size == 1 else np.uint32(0xFFFF0000)
            R[first, l] = value
        if status != FINE:
            return _failed(memory, status, l, address, size)
    return FINE


@compiled
def _move_inside(ins: Any, R: Any, mask: Any, memory: Any, words: Any, per_lane: int, failure: int) -> int:
    """Load or store words of shared memory (one copy) or of local memory (one copy per lane)."""
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    scratch = memory.scratch
    limit = words.shape[0] // per_lane
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = scratch[ADDRESS + l] & 0xFFFFFF
        if address & (size - 1):
            return _failed(memory, np.int64(MISALIGNED), l, address, size)
        at = address >> 2
        if at + (size >> 2) > limit:
            return _failed(memory, failure, l, address, size)
        at = at * per_lane + (l if per_lane > 1 else 0)
        for w in range(size >> 2):
            if storing:
                words[at + w * per_lane] = R[first + w, l]
            else:
                R[first + w, l] = words[at + w * per_lane]
    return FINE


@compiled
def _move_global(ins: Any, R: Any, mask: Any, memory: Any) -> int:
    """Load or store words of global memory; most lanes are in the page of the lane before."""
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    first = ins[ops.C] if storing else ins[ops.D]
    scratch, words = memory.scratch, memory.pages.words
    known, page, filled = np.int64(-1), np.int64(0), np.uint32(0)
    start = scratch[ADDRESS]
    if scratch[PATTERN] != SCATTERED and not storing and start & (size - 1) == 0:
        near = start >> 7 == (scratch[ADDRESS + 31] + size - 1) >> 7
        if near:  # one line, the most frequent
            page, at, array = locate(memory.pages, start, scratch[HINT])
            if page < 0:
                return _failed(memory, np.int64(OUT_OF_RANGE if page == -1 else NO_PAGES), 0, start, size)
            scratch[HINT] = array
            step = size >> 2 if scratch[PATTERN] == CONTIGUOUS else 0
            line = words[page]
            for w in range(size >> 2):
                D = R[first + w]
                for l in range(32):
                    D[l] = line[at + w + l * step]
            return FINE
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = scratch[ADDRESS + l]
        if address & (size - 1):
            return _failed(memory, np.int64(MISALIGNED), l, address, size)
        line = np.uint32(address >> 7) & np.uint32(31)
        if address >> 12 != known or not filled >> line & np.uint32(1):
            page, _, array = locate(memory.pages, address, scratch[HINT])
            if page < 0:
                return _failed(memory, np.int64(OUT_OF_RANGE if page == -1 else NO_PAGES), l, address, size)
            scratch[HINT] = array
            known, filled = address >> 12, words[page, FILLED]
        at = (address >> 2) & 1023
        for w in range(size >> 2):
            if storing:
                words[page, at + w] = R[first + w, l]
            else:
                R[first + w, l] = words[page, at + w]
    return FINE


@compiled
def _move(ins: Any, R: Any, mask: Any, memory: Any, space: int, warp: int, slot: int) -> int:
    """Load to or store from registers, lane by lane."""
    if ins[ops.Z] & 255 < 4:
        return _move_small(ins, R, mask, memory, space, warp, slot)
    if space == ops.SHARED:
        return _move_inside(ins, R, mask, memory, memory.shared[slot], np.int64(1), np.int64(SHARED_RANGE))
    if space == ops.LOCAL:
        return _move_inside(ins, R, mask, memory, memory.local[warp], np.int64(32), np.int64(LOCAL_RANGE))
    return _move_global(ins, R, mask, memory)


@compiled
def _half_sum(a: Any, b: Any, bf16: int) -> Any:
    low = to_half(from_half(a, bf16) + from_half(b, bf16), bf16, 0)
    high = to_half(from_half(a >> np.uint32(16), bf16) + from_half(b >> np.uint32(16), bf16), bf16, 0)
    return np.uint64(low | (high << np.uint32(16)))


@compiled
def _combined(how: int, kind: int, old: Any, value: Any, other: Any) -> Any:
    """Return what an atomic operation leaves in memory."""
    if how == ops.COMPARE_AND_SWAP:
        return other if old == value else old
    if how == ops.EXCHANGE:
        return value
    if how == ops.AND_WITH:
        return old & value
    if how == ops.OR_WITH:
        return old | value
    if how == ops.XOR_WITH:
        return old ^ value
    if how == ops.INCREMENT:
        return np.uint64(0) if old >= value else old + np.uint64(1)
    if how == ops.DECREMENT:
        return value if old == np.uint64(0) or old > value else old - np.uint64(1)
    if kind == ops.T_F32:
        return np.uint64(bits_of(np.float32(float_of(np.uint32(old)) + float_of(np.uint32(value)))))
    if kind == ops.T_F64:
        return bits_of_double(double_of(old) + double_of(value))
    if kind in (ops.T_F16X2, ops.T_BF16X2):
        return _half_sum(np.uint32(old), np.uint32(value), ops.BF16 if kind == ops.T_BF16X2 else 0)
    if how == ops.ADD_TO:
        return old + value
    smaller = how == ops.MIN_OF
    if kind == ops.T_S32:
        x, y = np.int64(np.int32(np.uint32(old))), np.int64(np.int32(np.uint32(value)))
        return old if (x < y) == smaller else value
    if kind == ops.T_S64:
        return old if (np.int64(old) < np.int64(value)) == smaller else value
    return old if (old < value) == smaller else value


@compiled
def _atomic(ins: Any, R: Any, mask: Any, memory: Any, space: int, warp: int, slot: int) -> int:
    """Read, combine and write, lane after lane. C: value, C_AND: row of the second value, X2 in TARGET: operation."""
    kind, how = ins[ops.C_XOR], ins[ops.C_ADD]
    wide = kind in (ops.T_U64, ops.T_S64, ops.T_F64)
    size = 8 if wide else 4
    values, others = ins[ops.C], ins[ops.C_AND]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = memory.scratch[ADDRESS + l]
        if address & (size - 1):
            return _failed(memory, np.int64(MISALIGNED), l, address, size)
        status, word = _read(memory, space, warp, slot, l, address)
        if status != FINE:
            return _failed(memory, status, l, address, size)
        old, value, other = np.uint64(word), np.uint64(R[values][l]), np.uint64(R[others][l])
        if wide:
            old |= np.uint64(_read(memory, space, warp, slot, l, address + 4)[1]) << np.uint64(32)
            value |= np.uint64(R[values + 1][l]) << np.uint64(32)
            other |= np.uint64(R[others + 1][l]) << np.uint64(32)
        made = _combined(how, kind, old, value, other)
        _write(memory, space, warp, slot, l, address, np.uint32(made & np.uint64(0xFFFFFFFF)))
        if wide:
            _write(memory, space, warp, slot, l, address + 4, np.uint32(made >> np.uint64(32)))
        if ins[ops.OP] == ops.ATOMIC:
            R[ins[ops.D], l] = np.uint32(old & np.uint64(0xFFFFFFFF))
            if wide:
                R[ins[ops.D] + 1, l] = np.uint32(old >> np.uint64(32))
    return FINE


@compiled
def _copy(ins: Any, R: Any, P: Any, mask: Any, memory: Any, warp: int, slot: int) -> int:
    """Copy from global to shared memory (LDGSTS): the addresses in shared memory are in row C plus C_ADD."""
    size = ins[ops.Z] & 255
    target = R[ins[ops.C]]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        into = np.int64(target[l]) + ins[ops.C_ADD] + np.int64(R[ins[ops.C_XOR]][l])
        if memory.scratch[ADDRESS + l] & (size - 1) or into & (size - 1):
            return _failed(memory, np.int64(MISALIGNED), l, memory.scratch[ADDRESS + l], size)
        for w in range(size // 4):
            status, word = _read(memory, np.int64(ops.GLOBAL), warp, slot, l, memory.scratch[ADDRESS + l] + 4 * w)
            if status == FINE:
                status = _read(memory, np.int64(ops.SHARED), warp, slot, l, into + 4 * w)[0]
            if status == FINE:
                _write(memory, np.int64(ops.SHARED), warp, slot, l, into + 4 * w, word)
            if status != FINE:
                return _failed(memory, status, l, memory.scratch[ADDRESS + l], size)
    return FINE


@compiled
def _matrix(ins: Any, R: Any, mask: Any, memory: Any, warp: int, slot: int) -> int:
    """Load or store 8x8 matrices of 16-bit elements (LDSM, STSM): lane 8m+i has the address of row i of matrix m."""
    count, transposed, storing = ins[ops.Z] & 255, ins[ops.MODE], ins[ops.OP] == ops.STORE_MATRIX
    for m in range(count):
        for l in range(32):
            made = np.uint32(0)
            for h in range(2):
                i, j = (l // 4, 2 * (l % 4) + h) if not transposed else (2 * (l % 4) + h, l // 4)
                address = memory.scratch[ADDRESS + 8 * m + i] + 2 * j
                if storing:
                    value = np.uint32(R[ins[ops.C] + m][l] >> np.uint32(16 * h))
                    status = _part(memory, np.int64(ops.SHARED), warp, slot, l, address, np.int64(2), value)
                else:
                    status, word = _read(memory, np.int64(ops.SHARED), warp, slot, l, address)
                    part = np.uint32(word >> np.uint32(8 * (address & 3))) & np.uint32(0xFFFF)
                    made |= part << np.uint32(16 * h)
                if status != FINE:
                    return _failed(memory, status, l, address, np.int64(2))
            if not storing:
                R[ins[ops.D] + m, l] = made
    return FINE


@compiled
def access(
    ins: Any, pc: int, R: Any, P: Any, mask: Any, memory: Any, warp: int, slot: int, sm: int, number: int
) -> int:
    """Run one memory instruction; return how it went. `number` tells warps of the whole grid apart."""
    op = ins[ops.OP]
    stats = memory.stats
    if mask == np.uint32(0):
        return FINE
    _addresses(ins, R, mask, memory.scratch)
    space = _space(ins, memory, mask)
    find_pattern(memory.scratch, mask, ins[ops.Z] & 255)
    if op == ops.SPACE_QUERY:
        set_predicate(P, ins[ops.PD], mask, np.uint32(0xFFFFFFFF) if space == ins[ops.Z] & 255 else np.uint32(0))
        return FINE
    size = ins[ops.Z] & 255
    if op in (ops.LOAD, ops.STORE):
        status = _move(ins, R, mask, memory, space, warp, slot)
    elif op in (ops.ATOMIC, ops.REDUCTION):
        status = _atomic(ins, R, mask, memory, space, warp, slot)
        queue(memory, pc, mask)
    elif op == ops.COPY:
        status = _copy(ins, R, P, mask, memory, warp, slot)
    else:
        status = _matrix(ins, R, mask, memory, warp, slot)
        stats[pc, REQUESTS] += 1
        stats[pc, USEFUL_BYTES] += 128 * size
        for m in range(size):
            lanes = np.uint32(0xFF) << np.uint32(8 * m)
            stats[pc, WAVEFRONTS] += shared_wavefronts(memory.scratch, np.uint32(lanes), np.int64(16))
        return status
    if status != FINE:
        return status
    if space == ops.SHARED:
        stats[pc, REQUESTS] += 1
        stats[pc, USEFUL_BYTES] += size * count_bits(mask)
        stats[pc, WAVEFRONTS] += shared_wavefronts(memory.scratch, mask, size)
        return FINE
    if space == ops.LOCAL:
        for l in range(32):
            offset = memory.scratch[ADDRESS + l] & 0xFFFFFF
            memory.scratch[PATTERN] = SCATTERED
            memory.scratch[ADDRESS + l] = (
                LOCAL_BASE + (number * (memory.local.shape[1] >> 5) + (offset >> 2)) * 128 + 4 * l
            )
    writes = np.int64(0 if op in (ops.LOAD, ops.COPY) else 1 if op == ops.STORE else 2)
    touch(memory, pc, mask, size, writes, sm, space == ops.LOCAL)
    return FINE
