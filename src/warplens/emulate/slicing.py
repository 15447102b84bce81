"""Which instructions a profile has to compute: those on whose values an address, a branch or a barrier depends.

What the others compute goes only to memory from which nothing of that kind is loaded again. They are counted as before,
but give nothing: products of matrices and the arithmetic of most kernels need not be done to know what a kernel does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warplens.emulate import ops
from warplens.emulate.decode import Code

_ONLY_REGISTERS = (
    ops.INTEGER, ops.SINGLE, ops.DOUBLE, ops.HALF, ops.CONVERT, ops.LANES, ops.TENSOR, ops.PACKED
)  # fmt: skip
_ANYWHERE = (ops.BRX, ops.RET, ops.CALL_ABS, ops.SYSTEM_CALL)
_JUMPS = (ops.BRA, ops.CALL, ops.BRA_DIV, ops.BRA_ANY)
_ALWAYS = (7, 15)  # guards that always hold
_PREDICATES = 32  # rows of predicates are numbered from -1 down
_EVERYTHING = -1  # as a set of bits

Row = npt.NDArray[np.int64]


def needed_only(code: Code) -> npt.NDArray[np.int64]:
    """Return the code table in which instructions do nothing whose results no address and no branch depends on."""
    pure = np.isin(code.table[:, ops.GROUP], _ONLY_REGISTERS).tolist()
    reads, writes = ([_bits(rows) for rows in lists] for lists in (code.reads, code.writes))
    follows = [_followers(i, row) for i, row in enumerate(code.table)]
    loaded: set[int] = set()  # spaces of memory whose contents matter
    while True:
        asked = [
            _guard(row) if one else _asked_for(row, rows, loaded)
            for row, rows, one in zip(code.table, code.reads, pure, strict=True)
        ]
        kept = [0 if row[ops.GUARD] in _ALWAYS else written for row, written in zip(code.table, writes, strict=True)]
        after = _needed_after(pure, (reads, writes, asked, kept), follows)
        found = loaded.union(*(_spaces(row, loaded, bool(after[i] & writes[i])) for i, row in enumerate(code.table)))
        if found == loaded:
            break
        loaded = found
    table = code.table.copy()
    table[[i for i, one in enumerate(pure) if one and not after[i] & writes[i]], ops.GROUP] = ops.NOTHING
    return table


def _bits(rows: tuple[int, ...] | set[int]) -> int:
    """Return rows as a set of bits."""
    made = 0
    for row in rows:
        made |= 1 << (row + _PREDICATES)
    return made


def _guard(row: Row) -> int:
    """The guard of an instruction, which says how many threads take part."""
    return 0 if row[ops.GUARD] in _ALWAYS else _bits((-1 - int(row[ops.GUARD]),))


def _followers(at: int, row: Row) -> tuple[int, ...] | None:
    """The instructions that may come next; None: any."""
    if row[ops.GROUP] == ops.CONTROL:
        if row[ops.OP] in _ANYWHERE:
            return None
        if row[ops.OP] in _JUMPS:
            return at + 1, int(row[ops.TARGET])
    return (at + 1,)


def _needed_after(
    pure: list[bool], what: tuple[list[int], list[int], list[int], list[int]], follows: list[tuple[int, ...] | None]
) -> list[int]:
    """Return the rows that are needed behind each instruction; `what`: read, written, asked for, kept where written."""
    reads, writes, asked, kept = what
    count = len(pure)
    before, after = [0] * (count + 1), [0] * count
    changed = True
    while changed:
        changed = False
        for i in range(count - 1, -1, -1):
            next_ones, needed = follows[i], 0
            if next_ones is None:
                needed = _EVERYTHING
            else:
                for k in next_ones:
                    needed |= before[k] if k <= count else 0
            after[i] = needed
            here = needed & ~writes[i] | needed & kept[i]
            here |= reads[i] if pure[i] and needed & writes[i] else asked[i]
            if here != before[i]:
                before[i], changed = here, True
    return after


def _asked_for(row: Row, reads: tuple[int, ...], loaded: set[int]) -> int:
    """What an instruction reads, but what it stores where nothing that matters is loaded."""
    stores = row[ops.GROUP] == ops.MEMORY and row[ops.OP] == ops.STORE
    if not stores or not loaded.isdisjoint(_reached(row)):
        return _bits(reads)
    data = {int(row[ops.C]) + k for k in range(max(1, int(row[ops.Z] & 255) >> 2))}
    place = {int(row[ops.A]), int(row[ops.A]) + (int(row[ops.Z]) >> 8 not in (ops.SHARED, ops.LOCAL))}
    return _bits({r for r in reads if r not in data or r in place})


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
