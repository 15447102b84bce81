"""What a program's structure says before anything runs: dependences, live registers, ILP and MLP, lone-warp cycles.

Issue cycles are those of one warp alone, counted from the start of each basic block with nothing pending.
A loop's cycles per iteration are its steady state: many trips along its shortest and its longest way, less half
as many. Its critical path is the chain of instructions that decides these cycles. Its recurrence is the longest
cycle of data dependences around it: a way that runs through all of it cannot take less.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from warplens.machine import Machine
from warplens.program.control_flow import Block, Flow, Loop, flow_graph
from warplens.program.dependence import Edge, dependences
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import LoneWarp, issue_alone
from warplens.program.parallelism import parallelism
from warplens.program.paths import run_along, ways_through_loop, ways_through_program
from warplens.program.program import Program

_TRIPS, _TRIP_INSTRUCTIONS = 8, 1024  # a long body settles in fewer trips
_RECURRENCE_STEPS = 1_000_000
_NEEDS_NO_LATENCY = frozenset(("branch", "barrier", "exit", "store", "other"))


class Step(Struct, frozen=True):
    """One step of a critical path: an instruction, and the cycles from its issue to the next step's."""

    instruction: int
    cycles: float


class Way(Struct, frozen=True):
    """A way through the code: its blocks, the cycles a lone warp takes, and the steps that decide them."""

    blocks: list[int]
    cycles: float
    critical_path: list[Step]


class BlockFacts(Struct, frozen=True):
    """A basic block: parallelism (Sim et al. 2012 §5.3) and the cycles until the next block may issue."""

    ilp: float
    mlp: float
    cycles: float


class LoopFacts(Struct, frozen=True):
    """A loop: what one iteration costs a lone warp (shortest and longest way), its recurrence, what is in it."""

    header: int
    depth: int
    instructions: int
    ways: list[Way]
    recurrence_cycles: float
    recurrence: list[int]
    ilp: float
    mlp: float
    classes: dict[str, int]

    @property
    def cycles_per_iteration(self) -> float | None:
        """Cycles of a lone warp per iteration on the shortest way (None where no way leads around)."""
        return min((way.cycles for way in self.ways), default=None)


class Analysis(Struct, frozen=True):
    """All that is known of a program without running it."""

    flow: Flow
    edges: list[Edge]
    issue_cycles: list[float]
    waited_for: list[int | None]
    live_registers: list[int]
    blocks: list[BlockFacts]
    loops: list[LoopFacts]
    ways: list[Way]
    without_latency: list[str]


def analyse(program: Program, machine: Machine) -> Analysis:
    """Analyse a program for a machine."""
    flow = flow_graph(program)
    code = program.instructions
    edges = dependences(program, flow)
    runs = [issue_alone(code[b.first : b.last + 1], machine) for b in flow.blocks]
    facts = [
        BlockFacts(*parallelism(code[b.first : b.last + 1]), run.end_cycle)
        for b, run in zip(flow.blocks, runs, strict=True)
    ]
    loops = [_loop(n, flow, code, edges, facts, machine) for n in range(len(flow.loops))]
    through = ways_through_program(flow, [f.cycles for f in facts])
    return Analysis(
        flow=flow,
        edges=edges,
        issue_cycles=[cycle for run in runs for cycle in run.issue_cycles],
        waited_for=[board for run in runs for board in run.waited_for],
        live_registers=_live(code, flow.blocks),
        blocks=facts,
        loops=loops,
        ways=[_once(way, flow, code, machine) for way in through],
        without_latency=_without_latency(code, machine),
    )


def _without_latency(code: list[Instruction], machine: Machine) -> list[str]:
    """Return the classes of this code whose latency the machine file does not have."""
    kinds = {x.kind for x in code if x.kind not in _NEEDS_NO_LATENCY and x.latency_cycles is None}
    return sorted(kind for kind in kinds if machine.timing(kind).latency_cycles is None)


def _loop(
    n: int, flow: Flow, code: list[Instruction], edges: list[Edge], facts: list[BlockFacts], machine: Machine
) -> LoopFacts:
    loop = flow.loops[n]
    blocks = [flow.blocks[b] for b in loop.blocks]
    body = [code[i] for b in blocks for i in range(b.first, b.last + 1)]
    size = len(body)
    weights = [(b.last - b.first + 1) / size for b in blocks]
    ways = ways_through_loop(flow, loop, [f.cycles for f in facts])
    cycles, around = _recurrence(n, loop, flow, code, edges, machine)
    return LoopFacts(
        header=loop.header,
        depth=loop.depth,
        instructions=size,
        ways=[_around(way, flow, code, machine) for way in ways],
        recurrence_cycles=cycles,
        recurrence=around,
        ilp=sum(w * facts[b.index].ilp for w, b in zip(weights, blocks, strict=True)),
        mlp=sum(w * facts[b.index].mlp for w, b in zip(weights, blocks, strict=True)),
        classes=dict(Counter(i.kind for i in body)),
    )


def _once(way: list[int], flow: Flow, code: list[Instruction], machine: Machine) -> Way:
    """Run a way through once."""
    run, taken = run_along(flow, code, way)
    alone = issue_alone([code[i] for i in run], machine, taken=taken)
    steps = _steps(alone, alone.path(), run)
    return Way(way, alone.end_cycle, steps)


def _around(way: list[int], flow: Flow, code: list[Instruction], machine: Machine) -> Way:
    """Run a way many times, less half as many: the steady state of a loop, and an average turn of its critical path."""
    once, inside = run_along(flow, code, way)
    size = len(once)
    trips = max(2, min(_TRIPS, _TRIP_INSTRUCTIONS // size))
    run = once * (2 * trips)
    taken = {t + size * k for t in inside for k in range(2 * trips)} | {size * (k + 1) - 1 for k in range(2 * trips)}
    alone = issue_alone([code[i] for i in run], machine, taken=taken)
    half = size * trips
    cycles = (alone.end_cycle - alone.issue_cycles[half]) / trips
    path = [at for at in alone.path() if half <= at]
    spent: dict[int, float] = {}
    for step in _steps(alone, path, run):  # an average turn: what the second half of the trips waited for
        spent[step.instruction] = spent.get(step.instruction, 0.0) + step.cycles / trips
    return Way(way, cycles, [Step(instruction, c) for instruction, c in sorted(spent.items())])


def _steps(alone: LoneWarp, path: list[int], run: list[int]) -> list[Step]:
    issue = alone.issue_cycles
    ends = [*(issue[at] for at in path[1:]), alone.end_cycle]
    return [Step(run[at], end - issue[at]) for at, end in zip(path, ends, strict=False)]


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
        if e.kind in ("data", "predicate") and e.producer in inside and e.consumer in inside:
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
                    best = (total, _chain(length, producer))
    return best


def _chain(length: dict[int, tuple[float, int | None]], end: int) -> list[int]:
    """Return the instructions of a longest path, from its start to this end."""
    chain: list[int] = []
    at: int | None = end
    while at is not None:
        chain.append(at)
        at = length[at][1]
    return chain[::-1]


def _latency(code: list[Instruction], edge: Edge, machine: Machine) -> float:
    """Return the cycles from a producer to its consumer; none where the machine file does not know."""
    producer, consumer = code[edge.producer], code[edge.consumer]
    if producer.latency_cycles is not None:
        return producer.latency_cycles
    timing = machine.timing(producer.kind)
    return timing.latency_to.get(consumer.kind, timing.latency_cycles or 0.0)


def _live(code: list[Instruction], blocks: list[Block]) -> list[int]:
    """Return how many general registers hold a value still needed, before each instruction."""
    general = [
        (_mask(x.writes) if not x.guard else 0, _mask(x.reads)) for x in code
    ]  # a guarded write may keep the old
    entry = [0] * len(blocks)
    counts = [0] * len(code)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            live = 0
            for successor in block.successors:
                live |= entry[successor]
            for i in range(block.last, block.first - 1, -1):
                written, read = general[i]
                live = live & ~written | read
                counts[i] = live.bit_count()
            if live != entry[block.index]:
                entry[block.index] = live
                changed = True
    return counts


def _mask(registers: tuple[str, ...]) -> int:
    made = 0
    for name in registers:
        if name[0] == "R" and name[1:].isdigit():
            made |= 1 << int(name[1:])
    return made
