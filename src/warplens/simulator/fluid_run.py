"""One run of the fluid schedule: so many blocks through one SM."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.simulator import layout as at
from warplens.simulator.bursts import lay_bursts
from warplens.simulator.code import Code, StepArrays, lay_ways
from warplens.simulator.fluid import FLOW, flow_through
from warplens.simulator.run import Options, Run, code_lines, deadlock, empty_sm, plain_engine, set_up
from warplens.simulator.units import Units


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
