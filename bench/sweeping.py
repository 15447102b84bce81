"""Points per second of a sweep of 20 kernels on three GPUs, and of a million closed-form points: `make bench`.

Rates are by the clock on the wall, and by the processors' time as if two cores were free: others may be at work.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError
from warplens.emulator.profiler import QUICK, profile
from warplens.machine import load_machine
from warplens.models import predict
from warplens.program.toolchain import prefer_wheels
from warplens.tuner.points import Row, Task, compiled
from warplens.tuner.results import chunks
from warplens.tuner.run import processes, run
from warplens.tuner.spec import Configuration, Range, WorkloadSpace, load_sweep
from warplens.workload.counted import workload_of

SPEC = Path(__file__).with_name("sweep.toml")
CORES = 2


_READY: set[tuple[str, str]] = set()  # kernels and GPUs that this process has emulated


def compile_only(task: Task) -> list[Row]:
    """What a worker does before the clock starts: compile a configuration for every GPU.

    Of every kernel one is emulated and predicted too, and forgotten: what Numba compiles is compiled once for an
    installation.
    """
    call, kernel = task.configuration.call, task.configuration.kernel
    for gpu in task.gpus:
        machine = load_machine(gpu)
        _, program = compiled(call, machine, Cache(task.cache))
        if (kernel, gpu) not in _READY:
            _READY.add((kernel, gpu))
            workload = workload_of(program, call, profile(program, call, machine, effort=QUICK), machine)
            for model in task.models:
                with contextlib.suppress(WarplensError):
                    predict(workload, machine, model)
    return []


def timed(folder: Path, name: str, **work: object) -> tuple[int, float, float]:
    """Run the sweep; return points, seconds, and seconds on two free cores."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    outcome = run(load_sweep(SPEC), folder / name, processes(CORES), cache=str(folder / "cache"), **work)  # type: ignore[arg-type]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if outcome.failed:
        print(f"  {outcome.failed} points failed", file=sys.stderr)
    return outcome.points, time.perf_counter() - start, spent / CORES


def closed_form() -> float:
    """Return the seconds of a million points of a closed-form model, a thousand alphas by a thousand occupancies."""
    axes: dict[str, Range | list[float]] = {
        "alpha": Range(0, 512, 1000),
        "warps_per_sm": Range(1, 64, 1000),
    }
    space = WorkloadSpace("volkov-add-load", axes)
    start = time.process_time()
    assert sum(len(part["seconds"]) for part in chunks(space, ".", ["gtx980"], ["volkov"], 0)) == 1_000_000
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="keep journals and the cache here")
    given = parser.parse_args()
    seconds = min(closed_form() for _ in range(3))
    missed = int(seconds > 1)
    print(f"  closed-form points   {seconds:8.2f} s for a million   goal 1 s: {'met' if seconds <= 1 else 'MISSED'}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        try:
            _, compiling, _ = timed(folder, "compiled", work=compile_only)
            configurations = sum(isinstance(c, Configuration) for c in load_sweep(SPEC).configurations())
            print(f"  compiling            {compiling:8.1f} s for {configurations} configurations on three GPUs")
            for name, goal in (("emulated", 100), ("cached", 100)):
                points, wall, free = timed(folder, name)
                mark = "met" if points / free >= goal else "MISSED"
                missed += mark == "MISSED"
                rates = f"{points / wall:8.1f} points/s ({points / free:.1f} on {CORES} free cores)"
                each = f"{1e3 * CORES * free / points:.1f} ms of processor time each"
                print(f"  sweep, {name:<13} {rates} of {points}, {each}   goal {goal}/s: {mark}", flush=True)
        except WarplensError as error:
            print(f"  no sweep: {error}")
    worker, here = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
    )
    print(f"  most memory          {worker:8.0f} MB in a worker, {here:.0f} MB here; load {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main())
