"""Disassembler without nvdisasm: an architecture's machine words to nvdisasm's text, and their source lines.

nvdisasm takes half a second for its tables before it reads a byte. How it writes instructions can be learned from it
once (laboratory/encoding/learn.py): each *form* of an instruction has bits that are as they are, and its text is put
together of parts, each of which depends on a few other bits.

    text                       as it is
    table                      some bits choose among texts: modifiers, signs, predicates that may be left out
    number                     a field: a register, an immediate, an offset, an address in the code
    float                      an immediate of 16, 32 or (its upper half) 64 bits

A word that fits no form is not guessed at: nvdisasm is asked, for the whole kernel.

Source lines are those of the cubin's DWARF line table. CUDA 13.4 writes version 2 of the table and 13.5 version 3,
whose header is the same. Later versions have another. A row may stand for code that was inlined: NVIDIA's opcode 0x90
names the row of the call, by its number among the rows of the function, before the rows of what was called.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from msgspec import Raw, Struct, json

from warplens.program.cubin import Cubin, relocations

_FOLDER = Path(__file__).parent / "files"
WORD_BYTES = 16
OPCODE = 0xFFF
# Stall count, yield, scoreboards and wait mask: of no concern to the text.
CONTROL = ((1 << 17) - 1) << 105 | 3 << 126
_KEPT = (1 << 128) - 1 - CONTROL
_LAST = {"R": (255, "RZ"), "UR": (63, "URZ"), "P": (7, "PT"), "UP": (7, "UPT")}
# By size in bits: how struct calls it, zeros below, which bit tells quiet from signalling.
_FLOATS = {16: ("<H", "<e", 0, 9), 32: ("<I", "<f", 0, 22), 64: ("<Q", "<d", 32, 51)}
_HALF = 32  # bits of a double that an instruction holds
_LARGE = 1e9  # from here on nvdisasm writes all digits, and the exponent

Calls = tuple[tuple[str, int], ...]  # file and line, that of the innermost function first

_NOTHING, _END, _ADDRESS, _INLINED = 0, 1, 2, 0x90  # extended opcodes; padding has none
_COPY, _ADVANCE, _LINE, _SET_FILE, _ADD_CONSTANT, _FIXED = 1, 2, 3, 4, 8, 9  # standard ones
_SECTION = ".debug_line"
_VERSIONS = (2, 3)


class Choice(Struct, frozen=True, tag="bits", array_like=True):
    """A part that some bits choose: their positions, lowest first, and the number of the table of texts."""

    bits: list[int]
    table: int


class Number(Struct, frozen=True, tag="number", array_like=True):
    """A part that is a field: its kind of number, its pieces (start and length, lowest first), its scale and sign."""

    kind: str
    pieces: list[tuple[int, int]]
    scale: int = 0
    signed: bool = False


class Float(Struct, frozen=True, tag="float", array_like=True):
    """A part that is a floating-point number."""

    start: int
    size: int


Part = str | Choice | Number | Float


class Form(Struct, frozen=True, omit_defaults=True):
    """The encoding and the text of one kind of instruction; masks and words in hexadecimal.

    `but` has fields (a mask) and their values with which the text is another.
    """

    mask: str
    value: str
    parts: list[Part]
    but: dict[str, list[str]] = {}


class Encoding(Struct, frozen=True):
    """All forms of an architecture by opcode; a table has a text, or nothing, for each value of its bits."""

    learned_from: str
    relative: list[str]
    tables: list[list[str | None]]
    forms: dict[str, Raw]  # of lists of forms: few are met in a kernel


class Ready(Struct, frozen=True):
    """A compiled form: a pattern, and for each gap in it some bits of the word and what gives the text of their value.

    `but` has fields with which the text is another.
    """

    but: list[tuple[int, frozenset[int]]]
    pattern: str
    gaps: list[tuple[int, Callable[[int], str]]]

    def written(self, word: int) -> str | None:
        """Return the text of a word that has the form's fixed bits; nothing if its text is another."""
        for mask, values in self.but:
            if word & mask in values:
                return None
        try:
            return (self.pattern % tuple([text(word & mask) for mask, text in self.gaps])).rstrip()
        except KeyError:
            return None


class Writer:
    """The texts of an architecture's words; forms are compiled when they are first met."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._relative = {int(opcode, 16) for opcode in encoding.relative}
        self._forms: dict[int, list[tuple[int, int, Form]]] = {}  # of an opcode: fixed bits, their values
        self._ready: dict[tuple[int, int], Ready] = {}
        self._known: dict[int, str | None] = {}

    def texts(self, code: bytes) -> list[str] | None:
        """Return the texts of machine code that begins at address 0; nothing if a word of it is not known."""
        halves = struct.unpack(f"<{len(code) // 8}Q", code)
        found = list[str]()
        for at, (low, high) in enumerate(zip(halves[::2], halves[1::2], strict=True)):
            text = self.text(low | high << 64, at * WORD_BYTES)
            if text is None:
                return None
            found.append(text)
        return found

    def text(self, word: int, address: int) -> str | None:
        """Return the text of a word at an address, or nothing."""
        word &= _KEPT
        if word not in self._known:
            self._known[word] = self._written(word)
        text = self._known[word]
        if text is not None and word & OPCODE in self._relative:
            before, last, distance = text.rpartition("0x")
            if last:
                sign = -1 if before.endswith("-") else 1
                text = f"{before.removesuffix('-')}{address + WORD_BYTES + sign * int(distance, 16):#x}"
        return text

    def _written(self, word: int) -> str | None:
        opcode = word & OPCODE
        if opcode not in self._forms:
            raw = self._encoding.forms.get(f"{opcode:03x}")
            forms = json.decode(raw, type=list[Form]) if raw else []
            self._forms[opcode] = [(int(form.mask, 16), int(form.value, 16), form) for form in forms]
        for number, (mask, value, form) in enumerate(self._forms[opcode]):
            if word & mask != value:
                continue
            which = opcode, number
            if which not in self._ready:
                self._ready[which] = ready(form, self._encoding.tables)
            text = self._ready[which].written(word)
            if text is not None:
                return text.replace("+0x0]", "]")
        return None


@cache
def writer(arch: str) -> Writer | None:
    """Return the writer of an architecture, if its encoding was learned."""
    file = _FOLDER / f"{arch.rstrip('af')}.json"
    return Writer(json.decode(file.read_bytes(), type=Encoding)) if file.is_file() else None


def ready(form: Form, tables: list[list[str | None]]) -> Ready:
    """Return a form with its tables looked up, ready to write words."""
    pattern, gaps = "", list[tuple[int, Callable[[int], str]]]()
    for part in form.parts:
        pattern += part.replace("%", "%%") if isinstance(part, str) else "%s"
        if isinstance(part, Choice):
            spread = [0]
            for bit in part.bits:
                spread += [value | 1 << bit for value in spread]
            texts = zip(spread, tables[part.table], strict=True)
            gaps.append((spread[-1], {value: text for value, text in texts if text is not None}.__getitem__))
        elif isinstance(part, Number):
            register = part.kind != "0x"
            text = _names(part.kind, *part.pieces[0], part.scale).__getitem__ if register else partial(_integer, part)
            gaps.append((sum((1 << length) - 1 << start for start, length in part.pieces), text))
        elif isinstance(part, Float):
            gaps.append(((1 << min(part.size, _HALF)) - 1 << part.start, partial(_real, part)))
    but = [(int(mask, 16), frozenset(int(value, 16) for value in values)) for mask, values in form.but.items()]
    return Ready(but, pattern, gaps)


@cache
def _names(kind: str, start: int, length: int, scale: int) -> dict[int, str]:
    """Return the registers of a kind by the bits that name them; the last one may have a name of its own."""
    last, name = _LAST.get(kind, (-1, ""))
    numbers = range(0, 1 << length + scale, 1 << scale)
    return {n >> scale << start: name if n == last else f"{kind}{n}" for n in numbers}


def _integer(part: Number, word: int) -> str:
    """Return an immediate, an offset or an address, in hexadecimal."""
    value = size = 0
    for start, length in part.pieces:
        value |= (word >> start & (1 << length) - 1) << size
        size += length
    if part.signed and value >> size - 1:
        return f"-{(1 << size) - value << part.scale:#x}"
    return f"{value << part.scale:#x}"


def _real(part: Float, word: int) -> str:
    """Return a floating-point number as nvdisasm writes it, with a blank behind what has a name."""
    whole, real, below, quiet = _FLOATS[part.size]
    bits = word >> part.start << below
    value: float = struct.unpack(real, struct.pack(whole, bits))[0]
    sign = "-" if bits >> part.size - 1 else "+"
    if math.isnan(value):
        return f"{sign}{'QNAN' if bits >> quiet & 1 else 'SNAN'} "
    if math.isinf(value):
        return f"{sign}INF "
    if sign == "-" and not value:
        return "-0.0 "
    return f"{value:.20e}" if abs(value) >= _LARGE else f"{value:.20g}"


class UnknownTable(Exception):
    """A line table that is none of those that this module reads."""


def source_lines(cubin: Cubin, symbol: int) -> dict[int, Calls]:
    """Return the file and line of a kernel's code, by the offsets from which on they hold."""
    data = cubin.content(_SECTION)
    symbols = {at: target for at, _, target, _ in relocations(cubin, _SECTION)}
    found: dict[int, Calls] = {}
    try:
        for start, end in _units(data):
            found |= _Table(data, start, end, symbols).lines(symbol)
    except (IndexError, struct.error, ValueError):
        raise UnknownTable from None
    return found


def _units(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the table of each compilation begins, behind its length, and where it ends."""
    at = 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        if at + 4 + size > len(data):
            raise UnknownTable
        yield at + 4, at + 4 + size
        at += 4 + size


class _Table:
    """The line table of one compilation: its header, and the program of its rows."""

    def __init__(self, data: bytes, start: int, end: int, symbols: dict[int, int]) -> None:
        version, header = struct.unpack_from("<HI", data, start)
        self.step, _, self.base, self.range, self.first = struct.unpack_from("<BBbBB", data, start + 6)
        if version not in _VERSIONS or not self.range or self.first < 10:
            raise UnknownTable
        self.data: bytes = data
        self.end, self.symbols = end, symbols
        self.counts = data[start + 11 : start + 10 + self.first]
        self.program = start + 6 + header
        self.at: int = start + 10 + self.first
        folders = [""]
        while name := self._text():
            folders.append(name)
        self.files = [""]
        while name := self._text():
            folder = folders[self._number()]
            self._number(), self._number()
            self.files.append(f"{folder}/{name}" if folder and not name.startswith("/") else name)

    def lines(self, symbol: int) -> dict[int, Calls]:
        """Return the rows of a function by address: of several at one address, the last."""
        found: dict[int, Calls] = {}
        self.at = self.program
        while self.at < self.end:
            mine, rows = self._sequence(symbol)
            if mine:
                found |= {address: _calls(rows, row) for row, (address, _, _, _) in enumerate(rows)}
        return found

    def _sequence(self, symbol: int) -> tuple[bool, list[tuple[int, str, int, int]]]:
        """Return whether a function is the one asked for, and its rows: address, file, line, row of the call or -1."""
        address, file, line, call, mine = 0, 1, 1, -1, False
        rows: list[tuple[int, str, int, int]] = []
        while self.at < self.end:
            code = self._byte()
            if code >= self.first:
                address += (code - self.first) // self.range * self.step
                line += self.base + (code - self.first) % self.range
                rows.append((address, self.files[file], line, call))
            elif code == 0:
                size = self._number()
                behind = self.at + size
                kind = self._byte() if size else _NOTHING
                if kind == _END:
                    break
                if kind == _ADDRESS:
                    mine = self.symbols.get(self.at) == symbol
                    address = int.from_bytes(self.data[self.at : behind], "little")
                elif kind == _INLINED:
                    call = self._number() - 1
                self.at = behind
            elif code == _COPY:
                rows.append((address, self.files[file], line, call))
            elif code == _ADVANCE:
                address += self._number() * self.step
            elif code == _LINE:
                line += self._signed()
            elif code == _SET_FILE:
                file = self._number()
            elif code == _ADD_CONSTANT:
                address += (255 - self.first) // self.range * self.step
            elif code == _FIXED:
                address += struct.unpack_from("<H", self.data, self.at)[0]
                self.at += 2
            else:
                for _ in range(self.counts[code - 1]):
                    self._number()
        return mine, rows

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _number(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _signed(self) -> int:
        start = self.at
        value = self._number()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def _text(self) -> str:
        end = self.data.index(b"\0", self.at)
        start, self.at = self.at, end + 1
        return self.data[start:end].decode("utf-8", "replace")


def _calls(rows: list[tuple[int, str, int, int]], row: int) -> Calls:
    found: list[tuple[str, int]] = []
    while row >= 0:
        if len(found) > len(rows):
            raise UnknownTable
        _, file, line, row = rows[row]
        found.append((file, line))
    return tuple(found)
