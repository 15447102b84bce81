"""A cache on disk by content: what was compiled and emulated is found again by what it was made from.

A key is the SHA-256 of everything that the value depends on. An entry is a file that begins with the SHA-256 of the
rest, so that one which was damaged is seen, dropped and made again. Entries are written whole: any number of
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

from warplens.core.errors import FileError
from warplens.core.files import default_folder, sealed, unsealed, write_whole
from warplens.core.version import __version__

T = TypeVar("T")


def key_of(kind: str, *parts: Any) -> str:
    """Return the key of a value of a kind that is made from these parts by this version of our code."""
    said = [__version__, code_digest(_LAYERS.get(kind, _ALL)), kind, *parts]
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


_ALL = ("core", "machine", "program", "workload", "emulator")
_LAYERS = {"program": ("core", "machine", "program")}  # what counts has no part in it


@cache
def code_digest(layers: tuple[str, ...]) -> str:
    """What tells our code from any other: its layers that read, decode, count and emulate."""
    home = Path(__file__).parents[1]
    files = sorted(f for layer in layers for f in (home / layer).rglob("*") if f.suffix in (".py", ".toml"))
    code = [f for f in files if f.parent != home / "machine" / "files"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in code)).hexdigest()


def made_once(name: str, package: Path, of: bytes, kind: type[T], make: Callable[[], T]) -> T:
    """Return what an installation makes once, and keeps beside the bytecode of a package or in the user's cache.

    It is made again where what it is made `of` has changed.
    """
    of = hashlib.sha256(__version__.encode() + of).digest()
    places = [folder / name for folder in (package / "__pycache__", default_folder())]
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            if (body := unsealed(place.read_bytes(), of)) is not None:
                return msgspec.msgpack.decode(body, type=kind)
    made = make()
    for place in places:
        with contextlib.suppress(OSError, FileError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, sealed(msgspec.msgpack.encode(made), of))
            break
    return made


class Cache:
    """The entries under a folder; with no folder, nothing is kept."""

    def __init__(self, folder: str | Path | None) -> None:
        """Name the folder, which is made when the first entry is written."""
        self.folder = None if folder is None else Path(folder)

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return an entry; None where there is none, or one that was damaged."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(ValueError):
            if (body := unsealed(content)) is not None:
                return msgspec.msgpack.decode(body, type=kind)
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep an entry; where the disk is full or may not be written to, the value is only not kept."""
        if self.folder is None:
            return
        path = self._path(key)
        with contextlib.suppress(OSError, FileError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, sealed(msgspec.msgpack.encode(value)))

    def made(self, key: str, kind: type[T], make: Callable[[], T]) -> T:
        """Return an entry, made and kept if it is not there."""
        found = self.get(key, kind)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key[2:]
