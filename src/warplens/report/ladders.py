"""Ladders for the terminal: each step with what was predicted and what was measured; how often the advice came true.

69 steps: 81 % of the predicted speedups within 20 % of the measured ones (goal 80 %)
the remedy that helped most is among our first three for 86 % of 50 kernels (goal 85 %)
bad advice: 1 step (1.4 %; goal below 5 %)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.report import advice
from warplens.report.terminal import table
from warplens.study.ladders import Climbed, Order, Outcome

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
    return [*parts, "", *advice.benefit_chart(climbed.chart)] if climbed.chart else parts


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Say how often advice came true."""
    steps = len(outcomes)
    best = [o for o in outcomes if o.best]
    close, named, bad = (sum(o.close for o in outcomes), sum(o.named for o in best), sum(o.bad for o in outcomes))
    ours = [o for o in outcomes if o.estimated is not None]
    lines = [
        f"  {steps} steps: {_share(close, steps)} of the predicted speedups within 20 % of the measured ones (goal "
        f"{_GOALS['close']:.0f} %)",
        f"  the remedy that helped most is among our first three for {_share(named, len(best))} of {len(best)} kernels "
        f"(goal {_GOALS['named']:.0f} %)",
        f"  bad advice (10 % promised, time lost): {_share(bad, steps)} of steps (goal below {_GOALS['bad']:.0f} %)",
    ]
    if ours:
        theirs = sum(abs((o.estimated or 0.0) / o.measured - 1) <= 0.2 for o in ours)
        lines.append(
            f"  Nsight's rules speak to {len(ours)} steps: {_share(theirs, len(ours))} of their estimates within 20 %, "
            f"ours there {_share(sum(o.close for o in ours), len(ours))}"
        )
    return lines


def _share(some: int, of: int) -> str:
    return f"{100 * some / max(1, of):.0f} %"


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
    best = [o for o in climbed.outcomes if o.best]
    return {
        "steps": len(climbed.outcomes),
        "close": sum(o.close for o in climbed.outcomes),
        "best": len(best),
        "named": sum(o.named for o in best),
        "bad": sum(o.bad for o in climbed.outcomes),
        "orders": climbed.orders,
        "benefits": climbed.chart,
        "outcomes": [o for o in climbed.outcomes if unblind or o.part == "train"],
        "missing": climbed.missing,
    }
