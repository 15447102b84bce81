"""When a warp could issue each instruction if it had the SM to itself (Volkov 2016 §3.7).

Only latencies count here, no throughput limits and no other warps, except at barriers: all warps of a block
run to the barrier alone and leave it together. An instruction issues when
- its registers are ready (register dependency latency of each producer),
- the warp may issue again (ILP latency, none for the second of a dual-issued pair),
- a branch before it has resolved, a barrier before it has been left.
The longest path through these constraints is a lower bound on the warp's latency.
"""

from __future__ import annotations

from msgspec import Struct

from warplens.machine import KINDS, Machine
from warplens.program.access_width import access_bytes, wide_cycles
from warplens.program.instruction import Instruction


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
                run.floor(left)
    tail = (machine.sm.block_replacement_cycles or 0.0) if replacement else 0.0
    last = max(runs, key=lambda run: run.issued[-1])
    path, awaited = last.path()
    return Schedule(
        issue_cycles=[r.issued for r in runs],
        dual_issued=[r.dual for r in runs],
        latency_cycles=last.issued[-1] + tail,
        path=path,
        awaited=awaited,
        decided_by=last.decided_by,
        end_cycle=last.earliest,
    )


def period(code: list[Instruction], machine: Machine) -> float:
    """Return the cycles that one repetition of an endlessly repeated body adds to a warp's latency."""
    short, long = 8, 16
    ends = [schedule([code * n], machine, replacement=False).latency_cycles for n in (short, long)]
    return (ends[1] - ends[0]) / (long - short)


class _Run:
    """One warp on its way through its code."""

    def __init__(self, code: list[Instruction], machine: Machine) -> None:
        self.code, self.machine = code, machine
        self.issued: list[float] = []
        self.dual: list[bool] = []
        self._before: list[tuple[int, bool]] = []  # what decided each issue cycle: instruction, by its result?
        self._ready: dict[str, int] = {}  # register -> instruction that writes it
        self.earliest = 0.0
        self._latencies: dict[tuple[str, str], float] = {}
        self._intervals = {kind: _ilp(machine, kind) for kind in {x.kind for x in code}}

    @property
    def done(self) -> bool:
        return len(self.issued) == len(self.code)

    def floor(self, cycle: float) -> None:
        self.earliest = max(self.earliest, cycle)

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
            self._before.append(before)
            for register in instruction.writes:
                self._ready[register] = i
            self.earliest = cycle + self._to_next(instruction)
            if instruction.kind == "barrier":
                return True
        return False

    @property
    def decided_by(self) -> list[int | None]:
        return [before if before >= 0 else None for before, _ in self._before]

    def path(self) -> tuple[list[int], list[int]]:
        at, path, awaited = len(self.code) - 1, [], []
        while at >= 0:
            path.append(at)
            at, by_result = self._before[at]
            if by_result:
                awaited.append(at)
        return path[::-1], awaited[::-1]

    def _latency(self, producer: int, consumer: Instruction) -> float:
        instruction = self.code[producer]
        if instruction.latency_cycles is not None:
            return instruction.latency_cycles
        pair = (instruction.kind, consumer.kind)
        if pair not in self._latencies:
            self._latencies[pair] = self.machine.latency_cycles(*pair, model="the latency bound")
        wide = wide_cycles(access_bytes(instruction), self.machine) if instruction.kind == "shared" else 0.0
        return self._latencies[pair] + float(wide)

    def _to_next(self, instruction: Instruction) -> float:
        sm = self.machine.sm
        if instruction.kind == "branch":
            cycles = sm.branch_taken_cycles if instruction.taken else sm.branch_not_taken_cycles
            if cycles is not None:
                return cycles
        return self._intervals[instruction.kind]

    def _pairs(self, i: int) -> bool:
        """Whether instruction i issues together with the one before it (§3.8: no two memory accesses)."""
        if self.machine.sm.issue_width < 2 or i == 0 or self.dual[-1]:
            return False
        first, second = self.code[i - 1], self.code[i]
        memory = KINDS[first.kind] == "memory system" and KINDS[second.kind] == "memory system"
        control = first.kind in ("branch", "barrier", "exit") or second.kind in ("branch", "barrier")
        return not (memory or control or set(first.writes) & {*second.reads, *second.writes})


def _ilp(machine: Machine, kind: str) -> float:
    own = machine.timing(kind).ilp_latency_cycles
    return own or machine.sm.ilp_latency_cycles or machine.sm.issue_interval_cycles
