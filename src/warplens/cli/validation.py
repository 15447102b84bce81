"""`warplens validate`: the models against the measurements that ship."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace

from warplens import api
from warplens.cli.output import counting, show, stages
from warplens.core.errors import WarplensError
from warplens.core.files import default_folder, write_whole
from warplens.machine import Machine
from warplens.models.warplens import intervals
from warplens.papers.report import ladders, mixes, validation
from warplens.papers.validation import coverage
from warplens.papers.validation.ablation import ablate
from warplens.papers.validation.from_ncu import validate_ncu
from warplens.papers.validation.kernel_errors import OURS, validate_kernels
from warplens.papers.validation.ladders import climb
from warplens.papers.validation.mixes import judge, model_error
from warplens.papers.validation.stalls import validate_stalls
from warplens.papers.validation.tuning import validate_tuning
from warplens.program.toolchain import prefer_wheels
from warplens.tuner.engines import processes

_OF_KERNELS = ("models", "calibrate", "ablation", "ncu", "stalls", "unblind", "every", "processes")

_ABLATED = 4  # every so many launches: each of them is predicted with each mechanism switched off


def run(args: argparse.Namespace) -> None:
    """Validate as the options say."""
    prefer_wheels()  # what the published figures are made with
    machine = api.load_machine(args.gpu)
    if args.html is not None:
        if args.ladders or args.tuning is not None:
            raise WarplensError("--html is for the mixes and --kernels")
        if not args.html or Path(args.html).is_dir() or not Path(args.html).absolute().parent.is_dir():
            raise WarplensError(f"--html {args.html}: no file can be written there")  # before minutes of work
    if args.simulate and (args.kernels or args.ladders or args.tuning is not None):
        raise WarplensError("--simulate is for the mixes")
    if args.tuning is not None:
        return _tuning(args, machine)
    if args.ladders:
        return _ladders(args, machine)
    if not args.kernels:
        return _mixes(args, machine)
    every, processes = (_positive(args, name, default) for name, default in (("every", 1), ("processes", 2)))
    if args.calibrate and (every > 1 or args.models):
        raise WarplensError("--calibrate takes all launches and our own models: leave out --every and --models")
    others = args.ablation + args.ncu + args.stalls
    if args.calibrate + others > 1 or (args.html and others):
        raise WarplensError(
            "--calibrate, --ablation, --ncu and --stalls go one at a time, the last three without --html"
        )
    names = list(OURS) if args.calibrate else _names(args)
    if args.ablation:
        return _ablation(args, machine, (names or [OURS[0]])[0], processes)
    if args.stalls:
        with counting("simulating") as watch:
            seen = validate_stalls(machine.id, every=every, watch=watch)
        return show(args, validation.stall_data(seen, unblind=args.unblind), validation.stalls(seen))
    if args.ncu:
        with counting("predicting") as watch:
            compared = validate_ncu(machine.id, names, every=every, processes=processes, watch=watch)
        return show(args, {"gpu": machine.id, "errors": compared}, [validation.error_table(compared)])
    with counting("predicting") as watch:
        found = validate_kernels(machine.id, names, every=every, processes=processes, watch=watch)
    if args.html:
        write_whole(Path(args.html), validation.page(found, machine))
    if args.calibrate:
        coverage.save(coverage.calibrate(machine.id, found.points, "warplens validate --kernels --calibrate"))
        found = replace(found, outdated=[])
    show(args, validation.data(found, unblind=args.unblind), validation.answer(found, machine, unblind=args.unblind))
    _written(args, "pictures", args.html)
    return _written(args, "calibration", intervals.FILE if args.calibrate else None)


def _mixes(args: argparse.Namespace, machine: Machine) -> None:
    for option in _OF_KERNELS:
        given = getattr(args, option)
        if given is not None and given is not False:
            raise WarplensError(f"--{option} is for --kernels")
    judged = judge(machine, simulated=args.simulate)
    errors = [model_error(each, machine) for each in judged]
    if args.html:
        write_whole(Path(args.html), mixes.page(judged, errors, machine))
    show(args, {"gpu": machine.id, "errors": errors}, mixes.answer(errors, machine))
    _written(args, "pictures", args.html)


def _written(args: argparse.Namespace, what: str, path: Path | str | None) -> None:
    if path and not args.json:
        print(f"{what}: {path}")


def _tuning(args: argparse.Namespace, machine: Machine) -> None:
    with stages() as watch:
        found = validate_tuning(
            machine.id, args.tuning, cache=str(default_folder()), engine=processes(args.processes), watch=watch
        )
    show(args, {"gpu": machine.id, "tuning": found}, ladders.tuning(found, machine))


def _ladders(args: argparse.Namespace, machine: Machine) -> None:
    if args.kernels:
        raise WarplensError("--kernels and --ladders go one at a time")
    with counting("advising") as watch:
        found = climb(machine.id, watch=watch)
    show(args, ladders.data(found, unblind=args.unblind), ladders.answer(found, unblind=args.unblind))


def _ablation(args: argparse.Namespace, machine: Machine, model: str, processes: int) -> None:
    every = _positive(args, "every", _ABLATED)
    with counting("predicting") as watch:
        found = ablate(machine.id, model, every=every, processes=processes, watch=watch)
    data = {"gpu": machine.id, "model": model, "every": every, "ablation": found}
    show(args, data, validation.ablation(found, model, every))


def _names(args: argparse.Namespace) -> list[str] | None:
    return None if args.models is None else [name.strip() for name in args.models.split(",") if name.strip()]


def _positive(args: argparse.Namespace, name: str, default: int) -> int:
    value = getattr(args, name)
    if value is not None and value < 1:
        raise WarplensError(f"--{name} takes a whole number from 1 on, not {value}")
    return default if value is None else int(value)
