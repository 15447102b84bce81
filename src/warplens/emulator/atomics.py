"""Atomic operations, copies from global to shared memory, matrices of halves, constants by a register."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.access import failed, lane_addresses, next_part, places, read, space_of, write, write_part
from warplens.emulator.bits import bits_of, bits_of_double, compiled, double_of, float_of, lanes
from warplens.emulator.half import from_half, to_half
from warplens.emulator.handlers import ACCOUNT, call, handler
from warplens.emulator.integer import lane_bit, predicate, set_predicate
from warplens.emulator.layout import (
    ADDRESS,
    BEYOND,
    FINE,
    INTO,
    MISALIGNED,
    NO_PAGES,
    PATTERN,
    RECALLED,
    REQUESTS,
    SCATTERED,
    SECTORS,
    SLOT,
    USEFUL_BYTES,
    WAVEFRONTS,
)
from warplens.emulator.pages import no_pages
from warplens.emulator.wavefronts import (
    PATTERN_WAVEFRONTS,
    copying_wavefronts,
    passing_sectors,
    passing_wavefronts,
    queue,
    recall,
)


@compiled
def _half_sum(a: Any, b: Any, bf16: int) -> Any:
    low = to_half(from_half(a, bf16) + from_half(b, bf16), bf16, 0)
    high = to_half(from_half(a >> np.uint32(16), bf16) + from_half(b >> np.uint32(16), bf16), bf16, 0)
    return np.uint64(low | (high << np.uint32(16)))


@compiled
def combined(how: int, kind: int, old: Any, value: Any, other: Any) -> Any:
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
def _add_shared(m: Any, pc: int, w: int, mask: Any) -> bool:
    """Add whole numbers to words of shared memory, the most frequent atomic operation; whether it could be done."""
    ins, R, s, words = m.table[pc], m.registers[w], m.scratch, m.shared[m.warps[w, SLOT]]
    values, D, returns, end = R[ins[ops.C]], R[ins[ops.D]], ins[ops.OP] == ops.ATOMIC, 4 * words.shape[0]
    for l in range(32):
        address = s[ADDRESS + l] & 0xFFFFFF
        if lane_bit(mask, l) and (address & 3 or address >= end):
            return False
    for l in range(32):
        if lane_bit(mask, l):
            at = (s[ADDRESS + l] & 0xFFFFFF) >> 2
            old, value = words[at], values[l]
            words[at] = np.uint32(old + value)
            if returns:
                D[l] = old
    set_predicate(m.predicates[w], ins[ops.PD], mask, mask)
    return True


@compiled
def _combine(m: Any, pc: int, w: int, mask: Any, space: int) -> int:
    """Read, combine and write, lane after lane. C: value, C_AND: row of the second value, C_ADD: operation."""
    ins, R, slot = m.table[pc], m.registers[w], m.warps[w, SLOT]
    kind, how = ins[ops.C_XOR], ins[ops.C_ADD]
    wide = kind in (ops.T_U64, ops.T_S64, ops.T_F64)
    size = 8 if wide else 4
    values, others, done = ins[ops.C], ins[ops.C_AND], np.uint32(0)
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        address = m.scratch[ADDRESS + l]
        if address & (size - 1):
            return failed(m, np.int64(MISALIGNED), l, address, size)
        status, word = read(m, space, w, slot, l, address)
        if status != FINE:
            return failed(m, status, l, address, size)
        old, value, other = np.uint64(word), np.uint64(R[values][l]), np.uint64(R[others][l])
        if wide:
            old |= np.uint64(read(m, space, w, slot, l, address + 4)[1]) << np.uint64(32)
            value |= np.uint64(R[values + 1][l]) << np.uint64(32)
            other |= np.uint64(R[others + 1][l]) << np.uint64(32)
        made = combined(how, kind, old, value, other)
        write(m, space, w, slot, l, address, np.uint32(made & np.uint64(0xFFFFFFFF)))
        if wide:
            write(m, space, w, slot, l, address + 4, np.uint32(made >> np.uint64(32)))
        swapped = old == value or not ins[ops.MODE]
        done |= np.uint32(swapped) << np.uint32(l)
        if ins[ops.MODE]:  # CAST: says whether it has swapped, in as many bits as it swaps
            R[ins[ops.D], l] = np.uint32(swapped)
            if wide:
                R[ins[ops.D] + 1, l] = np.uint32(0)
        elif ins[ops.OP] == ops.ATOMIC:
            R[ins[ops.D], l] = np.uint32(old & np.uint64(0xFFFFFFFF))
            if wide:
                R[ins[ops.D] + 1, l] = np.uint32(old >> np.uint64(32))
    set_predicate(m.predicates[w], ins[ops.PD], mask, done)
    return FINE


@handler(ops.MEMORY, ops.ATOMIC, ops.REDUCTION)
def _atomic(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run an atomic operation. A generic one that can say so is only done globally."""
    ins = m.table[pc]
    if no_pages(m):
        return NO_PAGES
    lane_addresses(m, pc, w, mask)
    rest = np.uint32(mask)
    status: Any = np.int64(FINE)
    adds = ins[ops.C_ADD] == ops.ADD_TO and ins[ops.C_XOR] in (ops.T_U32, ops.T_S32)
    refuses = ins[ops.Z] >> 8 == ops.GENERIC and ins[ops.OP] == ops.ATOMIC and ins[ops.PD] >= 0
    while rest and status == FINE:
        space, part = next_part(m, pc, rest)
        rest ^= part
        if refuses and space != ops.GLOBAL:
            set_predicate(m.predicates[w], ins[ops.PD], part, np.uint32(0))
            continue
        if not (adds and space == ops.SHARED and _add_shared(m, pc, w, part)):
            status = _combine(m, pc, w, part, space)
        if status == FINE:
            queue(m, pc, part)
            status = call(m.services[ACCOUNT], m, pc, w, space + 16 * 2, part)
    return status


@handler(ops.MEMORY, ops.COPY)
def _copy(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Copy from global to shared memory (LDGSTS): the addresses in shared memory are in row C plus C_ADD.

    With ZFILL the address, modulo the size, says how many of the last bytes are zeros instead.
    """
    ins, R, slot = m.table[pc], m.registers[w], m.warps[w, SLOT]
    if no_pages(m):
        return NO_PAGES
    if mask == np.uint32(0):
        return FINE
    lane_addresses(m, pc, w, mask)
    space, _ = next_part(m, pc, mask)
    size, limit = ins[ops.Z] & 255, 4 * m.shared.shape[1]
    target, wanted = R[ins[ops.C]], predicate(m.predicates[w], ins[ops.PS], ins[ops.PS_NOT])
    looked_at = np.uint32(0)  # lanes that copy all of their bytes, of which nobody needs the values
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        into = np.int64(target[l]) + ins[ops.C_ADD] + np.int64(R[ins[ops.C_XOR]][l])
        m.scratch[INTO + l] = into
        there = size  # so many bytes are read
        if ins[ops.MODE] & 2:
            there -= m.scratch[ADDRESS + l] & (size - 1)
            m.scratch[ADDRESS + l] &= ~(size - 1)
        if m.scratch[ADDRESS + l] & (size - 1) or into & (size - 1):
            return failed(m, np.int64(MISALIGNED), l, m.scratch[ADDRESS + l], size)
        alone = not (ins[ops.MODE] & ops.NO_VALUES and there == size and (into & 0xFFFFFF) + size <= limit)
        looked_at |= np.uint32(not alone) << np.uint32(l)
        for k in range(size // 4 if alone else 0):
            status, word = np.int64(FINE), np.uint32(0)  # zeros where the copy is told to ignore its source
            if lane_bit(wanted, l) and 4 * k < there:
                status, word = read(m, np.int64(ops.GLOBAL), w, slot, l, m.scratch[ADDRESS + l] + 4 * k)
                if there - 4 * k < 4:
                    word &= np.uint32((1 << (8 * (there - 4 * k))) - 1)
            if status == FINE:
                status = read(m, np.int64(ops.SHARED), w, slot, l, into + 4 * k)[0]
            if status == FINE:
                write(m, np.int64(ops.SHARED), w, slot, l, into + 4 * k, word)
            if status != FINE:
                return failed(m, status, l, m.scratch[ADDRESS + l], size)
    sectors, wavefronts = m.stats[pc, SECTORS], m.stats[pc, WAVEFRONTS]
    reading = np.uint32(mask & wanted)  # the others write zeros, and ask for nothing
    if looked_at & reading:
        found = places(m, np.uint32(looked_at & reading), size, lanes(), False, False)
        if found != FINE:
            return found
    m.scratch[RECALLED] = m.scratch[RECALLED] if looked_at & reading == reading else -1
    m.scratch[PATTERN] = m.scratch[PATTERN] if reading == mask else SCATTERED
    accounted: int = call(m.services[ACCOUNT], m, pc, w, space, reading) if reading else FINE
    if ins[ops.MODE] & 1:
        m.stats[pc, SECTORS] = sectors + passing_sectors(m.scratch, reading)
        m.stats[pc, WAVEFRONTS] = wavefronts + passing_wavefronts(m.scratch, mask)
    else:
        m.stats[pc, WAVEFRONTS] = wavefronts + copying_wavefronts(m.scratch, mask, size)
    return accounted


@handler(ops.MEMORY, ops.LOAD_MATRIX, ops.STORE_MATRIX)
def _matrix(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Load or store 8x8 matrices of 16-bit elements (LDSM, STSM): lane 8m+i has the address of row i of matrix m."""
    ins, R, slot = m.table[pc], m.registers[w], m.warps[w, SLOT]
    if mask == np.uint32(0):
        return FINE
    lane_addresses(m, pc, w, mask)
    count, transposed, storing = ins[ops.Z] & 255, ins[ops.MODE] & 1, ins[ops.OP] == ops.STORE_MATRIX
    for l in range(8 * count if ins[ops.MODE] & ops.NO_VALUES else 0):
        address = m.scratch[ADDRESS + l] + 14  # the last element of a row
        status = read(m, np.int64(ops.SHARED), w, slot, l, address)[0]
        if status != FINE:
            return failed(m, status, l, address, np.int64(2))
    for n in range(count if not ins[ops.MODE] & ops.NO_VALUES else 0):
        for l in range(32):
            made = np.uint32(0)
            for h in range(2):
                i, j = (l // 4, 2 * (l % 4) + h) if not transposed else (2 * (l % 4) + h, l // 4)
                address = m.scratch[ADDRESS + 8 * n + i] + 2 * j
                if storing:
                    value = np.uint32(R[ins[ops.C] + n][l] >> np.uint32(16 * h))
                    status = write_part(m, np.int64(ops.SHARED), w, slot, l, address, np.int64(2), value)
                else:
                    status, word = read(m, np.int64(ops.SHARED), w, slot, l, address)
                    part = np.uint32(word >> np.uint32(8 * (address & 3))) & np.uint32(0xFFFF)
                    made |= part << np.uint32(16 * h)
                if status != FINE:
                    return failed(m, status, l, address, np.int64(2))
            if not storing:
                R[ins[ops.D] + n, l] = made
    m.stats[pc, REQUESTS] += 1
    m.stats[pc, USEFUL_BYTES] += 128 * count
    for n in range(count):
        rows = np.uint32(np.uint32(0xFF) << np.uint32(8 * n))
        m.scratch[RECALLED] = -1
        m.stats[pc, WAVEFRONTS] += m.patterns[recall(m, rows, np.int64(16)), PATTERN_WAVEFRONTS]
    return FINE


@handler(ops.MEMORY, ops.SPACE_QUERY)
def _query(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Say whether a generic address is in a space (QSPC)."""
    ins = m.table[pc]
    if mask != np.uint32(0):
        lane_addresses(m, pc, w, mask)
        set_predicate(m.predicates[w], ins[ops.PD], mask, space_of(m, pc, mask, ins[ops.Z] & 255))
    return FINE


@handler(ops.INTEGER, ops.LOAD_CONSTANT)
def _load_constant(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Load from a constant bank by a register: words or parts of them."""
    ins, R = m.table[pc], m.registers[w]
    A = R[ins[ops.A]]
    bank, size = m.banks[ins[ops.Y]], ins[ops.Z]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        at = np.int64(np.uint32(np.int64(A[l]) + ins[ops.X]))
        if at + size > ins[ops.C_ADD]:
            m.flags[BEYOND] = pc + 1
        word = bank[(at >> 2) % bank.shape[0]]
        if size < 4:
            word = np.uint32(word >> np.uint32(8 * (at & 3))) & (np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF))
            if ins[ops.MODE] & ops.SIGNED and word >> np.uint32(8 * size - 1):
                word |= np.uint32(0xFFFFFF00) if size == 1 else np.uint32(0xFFFF0000)
        R[ins[ops.D], l] = word
        for k in range(1, size >> 2):
            R[ins[ops.D] + k, l] = bank[((at >> 2) + k) % bank.shape[0]]
    return FINE
