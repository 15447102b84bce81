"""Files of the user: read with bounds and one clear error, written whole or not at all.

Every file that a user names is read here. It is a plain file: a device has no end, and a pipe may never have one. It
has at most so many bytes, also when it is expanded, and what is parsed is nested at most so deeply.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args

from warplens.core.errors import FileError, nearest

T = TypeVar("T")

LARGEST_BYTES = 1 << 30
LARGEST_TEXT_BYTES = 64 << 20
LARGEST_TOML_BYTES = 8 << 20  # its parser reads 4 MB per second
LARGEST_EXPANDED_BYTES = 128 << 20
DEEPEST = 60  # tables and lists in one another
_LONGEST_NUMBER_BITS = 4096  # Python writes none of more than 14,000 in decimals
_PART_BYTES = 1 << 20
_DIGEST_BYTES = 32
_MOST_TRIED = 1000  # keys of a table, to find which one is wrong: each means to convert the whole file
# A key of so many parts, where a key may begin: the parser's time grows with the square of their number.
_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:^|[{{,])[ \t\[]*+(?:{_KEY}\.[ \t]*+){{{DEEPEST}}}", re.MULTILINE)


def default_folder() -> Path:
    """Return where a user's caches are kept; one without a home has the root for it, as in containers."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):
        return given.expanduser() / "warplens"
    return Path("/.cache/warplens")


def read_bytes(path: Path, most: int = LARGEST_BYTES) -> bytes:
    """Read a plain file of at most so many bytes; what goes wrong becomes one line that names the file."""
    parts, count = list[bytes](), 0
    try:
        refuse_devices(path)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:  # noqa: PTH123
            while count <= most and (part := stream.read(_PART_BYTES)):
                parts.append(part)
                count += len(part)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{path}: {reason}") from None
    if count > most:
        raise FileError(f"{path}: larger than {most >> 20} MiB; this is not a file of ours")
    return b"".join(parts)


def refuse_devices(path: Path) -> None:
    """Refuse what is no plain file, without opening it: some devices act on that, and a pipe waits for its writer."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: a device or a pipe, which may have no end; save it to a file and give that")


def read_text(path: Path, errors: str = "strict") -> str:
    """Read a text file; what goes wrong becomes one line that names the file."""
    return _text(path, read_bytes(path, LARGEST_TEXT_BYTES), errors)


def _text(path: Path, data: bytes, errors: str = "strict") -> str:
    try:
        return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", errors).read()
    except UnicodeDecodeError:
        raise FileError(f"{path}: not a text file (UTF-8)") from None


def read_expanded(path: Path) -> bytes:
    """Read a file, plain, gzipped or by xz; the bound is that of what it expands to."""
    data, most = read_bytes(path, LARGEST_EXPANDED_BYTES), LARGEST_EXPANDED_BYTES
    try:
        for start, opened in ((b"\x1f\x8b", gzip.open), (b"\xfd7zXZ\0", lzma.open)):
            if data.startswith(start):
                with opened(io.BytesIO(data)) as stream:
                    data = stream.read(most + 1)
                break
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most:
        raise FileError(f"{path}: expands to more than {most >> 20} MiB; this is not a file of ours")
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; a syntax error names file, line and column."""
    return parse_toml(_text(path, read_bytes(path, LARGEST_TOML_BYTES)), str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; `name` is for messages."""
    if _LONG_KEY.search(text):
        raise FileError(f"{name}: a key of more than {DEEPEST} parts")
    return _parsed(lambda: tomllib.loads(text), name, "TOML")


def read_json(path: Path) -> Any:
    """Parse a JSON file; a syntax error names the file and the byte."""
    import msgspec

    return _parsed(lambda: msgspec.json.decode(read_text(path).encode()), str(path), "JSON")


def _parsed(parse: Callable[[], T], name: str, kind: str) -> T:
    try:
        return bounded(parse(), name)
    except (RecursionError, OverflowError):
        raise FileError(f"{name}: nested too deeply") from None
    except ValueError as error:  # also of an integer of more than 4300 digits, of bytes that are no UTF-8
        raise FileError(f"{name}: not valid {kind}: {error}") from None


def bounded(tree: T, name: str) -> T:
    """Return a tree as it is; refuse one that is nested too deeply, or holds a number too long to be written."""
    level: list[Any] = [[tree]]
    for _ in range(DEEPEST + 2):
        inside = [x for node in level for x in (node.values() if isinstance(node, dict) else node)]
        if any(type(x) is int and x.bit_length() > _LONGEST_NUMBER_BITS for x in inside):
            raise FileError(f"{name}: a whole number of more than {_LONGEST_NUMBER_BITS:,} bits")
        level = [x for x in inside if isinstance(x, (dict, list))]
        if not level:
            return tree
    raise FileError(f"{name}: nested too deeply: {DEEPEST} levels at most")


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
    """Return the keys to the faulty value. msgspec writes `[...]` for a key of a table: find which one it is."""
    import msgspec

    keys: list[str] = []
    for name, bracket in steps:
        if bracket != "...":
            keys.append(name or bracket)
            continue
        table = _at(tree, keys)
        for key in islice(table, _MOST_TRIED) if isinstance(table, dict) else ():
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
    """Return a copy of the tree with the value under these keys replaced."""
    if not keys:
        return value
    if isinstance(tree, list):
        return [_with(item, keys[1:], value) if str(i) == keys[0] else item for i, item in enumerate(tree)]
    return {**tree, keys[0]: _with(tree[keys[0]], keys[1:], value)}


def _explained(what: str, keys: list[str], tree: Any, kind: type) -> str:
    """Turn msgspec's "Expected `float` >= 0" into "must be a number >= 0, not -18"."""
    where = ".".join(keys)
    named = re.search(r"(unknown|missing required) field `(.+)`", what)
    if named:
        where = ".".join([*keys, named.group(2)])
        if named.group(1) != "unknown":
            return f"{where}: missing"
        return f"{where}: unknown key{nearest(named.group(2), _names(kind))}"
    wrong = re.search(r"Invalid enum value (.*)", what)
    if wrong:
        return f"{where or 'file'}: unknown name {wrong.group(1)}"
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    what = re.sub(r"(\d)[.]0(?![0-9])", r"\1", what).replace("`", "")
    value = _at(tree, keys)
    shown = f", not {value}" if isinstance(value, (int, float)) and "not" not in what else ""
    return f"{where or 'file'}: {what}{shown}"


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


def sealed(body: bytes, of: bytes = b"") -> bytes:
    """Return a body behind a digest of it, and of the bytes `of` which it was computed."""
    return hashlib.sha256(of + body).digest() + body


def unsealed(kept: bytes, of: bytes = b"") -> bytes | None:
    """Return the body of sealed bytes; nothing if they are damaged, or computed of something else."""
    body = kept[_DIGEST_BYTES:]
    return body if hashlib.sha256(of + body).digest() == kept[:_DIGEST_BYTES] else None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: into a temporary file beside it, then renamed over it.

    A link is followed, a device or pipe is written to, a read-only file and a missing folder are refused.
    """
    with writing(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def keep(paths: Iterable[Path], content: bytes) -> None:
    """Write a file whole at the first of some paths that takes it; at none where disks are full or read-only."""
    for path in paths:
        with contextlib.suppress(OSError, FileError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
            break


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
