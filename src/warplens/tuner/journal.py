"""Journal of a sweep: one line of JSON per configuration that is done, appended whole; a run is resumed from it.

The first line identifies the sweep. A line that a kill or a full disk cut short is cut off when the journal is opened
again. Lines come in the order in which configurations end; their numbers differ by `SPREAD` at most, so that a journal
of any length is sorted in bounded memory.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec
from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import refuse_devices
from warplens.tuner.points import Row

SPREAD = 10_000
_SYNC_SECONDS = 2.0
_LONGEST_LINE = 64 << 20
_MOST_REASONS = 100  # of failed points; others are in the results alone


class Head(Struct, frozen=True):
    """The first line: the sweep and the version of our code."""

    sweep: str
    warplens: str


class Line(Struct, frozen=True):
    """A configuration that is done, and its points; all numbers `below` were done or excluded before it."""

    n: int
    below: int
    rows: list[Row]


class Done:
    """The numbers that are done: all below `below`, and some beyond it."""

    def __init__(self) -> None:
        """Begin with none."""
        self.below = 0
        self.beyond: set[int] = set()

    def add(self, number: int, below: int = 0) -> None:
        """Add one number, and all below another."""
        self.beyond.add(number)
        if below > self.below:
            self.below = below
            self.beyond = {n for n in self.beyond if n >= below}
        while self.below in self.beyond:
            self.beyond.remove(self.below)
            self.below += 1

    def __contains__(self, number: int) -> bool:
        return number < self.below or number in self.beyond


class Journal:
    """The file, open for appending by one process at a time."""

    def __init__(self, path: Path, head: Head, restart: bool = False) -> None:
        """Open or begin a journal; one of another sweep is refused, or emptied with `restart`."""
        import fcntl  # not on Windows, where the other commands work

        self.path, self.done, self.points, self.failed = path, Done(), 0, 0
        self.reasons: dict[str, int] = {}  # of failures
        self.end, self.synced = 0, time.monotonic()
        try:
            if path.exists():
                refuse_devices(path)
            self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if restart:
                os.ftruncate(self.file, 0)
            self._recover(head)
        except BlockingIOError:
            self.close()
            raise FileError(f"{path}: another process is at work on this sweep") from None
        except BaseException:
            self.close()
            raise

    def _recover(self, head: Head) -> None:
        """Read the journal, and cut off an incomplete line."""
        begin = msgspec.json.encode(head) + b"\n"
        with self.path.open("rb") as stream:
            first = stream.readline(_LONGEST_LINE)
            if begin.startswith(first) and first != begin:  # new, or cut short
                self._append(begin)
                return
            self._check(first, head)
            self.end = len(first)
            for text in _lines(stream):
                line = _decoded(text)
                if line is None:
                    break
                self.end += len(text)
                self._note(line)
        os.ftruncate(self.file, self.end)

    def _check(self, first: bytes, head: Head) -> None:
        try:
            found = msgspec.json.decode(first, type=Head)
        except (ValueError, RecursionError):
            raise FileError(f"{self.path}: not a journal of ours; name another folder with --out") from None
        for field, what in (
            ("sweep", "another sweep, or this one before it or a file that it names was changed"),
            ("warplens", "another version"),
        ):
            if getattr(found, field) != getattr(head, field):
                raise FileError(f"{self.path}: of {what}; name another folder with --out, or begin anew with --restart")

    def _note(self, line: Line) -> None:
        self.done.add(line.n, line.below)
        self.points += len(line.rows)
        for row in line.rows:
            if row.error is not None:
                self.count_failed(row.error)

    def count_failed(self, reason: str, points: int = 1) -> None:
        """Count points that failed for a reason."""
        self.failed += points
        if reason in self.reasons or len(self.reasons) < _MOST_REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + points

    def skip(self, number: int) -> None:
        """Count an excluded number as done; nothing is written."""
        self.done.add(number)

    def add(self, number: int, rows: list[Row]) -> None:
        """Append a configuration that is done."""
        line = Line(number, self.done.below, rows)
        self._append(msgspec.json.encode(line) + b"\n")
        self._note(line)

    def _append(self, text: bytes) -> None:
        try:
            if os.pwrite(self.file, text, self.end) < len(text):
                raise OSError(0, "the disk is full")
            self.end += len(text)
            if time.monotonic() - self.synced > _SYNC_SECONDS:
                os.fsync(self.file)
                self.synced = time.monotonic()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.end)
            raise FileError(
                f"{self.path}: cannot write: {error.strerror}; {self.points} points are kept, "
                "and the same command goes on from there"
            ) from None

    def rows(self) -> Iterator[Row]:
        """Yield all points in the order of their numbers, read as they are asked for."""
        waiting: list[tuple[int, int, list[Row]]] = []
        with self.path.open("rb") as stream:
            stream.readline(_LONGEST_LINE)
            for at, text in enumerate(_lines(stream)):
                line = _decoded(text)
                if line is not None:
                    heapq.heappush(waiting, (line.n, at, line.rows))
                while line is not None and waiting[0][0] + SPREAD < line.n:
                    yield from heapq.heappop(waiting)[2]
        while waiting:
            yield from heapq.heappop(waiting)[2]

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; one that is longer than any that we write comes in parts, which are invalid."""
    return iter(lambda: stream.readline(_LONGEST_LINE), b"")


def _decoded(text: bytes) -> Line | None:
    if not text.endswith(b"\n"):
        return None
    try:
        return msgspec.json.decode(text, type=Line)
    except (ValueError, RecursionError):  # also of bytes that are no UTF-8
        return None
