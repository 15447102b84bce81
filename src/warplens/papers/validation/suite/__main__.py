"""Command line of the suite: `python -m warplens.papers.validation.suite COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from warplens.core.errors import WarplensError
from warplens.papers.validation import suite
from warplens.papers.validation.suite import build, count, results, run, tuning
from warplens.papers.validation.suite.build import ROOT, SUITE
from warplens.program.toolchain import prefer_wheels


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m warplens.papers.validation.suite", description=suite.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    for name, out in (
        ("build", "build/launches"),
        ("build-triton", SUITE / "triton"),
        ("build-tuning", "build/tuning"),
    ):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, default=Path(out))
        command.add_argument("--arch", default="sm_90")
        command.add_argument("--folder", type=Path, default=ROOT / "examples")
        command.add_argument("--only", nargs="+", metavar="SPACE", default=[])
    for name, index, repetitions in (
        ("run", "build/launches/index.json", 20),
        ("run-tuning", "build/tuning/index.json", 8),
    ):
        command = commands.add_parser(name)
        kind = command.add_mutually_exclusive_group(required=name == "run")
        for each in run.KINDS if name == "run" else ():
            kind.add_argument(f"--{each}", dest="kind", action="store_const", const=each)
        command.add_argument("--index", type=Path, default=Path(index))
        command.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "build/results")))
        command.add_argument("--only", nargs="+", metavar="PATTERN", default=[])
        command.add_argument("--repetitions", type=int, default=repetitions)
        command.add_argument("--dry-run", action="store_true")
    for name in ("durations", "counters", "rules"):
        command = commands.add_parser(name)
        command.add_argument("folders", type=Path, nargs="+" if name != "rules" else 1, metavar="FOLDER")
        command.add_argument("result", type=Path)
    command = commands.add_parser("keep")
    command.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    command = commands.add_parser("count")
    command.add_argument("names", nargs="*")
    command.add_argument("--of", default="kernels", choices=count.FOLDERS)
    command.add_argument("--all", action="store_true", help="count launches anew that are in the file")
    command.add_argument("--jobs", type=int, default=1)
    return parser


def _do(given: argparse.Namespace) -> str:
    match given.command:
        case "build":
            return build.build(given.folder, given.out, given.arch)
        case "build-triton":
            return build.build_triton(given.out, given.arch)
        case "build-tuning":
            return build.build_tuning(given.out, given.arch, given.only)
        case "run":
            plan = run.Plan(given.index, given.kind, given.only, given.repetitions)
            return run.dry_run(plan) if given.dry_run else run.run(plan, given.out)
        case "run-tuning":
            return tuning.run(given.index, given.out, given.repetitions, given.only)
        case "durations":
            return results.durations(given.folders, given.result)
        case "counters":
            return results.counters(given.folders, given.result)
        case "rules":
            return results.rules(given.folders[0], given.result)
        case "keep":
            return results.keep(given.folders, SUITE / "kernels")
        case _:
            return count.count(given.of, given.names, given.jobs, anew=given.all)


def main() -> int:
    """Run one command; an error is one line."""
    if sys.argv[1:2] != ["run"]:
        prefer_wheels()
    try:
        print(_do(_parser().parse_args()))
    except WarplensError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
