"""Sampled blocks of a grid: some alone, some at random, those of one SM side by side.

Which of these a call needs, and what comes of them, says profiler.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.emulator import layout
from warplens.emulator.engine import ACCESS_EFFORT
from warplens.emulator.footprint import L2, SECTOR_BYTES, Block
from warplens.emulator.runner import OnSm, Runner
from warplens.emulator.sample import (
    Counts,
    Effort,
    Sample,
    Stratum,
    beside,
    estimate,
    number,
    place,
    shifts,
    strata,
    whole_grid,
)
from warplens.emulator.slicing import slow_paths
from warplens.emulator.traffic import Around, Seen
from warplens.emulator.uniformity import Ways
from warplens.machine import Machine
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path

_UNEVEN = 1.1  # the heaviest block over the mean: from here on the SM that has it is looked at
_MOST_DRAWS = 4096  # blocks in all sequences
_GOOD_ERROR = 0.005  # of all instructions, and of each that matters: no more blocks then
_FAIR_ERROR = 0.01  # enough where a third of what may be spent was: half of it would cost three times as much again
_LARGE = 0.1  # of all blocks: a part of the grid whose data are looked at
_FEW_NEIGHBOURS = 2  # along each axis, where blocks are alike
MATTERS = 0.1  # of the executions of the commonest instruction
_MOST_BEFORE = 3e6  # instructions of the blocks of an SM: those before them leave at most an L1, little beside so much

Progress = Callable[[str], None]


class Together(Struct, frozen=True):
    """The blocks of one SM, run together: counts with L1, paths, and the path of each warp by block.

    `heaviest`: they are those of the SM with the most work.
    """

    counts: Counts
    blocks: list[int]
    paths: list[Path]
    ways: list[list[int]]
    work: list[float]
    l1_bytes: float
    heaviest: bool = False


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
        self.together: Block | None = None
        self.around: Around | None = None
        self.lone: Counts = np.zeros(0)
        self.asked = 0  # blocks that asked for all that a branch depends on, before others did not: see `_see_less`
        self.ran: tuple[Together, Seen, int] | None = None  # the blocks of an SM, what was seen, the first block
        cache = machine.cache
        group = int(cache.dram_bytes or SECTOR_BYTES) // SECTOR_BYTES
        self.l2 = L2(cache.l2_bytes or 0.0, cache.l2_partitions or 1, cache.l2_dirty_bytes, group)
        self.dearer = 1.0  # so many times is each instruction, with the pages that blocks make
        self.row = 1  # neighbours along each axis that are looked at
        self.steady = False  # those at the corners of its inside tell all of it
        self.apart = False  # no block touches what others do
        self.per_access: tuple[list[float], list[float]] | None = None
        self.random = np.random.default_rng(1)

    def _is_steady(self, first: int) -> bool:
        """Whether all blocks inside the grid are alike: those at its corners are, and the program says that this is so.

        Then blocks that have no line in common with either of the next two along an axis have none with others. The
        turns of an access to several lines depend on where these are: such blocks are not taken for alike.
        """
        inner = self.samples[0]
        has_several_lines = (self.lone[:, layout.LINES] > self.lone[:, layout.REQUESTS]).any()
        if has_several_lines or self.call.assumptions or not Ways(self.emulator.code).are_steady():
            return False
        row, self.row = self.row, min(self.row, _FEW_NEIGHBOURS)
        rows = self._neighbours(first)
        corners = [number(corner, self.shape) for corner in inner.stratum.corners()]
        self._all_alone([*corners, *(n for near in rows for n in near)])
        seen = [counts[:, : layout.L1_HITS] for counts in inner.chosen.values()]
        if any((counts != seen[0]).any() for counts in seen):
            self.row = row
            return False
        footprints = [[self.runner.footprints[b] for b in (first, *near)] for near in rows]
        self.apart = not any(a.shares_lines_with(b) for row in footprints for a, b in itertools.pairwise(row))
        if not self.apart:
            self.row = row
        some = itertools.chain(*self._groups(inner.stratum, range(self.effort.draws)))
        self.runner.work |= dict.fromkeys(some, self.runner.work[first])  # as is known without running them
        self.steady = True
        return True

    def _knows_corners(self) -> bool:
        """Whether the blocks at the corners of the grid are counted, or those of its inside were seen to tell all."""
        counted = {block for s in self.samples for block in (*s.chosen, *s.drawn)}
        corners = (number(corner, self.shape) for corner in whole_grid(self.shape).corners())
        return self.steady or all(block in counted for block in corners)

    def _step(self) -> float:
        """The error of all executions because a step between blocks may lie anywhere between two of those drawn.

        A sequence that fills a grid evenly sees one block more or less on a side of a step, by chance: variance 1/6,
        over all places of the step. All may see as many, and not differ from one another. A block and its mirror image
        count together, as what changes evenly from block to block is no step.
        """
        total, work = 0.0, self.runner.work
        for s in self.samples:
            groups = self._groups(s.stratum, range(s.draws // 2), len(s.sums)) if s.whole is None else []
            drawn = [pair for group in groups for pair in zip(group[::2], group[1::2], strict=True)]
            means = [(work[a] + work[b]) / 2 for a, b in drawn if a in work and b in work]
            if means:
                missing = max(0, s.stratum.size - len(s.drawn))
                total += missing * (max(means) - min(means)) * (len(s.sums) / 6) ** 0.5 / len(means)
        return total

    def _first(self) -> int:
        """The block inside the grid that stands for most: in the middle wave."""
        return number(self.samples[0].stratum.middle, self.shape)

    def _heaviest(self) -> tuple[int, float]:
        """The block with the most instructions of those seen, and how many times the mean they are."""
        block = max(self.runner.work, key=lambda b: self.runner.work[b])
        return block, self.runner.work[block] / max(1.0, float(np.mean(list(self.runner.work.values()))))

    def _alone(self, block: int) -> Counts:
        """Run a block by itself (once), with an L1 of its own, for its place."""
        sample = self._sample(block)
        if block not in sample.chosen:
            sample.chosen[block] = self.runner.single(block)
        return sample.chosen[block]

    def _all_alone(self, blocks: list[int]) -> None:
        """Run blocks by themselves, each for its place, as far as they have not been."""
        new = [block for block in dict.fromkeys(blocks) if block not in self._sample(block).chosen]
        for block, counts in zip(new, self.runner.singles(new), strict=True):
            self._sample(block).chosen[block] = counts

    def _sample(self, block: int) -> Sample:
        where = place(block, self.shape)
        return next(s for s in self.samples if s.stratum.holds(where))

    def _neighbours(self, block: int) -> list[list[int]]:
        """The next blocks along each axis, several in a row; none where the grid has but one there.

        Where one is all, it is the other of a pair: with blocks half a line wide they fill lines together.
        """
        where = place(block, self.shape)
        made: list[list[int]] = []
        for axis, extent in enumerate(self.shape):
            step = 1 if where[axis] + 1 < extent and (self.row > 1 or where[axis] % 2 == 0) else -1
            made.append([])
            for k in range(1, 1 + self.row):
                there = list(where)
                there[axis] += step * k
                if 0 <= there[axis] < extent:
                    made[-1].append(number((there[0], there[1], there[2]), self.shape))
        return made

    def _on_one_sm(self, first: int, cost: float) -> list[int]:
        """The blocks that share an SM with this one.

        The first wave deals blocks out in turn; later an SM takes the next block when one of its own ends, so that
        the distances spread, with the same mean (footprints.json.gz has the blocks of each SM). How much they spread
        depends on how much the blocks' times differ, which is not known here: half the mean is assumed.
        """
        wave = self.runner.sms * self.runner.resident
        if self.call.blocks <= wave:
            others = [b for b in range(first % self.runner.sms, self.call.blocks, self.runner.sms) if b != first]
            blocks = [first, *others]
        else:
            gaps = np.maximum(1, self.random.gamma(4, self.runner.sms / 4, 2 * self.runner.resident).astype(int))
            start = max(0, first - int(gaps[: self.runner.resident // 2].sum()))
            places = start + np.concatenate([[0], np.cumsum(gaps)])
            blocks = [int(b) for b in places[: self.runner.resident] if b < self.call.blocks]
        return blocks[: max(1, min(self.runner.most_blocks, int(self.effort.resident / cost)))]

    def _together(self, blocks: list[int], *, warm: bool = True) -> Together:
        """Run the blocks of an SM with its L1, in which (`warm`) is what those before them left, and its part of L2."""
        self.progress("the blocks of one SM")
        return self._joined(blocks, self.runner.on_sm(*self._surroundings(blocks, warm)))

    def _begin_together(self, blocks: list[int]) -> Callable[[], Together]:
        """Begin to run the blocks of an SM beside what runs next, where that is worth it; return what waits for it."""
        wait = self.runner.beside(*self._surroundings(blocks, True))
        return lambda: self._joined(blocks, wait())

    def _surroundings(self, blocks: list[int], warm: bool) -> tuple[list[int], list[int], float]:
        """Return the blocks of an SM, those before them (`warm`) if they are worth it, and the bytes of their L2."""
        before = [b - self.runner.sms * self.runner.resident for b in blocks]
        warm = warm and min(before) >= 0 and self._cost(self.lone) * len(blocks) <= _MOST_BEFORE
        return blocks, before if warm else [], self.l2.single_copy_bytes * len(blocks) / self.runner.in_flight

    def _joined(self, blocks: list[int], ran: OnSm) -> Together:
        self.runner.work |= ran.work_of
        self.together = ran.footprint
        return Together(ran.counts, blocks, ran.paths, ran.ways, ran.work, self.runner.l1_bytes)

    def _see_less(self, cost: float) -> None:
        """Let further blocks ask less of data; of slow paths, where the first block and some by chance took none."""
        seen = self.lone
        if slow_paths(self.program, seen[:, layout.EXECUTED]):
            if cost > self.effort.resident:
                self._alone(self._anywhere(mirrored=False))
            else:
                large = [s.stratum for s in self.samples if s.stratum.size >= _LARGE * self.call.blocks]
                self._all_alone([number(stratum.middle, self.shape) for stratum in large])
                self._draw_some()
            seen = sum((c for s in self.samples for c in s.seen()), np.zeros(1))
        self.asked = sum(s.blocks for s in self.samples)
        self.runner.see_less(seen)

    def _anywhere(self, *, mirrored: bool) -> int:
        """A block by chance from the whole grid, or its mirror image."""
        return number(whole_grid(self.shape).spread(0, self.shifts[0], mirrored), self.shape)

    def _run_around(self, first: int, cost: float) -> None:
        """Run a block and those beside it, each on an SM of its own, to see which accesses find what others fetched."""
        near = beside(first, self.shape, self.runner.in_flight)
        blocks = [number((x, y, z), self.shape) for z, y, x in itertools.product(*reversed(near))]
        if self.apart or len(blocks) * cost > self.effort.places or not 1 < len(blocks) <= self.runner.most_blocks:
            return
        self.progress("a block and those beside it")
        counts = self.runner.side_by_side(blocks, sum(f.sectors for f in self.runner.footprints[first].read))
        inside = math.prod(len(r) / (len(r) - 1) for r in near if len(r) > 1)
        self.around = Around(counts[:, layout.L2_HITS] / np.maximum(1.0, counts[:, layout.L2_SECTORS]), inside)

    def _from_everywhere(self, resident: Together) -> Together:
        """Give resident blocks the ways of as many from all over the grid: where blocks differ, these stand for it."""
        grid = self.samples[0]
        mean = max(1.0, float(grid.mean()[:, layout.EXECUTED].sum()))
        chosen = self._in_every_part(grid.drawn or self.runner.work, mean)
        self.runner.without_caches()
        self.emulator.forget()
        _, paths, ways, work = self.runner.followed(chosen)
        return replace(resident, paths=paths, ways=ways, work=work)

    def _draw(self, sample: Sample, count: int, pairs: int | None = None) -> float:
        """Run so many more blocks of each sequence, or all if these are about as many; return what that cost.

        `pairs`: of sequences that are drawn from, instead of all.
        """
        if 2 * (pairs or self.effort.pairs) * count >= sample.stratum.size:
            sample.whole = self.runner.batch([number(p, self.shape) for p in sample.stratum.places()])
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
        """The blocks of each pair of sequences, from which place in them to which."""
        return [
            [number(stratum.spread(k, shift, m), self.shape) for k in ks for m in (False, True)]
            for shift in self.shifts[:pairs]
        ]

    def _differ(self) -> bool:
        """Whether blocks inside the grid, some of them by chance from all over it, execute different things."""
        inner = self.samples[0]
        if len(inner.chosen) < inner.stratum.size and not _are_different(inner):
            self._draw_some()
            if inner.draws and not _are_different(inner):
                pairs = len(inner.sums)
                spent = self._effort_of(inner.sums.sum(axis=0)) + inner.draws * pairs * self.runner.pages_effort
                if spent < self.effort.places:
                    self._draw(inner, max(1, min(self.effort.draws, int(self.effort.places / spent))), pairs)
        return _are_different(inner)

    def _draw_some(self) -> None:
        """Run some blocks by chance from the inside of the grid, once: fewer where they cost much."""
        inner = self.samples[0]
        if inner.draws or inner.whole is not None:
            return
        self.progress("some blocks by chance")
        costly = 2 * self.effort.pairs * self._effort_of(inner.mean()) > self.effort.places
        pairs = self.effort.few if costly else self.effort.pairs
        if pairs:
            self._draw(inner, 1, pairs)
        else:
            self._all_alone(self._groups(inner.stratum, range(1), 1)[0][:1])

    def _more(self) -> None:
        """Draw blocks from all over the grid until all instructions that matter are known well enough."""
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
            enough = enough and spent > self.effort.places  # few blocks do not show what few of them do

    def _whole(self) -> Together:
        """Run the whole grid, wave after wave, every SM with its L1."""
        count = self.call.blocks
        self.runner.fresh_l1(1.0, min(self.runner.sms, count))
        self.emulator.forget()
        self.emulator.work.clear()
        wave = min(self.runner.sms * self.runner.resident, self.runner.most_blocks)
        total: Counts = np.zeros(self.emulator.stats.shape)
        paths: list[Path] = []
        ways: list[list[int]] = []
        for start in range(0, count, wave):
            self.progress(f"blocks {start:,} of {count:,}")
            blocks = list(range(start, min(start + wave, count)))
            self.runner.keep_trace(not start)
            counts = self.runner.counted(blocks, [b % self.runner.sms for b in blocks])
            total[:, : layout.ARRAY] += counts[:, : layout.ARRAY]
            if not start:
                paths, ways, _ = self.runner.ways(blocks)
        self.together = self.runner.footprint()
        by_block: dict[int, float] = {}
        for block, work in self.emulator.work:
            by_block[block] = by_block.get(block, 0.0) + work
        self.runner.work |= by_block
        made = Together(total, list(range(count)), paths, ways, list(by_block.values()), self.runner.l1_bytes)
        heaviest, ratio = self._heaviest()
        return made if paths and not self._ends_with(ratio) else self._with_some_ways(made, heaviest, ratio)

    def _with_some_ways(self, whole: Together, heaviest: int, ratio: float) -> Together:
        """Give a grid, of which not all ways were kept or not all count, those of as many blocks as an SM has."""
        work = self.runner.work
        mean = max(1.0, float(np.mean(list(work.values()))))
        if uneven := self._ends_with(ratio):
            chosen = self._on_one_sm(heaviest, mean * ratio)
        else:
            chosen = self._in_every_part(list(work), mean)
        self.runner.without_caches()
        self.emulator.forget()
        _, paths, ways, each = self.runner.followed(chosen)
        return replace(whole, paths=paths, ways=ways, work=each, heaviest=uneven)

    def _ends_with(self, ratio: float) -> bool:
        """Whether the block that does so many times what others do ends last, and the kernel with it."""
        return self.call.blocks <= self.runner.sms * self.runner.resident and ratio > _UNEVEN

    def _effort_of(self, counts: Counts) -> float:
        """What it took to count so much, in instructions."""
        return self._cost(counts) + (ACCESS_EFFORT - 1) * float(counts[:, layout.REQUESTS].sum())

    def _cost(self, counts: Counts) -> float:
        """What it took to count so much, in instructions: without what accesses take beyond others."""
        return float(counts[:, layout.EXECUTED].sum()) * self.dearer

    def _in_every_part(self, blocks: Iterable[int], mean: float) -> list[int]:
        """Of blocks, by the work that they do, the one in the middle of each of as many parts as an SM has blocks."""
        ordered = sorted(blocks, key=lambda block: (self.runner.work[block], block))
        count = max(1, min(self.runner.resident, int(self.effort.resident / mean)))
        return sorted({ordered[int((k + 0.5) * len(ordered) / count)] for k in range(count)})


def _are_different(sample: Sample) -> bool:
    """Whether the blocks that were seen of a stratum execute different things."""
    drawn = sample.sums / max(1, sample.draws)
    seen = [c[:, layout.EXECUTED] for c in [sample.mean(), *sample.chosen.values(), *drawn]]
    return any((c != seen[0]).any() for c in seen)
