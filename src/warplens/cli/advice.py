"""`warplens advise`, `whatif` and `diff`: what to change in a kernel, what a change does, what has changed."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens import api
from warplens.advisor.differences import GPU, OCCUPANCY
from warplens.cli.call import asked, names_kernel
from warplens.cli.output import show, watching
from warplens.core.errors import WarplensError
from warplens.core.file_kinds import CODE, KINDS, kind_of
from warplens.machine import Machine
from warplens.report import advice
from warplens.report import whatif as report
from warplens.report.terminal import table
from warplens.simulator.overlay import SETTABLE, parse, refuse_twice
from warplens.workload import Workload


def counted(args: argparse.Namespace, machine: Machine, options: api.Options) -> Workload:
    """Return the workload of a saved file or a profiler's report, or count the kernel that is called."""
    if args.launch is None and args.file is not None and not names_kernel(args):
        return api.load_given(args.file, machine)
    file, call, load = asked(args, machine)
    with watching("analysing") as say:
        return api.analyze(
            file, call, machine, kernel=args.kernel, options=options, load=load or args.load, progress=say
        )


def advise(args: argparse.Namespace, machine: Machine, options: api.Options) -> None:
    """Advise on one kernel on one GPU."""
    workload = counted(args, machine, options)
    with watching("trying remedies"):
        made = api.advise(workload, machine)
    show(args, advice.data(made), advice.answer(made, machine, everything=args.all))


def whatif(args: argparse.Namespace, machine: Machine, options: api.Options) -> None:
    """Predict with some numbers replaced, or on another GPU, beside the prediction as it is."""
    if args.list:
        return show(args, settable(), [table(["--set", "what it is"], [[k, v] for k, v in settable().items()])])
    refuse_twice(args.changes)
    changes = dict[str, float]()
    other: tuple[Workload, Machine] | None = None
    workload = counted(args, machine, options)
    for text in args.changes:
        key, _, value = text.partition("=")
        if key.strip() == "gpu":
            gpu, args.load = api.load_machine(value.strip()), None
            other = (counted(args, gpu, options) if names_kernel(args) else workload), gpu
        else:
            name, number = parse(text)
            changes[name] = number
    if not changes and other is None:
        raise WarplensError("say what to change: --set KEY=VALUE; `warplens whatif --list` has the keys")
    found = api.what_if(workload, machine, changes, model=args.model, other=other)
    show(args, report.data(found), report.what_if(found, machine, machine if other is None else other[1]))
    return None


def settable() -> dict[str, str]:
    """Return every key that `--set` takes, with what it is."""
    return {
        OCCUPANCY: "warps per SM", **SETTABLE,
        GPU: "another GPU, by id, alias or file; more changes are made to that one",
    }  # fmt: skip


def diff(args: argparse.Namespace, machine: Machine) -> None:
    """Compare two kernels: each a launch file with `:variant`, or a saved workload."""
    for text in (args.before, args.after):
        _check_side(text)
    a, b = (_side(text, machine) for text in (args.before, args.after))
    found = api.diff(a, b, machine)
    names = tuple(
        Path(text).name.replace(".toml:", ".").removesuffix(".toml").removesuffix(".json")
        for text in (args.before, args.after)
    )
    show(args, report.data(found), report.difference(found, (names[0], names[1]), machine))


def _check_side(text: str) -> None:
    """Refuse a kernel's file: it has no call."""
    path = text.partition(":")[0]
    if (kind := kind_of(path)) in CODE:
        raise WarplensError(f"{path}: {KINDS[kind][0]}: diff takes launch files; `warplens init {path}` writes one")


def _side(text: str, machine: Machine) -> Workload:
    """Return the workload of `L.toml`, `L.toml:VARIANT`, a saved `W.json` or a profiler's report."""
    path, _, variant = text.partition(":")
    kind = kind_of(path)
    if kind in ("workload", "report") or path in api.list_workloads():
        return api.load_given(path, machine)
    call = api.load_launch(path, variant)
    with watching("analysing") as say:
        return api.analyze(None, call, machine, progress=say)
