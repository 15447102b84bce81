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
    head = f"{printable(p.demangled)}   {p.arch or 'no architecture named'}, {len(p.instructions)} instructions"
    facts = (_resources(p), f"by {tools}; latencies of {machine.name}")
    parts: list[RenderableType] = [Text(head, "bold"), *notes(facts, "", "  ")]
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
    if unknown := Counter(x.opcode for x in p.instructions if x.kind == "other"):
        share = 100 * unknown.total() / len(p.instructions)
        names = ", ".join(f"{printable(name)} x{count}" for name, count in unknown.most_common(6))
        names += f" and {len(unknown) - 6} more" if len(unknown) > 6 else ""
        controls = (x.control for x in p.instructions if x.kind == "other")
        late = sum(control is None or control.write_scoreboard is not None for control in controls)
        cost = f"{late} of them with a result of unknown latency: what waits for it comes out too early"
        sure = cost if late else "their stall counts are known, so the cycles hold"
        found.append(f"unknown opcodes ({share:.2g} % of the code), taken as integer: {names}; {sure}")
    capability = (machine.compute_capability or "").replace(".", "")
    if p.arch and capability and not re.fullmatch(rf"sm_{capability}[af]?", p.arch):
        found.append(f"code for {p.arch}, latencies of {machine.name} (sm_{capability}): name the GPU with --machine")
    if calls := sum(x.opcode in ("CALL", "CAL") for x in p.instructions):
        found.append(f"{calls} calls: what the functions take is in their own lines, not in the ways and loops shown")
    if guessed := Counter(x.opcode for x in p.instructions if _guessed(x, machine)):
        names = ", ".join(printable(name) for name, _ in guessed.most_common(6))
        found.append(f"no latency measured for the results of {names}: taken as of plain arithmetic")
    if not p.has_control:
        found.append("no control codes: cycles from the machine file's latencies and the registers shared")
    if a.without_latency:
        known = ", ".join(a.without_latency)
        found.append(f"{machine.id} has no latency of {known}: taken as 0, the cycles are too few")
    if p.resources.spills:
        spills = Counter(x.opcode for x in p.instructions if x.offset in p.resources.spills)
        found.append(f"registers spilled to local memory: {spills['STL']} stores and {spills['LDL']} loads, marked S")
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
    depth, ends = [0] * len(p.instructions), dict[int, list[int]]()  # of loops: around each instruction, their ends
    for n, loop in enumerate(a.flow.loops):
        ends.setdefault(a.flow.blocks[max(loop.blocks)].last, []).insert(0, n)  # inner ones first
        for block in (a.flow.blocks[b] for b in loop.blocks):
            for i in range(block.first, block.last + 1):
                depth[i] = max(depth[i], loop.depth)
    starts, spills, lines = {b.first for b in a.flow.blocks if b.first}, set(p.resources.spills), list[str]()
    for i, x in enumerate(p.instructions):
        if i in starts:
            lines.append("        " + "|" * min(4, depth[i]))
        at = f"{x.offset:05x} {'S' if x.offset in spills else ' '} {'|' * min(4, depth[i]):<4}"
        line = f"{at} {number(a.issue_cycles[i]):>5} {_controls(x)} {x.kind:<9} {a.live_registers[i]:>4} "
        line += f"{'' if x.line is None else x.line:>5}{runs[i]}  {instruction_text(x)}"
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 3] + "...")
        for n in ends.get(i, ()):
            lines += [part for line in _loop_lines(a.loops[n], p) for part in _wrapped(line, 12)]
    return lines


def _wrapped(line: str, indent: int, width: int = WIDTH) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, drop_whitespace=True) or [line]


def _controls(x: Instruction) -> str:
    """Return the columns of an instruction's control code: stall count, scoreboards waited for, written and read."""
    c = x.control
    if c is None:
        return " " * 13
    waits = "".join(str(w) if w in c.waits else "-" for w in range(6))
    write, read = ("-" if s is None else str(s) for s in (c.write_scoreboard, c.read_scoreboard))
    return f"{c.stall:2d} {waits} {write} {read}"


def _loop_lines(f: LoopFacts, p: Program) -> list[str]:
    """Render a loop: its cost, its mix, where the cycles go on each path, its recurrence."""
    mix = ", ".join(f"{count} {kind}" for kind, count in sorted(f.classes.items(), key=lambda kv: -kv[1]))
    cycles = " to ".join(dict.fromkeys(number(w.cycles) for w in f.paths)) or "an unknown number of"
    shape = f"loop of {f.instructions} instructions: {cycles} cycles per iteration of a lone warp"
    lines = [f"        {shape}, ILP {f.ilp:.1f}, MLP {f.mlp:.1f}; {mix}"]
    which = ("on the shortest path, ", "on the longest path, ") if len(f.paths) > 1 else ("",)
    lines += [f"          {one}critical path: {_spent(path, p)}" for one, path in zip(which, f.paths, strict=False)]
    if f.recurrence:
        chain = " > ".join(dict.fromkeys(p.instructions[i].opcode for i in f.recurrence))
        count = f"{len(f.recurrence)} instructions" if len(f.recurrence) > 1 else "one instruction"
        around = (
            f"{number(f.recurrence_cycles)} cycles around {count} from {p.instructions[f.recurrence[0]].offset:05x}"
        )
        lines.append(f"          longest recurrence: {around}: {chain}")
    return lines


def _spent(path: CodePath, p: Program) -> str:
    """Say where the cycles of a critical path go: the longest waits by opcode, the rest is issue."""
    waits: dict[str, list[float]] = {}
    for step in path.critical_path:
        if step.cycles > 1:
            waits.setdefault(p.instructions[step.instruction].opcode, []).append(step.cycles)
    issue = sum(step.cycles for step in path.critical_path if step.cycles <= 1)
    ranked = sorted(waits.items(), key=lambda kv: -sum(kv[1]))
    named = [f"{number(sum(c))} behind {f'{len(c)} {name}' if len(c) > 1 else name}" for name, c in ranked[:5]]
    rest = sum(sum(c) for _, c in ranked[5:])
    return ", ".join([*named, *([f"{number(rest)} behind others"] if rest else []), f"{number(issue)} issue"])
