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
    line, done = _Line(f"warplens: {what}: about {about} "), threading.Event()
    if what not in _SAID:
        _SAID.add(what)
        line.say("")
    thread = threading.Thread(target=line.tick, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        line.end()
        _ONE.release()


class _Line:
    """A line that is written in parts."""

    def __init__(self, head: str) -> None:
        self.head, self.begun = head, False

    def say(self, text: str) -> None:
        """Write more of the line."""
        _say(text if self.begun else self.head + text)
        self.begun = True

    def tick(self, done: threading.Event) -> None:
        """Write a dot now and then."""
        while not done.wait(_DOT_SECONDS):
            self.say(".")

    def end(self) -> None:
        """End the line, if there is one."""
        if self.begun:
            _say("\n")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
        sys.stderr.write(text)
        sys.stderr.flush()
