"""Lemeire et al.'s simulator: graphs of operations with issue and completion latencies, their Algorithm 1.

A compute unit is four pipelines (ALU, SFU, local memory, global memory). Each takes an operation of its kind whose
predecessors have completed, from one warp after the other, and is busy for the issue latency. Nothing else is limited.
On the engine a warp is one stream per pipeline; the streams wait for one another by the graph's edges. A pipeline takes
a warp's operations in the graph's order. Unlike the paper's event loop, an idle pipeline waits for the next completion
instead of asking every cycle.

The mode `lemeire-refined` adds two things that the paper leaves for later: a limit on the instructions that a compute
unit issues per cycle, and a memory latency that grows with the traffic. Graphs come from files (`lemeire_graph`),
listings, machine code and counts (`lemeire_code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError, nearest
from warplens.machine import KINDS, Machine
from warplens.machine.papers import LemeireOperation
from warplens.models.published.volkov_contention import loaded_latency
from warplens.papers.lemeire_code import OPERATIONS, Graphs, Node, first_half, from_workload
from warplens.papers.lemeire_graph import Graph, GraphNode, checked, in_order
from warplens.simulator.code import Code, Step, WarpPath, straight
from warplens.simulator.from_workload import of_width, step
from warplens.simulator.overlay import overlay
from warplens.simulator.run import Options
from warplens.simulator.sampling import BUDGET
from warplens.simulator.simulation import Simulation, checked_options, checked_warps, simulated_kernel
from warplens.simulator.units import PIPES, Units, units
from warplens.workload import Workload

Mode = Literal["warplens", "lemeire", "lemeire-refined"]
PIPELINES = ("alu", "sfu", "local memory", "global memory")
_PIPELINE = {"cos": 1, "sfu": 1, "local_memory": 2, "local_memory_conflict": 2, "memory": 3}
_ISSUE = PIPES.index("barrier unit")  # of the engine's pipes one that serves the whole SM: here the issue limit
_RUNS = 6  # at most, for the memory latency under load
_NEAR = 0.01  # of the memory latency: no further is it from that at the traffic which it leads to

# Which class an operation of the paper's tables is.
CLASSES = {
    "fadd": "fp32", "fmadd": "fp32", "cos": "sfu", "local_memory": "shared", "local_memory_conflict": "shared_2way",
    "memory": "load", "loop": "branch",
}  # fmt: skip


def from_nodes(
    nodes: Sequence[Node], latencies: Mapping[str, LemeireOperation], warps_per_group: int, name: str = "graph"
) -> Code:
    """Return the code of a graph; every warp of a group runs the same one."""
    return from_graphs([nodes], [[0] * warps_per_group], latencies, name)


def from_graphs(
    graphs: Sequence[Sequence[Node]],
    blocks: list[list[int]],
    latencies: Mapping[str, LemeireOperation],
    name: str = "graph",
) -> Code:
    """Return the code of some graphs; `blocks` has for each kind of group the graph of each of its warps."""
    steps, streams = list[Step](), list[WarpPath]()
    for nodes in graphs:
        order = in_order([x.operation for x in nodes], [x.needs for x in nodes], name)
        slot = {node: i for i, node in enumerate(order)}
        pipelines: list[list[tuple[int, int]]] = [[] for _ in PIPELINES]
        for n in order:
            x = nodes[n]
            issue, completion = _cycles(x, latencies, name)
            pipelines[_pipeline(x)].append((len(steps), len(steps) + 1))
            steps.append(
                Step(
                    label=x.label or x.operation, line=x.line, issue_cycles=issue, stall=issue, latency=completion,
                    read=issue if x.store else completion, waits=tuple((slot[m], 0.0) for m in x.needs),
                    values=(slot[n],),
                )
            )  # fmt: skip
        # The engine gives every stream of a warp as many slots: their number has to be a multiple of the streams'.
        spare = -len(nodes) % len(PIPELINES)
        steps[-1] = replace(steps[-1], values=(*steps[-1].values, *range(len(nodes), len(nodes) + spare)))
        # The engine walks straight runs: a pipeline's operations, one behind the other.
        streams += [WarpPath([(runs, 1)] if runs else []) for runs in pipelines]
    return Code(name=name, steps=steps, paths=streams, blocks=blocks, streams=len(PIPELINES))


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


def _pipeline(x: Node) -> int:
    if x.pipeline is not None:
        return x.pipeline
    return 3 if x.operation.startswith("matrix") else _PIPELINE.get(x.operation, 0)


def from_graph(graph: Graph, units: Units) -> Code:
    """Return the code of a graph: its nodes in an order in which each finds what it needs, edges with latencies."""
    needs, kinds = graph.needs(), [_class(node, graph.name) for node in graph.nodes]
    order = in_order([node.name or node.operation for node in graph.nodes], needs, graph.name)
    steps = []
    for n in order:
        node = graph.nodes[n]
        base = step(kinds[n], node.label, units, of_width(kinds[n], node.bytes_per_thread))
        waits = tuple((m, _beyond(graph.nodes[m], kinds[m], kinds[n], units.machine)) for m in needs[n])
        issue = node.issue or base.issue_cycles
        values = () if kinds[n] == "store" else (n,)
        steps.append(
            replace(base, waits=waits, values=values, latency=node.latency or base.latency, issue_cycles=issue,
                    stall=max(base.stall, issue))
        )  # fmt: skip
    if not any(node.warps for node in graph.nodes):
        return Code(name=graph.name, steps=steps, paths=[straight(steps)], blocks=[[0] * graph.warps_per_block])
    nodes_of, warps = graph.by_warp()
    runs = [[(i, i + 1) for i, n in enumerate(order) if n in of] for of in nodes_of]
    return Code(name=graph.name, steps=steps, paths=[WarpPath([(each, 1)]) for each in runs], blocks=[warps])


def from_graph_as_lemeire(graph: Graph, machine: Machine) -> Code:
    """Return the code of a graph in the paper's mode: a class stands for the operation of its tables."""
    graphs, (nodes_of, warps), needs = list[list[Node]](), graph.by_warp(), graph.needs()
    for chosen in nodes_of:
        number = {n: i for i, n in enumerate(sorted(chosen))}
        nodes = []
        for n in number:
            node = graph.nodes[n]
            known = (node.operation, *OPERATIONS.get(node.operation, ()))
            operation = next((name for name in known if name in machine.lemeire), known[-1])
            wanted = tuple(number[m] for m in needs[n] if m in number)
            store = node.store or node.operation == "store"
            nodes.append(Node(operation, wanted, store, node.issue, node.latency))
        if not machine.lemeire and any(x.issue_cycles is None or x.completion_cycles is None for x in nodes):
            raise machine.missing("the paper's mode", "lemeire")
        graphs.append(nodes)
    return from_graphs(graphs, [warps], machine.lemeire, graph.name)


def _class(node: GraphNode, graph: str) -> str:
    kind = CLASSES.get(node.operation, node.operation)
    if kind not in KINDS:
        raise WarplensError(f"{graph}: no operation {node.operation!r}{nearest(node.operation, [*KINDS, *CLASSES])}")
    return "store" if node.store else kind


def _beyond(producer: GraphNode, kind: str, consumer: str, machine: Machine) -> float:
    """Return what a consumer of this class waits longer than others for the result."""
    try:
        return 0.0 if producer.latency else machine.latency_cycles(kind, consumer) - machine.latency_cycles(kind)
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
    """Simulate a graph in any mode, or a workload in one of the paper's modes."""
    machine, workload = overlay(machine, work if isinstance(work, Workload) else None, changes or {})
    checked_warps(machine, warps_per_sm)
    options = checked_options(options or Options())
    if mode != "warplens":
        if options.policy not in (None, "round-robin"):
            raise WarplensError(f"the paper's mode takes warps in turn (round-robin): no policy {options.policy!r}")
        options = replace(options, policy="round-robin")
    if isinstance(work, Graph):
        found = _graph(checked(work), machine, warps_per_sm, mode, options)
    elif mode != "warplens" and workload is not None:
        found = _workload(workload, machine, warps_per_sm, mode, options)
    else:
        raise WarplensError("mode warplens takes a graph here; `warplens.simulate` takes workloads")
    return replace(found, changes=dict(changes or {}))


def _graph(graph: Graph, machine: Machine, warps: float | None, mode: Mode, options: Options) -> Simulation:
    engine = units(machine)
    code = from_graph(graph, engine) if mode == "warplens" else from_graph_as_lemeire(graph, machine)
    if mode == "lemeire-refined":
        code, engine = _issued(code), _with_issue_limit(engine)
    most = int((warps or machine.sm.warps_max) // graph.warps_per_block)
    if most < 1:
        raise WarplensError(f"{graph.name}: a block of {graph.warps_per_block} warps does not fit on an SM")
    fits = most if warps else graph.blocks_per_sm or min(most, int(machine.sm.blocks_max or most))
    options = replace(options, strict_barriers=True)
    return simulated_kernel(code, engine, options, fits, graph.grid, mode)


def _workload(workload: Workload, machine: Machine, warps: float | None, mode: Mode, options: Options) -> Simulation:
    """Simulate a workload; refined, with the memory latency at the traffic that it makes, found by a few runs."""
    if not machine.lemeire:
        raise machine.missing("the paper's mode", "lemeire")

    def timed(memory: float | None = None) -> Simulation:
        tables = dict(machine.lemeire)
        if memory is not None:
            tables["memory"] = replace(tables["memory"], completion_cycles=memory)
        return _timed(from_workload(workload, machine, tables, warps), machine, mode, options)

    found, curve = timed(), machine.contention
    if mode == "lemeire" or not found.dram_bytes_per_second:
        return found
    if curve is None:
        missing = f"{machine.id} has no [contention]: the latency of memory does not grow with its traffic"
        return replace(found, notes=[*found.notes, missing])
    unloaded = memory = machine.lemeire["memory"].completion_cycles
    below, above = unloaded, float("inf")  # latencies less and more than their traffic leads to
    runs = list[tuple[float, Simulation]]()
    for _ in range(_RUNS):
        traffic = min(found.dram_bytes_per_second, 0.98 * curve.c_bytes_per_second)
        loaded = float(loaded_latency(curve, traffic, unloaded))
        runs.append((abs(loaded / memory - 1), found))
        if runs[-1][0] <= _NEAR:
            break
        below, above = (max(below, memory), above) if loaded > memory else (below, min(above, memory))
        memory = loaded if above == float("inf") else (below + above) / 2
        found = timed(memory)
    return min(runs, key=lambda one: one[0])[1]


def _timed(graphs: Graphs, machine: Machine, mode: Mode, options: Options) -> Simulation:
    """Simulate the groups of a kernel, or a steady state by the difference of two lengths."""
    engine, sms = units(machine), int(machine.chip.sm_count)
    if mode == "lemeire-refined":
        engine = _with_issue_limit(engine)

    def run(groups: int, *, full: bool, of: Graphs = graphs) -> Simulation:
        code = from_graphs(of.nodes, of.blocks, machine.lemeire, of.name)
        code = _issued(code) if mode == "lemeire-refined" else code
        return simulated_kernel(
            code, engine, replace(options, full=full), of.at_once, min(groups * sms, of.groups), mode
        )

    on_sm, at_once, warps = -(-graphs.groups // sms), graphs.at_once, len(graphs.blocks[0])
    moved = [sum(graphs.dram_bytes[graph] for graph in block) for block in graphs.blocks if graphs.dram_bytes] or [0.0]
    if graphs.bodies:
        found = run(1, full=True)
        cycles = (found.cycles - run(1, full=True, of=first_half(graphs)).cycles) / (graphs.bodies / 2 * warps)
        found = replace(found, per="body and SM")
        bytes_moved = graphs.dram_bytes[0] / graphs.bodies * sms
    else:
        size = sum(len(graphs.nodes[graph]) for graph in graphs.blocks[0]) * min(at_once, on_sm)
        few = on_sm % at_once + at_once
        if size <= BUDGET / 3 or options.full or on_sm <= few + at_once:
            found = run(on_sm, full=options.full or size > BUDGET / 3)
            cycles = found.cycles
        else:  # a round is too long for many of them: two numbers of rounds, and the line through both
            first, found = run(few, full=True), run(few + at_once, full=True)
            cycles = first.cycles + (found.cycles - first.cycles) * (on_sm - few) / at_once
            note = f"groups extrapolated: {few + at_once} of {on_sm} were simulated"
            found = replace(found, notes=[*found.notes, note])
        bytes_moved = sum(moved) / len(moved) * graphs.groups
    seconds = cycles / machine.chip.clock_hz
    return replace(found, cycles=cycles, seconds=seconds, dram_bytes_per_second=bytes_moved / seconds)


def _with_issue_limit(engine: Units) -> Units:
    """Return the engine's units with a pipe that takes as many instructions per cycle as the SM issues."""
    pipes = engine.pipes.copy()
    pipes.interval[_ISSUE], pipes.places[_ISSUE], pipes.shared[_ISSUE] = 1.0 / engine.machine.issue_ipc(), 0, True
    return replace(engine, pipes=pipes)


def _issued(code: Code) -> Code:
    """Return the code with every operation in the pipe of the issue limit."""
    return replace(code, steps=[replace(x, pipe=_ISSUE) for x in code.steps])
