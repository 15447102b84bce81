"""Remedies for latency: more independent work side by side, within turns of loops or within a thread; unrolling."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.overlay import with_instructions, with_launch, without_waits
from warplens.advisor.rewrite import (  # fmt: skip
    Copy,
    Repeat,
    Run,
    Way,
    as_written,
    fewer_blocks,
    joined_threads,
    joined_turns,
    once_each,
    rewritten,
    side_by_side,
)
from warplens.advisor.dataflow import address_instructions, from_data, loop_overhead, loops_of, registers_written
from warplens.program.instruction import Instruction
from warplens.workload.profile import Path, Segment
from warplens.workload.workload import Workload

_LIVE = 16  # registers of a joined turn that are alive at a time
_FACTORS = (2, 4)
_UNROLLED = 8  # turns of a loop that become one
_RARE = 0.25  # of the warps, or of the bytes: what a block does once beside what all of its warps do


def _with_registers(case: Case, made: Workload, factor: int, repeated: Sequence[int]) -> tuple[Workload, int]:
    live = min(_LIVE, registers_written(case.code, repeated))
    registers = min(255, case.launch.registers_per_thread + (factor - 1) * live)
    return with_launch(made, registers_per_thread=registers), registers


def more_ilp(case: Case) -> Answer:
    """Independent chains side by side: some turns of the longest loop at once."""
    loops = [s for s in case.loops() if not _global_loads(case, s)]
    return _turns(case, "more-ilp", loops, "independent chains of arithmetic side by side")


def more_loads_in_flight(case: Case) -> Answer:
    """Loads of some turns of a loop at once, so that their latencies overlap: unroll, or prefetch."""
    if not any(s.instruction.kind == "load" for s in case.global_sites):
        return refused("more-loads-in-flight", "it loads nothing from global memory")
    loops = [s for s in case.loops() if _global_loads(case, s)]
    made = _turns(case, "more-loads-in-flight", loops, "their loads in flight together")
    made = [*made, *_prefetched(case, loops)]
    together = _together(case, loops)
    if not together:
        return made
    freed = with_instructions(case.workload, together)
    within = Proposal(
        name="more-loads-in-flight",
        title="all loads of an iteration in flight together: none waits for the one before",
        workload=freed,
        assumption="no address depends on what another load of the iteration brings",
        where=case.places(together),
        changes={"together": True},
        no_help="warps hide the latency already",
    )
    twice = _turns(
        Case(freed, case.machine, case.prediction),
        "more-loads-in-flight",
        loops,
        "all their loads in flight together",
    )
    return [*made, within, *twice]


def _prefetched(case: Case, loops: Sequence[Segment]) -> list[Proposal]:
    """Load what the next turn needs before the present one is done: the wait moves to the end of the turn."""
    inside = case.inside(loops)
    loads = {s.index for s in case.global_sites if s.instruction.kind == "load" and s.index in inside}
    boards = {c.write_scoreboard for i in loads if (c := case.code[i].control) is not None}
    mask = sum(1 << b for b in boards if b is not None)
    if not loads or mask == 0:
        return []

    @once_each
    def turned(run: Run) -> Run:
        """Loads first, nobody waits for them, and copies to where the next turn looks for them at the end."""
        if not any(c.origin in loads for c in run):
            return run
        ahead = [Copy(c.origin, 1) for c in run if c.origin in loads]
        rest = [_unwaiting(c, mask, case.code) for c in run if c.origin not in loads]
        behind = [Copy(c.origin, 2, mask=mask, board=-1, becomes="IMAD") for c in ahead]
        return (*ahead, *rest[:-1], *behind, *rest[-1:])

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        return [([([turned(r) for r in as_written(s)] if s.times > 1 else as_written(s), s.times)
                  for s in path.segments], 1.0)]  # fmt: skip

    registers = case.launch.registers_per_thread + registers_written(case.code, loads)
    return [
        Proposal(
            name="more-loads-in-flight",
            title="prefetch: load what the next iteration needs before the present one is done",
            workload=with_launch(rewritten(case.workload, rewrite), registers_per_thread=min(255, registers)),
            assumption=f"the addresses of the next iteration are known by then; {registers} registers per thread",
            where=case.places(loads),
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
    """Return the instructions that wait for a load of their turn while others of it are still to come, without that."""
    made: dict[int, Instruction] = {}
    for loop in loops:
        inside = [i for first, stop in loop.runs for i in range(first, stop)]
        loads = [s.index for s in case.global_sites if s.instruction.kind == "load" and s.index in set(inside)]
        controls = [c for i in loads if (c := case.code[i].control) is not None]
        boards = frozenset(c.write_scoreboard for c in controls if c.write_scoreboard is not None)
        for i in inside:
            control = case.code[i].control
            if i <= max(loads) and control is not None and boards & set(control.waits):
                made[i] = without_waits(case.code[i], boards)
    return made


def _turns(case: Case, name: str, loops: Sequence[Segment], what: str) -> Answer:
    if not loops:
        return refused(name, "no loop of that kind")
    over = {i for s in loops for i in loop_overhead(case.code, s)} - from_data(case.code, case.executed)
    kinds = ("branch", "exit", "barrier")

    def repeats_by(factor: int) -> dict[int, Repeat]:
        return {i: Repeat(1 if i in over or case.code[i].kind in kinds else factor) for i in range(len(case.code))}

    wanted = [[tuple(run) for run in s.runs] for s in loops]

    def chosen(segment: Segment) -> bool:
        return [tuple(run) for run in segment.runs] in wanted

    repeated = [i for i in case.inside(loops) if i not in over]
    made = []
    for factor in _FACTORS:
        by = repeats_by(factor)
        joined = joined_turns(case.workload, factor, by.__getitem__, chosen)
        joined, registers = _with_registers(case, joined, factor, repeated)
        made.append(
            Proposal(
                name=name,
                title=f"{factor} iterations of the loop at once: {what}",
                workload=joined,
                assumption=f"iterations are independent (sums may be split); {registers} registers per thread",
                where=case.places(repeated),
                changes={"turns": factor, "registers_per_thread": registers},
                joins=frozenset(case.inside(loops)),
                no_help="warps hide the latency already",
            )
        )
    return made


def _global_loads(case: Case, segment: Segment) -> bool:
    inside = case.inside([segment])
    return any(s.index in inside and s.instruction.kind == "load" for s in case.global_sites)


def more_work_per_thread(case: Case) -> Answer:
    """Several elements per thread: what comes once per thread or block is shared by them."""
    name = "more-work-per-thread"
    sms = int(case.machine.chip.sm_count)
    if case.profile.grid_blocks < 4 * sms:
        return refused(name, "it has few blocks as it is")
    barrier = min((i for i, x in enumerate(case.code) if x.kind == "barrier" and case.executed[i]), default=None)
    if barrier is not None:
        return _loads_before(case, barrier)
    once = address_instructions(case.code)
    repeated = [i for i in range(len(case.code)) if i not in once]
    made = []
    for factor in _FACTORS:
        joined = joined_threads(case.workload, factor, lambda i, k=factor: Repeat(1 if i in once else k))  # type: ignore[misc]
        joined, registers = _with_registers(case, joined, factor, repeated)
        made.append(
            Proposal(
                name=name,
                title=f"{factor} elements per thread: 1/{factor} of the threads, addresses computed once",
                workload=joined,
                assumption=f"threads do not depend on one another; {registers} registers per thread",
                changes={"threads": 1 / factor, "registers_per_thread": registers},
                joins=frozenset(("threads",)),
                no_help="what threads do once costs little",
            )
        )
    return made


def _loads_before(case: Case, barrier: int) -> Answer:
    """Repeat the loads in front of the first barrier; what follows is done once for all of them."""
    name = "more-work-per-thread"
    loads = {
        s.index for s in case.global_sites
        if s.instruction.kind == "load" and s.index < barrier and s.executed <= 1.01 * case.warps
    }  # fmt: skip
    if not loads:
        return refused(name, "no load in front of its barriers that could be repeated")
    brought = sum(s.useful_bytes for s in case.global_sites if s.index in loads)
    if any(s.instruction.kind == "load" and s.executed > _RARE * case.warps and s.index not in loads
           for s in case.global_sites):  # fmt: skip
        return refused(
            name, "it loads more behind its barriers: what follows them cannot be done once for several elements"
        )
    if sum(s.useful_bytes for s in case.global_sites if s.instruction.kind == "store") > _RARE * brought:
        return refused(
            name, "a block stores what it has loaded: what follows its barriers cannot be done once for several"
        )
    resident = float(case.prediction.warps_per_sm) / case.profile.warps_per_block
    rounds = case.profile.grid_blocks / (case.machine.chip.sm_count * max(1.0, resident))
    made = []
    for factor in dict.fromkeys((2, 4, max(2, int(rounds)))):
        joined = _repeated_loads(case, loads, factor)
        made.append(
            Proposal(
                name=name,
                title=f"{factor} elements per thread: what a block does with barriers is done once for {factor}",
                workload=joined,
                assumption="a thread can combine its elements before the block does",
                reorders_sums=True,
                where=case.places(loads),
                changes={"elements": factor, "grid": case.profile.grid_blocks // factor},
                joins=frozenset(("threads",)),
                no_help="what a block does once costs little",
            )
        )
    return made


def _repeated_loads(case: Case, loads: set[int], factor: int) -> Workload:
    by = {i: Repeat(min(4, factor) if i in loads else 1) for i in range(len(case.code))}
    more = factor - min(4, factor)
    turn = tuple(c for i in sorted(loads) for c in _turn(i, case))

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for k, s in enumerate(path.segments):
            runs = [side_by_side(r, by.__getitem__, case.code) for r in as_written(s)]
            if k == 0 and more:
                way.append(([turn], max(1, round(more / 2))))
            way.append((runs, s.times))
        return [(way, 1.0)]

    return fewer_blocks(rewritten(case.workload, rewrite), factor)


def _turn(load: int, case: Case) -> Run:
    """Return a load twice, as a turn of a loop over two elements has it."""
    return (Copy(load, 1, True), Copy(load, 2, False))


def unroll(case: Case) -> Answer:
    """Loops without the instructions that only turn them, in most turns."""
    name = "unroll"
    loops = case.loops()
    turned = (loop for loop in loops_of(case.code) if case.executed[loop.stop - 1])
    static = [s for loop in turned if not case.idles(s := Segment([(loop.start, loop.stop)], 2))]
    if not static:
        return refused(name, "it has no loop")
    over = {i for s in (*loops, *static) for i in loop_overhead(case.code, s)}
    over -= from_data(case.code, case.executed) | case.waits  # a turn that hangs on data is still asked for
    share = case.share(over & case.inside((*loops, *static)))
    if share < 0.02:
        return refused(name, f"turning its loops takes {share:.0%} of the instructions")
    inside = case.inside(static)
    addresses = (address_instructions(case.code) & inside) - case.waits
    known = {i for i in addresses if case.code[i].kind in ("int", "imul", "imul_wide")}
    known = over | {i for i in known if case.code[i].opcode != "ISETP"}  # of a loop that vanishes: constants
    bared = once_each(lambda run: tuple(c for c in run if c.origin not in over))
    gone = once_each(lambda run: tuple(c for c in run if c.origin not in known))

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for s in path.segments:
            runs = as_written(s)
            if s.times < 2:  # turns that differ stand one behind the other: few of them, as of a tree
                way.append(([gone(run) for run in runs], s.times))
                continue
            if s.times <= _UNROLLED:
                way.append(([gone(run) for run in runs], s.times))
                continue
            bare, factor = [bared(run) for run in runs], _UNROLLED
            way.append((bare * (factor - 1) + runs, s.times // factor))
            way.append((runs, s.times % factor))
        return [(way, 1.0)]

    return [
        Proposal(
            name=name,
            title=f"unroll: {share:.0%} of the instructions only count iterations and branch",
            workload=rewritten(case.workload, rewrite),
            assumption="counters and conditions go: loops of up to 8 iterations vanish, others count every eighth",
            where=case.places(over),
            changes={"unroll": _UNROLLED},
            joins=frozenset((*case.inside((*loops, *static)), "overhead")),
            no_help="the instructions that would go cost little",
        )
    ]
