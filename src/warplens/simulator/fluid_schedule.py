"""Fluid form of the simulator: code cut into bursts, one run of them, and a kernel's time from some rounds.

A burst is a run of instructions between two waits: it has a length, a share of the issue slots and of the pipes, and
sends its accesses at given times. `fluid` lets bursts share an SM.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.simulator import layout as at
from warplens.simulator.code import Code, Floats, Ints, StepArrays, WayArrays, first_part, lay_steps, lay_ways, sampled
from warplens.simulator.fluid import FLOW, flow_through
from warplens.simulator.run import Options, Run, code_lines, deadlock, empty_sm, plain_engine, set_up
from warplens.simulator.sampling import by_chance, mean_over_draws
from warplens.simulator.units import Units

# Instructions in a row: `cycles` from the first one's issue to behind the last one's, of which `slots` issue, alone;
# `stall` and `branch`: from then on, as of the last one. Its sources are those of its first instruction.
BURST = at.record("sources sources_end operations operations_end first last yields", "cycles slots stall branch")
# What a burst sends to a unit or a result that is waited for: the instruction, and when, from the burst's start.
OPERATION = at.record("step", "offset")
_SENT_WITHIN = 64.0  # cycles: accesses are sent when their burst ends, so one with accesses is not much longer
_HELD = 0.5  # of the conflicts at register ports: what random loops lose in the simulator (bench/fluid.py)
_WANTED = 0.5  # of the busiest resource: a pipe that is used less is free when it is wanted


class BurstArrays(Struct, frozen=True):
    """The fluid engine's view of a code.

    `runs` are the ways' straight runs in bursts. `demands` and `waits` have for each burst and resource (issue slots,
    then the pipes that are wanted) the share that it uses while it goes on alone, and how much longer it takes for
    each cycle that it would wait for that resource at random.
    """

    bursts: Any
    operations: Any
    runs: Any
    demands: Floats
    waits: Floats


def lay_bursts(code: Code, laid: StepArrays, ways: WayArrays, units: Units) -> BurstArrays:
    """Cut a code at its waits, at its barriers and where its ways turn."""
    steps, cached = laid.steps, len(code.steps) <= units.setup[0].first_lines * at.LINE_INSTRUCTIONS
    starts = _starts(steps, ways, lines=not cached and bool(units.setup[0].first_lines))
    lasts = np.append(starts[1:], len(steps)) - 1
    gaps = np.maximum(steps.stall, steps.branch)
    issued = np.cumsum(gaps) - gaps + np.cumsum(steps.late)
    bursts = at.rows(BURST, len(starts))
    bursts.first, bursts.last = starts, lasts
    bursts.sources, bursts.sources_end = steps.sources[starts], steps.sources_end[starts]
    bursts.stall, bursts.branch = steps.stall[lasts] - 1.0, steps.branch[lasts] - 1.0
    bursts.yields = np.maximum.reduceat((steps.yields > 0) | (steps.kind != at.FIXED), starts)
    queued = _queued(steps, units)
    sent = np.flatnonzero(queued | (steps.results_end > steps.results))
    operations = at.rows(OPERATION, len(sent))
    operations.step = sent
    operations.offset = issued[sent] - issued[starts[np.searchsorted(starts, sent, "right") - 1]]
    bursts.operations, bursts.operations_end = np.searchsorted(sent, starts), np.searchsorted(sent, lasts, "right")
    runs = ways.runs.copy()
    runs.first, runs.stop = np.searchsorted(starts, runs.first), np.searchsorted(starts, runs.stop)
    counts = _executed(code, ways, len(steps))
    holds = steps.holds + _held_ports(steps, counts) + _held_halves(steps, counts, units)
    bursts.slots = np.add.reduceat(holds, starts)
    works = [np.where(~queued & (steps.pipe == p), steps.passes * units.pipes.interval[p], 0.0)
             for p in range(len(units.pipes))]  # fmt: skip
    busy = [counts @ holds, *(counts @ work for work in works)]
    wanted = [p for p in range(len(works)) if busy[1 + p] >= _WANTED * max(busy)]
    work = np.stack([bursts.slots, *(np.add.reduceat(works[p], starts) for p in wanted)], axis=1)
    times = np.stack([bursts.slots, *(np.add.reduceat((works[p] > 0) * 1.0, starts) for p in wanted)], axis=1)
    bursts.cycles = np.maximum(issued[lasts] - issued[starts] + 1.0, work.max(axis=1))
    for column, p in enumerate(wanted, start=1):
        missed = _missed(busy, p, float(counts @ (works[p] > 0)))
        work[:, column] += (bursts.slots - times[:, column]) * missed
    demands = work / bursts.cycles[:, None]
    waits = _irregular(steps, counts) * (work + times) / 2 / bursts.cycles[:, None]
    return BurstArrays(bursts, operations, runs, demands, waits)


def _starts(steps: Any, ways: WayArrays, *, lines: bool) -> Ints:
    """Return where bursts begin."""
    n = len(steps)
    starts = steps.sources_end > steps.sources
    starts[1:] |= steps.kind[:-1] == at.BARRIER
    starts[0] = True
    for ends in (ways.runs.first, ways.runs.stop):
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


def _executed(code: Code, ways: WayArrays, instructions: int) -> Floats:
    """Return how often each instruction is executed by one block of each kind."""
    often = np.bincount(np.array(code.blocks).ravel(), minlength=len(code.ways))
    segments = ways.segments
    of_way = np.repeat(np.arange(len(code.ways)), np.diff(ways.path_at))
    per_run = np.repeat(often[of_way] * segments.times, segments.end - segments.first)
    edges = np.zeros(instructions + 1)
    np.add.at(edges, ways.runs.first, per_run)
    np.add.at(edges, ways.runs.stop, -per_run)
    return np.cumsum(edges)[:-1]


def _held_ports(steps: Any, counts: Floats) -> Floats:
    """Return the issue slots that each instruction of memory or SFU costs others by the register ports it uses.

    It goes first, and arithmetic that has no other cycle to read in is held: the square of the share of instructions
    that read the bank.
    """
    lost = np.zeros(len(steps))
    for reads in (steps.even > 0, steps.odd > 0):
        share = counts @ (reads & (steps.kind == at.FIXED)) / max(1.0, counts.sum())
        lost += (reads & (steps.kind != at.FIXED)) * _HELD * share**2
    return lost


def _held_halves(steps: Any, counts: Floats, units: Units) -> Floats:
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
    """Return how much of what chance would have them wait warps do wait for the same cycle: as stall counts vary.

    The squared deviation of what comes over its mean, as in Kingman's formula, one at most. Warps with one stall count
    throughout fall into step and never want the same cycle.
    """
    total = max(1.0, counts.sum())
    mean = counts @ steps.stall / total
    return float(min(1.0, (counts @ (steps.stall - mean) ** 2) / total / mean**2))


def run_fluid(code: Code, units: Units, options: Options, *, resident: int, blocks: int, laid: StepArrays) -> Run:
    """Run so many blocks through one SM, at most `resident` at a time.

    Of a burst the counts and the stalls are with its first instruction.
    """
    ways = lay_ways(code)
    cut = lay_bursts(code, laid, ways, units)
    setup = set_up(code, units, options, laid, resident, blocks)
    setup.queues = 1
    stalls, kept = np.zeros((len(cut.bursts), len(at.REASONS))), np.zeros((min(blocks, 100_000), 3))
    events = np.zeros((0, at.EVENT_COLUMNS), np.int64)
    sm = at.rows(at.SM, 1)
    sm.random, lines = options.seed, code_lines(setup[0], sm[0])
    warps, slots, schedulers, order, pipe_free, taken, asked, _, places, _, outstanding = empty_sm(
        laid, units, setup[0], sm[0]
    )
    schedulers.soonest, schedulers.turn = at.FOREVER, -1
    flows = at.rows(FLOW, len(warps))
    flows.left = -1.0
    followed, rest = np.zeros(len(schedulers)), np.zeros(cut.demands.shape[1])
    call: Any = flow_through if options.compiled else plain_engine("flow_through")
    call(
        cut.bursts, cut.operations, cut.demands, cut.waits, laid.steps, laid.sources, laid.results, units.pipes,
        ways.path_at, ways.segments, cut.runs, ways.warp_paths, setup, units.curves, units.loads, units.spread,
        lines, warps, flows, slots, schedulers, order, followed, rest, pipe_free, taken, asked, places,
        outstanding, stalls, kept, events, sm,
    )  # fmt: skip
    by_step = np.zeros((len(code.steps), len(at.REASONS)))
    by_step[cut.bursts.first] = stalls
    done, counts = sm[0], by_step[:, at.SELECTED].astype(np.int64)
    if done.status == at.DEADLOCK:
        warps.pc, warps.barrier = cut.bursts.first[warps.pc], cut.bursts.last[warps.barrier]
        raise deadlock(code, warps, int(done.ended), blocks)
    end = max(kept[:, 1].max(), pipe_free.max(), done.l2_free, done.dram_free)
    if code.controlled:
        end = max(end, done.noted)
    return Run(
        float(end), float(done.moved), int(done.issued), counts, by_step, kept, np.zeros(0, np.int64),
        events, int(done.status), False, np.zeros((0, 2)), by_step.sum(axis=0),
    )  # fmt: skip


BUDGET = 120_000  # instructions that are followed
LONGER = 4  # times the shorter loops are the longer ones
MOST = 8  # draws


class Flowed(Struct, frozen=True):
    """Cycles of all blocks on one SM, and the run that was followed last."""

    cycles: float
    run: Run


class _Rounds(Struct, frozen=True):
    """Cycles and instructions of all blocks of a code, and the run that they come from."""

    cycles: float
    instructions: float
    run: Run


class _Bench(Struct, frozen=True):
    """An SM that takes so many blocks at a time; it keeps the code's instructions laid out."""

    units: Units
    resident: int
    laid: StepArrays

    def rounds(self, code: Code, blocks: int, budget: float, each: float) -> _Rounds:
        """Run as many rounds of blocks as the budget has instructions for, and go on with what a block adds.

        `each`: instructions of a mean block of the grid.
        """
        size = min(self.resident, blocks)
        count = blocks % size + size * max(2, round(budget / (code.block_instructions * size)))
        if count > blocks - size // 2:
            count = blocks
        one = partial(run_fluid, code, self.units, resident=size, blocks=count, laid=self.laid)
        if count >= blocks and by_chance(self.laid, self.units, code):
            mean = mean_over_draws(one, Options(), BUDGET, MOST)
            return _Rounds(mean.cycles, mean.run.issued, mean.run)
        made = one(Options())
        if count >= blocks:
            return _Rounds(made.end_cycle, made.issued, made)
        ends = np.sort(made.blocks[:, 1])
        begin = size if count >= 5 * size else 0  # the first ones all begin at once
        end = count - size if count >= 3 * size else count  # the last ones have the SM for themselves
        per_block = (ends[end - size : end].mean() - ends[begin : begin + size].mean()) / (end - begin - size)
        left = max(0.0, blocks * each - made.issued) / code.block_instructions
        return _Rounds(made.end_cycle + left * float(per_block), blocks * each, made)


def kernel_fluid(code: Code, units: Units, *, resident: int, blocks: int) -> Flowed:
    """Return the cycles that all these blocks take on one SM."""
    bench = _Bench(units, min(resident, blocks), lay_steps(code.steps))
    each = code.grid_mean or code.block_instructions
    few = min(blocks, blocks % bench.resident + 2 * bench.resident)
    if each * few <= 1.5 * BUDGET:
        made = bench.rounds(code, blocks, BUDGET, each)
        return Flowed(made.cycles, made.run)
    short, long = _lengths(code, few)
    if short.block_instructions == code.block_instructions:
        made = bench.rounds(code, blocks, 0.0, each)
        return Flowed(made.cycles, made.run)
    first, last = (bench.rounds(c, blocks, 0.0, c.block_instructions) for c in (short, long))
    more = (blocks * each - last.instructions) / max(1.0, last.instructions - first.instructions)
    return Flowed(max(last.cycles, last.cycles + more * (last.cycles - first.cycles)), last.run)


def _lengths(code: Code, blocks: int) -> tuple[Code, Code]:
    """Return the code with two lengths of its loops, or two first parts where it has none to cut."""
    share = BUDGET / (1 + LONGER) / (code.block_instructions * blocks)
    cut = sampled(code, share, 1), sampled(code, LONGER * share, 2)
    if cut[-1].block_instructions * blocks > 3 * BUDGET:
        return first_part(code, min(1.0, 2 * share)), first_part(code, min(1.0, 2 * LONGER * share))
    return cut
