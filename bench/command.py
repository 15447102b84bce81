"""From a .cu file to a prediction: what `warplens analyze` takes for the measured launches, `make bench`.

Each launch is a new process, as the user starts one, by default and with `--fast`, and the compiler runs in it: nothing
of the kernel is known from before. `again` is `--fast` once more, with the compiled kernel kept from before. What an
installation does once is done: Python's bytecode, and the machine code of the emulator and the simulator, which the
first process of all compiles and keeps on the disk; a launch that kept some of it has compiled it, and is run again.
Seconds by the clock, which others' work on the machine lengthens: until the prediction is printed, and until all is,
the remedies too; seconds of the processors in all processes, and the memory of the largest process. The goals are those
of the prediction. Of that, NVIDIA's compiler takes what is its own, and its disassembler for code whose encoding we do
not know: how long, by themselves, is printed beside (`tools`).

    python bench/command.py                  every sixteenth launch and those that take longest
    python bench/command.py --all            every launch
    python bench/command.py saxpy --repeat 5 --against FOLDER
                                             these, the best of five, in turn with the same of another checkout
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from warplens.api import KernelCall, Options, load_launch, load_program
from warplens.core import processes
from warplens.program import nvrtc, toolchain
from warplens.program.toolchain import prefer_wheels
from warplens.workload.compiled_call import source_of

ROOT = Path(__file__).parents[1]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GOALS = {"default": 3.0, "fast": 1.0, "again": 1.0}  # seconds
GOAL_MEGABYTES = 1000.0
COLD = {"CUDA_CACHE_DISABLE": "1"}  # where there is a driver, NVRTC keeps what it compiled (since 12.9)
LONGEST = (
    "long_code.steps16384", "attention.causal", "cutoff_binned", "list_ranking", "tlb_walk.touches128",
    "radix_histogram.n256m", "ulist.shmem-pref-vecpack",
)  # fmt: skip


class Run(Struct, order=True, frozen=True):
    """What one process took: seconds until the prediction and in all, of the processors, megabytes of the largest."""

    seconds: float
    whole_seconds: float
    busy_seconds: float
    megabytes: float


def of_the_tools(name: str) -> float:
    """Return the seconds that NVIDIA's tools take for a launch by themselves: NVRTC, and nvdisasm where it is asked."""
    stem, _, variant = name.partition(".")
    execute, took = processes.execute, list[float]()
    modules: list[Any] = [nvrtc, toolchain]

    def timed(*arguments: Any, **options: Any) -> tuple[int, bytes, bytes]:
        start = time.perf_counter()
        made = execute(*arguments, **options)
        took.append(time.perf_counter() - start)
        return made

    call = load_launch(FILES[stem], variant)
    os.environ |= COLD
    for module in modules:
        module.execute = timed
    try:
        load_program(*_source(call))
    finally:
        for module in modules:
            module.execute = execute
    return sum(took)


def _source(call: KernelCall) -> tuple[Path, str | None, Options]:
    path, options = source_of(call, "sm_90")
    return path, call.kernel, options


def run(name: str, mode: str, source: Path) -> Run:
    """Analyze a launch with nothing kept from before, or with what a first run kept."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as kept:
        if mode == "again":
            _run(name, mode, source, kept)
        return _run(name, mode, source, kept)


def _run(name: str, mode: str, source: Path, kept: str) -> Run:
    """Analyze a launch in a new process, with warplens from a folder of sources and compiled kernels from another."""
    stem, _, variant = name.partition(".")
    options = [*(["--variant", variant] if variant else []), *([] if mode == "default" else ["--fast"])]
    command = [sys.executable, "-m", "warplens", "analyze", "--launch", str(FILES[stem]), *options]
    others = [x for x in [os.environ.get("PYTHONPATH")] if x]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *others]), "XDG_CACHE_HOME": kept, **COLD}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=surroundings) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    whole = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return Run(seconds, whole, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def compiled(source: Path) -> set[tuple[Path, int]]:
    """Return what is kept of compiled functions (by Numba itself, of checkouts that let it), and since when."""
    return {(file, file.stat().st_mtime_ns) for kind in ("code", "nbi") for file in source.rglob(f"*.{kind}")}


def best(name: str, mode: str, sources: list[Path], repeat: int) -> list[Run]:
    """Return the best of some runs from each folder of sources, in turn."""
    runs: list[list[Run]] = [[] for _ in sources]
    for kept, source in list(zip(runs, sources, strict=True)) * repeat:
        before = compiled(source)
        kept.append(run(name, mode, source))
        if compiled(source) != before:
            kept[-1] = run(name, mode, source)
    return [min(kept) for kept in runs]


def summary(mode: str, made: dict[str, Run], tools: dict[str, float]) -> bool:
    """Print what a mode took, the longest first; return whether every launch meets its goals."""
    goal, all_runs = GOALS[mode], sorted(((r, name) for name, r in made.items()), reverse=True)
    missed = [name for r, name in all_runs if r.seconds > goal or r.megabytes > GOAL_MEGABYTES]
    middle = statistics.median(r.seconds for r, _ in all_runs)
    most, name = max((r.megabytes, name) for r, name in all_runs)
    print(f"  analyze, {mode:<8} {len(made)} launches   {middle:.2f} s (median), {most:.0f} MB at most ({name})")
    for r, name in all_runs[: max(5, min(15, len(missed)))]:
        rest = f"{r.whole_seconds:5.2f} s in all, {r.busy_seconds:5.2f} s of processors, {r.megabytes:4.0f} MB"
        print(f"    {name:<28} {r.seconds:5.2f} s (tools {tools[name]:.2f}), {rest}")
    theirs = sum(tools[name] > goal for name in missed)
    said = f"{len(missed)} of {len(made)} MISSED, {theirs} of them by the tools alone" if missed else "met"
    print(f"  goals {goal:.0f} s and 1 GB: {said}", flush=True)
    return not missed


def compared(mode: str, pairs: Iterable[list[Run]]) -> None:
    """Print how many times as long the other checkout takes."""
    by_clock, busy = zip(*((b.seconds / a.seconds, b.busy_seconds / a.busy_seconds) for a, b in pairs), strict=True)
    clock, processors = (statistics.geometric_mean(x) for x in (by_clock, busy))
    print(f"  the other checkout {mode}: {clock:.2f} times as long by the clock, {processors:.2f} of processors (mean)")


def main() -> int:
    """Print the figures of all modes; the exit code is 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("launches", nargs="*", metavar="NAME[.VARIANT]")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--mode", choices=list(GOALS), help="one of them only")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, to be compared with")
    args = parser.parse_args()
    suite = list(json.loads(gzip.decompress((ROOT / "data/h200/suite/kernels/ncu.json.gz").read_bytes()))["launches"])
    if unknown := set(args.launches).difference(suite):
        parser.error(f"not among the measured launches: {', '.join(sorted(unknown))}")
    names = args.launches or (suite if args.all else list(dict.fromkeys([*suite[::16], *LONGEST])))
    sources = [ROOT / "src", *([args.against / "src"] if args.against else [])]
    met, tools = True, {name: min(of_the_tools(name) for _ in range(args.repeat)) for name in names}
    taken = sorted(tools.values())
    print(f"  NVIDIA's tools by themselves: {statistics.median(taken):.2f} s (median), at most {taken[-1]:.2f} s")
    for mode in [args.mode] if args.mode else GOALS:
        made = {name: best(name, mode, sources, args.repeat) for name in names}
        met = summary(mode, {name: runs[0] for name, runs in made.items()}, tools) and met
        if args.against:
            compared(mode, made.values())
    return 0 if met else 1


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main())
