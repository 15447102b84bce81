"""Progress line on stderr while something takes long: its name, its duration, and a dot every other second."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

_DOT_SECONDS = 2.0
_ONE = threading.Lock()
_SAID = set[str]()


@contextlib.contextmanager
def waiting(what: str, about: str) -> Iterator[None]:
    """Write what is being done and about how long it takes, at once, and a dot now and then.

    The second time of the same it is said when the first dot is due. Within another such time nothing is said.
    """
    if not _ONE.acquire(blocking=False):
        yield
        return
    head, begun, done = f"warplens: {what}: about {about} ", what not in _SAID, threading.Event()
    _SAID.add(what)
    if begun:
        _say(head)

    def tick() -> None:
        nonlocal begun
        while not done.wait(_DOT_SECONDS):
            _say("." if begun else head + ".")
            begun = True

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if begun:
            _say("\n")
        _ONE.release()


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
        sys.stderr.write(text)
        sys.stderr.flush()
