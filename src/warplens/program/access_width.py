"""The width of an access by its instruction, and what a wide load from shared memory takes longer.

A thread's 64 or 128 bits in shared memory take two or four turns of the banks (operations.lds_64 and lds_128 of the
H200: half and a quarter of the rate of 32 bits), and in L1 as many lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from warplens.machine import Machine
from warplens.program.instruction import Instruction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Number = float | npt.NDArray[np.float64]

_WIDTH = re.compile(r"[USF]?(8|16|32|64|128)")
# Chains of loads from shared memory by bytes per thread, and the cycles in them of the LOP3s that make an address of
# what was loaded: the compiler's stall counts, five and six in turn for one of them, four and five for two.
_CHAINS = {8: ("lds_64", 5.5), 16: ("lds_128", 9.0)}
WIDE_LOADS = tuple(name for name, _ in _CHAINS.values())


def access_bytes(x: Instruction) -> int:
    """Return what a thread moves with a memory instruction, by the width in its name; 4 bytes if it names none."""
    widths = [int(found.group(1)) for m in x.modifiers if (found := _WIDTH.fullmatch(m))]
    if x.opcode in ("LDSM", "STSM"):  # .M88.4: so many 8x8 matrices of 16-bit elements, a register of each
        count = next((int(m) for m in x.modifiers if m in ("2", "4")), 1)
        return 4 * count
    return max(widths) // 8 if widths else 4


def wide_cycles(width: Number, machine: Machine) -> Number:
    """Return by how much later what was loaded from shared memory is there than 32 bits of a thread would be."""
    if isinstance(width, (int, float)):
        return _later(int(width), machine)
    import numpy as np

    found: Number = np.vectorize(lambda w: _later(int(w), machine), otypes=[float])(width)
    return found


def _later(width: int, machine: Machine) -> float:
    name, besides = _CHAINS.get(width, ("", 0.0))
    known, plain = machine.operations.get(name), machine.timing("shared").latency_cycles
    if known is None or known.latency_cycles is None or plain is None:
        return 0.0
    return float(round(known.latency_cycles - besides - plain))
