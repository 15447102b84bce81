"""Curve of throughput over occupancy, and the occupancy needed for 90, 95 and 100 % of a model's peak."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.prediction import Prediction
from warplens.models.registry import predict
from warplens.workload import Number, Workload

_FAR = 1e6  # warps per SM: where a model that saturates has saturated
_FRACTIONS = (1.0, 0.95, 0.9)
_ROUNDS, _POINTS = 5, 1024  # of the search for the needed warps: to 2 to the power of -50


class Curve(Struct, frozen=True, kw_only=True):
    """A model's throughput over warps per SM, in warps per cycle and SM, and where it saturates."""

    model: str
    machine: str
    workload: str
    warps_per_sm: Any
    throughput_warps_per_cycle: Any
    seconds: Any
    ipc: Any
    fp32_ops_per_cycle: Any
    dram_bytes_per_second: Any
    peak: float | None
    needed_warps_per_sm: dict[str, float | None]
    flags: list[str]


def occupancy_curve(
    workload: Workload, machine: Machine, model: str = "volkov", *, warps_per_sm: Number | None = None
) -> Curve:
    """Return the model's throughput at each occupancy (every whole warp per scheduler unless given)."""
    if workload.kernels:
        raise WarplensError(f"{workload.name} is a program of several kernels; ask for one of them")
    step = machine.sm.schedulers
    every = np.arange(step, machine.sm.warps_max + 0.5, step)
    n = every if warps_per_sm is None else np.atleast_1d(np.asarray(warps_per_sm, float))
    prediction = _predicted(workload, machine, model, n)
    return Curve(
        model=model,
        machine=machine.id,
        workload=workload.name,
        warps_per_sm=n,
        throughput_warps_per_cycle=prediction.throughput_warps_per_cycle,
        seconds=prediction.seconds,
        ipc=prediction.ipc,
        fp32_ops_per_cycle=prediction.fp32_ops_per_cycle,
        dram_bytes_per_second=prediction.dram_bytes_per_second,
        peak=peak_throughput(workload, machine, model),
        needed_warps_per_sm={f"{f:.0%}": needed_warps(workload, machine, model, f) for f in _FRACTIONS},
        flags=prediction.flags,
    )


def peak_throughput(workload: Workload, machine: Machine, model: str) -> float | None:
    """Return the throughput a model gives for unlimited occupancy, None where it never saturates."""
    far = _throughput(workload, machine, model, np.array([_FAR, 2 * _FAR]))
    if not np.all(np.isfinite(far)) or far[0] <= 0 or far[1] > 1.01 * far[0]:
        return None
    return float(far[0])


def needed_warps(workload: Workload, machine: Machine, model: str, fraction: float = 1.0) -> float | None:
    """Return the smallest warps per SM at which a model attains this fraction of its own peak.

    None where it has no peak, or approaches it without end (100 % of a curve that saturates gradually).
    """
    peak = peak_throughput(workload, machine, model)
    if peak is None:
        return None
    goal = peak * fraction * (1 - 1e-9)
    grid = np.concatenate([np.arange(0.25, 64, 0.25), np.geomspace(64, 2**16, 600)])
    reached = _throughput(workload, machine, model, grid) >= goal
    if not np.any(reached):
        return None
    first = int(np.argmax(reached))
    low, high = (0.0 if first == 0 else grid[first - 1]), grid[first]
    for _ in range(_ROUNDS):  # the first that reaches the goal, then a finer grid between it and the one before
        grid = np.linspace(low, high, _POINTS + 1)[1:]
        reached = _throughput(workload, machine, model, grid) >= goal
        reached[-1] = True
        first = int(np.argmax(reached))
        low, high = (low if first == 0 else grid[first - 1]), grid[first]
    return float(high)


def _predicted(workload: Workload, machine: Machine, model: str, n: Any) -> Prediction:
    prediction = predict(workload, machine, model, warps_per_sm=n)
    if prediction.throughput_warps_per_cycle is None:
        raise WarplensError(f"{model} says how many warps are needed, but gives no throughput")
    return prediction


def _throughput(workload: Workload, machine: Machine, model: str, n: Any) -> Any:
    found = _predicted(workload, machine, model, n).throughput_warps_per_cycle
    return np.broadcast_to(np.asarray(found), np.shape(n))
