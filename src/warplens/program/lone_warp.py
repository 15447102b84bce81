"""When a warp alone on an SM issues each instruction, and which chain of instructions decides when it ends.

With control codes: an instruction issues its predecessor's stall count later, and not before the scoreboards
it waits for are released. Fixed latencies are in the stall counts; what releases a scoreboard takes the
machine's latency of the instruction's class. A branch that is taken costs the time to fetch from elsewhere, and
BSYNC, where threads meet again, costs more than its stall count even if all of them are there.

Without control codes (a listing): as Volkov's latency bound (`warplens.program.schedule`), from the latencies
of the machine file and the registers that instructions share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.native import Entry, there
from warplens.machine import Machine
from warplens.program.instruction import Instruction
from warplens.program.schedule import schedule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_BOARDS = 8  # six scoreboards; a damaged field may name another
_FEW = 100  # instructions, up to which calling compiled code takes longer


class LoneWarp(Struct, frozen=True):
    """Issue cycles of a run of instructions, which scoreboard (or None) each one had to wait for, the end.

    `decided_by` has, for each instruction, the earlier one (by position) that decided when it issued.
    """

    issue_cycles: list[float]
    waited_for: list[int | None]
    decided_by: list[int | None]
    end_cycle: float

    def path(self) -> list[int]:
        """Return the longest path: the chain of decisions that leads to the last instruction, in order."""
        return chain(self.decided_by)


def chain(decided_by: Sequence[int | None]) -> list[int]:
    """Return the chain of decisions that leads to the last instruction, in order; -1: nothing decided, as None."""
    found: list[int] = []
    at: int | None = len(decided_by) - 1
    while at is not None and at >= 0:
        found.append(at)
        at = decided_by[at]
    return found[::-1]


def issue_alone(
    code: list[Instruction],
    machine: Machine,
    *,
    taken: set[int] | None = None,
    latencies: Sequence[float] | None = None,
) -> LoneWarp:
    """Issue instructions in order for one warp; `taken` has the positions of branches that are taken.

    `latencies` replaces, position by position, how long a result takes that is waited for.
    """
    if code and all(x.control is None for x in code):
        return _by_dependences(code, machine, taken or set())
    run = facts_of(code, machine)
    if latencies is not None:
        run[:, LATENCY] = latencies
    cycles, waited, decided = issue_in_order(run, machine, taken or set())
    waited_for, decided_by = ([None if n < 0 else n for n in found.tolist()] for found in (waited, decided))
    return LoneWarp(cycles[:-1].tolist(), waited_for, decided_by, float(cycles[-1]))


class Facts(NamedTuple):
    """What issuing an instruction depends on; -1: nothing of the kind.

    The scoreboards that it waits for, a bit each, and those of its result and its sources; its stall count; the cycles
    of its result, of reading its sources, until the next barrier if it is one, for which its warp is held.
    """

    waits: int
    write: int
    read: int
    stall: int
    latency: float
    read_cycles: float
    barrier: float
    held: float


LATENCY = Facts._fields.index("latency")


def facts_of(code: Sequence[Instruction], machine: Machine) -> Floats:
    """Look up what issuing each instruction depends on, a row of `Facts` for each; once for all that are alike."""
    seen, known, alike = dict[int, int](), dict[tuple[object, ...], int](), list[Facts]()
    for x in code:
        if id(x) not in seen:  # a way comes by the same again
            form = x.kind, x.opcode, x.modifiers, x.control
            if form not in known:
                known[form] = len(alike)
                alike.append(_facts(x, machine))
            seen[id(x)] = known[form]
    which = np.array([seen[id(x)] for x in code], np.int64)
    return np.array(alike, np.float64).reshape(-1, len(Facts._fields))[which]


def _facts(x: Instruction, machine: Machine) -> Facts:
    control, timing, held = x.control, machine.timing(x.kind), 0.0
    barrier = (machine.sm.barrier_cycles or 0.0) if x.opcode == "BAR" else -1.0
    if x.opcode == "BSYNC":
        held = machine.sm.reconverge_cycles or 0.0
    if x.opcode == "MEMBAR" and not {"GPU", "SYS"}.isdisjoint(x.modifiers):
        held = machine.sm.fence_cycles or 0.0
    if control is None:
        return Facts(0, -1, -1, 1, 0.0, 0.0, barrier, held)
    latency, read = timing.latency_cycles or 0.0, timing.read_cycles or 0.0
    write, sources = (-1 if n is None else n for n in (control.write_scoreboard, control.read_scoreboard))
    return Facts(control.wait_mask & 63, write, sources, max(1, control.stall), latency, read, barrier, held)


def issue_in_order(run: Floats, machine: Machine, taken: Iterable[int]) -> tuple[Floats, Ints, Ints]:
    """Issue instructions with control codes, of which the facts are known; see `issue_alone`.

    Return the cycles of issue and that of the end, the scoreboards waited for and the positions that decided; -1: none.
    """
    size = len(run)
    jumps = np.zeros(size, np.int64)
    jumps[[*taken]] = 1
    given: list[Any] = [
        run, jumps, np.array([machine.sm.branch_taken_cycles or 0.0]), np.zeros(_BOARDS), np.full(_BOARDS, -1),
        np.zeros(size + 1), np.zeros(size, np.int64), np.zeros(size, np.int64),
    ]  # fmt: skip
    if _compiled is not None and size > _FEW:
        _compiled(*given)
        cycles, waited, decided = given[-3:]
    else:
        given = [array.tolist() for array in given]
        _issue(*given)
        cycles, waited, decided = (np.array(x, y) for x, y in zip(given[-3:], (float, int, int), strict=True))
    return cycles, waited, decided


def _issue(
    run: Any, jumps: Any, branch: Any, released: Any, releasers: Any, cycles: Any, waited: Any, decided: Any
) -> None:
    """Fill in `cycles`, `waited` and `decided`. Plain Python is the definition; Numba compiles the same source."""
    now = next_barrier = 0.0
    for i in range(len(run)):
        row = run[i]
        waits, write, read, barrier = int(row[0]), int(row[1]), int(row[2]), row[6]
        issue, why, by, board = now, -1, i - 1, 0
        if barrier >= 0 and next_barrier > now:
            issue = next_barrier
        while waits:
            if waits & 1 and released[board] > issue:
                issue, by, why = released[board], releasers[board], board
            waits >>= 1
            board += 1
        if write >= 0 and issue + row[4] > released[write]:
            released[write], releasers[write] = issue + row[4], i
        if read >= 0 and issue + row[5] > released[read]:
            released[read], releasers[read] = issue + row[5], i
        cycles[i], waited[i], decided[i] = issue, why, by
        now = issue + row[3]
        if barrier >= 0:
            next_barrier = issue + barrier
        if row[7] > 0 and issue + row[7] > now:
            now = issue + row[7]
        if jumps[i] and issue + branch[0] > now:
            now = issue + branch[0]
    cycles[len(run)] = now


def _sources() -> tuple[Path, ...]:
    return (Path(__file__),)


_compiled = Entry(_issue, {"nogil": True, "error_model": "numpy", "_nrt": False}, _sources) if there() else None


def _by_dependences(code: list[Instruction], machine: Machine, taken: set[int]) -> LoneWarp:
    """Issue a listing; a latency that the machine does not know counts as none."""
    untimed = {kind for kind in {x.kind for x in code} if machine.timing(kind).latency_cycles is None}
    known = [
        replace(
            x,
            taken=i in taken,
            latency_cycles=0.0 if x.latency_cycles is None and x.kind in untimed else x.latency_cycles,
        )
        for i, x in enumerate(code)
    ]
    run = schedule([known], machine, replacement=False)
    return LoneWarp(run.issue_cycles[0], [None] * len(code), run.decided_by, run.end_cycle)
