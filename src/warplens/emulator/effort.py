"""How much of a grid is emulated."""

from __future__ import annotations

from msgspec import Struct


class Effort(Struct, frozen=True):
    """How much to emulate at most, in warp instructions: a grid that is run whole, the blocks of an SM, one block of
    each place, more of them where blocks differ (there an access counts for eight); how many pairs of sequences of
    blocks are drawn by chance, and where blocks cost much (`few`; 0: one block is), how many blocks of each at first,
    to see whether they differ; how many neighbours in a row are looked at (eight words share a sector); whether the
    pages of memory that a block makes count; whether fewer blocks on an SM are looked at; and by how many threads, one
    or two."""

    whole: float = 2_000_000
    resident: float = 6_000_000
    places: float = 3_000_000
    more: float = 20_000_000
    pairs: int = 4
    few: int = 2
    draws: int = 31
    row: int = 8
    pages: bool = False
    crowding: bool = True
    threads: int = 2


FULL = Effort()
# For `analyze --fast`: docs/explain/how-a-prediction-is-made.md says what it costs in accuracy.
BRISK = Effort(300_000, 1_000_000, 300_000, 2_000_000, few=0, draws=15, pages=True, crowding=False)
# For sweeps of many launches: docs/howto/sweep.md says what it costs in accuracy.
QUICK = Effort(250_000, 500_000, 150_000, 2_000_000, pairs=2, draws=3, row=2, crowding=False, threads=1)
