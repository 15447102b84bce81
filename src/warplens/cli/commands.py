"""What each command does: load, ask the API, hand the result to a renderer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warplens import api
from warplens import papers as study
from warplens.cli import advice, validation
from warplens.cli.ahead import options as _options
from warplens.cli.analysis import machines_of as _machines
from warplens.cli.call import asked, flags_of, names_kernel, split_variant
from warplens.cli.output import show as _show
from warplens.cli.output import watching as _watching
from warplens.core import native
from warplens.core.errors import WarplensError
from warplens.core.file_kinds import CODE, kind_of
from warplens.core.files import read_text, write_whole
from warplens.core.units import printable
from warplens.machine import Machine, evidence
from warplens.machine.loader import load_file
from warplens.machine.review import review
from warplens.models.warplens.predict import launch_cycles
from warplens.papers import lemeire_simulator
from warplens.papers.lemeire_graph import Graph, is_graph, load_graph
from warplens.papers.report import items
from warplens.report import listing, occupancy, simulation, terminal
from warplens.report.data import to_json
from warplens.report.page.models import comparison as comparison_page
from warplens.simulator.overlay import parse, refuse_twice
from warplens.workload import Workload
from warplens.workload.compiled_call import OLDEST, source_of

_MOST_WARPS = 1e6


def run(args: argparse.Namespace) -> int:
    """Run the chosen command."""
    name = args.command + (f"_{args.verb}" if hasattr(args, "verb") else "")
    command: Any = _show_ if name == "show" else globals()[f"_{name}"]
    return int(command(args) or 0)


def _given(args: argparse.Namespace) -> tuple[Workload, list[Machine]]:
    machines = _machines(args)
    workload = api.load_given(args.workload, machines[0], alpha=args.alpha)
    if args.warps is not None and args.warps > _MOST_WARPS:
        raise WarplensError(f"--warps: at most {_MOST_WARPS:g} warps per SM")
    return workload, machines


def _predict(args: argparse.Namespace) -> None:
    if args.model == "all":
        return _compare(args)
    workload, machines = _given(args)
    made = [api.predict(workload, m, args.model, warps_per_sm=args.warps) for m in machines]
    parts = [part for p, m in zip(made, machines, strict=True) for part in terminal.prediction(p, workload, m)]
    _show(args, {"prediction": made[0]} if len(made) == 1 else {"predictions": made}, parts)
    return None


def _compare(args: argparse.Namespace) -> None:
    workload, machines = _given(args)
    made = [api.compare(workload, m, warps_per_sm=args.warps) for m in machines]
    for c in made:
        if not c.predictions:
            raise WarplensError(
                f"no model can speak about {c.workload} on {c.machine}: {next(iter(c.silent.values()))}"
            )
    if getattr(args, "html", None):
        if len(machines) > 1:
            raise WarplensError("--html takes one GPU")
        write_whole(Path(args.html), comparison_page(made[0], workload, machines[0]))
    parts = [part for c, m in zip(made, machines, strict=True) for part in [*terminal.comparison(c, m), ""]]
    _show(args, made[0] if len(made) == 1 else made, parts[:-1])
    if getattr(args, "html", None) and not args.json:
        print(f"report: {args.html}")


def _advise(args: argparse.Namespace) -> None:
    advice.advise(args, _one_machine(args), _options(args, ""))


def _whatif(args: argparse.Namespace) -> None:
    advice.whatif(args, _one_machine(args), _options(args, ""))


def _diff(args: argparse.Namespace) -> None:
    advice.diff(args, _one_machine(args))


def _one_machine(args: argparse.Namespace) -> Machine:
    machines = _machines(args)
    if len(machines) > 1:
        raise WarplensError(f"{args.command} takes one GPU")
    return machines[0]


def _occupancy(args: argparse.Namespace) -> None:
    if args.workload is None or _is_code(args.workload) or kind_of(split_variant(args.workload)[0]) == "launch":
        return _occupancy_of_file(args)
    for option in ("block", "registers", "shared", "html"):
        if getattr(args, option) is not None:
            raise WarplensError(f"--{option} is for a .cu, .ptx or .cubin, or for no file at all")
    workload, machines = _given(args)
    data, parts = [], []
    for m in machines:
        fits = api.occupancy(workload, m) if args.warps is None else None
        curve = api.occupancy_curve(workload, m, args.model, warps_per_sm=args.warps)
        data.append({"occupancy": fits, "curve": curve})
        parts += [] if fits is None else occupancy.of_workload(fits, workload.name, m)
        parts += terminal.curve(curve, m)
    return _show(args, data[0] if len(data) == 1 else data, parts)


def _is_code(name: str) -> bool:
    """Whether a name is a file with a kernel in it rather than a workload."""
    if Path(name).suffix in (".toml", ".json") or name in api.list_workloads():
        return False
    return kind_of(name) in (*CODE, "listing") or Path(name).is_file()


def _occupancy_of_file(args: argparse.Namespace) -> None:
    """What fits on an SM of a compiled kernel, or of one that --registers and --shared describe."""
    if kind_of(args.workload or "") == "triton":
        raise WarplensError(
            f"{args.workload}: Triton compiles a kernel for a launch, and says then what it needs: name a launch file "
            f"(`warplens init {args.workload}` writes one)"
        )
    if args.workload is None and args.registers is None:
        raise WarplensError("name a workload or a .cu, .ptx or .cubin, or give --registers")
    machines, tables = _machines(args), []
    if args.html and len(machines) > 1:
        raise WarplensError("--html takes one GPU")
    parts: list[RenderableType] = []
    path, variant = split_variant(args.workload or "")
    for m in machines:
        program, block, dynamic = None, args.block, args.dynamic_shared
        if kind_of(path) == "launch":
            program, call = api.program_and_call(
                api.load_launch(path, variant), m, None, args.kernel, _options(args, "")
            )
            block = call.threads_per_block if block is None else block
            dynamic = dynamic or call.dynamic_shared_bytes
        elif args.workload is not None:
            compiles = Path(args.workload).suffix in (".cu", ".cuh", ".ptx")
            options = _options(args, api.architecture(m)) if compiles else api.Options(api.architecture(m, OLDEST))
            program = api.load_program(args.workload, args.kernel, options)
        tables.append(
            api.occupancy_table(
                program,
                m,
                block=block,
                registers=args.registers,
                shared_bytes=args.shared,
                dynamic_shared_bytes=dynamic,
            )
        )
        parts += [*([""] if parts else []), *occupancy.of_kernel(tables[-1], m)]
    if args.html:
        write_whole(Path(args.html), occupancy.page(tables[0], machines[0]))
    _show(args, tables[0] if len(tables) == 1 else tables, parts)
    if args.html and not args.json:
        print(f"report: {args.html}")


def _show_(args: argparse.Namespace) -> None:
    if args.file is None and args.launch is None:
        raise WarplensError("show what? Name a kernel's file (.cu, .ptx, .cubin, .sass, a program) or a launch file")
    options = _options(args, args.arch)
    if args.list:
        file, how = args.file, options
        if args.launch is not None:
            file, how = source_of(api.load_launch(args.launch, args.variant), args.arch, file, options)
        names = api.list_kernels(file, how)
        return _show(args, names, [printable(name) for name in names])
    machine, profile = api.load_machine(args.gpu), None
    if args.launch is None and not flags_of(args) and kind_of(args.file) != "triton":
        program = api.load_program(args.file, args.kernel, options)
    else:
        file, call, _ = asked(args, machine)
        program, call = api.program_and_call(call, machine, file, args.kernel, options)
        with _watching("emulating") as say:
            profile = api.profile(program, call, machine, progress=say)
    facts = api.static_analysis(program, machine)
    data = {"program": program, "analysis": facts, **({} if profile is None else {"profile": profile})}
    if not args.simulate:
        return _show(args, data, listing.program(program, facts, machine, profile))
    if profile is None:
        raise WarplensError("--simulate needs a call (a launch file, or --grid and so on): warps wait for what they do")
    made = api.simulate(program, machine, profile=profile)
    data |= simulation.data(made, program.instructions)
    parts = listing.program(program, facts, machine, profile, simulation.beside(made))
    parts += ["", *simulation.answer(made, machine, 0)]
    parts += simulation.source_lines(made, program.instructions, _text_of(program.source_file, program.origin))
    return _show(args, data, parts)


def _text_of(*files: str) -> list[str]:
    """Return the lines of the first of some files that is a source and there."""
    found = next((Path(f) for f in files if f and Path(f).suffix in (".cu", ".cuh", ".py") and Path(f).is_file()), None)
    return read_text(found).splitlines() if found else []


def _check_simulate(args: argparse.Namespace) -> None:
    """Refuse options that contradict one another, or the files that are read."""
    if args.variant and not args.launch:
        raise WarplensError("--variant is one of a launch file: it needs --launch L.toml")
    if args.launch and args.file and kind_of(args.file) not in CODE:
        raise WarplensError("name a workload or give --launch L.toml, not both")
    if args.top < 0:
        raise WarplensError(f"--top: zero or more instructions, not {args.top}")
    if args.trace is None:
        return
    if not args.trace:
        raise WarplensError("--trace: the name of a file is wanted")
    if args.events < 1:
        raise WarplensError("a trace has one event at least (--events)")
    for read in filter(None, (args.file, args.launch)):
        if Path(read).exists() and Path(args.trace).exists() and Path(read).samefile(args.trace):
            raise WarplensError(f"--trace {args.trace}: that is the file that is simulated; give another name")


def _launch_seconds(work: Workload | Graph, machine: Machine) -> float:
    """Return what `analyze` adds for the launch, of which the simulator knows nothing; none for what is not counted."""
    if not isinstance(work, Workload) or work.profile is None or work.launch is None:
        return 0.0
    return launch_cycles(machine, work.profile) / machine.chip.clock_hz


def _simulate(args: argparse.Namespace) -> None:
    machines = _machines(args)
    if len(machines) > 1:
        raise WarplensError("simulate takes one GPU")
    _check_simulate(args)
    native.refuse_without_numba("the simulator")
    if args.file is None and args.launch is None:
        raise WarplensError("name a workload, a kernel's file or a launch file")
    if names_kernel(args):
        file, call, load = asked(args, machines[0])
        with _watching("analysing") as say:
            work: Workload | Graph = api.analyze(
                file, call, machines[0], kernel=args.kernel, options=_options(args, ""), load=load, progress=say
            )
    else:
        work = (
            load_graph(args.file) if is_graph(args.file) else api.load_given(args.file, machines[0], alpha=args.alpha)
        )
    options = api.SimulationOptions(
        seed=args.seed, full=args.full, events=args.events if args.trace else 0, sampled=True,
        **({"policy": args.policy} if args.policy is not None else {}),
    )  # fmt: skip
    refuse_twice(args.changes)
    changes = dict(parse(text) for text in args.changes)
    given: dict[str, Any] = {"warps_per_sm": args.warps, "changes": changes, "options": options}
    if args.mode == "lemeire" or isinstance(work, Graph):
        made = lemeire_simulator.simulate(work, machines[0], mode=args.mode, **given)
    else:
        made = api.simulate(work, machines[0], **given)
    code = work.code if isinstance(work, Workload) else []
    if args.trace:
        write_whole(Path(args.trace), simulation.trace(made))
    parts = simulation.answer(made, machines[0], args.top, code, _launch_seconds(work, machines[0]))
    text = _text_of(work.source) if isinstance(work, Workload) else []
    _show(args, simulation.data(made, code), [*parts, *simulation.source_lines(made, code, text)])
    if args.trace and not args.json:
        print(f"trace: {args.trace}")


def _models(args: argparse.Namespace) -> None:
    models = api.list_models()
    _show(
        args,
        models,
        [terminal.table(["model", "what it is"], [[name, about] for name, about in models.items()])],
    )


def _machine_list(args: argparse.Namespace) -> None:
    machines = api.list_machines()
    summary = [
        {"id": m.id, "name": m.name, "architecture": m.architecture, "aliases": m.aliases, "evidence": evidence(m),
         "base": m.base}
        for m in machines
    ]  # fmt: skip
    _show(args, summary, terminal.machines(machines))


def _machine_show(args: argparse.Namespace) -> None:
    machine = api.load_machine(args.name)
    keys = list(machine.sources) if args.all else terminal.important(machine)
    _show(args, machine, terminal.machine(machine, {key: _value(machine, key) for key in keys}))


def _value(machine: Machine, dotted: str) -> Any:
    """Return the value at a dotted key of a machine."""
    thing: Any = msgspec.to_builtins(machine)
    for key in dotted.split("."):
        thing = thing[int(key)] if isinstance(thing, list) else thing[key]
    return thing


def _machine_check(args: argparse.Namespace) -> int:
    results: dict[str, str] = {}
    remarks: dict[str, list[str]] = {}
    for name in args.files:
        try:
            machine = load_file(Path(name)) if Path(name).exists() else api.load_machine(name)
            results[name] = f"ok: {machine.name}, {len(machine.sources)} numbers, each with a source"
            remarks[name] = [str(finding) for finding in review(machine)]
        except WarplensError as error:
            results[name] = str(error)
    wrong = {name: text for name, text in results.items() if not text.startswith("ok: ")}
    good = [
        line
        for name, text in results.items()
        if name not in wrong
        for line in (f"{name}: {text}", *(f"  {remark}" for remark in remarks[name]))
    ]
    if wrong and not args.json:
        terminal.console().print(*good, sep="\n", markup=False) if good else None
        raise WarplensError("; ".join(wrong.values()))
    _show(args, {**results, **({"remarks": remarks} if any(remarks.values()) else {})}, good)
    return 2 if wrong else 0


def _workload_list(args: argparse.Namespace) -> None:
    workloads = {name: api.load_workload(name) for name in api.list_workloads()}
    rows = [[name, w.source] for name, w in workloads.items()]
    _show(
        args,
        {name: w.source for name, w in workloads.items()},
        [terminal.table(["workload", "source"], rows)],
    )


def _workload_show(args: argparse.Namespace) -> None:
    workload = api.load_workload(args.name, alpha=args.alpha)
    if args.save:
        workload.save(args.save)
    print(to_json(workload))


def _reproduce(args: argparse.Namespace) -> None:
    if args.list:
        ids = study.item_ids(args.gpu)
        return _show(args, ids, ids)
    made = _made(args)
    if args.html:
        write_whole(Path(args.html), items.page(made, args.gpu))
    parts: list[RenderableType] = []
    for it in made:
        if not args.disagreements or any(row.verdict == "differs" for row in it.rows):
            parts += items.item(it, all_rows=not args.disagreements)
    if args.gpu is None and any(study.counts(made).values()):  # our own tables compare with no paper
        parts += ["", items.verdicts(study.counts(made))]
    verdicts = [[{"what": r.what, "verdict": r.verdict} for r in it.rows] for it in made]
    _show(args, {"items": made, "verdicts": verdicts, "counts": study.counts(made)}, parts)
    if args.html and not args.json:
        print(f"pictures: {args.html}")
    return None


def _validate(args: argparse.Namespace) -> None:
    return validation.run(args)


def _made(args: argparse.Namespace) -> Sequence[study.Item]:
    """Make the items under a progress bar on stderr, when someone is looking."""
    makers = study.reproduce(args.what, args.gpu)
    total = len(study.item_ids(args.gpu, args.what))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = terminal.console().__class__(stderr=True)
    items = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reproducing", total=total)
        for made in makers:
            items.append(made)
            progress.update(task, advance=1, description=made.id)
    return items
