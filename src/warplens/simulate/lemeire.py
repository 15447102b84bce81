"""Lemeire et al.'s pipeline model: a graph of operations with issue and completion latencies, their Algorithm 1.

A compute unit is four pipelines (ALU, SFU, local memory, global memory). Each takes an operation of its kind whose
predecessors have completed, from any warp in turn, and is busy for the issue latency. Nothing else is limited. On the
engine a warp is one stream per pipeline; the streams wait for one another by the graph's edges. A pipeline takes a
warp's operations in the graph's order. Unlike the paper's event loop, an idle pipeline waits for the next completion
instead of asking every cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from warplens.errors import WarplensError, nearest
from warplens.kernel.instruction import Instruction
from warplens.machine import Machine
from warplens.machine.machine import LemeireOperation
from warplens.simulate.code import Code, Step, Way

PIPELINES = ("alu", "sfu", "local memory", "global memory")
_PIPELINE = {"cos": 1, "sfu": 1, "local_memory": 2, "local_memory_conflict": 2, "memory": 3}
# Names in the latency tables, the first that a machine has.
_OPERATION = {
    "fp32": ("fmadd", "fadd"), "int": ("fadd",), "imul": ("fmadd", "fadd"), "sfu": ("cos", "sfu"),
    "shared": ("local_memory",), "load": ("memory",), "store": ("memory",), "barrier": ("barrier",),
    "branch": ("loop",),
}  # fmt: skip


class Node(Struct, frozen=True):
    """One operation of a graph: its name in the latency tables, the nodes it needs, whether anyone waits for it."""

    operation: str
    needs: tuple[int, ...] = ()
    store: bool = False


def from_graph(
    nodes: Sequence[Node], latencies: Mapping[str, LemeireOperation], warps_per_group: int, name: str = "graph"
) -> Code:
    """Return the code of a graph; every warp of a group runs the same one."""
    order = _sorted(nodes, name)
    place = {node: i for i, node in enumerate(order)}
    steps, streams = [], [_stream(nodes[n].operation) for n in order]
    for n in order:
        x = nodes[n]
        own = latencies.get(x.operation)
        if own is None:
            raise WarplensError(f"{name}: no latencies of {x.operation!r}{nearest(x.operation, latencies)}")
        if own.issue_cycles <= 0 or own.completion_cycles <= 0:
            raise WarplensError(f"{name}: {x.operation} has a latency of zero; a pipeline needs some time")
        steps.append(
            Step(
                label=x.operation,
                holds=own.issue_cycles,
                stall=own.issue_cycles,
                latency=own.completion_cycles,
                read=own.issue_cycles if x.store else own.completion_cycles,
                waits=tuple((place[m], 0.0) for m in x.needs),
                values=(place[n],),
            )
        )
    # The engine walks straight runs: a pipeline's operations, one behind the other.
    ways = []
    for pipeline in range(len(PIPELINES)):
        mine = [i for i, s in enumerate(streams) if s == pipeline]
        ways.append(Way([([(i, i + 1) for i in mine], 1)] if mine else []))
    return Code(name=name, steps=steps, ways=ways, blocks=[[0] * warps_per_group], streams=len(PIPELINES))


def from_listing(code: Sequence[Instruction], machine: Machine, warps_per_group: int, name: str) -> Code:
    """Return the code of a listing: each instruction a node, each register it reads an edge."""
    if not machine.lemeire:
        raise machine.missing("the paper's mode", "lemeire")
    writer: dict[str, int] = {}
    nodes = []
    for i, x in enumerate(code):
        if x.kind not in _OPERATION:
            raise WarplensError(f"{name}: {x.text!r} is none of the paper's operations")
        known = _OPERATION[x.kind]
        operation = next((o for o in known if o in machine.lemeire), known[0])
        needs = tuple(dict.fromkeys(writer[r] for r in x.reads if r in writer))
        nodes.append(Node(operation, needs, x.kind == "store"))
        writer.update((r, i) for r in x.writes)
    return from_graph(nodes, machine.lemeire, warps_per_group, name)


def matrix_multiplication(tile: int, size: int, *, conflict: bool = False) -> list[Node]:
    """Return the paper's matrix multiplication (Listing 1): `size` square, tiles of `tile`, inner loop unrolled.

    Per tile: two global loads into local memory, a barrier, `tile` times two local loads and a multiply-add that needs
    them and the one before, a barrier, the loop's overhead. At the end one store.
    """
    local = "local_memory_conflict" if conflict else "local_memory"
    nodes: list[Node] = []

    def add(operation: str, *needs: int, store: bool = False) -> int:
        nodes.append(Node(operation, tuple(n for n in needs if n >= 0), store))
        return len(nodes) - 1

    loop = total = -1
    for _ in range(size // tile):
        loads = [add(f"matrix_{m}_{tile}x{tile}", loop) for m in "ab"]
        stores = [add("local_memory", load) for load in loads]
        ready = add("barrier", *stores)
        for _ in range(tile):
            a, b = add(local, ready), add(local, ready)
            total = add("fmadd", a, b, total)
        left = add("barrier", total)
        loop = add("loop", left)
    add("memory", total, loop, store=True)
    return nodes


def _stream(operation: str) -> int:
    return 3 if operation.startswith("matrix") else _PIPELINE.get(operation, 0)


def _sorted(nodes: Sequence[Node], name: str) -> list[int]:
    """Return the nodes so that each comes behind those it needs, otherwise in the given order."""
    for i, x in enumerate(nodes):
        if any(not 0 <= n < len(nodes) for n in x.needs):
            raise WarplensError(f"{name}: node {i} ({x.operation}) needs a node that is not there")
    placed: dict[int, None] = {}
    doing: dict[int, None] = {}
    for root in range(len(nodes)):
        stack = [(root, iter(nodes[root].needs))] if root not in placed else []
        if stack:
            doing[root] = None
        while stack:
            node, rest = stack[-1]
            needed = next((n for n in rest if n not in placed), None)
            if needed is None:
                stack.pop()
                doing.pop(node)
                placed[node] = None
            elif needed in doing:
                names = [f"{n} ({nodes[n].operation})" for n in (*list(doing)[list(doing).index(needed) :], needed)]
                raise WarplensError(f"{name}: the graph is a circle: {' needs '.join(names)}")
            else:
                doing[needed] = None
                stack.append((needed, iter(nodes[needed].needs)))
    return list(placed)
