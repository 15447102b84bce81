"""Our model on kernels that were written and timed after it, by someone who did not know it: from source to error.

    python bench/unseen.py             all 141 launches; six minutes on two cores
    python bench/unseen.py lu_pivot    the launches whose names begin so
    python bench/unseen.py --fast      as `analyze --fast` predicts
    python bench/unseen.py --unblind   names launches of the test set too
    python bench/unseen.py --ablation  the train set without each mechanism of the model; half an hour on one core
    python bench/unseen.py --short     kernels below 10 us: 20 that launch terms were fitted to, 20 others that count

The kernels are under data/h200/suite/unseen, each with its launch file; durations.json.gz has what an H200 took for
them, as ncu reports it. Each is compiled, emulated and predicted as `warplens analyze` does. As in `warplens validate
--kernels` a third of the kernels, by a hash of their names, is a test set: only its numbers are shown. The short
kernels are under data/h200/suite/short/learn and data/h200/suite/short/blind, whose launches count as the test set.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.papers.validation.ablation import ablate
from warplens.papers.validation.kernels import Launch, is_test
from warplens.program.toolchain import prefer_wheels

DATA = Path(__file__).parents[1] / "data/h200/suite"
CLEARS_L2 = "reduction_k6"  # timed beside the others of a folder; a launch of examples/
FAR = 12.0  # percent: those farther off are named


class Seen(NamedTuple):
    """A launch: microseconds, predicted and measured, by how much the first is off, and what was said of it."""

    name: str
    predicted: float
    measured: float
    percent: float
    model: str
    bound: str
    inside: bool | None  # its interval


def predicted(folder: Path, name: str, measured: float, *, fast: bool) -> Seen | str:
    """Predict a launch as `analyze` does; or return why not."""
    stem, _, variant = name.partition(".")
    machine = wl.load_machine("h200")
    try:
        workload = wl.count(None, folder / f"{stem}.toml", machine, variant=variant, effort="fast" if fast else "full")
        p = wl.compare(workload, machine, simulated=not fast).headline
    except WarplensError as error:
        return f"{name}: {error}"
    if p is None or p.seconds is None:
        return f"{name}: no prediction"
    time = 1e6 * float(p.seconds)
    inside = None
    if p.interval_seconds:
        low, high = p.interval_seconds
        inside = 1e6 * low <= measured <= 1e6 * high
    return Seen(name, time, measured, 100 * (time / measured - 1), p.model, p.bound or "", inside)


def counted(folder: Path, name: str, measured: float) -> Launch:
    """Count a launch as `analyze` does."""
    stem, _, variant = name.partition(".")
    return Launch(name, wl.count(None, folder / f"{stem}.toml", "h200", variant=variant), 1e-6 * measured)


def launches(folder: Path, names: tuple[str, ...]) -> list[tuple[Path, str, float]]:
    """Return the measured launches of a folder whose names begin so, each with its microseconds."""
    times = json.loads(gzip.decompress((folder / "durations.json.gz").read_bytes()))["launches"]
    return [(folder, n, t["warm_us"]) for n, t in times.items() if n.startswith(names) and n != CLEARS_L2]


def summary(what: str, seen: Sequence[Seen]) -> str:
    """Return the errors of a set in a line."""
    off = [abs(s.percent) for s in seen]
    near, known = sum(x <= 20 for x in off) / len(off), [s.inside for s in seen if s.inside is not None]
    mean, median = statistics.mean(off), statistics.median(off)
    return (
        f"{what:8}{len(seen):5} launches   mean {mean:5.1f} %   median {median:4.1f} %   "
        f"bias {statistics.mean(s.percent for s in seen):+5.1f} %   within 20 %: {near:.0%}   "
        f"90 % interval holds: {sum(known) / max(1, len(known)):.0%}"
    )


def main() -> None:
    """Predict, and print how far off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--unblind", action="store_true")
    parser.add_argument("--ablation", action="store_true")
    given = parser.parse_args()
    folders = [DATA / "short" / "learn", DATA / "short" / "blind"] if given.short else [DATA / "unseen"]
    chosen = [launch for folder in folders for launch in launches(folder, tuple(given.names or ("",)))]
    if given.ablation:
        with ProcessPoolExecutor(2) as pool:
            train = [launch for launch in chosen if not is_test(launch[1].partition(".")[0])]
            known = list(pool.map(counted, *zip(*train, strict=True)))
        for a in ablate(measured=known, processes=2):
            moved = f"{a.worse_percent:+.2f} points, largest launch {a.largest_percent:+.1f} %"
            print(f"{a.mechanism:42}{a.mean_percent:6.2f} %   {moved}")
        return
    with ProcessPoolExecutor(2) as pool:
        made = list(pool.map(partial(predicted, fast=given.fast), *zip(*chosen, strict=True)))
    for line in (s for s in made if isinstance(s, str)):
        print(line, file=sys.stderr)
    seen = [s for s in made if isinstance(s, Seen)]
    apart = {name for folder, name, _ in chosen if given.short and folder.name == "blind"}
    blind = [s for s in seen if (s.name in apart if given.short else is_test(s.name.partition(".")[0]))]
    for what, part in (("all", seen), ("train", [s for s in seen if s not in blind]), ("test", blind)):
        if part:
            print(summary(what, part))
    for s in sorted(seen, key=lambda s: -abs(s.percent)):
        if abs(s.percent) > FAR and (given.unblind or s not in blind):
            told = f"{s.predicted:10.1f} us, measured {s.measured:10.1f}  {s.model}, {s.bound}"
            print(f"{s.percent:+6.1f} %  {s.name:34}{told}")


if __name__ == "__main__":
    prefer_wheels()
    main()
