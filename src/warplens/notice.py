"""A line on stderr while we do what takes long: what it is, how long it takes, and a dot every other second."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

_DOT_SECONDS = 2.0
_ONE = threading.Lock()


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is being done, at once, and go on saying that it is; within another such time, nothing."""
    if not _ONE.acquire(blocking=False):
        yield
        return
    try:
        _say(f"warplens: {what} ")
        done = threading.Event()
        thread = threading.Thread(target=_tick, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            _say("\n")
    finally:
        _ONE.release()


def _tick(done: threading.Event) -> None:
    while not done.wait(_DOT_SECONDS):
        _say(".")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
        sys.stderr.write(text)
        sys.stderr.flush()
