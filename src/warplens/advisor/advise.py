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
    Case(workload, machine, base)  # type: ignore[arg-type]  # refuses a workload that was not counted
    fast = _predicted(workload, machine, simulated=False)
    if base is None or base.model != own.NAME:
        base = _predicted(workload, machine, simulated=True) if simulated else fast
    advisor = _Advisor(Case(workload, machine, base), fast, most_code, interval)
    found = advisor.ranked(simulated)
    helping = [a for a in found if a.helps and not a.form_of]
    return Advised(
        base=base,
        advice=tuple(found),
        combinations=tuple(advisor.together(helping[:3])),
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
    case, refusal = Case(workload, machine, base), None
    for name in remedies:
        found = _answered(REMEDIES[name], case)
        if isinstance(found, Refusal):
            refusal = refusal or found
            continue
        chosen = [p for p in found if all(p[0].changes.get(k) == v for k, v in (like or {}).items())] or found
        case = Case(_best(chosen)[0].workload, machine, base)
    if case.workload is workload:
        return refusal or (base, base)
    return base, _predicted(case.workload, machine, simulated=simulated)


def _answered(remedy: Remedy, case: Case) -> list[Proposed] | Refusal:
    """Return the proposals of a remedy that fit on the machine, each with its closed-form prediction, or why none."""
    answer, proposals, reason = remedy(case), list[Proposed](), "nothing to change"
    if isinstance(answer, Refusal):
        return answer
    for proposal in [answer] if isinstance(answer, Proposal) else answer:
        try:
            proposals.append((proposal, _predicted(proposal.workload, case.machine, simulated=False)))
        except WarplensError as error:  # it does not fit
            reason = f"with it, {error}"
    return proposals or Refusal(reason)


class _Advisor:
    """The predictions of one kernel and its remedies, in both forms."""

    def __init__(self, case: Case, fast: Prediction, most_code: float, interval: Interval | None) -> None:
        self.case, self.fast, self.code_left, self.interval = case, fast, most_code, interval
        self.notes: list[str] = []

    def ranked(self, simulated: int) -> list[Advice]:
        """Return the advice of all remedies, so many of them simulated: those that help by gain, then the others."""
        best, refusals = dict[str, Proposed](), list[Advice]()
        for name, remedy in REMEDIES.items():
            found = self._tried(remedy, self.case)
            if isinstance(found, Refusal):
                title = name.replace("-", " ")
                refusals.append(self._advice(name, title, 1.0, self.case.prediction, helps=False, reason=found.reason))
            else:
                best[name] = _best(found)
        if left := sum(a.reason == _NOT_TRIED for a in refusals):
            self.notes.append(
                f"the code is long: {left} of {len(REMEDIES)} remedies were not tried; `warplens advise` does"
            )
        order = sorted(best, key=lambda name: _cycles(best[name][1]))
        advice = [self._proposed(name, *best[name], simulated=k < simulated) for k, name in enumerate(order)]
        advice.sort(key=lambda a: -a.speedup)
        advice = _with_forms(advice, {name: proposal.joins for name, (proposal, _) in best.items()})
        helping = sorted((a for a in advice if a.helps), key=lambda a: a.name in _AT_THE_END)
        return helping + [a for a in advice if not a.helps] + refusals

    def _tried(self, remedy: Remedy, case: Case) -> list[Proposed] | Refusal:
        """Return the answer of a remedy, unless too much code is predicted already."""
        if self.code_left <= 0:
            return Refusal(_NOT_TRIED)
        found = _answered(remedy, case)
        self.code_left -= 0 if isinstance(found, Refusal) else sum(_size(p.workload) for p, _ in found)
        return found

    def _proposed(self, name: str, proposal: Proposal, after: Prediction, *, simulated: bool) -> Advice:
        """Return the advice of a proposal, simulated if it is to be and the closed form says that it helps."""
        before, simulated = self.fast, simulated and _cycles(self.fast) >= HELPS * _cycles(after)
        if simulated:
            before, after = self.case.prediction, _predicted(proposal.workload, self.case.machine, simulated=True)
        helps = (speedup := _cycles(before) / _cycles(after)) >= HELPS
        return self._advice(
            name,
            proposal.title,
            speedup,
            after,
            proposal.workload,
            assumption=proposal.assumption,
            where=proposal.where,
            helps=helps,
            reason="" if helps else proposal.no_help or f"{after.limited_by} would still limit",
            changes=proposal.changes,
            simulated=simulated,
            how=proposal.how or HOW[REMEDIES[name]],
            changes_results=changes_results(name, proposal, self.case),
        )

    def _advice(
        self, name: str, title: str, speedup: float, after: Prediction, workload: Workload | None = None, **more: Any
    ) -> Advice:
        """Return an advice with its time, and with the interval of that where a `workload` was predicted."""
        seconds, interval = float(self.case.prediction.seconds or 0.0) / speedup, None
        if workload is not None and self.interval is not None:
            interval = self.interval(replace(after, seconds=seconds), workload, self.case.machine)
        return Advice(
            name=name, title=title, speedup=speedup, seconds=seconds, interval_seconds=interval,
            bound_after=after.limited_by, **more,
        )  # fmt: skip

    def together(self, best: Sequence[Advice]) -> list[Advice]:
        """Return the best remedy with the next one, and with both that follow: each applied after those before it.

        A remedy that buys nothing beside those before it is left out, so that no combination is worse than its first
        part. The speedup is that part's own, times the gain of the others by the closed form.
        """
        case, changes, combined = self.case, dict[str, Any](), list[Advice]()
        alone = before = _cycles(self.fast)
        other = False  # results
        for a in best:
            found = self._tried(REMEDIES[a.name], case)
            if isinstance(found, Refusal):
                if not changes:  # no more code may be predicted
                    return []
                continue
            proposal, prediction = _best(found)
            cycles = _cycles(prediction)
            if changes and before < _ADDS * cycles:
                continue
            case, before = Case(proposal.workload, case.machine, case.prediction), cycles
            alone = alone if changes else cycles
            changes[a.name] = proposal.changes
            other |= a.changes_results
            speedup = best[0].speedup * alone / cycles
            if len(changes) > 1 and speedup > max(one.speedup for one in best):
                combined.append(
                    self._advice(
                        "+".join(changes), ", ".join(changes).replace("-", " "), speedup, prediction, case.workload,
                        assumption="all of their assumptions", changes=dict(changes), changes_results=other,
                    )
                )  # fmt: skip
        if len(changes) < 2 and len(best) > 1:
            self.notes.append(f"with {best[0].name.replace('-', ' ')} done, no other remedy helps further")
        return sorted(combined, key=lambda a: -a.speedup)


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


def _best(found: Sequence[Proposed]) -> Proposed:
    return min(found, key=lambda proposed: _cycles(proposed[1]))


def _cycles(p: Prediction) -> float:
    return float(p.cycles or 0.0)


def _predicted(workload: Workload, machine: Machine, *, simulated: bool) -> Prediction:
    return own.predict(workload, machine, residency(workload, machine), simulated=simulated)
