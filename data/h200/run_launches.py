"""Run the launches that build_launches.py compiled on the GPU at hand, through the driver API alone.

    python data/h200/run_launches.py --small               outputs of the small launches: outputs.npz
    python data/h200/run_launches.py --time                times at full size: times.json
    ncu ... python data/h200/run_launches.py --all-once    each launch at full size once, for a profiler
    ncu ... python data/h200/run_launches.py --ncu vabs histogram.one-bin
    ncu --profile-from-start off ... python data/h200/run_launches.py --durations    read by durations.py
    python data/h200/run_launches.py --time --dry-run      what would run; needs no GPU

Results go to the folder --out, which is $OUT where that is set; keep_results.py puts them among those of data/h200.
--only takes patterns such as `ulist*` or `examples/today/*`. A launch that fails leaves its error in the result, and
the others go on. Needs NumPy, msgspec and the folder src (PYTHONPATH=src).

Arrays hold what the launch file says, with the argument's number as seed. Each is made once, kept on the GPU and
shared by the launches that only read it, until all of them are too many; what a launch writes to is put back before
every run.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from driver import Failure, Gpu

from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall, load_launch

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1 << 21  # elements made at a time by one thread
FLUSH_BYTES = 1 << 28  # read to clear the L2 cache, which has 50 MB
KEPT_BYTES = 8 << 30  # arrays kept for later launches; a profiler saves all of them at every launch


class Arrays:
    """Arrays on the GPU by what they hold: each is made once."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.made: dict[tuple[object, ...], ctypes.c_uint64] = {}
        self.bytes = 0
        self.pool = ThreadPoolExecutor(os.cpu_count())

    def get(self, argument: Argument, seed: int, folder: str) -> ctypes.c_uint64:
        """Return the array of an argument, not to be written to."""
        key = (argument.element, argument.count, argument.fill, seed, folder if "file" in argument.fill else "")
        if key not in self.made:
            array = self.gpu.memory(size_of(argument))
            self.bytes += size_of(argument)
            if argument.fill != "zeros":
                self._fill(array, argument, seed, folder)
            self.made[key] = array
        return self.made[key]

    def forget(self) -> None:
        """Give back all arrays, if they are more than is kept between launches."""
        if self.bytes > KEPT_BYTES:
            for array in self.made.values():
                self.gpu.call("cuMemFree_v2", array)
            self.made, self.bytes = {}, 0

    def _fill(self, array: ctypes.c_uint64, argument: Argument, seed: int, folder: str) -> None:
        values, count, size = contents(argument, seed, folder), argument.count or 0, SCALAR_BYTES[argument.element]
        starts = range(0, count, CHUNK)
        parts = self.pool.map(lambda at: values(np.arange(at, min(count, at + CHUNK), dtype=np.int64)), starts)
        for at, part in zip(starts, parts, strict=True):
            self.gpu.put(array, at * size, np.ascontiguousarray(part))


def size_of(argument: Argument) -> int:
    """Return the bytes of an array."""
    return (argument.count or 0) * SCALAR_BYTES[argument.element]


class Launch:
    """One launch, ready to run: its kernel, its arrays, and what has to be put back before a run."""

    def __init__(self, gpu: Gpu, arrays: Arrays, entry: dict[str, Any], call: KernelCall, folder: Path) -> None:
        self.gpu, self.call = gpu, call
        self.kernel = gpu.function(folder / entry["cubin"], entry["kernel"], call.dynamic_shared_bytes)
        self.own: list[ctypes.c_uint64] = []  # memory of this launch alone
        self.restored: list[tuple[ctypes.c_uint64, ctypes.c_uint64, int]] = []
        self.outputs: dict[str, tuple[Argument, ctypes.c_uint64]] = {}
        self.buffers: list[Any] = []
        for seed, argument in enumerate(call.arguments):
            self.buffers.append(self._argument(arrays, argument, seed))
        pointers = [ctypes.cast(ctypes.byref(b), ctypes.c_void_p) for b in self.buffers]
        self.parameters = (ctypes.c_void_p * len(pointers))(*pointers)
        self.restore()

    def _argument(self, arrays: Arrays, argument: Argument, seed: int) -> Any:
        if not argument.is_pointer:
            return scalar(argument)
        if argument.count is None:
            return ctypes.c_uint64(0)
        kept = arrays.get(argument, seed, self.call.folder)
        if not argument.name.startswith("out"):
            return kept
        written = self.gpu.memory(size_of(argument))
        self.own.append(written)
        self.restored.append((written, kept, size_of(argument)))
        self.outputs[argument.name] = (argument, written)
        return written

    @property
    def in_place(self) -> bool:
        """Whether the kernel reads what it writes, so that a second run may do other work."""
        return any(argument.fill != "zeros" for argument, _ in self.outputs.values())

    def restore(self) -> None:
        """Put back what a run may have changed."""
        for to, kept, size in self.restored:
            self.gpu.copy(to, kept, size)

    def run(self) -> None:
        """Launch; does not wait."""
        shared = ctypes.c_uint(self.call.dynamic_shared_bytes)
        shape = [ctypes.c_uint(n) for n in (*self.call.grid_shape, *self.call.block_shape)]
        self.gpu.call("cuLaunchKernel", self.kernel, *shape, shared, None, self.parameters, None)

    def results(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs."""
        made = {}
        for name, (argument, written) in self.outputs.items():
            made[name] = np.empty(argument.count or 0, dtype_of(argument.element))
            self.gpu.get(written, made[name])
        return made

    def free(self) -> None:
        """Give back the memory of this launch."""
        for pointer in self.own:
            self.gpu.call("cuMemFree_v2", pointer)


def scalar(argument: Argument) -> Any:
    """Return the bytes of an argument that is not an array."""
    if argument.type == "bytes":
        data = bytes.fromhex(str(argument.value))
    elif argument.type in ("f16", "bf16"):
        raise Failure(f"{argument.name}: a scalar of type {argument.type} is not supported here")
    else:
        value = float(argument.value or 0) if argument.type[0] == "f" else int(argument.value or 0)
        data = np.array([value]).astype(dtype_of(argument.type)).tobytes()
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


class Session:
    """The launches of an index, and what is done with them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.folder = given, given.index.parent
        self.gpu = Gpu()
        self.arrays = Arrays(self.gpu)
        self.entries = json.loads(given.index.read_text())["launches"]
        self.outputs: dict[str, np.ndarray[Any, Any]] = {}
        self.flusher: Launch | None = None

    def launch(self, entry: dict[str, Any], arrays: Arrays | None = None) -> Launch:
        """Make a launch ready, with arrays of its own or those that are shared."""
        call = load_launch(ROOT / entry["launch"], entry["variant"])
        return Launch(self.gpu, arrays or self.arrays, entry, call, self.folder)

    def each(self, entries: list[dict[str, Any]], work: Any) -> dict[str, Any]:
        """Do the work with every launch; an error is its result."""
        found: dict[str, Any] = {}
        for i, entry in enumerate(entries):
            name, start = entry["name"], time.monotonic()
            try:
                launch = self.launch(entry)
                found[name] = work(name, launch)
                launch.free()
                self.arrays.forget()
            except Exception as error:  # whatever one launch does wrong must not cost the others
                found[name] = {"error": f"{type(error).__name__}: {error}"}
                self._recover()
            taken = time.monotonic() - start
            problem = found[name].get("error", "")
            print(f"{i + 1}/{len(entries)} {name} {taken:.2f} s {problem}", file=sys.stderr, flush=True)
        return found

    def _recover(self) -> None:
        """Go on with the context if it still works, else with a new one."""
        try:
            self.gpu.wait()
        except Failure:
            self.gpu.reset()
            self.arrays = Arrays(self.gpu)
            self.flusher = None

    def small(self, name: str, launch: Launch) -> dict[str, Any]:
        """Keep the outputs; run twice to see that they do not depend on chance."""
        runs = []
        for _ in range(2):
            launch.restore()
            launch.run()
            self.gpu.wait()
            runs.append(launch.results())
        first, second = runs
        self.outputs |= {f"{name}/{key}": value for key, value in first.items()}
        same = all(first[key].tobytes() == second[key].tobytes() for key in first)
        return {} if same else {"error": "two runs differ"}

    def durations(self, name: str, launch: Launch) -> dict[str, Any]:
        """Run for a profiler that is told which launches to time: with a warm L2, then with a cleared one."""
        repetitions = self.given.repetitions
        for flushed in [False] * repetitions + [True] * -(-repetitions // 2):
            self._before(launch, launch)
            if flushed:
                self.flush()
            self.gpu.wait()
            self.gpu.call("cuProfilerStart")
            launch.run()
            self.gpu.wait()
            self.gpu.call("cuProfilerStop")
        return {"warm": repetitions, "cold": -(-repetitions // 2)}

    def once(self, name: str, launch: Launch) -> dict[str, Any]:
        """Run once."""
        launch.run()
        self.gpu.wait()
        return {}

    def time(self, name: str, launch: Launch) -> dict[str, Any]:
        """Measure: with what the previous run left in the L2 cache, twice in a row, and with the cache cleared.

        A delay runs before the first event, so that the kernel is in the queue when the event is passed.
        """
        entry = next(e for e in self.entries if e["name"] == name)
        second = self.launch(entry) if launch.in_place else launch
        samples: dict[str, list[float]] = {"warm": [], "pair": [], "cold": []}
        for warm_up in (True, *[False] * self.given.repetitions):
            self._before(launch, second)
            warm = self._timed(launch)
            self._before(launch, second)
            pair = self._timed(launch, second)
            self._before(launch, second)
            self.flush()
            cold = self._timed(launch)
            for kind, microseconds in (("warm", warm), ("pair", pair), ("cold", cold)):
                samples[kind] += [] if warm_up else [microseconds]
        clocks = self.gpu.clocks_mhz()
        if second is not launch:
            second.free()
        median = {f"{kind}_us": round(statistics.median(values), 3) for kind, values in samples.items()}
        return {**median, "second_us": round(median["pair_us"] - median["warm_us"], 3), "clocks_mhz": clocks,
                "samples_us": samples}  # fmt: skip

    def _before(self, launch: Launch, second: Launch) -> None:
        if launch.in_place:
            launch.restore()
            if second is not launch:
                second.restore()
        else:
            launch.run()

    def _timed(self, *launches: Launch) -> float:
        start, end = self.gpu.events
        self.gpu.delay()
        self.gpu.call("cuEventRecord", start, None)
        for launch in launches:
            launch.run()
        self.gpu.call("cuEventRecord", end, None)
        self.gpu.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self.gpu.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return round(1e3 * milliseconds.value, 3)

    def flush(self) -> None:
        """Clear the L2 cache by reading: a sum over more than it holds leaves no line that has to be written back."""
        if self.flusher is None:
            entry = next(e for e in self.entries if e["name"] == "reduction_k6")
            self.flusher = self.launch(entry, Arrays(self.gpu))
            if sum(size_of(a) for a in self.flusher.call.arguments if a.is_pointer) < FLUSH_BYTES:
                raise Failure("reduction_k6 reads too little to clear the L2 cache")
        self.flusher.run()


def chosen(entries: list[dict[str, Any]], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the launches that were asked for."""
    patterns = given.ncu or given.only or ["*"]
    found = [
        e
        for e in entries
        if e["small"] == given.small and any(fnmatch.fnmatch(e[key], p) for key in ("name", "launch") for p in patterns)
    ]
    if not found:
        raise SystemExit(f"no launch is called {', '.join(patterns)}")
    return found


def dry_run(entries: list[dict[str, Any]], folder: Path) -> None:
    """Show what would run, and make the beginning of every array."""
    made: dict[tuple[object, ...], int] = {}
    for entry in entries:
        call = load_launch(ROOT / entry["launch"], entry["variant"])
        if not (folder / entry["cubin"]).is_file():
            raise SystemExit(f"{folder / entry['cubin']} is missing")
        total = 0
        for seed, argument in enumerate(call.arguments):
            if not argument.is_pointer:
                scalar(argument)
                continue
            contents(argument, seed, call.folder)(np.arange(min(argument.count or 0, 1000), dtype=np.int64))
            made[argument.element, argument.count, argument.fill, seed] = size_of(argument)
            total += size_of(argument)
        print(f"{entry['name']:44} {call.blocks:8} x {call.threads_per_block:4}  {total / 1e6:9.2f} MB")
    filled = sum(size for (_, _, fill, _), size in made.items() if fill != "zeros")
    print(
        f"{len(entries)} launches, {filled / 1e6:.0f} MB of arrays to fill, {sum(made.values()) / 1e6:.0f} MB to keep"
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--small", action="store_true")
    what.add_argument("--time", action="store_true")
    what.add_argument("--all-once", action="store_true")
    what.add_argument("--durations", action="store_true")
    what.add_argument("--ncu", nargs="+", metavar="NAME")
    parser.add_argument("--only", nargs="+", metavar="PATTERN")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--index", type=Path, default=ROOT / "build" / "launches" / "index.json")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "build/launches/results")))
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    if given.dry_run:
        dry_run(chosen(json.loads(given.index.read_text())["launches"], given), given.index.parent)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    session = Session(given)
    entries = chosen(session.entries, given)
    kinds = (given.small, session.small), (given.time, session.time), (given.durations, session.durations)
    work = next((work for asked, work in kinds if asked), session.once)
    about = session.gpu.about()
    found = session.each(entries, work)
    failed = [name for name, result in found.items() if "error" in result]
    file = "small.json" if given.small else "times.json" if given.time else "order.json"
    head = {**about, "repetitions": given.repetitions if given.time or given.durations else 1}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in found.items())
    if given.small:
        np.savez_compressed(given.out / "outputs.npz", **session.outputs)
    (given.out / file).write_text(json.dumps(head)[:-1] + ', "launches": {\n' + lines + "\n}}\n")
    print(f"{len(found) - len(failed)} launches ran, {len(failed)} failed {' '.join(failed)}", file=sys.stderr)


if __name__ == "__main__":
    main()
