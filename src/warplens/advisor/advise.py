"""The advisor: every remedy's overlay predicted and ranked by its gain; and the best remedies together.

All overlays are predicted by the closed form of our model, which takes milliseconds; the best few again by the
simulator, as the kernel itself. A speedup always compares two predictions of the same form. Gains do not add: the best
remedies are predicted together too. The second is proposed anew for the workload that the first has changed, and left
out where it buys nothing beside it. The time of all this grows with the code; `most_code` bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from warplens.advisor.advice import Advice, Advised, benefits
from warplens.advisor.case import Case, Proposal, Refusal, Remedy
from warplens.advisor.remedies import HOW, REMEDIES, changes_results
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.bounds import residency
from warplens.models.prediction import Prediction
from warplens.models.warplens import predict as own
from warplens.workload.workload import Workload

HELPS = 1.02  # a speedup from which a remedy is said to help
_ADDS = 1.005  # a speedup beside other remedies, from which one is named with them
_SIMULATED = 2  # remedies that are simulated
_AT_THE_END = ("lower-precision",)  # every kernel that memory limits would have it first, and it changes data
_NOT_TRIED = "not tried, as the code is long"
Proposed = tuple[Proposal, Prediction]
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
    """Return the remedies that would make a counted kernel faster on a machine, best first.

    `base` is our model's prediction, if there is one. The simulator predicts so many `simulated` remedies (0: none, and
    not the kernel itself). Once code of `most_code` instructions is predicted (`_size`), no more remedies are tried.
    `interval` returns the interval of a prediction.
    """
    own_base = base if base is not None and base.model == own.NAME else None
    advisor = _Advisor(workload, machine, own_base, simulated, most_code)
    found = advisor.ranked()
    helping = [a for a in found if a.helps and not a.form_of]
    together = [a for a in advisor.together(helping[:3]) if a.speedup > max(one.speedup for one in helping)]
    return Advised(
        base=advisor.base,
        advice=tuple(advisor.with_interval(a, interval) for a in found),
        combinations=tuple(advisor.with_interval(a, interval) for a in together),
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
    """Return a kernel's prediction and that with some remedies applied one after another, or why none applies.

    A remedy that does not apply after those before it is left out. `like` names changes that a proposal must have, such
    as `{"turns": 2}`; else the best proposal of each remedy is applied. `base` is the prediction of the kernel itself.
    """
    base = base or _predicted(workload, machine, simulated=simulated)
    case, refusal, applied = Case(workload, machine, base), None, list[Proposal]()
    for name in remedies:
        found = _answered(REMEDIES[name], case)
        if isinstance(found, Refusal):
            refusal = refusal or found
            continue
        chosen = [p for p in found if all(p[0].changes.get(k) == v for k, v in (like or {}).items())] or found
        best, _ = min(chosen, key=_cycles)
        case, applied = Case(best.workload, machine, base), [best]
    if refusal is not None and not applied:
        return refusal
    return base, _predicted(applied[0].workload, machine, simulated=simulated) if applied else base


def _answered(remedy: Remedy, case: Case) -> list[Proposed] | Refusal:
    """Return the proposals of a remedy that fit on the machine, each with its closed-form prediction, or why none."""
    proposals, reason = list[Proposed](), ""
    for answer in remedy(case):
        if isinstance(answer, Refusal):
            reason = answer.reason
            continue
        try:
            proposals.append((answer, _predicted(answer.workload, case.machine, simulated=False)))
        except WarplensError as error:  # it does not fit
            reason = f"with it, {error}"
    return proposals or Refusal(reason or "nothing to change")


class _Advisor:
    """The predictions of one kernel and its remedies, in both forms."""

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
        best, refusals = list[tuple[str, Proposed]](), list[Advice]()
        for name, remedy in REMEDIES.items():
            found = self._tried(remedy, self.case)
            if isinstance(found, Refusal):
                refusals.append(
                    Advice(
                        name=name, title=name.replace("-", " "), speedup=1.0, seconds=float(self.base.seconds or 0.0),
                        bound_after=self.base.limited_by, helps=False, reason=found.reason,
                    )
                )  # fmt: skip
            else:
                best.append((name, min(found, key=_cycles)))
        if left := sum(a.reason == _NOT_TRIED for a in refusals):
            self.notes.append(
                f"the code is long: {left} of {len(REMEDIES)} remedies were not tried; `warplens advise` does"
            )
        best.sort(key=lambda named: _cycles(named[1]))
        advice = [self._advice(name, *found, simulated=k < self.most) for k, (name, found) in enumerate(best)]
        advice.sort(key=lambda a: -a.speedup)
        advice = _with_forms(advice, {name: proposal.joins for name, (proposal, _) in best})
        helping = sorted((a for a in advice if a.helps), key=lambda a: a.name in _AT_THE_END)
        return helping + [a for a in advice if not a.helps] + refusals

    def _tried(self, remedy: Remedy, case: Case) -> list[Proposed] | Refusal:
        """Return the answer of a remedy, unless too much code is predicted already."""
        if self.code_left <= 0:
            return Refusal(_NOT_TRIED)
        found = _answered(remedy, case)
        self.code_left -= 0 if isinstance(found, Refusal) else sum(_size(p.workload) for p, _ in found)
        return found

    def _advice(self, name: str, proposal: Proposal, fast: Prediction, *, simulated: bool) -> Advice:
        """Return the advice of a proposal, simulated if it is to be and the closed form says that it helps."""
        before, after = self.fast, fast
        if simulated and float(self.fast.cycles or 0.0) >= HELPS * float(fast.cycles or 0.0):
            before, after = self.base, _predicted(proposal.workload, self.machine, simulated=True)
        else:
            simulated = False
        speedup = float(before.cycles or 0.0) / float(after.cycles or 1.0)
        helps = speedup >= HELPS
        self.predictions[name] = after, proposal.workload
        return Advice(
            name=name,
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
            how=proposal.how or HOW[name],
            changes_results=changes_results(name, proposal, self.case),
        )

    def together(self, best: Sequence[Advice]) -> list[Advice]:
        """Return the best remedy with the next one, and with both that follow: each applied after those before it.

        A remedy that buys nothing beside those before it is left out, so that no combination is worse than its first
        part. The speedup is that part's own, times the gain of the others by the closed form.
        """
        case, changes, combined = self.case, dict[str, Any](), list[Advice]()
        alone = before = float(self.fast.cycles or 0.0)
        other = False  # results
        for a in best:
            found = self._tried(REMEDIES[a.name], case)
            if isinstance(found, Refusal):
                if not changes:  # no more code may be predicted
                    return []
                continue
            proposal, prediction = min(found, key=_cycles)
            cycles = float(prediction.cycles or 1.0)
            if changes and before < _ADDS * cycles:
                continue
            case, before = Case(proposal.workload, self.machine, self.base), cycles
            alone = alone if changes else cycles
            changes[a.name] = proposal.changes
            other |= a.changes_results
            if len(changes) > 1:
                speedup = best[0].speedup * alone / cycles
                combined.append(self._combined(dict(changes), speedup, prediction, case.workload, other))
        if not combined and len(best) > 1:
            self.notes.append(f"with {best[0].name.replace('-', ' ')} done, no other remedy helps further")
        return sorted(combined, key=lambda a: -a.speedup)

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

    def with_interval(self, a: Advice, interval: Interval | None) -> Advice:
        """Return an advice with the interval of its time."""
        if interval is None or a.name not in self.predictions:
            return a
        prediction, workload = self.predictions[a.name]
        scaled = replace(prediction, seconds=a.seconds)
        return replace(a, interval_seconds=interval(scaled, workload, self.machine))


def _size(workload: Workload) -> float:
    """Return the effort of predicting a workload, in instructions of its code; three straight runs count as one."""
    runs = 0 if workload.profile is None else sum(len(s.runs) for path in workload.profile.paths for s in path.segments)
    return len(workload.code) + runs / 3


def _with_forms(ranked: Sequence[Advice], joins: Mapping[str, frozenset[str | int]]) -> list[Advice]:
    """Name for each advice the better one that makes the same change: it joins the same threads or iterations."""
    advice, first = list[Advice](), list[str]()
    for a in ranked:
        same = next((name for name in first if joins[name] & joins[a.name]), "") if a.helps else ""
        first += [] if same else [a.name]
        advice.append(replace(a, form_of=same))
    return advice


def _cycles(proposed: Proposed) -> float:
    return float(proposed[1].cycles or 0.0)


def _predicted(workload: Workload, machine: Machine, *, simulated: bool) -> Prediction:
    return own.predict(workload, machine, residency(workload, machine), simulated=simulated)
