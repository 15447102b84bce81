"""`sweep`, `tune` and `check`: many configurations, the best one, and a gate for continuous integration."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from warplens.cli.options import call_options, compiler_options, gpu_option, json_option
from warplens.core.errors import MissingField, WarplensError


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add these commands."""
    text = "predict a space of launches, macros, GPUs and models over many kernels"
    sweep = commands.add_parser("sweep", help=text, description=text)
    sweep.add_argument("spec", metavar="SPEC.toml", help="the space: docs/reference/sweep-file.md")
    sweep.add_argument("--out", metavar="FOLDER", help="results and journal (default: SPEC.sweep beside the file)")
    sweep.add_argument("--restart", action="store_true", help="throw away what an earlier run left there")
    sweep.add_argument("--engine", choices=("processes", "dask"), default="processes", help="where it runs")
    sweep.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    sweep.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, such as tcp://host:8786")
    _cache_options(sweep)
    sweep.add_argument("--json", action="store_true", help="print JSON instead of text")
    _tune_command(commands)
    _check_command(commands)


def _tune_command(commands: argparse._SubParsersAction[Any]) -> None:
    text = "the best launch and macros of a kernel by prediction, few of them emulated"
    tune = commands.add_parser("tune", help=text, description=text)
    tune.add_argument("spec", metavar="SPEC.toml", help="a space with one kernel: docs/reference/sweep-file.md")
    tune.add_argument(
        "--gpu", "--machine", dest="gpu", metavar="NAME", help="machine id, alias or file (default: the file's first)"
    )
    tune.add_argument("--model", default="warplens", help="a model's name (default: warplens)")
    tune.add_argument("--share", metavar="SHARE", help="of the space to emulate at most (default: 5%%, and five)")
    tune.add_argument("--top", type=int, default=5, metavar="K", help="candidates to show and measure (default: 5)")
    tune.add_argument("--measure", action="store_true", help="time the top ones on the GPU at hand")
    tune.add_argument("--workers", type=int, metavar="N", help="processes that compile (default: one per core)")
    _cache_options(tune)
    tune.add_argument("--json", action="store_true", help="print JSON instead of text")


def _cache_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cache", metavar="FOLDER", help="of compiled and emulated results (default: ~/.cache/warplens)"
    )
    command.add_argument("--no-cache", action="store_true", help="keep nothing, and take nothing from the cache")


def _check_command(commands: argparse._SubParsersAction[Any]) -> None:
    text = "fail (exit 1) where a kernel is too slow, or slower than it was, by the model"
    check = commands.add_parser("check", help=text, description=text)
    check.add_argument("file", nargs="?", metavar="FILE", help="a kernel's file or launch file, a saved workload, or "
                       "a profiler's report")  # fmt: skip
    call_options(check)
    check.add_argument("--max-time", metavar="TIME", help="such as 120us: the longest time allowed")
    check.add_argument(
        "--against", metavar="W.json", help="a workload that `analyze --save` kept, or a report: not slower"
    )
    check.add_argument("--tolerance", default="1%", metavar="SHARE", help="how much slower is allowed (default: 1%%)")
    gpu_option(check)
    check.add_argument("--model", help="a model's name (default: warplens, or the best one that can speak)")
    compiler_options(check)
    json_option(check)


def run(args: argparse.Namespace) -> int:
    """Run one of them."""
    return {"sweep": _sweep, "tune": _tune, "check": _check}[args.command](args)


def _cache(args: argparse.Namespace) -> str | None:
    from warplens.core.files import default_folder

    if args.no_cache and args.cache:
        raise WarplensError("--cache and --no-cache contradict each other")
    return None if args.no_cache else str(args.cache or default_folder())


def _sweep(args: argparse.Namespace) -> int:
    from warplens.cli.output import counting, show
    from warplens.report import sweeps
    from warplens.tuner import engines
    from warplens.tuner.run import run as run_sweep
    from warplens.tuner.spec import load_sweep

    sweep = load_sweep(args.spec)
    folder = Path(args.out) if args.out else Path(args.spec).with_suffix(".sweep")
    if (args.engine == "dask") != bool(args.scheduler):
        raise WarplensError("--engine dask and --scheduler ADDRESS go together")
    if args.workers is not None and (args.workers < 1 or args.engine == "dask"):
        raise WarplensError("--workers takes a whole number from 1 on, and is for processes")
    engine = engines.dask(args.scheduler) if args.engine == "dask" else engines.processes(args.workers)
    with counting("sweeping") as watch:
        outcome = run_sweep(sweep, folder, engine, cache=_cache(args), watch=watch, restart=args.restart)
    show(args, outcome, sweeps.outcome(outcome))
    return 1 if outcome.failed == outcome.points else 0  # nothing came of it


def _tune(args: argparse.Namespace) -> int:
    from warplens.advisor.differences import parse_share
    from warplens.cli.output import show, stages
    from warplens.core.cache import Cache
    from warplens.machine import load_machine
    from warplens.report import sweeps
    from warplens.tuner import engines, timing
    from warplens.tuner.spec import load_sweep
    from warplens.tuner.tune import tune

    sweep = load_sweep(args.spec)
    machine = load_machine(args.gpu or sweep.gpus[0])
    if args.top < 1:
        raise WarplensError(f"--top takes a whole number from 1 on, not {args.top}")
    measure = timing.on_gpu(machine) if args.measure else None  # no GPU: said before anything is compiled
    engine = engines.processes(args.workers)
    share = None if args.share is None else parse_share(args.share)
    with stages() as watch:
        found = tune(
            sweep, machine, model=args.model, share=share, cache=Cache(_cache(args)), engine=engine, watch=watch
        )
    timed = timing.measure(sweep, found, measure, args.top) if measure else []
    show(args, {**_fields(found), "measured": timed}, sweeps.tuned(found, timed, args.top))
    return 0


def _check(args: argparse.Namespace) -> int:
    from warplens import api
    from warplens.advisor.differences import gate, parse_share, parse_time
    from warplens.cli.ahead import options
    from warplens.cli.call import asked, names_kernel
    from warplens.cli.output import show, watching
    from warplens.core.units import printable, seconds

    limit = None if args.max_time is None else parse_time(args.max_time)
    tolerance, machine = parse_share(args.tolerance), api.load_machine(args.gpu)
    against = None if args.against is None else api.load_given(args.against, machine)
    if limit is None and against is None:
        raise WarplensError("nothing to check against: give --max-time, --against or both")
    if args.launch or (args.file and names_kernel(args)):
        file, call, load = asked(args, machine)
        with watching("analysing") as say:
            workload = api.analyze(
                file, call, machine, kernel=args.kernel, options=options(args, ""), load=load, progress=say
            )
    elif args.file:
        workload = api.load_given(args.file, machine)
    else:
        raise WarplensError("name a workload, a kernel's file or a launch file")
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
    show(args, {"passed": found.passed, **_fields(found), "why_not_ours": why}, lines)
    return 0 if found.passed else 1


def _fields(found: Any) -> dict[str, Any]:
    import msgspec

    return dict(msgspec.to_builtins(found))
