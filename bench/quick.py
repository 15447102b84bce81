"""How far fewer emulated blocks lead predictions astray: `python bench/quick.py [--fast] [--all | LAUNCH ...]`.

Each launch (a file of examples/, or NAME.VARIANT) is emulated as a sweep does, or as `analyze --fast` does (`--fast`),
and as `analyze` does; printed are the blocks of both, the error that the fewer blocks say themselves, and how far
`warplens-fast` and `roofline` differ. `--all` takes every measured launch, and ends with how many differ, and the mean
errors of `warplens-fast` against the measured times with fewer blocks and with those of `analyze`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import warplens as wl
from warplens.emulator.profiler import FAST, FULL, QUICK, Effort, profile
from warplens.papers.validation.kernels import PARTS, launches
from warplens.program import load_program
from warplens.program.toolchain import prefer_wheels
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.counted import workload_of
from warplens.workload.launch import load_launch

FILES = {path.stem: path for path in (Path(__file__).parents[1] / "examples").rglob("*.toml")}
DATA_DEPENDENT = ("mandelbrot", "hash_probe", "spmv_vector", "compact", "embedding_bag")
ALIKE = 0.01, 0.05  # shares by which times may differ


class Compared(NamedTuple):
    """What `warplens-fast` says of a launch, in seconds: from fewer blocks, and from those of `analyze`."""

    fewer: float
    full: float


def compared(name: str, gpu: wl.Machine, effort: Effort) -> Compared:
    """Emulate a launch with both efforts, and print how they differ."""
    stem, _, variant = name.partition(".")
    call = load_launch(FILES[stem], variant)
    path, options = source_of(call, architecture(gpu, OLDEST))
    program = load_program(path, call.kernel, options)
    made, took = [], []
    for one in (effort, FULL):
        start = time.process_time()
        found = profile(program, call, gpu, effort=one)
        took.append(time.process_time() - start)
        workload = workload_of(program, call, found, gpu)
        said = [wl.predict(workload, gpu, model).seconds or 0.0 for model in ("warplens-fast", "roofline")]
        made.append((found, [float(seconds) for seconds in said]))
    (few, fewer), (many, full) = made
    off = ", ".join(f"{100 * (a / b - 1):+.1f} %" for a, b in zip(fewer, full, strict=True))
    print(
        f"{name}: {few.emulated_blocks} and {many.emulated_blocks} of {few.grid_blocks} blocks, "
        f"said to be {100 * few.error:.1f} and {100 * many.error:.1f} % off; differ by {off}; "
        f"{took[0]:.2f} and {took[1]:.2f} s",
        flush=True,
    )
    return Compared(fewer[0], full[0])


def main() -> None:
    """Print a line for each launch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("launches", nargs="*", metavar="NAME[.VARIANT]")
    parser.add_argument("--all", action="store_true", help="every measured launch")
    parser.add_argument("--fast", action="store_true", help="as `analyze --fast` emulates, not as a sweep does")
    args = parser.parse_args()
    measured = {launch.name: launch for launch in launches()}
    names = measured if args.all else args.launches or DATA_DEPENDENT
    gpu = wl.load_machine("h200")
    made = {name: compared(name, gpu, FAST if args.fast else QUICK) for name in names}
    if not args.all:
        return
    apart = [abs(one.fewer / one.full - 1) for one in made.values()]
    for most in ALIKE:
        print(f"within {100 * most:.0f} % of one another: {100 * statistics.mean(x <= most for x in apart):.0f} %")
    for part in PARTS:
        of = [(one, measured[name].seconds) for name, one in made.items() if measured[name].part == part]
        errors = [100 * statistics.mean(abs(one[i] / seconds - 1) for one, seconds in of) for i in (0, 1)]
        print(f"{part}: {len(of)} launches, off by {errors[0]:.2f} and {errors[1]:.2f} % in the mean")


if __name__ == "__main__":
    prefer_wheels()
    main()
