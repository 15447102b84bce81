"""When a warp alone on an SM issues each instruction, read from the control codes the compiler wrote.

An instruction issues its predecessor's stall count later, and not before the scoreboards it waits for are
released. Fixed latencies are in the stall counts; what releases a scoreboard takes the machine's latency of
the instruction's class. A branch that is taken costs the time to fetch from elsewhere.
"""

from __future__ import annotations

from msgspec import Struct

from warplens.kernel.instruction import Instruction
from warplens.machine import Machine


class LoneWarp(Struct, frozen=True):
    """Issue cycles of a run of instructions, and which scoreboard (or None) each one had to wait for."""

    issue_cycles: list[float]
    waited_for: list[int | None]
    end_cycle: float


def issue_alone(code: list[Instruction], machine: Machine, *, taken: set[int] | None = None) -> LoneWarp:
    """Issue instructions in order for one warp; `taken` has the positions of branches that are taken."""
    now, next_barrier = 0.0, 0.0
    released = [0.0] * 8  # six scoreboards; a damaged field may name another
    cycles: list[float] = []
    waited: list[int | None] = []
    for i, instruction in enumerate(code):
        control = instruction.control
        issue, why = max(now, next_barrier) if instruction.opcode == "BAR" else now, None
        if control is not None:
            for board in control.waits:
                if released[board] > issue:
                    issue, why = released[board], board
            if control.write_scoreboard is not None:
                done = issue + _result_cycles(instruction, machine)
                released[control.write_scoreboard] = max(released[control.write_scoreboard], done)
            if control.read_scoreboard is not None:
                done = issue + (machine.timing(instruction.kind).read_cycles or 0.0)
                released[control.read_scoreboard] = max(released[control.read_scoreboard], done)
        cycles.append(issue)
        waited.append(why)
        now = issue + max(1, control.stall if control is not None else 1)
        if instruction.opcode == "BAR":
            next_barrier = issue + (machine.sm.barrier_cycles or 0.0)
        if taken and i in taken:
            now = max(now, issue + (machine.sm.branch_taken_cycles or 0.0))
    return LoneWarp(cycles, waited, now)


def _result_cycles(instruction: Instruction, machine: Machine) -> float:
    """Return the cycles until the result releases its scoreboard; 0 where the machine does not know."""
    return machine.timing(instruction.kind).latency_cycles or 0.0
