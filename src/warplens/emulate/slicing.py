"""Which instructions a profile has to compute: those on whose values an address, a branch or a barrier depends.

What the others compute goes only to memory from which nothing of that kind is loaded again. They are counted as before,
but give nothing: products of matrices and the arithmetic of most kernels need not be done to know what a kernel does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulate import ops
from warplens.emulate.decode import Code
from warplens.kernel.program import Program

_ONLY_REGISTERS = (
    ops.INTEGER, ops.SINGLE, ops.DOUBLE, ops.HALF, ops.CONVERT, ops.LANES, ops.TENSOR, ops.PACKED
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
    pure = np.isin(code.table[:, ops.GROUP], (*_ONLY_REGISTERS, ops.NOTHING)).tolist()
    rows: list[Row] = code.table.tolist()
    follows = [followers(i, row) for i, row in enumerate(rows)]
    loaded: set[int] = set()  # spaces of memory whose contents matter
    while True:
        steps = []
        for row, reads, writes, one in zip(rows, code.reads, code.writes, pure, strict=True):
            asked = (_guard(row) if guards else 0) if one else _asked_for(row, reads, loaded)
            steps.append(_Step(row, row_bits(reads), writes, asked, one))
        _follow(steps, follows)
        found = loaded.union(*(_spaces(step.row, loaded, step.is_needed) for step in steps))
        if found == loaded:
            break
        loaded = found
    table = code.table.copy()
    idle = [i for i, step in enumerate(steps) if step.pure and not step.is_needed]
    table[idle, ops.GROUP] = ops.NOTHING
    if not guards:
        table[idle, ops.GUARD], table[idle, ops.GUARD_NOT] = _ALWAYS[0], 0
    table[[i for i, step in enumerate(steps) if _moves_nothing(step, loaded)], ops.MODE] |= ops.NO_VALUES
    return table


def mark_idle(table: npt.NDArray[np.int64]) -> None:
    """Write to each instruction that does nothing, and always, how many such ones there are from it on."""
    does_nothing = (table[:, ops.GROUP] == ops.NOTHING) & np.isin(table[:, ops.GUARD], _ALWAYS)
    does_nothing &= table[:, ops.GUARD_NOT] == 0
    ahead = 0
    for pc in range(len(table) - 1, -1, -1):
        ahead = ahead + 1 if does_nothing[pc] else 0
        if table[pc, ops.GROUP] == ops.NOTHING:
            table[pc, ops.TARGET] = ahead
        ahead = 0 if table[pc, ops.AWAITS] else ahead


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
    reads = [{*read, -1 - row[ops.GUARD]} for row, read in zip(rows, code.reads, strict=True)]
    data, before = set[int](), -1
    while len(data) != before:
        before = len(data)
        for row, read, writes in zip(rows, reads, code.writes, strict=True):
            if not is_idle(row) and (_is_data(row) or not data.isdisjoint(read)):
                data.update(writes)
    branches = [i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL and not data.isdisjoint(reads[i])]
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


def _moves_nothing(step: _Step, loaded: set[int]) -> bool:
    """Whether an access moves only what nobody needs: it is enough to see where it goes."""
    if step.row[ops.GROUP] != ops.MEMORY:
        return False
    if step.row[ops.OP] in (ops.LOAD, ops.LOAD_MATRIX):
        return not step.is_needed
    if step.row[ops.OP] == ops.STORE:
        return loaded.isdisjoint(_reached(step.row))
    return step.row[ops.OP] in (ops.COPY, ops.STORE_MATRIX) and ops.SHARED not in loaded


class _Step:
    """One instruction, and how it changes what is needed: sets of rows, one that always and some that under a guard.

    What only instructions under a guard need is not needed before an instruction under the same guard that writes it.
    """

    def __init__(self, row: Row, reads: int, writes: tuple[int, ...], asked: int, pure: bool) -> None:
        self.row, self.pure, self.is_needed = row, pure, False
        self.guard = _part(row)
        guard = _guard(row)
        self.reads, self.asked = (
            (reads & ~guard) << self.guard | guard,
            (asked & ~guard) << self.guard | guard & asked,
        )
        self.writes = _everywhere(row_bits(writes))
        always = row[ops.GUARD] in _ALWAYS
        self.replaced = self.writes if always else row_bits(writes) << self.guard if self.guard else 0
        self.decides = [part for p in writes if -8 < p < 0 for part in (2 * -p - 1, 2 * -p)]

    def before(self, needed: int) -> int:
        """Return what is needed before the instruction, from what is needed behind it."""
        for part in self.decides:  # a guard that it writes was another one before
            needed |= needed >> part * _WIDTH & _ROWS
            needed &= ~(_ROWS << part * _WIDTH)
        self.is_needed = bool(needed & self.writes)
        return needed & ~self.replaced | (self.reads if self.pure and self.is_needed else self.asked)


def row_bits(rows: tuple[int, ...] | set[int]) -> int:
    """Return rows as a set of bits."""
    made = 0
    for row in rows:
        made |= 1 << (row + _PREDICATES)
    return made


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


def _follow(steps: list[_Step], follows: list[tuple[int, ...] | None]) -> None:
    """Find out which steps are needed, from the last to the first, until loops add nothing."""
    before = [0] * (len(steps) + 1)
    changed = True
    while changed:
        changed = False
        for i in range(len(steps) - 1, -1, -1):
            next_ones = follows[i]
            needed = _ROWS if next_ones is None else 0
            for k in next_ones or ():
                needed |= before[k]
            here = steps[i].before(needed)
            if here != before[i]:
                before[i], changed = here, True


def _asked_for(row: Row, reads: tuple[int, ...], loaded: set[int]) -> int:
    """What an instruction reads, but what it stores where nothing that matters is loaded."""
    stores = row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.STORE
    if not stores or not loaded.isdisjoint(_reached(row)):
        return row_bits(reads)
    return row_bits(set(reads) - stored_rows(row))


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
