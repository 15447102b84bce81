"""Profile of a kernel call: counts per instruction, by the emulator or by a profiler.

Counts are of the whole grid (estimated where only a part of it was emulated, with the error of doing so). A path is
the sequence of instructions of one warp: straight runs, and how often a sequence of runs came in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

# Per instruction: executions by a warp; threads that took part; accesses to memory; bytes that the threads asked for;
# 32-byte sectors and 128-byte lines touched; wavefronts: cycles of the data path of shared memory and L1; the longest
# queues of threads at one address (atomics); sectors found in L1; sectors asked of L2, found there; replays: wavefronts
# that are done once more for what misses in L1, because other threads of the access hit; accesses of which some passes
# L1. For a machine before compute capability 3 also `transactions` and `moved_bytes` by its own rules.
COLUMNS = (
    "executed", "threads", "requests", "useful_bytes", "sectors", "lines", "wavefronts", "queue",
    "l1_hit_sectors", "l2_sectors", "l2_hit_sectors", "replays", "passed",
)  # fmt: skip

CACHED = ("l1_hit_sectors", "l2_sectors", "l2_hit_sectors", "replays", "passed")  # what else is on the SM changes them
# From here on fewer blocks on an SM are looked at: what L1 lost of what loads ask of L2; what blocks read, over L1. Of
# 1.3 times L1 an H200 keeps most, as its warps do not go in turn; of 1.8 times little (fewer_blocks.json).
LEAST_LOST, _LEAST_TIMES_L1 = 0.1, 1.7

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[float, Meta(ge=0)]
Error = Annotated[float, Meta(ge=0, le=100)]  # relative
Many = Annotated[int, Meta(ge=1, le=1 << 53)]  # more is no whole number any more as a float


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a profile: an unknown key is refused, defaults are not written."""


class Segment(_Part, frozen=True, array_like=True):
    """A sequence of straight runs (first instruction, one behind the last), `times` in a row."""

    runs: list[tuple[int, int]]
    times: Annotated[int, Meta(ge=0, le=1 << 53)]

    @property
    def instructions(self) -> int:
        """Instructions of the whole segment."""
        return self.times * sum(stop - first for first, stop in self.runs)


class Path(_Part, frozen=True):
    """The path of a warp, and how many of the emulated warps took it."""

    segments: list[Segment]
    warps: int = 1

    @property
    def instructions(self) -> int:
        """Instructions from start to end."""
        return sum(segment.instructions for segment in self.segments)

    def walk(self) -> Iterator[int]:
        """Yield the numbers of the instructions in order."""
        for segment in self.segments:
            for _ in range(segment.times):
                for first, stop in segment.runs:
                    yield from range(first, stop)


class Traffic(_Part, frozen=True, kw_only=True):
    """The traffic of the whole grid beyond the SMs, in bytes, by array: `name` as in the launch file.

    `dram_filled_bytes`: read because sectors leave L2 half written; not among `dram_read_bytes`, as it is part of what
    such a store costs.
    `read_alone`, `written_alone`: of the halves of lines that a block touches, the share without the other half.
    `read_together`: of the sectors that a block reads, the share that the next block in x reads too.
    `split_blocks`, `split_warps`: sectors of which different blocks, or different warps of a block, store a part each.
    `stored_in_flight_bytes`: what the blocks that run at once store.
    `atomic_passes`: passes of L2 for atomics: one per sector, and one for each further thread at the same word.
    """

    name: str
    read_footprint_bytes: float = 0
    written_footprint_bytes: float = 0
    l2_read_bytes: float = 0
    l2_written_bytes: float = 0
    l2_missed_bytes: float = 0
    dram_read_bytes: float = 0
    dram_written_bytes: float = 0
    dram_filled_bytes: float = 0
    read_alone: Share = 0
    written_alone: Share = 0
    read_together: Share = 0
    split_blocks: float = 0
    split_warps: float = 0
    stored_in_flight_bytes: float = 0
    atomic_passes: float = 0


class Fewer(_Part, frozen=True, kw_only=True):
    """The same call with no more than so many blocks on an SM at a time, and the L1 that these leave.

    `counts` has the columns of the caches (`CACHED`), for the instructions of `accesses` only.
    """

    blocks_per_sm: int
    l1_bytes: float
    accesses: list[int]
    counts: dict[str, list[float]]
    traffic: list[Traffic]


class L1Contention(_Part, frozen=True, kw_only=True):
    """Contention of the blocks on one SM for L1.

    `lost_share`: of the sectors that loads through L1 ask of L2, those that L1 had before and lost. `times_l1`: what
    the blocks on an SM read together, over the size of L1. `l2_sectors`: all that the call asks of L2, by which a
    profile is known that something has changed. `fewer`: with fewer blocks on an SM, halved until L1 loses little; none
    where contention is low, or where a block costs too much to run again.
    """

    lost_share: Share
    times_l1: float
    l2_sectors: float
    fewer: list[Fewer] = []

    @property
    def is_high(self) -> bool:
        """True if L1 loses so much that fewer blocks might be faster."""
        return self.lost_share >= LEAST_LOST and self.times_l1 >= _LEAST_TIMES_L1

    def fits(self, profile: Profile) -> bool:
        """Return whether the accesses of a profile are still those that this was counted of."""
        return abs(profile.total("l2_sectors") - self.l2_sectors) <= 1e-6 * self.l2_sectors


class Assumed(_Part, frozen=True):
    """Values on which a kernel's control flow depends and that the launch does not give: instructions and variable."""

    kind: Literal["contents", "shared", "constant", "variable"]
    instructions: list[int]
    name: str = ""


class Unmodelled(_Part, frozen=True):
    """A thing that is not modelled: where it is in the code, and the sentence on it.

    `factor`: the interval is widened so many times on each side. None: there is no interval.
    """

    thing: str
    says: str
    where: str = ""
    factor: float | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.where}: {self.thing}: {self.says}" if self.where else f"{self.thing}: {self.says}"


class Profile(_Part, frozen=True, kw_only=True):
    """The counts and paths of a kernel call.

    `counts` has a list per column, with a number per instruction, for the whole grid. `blocks` has, for each
    emulated block whose paths were kept, the path of each of its warps: those of an SM in the middle of the grid, or of
    the SM with the most work (`heaviest`) where all blocks run at once and differ. `sampled` has the number and the
    instructions of every block that was emulated, where they differ. `error` is the relative standard error of the
    instructions executed, from the spread between the sampled blocks and from ways that none of them took, though
    others may; `largest_error` that of the worst instruction that matters (a tenth of the commonest one's executions or
    more), from the spread alone. `unsure` has the instructions whose executions may be off by more than 2 %: with the
    spread of the samples, or as no sampled block came to them and others may.
    """

    grid_blocks: Many
    warps_per_block: Many
    emulated_blocks: int
    exact: bool
    error: Error = 0
    largest_error: float = 0
    unsure: list[int] = []
    known_instructions: Share = 1
    known_addresses: Share = 1
    counts: dict[str, list[Count]]
    paths: list[Path] = []
    blocks: list[list[int]] = []
    block_instructions: list[float] = []
    sampled: list[tuple[int, float]] = []
    heaviest: bool = False
    traffic: list[Traffic] = []
    l2: str = "warm"
    l1_bytes: float = 0
    notes: list[str] = []
    assumed: list[Assumed] = []
    l1_contention: L1Contention | None = None  # None: not looked at

    def total(self, column: str) -> float:
        """Sum a column over all instructions."""
        return sum(self.counts[column])

    @property
    def dram_read_bytes(self) -> float:
        """Bytes that the grid reads from DRAM."""
        return sum(t.dram_read_bytes for t in self.traffic)

    @property
    def dram_written_bytes(self) -> float:
        """Bytes that the grid writes to DRAM."""
        return sum(t.dram_written_bytes for t in self.traffic)

    @property
    def dram_filled_bytes(self) -> float:
        """Bytes that are read from DRAM because sectors leave L2 half written."""
        return sum(t.dram_filled_bytes for t in self.traffic)

    @property
    def l1_hit_share(self) -> float:
        """Share of sectors of global and local accesses found in L1."""
        sectors = self.total("sectors")
        return self.total("l1_hit_sectors") / sectors if sectors else 0.0

    @property
    def l2_hit_share(self) -> float:
        """Share of sectors asked of L2 and found there."""
        sectors = self.total("l2_sectors")
        return self.total("l2_hit_sectors") / sectors if sectors else 0.0
