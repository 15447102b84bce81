"""`warplens advise`, `whatif` and `diff`: what to change in a kernel, what a change does, what has changed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from warplens import api
from warplens.cli.output import show, watching
from warplens.errors import WarplensError
from warplens.kernel import Workload
from warplens.kernel.program import Program
from warplens.machine import Machine
from warplens.report import advice
from warplens.report import whatif as report
from warplens.simulate.overlay import parse


def counted(args: argparse.Namespace, machine: Machine, options: api.Options) -> Workload:
    """Return the workload of a saved file, or count the kernel of a launch file."""
    return _workload(args.file, args.launch, args.variant, args.kernel, machine, options, args.load)


def _workload(
    file: str | None,
    launch: str | None,
    variant: str,
    kernel: str | None,
    machine: Machine,
    options: api.Options,
    load: Callable[[], Program | None] | None = None,
) -> Workload:
    if launch is None:
        if file is None or (Path(file).suffix not in (".json", ".toml") and file not in api.list_workloads()):
            raise WarplensError("give --launch L.toml, or a workload saved by `warplens analyze --save`")
        return api.load_workload(file)
    with watching("analysing") as say:
        call = api.load_launch(launch, variant)
        return api.analyze(file, call, machine, kernel=kernel, options=options, load=load, progress=say)


def advise(args: argparse.Namespace, machine: Machine, options: api.Options) -> None:
    """Advise on one kernel on one GPU."""
    workload = counted(args, machine, options)
    with watching("trying remedies"):
        made = api.advise(workload, machine)
    show(args, advice.data(made), advice.answer(made, machine, everything=args.all))


def whatif(args: argparse.Namespace, machine: Machine, options: api.Options) -> None:
    """Predict with some numbers replaced, or on another GPU, beside the prediction as it is."""
    changes = dict[str, float]()
    other: tuple[Workload, Machine] | None = None
    workload = counted(args, machine, options)
    for text in args.changes:
        key, _, value = text.partition("=")
        if key.strip() == "gpu":
            gpu, args.load = api.load_machine(value.strip()), None
            other = (counted(args, gpu, options) if args.launch else workload), gpu
        else:
            name, number = parse(text)
            changes[name] = number
    if not changes and other is None:
        raise WarplensError("say what to change: --set KEY=VALUE, such as machine.sms=144, occupancy=32 or gpu=a100")
    found = api.what_if(workload, machine, changes, model=args.model, other=other)
    show(args, report.data(found), report.what_if(found))


def diff(args: argparse.Namespace, machine: Machine) -> None:
    """Compare two kernels: each a launch file with `:variant`, or a saved workload."""
    a, b = (_side(text, machine) for text in (args.before, args.after))
    found = api.diff(a, b, machine)
    names = tuple(
        Path(text).name.replace(".toml:", ".").removesuffix(".toml").removesuffix(".json")
        for text in (args.before, args.after)
    )
    show(args, report.data(found), report.difference(found, (names[0], names[1]), machine))


def _side(text: str, machine: Machine) -> Workload:
    """Return the workload of `L.toml`, `L.toml:VARIANT` or a saved `W.json`."""
    path, _, variant = text.partition(":")
    if Path(path).suffix == ".json":
        return api.load_workload(path)
    return _workload(None, path, variant, None, machine, api.Options())
