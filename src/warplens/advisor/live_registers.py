"""Which registers are alive in the ways of warps: what a kernel, or a part of it, needs of them at least."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from warplens.advisor.case import Case
from warplens.program.instruction import Instruction
from warplens.workload.profile import Path

MOST = 50_000  # instructions of a way that is looked at


class Alive(Struct, frozen=True):
    """Registers of a segment: those alive when it begins, and the most at a time."""

    first: frozenset[str]
    most: int


def alive_in(code: Sequence[Instruction], path: Path) -> list[Alive]:
    """Follow the registers of a way backwards; a loop twice, as a turn reads what the one before it wrote."""
    made, alive = list[Alive](), set[str]()
    for segment in reversed(path.segments):
        order = [i for first, stop in segment.runs for i in range(first, stop)]
        most = 0
        for i in reversed(order * (2 if segment.times > 1 else 1)):
            x = code[i]
            written = {r for r in x.writes if r.startswith("R")}
            most = max(most, len(alive | written))
            alive -= set() if x.guard else written
            alive |= {r for r in x.reads if r.startswith("R")}
        made.append(Alive(frozenset(alive), most))
    return made[::-1]


def most_alive(case: Case) -> int:
    """Return the registers alive at a time in the commonest way, in the order of the code as it is (0: not known)."""
    path = max(case.profile.paths, key=lambda p: p.warps * p.instructions, default=None)
    if path is None or sum(s.instructions // s.times for s in path.segments) > MOST:
        return 0
    return max((a.most for a in alive_in(case.code, path)), default=0)
