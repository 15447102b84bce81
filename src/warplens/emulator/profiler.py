"""Profiler of a kernel call: emulation of enough blocks to know the counts of the whole grid.

First a block inside the grid, alone: its cost says how many others are affordable. Then one of each stratum (corners,
edges, inside), the neighbours of the first block, whose footprints tell how blocks share data, and some random ones.
Then the blocks that are resident on one SM, together, with its L1. Where blocks differ, more are sampled until the
counts are known well enough. A grid that costs little runs whole; of blocks that cost very much four or five run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulator import layout
from warplens.emulator.assumed import assumed
from warplens.emulator.blocks import MATTERS, Blocks, Progress
from warplens.emulator.footprint import SECTOR_BYTES, Block, Grid, Weighted
from warplens.emulator.runner import Together
from warplens.emulator.sample import (
    FAST,
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
from warplens.emulator.undecided import error_of, share_not_seen, sides_not_seen, undecided
from warplens.emulator.wavefronts import transactions_per_access
from warplens.machine import Machine
from warplens.program.program import Program
from warplens.workload.launch import SCALAR_BYTES, KernelCall
from warplens.workload.profile import COLUMNS, LEAST_LOST, Fewer, L1Contention, Profile, Traffic

_WARM = 16  # times the size of L1: blocks that ask for more are run again without those before them
_MOST_SAMPLED = 2000  # blocks of which the instructions are told one by one
_COSTLY = 10_000  # instructions of a block: some milliseconds, from where on two threads are faster than one
_SAMPLES = 32  # accesses of an instruction whose addresses are kept, for a machine with rules of its own

__all__ = ["FAST", "FULL", "QUICK", "Effort", "profile"]


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

    `early` gets the profile before fewer blocks on an SM are emulated, which no prediction asks for.
    """
    profiler = _Profiler(program, call, machine, progress or (lambda text: None), effort)
    found = profiler.run(exact)
    if early is not None:
        early(found)
    return replace(found, l1_contention=profiler.contention()) if effort.fewer_blocks else found


class _Profiler(Blocks):
    def run(self, exact: bool) -> Profile:
        first = self._first()
        self.progress("the first block" if self.emulator.is_compiled() else "compiling the emulator, only this time")
        old = float(self.machine.compute_capability or 9) < 3
        size = len(self.program.instructions)
        if old:  # its own rules for what an access costs
            self.emulator.samples = np.zeros((size, _SAMPLES, layout.SAMPLE_COLUMNS), np.int64)
        self.lone = self._alone(first)
        executed = max(1.0, self._cost(self.lone))
        fitting = self.runner.measure_memory(self.effort.more / executed)
        self.pages_factor = 1 + self.effort.pages * self.runner.pages_effort / executed
        cost = executed * self.pages_factor
        self.per_access = transactions_per_access(self.machine, self.emulator.samples) if old else None
        self.emulator.samples = np.zeros((size, 0, layout.SAMPLE_COLUMNS), np.int64)
        if exact or (cost * self.call.blocks <= self.effort.whole and fitting >= self.call.blocks):
            self.runner.singles([n for row in self._neighbours(first) for n in row])
            return self._profile(self._whole(), exact=True, first=first)
        self.runner.costly = self.effort.threads > 1 and self._effort_of(self.lone) > _COSTLY
        if cost > self.effort.resident:
            return self._of_few(first)
        together = None
        if self.call.blocks > self.runner.sms * self.runner.resident:  # of fewer the heaviest SM may be another one
            together = self._begin_together(self._on_one_sm(first, cost))
        affordable = max(1, int(self.effort.strata / cost))
        axes = sum(n > 1 for n in self.shape)
        self.row = max(1, min(self.effort.row, affordable // axes if self.call.blocks > 1 else 1))
        middles = [number(s.stratum.middle, self.shape) for s in self.samples]
        self.progress("a block of every stratum")
        neighbours = [n for axis in self._neighbours(first) for n in axis]
        self._all_alone([*neighbours, *middles][: max(affordable, len(neighbours))])
        if self._differ():
            self._more()
        block, ratio = self._heaviest()
        ends = self._ends_with(ratio)
        if ends:
            together = self._begin_together(self._on_one_sm(block, cost * ratio))
        resident = (together or self._begin_together(self._on_one_sm(first, cost)))()
        if not ends:
            self._run_around(first, executed)
        return self._profile(replace(resident, heaviest=ends), exact=False, first=first)

    def _of_few(self, first: int) -> Profile:
        """Run as few blocks as possible, where one costs more than those of an SM may together.

        One that stands for the SM, one neighbour along each other axis, and a random one; if it differs, also its
        mirror image: where blocks do more the later they come, the mean of these two is that of the grid, and so is the
        block in the middle. The difference of these two is the error.
        """
        self.row = 1
        neighbours = [axis[0] for axis in self._neighbours(first) if axis]
        blocks = [self._anywhere(mirrored=m) for m in (False, True)]
        together = self._begin_together(neighbours[:1] or [first])
        if blocks[0] not in neighbours[:1]:
            self.progress("a random block")
            self._alone(blocks[0])
        for block in neighbours[:1]:
            self._sample(block).chosen[block] = (
                self.lone
            )  # counted among those that ran, until its own counts are there
        for block in neighbours[1:]:
            self.progress("its neighbours")
            self._alone(block)
        resident = together()
        for block in neighbours[:1]:
            self.runner.footprints[block] = resident.footprint
            self._sample(block).chosen[block] = resident.counts
        seen = [c[:, layout.EXECUTED] for s in self.samples for c in s.chosen.values()]
        if any((c != self._alone(blocks[0])[:, layout.EXECUTED]).any() for c in seen):
            mirrored, middle = sum(self._alone(block) for block in blocks), 2 * self._alone(first)
            self.samples = [Sample(whole_grid(self.shape))]
            self.samples[0].add(np.array([mirrored, middle]), {*blocks, first}, 2)
        return self._profile(resident, exact=False, first=first)

    # ---- the result

    def _profile(self, resident: Together, exact: bool, first: int) -> Profile:
        total, error = (resident.counts, np.zeros(len(resident.counts))) if exact else estimate(self.samples)
        total = np.array(total)
        executed = total[:, layout.EXECUTED]
        total[:, layout.ARRAY] = self.runner.arrays
        seen = self._seen(total, resident, exact, first)
        traffic = self._through_caches(seen)
        matter = executed > MATTERS * executed.max()
        known = 1 - self.emulator.unknown_executed / max(1, self.emulator.executed)
        sides, unseen = ({}, 0.0) if exact else self._not_seen(executed)
        self.ran = resident, seen, first
        return Profile(
            grid_blocks=self.call.blocks,
            warps_per_block=-(-self.call.threads_per_block // 32),
            emulated_blocks=len(resident.blocks) if exact else sum(s.blocks for s in self.samples),
            exact=exact,
            error=math.hypot(error.sum() / max(1.0, executed.sum()), unseen),
            largest_error=float((error[matter] / executed[matter]).max(initial=0.0)),
            unsure=sorted({*spread_far(total, error)}.union(*sides.values())),
            known_instructions=known,
            known_addresses=1 - min(1.0, self.emulator.assumed_accesses / max(1.0, self.runner.accesses)),
            counts=self._columns(total),
            paths=resident.paths,
            blocks=resident.path_of_warp,
            block_instructions=list(resident.work.values()),
            sampled=self._sampled(),
            heaviest=resident.heaviest,
            traffic=traffic,
            l2=self.call.l2,
            l1_bytes=resident.l1_bytes,
            assumed=assumed(self.runner, first, self.lone, executed),
        )

    def _not_seen(self, executed: npt.NDArray[np.float64]) -> tuple[dict[int, set[int]], float]:
        """Return the sides of branches that no block took, though others may, and the error because of such branches.

        Where the blocks that ran differ, their spread tells what they leave out.
        """
        code = self.emulator.code
        share = share_not_seen(self.call.blocks, sum(s.blocks for s in self.samples))
        found = undecided(code)
        sides = sides_not_seen(code, executed, found if self._has_corners() else undecided(code, corners=False))
        return sides, error_of(sides, () if self._sampled() else found, code, executed, share)

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

    def contention(self) -> L1Contention:
        """Return what L1 loses of what the blocks of an SM come back to, and the counts with fewer of them."""
        assert self.ran is not None
        resident, seen, first = self.ran
        now, cost = self.runner.resident, max(1.0, float(self.lone[:, layout.EXECUTED].sum()))
        asked = float(seen.total[:, layout.L2_SECTORS].sum())
        if now == 1 or not self.runner.l1_bytes:
            return L1Contention(lost_share=0.0, times_l1=0.0, l2_sectors=asked)
        if seen.together is None:  # it ran on all SMs
            resident = self._begin_together(self._on_one_sm(first, cost))()
        lost, times_l1 = self._lost(resident)
        asks = SECTOR_BYTES * float(self.lone[:, layout.SECTORS].sum()) / self.runner.l1_bytes  # a block, over L1
        found = L1Contention(lost_share=lost, times_l1=times_l1, l2_sectors=asked)
        fewer_blocks, blocks = list[Fewer](), now if found.is_high and cost <= self.effort.resident else 1
        while lost >= LEAST_LOST and blocks > 1:
            blocks = -(-blocks // 2)
            self.runner.limit(blocks)
            again = self._begin_together(self._on_one_sm(first, cost), warm=asks * blocks < _WARM)()
            executed = again.counts[:, layout.SECTORS] > 0  # the counts of all other instructions are as before
            limited = self._limited(seen, np.where(executed[:, None], again.counts, resident.counts), again.footprint)
            fewer_blocks.append(fewer(blocks, again.l1_bytes, limited.total, self._through_caches(limited)))
            lost, _ = self._lost(again)
        self.runner.limit(now)
        return replace(found, fewer=fewer_blocks)

    def _lost(self, resident: Together) -> tuple[float, float]:
        """Return the share of what is asked of L2 that L1 lost, and what blocks read over their share of L1."""
        share = self.runner.l1_bytes * len(resident.blocks) / self.runner.resident
        read = SECTOR_BYTES * sum(footprint.sectors for footprint in resident.footprint.read)
        return lost_share(self.program.instructions, resident.counts, resident.footprint), read / share

    def _limited(self, seen: Seen, resident: Counts, together: Block) -> Seen:
        """Return the footprints, with as many blocks on an SM as there are now."""
        if seen.together is None:
            return replace(seen, total=np.array(seen.total), resident=resident)
        grid = replace(seen.grid, in_flight=self.runner.in_flight)
        return replace(seen, total=np.array(seen.total), resident=resident, together=together, grid=grid)

    def _sampled(self) -> list[tuple[int, float]]:
        """Return the instructions of the blocks that ran, by their number; nothing where they are all the same."""
        if len(set(self.runner.work.values())) <= 1:
            return []
        random = self.samples[0].random if len(self.samples) == 1 else None  # not those chosen for their index
        kept = sorted(x for x in self.runner.work.items() if not random or x[0] in random)
        return kept[:: -(-len(kept) // _MOST_SAMPLED)]

    def _columns(self, total: Counts) -> dict[str, list[float]]:
        columns: dict[str, list[float]] = {name: total[:, i].tolist() for i, name in enumerate(COLUMNS)}
        if self.per_access is not None:
            for name, each in zip(("transactions", "moved_bytes"), self.per_access, strict=True):
                columns[name] = [n * requests for n, requests in zip(each, columns["requests"], strict=True)]
        return columns

    def _seen(self, total: Counts, resident: Together, exact: bool, first: int) -> Seen:
        """Join the footprints, for the traffic beyond L1; a grid that ran whole is one block."""
        neighbours = [
            [self.runner.footprints[n] for n in row if n in self.runner.footprints] for row in self._neighbours(first)
        ]
        rows = [[self.runner.footprints[first], *row] for row in neighbours]
        if exact:
            whole, grid = Weighted(resident.footprint, 1), Grid((1, 1, 1), self.call.blocks)
            return Seen(total, resident.counts, [whole], [[], [], []], None, grid, total, rows)
        grid = Grid(self.shape, self.runner.in_flight)
        return Seen(
            total, resident.counts, self._weighted(first), neighbours, resident.footprint, grid, self.lone, rows
        )

    def _weighted(self, first: int) -> list[Weighted]:
        """Return the footprints of all blocks that ran alone, `first` before the others, with the blocks of each."""
        weighted = [Weighted(self.runner.footprints[first], 0)]
        for sample in self.samples:
            blocks = [b for b in sample.random if b in self.runner.footprints] or list(sample.chosen)
            weighted += [Weighted(self.runner.footprints[block], sample.stratum.size / len(blocks)) for block in blocks]
        return weighted
