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
from pathlib import Path

import msgspec

import warplens as wl
from warplens.emulate.profiler import profile
from warplens.errors import WarplensError
from warplens.frontend import Options, load_program
from warplens.kernel.launch import SCALAR_BYTES, KernelCall, load_launch

ROOT = Path(__file__).parents[1]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GPU = wl.load_machine("h200")
HEAVIER = 1.25  # instructions of a block in the larger grid over those in the launch as it is
GOAL_SECONDS, GOAL_MEGABYTES, MOST_BYTES = 5.0, 1000.0, 1 << 37


# Kernels whose blocks do more if x grows or all arrays do: which axis grows instead, and which arrays (none: all). More
# heads of the same sequence; more planes of the lattice around the same atoms.
GROWN: dict[str, tuple[int, tuple[str, ...]]] = {"attention": (1, ()), "cutoff_baseline": (2, ("out",))}


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


def measured(name: str, times: int = 0) -> tuple[float, float, float, str]:
    """Return the processor seconds and megabytes of analyzing a launch in a process of its own, the instructions of a
    block, and what went wrong."""
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
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, float(work or 0), wrong


def main(arguments: list[str]) -> int:
    """Print a line per launch that misses a goal, and the largest figures; `--all`: a line for every launch."""
    counters = json.loads(gzip.decompress((ROOT / "data/h200/kernels/ncu.json.gz").read_bytes()))["launches"]
    names = [a for a in arguments if a in counters] or list(counters)
    _analyze(names[0], 0)  # loads and compiles what all of them need
    worst, most, missed, ratios, kept = (0.0, ""), (0.0, ""), 0, list[float](), list[str]()
    heavier: dict[str, float] = {}
    for name in names:
        seconds, megabytes, _, wrong = measured(name)
        larger_seconds, larger_megabytes, larger_work, larger_wrong = measured(name, 100)
        top = (seconds, megabytes) if larger_wrong else (max(seconds, larger_seconds), max(megabytes, larger_megabytes))
        miss = bool(wrong) or top[0] > GOAL_SECONDS or top[1] > GOAL_MEGABYTES
        worst, most, missed = max(worst, (top[0], name)), max(most, (top[1], name)), missed + miss
        same_seconds, _, work, _ = measured(name, 1)
        more = larger_work / max(1.0, work)
        heavier |= {name: more} if more > HEAVIER else {}
        ratios += [] if larger_wrong or more > HEAVIER else [larger_seconds / same_seconds]
        kept += [name] if larger_wrong else []
        if miss or "--all" in arguments:
            rest = f"a larger grid {larger_seconds:5.2f} s, {larger_megabytes:5.0f} MB {wrong or larger_wrong}"
            print(f"  {name:<32} {seconds:5.2f} s, {megabytes:5.0f} MB; {rest}{' MISSED' if miss else ''}", flush=True)
    print(f"  analyzing {len(names)} launches   {worst[0]:5.2f} s at most ({worst[1]}), {most[0]:.0f} MB ({most[1]})")
    if ratios:
        times = f"{statistics.median(ratios):.2f} times as long to profile (median), {max(ratios):.2f} at most"
        print(f"  a grid 100 times larger, {len(ratios)} of them   {times}")
    if heavier:
        print(f"  a block itself does more: {', '.join(f'{n} {more:.1f} times' for n, more in heavier.items())}")
    if kept:
        print(f"  not enlarged, as their own numbers say how long arrays are: {', '.join(kept)}")
    print(f"  goals 5 s and 1 GB, also with the larger grid: {f'{missed} MISSED' if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
