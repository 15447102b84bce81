"""Simulations on the terminal: the time, what warps wait for, where; and the trace as a file.

saxpy on NVIDIA H200: 64 warps per SM, simulated

  98.2 us   +- 0.3 %                 warps mostly wait for: long_sb

  what a warp's time is made of, and in cycles per instruction
    long_sb       81.2%     84.2  ██████████████████████
    not_selected   6.4%     6.64  ██
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.core.errors import FileError
from warplens.core.files import read_text
from warplens.core.units import number, printable, quantity, seconds
from warplens.machine import Machine
from warplens.program.instruction import Instruction
from warplens.report.terminal import bar, notes, table
from warplens.simulator import Simulation
from warplens.simulator.views import READY, IssueRate, Occupancy, Trace, listen

_SHOWN = 0.005  # shares below this are not shown
_SEEN = 5e-4  # a smaller error would be written as none
_WINDOW = 64  # cycles of a rate in a trace


# Nsight Compute's stall reasons, in words.
REASONS = {
    "selected": "issuing",
    "wait": "a fixed latency",
    "short_sb": "a result of shared memory, an SFU or alike (short scoreboard)",
    "long_sb": "data from global or local memory (long scoreboard)",
    "barrier": "the other warps at a barrier",
    "branch_resolving": "a branch",
    "math": "a busy arithmetic pipe",
    "mio": "a full queue to shared memory or the SFUs",
    "lg": "a full queue to global memory",
    "dispatch": "a register port",
    "not_selected": "its turn: another warp issued",
    "drain": "its stores, at its end",
    "no_inst": "instructions that are not in the instruction cache",
    READY: "a full pipe or queue, or its turn",
}


def in_words(reason: str) -> str:
    """Return a reason with what it means."""
    return f"{reason}: {REASONS[reason]}" if reason in REASONS else reason


def answer(
    s: Simulation, machine: Machine, top: int = 12, code: Sequence[Instruction] = (), launch_seconds: float = 0.0
) -> list[RenderableType]:
    """Render a simulation: the answer first, then the reasons and what they mean, then what takes most time."""
    how = "simulated" if s.mode == "warplens" else "simulated as Lemeire et al. do"
    changes = ", ".join(f"{printable(key)}={value:g}" for key, value in s.changes.items())
    subject = f"{printable(s.workload)} on {machine.name}{' with ' * bool(changes)}{changes}"
    line = Text(f"  {seconds(s.seconds)}{'' if s.per == 'kernel' else f' per {s.per}'}", "bold green")
    error = s.error_cycles / s.cycles if s.cycles else 0.0
    far = f", sampling error +- {error:.1%}" if error >= _SEEN else ""
    if launch_seconds and s.mode == "warplens":
        with_it = seconds(s.seconds + launch_seconds)
        line.append(f" on the SMs; with the launch, {seconds(launch_seconds)}, {with_it}", "bold default")
    line.append(f"   ({quantity(s.cycles, 'cycles')}{far})", "not bold default")
    waits = {r: share for r, share in s.stalls.items() if r != "selected"}
    if any(waits.values()):
        line.append(f"      warps mostly wait for: {max(waits, key=lambda r: waits[r])}", "bold default")
    dram = f"DRAM {quantity(s.dram_bytes_per_second, 'B/s', 3)}, " if s.dram_bytes_per_second else ""
    facts = f"{number(s.ipc, 3)} IPC per SM, {dram}{s.simulated_instructions:,} instructions simulated, {s.policy}"
    parts: list[RenderableType] = [
        Text(f"{subject}: {s.warps_per_sm} warps per SM, {how}", "bold"), "", line, "",
        Text("  what a warp's time is made of, and in cycles per instruction"), *_reasons(s), "", Text(f"  {facts}"),
        *notes(s.notes),
    ]  # fmt: skip
    if error >= _SEEN:
        parts.append(Text("  sampling error: of the simulation itself, by what it left out and by chance; "
                          "`analyze` says how far off times are", "dim"))  # fmt: skip
    return [*parts, "", lines(s, top, code)] if top else parts


def beside(s: Simulation) -> list[str]:
    """Return for each instruction its share of the warps' time, and what they wait for most, in cycles each time."""
    total, found = sum(x.cycles for x in s.lines) or 1.0, list[str]()
    for x in s.lines:
        reason, cycles = max(x.stalls.items(), key=lambda item: item[1], default=("", 0.0))
        each = cycles / max(1, x.executed)
        waits = " " * 19 if reason in ("", "selected") else f"{number(each, 3):>6} {reason:<12}"
        found.append(f"{x.cycles / total:6.1%} {waits}" if x.executed else " " * 26)
    return found


def _reasons(s: Simulation) -> list[RenderableType]:
    """Render the stall reasons as bars, then what each means."""
    shown = sorted(((share, r) for r, share in s.stalls.items() if share >= _SHOWN), reverse=True)
    wide, longest, stack = max((len(r) for _, r in shown), default=0), max(shown, default=(1.0, ""))[0], s.cpi_stack
    bars = [
        Text.assemble(f"    {r:<{wide}}  {share:6.1%} {stack.get(r, 0.0):8.3g}  ", bar(share, longest))
        for share, r in shown
    ]
    known = [r for _, r in shown if r in REASONS]
    wide = max(map(len, known), default=0)
    words = [Text(f"    {r:<{wide}}  {'' if r == 'selected' else 'waits for '}{REASONS[r]}", "dim") for r in known]
    return [*bars, "", *words]


def lines(s: Simulation, top: int, code: Sequence[Instruction] = ()) -> RenderableType:
    """Render the instructions that cost most warp-cycles, the costliest first, each with its largest reasons."""
    total = sum(x.cycles for x in s.lines) or 1.0
    chosen = sorted(range(len(s.lines)), key=lambda i: -s.lines[i].cycles)[:top]
    rows = []
    for i in chosen:
        x, at = s.lines[i], code[i].line if i < len(code) else None
        reasons = sorted(x.stalls.items(), key=lambda item: -item[1])[:2]
        each = ", ".join(f"{r} {c / max(1, x.executed):.3g}" for r, c in reasons)
        line = "" if at is None else str(at)
        rows.append([f"{x.cycles / total:.1%}", line, str(i), x.text[:48], f"{x.executed:,}", each])
    return table(["time", "line", "", "instruction", "executed", "cycles each"], rows, {0, 1, 2, 4})


def by_line(s: Simulation, code: Sequence[Instruction]) -> dict[int, dict[str, float]]:
    """Return what the warps' time went to by line of the source, in shares by reason; what has no line is left out."""
    total = sum(x.cycles for x in s.lines) or 1.0
    found: dict[int, dict[str, float]] = {}
    for x, instruction in zip(s.lines, code, strict=False):
        if instruction.line is not None:
            reasons = found.setdefault(instruction.line, {})
            for reason, cycles in x.stalls.items():
                reasons[reason] = reasons.get(reason, 0.0) + cycles / total
    return {line: found[line] for line in sorted(found)}


def read_source(*files: str) -> list[str]:
    """Return the lines of the first of some files that is a source, CUDA or Triton; none where it is not there."""
    for path in map(Path, files):
        if path.suffix in (".cu", ".cuh", ".py") and path.is_file():
            with contextlib.suppress(FileError):
                return read_text(path, "replace").splitlines()
    return []


def source_lines(s: Simulation, code: Sequence[Instruction], text: Sequence[str] = ()) -> list[RenderableType]:
    """Render the same, with the lines of the source where they are at hand; nothing if no instruction has a line."""
    rows = []
    ranked = sorted(by_line(s, code).items(), key=lambda item: -sum(item[1].values()))
    for line, reasons in ranked:
        if (share := sum(reasons.values())) >= _SHOWN:
            most = sorted(reasons.items(), key=lambda item: -item[1])[:3]
            shown = text[line - 1].strip()[:56] if line <= len(text) else ""
            rows.append([str(line), shown, f"{share:.1%}", ", ".join(f"{r} {c:.1%}" for r, c in most if c >= _SHOWN)])
    return ["", table(["line", "source", "time", "of it"], rows, {0, 2})] if rows else []


_WITH_UNITS = {"stalls": "stalls_fraction", "sampled": "sampled_fraction"}


def data(s: Simulation, code: Sequence[Instruction] = ()) -> dict[str, Any]:
    """Return a simulation for JSON: without the events, which a trace is for."""
    found = {_WITH_UNITS.get(n, n): getattr(s, n) for n in s.__struct_fields__ if n != "events"}
    found["lines"] = [{"text": x.text, "executed": x.executed, "stalls_cycles": x.stalls} for x in s.lines]
    return {"simulation": {**found, "cpi_stack": s.cpi_stack, "source_lines": by_line(s, code)}}


def trace(s: Simulation) -> str:
    """Return the events as a trace in Chrome's format, with blocks on the SM and instructions per cycle over time."""
    found, blocks, rates = listen(s, [Trace([x.text for x in s.lines]), Occupancy(1), IssueRate(_WINDOW)])
    for name, values in (("blocks on the SM", blocks), ("instructions per cycle", rates)):
        found["traceEvents"] += [
            {"name": name, "ph": "C", "pid": 1, "ts": cycle, "args": {name: value}} for cycle, value in values
        ]
    return json.dumps(found)
