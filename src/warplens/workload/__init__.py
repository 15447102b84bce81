"""A launch and what it does: launch files, counts by instruction, and the workload that every model takes."""

from warplens.workload.loader import list_workloads, load_workload, parse_workload
from warplens.workload.mix import mix
from warplens.workload.workload import Access, Launch, Link, Number, Workload

__all__ = [
    "Access", "Launch", "Link", "Number", "Workload", "list_workloads",
    "load_workload", "mix", "parse_workload",
]  # fmt: skip
