"""Intervals of predictions, from the measured errors of similar launches.

Similar is what is limited by the same part of the machine and takes about as long. The errors, log(predicted/measured),
are those of the train set (papers/validation/kernels.py); they ship as a small file, made by
`warplens validate --kernels --calibrate`. The interval holds the middle 90 % of them, by conformal quantiles: with n
errors, the k-th smallest and the k-th largest, k = floor((n + 1) 5 %), so that a launch drawn like them falls
outside either end in at most 5 % of cases. Where similar launches are too few for that, less similar ones count
too. Launches of the kernel that is asked about never count: it is judged as if it had not been measured.

The interval is widened by what else is not known: the sampling error of the emulated counts, and the shares of
instructions and addresses that the emulator did not know. What of a kernel is not modelled widens it by a factor each,
or there is none (workload/counted.py).

On a GPU whose file takes numbers from the measured one, no launch was timed. Its interval is the measured one's, with
the error of such a number added to both sides: nine in ten of those that others published are within a third of what
the rule says (tests/null/test_base.py, docs/reference/machine-file.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import FileError
from warplens.core.files import read_text
from warplens.machine import Machine
from warplens.models.prediction import Prediction
from warplens.workload import Workload

FILE = Path(__file__).parent / "confidence.json"
SURE = 0.9
_TAIL = (1 - SURE) / 2
FEWEST = round(1 / _TAIL) - 1  # errors from which on a quantile of the tail exists
SHORT_SECONDS = 10e-6
_NORMAL = 1.6449  # standard errors that leave 5 % on either side
_TAKEN = math.log(4 / 3)  # the 90 % error of a number that was taken from another GPU by rule
_MEMORY = frozenset(("dram bandwidth", "l2 bandwidth", "l1 misses"))


class Residual(Struct, frozen=True, array_like=True):
    """The error of one launch of the train set: its function, what limits it, seconds, log(predicted/measured)."""

    function: str
    bound: str
    seconds: float
    log_ratio: float


class Calibration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measured errors by model, on one machine."""

    format: int = 1
    gpu: str
    command: str
    models: dict[str, list[Residual]]


class Interval(Struct, frozen=True):
    """Low and high in seconds, and what it rests on."""

    low: float
    high: float
    about: str


def interval(p: Prediction, workload: Workload, machine: Machine) -> Interval | str:
    """Return the 90 % interval of a prediction, or why there is none."""
    known = shipped()
    if known.gpu not in (machine.id, machine.base):
        return f"no interval: errors were measured on the {known.gpu.upper()} only"
    if p.model not in known.models:
        return f"no interval: {p.model} was not calibrated; {', '.join(known.models)} were"
    if p.seconds is None or np.ndim(p.seconds) or p.per != "kernel":
        return "no interval: it is for one launch with a time"
    error, unknown = uncertainty(workload)
    seconds, own = float(p.seconds), machine.id == known.gpu
    numbers = 0.0 if own else _TAKEN
    found = around(seconds, str(p.bound), workload.name, known.models[p.model], error, unknown, numbers=numbers)
    if own or isinstance(found, str):
        return _widened(found, workload)
    why = f"on the {known.gpu.upper()}, a third wider to either side: no launch was timed on this GPU"
    return _widened(replace(found, about=f"{found.about}, {why}"), workload)


def with_interval(p: Prediction, workload: Workload, machine: Machine) -> Prediction:
    """Return the prediction with its interval, or with the reason why it has none."""
    found = interval(p, workload, machine)
    if isinstance(found, str):
        return replace(p, interval_about=found)
    return replace(p, interval_seconds=(found.low, found.high), interval_about=found.about)


def uncertainty(workload: Workload) -> tuple[float, float]:
    """Return the relative standard error of the counts, and the share of instructions and addresses not known."""
    profile = workload.profile
    if profile is None:
        return 0.0, 0.0
    return profile.error, min(1.0, (1 - profile.known_instructions) + (1 - profile.known_addresses))


def _widened(found: Interval | str, workload: Workload) -> Interval | str:
    """Return an interval widened by what of the kernel is not modelled, or why there is none."""
    open_ones = [f"{u.thing} ({u.where})" if u.where else u.thing for u in workload.unmodelled if u.factor is None]
    if open_ones:
        return f"no interval: not modelled: {', '.join(open_ones)}"
    factor = math.prod(u.factor or 1.0 for u in workload.unmodelled)
    if factor == 1.0 or isinstance(found, str):
        return found
    about = f"{found.about}, widened {factor:.3g} times by what is not modelled"
    return Interval(found.low / factor, found.high * factor, about)


def around(
    seconds: float, bound: str, function: str, known: Sequence[Residual], error: float = 0.0, unknown: float = 0.0,
    *, numbers: float = 0.0,
) -> Interval | str:  # fmt: skip
    """Return the interval around a time, from the errors of others.

    What else is uncertain widens it: the counts' sampling `error`, the share `unknown`, the machine's `numbers`.
    """
    chosen, about = similar(known, bound, seconds, function)
    if len(chosen) < FEWEST:
        return f"no interval: {len(chosen)} measured launches of other kernels are too few"
    low, high = tails([(r.log_ratio, r.function) for r in chosen])
    more = -math.log(max(1e-3, 1 - unknown))
    slow = math.hypot(min(0.0, low), _NORMAL * error, numbers) + more  # the prediction may be too short by so much
    fast = math.hypot(max(0.0, high), _NORMAL * error, numbers) + more
    return Interval(seconds * math.exp(-fast), seconds * math.exp(slow), f"{len(chosen)} measured launches {about}")


def tails(errors: Sequence[tuple[float, str]]) -> tuple[float, float]:
    """Return the conformal 5 % and 95 % quantiles of errors, each with the name of its kernel.

    Launches of a kernel resemble one another: what is drawn is a kernel. So all launches of one weigh as much as one.
    """
    launches = Counter(name for _, name in errors)
    ordered = sorted((error, 1 / launches[name]) for error, name in errors)
    outside = (len(launches) + 1) * _TAIL + 1e-9
    return _beyond(ordered, outside), _beyond(ordered[::-1], outside)


def _beyond(ordered: Sequence[tuple[float, float]], most: float) -> float:
    """Return the last error up to which the weights add up to no more than so much; the first if none."""
    found, total = ordered[0][0], 0.0
    for error, weight in ordered:
        total += weight
        if total > most:
            break
        found = error
    return found


def similar(known: Sequence[Residual], bound: str, seconds: float, function: str) -> tuple[list[Residual], str]:
    """Return the errors of the most similar launches of other kernels that are enough, and what they have in common."""
    others = [r for r in known if r.function != function]
    part, short = limited_by(bound), seconds < SHORT_SECONDS
    size = "under 10 us" if short else "of 10 us or more"
    or_launch = " or launch" if short or part == "latency" else ""  # what a prediction then names as its limit
    as_long = [r for r in others if (r.seconds < SHORT_SECONDS) == short]
    for chosen, about in (
        ([r for r in as_long if r.bound == bound], f"limited by {bound}{or_launch}, {size}"),
        ([r for r in as_long if limited_by(r.bound) == part], f"limited by {part}{or_launch}, {size}"),
        ([r for r in others if limited_by(r.bound) == part], f"limited by {part}{or_launch}"),
    ):
        if len(chosen) >= FEWEST:
            return chosen, about
    return others, "of all kinds"


def limited_by(bound: str) -> str:
    """Return the part of the machine that a bound belongs to: latency, memory, or the units of an SM."""
    return "latency" if bound == "latency" else "memory" if bound in _MEMORY else "units of an SM"


def load(path: Path) -> Calibration:
    """Read a calibration."""
    try:
        return msgspec.json.decode(read_text(path), type=Calibration)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: {error}") from None


@cache
def shipped() -> Calibration:
    """Return the calibration that ships with warplens."""
    return load(FILE)
