"""Comparisons of predictions: what if some numbers changed, two kernels side by side, and a gate for CI.

matmul_tiled (conflicts) to matmul_tiled: 2.55x faster, 707 us to 277 us
  because shared memory and l1 takes 2.94x less: 5.0x fewer passes through shared memory and L1
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from warplens.advisor.case import SECTOR_BYTES
from warplens.advisor.overlay import with_fewer
from warplens.core.errors import MissingField, WarplensError, refuse
from warplens.core.units import seconds as seconds_text
from warplens.machine import KINDS, Machine
from warplens.models import predict
from warplens.models.bounds import residency
from warplens.models.prediction import Prediction
from warplens.simulator.overlay import checked, overlay
from warplens.workload import Number
from warplens.workload.counted import texts
from warplens.workload.workload import Workload

_SAME = 0.005  # of the time: a difference that is shown as 1.00x
_GREW = 1.005  # a limit that grew by less is not named
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
OCCUPANCY, MACHINE = "occupancy", "machine"  # warps per SM; another GPU


class WhatIf(Struct, frozen=True):
    """Changed numbers, and the predictions before and after."""

    changes: dict[str, float | str]
    before: Prediction
    after: Prediction

    @property
    def speedup(self) -> float:
        """Time before over time after."""
        return float(self.before.seconds or 0.0) / float(self.after.seconds or 1.0)


def what_if(
    workload: Workload,
    machine: Machine,
    changes: Mapping[str, float],
    *,
    model: str,
    other: tuple[Workload, Machine] | None = None,
) -> WhatIf:
    """Predict a workload as it is, and with changes (simulator/overlay.py; also `occupancy`, warps per SM).

    `other` is the workload and the machine to change, where that is another GPU.
    """
    left = dict(changes)
    if MACHINE in left:
        raise WarplensError(f"{MACHINE}: analyze the kernel for that GPU, and pass both as `other`")
    warps = checked(OCCUPANCY, left.pop(OCCUPANCY)) if OCCUPANCY in left else None
    target, gpu = other or (workload, machine)
    gpu, changed = overlay(gpu, target, left)
    assert changed is not None
    if warps is not None and not 1 <= warps <= gpu.sm.warps_max:
        raise WarplensError(f"{OCCUPANCY}: between 1 and {gpu.sm.warps_max:g} warps per SM, not {warps:g}")
    if (OCCUPANCY in changes or "launch.blocks" in changes) and changed.profile and changed.launch:
        changed = with_fewer(changed, max(1, int(float(residency(changed, gpu, warps).blocks_per_sm))))
    if "launch.blocks" in left and changed.launch:
        asked = left["launch.blocks"] * changed.launch.warps_per_block
        refuse(
            asked > gpu.sm.warps_max, f"launch.blocks: {asked:g} warps per SM, and {gpu.id} has {gpu.sm.warps_max:g}"
        )
    after = predict(changed, gpu, model, warps_per_sm=warps)
    return WhatIf({**({} if other is None else {MACHINE: gpu.id}), **changes}, predict(workload, machine, model), after)


class Change(Struct, frozen=True):
    """One number of both kernels, in a unit of `core.units.quantity`."""

    what: str
    before: float
    after: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        """After over before; None where there was nothing before."""
        return self.after / self.before if self.before else None


class Difference(Struct, frozen=True, kw_only=True):
    """Two kernels side by side: code, counts, limits and time."""

    before: Prediction
    after: Prediction
    code: tuple[Change, ...]  # of one warp and one block
    counts: tuple[Change, ...]  # of the grid
    limits: tuple[Change, ...]  # in seconds
    parts: tuple[Change, ...]  # in seconds
    why: str  # one sentence

    @property
    def speedup(self) -> float:
        """Time before over time after."""
        return float(self.before.seconds or 0.0) / float(self.after.seconds or 1.0)


def difference(a: Workload, b: Workload, before: Prediction, after: Prediction) -> Difference:
    """Compare two counted kernels, given the predictions of both on one machine."""
    counts = _paired(_counts(a), _counts(b), _COUNT_UNITS)
    limits = _paired(_seconds(before, before.limits), _seconds(after, after.limits), {}, "s")
    return Difference(
        before=before,
        after=after,
        code=_paired(_code(a), _code(b), {"shared memory per block": "B"}),
        counts=counts,
        limits=limits,
        parts=_paired(_seconds(before, before.parts), _seconds(after, after.parts), {}, "s"),
        why=_why_different(before, after, limits, counts),
    )


_COUNT_UNITS = {"read from DRAM": "B", "written to DRAM": "B", "asked of L2": "B"}


def _paired(a: dict[str, float], b: dict[str, float], units: dict[str, str], unit: str = "") -> tuple[Change, ...]:
    names = [*a, *(name for name in b if name not in a)]
    return tuple(Change(n, a.get(n, 0.0), b.get(n, 0.0), units.get(n, unit)) for n in names if a.get(n) or b.get(n))


def _seconds(p: Prediction, cycles: Mapping[str, Number]) -> dict[str, float]:
    scale = float(p.seconds or 0.0) / float(p.cycles or 1.0)
    return {name: scale * float(value) for name, value in cycles.items()}


def _code(w: Workload) -> dict[str, float]:
    """Return the size of the code and the resources of a block."""
    launch = w.launch
    if launch is None or w.profile is None:
        raise MissingField("diff", f"workload {w.name}", "profile (count it with `warplens analyze`)")
    executed = [x for x, n in zip(w.code, w.profile.counts["executed"], strict=True) if n]
    return {
        "instructions of the code that run": float(len(executed)),
        "blocks": float(w.profile.grid_blocks),
        "threads per block": float(launch.threads_per_block),
        "registers per thread": float(launch.registers_per_thread),
        "shared memory per block": float(launch.shared_bytes_per_block),
    }


def _counts(w: Workload) -> dict[str, float]:
    """Return the counts of the whole grid."""
    profile = w.profile
    assert profile is not None
    kinds = Counter[str]()
    for x, n in zip(w.code, profile.counts["executed"], strict=True):
        kinds[x.kind] += n  # type: ignore[assignment]
    shared = [i for i, x in enumerate(w.code) if KINDS[x.kind] == "shared memory"]
    return {
        "instructions executed": profile.total("executed"),
        **{f"of class {kind}": float(n) for kind, n in sorted(kinds.items(), key=lambda item: -item[1]) if n},
        "passes through shared memory and L1": profile.total("wavefronts"),
        "of them in shared memory": sum(profile.counts["wavefronts"][i] for i in shared),
        "sectors touched": profile.total("sectors"),
        "asked of L2": SECTOR_BYTES * profile.total("l2_sectors"),
        "read from DRAM": profile.dram_read_bytes,
        "written to DRAM": profile.dram_written_bytes,
    }


# The count that drives a limit.
_DRIVERS = {
    "shared memory and l1": "passes through shared memory and L1", "l2 bandwidth": "asked of L2",
    "l1 misses": "asked of L2", "dram bandwidth": "read from DRAM", "issue": "instructions executed",
    "fp32": "of class fp32", "integer": "of class int", "integer products": "of class imul", "sfu": "of class sfu",
    "fp64": "of class fp64", "tensor cores": "of class tensor", "latency": "instructions executed",
}  # fmt: skip


def _why_different(
    before: Prediction, after: Prediction, limits: tuple[Change, ...], counts: tuple[Change, ...]
) -> str:
    """Explain the difference in a sentence: the limit of the slower kernel, and the count that drives it."""
    same = after.limited_by == before.limited_by
    if abs(float(before.seconds or 0.0) / float(after.seconds or 1.0) - 1) < _SAME:
        return f"no difference in time; {after.limited_by} limits both" if same else "the same time"
    faster = float(after.seconds or 0.0) <= float(before.seconds or 0.0)
    slow, fast = (before, after) if faster else (after, before)
    limit = next((c for c in limits if c.what == str(slow.bound)), None) if slow.limited_by != "launch" else None
    if same and limit is None:
        return f"{slow.limited_by} limits both"
    head = f"{slow.limited_by} limits the slower one"
    if limit is None or not limit.before or not limit.after:
        return f"{head}, {fast.limited_by} the faster one"
    ratio = limit.before / limit.after if faster else limit.after / limit.before
    text = f"{head} and, alone, takes {ratio:.3g} times as long there"
    driver = next((c for c in counts if c.what == _DRIVERS.get(limit.what)), None)
    if driver is not None and driver.before and driver.after:
        more = driver.before / driver.after if faster else driver.after / driver.before
        if more > 1.05:
            noun = "bytes " if driver.unit == "B" else "instructions " if driver.what.startswith("of class") else ""
            text += f", with {more:.3g} times the {noun}{driver.what}"
    return f"{text}; the faster one is limited by {fast.limited_by}"


class Gate(Struct, frozen=True):
    """The verdict of a gate: the kernel's time, the limits, and why it is too slow; without a reason it passes."""

    kernel: str
    machine: str
    model: str
    seconds: float
    bound: str
    max_seconds: float | None
    against_seconds: float | None
    tolerance_fraction: float
    reasons: list[str]
    notes: list[str] = []  # on the parts of a workload that are not modelled

    @property
    def passed(self) -> bool:
        """True without a reason against it."""
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
    """Compare a workload's predicted time with a limit, and with another workload's time on the same machine."""
    if max_seconds is None and against is None:
        raise WarplensError("nothing to check against: give --max-time, --against or both")
    now, reasons = predict(workload, machine, model), list[str]()
    time = _time(now)
    if max_seconds is not None and time > max_seconds:
        percent = 100 * (time / max_seconds - 1)
        reasons.append(
            f"{seconds_text(time)} by {now.model} is {percent:.1f} % over the limit of {seconds_text(max_seconds)}; "
            f"limited by {now.limited_by}"
        )
    before = None if against is None else predict(against, machine, model)
    if before is not None and time > _time(before) * (1 + tolerance):
        percent = 100 * (time / _time(before) - 1)
        reasons.append(
            f"{seconds_text(time)} by {now.model} is {percent:.1f} % slower than {seconds_text(_time(before))} before "
            f"({100 * tolerance:g} % allowed): {_why_slower(before, now)}"
        )
    notes = list(dict.fromkeys(note for w in (workload, against) if w is not None for note in texts(w.unmodelled)))
    return Gate(
        workload.name, machine.id, now.model, time, now.limited_by, max_seconds,
        None if before is None else _time(before), tolerance, reasons, notes,
    )  # fmt: skip


def _time(p: Prediction) -> float:
    """Return the seconds of a prediction; refuse one without."""
    if p.seconds is None:
        raise WarplensError(f"{p.model} gives no time for {p.workload}")
    return float(p.seconds)


def _why_slower(before: Prediction, now: Prediction) -> str:
    """Name the limit that the kernel has now, and those that grew, the most first."""
    grew = {
        name: float(cycles) / float(before.limits[name])
        for name, cycles in now.limits.items()
        if float(before.limits.get(name, 0.0)) > 0 and float(cycles) > _GREW * float(before.limits[name])
    }
    most = sorted(grew.items(), key=lambda item: -float(now.limits[item[0]]))[:3]
    growth = ", ".join(f"{name} {100 * (ratio - 1):+.1f} %" for name, ratio in most)
    bound, then = f"limited by {now.limited_by}", before.limited_by
    bound += "" if now.limited_by == then else f", before by {then}"
    return f"{bound}; {growth}" if growth else bound


def parse_time(text: str) -> float:
    """Read a time such as `120us` or `1.5 ms`, in seconds."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(s|ms|us|µs|ns)\s*", text)
    if not found or float(found[1]) <= 0:
        raise WarplensError(f"a time is written like 120us, 1.5ms or 2s, not {text!r}")
    return float(found[1]) * _TIME_UNITS[found[2]]


def parse_share(text: str) -> float:
    """Read a share such as `2%` or `0.02`."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    if not found:
        raise WarplensError(f"a share is written like 2% or 0.02, not {text!r}")
    return float(found[1]) / (100 if found[2] else 1)
