"""A hand-written graph as code: for `warplens` one instruction behind the other, for the paper's mode its pipelines."""

from __future__ import annotations

from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError, nearest
from warplens.machine import KINDS, Machine
from warplens.simulator.code import Code, straight
from warplens.simulator.from_workload import alike, step
from warplens.simulator.lemeire import CLASSES, OPERATIONS, Node
from warplens.simulator.lemeire import from_graph as from_nodes
from warplens.simulator.units import Units
from warplens.workload.graph import Graph, GraphNode, in_order


def from_graph(graph: Graph, units: Units) -> Code:
    """Return the code of a graph: its nodes in an order in which each finds what it needs, edges with latencies."""
    needs, kinds = graph.needs(), [_class(node, graph.name) for node in graph.nodes]
    order = in_order([node.name or node.operation for node in graph.nodes], needs, graph.name)
    steps = []
    for n in order:
        node = graph.nodes[n]
        base = step(kinds[n], _label(node), units, alike(kinds[n], node.bytes_per_thread))
        waits = tuple((m, _beyond(graph.nodes[m], kinds[m], kinds[n], units.machine)) for m in needs[n])
        holds = node.issue or base.holds
        made = () if kinds[n] == "store" else (n,)
        steps.append(
            replace(base, waits=waits, values=made, latency=node.latency or base.latency, holds=holds,
                    stall=max(base.stall, holds))
        )  # fmt: skip
    return Code(name=graph.name, steps=steps, ways=[straight(steps)], blocks=[[0] * graph.warps_per_block])


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
