"""Residency of a launch on a machine: warps and blocks per SM, SMs in use, warps that each SM executes."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine, Occupancy, occupancy
from warplens.workload import Number, Workload


class Residency(Struct, frozen=True):
    """Warps and blocks of a launch on an SM."""

    warps_per_sm: Number  # at a time
    blocks_per_sm: Number  # at a time
    warps_per_block: Number
    active_sms: Number
    warps_on_sm: Number  # in total, on the busiest SM
    limiter: str


def residency(workload: Workload, machine: Machine, warps_per_sm: Number | None = None) -> Residency:
    """Return the residency of a workload on a machine; `warps_per_sm` overrides the occupancy.

    A steady-state workload fills the machine unless told otherwise, and counts one body per SM.
    """
    if warps_per_sm is not None:
        _check(warps_per_sm)
    launch = workload.launch
    if launch is None:
        n = machine.sm.warps_max if warps_per_sm is None else warps_per_sm
        return Residency(n, 1.0, n, machine.chip.sm_count, 1.0, "warps")
    sms, per_block = machine.chip.sm_count, launch.warps_per_block
    active = np.minimum(sms, launch.blocks)
    on_sm = np.ceil(launch.blocks / sms) * per_block  # on the busiest SM: a block is not split
    if warps_per_sm is not None:
        warps_per_sm = np.minimum(warps_per_sm, on_sm)  # no more than there are
        return Residency(warps_per_sm, warps_per_sm / per_block, per_block, active, on_sm, "given")
    if launch.blocks_per_sm is not None:
        fit, limiter = launch.blocks_per_sm, "given"
    else:
        fits = occupancy_of(workload, machine)
        assert fits is not None
        fit, limiter = fits.blocks_per_sm, fits.limiter
    blocks = np.minimum(fit, np.ceil(launch.blocks / sms))  # no more than there are
    few = bool(np.all(blocks < fit))
    return Residency(blocks * per_block, blocks, per_block, active, on_sm, "blocks in the grid" if few else limiter)


def _check(n: Number) -> None:
    try:
        values = np.atleast_1d(np.asarray(n, dtype=float))
    except (TypeError, ValueError):
        raise WarplensError(f"warps per SM must be a number or an array of numbers, not {n!r}") from None
    if values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise WarplensError("warps per SM must be finite and above zero")


def occupancy_of(workload: Workload, machine: Machine) -> Occupancy | None:
    """Return how many blocks and warps fit on an SM and what limits that; None without a launch."""
    launch = workload.launch
    if launch is None:
        return None
    if np.ndim(launch.threads_per_block):
        raise WarplensError("an array of block sizes has no single occupancy: give warps_per_sm")
    return occupancy(
        machine,
        threads_per_block=math.ceil(float(launch.threads_per_block)),
        registers_per_thread=launch.registers_per_thread,
        shared_bytes_per_block=launch.shared_bytes_per_block,
    )
