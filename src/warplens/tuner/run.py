"""Runner of a sweep: configurations go to an engine, points to the journal, and results to files at the end.

An engine starts anything with the Executor interface of concurrent.futures, and again where that broke. Processes on
this machine are the default; `dask` takes the workers of a Dask cluster, which needs Dask (extra `dask`), and on which
the files of the sweep and the cache's folder are where they are here. Another engine is a few lines.

A bounded number of configurations is in memory at a time, whatever the length of the sweep. A worker that dies breaks
its pool: a new one is started, and the configurations then at work are tried again one by one. One that kills its
worker a second time is recorded as failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from warplens.core.cache import code_digest
from warplens.core.errors import WarplensError, nearest
from warplens.core.version import __version__
from warplens.machine import load_machine
from warplens.models import MODELS
from warplens.tuner import results
from warplens.tuner.journal import SPREAD, Head, Journal
from warplens.tuner.points import Row, Task, contents, failed, rows
from warplens.tuner.spec import Configuration, Sweep, WrongPoint

Watch = Callable[[int, int], None]  # numbers done, numbers in all
Work = Callable[[Task], list[Row]]
Pending = dict[Future[list[Row]], Task]
_AHEAD = 4  # tasks in the queue for each worker
_LAYERS = ("machine", "program", "workload", "emulator", "simulator", "models", "tuner")  # the code behind a point
_LOOK_SECONDS = 2.0  # between looks at the engine


class Engine(Struct, frozen=True):
    """An executor that can be started again."""

    workers: int  # tasks at a time
    start: Callable[[], Executor]
    close: Callable[[], None] = lambda: None
    lost: Callable[[], str | None] = lambda: None  # names a scheduler that does not answer any more


def processes(workers: int | None = None) -> Engine:
    """Return the engine of processes on this machine, one per core by default."""
    count = workers or os.cpu_count() or 1
    return Engine(count, lambda: ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin))


def _begin() -> None:
    """Leave Ctrl-C to the process that runs the sweep, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End when the process that runs the sweep does: killed, it would leave its workers waiting for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def dask(address: str) -> Engine:
    """Return the engine of a Dask cluster by the address of its scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise WarplensError("--engine dask needs Dask: pip install distributed") from None
    try:
        client: Any = Client(address, timeout=10)
        client.wait_for_workers(1, timeout=30)
    except (OSError, TimeoutError, ValueError) as error:
        raise WarplensError(f"no Dask cluster at {address}: {error}") from None
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our errors are one line
    threads = sum(worker["nthreads"] for worker in client.scheduler_info()["workers"].values())

    def lost() -> str | None:
        return None if client.status == "running" else f"the Dask scheduler at {address}"

    return Engine(threads, lambda: client.get_executor(pure=False), lambda: client.close(timeout=2), lost)


class Outcome(Struct, frozen=True):
    """The outcome of a sweep."""

    points: int
    failed: int
    earlier: int  # points of the journal before this run
    files: list[str]
    reasons: dict[str, int] = {}  # of failures, with their points
    best: list[results.Best] = []
    notes: list[str] = []  # on what is not modelled, and on missing files


def run(
    sweep: Sweep,
    folder: str | Path,
    engine: Engine,
    *,
    cache: str | None = None,
    watch: Watch | None = None,
    work: Work = rows,
    restart: bool = False,
) -> Outcome:
    """Sweep into a folder, resumed from its journal or anew; `work` predicts the points of a task."""
    check(sweep)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WarplensError(f"{folder}: {error.strerror}") from None
    with Journal(folder / "journal.jsonl", head(sweep), restart) as journal:
        if restart:
            results.remove(folder)
        earlier = journal.points
        try:
            _Run(sweep, journal, engine, cache, watch or (lambda done, total: None), work).all()
        finally:
            engine.close()
        closed_points, files, best, notes = results.write(folder, sweep, journal)
        notes += [] if any(file.endswith(".parquet") for file in files) else [results.NO_PARQUET]
        return Outcome(journal.points + closed_points, journal.failed, earlier, files, journal.reasons, best, notes)


def head(sweep: Sweep) -> Head:
    """Return the identity of a sweep: its file, the files and GPUs that it names, and our code."""
    files = [contents(call) for call in sweep.calls()]
    parts = [sweep.digest, files, [load_machine(gpu) for gpu in sweep.gpus]]
    digest = hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
    return Head(digest, f"{__version__}+{code_digest(_LAYERS)[:12]}")


def check(sweep: Sweep) -> None:
    """Refuse an unknown GPU or model, and a space without points, before anything runs or is written."""
    for gpu in sweep.gpus:
        load_machine(gpu)
    for model in sweep.models:
        if model not in MODELS:
            hint = nearest(model, MODELS) or "; `warplens models` lists them"
            raise WarplensError(f"{sweep.file}: models: unknown model {model!r}{hint}")
    if not sweep.workloads and next(sweep.configurations(), None) is None:
        raise WarplensError(f"{sweep.file}: nothing to sweep: `where` leaves no configuration")


class _Run:
    """One run of a sweep on an executor."""

    def __init__(
        self, sweep: Sweep, journal: Journal, engine: Engine, cache: str | None, watch: Watch, work: Work
    ) -> None:
        self.sweep, self.journal, self.engine, self.cache, self.watch = sweep, journal, engine, cache, watch
        self.work = work
        self.most = _AHEAD * engine.workers
        self.pending: Pending = {}

    def all(self) -> None:
        """Do all configurations that are not done yet."""
        tasks = self._tasks()
        ahead = next(tasks, None)
        if ahead is None:
            return
        executor = self.engine.start()
        try:
            while ahead is not None or self.pending:
                broken: list[Task] = []
                while ahead is not None and len(self.pending) < self.most and not broken:
                    if ahead.number >= self.journal.done.below + SPREAD:
                        break
                    broken += self._submit(executor, ahead)
                    ahead = next(tasks, None)
                broken += self._collect()
                if broken:
                    executor = self._restarted(executor, broken)
        except BaseException:
            with contextlib.suppress(Exception):  # a lost engine
                executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()

    def _submit(self, executor: Executor, configuration: Configuration | WrongPoint) -> list[Task]:
        """Submit a configuration, or record its error; return it where the pool broke meanwhile."""
        if isinstance(configuration, WrongPoint):
            wrong = failed(configuration, self.sweep.gpus, self.sweep.models, configuration.error)
            self._note(configuration.number, wrong)
            return []
        task = Task(configuration, self.sweep.gpus, self.sweep.models, self.cache, self.sweep.emulation)
        self._check_engine()
        try:
            self.pending[executor.submit(self.work, task)] = task
        except BrokenExecutor:
            return [task]
        return []

    def _check_engine(self) -> None:
        """Stop where the engine has lost its scheduler: no pending configuration has failed."""
        if (lost := self.engine.lost()) is not None:
            self.pending.clear()
            raise WarplensError(
                f"{lost} does not answer any more; {self.journal.points} points are kept, "
                "and the same command goes on from there"
            )

    def _tasks(self) -> Iterator[Configuration | WrongPoint]:
        """Yield the configurations that are not done, in order; count excluded numbers as done."""
        done = self.journal.done
        at = done.below
        for configuration in self.sweep.configurations(at):
            for skipped in range(at, configuration.number):
                self.journal.skip(skipped)
            at = configuration.number + 1
            if configuration.number not in done:
                yield configuration

    def _collect(self) -> list[Task]:
        """Record finished tasks; return those that ended with their pool."""
        ended, _ = wait(self.pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
        self._check_engine()
        broken: list[Task] = []
        for future in ended:
            task = self.pending.pop(future)
            try:
                self._note(task.configuration.number, future.result())
            except BrokenExecutor:
                broken.append(task)
            except WarplensError:
                raise
            except Exception as error:  # of the engine: a worker died too often, a result was lost
                self._check_engine()
                self._note(task.configuration.number, self._failed(task, f"{type(error).__name__}: {error}"))
        return broken

    def _restarted(self, executor: Executor, broken: list[Task]) -> Executor:
        """Start a new pool, and try one by one the tasks that may have broken the old one."""
        executor.shutdown(wait=False, cancel_futures=True)
        suspects = [*broken, *self.pending.values()]
        self.pending.clear()
        executor = self.engine.start()
        for task in sorted(suspects, key=lambda t: t.configuration.number):
            try:
                points = executor.submit(self.work, task).result()
            except BrokenExecutor:
                points = self._failed(task, "its worker died twice")
                executor.shutdown(wait=False, cancel_futures=True)
                executor = self.engine.start()
            except WarplensError:  # a full disk
                executor.shutdown(wait=False, cancel_futures=True)
                raise
            except Exception as error:
                points = self._failed(task, f"{type(error).__name__}: {error}")
            self._note(task.configuration.number, points)
        return executor

    def _failed(self, task: Task, reason: str) -> list[Row]:
        return failed(task.configuration, self.sweep.gpus, self.sweep.models, reason)

    def _note(self, number: int, points: list[Row]) -> None:
        self.journal.add(number, points)
        self.watch(self.journal.done.below + len(self.journal.done.beyond), self.sweep.size)
