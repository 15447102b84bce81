"""Time every configuration that build.py compiled on the GPU at hand: DIR/<kernel>.json.gz. Needs NumPy and msgspec.

    PYTHONPATH=src python data/h200/suite/tuning/run.py --index build/tuning/index.json --out build/tuning/results
    PYTHONPATH=src python data/h200/suite/tuning/run.py --index build/tuning/index.json --dry-run    # needs no GPU

All configurations are timed in turn, `--repetitions` times each with a warm L2, and then again in the opposite order, so
that a slow drift of the clock falls on all of them. What a configuration computes is compared with the first one's.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from driver import Failure, Gpu
from run_launches import Arrays, Launch, scalar

from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import Argument, KernelCall

COMPARED = 1 << 16  # elements of an output


def outcome(gpu: Gpu, launch: Launch, space: str) -> np.ndarray[Any, Any]:
    """Run once and return the beginning of the output; of the sums by block, which differ in number, their sum."""
    launch.restore()
    launch.run()
    gpu.wait()
    (argument, written) = next(iter(launch.outputs.values()))
    data = np.empty(min(argument.count or 0, COMPARED), dtype_of(argument.element))
    gpu.get(written, data)
    return np.array([data.astype(np.float64).sum()]) if space == "reduction" else data.astype(np.float64)


def timed(gpu: Gpu, launch: Launch) -> float:
    """Return the microseconds of one run that waits in the queue when the first event is passed."""
    start, end = gpu.events
    gpu.delay()
    gpu.call("cuEventRecord", start, None)
    launch.run()
    gpu.call("cuEventRecord", end, None)
    gpu.call("cuEventSynchronize", end)
    milliseconds = ctypes.c_float()
    gpu.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
    return round(1e3 * milliseconds.value, 3)


class Session:
    """The configurations of an index on the GPU."""

    def __init__(self, folder: Path, repetitions: int) -> None:
        self.gpu = Gpu()
        self.arrays = Arrays(self.gpu)
        self.folder, self.repetitions = folder, repetitions
        self.expected: dict[str, np.ndarray[Any, Any]] = {}

    def measure(self, entry: dict[str, Any], *, check: bool) -> dict[str, Any]:
        """Time one configuration; an error is its result."""
        try:
            call = msgspec.convert(entry["call"], KernelCall)
            launch = Launch(self.gpu, self.arrays, entry, call, self.folder)
            found: dict[str, Any] = {}
            if check:
                seen = outcome(self.gpu, launch, entry["space"])
                wanted = self.expected.setdefault(entry["space"], seen)
                found["same"] = bool(np.allclose(seen, wanted, rtol=2e-3, atol=1e-5))
            launch.run()
            found["samples_us"] = [timed(self.gpu, launch) for _ in range(self.repetitions)]
            found["clock_mhz"] = self.gpu.clocks_mhz()["sm"]
            launch.free()
            return found
        except Failure as error:
            try:
                self.gpu.wait()
            except Failure:
                self.gpu.reset()
                self.arrays = Arrays(self.gpu)
            return {"error": str(error)}


def dry_run(entries: list[dict[str, Any]], folder: Path) -> None:
    """Check that all is there."""
    for entry in entries:
        call = msgspec.convert(entry["call"], KernelCall)
        if not (folder / entry["cubin"]).is_file():
            raise SystemExit(f"{entry['cubin']} is missing")
        for seed, argument in enumerate(call.arguments):
            if argument.is_pointer:
                _check(argument, seed)
            else:
                scalar(argument)
    print(f"{len(entries)} configurations are ready")


def _check(argument: Argument, seed: int) -> None:
    contents(argument, seed, ".")(np.arange(min(argument.count or 0, 100), dtype=np.int64))


def main() -> None:
    """Measure and write one file per kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("build/tuning/results"))
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--only", nargs="+", metavar="KERNEL", default=[])
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    entries = json.loads(given.index.read_text())["entries"]
    entries = [e for e in entries if not given.only or e["space"] in given.only]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(given.index.parent / "cubins.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        if given.dry_run:
            return dry_run(entries, Path(folder))
        session, began = Session(Path(folder), given.repetitions), time.monotonic()
        first = []
        for i, entry in enumerate(entries):
            first.append(session.measure(entry, check=True))
            if i % 100 == 0:
                print(
                    f"{i}/{len(entries)} {entry['space']} {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True
                )
        second = [session.measure(entry, check=False) for entry in reversed(entries)][::-1]
    given.out.mkdir(parents=True, exist_ok=True)
    for space in dict.fromkeys(e["space"] for e in entries):
        points = []
        for entry, one, two in zip(entries, first, second, strict=True):
            if entry["space"] == space:
                samples = [*one.get("samples_us", []), *two.get("samples_us", [])]
                kept = {key: entry[key] for key in ("number", "values", "registers", "static_shared_bytes")}
                seen = {"us": round(statistics.median(samples), 3)} if samples else {}
                points.append(
                    {
                        **kept,
                        **one,
                        **seen,
                        "samples_us": samples,
                        **({"error": two["error"]} if "error" in two else {}),
                    }
                )
        about = {**session.gpu.about(), "repetitions": 2 * given.repetitions, "space": space, "points": points}
        (given.out / f"{space}.json.gz").write_bytes(gzip.compress(json.dumps(about).encode(), mtime=0))
        failed = [p for p in points if "error" in p or not p.get("same", True)]
        print(
            f"{space}: {len(points)} points, {len(failed)} wrong {[p.get('error', p['values']) for p in failed[:2]]}",
            file=sys.stderr,
        )
    return None


if __name__ == "__main__":
    main()
