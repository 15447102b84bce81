"""Terminal output: the console, tables, and predictions with the answer first, then the limits, then the terms.

saxpy on NVIDIA H200: 64 warps per SM (100 %)

  95.1 us   by volkov                                limited by: dram bandwidth

  alone, each limit would take
    dram bandwidth   95.1 us  ██████████████████████
    latency          45.3 us  ██████████
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from warplens.core import units
from warplens.core.units import number, printable, quantity, seconds
from warplens.machine import Machine, evidence
from warplens.models import Curve, Prediction
from warplens.models.registry import Comparison
from warplens.program import Instruction
from warplens.workload import Workload
from warplens.workload.launch import CONTENTS_ASSUMED, KernelCall


class _Console(Console):
    """A console that leaves a closed pipe to the command line, which knows that it is no error."""

    def on_broken_pipe(self) -> None:
        """Hand the error on to the command line."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Replace what a terminal would obey, in names of any origin; lines and the console's styles stay."""
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.replace("\n", "").isprintable()
            yield segment if clean else segment._replace(text="\n".join(map(printable, segment.text.split("\n"))))


def console(width: int | None = None) -> Console:
    """Return a console on standard output that neither wraps pipes narrowly nor guesses at markup."""
    screen = _Console(width=width, highlight=False, emoji=False)
    return screen if screen.is_terminal else _Console(width=width or 110, highlight=False, emoji=False)


def table(headers: Iterable[str], rows: Iterable[Iterable[RenderableType]], right: set[int] | None = None) -> Table:
    """Return a plain table; the columns in `right` are aligned right. Strings are data, never markup."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for i, header in enumerate(headers):
        grid.add_column(header, justify="right" if right and i in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*[Text(printable(cell)) if isinstance(cell, str) else cell for cell in row])
    return grid


def bar(x: float, longest: float, width: int = 28) -> Text:
    """Return a bar; one that is longer than the longest, as of an endless time, is none."""
    return Text("█" * (max(0, round(width * x / longest)) if x <= longest and longest > 0 else 0), "cyan")


def notes(found: Iterable[str], style: str = "yellow", before: str = "  note: ") -> list[RenderableType]:
    """Render notes, a line each."""
    return [Text(f"{before}{printable(note)}", style) for note in found]


def timed(x: float, machine: Machine) -> str:
    """Write a predicted time: with two digits where no launch was timed on the GPU."""
    return seconds(x) if machine.base is None else f"about {seconds(float(f'{x:.2g}'))}"


def sure(interval: tuple[float, float], machine: Machine | None = None) -> str:
    """Say what we are 90 % sure of: with two digits where no launch was timed on the GPU."""
    return units.sure(interval, 3 if machine is None or machine.base is None else 2)


def cycles(x: float) -> str:
    """Write a number of cycles: `225 Mcycles`."""
    return quantity(x, "Hz", 3).removesuffix("Hz") + "cycles"


def instruction_text(x: Instruction) -> str:
    """Return an instruction as it is listed, without the disassembler's remarks."""
    return printable(" ".join(filter(None, (x.guard, x.text.removeprefix(x.guard).partition("(*")[0].strip()))))


def value_at(machine: Machine, key: str) -> Any:
    """Return the value at a dotted key of a machine."""

    def inside(thing: Any, name: str) -> Any:
        if isinstance(thing, dict):
            return thing[name]
        return thing[int(name)] if isinstance(thing, (list, tuple)) else getattr(thing, name)

    return reduce(inside, key.split("."), machine)


def headline(p: Prediction, call: KernelCall, machine: Machine) -> list[RenderableType]:
    """Render the top of the first screen: the time of a kernel, its interval, what limits it.

    It needs nothing of the remedies: a user sees it before they are looked for.
    """
    grid, block = ("x".join(str(n) for n in shape if n > 1) or "1" for shape in (call.grid_shape, call.block_shape))
    parts = [_subject(p, machine, f", grid {grid}, block {block}"), ""]
    parts += _answer(p, timed(float(p.seconds or 0), machine), f"by {p.model}", machine)
    if p.interval_about:
        rests = "by the errors of " if p.interval_seconds is not None else ""
        parts.append(Text(f"  {rests}{p.interval_about}", "dim"))
    parts += notes((n for n in call.notes if n.startswith(CONTENTS_ASSUMED)), before="  ")
    return [*parts, "", Text("  alone, each limit would take"), *_bars(p), ""]


def prediction(p: Prediction, workload: Workload, machine: Machine) -> list[RenderableType]:
    """Render one prediction with its terms."""
    parts = [_subject(p, machine), ""]
    if p.seconds is None:
        parts.append(Text(f"  {p.model} gives no time: it {'; it '.join(p.notes) or 'only counts warps'}"))
    else:
        what = "" if p.per in ("kernel", "program") else f" per {p.per}"
        by = f"({quantity(float(p.cycles or 0), 'cycles')}) by {p.model}"
        parts += _answer(p, f"{timed(float(p.seconds), machine)}{what}", by, machine)
    if p.limits and p.cycles is not None:
        parts += ["", Text("  alone, each limit would take"), *_bars(p)]
    facts = []
    if p.needed_warps_per_sm is not None:
        facts.append(f"latency is hidden from {number(float(p.needed_warps_per_sm), 3)} warps per SM on")
    if p.ipc is not None and p.seconds is not None:
        facts.append(f"{number(float(p.ipc), 3)} IPC per SM")
        if p.dram_bytes_per_second:
            facts.append(f"DRAM {quantity(float(p.dram_bytes_per_second), 'B/s', 3)}")
    if facts:
        parts += ["", Text("  " + ", ".join(facts))]
    if p.seconds is not None:
        parts += notes(p.notes)
    rows = [[name, number(float(t.value), 6), t.unit, t.equation] for name, t in p.terms.items()]
    return [*parts, "", table(["term", "value", "unit", "equation"], rows, {1})]


def _subject(p: Prediction, machine: Machine, launch: str = "") -> RenderableType:
    """Say what is predicted, on which machine, at which occupancy."""
    warps = float(p.warps_per_sm)
    occupancy = f"{number(warps)} warps per SM ({warps / machine.sm.warps_max:.0%})"
    return Text(f"{printable(p.workload)} on {machine.name}{launch}: {occupancy}", "bold")


def _answer(p: Prediction, time: str, by: str, machine: Machine | None = None) -> list[RenderableType]:
    """Render the time, on a known machine with its interval, the limit, why it is not our own model's, its flags."""
    line = Text(f"  {time}", "bold green")
    if machine is not None and p.interval_seconds is not None:
        line.append(f", {sure(p.interval_seconds, machine)}", "bold default")
    line.append(f"   {by}", "not bold default")
    line.append(f"      limited by: {p.limited_by}", "bold default")
    why = [Text(f"  not by our own model: {printable(p.why_not_ours)}", "yellow")] if p.why_not_ours else []
    return [line, *why, *notes(p.flags, "bold red", "  ")]


def _bars(p: Prediction) -> list[RenderableType]:
    """Render what each limit alone would take, the longest first."""
    clock = float(p.cycles or 1) / float(p.seconds or 1)
    limits = {name: cycles / clock for name, cycles in p.alone.items()}
    longest, wide = min(max(limits.values(), default=0.0) or 1.0, sys.float_info.max), max(map(len, limits), default=0)
    return [Text.assemble(f"    {name:<{wide}}  {seconds(x):>10}  ", bar(x, longest)) for name, x in limits.items()]


def comparison(c: Comparison, machine: Machine) -> list[RenderableType]:
    """Render all models side by side."""
    some = next(iter(c.predictions.values()), None)
    n = "" if some is None else f": {number(float(some.warps_per_sm))} warps per SM"
    parts: list[RenderableType] = [Text(f"{printable(c.workload)} on {machine.name}{n}", "bold"), ""]
    best = c.headline
    if best is not None:
        parts += _answer(best, seconds(float(best.seconds or 0)), f"by {best.model}")
        parts += notes(span(c), "", "  the ")
    parts.append("")
    rows: list[list[RenderableType]] = []
    for name, p in c.predictions.items():
        time = "-" if p.seconds is None else seconds(float(p.seconds))
        needed = "" if p.needed_warps_per_sm is None else number(float(p.needed_warps_per_sm), 3)
        remark = Text("; ".join(p.flags), "red") if p.flags else Text("; ".join(p.notes), "dim")
        rows.append([Text(name, "red" if p.flags else ""), time, p.limited_by, needed, remark])
    rows += [[Text(name, "dim"), "-", "", "", Text(why, "dim")] for name, why in c.silent.items()]
    parts.append(table(["model", "time", "limited by", "warps needed", "remarks"], rows, {1, 3}))
    if some is not None and some.per not in ("kernel", "program"):
        parts.append(Text(f"time is per {some.per}: this workload is steady state, without a launch", "dim"))
    return [*parts, *notes(c.notes, before="note: ")]


def span(c: Comparison) -> list[str]:
    """Say how far apart the physically possible models are; nothing where there is none."""
    timed = c.possible
    if not timed:
        return []
    low, high = min(timed, key=lambda k: timed[k]), max(timed, key=lambda k: timed[k])
    within = f"{len(timed)} models within the hardware's limits say"
    return [f"{within} {seconds(timed[low])} ({low}) to {seconds(timed[high])} ({high})"]


def curve(c: Curve, machine: Machine) -> list[RenderableType]:
    """Render throughput against occupancy with a bar per row."""
    parts: list[RenderableType] = [Text(f"{printable(c.workload)} on {machine.name} by {c.model}", "bold"), ""]
    known = {share: "never" if n is None else number(n, 3) for share, n in c.needed_warps_per_sm.items()}
    needed = ", ".join(f"{share}: {n}" for share, n in known.items())
    parts += [Text(f"  warps per SM needed for a share of peak throughput: {needed}"), ""]
    top = max((float(x) for x in c.throughput_warps_per_cycle), default=0.0)
    rows: list[list[RenderableType]] = []
    for i, n in enumerate(c.warps_per_sm):
        rows.append([number(float(n)), seconds(float(c.seconds[i])), number(float(c.ipc[i]), 3),
                     quantity(float(c.dram_bytes_per_second[i]), "B/s", 3),
                     bar(float(c.throughput_warps_per_cycle[i]), top)])  # fmt: skip
    parts.append(table(["warps/SM", "time", "IPC/SM", "DRAM", "throughput"], rows, {0, 1, 2, 3}))
    return [*parts, *notes(c.flags, "bold red", "")]


def machines(ms: Iterable[Machine]) -> list[RenderableType]:
    """Render the list of machines, with what the numbers of each rest on."""
    rows = []
    for m in ms:
        bandwidth = m.memory.pin_bytes_per_second or m.memory.sustained_bytes_per_second
        rows.append([m.id, m.name, m.architecture, m.compute_capability or "", evidence(m), number(m.chip.sm_count),
                     quantity(m.chip.clock_hz, "Hz"), "" if bandwidth is None else quantity(bandwidth, "B/s"),
                     ", ".join(m.aliases)])  # fmt: skip
    head = ["id", "name", "architecture", "cc", "rests on", "SMs", "clock", "memory", "also"]
    says = (
        "measured: by `warplens machine measure`, as were the launches that its intervals rest on",
        "data sheet: with others' measurements; the rest by rule from a measured GPU (docs/reference/machine-file.md)",
        "paper: as a paper has it, to reproduce that paper",
    )
    found = table(head, rows, {5, 6, 7})
    found.columns[0].no_wrap = True  # it is what one types
    return [found, "", *notes(says, "dim", "")]


_IMPORTANT = re.compile(
    r"chip\.\w+|memory\.(pin|sustained|capacity)_\w+|bandwidth\.(dram_(read|write|r1w1)_16|l[12]_load_16)\.bytes_per_second"
    r"|sm\.(schedulers|warps_max|blocks_max|threads_per_block_max|registers|registers_per_thread_max|shared_bytes"
    r"|shared_per_block_max_bytes|cuda_cores|sfu_units|fp64_units)|cache\.(l[12]_bytes|l[12]_latency_cycles|\w+_per_second)"
    r"|instructions\.(fp32|fp64|int|imul|sfu|load|shared|tensor)\.(latency_cycles|peak_ops\w+)"
)  # of a machine file: what an engineer asks first; the rest are latencies of operations, curves, residuals
_FEW_NUMBERS = 100  # of a machine: all of them are shown


def important(m: Machine) -> list[str]:
    """Return the keys of the numbers that are shown where not all are asked for."""
    return [key for key in m.sources if len(m.sources) <= _FEW_NUMBERS or _IMPORTANT.fullmatch(key)]


def machine(m: Machine, keys: Sequence[str]) -> list[RenderableType]:
    """Render one machine: the numbers at these keys with their sources, and with references if they are all."""
    rows, whole = [], len(keys) == len(m.sources)
    for key in keys:
        source, value = m.sources[key], value_at(m, key)
        shown = ", ".join(map(number, value)) if isinstance(value, (list, tuple)) else quantity(value, source.unit)
        reference = source.ref + (f" ({source.date})" if source.date else "")
        rows.append([key, shown, source.source, *([reference] if whole else [])])
    heads = ["key", "value", "source", *(["reference"] if whole else [])]
    more = [] if whole else [f"{len(m.sources) - len(keys):,} numbers more, and where each comes from: --all"]
    head = Text(f"{m.name} ({m.id}), {m.architecture}", "bold")
    return [head, "", *notes(m.notes, "dim", "  "), table(heads, rows, {1}), *more]
