"""The public verbs, each a few lines that join the layers. `import warplens as wl` has them all."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from warplens import machine, models
from warplens.core.errors import WarplensError
from warplens.core.file_kinds import kind_of
from warplens.core.native import refuse_without_numba
from warplens.core.units import seconds
from warplens.machine import Machine, Occupancy, OccupancyTable, list_machines, load_machine
from warplens.models import Curve, Prediction, needed_warps
from warplens.models.comparison import OURS, PUBLISHED, Comparison, noted
from warplens.models.residency import occupancy_of
from warplens.models.warplens import intervals
from warplens.models.warplens.intervals import with_interval
from warplens.program import Options, list_kernels, load_program, toolchain
from warplens.program.control_flow import flow_graph
from warplens.program.program import Program, Resources
from warplens.program.static_analysis import StaticAnalysis, static_analysis
from warplens.simulator import Simulation, SimulationOptions
from warplens.simulator.simulation import simulate as _simulate
from warplens.workload import Number, Workload, list_workloads, load_workload, mix
from warplens.workload import ncu_report as report
from warplens.workload.compiled_call import OLDEST, architecture, load_call, source_of
from warplens.workload.counted import workload_of
from warplens.workload.launch import KernelCall, load_launch
from warplens.workload.profile import Profile
from warplens.workload.profiler_counts import profile_of
from warplens.workload.unmodelled import texts

if TYPE_CHECKING:
    from warplens.advisor import Advice, Advised
    from warplens.advisor.differences import Difference, WhatIf

__all__ = [
    "Advice",
    "Advised",
    "Comparison",
    "Curve",
    "Difference",
    "KernelCall",
    "Machine",
    "Number",
    "Occupancy",
    "OccupancyTable",
    "Options",
    "Prediction",
    "Profile",
    "Program",
    "Simulation",
    "SimulationOptions",
    "StaticAnalysis",
    "WhatIf",
    "Workload",
    "advise",
    "analyze",
    "architecture",
    "compare",
    "diff",
    "list_kernels",
    "list_machines",
    "list_models",
    "list_workloads",
    "load_launch",
    "load_machine",
    "load_program",
    "load_report",
    "load_workload",
    "mix",
    "needed_warps",
    "occupancy",
    "occupancy_curve",
    "occupancy_table",
    "predict",
    "predict_all",
    "profile",
    "program_and_call",
    "program_of",
    "simulate",
    "static_analysis",
    "what_if",
]  # fmt: skip

DEFAULT_GPU = "h200"
DEFAULT_MODEL = "volkov"  # of curves, and where no model is asked for and none that speaks is physically possible


# What a prediction does not need is imported when it is asked for: it takes as long as all of our models.
_LATER = {"Advice": "advice", "Advised": "advice", "Difference": "differences", "WhatIf": "differences"}  # in `advisor`


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"warplens.advisor.{_LATER[name]}"), name)
    raise AttributeError(f"module 'warplens.api' has no attribute {name!r}")


def list_models() -> dict[str, str]:
    """Return the models' names, each with what it is in one line."""
    return {name: entry.about for name, entry in models.MODELS.items()}


def analyze(
    file: str | Path | None = None,
    launch: KernelCall | str | Path = "",
    machine: Machine | str = DEFAULT_GPU,
    *,
    variant: str = "",
    kernel: str | None = None,
    options: Options | None = None,
    exact: bool = False,
    brisk: bool = False,
    load: Callable[[], Program | None] | None = None,
    progress: Callable[[str], None] | None = None,
    early: Callable[[Workload], None] | None = None,
) -> Workload:
    """Compile a kernel, emulate its call on a part of the grid, and count it as a workload.

    `exact` emulates all of the grid, `brisk` a smaller part. The file, the kernel and what it is compiled with may be
    left to the launch file, which may be the only thing given: `analyze("saxpy.toml")`.

    `load` waits for the kernel where someone loads it already, while the emulator is made
    ready here; if it returns nothing, it is loaded as usual. `early` gets the workload as soon as its time can be
    predicted; what only remedies ask for is emulated after that.
    """
    gpu = _machine(machine)
    file, call = _called(file, launch, variant)
    program = None
    if load is not None:
        _make_ready()
        program = load()
    if program is None:
        program, call = program_and_call(call, gpu, file, kernel, options)
    counted = list[Workload]()

    def count(made: Profile) -> None:
        workload = workload_of(program, call, made, gpu)
        if program.arch == OLDEST and not (gpu.compute_capability or "").startswith("7.5"):
            note = f"counted from code for {OLDEST}: compilers of today make none for {gpu.name}"
            workload = workload.with_values(notes=[*workload.notes, note])
        counted.append(workload)
        if early is not None:
            early(workload)

    made = profile(program, call, gpu, exact=exact, brisk=brisk, progress=progress, early=count)
    return counted[0].with_values(profile=made)


def _called(
    file: str | Path | None, launch: KernelCall | str | Path, variant: str
) -> tuple[str | Path | None, KernelCall]:
    """Return the kernel's file and the call, of a launch file in the place of either."""
    if isinstance(launch, KernelCall):
        return file, launch
    if not launch and file is not None and kind_of(file) == "launch":
        return None, load_launch(file, variant)
    if not launch:
        raise WarplensError(
            f"{file or 'analyze'}: a call is wanted: a launch file, which `warplens init` writes, or a KernelCall"
        )
    return file, load_launch(launch, variant)


def load_report(
    path: str | Path, machine: Machine | str = DEFAULT_GPU, kernel: str | None = None
) -> list[tuple[Workload, KernelCall]]:
    """Read every kernel of a profiler's report (.ncu-rep), or those with this name, each with its call.

    Counts are the profiler's; nothing is emulated. What the report lacks is in the workload's notes.
    """
    gpu, made = _machine(machine), []
    found = [r for r in report.load_report(path) if kernel is None or kernel in (r.program.name, r.program.demangled)
             or kernel in r.program.demangled.partition("(")[0]]  # fmt: skip
    if not found:
        raise WarplensError(f"{path}: no kernel {kernel!r} in it")
    for one in found:
        if not one.record.executed:
            raise WarplensError(f"{path}: {one.program.demangled}: the report has no {one.missing[0]}")
        columns = {name: getattr(one.record, name) for name in report.COLUMNS}
        shape = one.call.blocks, -(-one.call.threads_per_block // 32)
        made_of = profile_of(one.program, flow_graph(one.program), shape, columns, one.record.counters)
        workload = workload_of(one.program, one.call, made_of, gpu)
        notes = [*workload.notes, *(f"not in the report: {what}" for what in one.missing)]
        if "time_ns" in one.record.counters:
            notes.append(f"the profiler measured {seconds(1e-9 * one.record.counters['time_ns'])}, the kernel alone")
        if one.gpu and one.gpu != gpu.name:
            notes.append(f"profiled on {one.gpu}")
        made.append((workload.with_values(notes=notes), one.call))
    return made


def program_of(
    call: KernelCall,
    gpu: Machine | str = DEFAULT_GPU,
    file: str | Path | None = None,
    kernel: str | None = None,
    options: Options | None = None,
) -> Program:
    """Load the kernel that a launch file calls, compiled for a GPU as the launch file says, or as `options` do."""
    return program_and_call(call, gpu, file, kernel, options)[0]


def program_and_call(
    call: KernelCall,
    gpu: Machine | str = DEFAULT_GPU,
    file: str | Path | None = None,
    kernel: str | None = None,
    options: Options | None = None,
) -> tuple[Program, KernelCall]:
    """Load a launch's kernel; with it, the call as the GPU gets it (of Triton's kernels, the compiler says that)."""
    path, made = source_of(call, architecture(_machine(gpu), OLDEST), file, options)
    return load_call(path, kernel, call, made)


def profile(
    program: Program,
    call: KernelCall,
    machine: Machine | str = DEFAULT_GPU,
    *,
    exact: bool = False,
    brisk: bool = False,
    progress: Callable[[str], None] | None = None,
    early: Callable[[Profile], None] | None = None,
) -> Profile:
    """Emulate a call as the machine would run it: how often each instruction runs, and what it touches.

    All of the grid is emulated (`exact`), a part, or a smaller part, which remedies cannot be judged by (`brisk`).
    `early` gets the profile before what only remedies ask for is emulated (`Profile.crowding`).
    """
    gpu, profiler = _machine(machine), _profiler()
    effort = profiler.BRISK if brisk else profiler.FULL
    newer = toolchain.untested(program.tools)

    def noted(made: Profile) -> Profile:
        return replace(made, notes=[*made.notes, *newer]) if newer else made

    known = early and (lambda made: early(noted(made)))
    return noted(profiler.profile(program, call, gpu, exact=exact, effort=effort, progress=progress, early=known))


def _make_ready() -> None:
    """Import what nearly every answer needs, and read the emulator's machine code."""
    refuse_without_numba("the emulator")
    parts = ("integer", "float", "memory", "control")
    for name in (
        "numpy.random",
        "warplens.models.warplens.predict",
        *(f"warplens.emulator.decode_{p}" for p in parts),
    ):
        importlib.import_module(name)
    _profiler().prepare()


def _profiler() -> Any:
    refuse_without_numba("the emulator")
    from warplens.emulator import profiler

    return profiler


def predict(
    workload: Workload | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    model: str | None = None,
    *,
    warps_per_sm: Number | None = None,
) -> Prediction:
    """Predict a workload's time on a GPU with one model; arrays of numbers broadcast.

    `model` None: our own, for a counted kernel; else the most complete published one whose answer is physically
    possible. That says why ours is silent (`why_not_ours`).
    """
    w, m, why = _workload(workload), _machine(gpu), ""
    for name in (*OURS, *PUBLISHED, *models.MODELS) if model is None else ():
        try:
            found = models.predict(w, m, name, warps_per_sm=warps_per_sm)
        except WarplensError as error:
            why = why or str(error)
            continue
        if found.seconds is not None and (name in OURS or not found.flags):
            found = found if name in OURS else replace(found, why_not_ours=why)
            return noted(with_interval(found, w, m), texts(w.unmodelled))
    found = models.predict(w, m, model or DEFAULT_MODEL, warps_per_sm=warps_per_sm)
    return noted(with_interval(found, w, m), texts(w.unmodelled))


def advise(
    workload: Workload | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    *,
    base: Prediction | None = None,
    simulated: int = 2,
    most_code: float = math.inf,
) -> Advised:
    """Return what would make a counted kernel faster, best first, each remedy predicted by our model.

    `base` spares the prediction of the kernel itself; `simulated` says how many of the best are simulated; once
    `most_code` instructions were predicted, no more remedies are tried.
    """

    from warplens.advisor import advise

    def interval(p: Prediction, w: Workload, m: Machine) -> tuple[float, float] | None:
        found = intervals.interval(p, w, m)
        return None if isinstance(found, str) else (found.low, found.high)

    w, m = _workload(workload), _machine(gpu)
    made = advise(w, m, base=base, simulated=simulated, most_code=most_code, interval=interval)
    return replace(made, base=noted(with_interval(made.base, w, m), texts(w.unmodelled)))


def what_if(
    workload: Workload | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    changes: Mapping[str, float] | None = None,
    *,
    model: str | None = None,
    other: tuple[Workload, Machine] | None = None,
) -> WhatIf:
    """Predict as it is, and with numbers replaced by name: `{"line:23.conflict": 1, "machine.sms": 144}`.

    `other` is the workload and the machine that the changes are made to, where that is another GPU.
    """
    from warplens.advisor.differences import what_if

    w, m = _workload(workload), _machine(gpu)
    found = what_if(w, m, changes or {}, model=model or _best_model(w), other=other)
    then = w if other is None else other[0]
    before, after = noted(found.before, texts(w.unmodelled)), noted(found.after, texts(then.unmodelled))
    return replace(found, before=before, after=after)


def diff(before: Workload | str | Path, after: Workload | str | Path, gpu: Machine | str = DEFAULT_GPU) -> Difference:
    """Compare two counted kernels on one GPU: code, counts, limits, time, and why."""
    from warplens.advisor.differences import difference

    a, b, m = _workload(before), _workload(after), _machine(gpu)
    return difference(a, b, predict(a, m, "warplens"), predict(b, m, "warplens"))


def _best_model(workload: Workload) -> str:
    """Return our own model where the workload was counted from machine code."""
    return "warplens" if workload.profile is not None and workload.code else DEFAULT_MODEL


def predict_all(
    workload: Workload | str | Path, gpu: Machine | str = DEFAULT_GPU, *, warps_per_sm: Number | None = None
) -> dict[str, Prediction]:
    """Predict with every model that can speak about this workload."""
    return compare(workload, gpu, warps_per_sm=warps_per_sm).predictions


def compare(
    workload: Workload | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    *,
    warps_per_sm: Number | None = None,
    simulated: bool = True,
    known: Prediction | None = None,
) -> Comparison:
    """Put all models side by side, the silent ones with their reason; or all but those that simulate.

    `known` is what one of them said already.
    """
    w, m = _workload(workload), _machine(gpu)
    answers = models.predict_all(w, m, warps_per_sm=warps_per_sm, simulated=simulated, known=known)
    return Comparison(
        w.name,
        m.id,
        {name: with_interval(p, w, m) for name, p in answers.items() if isinstance(p, Prediction)},
        {name: p for name, p in answers.items() if isinstance(p, str)},
        texts(w.unmodelled),
    )


def occupancy_curve(
    workload: Workload | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    model: str = DEFAULT_MODEL,
    *,
    warps_per_sm: Number | None = None,
) -> Curve:
    """Return throughput against warps per SM, and the occupancy needed at 100, 95 and 90 % of peak."""
    return models.occupancy_curve(_workload(workload), _machine(gpu), model, warps_per_sm=warps_per_sm)


def occupancy(workload: Workload | str | Path, gpu: Machine | str = DEFAULT_GPU) -> Occupancy | None:
    """Return how many blocks and warps fit on an SM and what limits that; None without a launch."""
    return occupancy_of(_workload(workload), _machine(gpu))


def occupancy_table(
    program: Program | None,
    gpu: Machine | str = DEFAULT_GPU,
    *,
    block: int | None = None,
    registers: int | None = None,
    shared_bytes: int | None = None,
    dynamic_shared_bytes: int = 0,
) -> OccupancyTable:
    """Return what fits on an SM for one block size, and for all others that the kernel and the machine allow.

    `registers` per thread and static `shared_bytes` per block replace the kernel's; they do without a program.
    """
    used = Resources() if program is None else program.resources
    static = used.static_shared_bytes if shared_bytes is None else shared_bytes
    needs = machine.Needs(
        registers_per_thread=used.registers if registers is None else registers,
        shared_bytes_per_block=static + dynamic_shared_bytes,
        barriers_per_block=used.barriers,
        threads_max=used.threads_max,
        threads_required=math.prod(used.threads_required) if used.threads_required else None,
    )
    name, arch = ("", "") if program is None else (program.demangled, program.arch)
    return machine.occupancy_table(_machine(gpu), needs, kernel=name, arch=arch, block=block)


def simulate(
    workload: Workload | Program | str | Path,
    gpu: Machine | str = DEFAULT_GPU,
    *,
    profile: Profile | None = None,
    warps_per_sm: float | None = None,
    changes: Mapping[str, float] | None = None,
    options: SimulationOptions | None = None,
) -> Simulation:
    """Simulate a workload, or a program with its profile, on one SM: time, and what its warps wait for.

    `changes` replaces numbers by name (`{"shared.latency": 60}`).
    """
    work = workload if isinstance(workload, Program) else _workload(workload)
    made = _simulate(work, _machine(gpu), profile=profile, warps_per_sm=warps_per_sm, changes=changes, options=options)
    said = texts(work.unmodelled) if isinstance(work, Workload) else []
    return replace(made, notes=[*made.notes, *said]) if said else made


def _workload(given: Workload | str | Path) -> Workload:
    if isinstance(given, Workload):
        return given
    if not isinstance(given, (str, Path)):
        raise WarplensError(f"a workload, its name or its path is wanted, not {type(given).__name__}")
    return load_given(given)


def load_given(path: str | Path, machine: Machine | str = DEFAULT_GPU, *, alpha: float | None = None) -> Workload:
    """Load a workload by its name or file, or the only one of a profiler's report."""
    if str(path).endswith(".ncu-rep"):
        return only_kernel(load_report(path, machine), str(path))
    return load_workload(path, alpha=alpha)


def only_kernel(found: list[tuple[Workload, KernelCall]], path: str) -> Workload:
    """Return the workload of a report with one kernel; of several, the user has to choose."""
    if len(found) > 1:
        names = ", ".join(dict.fromkeys(workload.name for workload, _ in found))
        raise WarplensError(
            f"{path}: {len(found)} launches ({names}); save one by `analyze --kernel NAME --save W.json`"
        )
    return found[0][0]


def _machine(given: Machine | str | Path) -> Machine:
    if isinstance(given, (str, Path)):
        return machine.load_machine(given)
    if not isinstance(given, Machine):
        raise WarplensError(f"a machine, its name or its path is wanted, not {type(given).__name__}")
    return given
