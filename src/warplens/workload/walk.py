"""Walk along the way of a warp: loops for a few trips, and what a lone warp spends on it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from warplens.machine import Machine
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import Floats, Ints, chain, facts_of, issue_alone, issue_in_order
from warplens.workload.profile import Path

_TRIPS, _LONG, _LONGEST = 8, 1024, 20_000  # of a loop: trips run, instructions run; of a whole way


class Walk(Struct, frozen=True, dict=True):
    """A way cut short: instruction numbers, for how many each one stands, positions of branches that are taken."""

    code: list[int]
    weights: list[float]
    taken: set[int]

    @cached_property
    def stands_for(self) -> Floats:
        """The weights as an array."""
        return np.array(self.weights)

    @cached_property
    def counted(self) -> float:
        """For how many instructions all of them stand."""
        return sum(self.weights)


def walk(path: Path) -> Walk:
    """Run loops for a few trips; the later half of them stands for all that are left out."""
    code: list[int] = []
    weights: list[float] = []
    taken: set[int] = set()
    for segment in path.segments:
        size = sum(stop - first for first, stop in segment.runs)
        trips = min(segment.times, 2 * max(2, min(_TRIPS, _LONG // max(1, size))))
        half = trips // 2
        for turn in range(trips):
            late = trips < segment.times and turn >= half
            weight = (segment.times - half) / (trips - half) if late else 1.0
            for first, stop in segment.runs:
                if code and code[-1] + 1 != first:
                    taken.add(len(code) - 1)
                code += range(first, stop)
                weights += [weight] * (stop - first)
        if len(code) > _LONGEST:
            break
    return Walk(code, weights, taken)


def steps(code: list[Instruction], way: Walk, machine: Machine) -> tuple[Ints, Ints, Floats]:
    """Return the longest path of a lone warp: from which instruction to which, by their numbers, the cycles between."""
    if all(code[i].control is None for i in way.code):
        alone = issue_alone([code[i] for i in way.code], machine, taken=way.taken)
        cycles, decided = np.array(alone.issue_cycles), alone.decided_by
    else:
        cycles, _, by = issue_in_order(facts_of(code, machine)[way.code], machine, way.taken)
        decided = by.tolist()
    numbers, weights, path = np.array(way.code, np.int64), way.stands_for, np.array(chain(decided), np.int64)
    at, to = path[:-1], path[1:]
    return numbers[at], numbers[to], weights[at] * (cycles[to] - cycles[at])


def lone_warp_cycles(run: Floats, way: Walk, machine: Machine) -> float:
    """Return the cycles of a lone warp along a way; `run`: what issuing each position depends on (`facts_of`)."""
    cycles, _, _ = issue_in_order(run, machine, way.taken)
    return float(np.cumsum(way.stands_for * np.diff(cycles))[-1])
