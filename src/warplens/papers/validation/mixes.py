"""Errors of every model on the measured instruction mixes, in percent.

Measured: Volkov's instruction mixes on the H200 (mix.json.gz). The samples that gave the
machine file its latencies and rates (one instruction alone) are left out; the mixed ones were used for nothing.
Each load is preceded by one address instruction (IMAD.WIDE), which the workload counts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.machine.tables import InstructionClass
from warplens.models import MODELS, predict
from warplens.papers.validation.simulated import judged, simulate_mixes
from warplens.papers.validation.stored import Judged, Sweep, read
from warplens.workload import Access, Link, Workload

_FILES = {"h200": "experiments/volkov_mix/mix.json.gz"}
_SHARE = 0.9  # of the highest rate of a sweep: with so many warps it has enough


class ModelError(Struct, frozen=True):
    """Error of one model over all points, in percent of the measured time.

    And by how many warps of a scheduler at worst where 90 % of a sweep's highest rate is reached.
    """

    model: str
    points: int
    mean_percent: float
    median_percent: float
    worst_percent: float
    worst_at: str
    unphysical: int
    needed_warps_off: float
    needed_at: str


def validate(gpu: str = "h200", *, simulated: bool = False) -> list[ModelError]:
    """Return the error of each model that gives a time over all measured mixes of a GPU, best first.

    `simulated` adds the simulator, which runs the measured machine code: a minute or two.
    """
    machine = load_machine(gpu)
    return [model_error(each, machine) for each in judge(machine, simulated=simulated)]


def judge(machine: Machine, *, simulated: bool = False) -> list[Judged]:
    """Return what each model that gives a time says of all measured mixes of a machine, the nearest first."""
    measured = sweeps(machine)
    found = []
    for name in MODELS:
        try:
            found.append(_judged(name, machine, measured))
        except WarplensError:
            continue  # a model without the parameters, or that gives no time
    if simulated:
        if machine.id != "h200":
            raise WarplensError("the simulator is compared with measured mixes of the H200 only")
        found.append(judged(simulate_mixes()))
    return sorted(found, key=lambda each: float(np.abs(percents(each)).mean()))


def percents(judged: Judged) -> Any:
    """Return the errors of all points, in percent of the measured time."""
    pairs = zip(judged.cycles, judged.sweeps, strict=True)
    return np.concatenate([100 * (np.array(cycles) / np.array(sweep.cycles) - 1) for cycles, sweep in pairs])


def model_error(judged: Judged, machine: Machine) -> ModelError:
    """Return how far a model is off."""
    error = percents(judged)
    size = np.abs(error)
    worst = int(np.argmax(size))
    where = [f"{sweep.workload.name}, {n:g} warps" for sweep in judged.sweeps for n in sweep.warps_per_sm]
    needed = [
        (needed_off(sweep.warps_per_sm, cycles, sweep.cycles, machine.sm.schedulers), sweep.workload.name)
        for sweep, cycles in zip(judged.sweeps, judged.cycles, strict=True)
    ]
    mean, median = float(size.mean()), float(np.median(size))
    most = max(needed, key=lambda each: abs(each[0]))
    at = float(error[worst]), where[worst]
    return ModelError(judged.model, len(size), mean, median, *at, judged.unphysical, *most)


def sweeps(machine: Machine) -> list[Sweep]:
    """Read the measured mixes of a machine; of each configuration the best repetition counts."""
    if machine.id not in _FILES:
        raise WarplensError(
            f"no measurements of {machine.name} ship with warplens; there are some of: {', '.join(_FILES)}"
        )
    best: dict[tuple[str, int, int, int], dict[int, float]] = defaultdict(dict)
    for s in read(_FILES[machine.id])["samples"]:
        if was_used(s):
            continue
        found, warps = best[s["mix"], s["alpha"], s["ilp"], s["unroll"]], s["warps_per_sm"]
        found[warps] = min(1 / s["iterations_per_cycle_per_sm"], found.get(warps, np.inf))
    return [
        Sweep(other, alpha, _body(other, alpha, ilp, unroll), [float(n) for n in found], list(found.values()))
        for (other, alpha, ilp, unroll), found in best.items()
    ]


def was_used(sample: dict[str, Any]) -> bool:
    """Return whether the machine file's latencies and rates were read from this sample."""
    return bool(sample["mix"] == "add" or sample["alpha"] == 0)


def _body(other: str, alpha: float, ilp: float, unroll: int) -> Workload:
    """Return one iteration of the measured chain: the other instruction, alpha adds, for loads the address.

    The loop costs ten instructions per trip (counted in its machine code), shared by `unroll` iterations.
    """
    kind: InstructionClass = other
    loop = {"int": 6 / unroll, "uniform": 3 / unroll, "branch": 1 / unroll}
    instructions: dict[InstructionClass, Any] = {"fp32": alpha * ilp, **loop}
    accesses: list[Access] = []
    links = [Link(kind, "fp32", 1.0), Link("fp32", "fp32", alpha - 1)]
    if other == "load":
        instructions["imul"] = ilp
        accesses.append(Access(count=ilp))
        links += [Link("fp32", "imul", 1.0), Link("imul", "load", 1.0)]
    else:
        links.append(Link("fp32", kind, 1.0))
        if other == "shared":
            accesses.append(Access(count=ilp, space="shared"))
        else:
            instructions["sfu"] = ilp
    name = f"add/{other}, alpha {alpha:g}"
    return Workload(name=name, instructions=instructions, accesses=accesses, links=links, ilp=ilp, mlp=ilp)


def needed_off(warps: list[float], cycles: Any, measured: list[float], schedulers: float) -> float:
    """Return by how many warps of a scheduler the needed occupancy is off."""
    return (needed(warps, cycles) - needed(warps, measured)) / schedulers


def needed(warps: list[float], cycles: Any) -> float:
    """Return the warps of an SM with which the share of the highest rate is reached, on the line between two."""
    n, rate = (np.array(x)[np.argsort(warps)] for x in (warps, 1 / np.broadcast_to(cycles, len(warps))))
    n, rate = np.insert(n, 0, 0.0), np.insert(rate, 0, 0.0)
    goal = _SHARE * rate.max()
    k = int(np.argmax(rate >= goal))
    return float(n[k - 1] + (n[k] - n[k - 1]) * (goal - rate[k - 1]) / (rate[k] - rate[k - 1]))


def _judged(name: str, machine: Machine, measured: list[Sweep]) -> Judged:
    spoken, found, unphysical = [], [], 0
    for sweep in measured:
        n = np.array(sweep.warps_per_sm)
        try:
            p = predict(sweep.workload, machine, name, warps_per_sm=n)
        except WarplensError:
            continue  # this model does not speak about this mix; it is judged by the others
        if p.cycles is None:
            break
        spoken.append(sweep)
        found.append(np.broadcast_to(np.asarray(p.cycles, float), n.shape).tolist())
        unphysical += (
            sum(bool(predict(sweep.workload, machine, name, warps_per_sm=k).flags) for k in n) if p.flags else 0
        )
    if not spoken:
        raise WarplensError(f"{name} gives no time for any measurement")
    return Judged(name, spoken, found, unphysical)
