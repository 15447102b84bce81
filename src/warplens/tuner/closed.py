"""Closed-form sweeps: a workload with numbers as axes, predicted by broadcasting, a hundred thousand points at a time.

    [[workload]]
    workload = "volkov-add-load"            # a name of ours, or a file beside this one
    [workload.axis]
    alpha = { from = 0, to = 512, count = 1000 }
    warps_per_sm = [8, 16, 32, 64]
    "instructions.fp32" = [16, 32]

Such points cost a microsecond each. They are not kept in the journal but made when the results are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from warplens.core.errors import FileError, WarplensError
from warplens.machine import KINDS, load_machine
from warplens.models import predict
from warplens.workload import Workload, load_workload, mix
from warplens.workload.unmodelled import texts

Array = npt.NDArray[Any]
CHUNK = 100_000
_NUMBERS = ("barriers", "iterations", "ilp", "mlp")
_LEAST, _MOST = {"warps_per_sm": 1e-6, "iterations": 1e-6, "ilp": 1.0, "mlp": 1.0}, 1e18  # as in a workload's file


class Range(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "stop": "to"}):
    """Numbers at equal distances, both ends among them."""

    start: float
    stop: float
    count: Annotated[int, Meta(ge=1, le=10_000_000)]


class WorkloadSpace(Struct, frozen=True, forbid_unknown_fields=True):
    """A workload and the numbers of it that vary; the last axis varies fastest."""

    workload: str
    axis: Annotated[dict[str, Range | Annotated[list[float], Meta(min_length=1)]], Meta(min_length=1)]

    @property
    def size(self) -> int:
        """Points for each GPU and model."""
        return math.prod(v.count if isinstance(v, Range) else len(v) for v in self.axis.values())

    def at(self, numbers: Array) -> dict[str, Array]:
        """Return the values on each axis of the points with these numbers."""
        found: dict[str, Array] = {}
        for name, values in reversed(self.axis.items()):
            those = (
                np.linspace(values.start, values.stop, values.count) if isinstance(values, Range) else np.array(values)
            )
            found[name] = those[numbers % len(those)]
            numbers = numbers // len(those)
        return {name: found[name] for name in self.axis}


def load(space: WorkloadSpace, folder: str) -> Workload:
    """Load the workload of a space: by its name, or beside the sweep file."""
    beside = Path(folder) / space.workload
    return load_workload(beside if beside.is_file() else space.workload)


def check(space: WorkloadSpace, folder: str, where: str) -> None:
    """Refuse an axis that the workload does not have, and values that no workload can have."""
    workload = load(space, folder)
    for name, values in space.axis.items():
        table, _, kind = name.partition(".")
        known = name == "warps_per_sm" or (name == "alpha" and workload.mix is not None) or name in _NUMBERS
        if not known and not (table == "instructions" and kind in KINDS):
            raise FileError(
                f"{where}.axis.{name}: unknown; there are: warps_per_sm, alpha (of a mix), instructions.CLASS, "
                + ", ".join(_NUMBERS)
            )
        least = _LEAST.get(name, 0.0)
        for value in (values.start, values.stop) if isinstance(values, Range) else values:
            if not least <= value <= _MOST:
                raise FileError(f"{where}.axis.{name}: must be a number from {least:g} to {_MOST:g}, not {value:g}")


def chunks(
    space: WorkloadSpace, folder: str, gpus: list[str], models: list[str], first: int
) -> Iterator[dict[str, Any]]:
    """Yield the points a chunk at a time, as columns; `first` is the number of the first one."""
    workload = load(space, folder)
    for gpu in gpus:
        for model in models:
            for start in range(0, space.size, CHUNK):
                numbers = np.arange(start, min(space.size, start + CHUNK))
                values = space.at(numbers)
                common = {"number": first + numbers, "kernel": Path(space.workload).stem, "gpu": gpu, "model": model}
                yield {**common, **_predicted(workload, values, gpu, model, len(numbers)), **values}


def _predicted(workload: Workload, values: dict[str, Array], gpu: str, model: str, count: int) -> dict[str, Any]:
    """Return seconds, cycles, bound, error and note of so many points: columns, or one value for all of them."""
    try:
        p = predict(_varied(workload, values), load_machine(gpu), model, warps_per_sm=values.get("warps_per_sm"))
        if p.seconds is None or p.cycles is None:
            raise WarplensError(f"{model} gives no time")
    except WarplensError as error:
        return {"seconds": None, "cycles": None, "bound": None, "error": str(error), "note": None}
    numbers = {
        name: np.broadcast_to(np.asarray(x, float), count) for name, x in (("seconds", p.seconds), ("cycles", p.cycles))
    }
    bound = p.bound if isinstance(p.bound, str) else np.broadcast_to(p.bound, count)
    return {**numbers, "bound": bound, "error": None, "note": "; ".join(texts(workload.unmodelled)) or None}


def _varied(workload: Workload, values: dict[str, Array]) -> Workload:
    if "alpha" in values and workload.mix is not None:
        given = workload.mix
        workload = mix(values["alpha"], given.op, given.other, stride=given.stride)
    counts = {n.partition(".")[2]: v for n, v in values.items() if n.startswith("instructions.")}
    numbers = {name: value for name, value in values.items() if name in _NUMBERS}
    return workload.with_values(instructions={**workload.instructions, **counts}, **numbers)
