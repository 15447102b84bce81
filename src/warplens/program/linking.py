"""Linking of a cubin, as the driver does on loading it: addresses of a module's variables, filled in where needed.

    .nv.global.init, .nv.global    variables with and without initial values
    .nv.constant3                  __constant__ variables; as memory too, for pointers to them
    .rel..., .rela...              where the address of a variable or function must be written

A kernel's own code lies at address 0: a function's address is its offset in the kernel. Functions of the system
(vprintf, malloc) get addresses of their own, which no kernel can read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct

from warplens.program.cubin import Cubin, plain
from warplens.program.program import Segment

FIRST_ADDRESS, STEP = 0x8_0000_0000, 1 << 21
SYSTEM_ADDRESS, SYSTEM_STEP = 0x7_0000_0000, 16
_IN_MEMORY = (".nv.global.init", ".nv.global", ".nv.constant3")
_SIZES = {1: 4, 2: 8, 3: 4, 4: 8}  # R_CUDA_32, _64, _G32, _G64: bytes that a relocation writes
_OBJECT, _FUNCTION = 1, 2  # kinds of symbols


class Linked(Struct, frozen=True):
    """A module in memory: its variables, constant banks with addresses filled in, names, functions of the system."""

    segments: list[Segment]
    constants: dict[int, bytes]
    symbols: dict[str, int]
    variables: dict[str, tuple[int, int]]  # address and size
    system: list[str]


class _Symbol(Struct, frozen=True):
    name: str
    kind: int
    section: int
    value: int
    size: int


def link(cubin: Cubin, kernel: str) -> Linked:
    """Return the memory of a module, for one of its kernels."""
    bases, at = {}, FIRST_ADDRESS
    for name in _IN_MEMORY:
        if name in cubin.sections:
            bases[cubin.sections[name].index] = at
            at = -(-(at + cubin.sections[name].size + STEP) // STEP) * STEP
    symbols, system = _symbols(cubin), list[str]()
    text = cubin.sections.get(f".text.{kernel}")
    addresses: list[int | None] = []
    for symbol in symbols:
        if symbol.section in bases:
            addresses.append(bases[symbol.section] + symbol.value)
        elif text is not None and symbol.section == text.index:
            addresses.append(symbol.value)
        elif symbol.section == 0 and symbol.kind == _FUNCTION:
            addresses.append(SYSTEM_ADDRESS + SYSTEM_STEP * len(system))
            system.append(symbol.name)
        else:
            addresses.append(None)
    constants = {
        bank: _relocated(cubin, name, addresses) for bank, name in sorted(cubin.constant_sections(kernel).items())
    }
    segments = [
        Segment(address, cubin.sections[name].size, _relocated(cubin, name, addresses))
        for name, address in ((n, bases[cubin.sections[n].index]) for n in _IN_MEMORY if n in cubin.sections)
    ]
    named = {plain(s.name): at for s, at in zip(symbols, addresses, strict=True) if at is not None and s.name}
    named |= {name: bases[cubin.sections[name].index] for name in _IN_MEMORY if name in cubin.sections}
    variables = {
        s.name: (at, s.size)
        for s, at in zip(symbols, addresses, strict=True)
        if at is not None and s.kind == _OBJECT and s.name and s.section in bases
    }
    return Linked([s for s in segments if s.size_bytes], constants, named, variables, system)


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
