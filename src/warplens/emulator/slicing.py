"""Slices of a program: the instructions that a profile has to compute.

Those are the ones on whose values an address, a branch or a barrier depends. What the others compute goes only to
memory from which nothing of that kind is loaded again. They are counted as before, but give nothing: products of
matrices and the arithmetic of most kernels need not be done to know what a kernel does.

Which array an access goes to is said by the program: that of the one pointer its address is computed from.
What is stored to an array matters only to loads from it. The arrays of a launch do not overlap, so that an
address that is made of one pointer and of numbers stays in that pointer's array, or is outside of all. An address of
several pointers or of a variable's, of none (it was loaded), or behind a call may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulator import ops
from warplens.emulator.decode import Code, Key

PURE = (  # they only write registers
    ops.NOTHING, ops.INTEGER, ops.SINGLE, ops.DOUBLE, ops.HALF, ops.CONVERT, ops.LANES, ops.TENSOR, ops.PACKED
)  # fmt: skip
_ANYWHERE = (ops.BRX, ops.RET, ops.CALL_ABS, ops.SYSTEM_CALL)
_JUMPS = (ops.BRA, ops.CALL, ops.BRA_DIV, ops.BRA_ANY)
_ENDS = (ops.EXIT, ops.BRA)  # where no thread goes on with what stands behind, if all do it
ALWAYS = (7, 15)  # guards that always hold
_PREDICATES = 32  # rows of predicates are numbered from -1 down
_ARRAYS = 100  # the first of the spaces of memory that are arrays
WIDTH = 640  # bits of a set of rows: 256 registers, as many uniform ones, predicates and a few more
_ROWS = (1 << WIDTH) - 1

Row = list[int]


def needed_only(code: Code, *, constants: bool = False) -> npt.NDArray[np.int64]:
    """Return the code table in which instructions do nothing whose results no address and no branch depends on.

    With `constants` an indexed load of a constant that nothing depends on does nothing too.
    """
    constant = (code.table[:, ops.GROUP] == ops.INTEGER) & (code.table[:, ops.OP] == ops.LOAD_CONSTANT)
    read = np.zeros_like(constant) if constants else constant  # to see whether the place is inside the bank
    pure = (np.isin(code.table[:, ops.GROUP], PURE) & ~read).tolist()
    rows: list[Row] = code.table.tolist()
    flow = Flow(rows)
    loaded: set[int] = set()  # spaces of memory whose contents matter
    reaching = np.flatnonzero(np.isin(code.table[:, ops.GROUP], (ops.MEMORY, ops.ASYNC))).tolist()
    count = 1 + max(code.arrays, default=-1)
    reached = {i: _reached(rows[i], code.arrays[i] if count else -1, count) for i in reaching}
    stores = [i for i in reaching if rows[i][ops.GROUP] == ops.MEMORY and rows[i][ops.OP] == ops.STORE]
    steps = [
        _form(row[ops.GUARD], reads, writes, _guard(row) if one else row_bits(reads), one)
        for row, reads, writes, one in zip(rows, code.reads, code.writes, pure, strict=True)
    ]
    while True:
        for i in stores:
            asked = _asked_for(rows[i], code.reads[i], loaded.isdisjoint(reached[i]))
            steps[i] = _form(rows[i][ops.GUARD], code.reads[i], code.writes[i], asked, False)
        needed = flow.needed(steps)
        found = loaded.union(*(_spaces(rows[i], reached[i], loaded, needed[i]) for i in reaching))
        if found == loaded:
            break
        loaded = found
    table = code.table.copy()
    nothing = [i for i, one in enumerate(pure) if one and not needed[i]]
    table[nothing, ops.GROUP] = ops.NOTHING
    table[[i for i in reaching if _moves_nothing(rows[i], reached[i], needed[i], loaded)], ops.MODE] |= ops.NO_VALUES
    return table


def mark_idle(table: npt.NDArray[np.int64]) -> None:
    """Write to each instruction that does nothing, and always, how many such ones there are from it on."""
    does_nothing = (table[:, ops.GROUP] == ops.NOTHING) & np.isin(table[:, ops.GUARD], ALWAYS)
    does_nothing &= table[:, ops.GUARD_NOT] == 0
    ahead, lengths = 0, list[int]()
    for one, awaits in zip(does_nothing[::-1].tolist(), table[::-1, ops.AWAITS].tolist(), strict=True):
        ahead = ahead + 1 if one else 0
        lengths.append(ahead)
        ahead = 0 if awaits else ahead
    nothing = table[:, ops.GROUP] == ops.NOTHING
    table[nothing, ops.TARGET] = np.array(lengths[::-1], np.int64)[nothing]


def _moves_nothing(row: Row, reached: frozenset[int], needed: bool, loaded: set[int]) -> bool:
    """Return whether an access moves only values that nobody needs: its addresses are enough."""
    if row[ops.GROUP] != ops.MEMORY:
        return False
    if row[ops.OP] in (ops.LOAD, ops.LOAD_MATRIX):
        return not needed
    if row[ops.OP] == ops.STORE:
        return loaded.isdisjoint(reached)
    return row[ops.OP] in (ops.COPY, ops.STORE_MATRIX) and ops.SHARED not in loaded


class _Form(NamedTuple):
    """Rows, as sets of bits, by which an instruction changes the set of needed ones.

    `wanted`: rows it reads if something that it writes is needed; `asked`: rows it reads in any case; `replaced`: rows
    that it writes in every lane.
    """

    wanted: int
    asked: int
    writes: int
    replaced: int


@lru_cache(16384)  # a program is sliced up to three times
def _form(guard: int, reads: tuple[int, ...], writes: tuple[int, ...], asked: int, pure: bool) -> _Form:
    """Return that of an instruction under a guard; a pure one only writes registers."""
    written = row_bits(writes)
    condition = 0 if guard in ALWAYS else row_bits((-1 - guard,))
    wanted = row_bits(reads) | condition if pure else asked
    return _Form(wanted, asked, written, 0 if condition else written)


class Flow:
    """The straight runs of a program: their first instructions, their ends, and the numbers of those that follow.

    `next` is None where any run may follow.
    """

    def __init__(self, rows: list[Row]) -> None:
        control = [i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL]
        jumps = {i: next_ones for i in control if (next_ones := followers(i, rows[i])) != (i + 1,)}
        starts = {0, *(i + 1 for i in jumps), *(k for next_ones in jumps.values() for k in next_ones or ())}
        self.firsts = sorted(k for k in starts if 0 <= k < len(rows))
        self.number = {first: n for n, first in enumerate(self.firsts)}
        self.stops = [*self.firsts[1:], len(rows)]
        self.next = [None if (f := jumps.get(stop - 1, (stop,))) is None else
                     [self.number[k] for k in f if k in self.number] for stop in self.stops]  # fmt: skip

    def needed(self, steps: list[_Form]) -> list[bool]:
        """Return of which steps something is needed, going from the last to the first until loops add nothing."""
        before, seen, found = [0] * len(self.firsts), [-1] * len(self.firsts), [False] * len(steps)
        changed = True
        while changed:
            changed = False
            for n in range(len(self.firsts) - 1, -1, -1):
                next_ones = self.next[n]
                behind = _ROWS if next_ones is None else 0
                for k in next_ones or ():
                    behind |= before[k]
                if behind == seen[n]:
                    continue
                seen[n] = behind
                here = _through(steps, self.firsts[n], self.stops[n], behind, found)
                changed = changed or here != before[n]
                before[n] = here
        return found


def _through(steps: list[_Form], first: int, stop: int, needed: int, found: list[bool]) -> int:
    """Return the rows needed before a straight run, from those behind it; note of which steps something is needed."""
    for i in range(stop - 1, first - 1, -1):
        wanted, asked, writes, replaced = steps[i]
        found[i] = needed & writes != 0
        needed = needed & ~replaced | wanted if found[i] else needed | asked
    return needed


@lru_cache(4096)
def row_bits(rows: tuple[int, ...] | frozenset[int]) -> int:
    """Return rows as a set of bits."""
    bits = 0
    for row in rows:
        bits |= 1 << (row + _PREDICATES)
    return bits


def _guard(row: Row) -> int:
    """Return the guard of an instruction, which says how many threads take part."""
    return 0 if row[ops.GUARD] in ALWAYS else row_bits((-1 - int(row[ops.GUARD]),))


def followers(at: int, row: Row) -> tuple[int, ...] | None:
    """Return the instructions that may come next; None: any."""
    if row[ops.GROUP] == ops.CONTROL:
        if row[ops.OP] in _ANYWHERE:
            return None
        if row[ops.OP] in _ENDS and _is_certain(row):
            return () if row[ops.OP] == ops.EXIT else (int(row[ops.TARGET]),)
        if row[ops.OP] in _JUMPS:
            return at + 1, int(row[ops.TARGET])
    return (at + 1,)


def _is_certain(row: Row) -> bool:
    """Return whether all threads that come to an instruction execute it."""
    guards = (ops.GUARD, ops.GUARD_NOT), (ops.PS, ops.PS_NOT), (ops.PS2, ops.PS2_NOT)
    return all(row[which] in ALWAYS and not row[no] for which, no in guards)


def _asked_for(row: Row, reads: tuple[int, ...], idle: bool) -> int:
    """Return the rows that an instruction reads; an idle one stores where nothing that matters is loaded."""
    return row_bits(frozenset(reads) - stored_rows(row)) if idle else row_bits(reads)


def stored_rows(row: Row) -> set[int]:
    """Return the rows that an access reads only for what it stores."""
    if row[ops.OP] not in (ops.STORE, ops.ATOMIC, ops.REDUCTION):
        return set()
    data = {int(row[ops.C]) + k for k in range(max(1, int(row[ops.Z] & 255) >> 2))}
    return data - {int(row[ops.A]), int(row[ops.A]) + (int(row[ops.Z]) >> 8 not in (ops.SHARED, ops.LOCAL))}


def _spaces(row: Row, reached: frozenset[int], loaded: set[int], needed: bool) -> frozenset[int]:
    """Return the spaces of memory whose contents matter because of an instruction; `needed`: its results are."""
    if row[ops.GROUP] == ops.ASYNC or (row[ops.GROUP] == ops.MEMORY and needed):
        return reached
    copies = row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.COPY
    return reached - {ops.SHARED, ops.LOCAL} if copies and ops.SHARED in loaded else frozenset()


def _reached(row: Row, array: int, arrays: int) -> frozenset[int]:
    """Return the spaces of memory that an instruction reaches; all of them where it does not say which.

    Global memory is so many arrays, each a space of its own, and the rest of it.
    """
    in_global = frozenset((ops.GLOBAL, *range(_ARRAYS, _ARRAYS + arrays)))
    every = in_global | {ops.SHARED, ops.LOCAL}
    if row[ops.GROUP] == ops.MEMORY and row[ops.OP] in (ops.LOAD, ops.STORE, ops.ATOMIC):
        space = int(row[ops.Z]) >> 8
        if space == ops.GLOBAL:
            return frozenset((_ARRAYS + array,)) if array >= 0 else in_global
        return frozenset((space,)) if space in every else every
    return frozenset((ops.SHARED,)) if row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.LOAD_MATRIX else every


_MOST = 16  # pointers that are followed
_VARIABLES = 4  # the bank that has addresses of the module's variables


def sliced(code: Code, pointers: Sequence[int]) -> Code:
    """Return the code in which only that is computed on which an address or a branch depends: see `needed_only`.

    `pointers`: where bank 0 has those to the call's arrays. What an access goes to is looked at where it matters.
    """
    less = replace(code, table=needed_only(code))
    memory, op, space = (less.table[:, which] for which in (ops.GROUP, ops.OP, ops.Z))
    stores = (memory == ops.MEMORY) & (op == ops.STORE) & (space >> 8 == ops.GLOBAL)
    if (stores & (less.table[:, ops.MODE] & ops.NO_VALUES == 0)).any():
        known = replace(code, arrays=arrays_of(code, pointers))
        less = replace(known, table=needed_only(known))
    mark_idle(less.table)
    return less


def arrays_of(code: Code, pointers: Sequence[int]) -> list[int]:
    """Return for each instruction the number of the pointer whose array it goes to; -1: it may be any."""
    rows: list[Row] = code.table.tolist()
    anywhere = [-1] * len(rows)
    if not 1 < len(pointers) <= _MOST:
        return anywhere
    parts = range(len(pointers) + 1)  # the last one: addresses of the module's variables
    every = sum(1 << part * WIDTH for part in parts)
    halves = {code.row_count + i: bits for i, key in enumerate(code.pool) if (bits := _pointers_of(key, pointers))}
    before: dict[int, int] = {0: 0}  # by instruction: for each pointer, the rows that may depend on it
    todo = [0]
    while todo:
        i = heappop(todo)
        row, behind, written, nexts = rows[i], before[i], row_bits(code.writes[i]), followers(i, rows[i])
        if nexts is None:
            return anywhere
        bits = _depends_on(row, behind, row_bits(code.reads[i]), parts, halves)
        if row[ops.GUARD] in ALWAYS:
            behind &= ~(written * every)
        for part in parts if bits else ():
            behind |= (written if bits >> part & 1 else 0) << part * WIDTH
        for k in nexts:
            old = before.get(k)
            joined = behind if old is None else old | behind
            if joined != old and k < len(rows):
                before[k] = joined
                heappush(todo, k)
    return [_only(row, code.reads[i], before.get(i, 0), parts) for i, row in enumerate(rows)]


def _pointers_of(key: Key, pointers: Sequence[int]) -> int:
    """Return which pointer, a bit each, a constant is a half of; with -rdc code itself has addresses of variables."""
    kind, bank, offset = key
    if kind == "address" or (kind == "bank" and bank == _VARIABLES):
        return 1 << len(pointers)
    return sum(1 << n for n, at in enumerate(pointers) if kind == "bank" and bank == 0 and at <= offset < at + 8)


def _depends_on(row: Row, before: int, reads: int, parts: range, halves: dict[int, int]) -> int:
    """Return the pointers that the results of an instruction depend on, a bit each; loaded values depend on none."""
    if row[ops.GROUP] == ops.MEMORY:
        return 0
    if row[ops.GROUP] == ops.INTEGER and row[ops.OP] == ops.LOAD_CONSTANT:
        return (1 << len(parts)) - 1
    bits = 0
    for which in (ops.A, ops.B, ops.C):
        bits |= halves.get(row[which], 0)
    for part in parts:
        if before >> part * WIDTH & reads:
            bits |= 1 << part
    return bits


def _only(row: Row, reads: tuple[int, ...], before: int, parts: range) -> int:
    """Return the only pointer that the address of an access depends on; -1: there is none, or another one."""
    if row[ops.GROUP] != ops.MEMORY or row[ops.OP] not in (ops.LOAD, ops.STORE):
        return -1
    address = row_bits(frozenset(reads) - stored_rows(row))
    found = [part for part in parts if before >> part * WIDTH & address]
    return found[0] if len(found) == 1 and found[0] != parts[-1] else -1
