"""The journal of a measurement: JSON, one line per event, appended as it happens, so that nothing is lost.

    {"is": "head", ...}      GPU, driver, date, command, tools: once per run
    {"is": "begin", ...}     an entry begins; what an earlier run left of it does not count
    {"is": "sample", ...}    one launch or one reading: entry, point, repetition, values
    {"is": "error", ...}     what went wrong with an entry, in its own words; whether the GPU was lost over it
    {"is": "done", ...}      an entry is complete, under the fingerprint of its kernels and of its plan

A run that finds its journal goes on behind the last line: an entry that is done under the same fingerprint is not
measured again, nor is one over which the GPU was lost. A last line that was cut off is taken away.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from warplens.core.errors import FileError
from warplens.core.files import LARGEST_EXPANDED_BYTES, bounded, read_bytes, read_expanded

_decode: Callable[[str], Any]
try:
    from msgspec.json import decode as _decode
except ImportError:  # measuring needs nothing but NumPy; reading takes a little longer
    _decode = json.loads

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz")  # of the names of journals
_MOST_EVENTS = 1_000_000  # the whole plan is 50,000
# What an event must have, and of which kind.
_EVENTS: dict[str, dict[str, type]] = {
    "begin": {"entry": str}, "sample": {"entry": str, "point": dict, "values": dict}, "error": {"entry": str},
    "done": {"entry": str, "fingerprint": str},
}  # fmt: skip


class Journal:
    """Lines to a file, each out before the next thing is tried."""

    def __init__(self, path: Path) -> None:
        """Open a journal; a cut last line of an earlier run goes."""
        self.path = path
        try:
            before = read_bytes(path, LARGEST_EXPANDED_BYTES) if path.is_file() else b""
            if not before.endswith(b"\n") and before:
                before = before[: before.rfind(b"\n") + 1]
                os.truncate(path, len(before))  # in place: writing it anew could lose all of it on a full disk
            events = list(lines(before, str(path)))
            self.done = {e["entry"]: e["fingerprint"] for e in events if e["is"] == "done"}
            self.lost = {e["entry"]: e["lost"] for e in events if e["is"] == "error" and e.get("lost")}
            self.clocks = _clocks(events)
            self._file: IO[str] = path.open("a", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path}: cannot write: {error.strerror or error}") from None

    def write(self, what: str, **values: Any) -> None:
        """Append one line; a number that is none (nan) is a `ValueError`, for nothing could read the line again."""
        line = json.dumps({"is": what, **values}, separators=(",", ":"), allow_nan=False) + "\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise FileError(
                f"{self.path}: cannot write: {error.strerror or error}; what was measured so far is there, the same "
                "command goes on behind it"
            ) from None

    def close(self) -> None:
        """Close the file; what a full disk did not take was said before."""
        with contextlib.suppress(OSError):
            self._file.close()


def _clocks(events: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the clock in GHz of the last run on each GPU that came to the end of something, by the GPU's UUID."""
    found, uuid, ghz = dict[str, float](), "", 0.0
    for event in events:
        if event["is"] == "head":
            facts, clock = event.get("facts"), event.get("reference_ghz")
            uuid = str(facts.get("uuid", "")) if isinstance(facts, dict) else ""
            ghz = float(clock) if isinstance(clock, int | float) else 0.0
        elif event["is"] == "done" and ghz > 0:
            found[uuid] = ghz
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """Read a journal: plain, gzipped, or by xz."""
    found = list(lines(read_expanded(path), str(path)))
    if not any(line["is"] == "head" for line in found):
        raise FileError(f"{path}: not a journal of `warplens machine measure`: it has no head")
    return found


def lines(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    """Return the events of a journal; a last line that was cut off is none."""
    if data.count(b"\n") > _MOST_EVENTS:
        raise FileError(f"{name}: more than {_MOST_EVENTS:,} lines; not a journal of `warplens machine measure`")
    whole = data.decode("utf-8", "replace").split("\n")
    for number, text in enumerate(whole, 1):
        if not text.strip():
            continue
        try:
            event = bounded(_decode(text), name)
            if not isinstance(event, dict) or not isinstance(event.get("is"), str):
                raise ValueError
            if event["is"] != "error" and not all(v.isprintable() for v in event.values() if isinstance(v, str)):
                raise ValueError  # what went wrong may take more than a line; names are printed
            if not all(isinstance(event.get(k), kind) for k, kind in _EVENTS.get(event["is"], {}).items()):
                raise ValueError
        except (ValueError, RecursionError):
            if number == len(whole):
                continue
            raise FileError(f"{name}: line {number} is not an event of a journal") from None
        yield event
