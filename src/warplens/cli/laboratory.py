"""Commands of the laboratory: machine measure, derive and agree, which run without rich and NumPy."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from warplens.core.errors import refuse


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
    command = f"warplens machine derive {' '.join(journals)}"
    text = toml_of(machine, f"{machine.name}: the vendor's facts, and what `{command}` made of a measurement.")
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
    refuse(args.repetitions is not None and args.repetitions < 1, "--repetitions takes 1 or more")
    if args.list:
        found = {entry.name: entry.yields for entry in laboratory.chosen(only, args.quick)}
        print(_document({"measurements": found}) if args.json else "\n".join(f"{n:34} {y}" for n, y in found.items()))
        return 0
    if args.check:
        built = laboratory.check_all(only, args.arch, cubins)
        verdict = f"not checked: {built.unchecked}" if built.unchecked else "checked"
        good = f"{len(built.cubins)} kernels for {args.arch}: compiled by {', '.join(built.tools)}, {verdict}"
        if args.json:
            print(_document({"kernels": len(built.cubins), "errors": built.errors, "unchecked": built.unchecked}))
        elif built.cubins:
            print(good)
        refuse(built.errors, "; ".join(dict.fromkeys(built.errors.values())))
        return 0
    how = args.quick, args.repetitions, args.gpu, args.shared_gpu, cubins
    outcome = laboratory.measure(laboratory.Request(Path(args.out), only, *how))
    if args.json:
        print(_document(laboratory.summary(outcome)))
        return 1 if outcome.errors else 0
    print(f"{outcome.measured} measured, {outcome.skipped} left out, {len(outcome.errors)} failed: {outcome.journal}")
    wrong = [f"{name}: {message}" for name, message in outcome.errors.items()]
    if outcome.others:
        wrong.append(f"{outcome.others} other process(es) began to compute on the GPU meanwhile: end them, and measure "
                     "again in another folder")  # fmt: skip
    throttled, cool = ", ".join(outcome.throttled), "let the GPU cool down, or raise its power limit, and measure"
    if outcome.off_clock:
        why = f" (throttled: {throttled})" if throttled else ""
        wrong.append(f"{outcome.off_clock} of {outcome.samples} samples were at another clock{why} and are not used: "
                     f"{cool} these again in another folder")  # fmt: skip
    elif throttled:
        wrong.append(f"the GPU was throttled ({throttled}), though every sample was at the clock that it held: {cool} "
                     "in another folder")  # fmt: skip
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if outcome.errors else 0
