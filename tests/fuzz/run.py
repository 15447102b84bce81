"""Fuzzing: injured files of every kind through the command line, in processes that are watched.

    python -m tests.fuzz.run --count 10000 --seed 1 --jobs 2

A case passes when the command answers, or refuses with exit code 2 and one line, within five seconds of the
processor, and leaves nothing behind. A file that does not pass is kept under --keep with its number, and
`--first NUMBER --count 1` with the same seed makes it again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from warplens.program.toolchain import prefer_wheels

from . import seeds
from .case import PATIENCE_SECONDS, Result, prepared, serve


class _Worker:
    """A process that runs one case after the other, and can be lost."""

    def __init__(self, seed: int, files: dict[str, list[Path]], folder: Path) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.folder = folder
        self.process = context.Process(target=serve, args=(theirs, seed, files, folder), daemon=True)
        self.process.start()
        theirs.close()
        self.number, self.deadline = -1, 0.0

    def give(self, number: int, patience: float) -> None:
        self.number, self.deadline = number, time.monotonic() + patience
        self.connection.send(number)

    def end(self) -> None:
        self.connection.send(None)
        self.process.join()

    def lost(self, why: str) -> str:
        """End it; return why, with where it was."""
        self.process.kill()
        self.process.join()
        stack = self.folder / "stack"
        return f"{why}\n{stack.read_text() if stack.exists() else ''}"


def fuzz(numbers: range, seed: int, jobs: int, files: dict[str, list[Path]], folder: Path) -> Iterator[Result]:
    """Run cases on seeds; yield what came of each."""
    todo, workers, made = list(reversed(numbers)), dict[Connection, _Worker](), 0
    while todo or workers:
        while todo and len(workers) < jobs:
            worker = _Worker(seed, files, folder / f"worker{made}")
            made += 1
            worker.give(todo.pop(), 60.0)  # it imports first
            workers[worker.connection] = worker
        soonest = min(w.deadline for w in workers.values())
        for ready in wait(list(workers), max(0.0, soonest - time.monotonic())):
            assert isinstance(ready, Connection)
            worker = workers[ready]
            try:
                yield ready.recv()
            except EOFError:
                yield _lost(workers.pop(ready), "the process died", seed, files, folder)
                continue
            worker.give(todo.pop(), PATIENCE_SECONDS) if todo else workers.pop(ready).end()
        for connection, worker in list(workers.items()):
            if time.monotonic() > worker.deadline and not connection.poll():
                yield _lost(workers.pop(connection), "hangs", seed, files, folder)


def _lost(worker: _Worker, why: str, seed: int, files: dict[str, list[Path]], folder: Path) -> Result:
    kind, _, command = prepared(worker.number, seed, files, folder)
    return Result(worker.number, kind, " ".join(command), PATIENCE_SECONDS, 0.0, None, worker.lost(why))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("count", 10000), ("first", 0), ("seed", 1), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for files that do not pass")
    args = parser.parse_args()
    start, results = time.perf_counter(), list[Result]()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name).resolve()
        files = seeds.make(folder)
        for result in fuzz(range(args.first, args.first + args.count), args.seed, args.jobs, files, folder):
            results.append(result)
            if result.wrong:
                _keep(result, args, files)
            if len(results) % 500 == 0:
                print(f"{len(results):6} of {args.count} in {time.perf_counter() - start:.0f} s", flush=True)
    print(summary(results, time.perf_counter() - start))
    return 1 if any(r.wrong for r in results) else 0


def _keep(result: Result, args: argparse.Namespace, files: dict[str, list[Path]]) -> None:
    args.keep.mkdir(parents=True, exist_ok=True)
    _, file, _ = prepared(result.number, args.seed, files, args.keep)
    text = f"seed {args.seed}, case {result.number}: warplens {result.command}\n\n{result.wrong}\n"
    file.with_name(f"{file.name}.why").write_text(text)
    print(f"case {result.number} ({result.kind}): {result.wrong.strip().splitlines()[-1][:150]}", flush=True)


def summary(results: list[Result], seconds: float) -> str:
    """Return a table by kind of file."""
    row = "{:<12}{:>7}{:>7}{:>9}{:>8}{:>11}{:>13}{:>7}".format
    rows = [row("kind", "cases", "shown", "refused", "failed", "longest s", "processor s", "case")]
    for kind in [*sorted({r.kind for r in results}), ""]:
        some = [r for r in results if kind in ("", r.kind)]
        bad = [r for r in some if r.wrong]
        counts = (len(some), *(sum(r.code == code and not r.wrong for r in some) for code in (0, 2)), len(bad))
        busiest = max(some, key=lambda r: r.processor_seconds)
        longest = f"{max(r.seconds for r in some):.2f}", f"{busiest.processor_seconds:.2f}"
        rows.append(row(kind or "all", *counts, *longest, busiest.number))
    peak = max((r.peak_bytes for r in results), default=0)
    return "\n".join([*rows, f"{seconds:.0f} s; at most {peak / 2**20:.0f} MiB in a process"])


if __name__ == "__main__":
    prefer_wheels()
    sys.exit(main())
