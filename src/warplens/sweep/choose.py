"""Which candidates to time on hardware: one after the other, each where the greatest gain is to be expected.

The model's error, log(measured / predicted), is taken as normal: a part that all candidates of a kernel share, and one
that neighbours share, less so the farther apart they lie. What was timed says what the error was there, so that the
predictions of all others move with it and become surer nearby. Timed next is the candidate whose expected gain over
the fastest so far is the greatest: one that is predicted to be fast, or one of which little is known (expected
improvement: Jones, Schonlau and Welch 1998).

No size of an error comes from a tuning space: they are those of our models on the train set of kernels, where the means
of functions differ by `COMMON` and launches of one function by `OWN`. What an error is shared by falls to 1/e over the
length of an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.sweep.expression import Value

# Standard deviations of log(predicted / measured) over the train set (study/files/confidence.json): of the means of
# its functions by `warplens`; of a function's launches about their mean, by `warplens`, and by `warplens-fast`, which
# makes the estimates.
COMMON, OWN, OWN_ESTIMATED = 0.091, 0.068, 0.064
_NOISE = 0.005  # of a measured median: how far two runs are apart (data/h200/tuning/README.md)
_FAILED = 3.0  # standard deviations: an error beyond is a prediction that failed, and says little of its neighbours

Floats = npt.NDArray[np.float64]


class Candidate(Struct, frozen=True):
    """A legal configuration: predicted where it was emulated, estimated else; `place`: from 0 to 1 on each axis."""

    number: int
    values: dict[str, Value]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seconds: float
    emulated: bool
    bound: str = ""
    place: tuple[float, ...] = ()


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
    """How the errors of candidates go together, and what is to be gained where when some are known."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.expected: Floats = np.log([c.seconds for c in candidates])
        self.places = np.array([c.place for c in candidates], dtype=float)
        self.own = np.array([OWN if c.emulated else OWN_ESTIMATED for c in candidates])

    def gains(self, chosen: list[int], found: Floats) -> Floats:
        """The expected gain of each candidate over the fastest, from the logarithms of the times of those chosen."""
        between, off = np.array([self._with(at) for at in chosen]), found - self.expected[chosen]
        failed = np.abs(off) > _FAILED * np.hypot(COMMON, self.own[chosen])
        known = between[:, chosen] + np.diag(_NOISE**2 + np.where(failed, off**2, 0.0))
        weights = np.linalg.solve(known, between)
        mean = self.expected + off @ weights
        variance = COMMON**2 + self.own**2 - (weights * between).sum(0)
        return _expected_gain(found.min() - mean, np.sqrt(np.maximum(variance, 1e-12)))

    def _with(self, at: int) -> Floats:
        """The covariance of the error of one candidate with those of all."""
        apart = np.sqrt(((self.places - self.places[at]) ** 2).sum(1))
        made: Floats = COMMON**2 + self.own[at] * self.own * np.exp(-apart)
        return made


def _expected_gain(gain: Floats, deviation: Floats) -> Floats:
    """The mean of what is gained where something is gained, for normal gains."""
    z = gain / deviation
    below = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in z])
    made: Floats = gain * below + deviation * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return made
