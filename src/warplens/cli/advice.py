"""`warplens advise`: what to change in a kernel, and what it would buy."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens import api
from warplens.cli.output import show, watching
from warplens.errors import WarplensError
from warplens.kernel import Workload
from warplens.machine import Machine
from warplens.report import advice


def counted(args: argparse.Namespace, machine: Machine, options: api.Options) -> Workload:
    """Return the workload of a saved file, or count the kernel of a launch file."""
    given = args.file
    if args.launch is None:
        if given is None or Path(given).suffix not in (".json", ".toml"):
            raise WarplensError("give --launch L.toml, or a workload saved by `warplens analyze --save`")
        return api.load_workload(given)
    with watching("analysing") as say:
        call = api.load_launch(args.launch, args.variant)
        return api.analyze(given, call, machine, kernel=args.kernel, options=options, progress=say)


def advise(args: argparse.Namespace, machine: Machine, options: api.Options) -> None:
    """Advise on one kernel on one GPU."""
    workload = counted(args, machine, options)
    with watching("trying remedies"):
        made = api.advise(workload, machine)
    show(args, advice.data(made), advice.answer(made, machine))
