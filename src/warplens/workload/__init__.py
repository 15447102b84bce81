"""A launch and what it does: launch files, counts by instruction, and the workload that every model takes."""

from warplens.workload.graph import Graph, is_graph, load_graph
from warplens.workload.loader import list_workloads, load_workload, parse_workload
from warplens.workload.workload import Access, Launch, Link, Number, Workload, mix

__all__ = [
    "Access", "Graph", "Launch", "Link", "Number", "Workload", "is_graph", "list_workloads", "load_graph",
    "load_workload", "mix", "parse_workload",
]  # fmt: skip
