"""The top of the first screen: the time of a kernel, how sure that is, and what limits it.

It needs nothing of the remedies: a user sees it before they are looked for.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from warplens.core.units import number, printable
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.report.terminal import bars, not_ours, sure, timed
from warplens.workload.launch import CONTENTS_ASSUMED, KernelCall


def headline(p: Prediction, call: KernelCall, machine: Machine) -> list[RenderableType]:
    """Render the top of the first screen: the time, and what limits it."""
    grid, block = ("x".join(str(n) for n in shape if n > 1) or "1" for shape in (call.grid_shape, call.block_shape))
    share = float(p.warps_per_sm) / machine.sm.warps_max
    head = f"{printable(p.workload)} on {machine.name}, grid {grid}, block {block}: "
    parts: list[RenderableType] = [
        Text(f"{head}{number(float(p.warps_per_sm))} warps per SM ({share:.0%})", "bold"),
        "",
    ]
    time = Text(f"  {timed(float(p.seconds or 0), machine)}", "bold green")
    if p.interval_seconds is not None:
        time.append(f", {sure(p.interval_seconds, machine)}", "bold default")
    time.append(f"   by {p.model}", "not bold default")
    time.append(f"      limited by: {p.limited_by}", "bold default")
    parts += [time, *not_ours(p)]
    if p.interval_about:
        rests = "by the errors of " if p.interval_seconds is not None else ""
        parts.append(Text(f"  {rests}{p.interval_about}", "dim"))
    parts += [Text(f"  {printable(n)}", "yellow") for n in call.notes if n.startswith(CONTENTS_ASSUMED)]
    parts += [Text(f"  {flag}", "bold red") for flag in p.flags]
    return [*parts, "", Text("  alone, each limit would take"), *bars(p), ""]
