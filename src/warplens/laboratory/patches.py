"""Machine code that no compiler writes: small changes to the instructions of a compiled kernel.

What a kernel's `patch` says, in one or more parts with `;` between them. Encodings are those of sm_70 to sm_120.

    drop BSYNC.5     every BSYNC (or BSSY) becomes a NOP of five cycles: only where no lane has left the others
    registers same4  an FFMA's second and third sources lie in the bank of its first one, if there are two or four;
              same2  in that bank if there are two, in another if there are four
              mixed  the second in another bank, the third in that of the first
    weak LDG         every volatile LDG of 16 bytes becomes a plain one, from sm_80 on
    stall WIDE.9     every IMAD.WIDE that lets its warp wait for five cycles or more lets it wait for nine
    stall MUFU.2     every MUFU that lets its warp wait for longer lets it wait for two: its result has a scoreboard
    sources MUFU     every MUFU waits until the one before it has read its sources: nobody waits less than before
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens.core.errors import WarplensError
from warplens.laboratory.source import Kernel
from warplens.program.cubin import Cubin, parse_cubin

_OPCODES = {
    "BSYNC": 0x141, "BSSY": 0x145, "FFMA": 0x023, "LDG": 0x181, "WIDE": 0x025, "MUFU": 0x108, "LDS": 0x184,
    "SHFL": 0x189,
}  # fmt: skip
_FORM = {"LDG": 6}  # bits 73 to 75 of those that are meant: of 16 bytes
_STALL, _WRITE, _READ, _WAITS, _SCOPE = 105, 110, 113, 116, 77
_SCOREBOARDS = 6
_SEEN = 2  # cycles from an instruction until its scoreboard is seen by the next
_FIXED_LATENCY = 5  # and more: a stall count that lets a result come to be
_NOP = 0x7918
_LAST_REGISTER = 31  # of those that sources are taken from: the kernels here have as many
# Classes of the second and third source, modulo four, beside that of the first.
_BESIDE = {"same4": (0, 0), "same2": (2, 0), "mixed": (1, 0)}


def patched(kernels: list[Kernel], cubin: bytes) -> bytes:
    """Return a cubin with the changes that its kernels ask for."""
    if not any(kernel.patch for kernel in kernels):
        return cubin
    code, parsed = bytearray(cubin), parse_cubin(cubin, "cubin")
    for kernel in kernels:
        for part in filter(None, kernel.patch.split(";")):
            what, which = part.split()
            changed = _CHANGES[what](code, parsed, kernel.name, which)
            if not changed:
                raise WarplensError(f"{kernel.name}: nothing to change for `{part}` in its machine code")
    return bytes(code)


def _offsets(code: bytearray, cubin: Cubin, kernel: str, opcode: str) -> Iterator[int]:
    """Yield where in the file a kernel's instructions of one opcode begin."""
    section = cubin.sections[f".text.{kernel}"]
    for at in range(section.start, section.start + section.size, 16):
        word = _word(code, at)
        if word & 0x1FF == _OPCODES[opcode] and word >> 73 & 7 == _FORM.get(opcode, word >> 73 & 7):
            yield at


def _word(code: bytearray, at: int) -> int:
    return int.from_bytes(code[at : at + 16], "little")


def _put(code: bytearray, at: int, first: int, bits: int, value: int) -> None:
    """Set so many bits of an instruction, from `first` on."""
    kept = _word(code, at) & ~((1 << bits) - 1 << first)
    code[at : at + 16] = (kept | value << first).to_bytes(16, "little")


def _drop(code: bytearray, cubin: Cubin, kernel: str, which: str) -> int:
    opcode, cycles = which.split(".")
    found = list(_offsets(code, cubin, kernel, opcode))
    for at in found:
        control = _word(code, at) >> 105 << 105
        code[at : at + 16] = (control | _NOP).to_bytes(16, "little")
        _put(code, at, _STALL, 4, int(cycles))
    return len(found)


def _registers(code: bytearray, cubin: Cubin, kernel: str, classes: str) -> int:
    found = list(_offsets(code, cubin, kernel, "FFMA"))
    for n, at in enumerate(found):
        own = _word(code, at) >> 24 & 0xFF
        taken = [own]
        for offset, first, choice in zip(_BESIDE[classes], (32, 64), (n, n + 2), strict=True):
            free = [r for r in range(_LAST_REGISTER + 1) if (r - own - offset) % 4 == 0 and r not in taken]
            taken.append(free[choice % len(free)])
            _put(code, at, first, 8, taken[-1])
        _put(code, at, 122, 3, 0)  # nothing of the one before is used again
    return len(found)


def _weak(code: bytearray, cubin: Cubin, kernel: str, opcode: str) -> int:
    found = list(_offsets(code, cubin, kernel, opcode))
    for at in found:
        _put(code, at, _SCOPE, 4, 0)
    return len(found)


def _stall(code: bytearray, cubin: Cubin, kernel: str, which: str) -> int:
    opcode, cycles = which.split(".")
    least = _FIXED_LATENCY if opcode == "WIDE" else int(cycles) + 1
    waits = [at for at in _offsets(code, cubin, kernel, opcode) if _word(code, at) >> _STALL & 15 >= least]
    for at in waits:
        _put(code, at, _STALL, 4, int(cycles))
    return len(waits)


def _sources(code: bytearray, cubin: Cubin, kernel: str, opcode: str) -> int:
    found = list(_offsets(code, cubin, kernel, opcode))
    results = {_word(code, at) >> _WRITE & 7 for at in found}
    free = max(set(range(_SCOREBOARDS)) - results, default=None)
    if free is None:
        return 0
    for at in found:
        _put(code, at, _READ, 3, free)
        _put(code, at, _WAITS + free, 1, 1)
        _put(code, at, _STALL, 4, max(_SEEN, _word(code, at) >> _STALL & 15))
    return len(found)


_CHANGES = {"drop": _drop, "registers": _registers, "weak": _weak, "stall": _stall, "sources": _sources}
