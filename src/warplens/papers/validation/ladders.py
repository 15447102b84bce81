"""Ladders: optimisations that were applied and timed, beside the advice on the kernel before each.

A step is a launch before and after, and the remedies that lie between (files/ladders.toml). The advice is asked of the
kernel before, the measured speedup is the time before over the time after. Reported are:

- how many predicted speedups are within 20 % of the measured ones
- whether the remedy that helped most is among the first three that the advisor names
- bad advice: a gain of more than 10 % was predicted, and time was lost
- Nsight Compute's estimated speedup, where one of its rules speaks to that step

Launches of the test set count, but are not named unless asked for: nobody looks at them while a model is changed.
"""

from __future__ import annotations

import lzma
import math
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from warplens.advisor import advise, benefits, tried
from warplens.advisor.advice import Advised, Benefits
from warplens.advisor.case import Refusal
from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.validation.kernels import Launch, Part, _Workloads, is_test, launches, measured_folder
from warplens.papers.validation.points import Watch
from warplens.papers.validation.stored import data_file, read

FILE = Path(__file__).parent / "ladders.toml"
CLOSE, BAD, FIRST = 0.20, 1.10, 3
_HELPED = 1.02  # a measured speedup from which a step helped


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One optimisation: names of launches, and the remedies in between, applied `like` this."""

    before: str
    after: str
    remedies: tuple[str, ...]
    like: dict[str, Any] = {}


class Ladder(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps of one kernel, and where they come from."""

    name: str
    source: str
    steps: tuple[Step, ...]


class Outcome(Struct, frozen=True, kw_only=True):
    """One step: what was said and what came of it.

    `predicted` is None where no remedy of ours speaks of it, and 1 where one does not apply (the reason is `silent`).
    `rank` is the place of the step's remedy in the advice (from 1), None if it is not said to help; the forms of one
    change have one place. `best`: of all
    steps from that kernel it helped most. `estimated` is the largest speedup of Nsight's rules that speak to it.
    """

    ladder: str
    step: Step
    part: Part
    measured: float
    predicted: float | None
    silent: str = ""
    rank: int | None = None
    best: bool = False
    estimated: float | None = None

    @property
    def close(self) -> bool:
        """True if the predicted speedup is within 20 % of the measured one."""
        return self.predicted is not None and abs(self.predicted / self.measured - 1) <= CLOSE

    @property
    def bad(self) -> bool:
        """True if more than 10 % were promised and time was lost."""
        return self.predicted is not None and self.predicted > BAD and self.measured < 1

    @property
    def named(self) -> bool:
        """True if the advisor named it among its first three."""
        return self.rank is not None and self.rank <= FIRST


class Order(Struct, frozen=True):
    """Order of one kernel's variants by predicted times, against the measured one.

    `rank_correlation` is Spearman's; `chosen_percent` how much longer than the best the chosen variant takes.
    """

    name: str
    variants: int
    rank_correlation: float
    chosen_percent: float
    in_order: bool
    steps_close: int
    steps: int


class Climbed(Struct, frozen=True):
    """All ladders: the outcomes, the orders, and the benefit chart of the reductions."""

    outcomes: tuple[Outcome, ...]
    orders: tuple[Order, ...]
    chart: dict[str, Benefits]
    missing: tuple[str, ...] = ()


# Which rules of Nsight Compute speak to a remedy, and what their text must have.
_RULES = {
    "coalesce": r"^(UncoalescedGlobalAccess|MemoryCacheAccessPattern)",
    "remove-conflicts": r"^(SharedMemoryConflicts|UncoalescedSharedAccess)",
    "raise-occupancy": r"^TheoreticalOccupancy",
    "fix-tail": r"^(LaunchConfiguration|WorkloadImbalance)",
    "remove-divergence": r"^ThreadDivergence",
    "more-ilp": r"^CPIStall.*fixed latency",
    "more-loads-in-flight": r"^CPIStall.*scoreboard dependency on a L1TEX",
    "asynchronous-copies": r"^CPIStall.*scoreboard dependency on a L1TEX",
    "fewer-barriers": r"^CPIStall.*barrier",
    "avoid-spills": r"^MemoryCacheAccessPattern.*local",
}
REDUCTIONS = ("reduction_k0_k2", "reduction_k0_k2.k1", "reduction_k0_k2.k2", "reduction_k3_k5", "reduction_k3_k5.k4",
              "reduction_k3_k5.k5", "reduction_k6")  # fmt: skip
_STEP_CLOSE = 0.15  # of a step's speedup, for the order of one kernel's versions


@cache
def ladders() -> tuple[Ladder, ...]:
    """Read the table of ladders."""
    return tuple(msgspec.convert(tomllib.loads(FILE.read_text())["ladder"], list[Ladder]))


@cache
def ladder_launches(gpu: str = "h200") -> dict[str, Launch]:
    """Return the measured launches by name, those that only ladders have too."""
    folder = measured_folder(gpu).replace("kernels", "ladders")
    found = {launch.name: launch for launch in launches(gpu)}
    try:
        times = read(f"{folder}/durations.json.gz")["launches"]
        raw = lzma.decompress(data_file(f"{folder}/workloads.json.xz").read_bytes())
    except (WarplensError, OSError):
        return found
    for name, workload in msgspec.json.decode(raw, type=_Workloads).workloads.items():
        if name in times:
            found[name] = Launch(name, workload, 1e-6 * times[name]["warm_us"], 1e-6 * times[name]["cold_us"])
    return found


def climb(
    gpu: str = "h200", *, part: Part | None = None, simulated: bool = True, watch: Watch | None = None
) -> Climbed:
    """Ask for advice on every launch that a step begins with, and compare. `part` takes only steps of that set."""
    machine, known = load_machine(gpu), ladder_launches(gpu)
    steps = [(ladder.name, s) for ladder in ladders() for s in ladder.steps if part in (None, part_of(s))]
    missing = sorted({name for _, s in steps for name in (s.before, s.after) if name not in known})
    steps = [(name, s) for name, s in steps if s.before in known and s.after in known]
    best = _best(known, [s for _, s in steps])
    outcomes, given = list[Outcome](), dict[str, Advised]()
    for done, (name, step) in enumerate(steps, start=1):
        if step.before not in given:
            given[step.before] = advise(known[step.before].workload, machine, simulated=2 if simulated else 0)
        outcomes.append(_outcome(name, step, known, machine, given[step.before], best[step.before] is step, simulated))
        if watch is not None:
            watch(done, len(steps))
    orders = _orders(known, machine, simulated) if part is None else ()
    chart = {f"K{k}": b for k, n in enumerate(REDUCTIONS) if (b := benefits(known[n].workload, machine)) is not None}
    return Climbed(tuple(outcomes), tuple(orders), chart, tuple(missing))


def part_of(step: Step) -> Part:
    """Return the set that a step belongs to: the test set if one of its launches does."""
    return "test" if any(is_test(name.partition(".")[0]) for name in (step.before, step.after)) else "train"


def _best(known: dict[str, Launch], steps: Sequence[Step]) -> dict[str, Step]:
    """Return, for each launch that steps begin with, the step that helped most."""
    found: dict[str, Step] = {}
    for step in steps:
        if step.before not in found or _gain(known, step) > _gain(known, found[step.before]):
            found[step.before] = step
    return found


def _gain(known: dict[str, Launch], step: Step) -> float:
    return known[step.before].seconds / known[step.after].seconds


def _outcome(
    ladder: str, step: Step, known: dict[str, Launch], machine: Machine, given: Advised, best: bool, simulated: bool
) -> Outcome:
    predicted, silent = None, "" if step.remedies else "no remedy of ours speaks of it"
    if step.remedies:
        before = known[step.before].workload
        both = tried(before, machine, step.remedies, base=given.base, like=step.like, simulated=simulated)
        if isinstance(both, Refusal):  # advice too: it would buy nothing
            predicted, silent = 1.0, both.reason
        else:
            predicted = float(both[0].cycles or 0.0) / float(both[1].cycles or 1.0)
    estimates = [e for name in step.remedies if (e := _estimate(step.before, name)) is not None]
    ranks = [
        rank_of for rank_of, a in enumerate(given.helpful, start=1)
        if {a.name, *(form.name for form in given.forms(a))} & set(step.remedies)
    ]  # fmt: skip
    return Outcome(
        ladder=ladder,
        step=step,
        part=part_of(step),
        measured=_gain(known, step),
        predicted=predicted,
        silent=silent,
        rank=min(ranks, default=None),
        best=best and _gain(known, step) >= _HELPED,
        estimated=max(estimates, default=None),
    )


@cache
def _rules() -> dict[str, list[dict[str, Any]]]:
    """Return what Nsight's rules say of launches; a percent is of the time saved."""
    try:
        return dict(read("h200/suite/ladders/rules.json.gz")["launches"])
    except (WarplensError, OSError):
        return {}


def _estimate(launch: str, remedy: str) -> float | None:
    """Return the speedup that Nsight's rules estimate where they speak to a remedy."""
    wanted = _RULES.get(remedy)
    saved = [
        r["percent"] for r in _rules().get(launch, [])
        if wanted and r["kind"] == "global" and re.search(wanted, f"{r['rule']} {r['text']}")
    ]  # fmt: skip
    return 1 / (1 - min(99.0, max(saved)) / 100) if saved else None


def _orders(known: dict[str, Launch], machine: Machine, simulated: bool) -> list[Order]:
    variants = [name for name in known if name.partition(".")[0] == "ulist"]
    return [
        _order("fast multipole, 44 variants", variants, known, machine, simulated),
        _order("reduction, K0 to K6", REDUCTIONS, known, machine, simulated),
    ]


def _order(name: str, names: Sequence[str], known: dict[str, Launch], machine: Machine, simulated: bool) -> Order:
    """Predict all variants; how far the order is right, and what choosing by it would cost."""
    model = "warplens" if simulated else "warplens-fast"
    ours = np.array([float(predict(known[n].workload, machine, model).seconds or math.nan) for n in names])
    real = np.array([known[n].seconds for n in names])
    steps = (ours[:-1] / ours[1:]) / (real[:-1] / real[1:])
    return Order(
        name,
        len(names),
        _spearman(ours, real),
        100 * float(real[int(ours.argmin())] / real.min() - 1),
        bool((np.argsort(ours) == np.argsort(real)).all()),
        int((np.abs(steps - 1) <= _STEP_CLOSE).sum()),
        len(steps),
    )


def _spearman(a: Any, b: Any) -> float:
    """Return the correlation of ranks (no two times are equal)."""
    first, second = (np.argsort(np.argsort(x)) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
