"""What follows from the width of an access, where nothing counts what it touches: listings, counts, code without a run.

A thread's 64 or 128 bits in shared memory take two or four turns of the banks (operations.lds_64 and lds_128 of the
H200: half and a quarter of the rate of 32 bits), and in L1 as many lines.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from warplens.kernel.instruction import Instruction
from warplens.kernel.workload import Access, Number
from warplens.machine import Machine

_WIDTH = re.compile(r"[USF]?(8|16|32|64|128)")
_LINE_BYTES = 128
_WARP = 32
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


def access_of(kind: str, width: int) -> Access | None:
    """Return one access of a class, so many bytes of each thread; None: the class is of no access.

    It is coalesced, without conflicts and misses in the caches, unless the class says otherwise.
    """
    if kind in ("shared", "shared_2way"):
        return Access(1.0, "shared", bytes_per_thread=width, conflict_degree=2 if kind == "shared_2way" else 1)
    if kind == "load_random":
        return Access(1.0, bytes_per_thread=width, transactions=32, coalesced=False)
    if kind in ("load", "store"):
        lines, each = max(1, width * _WARP // _LINE_BYTES), min(_LINE_BYTES, width * _WARP)
        made = Access(1.0, bytes_per_thread=width, transactions=lines, transaction_bytes=each)
        return replace(made, kind=kind)
    return None


def wavefronts(access: Access, machine: Machine) -> Number:
    """Return the turns of shared memory that an access takes: those of its width, times its conflicts."""
    import numpy as np  # who only loads a kernel has no need of it

    bank = machine.shared_memory.bank_bytes if machine.shared_memory else 4.0
    return access.conflict_degree * np.maximum(1.0, access.bytes_per_thread / bank)


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
