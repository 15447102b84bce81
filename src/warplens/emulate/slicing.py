"""Which instructions a profile has to compute: those on whose values an address, a branch or a barrier depends.

What the others compute goes only to memory from which nothing of that kind is loaded again. They are counted as before,
but give nothing: products of matrices and the arithmetic of most kernels need not be done to know what a kernel does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulate import ops
from warplens.emulate.decode import Code
from warplens.kernel.program import Program

_PURE = (  # they only write registers
    ops.NOTHING, ops.INTEGER, ops.SINGLE, ops.DOUBLE, ops.HALF, ops.CONVERT, ops.LANES, ops.TENSOR, ops.PACKED
)  # fmt: skip
_ANYWHERE = (ops.BRX, ops.RET, ops.CALL_ABS, ops.SYSTEM_CALL)
_JUMPS = (ops.BRA, ops.CALL, ops.BRA_DIV, ops.BRA_ANY)
_ENDS = (ops.EXIT, ops.BRA)  # where no thread goes on with what stands behind, if all do it
_ALWAYS = (7, 15)  # guards that always hold
_PREDICATES = 32  # rows of predicates are numbered from -1 down
_WIDTH = 1024  # bits of a set of rows
_ROWS = (1 << _WIDTH) - 1
_EVERY_PART = sum(1 << part * _WIDTH for part in range(15))  # the set that is always needed, and those of all guards

Row = list[int]


def needed_only(code: Code, *, guards: bool = True) -> npt.NDArray[np.int64]:
    """Return the code table in which instructions do nothing whose results no address and no branch depends on.

    Without `guards` it is not asked either how many threads take part in those that do nothing: all seem to.
    """
    pure = np.isin(code.table[:, ops.GROUP], _PURE).tolist()
    rows: list[Row] = code.table.tolist()
    flow = _Flow(rows)
    loaded: set[int] = set()  # spaces of memory whose contents matter
    reaching = np.flatnonzero(np.isin(code.table[:, ops.GROUP], (ops.MEMORY, ops.ASYNC))).tolist()
    forms: dict[tuple[object, ...], _Form] = {}
    while True:
        steps = []
        for row, reads, writes, one in zip(rows, code.reads, code.writes, pure, strict=True):
            asked = (_guard(row) if guards else 0) if one else _asked_for(row, reads, loaded)
            key = reads, writes, asked, one, row[ops.GUARD], row[ops.GUARD_NOT]
            if key not in forms:
                forms[key] = _Form.of(row, reads, writes, asked, one)
            steps.append(forms[key])
        needed = flow.needed(steps)
        found = loaded.union(*(_spaces(rows[i], loaded, needed[i]) for i in reaching))
        if found == loaded:
            break
        loaded = found
    table = code.table.copy()
    idle = [i for i, one in enumerate(pure) if one and not needed[i]]
    table[idle, ops.GROUP] = ops.NOTHING
    if not guards:
        table[idle, ops.GUARD], table[idle, ops.GUARD_NOT] = _ALWAYS[0], 0
    table[[i for i in reaching if _moves_nothing(rows[i], needed[i], loaded)], ops.MODE] |= ops.NO_VALUES
    return table


def mark_idle(table: npt.NDArray[np.int64]) -> None:
    """Write to each instruction that does nothing, and always, how many such ones there are from it on."""
    does_nothing = (table[:, ops.GROUP] == ops.NOTHING) & np.isin(table[:, ops.GUARD], _ALWAYS)
    does_nothing &= table[:, ops.GUARD_NOT] == 0
    ahead, made = 0, list[int]()
    for one, awaits in zip(does_nothing[::-1].tolist(), table[::-1, ops.AWAITS].tolist(), strict=True):
        ahead = ahead + 1 if one else 0
        made.append(ahead)
        ahead = 0 if awaits else ahead
    nothing = table[:, ops.GROUP] == ops.NOTHING
    table[nothing, ops.TARGET] = np.array(made[::-1], np.int64)[nothing]


def as_seen(code: Code, program: Program, executed: npt.NDArray[np.float64]) -> Code:
    """Return the code (of `needed_only`) for more blocks of a call, when it is known what one of them executed.

    Guards of what does nothing decide only how many threads are counted for it: they are taken to hold. And a slow path
    of a division or a root that nobody took is taken to be taken by nobody: the compiler's own functions for numbers
    at the ends of their range, before which it asks for the exponent. Without that all that leads to a quotient is
    computed in every block, for the sake of one branch.
    """
    made = replace(code, table=code.table.copy(), reads=[*code.reads])
    for i, x in enumerate(program.instructions):
        if x.opcode == "CALL" and "_slowpath" in x.text and not executed[i]:
            _leave_out(made, i)
    guarded = ~np.isin(code.table[:, ops.GUARD], _ALWAYS) & np.isin(code.table[:, ops.GROUP], _PURE)
    if made.reads == code.reads and not guarded.any():
        return code
    made = replace(made, table=needed_only(made, guards=False))
    mark_idle(made.table)
    return made


def _leave_out(code: Code, call: int) -> None:
    """Let the branch before a call always jump over it, if there is one that may."""
    table, at = code.table, call - 1
    while at > 0 and table[at, ops.GROUP] not in (ops.CONTROL, ops.ASYNC, ops.UNKNOWN):
        at -= 1
    row, targets = table[at], table[table[:, ops.GROUP] == ops.CONTROL, ops.TARGET]
    jumps = row[ops.GROUP] == ops.CONTROL and row[ops.OP] == ops.BRA and row[ops.TARGET] > call
    only_way = not ((targets > at) & (targets <= call)).any()
    if jumps and only_way and row[ops.PS] == row[ops.PS2] == _ALWAYS[0]:
        row[ops.GUARD], row[ops.GUARD_NOT], code.reads[at] = _ALWAYS[0], 0, ()
        table[call, ops.GROUP] = ops.NOTHING  # nobody comes here, and it leads nowhere


def not_seen(code: Code, executed: npt.NDArray[np.float64]) -> list[int]:
    """Return the instructions that were not executed and would be if data had said otherwise.

    Data are what is loaded from memory, what atomics return, and floating-point numbers. What depends only on places
    of threads and blocks and on the call's arguments is none: blocks of every place are looked at. `code` is that of
    `needed_only`: what no branch depends on decides nothing.
    """
    rows: list[Row] = code.table.tolist()
    reads = [(*read, -1 - row[ops.GUARD]) for row, read in zip(rows, code.reads, strict=True)]
    does = [i for i, row in enumerate(rows) if not is_idle(row)]
    data = {n for i in does if _is_data(rows[i]) for n in code.writes[i]}
    others, before = {(reads[i], code.writes[i]) for i in does}, -1
    while len(data) != before:
        before = len(data)
        data.update(*(writes for read, writes in others if not data.isdisjoint(read)))
    branches = [i for i in does if rows[i][ops.GROUP] == ops.CONTROL and not data.isdisjoint(reads[i])]
    todo = [k for i in branches if executed[i] for k in followers(i, rows[i]) or ()]
    found: set[int] = set()
    while todo:
        k = todo.pop()
        if 0 <= k < len(rows) and not executed[k] and k not in found:
            found.add(k)
            todo += followers(k, rows[k]) or ()
    return sorted(found)


def is_idle(row: Row) -> bool:
    """Whether nobody needs what an instruction computes or loads."""
    return bool(row[ops.GROUP] == ops.NOTHING or (row[ops.GROUP] == ops.MEMORY and row[ops.MODE] & ops.NO_VALUES))


def _is_data(row: Row) -> bool:
    """Whether what an instruction writes is data, whatever it reads."""
    loads = row[ops.GROUP] == ops.MEMORY and row[ops.OP] in (ops.LOAD, ops.ATOMIC, ops.LOAD_MATRIX)
    return loads or row[ops.GROUP] in (ops.SINGLE, ops.DOUBLE, ops.HALF, ops.TENSOR)


def _moves_nothing(row: Row, needed: bool, loaded: set[int]) -> bool:
    """Whether an access moves only what nobody needs: it is enough to see where it goes."""
    if row[ops.GROUP] != ops.MEMORY:
        return False
    if row[ops.OP] in (ops.LOAD, ops.LOAD_MATRIX):
        return not needed
    if row[ops.OP] == ops.STORE:
        return loaded.isdisjoint(_reached(row))
    return row[ops.OP] in (ops.COPY, ops.STORE_MATRIX) and ops.SHARED not in loaded


class _Form(NamedTuple):
    """How an instruction changes what is needed: sets of rows, one that always and some that under a guard.

    What only instructions under a guard need is not needed before an instruction under the same guard that writes it.
    `wanted`: what it reads if something that it writes is needed; `asked`: what it reads in any case.
    """

    wanted: int
    asked: int
    writes: int
    replaced: int
    decides: tuple[int, ...]

    @staticmethod
    def of(row: Row, reads: tuple[int, ...], writes: tuple[int, ...], asked: int, pure: bool) -> _Form:
        """Return that of an instruction; a pure one only writes registers."""
        part, guard, bits = _part(row), _guard(row), row_bits(writes)
        wanted, asked = (row_bits(reads) & ~guard) << part | guard, (asked & ~guard) << part | guard & asked
        everywhere = _everywhere(bits)
        replaced = everywhere if row[ops.GUARD] in _ALWAYS else bits << part if part else 0
        decides = tuple(k for p in writes if -8 < p < 0 for k in (2 * -p - 1, 2 * -p))
        return _Form(wanted if pure else asked, asked, everywhere, replaced, decides)


class _Flow:
    """The straight runs of a program, and which may come next."""

    def __init__(self, rows: list[Row]) -> None:
        follows = [followers(i, row) for i, row in enumerate(rows)]
        ends = [i for i, next_ones in enumerate(follows) if next_ones != (i + 1,)]
        starts = {0, *(i + 1 for i in ends), *(k for i in ends for k in follows[i] or ())}
        self.firsts = sorted(k for k in starts if 0 <= k < len(rows))
        self.number = {first: n for n, first in enumerate(self.firsts)}
        self.stops = [*self.firsts[1:], len(rows)]
        self.next = [None if (f := follows[stop - 1]) is None else [self.number[k] for k in f if k in self.number]
                     for stop in self.stops]  # fmt: skip

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
    """Return what is needed before a straight run, from what is behind it; note of which steps something is."""
    for i in range(stop - 1, first - 1, -1):
        wanted, asked, writes, replaced, decides = steps[i]
        for part in decides:  # a guard that it writes was another one before
            if higher := needed >> part * _WIDTH:
                needed ^= (higher & _ROWS) << part * _WIDTH
                needed |= higher & _ROWS
        hit = needed & writes
        found[i] = hit != 0
        if hit:
            needed = (needed ^ hit & replaced) | wanted
        elif asked:
            needed |= asked
    return needed


@lru_cache(4096)
def row_bits(rows: tuple[int, ...] | frozenset[int]) -> int:
    """Return rows as a set of bits."""
    made = 0
    for row in rows:
        made |= 1 << (row + _PREDICATES)
    return made


@lru_cache(1024)
def _everywhere(rows: int) -> int:
    """Rows, in the set that is always needed and in those of all guards."""
    return rows * _EVERY_PART


def _part(row: Row) -> int:
    """By how many bits the set of an instruction's guard lies above the one that is always needed."""
    guard = int(row[ops.GUARD])
    return (2 * guard + 1 + int(row[ops.GUARD_NOT] != 0)) * _WIDTH if guard < _ALWAYS[0] else 0


def _guard(row: Row) -> int:
    """The guard of an instruction, which says how many threads take part."""
    return 0 if row[ops.GUARD] in _ALWAYS else row_bits((-1 - int(row[ops.GUARD]),))


def followers(at: int, row: Row) -> tuple[int, ...] | None:
    """The instructions that may come next; None: any."""
    if row[ops.GROUP] == ops.CONTROL:
        if row[ops.OP] in _ANYWHERE:
            return None
        if row[ops.OP] in _ENDS and _is_certain(row):
            return () if row[ops.OP] == ops.EXIT else (int(row[ops.TARGET]),)
        if row[ops.OP] in _JUMPS:
            return at + 1, int(row[ops.TARGET])
    return (at + 1,)


def _is_certain(row: Row) -> bool:
    """Whether all threads that come to an instruction do what it says."""
    guards = (ops.GUARD, ops.GUARD_NOT), (ops.PS, ops.PS_NOT), (ops.PS2, ops.PS2_NOT)
    return all(row[which] in _ALWAYS and not row[no] for which, no in guards)


def _asked_for(row: Row, reads: tuple[int, ...], loaded: set[int]) -> int:
    """What an instruction reads, but what it stores where nothing that matters is loaded."""
    stores = row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.STORE
    if not stores or not loaded.isdisjoint(_reached(row)):
        return row_bits(reads)
    return row_bits(frozenset(reads) - stored_rows(row))


def stored_rows(row: Row) -> set[int]:
    """The rows that an access reads only for what it stores."""
    if row[ops.OP] not in (ops.STORE, ops.ATOMIC, ops.REDUCTION):
        return set()
    data = {int(row[ops.C]) + k for k in range(max(1, int(row[ops.Z] & 255) >> 2))}
    return data - {int(row[ops.A]), int(row[ops.A]) + (int(row[ops.Z]) >> 8 not in (ops.SHARED, ops.LOCAL))}


def _spaces(row: Row, loaded: set[int], needed: bool) -> set[int]:
    """The spaces of memory whose contents matter because of an instruction; `needed`: what it writes to registers."""
    if row[ops.GROUP] == ops.ASYNC or (row[ops.GROUP] == ops.MEMORY and needed):
        return _reached(row)
    copies = row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.COPY
    return {ops.GLOBAL} if copies and ops.SHARED in loaded else set()


def _reached(row: Row) -> set[int]:
    """The spaces of memory that an instruction reaches; all of them where it does not say which."""
    every = {ops.GLOBAL, ops.SHARED, ops.LOCAL}
    if row[ops.GROUP] == ops.MEMORY and row[ops.OP] in (ops.LOAD, ops.STORE, ops.ATOMIC):
        space = int(row[ops.Z]) >> 8
        return {space} if space in every else every
    return {ops.SHARED} if row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.LOAD_MATRIX else every
