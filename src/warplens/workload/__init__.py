"""A kernel's launch and its counts: launch files, profiles, and the workload that every model takes.

    launch            launch files: one call of a kernel, its arguments, their layout
    contents          what arrays and variables hold, computed when touched
    command_line, interface, suggested_launch   calls written on a command line; a kernel's parameters; first guesses
    compiled_call     the kernel of a call: how it is compiled, and what Triton's launcher adds
    profile           counts per instruction and paths of warps, by the emulator or a profiler
    ncu_report        Nsight Compute's reports, and profiles of their counts alone
    counted           program + call + profile to a workload, with the chain of a lone warp and what is not modelled
    workload          Workload: counts of one warp and the launch, its accesses; the input of every model; start here
    loader            workloads as files: TOML by hand, JSON saved, those that ship (files/workloads), and mixes

A profile has whole-grid counts, a workload counts of one warp. To add a count of the emulator: a column of
`profile.COLUMNS`, then the emulator's. To add something that is not modelled: a row of files/unmodelled.toml
where it is an instruction, a function of `counted` where it is not.
"""

from warplens.workload.loader import list_workloads, load_workload, mix, parse_workload
from warplens.workload.workload import Access, Launch, Link, Number, Workload

__all__ = [
    "Access", "Launch", "Link", "Number", "Workload", "list_workloads",
    "load_workload", "mix", "parse_workload",
]  # fmt: skip
