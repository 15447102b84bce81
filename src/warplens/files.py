"""Reading and writing files so that nothing is lost: read with one clear error, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args

from warplens.errors import FileError, nearest

T = TypeVar("T")

LARGEST_TEXT_BYTES = 64 << 20


def default_folder() -> Path:
    """Return where a user's caches are kept; one without a home has the root for it, as in containers."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):
        return given.expanduser() / "warplens"
    return Path("/.cache/warplens")


def read_text(path: Path) -> str:
    """Read a text file; what goes wrong becomes one line that names the file."""
    try:
        if path.stat().st_size > LARGEST_TEXT_BYTES:
            raise FileError(f"{path}: larger than {LARGEST_TEXT_BYTES >> 20} MiB; this is not a file of ours")
        return path.read_text(encoding="utf-8-sig")
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
    import msgspec  # here and below: who only writes files, as the laboratory does, needs none

    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        keys = _located(tree, kind, re.findall(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]", where))
        raise FileError(f"{file}: {_explained(what, keys, tree, kind)}") from None
    except RecursionError:
        raise FileError(f"{file}: nested too deeply") from None


def _located(tree: Any, kind: type, steps: list[tuple[str, str]]) -> list[str]:
    """Return the keys to the faulty place. msgspec writes `[...]` for a key of a table: find which one it is."""
    import msgspec

    keys: list[str] = []
    for name, bracket in steps:
        if bracket != "...":
            keys.append(name or bracket)
            continue
        table = _at(tree, keys)
        for key in table if isinstance(table, dict) else ():
            try:
                msgspec.convert(_with(tree, keys, {key: table[key]}), kind)
            except msgspec.ValidationError:
                keys.append(str(key))
                break
    return keys


def _at(tree: Any, keys: list[str]) -> Any:
    for key in keys:
        if isinstance(tree, list):
            tree = tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _with(tree: Any, keys: list[str], value: Any) -> Any:
    """Return a copy of the tree with the value at this place replaced."""
    if not keys:
        return value
    if isinstance(tree, list):
        return [_with(item, keys[1:], value) if str(i) == keys[0] else item for i, item in enumerate(tree)]
    return {**tree, keys[0]: _with(tree[keys[0]], keys[1:], value)}


def _explained(what: str, keys: list[str], tree: Any, kind: type) -> str:
    """Turn msgspec's "Expected `float` >= 0" into "must be a number >= 0, not -18"."""
    place = ".".join(keys)
    named = re.search(r"(unknown|missing required) field `(.+)`", what)
    if named:
        place = ".".join([*keys, named.group(2)])
        if named.group(1) != "unknown":
            return f"{place}: missing"
        return f"{place}: unknown key{nearest(named.group(2), _names(kind))}"
    wrong = re.search(r"Invalid enum value (.*)", what)
    if wrong:
        return f"{place or 'file'}: unknown name {wrong.group(1)}"
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    what = re.sub(r"(\d)[.]0(?![0-9])", r"\1", what).replace("`", "")
    value = _at(tree, keys)
    shown = f", not {value}" if isinstance(value, (int, float)) and "not" not in what else ""
    return f"{place or 'file'}: {what}{shown}"


_WORDS = {
    "`float | array`": "a number or a list", "`str | null`": "text", "`float | null`": "a number",
    "`int | null`": "a whole number", "`bool`": "true or false", " that's a multiple of 1.0": " that is whole",
    "`float`": "a number", "`int`": "a whole number", "`str`": "text", "`object`": "a table", "`array`": "a list",
    "Expected ": "must be ", ", got ": ", not ", "| null": "",
}  # fmt: skip


def _names(kind: Any, seen: frozenset[Any] = frozenset()) -> set[str]:
    """Return all field names of a structure and of the structures in it (which may hold itself)."""
    import msgspec

    inner = list(get_args(kind))
    names: set[str] = set()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        fields = msgspec.structs.fields(kind)
        names, inner, seen = {f.encode_name for f in fields}, [f.type for f in fields], seen | {kind}
    return names.union(*(_names(one, seen) for one in inner))


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: into a temporary file beside it, then renamed over it.

    A link is followed, a device or pipe is written to, a read-only file and a missing folder are refused.
    """
    with writing(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is there whole when the block ends, or as it was before where that fails."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                yield stream
            return
        if target.exists() and not target.stat().st_mode & 0o222:
            raise FileError(f"{path}: cannot write: the file is read-only")
        if not target.parent.is_dir():
            raise FileError(f"{path}: cannot write: there is no folder {target.parent}")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".warplens-")
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)
            Path(temporary).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise FileError(f"{path}: cannot write: {getattr(error, 'strerror', None) or error}") from None
