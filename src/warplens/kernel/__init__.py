"""What a kernel is: listings, dependences, launch, workload."""

from warplens.kernel.graph import Graph, is_graph, load_graph
from warplens.kernel.instruction import Instruction
from warplens.kernel.listing import parse_listing
from warplens.kernel.loader import list_workloads, load_workload, parse_workload
from warplens.kernel.mix import mix
from warplens.kernel.schedule import Schedule, period, schedule
from warplens.kernel.workload import Access, Launch, Link, Number, Workload

__all__ = [
    "Access", "Graph", "Instruction", "Launch", "Link", "Number", "Schedule", "Workload", "is_graph", "list_workloads",
    "load_graph", "load_workload", "mix", "parse_listing", "parse_workload", "period", "schedule",
]  # fmt: skip
