"""Profiler of a kernel call: emulation of enough blocks to know the counts of the whole grid.

First a block inside the grid, alone: its cost says what can be afforded. Then one of every place (corners, edges,
inside), the neighbours of the first block, whose footprints tell how blocks share data, and some by chance. Then the
blocks that are resident on one SM, together, with its L1. Where blocks differ, more are drawn by chance until the
counts are known well enough. A grid that costs little is run whole; of blocks that cost very much four or five are run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulator import layout, ops
from warplens.emulator.assumed import assumed
from warplens.emulator.blocks import MATTERS, Blocks, Progress, Together
from warplens.emulator.engine import prepare
from warplens.emulator.footprint import SECTOR_BYTES, Grid, Weighted, code_bytes
from warplens.emulator.paths import error_of, shares, ways_not_seen
from warplens.emulator.sample import (
    BRISK,
    FULL,
    QUICK,
    Counts,
    Effort,
    Sample,
    estimate,
    number,
    spread_far,
    whole_grid,
)
from warplens.emulator.traffic import STORES, Seen, fewer, lost_share, spread_hits, spread_l1, traffic_of
from warplens.emulator.uniformity import Ways
from warplens.emulator.wavefronts import transactions_per_access
from warplens.machine import Machine
from warplens.program.program import Program
from warplens.workload.launch import SCALAR_BYTES, KernelCall
from warplens.workload.profile import COLUMNS, LEAST_LOST, Fewer, L1Contention, Profile, Traffic

_WARM = 16  # times the size of L1: blocks that ask for more are run again without those before them
_MOST_SAMPLED = 2000  # blocks of which the instructions are told one by one
_COSTLY = 10_000  # instructions of a block: some milliseconds, from where on two threads are faster than one
_LONG = 100  # times its instructions: a block that executes more is worth a second look at the program
_SAMPLES = 32  # accesses of an instruction whose places are looked at, for a machine with rules of its own

__all__ = ["BRISK", "FULL", "QUICK", "Effort", "prepare", "profile"]


def profile(
    program: Program,
    call: KernelCall,
    machine: Machine,
    *,
    exact: bool = False,
    progress: Progress | None = None,
    effort: Effort = FULL,
    early: Callable[[Profile], None] | None = None,
) -> Profile:
    """Emulate a call, a part of its grid or (`exact`, or where that is cheap) all of it, as on this machine.

    `early` gets the profile before it is seen how fewer blocks on an SM would fare, which no prediction asks for.
    """
    profiler = _Profiler(program, call, machine, progress or (lambda text: None), effort)
    made = profiler.run(exact)
    if early is not None:
        early(made)
    return replace(made, l1_contention=profiler.crowding()) if effort.crowding else made


class _Profiler(Blocks):
    def run(self, exact: bool) -> Profile:
        first = self._first()
        self.code = self.emulator.code  # as all of it is; see `as_seen`
        self.progress("the first block" if self.emulator.is_compiled() else "compiling the emulator, only this time")
        old = float(self.machine.compute_capability or 9) < 3
        size = len(self.program.instructions)
        if old:  # its own rules for what an access costs
            self.emulator.samples = np.zeros((size, _SAMPLES, layout.SAMPLE_COLUMNS), np.int64)
        self.lone = self._alone(first)
        executed = max(1.0, self._cost(self.lone))
        room = self.runner.see_room(self.effort.more / executed)
        self.dearer = 1 + self.effort.pages * self.runner.pages_effort / executed
        cost = executed * self.dearer
        self.per_access = transactions_per_access(self.machine, self.emulator.samples) if old else None
        self.emulator.samples = np.zeros((size, 0, layout.SAMPLE_COLUMNS), np.int64)
        if exact or (cost * self.call.blocks <= self.effort.whole and room >= self.call.blocks):
            self.runner.singles([n for row in self._neighbours(first) for n in row])
            return self._made(self._whole(), exact=True, first=first)
        self.runner.costly = self.effort.threads > 1 and self._effort_of(self.lone) > _COSTLY
        if executed > _LONG * size and not self.program.system:
            self._see_less(cost)
        if cost > self.effort.resident:
            return self._of_few(first)
        together = None
        if self.call.blocks > self.runner.sms * self.runner.resident:  # of fewer it may be others that are looked at
            together = self._begin_together(self._on_one_sm(first, cost))
        affordable = max(1, int(self.effort.places / cost))
        axes = sum(n > 1 for n in self.shape)
        self.row = max(1, min(self.effort.row, affordable // axes if self.call.blocks > 1 else 1))
        places = [number(s.stratum.middle, self.shape) for s in self.samples]
        self.progress("a block of every place")
        steady = affordable > len(places) and self._is_steady(first)
        neighbours = [n for axis in self._neighbours(first) for n in axis]
        self._all_alone([*neighbours, *places][: max(affordable, len(neighbours))])
        differ = not steady and self._differ()
        if differ:
            self._more()
        block, ratio = self._heaviest()
        if self._ends_with(ratio):
            together = self._begin_together(self._on_one_sm(block, cost * ratio))
            self._ways_through.undecided()  # asked for below, and known then: the other thread still runs blocks
            return self._made(replace(together(), heaviest=True), exact=False, first=first)
        together = together or self._begin_together(self._on_one_sm(first, cost))
        self._ways_through.undecided()  # as above
        resident = together()
        self._run_around(first, executed)
        if differ:
            resident = self._from_everywhere(resident)
        return self._made(resident, exact=False, first=first)

    def _of_few(self, first: int) -> Profile:
        """Look at as few blocks as tell something, where one costs more than those of an SM may together.

        One that stands for the SM, one neighbour along each other axis, and one from anywhere; if it differs, also its
        mirror image: where blocks do more the later they come, the mean of these two is that of the grid, and so is the
        block in the middle. By how much these differ is the error.
        """
        self.row = 1
        neighbours = [axis[0] for axis in self._neighbours(first) if axis]
        blocks = [self._anywhere(mirrored=m) for m in (False, True)]
        together = self._begin_together(neighbours[:1] or [first])
        if blocks[0] not in neighbours[:1]:
            self.progress("a block by chance")
            self._alone(blocks[0])
        for block in neighbours[:1]:
            self._sample(block).chosen[block] = self.lone  # its place among those seen, until its own counts are there
        for block in neighbours[1:]:
            self.progress("its neighbours")
            self._alone(block)
        resident = together()
        for block in neighbours[:1]:
            self.runner.footprints[block] = self.together or self.runner.footprints[first]
            self._sample(block).chosen[block] = resident.counts
        seen = [c[:, layout.EXECUTED] for s in self.samples for c in s.chosen.values()]
        if any((c != self._alone(blocks[0])[:, layout.EXECUTED]).any() for c in seen):
            mirrored, middle = sum(self._alone(block) for block in blocks), 2 * self._alone(first)
            self.samples = [Sample(whole_grid(self.shape))]
            self.samples[0].add(np.array([mirrored, middle]), {*blocks, first}, 2)
        return self._made(resident, exact=False, first=first)

    # ---- the result

    def _made(self, resident: Together, exact: bool, first: int) -> Profile:
        total, error = (resident.counts, np.zeros(len(resident.counts))) if exact else estimate(self.samples)
        total = np.array(total)
        executed = total[:, layout.EXECUTED]
        total[:, layout.ARRAY] = self.runner.arrays
        seen = self._seen(total, resident.counts, exact, first)
        traffic = self._through_caches(seen)
        warps = self.call.blocks * -(-self.call.threads_per_block // 32)
        fetched = code_bytes(executed, warps, self.machine.instruction_cache.second_bytes)
        if fetched:
            traffic.append(Traffic(name="code", l2_lookup_bytes=fetched))
        matter = executed > MATTERS * executed.max()
        known = 1 - self.emulator.unknown_executed / max(1, self.emulator.executed)
        ways, other_ways = ({}, 0.0) if exact else self._other_ways(executed)
        spread = math.hypot(error.sum(), 0.0 if exact else self._step()) / max(1.0, executed.sum())
        self.ran = resident, seen, first
        return Profile(
            grid_blocks=self.call.blocks,
            warps_per_block=-(-self.call.threads_per_block // 32),
            emulated_blocks=len(resident.blocks) if exact else sum(s.blocks for s in self.samples),
            exact=exact,
            error=math.hypot(spread, other_ways),
            largest_error=float((error[matter] / executed[matter]).max(initial=0.0)),
            unsure=sorted({*spread_far(total, error)}.union(*ways.values())),
            known_instructions=known,
            known_addresses=1 - min(1.0, self.emulator.assumed_accesses / max(1.0, self.runner.accesses)),
            counts=self._columns(total),
            paths=resident.paths,
            blocks=resident.ways,
            block_instructions=resident.work,
            sampled=self._sampled(),
            heaviest=resident.heaviest,
            traffic=traffic,
            l2=self.call.l2,
            l1_bytes=resident.l1_bytes,
            assumed=assumed(self.runner, first, self.lone, executed),
        )

    @cached_property
    def _ways_through(self) -> Ways:
        return Ways(self.code)

    def _other_ways(self, executed: npt.NDArray[np.float64]) -> tuple[dict[int, set[int]], float]:
        """Return the ways that nobody took of branches that others may take, and the error because of such branches.

        Blocks that jump over a slow path unasked were not seen at the branch before it. Where blocks were seen to
        differ, their spread tells what they leave out.
        """
        jumps = self.code.table[:, ops.GUARD] != self.emulator.code.table[:, ops.GUARD]
        share = shares(self.call.blocks, np.where(jumps, self.asked, sum(s.blocks for s in self.samples)))
        found = self._ways_through.undecided()
        placed = found if self._knows_corners() else self._ways_through.undecided(corners=False)
        ways = ways_not_seen(self.code, executed, placed)
        return ways, error_of(ways, () if self._sampled() else found, self.code, executed, share)

    def _through_caches(self, seen: Seen) -> list[Traffic]:
        """Give the counts of the grid the hits of the blocks of an SM; return the traffic of each array."""
        spread_l1(seen.total, seen.resident, np.array([x.opcode in STORES for x in self.program.instructions]))
        pointers = [(i, a) for i, a in enumerate(self.call.arguments) if self.emulator.addresses[i]]
        traffic = traffic_of(
            self.program,
            [a.name or str(i) for i, a in pointers],
            [(a.count or 0) * SCALAR_BYTES[a.element] for _, a in pointers],
            seen,
            self.l2,
            self.call.l2 == "cold",
        )
        spread_hits(self.program, seen.total, traffic, self.around)
        return traffic

    def crowding(self) -> L1Contention:
        """See what L1 loses of what the blocks of an SM come back to, and how fewer of them would fare."""
        assert self.ran is not None
        resident, seen, first = self.ran
        now, cost = self.runner.resident, max(1.0, float(self.lone[:, layout.EXECUTED].sum()))
        asked = float(seen.total[:, layout.L2_SECTORS].sum())
        if now == 1 or not self.runner.l1_bytes:
            return L1Contention(lost_share=0.0, times_l1=0.0, l2_sectors=asked)
        if seen.together is None:  # it ran on all SMs
            resident = self._together(self._on_one_sm(first, cost))
        lost, times_l1 = self._crowd(resident)
        asks = SECTOR_BYTES * float(self.lone[:, layout.SECTORS].sum()) / self.runner.l1_bytes  # a block, over L1
        found = L1Contention(lost_share=lost, times_l1=times_l1, l2_sectors=asked)
        made, blocks = list[Fewer](), now if found.is_high and cost <= self.effort.resident else 1
        while lost >= LEAST_LOST and blocks > 1:
            blocks = -(-blocks // 2)
            self.runner.hold(blocks)
            again = self._together(self._on_one_sm(first, cost), warm=asks * blocks < _WARM)
            came = again.counts[:, layout.SECTORS] > 0  # what these blocks did not come to is as before
            held = self._held(seen, np.where(came[:, None], again.counts, resident.counts))
            traffic = self._through_caches(held)
            made.append(fewer(blocks, again.l1_bytes, held.total, traffic))
            lost, _ = self._crowd(again)
        self.runner.hold(now)
        return replace(found, fewer=made)

    def _crowd(self, resident: Together) -> tuple[float, float]:
        """Return the share of what is asked of L2 that L1 lost, and what blocks read over what they have of L1."""
        assert self.together is not None
        share = self.runner.l1_bytes * len(resident.blocks) / self.runner.resident
        read = SECTOR_BYTES * sum(footprint.sectors for footprint in self.together.read)
        return lost_share(self.program.instructions, resident.counts, self.together), read / share

    def _held(self, seen: Seen, resident: Counts) -> Seen:
        """Return what was seen, with as many blocks on an SM as there are now."""
        per_sm, total = self.runner.in_flight / self.runner.sms, np.array(seen.total)
        if seen.together is None:
            return replace(seen, total=total, resident=resident, blocks_per_sm=per_sm)
        grid = replace(seen.grid, in_flight=self.runner.in_flight)
        return replace(seen, total=total, resident=resident, together=self.together, grid=grid, blocks_per_sm=per_sm)

    def _sampled(self) -> list[tuple[int, float]]:
        """The instructions of the blocks that were seen, by their number; nothing where all are alike."""
        if len(set(self.runner.work.values())) <= 1:
            return []
        drawn = self.samples[0].drawn if len(self.samples) == 1 else None  # by chance, not for their place
        kept = sorted(x for x in self.runner.work.items() if not drawn or x[0] in drawn)
        return kept[:: -(-len(kept) // _MOST_SAMPLED)]

    def _columns(self, total: Counts) -> dict[str, list[float]]:
        made: dict[str, list[float]] = {name: total[:, i].tolist() for i, name in enumerate(COLUMNS)}
        if self.per_access is not None:
            for name, each in zip(("transactions", "moved_bytes"), self.per_access, strict=True):
                made[name] = [n * requests for n, requests in zip(each, made["requests"], strict=True)]
        return made

    def _seen(self, total: Counts, resident: Counts, exact: bool, first: int) -> Seen:
        """Join what ran, for the traffic beyond L1; a grid that ran whole is one block."""
        per_sm = self.runner.in_flight / self.runner.sms
        neighbours = [
            [self.runner.footprints[n] for n in row if n in self.runner.footprints] for row in self._neighbours(first)
        ]
        rows = [[self.runner.footprints[first], *row] for row in neighbours]
        if exact:
            assert self.together is not None
            whole, grid = Weighted(self.together, 1), Grid((1, 1, 1), self.call.blocks)
            return Seen(total, resident, [whole], [[], [], []], None, grid, per_sm, total, rows)
        grid = Grid(self.shape, self.runner.in_flight)
        return Seen(total, resident, self._weighted(first), neighbours, self.together, grid, per_sm, self.lone, rows)

    def _weighted(self, first: int) -> list[Weighted]:
        """The footprints of all blocks that ran alone, each with the blocks it stands for; that of `first` leads."""
        made = [Weighted(self.runner.footprints[first], 0)]
        for sample in self.samples:
            blocks = [b for b in sample.drawn if b in self.runner.footprints] or list(sample.chosen)
            made += [Weighted(self.runner.footprints[block], sample.stratum.size / len(blocks)) for block in blocks]
        return made
