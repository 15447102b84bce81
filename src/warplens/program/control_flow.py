"""Control-flow graph of a program: basic blocks, natural loops, and paths through them.

A path is a sequence of blocks that one warp runs once, from a start to an end. Without a profile nobody knows which
branches are taken: the shortest and the longest path stand for all, each block weighed by what a lone warp spends in
it, and loops inside run once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from warplens.program.instruction import Instruction
from warplens.program.program import Program

# An unguarded one of these is not followed by the next instruction.
_LEAVES = frozenset(("EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU", "BRA", "JMP", "RTT"))
_BRANCHES = frozenset(("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"))
_MARKS = frozenset(("BSSY", "SSY", "WARPSYNC", "LEPC"))  # name the address of reconvergence, or of a return


class Block(Struct, frozen=True):
    """Instructions `first` to `last` (indices, inclusive) that run one after the other."""

    index: int
    first: int
    last: int
    successors: tuple[int, ...]


class Loop(Struct, frozen=True):
    """A natural loop: its header block, all its blocks, the sources of its back edges, how deep it is nested."""

    header: int
    blocks: tuple[int, ...]
    back_edge_sources: tuple[int, ...]
    depth: int
    parent: int | None


class Flow(Struct, frozen=True):
    """The flow graph of a program."""

    blocks: list[Block]
    loops: list[Loop]


def flow_graph(program: Program) -> Flow:
    """Return the basic blocks and the natural loops of a program."""
    blocks = basic_blocks(program)
    return Flow(blocks, _loops(blocks, _dominators(blocks)))


def basic_blocks(program: Program) -> list[Block]:
    """Return the basic blocks of a program, each with its successors."""
    code = program.instructions
    index = {instruction.offset: i for i, instruction in enumerate(code)}
    leaders = {0}
    for i, instruction in enumerate(code):
        if (_jumps(instruction) or instruction.opcode in _MARKS) and instruction.target in index:
            leaders.add(index[instruction.target])
        for target in program.jump_targets.get(instruction.offset, ()):
            if target in index:
                leaders.add(index[target])
        computed = any(o.kind in ("register", "uniform") for o in instruction.operands)
        ends = not computed if instruction.opcode == "CALL" else instruction.opcode in _LEAVES
        if ends and i + 1 < len(code):  # a block ends at branches, exits and direct calls
            leaders.add(i + 1)
    for label, offset in program.labels.items():
        # a function's entry, or an indirect branch that others share; other labels count only as targets
        if offset in index and (not label.startswith(".L_") or code[index[offset]].opcode in ("BRX", "BRXU")):
            leaders.add(index[offset])
    starts = sorted(leaders)
    number = {start: n for n, start in enumerate(starts)}
    blocks = []
    for n, start in enumerate(starts):
        last = (starts[n + 1] if n + 1 < len(starts) else len(code)) - 1
        blocks.append(Block(n, start, last, _successors(program, code[last], last, index, number)))
    return blocks


def _successors(
    program: Program, last: Instruction, at: int, index: dict[int, int], number: dict[int, int]
) -> tuple[int, ...]:
    found: list[int] = []
    if _jumps(last) and last.target in index:
        found.append(number[index[last.target]])
    found += [number[index[t]] for t in program.jump_targets.get(last.offset, ()) if t in index]
    trap = last.opcode == "BPT" and "TRAP" in last.modifiers
    leaves = last.opcode in _LEAVES or trap or (last.opcode == "CALL" and _jumps(last))
    if (not leaves or _conditional(last)) and at + 1 in number:
        found.append(number[at + 1])
    return tuple(dict.fromkeys(found))


def _jumps(instruction: Instruction) -> bool:
    """Return whether an instruction may jump to its label: a branch, or a call inside the function."""
    return instruction.opcode in _BRANCHES or (instruction.opcode == "CALL" and "`(.L_" in instruction.text)


def _conditional(instruction: Instruction) -> bool:
    """Return whether a branch or exit may not be taken: a guard, or a predicate among the operands of a BRA."""
    if instruction.guard and not instruction.guard.endswith("PT"):
        return True
    if "DIV" in instruction.modifiers or "CONV" in instruction.modifiers:  # taken where the warp has (not) diverged
        return True
    return any(o.kind in ("predicate", "uniform predicate") and o.registers for o in instruction.operands)


def _postorder(blocks: list[Block], start: int, follow: Callable[[int, int], bool] = lambda a, b: True) -> list[int]:
    """Return the blocks reached from a start along the edges to follow, successors first (depth first)."""
    order: list[int] = []
    seen = {start}
    stack = [(start, iter(blocks[start].successors))]
    while stack:  # without recursion
        node, rest = stack[-1]
        child = next((child for child in rest if child not in seen and follow(node, child)), None)
        if child is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(child)
            stack.append((child, iter(blocks[child].successors)))
    return order


def _predecessors(blocks: list[Block]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for child in block.successors:
            before[child].append(block.index)
    return before


def _dominators(blocks: list[Block]) -> list[int]:
    """Return the dominators of each block as the bits of a whole number; of a block that is not reached, none."""
    order, before = _postorder(blocks, 0)[::-1], _predecessors(blocks)
    dominators = [0] * len(blocks)
    for node in order:
        dominators[node] = (1 << len(blocks)) - 1
    dominators[0], changed = 1, True
    while changed:
        changed = False
        for node in order[1:]:
            bits = dominators[node]
            for other in before[node]:
                if dominators[other]:
                    bits &= dominators[other] | 1 << node
            changed |= bits != dominators[node]
            dominators[node] = bits
    return dominators


def _loops(blocks: list[Block], dominators: list[int]) -> list[Loop]:
    """Return the natural loops: back edges to a dominator, merged by header, outer ones first."""
    before = _predecessors(blocks)
    bodies: dict[int, set[int]] = {}
    sources: dict[int, list[int]] = {}
    for block in blocks:
        for header in block.successors:
            if dominators[block.index] >> header & 1:
                sources.setdefault(header, []).append(block.index)
                body = bodies.setdefault(header, {header})
                stack = [block.index]
                while stack:
                    node = stack.pop()
                    if node not in body:
                        body.add(node)
                        stack += before[node]
    ordered = sorted(bodies, key=lambda h: (-len(bodies[h]), h))
    loops: list[Loop] = []
    for header in ordered:
        around = [n for n, loop in enumerate(loops) if header in loop.blocks and bodies[header] < set(loop.blocks)]
        parent = around[-1] if around else None
        depth = 1 if parent is None else loops[parent].depth + 1
        loops.append(Loop(header, tuple(sorted(bodies[header])), tuple(sources[header]), depth, parent))
    return loops


def back_edges(flow: Flow) -> set[tuple[int, int]]:
    """Return the edges that close a natural loop, as (source, header)."""
    return {(source, loop.header) for loop in flow.loops for source in loop.back_edge_sources}


def run_along(flow: Flow, path: list[int]) -> tuple[list[int], set[int]]:
    """Return the instructions (indices) along a path, and the positions among them of branches that are taken."""
    run: list[int] = []
    taken: set[int] = set()
    for n, b in enumerate(path):
        block = flow.blocks[b]
        run += range(block.first, block.last + 1)
        if n + 1 < len(path) and flow.blocks[path[n + 1]].first != block.last + 1:
            taken.add(len(run) - 1)
    return run, taken


def paths_through(flow: Flow, weights: Sequence[float], loop: Loop | None = None) -> list[list[int]]:
    """Return the shortest and the longest path (blocks) from the entry to an end; once if equal.

    Of a loop they lead from its header to its back edge.
    """
    start, inside = 0, {block.index for block in flow.blocks}
    ends = {block.index for block in flow.blocks if not block.successors}
    if loop is not None:
        start, inside, ends = loop.header, set(loop.blocks), set(loop.back_edge_sources)
    back = back_edges(flow)
    order = _postorder(flow.blocks, start, lambda a, b: b in inside and (a, b) not in back)
    found: list[list[int]] = []
    for sign in (1.0, -1.0):
        best: dict[int, tuple[float, int | None]] = {}
        for node in order:  # from the ends back to the start
            own = sign * weights[node]
            choices: list[tuple[float, int | None]] = [(own, None)] if node in ends else []
            choices += [(best[s][0] + own, s) for s in flow.blocks[node].successors if s in best]
            if choices:
                best[node] = min(choices, key=lambda choice: choice[0])
        path, at = [], start if start in best else None
        while at is not None:
            path.append(at)
            at = best[at][1]
        if path and path not in found:
            found.append(path)
    return found
