"""Benefit X-Y chart of Sim et al. 2012 (Figures 4 and 14), for the page and, as a table, for the terminal.

x is the cost of memory, y that of computation. A is the kernel, A' the kernel less what overlaps. From there the four
potential benefits lead, as arrows, to the ideal. All lengths are terms of the model `sim2012`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Benefits
from warplens.machine import Machine
from warplens.report.page import markup
from warplens.report.page.markup import Markup, tag, value
from warplens.report.page.svg import Marked, Plot, Series, figure
from warplens.report.terminal import cycles, notes, table

_NO_MEMORY_TIME = "nothing goes beyond L2, and by Equation (12) only that takes time"
# Of each field of `Benefits`: its symbol in Sim et al. 2012, its equation, and what it is in the X-Y chart.
_SYMBOLS = {
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
_MOST_COLUMNS = 3  # of kernels side by side
_OF_MEMORY = ("t_overlap", "b_memlp")  # arrows that point to a lower memory cost
_ARROWS = (*_OF_MEMORY, "b_itilp", "b_serial", "b_fp")  # from A to the ideal, in their order


def missing(machine: Machine) -> str:
    """Say why there is no chart of potential benefits."""
    if machine.sim is None:
        return f"Sim's parameters are missing: the machine file of {machine.name} has no [sim] section"
    return "Sim's model does not speak about this kernel: `warplens predict --model sim2012` says why"


def steps(b: Benefits) -> list[tuple[float, float]]:
    """Return the points of Sim's X-Y chart, memory and computation cost: A, A' and on to the ideal, arrow by arrow."""
    found = [(b.t_mem, b.t_comp)]
    for field in _ARROWS:
        (x, y), length = found[-1], getattr(b, field)
        found.append((x - length, y) if field in _OF_MEMORY else (x, y - length))
    return found


def _zone(b: Benefits) -> str:
    """Return on which side of the diagonal a kernel is."""
    return "memory-bound" if b.memory_bound else "compute-bound"


def rows(found: Sequence[Benefits]) -> list[list[str]]:
    """Return the numbers of Sim's X-Y chart in a row each: symbol, cycles of each kernel, equation, meaning."""
    return [
        [symbol, *(cycles(getattr(b, field)) for b in found), equation, meaning]
        for field, (symbol, equation, meaning) in _SYMBOLS.items()
    ]


def rendered(found: Mapping[str, Benefits]) -> list[RenderableType]:
    """Render the numbers of the chart for the terminal, a column for each kernel; of many kernels a row for each."""
    title = Text("  potential benefits (Sim et al. 2012)")
    if len(found) > _MOST_COLUMNS:
        symbols = [f"{symbol} {equation}" for symbol, equation, _ in _SYMBOLS.values()]
        each = [[name, *(cycles(getattr(b, field)) for field in _SYMBOLS), _zone(b)] for name, b in found.items()]
        return [title, table(["", *symbols, "zone"], each, {*range(1, len(symbols) + 1)})]
    zones = ["zone", *map(_zone, found.values()), "", "below or above the diagonal"]
    flat = notes((f"{name}: {_NO_MEMORY_TIME}" for name, b in found.items() if not b.t_mem), "dim", "  ")
    head, right = ["", *found, "equation", "of the X-Y chart"], {*range(1, len(found) + 1)}
    numbers = table(head, [*rows([*found.values()]), zones], right)
    return [title, numbers, *flat]


def chart(b: Benefits | None, machine: Machine) -> Markup:
    """Return the chart for the page: arrows from A by A' to the ideal, or why there is none."""
    if b is None:
        return tag("p", missing(machine), class_="dim")
    points, most = steps(b), max(b.t_mem, b.t_comp)  # one scale for both
    series: list[Series] = [Marked("memory cost = computation cost", [0.0, most], [0.0, most], hue="grey")]
    for field, begin, end in zip(_ARROWS, points, points[1:], strict=False):
        symbol, equation, meaning = _SYMBOLS[field]
        xs, ys = ([], []) if begin == end else zip(begin, end, strict=True)
        why = f"Sim et al. 2012, Equation {equation}: {meaning}"
        series.append(Marked(f"{symbol} {cycles(getattr(b, field))}", [*xs], [*ys], "arrow", whys=[why]))
    for name, (x, y) in {"A": points[0], "A'": points[1], "ideal": points[-1]}.items():
        why = f"{name}: {cycles(x)} of memory, {cycles(y)} of computation"
        series.append(Marked(name, [x], [y], "spots", hue="ink", whys=[why], named=True))
    time = b.t_exec / machine.chip.clock_hz
    said = tag("p", "Sim's model calls the kernel ", tag("b", _zone(b)), ", with T_exec of ",
               value(markup.seconds(time), "T_exec, Sim et al. 2012, Equation (1), see docs/reference/models.md"),
               ". A benefit is at most what would be saved if that cause alone went away.",
               "" if b.t_mem else f" Memory has no cost: {_NO_MEMORY_TIME}.")  # fmt: skip
    numbers = markup.table(["", "cycles", "equation", "meaning"], rows([b]), (1,), caption="potential benefits")
    return figure(Plot("", "memory cost, cycles", "computation cost, cycles", series), said, numbers=numbers)
