"""What need not be computed of a call: what is sliced away of its program, knowing its arrays and what was seen of it.

Which array an access goes to is said by the program: that of the one pointer its address is computed from.
What is stored to an array matters only to loads from it. The arrays of a launch are apart from one another, so that an
address that is made of one pointer and of numbers stays in that pointer's array, or is outside of all. An address of
several pointers or of a variable's, of none (it was loaded), or behind a call may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulator import ops
from warplens.emulator.decode import Code, Key
from warplens.emulator.slicing import ALWAYS, PURE, WIDTH, Row, followers, mark_idle, needed_only, row_bits, stored_rows
from warplens.program.program import Program

_MOST = 16  # pointers that are followed
_VARIABLES = 4  # the bank that has addresses of the module's variables


def sliced(code: Code, pointers: Sequence[int], *, guards: bool = True) -> Code:
    """Return the code in which only that is computed on which an address or a branch depends: see `needed_only`.

    `pointers`: where bank 0 has those to the call's arrays. What an access goes to is looked at where it matters.
    """
    made = replace(code, table=needed_only(code, guards=guards))
    memory, op, space = (made.table[:, which] for which in (ops.GROUP, ops.OP, ops.Z))
    stores = (memory == ops.MEMORY) & (op == ops.STORE) & (space >> 8 == ops.GLOBAL)
    if (stores & (made.table[:, ops.MODE] & ops.NO_VALUES == 0)).any():
        known = replace(code, arrays=arrays_of(code, pointers))
        made = replace(known, table=needed_only(known, guards=guards))
    mark_idle(made.table)
    return made


def as_seen(code: Code, program: Program, executed: npt.NDArray[np.float64], pointers: Sequence[int]) -> Code:
    """Return the code (of `sliced`) for more blocks of a call, when it is known what some of them executed.

    Guards of what does nothing decide only how many threads are counted for it: they are taken to hold. And a slow path
    of a division or a root that nobody took is taken to be taken by nobody: the compiler's own functions for numbers
    at the ends of their range, before which it asks for the exponent. Without that all that leads to a quotient is
    computed in every block, for the sake of one branch. Where an address or a branch depends on a quotient, it stays.
    """
    asked = replace(code, arrays=[])
    made = replace(asked, table=code.table.copy(), reads=[*code.reads], writes=[*code.writes])
    left = [i for i in slow_paths(program, executed) if _leave_out(made, i)]
    guarded = ~np.isin(code.table[:, ops.GUARD], ALWAYS) & np.isin(code.table[:, ops.GROUP], PURE)
    if not left and not guarded.any():
        return code
    less = sliced(made, pointers, guards=False)
    if (less.table[left, ops.GROUP] == ops.NOTHING).all():
        return less
    return sliced(asked, pointers, guards=False) if guarded.any() else code


def slow_paths(program: Program, executed: npt.NDArray[np.float64]) -> list[int]:
    """Return the calls of the compiler's functions for numbers at the ends of their range that nobody made."""
    calls = [i for i, x in enumerate(program.instructions) if x.opcode == "CALL" and "_slowpath" in x.text]
    return [i for i in calls if not executed[i]]


def _leave_out(code: Code, call: int) -> bool:
    """Let the branch before a call always jump over it, if there is one that may; say whether it does.

    The call becomes an instruction that writes what the function may: it does nothing if no result of it is needed.
    """
    table, at = code.table, call - 1
    while at > 0 and table[at, ops.GROUP] not in (ops.CONTROL, ops.ASYNC, ops.UNKNOWN):
        at -= 1
    row, targets = table[at], table[table[:, ops.GROUP] == ops.CONTROL, ops.TARGET]
    jumps = row[ops.GROUP] == ops.CONTROL and row[ops.OP] == ops.BRA and row[ops.TARGET] > call
    only_way = not ((targets > at) & (targets <= call)).any()
    if jumps and only_way and row[ops.PS] == row[ops.PS2] == ALWAYS[0]:
        row[ops.GUARD], row[ops.GUARD_NOT], code.reads[at] = ALWAYS[0], 0, ()
        first = last = int(table[call, ops.TARGET])
        while last < len(table) and not (table[last, ops.GROUP] == ops.CONTROL and table[last, ops.OP] == ops.RET):
            last += 1
        code.reads[call], code.writes[call] = (), tuple({n for writes in code.writes[first:last] for n in writes})
        table[call, ops.GROUP], table[call, ops.OP] = ops.INTEGER, ops.MOV  # nobody comes here, and it leads nowhere
        return True
    return False


def arrays_of(code: Code, pointers: Sequence[int]) -> list[int]:
    """Return for each instruction the number of the pointer whose array it goes to; -1: it may be any."""
    rows: list[Row] = code.table.tolist()
    anywhere = [-1] * len(rows)
    if not 1 < len(pointers) <= _MOST:
        return anywhere
    parts = range(len(pointers) + 1)  # the last one: addresses of the module's variables
    every = sum(1 << part * WIDTH for part in parts)
    held = {code.row_count + i: bits for i, key in enumerate(code.pool) if (bits := _held(key, pointers))}
    before: dict[int, int] = {0: 0}  # by instruction: for each pointer, the rows that may hold what is made of it
    todo = [0]
    while todo:
        i = heappop(todo)
        row, behind, written, nexts = rows[i], before[i], row_bits(code.writes[i]), followers(i, rows[i])
        if nexts is None:
            return anywhere
        made = _made(row, behind, row_bits(code.reads[i]), parts, held)
        if row[ops.GUARD] in ALWAYS:
            behind &= ~(written * every)
        for part in parts if made else ():
            behind |= (written if made >> part & 1 else 0) << part * WIDTH
        for k in nexts:
            old = before.get(k)
            joined = behind if old is None else old | behind
            if joined != old and k < len(rows):
                before[k] = joined
                heappush(todo, k)
    return [_only(row, code.reads[i], before.get(i, 0), parts) for i, row in enumerate(rows)]


def _held(key: Key, pointers: Sequence[int]) -> int:
    """Return which pointer, a bit each, a constant is a half of; with -rdc code itself has addresses of variables."""
    kind, bank, offset = key
    if kind == "address" or (kind == "bank" and bank == _VARIABLES):
        return 1 << len(pointers)
    return sum(1 << n for n, at in enumerate(pointers) if kind == "bank" and bank == 0 and at <= offset < at + 8)


def _made(row: Row, before: int, reads: int, parts: range, held: dict[int, int]) -> int:
    """Return of which pointers what an instruction writes is made; what was loaded is made of none."""
    if row[ops.GROUP] == ops.MEMORY:
        return 0
    if row[ops.GROUP] == ops.INTEGER and row[ops.OP] == ops.LOAD_CONSTANT:
        return (1 << len(parts)) - 1
    made = 0
    for which in (ops.A, ops.B, ops.C):
        made |= held.get(row[which], 0)
    for part in parts:
        if before >> part * WIDTH & reads:
            made |= 1 << part
    return made


def _only(row: Row, reads: tuple[int, ...], before: int, parts: range) -> int:
    """Return the only pointer that the address of an access is made of; -1: there is none, or another one."""
    if row[ops.GROUP] != ops.MEMORY or row[ops.OP] not in (ops.LOAD, ops.STORE):
        return -1
    address = row_bits(frozenset(reads) - stored_rows(row))
    found = [part for part in parts if before >> part * WIDTH & address]
    return found[0] if len(found) == 1 and found[0] != parts[-1] else -1
