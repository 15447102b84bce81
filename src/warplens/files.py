"""Reading and writing files so that nothing is lost: read with one clear error, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from warplens.errors import FileError, nearest

T = TypeVar("T")

LARGEST_TEXT_BYTES = 64 << 20


def read_text(path: Path) -> str:
    """Read a text file; what goes wrong becomes one line that names the file."""
    try:
        if path.stat().st_size > LARGEST_TEXT_BYTES:
            raise FileError(f"{path}: larger than {LARGEST_TEXT_BYTES >> 20} MiB; this is not a file of ours")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{path}: not a text file (UTF-8)") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{path}: {reason}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; a syntax error names file, line and column."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: not valid TOML: {error}") from None
    except (RecursionError, OverflowError):
        raise FileError(f"{path}: nested too deeply") from None
    except ValueError as error:  # an integer of more than 4300 digits
        raise FileError(f"{path}: not valid TOML: {error}") from None


def convert(tree: Any, kind: type[T], file: str) -> T:
    """Turn a tree into a structure; what does not fit is said as `file: key: why`, with the nearest key."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise FileError(f"{file}: {_explained(str(error), kind)}") from None
    except RecursionError:
        raise FileError(f"{file}: nested too deeply") from None


def _explained(message: str, kind: type) -> str:
    """Turn msgspec's "Expected `x` - at `$.a.b`" into "a.b: expected x"."""
    what, _, where = message.partition(" - at ")
    where = re.sub(r"`|key in |\$\.?|\[\.\.\.\]", "", where).strip(".")
    key = re.search(r"(unknown|missing required) field `(.+)`", what)
    if key:
        place = ".".join(filter(None, [where, key.group(2)]))
        missing = key.group(1) != "unknown"
        return f"{place}: missing" if missing else f"{place}: unknown key{nearest(key.group(2), _names(kind))}"
    name = re.search(r"Invalid enum value (.*)", what)
    if name:
        return f"{where or 'file'}: unknown name {name.group(1)}"
    return f"{where or 'file'}: {what[:1].lower()}{what[1:]}"


def _names(kind: Any, seen: frozenset[Any] = frozenset()) -> set[str]:
    """Return all field names of a structure and of the structures in it (which may hold itself)."""
    inner = list(get_args(kind))
    names: set[str] = set()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        fields = msgspec.structs.fields(kind)
        names, inner, seen = {f.encode_name for f in fields}, [f.type for f in fields], seen | {kind}
    return names.union(*(_names(one, seen) for one in inner))


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all: into a temporary file beside it, then renamed over it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise FileError(f"{path}: cannot write: {error.strerror or error}") from None
