"""Advice for the terminal: what would help, by how much, where; what would not, and why.

what would help
  1.  2.80x  remove the bank conflicts: up to 8 wavefronts where one would do      matmul_tiled.cu:23
  2.  1.02x  half the bytes: 16-bit instead of 32-bit floats in memory             matmul_tiled.cu:13
1 and 2 together: 2.92x, then limited by issue
next limit after 1: shared memory and l1
"""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Advice, Advised
from warplens.core.units import printable
from warplens.machine import Machine
from warplens.report import benefits
from warplens.report.terminal import notes, sure, timed

_WIDTH = 74
FIRST = 3  # remedies on the first screen
NEAREST = 4  # of those that do not help
# The reasons that people ask about first, where nothing or little helps.
_ASKED = ("raise-occupancy", "vector-loads", "coalesce", "more-loads-in-flight", "remove-conflicts")


def first_screen(advised: Advised) -> list[RenderableType]:
    """Render the best three remedies; where fewer help, what people would ask about next, with the reason."""
    helpful = advised.helpful[:FIRST]
    asked = [a for name in _ASKED if (a := advised.named(name)) is not None and not a.helps]
    parts: list[RenderableType] = [Text("  what would help")]
    parts += [line for i, a in enumerate(helpful, start=1) for line in (_line(i, a), _how(a))]
    for i, a in enumerate(asked[: FIRST - len(helpful)], start=len(helpful) + 1):
        parts.append(Text(f"    {i}.  1.00x  {a.name.replace('-', ' ')}: no, {printable(a.reason)}"))
    if helpful:
        parts.append(Text(f"  next limit after 1: {helpful[0].bound_after}", "dim"))
    return [*parts, *notes(advised.notes, "dim", "  "), ""]


def _line(i: int, a: Advice) -> Text:
    title = printable(a.title)
    where = " " * max(2, _WIDTH - len(title)) + printable(str(a.where[0])) if a.where else ""
    return Text.assemble(f"    {i}.  ", (f"{a.speedup:.2f}x", "bold green"), f"  {title}{where}")


def results(a: Advice) -> str:
    """Say whether a remedy changes what the kernel computes."""
    return "changes results" if a.changes_results else "same results"


def _how(a: Advice) -> Text:
    return Text.assemble((f"              [{results(a)}]", "yellow" if a.changes_results else "dim"),
                         (f" {printable(a.how)}", "dim"))  # fmt: skip


def nearest(advised: Advised, most: int = NEAREST) -> list[Advice]:
    """Return what would not help but comes nearest to it: what was predicted, then what people ask about first."""
    useless = [a for a in advised if not a.helps]
    tried = [a for a in useless if a.changes]
    asked = [a for name in _ASKED for a in useless if a.name == name and not a.changes]
    return [*tried, *asked, *(a for a in useless if a not in tried and a not in asked)][:most]


def answer(advised: Advised, machine: Machine, *, everything: bool = False) -> list[RenderableType]:
    """Render the advice: of what would not help, what comes nearest, or `everything` with Sim's benefit chart."""
    base = advised.base
    time = timed(float(base.seconds or 0), machine)
    head = f"{printable(base.workload)} on {machine.name}: {time}, limited by {base.limited_by}"
    parts: list[RenderableType] = [Text(head, "bold"), *notes(base.notes), ""]
    parts.append(Text("  what would help"))
    for i, a in enumerate(advised.helpful, start=1):
        parts += [_line(i, a), *_details(a, machine)]
        parts += [Text(f"              or {f.speedup:.2f}x  {printable(f.title)}", "dim") for f in advised.forms(a)]
    if not advised.helpful:
        parts.append(Text("    nothing that we know of"))
    if advised.combinations:
        parts += ["", Text("  together")]
    for a in advised.combinations:
        then = f"{timed(a.seconds, machine)}, then limited by {a.bound_after} [{results(a)}]"
        parts.append(Text(f"    {a.speedup:.2f}x  {a.title}: {then}"))
    useless = [a for a in advised if not a.helps] if everything else nearest(advised)
    parts += ["", Text("  what would not, and why")]
    parts += notes((f"{a.name.replace('-', ' ')}: {a.reason}" for a in useless), "dim", "    ")
    if left := sum(not a.helps for a in advised) - len(useless):
        parts.append(Text(f"    and {left} more: --all shows them", "dim"))
    if everything and advised.benefits is None:
        parts += ["", Text(f"  potential benefits (Sim et al. 2012): {benefits.missing(machine)}", "dim")]
    elif everything and advised.benefits is not None:
        parts += ["", *benefits.rendered({base.workload: advised.benefits})]
    return parts


def _details(a: Advice, machine: Machine) -> list[Text]:
    time = timed(a.seconds, machine) + (f" ({sure(a.interval_seconds, machine)})" if a.interval_seconds else "")
    form = "simulated" if a.simulated else "closed form"
    more = f"; also {', '.join(str(p) for p in a.where[1:3])}" if len(a.where) > 1 else ""
    return [
        Text(f"              {time}, then limited by {a.bound_after}; {form}{printable(more)}", "dim"),
        Text(f"              assumes: {printable(a.assumption)}", "dim"),
        _how(a),
    ]


def data(advised: Advised) -> dict[str, Any]:
    """Return the same for machines."""
    names = ("advice", "combinations", "benefits", "notes")
    return {"prediction": advised.base, **{name: getattr(advised, name) for name in names}}
