"""Run the engine: a steady state until its rate is known, or all blocks of a kernel, extrapolated where it is long.

Long kernels are not simulated to the end. Blocks come in rounds that are alike, and iterations of a loop too: what is
simulated are three numbers of rounds (and, for long loops, three shares of the iterations), and time grows by a
straight line between them. The error is how far the second step of the line differs from the first, over what was not
simulated. `full` switches this off.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.errors import WarplensError
from warplens.simulate import engine as engine_module
from warplens.simulate import layout as at
from warplens.simulate import parts
from warplens.simulate.code import LONG_TURNS, Arrays, Code, Floats, Ints, arrays, shortened
from warplens.simulate.engine import simulate as engine
from warplens.simulate.units import INFINITE, PIPES, Units, policy

BUDGET = 300_000  # instructions of one run, unless it is to be full
MARKS = 24  # a steady state is cut into so many parts; the first quarter is left out
TURNS = 8  # a loop is cut to so many turns at least, then to twice and three times as many


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
    dram_bytes: float
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
    load: float  # DRAM traffic of this SM, B/cycle
    run: Run
    notes: list[str]


def run(code: Code, units: Units, options: Options, *, resident: int, blocks: int, load: float = 0.0,
        limit: float = INFINITE, stagger: float = 0.0, mark_every: float = INFINITE) -> Run:  # fmt: skip
    """Run so many blocks through one SM, at most `resident` at a time; `load` is the DRAM traffic in B/cycle."""
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
    settings[at.BARRIER_WAIT if code.controlled else at.BRANCH_TAKEN] = 0.0
    settings[at.LOADED] = units.loaded_cycles(load) - (units.machine.timing("load").latency_cycles or 0.0)
    settings[at.TIME_LIMIT], settings[at.STAGGER], settings[at.MARK_EVERY] = limit, stagger, mark_every
    steps = len(code.steps)
    counts, stalls = np.zeros(steps, np.int64), np.zeros((steps, len(at.REASONS)))
    kept = np.zeros((min(blocks, 100_000), 3))
    marks = np.zeros(MARKS if mark_every < INFINITE else 0, np.int64)
    events = np.zeros((options.events, at.EVENT_COLUMNS), np.int64)
    out = np.zeros(at.OUT_COLUMNS, np.int64)
    out[at.OUT_RANDOM] = options.seed
    state = _state(laid, units, chosen)
    call: Any = engine if options.compiled else plain_engine()
    call(
        laid.code, laid.timing, laid.sources, laid.deltas, laid.results, laid.result_kinds, units.pipes, laid.path_at,
        laid.segments, laid.runs, laid.warp_paths, chosen, settings, units.spread(load), *state,
        counts, stalls, kept, marks, events, out,
    )  # fmt: skip
    if out[at.OUT_STATUS] == at.DEADLOCK:
        raise _deadlock(code, counts, int(out[at.OUT_ENDED]), blocks)
    end = float(kept[:, 1].max()) if out[at.OUT_STATUS] == at.FINISHED and len(kept) else float(limit)
    told = events[: int(out[at.OUT_EVENTS])]
    moved = float(state[-2][at.M_MOVED])
    return Run(end, moved, int(out[at.OUT_ISSUED]), counts, stalls, kept, marks, told, int(out[at.OUT_STATUS]))


def _state(laid: Arrays, units: Units, chosen: Ints) -> tuple[Any, ...]:
    """Make the engine's state: an SM without warps, places free for the first blocks."""
    schedulers, lanes = int(chosen[at.SCHEDULERS]), int(chosen[at.RESIDENT] * chosen[at.WARPS])
    groups = max(1, lanes // int(chosen[at.STREAMS]))
    wide = 1 + max([0, *laid.sources, *laid.results])
    clocks = np.zeros((schedulers, 2))
    clocks[:, at.S_NEXT] = at.FOREVER
    turns = np.zeros((schedulers, 3), np.int64)
    turns[:, at.S_LAST] = -1
    starts = np.zeros((int(chosen[at.RESIDENT]), 2))
    starts[int(chosen[at.BLOCKS]) :, 0] = at.FOREVER
    return (
        np.zeros((lanes, 8), np.int64), np.full((lanes, 2), at.FOREVER), np.zeros((groups, wide)),
        np.zeros((groups, wide), np.int64), np.zeros((schedulers, lanes), np.int64), turns, clocks,
        np.zeros((schedulers, len(units.pipes))), np.zeros((int(chosen[at.RESIDENT]), 3), np.int64), starts,
        np.zeros((schedulers, 4, at.RING if chosen[at.BANKS] else 1), np.int64), np.zeros((schedulers, 4), np.int64),
        np.zeros(3), np.zeros(max(1, int(chosen[at.MSHRS]))),
    )  # fmt: skip


def plain_engine() -> Any:
    """Return the engine as plain Python: the same functions, none of them compiled."""
    names: dict[str, Any] = {}
    for module in (parts, engine_module):
        for name, value in vars(module).items():
            plain = getattr(value, "py_func", value)
            if isinstance(plain, types.FunctionType) and plain.__module__ == module.__name__:
                plain = types.FunctionType(plain.__code__, names, name)
            if not isinstance(names.get(name), types.FunctionType):
                names[name] = plain
    return names["simulate"]


def own_load(units: Units, traffic: Callable[[float], float]) -> float:
    """Return the DRAM traffic in B/cycle at which a run makes the load that it assumes: the fixed point.

    More load means more latency and so less traffic: there is one crossing, found by the secant within a bracket. The
    first step follows Little's law.
    """
    high = traffic(0.0)
    if high <= 0 or units.machine.contention is None:
        return high
    inside = high * units.loaded_cycles(0.0)  # bytes in flight
    low, above, below = 0.0, high, 0.0
    guess = high
    for _ in range(60):  # the traffic at which as many bytes are in flight under the loaded latency
        middle = (low + guess) / 2
        low, guess = (middle, guess) if middle * units.loaded_cycles(middle) < inside else (low, middle)
    low, low_off, high_off = 0.0, above - below, INFINITE
    for _ in range(8):
        made = traffic(guess)
        off = made - guess
        if abs(off) <= 0.004 * guess:
            return (made + guess) / 2
        if off > 0:
            low, low_off = guess, off
        else:
            high, high_off = guess, off
        guess = (low + high) / 2 if high_off == INFINITE else low + (high - low) * low_off / (low_off - high_off)
        guess = min(max(guess, low + 0.05 * (high - low)), high - 0.05 * (high - low))
    return guess


def steady(code: Code, units: Units, options: Options) -> Measured:
    """Return the cycles that one SM spends per body of an endless repetition, from a part without the start."""
    way = code.ways[0]
    turn = way.instructions // way.segments[0][1]
    bytes_each = sum(code.steps[i].dram_bytes for a, b in way.segments[0][0] for i in range(a, b)) / turn
    first = run(code, units, options, resident=1, blocks=1, limit=16_384.0, stagger=64.0)
    per_cycle = max(first.issued, 1) / 16_384
    # Long enough for the budget, and for every warp to make a good number of turns between waits.
    limit = max(65_536.0, BUDGET / per_cycle, 64 * code.warps_per_block / per_cycle)
    limit = options.limit_cycles or min(limit, 4e6)
    done = [first.issued]

    def rate(load: float, cycles: float) -> tuple[Run, Floats, float]:
        every = float(np.floor(cycles / MARKS))
        made = run(
            code, units, options, resident=1, blocks=1, load=load, limit=every * MARKS + 1, stagger=64.0,
            mark_every=every,
        )  # fmt: skip
        done.append(made.issued)
        parts = np.diff(made.marks[MARKS // 4 - 1 :]) / every
        if parts.mean() <= 0:
            raise WarplensError(f"{code.name}: nothing issues in a steady state")
        return made, parts, float(parts.mean())

    load = own_load(units, lambda x: bytes_each * rate(x, limit / 2)[2]) if bytes_each else 0.0
    made, parts, mean = rate(load, limit)
    cycles = turn / code.bodies / mean
    error = 2 * float(parts.std()) / np.sqrt(len(parts)) / mean * cycles
    return Measured(cycles, error, sum(done), load, made, [])


def kernel(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Measured:
    """Return the cycles that all these blocks take on one SM."""
    resident = min(resident, blocks)
    per_block = sum(code.ways[w].instructions for w in code.blocks[0]) * code.streams
    short = code
    if not options.full and per_block * resident * 3 > BUDGET and _long_loops(code):
        short = shortened(code, TURNS, BUDGET / 16 / (per_block * resident))
    some = blocks if options.full else min(blocks, resident * max(2, BUDGET // (8 * per_block * resident)))

    def traffic(load: float) -> float:
        made = run(short, units, options, resident=resident, blocks=some, load=load)
        return made.dram_bytes / max(1.0, made.end_cycle)

    load = own_load(units, traffic) if any(x.dram_bytes for x in code.steps) else 0.0
    if options.full or per_block * blocks <= BUDGET:
        made = run(code, units, options, resident=resident, blocks=blocks, load=load)
        return Measured(made.end_cycle, 0.0, made.issued, load, made, [])
    if short is code:
        step = resident * max(1, round(BUDGET / 8 / (per_block * resident)))
        return _by_rounds(code, units, options, resident, blocks, step, load)
    return _by_turns(code, units, options, resident, blocks, BUDGET / 16 / (per_block * resident), load)


def _by_turns(
    code: Code, units: Units, options: Options, resident: int, blocks: int, share: float, load: float
) -> Measured:
    """Simulate three shares of the iterations, each by rounds of blocks, and go on along the line."""
    cut = [shortened(code, TURNS * k, share * k) for k in (1, 2, 3)]
    made = [_by_rounds(c, units, options, resident, blocks, resident, load) for c in cut]
    done = [sum(c.ways[w].instructions for w in c.blocks[0]) for c in cut]
    whole = sum(code.ways[w].instructions for w in code.blocks[0])
    slopes = [(made[k + 1].cycles - made[k].cycles) / max(1, done[k + 1] - done[k]) for k in (0, 1)]
    left = whole - done[-1]
    cycles = made[-1].cycles + (made[-1].cycles - made[0].cycles) / max(1, done[-1] - done[0]) * left
    error = abs(slopes[1] - slopes[0]) * left / 2 + made[-1].error_cycles * whole / done[-1]
    note = f"loops extrapolated: {100 * done[-1] / whole:.2g} % of the instructions of a block were simulated"
    issued = sum(m.simulated_instructions for m in made)
    return Measured(cycles, error, issued, load, made[-1].run, [note, *made[-1].notes])


def _by_rounds(
    code: Code, units: Units, options: Options, resident: int, blocks: int, step: int, load: float
) -> Measured:
    """Simulate three numbers of blocks that leave the same tail, and go on along the line."""
    least = blocks % resident + resident
    counts = [least + k * step for k in (1, 2, 3)]
    if counts[-1] >= blocks:
        made = run(code, units, options, resident=resident, blocks=blocks, load=load)
        return Measured(made.end_cycle, 0.0, made.issued, load, made, [])
    runs = [run(code, units, options, resident=resident, blocks=n, load=load) for n in counts]
    ends = [r.end_cycle for r in runs]
    left = blocks - counts[-1]
    cycles = ends[2] + (ends[2] - ends[0]) / (2 * step) * left
    error = abs(ends[2] - 2 * ends[1] + ends[0]) / step * left / 2
    note = f"blocks extrapolated: {counts[-1]} of {blocks} were simulated"
    return Measured(cycles, error, sum(r.issued for r in runs), load, runs[-1], [note])


def _long_loops(code: Code) -> bool:
    return any(times > LONG_TURNS for way in code.ways for _, times in way.segments)


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
