"""Static analysis of a program: dependences, live registers, ILP and MLP, and the cycles of a lone warp.

Nothing is run. Issue cycles are those of one warp alone, counted from the start of each basic block with nothing
pending. A loop's cycles per iteration are its steady state: many iterations along its shortest and its longest path,
less half as many. Its critical path is the chain of instructions that decides these cycles. Its recurrence is the
longest cycle of data dependences around it: an iteration that runs through all of it cannot take less.

ILP and MLP follow Sim et al. 2012 §5.3: instructions that may issue together, and accesses before the first use. Only
the order of instructions and their registers count there, no latency.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from warplens.machine import KINDS, Machine
from warplens.program.control_flow import Flow, Loop, basic_blocks, flow_graph, paths_through, run_along
from warplens.program.dataflow import Edge, dependences, live_registers
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import LoneWarp, chain, issue_alone
from warplens.program.program import Program

_TRIPS, _TRIP_INSTRUCTIONS = 8, 1024  # a long body settles in fewer trips
_RECURRENCE_STEPS = 1_000_000
_NEEDS_NO_LATENCY = frozenset(("branch", "barrier", "exit", "store", "other"))


class Step(Struct, frozen=True):
    """One step of a critical path: an instruction, and the cycles from its issue to the next step's."""

    instruction: int
    cycles: float


class CodePath(Struct, frozen=True):
    """A path through the code: its blocks, the cycles a lone warp takes, and the steps that decide them."""

    blocks: list[int]
    cycles: float
    critical_path: list[Step]


class BlockFacts(Struct, frozen=True):
    """A basic block: parallelism (Sim et al. 2012 §5.3) and the cycles until the next block may issue."""

    ilp: float
    mlp: float
    cycles: float


class LoopFacts(Struct, frozen=True):
    """A loop: the cycles of an iteration for a lone warp on its shortest and longest path, recurrence, classes."""

    header: int
    depth: int
    instructions: int
    paths: list[CodePath]
    recurrence_cycles: float
    recurrence: list[int]
    ilp: float
    mlp: float
    classes: dict[str, int]


class StaticAnalysis(Struct, frozen=True):
    """All that is known of a program without running it; `without_latency`: classes of unknown latency."""

    flow: Flow
    edges: list[Edge]
    issue_cycles: list[float]
    waited_for: list[int | None]
    live_registers: list[int]
    blocks: list[BlockFacts]
    loops: list[LoopFacts]
    paths: list[CodePath]
    without_latency: list[str]


def static_analysis(program: Program, machine: Machine) -> StaticAnalysis:
    """Analyse a program for a machine, without running it."""
    flow = flow_graph(program)
    code = program.instructions
    edges = dependences(program, flow)
    runs = [issue_alone(code[b.first : b.last + 1], machine) for b in flow.blocks]
    facts = [
        BlockFacts(*parallelism(code[b.first : b.last + 1]), run.end_cycle)
        for b, run in zip(flow.blocks, runs, strict=True)
    ]
    loops = [_loop(n, flow, code, edges, facts, machine) for n in range(len(flow.loops))]
    kinds = {x.kind for x in code if x.kind not in _NEEDS_NO_LATENCY and x.latency_cycles is None}
    return StaticAnalysis(
        flow=flow,
        edges=edges,
        issue_cycles=[cycle for run in runs for cycle in run.issue_cycles],
        waited_for=[board for run in runs for board in run.waited_for],
        live_registers=live_registers(code, flow.blocks),
        blocks=facts,
        loops=loops,
        paths=[_once(path, flow, code, machine) for path in paths_through(flow, [f.cycles for f in facts])],
        without_latency=sorted(kind for kind in kinds if machine.timing(kind).latency_cycles is None),
    )


def _loop(
    n: int, flow: Flow, code: list[Instruction], edges: list[Edge], facts: list[BlockFacts], machine: Machine
) -> LoopFacts:
    loop = flow.loops[n]
    blocks = [flow.blocks[b] for b in loop.blocks]
    body = [code[i] for b in blocks for i in range(b.first, b.last + 1)]
    size = len(body)
    weights = [(b.last - b.first + 1) / size for b in blocks]
    paths = paths_through(flow, [f.cycles for f in facts], loop)
    cycles, around = _recurrence(n, loop, flow, code, edges, machine)
    return LoopFacts(
        header=loop.header,
        depth=loop.depth,
        instructions=size,
        paths=[_around(path, flow, code, machine) for path in paths],
        recurrence_cycles=cycles,
        recurrence=around,
        ilp=sum(w * facts[b.index].ilp for w, b in zip(weights, blocks, strict=True)),
        mlp=sum(w * facts[b.index].mlp for w, b in zip(weights, blocks, strict=True)),
        classes=dict(Counter(i.kind for i in body)),
    )


def _once(path: list[int], flow: Flow, code: list[Instruction], machine: Machine) -> CodePath:
    """Run a path once."""
    run, taken = run_along(flow, path)
    alone = issue_alone([code[i] for i in run], machine, taken=taken)
    return CodePath(path, alone.end_cycle, _steps(alone, 0, run))


def _around(path: list[int], flow: Flow, code: list[Instruction], machine: Machine) -> CodePath:
    """Run a path many times, less half as many: a loop's steady state, and its critical path in a mean iteration."""
    once, inside = run_along(flow, path)
    size = len(once)
    trips = max(2, min(_TRIPS, _TRIP_INSTRUCTIONS // size))
    run, half = once * (2 * trips), size * trips
    taken = {t + size * k for t in inside for k in range(2 * trips)} | {size * (k + 1) - 1 for k in range(2 * trips)}
    alone = issue_alone([code[i] for i in run], machine, taken=taken)
    spent = dict[int, float]()
    for step in _steps(alone, half, run):  # a mean iteration: what the second half of the trips waited for
        spent[step.instruction] = spent.get(step.instruction, 0.0) + step.cycles / trips
    cycles = (alone.end_cycle - alone.issue_cycles[half]) / trips
    return CodePath(path, cycles, [Step(instruction, c) for instruction, c in sorted(spent.items())])


def _steps(alone: LoneWarp, first: int, run: list[int]) -> list[Step]:
    """Return the steps of the longest path, from a position of the run on."""
    issue = [*alone.issue_cycles, alone.end_cycle]
    chosen = [at for at in chain(alone.decided_by) if at >= first]
    return [Step(run[at], issue[then] - issue[at]) for at, then in pairwise([*chosen, len(run)])]


def _recurrence(
    n: int, loop: Loop, flow: Flow, code: list[Instruction], edges: list[Edge], machine: Machine
) -> tuple[float, list[int]]:
    """Return the longest cycle of data dependences that goes once around a loop, and its instructions.

    In a loop of ten thousand instructions only some of the values that go around are followed.
    """
    inside = {i for b in loop.blocks for i in range(flow.blocks[b].first, flow.blocks[b].last + 1)}
    forward: dict[int, list[tuple[int, float]]] = {}
    closing: set[tuple[int, int]] = set()
    for e in edges:
        if e.producer in inside and e.consumer in inside:
            if e.carried == n:
                closing.add((e.producer, e.consumer))
            elif e.carried is None and e.producer < e.consumer:
                forward.setdefault(e.producer, []).append((e.consumer, _latency(code, e, machine)))
    ends: dict[int, list[int]] = {}
    for producer, consumer in closing:
        ends.setdefault(consumer, []).append(producer)
    best: tuple[float, list[int]] = (0.0, [])
    affordable = max(8, _RECURRENCE_STEPS // (1 + sum(map(len, forward.values()))))
    for consumer in sorted(ends)[:affordable]:
        length: dict[int, tuple[float, int | None]] = {consumer: (0.0, None)}
        for i in range(consumer, max(ends[consumer]) + 1):
            if i in length:
                for to, cycles in forward.get(i, ()):
                    if to not in length or length[i][0] + cycles > length[to][0]:
                        length[to] = (length[i][0] + cycles, i)
        for producer in ends[consumer]:
            if producer in length:
                total = length[producer][0] + _latency(code, Edge(producer, consumer, "data", ""), machine)
                if total > best[0]:
                    best = (total, chain({i: before for i, (_, before) in length.items()}, producer))
    return best


def _latency(code: list[Instruction], edge: Edge, machine: Machine) -> float:
    """Return the cycles from a producer to its consumer; none where the machine file does not know."""
    producer, consumer = code[edge.producer], code[edge.consumer]
    if producer.latency_cycles is not None:
        return producer.latency_cycles
    timing = machine.timing(producer.kind)
    return timing.latency_to.get(consumer.kind, timing.latency_cycles or 0.0)


def parallelism(code: Sequence[Instruction]) -> tuple[float, float]:
    """Return ILP (instructions over groups that can issue together) and MLP (accesses until the first use)."""
    groups, written = 1, set[str]()
    for instruction in code:
        if not written.isdisjoint(instruction.reads) or not written.isdisjoint(instruction.writes):
            groups += 1
            written = set()
        written.update(instruction.writes)
    memory = [i for i, x in enumerate(code) if KINDS[x.kind] == "memory system"]
    if not memory:
        return len(code) / groups, 1.0
    local, next_read, at = list[int](), dict[str, int](), len(memory)
    for i in range(len(code) - 1, memory[0] - 1, -1):
        if at and memory[at - 1] == i:
            at -= 1
            if code[i].writes:
                use = min(next_read.get(r, len(code)) for r in code[i].writes)
                local.append(bisect_left(memory, use) - at)
        next_read.update(dict.fromkeys(code[i].reads, i))
    return len(code) / groups, sum(local) / len(local) if local else 1.0


def independent_loads(code: Sequence[Instruction]) -> list[int]:
    """Return the loads that issue while an earlier one of the same warp is in flight, within straight code.

    An instruction that reads a load's result waits for that load and those before it (Hong and Kim 2009 §6.1).
    """
    starts = {x.target for x in code if x.target is not None}
    found, flying = list[int](), list[tuple[str, ...]]()
    for i, x in enumerate(code):
        if x.offset in starts:
            flying = []
        waits = [n for n, written in enumerate(flying) if not set(written).isdisjoint(x.reads + x.writes)]
        del flying[: max(waits, default=-1) + 1]
        if KINDS[x.kind] == "memory system" and x.writes:
            found += [i] if flying else []
            flying.append(x.writes)
        if x.target is not None:
            flying = []
    return found


def mean_parallelism(program: Program, executed: Sequence[float]) -> tuple[float, float]:
    """Return ILP and MLP of a program, its basic blocks weighted by how often their instructions run."""
    total, ilp, mlp = 0.0, 0.0, 0.0
    for block in basic_blocks(program):
        weight = (block.last - block.first + 1) * executed[block.first]
        if weight:
            here = parallelism(program.instructions[block.first : block.last + 1])
            total, ilp, mlp = total + weight, ilp + weight * here[0], mlp + weight * here[1]
    return (ilp / total, mlp / total) if total else (0.0, 0.0)
