"""The verbs on a workload: predict, compare, advise, what_if, diff, occupancy and simulate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from warplens import machine as machines
from warplens import models
from warplens.api.counting import DEFAULT_MACHINE, load_any, machine_of
from warplens.core.errors import WarplensError, refuse
from warplens.machine import Machine, Occupancy, OccupancyTable
from warplens.models import Curve, Prediction
from warplens.models.bounds import occupancy_of
from warplens.models.registry import OURS, PUBLISHED, Comparison, noted
from warplens.models.warplens import intervals
from warplens.models.warplens.intervals import with_interval
from warplens.program.program import Program, Resources
from warplens.simulator import Simulation, SimulationOptions
from warplens.simulator.simulation import simulate as _simulate
from warplens.workload import Number, Workload, parse_workload
from warplens.workload.counted import texts

if TYPE_CHECKING:
    from warplens.advisor import Advised
    from warplens.advisor.differences import Difference, WhatIf

DEFAULT_MODEL = "volkov"  # of curves, and where no model is asked for and none that speaks is physically possible


def list_models() -> dict[str, str]:
    """Return the models' names, each with a line on what it is."""
    return {name: entry.about for name, entry in models.MODELS.items()}


def predict(
    workload: Workload | str | Path,
    machine: Machine | str = DEFAULT_MACHINE,
    model: str | None = None,
    *,
    warps_per_sm: Number | None = None,
) -> Prediction:
    """Predict a workload's time on a machine with one model; arrays of numbers broadcast.

    `model` None: our own, for a counted kernel; else the most complete published one whose answer is physically
    possible. That says why ours is silent (`why_not_ours`).
    """
    w, m, why = workload_of(workload), machine_of(machine), ""
    for name in (*OURS, *PUBLISHED, *models.MODELS) if model is None else ():
        try:
            found = models.predict(w, m, name, warps_per_sm=warps_per_sm)
        except WarplensError as error:
            why = why or str(error)
            continue
        if found.seconds is not None and (name in OURS or not found.flags):
            found = found if name in OURS else replace(found, why_not_ours=why)
            return noted(with_interval(found, w, m), texts(w.unmodelled))
    found = models.predict(w, m, model or DEFAULT_MODEL, warps_per_sm=warps_per_sm)
    return noted(with_interval(found, w, m), texts(w.unmodelled))


def predict_all(
    workload: Workload | str | Path, machine: Machine | str = DEFAULT_MACHINE, *, warps_per_sm: Number | None = None
) -> dict[str, Prediction]:
    """Predict with every model that can speak about this workload."""
    return compare(workload, machine, warps_per_sm=warps_per_sm).predictions


def compare(
    workload: Workload | str | Path,
    machine: Machine | str = DEFAULT_MACHINE,
    *,
    warps_per_sm: Number | None = None,
    simulated: bool = True,
) -> Comparison:
    """Put all models side by side, the silent ones with their reason; or all but those that simulate."""
    return compared(workload_of(workload), machine_of(machine), warps_per_sm=warps_per_sm, simulated=simulated)


def compared(w: Workload, m: Machine, *, known: Prediction | None = None, **how: Any) -> Comparison:
    """Compare models, where `known` is what one of them has answered already."""
    answers = models.predict_all(w, m, known=known, **how)
    spoken = {name: with_interval(p, w, m) for name, p in answers.items() if isinstance(p, Prediction)}
    silent = {name: p for name, p in answers.items() if isinstance(p, str)}
    return Comparison(w.name, m.id, spoken, silent, texts(w.unmodelled))


def advise(workload: Workload | str | Path, machine: Machine | str = DEFAULT_MACHINE, *, simulated: int = 2) -> Advised:
    """Return what would make a counted kernel faster, best first, each remedy predicted by our model.

    `simulated` is how many of the best remedies are simulated; the others are predicted by the model's fast form.
    """
    return advised(workload_of(workload), machine_of(machine), simulated=simulated)


def advised(w: Workload, m: Machine, **how: Any) -> Advised:
    """Advise on a kernel as the advisor's verb does: given its own prediction, and how much may be tried."""
    from warplens.advisor import advise

    def interval(p: Prediction, w: Workload, m: Machine) -> tuple[float, float] | None:
        found = intervals.interval(p, w, m)
        return None if isinstance(found, str) else (found.low, found.high)

    found = advise(w, m, interval=interval, **how)
    return replace(found, base=noted(with_interval(found.base, w, m), texts(w.unmodelled)))


def what_if(
    workload: Workload | str | Path,
    machine: Machine | str = DEFAULT_MACHINE,
    changes: Mapping[str, float] | None = None,
    *,
    model: str | None = None,
    other: tuple[Workload, Machine] | None = None,
) -> WhatIf:
    """Predict as it is, and with numbers replaced by name: `{"line:23.conflict": 1, "machine.sms": 144}`.

    `other` is the workload and the machine that the changes are made to, where that is another GPU.
    """
    from warplens.advisor.differences import what_if

    w, m = workload_of(workload), machine_of(machine)
    own = w.profile is not None and bool(w.code)  # counted from machine code: our model speaks
    found = what_if(w, m, changes or {}, model=model or ("warplens" if own else DEFAULT_MODEL), other=other)
    then = w if other is None else other[0]
    before, after = noted(found.before, texts(w.unmodelled)), noted(found.after, texts(then.unmodelled))
    return replace(found, before=before, after=after)


def diff(
    before: Workload | str | Path, after: Workload | str | Path, machine: Machine | str = DEFAULT_MACHINE
) -> Difference:
    """Compare two counted kernels on one machine: code, counts, limits, time, and why."""
    from warplens.advisor.differences import difference

    a, b, m = workload_of(before), workload_of(after), machine_of(machine)
    return difference(a, b, predict(a, m, "warplens"), predict(b, m, "warplens"))


def occupancy_curve(
    workload: Workload | str | Path,
    machine: Machine | str = DEFAULT_MACHINE,
    model: str = DEFAULT_MODEL,
    *,
    warps_per_sm: Number | None = None,
) -> Curve:
    """Return throughput against warps per SM, and the occupancy needed at 100, 95 and 90 % of peak."""
    return models.occupancy_curve(workload_of(workload), machine_of(machine), model, warps_per_sm=warps_per_sm)


def occupancy(workload: Workload | str | Path, machine: Machine | str = DEFAULT_MACHINE) -> Occupancy | None:
    """Return how many blocks and warps fit on an SM and what limits that; None without a launch."""
    return occupancy_of(workload_of(workload), machine_of(machine))


def occupancy_table(
    program: Program | None,
    machine: Machine | str = DEFAULT_MACHINE,
    *,
    block: int | None = None,
    registers: int | None = None,
    shared_bytes: int | None = None,
    dynamic_shared_bytes: int = 0,
) -> OccupancyTable:
    """Return what fits on an SM for one block size, and for all others that the kernel and the machine allow.

    `registers` per thread and static `shared_bytes` per block replace the kernel's; they do without a program.
    """
    refuse(isinstance(program, str), "a program is wanted, as load_program returns it, not the name of a file")
    refuse(block is not None and not isinstance(block, int), f"block: a whole number of threads, not {block!r}")
    used = Resources() if program is None else program.resources
    static = used.static_shared_bytes if shared_bytes is None else shared_bytes
    needs = machines.Needs(
        registers_per_thread=used.registers if registers is None else registers,
        shared_bytes_per_block=static + dynamic_shared_bytes,
        barriers_per_block=used.barriers,
        threads_max=used.threads_max,
        threads_required=math.prod(used.threads_required) if used.threads_required else None,
    )
    name, arch = ("", "") if program is None else (program.demangled, program.arch)
    return machines.occupancy_table(machine_of(machine), needs, kernel=name, arch=arch, block=block)


def simulate(
    workload: Workload | str | Path,
    machine: Machine | str = DEFAULT_MACHINE,
    *,
    warps_per_sm: float | None = None,
    changes: Mapping[str, float] | None = None,
    options: SimulationOptions | None = None,
) -> Simulation:
    """Simulate a workload on one SM: time, and what its warps wait for.

    `changes` replaces numbers by name (`{"shared.latency": 60}`).
    """
    work = workload_of(workload)
    found = _simulate(work, machine_of(machine), warps_per_sm=warps_per_sm, changes=changes, options=options)
    said = texts(work.unmodelled)
    return replace(found, notes=[*found.notes, *said]) if said else found


def workload_of(given: Workload | str | Path) -> Workload:
    """Return a workload that is given as such, by its name or by its file.

    One that was put together in Python is checked as a file is. Of an array, its least element is looked at.
    """
    if isinstance(given, (str, Path)):
        return load_any(given)
    refuse(not isinstance(given, Workload), f"a workload, its name or its path is wanted, not {type(given).__name__}")
    if given.code or given.profile is not None or (given.mix is not None and given.executed()):
        return given  # counted by us
    arrays = list[Any]()

    def least(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "iuf" or value.size == 0:
            raise WarplensError(f"Workload: numbers or arrays of numbers are wanted, not {type(value).__name__}")
        arrays.append(value)
        return float(value.min() if np.isfinite(value).all() else np.nan)

    parsed = parse_workload(msgspec.to_builtins(given, enc_hook=least), "Workload")
    return given if arrays else parsed
