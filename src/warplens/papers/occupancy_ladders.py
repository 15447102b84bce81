"""Measurements of data/experiments/occupancy_ladders: real kernels over occupancy and threads, stamps of warps.

Where the data are not installed (they are not in the wheel), the lists are empty and the items say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.models import predict
from warplens.papers.item import Series, line
from warplens.papers.validation import kernels
from warplens.papers.validation.stored import read

MISSING = "the H200's measurements are not installed: run from a checkout of warplens"


class Timed(Struct, frozen=True, kw_only=True):
    """One launch: the median time of nine, at an occupancy or with so many threads per block."""

    kernel: str
    us: float
    threads: int = 0
    blocks: int = 0
    blocks_per_sm: int = 0
    warps_per_sm: float = 0.0
    warps_per_block: int = 0
    bytes: float = 0.0
    operations: float = 0.0
    carveout: int | None = None  # per cent of L1 and shared memory preferred as shared memory; -1: as the driver likes

    @property
    def rate(self) -> float:
        """GB/s as the paper counts bytes, Gflop/s where there are operations."""
        return (self.operations or self.bytes) / self.us / 1e3


class Stamped(Struct, frozen=True, kw_only=True):
    """One launch of a synthetic kernel: cycles of the slowest SM, of a warp in the mean; starts and ends on one SM."""

    figure: str
    what: str
    threads: int
    blocks_per_sm: int
    rounds: int
    count: int  # instructions of the kind per warp
    span_cycles: float
    mean_warp_cycles: float
    warps: list[tuple[int, int]] = []

    @property
    def warps_per_sm(self) -> float:
        """Warps per SM that fit at a time."""
        return self.blocks_per_sm * self.threads / 32

    @property
    def ipc(self) -> float:
        """Instructions of the kind per cycle and SM."""
        return self.warps_per_sm * self.rounds * self.count / self.span_cycles


@cache
def _rows(part: str) -> list[dict[str, object]]:
    try:
        found: list[dict[str, object]] = read(f"experiments/occupancy_ladders/{part}.json.gz")["rows"]
    except WarplensError:
        return []
    return found


def timed(part: str, kernel: str) -> list[Timed]:
    """Return the launches of a kernel in a part: `ladders`, `threads` or `warps`."""
    found = [one for one in msgspec.convert(_rows(part), list[Timed]) if one.kernel == kernel]
    return [one for one in found if one.carveout is None]


def carveouts(kernel: str) -> dict[int, float]:
    """Return the rates of a kernel at full occupancy by the carveout that was asked for."""
    found = [one for one in msgspec.convert(_rows("ladders"), list[Timed]) if one.kernel == kernel]
    return {one.carveout: one.rate for one in found if one.carveout is not None}


def stamped(figure: str, what: str = "") -> list[Stamped]:
    """Return the stamped launches for a figure of Volkov's chapters 4 and 5."""
    found = [one for one in msgspec.convert(_rows("stamps"), list[Stamped]) if one.figure == figure]
    return [one for one in found if what in ("", one.what)]


def suite(*names: str) -> dict[str, kernels.Launch]:
    """Return the measured launches of the suite of these names; none where the data are not installed."""
    try:
        known = {launch.name: launch for launch in kernels.launches()}
    except WarplensError:
        return {}
    return {name: known[name] for name in names}


def over_measured(found: dict[str, kernels.Launch], model: str) -> list[float]:
    """Return a model's times over the H200's."""
    h200 = load_machine("h200")
    return [float(predict(one.workload, h200, model).seconds or 0) / one.seconds for one in found.values()]


def geometric_error(ratios: Sequence[float]) -> float:
    """Return the geometric mean of the errors of these quotients, in percent (Hong & Kim 2009, §5)."""
    return 100 * float(np.exp(np.mean(np.log(np.abs(np.array(ratios) - 1)))))


def best(launches: Sequence[Timed]) -> dict[float, float]:
    """Return the best rate at each occupancy in warps per SM, over block sizes."""
    found: dict[float, float] = {}
    for one in sorted(launches, key=lambda each: each.warps_per_sm):
        found[one.warps_per_sm] = max(found.get(one.warps_per_sm, 0.0), one.rate)
    return found


def needed(rates: dict[float, float], goal: float) -> float | None:
    """Return the warps per SM at which a rate is reached, on the line between two occupancies."""
    before_n, before = 0.0, 0.0
    for n, rate in rates.items():
        if rate >= goal:
            return before_n + (n - before_n) * (goal - before) / (rate - before)
        before_n, before = n, rate
    return None


def occupancy(warps: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the cycles at which occupancy changes, and how many warps are in execution from each on (§5.6)."""
    changes = sorted([(start, 1) for start, _ in warps] + [(end, -1) for _, end in warps])
    times, steps = np.array(changes, float).T
    return times, np.cumsum(steps)


def mean_occupancy(warps: Sequence[tuple[float, float]], first: float, last: float) -> float:
    """Return the warps in execution at a time, in the mean from one cycle to another."""
    inside = sum(max(0.0, min(end, last) - max(start, first)) for start, end in warps)
    return inside / (last - first)


def track(name: str, warps: Sequence[tuple[float, float]], first: float = 0.0, last: float = np.inf) -> Series:
    """Return the line of occupancy over time."""
    times, counts = occupancy(warps)
    shown = (times >= first) & (times <= last)
    return line(name, np.repeat(times[shown], 2)[1:], np.repeat(counts[shown], 2)[:-1])
