"""Accesses of listings and counts, where nothing counts what they touch: what follows from their width alone."""

from __future__ import annotations

from msgspec.structs import replace

from warplens.machine import Machine
from warplens.workload.workload import Access, Number

_LINE_BYTES = 128
_WARP = 32


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
