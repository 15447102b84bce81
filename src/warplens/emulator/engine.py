"""SIMT machine: the warps of the resident blocks, groups of lanes on one path, barriers.

A warp's lanes are in groups; a group has its own place in the code. A branch on which lanes differ splits a group;
BSYNC, WARPSYNC and barriers join them again, as on the hardware since Volta. Each group runs until it waits, ends, or
has used its turn.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warplens.core.native import Function, compiling
from warplens.emulator import ops
from warplens.emulator.bits import OPTIONS, compiled, sources
from warplens.emulator.cache import Cache
from warplens.emulator.handlers import MACHINE, MARKS, Block, call, handlers, services, viewed
from warplens.emulator.integer import predicate
from warplens.emulator.lanes import count_bits, rotate
from warplens.emulator.layout import (
    ACCESSES,
    ASSUMED_ACCESSES,
    ASSUMED_STRIDE,
    ASSUMED_TRIPS,
    BAD_TARGET,
    DELAY,
    ERROR,
    EXECUTED,
    EXECUTED_ALL,
    EXECUTED_UNKNOWN,
    FINE,
    GROUPS,
    L2_SECTORS,
    LINES,
    MASK,
    NEXT_GROUP,
    NEXT_TURN,
    NEXT_WARP,
    NO_PAGES,
    NUMBER,
    PC,
    READY,
    REQUESTS,
    SECTORS,
    SOME_UNKNOWN,
    STATE,
    THREADS,
    TRACED,
    UNKNOWN_ADDRESS,
    UNKNOWN_BRANCH,
    USEFUL_BYTES,
    WAITS,
    WORK,
)

_ALL = np.uint32(0xFFFFFFFF)
DONE, BUDGET, FAILED, DEADLOCK, GROW = range(5)
TURN = 64
ACCESS_EFFORT = 8  # an access to memory, but shared memory, takes as long as so many instructions
LINE_EFFORT = 2  # a further line takes as long as so many accesses, at worst: its page has yet to be made
Table = npt.NDArray[np.int64]
Functions = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # addresses: for each row of a program, services
machine_at = viewed(MACHINE)


class State(NamedTuple):
    """All warps of the resident blocks."""

    registers: Any  # [warps, rows, 32]
    predicates: Any  # [warps, 17], a bit per lane
    threads: Any  # [warps, 3, 32] thread indices
    warps: Any  # [warps, WARP_COLUMNS]
    blocks: Any  # [blocks, BLOCK_COLUMNS]
    unknown: Any  # [warps, rows + 17] lanes whose value is not known
    flags: Any
    calls: Any  # what each function of the system does
    marks_global: Any  # words of memory whose value is not known, a bit each: [pages, 8], [blocks, ...], [warps, ...]
    marks_shared: Any
    marks_local: Any
    assumed: Any  # per instruction: what is assumed of a branch (see layout), the number, and its place among them
    turns: Any  # [warps, assumptions] how often a warp came to a branch of which trips are assumed


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
    samples: Any  # places of some accesses, by instruction: see layout
    patterns: Any  # what accesses cost whose lanes lie so: see wavefronts.py
    idle: Any  # of instructions that do nothing: see `count_idle`


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
def _follow_unknown(m: Any, w: int, pc: int, mask: Any, active: Any) -> int:
    """Carry unknown values from what an instruction reads to what it writes; refuse to branch or address by them."""
    ins = m.table[pc]
    group = ins[ops.GROUP]
    unknown = np.uint32(_unknown_lanes(m, m, w, pc) & mask)
    if group == ops.MEMORY:
        return call(m.services[MARKS], m, pc, w, np.int64(unknown != 0), active)
    if group == ops.UNKNOWN:
        m.flags[EXECUTED_UNKNOWN] += 1
        unknown = active
    elif unknown:
        if group == ops.CONTROL and ins[ops.OP] not in (ops.BMOV_TO_R, ops.BMOV_FROM_R):
            return UNKNOWN_BRANCH
        if group == ops.ASYNC:
            return UNKNOWN_ADDRESS
        if group == ops.TENSOR or (group == ops.LANES and ins[ops.OP] < 100):
            unknown = active  # each lane looks at others
    _spread_unknown(m, m, w, pc, active, unknown)
    return FINE


@compiled
def _assumed(m: Any, w: int, pc: int, mask: Any, active: Any) -> Any:
    """Return the lanes for which a guard holds: of those that nobody knows, as many as the launch file assumes."""
    unknown = np.uint32(_unknown_lanes(m, m, w, pc) & mask)
    if unknown == 0:
        return active
    kind, number, place = m.assumed[pc, 0], m.assumed[pc, 1], m.assumed[pc, 2]
    m.turns[w, place] += 1
    taken = np.uint32(0)
    if kind == ASSUMED_TRIPS:  # all lanes stay in the loop for so many turns
        if m.turns[w, place] % number != 0:
            taken = unknown
    else:
        for l in range(32):
            x = np.uint64(m.warps[w, NUMBER] * 32 + l) * np.uint64(0x9E3779B97F4A7C15)
            x ^= np.uint64(m.turns[w, place]) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ x >> np.uint64(29)) * np.uint64(0x94D049BB133111EB)
            if np.int64(x >> np.uint64(44)) < number:
                taken |= np.uint32(1) << np.uint32(l)
    return np.uint32((active & (unknown ^ _ALL)) | (taken & unknown))


@compiled
def _assumed_access(m: Any, w: int, pc: int, active: Any) -> None:
    """Count an access to unknown places by the distance that is assumed between threads; what it loads is unknown."""
    apart, size = m.assumed[pc, 1], m.table[pc, ops.Z] & 255
    sectors = lines = np.int64(0)
    last_sector = last_line = np.int64(-1)
    for l in range(32):
        if active >> np.uint32(l) & np.uint32(1):
            for address in (l * apart, l * apart + size - 1):
                if address >> 5 != last_sector:
                    last_sector = address >> 5
                    sectors += 1
                if address >> 7 != last_line:
                    last_line = address >> 7
                    lines += 1
    m.stats[pc, REQUESTS] += 1
    m.stats[pc, USEFUL_BYTES] += size * count_bits(active)
    m.stats[pc, SECTORS] += sectors
    m.stats[pc, LINES] += lines
    m.stats[pc, L2_SECTORS] += sectors
    m.flags[ASSUMED_ACCESSES] += 1
    _spread_unknown(m, m, w, pc, active, active)


@compiled
def _trace(m: Any, w: int, first: int, stop: int) -> None:
    """Note a straight run of a warp, as long as there is room."""
    at = m.scratch[TRACED]
    if stop > first:
        if at < m.trace.shape[0]:
            m.trace[at, 0], m.trace[at, 1], m.trace[at, 2] = w, first, stop
        m.scratch[TRACED] = at + 1


@compiled
def _pass_idle(idle: Any, pc: int, count: int, threads: int) -> None:
    """Count a straight run of instructions that do nothing: see `count_idle`."""
    idle[pc, 0] += 1
    idle[pc, 1] += threads
    idle[pc + count, 0] -= 1
    idle[pc + count, 1] -= threads


@compiled
def _turn(m: Any, w: int, g: int, turn: int) -> Any:
    """Run one group until it waits, ends, splits, or its turn is over; return (status, place, what is left)."""
    table, handlers, stats, flags = m.table, m.handlers, m.stats, m.flags
    P, warp = m.predicates[w], m.warps[w]
    pc = first = warp[PC + g]
    mask = np.uint32(warp[MASK + g])
    whole = turn
    while turn > 0:
        if pc >= table.shape[0]:
            return BAD_TARGET, pc - 1, turn
        ins = table[pc]
        if ins[ops.AWAITS] and turn < whole and warp[GROUPS] == 1:  # groups share UR: none runs amid another
            turn = np.int64(0)
            break
        if ins[ops.GROUP] == ops.NOTHING and ins[ops.TARGET] > 0 and not flags[SOME_UNKNOWN]:
            count = min(ins[ops.TARGET], turn)
            _pass_idle(m.idle, pc, count, count_bits(mask))
            warp[WORK] += count
            turn -= count
            pc += count
            continue
        active = np.uint32(mask & predicate(P, ins[ops.GUARD], ins[ops.GUARD_NOT]))
        group = ins[ops.GROUP]
        status = np.int64(FINE)
        if flags[SOME_UNKNOWN] or group == ops.UNKNOWN:
            if group == ops.CONTROL and m.assumed[pc, 0]:
                active = _assumed(m, w, pc, mask, active)
            else:
                status = _follow_unknown(m, w, pc, mask, active)
        groups, lines = warp[GROUPS], stats[pc, LINES]
        if group == ops.CONTROL:
            warp[PC + g] = pc
        if status == UNKNOWN_ADDRESS and m.assumed[pc, 0] == ASSUMED_STRIDE:
            _assumed_access(m, w, pc, active)
            status = np.int64(FINE)
        elif handlers[pc] and status == FINE:
            status = call(handlers[pc], m, pc, w, g, active)
        if status != FINE and status != WAITS:
            warp[PC + g] = pc
            _trace(m, w, first, pc)
            return status, pc, turn
        stats[pc, EXECUTED] += 1
        stats[pc, THREADS] += count_bits(active)
        warp[WORK] += 1
        turn -= 1
        if group == ops.ASYNC or (group == ops.MEMORY and ins[ops.Z] >> 8 != ops.SHARED):
            flags[ACCESSES] += 1 + LINE_EFFORT * max(0, stats[pc, LINES] - lines - 1)
        if group != ops.CONTROL and status == FINE:
            pc += 1
            continue
        gone = warp[GROUPS] != groups or warp[STATE + g] != READY
        if gone or warp[PC + g] != pc + 1:
            _trace(m, w, first, pc + 1)
            first = warp[PC + g]
        if gone:
            return FINE, pc, turn
        pc = warp[PC + g]
        mask = np.uint32(warp[MASK + g])
    warp[PC + g] = pc
    _trace(m, w, first, pc)
    return FINE, pc, turn


def _run(address: int, budget: int) -> int:
    """Run all warps to their end, or until that took as long as `budget` instructions; the scratch array has errors."""
    m = machine_at(address)
    warps, flags, error = m.warps, m.flags, m.scratch
    first, g, turn = flags[NEXT_WARP], flags[NEXT_GROUP], flags[NEXT_TURN]
    moved = alive = turn > 0
    while True:
        for w in range(first, warps.shape[0]):
            if warps[w, DELAY] > 0:
                warps[w, DELAY] -= 1
                moved = alive = True
                continue
            if turn == 0:
                g, turn = np.int64(0), np.int64(TURN)
            while turn > 0 and g < warps[w, GROUPS]:
                if warps[w, STATE + g] != READY:
                    g += 1
                    continue
                before = warps[w, WORK]
                status, pc, turn = _turn(m, w, g, turn)
                flags[EXECUTED_ALL] += warps[w, WORK] - before
                if status != FINE:
                    error[ERROR], error[ERROR + 4], error[ERROR + 5] = status, pc, w
                    flags[NEXT_WARP], flags[NEXT_GROUP], flags[NEXT_TURN] = w, g, turn
                    return GROW if status == NO_PAGES else FAILED
                moved = True
            if turn == 0 and warps[w, GROUPS] > 1:
                rotate(m, w)
            alive = alive or warps[w, GROUPS] > 0
            turn = np.int64(0)
        if not alive:
            return DONE
        if not moved:
            return DEADLOCK
        if flags[EXECUTED_ALL] + (ACCESS_EFFORT - 1) * flags[ACCESSES] > budget:
            return BUDGET
        first, moved, alive = np.int64(0), False, False


def _run_signature() -> Any:
    from numba import types

    whole: Any = types.int64
    return whole(whole, whole)


_compiled_run = Function(_run, _run_signature, OPTIONS, sources)


def addresses(table: Table, l1: Cache, unknown: bool) -> Functions:
    """Return where the functions are that a program needs, for each row of it and the others; they are compiled."""
    functions, each = handlers(table)
    parts = functions, services(table, l1, unknown)
    missing = sum(not one.is_ready() for one in (_compiled_run, *functions, *parts[1]) if one is not None)
    with compiling(Path(__file__).parent, missing) if missing else nullcontext():
        distinct, others = (np.array([one.address if one else 0 for one in part]) for part in parts)
        assert _compiled_run.address
    return distinct[each], others


def run(
    table: Table, functions: Functions, names: Names, state: State, memory: Memory, budget: int, block: Block
) -> int:
    """Run all warps to their end, or until that took as long as `budget` instructions; return how it went.

    `functions`: what `addresses` returned; `block`: that of earlier runs, or `new_block`.
    """
    arrays = {"table": table, "handlers": functions[0], "services": functions[1]}
    MACHINE.describe({**arrays, **names._asdict(), **state._asdict(), **memory._asdict()}, block)
    return _compiled_run.call(block.address, budget)


def effort(state: State) -> int:
    """Return what the run took so far, in the unit of the budget."""
    return int(state.flags[EXECUTED_ALL] + (ACCESS_EFFORT - 1) * state.flags[ACCESSES])


def new_block() -> Block:
    """Make what a run hands to compiled code: an emulator's runs share it, for most arrays stay."""
    return Block(MACHINE)


def count_idle(stats: Table, idle: Table) -> None:
    """Count what did nothing: the first of a straight run of it has the count, which ends behind the last."""
    stats[:, EXECUTED : THREADS + 1] += np.cumsum(idle, axis=0)[:-1]
    idle[:] = 0


def is_compiled(table: Table, l1: Cache, unknown: bool) -> bool:
    """Whether all that a program needs has been compiled before; `unknown`: whether memory holds unknown values."""
    return all(one.is_ready() for one in {_compiled_run, *handlers(table)[0], *services(table, l1, unknown)} if one)
