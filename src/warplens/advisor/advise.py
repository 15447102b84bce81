"""The advisor: every remedy asked, its overlay predicted, the best first; and the best together.

All overlays are predicted by the closed form of our model, which takes milliseconds; the best few again by the
simulator, as the kernel itself. A speedup always compares two predictions of the same form. Gains do not add: the best
ones are predicted together too, the second found anew on the workload that the first has changed, and left out where it
buys nothing beside it. The time that this
takes grows with the code: who cannot wait says how much code all predictions together may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from warplens.advisor import (
    arithmetic,
    control,
    culling,
    grid,
    local,
    memory,
    occupancy,
    parallelism,
    reuse,
    shared,
    split,
    tiles,
)
from warplens.advisor.advice import Advice, Advised
from warplens.advisor.benefits import benefits
from warplens.advisor.case import Case, Proposal, Refusal, Remedy
from warplens.advisor.how import HOW, changes_results
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.prediction import Prediction
from warplens.models.residency import residency
from warplens.models.warplens import predict as own
from warplens.workload.workload import Workload

REMEDIES: dict[str, Remedy] = {
    "raise-occupancy": occupancy.raise_occupancy,
    "lower-occupancy": occupancy.lower_occupancy,
    "block-size": occupancy.block_size,
    "more-ilp": parallelism.more_ilp,
    "more-loads-in-flight": parallelism.more_loads_in_flight,
    "more-work-per-thread": parallelism.more_work_per_thread,
    "unroll": parallelism.unroll,
    "coalesce": memory.coalesce,
    "vector-loads": memory.vector_accesses,
    "remove-conflicts": shared.remove_conflicts,
    "keep-in-shared": tiles.keep_in_shared,
    "keep-in-registers": reuse.keep_in_registers,
    "keep-in-constant": reuse.keep_in_constant,
    "asynchronous-copies": reuse.asynchronous_copies,
    "remove-divergence": control.remove_divergence,
    "fewer-barriers": control.fewer_barriers,
    "sort-into-bins": culling.sort_into_bins,
    "fast-math": arithmetic.fast_math,
    "avoid-division": arithmetic.avoid_division,
    "lower-precision": memory.lower_precision,
    "tensor-cores": arithmetic.tensor_cores,
    "fewer-instructions": arithmetic.fewer_instructions,
    "avoid-spills": local.avoid_spills,
    "privatise-atomics": local.privatise_atomics,
    "fill-the-gpu": grid.fill_the_gpu,
    "fix-tail": grid.fix_tail,
    "fuse": memory.fuse,
    "split": split.split,
}
HELPS = 1.02  # a speedup from which a remedy is said to help
_ADDS = 1.005  # what a remedy buys at least beside others, to be named with them
_SIMULATED = 2  # remedies that are simulated
_AT_THE_END = ("lower-precision",)  # every kernel that memory limits would have it first, and it changes data
_LAST = ("split",)  # two kernels: nothing else is predicted behind it
_NOT_TRIED = "not tried, as the code is long"
Interval = Callable[[Prediction, Workload, Machine], tuple[float, float] | None]


def advise(
    workload: Workload,
    machine: Machine,
    *,
    base: Prediction | None = None,
    simulated: int = _SIMULATED,
    most_code: float = math.inf,
    interval: Interval | None = None,
) -> Advised:
    """Return what would make a counted kernel faster on a machine, best first.

    `base` is our model's prediction where it has been made; `simulated` remedies are asked of the simulator (0: none,
    and the kernel itself neither); once code of `most_code` instructions was predicted (`_size`), no more remedies are
    tried; `interval` says how sure a prediction is.
    """
    own_base = base if base is not None and base.model == own.NAME else None
    advisor = _Advisor(workload, machine, own_base, simulated, most_code)
    found = advisor.ranked()
    helping = [a for a in found if a.helps and not a.form_of]
    together = advisor.together([a for a in helping[:3] if a.name not in _LAST])
    together = [a for a in together if a.speedup > max(one.speedup for one in helping)]
    sure = advisor.sure(interval)
    return Advised(
        base=advisor.base,
        advice=tuple(sure(a) for a in found),
        combinations=tuple(sure(a) for a in together),
        benefits=benefits(workload, machine),
        notes=tuple(advisor.notes),
    )


def tried(
    workload: Workload,
    machine: Machine,
    remedies: Sequence[str],
    *,
    base: Prediction | None = None,
    like: Mapping[str, Any] | None = None,
    simulated: bool = True,
) -> tuple[Prediction, Prediction] | Refusal:
    """Return a kernel's prediction and that with some remedies applied one behind the other, or why none applies.

    What does not apply to what those before have made is left out.

    `like` names changes that a proposal must have, such as `{"turns": 2}`; else the best one of each remedy is taken.
    `base` spares the prediction of the kernel itself.
    """
    base = base or _predicted(workload, machine, simulated=simulated)
    case, refusal, applied = Case(workload, machine, base), None, list[Proposal]()
    for name in remedies:
        found = _answered(name, REMEDIES[name], case)
        if isinstance(found, Refusal):
            refusal = refusal or found
            continue
        chosen = [p for p in found if all(p[0].changes.get(k) == v for k, v in (like or {}).items())] or found
        best, _ = min(chosen, key=lambda pair: float(pair[1].cycles or 0.0))
        case, applied = Case(best.workload, machine, base), [best]
    if refusal is not None and not applied:
        return refusal
    return base, _proposed(applied[0], machine, simulated=simulated) if applied else base


def _answered(name: str, remedy: Remedy, case: Case) -> list[tuple[Proposal, Prediction]] | Refusal:
    """Return the proposals of a remedy that fit on the machine, each as the closed form predicts it, or why none."""
    answers = remedy(case)
    made, reason = list[tuple[Proposal, Prediction]](), ""
    for answer in answers:
        if isinstance(answer, Refusal):
            reason = answer.reason
            continue
        try:
            made.append((answer, _proposed(answer, case.machine, simulated=False)))
        except WarplensError as error:  # what it asks for does not fit
            reason = f"with it, {error}"
    return made or Refusal(name, reason or "nothing to change")


class _Advisor:
    """One kernel's advice in the making: predictions of both forms, kept by the workload they are of."""

    def __init__(
        self, workload: Workload, machine: Machine, base: Prediction | None, simulated: int, most_code: float
    ) -> None:
        self.workload, self.machine, self.most, self.code_left = workload, machine, simulated, most_code
        Case(workload, machine, base)  # type: ignore[arg-type]  # refuses a workload that was not counted
        self.fast = _predicted(workload, machine, simulated=False)
        self.base = base or (_predicted(workload, machine, simulated=True) if simulated else self.fast)
        self.case = Case(workload, machine, self.base)
        self.notes: list[str] = []
        self.predictions: dict[str, tuple[Prediction, Workload]] = {}

    def ranked(self) -> list[Advice]:
        """Return the advice of all remedies: those that help by gain, then those that do not."""
        made, refusals = list[tuple[Proposal, Prediction]](), list[Advice]()
        for name, remedy in REMEDIES.items():
            found = self._tried(name, remedy, self.case)
            if isinstance(found, Refusal):
                refusals.append(self._refusal(found))
            else:
                made.append(min(found, key=lambda pair: float(pair[1].cycles or 0.0)))
        if left := sum(a.reason == _NOT_TRIED for a in refusals):
            self.notes.append(
                f"the code is long: {left} of {len(REMEDIES)} remedies were not tried; `warplens advise` does"
            )
        made.sort(key=lambda pair: float(pair[1].cycles or 0.0))
        advice = [self._advice(*pair, simulated=k < self.most) for k, pair in enumerate(made)]
        advice.sort(key=lambda a: -a.speedup)
        advice = _in_forms(advice, {proposal.name: proposal.joins for proposal, _ in made})
        helping = sorted((a for a in advice if a.helps), key=lambda a: a.name in _AT_THE_END)
        return helping + [a for a in advice if not a.helps] + refusals

    def _tried(self, name: str, remedy: Remedy, case: Case) -> list[tuple[Proposal, Prediction]] | Refusal:
        """Ask a remedy, as long as there may be more code."""
        if self.code_left <= 0:
            return Refusal(name, _NOT_TRIED)
        found = _answered(name, remedy, case)
        self.code_left -= 0 if isinstance(found, Refusal) else sum(_size(p.workload) for p, _ in found)
        return found

    def _advice(self, proposal: Proposal, fast: Prediction, *, simulated: bool) -> Advice:
        before, after = self.fast, fast
        if simulated and float(self.fast.cycles or 0.0) >= HELPS * float(fast.cycles or 0.0):
            before, after = self.base, _proposed(proposal, self.machine, simulated=True)
        else:
            simulated = False
        speedup = float(before.cycles or 0.0) / float(after.cycles or 1.0)
        helps = speedup >= HELPS
        self.predictions[proposal.name] = after, proposal.workload
        return Advice(
            name=proposal.name,
            title=proposal.title,
            speedup=speedup,
            seconds=float(self.base.seconds or 0.0) / speedup,
            bound_after=after.limited_by,
            assumption=proposal.assumption,
            where=proposal.where,
            helps=helps,
            reason="" if helps else proposal.no_help or f"{after.limited_by} would still limit",
            changes=proposal.changes,
            simulated=simulated,
            how=proposal.how or HOW[proposal.name],
            changes_results=changes_results(self.case, proposal),
        )

    def _refusal(self, refusal: Refusal) -> Advice:
        return Advice(
            name=refusal.name, title=refusal.name.replace("-", " "), speedup=1.0,
            seconds=float(self.base.seconds or 0.0), bound_after=self.base.limited_by, helps=False,
            reason=refusal.reason,
        )  # fmt: skip

    def together(self, best: Sequence[Advice]) -> list[Advice]:
        """Return the best remedy with the next one, and with both that follow: each on what those before it have made.

        What buys nothing beside those before it is left out, so that no combination is worse than its first part. That
        one's own speedup counts, as it was predicted, and what the closed form says that the others add.
        """
        case, changes, made = self.case, dict[str, Any](), list[Advice]()
        alone = before = float(self.fast.cycles or 0.0)
        other = False  # results
        for a in best:
            found = self._tried(a.name, REMEDIES[a.name], case)
            if isinstance(found, Refusal):
                if not changes:  # no more code may be predicted
                    return []
                continue
            proposal, prediction = min(found, key=lambda pair: float(pair[1].cycles or 0.0))
            cycles = float(prediction.cycles or 1.0)
            if changes and before < _ADDS * cycles:
                continue
            case, before = Case(proposal.workload, self.machine, self.base), cycles
            alone = alone if changes else cycles
            changes[a.name] = proposal.changes
            other |= a.changes_results
            if len(changes) > 1:
                speedup = best[0].speedup * alone / cycles
                made.append(self._combined(dict(changes), speedup, prediction, case.workload, other))
        if not made and len(best) > 1:
            self.notes.append(f"with {best[0].name.replace('-', ' ')} done, no other remedy helps further")
        return sorted(made, key=lambda a: -a.speedup)

    def _combined(
        self, changes: dict[str, Any], speedup: float, prediction: Prediction, workload: Workload, other: bool
    ) -> Advice:
        name = "+".join(changes)
        self.predictions[name] = prediction, workload
        return Advice(
            name=name, title=", ".join(changes).replace("-", " "), speedup=speedup,
            seconds=float(self.base.seconds or 0.0) / speedup, bound_after=prediction.limited_by,
            assumption="all of their assumptions", changes=changes,
            changes_results=other,
        )  # fmt: skip

    def sure(self, interval: Interval | None) -> Callable[[Advice], Advice]:
        """Return what adds to an advice how sure its time is."""

        def added(a: Advice) -> Advice:
            if interval is None or a.name not in self.predictions:
                return a
            prediction, workload = self.predictions[a.name]
            scaled = replace(prediction, seconds=a.seconds)
            return replace(a, interval_seconds=interval(scaled, workload, self.machine))

        return added


def _size(workload: Workload) -> float:
    """Return what predicting a workload takes, in instructions of its code; three straight runs take as long as one."""
    runs = 0 if workload.profile is None else sum(len(s.runs) for path in workload.profile.paths for s in path.segments)
    return len(workload.code) + runs / 3


def _in_forms(ranked: Sequence[Advice], joins: Mapping[str, frozenset[str | int]]) -> list[Advice]:
    """Say of each advice which better one makes the same change: it joins the same threads or turns."""
    made, first = list[Advice](), list[str]()
    for a in ranked:
        same = next((name for name in first if joins[name] & joins[a.name]), "") if a.helps else ""
        first += [] if same else [a.name]
        made.append(replace(a, form_of=same))
    return made


def _proposed(proposal: Proposal, machine: Machine, *, simulated: bool) -> Prediction:
    """Predict what a remedy proposes: two kernels take what both take, limited by what limits the longer one."""
    first = _predicted(proposal.workload, machine, simulated=simulated)
    if proposal.then is None:
        return first
    both = first, _predicted(proposal.then, machine, simulated=simulated)
    longer = max(both, key=lambda p: float(p.cycles or 0.0))
    cycles, seconds = (sum(float(getattr(p, name) or 0.0) for p in both) for name in ("cycles", "seconds"))
    return replace(longer, cycles=cycles, seconds=seconds)


def _predicted(workload: Workload, machine: Machine, *, simulated: bool) -> Prediction:
    return own.predict(workload, machine, residency(workload, machine), simulated=simulated)
