"""Remedies for latency: more independent work side by side, within iterations or a thread; unrolling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, Refusal
from warplens.advisor.dataflow import control_flow, inside, loop_overhead, loops_of, registers_written
from warplens.advisor.overlay import with_instructions, with_launch, without_waits
from warplens.advisor.rewrite import (
    Copy,
    Repeat,
    Run,
    Trace,
    all_but,
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
_HIDDEN, _NO_LOOP = "warps hide the latency already", "no loop of that kind"
_RARE = 0.25  # of the warps, or of the bytes: done once by a block, not by all of its warps


def registers_of(case: Case, factor: int, repeated: Iterable[int]) -> int:
    """Return the registers of a thread that does the repeated instructions `factor` times."""
    return case.registers((factor - 1) * min(_LIVE, registers_written(case.code, repeated)))


def more_ilp(case: Case) -> Answer:
    """Put independent chains side by side: some iterations of a loop at once.

    Applies where: loops without global loads.
    Overlay: 2 or 4 iterations side by side.
    """
    loops = [s for s in case.loops if not _loads(case, s)]
    return _iterations(case, loops, "independent chains of arithmetic side by side") if loops else Refusal(_NO_LOOP)


def more_loads_in_flight(case: Case) -> Answer:
    """Issue the loads of some iterations at once, so that their latencies overlap: unroll, or prefetch.

    Applies where: loops with global loads.
    Overlay: the same; or loads one iteration ahead.
    """
    if not case.loads:
        return Refusal("it loads nothing from global memory")
    loops = [s for s in case.loops if _loads(case, s)]
    if not loops:
        return Refusal(_NO_LOOP)
    proposals, ahead = _iterations(case, loops, "their loads in flight together"), _prefetched(case, loops)
    proposals += [] if ahead is None else [ahead]
    together = _together(case, loops)
    if not together:
        return proposals
    freed = Case(with_instructions(case.workload, together), case.machine, case.prediction)
    within = Proposal(
        title="all loads of an iteration in flight together: none waits for the one before",
        workload=freed.workload,
        assumption="no address depends on what another load of the iteration brings",
        where=case.locations(together),
        changes={"together": True},
        no_help=_HIDDEN,
    )
    return [*proposals, within, *_iterations(freed, loops, "all their loads in flight together")]


def _prefetched(case: Case, loops: Sequence[Segment]) -> Proposal | None:
    """Load for the next iteration before the present one is done: the wait moves to its end."""
    inside_loops = case.inside(loops)
    loads = {s.index for s in case.loads if s.index in inside_loops}
    mask = sum(1 << b for b in case.boards(loads))
    if mask == 0:
        return None

    @cache
    def ahead_of_work(run: Run) -> Run:
        """Put loads first, without waits for them, and moves to the next iteration's registers last."""
        if not any(c.origin in loads for c in run):
            return run
        ahead = [Copy(c.origin, 1) for c in run if c.origin in loads]
        rest = [_without_wait(c, mask, case.code) for c in run if c.origin not in loads]
        behind = [Copy(c.origin, 2, mask=mask, board=-1, becomes="IMAD") for c in ahead]
        return (*ahead, *rest[:-1], *behind, *rest[-1:])

    def prefetch(s: Segment) -> Trace:
        return [([ahead_of_work(r) if s.times > 1 else r for r in as_written(s)], s.times)]

    registers = case.launch.registers_per_thread + registers_written(case.code, loads)
    return Proposal(
        title="prefetch: load what the next iteration needs before the present one is done",
        workload=with_launch(with_segments(case.workload, prefetch), registers_per_thread=min(255, registers)),
        assumption=f"the addresses of the next iteration are known by then; {registers} registers per thread",
        where=case.locations(loads),
        changes={"prefetch": True, "registers_per_thread": registers},
        no_help=_HIDDEN,
    )


def _without_wait(copy: Copy, mask: int, code: Sequence[Instruction]) -> Copy:
    control = code[copy.origin].control
    if control is None or not control.wait_mask & mask:
        return copy
    return replace(copy, mask=control.wait_mask & ~mask)


def _together(case: Case, loops: Sequence[Segment]) -> dict[int, Instruction]:
    """Return, without these waits, the instructions that wait for a load while others of the iteration still come."""
    found: dict[int, Instruction] = {}
    for numbers in map(inside, loops):
        loads = {s.index for s in case.loads}.intersection(numbers)
        boards = case.boards(loads)
        for i in numbers:
            control = case.code[i].control
            if i <= max(loads) and control is not None and boards & set(control.waits):
                found[i] = without_waits(case.code[i], boards)
    return found


def _iterations(case: Case, loops: Sequence[Segment], what: str) -> list[Proposal]:
    """Propose some iterations of these loops at once."""
    over = {i for s in loops for i in loop_overhead(case.code, s)} - case.from_data
    once, chosen = over | control_flow(case.code), [s.runs for s in loops]
    joined, proposals = case.inside(loops), list[Proposal]()
    repeated = [i for i in joined if i not in over]
    for factor in _FACTORS:
        registers = registers_of(case, factor, repeated)
        workload = joined_iterations(case.workload, factor, all_but(once, factor), lambda s: s.runs in chosen)
        proposals.append(
            Proposal(
                title=f"{factor} iterations of the loop at once: {what}",
                workload=with_launch(workload, registers_per_thread=registers),
                assumption=f"iterations are independent (sums may be split); {registers} registers per thread",
                where=case.locations(repeated),
                changes={"turns": factor, "registers_per_thread": registers},
                joins=frozenset(joined),
                no_help=_HIDDEN,
            )
        )
    return proposals


def _loads(case: Case, segment: Segment) -> bool:
    return not {s.index for s in case.loads}.isdisjoint(inside(segment))


def more_work_per_thread(case: Case) -> Answer:
    """Give a thread several elements, which share the instructions that come once per thread or block.

    Applies where: four blocks per SM or more.
    Overlay: 2 or 4 threads become one; addresses are computed once.
    """
    if case.profile.grid_blocks < 4 * case.sms:
        return Refusal("it has few blocks as it is")
    barrier = min((i for i, x in enumerate(case.code) if x.kind == "barrier" and case.executed[i]), default=None)
    if barrier is not None:
        return _loads_before(case, barrier)
    repeated, proposals = {*range(len(case.code))} - case.addresses, []
    for factor in _FACTORS:
        joined = joined_threads(case.workload, factor, all_but(case.addresses, factor))
        registers = registers_of(case, factor, repeated)
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
    loads = {s.index for s in case.loads if s.index < barrier and s.executed <= 1.01 * case.warps}
    if not loads:
        return Refusal("no load in front of its barriers that could be repeated")
    loaded_bytes = sum(s.useful_bytes for s in case.loads if s.index in loads)
    if any(s.executed > _RARE * case.warps and s.index not in loads for s in case.loads):
        return Refusal("it loads more behind its barriers: what follows them cannot be done once for several elements")
    if sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "store") > _RARE * loaded_bytes:
        return Refusal("a block stores what it has loaded: what follows its barriers cannot be done once for several")
    resident = float(case.prediction.warps_per_sm) / case.profile.warps_per_block
    rounds = case.profile.grid_blocks / (case.sms * max(1.0, resident))
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
    at_once = min(4, factor)
    two = tuple(c for i in sorted(loads) for c in (Copy(i, 1, True), Copy(i, 2, False)))

    def repeated(run: Run) -> Run:
        return side_by_side(run, lambda i: Repeat(at_once if i in loads else 1), case.code)

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        first: Trace = [([two], max(1, round((factor - at_once) / 2)))] if factor > at_once and path.segments else []
        return [([*first, *(([repeated(r) for r in as_written(s)], s.times) for s in path.segments)], 1.0)]

    return fewer_blocks(rewritten(case.workload, rewrite), factor)


def unroll(case: Case) -> Answer:
    """Leave out the instructions that only count iterations and branch, in most iterations.

    Applies where: loop overhead is 2 % of the instructions or more.
    Overlay: counters, conditions and branches in one iteration of eight.
    """
    executed = (loop for loop in loops_of(case.code) if case.executed[loop.stop - 1])
    static = [s for loop in executed if not case.only_waits(s := Segment([(loop.start, loop.stop)], 2))]
    if not static:
        return Refusal("it has no loop")
    loops = [*case.loops, *static]
    over = {i for s in loops for i in loop_overhead(case.code, s)}
    over -= case.from_data | case.waits  # a condition on data stays
    share = case.share(over & case.inside(loops))
    if share < 0.02:
        return Refusal(f"turning its loops takes {share:.0%} of the instructions")
    addresses = (case.addresses & case.inside(static)) - case.waits
    integer = {i for i in addresses if case.code[i].kind in ("int", "imul", "imul_wide")}
    known = over | {i for i in integer if case.code[i].opcode != "ISETP"}  # of a loop that vanishes: constants
    without_overhead = cache(lambda run: tuple(c for c in run if c.origin not in over))
    with_constants = cache(lambda run: tuple(c for c in run if c.origin not in known))

    def unrolled(s: Segment) -> Trace:
        runs = as_written(s)
        if s.times <= _UNROLLED:  # also iterations that differ, as of a tree: each is a segment of its own
            return [([with_constants(run) for run in runs], s.times)]
        bare = [without_overhead(run) for run in runs]
        return [(bare * (_UNROLLED - 1) + runs, s.times // _UNROLLED), (runs, s.times % _UNROLLED)]

    return Proposal(
        title=f"unroll: {share:.0%} of the instructions only count iterations and branch",
        workload=with_segments(case.workload, unrolled),
        assumption="counters and conditions go: loops of up to 8 iterations vanish, others count every eighth",
        where=case.locations(over),
        changes={"unroll": _UNROLLED},
        joins=frozenset((*case.inside(loops), "overhead")),
        no_help="the instructions that would go cost little",
    )
