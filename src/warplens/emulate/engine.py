"""The SIMT machine: warps of the resident blocks in turn, groups of lanes that go the same way, barriers.

A warp's lanes are in groups; a group has its own place in the code. A branch on which lanes differ splits a group;
BSYNC, WARPSYNC and barriers join them again, as on the hardware since Volta. Each group runs until it waits, ends, or
has used its turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warplens.emulate import ops
from warplens.emulate.access import Memory, access
from warplens.emulate.bits import (
    bare_f64,
    bare_i32,
    bare_i64,
    bare_u8,
    bare_u32,
    compiled,
    entry,
)  # fmt: skip
from warplens.emulate.control import control, rotate
from warplens.emulate.double import double
from warplens.emulate.exchange import count_bits, exchange, special
from warplens.emulate.half import convert, half
from warplens.emulate.integer import integer
from warplens.emulate.integer_parts import lane_bit, predicate
from warplens.emulate.layout import (
    BAD_TARGET,
    DELAY,
    ERROR,
    EXECUTED,
    EXECUTED_ALL,
    EXECUTED_UNKNOWN,
    FINE,
    GROUPS,
    MASK,
    NO_PAGES,
    NUMBER,
    PC,
    READY,
    SLOT,
    SM,
    SOME_UNKNOWN,
    STATE,
    STORED_UNKNOWN,
    THREADS,
    TRACED,
    UNKNOWN_ADDRESS,
    UNKNOWN_BRANCH,
    WORK,
)
from warplens.emulate.pages import Pages
from warplens.emulate.single import single

_ALL = np.uint32(0xFFFFFFFF)
DONE, BUDGET, FAILED, DEADLOCK, GROW = range(5)
TURN = 64


class State(NamedTuple):
    """All warps of the resident blocks."""

    registers: Any  # [warps, rows, 32]
    predicates: Any  # [warps, 17], a bit per lane
    threads: Any  # [warps, 3, 32] thread indices
    warps: Any  # [warps, WARP_COLUMNS]
    blocks: Any  # [blocks, BLOCK_COLUMNS]
    unknown: Any  # [warps, rows + 17] lanes whose value is not known
    flags: Any


class Names(NamedTuple):
    """What each instruction reads and writes, for following unknown values: rows, from and to."""

    reads: Any
    reads_at: Any
    writes: Any
    writes_at: Any


@compiled
def _unknown_lanes(s: Any, names: Any, w: int, pc: int) -> Any:
    found = np.uint32(0)
    for k in range(names.reads_at[pc], names.reads_at[pc + 1]):
        found |= s.unknown[w, names.reads[k]]
    return found


@compiled
def _spread_unknown(s: Any, names: Any, w: int, pc: int, mask: Any, unknown: Any) -> None:
    for k in range(names.writes_at[pc], names.writes_at[pc + 1]):
        at = names.writes[k]
        s.unknown[w, at] = (s.unknown[w, at] & np.uint32(mask ^ _ALL)) | (unknown & mask)
        if s.unknown[w, at]:
            s.flags[SOME_UNKNOWN] = 1


@compiled
def _load_constant(ins: Any, R: Any, mask: Any, banks: Any) -> None:
    """Load from a constant bank by a register: words or parts of them."""
    A = R[ins[ops.A]]
    bank, size = banks[ins[ops.Y]], ins[ops.Z]
    for l in range(32):
        if not lane_bit(mask, l):
            continue
        at = np.int64(np.uint32(np.int64(A[l]) + ins[ops.X]))
        word = bank[(at >> 2) % bank.shape[0]]
        if size < 4:
            word = np.uint32(word >> np.uint32(8 * (at & 3))) & (np.uint32(0xFF) if size == 1 else np.uint32(0xFFFF))
            if ins[ops.MODE] & ops.SIGNED and word >> np.uint32(8 * size - 1):
                word |= np.uint32(0xFFFFFF00) if size == 1 else np.uint32(0xFFFF0000)
        R[ins[ops.D], l] = word
        if size == 8:
            R[ins[ops.D] + 1, l] = bank[((at >> 2) + 1) % bank.shape[0]]


@compiled
def _follow_unknown(ins: Any, names: Any, s: Any, w: int, pc: int, mask: Any, active: Any) -> int:
    """Carry unknown values from what an instruction reads to what it writes; refuse to branch or address by them."""
    group = ins[ops.GROUP]
    unknown = np.uint32(_unknown_lanes(s, names, w, pc) & mask)
    if group == ops.UNKNOWN:
        s.flags[EXECUTED_UNKNOWN] += 1
        unknown = active
    elif unknown:
        if group == ops.CONTROL and ins[ops.OP] not in (ops.BMOV_TO_R, ops.BMOV_FROM_R):
            return UNKNOWN_BRANCH
        if group == ops.MEMORY:
            if _unknown_address(s, ins, w, active):
                return UNKNOWN_ADDRESS
            s.flags[STORED_UNKNOWN] += ins[ops.OP] != ops.LOAD
            unknown = np.uint32(0)
    _spread_unknown(s, names, w, pc, active, unknown)
    return FINE


@compiled
def _unknown_address(s: Any, ins: Any, w: int, active: Any) -> bool:
    found = s.unknown[w, ins[ops.A]] | s.unknown[w, ins[ops.B]] | s.unknown[w, -1 - ins[ops.GUARD]]
    return (found & active) != 0


@compiled
def _compute(ins: Any, R: Any, P: Any, active: Any) -> None:
    """Run one instruction that only touches registers."""
    group = ins[ops.GROUP]
    if group == ops.INTEGER:
        integer(ins, R, P, active)
    elif group == ops.SINGLE:
        single(ins, R, P, active)
    elif group == ops.DOUBLE:
        double(ins, R, P, active)
    elif group == ops.HALF:
        half(ins, R, P, active)
    elif group == ops.CONVERT:
        convert(ins, R, P, active)
    elif group == ops.LANES:
        exchange(ins, R, P, active)


@compiled
def _trace(memory: Any, w: int, first: int, stop: int) -> None:
    """Note a straight run of a warp, as long as there is room."""
    at = memory.scratch[TRACED]
    if stop > first:
        if at < memory.trace.shape[0]:
            memory.trace[at, 0], memory.trace[at, 1], memory.trace[at, 2] = w, first, stop
        memory.scratch[TRACED] = at + 1


@compiled
def _turn(table: Any, names: Any, s: Any, memory: Any, w: int, g: int, turn: int) -> Any:
    """Run one group until it waits, ends, splits, or its turn is over; return (status, place, what is left)."""
    R, P, stats, pages = s.registers[w], s.predicates[w], memory.stats, memory.pages
    pc = s.warps[w, PC + g]
    first = pc
    mask = np.uint32(s.warps[w, MASK + g])
    while turn > 0:
        if pc >= table.shape[0]:
            return BAD_TARGET, pc - 1, turn
        ins = table[pc]
        active = np.uint32(mask & predicate(P, ins[ops.GUARD], ins[ops.GUARD_NOT]))
        group = ins[ops.GROUP]
        if s.flags[SOME_UNKNOWN] or group == ops.UNKNOWN:
            status = _follow_unknown(ins, names, s, w, pc, mask, active)
            if status != FINE:
                return status, pc, turn
        if group == ops.MEMORY:
            if pages.table[-1] + 64 > pages.words.shape[0]:
                s.warps[w, PC + g] = pc
                _trace(memory, w, first, pc)
                return NO_PAGES, pc, turn
            status = access(ins, pc, R, P, active, memory, w, s.warps[w, SLOT], s.warps[w, SM], s.warps[w, NUMBER])
            if status != FINE:
                return status, pc, turn
        elif group == ops.LANES and ins[ops.OP] >= 100:
            special(ins, R, active, s.threads[w], s.warps[w], s.warps[w, WORK] + TURN - turn)
        elif group == ops.INTEGER and ins[ops.OP] == ops.LOAD_CONSTANT:
            _load_constant(ins, R, active, memory.banks)
        elif group != ops.CONTROL:
            _compute(ins, R, P, active)
        stats[pc, EXECUTED] += 1
        stats[pc, THREADS] += count_bits(active)
        turn -= 1
        if group == ops.CONTROL:
            s.warps[w, PC + g] = pc
            groups = s.warps[w, GROUPS]
            status = control(ins, R, P, s, w, g, active, table.shape[0])
            if status != FINE:
                return status, pc, turn
            if s.warps[w, GROUPS] != groups or s.warps[w, STATE + g] != READY:
                _trace(memory, w, first, pc + 1)
                return FINE, pc, turn
            if s.warps[w, PC + g] != pc + 1:
                _trace(memory, w, first, pc + 1)
                first = s.warps[w, PC + g]
            pc = s.warps[w, PC + g]
            mask = np.uint32(s.warps[w, MASK + g])
        else:
            pc += 1
    s.warps[w, PC + g] = pc
    _trace(memory, w, first, pc)
    return FINE, pc, turn


@entry
def run(table: Any, names: Any, s: Any, memory: Any, budget: int) -> int:
    """Run all warps to their end, or until `budget` instructions have run; the scratch array says what failed where."""
    p = memory.pages
    pages = Pages(bare_i64(p.arrays), bare_f64(p.numbers), bare_i32(p.table), bare_u32(p.words), bare_u8(p.given))
    bare_memory = Memory(
        pages, bare_u32(memory.shared), bare_u32(memory.local), bare_u32(memory.banks), bare_i64(memory.stats),
        bare_i64(memory.scratch), bare_i64(memory.l1), bare_i64(memory.l2), bare_u32(memory.touched),
        bare_i32(memory.trace),
    )  # fmt: skip
    bare_state = State(
        bare_u32(s.registers), bare_u32(s.predicates), bare_i64(s.threads), bare_i64(s.warps), bare_i64(s.blocks),
        bare_u32(s.unknown), bare_i64(s.flags),
    )  # fmt: skip
    bare_names = Names(
        bare_i64(names.reads), bare_i64(names.reads_at), bare_i64(names.writes), bare_i64(names.writes_at)
    )
    return _run(bare_i64(table), bare_names, bare_state, bare_memory, budget)


@compiled
def _run(table: Any, names: Any, s: Any, memory: Any, budget: int) -> int:
    error = memory.scratch
    while True:
        moved, alive = False, False
        for w in range(s.warps.shape[0]):
            if s.warps[w, DELAY] > 0:
                s.warps[w, DELAY] -= 1
                moved = alive = True
                continue
            turn = np.int64(TURN)
            g = np.int64(0)
            while turn > 0 and g < s.warps[w, GROUPS]:
                if s.warps[w, STATE + g] != READY:
                    g += 1
                    continue
                before = turn
                status, pc, turn = _turn(table, names, s, memory, w, g, turn)
                s.flags[EXECUTED_ALL] += before - turn
                s.warps[w, WORK] += before - turn
                if status != FINE:
                    error[ERROR], error[ERROR + 4], error[ERROR + 5] = status, pc, w
                    return GROW if status == NO_PAGES else FAILED
                moved = True
            if turn == 0 and s.warps[w, GROUPS] > 1:
                rotate(s, w)
            alive = alive or s.warps[w, GROUPS] > 0
        if not alive:
            return DONE
        if not moved:
            return DEADLOCK
        if s.flags[EXECUTED_ALL] > budget:
            return BUDGET
