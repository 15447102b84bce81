"""Commands on many configurations and on the papers: reproduce, validate, sweep and tune."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import RenderableType

from warplens import api, papers
from warplens.advisor.differences import parse_share
from warplens.cli.output import counting, fields, show, stages, watching, written
from warplens.core.cache import Cache
from warplens.core.errors import WarplensError, refuse
from warplens.core.files import default_folder, write_whole
from warplens.machine import Machine
from warplens.models.warplens import intervals
from warplens.papers.report import items, ladders, mixes
from warplens.papers.report import validation as tables
from warplens.papers.validation import coverage
from warplens.papers.validation.ablation import ablate
from warplens.papers.validation.from_ncu import validate_ncu
from warplens.papers.validation.kernel_errors import OURS, validate_kernels
from warplens.papers.validation.ladders import climb
from warplens.papers.validation.mixes import judge, model_error
from warplens.papers.validation.stalls import validate_stalls
from warplens.papers.validation.tuning import validate_tuning
from warplens.program.toolchain import prefer_wheels
from warplens.report import side_by_side
from warplens.tuner import run as runner
from warplens.tuner import timing
from warplens.tuner.spec import load_sweep
from warplens.tuner.tune import tune as tune_space

_OF_KERNELS = ("models", "calibrate", "ablation", "ncu", "stalls", "unblind", "every", "processes")

_ABLATED = 4  # every so many launches: each of them is predicted with each mechanism switched off


def validate(args: argparse.Namespace) -> None:
    """Print each model's errors over the measurements that ship."""
    prefer_wheels()  # what the published figures are made with
    machine = api.load_machine(args.machine)
    if args.html is not None:
        refuse(args.ladders or args.tuning is not None, "--html is for the mixes and --kernels")
        if not args.html or Path(args.html).is_dir() or not Path(args.html).absolute().parent.is_dir():
            raise WarplensError(f"--html {args.html}: no file can be written there")  # before minutes of work
    refuse(args.simulate and (args.kernels or args.ladders or args.tuning is not None), "--simulate is for the mixes")
    if args.tuning is not None:
        _refuse_those_of_kernels(args, but="unblind")
        return _tuning(args, machine)
    if args.ladders:
        refuse(args.kernels, "--kernels and --ladders go one at a time")
        _refuse_those_of_kernels(args, but="unblind")
        with counting("advising") as watch:
            climbed = climb(machine.id, watch=watch)
        return show(args, ladders.data(climbed, unblind=args.unblind), ladders.answer(climbed, unblind=args.unblind))
    if not args.kernels:
        return _mixes(args, machine)
    every, processes = (_positive(args, name, default) for name, default in (("every", 1), ("processes", 2)))
    if args.calibrate and (every > 1 or args.models):
        raise WarplensError("--calibrate takes all launches and our own models: leave out --every and --models")
    others = args.ablation + args.ncu + args.stalls
    if args.calibrate + others > 1 or (args.html and others):
        alone = "--calibrate, --ablation, --ncu and --stalls go one at a time"
        raise WarplensError(f"{alone}, the last three without --html")
    chosen = None if args.models is None else [name.strip() for name in args.models.split(",") if name.strip()]
    names = list(OURS) if args.calibrate else chosen
    if args.ablation:
        return _ablation(args, machine, (names or [OURS[0]])[0], processes)
    if args.stalls:
        with counting("simulating") as watch:
            seen = validate_stalls(machine.id, every=every, watch=watch)
        return show(args, tables.stall_data(seen, unblind=args.unblind), tables.stalls(seen))
    if args.ncu:
        with counting("predicting") as watch:
            compared = validate_ncu(machine.id, names, every=every, processes=processes, watch=watch)
        return show(args, {"machine": machine.id, "errors": compared}, [tables.error_table(compared)])
    with counting("predicting") as watch:
        found = validate_kernels(machine.id, names, every=every, processes=processes, watch=watch)
    if args.html:
        write_whole(Path(args.html), tables.page(found, machine))
    if args.calibrate:
        coverage.save(coverage.calibrate(machine.id, found.points, "warplens validate --kernels --calibrate"))
        found = replace(found, outdated=[])
    show(args, tables.data(found, unblind=args.unblind), tables.answer(found, machine, unblind=args.unblind))
    return written(args, pictures=args.html, calibration=intervals.FILE if args.calibrate else None)


def _refuse_those_of_kernels(args: argparse.Namespace, but: str = "") -> None:
    """Refuse options that only the validation by kernels knows."""
    for option in _OF_KERNELS:
        given = getattr(args, option)
        refuse(option != but and given is not None and given is not False, f"--{option} is for --kernels")


def _mixes(args: argparse.Namespace, machine: Machine) -> None:
    _refuse_those_of_kernels(args)
    judged = judge(machine, simulated=args.simulate)
    errors = [model_error(each, machine) for each in judged]
    if args.html:
        write_whole(Path(args.html), mixes.page(judged, errors, machine))
    show(args, {"machine": machine.id, "errors": errors}, mixes.answer(errors, machine))
    written(args, pictures=args.html)


def _tuning(args: argparse.Namespace, machine: Machine) -> None:
    with stages() as watch:
        found = validate_tuning(
            machine.id, args.tuning, cache=str(default_folder()), engine=runner.processes(args.processes), watch=watch
        )
    show(args, {"machine": machine.id, "tuning": found}, ladders.tuning(found, machine))


def _ablation(args: argparse.Namespace, machine: Machine, model: str, processes: int) -> None:
    every = _positive(args, "every", _ABLATED)
    with counting("predicting") as watch:
        found = ablate(machine.id, model, every=every, processes=processes, watch=watch)
    data = {"machine": machine.id, "model": model, "every": every, "ablation": found}
    show(args, data, tables.ablation(found, model, every))


def _positive(args: argparse.Namespace, name: str, default: int) -> int:
    value = getattr(args, name)
    refuse(value is not None and value < 1, f"--{name} takes a whole number from 1 on, not {value}")
    return default if value is None else int(value)


def reproduce(args: argparse.Namespace) -> None:
    """Print the papers' tables and figures: ours, theirs, difference."""
    if args.list:
        ids = papers.item_ids(args.machine)
        return show(args, {"items": ids}, ids)
    found = _reproduced(args)
    entries = papers.entries(found, args.what) if args.machine is None and not args.disagreements else []
    if args.html:
        write_whole(Path(args.html), items.page(found, args.machine, entries))
    parts: list[RenderableType] = []
    for it in found:
        if not args.disagreements or any(row.verdict == "differs" for row in it.rows):
            parts += items.item(it, all_rows=not args.disagreements)
    counts = papers.counts(found)
    if args.machine is None and any(counts.values()):  # our own tables compare with no paper
        parts += [*(items.contents(entries) if entries else []), "", items.verdicts(counts)]
    verdicts = [[{"what": r.what, "verdict": r.verdict} for r in it.rows] for it in found]
    show(args, {"items": found, "verdicts": verdicts, "counts": counts, "contents": entries}, parts)
    return written(args, pictures=args.html)


def _reproduced(args: argparse.Namespace) -> Sequence[papers.Item]:
    """Reproduce the items under a progress bar on stderr, where that is a terminal."""
    makers, total = papers.reproduce(args.what, args.machine), len(papers.item_ids(args.machine, args.what))
    found = list[papers.Item]()
    with watching("reproducing") as say:
        for item in makers:
            found.append(item)
            say(f"{item.id}, {len(found)} of {total}")
    return found


def _cache(args: argparse.Namespace) -> str | None:
    """Return the folder of what is kept."""
    refuse(args.no_cache and args.cache, "--cache and --no-cache contradict each other")
    return None if args.no_cache else str(args.cache or default_folder())


def sweep(args: argparse.Namespace) -> int:
    """Predict a space of configurations, and keep the results in a folder."""
    sweep = load_sweep(args.spec)
    folder = Path(args.out) if args.out else Path(args.spec).with_suffix(".sweep")
    refuse((args.engine == "dask") != bool(args.scheduler), "--engine dask and --scheduler ADDRESS go together")
    if args.workers is not None and (args.workers < 1 or args.engine == "dask"):
        raise WarplensError("--workers takes a whole number from 1 on, and is for processes")
    engine = runner.dask(args.scheduler) if args.engine == "dask" else runner.processes(args.workers)
    with counting("sweeping") as watch:
        outcome = runner.run(sweep, folder, engine, cache=_cache(args), watch=watch, restart=args.restart)
    show(args, outcome, side_by_side.outcome(outcome))
    return 1 if outcome.failed == outcome.points else 0  # nothing came of it


def tune(args: argparse.Namespace) -> int:
    """Find the best launch and macros of a kernel by prediction."""
    sweep = load_sweep(args.spec)
    machine = api.load_machine(args.machine or sweep.gpus[0])
    refuse(args.top < 1, f"--top takes a whole number from 1 on, not {args.top}")
    measure = timing.on_gpu(machine) if args.measure else None  # no GPU: said before anything is compiled
    refuse(
        args.workers is not None and args.workers < 1, f"--workers takes a whole number from 1 on, not {args.workers}"
    )
    engine = runner.processes(args.workers)
    share = None if args.share is None else parse_share(args.share)
    with stages() as watch:
        found = tune_space(
            sweep, machine, model=args.model, share=share, cache=Cache(_cache(args)), engine=engine, watch=watch
        )
    timed = timing.measure(sweep, found.candidates, measure, args.top) if measure else []
    as_fast = found.as_fast({m.candidate.number: m.seconds for m in timed})
    show(args, {**fields(found), "as_fast": as_fast, "measured": timed}, side_by_side.tuned(found, timed, args.top))
    return 0
