"""`warplens analyze`: from a kernel and its call to the first screen, the time before all else."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import RenderableType

from warplens import api
from warplens.cli.ahead import options
from warplens.cli.call import asked
from warplens.cli.output import show, watching
from warplens.core.errors import WarplensError
from warplens.core.files import write_whole
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.report.data import to_json
from warplens.report.terminal import headline
from warplens.workload import Workload

_MOST_CODE = 40_000  # instructions of all remedies that are tried: twenty of a kernel of a thousand


def machines_of(args: argparse.Namespace) -> list[Machine]:
    """Load the GPUs that the arguments name."""
    names = [name.strip() for name in args.gpu.split(",") if name.strip()]
    if not names:
        raise WarplensError("--gpu names no machine; `warplens machine list` shows them")
    return [api.load_machine(name) for name in names]


def run(args: argparse.Namespace) -> int:
    """Print the time of a kernel's call, what limits it and what would help; write what else is asked for."""
    machines = machines_of(args)
    if len(machines) > 1 and (args.html or args.save):
        raise WarplensError("--html and --save take one GPU")
    data, parts = [], list[RenderableType]()
    several: list[tuple[Machine, Prediction, api.Advised | None]] = []  # said here, `Advised` is not imported yet
    silent = dict[str, str]()
    shown_early = list[Prediction]()

    def early(workload: Workload, call: api.KernelCall) -> None:
        """Print the time as soon as it is there: other models take a moment more, and remedies can take seconds."""
        shown_early.append(_ours(args, workload, machines[0]) or _answered(args, workload, machines[0])[1])
        show(args, None, headline(shown_early[0], call, machines[0]))
        sys.stdout.flush()

    at_once = early if len(machines) == 1 and not (args.json or args.save or args.html) else None  # files come first
    works = [(m, *work) for m in machines for work in _counted(args, m, at_once)]
    if len(works) > len(machines) and (args.html or args.save):
        raise WarplensError("--html and --save take one kernel: choose it by --kernel")
    from warplens.report import analysis, whatif  # not before the time is printed: they need all of the advisor
    from warplens.report.page import content

    for m, workload, call in works:
        comparison, answer = _answered(args, workload, m, *shown_early)
        top = [] if shown_early else headline(answer, call, m)
        advised = _advised(workload, m, comparison)
        shown = content.gather(answer, comparison, workload, m, advised) if args.json or args.html else None
        data.append(analysis.data(answer, comparison, workload, m, advised, shown))
        several.append((m, answer, advised))
        silent |= {m.name: why} if (why := comparison.silent.get("warplens", "")) else {}
        parts += [*top, *analysis.rest(answer, workload, advised)]
    if len(machines) > 1:
        parts = whatif.gpus(workload.name, several, silent)
    if args.save:
        workload.save(args.save)
    if args.html:
        from warplens.report.page.frame import page

        assert shown is not None
        write_whole(Path(args.html), page(shown, to_json(data[0])))
    show(args, data[0] if len(data) == 1 else data, parts)
    for what, path in (("workload", args.save), ("report", args.html)):
        if path and not args.json:
            print(f"{what}: {path}")
    return 0


def _ours(args: argparse.Namespace, workload: Workload, machine: Machine) -> Prediction | None:
    """Return our own model's answer, where it is the one to be shown."""
    if args.model:
        return None
    try:
        answer = api.predict(workload, machine, "warplens-fast" if args.fast else "warplens")
    except WarplensError:
        return None
    return None if answer.seconds is None else answer


def _answered(
    args: argparse.Namespace, workload: Workload, machine: Machine, known: Prediction | None = None
) -> tuple[api.Comparison, Prediction]:
    """Return what every model says, and the answer: of the model that was asked for, or the most complete one."""
    comparison = api.compare(workload, machine, simulated=not args.fast, known=known)
    answer = api.predict(workload, machine, args.model) if args.model else comparison.headline
    if answer is None:
        why = next(iter(comparison.silent.values()), "no model speaks")
        raise WarplensError(f"no model gives a time for {workload.name} on {machine.name}: {why}")
    return comparison, answer


def _counted(
    args: argparse.Namespace, machine: Machine, early: Callable[[Workload, api.KernelCall], None] | None
) -> list[tuple[Workload, api.KernelCall]]:
    """Return the workload of a call that is emulated, or all those of a profiler's report.

    `early` gets the emulated one as soon as its time can be predicted.
    """
    if str(args.file).endswith(".ncu-rep"):
        found = api.load_report(args.file, machine, args.kernel)
        if early is not None and len(found) == 1:
            early(*found[0])
        return found
    file, call, load = asked(args, machine)
    with contextlib.ExitStack() as stack:
        say = stack.enter_context(watching("analysing"))

        def known(workload: Workload) -> None:
            stack.close()  # nothing else on the screen while the answer is printed
            if early is not None:
                early(workload, call)

        workload = api.analyze(
            file, call, machine, kernel=args.kernel, options=options(args, ""), exact=args.exact,
            brisk=args.fast,
            load=load or args.load, progress=say, early=known,
        )  # fmt: skip
    return [(workload, call)]


def _advised(workload: Workload, machine: Machine, comparison: api.Comparison) -> api.Advised | None:
    """Return the advice where our own model speaks."""
    base = comparison.predictions.get("warplens")
    return None if base is None else api.advise(workload, machine, base=base, most_code=_MOST_CODE)
