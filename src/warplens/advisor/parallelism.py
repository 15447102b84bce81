"""Remedies for latency: more independent work side by side, within iterations or a thread; unrolling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.dataflow import address_instructions, from_data, loop_overhead, loops_of, registers_written
from warplens.advisor.overlay import with_instructions, with_launch, without_waits
from warplens.advisor.rewrite import (
    Copy,
    Repeat,
    Run,
    Trace,
    as_written,
    fewer_blocks,
    joined_iterations,
    joined_threads,
    rewritten,
    side_by_side,
    with_segments,
)
from warplens.program.instruction import Instruction
from warplens.workload.profile import Path, Segment
from warplens.workload.workload import Workload

_LIVE = 16  # live registers of a joined iteration
_FACTORS = (2, 4)
_UNROLLED = 8  # iterations of a loop that become one
_RARE = 0.25  # of the warps, or of the bytes: done once by a block, not by all of its warps


def _registers(case: Case, factor: int, repeated: Sequence[int]) -> int:
    """Return the registers of a thread that does the repeated instructions `factor` times."""
    live = min(_LIVE, registers_written(case.code, repeated))
    return min(255, case.launch.registers_per_thread + (factor - 1) * live)


def more_ilp(case: Case) -> Answer:
    """Put independent chains side by side: some iterations of a loop at once."""
    loops = [s for s in case.loops() if not _global_loads(case, s)]
    return _iterations(case, loops, "independent chains of arithmetic side by side")


def more_loads_in_flight(case: Case) -> Answer:
    """Issue the loads of some iterations at once, so that their latencies overlap: unroll, or prefetch."""
    if not any(s.instruction.kind == "load" for s in case.global_sites):
        return refused("it loads nothing from global memory")
    loops = [s for s in case.loops() if _global_loads(case, s)]
    unrolled = _iterations(case, loops, "their loads in flight together")
    proposals = [*unrolled, *_prefetched(case, loops)]
    together = _together(case, loops)
    if not together:
        return proposals
    freed = with_instructions(case.workload, together)
    within = Proposal(
        title="all loads of an iteration in flight together: none waits for the one before",
        workload=freed,
        assumption="no address depends on what another load of the iteration brings",
        where=case.locations(together),
        changes={"together": True},
        no_help="warps hide the latency already",
    )
    freed_case = Case(freed, case.machine, case.prediction)
    both = _iterations(freed_case, loops, "all their loads in flight together")
    return [*proposals, within, *both]


def _prefetched(case: Case, loops: Sequence[Segment]) -> list[Proposal]:
    """Load for the next iteration before the present one is done: the wait moves to its end."""
    inside = case.inside(loops)
    loads = {s.index for s in case.global_sites if s.instruction.kind == "load" and s.index in inside}
    boards = {c.write_scoreboard for i in loads if (c := case.code[i].control) is not None}
    mask = sum(1 << b for b in boards if b is not None)
    if not loads or mask == 0:
        return []

    @cache
    def ahead_of_work(run: Run) -> Run:
        """Put loads first, without waits for them, and moves to the next iteration's registers last."""
        if not any(c.origin in loads for c in run):
            return run
        ahead = [Copy(c.origin, 1) for c in run if c.origin in loads]
        rest = [_unwaiting(c, mask, case.code) for c in run if c.origin not in loads]
        behind = [Copy(c.origin, 2, mask=mask, board=-1, becomes="IMAD") for c in ahead]
        return (*ahead, *rest[:-1], *behind, *rest[-1:])

    def prefetch(s: Segment) -> Trace:
        return [([ahead_of_work(r) if s.times > 1 else r for r in as_written(s)], s.times)]

    registers = case.launch.registers_per_thread + registers_written(case.code, loads)
    return [
        Proposal(
            title="prefetch: load what the next iteration needs before the present one is done",
            workload=with_launch(with_segments(case.workload, prefetch), registers_per_thread=min(255, registers)),
            assumption=f"the addresses of the next iteration are known by then; {registers} registers per thread",
            where=case.locations(loads),
            changes={"prefetch": True, "registers_per_thread": registers},
            no_help="warps hide the latency already",
        )
    ]


def _unwaiting(copy: Copy, mask: int, code: Sequence[Instruction]) -> Copy:
    control = code[copy.origin].control
    if control is None or not control.wait_mask & mask:
        return copy
    return replace(copy, mask=control.wait_mask & ~mask)


def _together(case: Case, loops: Sequence[Segment]) -> dict[int, Instruction]:
    """Return, without these waits, the instructions that wait for a load while others of the iteration still come."""
    freed: dict[int, Instruction] = {}
    for loop in loops:
        inside = [i for first, stop in loop.runs for i in range(first, stop)]
        loads = [s.index for s in case.global_sites if s.instruction.kind == "load" and s.index in set(inside)]
        controls = [c for i in loads if (c := case.code[i].control) is not None]
        boards = frozenset(c.write_scoreboard for c in controls if c.write_scoreboard is not None)
        for i in inside:
            control = case.code[i].control
            if i <= max(loads) and control is not None and boards & set(control.waits):
                freed[i] = without_waits(case.code[i], boards)
    return freed


def _iterations(case: Case, loops: Sequence[Segment], what: str) -> Answer:
    """Propose some iterations of these loops at once."""
    if not loops:
        return refused("no loop of that kind")
    over = {i for s in loops for i in loop_overhead(case.code, s)} - from_data(case.code, case.executed)
    once = over | {i for i, x in enumerate(case.code) if x.kind in ("branch", "exit", "barrier")}
    chosen_runs = [[tuple(run) for run in s.runs] for s in loops]

    def chosen(segment: Segment) -> bool:
        return [tuple(run) for run in segment.runs] in chosen_runs

    repeated = [i for i in case.inside(loops) if i not in over]
    proposals = []
    for factor in _FACTORS:
        repeats = {i: Repeat(1 if i in once else factor) for i in range(len(case.code))}
        joined = joined_iterations(case.workload, factor, repeats.__getitem__, chosen)
        registers = _registers(case, factor, repeated)
        proposals.append(
            Proposal(
                title=f"{factor} iterations of the loop at once: {what}",
                workload=with_launch(joined, registers_per_thread=registers),
                assumption=f"iterations are independent (sums may be split); {registers} registers per thread",
                where=case.locations(repeated),
                changes={"turns": factor, "registers_per_thread": registers},
                joins=frozenset(case.inside(loops)),
                no_help="warps hide the latency already",
            )
        )
    return proposals


def _global_loads(case: Case, segment: Segment) -> bool:
    inside = case.inside([segment])
    return any(s.index in inside and s.instruction.kind == "load" for s in case.global_sites)


def more_work_per_thread(case: Case) -> Answer:
    """Give a thread several elements, which share the instructions that come once per thread or block."""
    sms = int(case.machine.chip.sm_count)
    if case.profile.grid_blocks < 4 * sms:
        return refused("it has few blocks as it is")
    barrier = min((i for i, x in enumerate(case.code) if x.kind == "barrier" and case.executed[i]), default=None)
    if barrier is not None:
        return _loads_before(case, barrier)
    once = address_instructions(case.code)
    repeated = [i for i in range(len(case.code)) if i not in once]
    proposals = []
    for factor in _FACTORS:
        repeats = {i: Repeat(1 if i in once else factor) for i in range(len(case.code))}
        joined = joined_threads(case.workload, factor, repeats.__getitem__)
        registers = _registers(case, factor, repeated)
        proposals.append(
            Proposal(
                title=f"{factor} elements per thread: 1/{factor} of the threads, addresses computed once",
                workload=with_launch(joined, registers_per_thread=registers),
                assumption=f"threads do not depend on one another; {registers} registers per thread",
                changes={"threads": 1 / factor, "registers_per_thread": registers},
                joins=frozenset(("threads",)),
                no_help="what threads do once costs little",
            )
        )
    return proposals


def _loads_before(case: Case, barrier: int) -> Answer:
    """Repeat the loads before the first barrier; what follows is done once for all of them."""
    loads = {
        s.index for s in case.global_sites
        if s.instruction.kind == "load" and s.index < barrier and s.executed <= 1.01 * case.warps
    }  # fmt: skip
    if not loads:
        return refused("no load in front of its barriers that could be repeated")
    loaded_bytes = sum(s.useful_bytes for s in case.global_sites if s.index in loads)
    if any(s.instruction.kind == "load" and s.executed > _RARE * case.warps and s.index not in loads
           for s in case.global_sites):  # fmt: skip
        return refused("it loads more behind its barriers: what follows them cannot be done once for several elements")
    if sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "store") > _RARE * loaded_bytes:
        return refused("a block stores what it has loaded: what follows its barriers cannot be done once for several")
    resident = float(case.prediction.warps_per_sm) / case.profile.warps_per_block
    rounds = case.profile.grid_blocks / (case.machine.chip.sm_count * max(1.0, resident))
    return [
        Proposal(
            title=f"{factor} elements per thread: what a block does with barriers is done once for {factor}",
            workload=_repeated_loads(case, loads, factor),
            assumption="a thread can combine its elements before the block does",
            reorders_sums=True,
            where=case.locations(loads),
            changes={"elements": factor, "grid": case.profile.grid_blocks // factor},
            joins=frozenset(("threads",)),
            no_help="what a block does once costs little",
        )
        for factor in dict.fromkeys((2, 4, max(2, int(rounds))))
    ]


def _repeated_loads(case: Case, loads: set[int], factor: int) -> Workload:
    """Repeat loads: four side by side, further ones in a loop over two elements before them."""
    repeats = {i: Repeat(min(4, factor) if i in loads else 1) for i in range(len(case.code))}
    more = factor - min(4, factor)
    two = tuple(c for i in sorted(loads) for c in (Copy(i, 1, True), Copy(i, 2, False)))

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        trace: Trace = [([two], max(1, round(more / 2)))] if more and path.segments else []
        for s in path.segments:
            trace.append(([side_by_side(r, repeats.__getitem__, case.code) for r in as_written(s)], s.times))
        return [(trace, 1.0)]

    return fewer_blocks(rewritten(case.workload, rewrite), factor)


def unroll(case: Case) -> Answer:
    """Leave out the instructions that only count iterations and branch, in most iterations."""
    loops = case.loops()
    executed = (loop for loop in loops_of(case.code) if case.executed[loop.stop - 1])
    static = [s for loop in executed if not case.only_waits(s := Segment([(loop.start, loop.stop)], 2))]
    if not static:
        return refused("it has no loop")
    over = {i for s in (*loops, *static) for i in loop_overhead(case.code, s)}
    over -= from_data(case.code, case.executed) | case.waits  # a condition on data stays
    share = case.share(over & case.inside((*loops, *static)))
    if share < 0.02:
        return refused(f"turning its loops takes {share:.0%} of the instructions")
    inside = case.inside(static)
    addresses = (address_instructions(case.code) & inside) - case.waits
    known = {i for i in addresses if case.code[i].kind in ("int", "imul", "imul_wide")}
    known = over | {i for i in known if case.code[i].opcode != "ISETP"}  # of a loop that vanishes: constants
    without_overhead = cache(lambda run: tuple(c for c in run if c.origin not in over))
    with_constants = cache(lambda run: tuple(c for c in run if c.origin not in known))

    def unrolled(s: Segment) -> Trace:
        runs = as_written(s)
        if s.times <= _UNROLLED:  # also iterations that differ, as of a tree: each is a segment of its own
            return [([with_constants(run) for run in runs], s.times)]
        bare = [without_overhead(run) for run in runs]
        return [(bare * (_UNROLLED - 1) + runs, s.times // _UNROLLED), (runs, s.times % _UNROLLED)]

    return [
        Proposal(
            title=f"unroll: {share:.0%} of the instructions only count iterations and branch",
            workload=with_segments(case.workload, unrolled),
            assumption="counters and conditions go: loops of up to 8 iterations vanish, others count every eighth",
            where=case.locations(over),
            changes={"unroll": _UNROLLED},
            joins=frozenset((*case.inside((*loops, *static)), "overhead")),
            no_help="the instructions that would go cost little",
        )
    ]
