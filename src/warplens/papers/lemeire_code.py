"""Instruction dependence graphs of workloads: of a listing, of machine code with its profile, of counts and mixes.

The paper draws its graphs by hand and names a compiler's as further work. Here control is resolved as it says: loops
are unrolled along the path of a warp, branches that no thread takes are gone, and warps of different paths have
different graphs. Edges are registers; a branch is needed by all that is behind it, a barrier needs the accesses to
local memory since the one before, and the accesses behind it need the barrier.

The tables' latencies are those of the operations they name. An access to global memory has them as far as it misses
both caches, local memory once for each pass of a bank conflict, and what no table names has the rate and the latency of
the machine file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.machine.papers import LemeireOperation
from warplens.models.bounds import residency
from warplens.models.published.lemeire import latencies as closed_form_latencies
from warplens.program.decoding import parse_listing
from warplens.program.instruction import Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import Step, WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import from_workload as code_of_counts
from warplens.simulator.units import PIPES, Units, units
from warplens.workload import Workload

MOST_NODES = 100_000  # of all graphs of a workload
STEADY_NODES = 2_000  # of the graph of a steady state, which is simulated whole and to its half
STEADY_BODIES = 8
# Names in the latency tables, the first that a machine has.
OPERATIONS = {
    "fp32": ("fmadd", "fadd"), "int": ("fadd",), "imul": ("fmadd", "fadd"), "sfu": ("cos", "sfu"),
    "shared": ("local_memory",), "load": ("memory",), "store": ("memory",), "barrier": ("barrier",),
    "branch": ("loop",),
}  # fmt: skip
_BY_TABLE = ("fp32", "int", "imul", "sfu", "barrier")
_ALU, _SFU, _LOCAL, _GLOBAL = range(4)


class Node(Struct, frozen=True):
    """One operation of a graph: its name in the latency tables, the nodes it needs, whether it is a store.

    Cycles that are given replace those of the tables, a pipeline that of the operation.
    """

    operation: str
    needs: tuple[int, ...] = ()
    store: bool = False
    issue_cycles: float | None = None
    completion_cycles: float | None = None
    pipeline: int | None = None
    label: str = ""
    line: int | None = None


class Graphs(Struct, frozen=True):
    """The graphs of a workload, the graph of each warp of each kind of group, and how many groups run.

    `bodies` is 0 for a kernel; in a steady state the one graph is so many repetitions of a body, of which the first
    half of the nodes is the first half. `dram_bytes` are those of each graph.
    """

    name: str
    nodes: list[list[Node]]
    blocks: list[list[int]]
    groups: int
    at_once: int
    bodies: float = 0.0
    dram_bytes: list[float] = []


class _Cost(Struct, frozen=True):
    """An instruction as an operation: name, pipeline, issue and completion latency, bytes of DRAM per execution."""

    operation: str
    pipeline: int
    issue: float
    completion: float
    dram_bytes: float = 0.0


def from_workload(
    workload: Workload, machine: Machine, latencies: Mapping[str, LemeireOperation], warps: float | None = None
) -> Graphs:
    """Return the graphs of a workload: of its listing, of its machine code, else of its counts."""
    if workload.warps:
        return _of_listings(workload, machine, warps)
    engine = units(machine)
    if workload.code and workload.profile is not None:
        return _of_code(workload, machine, latencies, engine, warps)
    return _of_counts(workload, machine, latencies, engine, warps)


def _of_listings(workload: Workload, machine: Machine, warps: float | None) -> Graphs:
    """Return a graph for each listing: each instruction a node, each register it reads an edge."""
    graphs, times = [], max(1, round(float(workload.iterations)))
    for one in workload.warps:
        body = parse_listing(one.listing, workload.name)
        _check_length(workload.name, len(body) * times)
        graphs.append(list(_listed(body * times, machine, workload.name)))
    launch, count = workload.launch, len(graphs)
    if launch is None:
        return Graphs(workload.name, graphs, [[0]], 1, 1)
    blocks = [[w % count for w in range(int(launch.warps_per_block))]]
    return Graphs(workload.name, graphs, blocks, int(launch.blocks), _at_once(workload, machine, warps))


def _listed(code: Sequence[Instruction], machine: Machine, name: str) -> Iterator[Node]:
    writer: dict[str, int] = {}
    for i, x in enumerate(code):
        if x.kind not in OPERATIONS:
            raise WarplensError(f"{name}: {x.text!r} is none of the paper's operations")
        known = OPERATIONS[x.kind]
        operation = next((o for o in known if o in machine.lemeire), known[0])
        needs = tuple(dict.fromkeys(writer[r] for r in x.reads if r in writer))
        writer.update((r, i) for r in x.writes)
        yield Node(operation, needs, x.kind == "store")


def _of_code(
    workload: Workload,
    machine: Machine,
    latencies: Mapping[str, LemeireOperation],
    engine: Units,
    warps: float | None,
) -> Graphs:
    """Return a graph for each path that warps take through machine code."""
    assert workload.launch is not None
    profile, instructions = workload.profile, workload.code
    code = from_program(instructions, engine, profile, name=workload.name)
    costs = [_cost(x.kind, step, machine, latencies, engine) for x, step in zip(instructions, code.steps, strict=True)]
    used = sorted({path for block in code.blocks for path in block})
    _check_length(workload.name, sum(code.paths[path].instructions for path in used))
    graphs = [list(_along(_walk(code.paths[path]), instructions, costs)) for path in used]
    moved = [sum(costs[i].dram_bytes for i in _walk(code.paths[path])) for path in used]
    number = {path: k for k, path in enumerate(used)}
    blocks = [[number[path] for path in block] for block in code.blocks]
    groups, at_once = int(workload.launch.blocks), _at_once(workload, machine, warps)
    return Graphs(workload.name, graphs, blocks, groups, at_once, dram_bytes=moved)


def _walk(path: WarpPath) -> Iterator[int]:
    for runs, times in path.segments:
        for _ in range(times):
            for first, stop in runs:
                yield from range(first, stop)


def _along(path: Iterable[int], instructions: Sequence[Instruction], costs: Sequence[_Cost]) -> Iterator[Node]:
    """Yield the nodes along a warp's path: edges are registers, branches and barriers."""
    writer: dict[str, int] = {}
    branch = barrier = -1
    accesses: list[int] = []  # to local memory, since the last barrier
    for n, i in enumerate(path):
        x, cost = instructions[i], costs[i]
        needs = [writer[r] for r in x.reads if r in writer]
        needs += [branch] if branch >= 0 else []
        if x.kind == "barrier":
            needs += accesses
            barrier, accesses = n, []
        elif barrier >= 0 and cost.pipeline in (_LOCAL, _GLOBAL):
            needs.append(barrier)
        if cost.pipeline == _LOCAL:
            accesses.append(n)
        if x.kind == "branch":
            branch = n
        writer.update((r, n) for r in x.writes)
        yield _node(cost, needs, store=x.kind == "store", label=x.text, line=x.line)


def _of_counts(
    workload: Workload,
    machine: Machine,
    latencies: Mapping[str, LemeireOperation],
    engine: Units,
    warps: float | None,
) -> Graphs:
    """Return the graph of the chain that the simulator makes of counts; of a steady state several turns of its loop."""
    code = code_of_counts(workload, engine, warps if workload.launch is None else None)
    path, bodies = code.paths[0], 0.0
    steps = code.steps
    if code.steady:
        loop = list(path.segments[-1][0])
        size = sum(stop - first for first, stop in loop)
        repeats = 2 * max(STEADY_BODIES, -(-STEADY_NODES // (2 * size)))
        path, bodies = WarpPath([(loop, repeats)]), repeats * code.bodies
    _check_length(workload.name, path.instructions)
    costs = [_cost(step.label, step, machine, latencies, engine) for step in steps]
    nodes, writer, branch = list[Node](), dict[int, int](), -1
    for n, i in enumerate(_walk(path)):
        needs = [writer[slot] for slot, _ in steps[i].waits if slot in writer]
        needs += [branch] if branch >= 0 else []
        branch = n if steps[i].label == "branch" else branch
        writer.update((slot, n) for slot in steps[i].values)
        nodes.append(_node(costs[i], needs, store=steps[i].label == "store", label=steps[i].label))
    moved = [sum(costs[i].dram_bytes for i in _walk(path))]
    if workload.launch is None:
        return Graphs(workload.name, [nodes], [[0] * len(code.blocks[0])], 1, 1, bodies, moved)
    groups, at_once = int(workload.launch.blocks), _at_once(workload, machine, warps)
    return Graphs(workload.name, [nodes], [[0] * code.warps_per_block], groups, at_once, dram_bytes=moved)


def _node(cost: _Cost, needs: Sequence[int], *, store: bool, label: str, line: int | None = None) -> Node:
    edges = tuple(dict.fromkeys(needs))
    return Node(cost.operation, edges, store, cost.issue, cost.completion, cost.pipeline, label, line)


def _cost(kind: str, step: Step, machine: Machine, latencies: Mapping[str, LemeireOperation], engine: Units) -> _Cost:
    """Return an instruction class as an operation; the simulator's step says what its accesses ask for."""
    if step.kind in (at.LOAD, at.STORE) and "memory" in latencies:
        return _global_access(step, machine, latencies["memory"], engine)
    if KINDS[kind] == "shared memory" and "local_memory" in latencies:
        table = latencies["local_memory"]
        more = (max(1.0, step.passes) - 1.0) * table.issue_cycles  # each pass of a conflict is one more issue
        return _Cost("local_memory", _LOCAL, table.issue_cycles + more, table.completion_cycles + more)
    if kind in _BY_TABLE:
        operation = next((o for o in OPERATIONS[kind] if o in latencies), kind)
        return _Cost(operation, _SFU if kind == "sfu" else _ALU, *closed_form_latencies(kind, machine))
    every = 1.0 / machine.issue_ipc()
    if step.pipe >= 0:
        pipe = engine.pipes[step.pipe]
        every = max(every, float(pipe.interval) * step.passes / (1.0 if pipe.shared else machine.sm.schedulers))
    pipeline = {"sfu units": _SFU, "shuffle": _LOCAL}.get(KINDS[kind], _ALU)
    return _Cost(kind, pipeline, every, max(every, step.latency or step.stall))


def _global_access(step: Step, machine: Machine, table: LemeireOperation, engine: Units) -> _Cost:
    """Return an access to global memory: its passes through L1, its bytes of L2, and of DRAM what misses both."""
    missed = 1.0 - step.l1_hit
    far = missed * (1.0 - step.l2_hit)
    l1, l2 = machine.cache.l1_latency_cycles, machine.cache.l2_latency_cycles
    for name, cycles, share in (("l1", l1, step.l1_hit), ("l2", l2, missed * step.l2_hit)):
        if cycles is None and share:
            raise machine.missing("the paper's mode", f"cache.{name}_latency_cycles")
    dram_bytes = far * step.dram_bytes
    passes = step.passes * float(engine.pipes.interval[PIPES.index("memory system")])
    issue = max(passes, missed * step.l2_cycles, dram_bytes / 128.0 * table.issue_cycles, 1.0 / machine.issue_ipc())
    completion = step.l1_hit * (l1 or 0.0) + missed * step.l2_hit * (l2 or 0.0) + far * table.completion_cycles
    return _Cost("memory", _GLOBAL, issue, max(issue, completion), dram_bytes)


def _at_once(workload: Workload, machine: Machine, warps: float | None) -> int:
    return max(1, int(float(residency(workload, machine, warps).blocks_per_sm)))


def _check_length(name: str, nodes: int) -> None:
    if nodes > MOST_NODES:
        raise WarplensError(
            f"{name}: in the paper's mode loops are unrolled: {nodes:,} instructions on the paths of its warps are "
            f"more than {MOST_NODES:,}; give it less work, or --mode warplens"
        )


def first_half(graphs: Graphs) -> Graphs:
    """Return a steady state's graph with half of its bodies."""
    [nodes], half = graphs.nodes, len(graphs.nodes[0]) // 2
    return Graphs(graphs.name, [list(islice(nodes, half))], graphs.blocks, 1, 1, graphs.bodies / 2)
