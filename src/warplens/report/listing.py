"""Annotated listing of `warplens show`: one warp alone, cycle by cycle.

    offset  loop  cyc st wait   w r class     live  line  instruction
    00130   |       13  1 --2--- - - fp32       9     6  FFMA R11, R11, UR6, R15

cyc: issue cycle since the start of the block. st: stall. wait: scoreboards waited for. w, r: scoreboards for the
result and for the sources read. live: general registers in use. Above: the path through the kernel; under each
loop: its steady state, its critical path (where the cycles go) and the recurrence that no schedule can beat.
With a profile there is a column `runs` more: how often a warp of the call runs the instruction, on average. With a
simulation `time`: the instruction's share of all warps' time, and what they wait for there most, in cycles each time.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from warplens.core.units import number, printable
from warplens.machine import Machine
from warplens.program import Instruction
from warplens.program.program import Program
from warplens.program.static_analysis import CodePath, LoopFacts, StaticAnalysis
from warplens.program.toolchain import untested
from warplens.report.analysis import counted
from warplens.report.terminal import instruction_text, notes
from warplens.workload.profile import Profile

WIDTH = 120


def program(
    p: Program, a: StaticAnalysis, machine: Machine, profile: Profile | None = None, stalls: Sequence[str] = ()
) -> list[RenderableType]:
    """Render a program with its analysis; `stalls`: a column more, for each instruction."""
    tools = printable(", ".join(p.tools)) or "no tool known"
    parts: list[RenderableType] = [
        Text(
            f"{printable(p.demangled)}   {p.arch or 'no architecture named'}, {len(p.instructions)} instructions",
            "bold",
        ),
        Text(f"  {_resources(p)}\n  by {tools}; latencies of {machine.name}"),
    ]
    for path in a.paths:
        which = ("shortest path: " if path is a.paths[0] else "longest path: ") if len(a.paths) > 1 else ""
        loops = ", every loop once" if a.loops else ""
        early = ", leaving at no early EXIT" if any(x.opcode == "EXIT" and x.guard for x in p.instructions) else ""
        head = f"  {which}a lone warp takes {number(path.cycles)} cycles{loops}{early}"
        parts.append("\n".join(_wrapped(f"{head}: {_spent(path, p)}", 4)))
    doubts = [*warnings(p, a, machine), *(untested(p.tools) if profile is None else ())]  # it has that in its notes
    parts += [Text("\n".join(_wrapped(f"  {doubt}", 4, 108)), "yellow") for doubt in doubts]
    if profile is not None:
        parts += notes(counted(profile, p.instructions), "", "  ")
    column = "" if profile is None else "   runs"
    column += f"  {'time   what warps wait for':<26}" if stalls else ""
    parts += ["", Text(f"offset  loop  cyc st wait   w r class     live  line{column}  instruction", "bold")]
    parts.append("\n".join(_listing(p, a, profile, stalls)))
    return parts


def warnings(p: Program, a: StaticAnalysis, machine: Machine) -> list[str]:
    """Return what makes the cycles of this listing less sure, one line each."""
    found = []
    unknown = Counter(x.opcode for x in p.instructions if x.kind == "other")
    if unknown:
        share = 100 * unknown.total() / len(p.instructions)
        names = ", ".join(f"{printable(name)} x{count}" for name, count in unknown.most_common(6))
        more = f" and {len(unknown) - 6} more" if len(unknown) > 6 else ""
        late = sum(
            x.control is None or x.control.write_scoreboard is not None for x in p.instructions if x.kind == "other"
        )
        cost = f"{late} of them with a result of unknown latency: what waits for it comes out too early"
        sure = "their stall counts are known, so the cycles hold"
        found.append(
            f"unknown opcodes ({share:.2g} % of the code), taken as integer: {names}{more}; {cost if late else sure}"
        )
    capability = (machine.compute_capability or "").replace(".", "")
    if p.arch and capability and not re.fullmatch(rf"sm_{capability}[af]?", p.arch):
        found.append(f"code for {p.arch}, latencies of {machine.name} (sm_{capability}): name the GPU with --gpu")
    calls = sum(x.opcode in ("CALL", "CAL") for x in p.instructions)
    if calls:
        found.append(f"{calls} calls: what the functions take is in their own lines, not in the ways and loops shown")
    guessed = Counter(x.opcode for x in p.instructions if _guessed(x, machine))
    if guessed:
        names = ", ".join(printable(name) for name, _ in guessed.most_common(6))
        found.append(f"no latency measured for the results of {names}: taken as of plain arithmetic")
    if not p.has_control:
        found.append("no control codes: cycles from the machine file's latencies and the registers shared")
    if a.without_latency:
        known = ", ".join(a.without_latency)
        found.append(f"{machine.id} has no latency of {known}: taken as 0, the cycles are too few")
    if p.resources.spills:
        stores = sum(x.opcode == "STL" and x.offset in p.resources.spills for x in p.instructions)
        loads = sum(x.opcode == "LDL" and x.offset in p.resources.spills for x in p.instructions)
        found.append(f"registers spilled to local memory: {stores} stores and {loads} loads, marked S")
    return found


def _guessed(x: Instruction, machine: Machine) -> bool:
    """Say whether a result that is waited for has its latency only from other instructions.

    The latency of `int` and `uniform` is that of arithmetic, which nobody waits for by a scoreboard, unlike S2R's.
    """
    waited = x.control is not None and x.control.write_scoreboard is not None
    own = machine.instructions.get(x.kind)
    known = x.kind == "constant" and own is not None and own.latency_cycles is not None
    return waited and x.kind in ("int", "uniform", "constant") and not known


def _resources(p: Program) -> str:
    r = p.resources
    if not r.registers:
        return "a listing: registers and memory not recorded"
    parts = [f"{r.registers} registers", f"{r.static_shared_bytes} B shared memory", f"{r.barriers} barriers"]
    parts.append(f"{r.frame_bytes} B local memory per thread" if r.frame_bytes else "no local memory")
    if r.threads_required:
        parts.append(f"block of {'x'.join(map(str, r.threads_required))} required")
    elif r.threads_max:
        parts.append(f"at most {r.threads_max} threads per block")
    return ", ".join(parts)


def _listing(p: Program, a: StaticAnalysis, profile: Profile | None, stalls: Sequence[str]) -> list[str]:
    runs = [""] * len(p.instructions)
    if profile is not None:  # means over all warps
        warps = profile.grid_blocks * profile.warps_per_block
        runs = [f" {number(count / warps, 3):>6}" for count in profile.counts["executed"]]
    if stalls:
        runs = [f"{count}  {stall}" for count, stall in zip(runs, stalls, strict=True)]
    depth = _depths(p, a)
    starts = {b.first for b in a.flow.blocks}
    ends: dict[int, list[int]] = {}
    for n, loop in enumerate(a.flow.loops):
        ends.setdefault(a.flow.blocks[max(loop.blocks)].last, []).insert(0, n)  # inner ones first
    spills = set(p.resources.spills)
    lines = []
    for i, x in enumerate(p.instructions):
        if i in starts and i:
            lines.append("        " + "|" * min(4, depth[i]))
        line = _line(x, a, i, depth[i], x.offset in spills, runs[i])
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 3] + "...")
        for n in ends.get(i, ()):
            lines += [part for line in _loop_lines(a.loops[n], p) for part in _wrapped(line, 12)]
    return lines


def _wrapped(line: str, indent: int, width: int = WIDTH) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, drop_whitespace=True) or [line]


def _depths(p: Program, a: StaticAnalysis) -> list[int]:
    depth = [0] * len(p.instructions)
    for loop in a.flow.loops:
        for b in loop.blocks:
            block = a.flow.blocks[b]
            for i in range(block.first, block.last + 1):
                depth[i] = max(depth[i], loop.depth)
    return depth


def _line(x: Instruction, a: StaticAnalysis, i: int, depth: int, spilled: bool, runs: str) -> str:
    c = x.control
    codes = " " * 13
    if c is not None:
        waits = "".join(str(w) if w in c.waits else "-" for w in range(6))
        write = "-" if c.write_scoreboard is None else str(c.write_scoreboard)
        read = "-" if c.read_scoreboard is None else str(c.read_scoreboard)
        codes = f"{c.stall:2d} {waits} {write} {read}"
    line = "" if x.line is None else str(x.line)
    at = f"{x.offset:05x} {'S' if spilled else ' '} {'|' * min(4, depth):<4} {number(a.issue_cycles[i]):>5}"
    return f"{at} {codes} {x.kind:<9} {a.live_registers[i]:>4} {line:>5}{runs}  {instruction_text(x)}"


def _loop_lines(f: LoopFacts, p: Program) -> list[str]:
    """Render a loop: its cost, its mix, where the cycles go on each path, its recurrence."""
    indent = " " * 8
    mix = ", ".join(f"{count} {kind}" for kind, count in sorted(f.classes.items(), key=lambda kv: -kv[1]))
    cycles = " to ".join(dict.fromkeys(number(w.cycles) for w in f.paths)) or "an unknown number of"
    shape = f"loop of {f.instructions} instructions: {cycles} cycles per iteration of a lone warp"
    lines = [f"{indent}{shape}, ILP {f.ilp:.1f}, MLP {f.mlp:.1f}; {mix}"]
    for n, path in enumerate(f.paths):
        which = ("", ("on the shortest path, ", "on the longest path, ")[n])[len(f.paths) > 1]
        lines.append(f"{indent}  {which}critical path: {_spent(path, p)}")
    if f.recurrence:
        chain = " > ".join(dict.fromkeys(p.instructions[i].opcode for i in f.recurrence))
        at = f"{p.instructions[f.recurrence[0]].offset:05x}"
        count = f"{len(f.recurrence)} instructions" if len(f.recurrence) > 1 else "one instruction"
        cycles = number(f.recurrence_cycles)
        lines.append(f"{indent}  longest recurrence: {cycles} cycles around {count} from {at}: {chain}")
    return lines


def _spent(path: CodePath, p: Program) -> str:
    """Say where the cycles of a critical path go: the longest waits by opcode, the rest is issue."""
    waits: dict[str, list[float]] = {}
    issue = 0.0
    for step in path.critical_path:
        if step.cycles <= 1:
            issue += step.cycles
        else:
            waits.setdefault(p.instructions[step.instruction].opcode, []).append(step.cycles)
    ranked = sorted(waits.items(), key=lambda kv: -sum(kv[1]))
    named = [f"{number(sum(c))} behind {len(c)} {name}" if len(c) > 1 else f"{number(sum(c))} behind {name}"
             for name, c in ranked[:5]]  # fmt: skip
    rest = sum(sum(c) for _, c in ranked[5:])
    return ", ".join([*named, *([f"{number(rest)} behind others"] if rest else []), f"{number(issue)} issue"])
