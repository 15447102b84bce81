"""Ways through the code: which blocks one warp runs through once, from a start to an end.

Without a profile nobody knows which way a branch goes. We take the shortest and the longest way, weighing each
block by what a lone warp spends in it; loops inside are run through once.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens.program.control_flow import Flow, Loop, back_edges
from warplens.program.instruction import Instruction


def ways_through_loop(flow: Flow, loop: Loop, weights: Sequence[float]) -> list[list[int]]:
    """Return the shortest and the longest way (blocks) from a loop's header to its back edge; once if equal."""
    return _ways(flow, loop.header, set(loop.latches), set(loop.blocks), weights)


def ways_through_program(flow: Flow, weights: Sequence[float]) -> list[list[int]]:
    """Return the shortest and the longest way from the entry to an end; once if equal."""
    inside = {b.index for b in flow.blocks}
    ends = {b.index for b in flow.blocks if not b.successors}
    return _ways(flow, 0, ends, inside, weights)


def run_along(flow: Flow, code: list[Instruction], way: list[int]) -> tuple[list[int], set[int]]:
    """Return the instructions (indices) along a way, and which positions of them are branches taken in between."""
    run: list[int] = []
    taken: set[int] = set()
    for n, b in enumerate(way):
        block = flow.blocks[b]
        run += range(block.first, block.last + 1)
        if n + 1 < len(way) and flow.blocks[way[n + 1]].first != block.last + 1:
            taken.add(len(run) - 1)
    return run, taken


def _ways(flow: Flow, start: int, ends: set[int], inside: set[int], weights: Sequence[float]) -> list[list[int]]:
    order = _order(flow, start, inside)
    found: list[list[int]] = []
    for sign in (1.0, -1.0):
        best: dict[int, tuple[float, int | None]] = {}
        for node in order:  # from the ends back to the start
            own = sign * weights[node]
            choices: list[tuple[float, int | None]] = [(own, None)] if node in ends else []
            choices += [(best[s][0] + own, s) for s in flow.blocks[node].successors if s in best]
            if choices:
                best[node] = min(choices, key=lambda choice: choice[0])
        way, at = [], start if start in best else None
        while at is not None:
            way.append(at)
            at = best[at][1]
        if way and way not in found:
            found.append(way)
    return found


def _order(flow: Flow, start: int, inside: set[int]) -> list[int]:
    """Return the blocks reached from a start without back edges, successors first (a depth-first postorder)."""
    back = back_edges(flow)
    order: list[int] = []
    seen = {start}
    stack = [(start, iter(flow.blocks[start].successors))]
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child in inside and child not in seen and (node, child) not in back:
                seen.add(child)
                stack.append((child, iter(flow.blocks[child].successors)))
                break
        else:
            order.append(node)
            stack.pop()
    return order
