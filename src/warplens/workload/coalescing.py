"""How many transactions one warp's access makes.

Hong & Kim's Algorithm 1 (compute capability below 1.3) and 2 (1.3 and up) work on the index expression: its
increment from thread to thread and its value at the first thread of each half-warp. Later GPUs work on the
addresses themselves: sectors of 32 bytes in lines of 128.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

HALF_WARP = 16


def coalesced_before_1_3(element_bytes: int, increment: int, half_warp_starts: Iterable[int]) -> bool:
    """Algorithm 1: whether an access coalesces on compute capability 1.0 to 1.2.

    All three steps must hold: an element of 4, 8 or 16 bytes, index increment 1 between threads, and every
    half-warp starting at an index divisible by 16.
    """
    return element_bytes in (4, 8, 16) and increment == 1 and all(i % HALF_WARP == 0 for i in half_warp_starts)


def transactions_1_3(element_bytes: int, increment: int, half_warp_starts: Iterable[int]) -> tuple[int, int]:
    """Algorithm 2: (bytes per transaction, transactions) of an access on compute capability 1.3.

    The size is 32 bytes for 1-byte elements, 64 for 2-byte ones and 128 otherwise; a half-warp covers
    increment x 16 x element bytes, and one more transaction is needed where it does not start aligned.
    """
    size = {1: 32, 2: 64}.get(element_bytes, 128)
    unaligned = any(start % HALF_WARP for start in half_warp_starts)
    return size, int(unaligned) + math.ceil(abs(increment) * HALF_WARP * element_bytes / size)


def sectors_and_lines(addresses: Sequence[int], element_bytes: int) -> tuple[int, int]:
    """Distinct 32-byte sectors and 128-byte lines that a warp's access touches on later GPUs."""
    last = element_bytes - 1
    sectors = {s for a in addresses for s in range(a // 32, (a + last) // 32 + 1)}
    return len(sectors), len({s // 4 for s in sectors})


def transactions(capability: float, addresses: Sequence[int | None], size: int) -> tuple[int, int]:
    """Return (transactions, bytes moved) of one warp's access by the rules of a compute capability.

    `addresses` has a place per lane, None where a lane is idle. Below 1.2 (G80) a half-warp whose threads ask for
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
    halves = [addresses[:HALF_WARP], addresses[HALF_WARP:]]
    made = [(_half_before_1_2 if capability < 1.2 else _half_1_2)(half, size) for half in halves]
    return sum(count for count, _ in made), sum(moved for _, moved in made)


def _half_before_1_2(half: Sequence[int | None], size: int) -> tuple[int, int]:
    asked = [(lane, a) for lane, a in enumerate(half) if a is not None]
    if not asked:
        return 0, 0
    start = asked[0][1] - asked[0][0] * size
    whole = HALF_WARP * size
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
    for at, places in segments.items():
        low, high = at * longest, (at + 1) * longest
        while high - low > 32:
            middle = (low + high) // 2
            if all(a + size <= middle for a in places):
                high = middle
            elif all(a >= middle for a in places):
                low = middle
            else:
                break
        moved += high - low
    return len(segments), moved
