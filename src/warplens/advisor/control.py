"""Remedies for control flow: no divergence, fewer barriers."""

from __future__ import annotations

import math

from warplens.advisor.case import Answer, Case, Proposal, Site, refused
from warplens.advisor.overlay import with_counts
from warplens.advisor.rewrite import Copy, Run, Way, as_written, dropped, once_each, rewritten
from warplens.workload.profile import Path, Segment

_FULL = 0.9  # of the threads of a warp, from which an execution counts as full
_CHAIN_STALL = 5  # cycles between instructions that wait for one another
_WORTH = 0.02  # of all executions
_ONE_WARP = 6  # levels of a tree that one warp can do: 64 elements to one


def remove_divergence(case: Case) -> Answer:
    """What few threads of each warp do, done by full warps, of which there are then fewer."""
    name = "remove-divergence"
    threads = case.profile.counts["threads"]
    partly = {i for i, n in enumerate(case.executed) if n and threads[i] < _FULL * 32 * n} - _control(case)
    share, where = case.share(partly), case.places(partly)
    if share < _WORTH:
        return refused(name, "nearly all executions have all threads of their warp")
    active = sum(threads[i] for i in partly) / (32 * sum(case.executed[i] for i in partly))
    guarded = {s.index: s for s in case.sites if s.index in partly and s.instruction.guard}
    partly = {i for i in partly if not case.code[i].guard}  # a warp issues what is guarded in any case
    whole = [s for s in case.loops() if case.inside([s]) <= partly | _control(case)]
    loops = [[tuple(run) for run in s.runs] for s in whole]

    # Fewer requests, for the same words, as far apart as before: in shared memory they now meet in the same banks.
    new = {i: {"requests": s.requests * _full(s)} for i, s in guarded.items()}
    pointers = {r for s in guarded.values() for o in s.instruction.operands if o.kind == "memory" for r in o.registers}

    @once_each
    def fewer(run: Run) -> Run:
        return tuple(c for c in run if c.origin not in partly)

    @once_each
    def numbered(run: Run) -> Run:
        """Threads no longer take what has their own number: which one, and where it lies, must be computed."""
        at = next((k for k, c in enumerate(run) if c.origin in guarded), None)
        if at is None:
            return run
        return (
            *run[:at],
            *(Copy(run[at].origin, _CHAIN_STALL, False, becomes="IMAD") for _ in (0, *pointers)),
            *run[at:],
        )

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        full, empty = list[tuple[list[Run], int]](), list[tuple[list[Run], int]]()
        for s in path.segments:
            runs = [numbered(run) for run in as_written(s)]
            if s.times >= 4 and [tuple(run) for run in s.runs] in loops:
                full.append((runs, max(1, round(active * s.times))))
                empty.append(full[-1])
            else:
                full.append((runs, s.times))
                empty.append(([fewer(run) for run in runs], s.times))
        return [(full, active), (empty, 1 - active)] if full != empty else [(full, 1.0)]

    return [
        Proposal(
            name=name,
            title=f"remove the divergence: {active * 32:.2g} of 32 threads are in {share:.0%} of the instructions",
            workload=rewritten(with_counts(case.workload, new), rewrite),
            assumption="threads that do the same come to lie in the same warps",
            where=where,
            changes={"active_threads": 32 * active},
            no_help="the instructions that few threads execute cost little",
        )
    ]


def _full(s: Site) -> float:
    """Return by how much fewer full warps would do an access that few threads of each warp do."""
    return min(1.0, s.threads / 32 / s.requests)


def _control(case: Case) -> set[int]:
    return {i for i, x in enumerate(case.code) if x.kind in ("branch", "exit", "barrier")}


def fewer_barriers(case: Case) -> Answer:
    """A tree that ends in one warp needs no barrier there; other barriers go altogether."""
    name = "fewer-barriers"
    barriers = {i for i, x in enumerate(case.code) if x.opcode == "BAR" and case.executed[i]}
    if not barriers:
        return refused(name, "it has no barrier")
    levels = math.log2(max(2, 32 * case.profile.warps_per_block))
    trees = [s for s in _repeated(case) if case.inside([s]) & barriers and s.times + 1 >= levels - 1]
    if trees and levels > _ONE_WARP:
        return _one_warp(case, trees, barriers)
    return [
        Proposal(
            name=name,
            title=f"without its barriers: {sum(case.executed[i] for i in barriers) / case.warps:.3g} per warp",
            workload=dropped(case.workload, barriers),
            assumption="what they order can be ordered within warps",
            where=case.places(barriers),
            changes={"barriers": 0},
            no_help="warps wait little at barriers, or for what limits without them too",
        )
    ]


def _repeated(case: Case) -> list[Segment]:
    """Return the loops of the first way, with their turns."""
    return [s for s in case.profile.paths[0].segments if s.times > 1] if case.profile.paths else []


def _one_warp(case: Case, trees: list[Segment], barriers: set[int]) -> Answer:
    """Leave the last levels of a tree to the first warp, without barriers."""
    keys = [[tuple(run) for run in s.runs] for s in trees]
    first = {block[0] for block in case.profile.blocks if block}
    leaders = {id(case.profile.paths[i]) for i in first}

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for s in path.segments:
            runs = as_written(s)
            if [tuple(run) for run in s.runs] not in keys:
                way.append((runs, s.times))
                continue
            last = min(s.times, _ONE_WARP - 1)
            way.append((runs, s.times - last))
            if id(path) in leaders:
                way.append(([tuple(c for c in run if c.origin not in barriers) for run in runs], last))
        return [(way, 1.0)]

    return [
        Proposal(
            name="fewer-barriers",
            title="finish in one warp: no barriers once 32 threads are enough",
            workload=rewritten(case.workload, rewrite),
            assumption="the last levels of the tree need one warp only; the others are done by then",
            where=case.places(barriers),
            changes={"levels_in_one_warp": _ONE_WARP},
            no_help="warps wait little at barriers, or for what limits without them too",
        )
    ]
