"""Sampled blocks of a grid: some alone, some at random, those of one SM side by side.

The profiler (profiler.py) decides which of these a call needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from msgspec.structs import replace

from warplens.emulator import layout
from warplens.emulator.engine import ACCESS_EFFORT
from warplens.emulator.footprint import L2, SECTOR_BYTES
from warplens.emulator.runner import Runner, Together
from warplens.emulator.sample import (
    Counts,
    Effort,
    Sample,
    Stratum,
    beside,
    estimate,
    index_of,
    number,
    shifts,
    strata,
    whole_grid,
)
from warplens.emulator.traffic import Around, Seen
from warplens.machine import Machine
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path

_UNEVEN = 1.1  # the heaviest block over the mean: from here on the SM that has it is emulated
_MOST_DRAWS = 4096  # blocks in all sequences
_GOOD_ERROR = 0.005  # of all instructions, and of each that matters: no more blocks then
_FAIR_ERROR = 0.01  # enough once a third of the effort is spent: half of it would cost three times as much again
MATTERS = 0.1  # of the executions of the commonest instruction
_MOST_BEFORE = 3e6  # instructions of the blocks of an SM: from here on they find little of what those before them left

Progress = Callable[[str], None]


class Blocks:
    """The blocks of one call on one machine, as far as they were run."""

    def __init__(
        self, program: Program, call: KernelCall, machine: Machine, progress: Progress, effort: Effort
    ) -> None:
        self.program, self.call, self.machine, self.progress, self.effort = program, call, machine, progress, effort
        self.shape = call.grid_shape
        self.runner = Runner(program, call, machine)
        self.emulator = self.runner.emulator
        self.samples = [Sample(stratum) for stratum in strata(self.shape)]
        self.shifts = shifts(effort.pairs, np.random.default_rng(2))
        self.around: Around | None = None
        self.lone: Counts = np.zeros(0)
        self.ran: tuple[Together, Seen, int] | None = None  # the blocks of an SM, the footprints, the first block
        cache = machine.cache
        group = int(cache.dram_bytes or SECTOR_BYTES) // SECTOR_BYTES
        self.l2 = L2(cache.l2_bytes or 0.0, cache.l2_partitions or 1, cache.l2_dirty_bytes, group)
        self.pages_factor = 1.0  # of the effort of an instruction, with the pages that blocks touch
        self.row = 1  # neighbours along each axis
        self.per_access: tuple[list[float], list[float]] | None = None
        self.random = np.random.default_rng(1)

    def _has_corners(self) -> bool:
        """Return whether the blocks at the corners of the grid were counted."""
        counted = {block for s in self.samples for block in (*s.chosen, *s.random)}
        return all(number(corner, self.shape) in counted for corner in whole_grid(self.shape).corners())

    def _first(self) -> int:
        """Return the block in the middle of the largest stratum."""
        return number(self.samples[0].stratum.middle, self.shape)

    def _heaviest(self) -> tuple[int, float]:
        """Return the block with the most instructions of those that ran, and their ratio to the mean."""
        block = max(self.runner.work, key=lambda b: self.runner.work[b])
        return block, self.runner.work[block] / max(1.0, float(np.mean(list(self.runner.work.values()))))

    def _alone(self, block: int) -> Counts:
        """Run a block by itself (once), with an L1 of its own, for its stratum."""
        self._all_alone([block])
        return self._sample(block).chosen[block]

    def _all_alone(self, blocks: list[int]) -> None:
        """Run blocks by themselves, each once, for their strata."""
        new = [block for block in dict.fromkeys(blocks) if block not in self._sample(block).chosen]
        for block, counts in zip(new, self.runner.singles(new), strict=True):
            self._sample(block).chosen[block] = counts

    def _sample(self, block: int) -> Sample:
        index = index_of(block, self.shape)
        return next(s for s in self.samples if s.stratum.contains(index))

    def _neighbours(self, block: int) -> list[list[int]]:
        """Return the next blocks along each axis; none where the grid has but one there.

        Where one is all, it is the other of a pair: with blocks half a line wide they fill lines together.
        """
        index = index_of(block, self.shape)
        found: list[list[int]] = []
        for axis, extent in enumerate(self.shape):
            step = 1 if index[axis] + 1 < extent and (self.row > 1 or index[axis] % 2 == 0) else -1
            stride = number((int(axis == 0), int(axis == 1), int(axis == 2)), self.shape)
            steps = [step * k for k in range(1, 1 + self.row) if 0 <= index[axis] + step * k < extent]
            found.append([block + stride * each for each in steps])
        return found

    def _on_one_sm(self, first: int, cost: float) -> list[int]:
        """Return the blocks that share an SM with this one.

        The first wave deals blocks to the SMs by number; later an SM takes the next block when one of its own ends, so
        that the distances spread, with the same mean (footprints.json.gz has the blocks of each SM). How much they
        spread depends on how much the blocks' times differ, which is not known here: half the mean is assumed.
        """
        wave = self.runner.sms * self.runner.resident
        if self.call.blocks <= wave:
            others = [b for b in range(first % self.runner.sms, self.call.blocks, self.runner.sms) if b != first]
            blocks = [first, *others]
        else:
            gaps = np.maximum(1, self.random.gamma(4, self.runner.sms / 4, 2 * self.runner.resident).astype(int))
            start = max(0, first - int(gaps[: self.runner.resident // 2].sum()))
            numbers = start + np.concatenate([[0], np.cumsum(gaps)])
            blocks = [int(b) for b in numbers[: self.runner.resident] if b < self.call.blocks]
        return blocks[: max(1, min(self.runner.most_blocks, int(self.effort.resident / cost)))]

    def _begin_together(self, blocks: list[int], *, warm: bool = True) -> Callable[[], Together]:
        """Begin to run the blocks of an SM with its part of L2; return the function that waits for them.

        `warm`: its L1 has what the blocks before them left.
        """
        self.progress("the blocks of one SM")
        before = [b - self.runner.sms * self.runner.resident for b in blocks]
        warm = warm and min(before) >= 0 and self._cost(self.lone) * len(blocks) <= _MOST_BEFORE
        l2_bytes = self.l2.single_copy_bytes * len(blocks) / self.runner.in_flight
        return self.runner.beside(blocks, before if warm else [], l2_bytes)

    def _anywhere(self, *, mirrored: bool) -> int:
        """Return a random block of the grid, or its mirror image."""
        return number(whole_grid(self.shape).spread(0, self.shifts[0], mirrored), self.shape)

    def _run_around(self, first: int, cost: float) -> None:
        """Run a block and those beside it, each on an SM of its own: accesses find sectors that others fetched."""
        near = beside(first, self.shape, self.runner.in_flight)
        blocks = [number((x, y, z), self.shape) for z, y, x in product(*reversed(near))]
        if len(blocks) * cost > self.effort.strata or not 1 < len(blocks) <= self.runner.most_blocks:
            return
        self.progress("a block and those beside it")
        counts = self.runner.side_by_side(blocks, sum(f.sectors for f in self.runner.footprints[first].read))
        inside = math.prod(len(r) / (len(r) - 1) for r in near if len(r) > 1)
        self.around = Around(counts[:, layout.L2_HITS] / np.maximum(1.0, counts[:, layout.L2_SECTORS]), inside)

    def _draw(self, sample: Sample, count: int, pairs: int | None = None) -> float:
        """Run so many more blocks of each sequence, or all if these are about as many; return the effort.

        `pairs`: of sequences, instead of all.
        """
        if 2 * (pairs or self.effort.pairs) * count >= sample.stratum.size:
            sample.whole = self.runner.batch([number(p, self.shape) for p in sample.stratum.blocks()])
            return self._effort_of(sample.whole)
        groups = self._groups(sample.stratum, range(sample.draws // 2, sample.draws // 2 + count), pairs)
        seen = {block for group in groups for block in group}
        if sample.draws == 0 and count == 1:
            each = self.runner.singles([block for group in groups for block in group])
            sums = [a + b for a, b in zip(each[::2], each[1::2], strict=True)]
        else:
            sums = self.runner.batches(groups)
        sample.add(np.array(sums), seen, 2 * count)
        return self._effort_of(np.sum(sums, axis=0))

    def _groups(self, stratum: Stratum, ks: range, pairs: int | None = None) -> list[list[int]]:
        """Return the blocks of each pair of sequences at these positions."""
        return [
            [number(stratum.spread(k, shift, m), self.shape) for k in ks for m in (False, True)]
            for shift in self.shifts[:pairs]
        ]

    def _differ(self) -> bool:
        """Return whether blocks of the largest stratum, some of them random, execute different instructions."""
        inner = self.samples[0]
        if len(inner.chosen) < inner.stratum.size and not _are_different(inner):
            self._draw_some()
            if inner.draws and not _are_different(inner):
                pairs = len(inner.sums)
                spent = self._effort_of(inner.sums.sum(axis=0)) + inner.draws * pairs * self.runner.pages_effort
                if spent < self.effort.strata:
                    self._draw(inner, max(1, min(self.effort.draws, int(self.effort.strata / spent))), pairs)
        return _are_different(inner)

    def _draw_some(self) -> None:
        """Run some random blocks of the largest stratum, once: fewer where they cost much."""
        inner = self.samples[0]
        if inner.draws or inner.whole is not None:
            return
        self.progress("some random blocks")
        costly = 2 * self.effort.pairs * self._effort_of(inner.mean()) > self.effort.strata
        pairs = self.effort.few if costly else self.effort.pairs
        if pairs:
            self._draw(inner, 1, pairs)
        else:
            self._all_alone(self._groups(inner.stratum, range(1), 1)[0][:1])

    def _more(self) -> None:
        """Sample random blocks of the grid until all instructions that matter are known well enough."""
        grid = Sample(whole_grid(self.shape))
        self.samples = [grid]
        spent, enough = self._draw(grid, 1), False
        while not enough and grid.whole is None and grid.draws * self.effort.pairs < _MOST_DRAWS:
            self.progress("more blocks, as they differ")
            count = min(
                grid.draws // 2,
                int((self.effort.more - spent) / max(1.0, self._effort_of(grid.mean())) / (2 * self.effort.pairs)),
            )
            if count < 1:
                return
            spent += self._draw(grid, count)
            counts, error = estimate(self.samples)
            total = counts[:, layout.EXECUTED]
            matter = total > MATTERS * total.max()
            good = _GOOD_ERROR if spent < self.effort.more / 3 else _FAIR_ERROR
            enough = error.sum() <= good * total.sum() and (error <= good * total)[matter].all()
            enough = enough and spent > self.effort.strata  # few blocks do not show what few of them do

    def _whole(self) -> Together:
        """Run the whole grid, wave after wave, every SM with its L1."""
        count = self.call.blocks
        self.runner.fresh_l1(1.0, min(self.runner.sms, count))
        self.emulator.forget()
        self.emulator.work.clear()
        wave = min(self.runner.sms * self.runner.resident, self.runner.most_blocks)
        total: Counts = np.zeros(self.emulator.stats.shape)
        paths, path_of_warp = list[Path](), list[list[int]]()
        for start in range(0, count, wave):
            self.progress(f"blocks {start:,} of {count:,}")
            blocks = list(range(start, min(start + wave, count)))
            self.runner.keep_trace(not start)
            counts = self.runner.counted(blocks, [b % self.runner.sms for b in blocks])
            total[:, : layout.ARRAY] += counts[:, : layout.ARRAY]
            if not start:
                paths, path_of_warp = self.runner.paths(blocks)
        footprint = self.runner.footprint()
        by_block: dict[int, float] = {}
        for block, work in self.emulator.work:
            by_block[block] = by_block.get(block, 0.0) + work
        self.runner.work |= by_block
        numbers = list(range(count))
        grid = Together(total, numbers, paths, path_of_warp, by_block, footprint, self.runner.l1_bytes)
        heaviest, ratio = self._heaviest()
        uneven = self._ends_with(ratio)
        return grid if paths and not uneven else self._with_some_paths(grid, heaviest if uneven else None)

    def _with_some_paths(self, whole: Together, heaviest: int | None) -> Together:
        """Give a grid, of which too many paths were traced, those of as many blocks as an SM has: its heaviest's."""
        work = self.runner.work
        if heaviest is not None:
            chosen = self._on_one_sm(heaviest, max(1.0, work[heaviest]))
        else:  # of as many parts, by the work that they do, the block in the middle of each
            ordered = sorted(work, key=lambda block: (work[block], block))
            mean = max(1.0, float(np.mean(list(work.values()))))
            parts = max(1, min(self.runner.resident, int(self.effort.resident / mean)))
            chosen = sorted({ordered[int((k + 0.5) * len(ordered) / parts)] for k in range(parts)})
        self.runner.without_caches()
        self.emulator.forget()
        _, paths, path_of_warp, work = self.runner.followed(chosen)
        return replace(whole, paths=paths, path_of_warp=path_of_warp, work=work, heaviest=heaviest is not None)

    def _ends_with(self, ratio: float) -> bool:
        """Return whether a block that does so many times the mean work ends last, and the kernel with it."""
        return self.call.blocks <= self.runner.sms * self.runner.resident and ratio > _UNEVEN

    def _effort_of(self, counts: Counts) -> float:
        """Return the effort of these counts, in instructions: an access counts for eight."""
        return self._cost(counts) + (ACCESS_EFFORT - 1) * float(counts[:, layout.REQUESTS].sum())

    def _cost(self, counts: Counts) -> float:
        """Return the instructions of these counts, with the pages that they touch."""
        return float(counts[:, layout.EXECUTED].sum()) * self.pages_factor


def _are_different(sample: Sample) -> bool:
    """Return whether the blocks of a stratum that ran execute different instructions."""
    random = sample.sums / max(1, sample.draws)
    seen = [c[:, layout.EXECUTED] for c in [sample.mean(), *sample.chosen.values(), *random]]
    return any((c != seen[0]).any() for c in seen)
