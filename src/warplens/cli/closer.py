"""Commands that look closer at a kernel: show, occupancy and simulate."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace
from rich.console import RenderableType

from warplens import api
from warplens.api.counting import counted as count_call
from warplens.api.counting import load_any, profiled
from warplens.api.request import Request, load, split_variant
from warplens.cli.call import counted, names_kernel, options_of, request_of
from warplens.cli.kernel import machines_of
from warplens.cli.output import one_or, watching, written
from warplens.cli.output import show as print_
from warplens.core import native
from warplens.core.errors import WarplensError, refuse
from warplens.core.file_kinds import CODE, kind_of
from warplens.core.files import write_whole
from warplens.core.units import printable
from warplens.machine import Machine
from warplens.models.warplens.predict import launch_cycles
from warplens.papers import lemeire_simulator
from warplens.papers.lemeire_graph import Graph, is_graph, load_graph
from warplens.program.static_analysis import static_analysis
from warplens.report import listing, simulation, terminal
from warplens.report import occupancy as report
from warplens.simulator.overlay import parse, refuse_twice
from warplens.workload import Workload
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.counted import workload_of as counted_workload

_MOST_WARPS = 1e6


def workload_and_machines(args: argparse.Namespace, *, count: bool = False) -> tuple[Workload, list[Machine]]:
    """Load the workload and the machines that the arguments name; `count`: of a launch file, its kernel's counts."""
    machines = machines_of(args)
    path, variant = split_variant(args.workload)
    if count and kind_of(path) == "launch":
        with watching("counting") as say:
            request = Request(launch=api.load_launch(path, variant))
            workload = count_call(*load(request, machines[0]), machines[0], progress=say)
    else:
        workload = load_any(args.workload, machines[0], alpha=args.alpha)
    refuse(args.warps is not None and args.warps > _MOST_WARPS, f"--warps: at most {_MOST_WARPS:g} warps per SM")
    return workload, machines


def show(args: argparse.Namespace) -> None:
    """Print a kernel's machine code, with what is known of each instruction."""

    if args.file is None and args.launch is None:
        raise WarplensError("show what? Name a kernel's file (.cu, .ptx, .cubin, .sass, a program) or a launch file")
    options = replace(options_of(args), arch=args.arch)
    if args.list:
        file, how = args.file, options
        if args.launch is not None:
            file, how = source_of(api.load_launch(args.launch, args.variant), args.arch, file, options)
        names = api.list_kernels(file, how)
        return print_(args, {"kernels": names}, [printable(name) for name in names])
    machine, profile = api.load_machine(args.machine), None
    request = request_of(args)
    if args.launch is None and not request.flags and kind_of(args.file) != "triton":
        program = api.load_program(args.file, args.kernel, options)
    else:
        program, call = load(request, machine)
        with watching("emulating") as say:
            profile = profiled(program, call, machine, progress=say)
    facts = static_analysis(program, machine)
    data = {"program": program, "analysis": facts, **({} if profile is None else {"profile": profile})}
    if not args.simulate:
        return print_(args, data, listing.program(program, facts, machine, profile))
    if profile is None:
        raise WarplensError("--simulate needs a call (a launch file, or --grid and so on): warps wait for what they do")
    found = api.simulate(counted_workload(program, call, profile, machine), machine)
    data |= simulation.data(found, program.instructions)
    parts = listing.program(program, facts, machine, profile, simulation.beside(found))
    parts += ["", *simulation.answer(found, machine, 0)]
    text = simulation.read_source(program.source_file, program.origin)
    parts += simulation.source_lines(found, program.instructions, text)
    return print_(args, data, parts)


def occupancy(args: argparse.Namespace) -> None:
    """Print what fits on an SM, and for a workload its throughput against occupancy."""
    name, kind = args.workload, kind_of(split_variant(args.workload or "")[0])
    known = name is not None and (Path(name).suffix in (".toml", ".json") or name in api.list_workloads())
    is_code = not known and name is not None and (kind in (*CODE, "listing") or Path(name).is_file())
    if name is None or is_code or kind == "launch":
        return _occupancy_of_file(args)
    for option in ("block", "registers", "shared", "html"):
        refuse(getattr(args, option) is not None, f"--{option} is for a .cu, .ptx or .cubin, or for no file at all")
    workload, machines = workload_and_machines(args)
    data, parts = [], []
    for m in machines:
        fits = api.occupancy(workload, m) if args.warps is None else None
        curve = api.occupancy_curve(workload, m, args.model, warps_per_sm=args.warps)
        data.append({"occupancy": fits, "curve": curve})
        parts += [] if fits is None else report.of_workload(fits, workload.name, m)
        parts += terminal.curve(curve, m)
    return print_(args, one_or("occupancies", data), parts)


def _occupancy_of_file(args: argparse.Namespace) -> None:
    """Print what fits on an SM of a compiled kernel, or of one that --registers and --shared describe."""
    if kind_of(args.workload or "") == "triton":
        raise WarplensError(
            f"{args.workload}: Triton compiles a kernel for a launch, and says then what it needs: name a launch file "
            f"(`warplens init {args.workload}` writes one)"
        )
    if args.workload is None and args.registers is None:
        raise WarplensError("name a workload or a .cu, .ptx or .cubin, or give --registers")
    machines, parts = machines_of(args), list[RenderableType]()
    tables = [_occupancy_table(args, m) for m in machines]
    for table, m in zip(tables, machines, strict=True):
        parts += [*([""] if parts else []), *report.of_kernel(table, m)]
    if args.html:
        write_whole(Path(args.html), report.page(tables[0], machines[0]))
    print_(args, one_or("occupancies", tables), parts)
    written(args, report=args.html)


def _occupancy_table(args: argparse.Namespace, machine: Machine) -> api.OccupancyTable:
    """Return what fits on one machine's SM; a launch file's block and shared memory where no option replaces them."""
    program, block, dynamic = None, args.block, args.dynamic_shared
    path, variant = split_variant(args.workload or "")
    options = options_of(args)
    if kind_of(path) == "launch":
        request = Request(launch=api.load_launch(path, variant), kernel=args.kernel, options=options)
        program, call = load(request, machine)
        block = call.threads_per_block if block is None else block
        dynamic = dynamic or call.dynamic_shared_bytes
    elif args.workload is not None:
        compiles = Path(args.workload).suffix in (".cu", ".cuh", ".ptx")
        arch = architecture(machine, None if compiles else OLDEST)
        how = replace(options, arch=arch) if compiles else api.Options(arch)
        program = api.load_program(args.workload, args.kernel, how)
    return api.occupancy_table(
        program, machine, block=block, registers=args.registers, shared_bytes=args.shared, dynamic_shared_bytes=dynamic
    )


def simulate(args: argparse.Namespace) -> None:
    """Print what a simulation of one SM says, and write its trace."""
    [machine] = machines_of(args, one=True)
    _check_simulate(args)
    native.refuse_without_numba("the simulator")
    refuse(args.file is None and args.launch is None, "name a workload, a kernel's file or a launch file")
    graph = not names_kernel(args) and is_graph(args.file)
    work: Workload | Graph = load_graph(args.file) if graph else counted(args, machine)
    options = api.SimulationOptions(
        seed=args.seed, full=args.full, events=args.events if args.trace else 0, sampled=True,
        **({"policy": args.policy} if args.policy is not None else {}),
    )  # fmt: skip
    refuse_twice(args.changes)
    changes = dict(parse(text) for text in args.changes)
    if args.mode != "warplens" or isinstance(work, Graph):
        found = lemeire_simulator.simulate(
            work, machine, mode=args.mode, warps_per_sm=args.warps, changes=changes, options=options
        )
    else:
        found = api.simulate(work, machine, warps_per_sm=args.warps, changes=changes, options=options)
    if args.trace:
        write_whole(Path(args.trace), simulation.trace(found))
    code, text, launch = [], list[str](), 0.0
    if isinstance(work, Workload):
        code, text = work.code, simulation.read_source(work.source)
        if work.profile is not None and work.launch is not None:  # the simulator knows nothing of the launch
            launch = launch_cycles(machine, work.profile) / machine.chip.clock_hz
    parts = simulation.answer(found, machine, args.top, code, launch)
    print_(args, simulation.data(found, code), [*parts, *simulation.source_lines(found, code, text)])
    written(args, trace=args.trace)


def _check_simulate(args: argparse.Namespace) -> None:
    """Refuse options that contradict one another, or the files that are read."""
    refuse(args.variant and not args.launch, "--variant is one of a launch file: it needs --launch L.toml")
    if args.launch and args.file and kind_of(args.file) not in CODE:
        raise WarplensError("name a workload or give --launch L.toml, not both")
    refuse(args.alpha is not None and names_kernel(args), "--alpha is of a mix: this is a kernel")
    refuse(args.top < 0, f"--top: zero or more instructions, not {args.top}")
    if args.trace is None:
        return
    refuse(not args.trace, "--trace: the name of a file is wanted")
    refuse(args.events < 1, "a trace has one event at least (--events)")
    for read in filter(None, (args.file, args.launch)):
        same = Path(read).exists() and Path(args.trace).exists() and Path(read).samefile(args.trace)
        refuse(same, f"--trace {args.trace}: that is the file that is simulated; give another name")
