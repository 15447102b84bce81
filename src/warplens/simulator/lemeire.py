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

from warplens.core.errors import WarplensError, nearest
from warplens.machine import Machine
from warplens.machine.papers import LemeireOperation
from warplens.program.instruction import Instruction
from warplens.simulator.code import Code, Step, Way
from warplens.workload.graph import in_order

PIPELINES = ("alu", "sfu", "local memory", "global memory")
_PIPELINE = {"cos": 1, "sfu": 1, "local_memory": 2, "local_memory_conflict": 2, "memory": 3}
# Names in the latency tables, the first that a machine has.
OPERATIONS = {
    "fp32": ("fmadd", "fadd"), "int": ("fadd",), "imul": ("fmadd", "fadd"), "sfu": ("cos", "sfu"),
    "shared": ("local_memory",), "load": ("memory",), "store": ("memory",), "barrier": ("barrier",),
    "branch": ("loop",),
}  # fmt: skip

# The same the other way: which class an operation of the paper is.
CLASSES = {
    "fadd": "fp32", "fmadd": "fp32", "cos": "sfu", "local_memory": "shared", "local_memory_conflict": "shared_2way",
    "memory": "load", "loop": "branch",
}  # fmt: skip


class Node(Struct, frozen=True):
    """One operation of a graph: its name in the latency tables, the nodes it needs, whether it is a store.

    Cycles that are given replace those of the tables.
    """

    operation: str
    needs: tuple[int, ...] = ()
    store: bool = False
    issue_cycles: float | None = None
    completion_cycles: float | None = None


def from_graph(
    nodes: Sequence[Node], latencies: Mapping[str, LemeireOperation], warps_per_group: int, name: str = "graph"
) -> Code:
    """Return the code of a graph; every warp of a group runs the same one."""
    order = in_order([x.operation for x in nodes], [x.needs for x in nodes], name)
    place = {node: i for i, node in enumerate(order)}
    steps, streams = [], [_stream(nodes[n].operation) for n in order]
    for n in order:
        x = nodes[n]
        issue, completion = _cycles(x, latencies, name)
        steps.append(
            Step(
                label=x.operation,
                holds=issue,
                stall=issue,
                latency=completion,
                read=issue if x.store else completion,
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
        if x.kind not in OPERATIONS:
            raise WarplensError(f"{name}: {x.text!r} is none of the paper's operations")
        known = OPERATIONS[x.kind]
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


def _cycles(x: Node, latencies: Mapping[str, LemeireOperation], name: str) -> tuple[float, float]:
    """Return the issue and the completion latency of an operation."""
    own = latencies.get(x.operation)
    if own is None and (x.issue_cycles is None or x.completion_cycles is None):
        raise WarplensError(f"{name}: no latencies of {x.operation!r}{nearest(x.operation, latencies)}")
    issue = x.issue_cycles if x.issue_cycles is not None or own is None else own.issue_cycles
    completion = x.completion_cycles if x.completion_cycles is not None or own is None else own.completion_cycles
    if not issue or not completion or min(issue, completion) <= 0:
        raise WarplensError(f"{name}: {x.operation} has a latency of zero; a pipeline needs some time")
    return issue, completion


def _stream(operation: str) -> int:
    return 3 if operation.startswith("matrix") else _PIPELINE.get(operation, 0)
