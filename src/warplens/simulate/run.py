"""One run of the engine: so many blocks through one SM."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.errors import WarplensError
from warplens.simulate import engine as engine_module
from warplens.simulate import layout as at
from warplens.simulate import parts
from warplens.simulate.code import Code, Floats, Ints, StepArrays, lay_steps, lay_ways
from warplens.simulate.engine import simulate as engine
from warplens.simulate.units import INFINITE, PIPES, Units, policy

MARKS = 24  # how often a run up to a limit notes what it has issued


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


def run(code: Code, units: Units, options: Options, *, resident: int, blocks: int, load: float = 0.0,
        limit: float = INFINITE, stagger: float = 0.0, mark_every: float = INFINITE,
        laid: StepArrays | None = None) -> Run:  # fmt: skip
    """Run so many blocks through one SM, at most `resident` at a time; `load` is the DRAM traffic in B/cycle.

    `laid` are the code's steps as arrays, where the caller runs them more than once.
    """
    ways, laid = lay_ways(code), laid or lay_steps(code.steps)
    sm = units.machine.sm
    order, greedy = policy(options.policy)
    chosen = np.zeros(at.OPTION_COLUMNS, np.int64)
    chosen[at.SCHEDULERS] = code.streams if code.streams > 1 else int(sm.schedulers)
    chosen[at.POLICY], chosen[at.GREEDY] = order, greedy
    chosen[at.RESIDENT], chosen[at.BLOCKS] = resident, blocks
    chosen[at.WARPS], chosen[at.STREAMS] = code.warps_per_block * code.streams, code.streams
    chosen[at.BANKS] = units.banks if laid.code[:, at.READS :].any() else 0
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
        laid.code, laid.timing, laid.sources, laid.deltas, laid.results, laid.result_kinds, units.pipes, ways.path_at,
        ways.segments, ways.runs, ways.warp_paths, chosen, settings, units.spread(load), *state,
        counts, stalls, kept, marks, events, out,
    )  # fmt: skip
    if out[at.OUT_STATUS] == at.DEADLOCK:
        raise _deadlock(code, counts, int(out[at.OUT_ENDED]), blocks)
    end = float(kept[:, 1].max()) if out[at.OUT_STATUS] == at.FINISHED and len(kept) else float(limit)
    told = events[: int(out[at.OUT_EVENTS])]
    moved = float(state[-2][at.M_MOVED])
    return Run(end, moved, int(out[at.OUT_ISSUED]), counts, stalls, kept, marks, told, int(out[at.OUT_STATUS]))


def _state(laid: StepArrays, units: Units, chosen: Ints) -> tuple[Any, ...]:
    """Make the engine's state: an SM without warps, places free for the first blocks."""
    schedulers, lanes = int(chosen[at.SCHEDULERS]), int(chosen[at.RESIDENT] * chosen[at.WARPS])
    groups = max(1, lanes // int(chosen[at.STREAMS]))
    wide = 1 + int(max(laid.sources.max(initial=0), laid.results.max(initial=0)))
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
