"""Commands of the laboratory: machine measure, derive and agree, which run without rich and NumPy."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from warplens.core.errors import WarplensError


def add_commands(verbs: argparse._SubParsersAction[Any]) -> None:
    """Add these commands to `machine`."""
    text = "measure the GPU at hand: every number of a machine file"
    measure = verbs.add_parser("measure", help=text, description=text)
    measure.add_argument(
        "--out", default="measured", metavar="FOLDER", help="folder of the journal (default: measured)"
    )
    measure.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN", help="only these, such as chase.l2 or 'mix.*'"
    )
    measure.add_argument(
        "--quick", action="store_true", help="under a minute: enough for every field of the machine file"
    )
    measure.add_argument("--repetitions", type=int, metavar="N", help="of each launch (default: 3; --quick: 2)")
    measure.add_argument("--gpu", type=int, default=0, metavar="INDEX", help="which GPU (default: 0)")
    measure.add_argument("--shared-gpu", action="store_true", help="go on though others compute on the GPU")
    measure.add_argument("--cubins", metavar="FOLDER", help="keep compiled kernels here, and take them from here")
    measure.add_argument("--check", action="store_true", help="only compile and check the kernels; needs no GPU")
    measure.add_argument("--arch", default="sm_90", help="for --check: architecture (default: sm_90)")
    measure.add_argument("--list", action="store_true", help="list the measurements")
    measure.add_argument("--json", action="store_true", help="print JSON instead of text")
    text = "from the journal of a measurement to a machine file"
    derive = verbs.add_parser("derive", help=text, description=text)
    derive.add_argument("journal", metavar="JOURNAL", help="what `machine measure` wrote, plain, gzipped or by xz")
    derive.add_argument(
        "more", nargs="*", metavar="MORE", help="journals of such GPUs, for the measurements that the first one lacks"
    )
    derive.add_argument("--out", metavar="FILE.toml", help="machine file to write (default: standard output)")
    derive.add_argument(
        "--base", metavar="NAME", help="machine whose vendor facts are kept (default: the one that ships for this GPU)"
    )
    derive.add_argument(
        "--also",
        nargs="+",
        default=[],
        metavar="JOURNAL",
        help="another run on such a GPU, in one journal or several: how far it is off is put beside each number",
    )
    derive.add_argument("--json", action="store_true", help="print the derived numbers as JSON")
    text = "how far two measurements of GPUs of one kind agree"
    agree = verbs.add_parser("agree", help=text, description=text)
    agree.add_argument(
        "journals", nargs=2, metavar="JOURNAL", help="what `machine measure` wrote, plain, gzipped or by xz"
    )
    agree.add_argument("--json", action="store_true", help="print all numbers that both have as JSON")


def _document(fields: dict[str, Any]) -> str:
    """Encode an answer as `report.data.document` does, which needs NumPy."""
    return json.dumps({"schema_version": 1, **fields}, indent=1)


def machine_agree(args: argparse.Namespace) -> int:
    """Print how far two measurements agree."""
    from warplens.laboratory.agree import agree_files, told

    pairs, lacking = agree_files(*map(Path, args.journals))
    if args.json:
        found = [
            {"key": p.key, "values": [p.first, p.second], "percent": round(p.percent, 3),
             "promised_percent": p.promised_percent, "agrees": p.agrees, "why": p.why}
            for p in pairs
        ]  # fmt: skip
        print(_document({"numbers": found}))
        print(*lacking, sep="\n", end="\n" if lacking else "", file=sys.stderr)
    else:
        print("\n".join([*told(pairs), *lacking]))
    return 0


def machine_derive(args: argparse.Namespace) -> int:
    """Write the machine file that follows from a measurement."""
    from warplens.core.files import write_whole
    from warplens.laboratory.derive import borrowed, derive
    from warplens.machine import load_machine
    from warplens.machine.loader import toml_of

    journals = [args.journal, *args.more]
    base, also = load_machine(args.base) if args.base else None, tuple(map(Path, args.also))
    machine = derive(Path(args.journal), base, also, tuple(map(Path, args.more)))
    comment = (
        f"{machine.name}: the vendor's facts, and what `warplens machine derive {' '.join(journals)}` made of "
        "a measurement."
    )
    text = toml_of(machine, comment)
    own = tuple(f"{journal}: " for journal in journals)
    measured = {key: source.ref for key, source in machine.sources.items() if source.ref.startswith(own)}
    if kept := borrowed(machine, *journals):
        print(f"warplens: {kept}", file=sys.stderr)
    if args.out:
        write_whole(Path(args.out), text)
    if args.json:
        print(_document({"measured": measured}))
    elif args.out:
        known = f"{len(machine.sources)} numbers, {len(measured)} of them from {', '.join(journals)}"
        print(f"{args.out}: {machine.name}, {known}")
    else:
        print(text, end="")
    return 0


def machine_measure(args: argparse.Namespace) -> int:
    """Measure the GPU at hand, or list or check the measurements."""
    from warplens.laboratory import run as laboratory

    only, cubins = tuple(args.only), Path(args.cubins) if args.cubins else None
    if args.repetitions is not None and args.repetitions < 1:
        raise WarplensError("--repetitions takes 1 or more")
    if args.list:
        found = {entry.name: entry.yields for entry in laboratory.chosen(only, args.quick)}
        print(_document({"measurements": found}) if args.json else "\n".join(f"{n:34} {y}" for n, y in found.items()))
        return 0
    if args.check:
        built = laboratory.check_all(only, args.arch, cubins)
        verdict = f"not checked: {built.unchecked}" if built.unchecked else "checked"
        good = f"{len(built.cubins)} kernels for {args.arch}: compiled by {', '.join(built.tools)}, {verdict}"
        if args.json:
            counted = {"kernels": len(built.cubins), "errors": built.errors, "unchecked": built.unchecked}
            print(_document(counted))
        elif built.cubins:
            print(good)
        if built.errors:
            raise WarplensError("; ".join(dict.fromkeys(built.errors.values())))
        return 0
    request = laboratory.Request(
        Path(args.out), only, args.quick, args.repetitions, args.gpu, args.shared_gpu, cubins
    )  # fmt: skip
    outcome = laboratory.measure(request)
    if args.json:
        print(_document(laboratory.summary(outcome)))
    else:
        print(
            f"{outcome.measured} measured, {outcome.skipped} left out, {len(outcome.errors)} failed: {outcome.journal}"
        )
        for name, message in outcome.errors.items():
            print(f"{name}: {message}", file=sys.stderr)
        if outcome.others:
            print(
                f"{outcome.others} other process(es) began to compute on the GPU meanwhile: end them, and measure "
                "again in another folder",
                file=sys.stderr,
            )
        if outcome.off_clock:
            why = f" (throttled: {', '.join(outcome.throttled)})" if outcome.throttled else ""
            print(
                f"{outcome.off_clock} of {outcome.samples} samples were at another clock{why} and are not used: let "
                "the GPU cool down, or raise its power limit, and measure these again in another folder",
                file=sys.stderr,
            )
        elif outcome.throttled:
            print(
                f"the GPU was throttled ({', '.join(outcome.throttled)}), though every sample was at the clock that it "
                "held: let it cool down, or raise its power limit, and measure in another folder",
                file=sys.stderr,
            )
    return 1 if outcome.errors else 0
