"""A gate for continuous integration: is a kernel as fast, by the model, as it has to be or as it was?"""

from __future__ import annotations

import re

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.core.units import seconds as written
from warplens.machine import Machine
from warplens.models import Prediction, predict
from warplens.workload import Workload
from warplens.workload.unmodelled import texts

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_GREW = 1.005  # a limit that grew by less is not named


class Gate(Struct, frozen=True):
    """The verdict: the kernel's time, what it was held against, and why it is too slow; no reasons: it passes.

    `notes` say what neither workload's time has in it, because it is not modelled.
    """

    kernel: str
    gpu: str
    model: str
    seconds: float
    bound: str
    max_seconds: float | None
    against_seconds: float | None
    tolerance: float
    reasons: list[str]
    notes: list[str] = []

    @property
    def passed(self) -> bool:
        """Whether nothing is said against it."""
        return not self.reasons


def gate(
    workload: Workload,
    machine: Machine,
    model: str,
    *,
    max_seconds: float | None = None,
    against: Workload | None = None,
    tolerance: float = 0.0,
) -> Gate:
    """Hold a workload's predicted time against a limit, and against another workload's time on the same machine."""
    if max_seconds is None and against is None:
        raise WarplensError("nothing to check against: give --max-time, --against or both")
    now, reasons = predict(workload, machine, model), list[str]()
    time = _time(now)
    if max_seconds is not None and time > max_seconds:
        percent = 100 * (time / max_seconds - 1)
        reasons.append(
            f"{written(time)} by {now.model} is {percent:.1f} % over the limit of {written(max_seconds)}; "
            f"limited by {now.limited_by}"
        )
    before = None if against is None else predict(against, machine, model)
    if before is not None and time > _time(before) * (1 + tolerance):
        percent = 100 * (time / _time(before) - 1)
        reasons.append(
            f"{written(time)} by {now.model} is {percent:.1f} % slower than {written(_time(before))} before "
            f"({100 * tolerance:g} % allowed): {_why(before, now)}"
        )
    notes = list(dict.fromkeys(note for w in (workload, against) if w is not None for note in texts(w.unmodelled)))
    return Gate(
        workload.name, machine.id, now.model, time, now.limited_by, max_seconds,
        None if before is None else _time(before), tolerance, reasons, notes,
    )  # fmt: skip


def _time(p: Prediction) -> float:
    if p.seconds is None:
        raise WarplensError(f"{p.model} gives no time for {p.workload}")
    return float(p.seconds)


def _why(before: Prediction, now: Prediction) -> str:
    """Name the limit that the kernel has now, and those that grew, the most first."""
    grew = {
        name: float(cycles) / float(before.limits[name])
        for name, cycles in now.limits.items()
        if float(before.limits.get(name, 0.0)) > 0 and float(cycles) > _GREW * float(before.limits[name])
    }
    most = sorted(grew.items(), key=lambda item: -float(now.limits[item[0]]))[:3]
    said = ", ".join(f"{name} {100 * (ratio - 1):+.1f} %" for name, ratio in most)
    bound, then = f"limited by {now.limited_by}", before.limited_by
    bound += "" if now.limited_by == then else f", before by {then}"
    return f"{bound}; {said}" if said else bound


def parse_time(text: str) -> float:
    """Read a time such as `120us` or `1.5 ms`, in seconds."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(s|ms|us|µs|ns)\s*", text)
    if not found or float(found[1]) <= 0:
        raise WarplensError(f"a time is written like 120us, 1.5ms or 2s, not {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def parse_share(text: str) -> float:
    """Read a share such as `2%` or `0.02`."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    if not found:
        raise WarplensError(f"a share is written like 2% or 0.02, not {text!r}")
    return float(found[1]) / (100 if found[2] else 1)
