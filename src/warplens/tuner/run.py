"""Run a sweep: hand configurations to an executor, note each that is done in the journal, and write the results.

At any moment a bounded number of configurations is made, waiting or not yet noted, whatever the length of the sweep.
A worker that dies breaks its pool: a new one is started, and what was at work then is tried again one by one, so that
the configuration which kills its worker a second time is known, and noted as failed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path

import msgspec
from msgspec import Struct

from warplens.core.cache import code_digest
from warplens.core.errors import WarplensError, nearest
from warplens.core.version import __version__
from warplens.machine import load_machine
from warplens.models import MODELS
from warplens.tuner import results
from warplens.tuner.counting import contents
from warplens.tuner.engines import Engine
from warplens.tuner.journal import SPREAD, Head, Journal
from warplens.tuner.spec import Configuration, Sweep, WrongPoint
from warplens.tuner.worker import Row, Task, failed, rows

Watch = Callable[[int, int], None]  # numbers done, numbers in all
Work = Callable[[Task], list[Row]]
Pending = dict[Future[list[Row]], Task]
_AHEAD = 4  # tasks in the queue for each worker
_LAYERS = ("machine", "kernel", "frontend", "emulate", "simulate", "models", "sweep")  # all that makes a point
_LOOK_SECONDS = 2.0  # between looks at the engine


class Outcome(Struct, frozen=True):
    """What a sweep made: points, how many of them failed, how many were there before, the files, the best points.

    `reasons`: of failures, with how many points each; `notes`: what is not modelled, and what is not there.
    """

    points: int
    failed: int
    earlier: int
    files: list[str]
    reasons: dict[str, int] = {}
    best: list[results.Best] = []
    notes: list[str] = []


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
    """Sweep into a folder, going on from what is there, or anew; return what was made. `work` is what a worker does."""
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
    """What tells a sweep from any other: what its file says, what files and GPUs that it names hold, our code."""
    held = [contents(call) for call in sweep.calls()]
    said = [sweep.digest, held, [load_machine(gpu) for gpu in sweep.gpus]]
    digest = hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()
    return Head(digest, f"{__version__}+{code_digest(_LAYERS)[:12]}")


def check(sweep: Sweep) -> None:
    """Refuse a GPU or a model that there is not, and a space without points, before anything runs or is written."""
    for gpu in sweep.gpus:
        load_machine(gpu)
    for model in sweep.models:
        if model not in MODELS:
            hint = nearest(model, MODELS) or "; `warplens models` lists them"
            raise WarplensError(f"{sweep.file}: models: unknown model {model!r}{hint}")
    if not sweep.workloads and next(sweep.configurations(), None) is None:
        raise WarplensError(f"{sweep.file}: nothing to sweep: `where` leaves no configuration")


class _Run:
    def __init__(
        self, sweep: Sweep, journal: Journal, engine: Engine, cache: str | None, watch: Watch, work: Work
    ) -> None:
        self.sweep, self.journal, self.engine, self.cache, self.watch = sweep, journal, engine, cache, watch
        self.work = work
        self.most = _AHEAD * engine.workers
        self.pending: Pending = {}

    def all(self) -> None:
        """Do what is not done yet."""
        tasks = self._tasks()
        ahead = next(tasks, None)
        if ahead is None:
            return
        executor = self.engine.start()
        try:
            while ahead is not None or self.pending:
                broken: list[Task] = []
                while ahead is not None and len(self.pending) < self.most and self._near(ahead) and not broken:
                    broken += self._submit(executor, ahead)
                    ahead = next(tasks, None)
                broken += self._collect()
                if broken:
                    executor = self._mended(executor, broken)
        except BaseException:
            with contextlib.suppress(Exception):  # an engine that is gone cannot be told
                executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()

    def _submit(self, executor: Executor, made: Configuration | WrongPoint) -> list[Task]:
        """Hand a configuration over, or note what is wrong about it; return it where the pool broke meanwhile."""
        if isinstance(made, WrongPoint):
            self._note(made.number, failed(made, self.sweep.gpus, self.sweep.models, made.error))
            return []
        task = Task(made, self.sweep.gpus, self.sweep.models, self.cache, self.sweep.emulation)
        self._check_engine()
        try:
            self.pending[executor.submit(self.work, task)] = task
        except BrokenExecutor:
            return [task]
        return []

    def _check_engine(self) -> None:
        """Stop where the engine has lost what it cannot do without: what is pending is no configuration's fault."""
        if (what := self.engine.lost()) is not None:
            self.pending.clear()
            raise WarplensError(
                f"{what} does not answer any more; {self.journal.points} points are kept, "
                "and the same command goes on from there"
            )

    def _near(self, made: Configuration | WrongPoint) -> bool:
        """Whether a configuration is not too far ahead of the first one that is not done."""
        return made.number < self.journal.done.below + SPREAD

    def _tasks(self) -> Iterator[Configuration | WrongPoint]:
        """Yield what is not done yet, in order, and note what is not wanted."""
        done = self.journal.done
        at = done.below
        for made in self.sweep.configurations(at):
            for skipped in range(at, made.number):
                self.journal.skip(skipped)
            at = made.number + 1
            if made.number not in done:
                yield made

    def _collect(self) -> list[Task]:
        """Note what has ended; return what ended with its pool."""
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
            except Exception as error:  # of the engine: a worker that died too often, a result that did not come
                self._check_engine()
                self._note(task.configuration.number, self._failed(task, f"{type(error).__name__}: {error}"))
        return broken

    def _mended(self, executor: Executor, broken: list[Task]) -> Executor:
        """Start anew, and try what may have broken the pool one by one."""
        executor.shutdown(wait=False, cancel_futures=True)
        suspects = [*broken, *self.pending.values()]
        self.pending.clear()
        executor = self.engine.start()
        for task in sorted(suspects, key=lambda t: t.configuration.number):
            try:
                made = executor.submit(self.work, task).result()
            except BrokenExecutor:
                made = self._failed(task, "its worker died twice")
                executor.shutdown(wait=False, cancel_futures=True)
                executor = self.engine.start()
            except WarplensError:  # a full disk
                executor.shutdown(wait=False, cancel_futures=True)
                raise
            except Exception as error:
                made = self._failed(task, f"{type(error).__name__}: {error}")
            self._note(task.configuration.number, made)
        return executor

    def _failed(self, task: Task, reason: str) -> list[Row]:
        return failed(task.configuration, self.sweep.gpus, self.sweep.models, reason)

    def _note(self, number: int, made: list[Row]) -> None:
        self.journal.add(number, made)
        self.watch(self.journal.done.below + len(self.journal.done.beyond), self.sweep.size)
