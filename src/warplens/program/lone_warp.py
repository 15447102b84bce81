"""Lone-warp schedule: the issue cycles of a warp alone on an SM, and the chain of instructions that decides its end.

With control codes (`issue_alone`): an instruction issues its predecessor's stall count later, and not before the
scoreboards it waits for are released. Fixed latencies are in the stall counts; what releases a scoreboard takes the
machine's latency of the instruction's class. A branch that is taken costs the time to fetch from elsewhere, and
BSYNC, where threads meet again, costs more than its stall count even if all of them are there.

Without control codes (`schedule`, of listings): Volkov's latency bound (2016 §3.7). Only latencies count, no throughput
limits and no other warps, except at barriers: all warps of a block run to the barrier alone and leave it together.
An instruction issues when
- its registers are ready (register dependency latency of each producer),
- the warp may issue again (ILP latency, none for the second of a dual-issued pair),
- a branch before it has resolved, a barrier before it has been left.
The longest path through these constraints is a lower bound on the warp's latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.native import Entry, there
from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction, access_bytes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_BOARDS = 8  # six scoreboards; a damaged field may name another
_FEW = 100  # instructions, up to which calling compiled code takes longer
# Wide loads from shared memory by bytes per thread: their operation in the machine file, and the cycles in its measured
# chain of the LOP3s that make an address of what was loaded (stall counts five and six in turn for one of them, four
# and five for two).
_CHAINS = {8: ("lds_64", 5.5), 16: ("lds_128", 9.0)}
WIDE_LOADS = tuple(name for name, _ in _CHAINS.values())


def wide_cycles(width: float | Floats, machine: Machine) -> float | Floats:
    """Return by how many cycles a load of so many bytes per thread from shared memory is later than one of four.

    64 or 128 bits of a thread take two or four wavefronts (operations.lds_64 and lds_128 of the machine file).
    """

    def later(bytes_per_thread: float) -> float:
        name, besides = _CHAINS.get(int(bytes_per_thread), ("", 0.0))
        known, plain = machine.operations.get(name), machine.timing("shared").latency_cycles
        if known is None or known.latency_cycles is None or plain is None:
            return 0.0
        return float(round(known.latency_cycles - besides - plain))

    if isinstance(width, (int, float)):
        return later(width)
    found: Floats = np.vectorize(later, otypes=[float])(width)
    return found


class Schedule(Struct, frozen=True):
    """Issue cycles of each warp's instructions, and the latency of the block that they form."""

    issue_cycles: list[list[float]]
    dual_issued: list[list[bool]]
    latency_cycles: float
    path: list[int]  # instructions of the longest path of the last warp to finish
    awaited: list[int]  # those of them whose result the next one on the path waits for
    decided_by: list[int | None]  # for each of its instructions, the one that decided when it issued
    end_cycle: float  # when that warp could issue one more


def schedule(warps: list[list[Instruction]], machine: Machine, *, replacement: bool = True) -> Schedule:
    """Issue all warps of a block; `replacement` adds the latency to replace the finished block."""
    runs = [_Run(code, machine) for code in warps]
    while any(not run.done for run in runs):
        arrived = [run for run in runs if run.advance()]
        if arrived:
            left = max(run.issued[-1] for run in arrived) + (machine.sm.barrier_cycles or _ilp(machine, "barrier"))
            for run in arrived:
                run.earliest = max(run.earliest, left)
    tail = (machine.sm.block_replacement_cycles or 0.0) if replacement else 0.0
    last = max(runs, key=lambda run: run.issued[-1])
    decided_by = [before if before >= 0 else None for before, _ in last.before]
    path = chain(decided_by)
    return Schedule(
        issue_cycles=[r.issued for r in runs],
        dual_issued=[r.dual for r in runs],
        latency_cycles=last.issued[-1] + tail,
        path=path,
        awaited=[i for i, later in pairwise(path) if last.before[later] == (i, True)],
        decided_by=decided_by,
        end_cycle=last.earliest,
    )


def period(code: list[Instruction], machine: Machine) -> float:
    """Return the cycles that one repetition of an endlessly repeated body adds to a warp's latency."""
    short, long = 8, 16
    ends = [schedule([code * n], machine, replacement=False).latency_cycles for n in (short, long)]
    return (ends[1] - ends[0]) / (long - short)


class _Run:
    """One warp that issues its code in order."""

    def __init__(self, code: list[Instruction], machine: Machine) -> None:
        self.code, self.machine = code, machine
        self.issued: list[float] = []
        self.dual: list[bool] = []
        self.before: list[tuple[int, bool]] = []  # what decided each issue cycle: instruction, by its result?
        self._ready: dict[str, int] = {}  # register -> instruction that writes it
        self.earliest = 0.0
        self._intervals = {kind: _ilp(machine, kind) for kind in {x.kind for x in code}}

    @property
    def done(self) -> bool:
        return len(self.issued) == len(self.code)

    def advance(self) -> bool:
        """Issue up to the next barrier, inclusively; return whether one was reached."""
        while not self.done:
            i = len(self.issued)
            instruction = self.code[i]
            pair = self._pairs(i)
            cycle, before = (self.issued[-1] if pair else self.earliest), (i - 1, False)
            for register in instruction.reads:
                if (producer := self._ready.get(register)) is not None:
                    ready = self.issued[producer] + self._latency(producer, instruction)
                    if ready > cycle:
                        cycle, before = ready, (producer, True)
            self.issued.append(cycle)
            self.dual.append(pair)
            self.before.append(before)
            for register in instruction.writes:
                self._ready[register] = i
            self.earliest = cycle + self._to_next(instruction)
            if instruction.kind == "barrier":
                return True
        return False

    def _latency(self, producer: int, consumer: Instruction) -> float:
        instruction = self.code[producer]
        if instruction.latency_cycles is not None:
            return instruction.latency_cycles
        latency = self.machine.latency_cycles(instruction.kind, consumer.kind, model="the latency bound")
        wide = wide_cycles(access_bytes(instruction), self.machine) if instruction.kind == "shared" else 0.0
        return latency + float(wide)

    def _to_next(self, instruction: Instruction) -> float:
        sm = self.machine.sm
        if instruction.kind == "branch":
            cycles = sm.branch_taken_cycles if instruction.taken else sm.branch_not_taken_cycles
            if cycles is not None:
                return cycles
        return self._intervals[instruction.kind]

    def _pairs(self, i: int) -> bool:
        """Return whether instruction i issues together with the one before it (§3.8: no two memory accesses)."""
        if self.machine.sm.issue_width < 2 or i == 0 or self.dual[-1]:
            return False
        first, second = self.code[i - 1], self.code[i]
        memory = KINDS[first.kind] == "memory system" and KINDS[second.kind] == "memory system"
        control = first.kind in ("branch", "barrier", "exit") or second.kind in ("branch", "barrier")
        return not (memory or control or set(first.writes) & {*second.reads, *second.writes})


def _ilp(machine: Machine, kind: str) -> float:
    own = machine.timing(kind).ilp_latency_cycles
    return own or machine.sm.ilp_latency_cycles or machine.sm.issue_interval_cycles


class LoneWarp(Struct, frozen=True):
    """Issue cycles of a run of instructions, which scoreboard (or None) each one had to wait for, the end.

    `decided_by` has, for each instruction, the earlier one (by position) that decided when it issued.
    """

    issue_cycles: list[float]
    waited_for: list[int | None]
    decided_by: list[int | None]
    end_cycle: float


def chain(decided_by: Sequence[int | None] | Mapping[int, int | None], end: int | None = None) -> list[int]:
    """Return the chain of decisions that leads to an instruction (the last), in order; -1: nothing decided, as None."""
    found: list[int] = []
    at: int | None = len(decided_by) - 1 if end is None else end
    while at is not None and at >= 0:
        found.append(at)
        at = decided_by[at]
    return found[::-1]


def issue_alone(code: list[Instruction], machine: Machine, *, taken: set[int] | None = None) -> LoneWarp:
    """Issue instructions in order for one warp; `taken` has the positions of branches that are taken."""
    if code and all(x.control is None for x in code):
        return _by_dependences(code, machine, taken or set())
    cycles, waited, decided = issue_in_order(facts_of(code, machine), machine, taken or set())
    waited_for, decided_by = ([None if n < 0 else n for n in found.tolist()] for found in (waited, decided))
    return LoneWarp(cycles[:-1].tolist(), waited_for, decided_by, float(cycles[-1]))


class Facts(NamedTuple):
    """The facts on which issuing an instruction depends; -1: none of the kind.

    The scoreboards that it waits for, a bit each, and those of its result and its sources; its stall count; the cycles
    of its result, of reading its sources, until the next barrier if it is one, and until the next issue of its warp.
    """

    waits: int
    write: int
    read: int
    stall: int
    latency: float
    read_cycles: float
    barrier: float
    delay: float


LATENCY = Facts._fields.index("latency")


def facts_of(code: Sequence[Instruction], machine: Machine) -> Floats:
    """Return a row of `Facts` for each instruction; equal instructions are looked up once."""
    seen, known, rows = dict[int, int](), dict[tuple[object, ...], int](), list[Facts]()
    for x in code:
        if id(x) not in seen:  # a path has the same one again
            form = x.kind, x.opcode, x.modifiers, x.control
            if form not in known:
                known[form] = len(rows)
                rows.append(_facts(x, machine))
            seen[id(x)] = known[form]
    which = np.array([seen[id(x)] for x in code], np.int64)
    return np.array(rows, np.float64).reshape(-1, len(Facts._fields))[which]


def _facts(x: Instruction, machine: Machine) -> Facts:
    control, timing, delay = x.control, machine.timing(x.kind), 0.0
    barrier = (machine.sm.barrier_cycles or 0.0) if x.opcode == "BAR" else -1.0
    if x.opcode == "BSYNC":
        delay = machine.sm.reconverge_cycles or 0.0
    if x.opcode == "MEMBAR" and not {"GPU", "SYS"}.isdisjoint(x.modifiers):
        delay = machine.sm.fence_cycles or 0.0
    if control is None:
        return Facts(0, -1, -1, 1, 0.0, 0.0, barrier, delay)
    latency, read = timing.latency_cycles or 0.0, timing.read_cycles or 0.0
    write, sources = (-1 if n is None else n for n in (control.write_scoreboard, control.read_scoreboard))
    return Facts(control.wait_mask & 63, write, sources, max(1, control.stall), latency, read, barrier, delay)


def issue_in_order(run: Floats, machine: Machine, taken: Iterable[int]) -> tuple[Floats, Ints, Ints]:
    """Issue instructions with control codes, of which the facts are known; see `issue_alone`.

    Return the cycles of issue and that of the end, the scoreboards waited for and the positions that decided; -1: none.
    """
    size = len(run)
    jumps = np.zeros(size, np.int64)
    jumps[[*taken]] = 1
    arrays: list[Any] = [
        run, jumps, np.array([machine.sm.branch_taken_cycles or 0.0]), np.zeros(_BOARDS), np.full(_BOARDS, -1),
        np.zeros(size + 1), np.zeros(size, np.int64), np.zeros(size, np.int64),
    ]  # fmt: skip
    if _compiled is not None and size > _FEW:
        _compiled(*arrays)
        cycles, waited, decided = arrays[-3:]
    else:
        arrays = [array.tolist() for array in arrays]
        _issue(*arrays)
        cycles, waited, decided = (np.array(x, y) for x, y in zip(arrays[-3:], (float, int, int), strict=True))
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


_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
_compiled = Entry(_issue, _OPTIONS, lambda: (Path(__file__),)) if there() else None


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
