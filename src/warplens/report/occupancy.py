"""Occupancy on the terminal and as an HTML page: the answer first, then what to change, the block sizes, and a map.

6 blocks of 256 threads, 48 warps per SM (75%), limited by registers
  sgemm on NVIDIA A100 80GB SXM
  40 registers per thread, 0 B shared memory and 1 barrier per block
  100% (8 blocks) with at most 32 registers per thread
"""

from __future__ import annotations

from bisect import bisect_left

from rich.console import RenderableType
from rich.text import Text

from warplens.core.units import printable
from warplens.machine import Machine, Occupancy, OccupancyTable
from warplens.machine.occupancy import best_blocks
from warplens.report.page import markup
from warplens.report.page.markup import Section, document, joined, tag
from warplens.report.page.svg import Plot, figure, line
from warplens.report.terminal import bar, notes, table

_HEAD = ["block", "blocks/SM", "warps/SM", "occupancy", "limited by", "to reach"]
_BAR = 10
_CELL = 3
_SHADES = ((1.0, "█", "green"), (0.75, "▓", "green"), (0.5, "▒", "yellow"), (0.25, "░", "red"), (0.0, "·", "red"))
_UNITS = {"registers": "registers per thread", "shared memory": "B shared memory per block",
          "barriers": "barriers per block"}  # fmt: skip


def of_workload(o: Occupancy, name: str, machine: Machine) -> list[RenderableType]:
    """Render the resident blocks of a workload with a launch."""
    fits = f"{o.warps_per_sm} warps per SM ({o.fraction:.0%}): {o.blocks_per_sm} blocks of {o.warps_per_block} warps"
    lines = (fits, f"limited by: {o.limiter}   ({_alone(o)})")
    return [Text(f"{printable(name)} on {machine.name}", "bold"), "", *notes(lines, "", "  "), ""]


def of_kernel(t: OccupancyTable, machine: Machine) -> list[RenderableType]:
    """Render the answer for one block size, then all block sizes and the map over registers."""
    parts: list[RenderableType] = [Text(_answer(t), "bold")]
    parts += notes((_subject(t, machine), _needs(t), _alone(t.answer)), "", "  ")
    parts += [*notes(_remedies(t), "green", "  "), *notes(_notes(t, machine))]
    rows: list[list[RenderableType]] = []
    for threads in t.map.threads_per_block:
        *cells, more = _cells(t, threads)
        rows.append([*cells, bar(t.rows[threads].fraction, 1.0, _BAR) if threads in t.rows else "", more])
    return [*parts, "", table([*_HEAD[:5], "", _HEAD[5]], rows, {0, 1, 2, 3}), "", *_map(t, machine)]


def page(t: OccupancyTable, machine: Machine) -> str:
    """Return a self-contained HTML page: the answer, all block sizes, warps against each need."""
    plots = [
        _plot("block size", "threads per block", {k: o.warps_per_sm for k, o in t.rows.items()}, t.block),
        _plot("registers", "registers per thread", t.by_registers, t.needs.registers_per_thread),
        _plot("shared memory", "bytes of shared memory per block", t.by_shared_bytes, t.needs.shared_bytes_per_block),
    ]
    sizes = markup.table(_HEAD, [_cells(t, threads) for threads in t.rows], range(4))
    warps = Section("warps", "Warps per SM", "Warps per SM", joined(map(figure, plots)))
    title = f"Occupancy of {printable(t.kernel) or 'a kernel'} on {machine.name}"
    said = [f"{_subject(t, machine)}: {_needs(t)}", *_remedies(t), *_notes(t, machine)]
    top = tag("header", tag("h1", title), tag("p", _answer(t), class_="answer"), *(tag("p", text) for text in said))
    return document(title, top, [warps, Section("sizes", "Block sizes", "All block sizes", sizes)])


def _cells(t: OccupancyTable, threads: int) -> list[str]:
    """Return the row of a block size."""
    fits = t.rows.get(threads)
    if fits is None:
        return [str(threads), "0", "0", "0%", "does not fit", ""]
    step, names, more = t.steps[threads], {"shared memory": "B shared"}, ""
    if step is not None:
        needs = (f"≤ {most} {names.get(name, name)}" for name, most in step.at_most.items())
        more = f"{step.fraction:.0%}: {', '.join(needs)}"
    return [f"{threads}", f"{fits.blocks_per_sm}", f"{fits.warps_per_sm}", f"{fits.fraction:.0%}", fits.limiter, more]


def _answer(t: OccupancyTable) -> str:
    o = t.answer
    binding = " and ".join(name for name, limit in o.limits.items() if limit == o.blocks_per_sm)
    fits = f"{_count(o.blocks_per_sm, 'block')} of {t.block} threads, {_count(o.warps_per_sm, 'warp')} per SM"
    return f"{fits} ({o.fraction:.0%}), limited by {binding}"


def _subject(t: OccupancyTable, machine: Machine) -> str:
    name = printable(t.kernel)
    name = f"{name[:67]}..." if len(name) > 70 else name or "a kernel"
    return f"{name} on {machine.name}"


def _needs(t: OccupancyTable) -> str:
    n = t.needs
    registers, barriers = _count(n.registers_per_thread, "register"), _count(n.barriers_per_block, "barrier")
    return f"{registers} per thread, {n.shared_bytes_per_block} B shared memory and {barriers} per block"


def _alone(o: Occupancy) -> str:
    limits = ", ".join(f"{resource} {blocks}" for resource, blocks in o.limits.items())
    return f"blocks that each resource alone would allow: {limits}"


def _remedies(t: OccupancyTable) -> list[str]:
    """Say what would give one block more, what the most, and which block sizes are best."""
    lines = []
    for step in [t.one_more, *([t.most] if t.most != t.one_more else [])]:
        if step is not None:
            wanted = " and ".join(f"at most {most} {_UNITS[name]}" for name, most in step.at_most.items())
            lines.append(f"{step.fraction:.0%} ({_count(step.blocks_per_sm, 'block')}) with {wanted}")
    best = best_blocks(t.rows)
    if t.block not in best:
        top = t.rows[best[0]]
        sizes = ", ".join(map(str, best[:8])) + (", ..." if len(best) > 8 else "")
        lines.append(f"{top.fraction:.0%} with blocks of {sizes} threads")
    return lines


def _notes(t: OccupancyTable, machine: Machine) -> list[str]:
    digits = (machine.compute_capability or "").replace(".", "")
    if t.arch and digits and t.arch.rstrip("af") != f"sm_{digits}":
        return [f"the registers are those of code for {t.arch}; compiled for this GPU they may differ"]
    return []


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _map(t: OccupancyTable, machine: Machine) -> list[RenderableType]:
    """Render warps per SM over block size and registers, the kernel's own point marked."""
    m = t.map
    own = bisect_left(m.registers_per_thread, t.needs.registers_per_thread) if t.needs.registers_per_thread else -1
    labels = [f"{r:>{2 * _CELL}}" for r in m.registers_per_thread[1::2]]
    lines: list[RenderableType] = [Text("block   registers per thread", "bold"), Text("      " + "".join(labels))]
    for threads, warps in zip(m.threads_per_block, m.warps_per_sm, strict=True):
        row = Text(f"{threads:>5} ")
        for column, n in enumerate(warps):
            share = n / machine.sm.warps_max
            glyph, style = next((g, s) for least, g, s in _SHADES if share >= least) if n else (" ", "")
            mark = threads == t.block and column == own
            row.append(f"{glyph}◆{glyph}" if mark else glyph * _CELL, "bold" if mark else style)
        lines.append(row)
    legend = "█ 100%  ▓ from 75%  ▒ from 50%  ░ from 25%  · less  blank: does not fit"
    return [*lines, Text(f"      {legend}{'  ◆ this kernel' if own >= 0 else ''}", "dim")]


def _plot(title: str, axis: str, warps: dict[int, int], own: int) -> Plot:
    series = [line("warps per SM", list(warps), list(warps.values()))]
    series += [line("this kernel", [own], [0], "rule")] if own else []
    return Plot(f"warps per SM against {title}", axis, "warps per SM", series)
