"""Check of a prediction against physics: no negative time, no hardware limit exceeded."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import structs

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import Machine
from warplens.models.bounds import totals, worksheet
from warplens.models.prediction import Prediction
from warplens.models.warplens.limits import unit_cycles
from warplens.simulator.simulation import lowered
from warplens.workload import Workload

_SLACK = 1.001  # rounding in the papers' own parameters


def flagged(prediction: Prediction, workload: Workload, machine: Machine) -> Prediction:
    """Return the prediction with flags on what is impossible about it."""
    if prediction.cycles is None:
        return prediction
    cycles = np.asarray(prediction.cycles)
    wrong = {"not a number": np.isnan(cycles), "negative time": cycles < 0}
    flags = [f"unphysical: {name}{_where(mask)}" for name, mask in wrong.items() if np.any(mask)]
    for name, share in _shares(prediction, workload, machine).items():
        most = np.max(share, initial=0.0, where=np.isfinite(share))
        if most > _SLACK:
            flags.append(f"unphysical: {most:.3g} times the peak of {name}{_where(share > _SLACK)}")
    return structs.replace(prediction, flags=[*prediction.flags, *flags])


def _shares(prediction: Prediction, workload: Workload, machine: Machine) -> dict[str, Any]:
    """Return the share of each resource's peak that the predicted throughput takes."""
    if workload.given is not None:
        return {}
    try:
        uses = totals(worksheet(workload, _with_pins(machine), prediction.model))
    except MissingField:
        return {}
    if workload.code and workload.profile is not None:
        uses = {**_of_code(workload, machine), "dram bandwidth": uses.get("dram bandwidth", 0.0)}
    uses = {name: per_warp * _evenness(workload, machine, name) for name, per_warp in uses.items()}
    rate = np.asarray(prediction.throughput_warps_per_cycle)
    if rate.ndim and not any(np.ndim(per_warp) for per_warp in uses.values()):
        fastest = np.max(rate, initial=0.0, where=np.isfinite(rate))
        uses = {name: per_warp for name, per_warp in uses.items() if fastest * per_warp > _SLACK}
    return {name: rate * per_warp for name, per_warp in uses.items()}


def _of_code(workload: Workload, machine: Machine) -> dict[str, Any]:
    """Return the cycles for which a mean warp keeps each unit of an SM busy: the units are the simulator's.

    Classes do not tell the unit: VIADD runs where products do, FMNMX where whole numbers do (units.json.gz).
    """
    profile = workload.profile
    assert profile is not None
    warps = profile.grid_blocks * profile.warps_per_block
    try:
        code, on = lowered(workload, machine, profile.grid_blocks)
    except WarplensError:  # no control codes, or no paths of warps
        return {}
    return {name: cycles / warps for name, cycles in unit_cycles(code.steps, profile, on).items()}


def _evenness(workload: Workload, machine: Machine, resource: str) -> Any:
    """Return the warps of an average SM over those of the busiest one, whose rate is predicted.

    All SMs share the DRAM: with fewer blocks than SMs, those that have one use more than their share. Blocks of machine
    code differ, and the busiest SM does not get the longest: the mean of all SMs counts.
    """
    if workload.launch is None or not (resource == "dram bandwidth" or workload.code):
        return 1.0
    blocks, sms = workload.launch.blocks, machine.chip.sm_count
    return blocks / sms / np.ceil(blocks / sms)


def _with_pins(machine: Machine) -> Machine:
    """Return the machine with the bandwidth of its pins: only more than that is impossible."""
    pins = machine.memory.pin_bytes_per_second
    if pins is None:
        return machine
    return structs.replace(machine, memory=structs.replace(machine.memory, sustained_bytes_per_second=pins))


def _where(mask: Any) -> str:
    return "" if np.ndim(mask) == 0 else f" in {int(np.sum(mask))} of {np.size(mask)} configurations"
