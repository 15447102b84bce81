"""Matrix instructions: how many operations one is, and how many the tensor cores do in a cycle."""

from __future__ import annotations

import re

from warplens.kernel.instruction import Instruction
from warplens.machine import Machine

_SHAPES = {"1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "16864": (16, 8, 64), "8816": (8, 8, 16),
           "884": (8, 8, 4), "8832": (8, 8, 32)}  # fmt: skip
_GROUP = re.compile(r"(\d+)x(\d+)x(\d+)")
_TYPES = {"HMMA": "f16", "IMMA": "s8", "DMMA": "f64", "HGMMA": "f16", "IGMMA": "s8", "QGMMA": "e4m3"}


def matrix_flops(x: Instruction) -> float | None:
    """Return the operations of one warp in a matrix instruction, from its shape; None where that is not known."""
    for modifier in x.modifiers:
        if modifier in _SHAPES:
            m, n, k = _SHAPES[modifier]
            return 2.0 * m * n * k
        if found := _GROUP.fullmatch(modifier):  # of a group of four warps
            m, n, k = (int(part) for part in found.groups())
            return 2.0 * m * n * k / 4
    return None


def tensor_flops_per_cycle(x: Instruction, machine: Machine) -> float | None:
    """Return what the tensor cores of an SM do per cycle in an instruction like this; None where it is not known."""
    kind = next((m.lower() for m in x.modifiers if m in ("BF16", "TF32")), _TYPES.get(x.opcode, ""))
    if x.opcode.endswith("GMMA"):
        alike = [name for name in machine.tensor if name.startswith(f"group_{kind}_")]
        alike = alike or [name for name in machine.tensor if name.startswith("group_f16_")]
        rates = [machine.tensor[name].peak_flops_per_cycle_per_sm for name in alike]
        return max((rate for rate in rates if rate), default=None)
    name = "f64_16816" if kind == "f64" and "16816" in x.modifiers else kind
    return machine.tensor[name].peak_flops_per_cycle_per_sm if name in machine.tensor else None
