"""Advice for the terminal: what would help, by how much, where; what would not, and why.

what would help
  1.  2.80x  remove the bank conflicts: up to 8 wavefronts where one would do      matmul_tiled.cu:23
  2.  1.02x  half the bytes: 16-bit instead of 32-bit floats in memory             matmul_tiled.cu:13
1 and 2 together: 2.92x, then limited by issue
next limit after 1: shared memory and l1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Advice, Advised, Benefits
from warplens.core.units import printable
from warplens.machine import Machine
from warplens.report.terminal import cycles, notes, sure, table, timed

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
        parts += ["", Text(f"  potential benefits (Sim et al. 2012): {no_benefits(machine)}", "dim")]
    elif everything and advised.benefits is not None:
        parts += ["", *benefit_chart({base.workload: advised.benefits})]
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


NO_MEMORY_TIME = "nothing goes beyond L2, and by Equation (12) only that takes time"
# Of each field of `Benefits`: its symbol in Sim et al. 2012, its equation, and what it is in the X-Y chart.
SYMBOLS = {
    "t_mem": ("T_mem", "(11)", "memory cost: x of A"),
    "t_comp": ("T_comp", "(2)", "computation cost: y of A"),
    "t_overlap": ("T_overlap", "(16), (17)", "memory cost that computation hides: from A to A'"),
    "t_exec": ("T_exec", "(1)", "what is left of both: x + y of A'"),
    "b_memlp": ("B_memlp", "(23)", "more memory requests in parallel"),
    "b_itilp": ("B_itilp", "(20)", "more instructions in parallel"),
    "b_serial": ("B_serial", "(21)", "no barriers, divergence, conflicts or SFU queues"),
    "b_fp": ("B_fp", "(22)", "no instructions beyond floating point"),
    "t_mem_min": ("T_mem_min", "(19)", "the data once at full bandwidth: x of the ideal"),
    "t_fp": ("T_fp", "(18)", "the floating-point work alone: y of the ideal"),
}
_OF_MEMORY = ("t_overlap", "b_memlp")  # arrows that point to a lower memory cost
ARROWS = (*_OF_MEMORY, "b_itilp", "b_serial", "b_fp")  # from A to the ideal, in their order


def no_benefits(machine: Machine) -> str:
    """Say why there is no chart of potential benefits."""
    if machine.sim is None:
        return f"Sim's parameters are missing: the machine file of {machine.name} has no [sim] section"
    return "Sim's model does not speak about this kernel: `warplens predict --model sim2012` says why"


def benefit_steps(b: Benefits) -> list[tuple[float, float]]:
    """Return the points of Sim's X-Y chart, memory and computation cost: A, A' and on to the ideal, arrow by arrow."""
    steps = [(b.t_mem, b.t_comp)]
    for field in ARROWS:
        (x, y), length = steps[-1], getattr(b, field)
        steps.append((x - length, y) if field in _OF_MEMORY else (x, y - length))
    return steps


def benefit_zone(b: Benefits) -> str:
    """Return on which side of the diagonal a kernel is."""
    return "memory-bound" if b.memory_bound else "compute-bound"


def benefit_rows(found: Sequence[Benefits]) -> list[list[str]]:
    """Return the numbers of Sim's X-Y chart in a row each: symbol, cycles of each kernel, equation, meaning."""
    return [
        [symbol, *(cycles(getattr(b, field)) for b in found), equation, meaning]
        for field, (symbol, equation, meaning) in SYMBOLS.items()
    ]


def benefit_chart(found: Mapping[str, Benefits]) -> list[RenderableType]:
    """Render the numbers of Sim's X-Y chart (Figures 4 and 14), a column for each kernel."""
    zones = ["zone", *map(benefit_zone, found.values()), "", "below or above the diagonal"]
    rows = [*benefit_rows([*found.values()]), zones]
    flat = notes((f"{name}: {NO_MEMORY_TIME}" for name, b in found.items() if not b.t_mem), "dim", "  ")
    head = ["", *found, "equation", "of the X-Y chart"]
    return [Text("  potential benefits (Sim et al. 2012)"), table(head, rows, {*range(1, len(found) + 1)}), *flat]


def data(advised: Advised) -> dict[str, Any]:
    """Return the same for machines."""
    names = ("advice", "combinations", "benefits", "notes")
    return {"prediction": advised.base, **{name: getattr(advised, name) for name in names}}
