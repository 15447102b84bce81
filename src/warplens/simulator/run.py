"""Run of the engine: so many blocks through one SM."""

from __future__ import annotations

import types
from copy import copy
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.simulator import blocks, engine, fluid, memory, register_ports, register_writes, scheduler
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Floats, Ints, StepArrays, path_arrays, step_arrays
from warplens.simulator.units import INFINITE, Units, default_policy, policy

INTERVAL, SAMPLES = 2048.0, 64  # cycles between samples; of a long run a part


class Seen(Struct, frozen=True):
    """Samples until a cycle: warp-cycles by reason until then, and the time by reason."""

    until: float
    waited: Floats
    cycles: Floats


NOTHING = Seen(0.0, np.zeros(len(at.REASONS)), np.zeros(len(at.REASONS)))


def look(seen: Seen, now: float, stalls: Floats) -> Seen:
    """Return the samples up to now, with all stalls until then."""
    waited = stalls.sum(axis=0)
    behind = (waited - seen.waited).clip(0)
    return Seen(now, waited, seen.cycles + (now - seen.until) * behind / (behind.sum() or 1.0))


def stalls_until(now: float, steps: Any, warps: Any, full: Floats, stalls: Floats) -> Floats:
    """Return the stalls up to now: with those that the engine counts for a warp only when it goes on.

    That is why it waits at a barrier, or for an issue slot and a full pipe, as in `engine.issue`.
    """
    found, late = stalls.copy(), np.flatnonzero((warps.since < now) & (warps.state != at.IDLE))
    here, waited = warps[late], now - warps.since[late]
    halted, eligible = here.state == at.WAITING, (here.state == at.RUNNING) & (here.ready < at.FOREVER)
    np.add.at(found, (here.pc[halted], at.AT_BARRIER), waited[halted])
    here, waited = here[eligible], waited[eligible]
    step = steps[here.pc]
    without = (full[here.home, step.pipe + 1] - here.full) * waited / (now - here.seen)
    without = np.minimum(without, waited)
    np.add.at(found, (here.pc, step.room), without)
    np.add.at(found, (here.pc, at.NOT_SELECTED), waited - without)
    return found


_MODULES = (blocks, scheduler, register_writes, register_ports, memory, engine, fluid)
MARKS = 24  # a run up to a limit notes its issued instructions so often
MOST_EVENTS_EACH = 16  # of an instruction: far more than there can be
LONGEST = 2.0**50  # cycles of a run: with more of them times are not known to a fraction of one
SLICE = 100_000.0  # cycles in one call of compiled code, which no signal interrupts: a tenth of a second
NEVER = 1 << 60  # blocks after which a run pauses


class Options(Struct, frozen=True):
    """Options of a simulation: order of warps, seed, a full run, events to keep.

    `sampled`: look at the warps now and then, as Nsight's sampler does.
    """

    policy: str | None = None  # the mode's own
    seed: int = 1
    full: bool = False
    events: int = 0
    strict_barriers: bool = False
    compiled: bool = True
    limit_cycles: float | None = None
    sampled: bool = False


class Run(Struct, frozen=True):
    """Result of one run of the engine."""

    end_cycle: float
    dram_bytes: float
    issued: int
    counts: Ints
    stalls: Floats
    blocks: Floats  # start, end, block slot
    marks: Ints
    events: Ints
    status: int
    more_events: bool  # than were kept
    warps: Floats  # iterations and end of those that were on the SM last
    sampled: Floats  # cycles by reason, as a sampler sees them

    @property
    def shares(self) -> dict[str, float]:
        """Shares of all warp-cycles by reason."""
        total = self.stalls.sum() or 1.0
        return dict(zip(at.REASONS, (self.stalls.sum(axis=0) / total).tolist(), strict=True))


class Course:
    """Blocks on their way through one SM, at most `resident` at a time; it can pause and go on."""

    def __init__(
        self, code: Code, units: Units, options: Options, *, resident: int, blocks: int, marks: int = 0
    ) -> None:
        paths, arrays = path_arrays(code), step_arrays(code.steps)
        self.code, self.options, self.simulated = code, options, 0
        setup = set_up(code, units, options, resident, blocks)
        sm = at.rows(at.SM, 1)
        sm.random, lines = options.seed, code_lines(setup[0], sm[0])
        self.given = (
            arrays.steps, arrays.sources, arrays.results, units.pipes, paths.path_at, paths.segments, paths.runs,
            paths.warp_paths,
        )  # fmt: skip
        self.curves = units.curves, units.loads, units.spread
        state = empty_sm(arrays, units, setup[0], sm[0])
        stalls, kept = np.zeros((len(code.steps), len(at.REASONS))), np.zeros((min(blocks, 100_000), 3))
        most = MOST_EVENTS_EACH * (code.block_instructions + 2 * code.warps_per_block) * min(blocks, NEVER)
        events = np.zeros((int(min(options.events, most)), at.EVENT_COLUMNS), np.int64)
        self.seen = NOTHING
        self.state = (setup, lines, *state, stalls, kept, np.zeros(marks, np.int64), events, sm)

    def go(self) -> None:
        """Run up to the end, the limit or the pause; compiled code returns now and then, as for signals."""
        call: Any = engine.simulate if self.options.compiled else plain_engine()
        setup, *state = self.state
        sm, limit, going = state[-1], float(setup.time_limit[0]), True
        before = int(sm.issued[0])
        while going:
            due = self.seen.until + max(INTERVAL, self.seen.until / SAMPLES) if self.options.sampled else INFINITE
            setup.time_limit = min(limit, due, self._now() + SLICE)
            call(*self.given, setup, *self.curves, *state)
            going = sm.status[0] == at.TIME_UP and setup.time_limit[0] < limit
            if going:
                sm.status = at.FINISHED
            if going and setup.time_limit[0] == due:
                self.seen = look(self.seen, self._now(), self._stalls(self._now()))
        setup.time_limit = limit
        self.simulated += int(sm.issued[0]) - before

    def up_to(self, blocks: int) -> Run:
        """Return the run of the first so many blocks, more than the last time; what came before is not run again.

        Runs of more and of fewer blocks are the same until there is no next block for a block slot.
        """
        setups, block_slots, sm = self.state[0], self.state[10], self.state[-1][0]
        setup = setups[0]
        setup.blocks = setup.pause = blocks
        for slot in block_slots:
            if sm.coming < blocks and not slot.live and slot.start >= at.FOREVER:
                sm.coming += 1
                slot.start = slot.noted + setup.replace
                sm.next_start = min(sm.next_start, slot.start)
        self.go()
        end = copy(self)
        end.simulated, end.state = 0, tuple(array.copy() for array in self.state)
        end.state[0].pause = NEVER
        end.go()
        self.simulated += end.simulated
        return end.done()

    def until(self, begun: int) -> Run:
        """Return the run up to the cycle in which so many blocks have a block slot."""
        self.state[0].pause = begun
        self.go()
        return replace(self.done(self._now()), end_cycle=self._now())

    def _now(self) -> float:
        """Return the next cycle in which something happens."""
        sm = self.state[-1]
        return min(float(sm.next_start[0]), float(self.state[4].next.min()))

    def _stalls(self, now: float) -> Floats:
        _, _, warps, *_, full, _, _, _, stalls, _, _, _, _ = self.state
        return stalls_until(now, self.given[0], warps, full, stalls)

    def done(self, now: float | None = None) -> Run:
        """Return the run, to its end or to a cycle."""
        setup, _, warps, _, _, _, pipe_free, *_, kept, marks, events, sm = self.state
        done, end = sm[0], float(setup.time_limit[0])
        if done.status == at.TIME_UP and end >= LONGEST:
            raise WarplensError(
                f"{self.code.name}: more than {LONGEST:.0e} cycles: a latency or a count is beyond measure"
            )
        if done.status == at.DEADLOCK:
            raise deadlock(self.code, warps, int(done.ended), int(setup.blocks[0]))
        kept = kept[: int(setup.blocks[0])]
        if now is None:
            now = end if done.status == at.TIME_UP else float(kept[:, 1].max(initial=0.0))
        stalls = self._stalls(now)
        if done.status == at.FINISHED and len(kept):  # no sooner than every unit has served what nobody waits for
            end = float(max(kept[:, 1].max(), pipe_free.max(), done.l2_free, done.dram_free))
            if self.code.controlled:
                end = max(end, float(done.noted))
        return Run(
            end, float(done.moved), int(done.issued), stalls[:, at.SELECTED].astype(np.int64), stalls, kept, marks,
            events[: int(done.told)], int(done.status), 0 < self.options.events < int(done.told),
            np.stack([warps.turns, warps.ended]).T, look(self.seen, now, stalls).cycles,
        )  # fmt: skip


def run(
    code: Code, units: Units, options: Options, *, resident: int, blocks: int, limit: float = INFINITE,
    stagger: float = 0.0, mark_every: float = INFINITE,
) -> Run:  # fmt: skip
    """Run so many blocks through one SM, at most `resident` at a time, up to a limit in cycles.

    Warps begin within `stagger` cycles; every `mark_every` cycles the issued instructions are noted.
    """
    marks = MARKS if mark_every < INFINITE else 0
    course = Course(code, units, options, resident=resident, blocks=blocks, marks=marks)
    setup = course.state[0]
    setup.time_limit, setup.stagger, setup.mark_every = min(limit, LONGEST), stagger, mark_every
    course.go()
    return course.done()


def set_up(code: Code, units: Units, options: Options, resident: int, blocks: int) -> Any:
    """Return the engine's setup: the machine's numbers, and those of this code."""
    arrays, setups, sm = step_arrays(code.steps), units.setup.copy(), units.machine.sm
    setup = setups[0]
    setup.direction, setup["in_turn"], setup.greedy, counting = policy(options.policy, units.machine)
    if counting:
        # Where it was not measured and is asked for: as on the H200 (its machine file).
        setup.counting, setup.counted_after = int(sm.issues_counted or 15), int(sm.issue_counts_cycles or 5)
    setup.schedulers = code.streams if code.streams > 1 else int(sm.schedulers)
    setup.resident, setup.blocks, setup.streams, setup.pause = resident, blocks, code.streams, NEVER
    setup.warps = code.warps_per_block * code.streams
    setup.strict, setup.width, setup.telling = options.strict_barriers, int(sm.issue_width), options.events > 0
    setup.replace += (code.warps_per_block - 1) * (sm.block_replacement_per_warp_cycles or 0.0)
    if code.streams > 1:
        setup.note_every = setup.replace = 0.0
    setup.seed = options.seed
    if code.steady or code.streams > 1:
        setup["alike"] = 0  # warps of an endless loop drift
    if code.controlled:
        setup.replace = sm.block_exchange_cycles or setup.replace
        setup.barrier_wait = 0.0
        setup.yielding = counting or options.policy in (None, default_policy(units.machine))
    else:
        setup.branch_taken = setup.port = 0.0
        # As in the closed forms, every block has its replacement; a launch of machine code is timed elsewhere.
        setup.first_start = 0.0 if code.steady else setup.replace
        setup.results = 0 if code.steady or code.streams > 1 else _slots(arrays)
    if not (arrays.steps.even | arrays.steps.odd | arrays.steps.writes).any():
        setup.banks = 0
    setup.lines = len(code.steps) // at.LINE_INSTRUCTIONS + 1
    if len(code.steps) <= setup.first_lines * at.LINE_INSTRUCTIONS:
        setup.first_lines = 0  # all of it stays in the instruction cache
    return setups


def _slots(arrays: StepArrays) -> int:
    """Return the number of slots of a warp."""
    return 1 + int(max(arrays.sources.slot.max(initial=0), arrays.results.slot.max(initial=0)))


def code_lines(setup: Any, sm: Any) -> Any:
    """Return the lines of the code: in the SM's caches, for a launch before this one has walked through it."""
    count = int(setup.lines)
    lines = at.rows(at.CODE_LINE, count)
    lines.number = lines.deep = 1 + np.arange(count)
    sm.fetched = sm.deep = count
    return lines


def empty_sm(arrays: StepArrays, units: Units, setup: Any, sm: Any) -> tuple[Any, ...]:
    """Return the engine's state: an SM without warps, its block slots free for the first blocks."""
    schedulers, lanes, pipes = int(setup.schedulers), int(setup.resident * setup.warps), len(units.pipes)
    wide = _slots(arrays)
    rows = at.rows(at.SCHEDULER, schedulers)
    rows.next, rows.last, rows["apart"], rows.counted = at.FOREVER, -1, -at.LATCHES, -1
    block_slots = at.rows(at.PLACE, int(setup.resident))
    block_slots.start = setup.first_start
    sm.noted = -at.FOREVER
    block_slots.start[int(setup.blocks) :] = at.FOREVER
    sm.load_at, sm.coming = -at.FOLLOW, min(int(setup.resident), int(setup.blocks))
    warps = at.rows(at.WARP, lanes)
    warps.ready = at.FOREVER
    entries = 1 + max(1, int(units.pipes.places.max()))  # of the longest queue; behind: when all were taken
    return (
        warps, at.rows(at.SLOT, max(1, lanes // int(setup.streams)) * wide), rows,
        np.zeros((schedulers, lanes), np.int64),
        np.zeros((schedulers, pipes)) - units.pipes.held,  # all queues are empty
        np.zeros((schedulers, pipes, entries)), np.zeros((schedulers, pipes), np.int64),
        np.zeros((schedulers, pipes + 1)), block_slots,  # the first pipe is that of what has no pipe
        np.zeros((schedulers + lanes, at.LATCH_COLUMNS), np.int64), np.zeros(max(1, int(setup.mshrs))),
    )  # fmt: skip


def plain_engine(name: str = "simulate") -> Any:
    """Return the engine, or the fluid one by its name, as plain Python: the same functions, none of them compiled."""
    names: dict[str, Any] = {}
    for module in _MODULES:
        for key, value in vars(module).items():
            plain = getattr(value, "py_func", value)
            if isinstance(plain, types.FunctionType) and plain.__module__ == module.__name__:
                plain = types.FunctionType(plain.__code__, names, key)
            if not isinstance(names.get(key), types.FunctionType):
                names[key] = plain
    return names[name]


def deadlock(code: Code, warps: Any, ended: int, blocks: int) -> WarplensError:
    """Name the instruction and the line at which warps wait for ever, these warps, and those that never come."""
    size = code.warps_per_block * code.streams
    first = int(np.argmax(warps.state != at.IDLE)) // size * size
    block = warps[first : first + size]
    waiting = np.flatnonzero(block.state == at.WAITING)
    stuck = waiting if len(waiting) else np.flatnonzero(block.state == at.RUNNING)
    number = int((block.barrier if len(waiting) else block.pc)[stuck[0]])
    circle = _warps(stuck // code.streams, "wait for a circle of dependences")
    reason = _absent(waiting, size) if len(waiting) else circle
    return _deadlock(code, number, f"{reason}; {ended} of {blocks} blocks of an SM had ended")


def check_last_barriers(code: Code) -> None:
    """Refuse blocks of which some warps end at a barrier that not all reach; others deadlock in the run itself."""
    kinds, met, last = [step.kind for step in code.steps], list[int](), list[int]()
    for path in code.paths:
        counts = [(times, sum(kinds[a:b].count(at.BARRIER) for a, b in runs)) for runs, times in path.segments]
        met.append(sum(times * count for times, count in counts))
        last.append(path.segments[-1][0][-1][1] - 1 if path.segments else -1)
    for block in code.blocks:
        there = np.flatnonzero([met[k] == max(met[w] for w in block) for k in block])
        number = last[block[int(there[0])]]
        if len(there) < len(block) and kinds[number] == at.BARRIER:
            raise _deadlock(code, number, _absent(there, len(block)))


def _deadlock(code: Code, number: int, reason: str) -> WarplensError:
    step = code.steps[number]
    line = "" if step.line is None else f", line {step.line}"
    return WarplensError(f"{code.name}: deadlock at `{step.label}` (instruction {number}{line}): {reason}")


def _absent(waiting: Any, size: int) -> str:
    """Return the warps that wait at a barrier, and those of their block that never reach it."""
    absent = np.setdiff1d(np.arange(size), waiting)
    return f"{_warps(waiting, 'wait there', of=f' of {size}')}, {_warps(absent, 'never come')}"


def _warps(warps: Any, does: str, of: str = "") -> str:
    """Return a clause with the numbers of warps, given as of several."""
    shown = sorted({int(w) for w in warps})
    names = f"{', '.join(map(str, shown[:8]))}{', ...' if len(shown) > 8 else ''}{of}"
    if len(shown) > 1:
        return f"warps {names} {does}"
    return f"warp {names} {does.replace('wait', 'waits').replace('come', 'comes')}"
