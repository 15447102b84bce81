"""Fluid form of the simulator: code cut into spans, one run of them, and a kernel's time from some rounds.

A span is a run of instructions between two waits: it has a length, a share of the issue slots and of the pipes, and
sends its accesses at given times. In `fluid` spans share an SM.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.simulator import layout as at
from warplens.simulator.code import Code, Floats, Ints, PathArrays, path_arrays, step_arrays
from warplens.simulator.fluid import FLOW, flow_through
from warplens.simulator.run import Options, Run, code_lines, deadlock, empty_sm, plain_engine, set_up
from warplens.simulator.sampling import cut_code, is_random, mean_over_draws
from warplens.simulator.units import Units

# A span: `cycles` from the first instruction's issue to behind the last one's, of which `slots` issue, alone;
# `stall` and `branch`: from then on, as of the last one. Its sources are those of its first instruction.
SPAN = at.record("sources sources_end operations operations_end first last yields", "cycles slots stall branch")
# An access or an awaited result of a span: the instruction, and its cycle from the span's start.
OPERATION = at.record("step", "offset")
_SENT_WITHIN = 64.0  # cycles: accesses are sent when their span ends, so one with accesses is not much longer
_LOST = 0.5  # of the conflicts at register ports: what random loops lose in the simulator (bench/fluid.py)
_WANTED = 0.5  # of the busiest resource: a pipe that is used less is free when it is wanted


class SpanArrays(Struct, frozen=True):
    """Spans of a code as the fluid engine's records.

    `runs` are the paths' straight runs in spans. `demands` and `waits` have for each span and resource (issue slots,
    then the pipes that are wanted) the share that it uses while it goes on alone, and how much longer it takes for
    each cycle that it would wait for that resource at random.
    """

    spans: Any
    operations: Any
    runs: Any
    demands: Floats
    waits: Floats


def span_arrays(code: Code, paths: PathArrays, units: Units) -> SpanArrays:
    """Cut a code at its waits, at its barriers and where its paths jump."""
    steps, cached = step_arrays(code.steps).steps, len(code.steps) <= units.setup[0].first_lines * at.LINE_INSTRUCTIONS
    starts = _starts(steps, paths, lines=not cached and bool(units.setup[0].first_lines))
    lasts = np.append(starts[1:], len(steps)) - 1
    gaps = np.maximum(steps.stall, steps.branch)
    issued = np.cumsum(gaps) - gaps + np.cumsum(steps.late)
    spans = at.rows(SPAN, len(starts))
    spans.first, spans.last = starts, lasts
    spans.sources, spans.sources_end = steps.sources[starts], steps.sources_end[starts]
    spans.stall, spans.branch = steps.stall[lasts] - 1.0, steps.branch[lasts] - 1.0
    spans.yields = np.maximum.reduceat((steps.yields > 0) | (steps.kind != at.FIXED), starts)
    queued = _queued(steps, units)
    sent = np.flatnonzero(queued | (steps.results_end > steps.results))
    operations = at.rows(OPERATION, len(sent))
    operations.step = sent
    operations.offset = issued[sent] - issued[starts[np.searchsorted(starts, sent, "right") - 1]]
    spans.operations, spans.operations_end = np.searchsorted(sent, starts), np.searchsorted(sent, lasts, "right")
    runs = paths.runs.copy()
    runs.first, runs.stop = np.searchsorted(starts, runs.first), np.searchsorted(starts, runs.stop)
    counts = code.counts
    issue = steps.holds + _lost_to_ports(steps, counts) + _lost_to_halves(steps, counts, units)
    spans.slots = np.add.reduceat(issue, starts)
    works = [np.where(~queued & (steps.pipe == p), steps.passes * units.pipes.interval[p], 0.0)
             for p in range(len(units.pipes))]  # fmt: skip
    busy = [counts @ issue, *(counts @ work for work in works)]
    wanted = [p for p in range(len(works)) if busy[1 + p] >= _WANTED * max(busy)]
    work = np.stack([spans.slots, *(np.add.reduceat(works[p], starts) for p in wanted)], axis=1)
    times = np.stack([spans.slots, *(np.add.reduceat((works[p] > 0) * 1.0, starts) for p in wanted)], axis=1)
    spans.cycles = np.maximum(issued[lasts] - issued[starts] + 1.0, work.max(axis=1))
    for column, p in enumerate(wanted, start=1):
        missed = _missed(busy, p, float(counts @ (works[p] > 0)))
        work[:, column] += (spans.slots - times[:, column]) * missed
    demands = work / spans.cycles[:, None]
    waits = _irregular(steps, counts) * (work + times) / 2 / spans.cycles[:, None]
    return SpanArrays(spans, operations, runs, demands, waits)


def _starts(steps: Any, paths: PathArrays, *, lines: bool) -> Ints:
    """Return the first instructions of spans."""
    n = len(steps)
    starts = steps.sources_end > steps.sources
    starts[1:] |= steps.kind[:-1] == at.BARRIER
    starts[0] = True
    for ends in (paths.runs.first, paths.runs.stop):
        starts[ends[ends < n]] = True
    if lines:
        starts[:: at.LINE_INSTRUCTIONS] = True
    number = np.cumsum(starts) - 1
    begins = np.flatnonzero(starts)
    before = np.cumsum(steps.stall) - steps.stall
    sends = np.maximum.reduceat((steps.kind == at.LOAD) | (steps.kind == at.STORE) | (steps.kind == at.QUEUED), begins)
    part = np.where(sends[number], (before - before[begins[number]]) // _SENT_WITHIN, 0.0)
    starts[1:] |= part[1:] != part[:-1]
    found: Ints = np.flatnonzero(starts)
    return found


def _queued(steps: Any, units: Units) -> Any:
    """Return which instructions go to a unit that serves in turn."""
    endless = np.append(units.pipes.places < 0, False)[steps.pipe]
    return (steps.pipe >= 0) & ((steps.kind != at.FIXED) | endless)


def _lost_to_ports(steps: Any, counts: Floats) -> Floats:
    """Return the issue slots that each instruction of memory or SFU costs others by the register ports it uses.

    It goes first, and arithmetic that has no other cycle to read in stalls: the square of the share of instructions
    that read the bank.
    """
    lost = np.zeros(len(steps))
    for reads in (steps.even > 0, steps.odd > 0):
        share = counts @ (reads & (steps.kind == at.FIXED)) / max(1.0, counts.sum())
        lost += (reads & (steps.kind != at.FIXED)) * _LOST * share**2
    return lost


def _lost_to_halves(steps: Any, counts: Floats, units: Units) -> Floats:
    """Return the issue slots that each product loses to adds: one if the add before it took its half of the cores.

    That is every second one of those that come one behind the other.
    """
    half = np.append(units.pipes.half, 0)[steps.pipe]
    share = counts @ (half == at.EITHER) / max(1.0, counts.sum())
    lost: Floats = (half == at.ONE) * share**2 / 2
    return lost


def _missed(busy: list[float], pipe: int, times: float) -> float:
    """Return what part of a cycle of a slow pipe an instruction for another unit makes it miss.

    A pipe that takes an instruction every p cycles is free again in one cycle of p. If another instruction comes in
    that cycle, one of p, and one waits for the pipe, as often as the pipe is busy, and the other one is before it in
    the scheduler's order, every second time, then the pipe stands for a cycle.
    """
    work = busy[1 + pipe]
    if work <= 1.01 * times:
        return 0.0
    others, share = (busy[0] - times) * times / work, 1.0
    for _ in range(4):  # the pipe is the less busy the more it stands
        share = work / max(*busy, work + share / 2 * others)
    return times / work * share / 2


def _irregular(steps: Any, counts: Floats) -> float:
    """Return the share of a random wait for the same cycle that warps do wait: as stall counts vary.

    The squared deviation of what comes over its mean, as in Kingman's formula, one at most. Warps with one stall count
    throughout fall into step and never want the same cycle.
    """
    total = max(1.0, counts.sum())
    mean = counts @ steps.stall / total
    return float(min(1.0, (counts @ (steps.stall - mean) ** 2) / total / mean**2))


def run_fluid(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Run:
    """Run so many blocks through one SM, at most `resident` at a time.

    Counts and stalls of a span are with its first instruction.
    """
    paths, arrays = path_arrays(code), step_arrays(code.steps)
    cut = span_arrays(code, paths, units)
    setup = set_up(code, units, options, resident, blocks)
    setup.queues = 1
    stalls, kept = np.zeros((len(cut.spans), len(at.REASONS))), np.zeros((min(blocks, 100_000), 3))
    events = np.zeros((0, at.EVENT_COLUMNS), np.int64)
    sm = at.rows(at.SM, 1)
    sm.random, lines = options.seed, code_lines(setup[0], sm[0])
    warps, slots, schedulers, order, pipe_free, taken, asked, _, block_slots, _, outstanding = empty_sm(
        arrays, units, setup[0], sm[0]
    )
    schedulers.soonest, schedulers["turn"] = at.FOREVER, -1
    flows = at.rows(FLOW, len(warps))
    flows.left = -1.0
    followed, rest = np.zeros(len(schedulers)), np.zeros(cut.demands.shape[1])
    call: Any = flow_through if options.compiled else plain_engine("flow_through")
    call(
        cut.spans, cut.operations, cut.demands, cut.waits, arrays.steps, arrays.sources, arrays.results, units.pipes,
        paths.path_at, paths.segments, cut.runs, paths.warp_paths, setup, units.curves, units.loads, units.spread,
        lines, warps, flows, slots, schedulers, order, followed, rest, pipe_free, taken, asked, block_slots,
        outstanding, stalls, kept, events, sm,
    )  # fmt: skip
    by_step = np.zeros((len(code.steps), len(at.REASONS)))
    by_step[cut.spans.first] = stalls
    done, counts = sm[0], by_step[:, at.SELECTED].astype(np.int64)
    if done.status == at.DEADLOCK:
        warps.pc, warps.barrier = cut.spans.first[warps.pc], cut.spans.last[warps.barrier]
        raise deadlock(code, warps, int(done.ended), blocks)
    end = max(kept[:, 1].max(), pipe_free.max(), done.l2_free, done.dram_free)
    if code.controlled:
        end = max(end, done.noted)
    return Run(
        float(end), float(done.moved), int(done.issued), counts, by_step, kept, np.zeros(0, np.int64),
        events, int(done.status), False, np.zeros((0, 2)), by_step.sum(axis=0),
    )  # fmt: skip


BUDGET = 120_000  # instructions that are followed
LENGTHS = ((1, 1), (4, 2))  # of loops, as in `sampling`
MOST = 8  # draws


class Flowed(Struct, frozen=True):
    """Cycles and instructions of all blocks on one SM, and the run that was followed last."""

    cycles: float
    instructions: float
    run: Run


def _rounds(code: Code, units: Units, resident: int, blocks: int, budget: float, each: float) -> Flowed:
    """Run as many rounds of blocks as the budget has instructions for, and go on with what a block adds.

    `each`: instructions of a mean block of the grid.
    """
    size = min(resident, blocks)
    count = blocks % size + size * max(2, round(budget / (code.block_instructions * size)))
    if count > blocks - size // 2:
        count = blocks
    one = partial(run_fluid, code, units, resident=size, blocks=count)
    if count >= blocks and is_random(code, units):
        mean = mean_over_draws(one, Options(), BUDGET, MOST)
        return Flowed(mean.cycles, mean.run.issued, mean.run)
    done = one(Options())
    if count >= blocks:
        return Flowed(done.end_cycle, done.issued, done)
    ends = np.sort(done.blocks[:, 1])
    begin = size if count >= 5 * size else 0  # the first ones all begin at once
    end = count - size if count >= 3 * size else count  # the last ones have the SM for themselves
    per_block = (ends[end - size : end].mean() - ends[begin : begin + size].mean()) / (end - begin - size)
    left = max(0.0, blocks * each - done.issued) / code.block_instructions
    return Flowed(done.end_cycle + left * float(per_block), blocks * each, done)


def kernel_fluid(code: Code, units: Units, *, resident: int, blocks: int) -> Flowed:
    """Return the cycles that all these blocks take on one SM."""
    resident = min(resident, blocks)
    each = code.grid_mean or code.block_instructions
    few = min(blocks, blocks % resident + 2 * resident)
    if each * few <= 1.5 * BUDGET:
        return _rounds(code, units, resident, blocks, BUDGET, each)
    short, long = cut_code(code, few, BUDGET / sum(k for k, _ in LENGTHS), LENGTHS, 3 * BUDGET)
    if short.block_instructions == code.block_instructions:
        return _rounds(code, units, resident, blocks, 0.0, each)
    first, last = (_rounds(c, units, resident, blocks, 0.0, c.block_instructions) for c in (short, long))
    more = (blocks * each - last.instructions) / max(1.0, last.instructions - first.instructions)
    return Flowed(max(last.cycles, last.cycles + more * (last.cycles - first.cycles)), last.instructions, last.run)
