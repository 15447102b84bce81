"""How far a measurement is and how long it will take: a bar where rich is there and someone looks, else plain lines."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any


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
        """One step is done, or need not be."""
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
