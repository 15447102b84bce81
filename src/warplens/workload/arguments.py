"""Arguments as they are written on a command line: `n=1024`, `x=f32[1024]:random`, `a=2.5`.

[NAME=]NUMBER              a scalar; of a pointer, how many elements it points to
[NAME=][TYPE][COUNT]       an array; the type may be left out where the kernel's is known
[NAME=]TYPE:VALUE          a scalar of a type, or bytes:HEX
[NAME=]null                a null pointer
...:FILL                   behind an array: what it holds, as in a launch file
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from warplens.core.errors import WarplensError, nearest
from warplens.workload.launch import SCALAR_BYTES

_NAME = re.compile(r"([A-Za-z_][\w.:]*)=(.*)", re.DOTALL)
_ARRAY = re.compile(r"([a-z]\w*)?\*?\[([^\]]*)\](?::(.+))?", re.DOTALL)
_TYPED = re.compile(r"([a-z]+\d*):(.+)", re.DOTALL)
_HOW = "write NAME=NUMBER, NAME=[COUNT] or NAME=f32[COUNT]:FILL (docs/reference/launch-file.md)"


def default_fill(kind: str) -> str:
    """Return what an array holds where nothing is written: numbers, or whole ones so small that they may be indices."""
    return "random" if kind[0] in "fb" or SCALAR_BYTES[kind.rstrip("*")] == 1 else "hash_mod(64)"


class Given(Struct, frozen=True):
    """What was written of one argument; what was not written is None."""

    text: str
    name: str | None = None
    type: str | None = None
    count: int | None = None
    value: float | int | str | None = None
    fill: str | None = None
    null: bool = False

    def keys(self, kind: str, size_bytes: int = 0) -> dict[str, Any]:
        """Return the keys of an [[arg]] of this type, or of the type that was written; unknown is an empty one."""
        known = kind or self._guessed(size_bytes)
        base, pointer = self.type or known.rstrip("*"), known.endswith("*") or self.count is not None
        if self.null:
            return {"type": f"{base or 'u8'}*", "value": 0}
        if not base:
            raise WarplensError(f"{self.text}: the type of its elements is not known: write it, as in f32[1024]")
        if not pointer:
            if self.fill is not None:
                raise WarplensError(f"{self.text}: only an array is filled; it is a {base}")
            return {"type": base, "value": self.value}
        count = self.count if self.count is not None else self.value
        if not isinstance(count, int):
            raise WarplensError(f"{self.text}: a pointer is given by the number of its elements, as in [1024]")
        return {"type": f"{base}*", "count": count, "fill": self.fill or default_fill(base)}

    def _guessed(self, size_bytes: int) -> str:
        """Return a type for a number of an unknown one, by its size."""
        if self.type or self.count is not None or not isinstance(self.value, (int, float)):
            return ""
        whole = isinstance(self.value, int)
        if whole and size_bytes == 8:
            raise WarplensError(
                f"{self.text}: 8 bytes of an unknown type: write f32[{self.value}] for an array, or i64:{self.value}"
            )
        return {1: "i8", 2: "i16" if whole else "f16", 8: "f64"}.get(size_bytes, "i32" if whole else "f32")


def parse_given(text: str, option: str = "--arg") -> Given:
    """Read an argument as it is written; `option` is for messages."""
    named = _NAME.fullmatch(text.strip())
    name, rest = (named[1], named[2].strip()) if named else (None, text.strip())
    if rest in ("null", "nullptr", "NULL"):
        return Given(text, name, null=True)
    if array := _ARRAY.fullmatch(rest):
        _check_type(array[1], text, option)
        return Given(text, name, array[1], _whole(array[2], text, option), fill=array[3])
    if (typed := _TYPED.fullmatch(rest)) and (typed[1] in SCALAR_BYTES or typed[1] == "bytes"):
        value = typed[2].strip() if typed[1] == "bytes" else _number(typed[2], text, option)
        return Given(text, name, typed[1], value=value)
    number, _, fill = rest.partition(":")
    return Given(text, name, value=_number(number, text, option), fill=fill or None)


def _check_type(kind: str | None, text: str, option: str) -> None:
    if kind is not None and kind not in SCALAR_BYTES:
        raise WarplensError(f"{option} {text}: unknown type {kind!r}{nearest(kind, SCALAR_BYTES)}")


def _number(written: str, text: str, option: str) -> float | int:
    plain = written.strip().replace("_", "")
    try:
        return int(plain, 0)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError:
        raise WarplensError(f"{option} {text}: {written.strip()!r} is no number; {_HOW}") from None


def _whole(written: str, text: str, option: str) -> int:
    number = _number(written, text, option)
    if not isinstance(number, int):
        raise WarplensError(f"{option} {text}: the number of elements is a whole number, not {written.strip()!r}")
    return number


def parse_shape(text: str, option: str) -> int | list[int]:
    """Read `128`, `128,64` or `128x64x1`."""
    parts = re.split(r"\s*[,x]\s*", text.strip().strip("()[]"))
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise WarplensError(f"{option} takes one to three whole numbers, as in 1024 or 128,64, not {text!r}")
    return int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]
