"""Two kernels side by side: what changed in the code, in what it does, in the limits and in the time, and why.

matmul_tiled (conflicts) to matmul_tiled: 2.55x faster, 707 us to 277 us
  because shared memory and l1 takes 2.94x less: 5.0x fewer passes through shared memory and L1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from warplens.core.errors import MissingField
from warplens.machine import KINDS
from warplens.models.prediction import Prediction
from warplens.workload import Number
from warplens.workload.workload import Workload

_SECTOR_BYTES = 32
_SAME = 0.005  # of the time: a difference that is shown as 1.00x


class Change(Struct, frozen=True):
    """One number of both kernels; `what` names it, `unit` as in units.quantity."""

    what: str
    before: float
    after: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        """After over before; None where there was nothing before."""
        return self.after / self.before if self.before else None


class Difference(Struct, frozen=True, kw_only=True):
    """Two kernels: `code` (of one warp and one block), `counts` (of the grid), `limits` and `parts` in seconds; why."""

    before: Prediction
    after: Prediction
    code: tuple[Change, ...]
    counts: tuple[Change, ...]
    limits: tuple[Change, ...]
    parts: tuple[Change, ...]
    why: str

    @property
    def speedup(self) -> float:
        """Time before over time after."""
        return float(self.before.seconds or 0.0) / float(self.after.seconds or 1.0)


def difference(a: Workload, b: Workload, before: Prediction, after: Prediction) -> Difference:
    """Compare two counted kernels, given the predictions of both on one machine."""
    counts = _paired(_counts(a), _counts(b), _UNITS)
    limits = _paired(_seconds(before, before.limits), _seconds(after, after.limits), {}, "s")
    return Difference(
        before=before,
        after=after,
        code=_paired(_code(a), _code(b), {"shared memory per block": "B"}),
        counts=counts,
        limits=limits,
        parts=_paired(_seconds(before, before.parts), _seconds(after, after.parts), {}, "s"),
        why=_why(before, after, limits, counts),
    )


_UNITS = {"read from DRAM": "B", "written to DRAM": "B", "asked of L2": "B"}


def _paired(a: dict[str, float], b: dict[str, float], units: dict[str, str], unit: str = "") -> tuple[Change, ...]:
    names = [*a, *(name for name in b if name not in a)]
    return tuple(Change(n, a.get(n, 0.0), b.get(n, 0.0), units.get(n, unit)) for n in names if a.get(n) or b.get(n))


def _seconds(p: Prediction, cycles: Mapping[str, Number]) -> dict[str, float]:
    scale = float(p.seconds or 0.0) / float(p.cycles or 1.0)
    return {name: scale * float(value) for name, value in cycles.items()}


def _code(w: Workload) -> dict[str, float]:
    """Return what the code is and what it occupies."""
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
    """Return what the whole grid does."""
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
        "asked of L2": _SECTOR_BYTES * profile.total("l2_sectors"),
        "read from DRAM": profile.dram_read_bytes,
        "written to DRAM": profile.dram_written_bytes,
    }


# Which count drives a limit.
_DRIVERS = {
    "shared memory and l1": "passes through shared memory and L1", "l2 bandwidth": "asked of L2",
    "l1 misses": "asked of L2", "dram bandwidth": "read from DRAM", "issue": "instructions executed",
    "fp32": "of class fp32", "integer": "of class int", "integer products": "of class imul", "sfu": "of class sfu",
    "fp64": "of class fp64", "tensor cores": "of class tensor", "latency": "instructions executed",
}  # fmt: skip


def _why(before: Prediction, after: Prediction, limits: tuple[Change, ...], counts: tuple[Change, ...]) -> str:
    """Say in a sentence what made the difference: the limit of the slower one, and the count that drives it."""
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
