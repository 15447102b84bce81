"""Hand-written graphs of one warp's operations and their dependences (`docs/reference/graph-file.md`).

grid  = 14               # blocks (the paper's groups)
block = 64               # threads of a block
[[node]]
name = "x"
operation = "load"       # a class of the machine files, or an operation of Lemeire et al.'s tables
[[node]]
operation = "fp32"
needs = ["x"]
warps = [0, 1]           # first and last warp of the block whose graph has it; default: all
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from warplens.core import file_kinds as kinds
from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import convert, read_toml
from warplens.workload.workload import WARP

_Cycles = Annotated[float, Meta(gt=0, le=1e6)]
_Count = Annotated[int, Meta(ge=1, le=2**31)]
MOST_NODES = 20_000


class GraphNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation. `latency` (cycles until its result is there) and `issue` replace the machine's own.

    `store`: nobody waits for it; it goes to memory. `bytes_per_thread`: the width of an access. `warps`: the first and
    the last warp of a block that do it, so that warps have different graphs; what needs it in others goes without it.
    """

    operation: str
    name: str = ""
    needs: list[str] = []
    latency: _Cycles | None = None
    issue: _Cycles | None = None
    store: bool = False
    bytes_per_thread: Annotated[int, Meta(ge=1, le=16)] = 4
    warps: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The name and the operation."""
        return f"{self.name}: {self.operation}" if self.name else self.operation


class Graph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph that every warp runs once, or its part of it, and how many warps do."""

    grid: _Count
    block: Annotated[int, Meta(ge=1, le=1024)]
    nodes: list[GraphNode] = field(name="node")
    name: str = "graph"
    format: int = 1
    blocks_per_sm: Annotated[int, Meta(ge=1, le=1024)] | None = None

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return -(-self.block // WARP)

    def by_warp(self) -> tuple[list[set[int]], list[int]]:
        """Return the different sets of nodes that warps have, and for each warp of a block which of them is its own."""
        known: dict[frozenset[int], int] = {}
        warps = []
        for warp in range(self.warps_per_block):
            nodes = frozenset(i for i, x in enumerate(self.nodes) if not x.warps or x.warps[0] <= warp <= x.warps[1])
            warps.append(known.setdefault(nodes, len(known)))
        return [set(nodes) for nodes in known], warps

    def needs(self) -> list[tuple[int, ...]]:
        """Return for each node the numbers of those it needs; a name that is not there or there twice is refused."""
        numbers: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            if node.name in numbers:
                raise WarplensError(f"{self.name}: two nodes are named {node.name!r}")
            if node.name:
                numbers[node.name] = i
        for node in self.nodes:
            for wanted in node.needs:
                if wanted not in numbers:
                    raise WarplensError(
                        f"{self.name}: {node.name or node.operation!r} needs {wanted!r}, which no node is named"
                        f"{nearest(wanted, numbers)}"
                    )
        return [tuple(numbers[wanted] for wanted in node.needs) for node in self.nodes]


def load_graph(path: str | Path) -> Graph:
    """Load a graph from a TOML file; what is wrong with it is said in one line."""
    graph = _checked(kinds.read(Path(path), "graph"), str(path))
    in_order([node.name or node.operation for node in graph.nodes], graph.needs(), graph.name)
    return graph


def checked(graph: Graph) -> Graph:
    """Return a graph that was built in Python; what a file may not say is refused as there."""
    try:
        tree = msgspec.to_builtins(graph)
    except TypeError as error:
        raise WarplensError(f"a graph is made of text and numbers: {error}") from None
    return _checked(tree, graph.name)


def _checked(tree: Any, file: str) -> Graph:
    graph = convert(tree, Graph, file)
    if graph.format != 1:
        raise FileError(f"{file}: format {graph.format} is not known, only 1")
    if not 1 <= len(graph.nodes) <= MOST_NODES:
        raise FileError(f"{file}: node: 1 to {MOST_NODES:,} of them, not {len(graph.nodes):,}")
    for i, node in enumerate(graph.nodes):
        if node.bytes_per_thread not in (1, 2, 4, 8, 16):
            raise FileError(f"{file}: node.{i}.bytes_per_thread: 1, 2, 4, 8 or 16, not {node.bytes_per_thread}")
        first, last = node.warps or (0, 0)
        if not 0 <= first <= last < graph.warps_per_block:
            raise FileError(
                f"{file}: node.{i}.warps: the first and the last warp, 0 to {graph.warps_per_block - 1}, "
                f"not {node.warps}"
            )
    if not all(graph.by_warp()[0]):
        raise FileError(f"{file}: a warp of the block has no node: give one without `warps`")
    return graph


def is_graph(path: str | Path) -> bool:
    """Return whether a file is a graph: TOML with nodes."""
    return Path(path).suffix == ".toml" and Path(path).is_file() and "node" in read_toml(Path(path))


def in_order(names: Sequence[str], needs: Sequence[tuple[int, ...]], graph: str) -> list[int]:
    """Return the nodes so that each comes behind those it needs, else in the order of the file; refuse a circle."""
    for i, wanted in enumerate(needs):
        if any(not 0 <= n < len(needs) for n in wanted):
            raise WarplensError(f"{graph}: node {i} ({names[i]}) needs a node that is not there")
    ordered: dict[int, None] = {}
    doing: dict[int, None] = {}
    for root in range(len(needs)):
        stack: list[tuple[int, Any]] = [(root, iter(needs[root]))] if root not in ordered else []
        if stack:
            doing[root] = None
        while stack:
            node, rest = stack[-1]
            needed = next((n for n in rest if n not in ordered), None)
            if needed is None:
                stack.pop()
                doing.pop(node)
                ordered[node] = None
            elif needed in doing:
                circle = [*list(doing)[list(doing).index(needed) :], needed]
                shown = " needs ".join(f"{n} ({names[n]})" for n in circle)
                raise WarplensError(f"{graph}: the graph is a circle: {shown}")
            else:
                doing[needed] = None
                stack.append((needed, iter(needs[needed])))
    return list(ordered)
