"""What analyzing every measured launch takes, as it is and with a grid a hundred times larger: `make bench`.

Every launch is a process of its own, forked once all is loaded: its processor time (compiling the kernel, emulating,
predicting) and the most memory that it had. In the larger grid x is a hundred times longer, and so are all arrays, as
far as an H200's memory goes, and numbers that are the length of an array, in elements or vectors. It is loaded and
profiled, and compared with loading and profiling the launch as it is. Other numbers stay: where a kernel asks whether
its index is inside a width, most blocks are now outside, and it takes more of them to know.
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
GOAL_SECONDS, GOAL_MEGABYTES, MOST_BYTES = 5.0, 1000.0, 1 << 37


def _larger(call: KernelCall, times: int) -> KernelCall:
    x, y, z = call.grid_shape
    size = sum((a.count or 0) * SCALAR_BYTES[a.element] for a in call.arguments if a.is_pointer)
    counts = max(1, min(times, MOST_BYTES // max(1, size)))
    lengths = {a.count // k for a in call.arguments if a.count for k in (1, 2, 4, 8, 16) if a.count % k == 0}
    arguments = []
    for a in call.arguments:
        is_length = a.value in lengths and a.value * counts < 2**31
        value = a.value * counts if is_length and a.value is not None else a.value
        arguments.append(msgspec.structs.replace(a, value=value, count=a.count * counts if a.count else a.count))
    return msgspec.structs.replace(call, grid=[min(x * times, 2**31 - 1), y, z], arguments=arguments)


def _analyze(name: str, times: int) -> None:
    """Analyze and predict a launch; with `times` only load it and profile the grid that is so many times larger."""
    stem, _, variant = name.partition(".")
    if not times:
        wl.predict(wl.analyze(None, FILES[stem], GPU, variant=variant), GPU, "warplens")
        return
    call = load_launch(FILES[stem], variant)
    options = Options(defines=call.defines, fast_math=call.fast_math, register_limit=call.register_limit)
    profile(load_program(Path(call.folder) / str(call.file), call.kernel, options), _larger(call, times), GPU)


def measured(name: str, times: int = 0) -> tuple[float, float, str]:
    """Return the processor seconds and megabytes of analyzing a launch in a process of its own, and what went wrong."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            try:
                _analyze(name, times)
            except WarplensError as error:
                said.write(str(error).splitlines()[0])
                said.flush()
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        wrong = said.read() or (f"ended with status {status}" if status else "")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, wrong


def main(arguments: list[str]) -> int:
    """Print a line per launch that misses a goal, and the largest figures; `--all`: a line for every launch."""
    counters = json.loads(gzip.decompress((ROOT / "data/h200/kernels/ncu.json.gz").read_bytes()))["launches"]
    names = [a for a in arguments if a in counters] or list(counters)
    _analyze(names[0], 0)  # loads and compiles what all of them need
    worst, most, missed, ratios, kept = (0.0, ""), (0.0, ""), 0, list[float](), list[str]()
    for name in names:
        seconds, megabytes, wrong = measured(name)
        larger_seconds, larger_megabytes, larger_wrong = measured(name, 100)
        top = max(seconds, larger_seconds), max(megabytes, larger_megabytes)
        miss = bool(wrong) or top[0] > GOAL_SECONDS or top[1] > GOAL_MEGABYTES
        worst, most, missed = max(worst, (top[0], name)), max(most, (top[1], name)), missed + miss
        ratios += [] if larger_wrong else [larger_seconds / measured(name, 1)[0]]
        kept += [name] if larger_wrong else []
        if miss or "--all" in arguments:
            rest = f"a larger grid {larger_seconds:5.2f} s, {larger_megabytes:5.0f} MB {wrong or larger_wrong}"
            print(f"  {name:<32} {seconds:5.2f} s, {megabytes:5.0f} MB; {rest}{' MISSED' if miss else ''}", flush=True)
    print(f"  analyzing {len(names)} launches   {worst[0]:5.2f} s at most ({worst[1]}), {most[0]:.0f} MB ({most[1]})")
    if ratios:
        times = f"{statistics.median(ratios):.2f} times as long to profile (median), {max(ratios):.2f} at most"
        print(f"  a grid 100 times larger, {len(ratios)} of them   {times}")
    if kept:
        print(f"  not enlarged, as their own numbers say how long arrays are: {', '.join(kept)}")
    print(f"  goals 5 s and 1 GB, also with the larger grid: {f'{missed} MISSED' if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
