"""Notebook views of a Workload, a Prediction and the advice: small tables, names as data.

The classes belong to rooms that know nothing of reports, so `register` gives them their cards when warplens is first
used. An Analysis shows the page (`warplens.api.analysis`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.advisor import Advice, Advised
from warplens.advisor.differences import Difference, WhatIf
from warplens.core.units import number, seconds
from warplens.models import Prediction
from warplens.models.registry import Comparison
from warplens.report.page.markup import Markup, tag
from warplens.workload import Workload

_FEW = 12  # rows


def prediction(p: Prediction) -> str:
    """Show the time, the limit, what each limit alone would take."""
    if np.ndim(p.cycles if p.cycles is not None else 0.0):
        return _card(f"{p.workload} on {p.machine}", f"{np.asarray(p.cycles).size} configurations by {p.model}", [])
    time = "no time" if p.seconds is None else seconds(float(p.seconds))
    if p.interval_seconds is not None:
        time += " (90 % sure of {} to {})".format(*(seconds(x, 3) for x in p.interval_seconds))
    scale = float(p.seconds) / float(p.cycles) if p.seconds and p.cycles else 0.0
    ranked = sorted(((float(c), name) for name, c in p.limits.items()), reverse=True)
    rows = [(f"{name} alone", seconds(c * scale, 3) if scale else number(c)) for c, name in ranked[:_FEW]]
    rows += [("", flag) for flag in p.flags]
    return _card(f"{p.workload} on {p.machine}", f"{time}, limited by {p.limited_by}, by {p.model}", rows)


def workload(w: Workload) -> str:
    """Show the launch and what one warp executes."""
    launch = "steady state"
    if w.launch is not None:
        shapes = w.launch.grid, w.launch.block
        grid, block = ("x".join(map(str, x)) if isinstance(x, list) else str(x) for x in shapes)
        launch = f"grid {grid}, block {block}"
    counts = [(kind, c) for kind, c in w.executed().items() if not np.ndim(c)]
    ranked = sorted(counts, key=lambda item: -float(item[1]))[:_FEW]
    rows = [(f"{kind} per warp", number(float(c))) for kind, c in ranked]
    return _card(w.name, launch + (f", from {w.source}" if w.source else ""), rows)


def advice(a: Advice) -> str:
    """Show one remedy."""
    if not a.helps:
        return _card(a.name.replace("-", " "), f"no: {a.reason}", [])
    where = ", ".join(str(p) for p in a.where[:4])
    rows = {"time then": seconds(a.seconds), "then limited by": a.bound_after, "where": where, "assumes": a.assumption}
    return _card(a.title, f"{a.speedup:.2f}x", [(name, text) for name, text in rows.items() if text])


def advised(found: Advised) -> str:
    """Show the remedies that help, best first."""
    rows = [(f"{a.speedup:.2f}x", f"{a.title} ({a.where[0]})" if a.where else a.title) for a in found.helpful[:_FEW]]
    base = found.base
    head = f"{seconds(float(base.seconds or 0))} now, limited by {base.limited_by}"
    return _card(f"What would help {base.workload}", head, rows or [("", "nothing that we know of")])


def what_if(found: WhatIf) -> str:
    """Show what was changed, and the time before and after."""
    changed = ", ".join(f"{key} = {x if isinstance(x, str) else number(x)}" for key, x in found.changes.items())
    return _pair(f"{found.before.workload}, if {changed}", f"{found.speedup:.2f}x", found)


def difference(found: Difference) -> str:
    """Show both kernels' times, and why they differ."""
    title = f"{found.before.workload} to {found.after.workload}"
    return _pair(title, f"{found.speedup:.2f}x: {found.why}", found)


def _pair(title: str, answer: str, found: WhatIf | Difference) -> str:
    both = {"before": found.before, "after": found.after}
    rows = [
        (when, f"{seconds(float(p.seconds or 0))}, limited by {p.limited_by}, on {p.machine}")
        for when, p in both.items()
    ]
    return _card(title, answer, rows)


def comparison(c: Comparison) -> str:
    """Show what every model says, the shortest time first; those that say nothing are counted."""
    spoken = {name: p for name, p in c.predictions.items() if p.seconds is not None and not np.ndim(p.seconds)}
    ranked = sorted((float(p.seconds or 0.0), name, p) for name, p in spoken.items())
    rows = [(name, "; ".join([f"{seconds(x)}, limited by {p.limited_by}", *p.flags])) for x, name, p in ranked]
    head = f"{len(c.predictions)} models" + (f"; {len(c.silent)} cannot speak about it" if c.silent else "")
    return _card(f"{c.workload} on {c.machine}", head, rows)


def _card(title: str, answer: str, rows: list[tuple[str, str]]) -> str:
    cells = (tag("tr", tag("td", a), tag("td", b, style="text-align:left")) for a, b in rows)
    return tag("div", tag("b", title), Markup("<br>"), answer, tag("table", *cells) if rows else "")


def register() -> None:
    """Give the classes their notebook views."""
    shown: dict[Any, Any] = {
        Prediction: prediction, Workload: workload, Advice: advice, Advised: advised,
        WhatIf: what_if, Difference: difference, Comparison: comparison,
    }  # fmt: skip
    for kind, show in shown.items():
        kind._repr_html_ = show
