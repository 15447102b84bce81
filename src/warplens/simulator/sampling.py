"""Time of a kernel from a part of it: some rounds of its blocks, some iterations of its loops, several seeds.

A short kernel is simulated whole, with several seeds where random latencies decide its time. Rounds of blocks take the
same time, and so do iterations of a loop. Of many rounds (`MANY`) a window in their midst is simulated (`window`), of
long loops two lengths. Of fewer rounds numbers with the same tail are simulated until the next ones take as long as
those before, or three lengths of the loops, two of them for two numbers of rounds; all that counts (cycles, bytes,
stalls) goes on along the line through the first and the last. A longer run goes on where a shorter one has begun its
last block (`Course.up_to`). The error reported is a share of the time that was not simulated: the difference of the
line's two steps or of the window's halves, and `LEAST` for what they do not show (warps that drift slowly, random
latencies in both). Code with neither rounds nor loops is cut off behind its first part; if other instructions come
behind it, all of that time may be wrong.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Floats, Ints, first_part, in_midst, sampled, step_arrays
from warplens.simulator.run import MARKS, Course, Options, Run, run
from warplens.simulator.units import Units

STAGGER = 64.0  # cycles within which warps begin
BUDGET = 300_000  # instructions of the run that counts, unless it is to be full


class Measured(Struct, frozen=True):
    """Cycles of a kernel or of one body, the bound of the error, and the run that they come from."""

    cycles: float
    error_cycles: float
    simulated_instructions: int
    run: Run
    notes: list[str]


def steady(code: Code, units: Units, options: Options) -> Measured:
    """Return the cycles that one SM spends per body of an endless repetition, from a part without the start.

    The run is long enough for the budget of instructions, and for a good number of iterations of every warp. The last
    part of each path is repeated; warps begin at random, unless other parts before it say when.
    """
    path, blocks = code.paths[0], len(code.blocks)
    body = sum(stop - first for first, stop in path.segments[-1][0])
    stagger = STAGGER if len(path.segments) == 1 else 0.0
    first = run(code, units, options, resident=blocks, blocks=blocks, limit=16_384.0, stagger=stagger)
    per_cycle = max(first.issued, 1) / 16_384
    limit = max(65_536.0, BUDGET / per_cycle, 64 * code.warps_per_block * blocks / per_cycle)
    limit = options.limit_cycles or min(limit, 4e6)
    every = float(np.floor(limit / MARKS))
    limit = every * MARKS + 1
    last = run(code, units, options, resident=blocks, blocks=blocks, limit=limit, stagger=stagger, mark_every=every)
    parts = np.diff(last.marks[MARKS // 4 - 1 :]) / every
    if parts.mean() <= 0:
        raise WarplensError(f"{code.name}: nothing issues in a steady state")
    cycles = float(body / code.bodies / parts.mean())
    error = 2 * float(parts.std() / np.sqrt(len(parts)) / parts.mean()) * cycles
    served = body / code.bodies * busiest(step_arrays(code.steps).steps, last.counts, units) / last.issued
    if served > cycles:  # nobody waits for what the unit still has to serve
        last, cycles = replace(last, end_cycle=last.end_cycle * served / cycles), served
    return Measured(cycles, error, first.issued + last.issued, last, [])


def busiest(steps: Any, counts: Ints | Floats, units: Units) -> float:
    """Return the cycles that the busiest unit of an SM takes for so many of each instruction, awaited or not."""
    beyond = counts * (1 - steps.l1_hit)
    cycles = [float(beyond @ steps.l2_cycles), float((beyond * (1 - steps.l2_hit)) @ steps.dram_cycles)]
    own = counts * steps.passes * units.pipes.interval[steps.pipe]
    for unit in set(units.pipes.unit.tolist()):
        taken = float(own[(steps.pipe >= 0) & (units.pipes.unit[steps.pipe] == unit)].sum())
        cycles.append(taken / (1 if units.pipes.shared[unit] else units.machine.sm.schedulers))
    return max(cycles)


KNOWN = 0.01  # of the mean: its error at 95 %; as the runs end when it is small, it is larger more often (test_ends)
FEWEST, MOST = 3, 32  # runs, for an error and for a mean
STUDENT = (4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's t, 97.5 %: of 3, 4, 5 ... 10 and more runs
SEEDS, NEXT_SEED = 1 << 28, 1_000_003  # random numbers from such a seed fit into 64 bits
ONCE = "one run with random latencies: with another seed the time differs"


class Mean(Struct, frozen=True):
    """Mean of some runs, its error at 95 % (none of fewer than three), all instructions, the run nearest to it."""

    cycles: float
    error_cycles: float
    issued: int
    run: Run
    options: Options
    notes: list[str]


def is_random(code: Code, units: Units) -> bool:
    """Return whether the latency of an access is random: one that hits now and then, or that goes to DRAM."""
    steps = step_arrays(code.steps).steps
    l2_sure = (steps.l2_hit >= 1) | (steps.l2_hit <= 0) & (units.spread.shape[1] == 1)
    sure = (steps.l1_hit >= 1) | (steps.l1_hit <= 0) & l2_sure
    return bool((np.isin(steps.kind, (at.LOAD, at.STORE)) & ~sure & (code.executed() > 0)).any())


def mean_over_draws(one: Callable[[Options], Run], options: Options, budget: float, most: int = MOST) -> Mean:
    """Return the mean over so many runs, each with a seed of its own, or as many of them as it takes to know it.

    The first one keeps events, if any are to be kept.
    """
    each, runs, error = list[Options](), list[Run](), math.inf
    for k in range(most):
        other = replace(options, seed=(options.seed + k * NEXT_SEED) % SEEDS, events=0)
        each.append(other if k else options)
        runs.append(one(each[-1]))
        ends, issued = [r.end_cycle for r in runs], sum(r.issued for r in runs)
        if len(runs) >= FEWEST:
            factor = STUDENT[min(len(runs) - FEWEST, len(STUDENT) - 1)]
            error = factor * statistics.stdev(ends) / math.sqrt(len(runs))
        if error <= KNOWN * statistics.mean(ends) or issued + runs[0].issued > budget:
            break
    mean, known = statistics.mean(ends), len(runs) >= FEWEST
    near = min(range(len(runs)), key=lambda k: abs(ends[k] - mean))
    notes = [] if known else [ONCE if len(runs) == 1 else ONCE.replace("one run", "two runs")]
    return Mean(mean, error if known else 0.0, issued, runs[near], each[near], notes)


MANY = 16  # rounds: what the start and the tail take besides is a few hundredths of these
LONGEST = BUDGET // 2  # instructions of a round, and of all of a window that is doubled
WINDOW = BUDGET // 8
PART = 0.75  # of a round that is longer than this
DOUBLED = 4  # times, at most
HALVES_DIFFER = 0.02  # of the halves' rates


class Window(Struct, frozen=True):
    """Runs up to the begin of a window and to its end, the difference of its halves, its instructions and blocks."""

    first: Run
    last: Run
    differ: float
    simulated: int
    begun: int  # blocks


def window(course: Callable[[Code, int], Course], code: Code, resident: int) -> Window:
    """Return some rounds of blocks in the midst of many; `course` takes the code and the number of its blocks."""
    rounds = math.ceil(WINDOW / (code.block_instructions * resident))
    before = resident + (resident if rounds > 1 else max(1, resident // 8))
    size = max(2, math.ceil(resident * (rounds if rounds > 1 else PART)))
    most = before + size * DOUBLED
    run = course(in_midst(code, resident, most - resident), most + 1)
    looks = [run.until(before + part) for part in (0, size // 2, size)]
    while difference(looks) > HALVES_DIFFER and before + 2 * size <= most and 2 * looks[-1].issued <= LONGEST:
        size *= 2
        looks = [looks[0], looks[-1], run.until(before + size)]
    return Window(looks[0], looks[-1], difference(looks), run.simulated, before + size)


def difference(runs: list[Run]) -> float:
    """Return by how much the steps from the first run to the second and to the third differ, over the larger one."""
    first, middle, last = runs
    slopes = [(b.end_cycle - a.end_cycle) / max(1, b.issued - a.issued) for a, b in ((first, middle), (middle, last))]
    return abs(slopes[1] - slopes[0]) / (max(slopes) or 1.0)


ROUND = BUDGET // 12  # instructions of a round of blocks with the shortest loops
Lengths = tuple[tuple[int, int], ...]  # times the shortest, and times the few iterations that a loop keeps at least
LENGTHS: Lengths = ((1, 1), (2, 2), (6, 3))
ROUNDS = 3  # up to so many rounds of blocks are all simulated
STEPS = (3_000, 6_000, 12_000, 37_500, 75_000, 112_500)  # instructions of all rounds but the first and the tail
STEADY = 0.005  # of the time of a round: steps that differ by no more are a steady state
OUT_OF_STEP = 0.25  # of a round: what many rounds take beyond their rate, if their blocks are not in step
WORTH = 0.5  # of all instructions: for less than this is saved, nothing is left out
TAIL = 0.75  # of a round: what is left of it when the last block begins
# Of the time that was not simulated. Over 361 workloads, random graphs and counted kernels of the train set, as they
# are and with ten and a hundred times the blocks, the largest difference from a full run, less that of the steps, was
# 5.8 % of it.
LEAST = 0.06


_SUMS = ("end_cycle", "dram_bytes", "issued", "counts", "stalls", "sampled")  # of a run


class _Bench(Struct, frozen=True):
    """An SM that takes so many blocks at a time."""

    units: Units
    options: Options
    resident: int
    blocks: int

    def course(self, code: Code, blocks: int | None = None) -> Course:
        """Return a course for so many blocks of a code, else for at most all."""
        return Course(code, self.units, self.options, resident=self.resident, blocks=blocks or self.blocks)


def kernel(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Measured:
    """Return the cycles that all these blocks take on one SM."""
    bench = _Bench(units, options, min(resident, blocks), blocks)
    each = code.grid_mean or code.block_instructions
    known = code.block_instructions * bench.resident  # of the blocks that are known, which may be the longest
    if options.full or (each * blocks <= BUDGET and known <= 4 * BUDGET):
        return _with_draws(bench, code)
    found = _by_windows(bench, code, each)
    if found is None:
        short = each * bench.resident <= BUDGET / 3
        lengths = [code] if short else cut_code(code, bench.resident, ROUND, LENGTHS, BUDGET)
        cut = lengths[0].block_instructions < code.block_instructions
        found = _by_lengths(bench, code, lengths, each) if cut else _by_rounds(bench, code, each)
    # A window has more of some instructions and less of others.
    served = busiest(step_arrays(code.steps).steps, blocks * code.executed(), units)
    if served <= found.cycles:
        return found
    return replace(found, cycles=served, run=replace(found.run, end_cycle=served))


def _by_windows(bench: _Bench, code: Code, each: float) -> Measured | None:
    """Simulate a window in the midst of many rounds, of long loops two lengths; None where these cannot tell."""
    blocks, resident, options = bench.blocks, bench.resident, bench.options
    together = options.strict_barriers and any(len(set(block)) > 1 for block in code.blocks)  # at the same barrier
    if blocks < MANY * resident or options.events or code.streams > 1 or together:
        return None
    lengths, notes = [code], list[str]()
    if each * resident > LONGEST:
        lengths = cut_code(code, resident, ROUND, LENGTHS, BUDGET)[1:]
        short, long = (c.block_instructions for c in lengths)
        if short == long or long * resident > 1.5 * LONGEST or _reached(code) - _reached(lengths[-1]):
            return None
        notes = [_shortened(lengths[-1], code)]
    windows = [window(bench.course, c, resident) for c in lengths]
    runs = [
        _going_on(w, (c.block_instructions if notes else each) * blocks) for w, c in zip(windows, lengths, strict=True)
    ]
    whole, rounds = _on_line(runs[0], runs[-1], each * blocks) if notes else runs[0], blocks / resident
    # In step, the last round takes as long as others, however many blocks it has; else a part of a round is left.
    tail = (math.ceil(rounds) - rounds + OUT_OF_STEP) / 2 * whole.end_cycle / rounds
    notes.append(f"blocks extrapolated: {windows[-1].begun} of {blocks} were simulated")
    whole = replace(whole, end_cycle=whole.end_cycle + tail)
    seen, differ = [w.last for w in windows], max(w.differ for w in windows)
    return _measured(whole, seen, differ, sum(w.simulated for w in windows), notes)


def _going_on(seen: Window, instructions: float) -> Run:
    """Return what so many instructions take at the rate of a window."""
    nothing, within = (
        replace(run, **{name: getattr(run, name) - getattr(seen.first, name) for name in _SUMS})
        for run in (seen.first, seen.last)
    )
    return _on_line(nothing, within, instructions)


def _shortened(cut: Code, code: Code) -> str:
    share = 100 * cut.block_instructions / code.block_instructions
    return f"loops extrapolated: {share:.2g} % of the instructions of a block were simulated"


def _with_draws(bench: _Bench, code: Code) -> Measured:
    """Simulate all blocks, and where latencies are random again with other seeds, until the mean is known."""
    if not is_random(code, bench.units):
        return _whole(bench, bench.course(code))
    resident, blocks, events = bench.resident, bench.blocks, bench.options.events

    def whole(options: Options) -> Run:
        return run(code, bench.units, options, resident=resident, blocks=blocks)

    mean = mean_over_draws(whole, bench.options, BUDGET)
    nearest, issued = mean.run, mean.issued
    if mean.options.events < events:  # of the run nearest to the mean none were kept
        nearest = whole(replace(mean.options, events=events))
        issued += nearest.issued
    return Measured(mean.cycles, mean.error_cycles, issued, nearest, mean.notes)


def _whole(bench: _Bench, course: Course) -> Measured:
    done, notes = course.up_to(bench.blocks), [ONCE] if is_random(course.code, bench.units) else []
    return Measured(done.end_cycle, 0.0, course.simulated, done, notes)


def cut_code(code: Code, resident: int, instructions: float, lengths: Lengths, most: float) -> list[Code]:
    """Return the code with some lengths of its loops, or as many first parts where it has none to cut.

    A round of blocks with the first length has so many instructions, one with the last at most `most`.
    """
    share = instructions / (code.block_instructions * resident)
    cut = [sampled(code, share * k, iterations) for k, iterations in lengths]
    if cut[-1].block_instructions * resident > most:
        return [first_part(code, min(1.0, 2 * share * k)) for k, _ in lengths]
    return cut


def _by_rounds(bench: _Bench, code: Code, each: float) -> Measured:
    """Simulate more and more blocks that leave the same tail, until the steps are equal, and go on along the line."""
    a_round, course, blocks = code.block_instructions * bench.resident, bench.course(code), bench.blocks
    numbers = sorted({max(1, round(size / a_round)) for size in STEPS})
    few, runs = blocks % bench.resident + bench.resident, list[Run]()
    for rounds in numbers if len(numbers) >= 3 else (1, 2, 3):
        count = few + rounds * bench.resident
        if count >= blocks:
            return _whole(bench, course)
        runs = [*runs[-2:], course.up_to(count)]
        if len(runs) == 3 and difference(runs) <= STEADY:
            break
    whole = _on_line(runs[0], runs[-1], runs[-1].issued + (blocks - count) * each)
    note = f"blocks extrapolated: {count} of {blocks} were simulated"
    return _measured(whole, runs, difference(runs), course.simulated, [note])


def _by_lengths(bench: _Bench, code: Code, lengths: Sequence[Code], each: float) -> Measured:
    """Simulate three lengths of the loops, for all blocks or for two numbers of them, and go on along the lines."""
    blocks, resident = bench.blocks, bench.resident
    few = blocks if blocks <= ROUNDS * resident else blocks % resident + resident
    sizes = [c.block_instructions for c in lengths]
    part = sum(sizes) * few + (few < blocks) * (1 + TAIL) * resident * (sizes[0] + sizes[-1])
    if part >= WORTH * each * blocks:
        return _whole(bench, bench.course(code))
    courses = [bench.course(c) for c in lengths]
    runs = [course.up_to(few) for course in courses]
    whole, differ = _on_line(runs[0], runs[-1], few * each), difference(runs)
    notes = [_shortened(lengths[-1], code)]
    if few < blocks:
        more = [course.up_to(few + resident) for course in (courses[0], courses[-1])]  # the middle one says the same
        longer = _on_line(more[0], more[-1], (few + resident) * each)
        whole = _line(whole, longer, (blocks - few) / resident)
        notes.append(f"blocks extrapolated: {few + resident} of {blocks} were simulated")
        runs += more
    unseen = _reached(code) - _reached(lengths[-1])
    return _measured(whole, runs, 1.0 if unseen else differ, sum(course.simulated for course in courses), notes)


def _reached(code: Code) -> set[str]:
    """Return the instructions that any warp reaches, by their text: those of counts have the same."""
    runs = {run for path in code.paths for sequence, _ in path.segments for run in sequence}
    return {code.steps[i].label for first, stop in runs for i in range(first, stop)}


def _measured(whole: Run, runs: Sequence[Run], differ: float, simulated: int, notes: list[str]) -> Measured:
    """Return the answer; of the time behind the longest run so large a share, and `LEAST`, may be wrong."""
    error = max(0.0, whole.end_cycle - max(r.end_cycle for r in runs)) * min(1.0, LEAST + differ)
    return Measured(whole.end_cycle, error, simulated, whole, notes)


def _on_line(first: Run, last: Run, instructions: float) -> Run:
    """Return what a run of so many instructions is on the line through two."""
    return _line(first, last, (instructions - first.issued) / max(1, last.issued - first.issued))


def _line(first: Run, last: Run, times: float) -> Run:
    """Return the first run and so many times what the last one has more; its notes are the last one's."""
    return replace(
        last,
        end_cycle=max(last.end_cycle, first.end_cycle + times * (last.end_cycle - first.end_cycle)),
        dram_bytes=first.dram_bytes + times * (last.dram_bytes - first.dram_bytes),
        issued=round(first.issued + times * (last.issued - first.issued)),
        counts=(first.counts + times * (last.counts - first.counts)).round().clip(0).astype(last.counts.dtype),
        stalls=(first.stalls + times * (last.stalls - first.stalls)).clip(0),
        sampled=(first.sampled + times * (last.sampled - first.sampled)).clip(0),
    )
