"""Matrix instructions and asynchronous groups: their operations and rates, and their slots.

    LDGSTS ... LDGDEPBAR     copies, then the end of a group of them     DEPBAR.LE SB0, n     n groups may be left
    HGMMA ... HGMMA gsb0     products, the last one ends the group       WARPGROUP.DEPBAR.LE gsb0, n

The time when the last copy (or product) is done is kept in a slot; the end of a group moves what is in the slots along
by one, so that a wait for all but n groups is a wait for the n-th slot behind.
"""

from __future__ import annotations

import math
import re

from msgspec import Struct

from warplens.machine import Machine
from warplens.program.instruction import Instruction

_SHAPES = {"1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "16864": (16, 8, 64), "8816": (8, 8, 16),
           "1684": (16, 8, 4), "884": (8, 8, 4), "8832": (8, 8, 32)}  # fmt: skip
_GROUP = re.compile(r"(\d+)x(\d+)x(\d+)")
_WAVEFRONT_BYTES, _GROUP_WARPS, _FACTOR_REGISTERS = 128, 4, 4
_DEPTH_BYTES = 32  # of a row of a factor: 8 elements of tf32, 16 of fp16, 32 of fp8
_TYPES = {"HMMA": "f16", "IMMA": "s8", "DMMA": "f64", "HGMMA": "f16", "IGMMA": "s8", "QGMMA": "e4m3"}


def matrix_flops(x: Instruction) -> float | None:
    """Return the operations of one warp in a matrix instruction, from its shape; None where that is not known."""
    shape = next((_SHAPES[m] for m in x.modifiers if m in _SHAPES), None) or _group(x)
    return 2.0 * math.prod(shape) / (_GROUP_WARPS if x.opcode.endswith("GMMA") else 1) if shape else None


def tensor_flops_per_cycle(x: Instruction, machine: Machine) -> float | None:
    """Return what the tensor cores of an SM do per cycle in an instruction like this; None where it is not known."""
    kind = _type(x)
    if x.opcode.endswith("GMMA"):
        rates = [machine.tensor[name].peak_flops_per_cycle_per_sm for name in _products_like(x, machine)]
        return max((rate for rate in rates if rate), default=None)
    name = "f64_16816" if kind == "f64" and "16816" in x.modifiers else kind
    return machine.tensor[name].peak_flops_per_cycle_per_sm if name in machine.tensor else None


def behind_passes(x: Instruction, machine: Machine) -> float:
    """Return how long behind its last pass the product of a warp group ends, of the measured width next to its own."""
    columns = (_group(x) or (0, 0, 0))[1]
    names = sorted(_products_like(x, machine), key=lambda name: abs(int(name.rpartition("_")[2]) - columns))
    return (machine.tensor[names[0]].latency_cycles or 0.0) if names else 0.0


def _group(x: Instruction) -> tuple[int, int, int] | None:
    """Return the shape of a product of a warp group."""
    found = next((found for m in x.modifiers if (found := _GROUP.fullmatch(m))), None)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _type(x: Instruction) -> str:
    return next((m.lower() for m in x.modifiers if m in ("BF16", "TF32")), _TYPES.get(x.opcode, ""))


def _products_like(x: Instruction, machine: Machine) -> list[str]:
    """Return the machine's names of products of warp groups like this one."""
    names = [name for name in machine.tensor if name.startswith(f"group_{_type(x)}_")]
    return names or [name for name in machine.tensor if name.startswith("group_f16_")]


def moved_registers(x: Instruction) -> float:
    """Return the registers of a warp that its part of a group's product adds to, and those of its first factor."""
    shape = _group(x) if x.opcode.endswith("GMMA") else None
    if shape is None:
        return 0.0
    sums = shape[1] / (4 if "F16" in x.modifiers else 2)
    return sums + (_FACTOR_REGISTERS if _from_registers(x) else 0.0)


def operand_wavefronts(x: Instruction) -> float:
    """Return the wavefronts of shared memory in which a warp's part of a group's product reads its factors.

    The second factor is always there, the first one unless a register is named for it. ncu counts the same of the
    launches in data/h200/suite/triton.
    """
    shape = _group(x) if x.opcode.endswith("GMMA") else None
    if shape is None:
        return 0.0
    rows = shape[1] if _from_registers(x) else shape[0] + shape[1]
    return rows * _DEPTH_BYTES / _WAVEFRONT_BYTES / _GROUP_WARPS


def _from_registers(x: Instruction) -> bool:
    return len(x.operands) > 1 and x.operands[1].kind == "register"


GROUPS = 8  # groups that may be left: compilers keep fewer stages
_FIRST = {"copies": 9, "products": 10 + GROUPS}  # slots behind those of scoreboards and barriers
_LEFT = re.compile(r"(?:SB\d|gsb0), (0x[0-9a-f]+|\d+)")


class Asynchronous(Struct, frozen=True):
    """Slots that an instruction's result releases, that take over what the slot before them has, and that it awaits."""

    values: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()


_NONE = Asynchronous()


def asynchronous(x: Instruction, copies: bool) -> Asynchronous:
    """Return the slots of groups that an instruction touches; `copies`: its program has asynchronous ones."""
    if x.opcode == "LDGSTS":
        return Asynchronous(values=(_FIRST["copies"],))
    if x.opcode == "LDGDEPBAR":
        return Asynchronous(moved=_along("copies"))
    if x.opcode.endswith("GMMA"):
        return Asynchronous(values=(_FIRST["products"],), moved=_along("products") if "gsb0" in x.text else ())
    if x.opcode == "WARPGROUP" and "DEPBAR" in x.modifiers:
        return Asynchronous(waits=_await("products", x))
    if x.opcode == "DEPBAR" and copies:
        return Asynchronous(waits=_await("copies", x))
    return _NONE


def _along(what: str) -> tuple[int, ...]:
    first = _FIRST[what]
    return tuple(range(first + GROUPS, first, -1))


def _await(what: str, x: Instruction) -> tuple[int, ...]:
    found = _LEFT.search(x.text)
    left = int(found.group(1), 0) if found else 0
    return (_FIRST[what] + 1 + left,) if left < GROUPS else ()
