"""Remedies for control flow and synchronisation: no divergence, fewer barriers, fewer atomics on global memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from warplens.advisor.case import SECTOR_BYTES, Answer, Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import control_flow, inside, pointers
from warplens.advisor.overlay import with_counts, with_instructions, with_launch, with_traffic
from warplens.advisor.rewrite import Copy, Run, Trace, as_written, dropped, on_average, rewritten
from warplens.workload.profile import Path, Segment
from warplens.workload.workload import Workload

_FULL = 0.9  # of the threads of a warp, from which an execution counts as full
_CHAIN_STALL = 5  # cycles between instructions that wait for one another
_WORTH = 0.02  # of all executions
_ONE_WARP = 6  # levels of a tree that one warp can do: 64 elements to one
_WORD = 4  # bytes of a sum
_GLOBAL_ATOMICS = frozenset(("RED", "REDG", "ATOM", "ATOMG"))


def remove_divergence(case: Case) -> Answer:
    """Give the work that few threads of each warp do to full warps, which are fewer.

    Applies where: 2 % of the executions have under 90 % of their threads.
    Overlay: the same threads in fewer, full warps.
    """
    threads = case.profile.counts["threads"]
    control = control_flow(case.code)
    partly = {i for i, n in enumerate(case.executed) if n and threads[i] < _FULL * 32 * n} - control
    share, where = case.share(partly), case.locations(partly)
    if share < _WORTH:
        return Refusal("nearly all executions have all threads of their warp")
    active = sum(threads[i] for i in partly) / (32 * sum(case.executed[i] for i in partly))
    guarded = {s.index: s for s in case.sites if s.index in partly and s.instruction.guard}
    partly = {i for i in partly if not case.code[i].guard}  # a warp issues what is guarded in any case
    loops = [s.runs for s in case.loops if (partly | control).issuperset(inside(s))]

    # Fewer requests, for the same words, as far apart as before: in shared memory they now meet in the same banks.
    new = {i: {"requests": s.requests * min(1.0, s.threads / 32 / s.requests)} for i, s in guarded.items()}
    addresses = {r for s in guarded.values() for r in pointers(s.instruction)}

    @cache
    def fewer(run: Run) -> Run:
        return tuple(c for c in run if c.origin not in partly)

    @cache
    def numbered(run: Run) -> Run:
        """Compute element numbers and addresses: a thread no longer takes the element of its own number."""
        at = next((k for k, c in enumerate(run) if c.origin in guarded), None)
        if at is None:
            return run
        number = Copy(run[at].origin, _CHAIN_STALL, False, becomes="IMAD")
        return (*run[:at], *(number,) * (1 + len(addresses)), *run[at:])

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        full, empty = Trace(), Trace()
        for s in path.segments:
            runs = [numbered(run) for run in as_written(s)]
            if s.times >= 4 and s.runs in loops:
                full.append((runs, max(1, round(active * s.times))))
                empty.append(full[-1])
            else:
                full.append((runs, s.times))
                empty.append(([fewer(run) for run in runs], s.times))
        return [(full, active), (empty, 1 - active)] if full != empty else [(full, 1.0)]

    return Proposal(
        title=f"remove the divergence: {active * 32:.2g} of 32 threads are in {share:.0%} of the instructions",
        workload=rewritten(with_counts(case.workload, new), rewrite),
        assumption="threads that do the same come to lie in the same warps",
        where=where,
        changes={"active_threads": 32 * active},
        no_help="the instructions that few threads execute cost little",
    )


def fewer_barriers(case: Case) -> Answer:
    """Leave out barriers: where a tree ends in one warp, or all of them.

    Applies where: there are any.
    Overlay: a tree ends in one warp without them; else all go.
    """
    barriers = {i for i, x in enumerate(case.code) if x.opcode == "BAR" and case.executed[i]}
    if not barriers:
        return Refusal("it has no barrier")
    levels = math.log2(max(2, 32 * case.profile.warps_per_block))
    segments = case.profile.paths[0].segments if case.profile.paths else []
    loops = [s for s in segments if s.times > 1 and not barriers.isdisjoint(inside(s))]
    trees = [s for s in loops if s.times + 1 >= levels - 1]
    if trees and levels > _ONE_WARP:
        return _one_warp(case, trees, barriers)
    return Proposal(
        title=f"without its barriers: {sum(case.executed[i] for i in barriers) / case.warps:.3g} per warp",
        workload=dropped(case.workload, barriers),
        assumption="what they order can be ordered within warps",
        where=case.locations(barriers),
        changes={"barriers": 0},
        no_help="warps wait little at barriers, or for what limits without them too",
    )


def _one_warp(case: Case, trees: list[Segment], barriers: set[int]) -> Answer:
    """Leave the last levels of a tree to the first warp, without barriers."""
    keys = [s.runs for s in trees]
    leaders = [case.profile.paths[i] for i in {block[0] for block in case.profile.blocks if block}]

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        trace = Trace()
        leads = any(path is leader for leader in leaders)
        for s in path.segments:
            runs = as_written(s)
            if s.runs not in keys:
                trace.append((runs, s.times))
                continue
            last = min(s.times, _ONE_WARP - 1)
            trace.append((runs, s.times - last))
            if leads:
                trace.append(([tuple(c for c in run if c.origin not in barriers) for run in runs], last))
        return [(trace, 1.0)]

    return Proposal(
        title="finish in one warp: no barriers once 32 threads are enough",
        workload=rewritten(case.workload, rewrite),
        assumption="the last levels of the tree need one warp only; the others are done by then",
        where=case.locations(barriers),
        changes={"levels_in_one_warp": _ONE_WARP},
        no_help="warps wait little at barriers, or for what limits without them too",
    )


def privatise_atomics(case: Case) -> Answer:
    """Add up in shared memory first, then once per address and block in global memory.

    Applies where: a block has more global atomics than there are addresses.
    Overlay: atomics on shared memory, and one sum per address and block.
    """
    sites = [s for s in case.global_sites if s.instruction.opcode in _GLOBAL_ATOMICS]
    if not sites:
        return Refusal("it has no atomics on global memory")
    addresses = max((t.written_footprint_bytes for t in case.profile.traffic if t.atomic_passes), default=0.0) / _WORD
    per_block = sum(s.threads for s in sites) / case.profile.grid_blocks
    if not addresses:
        return Refusal("which addresses its atomics go to is not known")
    if per_block <= addresses:
        return Refusal(f"a block has no more atomics ({per_block:.0f}) than there are addresses ({addresses:.0f})")
    summed = _added_up(case, sites, addresses)
    code = {s.index: replace(s.instruction, opcode="ATOMS", kind="shared") for s in sites}
    none = dict.fromkeys(("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors"), 0.0)
    counts = {s.index: {**none, "wavefronts": s.least_lines} for s in sites}
    summed = with_counts(with_instructions(summed, code), counts)
    shared = case.launch.shared_bytes_per_block + round(_WORD * addresses)
    return Proposal(
        title=f"add up in shared memory first: {addresses:.0f} atomics on global memory per block",
        workload=with_launch(summed, shared_bytes_per_block=shared),
        assumption="the addresses fit into shared memory, and every block clears and adds all of them",
        where=case.locations(s.index for s in sites),
        changes={"shared_atomics": [s.index for s in sites]},
        no_help="atomics do not limit",
    )


def _added_up(case: Case, sites: Sequence[Site], addresses: float) -> Workload:
    """Clear the sums of a block first and add them to those in global memory at its end."""
    site, sums = sites[0].index, addresses / float(case.launch.threads_per_block)
    store, barrier, load = (Copy(site, becomes=name) for name in ("STS", "BAR", "LDS"))
    count = Copy(site, _CHAIN_STALL, False, becomes="IMAD")

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        def trace(times: int) -> Trace:
            clear, add = [(count, store)] * times, [(count, load, Copy(site))] * times
            parts: Trace = [(as_written(s), s.times) for s in path.segments]
            ending, (runs, n) = parts[:-1], parts[-1]
            return [([*clear, (barrier,)], 1), *ending, (runs, n - 1), ([*runs[:-1], runs[-1][:-1]], 1),
                    ([(barrier,), *add, runs[-1][-1:]], 1)]  # fmt: skip

        return on_average(sums, trace)

    summed = rewritten(case.workload, rewrite)
    assert summed.profile is not None
    executed, total = summed.profile.counts["executed"], addresses * case.profile.grid_blocks
    appended = range(len(case.code), len(summed.code))
    index = next((i for i in appended if summed.code[i].text == case.code[site].text), None)
    if index is not None:
        sectors = max(executed[index], total * _WORD / SECTOR_BYTES)
        flat = dict.fromkeys(("sectors", "l2_sectors", "l2_hit_sectors"), sectors)
        ask = dict.fromkeys(("requests", "lines", "wavefronts"), executed[index])
        new = {**flat, **ask, "threads": total, "useful_bytes": _WORD * total, "queue": 0.0}
        summed = with_counts(summed, {index: new})
    passes = total * _WORD / SECTOR_BYTES
    return with_traffic(summed, lambda t: replace(t, atomic_passes=min(t.atomic_passes, passes)))
