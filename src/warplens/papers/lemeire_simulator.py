"""Lemeire et al.'s simulator: a graph of operations with issue and completion latencies, their Algorithm 1.

A compute unit is four pipelines (ALU, SFU, local memory, global memory). Each takes an operation of its kind whose
predecessors have completed, from any warp in turn, and is busy for the issue latency. Nothing else is limited. On the
engine a warp is one stream per pipeline; the streams wait for one another by the graph's edges. A pipeline takes a
warp's operations in the graph's order. Unlike the paper's event loop, an idle pipeline waits for the next completion
instead of asking every cycle. `simulate` takes hand-written graphs too, in this mode and in our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError, nearest
from warplens.machine import KINDS, Machine
from warplens.machine.papers import LemeireOperation
from warplens.papers.lemeire_graph import Graph, GraphNode, checked, in_order
from warplens.program.instruction import Instruction
from warplens.program.listing import parse_listing
from warplens.simulator.code import Code, Step, WarpPath, straight
from warplens.simulator.from_workload import of_width, step
from warplens.simulator.overlay import overlay
from warplens.simulator.run import Options
from warplens.simulator.simulation import Simulation, checked_options, checked_warps, simulated_kernel
from warplens.simulator.units import Units, units
from warplens.workload import Workload

Mode = Literal["warplens", "lemeire"]
MOST_NODES = 100_000  # of a graph of the paper's mode
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


def from_nodes(
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
                issue_cycles=issue,
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
        ways.append(WarpPath([([(i, i + 1) for i in mine], 1)] if mine else []))
    return Code(name=name, steps=steps, paths=ways, blocks=[[0] * warps_per_group], streams=len(PIPELINES))


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
    return from_nodes(nodes, machine.lemeire, warps_per_group, name)


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


def from_graph(graph: Graph, units: Units) -> Code:
    """Return the code of a graph: its nodes in an order in which each finds what it needs, edges with latencies."""
    needs, kinds = graph.needs(), [_class(node, graph.name) for node in graph.nodes]
    order = in_order([node.name or node.operation for node in graph.nodes], needs, graph.name)
    steps = []
    for n in order:
        node = graph.nodes[n]
        base = step(kinds[n], _label(node), units, of_width(kinds[n], node.bytes_per_thread))
        waits = tuple((m, _beyond(graph.nodes[m], kinds[m], kinds[n], units.machine)) for m in needs[n])
        issue = node.issue or base.issue_cycles
        made = () if kinds[n] == "store" else (n,)
        steps.append(
            replace(base, waits=waits, values=made, latency=node.latency or base.latency, issue_cycles=issue,
                    stall=max(base.stall, issue))
        )  # fmt: skip
    return Code(name=graph.name, steps=steps, paths=[straight(steps)], blocks=[[0] * graph.warps_per_block])


def from_graph_as_lemeire(graph: Graph, machine: Machine) -> Code:
    """Return the code of a graph in the paper's mode: a class stands for the operation of its tables."""
    nodes = []
    for node, wanted in zip(graph.nodes, graph.needs(), strict=True):
        known = (node.operation, *OPERATIONS.get(node.operation, ()))
        operation = next((name for name in known if name in machine.lemeire), known[-1])
        store = node.store or node.operation == "store"
        nodes.append(Node(operation, wanted, store, node.issue, node.latency))
    if not machine.lemeire and any(node.issue_cycles is None or node.completion_cycles is None for node in nodes):
        raise machine.missing("the paper's mode", "lemeire")
    return from_nodes(nodes, machine.lemeire, graph.warps_per_block, graph.name)


def _label(node: GraphNode) -> str:
    return f"{node.name}: {node.operation}" if node.name else node.operation


def _class(node: GraphNode, graph: str) -> str:
    kind = CLASSES.get(node.operation, node.operation)
    if kind not in KINDS:
        raise WarplensError(f"{graph}: no operation {node.operation!r}{nearest(node.operation, [*KINDS, *CLASSES])}")
    return "store" if node.store else kind


def _beyond(made: GraphNode, kind: str, consumer: str, machine: Machine) -> float:
    """Return what a consumer of this class waits longer than others for the result."""
    try:
        return 0.0 if made.latency else machine.latency_cycles(kind, consumer) - machine.latency_cycles(kind)
    except MissingField:
        return 0.0


def simulate(
    work: Workload | Graph,
    machine: Machine,
    *,
    mode: Mode = "warplens",
    warps_per_sm: float | None = None,
    changes: Mapping[str, float] | None = None,
    options: Options | None = None,
) -> Simulation:
    """Simulate a graph in either mode, or a workload with a listing in the paper's mode."""
    machine, workload = overlay(machine, work if isinstance(work, Workload) else None, changes or {})
    checked_warps(machine, warps_per_sm)
    options = checked_options(options or Options())
    if mode == "lemeire":
        options = _in_turn(options)
    if isinstance(work, Graph):
        made = _graph(checked(work), machine, warps_per_sm, mode, options)
    elif mode == "lemeire" and workload is not None:
        made = _paper(workload, machine, warps_per_sm, options)
    else:
        raise WarplensError("the paper's mode takes a workload with a listing")
    return replace(made, changes=dict(changes or {}))


def _in_turn(options: Options) -> Options:
    """Return the options with the paper's policy: warps in turn and nothing else."""
    if options.policy not in (None, "round-robin"):
        raise WarplensError(f"the paper's mode takes warps in turn (round-robin): no policy {options.policy!r}")
    return replace(options, policy="round-robin")


def _paper(workload: Workload, machine: Machine, warps: float | None, options: Options) -> Simulation:
    if not workload.warps:
        raise WarplensError(f"{workload.name}: the paper's mode takes a workload with a listing")
    launch = workload.launch
    if len(workload.warps) > 1:
        raise WarplensError(
            f"{workload.name}: in the paper's mode all warps run one graph: no {len(workload.warps)} listings"
        )
    body, turns = parse_listing(workload.warps[0].listing, workload.name), max(1, round(float(workload.iterations)))
    if len(body) * turns > MOST_NODES:
        raise WarplensError(
            f"{workload.name}: in the paper's mode loops are unrolled: {turns:,} turns of {len(body):,} instructions "
            f"are more than {MOST_NODES:,}"
        )
    code = body * turns
    per_group = 1 if launch is None else int(launch.warps_per_block)
    made = from_listing(code, machine, per_group, workload.name)
    groups = 1 if launch is None else int(launch.blocks)
    fits = 1 if launch is None else max(1, int((warps or machine.sm.warps_max) // per_group))
    return simulated_kernel(made, units(machine), options, fits, groups, "lemeire")


def _graph(graph: Graph, machine: Machine, warps: float | None, mode: Mode, options: Options) -> Simulation:
    made = units(machine)
    code = from_graph_as_lemeire(graph, machine) if mode == "lemeire" else from_graph(graph, made)
    most = int((warps or machine.sm.warps_max) // graph.warps_per_block)
    if most < 1:
        raise WarplensError(f"{graph.name}: a block of {graph.warps_per_block} warps does not fit on an SM")
    fits = most if warps else graph.blocks_per_sm or min(most, int(machine.sm.blocks_max or most))
    options = replace(options, strict_barriers=True)
    return simulated_kernel(code, made, options, fits, graph.grid, mode)
