"""Throughput against occupancy: both bounds, what our closed form says, where the kernel is, what it would need."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models import Prediction, predict
from warplens.models.comparison import Comparison
from warplens.workload import Workload
from warplens.workload.counted import walk

_POINTS = 5  # occupancies of the curve
_WALKED = 60_000  # instructions that all its predictions may go through: about 0.3 s
_PREPARED = 8  # what it takes to prepare an instruction, in units of going through it
_WAYS = 4  # ways that our closed form goes through
_REACHED = 0.95  # of the throughput bound


class Point(Struct, frozen=True):
    """Throughput at one occupancy, in warps per cycle and SM, by each bound alone and as predicted."""

    warps_per_sm: float
    by_latency: float
    by_throughput: float
    predicted: float
    seconds: float


class OccupancyCurve(Struct, frozen=True, kw_only=True):
    """The curve of one model; `now` is the answer itself, `band` how far off it may be, as factors of throughput.

    `needed_warps` is where the bounds meet, `reached_warps` where the curve comes within 5 % of the throughput bound.
    """

    model: str
    warps_max: float
    fitting_warps: float
    now: Point
    points: list[Point]
    needed_warps: float | None
    reached_warps: float | None
    band: tuple[float, float] | None


def occupancy_curve(p: Prediction, c: Comparison, workload: Workload, machine: Machine) -> OccupancyCurve:
    """Return the curve of our closed form, of Volkov's bounds where ours is silent."""
    model = next((name for name in ("warplens-fast", "volkov") if name in c.predictions), None)
    launch = workload.launch
    if model is None or launch is None or p.seconds is None:
        raise WarplensError("no model gives a throughput at other occupancies")
    base = c.predictions[model]
    per_block, most = int(launch.warps_per_block), machine.sm.warps_max
    here = float(base.warps_per_sm)
    chosen = {here}
    in_grid = math.ceil(float(launch.blocks) / machine.chip.sm_count)  # more than that cannot be on an SM
    blocks, count = max(1, min(in_grid, int(most // per_block))), _affordable(workload)
    chosen |= {float(per_block * round(1 + (blocks - 1) * k / max(1, count - 1))) for k in range(count)}
    points = [_point(base if n == here else predict(workload, machine, model, warps_per_sm=n)) for n in sorted(chosen)]
    at = next(x for x in points if x.warps_per_sm == here)
    now = Point(float(p.warps_per_sm), at.by_latency, at.by_throughput, _throughput(p), float(p.seconds))
    band = None
    if p.interval_seconds is not None:
        band = (float(p.seconds) / p.interval_seconds[1], float(p.seconds) / p.interval_seconds[0])
    return OccupancyCurve(
        model=model,
        warps_max=most,
        fitting_warps=here,
        now=now,
        points=points,
        needed_warps=_met(points, lambda x: x.by_latency / x.by_throughput - 1 if x.by_throughput else 0.0),
        reached_warps=_met(points, lambda x: x.predicted / x.by_throughput - _REACHED if x.by_throughput else 0.0),
        band=band,
    )


def _affordable(workload: Workload) -> int:
    """Return how many occupancies can be predicted in a fraction of a second."""
    if workload.profile is None:
        return _POINTS
    commonest = sorted(workload.profile.paths, key=lambda path: -path.warps)[:_WAYS]
    each = _PREPARED * len(workload.code) + sum(len(walk(path).weights) for path in commonest)
    return min(_POINTS, _WALKED // (1 + each))


def _point(p: Prediction) -> Point:
    """Return the bounds of a prediction as throughputs."""
    limits = {name: float(cycles) for name, cycles in p.limits.items()}
    warps = _throughput(p) * float(p.cycles or 0.0)
    slowest = max((cycles for name, cycles in limits.items() if name != "latency"), default=0.0)
    latency = limits.get("latency", 0.0)
    return Point(
        float(p.warps_per_sm),
        warps / latency if latency else float("inf"),
        warps / slowest if slowest else float("inf"),
        _throughput(p),
        float(p.seconds or 0.0),
    )


def _throughput(p: Prediction) -> float:
    return float(p.throughput_warps_per_cycle or 0.0)


def _met(points: list[Point], over: Callable[[Point], float]) -> float | None:
    """Return the occupancy from which something is above zero, between those that were predicted."""
    before = (0.0, -1.0)
    for x in points:
        now = over(x)
        if now >= 0:
            n, under = before
            return n + (x.warps_per_sm - n) * -under / (now - under)
        before = (x.warps_per_sm, now)
    return None
