"""Speed figures, each as a rate and as a ratio within this run: `make bench`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np

from warplens.machine import load_machine
from warplens.models import predict
from warplens.program.toolchain import prefer_wheels
from warplens.workload import mix


def best(function: Callable[[], object], repeats: int = 7) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def predictions(model: str) -> tuple[float, float]:
    """Return predictions per second: a 1000 x 1000 grid of alpha and occupancy in one call, and one by one."""
    machine = load_machine("gtx980")
    alpha, warps = np.linspace(0, 512, 1000), np.linspace(1, 64, 1000)
    grid = mix(alpha[:, None])
    made = np.asarray(predict(grid, machine, model, warps_per_sm=warps).cycles).size
    at_once = made / best(lambda: predict(grid, machine, model, warps_per_sm=warps))
    few = [(mix(float(a)), float(n)) for a, n in zip(alpha[::10], warps[::10], strict=True)]
    singly = len(few) / best(lambda: [predict(w, machine, model, warps_per_sm=n) for w, n in few], 3)
    return at_once, singly


def start_up(*arguments: str) -> float:
    """Return the shortest time of a command, in milliseconds."""
    command = [sys.executable, "-m", "warplens", *arguments]
    return 1e3 * best(lambda: subprocess.run(command, capture_output=True, check=True), 9)


def spent(*arguments: str) -> float:
    """Return the processors' time of a command, in milliseconds."""
    from resource import RUSAGE_CHILDREN, getrusage

    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "warplens", *arguments], capture_output=True, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def decodings() -> list[tuple[str, int, float]]:
    """Return the name, the instructions and the seconds to decode nvdisasm's text of every cubin under data/.

    Nothing is known from the run before: what the front end keeps of opcodes, operands and shapes is forgotten. The
    time is the processor's, the best of runs that are spread over seconds, so that others' work is not in it.
    """
    from warplens.core.errors import WarplensError
    from warplens.program import disassembly, load, toolchain

    files = sorted((Path(__file__).parents[1] / "data").rglob("*.cubin"))
    try:
        texts = {file.name: toolchain.run("nvdisasm", "-c", "-g", "-hex", file) for file in files}
    except WarplensError:
        return []
    layers = ("warplens.program", "warplens.workload")
    loaded = [module for name, module in sys.modules.items() if name.startswith(layers)]
    kept = {id(value): value for module in loaded for value in vars(module).values() if hasattr(value, "cache_clear")}
    tables = {"_table", "_demangler"}  # a file and a library, read once in a process
    best, counts = dict.fromkeys(texts, 1e9), dict.fromkeys(texts, 0)
    for _ in range(100):
        for name, text in texts.items():
            for function in kept.values():
                if function.__name__ not in tables:
                    function.cache_clear()
            start = time.process_time()
            programs = [load.without_padding(function, "bench") for function in disassembly.parse_disassembly(text)]
            best[name] = min(best[name], time.process_time() - start)
            counts[name] = sum(len(program.instructions) for program in programs)
    return [(name, counts[name], best[name]) for name in texts]


def decoded() -> list[tuple[str, float, bool]]:
    """Return what was decoded, the rate in instructions per second, and whether it counts: throughput does.

    In a kernel of a few dozen instructions nearly every opcode, operand and shape is the first of its kind, which is
    half of its time: that is no throughput, and is printed beside it.
    """
    found = sorted(decodings(), key=lambda row: row[1] / row[2])
    if not found:
        return []
    many = [(f"{name}, the slowest with a hundred and more", n / s, True) for name, n, s in found if n >= 100]
    few = [(f"{name}, {n} in {1e3 * s:.1f} ms", n / s, False) for name, n, s in sorted(found, key=lambda row: row[1])]
    together = sum(n for _, n, _ in found) / sum(s for _, _, s in found)
    return [(f"all {len(found)} cubins, each from nothing", together, True), *many[:1], few[0]]


def emulating(launch: str, blocks: int) -> float | None:
    """Return millions of warp instructions per second that the emulator runs of a launch file's first blocks.

    The best of five runs of some hundredths of a second each: what others do on the core is not in it.
    """
    from warplens.core.errors import WarplensError

    try:
        from warplens.emulator.emulator import Emulator
        from warplens.program import load_program
        from warplens.workload.launch import load_launch

        call = load_launch(Path(__file__).parents[1] / "examples" / launch)
        emulator = Emulator(load_program(Path(call.folder) / str(call.file), call.kernel), call)
        emulator.run([0])  # compiles what is not compiled yet, and touches the memory
    except (WarplensError, ImportError):
        return None
    speeds = []
    for _ in range(5):
        emulator.forget()
        before, start = emulator.executed, time.process_time()
        emulator.run(range(1, 1 + blocks))
        speeds.append((emulator.executed - before) / (time.process_time() - start) / 1e6)
    return max(speeds)


def simulating() -> tuple[float, float, float]:
    """Return millions of warp instructions simulated per second, and seconds to start: first, and from the cache."""
    import os
    import tempfile

    from warplens.papers.validation.simulated import mix_code
    from warplens.simulator.run import Options, run
    from warplens.simulator.units import units

    made = units(load_machine("h200"))
    speeds = []
    for other, alpha, warps in (("shared", 16, 32), ("sfu", 8, 64), ("load", 64, 64)):
        code = mix_code(made, "first", other, alpha, 1, warps)
        blocks = len(code.blocks)
        run(code, made, Options(), resident=blocks, blocks=blocks, limit=1000.0)
        rates = []
        for _ in range(7):  # the best: what others do on the core is not in it
            start = time.process_time()
            done = run(code, made, Options(), resident=blocks, blocks=blocks, limit=400_000.0).issued
            rates.append(done / (time.process_time() - start) / 1e6)
        speeds.append(max(rates))
    program = (
        "import time, warplens as wl; w, m = wl.mix(4.0, other='shared'), wl.load_machine('h200'); "
        "t = time.process_time(); wl.simulate(w, m, warps_per_sm=4); print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", program]
        starts = [
            float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout) for _ in range(2)
        ]
    return min(speeds), starts[0], starts[1]


def crowded() -> list[tuple[str, float]]:
    """Return millions of instructions simulated per second in loops of one alone, of 16 warps on each scheduler."""
    import warplens as wl
    from warplens.simulator.run import Options
    from warplens.workload import Launch, Workload
    from warplens.workload.workload import WarpListing

    gpu, launch, made = load_machine("h200"), Launch(grid=132 * 16, block=256, blocks_per_sm=8), []
    texts = ("MUFU R1, R1\n", "LDS R4, [R5]\n", "IMAD R1, R1, R2, R1\n")
    for text in texts:
        work = Workload(name="crowded", warps=[WarpListing(20 * text)], iterations=100, launch=launch)
        rates = list[float]()
        for _ in range(3):
            start = time.process_time()
            done = wl.simulate(work, gpu, options=Options(full=True)).simulated_instructions
            rates.append(done / (time.process_time() - start) / 1e6)
        made.append((text.split()[0], max(rates)))
    return made


def growing() -> list[tuple[str, float, float, float]]:
    """Return what a kernel's ten thousand and its million warps cost, both in ms, and the ratio of the whole command.

    Blocks of 8 warps, 8 on each SM. Processors' time: of the simulation, the best of five; of `warplens simulate`, in
    all, the best of 15 in turn.
    """
    import tempfile

    import warplens as wl
    from warplens.workload import Launch, Workload
    from warplens.workload.workload import WarpListing

    gpu, made, stream = load_machine("h200"), [], "LD R1, [R2]\n" + 20 * "FADD R1, R1, R3\n"
    tile = 16 * "FADD R1, R1, R3\n" + "MUFU R1, R1\nLDS R4, [R5]\nBAR\n"
    kernels = (("a load and 20 adds", stream, 1), ("100 times these", stream, 100), ("1000 times", stream, 1000),
               ("adds, SFU, barrier", tile, 1), ("110 times these", tile, 110))  # fmt: skip
    for name, text, turns in kernels:
        milliseconds, commands = list[float](), [inf, inf]
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / f"{k}.json") for k in range(2)]
            for warps, file in zip((10_000, 1_000_000), files, strict=True):
                launch = Launch(grid=warps // 8, block=256, blocks_per_sm=8)
                work = Workload(name=name, warps=[WarpListing(text)], iterations=turns, launch=launch)
                work.save(Path(file))
                times = []
                for _ in range(5):
                    start = time.process_time()
                    wl.simulate(work, gpu)
                    times.append(time.process_time() - start)
                milliseconds.append(1e3 * min(times))
            for _ in range(15):
                commands = [min(c, spent("simulate", f)) for c, f in zip(commands, files, strict=True)]
        few, many = milliseconds
        made.append((name, few, many, commands[1] / commands[0]))
    return made


_LARGE = """
extern "C" __global__ void large(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[i], b = y[i];
#pragma unroll
  for (int k = 0; k < 840; k++) {
    float c = x[i + 32 * k];
    a = fmaf(a, b, c); b = a * c + b; a = rsqrtf(fabsf(b) + 1.0f) + a;
    if ((k & 63) == 0) { __syncthreads(); if (a > b) y[i + k] = a; }
  }
  x[i] = a + b;
}
"""


def showing() -> tuple[int, float] | None:
    """Return how many instructions a large kernel has and the seconds that `show` takes on it, its cubin given."""
    import tempfile

    from warplens.core.errors import WarplensError
    from warplens.program import load_program, nvrtc

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.cubin"
        try:
            nvrtc.compile_source(_LARGE, "large.cu", "sm_90", ["-lineinfo"], file)
        except WarplensError:
            return None
        return len(load_program(file).instructions), start_up("show", str(file)) / 1e3


def main() -> int:
    print("closed-form models, one core, 1000 x 1000 grid of alpha and warps per SM on the GTX 980")
    goals = {"volkov": 10e6, "volkov-contention": 1e6}
    missed = 0
    for model in ("volkov", "volkov-contention", "hong-kim", "sim2012", "huang-gto"):
        at_once, singly = predictions(model)
        goal = goals.get(model)
        mark = "" if goal is None else f"   goal {goal / 1e6:g} M/s: {'met' if at_once >= goal else 'MISSED'}"
        missed += goal is not None and at_once < goal
        rates = f"{at_once / 1e6:8.1f} M/s   one by one {singly / 1e3:6.2f} k/s   ratio {at_once / singly:8.0f}"
        print(f"  {model:<20} {rates}{mark}")
    text = start_up("--help")
    missed += text > 150
    print(f"  warplens --help      {text:8.0f} ms    goal 150 ms: {'met' if text <= 150 else 'MISSED'}")
    print(f"  warplens compare     {start_up('compare', 'saxpy'):8.0f} ms")
    for name, rate, counts in decoded():
        missed += counts and rate < 100e3
        mark = f"   goal 100 k/s: {'met' if rate >= 100e3 else 'MISSED'}" if counts else ""
        print(f"  decoding             {rate / 1e3:8.0f} k instructions/s of {name}{mark}")
    for launch, blocks in (
        ("micro/itilp.toml", 8),
        ("reduction/reduction_k6.toml", 16),
        ("matmul/matmul_naive.toml", 4),
    ):
        speed = emulating(launch, blocks)
        if speed is not None:
            missed += speed < 5
            mark = "met" if speed >= 5 else "MISSED"
            print(f"  emulating            {speed:8.1f} M warp instructions/s of {launch}   goal 5 M/s: {mark}")
    simulated, first, later = simulating()
    for what, value, unit, limit, met in (
        ("simulating", simulated, "M warp instructions/s", "5 M/s", simulated >= 5),
        ("its first start", first, "s, compiling", "6 s", first <= 6),
        ("a later start", later, "s", "1 s", later <= 1),
    ):
        missed += not met
        print(f"  {what:<20} {value:8.2f} {unit}   goal {limit}: {'met' if met else 'MISSED'}")
    rates = ", ".join(f"{rate:.1f} of {name}" for name, rate in crowded())
    print(f"  ... where all warps wait for one pipe: {rates}")
    for name, few, many, command in growing():
        missed += many > few
        mark = "met" if many <= few else "MISSED"
        both = f"({many:.0f} and {few:.0f} ms; the whole command {command:.2f} times), {name}"
        print(f"  a million warps      {many / few:8.1f} times ten thousand {both}   goal 1: {mark}")
    shown = showing()
    if shown is not None:
        count, seconds = shown
        missed += seconds > 2
        mark = "met" if seconds <= 2 else "MISSED"
        print(f"  warplens show        {seconds:8.2f} s for {count} instructions   goal 2 s for 5000: {mark}")
    return 1 if missed else 0


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main())
