"""Stall counts of machine code when a latency changes: what the compiler would have written for it.

A stall count that a fixed latency explains (the next instruction uses a result that is not there sooner) follows that
latency; one that is longer for another reason stays, unless the new latency asks for more. A barrier that takes longer
to open has a longer one. Results that are awaited by scoreboard need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction

_NEAR = 2  # cycles: a compiler's own latency of a pair may be so much longer than the machine file's of the class


def restalled(code: Sequence[Instruction], before: Machine, after: Machine) -> list[Instruction]:
    """Return the code with the stall counts that follow from the latencies of another machine."""
    made = list(code)
    opening = (after.sm.barrier_cycles or 0.0) - (before.sm.barrier_cycles or 0.0)
    if not opening and all(_latency(x, before) == _latency(x, after) for x in code):
        return made
    for first, stop in _straight(code):
        old, new = dict[str, float](), dict[str, float]()  # when a register is there, from the issue of the first
        then = now = 0.0
        for i in range(first, stop - 1):
            x, following = code[i], code[i + 1]
            control = x.control
            if control is None:
                continue
            fixed = control.write_scoreboard is None and x.kind not in ("branch", "barrier", "exit")
            old.update((r, then + _latency(x, before) if fixed else 0.0) for r in x.writes)
            new.update((r, now + _latency(x, after) if fixed else 0.0) for r in x.writes)
            needed = max((old.get(r, 0.0) - then for r in following.reads), default=0.0)
            wanted = max((new.get(r, 0.0) - now for r in following.reads), default=0.0)
            stall = control.stall
            if needed > 1 and 0 <= stall - needed <= _NEAR:
                stall = max(1, round(stall + wanted - needed))
            stall = max(stall, round(wanted), round(stall + opening) if x.opcode == "BAR" else 1)
            made[i] = replace(x, control=replace(control, stall=stall))
            then, now = then + max(1, control.stall), now + max(1, stall)
    return made


def _latency(x: Instruction, machine: Machine) -> float:
    fixed = KINDS[x.kind] in ("cuda cores", "fp64 units", "issue")
    return (machine.timing(x.kind).latency_cycles or 0.0) if fixed else 0.0


def _straight(code: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """Yield runs of instructions that no branch leaves or enters."""
    places = {x.offset: i for i, x in enumerate(code)}
    starts = {0, len(code)}
    for i, x in enumerate(code):
        if x.target is not None:
            starts |= {i + 1, places.get(x.target, i + 1)}
    ordered = sorted(starts)
    yield from pairwise(ordered)
