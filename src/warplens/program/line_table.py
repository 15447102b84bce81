"""DWARF line table of a cubin: the source lines of its machine code, read without a tool.

CUDA 13.4 writes version 2 of the table and 13.5 version 3, whose header is the same. Later versions have another.

A row may stand for code that was inlined: NVIDIA's opcode 0x90 names the row of the call, by its number among the rows
of the function, before the rows of what was called.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from warplens.program.cubin import Cubin, relocations

Calls = tuple[tuple[str, int], ...]  # file and line, that of the innermost function first

_NOTHING, _END, _ADDRESS, _INLINED = 0, 1, 2, 0x90  # extended opcodes; padding has none
_COPY, _ADVANCE, _LINE, _SET_FILE, _ADD_CONSTANT, _FIXED = 1, 2, 3, 4, 8, 9  # standard ones
_SECTION = ".debug_line"
_VERSIONS = (2, 3)


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
