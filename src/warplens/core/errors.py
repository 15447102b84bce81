"""Errors that a user can cause. Each is one clear line; the command line prints it and exits with 2."""

from __future__ import annotations

from collections.abc import Iterable


class WarplensError(Exception):
    """Something the user can mend; the message says what and how."""


class FileError(WarplensError):
    """A file that cannot be read, or that says something it may not; the message names file and key."""


class RefusedSource(WarplensError):
    """A source that a compiler refuses: one line of ours, and below it the compiler's own message."""

    def __init__(self, line: str, message: str) -> None:
        """Keep our line and the compiler's message."""
        super().__init__(line, message)
        self.line, self.message = line, message

    def __str__(self) -> str:
        return f"{self.line}\n{self.message}"


class MissingField(WarplensError):
    """A model needs a number that the machine or the workload does not give."""

    def __init__(self, model: str, what: str, field: str, remedy: str = "") -> None:
        """Name the model, the thing that lacks the field, the field, and where it may come from."""
        super().__init__(f"{model} needs {field}, which {what} does not give{remedy and f': {remedy}'}")
        self.field = field


def refuse(wrong: object, message: str) -> None:
    """Raise the error that a user can mend, where something is wrong."""
    if wrong:
        raise WarplensError(message)


def nearest(word: str, known: Iterable[str], close: float = 0.5) -> str:
    """Return `; did you mean 'x'?` for the closest known word, if it is as `close` (1 is equal), or an empty string."""
    import difflib  # rarely needed, and slow to import

    by_lower = {k.lower(): k for k in known if k != word}  # which may be known elsewhere
    found = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=close)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
