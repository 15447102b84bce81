"""Whether a prediction is physically possible: no negative time, no hardware limit exceeded."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import structs

from warplens.errors import MissingField
from warplens.kernel import Workload
from warplens.machine import Machine
from warplens.models.bounds import Use, totals, worksheet
from warplens.models.prediction import Prediction

_SLACK = 1.001  # rounding in the papers' own parameters
# In machine code (Volta and later) whole numbers have units of their own, their products others (simulate/units.py).
_OF_CODE = {"int": "integer", "imul": "integer products", "imul_wide": "integer products"}


def flagged(prediction: Prediction, workload: Workload, machine: Machine) -> Prediction:
    """Return the prediction with its impossibilities named."""
    if prediction.cycles is None:
        return prediction
    flags = []
    cycles = np.asarray(prediction.cycles)
    lowest = np.min(cycles)  # one pass; not a number if any is not
    if np.isnan(lowest):
        flags.append(f"unphysical: not a number{_where(np.isnan(cycles))}")
    if np.isnan(lowest) or lowest < 0:
        negative = cycles < 0
        if np.any(negative):
            flags.append(f"unphysical: negative time{_where(negative)}")
    for name, share in _shares(prediction, workload, machine).items():
        most = np.max(share, initial=0.0, where=np.isfinite(share))
        if most > _SLACK:
            over = share > _SLACK
            flags.append(f"unphysical: {most:.3g} times the peak of {name}{_where(over)}")
    return structs.replace(prediction, flags=[*prediction.flags, *flags])


def _shares(prediction: Prediction, workload: Workload, machine: Machine) -> dict[str, Any]:
    """Return what share of each resource's peak the predicted throughput takes."""
    if workload.given is not None:
        return {}
    try:
        sheet = worksheet(workload, _with_pins(machine), prediction.model)
    except MissingField:
        return {}
    uses = totals(_by_unit(sheet, workload, machine) if workload.code else sheet)
    uses = {name: per_warp * _evenness(workload, machine, name) for name, per_warp in uses.items()}
    rate = np.asarray(prediction.throughput_warps_per_cycle)
    if rate.ndim and not any(np.ndim(per_warp) for per_warp in uses.values()):
        fastest = np.max(rate, initial=0.0, where=np.isfinite(rate))
        uses = {name: per_warp for name, per_warp in uses.items() if fastest * per_warp > _SLACK}
    return {name: rate * per_warp for name, per_warp in uses.items()}


def _by_unit(sheet: list[Use], workload: Workload, machine: Machine) -> list[Use]:
    """Name the units that serve classes of machine code, where the worksheet has them on the CUDA cores or the SFUs."""
    made = list[Use]()
    for use in sheet:
        if use.resource == "cuda cores":
            made.append(structs.replace(use, resource=_OF_CODE.get(use.user, use.resource)))
        elif use.resource == "sfu units" and use.user == "convert":
            fixed = _fixed_share(workload)
            made.append(structs.replace(use, count=use.count * (1 - fixed)))
            made.append(Use("integer", use.user, 1 / machine.peak_ipc("int"), use.count * fixed))
        else:
            made.append(use)
    return made


def _fixed_share(workload: Workload) -> float:
    """Return the share of conversions that have a fixed latency: they are not the SFUs' (simulate/from_program.py)."""
    executed = [1.0] * len(workload.code) if workload.profile is None else workload.profile.counts["executed"]
    all_of_them = [(x.control, n) for x, n in zip(workload.code, executed, strict=True) if x.kind == "convert"]
    fixed = sum(n for control, n in all_of_them if control is not None and control.write_scoreboard is None)
    return fixed / max(1e-9, sum(n for _, n in all_of_them))


def _evenness(workload: Workload, machine: Machine, resource: str) -> Any:
    """Return how many warps an SM has in the mean for one of the busiest SM, whose rate is told.

    All SMs share the DRAM: where there are fewer blocks than SMs, those that have one have more than their part of it.
    """
    if workload.launch is None or resource != "dram bandwidth":
        return 1.0
    blocks, sms = workload.launch.blocks, machine.chip.sm_count
    return blocks / sms / np.ceil(blocks / sms)


def _with_pins(machine: Machine) -> Machine:
    """What is physically impossible is to exceed the pins, not the best rate that someone has seen."""
    pins = machine.memory.pin_bytes_per_second
    if pins is None:
        return machine
    return structs.replace(machine, memory=structs.replace(machine.memory, sustained_bytes_per_second=pins))


def _where(mask: Any) -> str:
    return "" if np.ndim(mask) == 0 else f" in {int(np.sum(mask))} of {np.size(mask)} configurations"
