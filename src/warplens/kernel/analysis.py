"""What a program's structure says before anything runs: live registers, ILP and MLP, cycles of a lone warp.

Issue cycles are those of one warp alone, counted from the start of each basic block with nothing pending.
A loop's cycles per iteration are its steady state: many trips along its straight path, less half as many.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from warplens.kernel.flow import Block, Flow, Loop, flow_graph
from warplens.kernel.instruction import Instruction
from warplens.kernel.lone_warp import issue_alone
from warplens.kernel.program import Program
from warplens.machine import KINDS, Machine


class BlockFacts(Struct, frozen=True):
    """A basic block: instruction- and memory-level parallelism (Sim et al. 2012 §5.3)."""

    ilp: float
    mlp: float


class LoopFacts(Struct, frozen=True):
    """A loop: cycles one warp alone takes per iteration (None where its path is not one), and what is in it."""

    header: int
    depth: int
    instructions: int
    cycles_per_iteration: float | None
    ilp: float
    mlp: float
    classes: dict[str, int]


class Analysis(Struct, frozen=True):
    """All that is known of a program without running it."""

    flow: Flow
    issue_cycles: list[float]
    waited_for: list[int | None]
    live_registers: list[int]
    blocks: list[BlockFacts]
    loops: list[LoopFacts]


def analyse(program: Program, machine: Machine) -> Analysis:
    """Analyse a program for a machine."""
    flow = flow_graph(program)
    code = program.instructions
    cycles: list[float] = []
    waited: list[int | None] = []
    for block in flow.blocks:
        run = issue_alone(code[block.first : block.last + 1], machine)
        cycles += run.issue_cycles
        waited += run.waited_for
    facts = [BlockFacts(*_parallelism(code[b.first : b.last + 1])) for b in flow.blocks]
    loops = [_loop(loop, flow, code, facts, machine) for loop in flow.loops]
    return Analysis(flow, cycles, waited, _live(code, flow.blocks), facts, loops)


def _parallelism(code: list[Instruction]) -> tuple[float, float]:
    """Return ILP (instructions over groups that can issue together) and MLP (accesses until the first use)."""
    groups, written = 1, set[str]()
    for instruction in code:
        if written & {*instruction.reads, *instruction.writes}:
            groups += 1
            written = set()
        written |= set(instruction.writes)
    local = []
    memory = [i for i, x in enumerate(code) if KINDS[x.kind] == "memory system"]
    for i in memory:
        results = set(code[i].writes)
        if not results:
            continue
        use = next((j for j in range(i + 1, len(code)) if results & set(code[j].reads)), len(code))
        local.append(sum(1 for j in memory if i <= j < use))
    return len(code) / groups, sum(local) / len(local) if local else 1.0


def _loop(loop: Loop, flow: Flow, code: list[Instruction], facts: list[BlockFacts], machine: Machine) -> LoopFacts:
    blocks = [flow.blocks[b] for b in loop.blocks]
    body = [code[i] for b in blocks for i in range(b.first, b.last + 1)]
    size = len(body)
    weights = [(b.last - b.first + 1) / size for b in blocks]
    ilp = sum(w * facts[b.index].ilp for w, b in zip(weights, blocks, strict=True))
    mlp = sum(w * facts[b.index].mlp for w, b in zip(weights, blocks, strict=True))
    cycles = _period(body, machine) if len(blocks) == 1 else None
    return LoopFacts(loop.header, loop.depth, size, cycles, ilp, mlp, dict(Counter(i.kind for i in body)))


def _period(body: list[Instruction], machine: Machine) -> float:
    """Return the cycles per trip of a loop of one block at steady state."""
    trips = 8
    ends = []
    for n in (trips, 2 * trips):
        branches = {len(body) * (k + 1) - 1 for k in range(n)}
        ends.append(issue_alone(body * n, machine, taken=branches).end_cycle)
    return (ends[1] - ends[0]) / trips


def _live(code: list[Instruction], blocks: list[Block]) -> list[int]:
    """Return how many general registers hold a value still needed, before each instruction."""
    entry: list[frozenset[str]] = [frozenset()] * len(blocks)
    counts = [0] * len(code)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            live = set[str]().union(*(entry[s] for s in block.successors))
            for i in range(block.last, block.first - 1, -1):
                instruction = code[i]
                if not instruction.guard:  # a guarded write may leave the old value
                    live.difference_update(instruction.writes)
                live.update(instruction.reads)
                counts[i] = sum(1 for r in live if r[0] == "R")
            if live != entry[block.index]:
                entry[block.index] = frozenset(live)
                changed = True
    return counts
