"""What analyzing every measured launch takes, as it is and with a grid a hundred times larger: `make bench`.

    python bench/launches.py [--papers] [--all] [NAME ...]

Every launch is a process of its own, forked once all is loaded: its processor time (compiling the kernel, emulating,
predicting) and the most memory that it had. In the larger grid one axis is a hundred times longer, x but where `GROWN`
has another, and so are arrays, as far as an H200's memory goes, and numbers that are the length of an array, in
elements or vectors. Where the index of an element would not fit 32 bits, z grows, and all planes have the same data.
A launch misses a goal where either takes more than 5 s or 1 GB, or the larger grid a quarter more time. A launch that
does not fill the GPU three times over is quicker, as there are fewer blocks on an SM, and none before them: if need be
its larger grid is compared with one that does. What misses a goal is tried twice more, as the processor's time depends
on what else runs.

Whether a block of the larger grid does what it did is told too. Where its loops are as long as the problem it does
more, and where the kernel asks whether its index is inside a width that stays as it is, less: what that takes says
nothing about larger grids, and does not count for "no slower", but for the other goals.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.program.toolchain import prefer_wheels
from warplens.workload.launch import SCALAR_BYTES, KernelCall, load_launch

ROOT = Path(__file__).parents[1]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GPU = wl.load_machine("h200")
TIMES = 100
ALIKE = 0.1  # by which the instructions of a block may differ that does what it did
SLOWER, WAVES = 1.25, 3  # times as long; waves of blocks from which on nothing is new
GOAL_SECONDS, GOAL_MEGABYTES, MOST_BYTES = 5.0, 1000.0, 1 << 37


class Growth(NamedTuple):
    """How a launch grows: along which axis, and with it which arrays and numbers; by default all arrays, and numbers
    that are lengths."""

    axis: int = 0
    arrays: tuple[str, ...] | None = None
    numbers: tuple[str, ...] = ()


AGAIN = Growth(2, ())  # the same data once more in every plane
GROWN = {
    "attention": Growth(1),  # more heads of the same sequence
    "cutoff_baseline": Growth(2, ("out",)),  # more planes of the lattice around the same atoms
    "cutoff_binned": Growth(0, None, ("bins_x",)),
    "list_ranking": AGAIN,  # a cycle has a power of two elements
    "nbody": Growth(0, ("bodies", "out")),  # more bodies that feel as many as before
}


class Taken(NamedTuple):
    """What a process took: its processor's seconds and megabytes, the instructions of a block, waves, and what went
    wrong."""

    seconds: float
    megabytes: float
    work: float
    waves: float
    wrong: str


class Judged(NamedTuple):
    """A launch analyzed, with the larger grid, and with as many waves as tell all, if need be."""

    name: str
    same: Taken
    larger: Taken
    full: Taken | None = None

    @property
    def longer(self) -> float:
        """How many times as long the larger grid takes."""
        return self.larger.seconds / (self.full or self.same).seconds

    @property
    def heavier(self) -> float:
        """How many times as much a block of the larger grid does."""
        return self.larger.work / max(1.0, self.same.work)

    @property
    def alike(self) -> bool:
        """Whether blocks of the larger grid do what they did."""
        return not self.larger.wrong and abs(self.heavier - 1) <= ALIKE

    @property
    def missed(self) -> str:
        """Which goals are missed."""
        both = self.same, self.larger
        goals = {
            self.same.wrong: bool(self.same.wrong),
            f"over {GOAL_SECONDS:.0f} s": max(t.seconds for t in both) > GOAL_SECONDS,
            f"over {GOAL_MEGABYTES:.0f} MB": max(t.megabytes for t in both) > GOAL_MEGABYTES,
            "slower": self.alike and self.longer > SLOWER,
        }
        return ", ".join(goal for goal, is_missed in goals.items() if is_missed)

    def line(self) -> str:
        """Return a line: the launch, the larger grid, and the verdict."""
        took = f"{self.same.seconds:5.2f} s {self.same.megabytes:4.0f} MB"
        larger = f"{self.larger.seconds:5.2f} s {self.larger.megabytes:4.0f} MB, {self.longer:4.2f} times as long"
        work = self.larger.wrong or ("" if self.alike else f"a block does {self.heavier:.2f} times as much")
        work = work and f", not grown: {work}"
        if self.full:
            work = f" as {self.full.waves:.0f} waves ({self.full.seconds:.2f} s)"
        return f"{self.name:<32} {took}; larger {larger}{work}: {f'MISSED {self.missed}' if self.missed else 'met'}"


def larger(call: KernelCall, by: int) -> KernelCall:
    """Return the call with so many times the blocks, that each do what they did."""
    too_far = max((a.count or 0 for a in call.arguments), default=0) * TIMES >= 2**31
    growth = GROWN.get(str(call.kernel), AGAIN if too_far and call.grid_shape[2] == 1 else Growth())
    most = 2**31 - 1 if growth.axis == 0 else 65535
    grid = [min(n * by, most) if a == growth.axis else n for a, n in enumerate(call.grid_shape)]
    size = sum((a.count or 0) * SCALAR_BYTES[a.element] for a in call.arguments if a.is_pointer)
    times = max(1, min(by, MOST_BYTES // max(1, size)))
    lengths = {a.count // k for a in call.arguments if a.count for k in (1, 2, 4, 8, 16) if a.count % k == 0}
    arguments, by_name = [], growth.arrays is not None or bool(growth.numbers)
    for a in call.arguments:
        if a.count and (growth.arrays is None or a.name in growth.arrays):
            a = msgspec.structs.replace(a, count=a.count * times)
        elif a.value is not None and (a.name in growth.numbers if by_name else a.value in lengths):
            a = msgspec.structs.replace(a, value=min(a.value * times, 2**31 - 1))
        arguments.append(a)
    return msgspec.structs.replace(call, grid=grid, arguments=arguments)


def analyzed(name: str, by: int) -> tuple[float, float]:
    """Analyze and predict a launch with so many times the blocks; return the instructions of a block, and waves."""
    stem, _, variant = name.partition(".")
    workload = wl.count(None, larger(load_launch(FILES[stem], variant), by), GPU)
    wl.predict(workload, GPU, "warplens")
    fits, profile = wl.occupancy(workload, GPU), workload.profile
    assert fits is not None and profile is not None
    waves = profile.grid_blocks / (fits.blocks_per_sm * GPU.chip.sm_count)
    return profile.total("executed") / profile.grid_blocks, waves


def measured(name: str, by: int) -> Taken:
    """Return what analyzing a launch takes, in a process of its own."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            try:
                said.write("{} {}\n".format(*analyzed(name, by)))
            except WarplensError as error:
                said.write("0 0\n" + str(error).splitlines()[0])
            said.flush()
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        figures, _, wrong = said.read().partition("\n")
        work, waves = (float(x) for x in (figures or "0 0").split())
        wrong = wrong or (f"ended with status {status}" if status else "")
    return Taken(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, work, waves, wrong)


def judged(name: str) -> Judged:
    """Analyze a launch as it is and with the larger grid; what misses a goal twice more, the fastest counts."""
    made = Judged(name, measured(name, 1), measured(name, TIMES))
    for _ in range(2):
        if not made.missed:
            break
        enough = math.ceil(WAVES / max(1e-9, made.same.waves))
        full = measured(name, enough) if 1 < enough < TIMES else None
        full = min(full, made.full or full) if full else None
        made = Judged(name, min(made.same, measured(name, 1)), min(made.larger, measured(name, TIMES)), full)
    return made


def of_papers(name: str) -> bool:
    """Whether the papers have the kernel of a launch."""
    return FILES[name.partition(".")[0]].relative_to(ROOT / "examples").parts[0] not in ("today", "saxpy.toml")


def summary(rows: list[Judged]) -> Iterator[str]:
    """Return the largest figures, and the verdict."""
    both = [(getattr(row, grid), row.name) for row in rows for grid in ("same", "larger")]
    slowest, largest = max(both), max(both, key=lambda b: b[0].megabytes)
    yield f"analyzing {len(rows)} launches, as they are and with a grid {TIMES} times larger:"
    yield f"  {slowest[0].seconds:.2f} s at most ({slowest[1]}), {largest[0].megabytes:.0f} MB ({largest[1]})"
    grown = [row for row in rows if row.alike]
    if grown:
        ratios = [row.longer for row in grown]
        worst = max(grown, key=lambda row: row.longer)
        yield (
            f"  a larger grid of {len(grown)} of them takes {statistics.median(ratios):.2f} times as long (median), "
            f"{worst.longer:.2f} at most ({worst.name})"
        )
    other = [row.name for row in rows if not row.alike]
    if other:
        yield f"  not grown, as their blocks would do something else: {', '.join(other)}"
    missed = [row.name for row in rows if row.missed]
    verdict = f"MISSED by {', '.join(missed)}" if missed else "met by all"
    goals = f"goals {GOAL_SECONDS:.0f} s and {GOAL_MEGABYTES / 1000:.0f} GB, and no slower with a larger grid"
    yield f"{goals}: {verdict}"


def main(arguments: list[str]) -> int:
    """Print a line per launch that misses a goal, and the largest figures; `--all`: a line for every launch."""
    counters = json.loads(gzip.decompress((ROOT / "data/h200/suite/kernels/ncu.json.gz").read_bytes()))["launches"]
    chosen = [name for name in counters if "--papers" not in arguments or of_papers(name)]
    named = [a for a in arguments if a not in ("--papers", "--all")]
    if unknown := [a for a in named if a not in counters]:
        sys.exit(f"no such launch: {', '.join(unknown)}")
    names = named or chosen
    analyzed(names[0], 1)  # loads and compiles what all of them need
    rows = []
    for name in names:
        rows.append(judged(name))
        if rows[-1].missed or "--all" in arguments:
            print(f"  {rows[-1].line()}", flush=True)
    for line in summary(rows):
        print(f"  {line}")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main(sys.argv[1:]))
