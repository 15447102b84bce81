"""Memory accesses of a warp: their default shape by width, wavefronts, added latency, and coalescing on older GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from warplens.machine import Machine
from warplens.workload.workload import Access, Number

_LINE_BYTES = 128
_WARP, _HALF_WARP = 32, 16


def access_of(kind: str, width: int) -> Access | None:
    """Return one access of a class, of so many bytes per thread, where nothing counts its addresses.

    It is coalesced, without conflicts and misses in the caches, unless the class says otherwise. A class without
    memory accesses has none.
    """
    if kind in ("shared", "shared_2way"):
        return Access(1.0, "shared", bytes_per_thread=width, conflict_degree=2 if kind == "shared_2way" else 1)
    if kind == "load_random":
        return Access(1.0, bytes_per_thread=width, transactions=32, coalesced=False)
    if kind in ("load", "store"):
        lines, each = max(1, width * _WARP // _LINE_BYTES), min(_LINE_BYTES, width * _WARP)
        return replace(Access(1.0, bytes_per_thread=width, transactions=lines, transaction_bytes=each), kind=kind)
    return None


def wavefronts(access: Access, machine: Machine) -> Number:
    """Return the wavefronts of an access to shared memory: those of its width, times its bank conflicts."""
    import numpy as np  # who only loads a kernel has no need of it

    bank = machine.shared_memory.bank_bytes if machine.shared_memory else 4.0
    return access.conflict_degree * np.maximum(1.0, access.bytes_per_thread / bank)


def extra_latency(access: Access, machine: Machine) -> Number:
    """Return the cycles that conflicts, width or further transactions add to a latency (Volkov 2016 §6.2, §6.7)."""
    import numpy as np

    from warplens.program.lone_warp import wide_cycles

    if access.space == "shared":
        plain, conflict = machine.timing("shared"), machine.timing("shared_2way")
        wide = wide_cycles(access.bytes_per_thread, machine) if access.kind == "load" else 0.0
        if plain.latency_cycles is None or conflict.latency_cycles is None:
            return wide
        return (access.conflict_degree - 1) * (conflict.latency_cycles - plain.latency_cycles) + wide
    memory = machine.memory
    if memory.extra_transaction_cycles is None or access.kind != "load" or access.coalesced:
        return 0.0  # measured on diverging accesses; a wide coalesced one is no such
    base = memory.coalesced_transactions or 1.0
    transactions = np.minimum(machine.sm.warp_size, access.transactions * base)
    return np.maximum(0.0, transactions - base) * memory.extra_transaction_cycles


def sectors_and_lines(addresses: Sequence[int], element_bytes: int) -> tuple[int, int]:
    """Return how many 32-byte sectors and 128-byte lines an access of a warp touches."""
    last = element_bytes - 1
    sectors = {s for a in addresses for s in range(a // 32, (a + last) // 32 + 1)}
    return len(sectors), len({s // 4 for s in sectors})


def transactions(capability: float, addresses: Sequence[int | None], size: int) -> tuple[int, int]:
    """Return (transactions, bytes moved) of one warp's access by the rules of a compute capability.

    `addresses` has an entry per lane, None where a lane is idle. Below 1.2 (G80) a half-warp whose threads ask for
    neighbouring words in order, from an aligned start, takes one transaction (two of 16-byte words), any other one
    of 32 bytes per thread. 1.2 and 1.3 (GT200): as many segments of 128 bytes (64, 32 for small words) as a half-warp
    touches, each made half as long while one half of it is not asked for. 2.x (Fermi): lines of 128 bytes. Later:
    sectors of 32. (CUDA C Programming Guide 4.2, appendix F)
    """
    if capability >= 3:
        sectors, _ = sectors_and_lines([a for a in addresses if a is not None], size)
        return sectors, 32 * sectors
    if capability >= 2:
        _, lines = sectors_and_lines([a for a in addresses if a is not None], size)
        return lines, 128 * lines
    halves = [addresses[:_HALF_WARP], addresses[_HALF_WARP:]]
    each = [(_half_before_1_2 if capability < 1.2 else _half_1_2)(half, size) for half in halves]
    return sum(count for count, _ in each), sum(moved for _, moved in each)


def _half_before_1_2(half: Sequence[int | None], size: int) -> tuple[int, int]:
    asked = [(lane, a) for lane, a in enumerate(half) if a is not None]
    if not asked:
        return 0, 0
    start = asked[0][1] - asked[0][0] * size
    whole = _HALF_WARP * size
    if size in (4, 8, 16) and start % whole == 0 and all(a == start + lane * size for lane, a in asked):
        return max(1, whole // 128), whole
    return len(asked), 32 * len(asked)


def _half_1_2(half: Sequence[int | None], size: int) -> tuple[int, int]:
    longest = {1: 32, 2: 64}.get(size, 128)
    segments: dict[int, list[int]] = {}
    for a in half:
        if a is not None:
            for at in {a // longest, (a + size - 1) // longest}:
                segments.setdefault(at, []).append(a)
    moved = 0
    for at, asked in segments.items():
        low, high = at * longest, (at + 1) * longest
        while high - low > 32:
            middle = (low + high) // 2
            if all(a + size <= middle for a in asked):
                high = middle
            elif all(a >= middle for a in asked):
                low = middle
            else:
                break
        moved += high - low
    return len(segments), moved
