"""Marks of unknown values in memory: a bit per word of global, shared and local memory.

Nothing here runs while no value of the run is unknown. What stores an unknown value marks the words it wrote, what
stores a known one clears them, and a load of a marked word gives unknown. Bytes and halves mark their whole word; a
known one inside a marked word leaves the mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.access import lane_addresses, space_of
from warplens.emulator.bits import compiled
from warplens.emulator.handlers import MARKS, service
from warplens.emulator.integer import lane_bit
from warplens.emulator.layout import ADDRESS, FINE, HINT, NO_PAGES, SLOT, SOME_UNKNOWN, STORED_UNKNOWN, UNKNOWN_ADDRESS
from warplens.emulator.pages import locate, no_pages

_ALL = np.uint32(0xFFFFFFFF)


@compiled
def _place(s: Any, memory: Any, space: int, w: int, slot: int, lane: int, address: Any) -> Any:
    """Return (row, bit) of a word's mark, row -1 where there is no memory."""
    at = (address & 0xFFFFFF) >> 2
    if space == ops.SHARED:
        return (slot, at) if at < memory.shared.shape[1] else (np.int64(-1), at)
    if space == ops.LOCAL:
        at = 32 * at + lane
        return (w, at) if at < memory.local.shape[1] else (np.int64(-1), at)
    page, place, _ = locate(memory, address, np.int64(1), memory.scratch[HINT])
    return page, place


@compiled
def _rows(s: Any, space: int) -> Any:
    return s.marks_shared if space == ops.SHARED else s.marks_local if space == ops.LOCAL else s.marks_global


@compiled
def marked(s: Any, memory: Any, space: int, w: int, slot: int, lane: int, address: Any) -> bool:
    """Whether the word at an address is unknown."""
    row, at = _place(s, memory, space, w, slot, lane, address)
    return row >= 0 and (_rows(s, space)[row, at >> 5] >> np.uint32(at & 31)) & np.uint32(1) != 0


@compiled
def mark(s: Any, memory: Any, space: int, w: int, slot: int, lane: int, address: Any, unknown: bool) -> None:
    """Mark the word at an address as unknown, or as known."""
    row, at = _place(s, memory, space, w, slot, lane, address)
    if row < 0:
        return
    rows, bit = _rows(s, space), np.uint32(1) << np.uint32(at & 31)
    if unknown:
        rows[row, at >> 5] |= bit
        s.flags[SOME_UNKNOWN] = 1
    else:
        rows[row, at >> 5] &= np.uint32(bit ^ _ALL)


@compiled
def _lanes(s: Any, w: int, row: int, lanes: Any, unknown: Any) -> None:
    """Say which of some lanes of a register are unknown."""
    s.unknown[w, row] = (s.unknown[w, row] & np.uint32(lanes ^ _ALL)) | (unknown & lanes)


@compiled
def _plain(ins: Any, s: Any, memory: Any, w: int, slot: int, lanes: Any, space: int) -> None:
    """A load or store of registers."""
    size, storing = ins[ops.Z] & 255, ins[ops.OP] == ops.STORE
    for k in range(max(1, size >> 2)):
        found = np.uint32(0)
        stored = s.unknown[w, ins[ops.C] + k]
        for l in range(32):
            if not lane_bit(lanes, l):
                continue
            address = memory.scratch[ADDRESS + l] + 4 * k
            if storing:
                if size >= 4 or lane_bit(stored, l):
                    mark(s, memory, space, w, slot, l, address, lane_bit(stored, l))
            elif marked(s, memory, space, w, slot, l, address):
                found |= np.uint32(1) << np.uint32(l)
        if not storing:
            _lanes(s, w, ins[ops.D] + k, lanes, found)


@compiled
def _atomic(ins: Any, s: Any, memory: Any, w: int, slot: int, lanes: Any, space: int) -> None:
    """An atomic operation: unknown stays what was, or what comes in."""
    wide = ins[ops.Z] & 255 == 8
    given = s.unknown[w, ins[ops.C]] | s.unknown[w, ins[ops.C_AND]]
    if wide:
        given |= s.unknown[w, ins[ops.C] + 1] | s.unknown[w, ins[ops.C_AND] + 1]
    found = np.uint32(0)
    for l in range(32):
        if not lane_bit(lanes, l):
            continue
        address = memory.scratch[ADDRESS + l]
        old = marked(s, memory, space, w, slot, l, address)
        old = old or (wide and marked(s, memory, space, w, slot, l, address + 4))
        found |= np.uint32(old) << np.uint32(l)
        now = lane_bit(given, l) or (old and ins[ops.C_ADD] != ops.EXCHANGE)
        mark(s, memory, space, w, slot, l, address, now)
        if wide:
            mark(s, memory, space, w, slot, l, address + 4, now)
    if ins[ops.OP] == ops.ATOMIC:
        _lanes(s, w, ins[ops.D], lanes, found)
        if wide:
            _lanes(s, w, ins[ops.D] + 1, lanes, found)


@compiled
def _copy(ins: Any, R: Any, s: Any, memory: Any, w: int, slot: int, lanes: Any) -> None:
    """A copy from global to shared memory."""
    for l in range(32):
        if lane_bit(lanes, l):
            into = np.int64(R[ins[ops.C]][l]) + ins[ops.C_ADD] + np.int64(R[ins[ops.C_XOR]][l])
            for k in range((ins[ops.Z] & 255) >> 2):
                found = marked(s, memory, np.int64(ops.GLOBAL), w, slot, l, memory.scratch[ADDRESS + l] + 4 * k)
                mark(s, memory, np.int64(ops.SHARED), w, slot, l, into + 4 * k, found)


@compiled
def _matrix(ins: Any, s: Any, memory: Any, w: int, slot: int, lanes: Any) -> None:
    """8x8 matrices, a row per address: loads are unknown as a whole, stores mark what they touch."""
    for m in range(ins[ops.Z] & 255):
        unknown = np.uint32(0)
        if ins[ops.OP] == ops.STORE_MATRIX:
            unknown = s.unknown[w, ins[ops.C] + m]
        for i in range(8):
            for k in range(4):
                address = memory.scratch[ADDRESS + 8 * m + i] + 4 * k
                if ins[ops.OP] == ops.STORE_MATRIX:
                    mark(s, memory, np.int64(ops.SHARED), w, slot, 0, address, unknown != 0)
                elif marked(s, memory, np.int64(ops.SHARED), w, slot, 0, address):
                    unknown = _ALL
        if ins[ops.OP] == ops.LOAD_MATRIX:
            _lanes(s, w, ins[ops.D] + m, lanes, unknown)


@compiled
def _unknown_address(s: Any, ins: Any, w: int, active: Any) -> bool:
    found = s.unknown[w, ins[ops.A]] | s.unknown[w, ins[ops.B]] | s.unknown[w, -1 - ins[ops.GUARD]]
    if ins[ops.Y] & 1:
        found |= s.unknown[w, ins[ops.A] + 1]
    if ins[ops.OP] == ops.COPY:
        found |= s.unknown[w, ins[ops.C]] | s.unknown[w, ins[ops.C_XOR]]
    return (found & active) != 0


@service(MARKS)
def _follow_access(m: Any, pc: int, w: int, reads_unknown: int, active: Any) -> int:
    """Carry unknown values between registers and memory for one memory instruction, before it runs."""
    ins, R, slot = m.table[pc], m.registers[w], m.warps[w, SLOT]
    if active == 0:
        return FINE
    if no_pages(m):
        return NO_PAGES
    if reads_unknown:
        if _unknown_address(m, ins, w, active):
            return UNKNOWN_ADDRESS
        m.flags[STORED_UNKNOWN] += ins[ops.OP] != ops.LOAD
    lane_addresses(m, pc, w, active)
    op = ins[ops.OP]
    if op == ops.COPY:
        _copy(ins, R, m, m, w, slot, active)
    elif op in (ops.LOAD_MATRIX, ops.STORE_MATRIX):
        _matrix(ins, m, m, w, slot, active)
    elif op != ops.SPACE_QUERY:
        for space in (ops.SHARED, ops.GLOBAL, ops.LOCAL):
            lanes = space_of(m, pc, active, space)
            if lanes and op in (ops.LOAD, ops.STORE):
                _plain(ins, m, m, w, slot, lanes, space)
            elif lanes:
                _atomic(ins, m, m, w, slot, lanes, space)
    return FINE
