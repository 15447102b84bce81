"""Cubins, ELF files of CUDA machine code: sections, kernels, resources, and the memory of their modules.

Only what is needed is read, and every offset is checked: a truncated or injured file is refused with one
line, it is never trusted.

A module is linked as the driver does on loading it: its variables get addresses, which are filled in where needed.

    .nv.global.init, .nv.global    variables with and without initial values
    .nv.constant3                  __constant__ variables; as memory too, for pointers to them
    .rel..., .rela...              where the address of a variable or function must be written

A kernel's own code lies at address 0: a function's address is its offset in the kernel. Functions of the system
(vprintf, malloc) get addresses of their own, which no kernel can read.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import FileError
from warplens.program.declarations import demangled
from warplens.program.program import Program, Resources, Segment

_CUDA = bytes((190, 0))  # the machine of an ELF file
_EXECUTABLE = 2  # kind of an ELF file
_NO_BITS, _STRINGS = 8, 3  # kinds of sections
_MOST_THREADS = 1024  # of a block
# Codes of the attributes in .nv.info sections.
_ANNOTATIONS, _SPILL, _PARAMETER_BANK, _PARAMETER = 0x55, 1, 0x0A, 0x17
_MAX_THREADS, _REQUIRED_THREADS, _FRAME, _MIN_STACK, _PARAMETER_BYTES = 0x05, 0x10, 0x11, 0x12, 0x19
_COMPUTED_BRANCHES = (0x949, 0x94C, 0x958, 0x959)  # BRX, JMX, BRXU, JMXU: the opcodes since Volta
_REGISTERS, _BARRIERS, _CLUSTER = 0x2F, 0x4C, 0x3D
_NO_BOUND = 1 << 31  # a least stack from here on is that of a function that calls itself
FIRST_ADDRESS, STEP = 0x8_0000_0000, 1 << 21
SYSTEM_ADDRESS, SYSTEM_STEP = 0x7_0000_0000, 16
_IN_MEMORY = (".nv.global.init", ".nv.global", ".nv.constant3")
_SIZES = {1: 4, 2: 8, 3: 4, 4: 8}  # R_CUDA_32, _64, _G32, _G64: bytes that a relocation writes
_OBJECT, _FUNCTION = 1, 2  # kinds of symbols
_PLAIN = bytes(c if c == 0 or (c < 128 and (chr(c).isalnum() or chr(c) in ".$_")) else ord("_") for c in range(256))


class Section(Struct, frozen=True):
    """One ELF section: its index in the section table, its start and size in the file."""

    index: int
    kind: int
    start: int
    size: int


class Cubin(Struct, frozen=True):
    """A cubin's sections by name."""

    name: str
    sections: dict[str, Section]
    elf: bytes

    @property
    def arch(self) -> str:
        """The architecture that it is for, such as `sm_90`, or `sm_90a` where the compiler noted it."""
        flags = struct.unpack_from("<I", self.elf, 48)[0]
        name = f"sm_{flags >> 8 & 0xFF if self.elf[8] >= 8 else flags & 0xFF}"  # byte 8: version of the ABI
        noted = re.search(rf"-arch ({name}[af])\b", self._note())
        return noted.group(1) if noted else name

    def content(self, name: str) -> bytes:
        """Return what a section holds; nothing for one that is not there or has no bits, such as shared memory."""
        section = self.sections.get(name)
        if section is None or section.kind == _NO_BITS:
            return b""
        return self.elf[section.start : section.start + section.size]

    def kernels(self) -> list[str]:
        """Return the mangled names of the kernels: functions with launch information, and an entry if any is one."""
        named = [n.removeprefix(".nv.info.") for n in self.sections if n.startswith(".nv.info.")]
        code = {name: self.sections[f".text.{name}"] for name in named if f".text.{name}" in self.sections}
        entries = self._entries()
        return [name for name in code if code[name].index in entries] or list(code)

    def symbol(self, kernel: str) -> int | None:
        """Return the index of a kernel's symbol."""
        section = self.sections.get(f".text.{kernel}")
        if section is None:
            raise FileError(f"{self.name}: no code section for kernel {kernel!r}")
        return self._entries().get(section.index)

    def _entries(self) -> dict[int, int]:
        """Return the symbol of each section that is a kernel's code."""
        table = self.content(".symtab")
        symbols = struct.iter_unpack("<IBBHQQ", table[: len(table) // 24 * 24])
        return {at: i for i, (_, kind, other, at, _, _) in enumerate(symbols) if kind & 15 == 2 and other & 16}

    def with_plain_names(self) -> bytes:
        """Return the file with names that text can hold: all but letters, digits, and .$_ become an underline."""
        data = bytearray(self.elf)
        for section in self.sections.values():
            if section.kind == _STRINGS:
                where = slice(section.start, section.start + section.size)
                data[where] = data[where].translate(_PLAIN)
        return bytes(data)

    def resources(self, kernel: str) -> Resources:
        """Return the resources that a kernel needs of an SM."""
        symbol = self.symbol(kernel)
        shared = self.sections.get(f".nv.shared.{kernel}")
        own = dict(_attributes(self.content(f".nv.info.{kernel}")))
        common: dict[int, int] = {}
        for code, value in _attributes(self.content(".nv.info")):
            if len(value) >= 8 and struct.unpack_from("<I", value)[0] == symbol:
                common[code] = struct.unpack_from("<I", value, 4)[0]
        bank, notes = own.get(_PARAMETER_BANK, b""), own.get(_ANNOTATIONS, b"")
        marked = struct.iter_unpack("<II", notes[: len(notes) // 8 * 8])
        threads = math.prod(_three(own.get(_MAX_THREADS)) or (0,))
        # CUDA 13.5 records the stack of a recursion as without a bound, 13.4 as the kernel's own frame. A launch has
        # the larger of this and its stack limit (cudaLimitStackSize, 1024 bytes unless the program sets it).
        stack, frame = common.get(_MIN_STACK, 0), common.get(_FRAME, 0)
        return Resources(
            registers=common.get(_REGISTERS, 0),
            static_shared_bytes=max(0, shared.size - self._reserved_bytes()) if shared else 0,
            barriers=_short(own.get(_BARRIERS)),
            frame_bytes=frame if stack >= _NO_BOUND else stack,
            threads_max=threads if 0 < threads <= _MOST_THREADS else None,
            threads_required=_three(own.get(_REQUIRED_THREADS)),
            parameter_bytes=_short(own.get(_PARAMETER_BYTES)),
            # symbol (4 bytes), offset, size: where the arguments begin in constant bank 0
            parameter_offset=int(struct.unpack_from("<H", bank, 4)[0]) if len(bank) >= 8 else 0x210,
            parameters=_parameters(self.content(f".nv.info.{kernel}")),
            spills=tuple(offset for kind, offset in marked if kind == _SPILL),
            cluster=_three(own.get(_CLUSTER)),
        )

    def computes_branches(self, kernel: str) -> bool:
        """Return whether a kernel has branches whose targets its code does not tell."""
        code = self.content(f".text.{kernel}")
        opcodes = {low | high << 8 & 0xF00 for low, high in set(zip(code[::16], code[1::16], strict=False))}
        return not opcodes.isdisjoint(_COMPUTED_BRANCHES)

    def constant_sections(self, kernel: str) -> dict[int, str]:
        """Return the sections of the constant banks by number: the kernel's own and the module's."""
        found: dict[int, str] = {}
        for name in self.sections:
            match = re.fullmatch(r"\.nv\.constant(\d+)(?:\.(.*))?", name, re.DOTALL)
            if match and match.group(2) in (None, kernel):
                found.setdefault(int(match.group(1)), name)
        return found

    def _reserved_bytes(self) -> int:
        """Return the bytes that the system reserves at the start of each block's shared memory (1 KiB from sm_90 on).

        It is a part of what a kernel that is linked has; of its section nvlink leaves a symbol.
        """
        is_there = ".nv.shared.reserved.0" in self.sections or b".nv.reservedSmem" in self.content(".strtab")
        return 1024 if is_there and self.elf[16] == _EXECUTABLE else 0

    def producer(self) -> str:
        """Return the compiler that the cubin names, such as `ptxas 13.0.88`, or an empty string."""
        version = re.search(r"V(\d+\.\d+\.\d+)", self._note())
        tool = re.search(r"\b(ptxas|nvlink|fatbinary)\b", self._note())
        return f"{tool.group(1) if tool else 'ptxas'} {version.group(1)}" if version else ""

    def _note(self) -> str:
        return self.content(".note.nv.tkinfo").decode("utf-8", "replace")


def plain(name: str) -> str:
    """Return a name as `with_plain_names` writes it."""
    return name.encode("utf-8", "replace").translate(_PLAIN).decode()


def is_cubin(data: bytes, at: int = 0) -> bool:
    """Return whether a cubin begins there: a 64-bit ELF file for CUDA, low bytes first."""
    return data[at : at + 6] == b"\x7fELF\x02\x01" and data[at + 18 : at + 20] == _CUDA and len(data) >= at + 64


def parse_cubin(data: bytes, name: str) -> Cubin:
    """Read the section table of a cubin."""
    if not is_cubin(data):
        raise FileError(f"{name}: not a cubin (an ELF file for CUDA)")
    try:
        headers = list(_headers(data, 0))
        _, _, _, _, names_at, names_size, *_ = headers[struct.unpack_from("<H", data, 62)[0]]
        names = data[names_at : names_at + names_size]
        sections: dict[str, Section] = {}
        left = 8 * len(names) + 4096  # characters in all names: a damaged table may give the same long one often
        for i, (at, kind, _, _, start, size, *_) in enumerate(headers):
            end = names.index(b"\0", at, at + left)
            left -= end - at
            if kind != _NO_BITS and start + size > len(data):
                raise ValueError("outside the file")
            sections.setdefault(names[at:end].decode("utf-8", "replace"), Section(i, kind, start, size))
    except (struct.error, ValueError, IndexError, OverflowError):
        raise FileError(f"{name}: a damaged cubin: its section table points outside the file") from None
    return Cubin(name, sections, data)


def _headers(data: bytes, base: int) -> Iterator[tuple[int, ...]]:
    """Yield the section headers (name, kind, flags, address, start, size, ...) of an ELF file."""
    offset = struct.unpack_from("<Q", data, base + 40)[0]
    size, count = struct.unpack_from("<HH", data, base + 58)
    for i in range(count):
        yield struct.unpack_from("<IIQQQQIIQQ", data, base + offset + i * size)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value) of an .nv.info section: format byte, code byte, then a value or a size and bytes."""
    at = 0
    while at + 4 <= len(data):
        form, code = data[at], data[at + 1]
        if form == 4:
            size = struct.unpack_from("<H", data, at + 2)[0]
            yield code, data[at + 4 : at + 4 + size]
            at += 4 + size
        else:
            yield code, data[at + 2 : at + 4]
            at += 4


def _three(data: bytes | None) -> tuple[int, int, int] | None:
    return struct.unpack_from("<3I", data) if data and len(data) >= 12 else None


def _short(data: bytes | None) -> int:
    return int(struct.unpack_from("<H", data)[0]) if data and len(data) >= 2 else 0


def _parameters(data: bytes) -> tuple[tuple[int, int], ...]:
    """Return offset and size of each parameter: index (4 bytes), ordinal, offset (2 each), the size above 18 bits."""
    found = {}
    for code, value in _attributes(data):
        if code == _PARAMETER and len(value) >= 12:
            _, ordinal, offset, rest = struct.unpack_from("<IHHI", value)
            found[ordinal] = offset, rest >> 18
    return tuple(found[n] for n in sorted(found))


def embedded_cubins(data: bytes) -> Iterator[bytes]:
    """Yield the uncompressed cubins inside an executable, library or fat binary."""
    at, left = data.find(b"\x7fELF"), 1 << 20  # section headers to look at in all: damaged ones may claim many
    while at >= 0 and left > 0:
        size = None
        if is_cubin(data, at):
            left -= 1 + struct.unpack_from("<H", data, at + 60)[0]
            size = _elf_size(data, at)
        if size is not None and at + size <= len(data):
            yield data[at : at + size]
            at += size - 4
        at = data.find(b"\x7fELF", at + 4)


def _elf_size(data: bytes, base: int) -> int | None:
    """Return where an ELF file ends: behind its section table, its program table and all sections."""
    try:
        programs, offset = struct.unpack_from("<QQ", data, base + 32)
        program_size, program_count, size, count = struct.unpack_from("<HHHH", data, base + 54)
        ends: list[int] = [64, offset + size * count, programs + program_size * program_count]
        ends += [start + size for _, kind, _, _, start, size, *_ in _headers(data, base) if kind != _NO_BITS]
    except (struct.error, OverflowError):
        return None
    return max(ends)


class _Symbol(Struct, frozen=True):
    """A symbol of an ELF file: its kind, and its section, address in it and size."""

    name: str
    kind: int
    section: int
    value: int
    size: int


def link(program: Program, cubin: Cubin) -> Program:
    """Return a kernel with the memory of its module, which is that of a cubin."""
    bases, at = dict[int, int](), FIRST_ADDRESS
    there = [name for name in _IN_MEMORY if name in cubin.sections]
    for name in there:
        bases[cubin.sections[name].index] = at
        at = -(-(at + cubin.sections[name].size + STEP) // STEP) * STEP
    text, system = cubin.sections.get(f".text.{program.name}"), list[str]()
    addresses = list[int | None]()
    symbols, variables = dict[str, int](), dict[str, tuple[int, int]]()
    for symbol in _symbols(cubin):
        address = None
        if symbol.section in bases:
            address = bases[symbol.section] + symbol.value
            if symbol.kind == _OBJECT and symbol.name:
                variables[symbol.name] = address, symbol.size
        elif text is not None and symbol.section == text.index:
            address = symbol.value
        elif symbol.section == 0 and symbol.kind == _FUNCTION:
            address = SYSTEM_ADDRESS + SYSTEM_STEP * len(system)
            system.append(symbol.name)
        addresses.append(address)
        if address is not None and symbol.name:
            symbols[plain(symbol.name)] = address
    symbols |= {name: bases[cubin.sections[name].index] for name in there}
    segments = [Segment(symbols[name], s.size, _relocated(cubin, name, addresses))
                for name in there if (s := cubin.sections[name]).size]  # fmt: skip
    banks = sorted(cubin.constant_sections(program.name).items())
    readable = demangled(list(variables))
    return replace(
        program,
        constants={bank: _relocated(cubin, name, addresses) for bank, name in banks},
        segments=segments,
        symbols=symbols,
        variables={readable[name]: where for name, where in variables.items()},
        system=system,
    )


def variables_of(cubin: Cubin) -> dict[str, int]:
    """Return the sizes of a module's variables, in bytes, by the names of their symbols."""
    there = {cubin.sections[name].index for name in _IN_MEMORY if name in cubin.sections}
    return {s.name: s.size for s in _symbols(cubin) if s.kind == _OBJECT and s.name and s.section in there}


def _symbols(cubin: Cubin) -> list[_Symbol]:
    table, names = cubin.content(".symtab"), cubin.content(".strtab")
    found = []
    for at, kind, _, section, value, size in struct.iter_unpack("<IBBHQQ", table[: len(table) // 24 * 24]):
        end = names.find(b"\0", at)
        found.append(_Symbol(names[at:end].decode("utf-8", "replace"), kind & 15, section, value, size))
    return found


def function_names(cubin: Cubin, kernel: str) -> dict[int, str]:
    """Return the names of the functions in a kernel's code, itself among them, by offset, as text holds them."""
    code = cubin.sections[f".text.{kernel}"].index
    return {s.value: plain(s.name) for s in _symbols(cubin) if s.section == code and s.kind == _FUNCTION and s.name}


def relocations(cubin: Cubin, section: str) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield (offset, kind, symbol, addend); without an addend the content at the offset is one."""
    for prefix, form in ((".rel", "<QII"), (".rela", "<QIIq")):
        data, size = cubin.content(prefix + section), struct.calcsize(form)
        for entry in struct.iter_unpack(form, data[: len(data) // size * size]):
            yield entry[0], entry[1], entry[2], entry[3] if len(entry) > 3 else None


def _relocated(cubin: Cubin, section: str, addresses: list[int | None]) -> bytes:
    data = bytearray(cubin.content(section))
    for at, kind, symbol, addend in relocations(cubin, section):
        size = _SIZES.get(kind)
        address = addresses[symbol] if symbol < len(addresses) else None
        if size is None or address is None or at + size > len(data):
            continue
        if addend is None:
            addend = int.from_bytes(data[at : at + size], "little", signed=True)
        data[at : at + size] = (address + addend & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(data)
