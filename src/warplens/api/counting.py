"""Counting of a kernel's call: from machine code, or a profiler's report, to the workload that every model takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from warplens.core.errors import WarplensError, refuse
from warplens.core.native import refuse_without_numba
from warplens.core.units import seconds
from warplens.machine import Machine, load_machine
from warplens.program import toolchain
from warplens.program.control_flow import flow_graph
from warplens.program.program import Program
from warplens.workload import Workload, load_workload, ncu_report
from warplens.workload.compiled_call import OLDEST
from warplens.workload.counted import workload_of
from warplens.workload.launch import KernelCall
from warplens.workload.ncu_report import profile_of
from warplens.workload.profile import Profile

DEFAULT_MACHINE = "h200"
Effort = Literal["full", "fast", "exact"]  # how much of a grid is emulated; remedies cannot be judged by "fast"
Progress = Callable[[str], None]


def machine_of(given: Machine | str | Path) -> Machine:
    """Return a machine that is given as such, by its name or by its path."""
    if isinstance(given, (str, Path)):
        return load_machine(given)
    refuse(not isinstance(given, Machine), f"a machine, its name or its path is wanted, not {type(given).__name__}")
    return given


def profiled(
    program: Program,
    call: KernelCall,
    machine: Machine,
    effort: Effort = "full",
    *,
    progress: Progress | None = None,
    early: Callable[[Profile], None] | None = None,
) -> Profile:
    """Emulate a call as the machine would run it: counts by instruction, and the memory that they touch.

    `early` gets the profile before the counts that only remedies need.
    """
    refuse_without_numba("the emulator")
    from warplens.emulator import profiler

    refuse(effort not in ("full", "fast", "exact"), f"effort: 'full', 'fast' or 'exact', not {effort!r}")
    share, newer = profiler.FAST if effort == "fast" else profiler.FULL, toolchain.untested(program.tools)

    def noted(profile: Profile) -> Profile:
        return replace(profile, notes=[*profile.notes, *newer]) if newer else profile

    known = early and (lambda profile: early(noted(profile)))
    exact = effort == "exact"
    return noted(profiler.profile(program, call, machine, exact=exact, effort=share, progress=progress, early=known))


def counted(
    program: Program,
    call: KernelCall,
    machine: Machine,
    effort: Effort = "full",
    *,
    progress: Progress | None = None,
    early: Callable[[Workload], None] | None = None,
) -> Workload:
    """Emulate a call and count it as a workload; `early` gets it as soon as its time can be predicted."""
    found = list[Workload]()

    def count(profile: Profile) -> None:
        workload = workload_of(program, call, profile, machine)
        if program.arch == OLDEST and not (machine.compute_capability or "").startswith("7.5"):
            note = f"counted from code for {OLDEST}: compilers of today make none for {machine.name}"
            workload = workload.with_values(notes=[*workload.notes, note])
        found.append(workload)
        if early is not None:
            early(workload)

    profile = profiled(program, call, machine, effort, progress=progress, early=count)
    return found[0].with_values(profile=profile)


def load_report(
    path: str | Path, machine: Machine | str = DEFAULT_MACHINE, kernel: str | None = None
) -> list[tuple[Workload, KernelCall]]:
    """Read every kernel of a profiler's report (.ncu-rep), or those with this name, each with its call.

    Counts are the profiler's; nothing is emulated. What the report lacks is in the workload's notes.
    """
    gpu, found = machine_of(machine), list[tuple[Workload, KernelCall]]()
    chosen = [
        one for one in ncu_report.load_report(path) for long in [one.program.demangled]
        if kernel is None or kernel in (one.program.name, long) or kernel in long.partition("(")[0]
    ]  # fmt: skip
    refuse(not chosen, f"{path}: no kernel {kernel!r} in it")
    for one in chosen:
        lacking = " ".join(one.missing[:1])
        refuse(not one.record.executed, f"{path}: {one.program.demangled}: the report has no {lacking}")
        columns = {name: getattr(one.record, name) for name in ncu_report.COLUMNS}
        shape = one.call.blocks, -(-one.call.threads_per_block // 32)
        profile = profile_of(one.program, flow_graph(one.program), shape, columns, one.record.counters)
        workload = workload_of(one.program, one.call, profile, gpu)
        notes = [*workload.notes, *(f"not in the report: {what}" for what in one.missing)]
        if "time_ns" in one.record.counters:
            notes.append(f"the profiler measured {seconds(1e-9 * one.record.counters['time_ns'])}, the kernel alone")
        if one.gpu and one.gpu != gpu.name:
            notes.append(f"profiled on {one.gpu}")
        found.append((workload.with_values(notes=notes), one.call))
    return found


def only_kernel(found: list[tuple[Workload, KernelCall]], path: str) -> tuple[Workload, KernelCall]:
    """Return the one kernel of a report; of several, the user has to choose."""
    if len(found) > 1:
        names = ", ".join(dict.fromkeys(workload.name for workload, _ in found))
        raise WarplensError(f"{path}: {len(found)} launches ({names}); save one: `analyze --kernel NAME --save W.json`")
    return found[0]


def load_any(path: str | Path, machine: Machine | str = DEFAULT_MACHINE, *, alpha: float | None = None) -> Workload:
    """Load a workload by its name or file, or the only one of a profiler's report."""
    if str(path).endswith(".ncu-rep"):
        return only_kernel(load_report(path, machine), str(path))[0]
    return load_workload(path, alpha=alpha)
