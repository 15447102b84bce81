"""Choice of candidates to time on hardware, one by one, each with the greatest expected gain.

The model's error, log(measured / predicted), is assumed to be normal. One part is common to all candidates of a kernel,
one to those with the same limit, and one to neighbours, less so over a distance. Estimates add an error of their own,
whose size the search has found. A timed candidate gives the error there, so that the predictions of all others
move with it and become surer nearby. Timed next is the candidate whose expected gain over the fastest so far is the
greatest: one that is predicted to be fast, or one that is uncertain (expected improvement: Jones, Schonlau and Welch
1998).

No size of an error comes from a tuning space: they are those of our model on the train set of kernels, where the means
of functions differ by `COMMON`, launches of one function by `LIMIT` more where another part of the machine limits
them, and by `OWN` where it is the same one. The part of neighbours falls to 1/e over the length of an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.tuner.expression import Value

# Standard deviations of log(predicted / measured) over the train set (models/warplens/confidence.json): of the means of
# its functions; of two launches of a function, over the root of two, with the same limit; what another limit adds.
COMMON, OWN, LIMIT = 0.099, 0.073, 0.054
_NOISE = 0.005  # of a measured median: the difference of two runs (data/h200/suite/tuning/README.md)
_LEAST_VARIANCE = 1e-12  # where every estimate was right, all others are zero
_FAILED = 3.0  # standard deviations: an error beyond is a failed prediction, and tells little about its neighbours

Floats = npt.NDArray[np.float64]


class Candidate(Struct, frozen=True):
    """A legal configuration: predicted where it was emulated, estimated else."""

    number: int
    values: dict[str, Value]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seconds: float
    emulated: bool
    bound: str = ""
    position: tuple[float, ...] = ()  # from 0 to 1 on each axis
    doubt: float = 0.0  # standard deviation of the logarithm of an estimate over the prediction


def choose(
    candidates: Sequence[Candidate], count: int, measure: Callable[[Candidate], float]
) -> list[tuple[Candidate, float]]:
    """Measure so many candidates, the first one first; return them in this order with their seconds."""
    errors = _Errors(candidates)
    chosen, found = list[int](), list[float]()
    while len(chosen) < min(count, len(candidates)):
        gains = errors.gains(chosen, np.log(found)) if chosen else -np.arange(len(candidates), dtype=float)
        gains[chosen] = -math.inf
        chosen.append(int(gains.argmax()))
        found.append(measure(candidates[chosen[-1]]))
    return [(candidates[at], seconds) for at, seconds in zip(chosen, found, strict=True)]


class _Errors:
    """Correlated errors of candidates, and the expected gains when some are known."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.expected: Floats = np.log([c.seconds for c in candidates])
        self.doubts = np.array([c.doubt for c in candidates])
        self.limits = np.array([c.bound for c in candidates])
        self.positions = positions(c.position for c in candidates)
        self.variance = COMMON**2 + LIMIT**2 + OWN**2 + self.doubts**2

    def gains(self, chosen: list[int], found: Floats) -> Floats:
        """Return the expected gain of each candidate over the fastest, from the log times of those chosen."""
        same = self.limits[chosen][:, None] == self.limits
        sizes = OWN**2 + self.doubts[chosen][:, None] * self.doubts
        between = COMMON**2 + LIMIT**2 * same + sizes * nearness(self.positions, chosen)
        off = found - self.expected[chosen]
        noise = _NOISE**2 + failures(off, np.sqrt(self.variance[chosen]))
        mean, deviation = posterior(between, chosen, self.variance, off, noise)
        return expected_gain(found.min() - self.expected - mean, deviation)


def positions(of: Iterable[tuple[float, ...]]) -> Floats:
    """Return the positions of candidates, a row each."""
    rows = list(of)
    table: Floats = np.array(rows, dtype=float).reshape(len(rows), -1)
    return table


def nearness(positions: Floats, known: Sequence[int]) -> Floats:
    """Return the correlation of errors of some with those of all: 1 at no distance, 1/e over the length of an axis."""
    correlation: Floats = np.exp(-np.sqrt(((positions[known][:, None] - positions) ** 2).sum(2)))
    return correlation


def failures(off: Floats, deviation: Floats) -> Floats:
    """Return the variance of errors that others do not share: an error far beyond its deviation is a failure."""
    variance: Floats = np.where(np.abs(off) > _FAILED * deviation, off**2, 0.0)
    return variance


def posterior(
    between: Floats, known: Sequence[int], variance: Floats, off: Floats, noise: float | Floats
) -> tuple[Floats, Floats]:
    """Return mean and deviation of normal errors of which some are known, from the covariances of these with all."""
    weights = np.linalg.solve(between[:, known] + (noise + _LEAST_VARIANCE) * np.eye(len(known)), between)
    left = variance - (weights * between).sum(0)
    return off @ weights, np.sqrt(np.maximum(left, _LEAST_VARIANCE))


def expected_gain(gain: Floats, deviation: Floats) -> Floats:
    """Return the mean of the positive part of normal gains."""
    z = gain / deviation
    below = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in z])
    expected: Floats = gain * below + deviation * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return expected
