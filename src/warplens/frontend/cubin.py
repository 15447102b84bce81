"""Cubins: ELF files of CUDA machine code. Sections, kernels, resources, and the control codes.

Only what is needed is read, and every offset is checked: a truncated or injured file is refused with one
line, it is never trusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from warplens.errors import FileError
from warplens.kernel.program import Resources

MACHINE_CUDA = 190
_LARGEST_BYTES = 1 << 30
INSTRUCTION_BYTES = 16


class Section(Struct, frozen=True):
    """One ELF section."""

    name: str
    kind: int
    flags: int
    info: int
    link: int
    content: bytes
    size: int


class Cubin(Struct, frozen=True):
    """A cubin's sections by name."""

    name: str
    sections: dict[str, Section]
    elf: bytes

    def kernels(self) -> list[str]:
        """Return the mangled names of the kernels, those that have launch information."""
        return [name.removeprefix(".nv.info.") for name in self.sections if name.startswith(".nv.info.")]

    def words(self, kernel: str) -> tuple[int, ...]:
        """Return the machine code of a kernel's section, two 64-bit words per instruction, the low one first."""
        code = self._code(kernel).content
        size = len(code) // INSTRUCTION_BYTES * INSTRUCTION_BYTES
        return struct.unpack(f"<{size // 8}Q", code[:size])

    def resources(self, kernel: str) -> Resources:
        """Return what a kernel needs of an SM."""
        self._code(kernel)
        shared = self.sections.get(f".nv.shared.{kernel}")
        own = dict(_attributes(self.sections.get(f".nv.info.{kernel}")))
        symbol = _symbol_index(self.sections, kernel)
        common: dict[int, int] = {}
        for code, value in _attributes(self.sections.get(".nv.info")):
            if len(value) >= 8 and struct.unpack_from("<I", value)[0] == symbol:
                common[code] = struct.unpack_from("<I", value, 4)[0]
        required = own.get(_REQUIRED_THREADS, b"")
        return Resources(
            registers=common.get(_REGISTERS, 0),
            static_shared_bytes=max(0, shared.size - self._reserved_bytes()) if shared else 0,
            barriers=_short(own.get(_BARRIERS)),
            frame_bytes=common.get(_MIN_STACK, 0),
            threads_max=_product(own.get(_MAX_THREADS, b"")),
            threads_required=struct.unpack_from("<3I", required) if len(required) >= 12 else None,
            parameter_bytes=_short(own.get(_PARAMETER_BYTES)),
        )

    def _reserved_bytes(self) -> int:
        """Return what the system reserves at the start of each block's shared memory (1 KiB from sm_90 on)."""
        reserved = self.sections.get(".nv.shared.reserved.0")
        return 1024 if reserved is not None else 0

    def producer(self) -> str:
        """Return the compiler that the cubin names, such as `ptxas 13.0.88`, or an empty string."""
        note = self.sections.get(".note.nv.tkinfo")
        text = note.content.decode("utf-8", "replace") if note else ""
        version = re.search(r"V(\d+\.\d+\.\d+)", text)
        maker = re.search(r"\b(ptxas|nvlink|fatbinary)\b", text)
        return f"{maker.group(1) if maker else 'ptxas'} {version.group(1)}" if version else ""

    def _code(self, kernel: str) -> Section:
        section = self.sections.get(f".text.{kernel}")
        if section is None:
            raise FileError(f"{self.name}: no code section for kernel {kernel!r}")
        return section


# Codes of the attributes in .nv.info sections.
_MAX_THREADS, _REQUIRED_THREADS, _MIN_STACK, _PARAMETER_BYTES, _REGISTERS, _BARRIERS = (
    0x05,
    0x10,
    0x12,
    0x19,
    0x2F,
    0x4C,
)


def is_elf(data: bytes) -> bool:
    """Whether the bytes begin like an ELF file."""
    return data[:4] == b"\x7fELF"


def is_cubin(data: bytes) -> bool:
    """Whether the bytes begin like a cubin: an ELF file for CUDA."""
    return is_elf(data) and len(data) >= 64 and struct.unpack_from("<H", data, 18)[0] == MACHINE_CUDA


def read_bytes(path: Path) -> bytes:
    """Read a binary file; what goes wrong is one line that names it."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise FileError(f"{path}: larger than {_LARGEST_BYTES >> 30} GiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def parse_cubin(data: bytes, name: str) -> Cubin:
    """Read the sections of a cubin."""
    if not is_cubin(data):
        raise FileError(f"{name}: not a cubin (an ELF file for CUDA)")
    try:
        offset = struct.unpack_from("<Q", data, 40)[0]
        size, count, names_at = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        names = _content(data, headers[names_at])
        sections: dict[str, Section] = {}
        for header in headers:
            end = names.index(b"\0", header[0])
            text = names[header[0] : end].decode("utf-8", "replace")
            content = b"" if header[1] == 8 else _content(data, header)  # 8: no bits, such as shared memory
            sections.setdefault(text, Section(text, header[1], header[2], header[7], header[6], content, header[5]))
    except (struct.error, ValueError, IndexError, OverflowError, MemoryError):
        raise FileError(f"{name}: a damaged cubin: its section table points outside the file") from None
    return Cubin(name, sections, data)


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    start, size = header[4], header[5]
    if start + size > len(data):
        raise ValueError("outside the file")
    return data[start : start + size]


def _attributes(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value) of an .nv.info section: format byte, code byte, then a value or a size and bytes."""
    data, at = section.content if section else b"", 0
    while at + 4 <= len(data):
        form, code = data[at], data[at + 1]
        if form == 4:
            size = struct.unpack_from("<H", data, at + 2)[0]
            yield code, data[at + 4 : at + 4 + size]
            at += 4 + size
        else:
            yield code, data[at + 2 : at + 4]
            at += 4


def _symbol_index(sections: dict[str, Section], kernel: str) -> int | None:
    table, strings = sections.get(".symtab"), sections.get(".strtab")
    if table is None or strings is None:
        return None
    wanted = kernel.encode()
    for i in range(len(table.content) // 24):
        at = struct.unpack_from("<I", table.content, i * 24)[0]
        kind = table.content[i * 24 + 4] & 15
        if kind == 2 and strings.content[at : at + len(wanted) + 1] == wanted + b"\0":
            return i
    return None


def _short(data: bytes | None) -> int:
    return int(struct.unpack_from("<H", data)[0]) if data and len(data) >= 2 else 0


def _product(data: bytes) -> int | None:
    if len(data) < 12:
        return None
    x, y, z = struct.unpack_from("<3I", data)
    return int(x * y * z)


def embedded_cubins(data: bytes) -> Iterator[bytes]:
    """Yield the uncompressed cubins inside an executable, library or fat binary."""
    at = data.find(b"\x7fELF", 1)
    while at >= 0:
        piece = data[at:]
        if is_cubin(piece[:64]):
            size = _elf_size(piece)
            if size is not None and size <= len(piece):
                yield piece[:size]
        at = data.find(b"\x7fELF", at + 4)


def _elf_size(data: bytes) -> int | None:
    """Return where an ELF file ends: behind its section table, its program table and all sections."""
    try:
        programs, offset = struct.unpack_from("<QQ", data, 32)
        program_size, program_count, size, count = struct.unpack_from("<HHHH", data, 54)
        ends = [offset + size * count, programs + program_size * program_count]
        for i in range(count):
            header = struct.unpack_from("<IIQQQQ", data, offset + i * size)
            if header[1] != 8:
                ends.append(header[4] + header[5])
    except (struct.error, OverflowError):
        return None
    return int(max(ends))
