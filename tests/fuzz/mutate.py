"""Injuries: what may happen to a file, by accident or on purpose."""

from __future__ import annotations

import random
import re
import struct

_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1)
_WORDS = (
    b"nan", b"-1", b"inf", b"1e400", b'"', b"'", b"{", b"}", b"[", b"]", b"(", b")", b"\n", b"\r", b"\0", b"\x1b[31m",
    b"\xff\xfe", "é\u2028".encode(), b"9" * 5000, b"[" * 3000, b"A" * 20000, b",R1" * 3000, b"/*", b"*/", b";", b"`(",
    b"0x", b"$(touch x)", b"<script>", b".L_x_1", b"R255", b"R99999", b"64x999x16", b"BRA 0x0 ;", b"BRX R2 ", b"@P0 ",
    b"// ", b"#", b" " * 5000, b"\\", b"|", b"P2R R0, PR, RZ, inf", b"???", b"BRANCH_TARGETS .L_x_0",
    b"true", b"1" * 400,
)  # fmt: skip
_MAGICS = (
    b"\x7fELF\x02\x01\x01\x41\x08" + bytes(9) + b"\xbe\0", b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\0",
    b"\x50\xed\x55\xba\x01\0\x10\0", b"!<arch>\n", b".version 8.0\n.target sm_80\n", b"\x7fELF",
)  # fmt: skip


def injured(data: bytes, others: list[bytes], chance: random.Random, *, text: bool) -> bytes:
    """Return the file with one to four injuries."""
    if chance.random() < 0.02:
        return chance.choice((b"", chance.choice(_MAGICS))) + chance.randbytes(chance.choice((0, 8, 64, 3000)))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kinds = [
            _truncated,
            _flipped,
            _spliced,
            _block,
            _deleted,
            _doubled,
            *([_words, _words, _lines] if text else []),
        ]
        if data[:4] == b"\x7fELF":
            kinds += [_field, _field, _section]
        data = chance.choice(kinds)(data or b"\0", others, chance)
    return data


def _place(data: bytes, chance: random.Random) -> tuple[int, int]:
    """Return a random piece, mostly a small one."""
    at = chance.randrange(len(data))
    return at, min(len(data), at + chance.choice((1, 4, 16, 100, 1000, len(data))))


def _truncated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))] if chance.random() < 0.7 else data[chance.randrange(len(data)) :]


def _flipped(data: bytes, others: list[bytes], chance: random.Random, first: int = 0, last: int = 0) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 64))):
        made[chance.randrange(first, last or len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def _spliced(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others) or b"\0"
    (a, b), (c, d) = _place(data, chance), _place(other, chance)
    return data[:a] + other[c:d] + data[chance.choice((a, b, a + d - c)) :]


def _block(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    a, b = _place(data, chance)
    filler = chance.choice((chance.randbytes(b - a), bytes(b - a), b"\xff" * (b - a)))
    return data[:a] + filler + data[b:]


def _deleted(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    a, b = _place(data, chance)
    return data[:a] + data[b:]


def _doubled(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    a, b = _place(data, chance)
    return data[:a] + data[a:b] * chance.choice((2, 2, 3, 20)) + data[b:]


def _words(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Put a word of another kind where one is, or between two."""
    found = [m.span() for m in re.finditer(rb"[\w.]+", data)] or [(0, 0)]
    (a, b), (c, d) = chance.choice(found), chance.choice(found)
    word = chance.choice((chance.choice(_WORDS), chance.choice(_WORDS), data[c:d]))
    return data[:a] + word + data[chance.choice((a, b)) :]


def _number(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Give a number of a text another value."""
    found = [m.span() for m in re.finditer(rb"(?<![A-Za-z])\d+|(?<=R)\d+", data)] or [(0, 0)]
    a, b = chance.choice(found)
    return data[:a] + b"%d" % chance.choice((*_NUMBERS, *range(10), *range(10))) + data[b:]


def _lines(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    rows = data.split(b"\n")
    for _ in range(chance.choice((1, 3))):
        at, to = chance.randrange(len(rows)), chance.randrange(len(rows))
        match chance.randrange(3):
            case 0:
                rows[at], rows[to] = rows[to], rows[at]
            case 1:
                rows.insert(to, rows[at])
            case _ if len(rows) > 1:
                del rows[at]
    return b"\n".join(rows)


def _field(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Give a field of an ELF file's headers another number."""
    made, at = bytearray(data), chance.randrange(64)
    size = chance.choice((2, 4, 8))
    if chance.random() < 0.7 and len(data) >= 64:
        offset, (width, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
        at = offset + chance.randrange(max(1, count)) * width + chance.choice((0, 4, 8, 16, 24, 32, 40, 44, 48, 56))
    if at + size <= len(made):
        near = int.from_bytes(made[at : at + size], "little") + chance.choice((-16, -1, 1, 16, 4096))
        number = chance.choice((*_NUMBERS, len(data), near, near, near))
        made[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(made)


def _section(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Injure what one section of an ELF file holds: code, attributes, symbols, names, lines."""
    try:
        offset, (width, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
        start, size = struct.unpack_from("<QQ", data, offset + chance.randrange(max(1, count)) * width + 24)
    except (struct.error, OverflowError):
        return data
    if not size or start + size > len(data):
        return data
    if chance.random() < 0.7:
        return _flipped(data, others, chance, start, start + size)
    inside = _block(data[start : start + size], others, chance)
    return data[:start] + inside + data[start + size :]
