"""Blocks of a grid that represent all of it (corners, edges and the inside), and the estimate from their counts."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator.layout import EXECUTED


class Effort(Struct, frozen=True):
    """Limits of an emulation, in warp instructions, and the number of blocks that it samples.

    `whole`: a grid that runs whole; `resident`: the blocks of an SM together; `strata`: one block of each stratum;
    `more`: further random blocks where blocks differ (there an access counts for eight). `pairs`: pairs of sequences of
    random blocks; `few`: as many where blocks cost much (0: one block is sampled); `draws`: blocks of each sequence at
    first, to see if they differ. `row`: neighbours along each axis (eight words share a sector). `pages`: the pages of
    memory that a block touches count as instructions. `fewer_blocks`: emulate the SM with fewer blocks too. `threads`:
    one or two.
    """

    whole: float = 2_000_000
    resident: float = 6_000_000
    strata: float = 3_000_000
    more: float = 20_000_000
    pairs: int = 4
    few: int = 2
    draws: int = 31
    row: int = 8
    pages: bool = False
    fewer_blocks: bool = True
    threads: int = 2


FULL = Effort()
# For `analyze --fast`: docs/explain/how-a-prediction-is-made.md says what it costs in accuracy.
FAST = Effort(300_000, 1_000_000, 300_000, 2_000_000, few=0, draws=15, pages=True, fewer_blocks=False)
# For sweeps of many launches: docs/howto/sweep.md says what it costs in accuracy.
QUICK = Effort(250_000, 500_000, 150_000, 2_000_000, pairs=2, draws=3, row=2, fewer_blocks=False, threads=1)


_SURE = 0.02  # of the executions of an instruction that is known well, in nineteen of twenty cases:
_STUDENT = 3.18  # standard errors, as these are from four means
Shape = tuple[int, int, int]
Counts = npt.NDArray[np.float64]
# Steps of a sequence that fills a box evenly: powers of the root of x^4 = x + 1 (Roberts 2018).
_STEPS = 1.2207440846057596 ** -np.arange(1.0, 4.0)


def shifts(count: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the random shift of each of so many pairs of sequences: on each axis one in each of as many parts of it.

    Equal shifts would meet the same phase of what repeats every so many blocks, and not know their error.
    """
    return np.array([(random.permutation(count) + random.random(count)) / count for _ in range(3)]).T


class Stratum(Struct, frozen=True):
    """Blocks that are first, last or between on each axis of the grid. Low and high include both ends."""

    low: Shape
    high: Shape

    @property
    def size(self) -> int:
        """The number of blocks."""
        return math.prod(h - l + 1 for l, h in zip(self.low, self.high, strict=True))

    @property
    def edges(self) -> int:
        """The number of axes on which it is the first or the last."""
        return sum(l == h for l, h in zip(self.low, self.high, strict=True))

    def contains(self, index: Shape) -> bool:
        """Return whether a block is here."""
        return all(l <= i <= h for l, i, h in zip(self.low, index, self.high, strict=True))

    @property
    def middle(self) -> Shape:
        """The block in the middle."""
        x, y, z = ((l + h) // 2 for l, h in zip(self.low, self.high, strict=True))
        return x, y, z

    def corners(self) -> list[Shape]:
        """Return the blocks at its corners, each once."""
        x, y, z = (sorted({l, h}) for l, h in zip(self.low, self.high, strict=True))
        return [(i, j, k) for k, j, i in product(z, y, x)]

    def blocks(self) -> list[Shape]:
        """Return all of its blocks."""
        z, y, x = (range(l, h + 1) for l, h in zip(reversed(self.low), reversed(self.high), strict=True))
        return [(i, j, k) for k, j, i in product(z, y, x)]

    def spread(self, k: int, shift: npt.NDArray[np.float64], mirrored: bool = False) -> Shape:
        """Return the k-th of a sequence of blocks that fill the stratum evenly, shifted around, or mirrored too."""
        at = (shift + k * _STEPS) % 1
        if mirrored:
            at = np.nextafter(1.0, 0.0) - at
        x, y, z = (l + int(u * (h - l + 1)) for l, h, u in zip(self.low, self.high, at, strict=True))
        return x, y, z


def strata(shape: Shape) -> list[Stratum]:
    """Return the parts of a grid, the largest first."""
    axes = []
    for extent in shape:
        parts = [(0, 0)] if extent == 1 else [(0, 0), (extent - 1, extent - 1)]
        axes.append([*parts, (1, extent - 2)] if extent > 2 else parts)
    found = [Stratum((x[0], y[0], z[0]), (x[1], y[1], z[1])) for x, y, z in product(*axes)]
    return sorted(found, key=lambda s: -s.size)


def whole_grid(shape: Shape) -> Stratum:
    """Return a grid as one part."""
    return Stratum((0, 0, 0), (shape[0] - 1, shape[1] - 1, shape[2] - 1))


def number(index: Shape, shape: Shape) -> int:
    """Return the number of a block in the grid."""
    return index[0] + shape[0] * (index[1] + shape[1] * index[2])


def index_of(block: int, shape: Shape) -> Shape:
    """Return the index of a block along x, y and z."""
    return block % shape[0], block // shape[0] % shape[1], block // (shape[0] * shape[1])


def beside(block: int, shape: Shape, in_flight: int) -> list[range]:
    """Return the indices along each axis of a block and of those beside it that are in flight with it."""
    found, distance = [], 1
    for at, extent in zip(index_of(block, shape), shape, strict=True):
        found.append(range(max(0, at - 1), min(extent, at + 2)) if distance < in_flight else range(at, at + 1))
        distance *= extent
    return found


class Sample(Struct):
    """Counts of the blocks of one stratum that ran: blocks chosen for their index, and random blocks.

    Random blocks come in several pairs of sequences, each of which fills the stratum evenly, one as the other's mirror:
    the means of pairs differ by their error, which is smaller than that of independent blocks where neighbours agree.
    """

    stratum: Stratum
    chosen: dict[int, Counts] = {}
    random: set[int] = set()
    draws: int = 0  # of each pair
    sums: Counts = np.zeros(0)  # of each pair
    whole: Counts | None = None  # of all blocks, where all of them ran

    @property
    def blocks(self) -> int:
        """Blocks seen."""
        return self.stratum.size if self.whole is not None else len(self.chosen.keys() | self.random)

    def add(self, sums: Counts, blocks: set[int], draws: int) -> None:
        """Add so many draws of each pair of sequences: the sums over them, and which blocks they were."""
        self.sums = self.sums + sums if self.draws else sums
        self.random |= blocks
        self.draws += draws

    def mean(self) -> Counts:
        """Return the mean counts of a block: of the random ones, if there are any."""
        if self.whole is not None:
            return self.whole / self.stratum.size
        mean: Counts = (
            self.sums.mean(axis=0) / self.draws if self.draws else sum(self.chosen.values()) / len(self.chosen)
        )
        return mean

    def variance(self) -> Counts | None:
        """Return the variance of the mean executions; None where too few blocks ran."""
        if self.whole is not None or self.stratum.size == len(self.chosen):
            return np.zeros(len(self.mean()))
        if self.draws:
            rows: Counts = self.sums[:, :, EXECUTED] / self.draws
        else:
            rows = np.array([counts[:, EXECUTED] for counts in self.chosen.values()])
        variance: Counts | None = rows.var(axis=0, ddof=1) / len(rows) if len(rows) > 1 else None
        return variance


def estimate(samples: list[Sample]) -> tuple[Counts, Counts]:
    """Return the counts of the whole grid, and the standard error of the executions.

    A stratum of which no block or one block ran is like those with as many edges.
    """
    total, variance = np.zeros(1), np.zeros(1)
    known = [(s.mean(), s.variance()) if s.blocks else None for s in samples]  # each is asked for by others too
    for sample, own in zip(samples, known, strict=True):
        similar = [k for s, k in zip(samples, known, strict=True) if k and s.stratum.edges == sample.stratum.edges]
        similar = similar or [k for k in known if k]
        mean = own[0] if own else sum((m for m, _ in similar), np.zeros(1)) / len(similar)
        total = total + sample.stratum.size * mean
        spread = next((v for k in [own, *similar] if k and (v := k[1]) is not None), None)
        if spread is not None:
            variance = variance + sample.stratum.size**2 * spread
    return total, np.sqrt(variance)


def spread_far(total: Counts, error: Counts) -> list[int]:
    """Return the instructions whose executions may be more than 2 % off, by their errors from the samples."""
    found: list[int] = np.flatnonzero(_STUDENT * error > _SURE * total[:, EXECUTED]).tolist()
    return found
