"""Code as bursts: instructions that issue one behind the other without a wait for a result.

What a warp does between two waits is known beforehand: how long it takes alone (its stall counts), what it asks of
the issue slots and of the pipes, and when it sends its accesses. A burst is one event of the fluid schedule (`fluid`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from warplens.simulator import layout as at
from warplens.simulator.code import Code, Floats, Ints, StepArrays, WayArrays
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
