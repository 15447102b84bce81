"""Run the engine: a steady state until its rate is known, or all blocks of a kernel, extrapolated where it is long.

Long kernels are not simulated to the end. Blocks come in rounds that are alike, and iterations of a loop too: what is
simulated are three numbers of rounds (and, for long loops, three shares of the iterations), and time grows by a
straight line between them. The error is how far the second step of the line differs from the first, over what was not
simulated. `full` switches this off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from warplens.errors import WarplensError
from warplens.simulate import layout as at
from warplens.simulate.code import Arrays, Code, Floats, Ints, arrays, shortened
from warplens.simulate.engine import simulate as engine
from warplens.simulate.units import INFINITE, PIPES, Units, policy

BUDGET = 300_000  # instructions of one run, unless it is to be full
MARKS = 24  # a steady state is cut into so many parts; the first quarter is left out
MOST_TIMES = 8  # loops up to so many turns are never cut


class Options(Struct, frozen=True):
    """How to simulate: order of warps, seed, whether to run to the end, how many events to keep."""

    policy: str = "greedy-youngest"
    seed: int = 1
    full: bool = False
    events: int = 0
    strict_barriers: bool = False
    compiled: bool = True
    limit_cycles: float | None = None


class Run(Struct, frozen=True):
    """What came out of one run of the engine."""

    end_cycle: float
    issued: int
    counts: Ints
    stalls: Floats
    blocks: Floats  # start, end, place
    marks: Ints
    events: Ints
    status: int


class Measured(Struct, frozen=True):
    """Cycles of a kernel or of one body, the bound of the error, and the run that they come from."""

    cycles: float
    error_cycles: float
    simulated_instructions: int
    run: Run
    notes: list[str]


def run(code: Code, units: Units, options: Options, *, resident: int, blocks: int, limit: float = INFINITE,
        stagger: float = 0.0, mark_every: float = INFINITE) -> Run:  # fmt: skip
    """Run so many blocks through one SM, at most `resident` at a time."""
    laid = arrays(code)
    sm = units.machine.sm
    order, greedy = policy(options.policy)
    chosen = np.zeros(at.OPTION_COLUMNS, np.int64)
    chosen[at.SCHEDULERS] = code.streams if code.streams > 1 else int(sm.schedulers)
    chosen[at.POLICY], chosen[at.GREEDY] = order, greedy
    chosen[at.RESIDENT], chosen[at.BLOCKS] = resident, blocks
    chosen[at.WARPS], chosen[at.STREAMS] = code.warps_per_block * code.streams, code.streams
    chosen[at.BANKS] = units.banks if any(sum(x.bank_reads) + sum(x.bank_writes) for x in code.steps) else 0
    chosen[at.MSHRS], chosen[at.STRICT], chosen[at.WIDTH] = units.mshrs, options.strict_barriers, int(sm.issue_width)
    chosen[at.OPERANDS_LATE] = PIPES.index("sfu units")
    settings = units.settings.copy()
    settings[at.TIME_LIMIT], settings[at.STAGGER], settings[at.MARK_EVERY] = limit, stagger, mark_every
    steps = len(code.steps)
    counts, stalls = np.zeros(steps, np.int64), np.zeros((steps, len(at.REASONS)))
    kept = np.zeros((min(blocks, 100_000), 3))
    marks = np.zeros(MARKS if mark_every < INFINITE else 0, np.int64)
    events = np.zeros((options.events, at.EVENT_COLUMNS), np.int64)
    out = np.zeros(at.OUT_COLUMNS, np.int64)
    out[at.OUT_RANDOM] = options.seed
    call: Any = engine if options.compiled else plain_engine()
    call(
        laid.code, laid.timing, laid.sources, laid.deltas, laid.results, laid.result_kinds, units.pipes, laid.path_at,
        laid.segments, laid.runs, laid.warp_paths, chosen, settings, units.spread, *_state(laid, units, chosen),
        counts, stalls, kept, marks, events, out,
    )  # fmt: skip
    if out[at.OUT_STATUS] == at.DEADLOCK:
        raise _deadlock(code, counts, int(out[at.OUT_ENDED]), blocks)
    end = float(kept[:, 1].max()) if out[at.OUT_STATUS] == at.FINISHED and len(kept) else float(limit)
    told = events[: int(out[at.OUT_EVENTS])]
    return Run(end, int(out[at.OUT_ISSUED]), counts, stalls, kept, marks, told, int(out[at.OUT_STATUS]))


def _state(laid: Arrays, units: Units, chosen: Ints) -> tuple[Any, ...]:
    """Make the engine's state: an SM without warps, places free for the first blocks."""
    schedulers, lanes = int(chosen[at.SCHEDULERS]), int(chosen[at.RESIDENT] * chosen[at.WARPS])
    groups = max(1, lanes // int(chosen[at.STREAMS]))
    wide = 1 + max([0, *laid.sources, *laid.results])
    clocks = np.zeros((schedulers, 2))
    clocks[:, at.S_NEXT] = at.FOREVER
    turns = np.zeros((schedulers, 3), np.int64)
    turns[:, at.S_LAST] = -1
    starts = np.where(np.arange(chosen[at.RESIDENT]) < chosen[at.BLOCKS], 0.0, at.FOREVER)
    return (
        np.zeros((lanes, 8), np.int64), np.full((lanes, 2), at.FOREVER), np.zeros((groups, wide)),
        np.zeros((groups, wide), np.int64), np.zeros((schedulers, lanes), np.int64), turns, clocks,
        np.zeros((schedulers, len(units.pipes))), np.zeros((int(chosen[at.RESIDENT]), 3), np.int64), starts,
        np.zeros((schedulers, 4, at.RING if chosen[at.BANKS] else 1), np.int64), np.zeros((schedulers, 4), np.int64),
        np.zeros(at.M_BUCKET + at.BUCKETS + 1), np.zeros(max(1, int(chosen[at.MSHRS]))),
    )  # fmt: skip


def plain_engine() -> Any:
    """Return the engine as plain Python, all of its functions uncompiled."""
    import types

    from warplens.simulate import engine as module

    names = {k: getattr(v, "py_func", v) for k, v in vars(module).items()}
    made = {}
    for name, value in names.items():
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            made[name] = types.FunctionType(value.__code__, names, name)
    names.update(made)
    return names["simulate"]


def steady(code: Code, units: Units, options: Options) -> Measured:
    """Return the cycles that one SM spends per body of an endless repetition, from a part without the start."""
    first = run(code, units, options, resident=1, blocks=1, limit=16_384.0, stagger=64.0)
    per_body = code.ways[0].instructions / code.bodies / code.ways[0].segments[0][1]
    slowest = max(1.0, first.issued / 16_384)
    limit = max(65_536.0, BUDGET / slowest)
    if first.issued < 64 * code.warps_per_block:  # hardly begun: a long latency
        limit = max(limit, 16_384.0 * 64 * code.warps_per_block / max(1, first.issued))
    limit = options.limit_cycles or min(limit, 4e6)
    every = float(np.floor(limit / MARKS))
    made = run(
        code, units, options, resident=1, blocks=1, limit=every * MARKS + 1, stagger=64.0, mark_every=every
    )
    skip = MARKS // 4
    parts = np.diff(made.marks[skip - 1 :]).astype(float)
    mean = parts.mean()
    if mean <= 0:
        raise WarplensError(f"{code.name}: nothing issues in a steady state")
    cycles = every / mean * per_body
    error = 2 * parts.std() / np.sqrt(len(parts)) / mean * cycles
    return Measured(float(cycles), float(error), first.issued + made.issued, made, [])


def kernel(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Measured:
    """Return the cycles that all these blocks take on one SM."""
    per_block = sum(code.ways[w].instructions for w in code.blocks[0]) * code.streams
    if options.full or per_block * blocks <= BUDGET:
        made = run(code, units, options, resident=resident, blocks=blocks)
        return Measured(made.end_cycle, 0.0, made.issued, made, [])
    rounds_of = resident * max(1, round(BUDGET / 8 / (per_block * resident)))
    if per_block * resident * 8 <= BUDGET or not _long_loops(code):
        return _by_rounds(code, units, options, resident, blocks, rounds_of)
    # Three shares of the iterations, each by rounds; time is linear in the share.
    share = max(BUDGET / 16 / (per_block * resident), 1e-9)
    shares = [share * k for k in (1, 2, 3)]
    if shares[-1] >= 1:
        return _by_rounds(code, units, options, resident, blocks, resident)
    made_of = [
        _by_rounds(shortened(code, f, MOST_TIMES), units, options, resident, blocks, resident) for f in shares
    ]
    done = [sum(shortened(code, f, MOST_TIMES).ways[w].instructions for w in code.blocks[0]) for f in shares]
    whole = sum(code.ways[w].instructions for w in code.blocks[0])
    slopes = [(b.cycles - a.cycles) / (y - x) for a, b, x, y in zip(made_of, made_of[1:], done, done[1:], strict=False)]
    cycles = made_of[-1].cycles + slopes[-1] * (whole - done[-1])
    error = abs(slopes[1] - slopes[0]) * (whole - done[-1]) + made_of[-1].error_cycles * whole / done[-1]
    note = f"loops extrapolated: {100 * shares[-1]:.2g} % of their iterations were simulated"
    total = sum(m.simulated_instructions for m in made_of)
    return Measured(cycles, error, total, made_of[-1].run, [note, *made_of[-1].notes])


def _by_rounds(code: Code, units: Units, options: Options, resident: int, blocks: int, step: int) -> Measured:
    """Simulate three numbers of blocks that leave the same tail, and go on along the line."""
    least = blocks % resident + resident
    counts = [least + k * step for k in (1, 2, 3)]
    if counts[-1] >= blocks:
        made = run(code, units, options, resident=resident, blocks=blocks)
        return Measured(made.end_cycle, 0.0, made.issued, made, [])
    runs = [run(code, units, options, resident=resident, blocks=n) for n in counts]
    slopes = [(b.end_cycle - a.end_cycle) / step for a, b in zip(runs, runs[1:], strict=False)]
    slope = (runs[2].end_cycle - runs[0].end_cycle) / (2 * step)
    left = blocks - counts[-1]
    note = f"blocks extrapolated: {counts[-1]} of {blocks} were simulated"
    issued = sum(r.issued for r in runs)
    return Measured(runs[-1].end_cycle + slope * left, abs(slopes[1] - slopes[0]) * left / 2, issued, runs[-1], [note])


def _long_loops(code: Code) -> bool:
    return any(times > MOST_TIMES for way in code.ways for _, times in way.segments)


def _deadlock(code: Code, counts: Ints, ended: int, blocks: int) -> WarplensError:
    """Name the barrier that holds warps, and the warps that never come to it."""
    barriers = [i for i, x in enumerate(code.steps) if x.kind == at.BARRIER and counts[i]]
    if not barriers:
        return WarplensError(f"{code.name}: no warp can go on: the dependences form a circle")
    comes = [sum(1 for _ in _visits(code, way, set(barriers))) for way in code.ways]
    block = code.blocks[ended % len(code.blocks)]
    most = max(comes[w] for w in block)
    absent = [i for i, w in enumerate(block) if comes[w] < most]
    where = code.steps[barriers[-1]].label
    who = ", ".join(map(str, absent[:8])) + (", ..." if len(absent) > 8 else "")
    return WarplensError(
        f"{code.name}: deadlock at `{where}` (instruction {barriers[-1]}): warp {who} of {len(block)} "
        f"never comes to it; {ended} of {blocks} blocks had ended"
    )


def _visits(code: Code, way: Any, which: set[int]) -> Any:
    for runs, times in way.segments:
        for first, stop in runs:
            for i in which:
                if first <= i < stop:
                    yield from range(times)
