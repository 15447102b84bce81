"""When a warp alone on an SM issues each instruction, and which chain of instructions decides when it ends.

With control codes: an instruction issues its predecessor's stall count later, and not before the scoreboards
it waits for are released. Fixed latencies are in the stall counts; what releases a scoreboard takes the
machine's latency of the instruction's class. A branch that is taken costs the time to fetch from elsewhere, and
BSYNC, where threads meet again, costs more than its stall count even if all of them are there.

Without control codes (a listing): as Volkov's latency bound (`warplens.kernel.schedule`), from the latencies
of the machine file and the registers that instructions share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from warplens.kernel.instruction import Instruction
from warplens.kernel.schedule import schedule
from warplens.machine import Machine


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
        found: list[int] = []
        at: int | None = len(self.issue_cycles) - 1
        while at is not None and at >= 0:
            found.append(at)
            at = self.decided_by[at]
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
    known = {key: facts(x, machine) for key, x in {id(x): x for x in code}.items()}  # a way comes by the same again
    return issue_in_order([known[id(x)] for x in code], machine, taken or set(), latencies)


class Facts(NamedTuple):
    """What issuing an instruction depends on.

    The scoreboards that it waits for, and those of its result and its sources; its stall count; the cycles of its
    result, of reading its sources, until the next barrier (None: it is none), for which its warp is held.
    """

    waits: tuple[int, ...]
    write: int | None
    read: int | None
    stall: int
    latency: float
    read_cycles: float
    barrier: float | None
    held: float


def facts(x: Instruction, machine: Machine) -> Facts:
    """Look up what issuing an instruction depends on."""
    control, timing, held = x.control, machine.timing(x.kind), 0.0
    barrier = (machine.sm.barrier_cycles or 0.0) if x.opcode == "BAR" else None
    if x.opcode == "BSYNC":
        held = machine.sm.reconverge_cycles or 0.0
    if x.opcode == "MEMBAR" and not {"GPU", "SYS"}.isdisjoint(x.modifiers):
        held = machine.sm.fence_cycles or 0.0
    if control is None:
        return Facts((), None, None, 1, 0.0, 0.0, barrier, held)
    latency, read = timing.latency_cycles or 0.0, timing.read_cycles or 0.0
    boards = control.write_scoreboard, control.read_scoreboard
    return Facts(control.waits, *boards, max(1, control.stall), latency, read, barrier, held)


def issue_in_order(
    run: Sequence[Facts], machine: Machine, taken: set[int], latencies: Sequence[float] | None = None
) -> LoneWarp:
    """Issue instructions with control codes, of which the facts are known; see `issue_alone`."""
    now, next_barrier = 0.0, 0.0
    released: list[tuple[float, int | None]] = [(0.0, None)] * 8  # six scoreboards; a damaged field may name another
    cycles: list[float] = []
    waited: list[int | None] = []
    decided: list[int | None] = []
    branch_taken = machine.sm.branch_taken_cycles or 0.0
    for i, (waits, write, read, stall, latency, read_cycles, barrier, held) in enumerate(run):
        issue, why = max(now, next_barrier) if barrier is not None else now, None
        by: int | None = i - 1 if i else None
        for board in waits:
            if released[board][0] > issue:
                (issue, by), why = released[board], board
        if write is not None:
            done = issue + (latency if latencies is None else latencies[i])
            if done > released[write][0]:
                released[write] = done, i
        if read is not None and issue + read_cycles > released[read][0]:
            released[read] = issue + read_cycles, i
        cycles.append(issue)
        waited.append(why)
        decided.append(by)
        now = issue + stall
        if barrier is not None:
            next_barrier = issue + barrier
        if held:
            now = max(now, issue + held)
        if i in taken:
            now = max(now, issue + branch_taken)
    return LoneWarp(cycles, waited, decided, now)


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
