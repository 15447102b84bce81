"""Commands on one kernel's call: analyze, advise, whatif, diff and check."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from warplens import api
from warplens.api.analysis import Analysis
from warplens.api.counting import counted as count
from warplens.api.counting import load_any, load_report
from warplens.api.request import Request, load
from warplens.cli.call import counted, names_kernel, request_of
from warplens.cli.output import fields, one_or, show, watching, written
from warplens.core.errors import MissingField, WarplensError, refuse
from warplens.core.file_kinds import CODE, KINDS, kind_of
from warplens.core.units import printable, seconds
from warplens.machine import Machine
from warplens.report.terminal import headline
from warplens.workload import Workload

_MACHINE_KEY = "machine"  # of --set; gpu is its synonym, as of the option


def machines_of(args: argparse.Namespace, *, one: bool = False) -> list[Machine]:
    """Load the machines that the arguments name, or the `one` that a command takes."""
    names = [name.strip() for name in args.machine.split(",") if name.strip()]
    refuse(not names, "--machine names no machine; `warplens machine list` shows them")
    files = [f"--{option}" for option in ("html", "save") if getattr(args, option, None)]
    refuse(len(names) > 1 and (one or files), f"{args.command if one else ' and '.join(files)} takes one machine")
    return [api.load_machine(name) for name in names]


def analyze(args: argparse.Namespace) -> None:
    """Print the time of a kernel's call, what limits it and what would help; write what else is asked for."""
    machines = machines_of(args)
    shown_early = list[Analysis]()

    def early(found: Analysis) -> None:
        """Print the time as soon as it is there: other models take a moment more, and remedies can take seconds."""
        shown_early.append(found)
        show(args, {}, headline(found.prediction, found.call, found.machine))
        sys.stdout.flush()

    at_once = early if len(machines) == 1 and not (args.json or args.save or args.html) else None  # files come first
    answers = [found for machine in machines for found in _analyzed(args, machine, at_once)]
    if len(answers) > len(machines) and (args.html or args.save):
        raise WarplensError("--html and --save take one kernel: choose it by --kernel")
    from warplens.report import analysis, side_by_side  # not before the time is printed: they need all of the advisor

    parts = list[RenderableType]()
    for found in answers:
        parts += [] if shown_early else headline(found.prediction, found.call, found.machine)
        parts += analysis.rest(found.prediction, found.workload, found.advised)
    if len(machines) > 1:
        rows = [(found.machine, found.prediction, found.advised) for found in answers]
        silent = {f.machine.name: why for f in answers if (why := f.comparison.silent.get("warplens", ""))}
        parts = side_by_side.gpus(answers[-1].workload.name, rows, silent)
    if args.save:
        answers[0].workload.save(args.save)
    if args.html:
        answers[0].to_html(args.html)
    show(args, one_or("analyses", [found.to_dict() for found in answers] if args.json else []), parts)
    written(args, workload=args.save, report=args.html)


def _analyzed(args: argparse.Namespace, machine: Machine, early: Callable[[Analysis], None] | None) -> list[Analysis]:
    """Return the analysis of a call that is emulated, or those of all kernels of a profiler's report.

    `early` gets the first one as soon as its time is predicted.
    """
    answer = partial(Analysis, machine=machine, model=args.model, fast=args.fast)
    if str(args.file).endswith(".ncu-rep"):
        found = [answer(workload, call) for workload, call in load_report(args.file, machine, args.kernel)]
        if early is not None and len(found) == 1:
            early(found[0])
        return found
    effort: Any = "exact" if args.exact else "fast" if args.fast else "full"
    with contextlib.ExitStack() as stack:
        say = stack.enter_context(watching("analysing"))
        program, call = load(request_of(args), machine)
        first = list[Analysis]()

        def known(workload: Workload) -> None:
            stack.close()  # nothing else on the screen while the answer is printed
            if early is not None:
                first.append(answer(workload, call))
                early(first[0])

        workload = count(program, call, machine, effort, progress=say, early=known)
    return [first[0].of(workload) if first else answer(workload, call)]


def advise(args: argparse.Namespace) -> None:
    """Advise on one kernel on one machine."""
    from warplens.report import analysis

    [machine] = machines_of(args, one=True)
    workload = counted(args, machine)
    with watching("trying remedies"):
        found = api.advise(workload, machine)
    show(args, analysis.data(found), analysis.remedies(found, machine, everything=args.all))


def whatif(args: argparse.Namespace) -> None:
    """Predict with some numbers replaced, or on another machine, beside the prediction as it is."""
    from warplens.report import side_by_side as report
    from warplens.report import terminal
    from warplens.simulator.overlay import parse, refuse_twice

    [machine] = machines_of(args, one=True)
    if args.list:
        rows = [[key, about] for key, about in _settable().items()]
        return show(args, {"keys": _settable()}, [terminal.table(["--set", "what it is"], rows)])
    settings = [re.sub(r"^\s*gpu\s*=", f"{_MACHINE_KEY}=", text) for text in args.changes]
    refuse_twice(settings)
    changes = dict[str, float]()
    other: tuple[Workload, Machine] | None = None
    workload = counted(args, machine)
    for text in settings:
        key, _, value = text.partition("=")
        if key.strip() == _MACHINE_KEY:
            then = api.load_machine(value.strip())
            other = (counted(args, then) if names_kernel(args) else workload), then
        else:
            name, number = parse(text)
            changes[name] = number
    refuse(not changes and other is None, "say what to change: --set KEY=VALUE; `warplens whatif --list` has the keys")
    found = api.what_if(workload, machine, changes, model=args.model, other=other)
    show(args, report.data(found), report.what_if(found, machine, machine if other is None else other[1]))
    return None


def _settable() -> dict[str, str]:
    """Return every key that `--set` takes, with what it is."""
    from warplens.advisor.differences import OCCUPANCY
    from warplens.simulator.overlay import SETTABLE

    other = {_MACHINE_KEY: "another GPU, by id, alias or file; more changes are made to that one"}
    return {OCCUPANCY: "warps per SM", **SETTABLE, **other}


def diff(args: argparse.Namespace) -> None:
    """Compare two kernels: each a launch file with `:variant`, or a saved workload."""
    from warplens.report import side_by_side as report

    [machine] = machines_of(args, one=True)
    for text in (args.before, args.after):
        path = text.partition(":")[0]
        if (kind := kind_of(path)) in CODE:  # has no call
            hint = f"diff takes launch files; `warplens init {path}` writes one"
            raise WarplensError(f"{path}: {KINDS[kind][0]}: {hint}")
    both = (args.before, args.after)
    before, after = (_side(text, machine) for text in both)
    found = api.diff(before, after, machine)
    names = [Path(text).name.replace(".toml:", ".").removesuffix(".toml").removesuffix(".json") for text in both]
    show(args, report.data(found), report.difference(found, (names[0], names[1]), machine))


def _side(text: str, machine: Machine) -> Workload:
    """Return the workload of `L.toml`, `L.toml:VARIANT`, a saved `W.json` or a profiler's report."""
    path, _, variant = text.partition(":")
    if kind_of(path) in ("workload", "report") or path in api.list_workloads():
        return load_any(path, machine)
    if path.endswith(".json"):
        return load_any(path, machine)  # says what is wrong with it
    request = Request(launch=api.load_launch(path, variant))
    with watching("analysing") as say:
        return count(*load(request, machine), machine, progress=say)


def check(args: argparse.Namespace) -> int:
    """Fail where a kernel is slower than a limit or than another workload, by the model."""
    from warplens.advisor.differences import gate, parse_share, parse_time

    limit = None if args.max_time is None else parse_time(args.max_time)
    tolerance, [machine] = parse_share(args.tolerance), machines_of(args, one=True)
    against = None if args.against is None else load_any(args.against, machine)
    refuse(limit is None and against is None, "nothing to check against: give --max-time, --against or both")
    refuse(args.file is None and args.launch is None, "name a workload, a kernel's file or a launch file")
    workload = counted(args, machine)
    ask = partial(gate, workload, machine, max_seconds=limit, against=against, tolerance=tolerance)
    why = ""
    try:
        found = ask(args.model or "warplens")
    except MissingField as error:  # a workload without what our model needs
        other = None if args.model else api.compare(workload, machine).headline
        if other is None:
            raise
        found, why = ask(other.model), str(error)
    not_ours = f" (not by our own model: {why})" if why else ""
    head = f"{found.kernel} on {machine.name}"
    lines = [f"ok: {head}: {seconds(found.seconds)} by {found.model}{not_ours}, limited by {found.bound}"]
    lines = [f"too slow: {head}: {reason}{not_ours}" for reason in found.reasons] or lines
    lines += [f"note: {printable(note)}" for note in found.notes]
    show(args, {"passed": found.passed, **fields(found), "why_not_ours": why}, lines)
    return 0 if found.passed else 1
