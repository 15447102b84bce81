"""Cache on disk by content: compiled programs and emulated profiles, by all that they depend on.

A key is the SHA-256 of everything that the value depends on. An entry is a file that begins with the SHA-256 of the
rest, so that a damaged one is seen, dropped and computed again. Entries are written whole: any number of
processes, on any number of machines with the same folder, may read and write at once, and the last one wins with the
same value. Nothing in an entry is executed when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from warplens.core.files import default_folder, keep, sealed, unsealed
from warplens.core.version import __version__

T = TypeVar("T")


def key_of(kind: str, *parts: Any) -> str:
    """Return the key of a value of a kind that these parts and this version of our code determine."""
    whole = [__version__, code_digest(_LAYERS.get(kind, _ALL)), kind, *parts]
    return hashlib.sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()


_ALL = ("core", "machine", "program", "workload", "emulator")
_LAYERS = {"program": ("core", "machine", "program")}  # what counts has no part in it


@cache
def code_digest(layers: tuple[str, ...]) -> str:
    """Return a digest of the code of some rooms: those that read, decode, count and emulate."""
    home = Path(__file__).parents[1]
    files = sorted(f for layer in layers for f in (home / layer).rglob("*") if f.suffix in (".py", ".toml"))
    code = [f for f in files if f.parent != home / "machine" / "files"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in code)).hexdigest()


def computed_once(name: str, package: Path, of: bytes, kind: type[T], make: Callable[[], T]) -> T:
    """Return a value that an installation computes once, and keeps beside a package's bytecode or in the user's cache.

    It is computed again where the bytes that it is computed `of` have changed.
    """
    of = hashlib.sha256(__version__.encode() + of).digest()
    paths = [folder / name for folder in (package / "__pycache__", default_folder())]
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            if (body := unsealed(path.read_bytes(), of)) is not None:
                return msgspec.msgpack.decode(body, type=kind)
    value = make()
    keep(paths, sealed(msgspec.msgpack.encode(value), of))
    return value


class Cache:
    """The entries under a folder; with no folder, nothing is kept."""

    def __init__(self, folder: str | Path | None) -> None:
        """Name the folder, which is created when the first entry is written."""
        self.folder = None if folder is None else Path(folder)

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return an entry; None where there is none, or one that was damaged."""
        if self.folder is None:
            return None
        path = self.folder / key[:2] / key[2:]
        with contextlib.suppress(OSError, ValueError):
            if (body := unsealed(path.read_bytes())) is not None:
                return msgspec.msgpack.decode(body, type=kind)
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep an entry, unless the disk is full or may not be written to."""
        if self.folder is not None:
            keep([self.folder / key[:2] / key[2:]], sealed(msgspec.msgpack.encode(value)))
