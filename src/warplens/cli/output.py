"""Output of commands: JSON or the parts of an answer, and the progress on stderr where that is a terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple
from rich.console import Console, RenderableType

from warplens.report import terminal
from warplens.report.data import document

_SECONDS_PER_LINE = 10.0  # where a bar cannot be drawn


def show(args: argparse.Namespace, data: Any, parts: Iterable[RenderableType]) -> None:
    """Print the data, a table or a structure, where JSON is asked for, else the parts."""
    if args.json:
        print(document(data if isinstance(data, dict) else fields(data)))
        return
    console = terminal.console()
    for part in parts:  # plain text goes out as it is: no markup, no wrapping
        console.out(part, highlight=False) if isinstance(part, str) else console.print(part)


def one_or(name: str, found: list[Any]) -> Any:
    """Return the only one of some answers, or all of them by a name."""
    return found[0] if len(found) == 1 else {name: found}


def written(args: argparse.Namespace, **files: Path | str | None) -> None:
    """Print which files were written, by what they are."""
    for what, path in files.items():
        if path and not args.json:
            print(f"{what}: {path}")


def fields(thing: Struct) -> dict[str, Any]:
    """Return the fields of a structure by the names that JSON has for them."""
    return dict(zip(thing.__struct_encode_fields__, astuple(thing), strict=True))


@contextlib.contextmanager
def watching(what: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr, where that is a terminal, what is being done and since when."""
    console = _stderr()
    if not console.is_terminal:
        yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda text: progress.update(task, description=f"{what}: {text}")


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many of how many are done: a bar with the time left, or a line now and then."""
    with stages() as watch:
        yield lambda done, total: watch(what, done, total)


@contextlib.contextmanager
def stages() -> Iterator[Callable[[str, int, int], None]]:
    """Show the same for one thing after the other: what is being done, how many of how many."""
    console = _stderr()
    if not console.is_terminal:
        yield lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def lines(clock: Callable[[], float] = time.monotonic) -> Callable[[str, int, int], None]:
    """Return a function that prints, on stderr, a line every ten seconds: for logs, where no bar can be drawn."""
    last = [clock()]

    def watch(what: str, done: int, total: int) -> None:
        if clock() - last[0] >= _SECONDS_PER_LINE:
            last[0] = clock()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return watch


def _stderr() -> Console:
    return terminal.console().__class__(stderr=True)
