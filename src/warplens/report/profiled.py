"""`warplens profile`: what a profiler measured, and what we say from its counts and from the emulator's.

saxpy4 on NVIDIA H200, profiled

  measured                       93.1 us
  from the profiler's counts     94.0 us    +1.0 %   limited by: dram bandwidth
  from the emulator's counts     94.2 us    +1.2 %   limited by: dram bandwidth
"""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.machine import Machine
from warplens.report.terminal import table
from warplens.study.profiled import Profiled
from warplens.units import number, printable, quantity, seconds


def answer(found: Profiled, machine: Machine) -> list[RenderableType]:
    """Render the times, then the counts."""
    parts: list[RenderableType] = [Text(f"{printable(found.kernel)} on {machine.name}, profiled", "bold"), ""]
    parts.append(Text(f"  {'measured':<28} {seconds(found.measured_seconds):>10}", "bold green"))
    for source, p in found.predictions.items():
        label, time = f"from the {source}'s counts", seconds(float(p.seconds or 0.0))
        parts.append(Text(f"  {label:<28} {time:>10}  {found.percent(source):+6.1f} %   limited by: {p.limited_by}"))
    shown = {"B": lambda x: quantity(x, "B"), "percent": lambda x: f"{x:.1f} %", "": lambda x: number(x, 6)}
    rows = [[c.what, shown[c.unit](c.measured), shown[c.unit](c.emulated)] for c in found.counts]
    parts += ["", table(["", "profiler", "emulator"], rows, {1, 2})]
    return [*parts, *(Text(f"  note: {note}", "yellow") for note in found.notes)]


def data(found: Profiled) -> dict[str, Any]:
    """Return the same for machines."""
    return {
        "kernel": found.kernel,
        "machine": found.machine,
        "measured_seconds": found.measured_seconds,
        "predictions": found.predictions,
        "error_percent": {source: found.percent(source) for source in found.predictions},
        "counts": found.counts,
        "notes": found.notes,
    }
