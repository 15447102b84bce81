"""Estimate a configuration that was not emulated, from its machine code and an emulated neighbour.

All configurations of a kernel do the same essential work: floating-point operations, bytes loaded and stored, atomics,
line by line of the source. A neighbour says how much that is. How often the candidate's own code runs follows: a block
of instructions with so many of these operations runs as often as makes up the work. What an access touches is taken
from the neighbour's access on the same line. Where the neighbour has the same code but for constants, all runs as often
and by the same ways as there. That makes a profile by proportion, and our model in closed form predicts from it as from
any other. It says where to look; what is proposed is always emulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import pvariance

from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine
from warplens.models import predict
from warplens.program.control_flow import Flow, flow_graph
from warplens.program.instruction import Instruction
from warplens.program.program import Program
from warplens.tuner.counting import Counted
from warplens.workload import Workload
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path, Profile, Segment
from warplens.workload.workload import Launch

WARP = 32
# What the work of a block is told by, the surest first: arithmetic is the same however a kernel is tiled, what it loads
# is not. Accesses count by the words that a thread moves.
_ARITHMETIC = {**dict.fromkeys(("FFMA", "FADD", "FMUL", "FMNMX", "DFMA", "DADD", "DMUL"), 1.0), "HFMA2": 2.0}
_ORDER = ("arithmetic", "special", "atomic", "store", "load", "shared")
_GROUPS = {**dict.fromkeys(_ARITHMETIC, "arithmetic"), "MUFU": "special", "ATOMS": "atomic", "ATOMG": "atomic",
           "RED": "atomic", "REDG": "atomic", "STG": "store", "LDG": "load", "STS": "shared",
           "LDS": "shared"}  # fmt: skip
_WIDTH = {"U8": 0.25, "S8": 0.25, "U16": 0.5, "S16": 0.5, "64": 2.0, "128": 4.0}
_PAIR, _CLEARLY = 2, 0.5  # two launches say nothing of how work grows; how much less it must vary per block
_OF_ACCESSES = ("requests", "threads", "useful_bytes", "sectors", "lines", "wavefronts", "queue", "l1_hit_sectors",
                "l2_sectors", "l2_hit_sectors", "replays", "passed")  # fmt: skip


class Estimate(Struct, frozen=True):
    """Seconds by the model in closed form on the profile by proportion, and its limit; seconds to issue at least.

    The latter is of those instructions alone whose number follows from the arithmetic.
    """

    seconds: float
    issue_seconds: float
    bound: str = ""


def estimate(
    program: Program, call: KernelCall, machine: Machine, neighbour: Counted, anew: frozenset[Key] = frozenset()
) -> Estimate:
    """Estimate a call of a program from an emulated configuration of the same source.

    `anew`: the work that each block does by itself (`done_anew`).
    """
    flow = flow_graph(program)
    fewer = _fewer(program, flow, call, neighbour, anew)
    times, sure = _executions(program, flow, call, neighbour, anew)
    if shape(program) == shape(neighbour.program):
        times = _as_there(flow, fewer, neighbour)
    profile = _profile(program, flow, call, times, neighbour, fewer)
    workload = Workload(
        name=program.demangled or program.name,
        launch=Launch(
            grid=list(call.grid_shape),
            block=list(call.block_shape),
            registers_per_thread=program.resources.registers,
            shared_bytes_per_block=program.resources.static_shared_bytes + call.dynamic_shared_bytes,
        ),
        instructions={"int": 1.0},
        code=program.instructions,
        profile=profile,
    )
    p = predict(workload, machine, "warplens-fast")
    warps = profile.grid_blocks * profile.warps_per_block
    issued = sum(n * (b.last - b.first + 1) for b, n, known in zip(flow.blocks, times, sure, strict=True) if known)
    issue_cycles = issued * warps / (machine.sm.schedulers * machine.chip.sm_count)
    assert p.seconds is not None
    return Estimate(float(p.seconds), issue_cycles / machine.chip.clock_hz, str(p.bound))


_FLOPS = {**dict.fromkeys(("FADD", "FMUL", "DADD", "DMUL"), 1.0), "FFMA": 2.0, "DFMA": 2.0, "HFMA2": 4.0}


def essential(counted: Counted) -> dict[str, float]:
    """What a launch does however its kernel is tiled: floating-point operations, and bytes of arrays touched."""
    profile = _counts(counted)
    rows = zip(counted.program.instructions, profile.counts["executed"], profile.counts["threads"], strict=True)
    return {
        "floating-point operations": sum(
            _FLOPS[x.opcode] * (threads or WARP * executed) for x, executed, threads in rows if x.opcode in _FLOPS
        ),
        "bytes of its arrays": sum(t.read_footprint_bytes + t.written_footprint_bytes for t in profile.traffic),
    }


Key = tuple[int | None, str]  # a line of the source, and a kind of work
Work = dict[Key, float]


def _counts(counted: Counted) -> Profile:
    """What was counted; candidates are always emulated."""
    assert counted.workload.profile is not None
    return counted.workload.profile


def _weight(x: Instruction) -> tuple[str, float] | None:
    """The kind of essential work that an instruction does, and how much a thread does by it."""
    group = _GROUPS.get(x.opcode)
    if group is None:
        return None
    if group == "arithmetic":
        return group, _ARITHMETIC[x.opcode]
    return group, math.prod(_WIDTH.get(part, 1.0) for part in x.modifiers) if group in (
        "load",
        "store",
        "shared",
    ) else 1.0


def _work(counted: Counted) -> Work:
    """The essential work of a whole grid by line and kind, as its threads did it."""
    profile = _counts(counted)
    made: Work = {}
    for i, x in enumerate(counted.program.instructions):
        found = _weight(x)
        if found:
            threads = profile.counts["threads"][i] or WARP * profile.counts["executed"][i]
            made[x.line, found[0]] = made.get((x.line, found[0]), 0.0) + threads * found[1]
    return made


def done_anew(counted: Sequence[Counted]) -> frozenset[Key]:
    """The work that every block does by itself, as a table that it clears: what varies much less per block."""
    blocks = [math.log(_counts(c).grid_blocks) for c in counted]
    works = [_work(c) for c in counted]
    made = set[Key]()
    for key in set[Key]().union(*works):
        rows = [(math.log(w[key]), n) for w, n in zip(works, blocks, strict=True) if w.get(key)]
        if len(rows) > _PAIR and pvariance([w - n for w, n in rows]) < _CLEARLY * pvariance([w for w, _ in rows]):
            made.add(key)
    return frozenset(made)


def _executions(
    program: Program, flow: Flow, call: KernelCall, neighbour: Counted, anew: frozenset[Key]
) -> tuple[list[float], list[bool]]:
    """How often a warp runs each block of the flow graph, and for which of them that follows from arithmetic."""
    work, threads = _work(neighbour), call.blocks * call.threads_per_block
    more = call.blocks / _counts(neighbour).grid_blocks
    static, inner, carried = _static(program, flow), _innermost(flow), _carried(neighbour)
    told: list[dict[str, list[tuple[float, float]]]] = [{} for _ in flow.blocks]
    for key in dict.fromkeys(key for here in static for key in here):
        if key in work:
            main = _carrier([here.get(key, 0.0) for here in static], inner, carried.get(key, 1.0))
            amount = static[main][key]
            turns = work[key] * (more if key in anew else 1.0) / threads / amount
            told[main].setdefault(key[1], []).append((turns, amount))
    rare = _per_line(neighbour)
    times: list[float | None] = []
    for block, said in zip(flow.blocks, told, strict=True):
        group = next((g for g in _ORDER if g in said), None)
        if group is not None:
            total = sum(amount for _, amount in said[group])
            turns = sum(n * amount for n, amount in said[group]) / total
            times.append(turns if inner[block.index] is not None else min(1.0, turns))  # no loop: once at most
        elif inner[block.index] is None:
            lines = [rare[x.line] for x in program.instructions[block.first : block.last + 1] if x.line in rare]
            times.append(min(1.0, max(lines)) if lines else 1.0)
        else:  # a copy of a loop leaves its work to another one
            times.append(0.0 if static[block.index] else None)
    return _filled(flow, inner, times), ["arithmetic" in said or "special" in said for said in told]


def _fewer(program: Program, flow: Flow, call: KernelCall, neighbour: Counted, anew: frozenset[Key]) -> list[float]:
    """How much less often each block runs than in a neighbour with the same code: its warps over those of the call.

    Loops share the work of the grid, or that of a block; outside of loops all warps do the same.
    """
    theirs = _counts(neighbour)
    a_block = theirs.warps_per_block / -(-call.threads_per_block // WARP)
    static, inner = _static(program, flow), _innermost(flow)
    by_block = {inner[b] for b, here in enumerate(static) if here and all(key in anew for key in here)}
    by_grid = {inner[b] for b, here in enumerate(static) if any(key not in anew for key in here)}
    return [
        1.0 if at is None else a_block if at in by_block - by_grid else a_block * theirs.grid_blocks / call.blocks
        for at in inner
    ]


def _static(program: Program, flow: Flow) -> list[Work]:
    """The essential work that a thread does by one run of each block."""
    made: list[Work] = []
    for block in flow.blocks:
        here: Work = {}
        for x in program.instructions[block.first : block.last + 1]:
            found = _weight(x)
            if found:
                here[x.line, found[0]] = here.get((x.line, found[0]), 0.0) + found[1]
        made.append(here)
    return made


def _carried(counted: Counted) -> Work:
    """By how large a run a neighbour does its work, over the largest that its code has.

    Compilers keep several copies of a loop, with 16 turns in one, 8, 4 and 1: which one runs is not in the code.
    """
    flow, profile = flow_graph(counted.program), _counts(counted)
    largest: Work = {}
    done: dict[Key, tuple[float, float]] = {}
    for block, here in zip(flow.blocks, _static(counted.program, flow), strict=True):
        runs = profile.counts["executed"][block.first]
        for key, amount in here.items():
            largest[key] = max(largest.get(key, 0.0), amount)
            work, weighted = done.get(key, (0.0, 0.0))
            done[key] = work + runs * amount, weighted + runs * amount * math.log(amount)
    return {key: math.exp(weighted / work) / largest[key] for key, (work, weighted) in done.items() if work}


def _carrier(amounts: Sequence[float], inner: Sequence[int | None], share: float) -> int:
    """The block that does the work: in a loop if one is, and of the size that does it in the neighbour."""
    having = [b for b, amount in enumerate(amounts) if amount]
    loops = [b for b in having if inner[b] is not None] or having
    largest = max(amounts[b] for b in loops)
    return min(loops, key=lambda b: abs(math.log(amounts[b] / largest / share)))


def shape(program: Program) -> tuple[str, ...]:
    """What programs have in common that are the same but for constants and registers."""
    return tuple(x.name for x in program.instructions)


def _as_there(flow: Flow, fewer: Sequence[float], neighbour: Counted) -> list[float]:
    """How often blocks run by a neighbour with the same code."""
    profile = _counts(neighbour)
    warps = profile.grid_blocks * profile.warps_per_block
    return [profile.counts["executed"][b.first] / warps * n for b, n in zip(flow.blocks, fewer, strict=True)]


def _innermost(flow: Flow) -> list[int | None]:
    """The number of the innermost loop around each block."""
    made: list[int | None] = [None] * len(flow.blocks)
    for number in sorted(range(len(flow.loops)), key=lambda n: flow.loops[n].depth):
        for block in flow.loops[number].blocks:
            made[block] = number
    return made


def _filled(flow: Flow, inner: Sequence[int | None], times: Sequence[float | None]) -> list[float]:
    """Give blocks of a loop that nothing is known of what the others of the loop have; at least one turn."""
    known: dict[int, float] = {}
    for block, n in enumerate(times):
        loop = inner[block]
        if loop is not None and n is not None:
            known[loop] = max(known.get(loop, 0.0), n)
    made = []
    for block, n in enumerate(times):
        loop = inner[block]
        made.append(n if n is not None else known.get(loop, 1.0) if loop is not None else 1.0)
    return made


def _per_line(counted: Counted) -> dict[int | None, float]:
    """How often a warp of the neighbour runs the least executed instruction of each line."""
    profile = _counts(counted)
    warps = profile.grid_blocks * profile.warps_per_block
    made: dict[int | None, float] = {}
    for x, n in zip(counted.program.instructions, profile.counts["executed"], strict=True):
        made[x.line] = max(made.get(x.line, 0.0), n / warps)
    return made


def _profile(
    program: Program, flow: Flow, call: KernelCall, times: Sequence[float], neighbour: Counted, fewer: Sequence[float]
) -> Profile:
    """Put together the counts of the whole grid, the way of a warp, and the neighbour's traffic."""
    theirs = _counts(neighbour)
    warps_per_block = -(-call.threads_per_block // WARP)
    warps = call.blocks * warps_per_block
    executed = [0.0] * len(program.instructions)
    for block, n in zip(flow.blocks, times, strict=True):
        for i in range(block.first, block.last + 1):
            executed[i] = n * warps
    counts = {name: [0.0] * len(executed) for name in theirs.counts}
    counts["executed"], counts["threads"] = executed, [WARP * n for n in executed]
    same, ratios = shape(program) == shape(neighbour.program), _ratios(neighbour)
    for i, x in enumerate(program.instructions):
        found = (
            ratios.get((i, ""))
            if same
            else ratios.get((x.line, x.name)) or ratios.get((None, x.name)) or ratios.get((None, x.opcode))
        )
        if found:
            for name, each in found.items():
                counts[name][i] = each * executed[i]
    grown = sum(counts["l2_sectors"]) / max(1.0, theirs.total("l2_sectors"))
    added = _atomics(program, counts) / max(1.0, _atomics(neighbour.program, theirs.counts))
    traffic = [
        replace(
            t,
            l2_read_bytes=t.l2_read_bytes * grown,
            l2_written_bytes=t.l2_written_bytes * grown,
            atomic_passes=t.atomic_passes * added,
        )
        for t in theirs.traffic
    ]
    paths, blocks = [_way(flow, times)], [[0] * warps_per_block]
    if same:
        of = {i: n for block, n in zip(flow.blocks, fewer, strict=True) for i in range(block.first, block.last + 1)}
        paths = [_less_often(path, of) for path in theirs.paths]
        blocks = [[b[min(w, len(b) - 1)] for w in range(warps_per_block)] for b in theirs.blocks]
    return Profile(
        grid_blocks=call.blocks, warps_per_block=warps_per_block, emulated_blocks=0, exact=False, counts=counts,
        paths=paths, blocks=blocks, traffic=traffic, l2=theirs.l2, l1_bytes=theirs.l1_bytes,
    )  # fmt: skip


def _atomics(program: Program, counts: Mapping[str, Sequence[float]]) -> float:
    """The sectors of L2 that atomics touch."""
    pairs = zip(program.instructions, counts["l2_sectors"], strict=True)
    return sum(sectors for x, sectors in pairs if _GROUPS.get(x.opcode) == "atomic")


def _less_often(path: Path, fewer: Mapping[int, float]) -> Path:
    """The way of a warp that runs each instruction so much less often; turns are taken from its loops."""
    made: list[Segment] = []
    for segment in path.segments:
        first, times = segment.runs[0][0], segment.times
        if times > 1:
            turns = sum(s.times for s in path.segments for start, stop in s.runs if start <= first < stop)
            times = round(turns * fewer[first]) - (turns - times)
        if times > 0:
            made.append(Segment(segment.runs, times))
    return Path(made, path.warps)


def _ratios(counted: Counted) -> dict[Key, Mapping[str, float]]:
    """What an access touches each time: by its number (and no name), by line and name, by name, and by opcode."""
    profile = _counts(counted)
    sums: dict[Key, dict[str, float]] = {}
    for i, x in enumerate(counted.program.instructions):
        if profile.counts["requests"][i]:
            for key in ((i, ""), (x.line, x.name), (None, x.name), (None, x.opcode)):
                into = sums.setdefault(key, dict.fromkeys(("executed", *_OF_ACCESSES), 0.0))
                for name in into:
                    into[name] += profile.counts[name][i]
    return {key: {n: s[n] / s["executed"] for n in _OF_ACCESSES} for key, s in sums.items()}


def _way(flow: Flow, times: Sequence[float]) -> Path:
    """The way of a warp: blocks in their order, those that run equally often in a row as one segment."""
    segments: list[Segment] = []
    for block, n in zip(flow.blocks, times, strict=True):
        turns, run = round(n), (block.first, block.last + 1)
        if turns < 1:
            continue
        if segments and segments[-1].times == turns:
            segments[-1] = Segment([*segments[-1].runs, run], turns)
        else:
            segments.append(Segment([run], turns))
    return Path(segments)
