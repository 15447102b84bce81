"""Barriers in shared memory (mbarrier) and bulk copies, which arrive at them.

A barrier is 64 bits in shared memory that the kernel itself fills, as the hardware of sm_90 has them:

    bits 1-20   minus the arrivals of a phase      bits 43-62  minus those that are missing in this phase
    bits 21-42  bytes that are still to come       bit 63      parity of the phase

and of sm_80: in the low word 2**30 minus the arrivals, in the high one 2**31 minus those missing and the parity on top.

Copies are done when they are issued. A copy by a tensor map (whose format is not public) leaves unknown values from
its first byte to as many bytes as its barrier expects, and sets bit 0: whoever then waits for bytes alone goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator import ops
from warplens.emulator.access import failed, read, write
from warplens.emulator.atomics import combined
from warplens.emulator.bits import compiled, trailing_zeros
from warplens.emulator.handlers import handler
from warplens.emulator.integer import lane_bit, predicate, set_predicate
from warplens.emulator.layout import (
    AT_PHASE,
    DATA,
    FINE,
    GROUPS,
    LINE,
    LINE_SECTORS,
    MASK,
    MISALIGNED,
    NO_PAGES,
    PASSES,
    PC,
    READY,
    SHARED_RANGE,
    SLOT,
    SM,
    SOME_UNKNOWN,
    STATE,
    WAITS,
)
from warplens.emulator.marks import mark, marked
from warplens.emulator.pages import no_pages
from warplens.emulator.wavefronts import count_access

_ALL = np.uint32(0xFFFFFFFF)
_COUNT, _BYTES = (1 << 20) - 1, (1 << 22) - 1
_TOP = np.uint64(1) << np.uint64(63)


@compiled
def _barrier(memory: Any, slot: int, at: int) -> Any:
    return np.uint64(memory.shared[slot, at]) | (np.uint64(memory.shared[slot, at + 1]) << np.uint64(32))


@compiled
def _keep(memory: Any, slot: int, at: int, value: Any) -> None:
    memory.shared[slot, at] = np.uint32(value & np.uint64(0xFFFFFFFF))
    memory.shared[slot, at + 1] = np.uint32(value >> np.uint64(32))


@compiled
def _arrive(table: Any, s: Any, memory: Any, slot: int, at: int, arrivals: int, expected: int, leaves: int) -> None:
    """Arrive at a barrier, and expect bytes (less than none: these have come); end the phase if nothing is missing."""
    value = _barrier(memory, slot, at)
    total = (np.int64(value >> np.uint64(1)) + leaves) & _COUNT
    missing = (np.int64((value >> np.uint64(43)) & np.uint64(_COUNT)) + arrivals) & _COUNT
    coming = (np.int64((value >> np.uint64(21)) & np.uint64(_BYTES)) + expected) & _BYTES
    parity, given = value & _TOP, value & np.uint64(1)
    over = missing == 0 and coming == 0
    if over:
        missing, parity = total, parity ^ _TOP
    made = parity | (np.uint64(missing) << np.uint64(43)) | (np.uint64(coming) << np.uint64(21))
    _keep(memory, slot, at, made | (np.uint64(total) << np.uint64(1)) | (np.uint64(0) if over else given))
    if over:
        _wake(table, s, slot, at)


@compiled
def _arrive_word(memory: Any, slot: int, at: int) -> None:
    """Arrive at a barrier of sm_80."""
    low, high = np.int64(memory.shared[slot, at]), np.int64(memory.shared[slot, at + 1])
    parity, missing = high >> 31, (high + 1) & 0x7FFFFFFF
    if missing == 0:
        parity, missing = parity ^ 1, (low + (1 << 30)) & 0x7FFFFFFF
    memory.shared[slot, at + 1] = np.uint32((parity << 31) | missing)


@compiled
def _wake(table: Any, s: Any, slot: int, at: int) -> None:
    """Let the groups of a block go on that wait for the end of a barrier's phase; their predicate becomes true."""
    for w in range(s.warps.shape[0]):
        if s.warps[w, SLOT] != slot:
            continue
        for g in range(s.warps[w, GROUPS]):
            if s.warps[w, STATE + g] == AT_PHASE and s.warps[w, DATA + g] == at:
                P, ins = s.predicates[w], table[s.warps[w, PC + g]]
                active = np.uint32(s.warps[w, MASK + g]) & predicate(P, ins[ops.GUARD], ins[ops.GUARD_NOT])
                set_predicate(P, ins[ops.PD], np.uint32(active), _ALL)
                s.warps[w, STATE + g] = READY
                s.warps[w, PC + g] += 1


@compiled
def _place(ins: Any, R: Any, l: int) -> Any:
    """Return the word of shared memory that a lane addresses: row A plus row B plus X."""
    return ((np.int64(R[ins[ops.A]][l]) + np.int64(R[ins[ops.B]][l]) + ins[ops.X]) & 0xFFFFFF) >> 2


@compiled
def _arrivals(ins: Any, table: Any, R: Any, s: Any, memory: Any, slot: int, mask: Any) -> None:
    """Each lane arrives. Y: arrivals, Z: bytes expected, -1 of either: those in row C; MODE: see decode_memory.py."""
    first = np.int64(trailing_zeros(np.uint32(mask)))
    together = _barrier(memory, slot, _place(ins, R, first))
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        at, given = _place(ins, R, l), np.int64(R[ins[ops.C]][l])
        old = _barrier(memory, slot, at)
        if ins[ops.MODE] & 1:
            _arrive_word(memory, slot, at)
        else:
            arrivals = given if ins[ops.Y] < 0 else ins[ops.Y]
            expected = given if ins[ops.Z] < 0 else ins[ops.Z]
            expected = -expected if ins[ops.MODE] & 2 else expected
            _arrive(table, s, memory, slot, at, arrivals, expected, ins[ops.MODE] >> 2 & 1)
        if ins[ops.MODE] & 8:  # the lanes that arrived, and the barrier before the first of them
            old = np.uint64(mask) | (together >> np.uint64(32) << np.uint64(32))
        R[ins[ops.D], l] = np.uint32(old & np.uint64(0xFFFFFFFF))
        R[ins[ops.D] + 1, l] = np.uint32(old >> np.uint64(32))


@compiled
def _test(ins: Any, table: Any, R: Any, P: Any, s: Any, memory: Any, w: int, g: int, mask: Any) -> int:
    """Ask whether the phase of a parity (bit 31 of row C) is over; wait for it where all lanes ask for the same."""
    slot, over, first, same = s.warps[w, SLOT], np.uint32(0), np.int64(-1), True
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        at = _place(ins, R, l)
        value = _barrier(memory, slot, at)
        if value & np.uint64(1) and (value >> np.uint64(43)) & np.uint64(_COUNT) == np.uint64(0):
            left = np.int64((value >> np.uint64(21)) & np.uint64(_BYTES))
            _arrive(table, s, memory, slot, at, 0, -left, 0)  # only bytes of a tensor map's copy are missing
            value = _barrier(memory, slot, at)
        done = np.uint32(value >> np.uint64(63)) != R[ins[ops.C]][l] >> np.uint32(31)
        over |= np.uint32(done) << np.uint32(l)
        first, same = at if first < 0 else first, same and (first < 0 or at == first)
    if over == 0 and same and ins[ops.OP] == ops.MBARRIER_WAIT:
        s.warps[w, STATE + g], s.warps[w, DATA + g] = AT_PHASE, first
        return WAITS
    set_predicate(P, ins[ops.PD], mask, over)
    return FINE


@compiled
def _exchange(ins: Any, R: Any, memory: Any, slot: int, mask: Any) -> None:
    for l in range(32):
        if lane_bit(mask, l):
            at = _place(ins, R, l)
            old = _barrier(memory, slot, at)
            low, high = np.uint64(R[ins[ops.C]][l]), np.uint64(R[ins[ops.C] + 1][l])
            _keep(memory, slot, at, low | (high << np.uint64(32)))
            R[ins[ops.D], l] = np.uint32(old & np.uint64(0xFFFFFFFF))
            R[ins[ops.D] + 1, l] = np.uint32(old >> np.uint64(32))


@compiled
def _traffic(memory: Any, pc: int, address: Any, size: int, writes: int, sm: int) -> None:
    """Count the sectors of a copy's global side, at most 4 KiB at a time."""
    s, at, end = memory.scratch, address, address + size
    while at < end:
        found, sectors, start = 0, 0, at
        while at < end and found < 32:
            last = min(end, (at | 127) + 1)
            bits = np.int64(0)
            for sector in range((at >> 5) & 3, ((last - 1) >> 5 & 3) + 1):
                bits |= np.int64(1) << sector
                sectors += 1
            s[LINE + found], s[LINE_SECTORS + found] = at >> 7, bits
            found, at = found + 1, last
        memory.scratch[PASSES] = 1
        count_access(memory, pc, at - start, sectors, found, writes, sm, False)


@compiled
def _bulk(ins: Any, table: Any, pc: int, R: Any, s: Any, memory: Any, w: int, mask: Any) -> int:
    """Copy between global and shared memory: row A destination (and barrier), B source, C sixteenths of the bytes."""
    l, op = np.int64(trailing_zeros(np.uint32(mask))), ins[ops.OP]
    loads, slot = op == ops.BULK_LOAD, s.warps[w, SLOT]
    inside, outside = (ins[ops.A], ins[ops.B]) if loads else (ins[ops.B], ins[ops.A])
    near = np.int64(R[inside][l]) & 0xFFFFFF
    far = np.int64(R[outside][l]) | (np.int64(R[outside + 1][l]) << 32)
    size = 16 * np.int64(R[ins[ops.C]][l])
    signal = (np.int64(R[inside + 1][l]) & 0xFFFFFF) if loads else np.int64(0)
    for place in (far, near):
        if place & 15:
            return failed(memory, np.int64(MISALIGNED), l, place, 16)
    for first, end in ((near, near + size), (signal, signal + 8)):
        if end >> 2 > memory.shared.shape[1]:
            return failed(memory, np.int64(SHARED_RANGE), l, first, size)
    for k in range(0, size, 4):  # first see that all of it is there
        status = read(memory, np.int64(ops.GLOBAL), w, slot, l, far + k)[0]
        if status != FINE:
            return failed(memory, np.int64(status), l, far + k, size)
    for k in range(0, size, 4):
        word, here = (
            read(memory, np.int64(ops.GLOBAL), w, slot, l, far + k)[1],
            memory.shared[slot, (near + k) >> 2],
        )
        if loads:
            memory.shared[slot, (near + k) >> 2] = word
        else:
            if op == ops.BULK_REDUCE:
                here = np.uint32(combined(ins[ops.Y], ins[ops.Z], np.uint64(word), np.uint64(here), np.uint64(0)))
            write(memory, np.int64(ops.GLOBAL), w, slot, l, far + k, here)
        if s.flags[SOME_UNKNOWN]:
            of, to = (ops.GLOBAL, ops.SHARED) if loads else (ops.SHARED, ops.GLOBAL)
            unknown = marked(s, memory, np.int64(of), w, slot, l, far + k if loads else near + k)
            mark(s, memory, np.int64(to), w, slot, l, near + k if loads else far + k, unknown)
    _traffic(memory, pc, far, size, 0 if loads else 1 if op == ops.BULK_STORE else 2, s.warps[w, SM])
    if loads:
        _arrive(table, s, memory, slot, signal >> 2, 0, -size, 0)
    return FINE


@compiled
def _tensor_load(ins: Any, R: Any, s: Any, memory: Any, w: int, mask: Any) -> int:
    """A copy by a tensor map: its values are unknown."""
    l, slot = np.int64(trailing_zeros(np.uint32(mask))), s.warps[w, SLOT]
    into, at = np.int64(R[ins[ops.A]][l]) & 0xFFFFFF, (np.int64(R[ins[ops.A] + 1][l]) & 0xFFFFFF) >> 2
    if at + 2 > memory.shared.shape[1]:
        return failed(memory, np.int64(SHARED_RANGE), l, 4 * at, 8)
    value = _barrier(memory, slot, at)
    for k in range(0, np.int64((value >> np.uint64(21)) & np.uint64(_BYTES)), 4):
        mark(s, memory, np.int64(ops.SHARED), w, slot, l, into + k, True)
    _keep(memory, slot, at, value | np.uint64(1))
    return FINE


@compiled
def _signalled(ins: Any, table: Any, R: Any, s: Any, memory: Any, w: int, mask: Any) -> int:
    """Store to, or add into, shared memory of the cluster and tell a barrier of the bytes: rows A and A + 1, C."""
    slot, words = s.warps[w, SLOT], ins[ops.Z]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        at, signal = (np.int64(R[ins[ops.A]][l]) & 0xFFFFFF) >> 2, (np.int64(R[ins[ops.A] + 1][l]) & 0xFFFFFF) >> 2
        if max(at + words, signal + 2) > memory.shared.shape[1]:
            return failed(memory, np.int64(SHARED_RANGE), l, 4 * max(at, signal), 4 * words)
        for k in range(words):
            value = R[ins[ops.C] + k][l]
            if ins[ops.OP] == ops.REDUCE_AND_SIGNAL:
                old = np.uint64(memory.shared[slot, at + k])
                value = np.uint32(combined(ins[ops.Y], ops.T_U32, old, np.uint64(value), np.uint64(0)))
            memory.shared[slot, at + k] = value
        _arrive(table, s, memory, slot, signal, 0, -4 * words, 0)
    return FINE


@handler(ops.ASYNC)
def _asynchronous(m: Any, pc: int, w: int, g: int, mask: Any) -> int:
    """Run one instruction of barriers in shared memory or of bulk copies; return how it went."""
    if mask == np.uint32(0):
        return FINE
    if no_pages(m):
        return NO_PAGES
    table, s, memory = m.table, m, m
    ins, R, P, slot = table[pc], s.registers[w], s.predicates[w], s.warps[w, SLOT]
    op = ins[ops.OP]
    s.warps[w, PC + g] = pc  # where it waits
    if op <= ops.MBARRIER_WAIT:
        for l in range(32):
            if lane_bit(mask, l) and _place(ins, R, l) + 2 > memory.shared.shape[1]:
                return failed(memory, np.int64(SHARED_RANGE), l, 4 * _place(ins, R, l), 8)
    if op == ops.MBARRIER_SET:
        _exchange(ins, R, memory, slot, mask)
    elif op == ops.MBARRIER_ARRIVE:
        _arrivals(ins, table, R, s, memory, slot, mask)
    elif op in (ops.MBARRIER_TEST, ops.MBARRIER_WAIT):
        return _test(ins, table, R, P, s, memory, w, g, mask)
    elif op in (ops.BULK_LOAD, ops.BULK_STORE, ops.BULK_REDUCE):
        return _bulk(ins, table, pc, R, s, memory, w, mask)
    elif op == ops.TENSOR_LOAD:
        return _tensor_load(ins, R, s, memory, w, mask)
    else:
        return _signalled(ins, table, R, s, memory, w, mask)
    return FINE
