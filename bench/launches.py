"""What analyzing every measured launch takes, as it is and with a grid a hundred times larger: `make bench`.

Every launch is a process of its own, forked once all is loaded: its processor time (compiling the kernel, emulating,
predicting) and the most memory that it had. In the larger grid one axis is a hundred times longer, x but where `GROWN`
has another, and so are all arrays, as far as an H200's memory goes, and numbers that are the length of an array, in
elements or vectors. It is loaded and profiled, and compared with loading and profiling the launch as it is. Other
numbers stay: where a kernel asks whether its index is inside a width, most blocks are now outside, and it takes more of
them to know. Where a block itself does more in the larger grid, since its loops are as long as the problem, the launch
is named with how much more; it counts for the goals, but not for how much longer a larger grid takes.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

import warplens as wl
from warplens.emulate.profiler import profile
from warplens.errors import WarplensError
from warplens.frontend import Options, load_program
from warplens.kernel.launch import SCALAR_BYTES, KernelCall, load_launch

ROOT = Path(__file__).parents[1]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GPU = wl.load_machine("h200")
HEAVIER = 1.1  # instructions of a block in the larger grid over those in the launch as it is
SLOWER = 1.25  # time to profile the larger grid over that of the launch as it is
TIMES = 100
GOAL_SECONDS, GOAL_MEGABYTES, MOST_BYTES = 5.0, 1000.0, 1 << 37


# Kernels whose blocks do more if x grows or all arrays do: which axis grows instead, and which arrays (none: all). More
# heads of the same sequence; more planes of the lattice around the same atoms.
GROWN: dict[str, tuple[int, tuple[str, ...]]] = {"attention": (1, ()), "cutoff_baseline": (2, ("out",))}


class Taken(NamedTuple):
    """What a process took: its processor's seconds and megabytes, the instructions of a block, and what went wrong."""

    seconds: float
    megabytes: float
    work: float
    wrong: str


class Judged(NamedTuple):
    """A launch analyzed, profiled alone, and profiled with the larger grid."""

    name: str
    whole: Taken
    same: Taken
    larger: Taken

    @property
    def longer(self) -> float:
        """How many times as long the larger grid takes to profile."""
        return self.larger.seconds / self.same.seconds

    @property
    def heavier(self) -> float:
        """How many times as much a block of the larger grid does."""
        return self.larger.work / max(1.0, self.same.work)

    @property
    def missed(self) -> str:
        """Return which goals are missed."""
        goals = {
            self.whole.wrong: bool(self.whole.wrong),
            f"larger: {self.larger.wrong}": bool(self.larger.wrong),
            f"over {GOAL_SECONDS:.0f} s": max(self.whole.seconds, self.larger.seconds) > GOAL_SECONDS,
            f"over {GOAL_MEGABYTES:.0f} MB": max(self.whole.megabytes, self.larger.megabytes) > GOAL_MEGABYTES,
            "the larger grid takes longer": not self.larger.wrong and self.longer > SLOWER,
            "a block of the larger grid does more": self.heavier > HEAVIER,
            "a block of the larger grid does less": not self.larger.wrong and self.heavier < 1 / HEAVIER,
        }
        return ", ".join(goal for goal, is_missed in goals.items() if is_missed)

    def line(self) -> str:
        """Return a line: the launch, the larger grid, and the verdict."""
        larger = f"{self.larger.seconds:5.2f} s ({self.longer:4.2f} times), {self.larger.megabytes:4.0f} MB"
        work = f"a block does {self.heavier:4.2f} times as much"
        verdict = f"MISSED: {self.missed}" if self.missed else "met"
        return f"{self.name:<30} {self.whole.seconds:5.2f} s {self.whole.megabytes:4.0f} MB; larger {larger}, {work}: {verdict}"


def _longer(call: KernelCall, times: int, axis: int) -> list[int]:
    return [min(n * times, 2**31 - 1 if a == 0 else 65535) if a == axis else n for a, n in enumerate(call.grid_shape)]


def _grown(call: KernelCall, times: int) -> KernelCall:
    """Return the call with more blocks that each do what they did."""
    axis, names = GROWN[str(call.kernel)]
    arguments = [
        msgspec.structs.replace(a, count=a.count * times) if a.count and (not names or a.name in names) else a
        for a in call.arguments
    ]
    return msgspec.structs.replace(call, grid=_longer(call, times, axis), arguments=arguments)


def _larger(call: KernelCall, times: int) -> KernelCall:
    if call.kernel in GROWN:
        return _grown(call, times)
    size = sum((a.count or 0) * SCALAR_BYTES[a.element] for a in call.arguments if a.is_pointer)
    counts = max(1, min(times, MOST_BYTES // max(1, size)))
    lengths = {a.count // k for a in call.arguments if a.count for k in (1, 2, 4, 8, 16) if a.count % k == 0}
    arguments = []
    for a in call.arguments:
        is_length = a.value in lengths and a.value * counts < 2**31
        value = a.value * counts if is_length and a.value is not None else a.value
        arguments.append(msgspec.structs.replace(a, value=value, count=a.count * counts if a.count else a.count))
    return msgspec.structs.replace(call, grid=_longer(call, times, 0), arguments=arguments)


def _analyze(name: str, times: int) -> float:
    """Analyze and predict a launch; with `times` only load it and profile the grid that is so many times larger.

    Return the instructions of a block.
    """
    stem, _, variant = name.partition(".")
    if not times:
        wl.predict(wl.analyze(None, FILES[stem], GPU, variant=variant), GPU, "warplens")
        return 0.0
    call = load_launch(FILES[stem], variant)
    options = Options(defines=call.defines, fast_math=call.fast_math, register_limit=call.register_limit)
    program = load_program(Path(call.folder) / str(call.file), call.kernel, options)
    made = profile(program, _larger(call, times), GPU)
    return made.total("executed") / made.grid_blocks


def of_papers(name: str) -> bool:
    """Whether the papers have the kernel of a launch."""
    return FILES[name.partition(".")[0]].relative_to(ROOT / "examples").parts[0] not in ("today", "saxpy.toml")


def summary(rows: list[Judged]) -> Iterator[str]:
    """Return the largest figures, and the verdict."""
    yield f"analyzing {len(rows)} launches: " + ", ".join(
        f"{getattr(top.whole, key):.{digits}f} {unit} at most ({top.name})"
        for key, digits, unit in (("seconds", 2, "s"), ("megabytes", 0, "MB"))
        for top in [max(rows, key=lambda row: getattr(row.whole, key))]
    )
    grown = [row for row in rows if not row.larger.wrong]
    if grown:
        ratios = statistics.median(row.longer for row in grown), max(row.longer for row in grown)
        yield f"a grid {TIMES} times larger: {ratios[0]:.2f} times as long to profile (median), {ratios[1]:.2f} at most"
    missed = [row.name for row in rows if row.missed]
    goals = f"goals 5 s, 1 GB, also with a grid {TIMES} times larger, and that no slower"
    yield f"{goals}: {len(rows) - len(missed)} of {len(rows)} met{', MISSED ' + ', '.join(missed) if missed else ''}"


def measured(name: str, times: int = 0) -> Taken:
    """Return what analyzing a launch takes, in a process of its own."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            try:
                said.write(f"{_analyze(name, times)}\n")
            except WarplensError as error:
                said.write("0\n" + str(error).splitlines()[0])
            said.flush()
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        work, _, wrong = said.read().partition("\n")
        wrong = wrong or (f"ended with status {status}" if status else "")
    return Taken(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, float(work or 0), wrong)


def judged(name: str) -> Judged:
    """Analyze a launch as it is, and profile it and the larger one; what takes longer is tried again, thrice at most:
    another process may have been in the way."""
    whole, same, larger = (measured(name, times) for times in (0, 1, TIMES))
    for _ in range(2):
        if larger.wrong or larger.seconds <= SLOWER * same.seconds:
            break
        same, larger = (min(measured(name, times), of) for times, of in ((1, same), (TIMES, larger)))
    return Judged(name, whole, same, larger)


def main(arguments: list[str]) -> int:
    """Print a line per launch that misses a goal, and the largest figures; `--all`: a line for every launch."""
    counters = json.loads(gzip.decompress((ROOT / "data/h200/kernels/ncu.json.gz").read_bytes()))["launches"]
    chosen = [name for name in counters if "--papers" not in arguments or of_papers(name)]
    names = [a for a in arguments if a in counters] or chosen
    _analyze(names[0], 0)  # loads and compiles what all of them need
    rows = []
    for name in names:
        rows.append(judged(name))
        if rows[-1].missed or "--all" in arguments:
            print(f"  {rows[-1].line()}", flush=True)
    for line in summary(rows):
        print(f"  {line}")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
