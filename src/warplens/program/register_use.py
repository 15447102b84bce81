"""Registers that an instruction reads and writes.

The disassembler names the first register of a group only; how many belong to it follows from opcode and
modifiers; which operands are written follows from opcode and position. Both are rules here, checked against
`nvdisasm -plr` over a corpus of kernels. The rules look at the shapes of the operands, never at numbers, so that
they hold for all instructions of a kind.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from warplens.core.files import read_toml
from warplens.program.instruction import REGISTER, Operand, parse_operand

_FILE = Path(__file__).parent / "files" / "operands.toml"
_RULES: dict[str, Any] = read_toml(_FILE)
_OPCODES = {name: frozenset(opcodes) for name, opcodes in _RULES.items() if isinstance(opcodes, list)}
TEXTURE, _DATA, _DOUBLE, _FAR, _MATRIX, _CONVERTED = (
    _OPCODES[name] for name in ("texture", "data", "double", "far", "matrix", "converted")
)
_GROUPED = _OPCODES["grouped"] | TEXTURE | _DATA | _DOUBLE | _FAR | _MATRIX | _CONVERTED
_PRODUCTS: dict[str, dict[str, tuple[int, int]]] = _RULES["products"]
_PREDICATES = ("predicate", "uniform predicate")
_WIDE = frozenset(("64", "F64", "U64", "S64", "F32x2"))
_DIMENSIONS = {"1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "ARRAY_3D": 4, "ARRAY_CUBE": 4}
_PAIRED, _SUFFIXED = re.compile(r"\.64\b"), re.compile(r"\.\w")

# An operand, and how many registers from each that is written in it on; without numbers, one.
Access = tuple[int, tuple[int, ...]]


@lru_cache(maxsize=65536)
def group(registers: tuple[str, ...], widths: tuple[int, ...]) -> tuple[str, ...]:
    """Spell out groups of consecutive registers: R4 of width 2 is R4, R5."""
    names = list[str]()
    for register, width in zip(registers, widths, strict=True):
        if width == 1:
            names.append(register)
        else:
            bank = register.rstrip("0123456789")
            first = int(register[len(bank) :])
            names += [f"{bank}{i}" for i in range(first, first + width)]
    return tuple(names)


def components(operands: tuple[Operand, ...]) -> int:
    """Return how many components a texture access has, by the mask in it."""
    return max(1, (_mask(operands, 1) & 15).bit_count())


def by_mask(operands: tuple[Operand, ...]) -> tuple[str, ...]:
    """Return the predicates that P2R and UP2UR read, R2P and UR2UP write as one register."""
    mask = _mask(operands, 0x7F) if operands else 0
    name = "UP" if any(o.kind == "uniform predicate" for o in operands) else "P"
    return tuple([f"{name}{i}" for i in range(7) if mask >> i & 1])


def _mask(operands: tuple[Operand, ...], otherwise: int) -> int:
    """Return the last immediate, which is a mask."""
    value = next((o.value for o in reversed(operands) if o.value is not None), otherwise)
    return int(value) if isfinite(value) else otherwise


@lru_cache(maxsize=16384)
def accesses(
    opcode: str, modifiers: tuple[str, ...], shapes: tuple[str, ...], parts: int
) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
    """Return which operands an instruction reads, and those that it writes, each with the widths of its registers.

    This holds for all instructions whose operands have these shapes; `parts` counts the components of a texture, and
    is 0 for other opcodes.
    """
    operands = tuple([parse_operand(shape)[0] for shape in shapes])
    written = _written(opcode, modifiers, operands)
    widths = _widths(opcode, modifiers, operands, written, parts)
    reads: list[Access] = []
    writes: list[Access] = []
    for i, operand in enumerate(operands):
        if operand.kind == "memory" or (operand.kind == "constant" and operand.registers):
            reads.append((i, _address(opcode, modifiers, operand, i == 0)))
        elif operand.registers:
            into = writes if i in written else reads
            into.append((i, (widths[i],) * len(operand.registers) if widths[i] != 1 else ()))
    return tuple(reads), tuple(writes)


def _written(opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> set[int]:
    """Return the positions of the operands that are written."""
    if not operands or opcode in _OPCODES["no_destination"]:
        return {0} if opcode == "USETMAXREG" and operands and operands[0].kind == "uniform predicate" else set()
    kinds = [o.kind for o in operands]
    if opcode in _OPCODES["two_predicates"]:  # one in the papers' listings
        return {0, 1} if len(kinds) > 1 and kinds[1] in _PREDICATES else {0}
    if opcode in TEXTURE:  # two groups of results before the coordinates; one before Volta
        return {0, 1} if kinds[1:3] == ["register", "register"] else {0}
    if (opcode in ("LDG", "LD") and "256" in modifiers) or (opcode == "B2R" and "RESULT" in modifiers):
        return {0, 1}
    if kinds[0] in _PREDICATES:
        if opcode == "IMNMX" and len(kinds) > 2:  # IMNMX.S64 PT, PT, R12, ...
            return {0, 1, 2}
        # a predicate, then a register: SHFL PT, R0, ... ; LOP3.LUT P0, RZ, ... ; ATOMG.E.ADD PT, R5, [...]
        reads_it = kinds[1:2] not in (["register"], ["uniform"])
        return {0} if reads_it or opcode in ("R2P", "UR2UP", "SEL", "FSEL", "P2R", "FCHK") else {0, 1}
    written = {0}
    for i in range(1, len(kinds)):  # IADD3 R0, P0, P1, R2, ... : carries before the first source
        if kinds[i] not in _PREDICATES or operands[i].text.startswith("!"):
            break
        if all(kind in _PREDICATES for kind in kinds[i:]):
            return {0, 1} if opcode in ("VOTE", "VOTEU") and i == 1 and len(kinds) > 2 else written
        written.add(i)
    return written


def _data_width(modifiers: tuple[str, ...]) -> int:
    if "128" in modifiers or "F32x4" in modifiers:
        return 4
    return 2 if _WIDE & set(modifiers) else 1


def _widths(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], written: set[int], parts: int
) -> list[int]:
    """Return how many registers each operand stands for."""
    widths = [1] * len(operands)
    if not operands or not (
        opcode in _GROUPED or not _OPCODES["grouping"].isdisjoint(modifiers) or opcode.endswith("GMMA")
    ):
        return widths
    registers = [i for i, o in enumerate(operands) if o.kind in ("register", "uniform")]
    sources = [i for i in registers if i not in written]
    results = [i for i in registers if i in written]

    def put(positions: list[int], width: int) -> None:
        for position in positions:
            widths[position] = width

    if opcode in _DATA:
        put(registers, 4 if "256" in modifiers else _data_width(modifiers))  # 256 bits are two groups of four
    elif opcode in ("IMAD", "UIMAD") and ("WIDE" in modifiers or "HI" in modifiers):
        put(results, 2 if "WIDE" in modifiers else 1)
        others = [i for i, o in enumerate(operands) if o.kind not in _PREDICATES]
        put([i for i in sources if [i] == others[-1:]], 2)  # the addend
    elif opcode in _DOUBLE:
        put([i for i in registers if not operands[i].text.endswith(".F32")], 2)  # a scalar for both halves
    elif opcode in ("ISETP", "IMNMX", "MATCH", "UISETP", "UIMNMX") and ("S64" in modifiers or "U64" in modifiers):
        put(sources if opcode == "MATCH" else registers, 2)
    elif opcode == "MOVM" and "U4TO8" in modifiers:
        put(results, 2)
    elif opcode.endswith("GMMA"):
        _group_matrix(modifiers, operands, results, sources, widths)
    elif opcode == "SYNCS":
        put([i for i in sources if operands[i].kind == "uniform"], 2 if "64" in modifiers else 1)
        put(results, 2 if "TRANS64" in modifiers else 1)
    elif opcode in TEXTURE:
        _texture(opcode, modifiers, operands, sources, widths, parts)
    elif opcode in ("SULD", "SUST"):
        put([i for i in registers if operands[i].kind == "register"], _data_width(modifiers))
    elif opcode in _CONVERTED:
        for positions, width in zip((results, sources), _conversion(opcode, modifiers), strict=True):
            put(positions, width)
    elif opcode in ("CS2R", "CS2UR"):
        put(results, 1 if "32" in modifiers else 2)
    elif opcode in ("LDSM", "STSM"):
        put(registers, next((int(m) for m in modifiers if m in ("2", "4")), 1))
    elif opcode in _FAR:
        put(registers, 2)
    elif opcode in _MATRIX:
        _matrix(opcode, modifiers, operands, results, widths)
    elif "64" in modifiers and opcode in _OPCODES["pairs_of_64"]:
        put(registers, 2)
    return widths


def _dimensions(operands: tuple[Operand, ...], modifiers: tuple[str, ...]) -> int:
    words = [*(o.text for o in operands), *modifiers]
    return next((_DIMENSIONS[word] for word in words if word in _DIMENSIONS), 1)


def _texture(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], sources: list[int], widths: list[int],
    parts: int,
) -> None:  # fmt: skip
    """Fill in the widths of a texture access: two results by the components, coordinates, a handle pair."""
    if 1 in sources or len(operands) == 1:
        widths[0] = parts
    else:
        widths[0], widths[1] = max(1, parts - 2), min(2, parts)
    dimensions = 1 if opcode == "TXQ" else _dimensions(operands, modifiers)
    registers = [i for i in sources if operands[i].kind == "register"]
    for i in sources:
        if operands[i].kind == "uniform":
            widths[i] = 2
    if "SCR" in modifiers and len(registers) == 2:  # coordinates and level scattered over two groups
        total = dimensions + ("LL" in modifiers)
        widths[registers[0]], widths[registers[1]] = -(-total // 2), max(1, total // 2)
    elif registers:
        widths[registers[0]] = dimensions
        if opcode == "TXD" and len(registers) > 1:
            widths[registers[1]] = 2 * dimensions


def _conversion(opcode: str, modifiers: tuple[str, ...]) -> tuple[int, int]:
    """Return the widths of result and source of a conversion: F2F.F64.F32, F2I.S64.F64.TRUNC, I2F.F64.S64."""
    wide_float, wide_int = 1 + ("F64" in modifiers), 1 + ("S64" in modifiers or "U64" in modifiers)
    if opcode == "F2F":
        types = [m for m in modifiers if re.fullmatch(r"B?F(16|32|64).*", m)]
        return 1 + (types[:1] == ["F64"]), 1 + (types[1:2] == ["F64"])
    known = {"F2I": (wide_int, wide_float), "I2F": (wide_float, wide_int), "FRND": (wide_float, wide_float)}
    return known.get(opcode, (1, 1))


def _matrix(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], results: list[int], widths: list[int]
) -> None:
    """Fill in the group widths of a tensor-core instruction D = A B + C."""
    sparse = modifiers[:1] == ("SP",)
    kinds = modifiers[1:] if sparse else modifiers
    shape = kinds[0] if kinds else ""
    a, b = _PRODUCTS.get(opcode, {}).get(shape, (2, 2) if opcode == "DMMA" else (4, 2))
    if opcode == "HMMA" and "TF32" in kinds:
        a, b = _PRODUCTS["HMMA_TF32"].get(shape, (a, b))
    if sparse:
        a, b = _PRODUCTS["sparse"].get(shape, (4, 4))
    if opcode == "DMMA":
        c = 8 if shape.startswith("16") else 4
    elif opcode in ("IMMA", "BMMA"):
        c = 2 if shape.startswith("88") else 4
    else:
        c = (2 if "F16" in kinds[1:2] else 4) * (2 if opcode == "HMMA" and shape == "884" else 1)
    for i in results:
        widths[i] = c
    sources = [i for i in range(len(operands)) if i not in results]
    for i, width in zip(sources, (a, b, c), strict=False):
        if operands[i].kind == "register":
            widths[i] = width


def _group_matrix(
    modifiers: tuple[str, ...], operands: tuple[Operand, ...], results: list[int], sources: list[int], widths: list[int]
) -> None:
    """Fill in the widths of a warp-group instruction such as HGMMA.64x16x16.F32: 64 x N over 128 threads."""
    shape = re.match(r"[0-9]+x([0-9]{1,3})x", modifiers[0]) if modifiers else None
    columns = int(shape.group(1)) if shape else 8
    accumulator = columns // 4 if "F16" in modifiers[1:2] else columns // 2
    for i in results:
        widths[i] = accumulator
    registers = [i for i in sources if operands[i].kind == "register"]
    for i in registers:
        widths[i] = 4
    if registers:
        widths[registers[-1]] = accumulator


def _bulk_width(opcode: str, modifiers: tuple[str, ...], first: bool) -> int:
    """Return the uniform registers of a bulk copy's address: tensor coordinates, barrier, 64-bit pointer."""
    if opcode == "UTMACCTL" or (opcode.startswith("UTMA") and not first):
        return 2
    if opcode.startswith("UTMA"):
        dimensions = next((int(m[0]) for m in modifiers if re.fullmatch(r"[1-5]D", m)), 1)
        return dimensions + (2 if opcode == "UTMALDG" else 1)
    into_shared = modifiers[:1] == ("S",)  # UBLKCP.S.G: destination and barrier, then a global pointer
    return 2 if first or into_shared else 1


def _address(opcode: str, modifiers: tuple[str, ...], operand: Operand, first: bool) -> tuple[int, ...]:
    """Return how many registers an address or an indexed constant reads, from each on that is written in it."""
    text, start = operand.text, len(operand.descriptor)
    widths, others = [2] * start, len(operand.registers) - 1
    if text.startswith(("gdesc", "idesc", "tmem")):
        return (*widths, 4, *[0] * others) if operand.registers else tuple(widths)
    if opcode in ("SULD", "SUST", "SURED", "SUATOM") and operand.registers:
        return (*widths, _dimensions((), modifiers), *[0] * others)
    behind = REGISTER.split(text.partition("[")[2] if start else text)[3::3]  # what follows each register
    for position, register in enumerate(operand.registers, start):
        width = 1
        if opcode in _OPCODES["bulk"]:
            width = _bulk_width(opcode, modifiers, first)
        elif operand.kind == "constant":
            width = 2 if text.lstrip("-|~").startswith("cx[") and register.startswith("UR") else 1
        elif _PAIRED.match(behind[position]):
            width = 2
        elif opcode in _OPCODES["global"]:
            bare = not _SUFFIXED.match(behind[position]) and "U32" not in text
            into_shared = opcode == "LDGSTS" and first
            if register.startswith("UR") or (bare and "E" in modifiers and not into_shared):
                width = 2
        widths.append(width)
    return tuple(widths)
