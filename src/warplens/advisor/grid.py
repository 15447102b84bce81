"""Remedies for the grid: fill all SMs, no tail, even blocks."""

from __future__ import annotations

import math

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.occupancy import _tied, fits
from warplens.advisor.overlay import regrouped
from warplens.advisor.rewrite import Way, as_written, fewer_blocks, rewritten
from warplens.workload.profile import Path

_ALIKE = 1.001  # instructions of the longest block over those of the shortest: no difference
_TAIL = 1.03  # time of whole rounds over that of even ones, from which a tail matters


def fill_the_gpu(case: Case) -> Answer:
    """More blocks with fewer turns each, so that every SM holds as many as it can."""
    name, sms = "fill-the-gpu", int(case.machine.chip.sm_count)
    places = sms * fits(case).blocks_per_sm
    blocks = case.profile.grid_blocks
    if blocks >= places:
        return refused(name, f"{blocks:,} blocks fill all {sms} SMs")
    factor = min(64, places // blocks)
    turns = max((s.times for path in case.profile.paths for s in path.segments if not case.idles(s)), default=1)
    factor = min(factor, turns)
    if factor < 2:
        return refused(name, "it has no loop whose iterations other blocks could take")

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        times = [s.times if case.idles(s) else max(1, round(s.times / factor)) for s in path.segments]
        return [([(as_written(s), n) for s, n in zip(path.segments, times, strict=True)], 1.0)]

    made = fewer_blocks(rewritten(case.workload, rewrite), 1 / factor)
    return [
        Proposal(
            name=name,
            title=f"spread the work over {factor * blocks:,} blocks instead of {blocks:,}",
            workload=made,
            assumption="iterations of its loops do not depend on one another, so that other blocks can take them",
            changes={"grid": factor * blocks, "turns": 1 / factor},
            no_help="the blocks that are there do all that memory allows",
        )
    ]


def fix_tail(case: Case) -> Answer:
    """The last round of blocks leaves SMs idle: smaller blocks, or blocks that all get as much."""
    name, sms = "fix-tail", int(case.machine.chip.sm_count)
    resident = fits(case).blocks_per_sm
    blocks = case.profile.grid_blocks
    rounds = blocks / (sms * resident)
    whole = math.ceil(math.ceil(blocks / sms) / resident)
    if _differ(case):
        return _even(case)
    if whole == 1:
        return refused(name, "all blocks are on the SMs at once: there is no last round")
    if whole / rounds < _TAIL:
        return refused(name, f"{rounds:.3g} rounds of blocks: the last one leaves little idle")
    if _tied(case):
        return refused(name, f"{rounds:.3g} rounds of blocks, but the threads of a block are tied together")
    made = []
    for warps in (1, 2, 4, 8):
        if warps < case.profile.warps_per_block:
            made.append(
                Proposal(
                    name=name,
                    title=f"{rounds:.3g} rounds of blocks: blocks of {32 * warps} threads leave a shorter tail",
                    workload=regrouped(case.workload, warps),
                    assumption="the kernel takes any block size",
                    changes={"block": 32 * warps},
                    joins=frozenset(("block",)),
                    no_help="the last round of blocks costs little",
                )
            )
    return made or refused(name, "its blocks are as small as they can be")


def _differ(case: Case) -> bool:
    """Whether blocks have more or less to do: by those that were emulated, where they are known one by one."""
    done = [n for _, n in case.profile.sampled]
    return max(done) > _ALIKE * min(done) if done else case.profile.heaviest


def _even(case: Case) -> Answer:
    """Let all blocks do the same."""
    even = replace(case.profile, sampled=[], heaviest=False)
    return [
        Proposal(
            name="fix-tail",
            title="give all blocks as much to do: they differ, and the last ones keep few SMs busy",
            workload=case.workload.with_values(profile=even),
            assumption="the work can be split evenly, for instance by blocks that fetch it piece by piece",
            changes={"even": True},
            no_help="blocks differ, but there are enough of them to even that out",
        )
    ]
