"""Estimates of configurations that were not emulated, from their machine code and an emulated neighbour.

All configurations of a kernel do the same essential work: floating-point operations, bytes loaded and stored, atomics,
line by line of the source. The neighbour's counts give its amount. The executions of the candidate's own code follow: a
basic block with so many of these operations runs as often as makes up the work. The sectors of an access are those of
the neighbour's access on the same line. Where the neighbour has the same code but for constants, all executions and
paths are the neighbour's. Our closed-form model predicts from this profile by proportion as from any other. An estimate
guides the search; a configuration is emulated before it is proposed.
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
from warplens.tuner.points import Counted
from warplens.workload import Workload
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path, Profile, Segment
from warplens.workload.workload import Launch

WARP = 32
# The kinds of work, the surest first: arithmetic does not depend on the tiling of a kernel, loads do. Accesses count by
# the words that a thread moves.
_ARITHMETIC = {**dict.fromkeys(("FFMA", "FADD", "FMUL", "FMNMX", "DFMA", "DADD", "DMUL"), 1.0), "HFMA2": 2.0}
_ORDER = ("arithmetic", "special", "atomic", "store", "load", "shared")
_GROUPS = {**dict.fromkeys(_ARITHMETIC, "arithmetic"), "MUFU": "special", "ATOMS": "atomic", "ATOMG": "atomic",
           "RED": "atomic", "REDG": "atomic", "STG": "store", "LDG": "load", "STS": "shared",
           "LDS": "shared"}  # fmt: skip
_WIDTH = {"U8": 0.25, "S8": 0.25, "U16": 0.5, "S16": 0.5, "64": 2.0, "128": 4.0}
_PAIR, _CLEARLY = 2, 0.5  # too few launches to tell how work grows; variance per block over that of the work
_OF_ACCESSES = ("requests", "threads", "useful_bytes", "sectors", "lines", "wavefronts", "queue", "l1_hit_sectors",
                "l2_sectors", "l2_hit_sectors", "replays", "passed")  # fmt: skip


class Estimate(Struct, frozen=True):
    """Seconds of the closed-form model on the profile by proportion."""

    seconds: float
    issue_seconds: float  # lower bound, of the instructions whose number follows from arithmetic
    bound: str = ""


def estimate(
    program: Program, call: KernelCall, machine: Machine, neighbour: Counted, per_block: frozenset[Key] = frozenset()
) -> Estimate:
    """Estimate a call of a program from an emulated configuration of the same source.

    `per_block`: the work that each block does by itself (`work_per_block`).
    """
    flow = flow_graph(program)
    ratios = _execution_ratios(program, flow, call, neighbour, per_block)
    times, sure = _executions(program, flow, call, neighbour, per_block)
    if shape(program) == shape(neighbour.program):
        theirs = _profile_of(neighbour)
        warps, executed = theirs.grid_blocks * theirs.warps_per_block, theirs.counts["executed"]
        times = [executed[b.first] / warps * n for b, n in zip(flow.blocks, ratios, strict=True)]
    profile = _profile(program, flow, call, times, neighbour, ratios)
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
    """Return the work of a launch that does not depend on tiling: floating-point operations, bytes of arrays."""
    profile = _profile_of(counted)
    rows = zip(counted.program.instructions, profile.counts["executed"], profile.counts["threads"], strict=True)
    return {
        "floating-point operations": sum(
            _FLOPS[x.opcode] * (threads or WARP * executed) for x, executed, threads in rows if x.opcode in _FLOPS
        ),
        "bytes of its arrays": sum(t.read_footprint_bytes + t.written_footprint_bytes for t in profile.traffic),
    }


Key = tuple[int | None, str]  # a line of the source, and a kind of work
Work = dict[Key, float]


def _profile_of(counted: Counted) -> Profile:
    assert counted.workload.profile is not None
    return counted.workload.profile


def _weight(x: Instruction) -> tuple[str, float] | None:
    """Return the kind of essential work that an instruction does, and its amount for a thread."""
    group = _GROUPS.get(x.opcode)
    if group is None:
        return None
    if group in ("load", "store", "shared"):
        return group, math.prod(_WIDTH.get(part, 1.0) for part in x.modifiers)
    return group, _ARITHMETIC.get(x.opcode, 1.0)


def _work(counted: Counted) -> Work:
    """Return the essential work of a grid by line and kind."""
    profile = _profile_of(counted)
    work: Work = {}
    for i, x in enumerate(counted.program.instructions):
        found = _weight(x)
        if found:
            threads = profile.counts["threads"][i] or WARP * profile.counts["executed"][i]
            work[x.line, found[0]] = work.get((x.line, found[0]), 0.0) + threads * found[1]
    return work


def work_per_block(counted: Sequence[Counted]) -> frozenset[Key]:
    """Return the work that every block does by itself, as a table that it clears: it varies much less per block."""
    blocks = [math.log(_profile_of(c).grid_blocks) for c in counted]
    works = [_work(c) for c in counted]
    found = set[Key]()
    for key in set[Key]().union(*works):
        rows = [(math.log(w[key]), n) for w, n in zip(works, blocks, strict=True) if w.get(key)]
        if len(rows) > _PAIR and pvariance([w - n for w, n in rows]) < _CLEARLY * pvariance([w for w, _ in rows]):
            found.add(key)
    return frozenset(found)


def _executions(
    program: Program, flow: Flow, call: KernelCall, neighbour: Counted, per_block: frozenset[Key]
) -> tuple[list[float], list[bool]]:
    """Return a warp's executions of each basic block, and True for those that follow from arithmetic."""
    work, threads = _work(neighbour), call.blocks * call.threads_per_block
    more = call.blocks / _profile_of(neighbour).grid_blocks
    static, inner, carried = _static(program, flow), _innermost(flow), _carried(neighbour)
    known: list[dict[str, list[tuple[float, float]]]] = [{} for _ in flow.blocks]  # executions and amounts, by kind
    for key in dict.fromkeys(key for here in static for key in here):
        if key in work:
            main = _main_block([here.get(key, 0.0) for here in static], inner, carried.get(key, 1.0))
            amount = static[main][key]
            runs = work[key] * (more if key in per_block else 1.0) / threads / amount
            known[main].setdefault(key[1], []).append((runs, amount))
    rare = _per_line(neighbour)
    times: list[float | None] = []
    for block, by_kind in zip(flow.blocks, known, strict=True):
        group = next((g for g in _ORDER if g in by_kind), None)
        if group is not None:
            total = sum(amount for _, amount in by_kind[group])
            runs = sum(n * amount for n, amount in by_kind[group]) / total
            times.append(runs if inner[block.index] is not None else min(1.0, runs))  # no loop: once at most
        elif inner[block.index] is None:
            lines = [rare[x.line] for x in program.instructions[block.first : block.last + 1] if x.line in rare]
            times.append(min(1.0, max(lines)) if lines else 1.0)
        else:  # another copy of the loop does its work
            times.append(0.0 if static[block.index] else None)
    return _filled(inner, times), ["arithmetic" in kinds or "special" in kinds for kinds in known]


def _execution_ratios(
    program: Program, flow: Flow, call: KernelCall, neighbour: Counted, per_block: frozenset[Key]
) -> list[float]:
    """Return each block's executions over those in a neighbour with the same code.

    Loops share the work of the grid, or that of a block; outside of loops all warps do the same.
    """
    theirs = _profile_of(neighbour)
    a_block = theirs.warps_per_block / -(-call.threads_per_block // WARP)
    static, inner = _static(program, flow), _innermost(flow)
    by_block = {inner[b] for b, here in enumerate(static) if here and all(key in per_block for key in here)}
    by_grid = {inner[b] for b, here in enumerate(static) if any(key not in per_block for key in here)}
    return [
        1.0 if at is None else a_block if at in by_block - by_grid else a_block * theirs.grid_blocks / call.blocks
        for at in inner
    ]


def _static(program: Program, flow: Flow) -> list[Work]:
    """Return the essential work that a thread does by one run of each block."""
    work: list[Work] = []
    for block in flow.blocks:
        here: Work = {}
        for x in program.instructions[block.first : block.last + 1]:
            found = _weight(x)
            if found:
                here[x.line, found[0]] = here.get((x.line, found[0]), 0.0) + found[1]
        work.append(here)
    return work


def _carried(counted: Counted) -> Work:
    """Return the size of the blocks that do a neighbour's work, over the largest in its code.

    Compilers emit several copies of a loop, unrolled 16, 8, 4 times and not at all; the code does not tell which runs.
    """
    flow, profile = flow_graph(counted.program), _profile_of(counted)
    largest: Work = {}
    done: dict[Key, tuple[float, float]] = {}
    for block, here in zip(flow.blocks, _static(counted.program, flow), strict=True):
        runs = profile.counts["executed"][block.first]
        for key, amount in here.items():
            largest[key] = max(largest.get(key, 0.0), amount)
            work, weighted = done.get(key, (0.0, 0.0))
            done[key] = work + runs * amount, weighted + runs * amount * math.log(amount)
    return {key: math.exp(weighted / work) / largest[key] for key, (work, weighted) in done.items() if work}


def _main_block(amounts: Sequence[float], inner: Sequence[int | None], share: float) -> int:
    """Return the block that does the work: in a loop if there is one, and of the size that does it in the neighbour."""
    having = [b for b, amount in enumerate(amounts) if amount]
    loops = [b for b in having if inner[b] is not None] or having
    largest = max(amounts[b] for b in loops)
    return min(loops, key=lambda b: abs(math.log(amounts[b] / largest / share)))


def shape(program: Program) -> tuple[str, ...]:
    """Return the names of instructions, which programs that differ in constants and registers only have in common."""
    return tuple(x.name for x in program.instructions)


def _innermost(flow: Flow) -> list[int | None]:
    """Return the number of the innermost loop around each block."""
    loops: list[int | None] = [None] * len(flow.blocks)
    for number in sorted(range(len(flow.loops)), key=lambda n: flow.loops[n].depth):
        for block in flow.loops[number].blocks:
            loops[block] = number
    return loops


def _filled(inner: Sequence[int | None], times: Sequence[float | None]) -> list[float]:
    """Return executions, unknown ones as those of the other blocks of the loop, or once."""
    known: dict[int | None, float] = {}
    for loop, n in zip(inner, times, strict=True):
        if loop is not None and n is not None:
            known[loop] = max(known.get(loop, 0.0), n)
    return [known.get(loop, 1.0) if n is None else n for loop, n in zip(inner, times, strict=True)]


def _per_line(counted: Counted) -> dict[int | None, float]:
    """Return a neighbour's executions per warp of the most executed instruction of each line."""
    profile = _profile_of(counted)
    warps = profile.grid_blocks * profile.warps_per_block
    times: dict[int | None, float] = {}
    for x, n in zip(counted.program.instructions, profile.counts["executed"], strict=True):
        times[x.line] = max(times.get(x.line, 0.0), n / warps)
    return times


def _profile(
    program: Program, flow: Flow, call: KernelCall, times: Sequence[float], neighbour: Counted, shares: Sequence[float]
) -> Profile:
    """Return the counts of the grid, the path of a warp, and the neighbour's traffic in proportion."""
    theirs = _profile_of(neighbour)
    warps_per_block = -(-call.threads_per_block // WARP)
    warps = call.blocks * warps_per_block
    executed = [0.0] * len(program.instructions)
    for block, n in zip(flow.blocks, times, strict=True):
        for i in range(block.first, block.last + 1):
            executed[i] = n * warps
    counts = {name: [0.0] * len(executed) for name in theirs.counts}
    counts["executed"], counts["threads"] = executed, [WARP * n for n in executed]
    same, accesses = shape(program) == shape(neighbour.program), _per_access(neighbour)
    for i, x in enumerate(program.instructions):
        keys: list[Key] = [(i, "")] if same else [(x.line, x.name), (None, x.name), (None, x.opcode)]
        found = next((accesses[key] for key in keys if key in accesses), {})
        for name, each in found.items():
            counts[name][i] = each * executed[i]
    grown = sum(counts["l2_sectors"]) / max(1.0, theirs.total("l2_sectors"))
    added = _atomics(program, counts) / max(1.0, _atomics(neighbour.program, theirs.counts))
    factors = {"l2_read_bytes": grown, "l2_written_bytes": grown, "atomic_passes": added}
    traffic = [replace(t, **{name: n * getattr(t, name) for name, n in factors.items()}) for t in theirs.traffic]
    paths, blocks = [_path(flow, times)], [[0] * warps_per_block]
    if same:
        of = {i: n for block, n in zip(flow.blocks, shares, strict=True) for i in range(block.first, block.last + 1)}
        paths = [_less_often(path, of) for path in theirs.paths]
        blocks = [[b[min(w, len(b) - 1)] for w in range(warps_per_block)] for b in theirs.blocks]
    return Profile(
        grid_blocks=call.blocks, warps_per_block=warps_per_block, emulated_blocks=0, exact=False, counts=counts,
        paths=paths, blocks=blocks, traffic=traffic, l2=theirs.l2, l1_bytes=theirs.l1_bytes,
    )  # fmt: skip


def _atomics(program: Program, counts: Mapping[str, Sequence[float]]) -> float:
    """Return the sectors of L2 that atomics touch."""
    pairs = zip(program.instructions, counts["l2_sectors"], strict=True)
    return sum(sectors for x, sectors in pairs if _GROUPS.get(x.opcode) == "atomic")


def _less_often(path: Path, shares: Mapping[int, float]) -> Path:
    """Return a path with a share of each instruction's executions: its loops have fewer iterations."""
    segments: list[Segment] = []
    for segment in path.segments:
        first, times = segment.runs[0][0], segment.times
        if times > 1:
            total = sum(s.times for s in path.segments for start, stop in s.runs if start <= first < stop)
            times = round(total * shares[first]) - (total - times)
        if times > 0:
            segments.append(Segment(segment.runs, times))
    return Path(segments, path.warps)


def _per_access(counted: Counted) -> dict[Key, Mapping[str, float]]:
    """Return the counts of an access per execution: by its number (and no name), line and name, name, and opcode."""
    profile = _profile_of(counted)
    sums: dict[Key, dict[str, float]] = {}
    for i, x in enumerate(counted.program.instructions):
        if profile.counts["requests"][i]:
            for key in ((i, ""), (x.line, x.name), (None, x.name), (None, x.opcode)):
                into = sums.setdefault(key, dict.fromkeys(("executed", *_OF_ACCESSES), 0.0))
                for name in into:
                    into[name] += profile.counts[name][i]
    return {key: {n: s[n] / s["executed"] for n in _OF_ACCESSES} for key, s in sums.items()}


def _path(flow: Flow, times: Sequence[float]) -> Path:
    """Return the path of a warp: blocks in their order, those in a row that run equally often as one segment."""
    segments: list[Segment] = []
    for block, n in zip(flow.blocks, times, strict=True):
        count, run = round(n), (block.first, block.last + 1)
        if count < 1:
            continue
        if segments and segments[-1].times == count:
            segments[-1] = Segment([*segments[-1].runs, run], count)
        else:
            segments.append(Segment([run], count))
    return Path(segments)
