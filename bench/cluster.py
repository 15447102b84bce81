"""The sweep of `make bench` on local Dask clusters, with a worker that is killed, and killed as a whole and resumed.

    python bench/cluster.py --folder FOLDER       # with the cache that `bench/sweeping.py --folder FOLDER` left there

Each must give the file that two processes give. Needs Dask (extra `dask`).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from distributed import LocalCluster

from warplens.program.toolchain import prefer_wheels
from warplens.tuner.run import Watch, dask, processes, run
from warplens.tuner.spec import load_sweep

SPEC = Path(__file__).with_name("sweep.toml")


def results(folder: Path) -> dict[str, bytes]:
    """Return what a run wrote."""
    names = ("results.jsonl", "results.parquet")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def clean(folder: Path) -> Path:
    """Remove what an earlier run left."""
    for name in ("journal.jsonl", "results.jsonl", "results.parquet"):
        (folder / name).unlink(missing_ok=True)
    return folder


def on_dask(out: Path, cache: Path, workers: int, watch: Callable[[LocalCluster], Watch] | None = None) -> int:
    """Sweep on so many workers; return the points."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=None) as cluster:
        engine = dask(cluster.scheduler_address)
        return run(load_sweep(SPEC), clean(out), engine, cache=str(cache), watch=watch and watch(cluster)).points


def killer(cluster: LocalCluster) -> Watch:
    """Return a watch that kills a worker of the cluster when a third is done."""
    left = [next(iter(cluster.workers.values())).pid]

    def watch(done: int, total: int) -> None:
        if left and 3 * done > total:
            os.kill(left.pop(), signal.SIGKILL)

    return watch


def killed_and_resumed(out: Path, cache: Path) -> int:
    """Kill a run with all its workers when a third is done, and run the same command again; return the points kept."""
    command = [sys.executable, "-m", "warplens", "sweep", str(SPEC), "--out", str(clean(out)), "--cache", str(cache)]
    journal = out / "journal.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 150):
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    kept = journal.read_bytes().count(b"\n") - 1
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, type=Path)
    folder = parser.parse_args().folder
    cache, wrong = folder / "cache", 0
    run(load_sweep(SPEC), clean(folder / "here"), processes(2), cache=str(cache))
    wanted = results(folder / "here")
    print(f"  {len(wanted['results.jsonl'].splitlines())} points, files: {', '.join(wanted)}", flush=True)

    def compared(what: str, out: Path, start: float) -> None:
        nonlocal wrong
        same = results(out) == wanted
        wrong += not same
        print(f"  {what:<34} {'the same files' if same else 'DIFFERENT'}, {time.time() - start:.0f} s", flush=True)

    for workers in (2, 4, 8):
        start = time.time()
        on_dask(folder / f"dask{workers}", cache, workers)
        compared(f"Dask, {workers} workers", folder / f"dask{workers}", start)
    start = time.time()
    on_dask(folder / "killed_worker", cache, 4, killer)
    compared("Dask, one of 4 workers killed", folder / "killed_worker", start)
    start = time.time()
    kept = killed_and_resumed(folder / "resumed", cache)
    compared(f"killed after {kept} launches, resumed", folder / "resumed", start)
    return 1 if wrong else 0


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main())
