"""Commands on machines, workloads and models: machine list, show and check, workload, models, predict and compare."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens import api
from warplens.cli.closer import workload_and_machines
from warplens.cli.output import one_or, show, written
from warplens.core.errors import WarplensError
from warplens.core.files import write_whole
from warplens.machine import evidence
from warplens.machine.loader import load_file
from warplens.machine.review import review
from warplens.report import terminal
from warplens.report.data import to_json
from warplens.report.page.models import comparison


def machine_list(args: argparse.Namespace) -> None:
    """List the machines that ship with warplens."""
    machines = api.list_machines()
    summary = [
        {"id": m.id, "name": m.name, "architecture": m.architecture, "aliases": m.aliases, "evidence": evidence(m),
         "base": m.base}
        for m in machines
    ]  # fmt: skip
    show(args, {"machines": summary}, terminal.machines(machines))


def machine_show(args: argparse.Namespace) -> None:
    """Print the important numbers of a machine, or all of them."""
    machine = api.load_machine(args.name)
    keys = list(machine.sources) if args.all else terminal.important(machine)
    show(args, machine, terminal.machine(machine, keys))


def machine_check(args: argparse.Namespace) -> int:
    """Check machine files: sources, units, ranges and keys."""
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
    fine = {name: text for name, text in results.items() if name not in wrong}
    good = [line for name, text in fine.items() for line in (f"{name}: {text}", *(f"  {r}" for r in remarks[name]))]
    if wrong and not args.json:
        terminal.console().print(*good, sep="\n", markup=False) if good else None
        raise WarplensError("; ".join(wrong.values()))
    show(args, {"files": results, "remarks": {name: found for name, found in remarks.items() if found}}, good)
    return 2 if wrong else 0


def workload_list(args: argparse.Namespace) -> None:
    """List the workloads that ship with warplens."""
    sources = {name: api.load_workload(name).source for name in api.list_workloads()}
    rows = [[name, source] for name, source in sources.items()]
    show(args, {"workloads": sources}, [terminal.table(["workload", "source"], rows)])


def workload_show(args: argparse.Namespace) -> None:
    """Print the counts of a workload, as a file of workloads has them."""
    workload = api.load_workload(args.name, alpha=args.alpha)
    if args.save:
        workload.save(args.save)
    show(args, {"workload": workload}, [to_json(workload)])


def models(args: argparse.Namespace) -> None:
    """List the models."""
    found = api.list_models()
    rows = [[name, about] for name, about in found.items()]
    show(args, {"models": found}, [terminal.table(["model", "what it is"], rows)])


def predict(args: argparse.Namespace) -> None:
    """Predict a workload's time with one model, or compare all."""
    if args.model == "all":
        return compare(args)
    workload, machines = workload_and_machines(args)
    found = [api.predict(workload, m, args.model, warps_per_sm=args.warps) for m in machines]
    parts = [part for p, m in zip(found, machines, strict=True) for part in terminal.prediction(p, workload, m)]
    return show(args, {"prediction": found[0]} if len(found) == 1 else {"predictions": found}, parts)


def compare(args: argparse.Namespace) -> None:
    """Put all models side by side."""
    workload, machines = workload_and_machines(args, count=True)
    found = [api.compare(workload, m, warps_per_sm=args.warps) for m in machines]
    for c in found:
        if not c.predictions:
            why = next(iter(c.silent.values()))
            raise WarplensError(f"no model can speak about {c.workload} on {c.machine}: {why}")
    html = getattr(args, "html", None)
    if html:
        write_whole(Path(html), comparison(found[0], workload, machines[0]))
    parts = [part for c, m in zip(found, machines, strict=True) for part in [*terminal.comparison(c, m), ""]]
    show(args, one_or("comparisons", found), parts[:-1])
    written(args, report=html)
