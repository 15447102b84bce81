"""A run of the laboratory: kernels are built, the GPU is taken, entries are measured, the journal is written."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import hashlib
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from warplens.core.driver import OLDEST, Driver, DriverError, Facts, Gpu
from warplens.core.errors import FileError, WarplensError
from warplens.core.version import __version__
from warplens.laboratory.build import Built, build
from warplens.laboratory.catalogue import HELPERS, entries
from warplens.laboratory.gpu_session import Laboratory
from warplens.laboratory.journal import Journal
from warplens.laboratory.nvml import Watch
from warplens.laboratory.plan import Effort, Entry
from warplens.laboratory.source import fingerprint

JOURNAL = "measured.jsonl"
_SAME_CLOCK = 0.01  # of the runs in one journal, as of the samples in one run


class Progress:
    """Tells of steps with weights; the time left follows from the weights done."""

    def __init__(self, total: float, bar: Any = None) -> None:
        """Begin with so much to do; `bar` is rich's, or None."""
        self.total, self.done, self.begin, self._bar = max(total, 1e-9), 0.0, time.monotonic(), bar
        self.skipped = 0.0  # of what is done: took no time, and says nothing about the rest
        self._task = bar.add_task("measuring", total=self.total) if bar else None

    def left_seconds(self) -> float:
        """Return how long the rest will take at the speed so far."""
        worked = self.done - self.skipped
        return (time.monotonic() - self.begin) * (self.total - self.done) / worked if worked > 0 else 0.0

    def step(self, weight: float, name: str, note: str = "", *, skipped: bool = False) -> None:
        """Count a step that is done, or need not be."""
        self.done += weight
        self.skipped += weight if skipped else 0.0
        if self._bar:
            if skipped:
                self._bar.update(self._task, total=self.total - self.skipped, description=name)
            else:
                self._bar.update(self._task, advance=weight, description=name)
            if note:
                self._bar.console.print(f"{name}: {note}", markup=False, highlight=False)
            return
        taken, left = time.monotonic() - self.begin, self.left_seconds()
        line = f"{100 * self.done / self.total:5.1f} %  {taken:6.1f} s, {left:5.1f} s left  {name}"
        print(line + (f": {note}" if note else ""), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(total: float) -> Iterator[Progress]:
    """Show progress on standard error."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield Progress(total)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress(total)
        return
    columns = (TextColumn("{task.description:32}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        yield Progress(total, bar)


@dataclass(frozen=True)
class Request:
    """Request for a run: entries, effort, folder of the journal."""

    out: Path
    only: tuple[str, ...] = ()
    quick: bool = False
    repetitions: int | None = None  # 3, in the quick form 2
    gpu: int = 0
    shared_gpu: bool = False
    cubins: Path | None = None


@dataclass
class Outcome:
    """Outcome of a run."""

    journal: Path
    measured: int = 0
    skipped: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    off_clock: int = 0
    throttled: list[str] = field(default_factory=list)
    others: int = 0  # processes that computed on the GPU meanwhile, at most


def chosen(only: tuple[str, ...], quick: bool) -> list[Entry]:
    """Return the entries that fit the patterns; without any, all, or those of the quick form."""
    all_of_them = entries()
    if not only:
        return [e for e in all_of_them if e.quick or not quick]
    unknown = [p for p in only if not any(fnmatch.fnmatch(e.name, f"{p}*") for e in all_of_them)]
    if unknown:
        raise WarplensError(
            f"no measurement is called {', '.join(unknown)}; `warplens machine measure --list` shows them"
        )
    return [e for e in all_of_them if any(fnmatch.fnmatch(e.name, f"{p}*") for p in only)]


def check_all(only: tuple[str, ...], arch: str, folder: Path | None) -> Built:
    """Compile and check the kernels of the chosen entries, without a GPU."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise WarplensError(f"--arch takes an architecture such as sm_90, not {arch!r}")
    if int(arch.strip("sm_af")) < 10 * OLDEST[0] + OLDEST[1]:
        raise WarplensError(f"{arch}: compilers make code from sm_75 on; name a newer architecture")
    return _built(chosen(only, False), arch, folder)


def _built(wanted: list[Entry], arch: str, folder: Path | None) -> Built:
    kernels = [*HELPERS, *(k for e in wanted for k in e.kernels)]
    every = [*HELPERS, *(k for e in entries() for k in e.kernels)] if folder else ()
    return build(kernels, arch, folder, every)


def measure(request: Request) -> Outcome:
    """Measure on the GPU at hand."""
    wanted = chosen(request.only, request.quick)
    device = _taken(Driver(), request)
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{request.out}: cannot make this folder: {error.strerror or error}") from None
    journal = Journal(request.out / JOURNAL)
    outcome = Outcome(journal.path, errors={})
    built = _built(wanted, device.facts.arch, request.cubins)
    missing = [kernel.name for kernel in HELPERS if kernel.name not in built.cubins]
    if missing:
        raise WarplensError(built.errors.get(missing[0], f"{missing[0]} was not built"))
    if built.unchecked:
        print(f"the kernels' machine code is not checked: {built.unchecked}", file=sys.stderr)
    session = _Session(request, device, built, journal, outcome)
    try:
        session.begin()
        with progress(sum(e.weight for e in wanted)) as bar:
            for entry in wanted:
                session.entry(entry, bar)
        session.end()
    except KeyboardInterrupt:
        print(f"what was measured is in {journal.path}; the same command goes on behind it", file=sys.stderr)
        raise
    finally:
        journal.close()
        session.close()
    return outcome


class _Device(NamedTuple):
    """A GPU that was taken: its driver, what that says of it, NVML's view."""

    driver: Driver
    gpu: Gpu
    facts: Facts
    watch: Watch


def _taken(driver: Driver, request: Request) -> _Device:
    """Take the GPU, unless others compute on it: whose processes they are is asked before we have one of our own."""
    watch = Watch(driver.uuid(request.gpu))
    others = watch.other_processes(os.getpid())
    if others is None:
        print("NVML does not say whether others compute on this GPU: see that it is yours alone", file=sys.stderr)
    if others and not request.shared_gpu:
        raise WarplensError(
            f"the GPU is in use by {len(others)} other process(es), such as {others[0]}: end them, or measure all "
            "the same with --shared-gpu"
        )
    gpu = Gpu(driver, request.gpu)
    facts = gpu.facts()
    if "MIG" in facts.name.split():
        print(f"{facts.name} is a part of a GPU: the numbers are those of the part", file=sys.stderr)
    return _Device(driver, gpu, facts, watch)


class _Session:
    """A run: the laboratory, made anew if its context is lost."""

    def __init__(self, request: Request, device: _Device, built: Built, journal: Journal, outcome: Outcome) -> None:
        self.request, self.driver, self.facts, self.watch = request, device.driver, device.facts, device.watch
        self.gpu, self.built, self.journal, self.outcome = device.gpu, built, journal, outcome
        self.effort = Effort(request.quick, request.repetitions or (2 if request.quick else 3))
        self.lab = Laboratory(self.gpu, self.facts, self.watch, built.cubins)
        self._alone = len(self.watch.other_processes(-1) or ())  # ours, and those that were there before

    def begin(self) -> None:
        """Warm up, find the reference clock, write the head; a journal is of one clock."""
        self.lab.find_reference()
        ghz, before = self.lab.reference_ghz, self.journal.clocks.get(self.facts.uuid)
        if before and abs(ghz / before - 1) > _SAME_CLOCK:
            raise WarplensError(
                f"the GPU holds {ghz:.3f} GHz now, {before:.3f} when what is in {self.journal.path} was measured: let "
                "it cool down, or set its clocks and power limit as they were, or measure in another folder"
            )
        now = datetime.datetime.now(datetime.UTC)
        self.journal.write(
            "head", format=2, gpu=self.facts.name, facts=asdict(self.facts),
            driver_version=self.watch.driver_version(), date=now.date().isoformat(),
            time=now.isoformat(timespec="seconds"), version=__version__,
            command="warplens " + shlex.join(sys.argv[1:]), tools=self.built.tools, unchecked=self.built.unchecked,
            reference_ghz=self.lab.reference_ghz, timer_ns=self.lab.timer_ns, data_bytes=self.lab.data_bytes,
            state=asdict(self.lab.state()), quick=self.request.quick, python=platform.python_version(),
            memory_max_mhz=self.watch.memory_max_mhz(), machine=platform.machine(),
        )  # fmt: skip

    def entry(self, entry: Entry, bar: Progress) -> None:
        """Do one entry; whatever goes wrong with it is written down, and the next one follows."""
        mark = mark_of(entry, self.facts, self.effort)
        bad = [self.built.errors[k.name] for k in entry.kernels if k.name in self.built.errors]
        unfit = [k for k in entry.kernels if not k.fits(self.facts.arch)]
        if self.journal.done.get(entry.name) == mark:
            self.outcome.skipped += 1
            bar.step(entry.weight, entry.name, "was measured before", skipped=True)
        elif self.journal.lost.get(entry.name) == mark and not self.request.only:
            self.outcome.skipped += 1
            bar.step(entry.weight, entry.name, "the GPU was lost over it before; --only tries it again", skipped=True)
        elif unfit:
            self.outcome.skipped += 1
            bar.step(entry.weight, entry.name, f"not on {self.facts.arch}", skipped=True)
        elif bad:
            self._failed(entry, bad[0], bar)
        else:
            self._measured(entry, mark, bar)

    def _measured(self, entry: Entry, mark: str, bar: Progress) -> None:
        before = self.lab.state()
        self.journal.write("begin", entry=entry.name)
        try:
            samples = off = 0
            for point, values in entry.plan(self.lab, entry, self.effort):
                self.journal.write("sample", entry=entry.name, point=point, values=values)
                samples, off = samples + 1, off + any(key.startswith("off_clock") for key in values)
            after = self.lab.state()
        except FileError:  # the journal's own
            raise
        except Exception as error:  # one measurement's fault must not cost the others
            lost = isinstance(error, DriverError) and error.lost
            self._failed(entry, f"{type(error).__name__}: {error}", bar, mark if lost else "")
            self._recover(error)
            return
        states = [asdict(state) for state in (before, after)]
        self.journal.write("done", entry=entry.name, fingerprint=mark, samples=samples, off_clock=off, states=states)
        self.outcome.measured += 1
        throttled = sorted({*before.throttled, *after.throttled})
        self.outcome.samples, self.outcome.off_clock = self.outcome.samples + samples, self.outcome.off_clock + off
        self.outcome.throttled = sorted({*self.outcome.throttled, *throttled})
        more = len(self.watch.other_processes(-1) or ()) - self._alone
        self.outcome.others = max(self.outcome.others, more)
        note = f"throttled: {', '.join(throttled)}" if throttled else ""
        bar.step(entry.weight, entry.name, f"{off} of {samples} samples at another clock" if off else note)

    def _failed(self, entry: Entry, message: str, bar: Progress, lost: str = "") -> None:
        self.outcome.errors[entry.name] = message
        self.journal.write("error", entry=entry.name, message=message, **({"lost": lost} if lost else {}))
        bar.step(entry.weight, entry.name, message)

    def _recover(self, error: Exception) -> None:
        """Go on with a new context where the old one is lost; a GPU that is gone ends the run."""
        try:
            self.gpu.wait()
            if not (isinstance(error, DriverError) and error.lost):
                return
        except WarplensError:
            pass
        try:
            self.gpu.close()
            self.gpu = Gpu(self.driver, self.request.gpu)
            reference, tick, redo = self.lab.reference_ghz, self.lab.timer_ns, self.lab.redo_seconds
            self.lab = Laboratory(self.gpu, self.gpu.facts(), self.watch, self.built.cubins)
            self.lab.reference_ghz, self.lab.timer_ns = reference, tick
            self.lab.redo_seconds = redo
        except WarplensError as lost:
            raise WarplensError(
                f"the GPU is lost ({lost}); what was measured is in {self.journal.path}, "
                "the same command goes on behind it"
            ) from None

    def end(self) -> None:
        """Write down how the GPU is at the end."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.journal.write("end", time=now, state=asdict(self.lab.state()), errors=self.outcome.errors)

    def close(self) -> None:
        """Give the GPU back."""
        try:
            self.gpu.close()
        except WarplensError as error:
            print(f"warplens: {error}", file=sys.stderr)


@cache
def _text(module: str) -> str:
    """Return a short name for the text of a module of this package."""
    return hashlib.sha256((Path(__file__).parent / f"{module}.py").read_bytes()).hexdigest()[:12]


def mark_of(entry: Entry, facts: Facts, effort: Effort) -> str:
    """Return the mark under which an entry is done: whatever else is measured, or otherwise, has another one.

    Kernels, GPU, effort and parameters, and the texts of the entry's experiment and of what all of them share.
    """
    own = entry.plan.__module__.rpartition(".")[2]
    plan = " ".join([entry.plan.__name__, *map(_text, (own, "plan", "gpu_session", "stamps"))])
    return fingerprint(entry.kernels, f"{facts.arch} {facts.uuid} {effort} {entry.parameters} {plan}")


def summary(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain data."""
    return {**asdict(outcome), "journal": str(outcome.journal)}
