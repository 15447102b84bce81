"""Advice and tuning against measurement, for the terminal: the steps of ladders, predicted and measured; found optima.

69 steps: 81 % of the predicted speedups within 20 % of the measured ones (goal 80 %)
the remedy that helped most is among our first three for 86 % of 50 kernels (goal 85 %)
bad advice: 1 step (1.4 %; goal below 5 %)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.machine import Machine
from warplens.papers.validation.kernels import PARTS
from warplens.papers.validation.ladders import CLOSE, Climbed, Order, Outcome
from warplens.papers.validation.tuning import TuningResult
from warplens.report import benefits
from warplens.report.terminal import table

_GOALS = {"close": 80.0, "named": 85.0, "bad": 5.0, "correlation": 0.95, "chosen": 3.0}


def answer(climbed: Climbed, *, unblind: bool) -> list[RenderableType]:
    """Render all ladders; steps of the test set only where asked for."""
    shown = [o for o in climbed.outcomes if unblind or o.part == "train"]
    parts: list[RenderableType] = [Text(line, "bold") for line in summary(climbed.outcomes)]
    parts += [Text(f"  {line}") for order in climbed.orders for line in [_order(order)]]
    parts += [Text(f"  not measured: {', '.join(climbed.missing)}", "yellow")] if climbed.missing else []
    rows = [
        [
            o.ladder, f"{o.step.before} to {o.step.after}", "+".join(o.step.remedies) or "-", f"{o.measured:.2f}",
            "-" if o.predicted is None else f"{o.predicted:.2f}", "" if o.rank is None else str(o.rank),
            "" if o.estimated is None else f"{o.estimated:.2f}", _verdict(o),
        ]
        for o in shown
    ]  # fmt: skip
    headers = ["ladder", "step", "remedy", "measured", "predicted", "place", "Nsight", ""]
    parts += ["", table(headers, rows, right={3, 4, 5, 6})]
    hidden = len(climbed.outcomes) - len(shown)
    if hidden:
        parts.append(Text(f"  {hidden} steps with launches of the test set count but are not named (--unblind)", "dim"))
    return [*parts, "", *benefits.rendered(climbed.chart)] if climbed.chart else parts


def counted(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Count what came true, of all steps and of each set; `theirs` and `ours` where Nsight's rules speak (`spoken`)."""
    counts: dict[str, dict[str, int]] = {}
    for name, group in (("all", outcomes), *((p, [o for o in outcomes if o.part == p]) for p in PARTS)):
        best, spoken = [o for o in group if o.best], [o for o in group if o.estimated is not None]
        counts[name] = {
            "steps": len(group), "close": sum(o.close for o in group), "best": len(best),
            "named": sum(o.named for o in best), "bad": sum(o.bad for o in group), "spoken": len(spoken),
            "theirs": sum(abs((o.estimated or 0.0) / o.measured - 1) <= CLOSE for o in spoken),
            "ours": sum(o.close for o in spoken),
        }  # fmt: skip
    return counts


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Say how often advice came true: all steps, those of the train set, those of the test set."""
    sets = list(counted(outcomes).values())

    def shares(what: str, of: str) -> str:
        return ", ".join(f"{100 * s[what] / s[of]:.0f} %" for s in sets if s[of])

    all_, *parts = sets
    lines = [
        f"  {all_['steps']} steps, {' and '.join(str(s['steps']) for s in parts)} of the train and test sets",
        f"  predicted speedups within 20 % of the measured ones: {shares('close', 'steps')} (goal "
        f"{_GOALS['close']:.0f} %)",
        f"  the remedy that helped most is among our first three: {shares('named', 'best')} of {all_['best']} kernels "
        f"(goal {_GOALS['named']:.0f} %)",
        f"  bad advice (10 % promised, time lost): {shares('bad', 'steps')} of steps (goal below "
        f"{_GOALS['bad']:.0f} %)",
    ]
    if all_["spoken"]:
        lines.append(
            f"  Nsight's rules speak to {', '.join(str(s['spoken']) for s in sets)} steps: their estimates within "
            "20 %: "
            f"{shares('theirs', 'spoken')}; ours there: {shares('ours', 'spoken')}"
        )
    return lines


def _order(order: Order) -> str:
    right = "in the right order" if order.in_order else f"rank correlation {order.rank_correlation:.3f}"
    return (
        f"{order.name}: {right}; the fastest by prediction takes {order.chosen_percent:.1f} % longer than the best; "
        f"{order.steps_close} of {order.steps} ratios of neighbours within 15 %"
    )


def _verdict(o: Outcome) -> str:
    if o.bad:
        return "bad advice"
    return o.silent or ("" if o.close else "off")


def data(climbed: Climbed, *, unblind: bool) -> dict[str, Any]:
    """Return the same for machines."""
    sets = counted(climbed.outcomes)
    return {
        **{name: sets["all"][name] for name in ("steps", "close", "best", "named", "bad")},
        "sets": sets,
        "orders": climbed.orders,
        "benefits": climbed.chart,
        "outcomes": [o for o in climbed.outcomes if unblind or o.part == "train"],
        "missing": climbed.missing,
    }


def tuning(found: Sequence[TuningResult], machine: Machine) -> list[RenderableType]:
    """Return the answer of `warplens validate --tuning`."""
    near = {limit: sum(r.chosen_loss <= limit for r in found) for limit in (0.05, 0.1)}
    first = sum(r.top_loss <= 0.02 for r in found)
    rows = [
        [
            r.kernel, str(r.legal), f"{r.emulated} ({100 * r.share:.1f} %)", f"{r.best_us:.1f} us",
            f"{r.predicted_us:.1f} us", f"{r.chosen_us:.1f} us", f"{100 * r.chosen_loss:+.1f} %",
            f"{100 * r.top_loss:+.1f} %",
            f"{100 * r.middle_loss:+.0f} %", f"{r.span:.1f} x",
        ]
        for r in found
    ]  # fmt: skip
    heads = ["kernel", "legal", "emulated", "best", "predicted", "takes", "loss", "of 5", "middle", "span"]
    return [
        f"Tuning by prediction on {machine.name}: of {len(found)} kernels, the choice is within 5 % of the best for "
        f"{near[0.05]}, within 10 % for {near[0.1]}; the best of five measured is within 2 % for {first}",
        table(heads, rows, set(range(1, len(heads)))),
        "loss: the predicted best over the true best; of 5: the fastest of the first five; middle: a median one",
    ]
