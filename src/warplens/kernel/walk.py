"""Walk along the way of a warp: loops for a few trips, and what a lone warp spends on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from warplens.kernel.instruction import Instruction
from warplens.kernel.lone_warp import Facts, issue_alone
from warplens.kernel.profile import Path
from warplens.machine import Machine

_TRIPS, _LONG, _LONGEST = 8, 1024, 20_000  # of a loop: trips run, instructions run; of a whole way


class Walk(Struct, frozen=True):
    """A way cut short: instruction numbers, for how many each one stands, positions of branches that are taken."""

    code: list[int]
    weights: list[float]
    taken: set[int]


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


def steps(code: list[Instruction], way: Walk, machine: Machine) -> Iterator[tuple[Instruction, Instruction, float]]:
    """Yield the longest path of a lone warp: from which instruction to which, and the cycles between."""
    run = [code[i] for i in way.code]
    alone = issue_alone(run, machine, taken=way.taken)
    cycles, weights = alone.issue_cycles, way.weights
    for at, to in pairwise(alone.path()):
        yield run[at], run[to], weights[at] * (cycles[to] - cycles[at])


def lone_warp_cycles(run: Sequence[Facts], way: Walk, machine: Machine, latencies: Sequence[float]) -> float:
    """Return the cycles of a lone warp along a way; each position's result has a latency of its own.

    `run`: what issuing each position depends on. This is `issue_in_order` without what decided when: it is asked often.
    """
    now = next_barrier = total = last = 0.0
    weight = 0.0  # of the position before
    released = [0.0] * 8
    branch_taken, is_taken = machine.sm.branch_taken_cycles or 0.0, [False] * len(run)
    for i in way.taken:
        is_taken[i] = True
    for (waits, write, read, stall, _, read_cycles, barrier, held), latency, its_weight, turns in zip(
        run, latencies, way.weights, is_taken, strict=True
    ):
        issue = now
        if barrier is not None and next_barrier > now:
            issue = next_barrier
        for board in waits:
            if released[board] > issue:
                issue = released[board]
        if write is not None and issue + latency > released[write]:
            released[write] = issue + latency
        if read is not None and issue + read_cycles > released[read]:
            released[read] = issue + read_cycles
        total += weight * (issue - last)
        weight, last, now = its_weight, issue, issue + stall
        if barrier is not None:
            next_barrier = issue + barrier
        if held and issue + held > now:
            now = issue + held
        if turns and issue + branch_taken > now:
            now = issue + branch_taken
    return total + weight * (now - last)
