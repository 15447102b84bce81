"""Coalescing by index expressions: Hong & Kim's Algorithm 1 (compute capability below 1.3) and 2 (1.3).

They take the increment of the index from thread to thread, and its value at the first thread of each half-warp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

HALF_WARP = 16


def coalesced_before_1_3(element_bytes: int, increment: int, half_warp_starts: Iterable[int]) -> bool:
    """Return whether an access coalesces on compute capability 1.0 to 1.2 (Algorithm 1).

    All three steps must hold: an element of 4, 8 or 16 bytes, index increment 1 between threads, and every
    half-warp starting at an index divisible by 16.
    """
    return element_bytes in (4, 8, 16) and increment == 1 and all(i % HALF_WARP == 0 for i in half_warp_starts)


def transactions_1_3(element_bytes: int, increment: int, half_warp_starts: Iterable[int]) -> tuple[int, int]:
    """Return (bytes per transaction, transactions) of an access on compute capability 1.3 (Algorithm 2).

    The size is 32 bytes for 1-byte elements, 64 for 2-byte ones and 128 otherwise; a half-warp covers
    increment x 16 x element bytes, and one more transaction is needed where it does not start aligned.
    """
    size = {1: 32, 2: 64}.get(element_bytes, 128)
    unaligned = any(start % HALF_WARP for start in half_warp_starts)
    return size, int(unaligned) + math.ceil(abs(increment) * HALF_WARP * element_bytes / size)
