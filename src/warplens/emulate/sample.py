"""Which blocks of a grid stand for all of it: corners, edges and the inside; and what they say about the whole."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Shape = tuple[int, int, int]
Counts = npt.NDArray[np.float64]


class Stratum(Struct, frozen=True):
    """Blocks that lie alike: the first, the last or an inner place on each axis. Low and high include both ends."""

    low: Shape
    high: Shape

    @property
    def size(self) -> int:
        """How many blocks."""
        return math.prod(h - l + 1 for l, h in zip(self.low, self.high, strict=True))

    @property
    def edges(self) -> int:
        """On how many axes it is the first or the last place."""
        return sum(l == h for l, h in zip(self.low, self.high, strict=True))

    def holds(self, place: Shape) -> bool:
        """Whether a block lies here."""
        return all(l <= p <= h for l, p, h in zip(self.low, place, self.high, strict=True))

    @property
    def middle(self) -> Shape:
        """The block in the middle."""
        x, y, z = ((l + h) // 2 for l, h in zip(self.low, self.high, strict=True))
        return x, y, z

    def any(self, random: np.random.Generator) -> Shape:
        """Return a block by chance."""
        x, y, z = (int(random.integers(l, h + 1)) for l, h in zip(self.low, self.high, strict=True))
        return x, y, z


def strata(shape: Shape) -> list[Stratum]:
    """Return the parts of a grid, the largest first."""
    axes = []
    for extent in shape:
        parts = [(0, 0)] if extent == 1 else [(0, 0), (extent - 1, extent - 1)]
        axes.append([*parts, (1, extent - 2)] if extent > 2 else parts)
    made = [Stratum((x[0], y[0], z[0]), (x[1], y[1], z[1])) for x, y, z in product(*axes)]
    return sorted(made, key=lambda s: -s.size)


def number(place: Shape, shape: Shape) -> int:
    """Return the number of a block in the grid."""
    return place[0] + shape[0] * (place[1] + shape[1] * place[2])


def place(block: int, shape: Shape) -> Shape:
    """Return where a block lies."""
    return block % shape[0], block // shape[0] % shape[1], block // (shape[0] * shape[1])


class Sample(Struct):
    """What was seen of one stratum: counts of single blocks, and the sum over some that ran together."""

    stratum: Stratum
    singles: dict[int, Counts] = {}
    together: Counts | None = None
    together_blocks: list[int] = []

    @property
    def blocks(self) -> int:
        """Blocks seen."""
        return len(self.singles.keys() | self.together_blocks)

    def mean(self) -> Counts:
        """Mean counts of a block."""
        total = np.zeros(1) if self.together is None else self.together
        for block, counts in self.singles.items():
            if block not in self.together_blocks:
                total = total + counts
        made: Counts = total / self.blocks
        return made

    def variance(self) -> Counts | None:
        """Variance between single blocks; None where too few were seen."""
        rows = np.array(list(self.singles.values()))
        return rows.var(axis=0, ddof=1) if len(rows) > 1 else None

    def need(self) -> float:
        """How much another block here would tell: nothing where all were seen or none differ."""
        unseen = self.stratum.size - self.blocks
        variance = self.variance()
        if unseen <= 0:
            return 0.0
        if variance is None:
            return float(self.stratum.size)
        spread = float(np.sqrt(variance[:, 0].sum()) / max(1.0, self.mean()[:, 0].sum()))
        return self.stratum.size * spread / len(self.singles)


def estimate(samples: list[Sample]) -> tuple[Counts, Counts]:
    """Return the counts of the whole grid and their standard error.

    A stratum that was not seen, or of which one block was, is like those with as many edges.
    """
    total, variance = np.zeros(1), np.zeros(1)
    for sample in samples:
        alike = [s for s in samples if s.stratum.edges == sample.stratum.edges and s.blocks]
        alike = alike or [s for s in samples if s.blocks]
        own = sample.mean() if sample.blocks else sum((s.mean() for s in alike), np.zeros(1)) / len(alike)
        total = total + sample.stratum.size * own
        unseen = 1 - min(1.0, sample.blocks / sample.stratum.size)
        spreads = [v for s in [sample, *alike] if (v := s.variance()) is not None]
        if unseen and spreads:
            variance = variance + sample.stratum.size**2 * spreads[0] / max(1, len(sample.singles)) * unseen
    return total, np.sqrt(variance)
