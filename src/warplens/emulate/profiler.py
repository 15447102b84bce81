"""Profile a kernel call: emulate enough blocks to know what the whole grid does.

First a block inside the grid, alone: its cost says what can be afforded. Then one of every place (corners, edges,
inside), the neighbours of the first block, whose footprints tell how blocks share data, and some by chance. Then the
blocks that are resident on one SM, together, with its L1. Where blocks differ, more are drawn by chance until the
counts are known well enough. A grid that costs little is run whole; of blocks that cost very much four or five are run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.emulate import layout
from warplens.emulate.coalescing import transactions_per_access
from warplens.emulate.crowding import fewer, lost_share
from warplens.emulate.effort import BRISK, FULL, QUICK, Effort
from warplens.emulate.engine import ACCESS_EFFORT, prepare
from warplens.emulate.footprint import L2, SECTOR_BYTES, Block, Grid, Weighted
from warplens.emulate.lookups import code_bytes
from warplens.emulate.queues import counter
from warplens.emulate.runner import Runner
from warplens.emulate.sample import (
    Counts,
    Sample,
    Stratum,
    beside,
    estimate,
    number,
    place,
    shifts,
    spread_far,
    strata,
    whole_grid,
)
from warplens.emulate.slicing import not_seen
from warplens.emulate.steadiness import is_steady
from warplens.emulate.traffic import STORES, Around, Seen, spread_hits, spread_l1, traffic_of
from warplens.kernel.launch import SCALAR_BYTES, KernelCall
from warplens.kernel.profile import COLUMNS, CROWDED, Crowding, Fewer, Path, Profile, Traffic
from warplens.kernel.program import Program
from warplens.machine import Machine

_MOST_DRAWS = 4096  # blocks in all sequences
_UNEVEN = 1.1  # the heaviest block over the mean: from here on the SM that has it is looked at
_GOOD_ERROR = 0.005  # of all instructions, and of each that matters: no more blocks then
_FAIR_ERROR = 0.01  # enough where a third of what may be spent was: half of it would cost three times as much again
_FEW_NEIGHBOURS = 2  # along each axis, where blocks are alike
_FEW_PAIRS = 2  # of sequences, to see whether blocks differ that cost much: as few as have an error
_MATTERS = 0.1  # of the executions of the commonest instruction
_MOST_BEFORE = 3e6  # instructions of the blocks of an SM: those before them leave at most an L1, little beside so much
_WARM = 16  # times the size of L1: blocks that ask for more are run again without those before them
_MOST_SAMPLED = 2000  # blocks of which the instructions are told one by one
_COSTLY = 10_000  # instructions of a block: some milliseconds, from where on two threads are faster than one
_SAMPLES = 32  # accesses of an instruction whose places are looked at, for a machine with rules of its own

__all__ = ["BRISK", "FULL", "QUICK", "Effort", "prepare", "profile"]

Progress = Callable[[str], None]


class _Resident(Struct, frozen=True):
    """The blocks of one SM, run together: counts with L1, paths, and the path of each warp by block."""

    counts: Counts
    blocks: list[int]
    paths: list[Path]
    ways: list[list[int]]
    work: list[float]
    l1_bytes: float


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
    return replace(made, crowding=profiler.crowding()) if effort.crowding else made


class _Profiler:
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
        self.ran: tuple[_Resident, Seen, int] | None = None  # the blocks of an SM, what was seen, the first block
        cache = machine.cache
        group = int(cache.dram_bytes or SECTOR_BYTES) // SECTOR_BYTES
        self.l2 = L2(cache.l2_bytes or 0.0, cache.l2_partitions or 1, cache.l2_dirty_bytes, group)
        self.row = 1  # neighbours along each axis that are looked at
        self.apart = False  # no block touches what others do
        self.per_access: tuple[list[float], list[float]] | None = None
        self.random = np.random.default_rng(1)

    # ---- running blocks

    def run(self, exact: bool) -> Profile:
        first = self._first()
        self.progress("the first block" if self.emulator.is_compiled() else "compiling the emulator, only this time")
        old = float(self.machine.compute_capability or 9) < 3
        size = len(self.program.instructions)
        if old:  # its own rules for what an access costs
            self.emulator.samples = np.zeros((size, _SAMPLES, layout.SAMPLE_COLUMNS), np.int64)
        self.lone = self._alone(first)
        cost = max(1.0, float(self.lone[:, layout.EXECUTED].sum()))
        room = self.runner.see_room()
        self.per_access = transactions_per_access(self.machine, self.emulator.samples) if old else None
        self.emulator.samples = np.zeros((size, 0, layout.SAMPLE_COLUMNS), np.int64)
        if exact or (cost * self.call.blocks <= self.effort.whole and room >= self.call.blocks):
            return self._made(self._whole(), exact=True, first=first)
        if cost > self.effort.resident:
            return self._of_few(first)
        self.runner.costly = self.effort.threads > 1 and _effort(self.lone) > _COSTLY
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
        if (
            self.call.blocks <= self.runner.sms * self.runner.resident and ratio > _UNEVEN
        ):  # it ends last, and the kernel with it
            resident = self._together(self._on_one_sm(block, cost * ratio))
            return self._made(resident, exact=False, first=first, heaviest=True)
        resident = self._together(self._on_one_sm(first, cost))
        self._run_around(first, cost)
        if differ:
            resident = self._from_everywhere(resident)
        return self._made(resident, exact=False, first=first)

    def _is_steady(self, first: int) -> bool:
        """Whether all blocks inside the grid are alike: those at its corners are, and the program says that this is so.

        Then blocks that have no line in common with either of the next two along an axis have none with others. The
        turns of an access to several lines depend on where these are: such blocks are not taken for alike.
        """
        inner = self.samples[0]
        has_several_lines = (self.lone[:, layout.LINES] > self.lone[:, layout.REQUESTS]).any()
        if has_several_lines or self.call.assumptions or not is_steady(self.emulator.code):
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
        return True

    def _of_few(self, first: int) -> Profile:
        """Look at as few blocks as tell something, where one costs more than those of an SM may together.

        One that stands for the SM, one neighbour along each other axis, and one from anywhere; if it differs, also its
        mirror image: where blocks do more the later they come, the mean of these two is that of the grid, and so is the
        block in the middle. By how much these differ is the error.
        """
        self.row = 1
        neighbours = [axis[0] for axis in self._neighbours(first) if axis]
        resident = self._together(neighbours[:1] or [first])
        for block in neighbours[:1]:
            self.runner.footprints[block] = self.together or self.runner.footprints[first]
            self._sample(block).chosen[block] = resident.counts
        for block in neighbours[1:]:
            self.progress("its neighbours")
            self._alone(block)
        seen = [c[:, layout.EXECUTED] for s in self.samples for c in s.chosen.values()]
        blocks = [number(whole_grid(self.shape).spread(0, self.shifts[0], m), self.shape) for m in (False, True)]
        self.progress("a block by chance")
        if any((c != self._alone(blocks[0])[:, layout.EXECUTED]).any() for c in seen):
            mirrored, middle = sum(self._alone(block) for block in blocks), 2 * self._alone(first)
            self.samples = [Sample(whole_grid(self.shape))]
            self.samples[0].add(np.array([mirrored, middle]), {*blocks, first}, 2)
        return self._made(resident, exact=False, first=first)

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
        """The next blocks along each axis, several in a row; none where the grid has but one there."""
        where = place(block, self.shape)
        made: list[list[int]] = []
        for axis, extent in enumerate(self.shape):
            step = 1 if where[axis] + 1 < extent else -1
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
        the distances spread, with the same mean (data/h200/l2.json.gz has the blocks of each SM). How much they spread
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

    def _together(self, blocks: list[int], *, warm: bool = True) -> _Resident:
        """Run the blocks of an SM with its L1, in which (`warm`) is what those before them left, and its part of L2."""
        self.progress("the blocks of one SM")
        self.runner.fresh_l1(len(blocks) / self.runner.resident)
        self.emulator.forget()
        before = [b - self.runner.sms * self.runner.resident for b in blocks]
        if warm and min(before) >= 0 and float(self.lone[:, layout.EXECUTED].sum()) * len(blocks) <= _MOST_BEFORE:
            self.runner.counted(before)
            self.runner.footprint()
        self.runner.part_of_l2(self.l2.single_copy_bytes * len(blocks) / self.runner.in_flight)
        counts, paths, ways, work = self.runner.followed(blocks)
        self.runner.part_of_l2(0)
        self.together = self.runner.footprint()
        return _Resident(counts, blocks, paths, ways, work, self.runner.l1_bytes)

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

    def _from_everywhere(self, resident: _Resident) -> _Resident:
        """Give resident blocks the ways of as many from all over the grid: where blocks differ, these stand for it.

        Of those that were drawn, by the work that they do: one in the middle of every part of equal size.
        """
        grid = self.samples[0]
        drawn = sorted(grid.drawn or self.runner.work, key=lambda block: (self.runner.work[block], block))
        mean = max(1.0, float(grid.mean()[:, layout.EXECUTED].sum()))
        count = max(1, min(self.runner.resident, int(self.effort.resident / mean)))
        self.runner.without_caches()
        self.emulator.forget()
        chosen = {drawn[int((k + 0.5) * len(drawn) / count)] for k in range(count)}
        _, paths, ways, work = self.runner.followed(sorted(chosen))
        return replace(resident, paths=paths, ways=ways, work=work)

    def _draw(self, sample: Sample, count: int, pairs: int | None = None) -> float:
        """Run so many more blocks of each sequence, or all if these are about as many; return what that cost.

        `pairs`: of sequences that are drawn from, instead of all.
        """
        if 2 * (pairs or self.effort.pairs) * count >= sample.stratum.size:
            sample.whole = self.runner.batch([number(p, self.shape) for p in sample.stratum.places()])
            return _effort(sample.whole)
        groups = self._groups(sample.stratum, range(sample.draws // 2, sample.draws // 2 + count), pairs)
        seen = {block for group in groups for block in group}
        if sample.draws == 0 and count == 1:
            each = self.runner.singles([block for group in groups for block in group])
            sums = [a + b for a, b in zip(each[::2], each[1::2], strict=True)]
        else:
            sums = self.runner.batches(groups)
        sample.add(np.array(sums), seen, 2 * count)
        return _effort(np.sum(sums, axis=0))

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
            self.progress("some blocks by chance")
            costly = 2 * self.effort.pairs * _effort(inner.mean()) > self.effort.places
            pairs = _FEW_PAIRS if costly else self.effort.pairs
            spent = self._draw(inner, 1, pairs) + inner.draws * pairs * self.runner.pages_effort
            if inner.whole is None and spent < self.effort.places and not _are_different(inner):
                self._draw(inner, max(1, min(self.effort.draws, int(self.effort.places / spent))), pairs)
        return _are_different(inner)

    def _more(self) -> None:
        """Draw blocks from all over the grid until all instructions that matter are known well enough."""
        grid = Sample(whole_grid(self.shape))
        self.samples = [grid]
        spent, enough = self._draw(grid, 1), False
        while not enough and grid.whole is None and grid.draws * self.effort.pairs < _MOST_DRAWS:
            self.progress("more blocks, as they differ")
            count = min(
                grid.draws // 2,
                int((self.effort.more - spent) / max(1.0, _effort(grid.mean())) / (2 * self.effort.pairs)),
            )
            if count < 1:
                return
            spent += self._draw(grid, count)
            total, error = (x[:, layout.EXECUTED] for x in estimate(self.samples))
            matter = total > _MATTERS * total.max()
            good = _GOOD_ERROR if spent < self.effort.more / 3 else _FAIR_ERROR
            enough = error.sum() <= good * total.sum() and (error <= good * total)[matter].all()
            enough = enough and spent > self.effort.places  # few blocks do not show what few of them do

    def _whole(self) -> _Resident:
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
        by_block: dict[int, float] = {}
        for block, work in self.emulator.work:
            by_block[block] = by_block.get(block, 0.0) + work
        return _Resident(total, list(range(count)), paths, ways, list(by_block.values()), self.runner.l1_bytes)

    # ---- the result

    def _made(self, resident: _Resident, exact: bool, first: int, *, heaviest: bool = False) -> Profile:
        total, error = (resident.counts, np.zeros_like(resident.counts)) if exact else estimate(self.samples)
        total = np.array(total)
        executed = total[:, layout.EXECUTED]
        total[:, layout.ARRAY] = self.runner.arrays
        seen = self._seen(total, resident.counts, exact, first)
        traffic = self._through_caches(seen)
        warps = self.call.blocks * -(-self.call.threads_per_block // 32)
        fetched = code_bytes(executed, warps, self.machine.instruction_cache.second_bytes)
        if fetched:
            traffic.append(Traffic(name="code", l2_lookup_bytes=fetched))
        matter = executed > _MATTERS * executed.max()
        known = 1 - self.emulator.unknown_executed / max(1, self.emulator.executed)
        self.ran = resident, seen, first
        return Profile(
            grid_blocks=self.call.blocks,
            warps_per_block=-(-self.call.threads_per_block // 32),
            emulated_blocks=len(resident.blocks) if exact else sum(s.blocks for s in self.samples),
            exact=exact,
            error=float(error[:, layout.EXECUTED].sum() / max(1.0, executed.sum())),
            largest_error=float((error[matter, layout.EXECUTED] / executed[matter]).max(initial=0.0)),
            unsure=[] if exact else sorted({*not_seen(self.emulator.code, executed), *spread_far(total, error)}),
            known_instructions=known,
            known_addresses=1 - min(1.0, self.emulator.assumed_accesses / max(1.0, self.runner.accesses)),
            counts=self._columns(total),
            paths=resident.paths,
            blocks=resident.ways,
            block_instructions=resident.work,
            sampled=self._sampled(),
            heaviest=heaviest,
            traffic=traffic,
            l2=self.call.l2,
            l1_bytes=resident.l1_bytes,
            notes=[] if exact else self._notes(),
        )

    def _notes(self) -> list[str]:
        """Say what makes a part of the grid a bad sample of it."""
        found = counter(self.program)
        if found is None:
            return []
        line = f"line {found.line}" if found.line else found.text
        return [
            f"blocks take their work from a counter ({line}): each of the few that were emulated did all of it, and "
            "counts and time are far too high; --exact counts the whole grid"
        ]

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

    def crowding(self) -> Crowding:
        """See what L1 loses of what the blocks of an SM come back to, and how fewer of them would fare."""
        assert self.ran is not None
        resident, seen, first = self.ran
        now, cost = self.runner.resident, max(1.0, float(self.lone[:, layout.EXECUTED].sum()))
        asked = float(seen.total[:, layout.L2_SECTORS].sum())
        if now == 1 or not self.runner.l1_bytes:
            return Crowding(lost_share=0.0, times_l1=0.0, l2_sectors=asked)
        if seen.together is None:  # it ran on all SMs
            resident = self._together(self._on_one_sm(first, cost))
        lost, times_l1 = self._crowd(resident)
        asks = SECTOR_BYTES * float(self.lone[:, layout.SECTORS].sum()) / self.runner.l1_bytes  # a block, over L1
        found = Crowding(lost_share=lost, times_l1=times_l1, l2_sectors=asked)
        made, blocks = list[Fewer](), now if found.crowded and cost <= self.effort.resident else 1
        while lost >= CROWDED and blocks > 1:
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

    def _crowd(self, resident: _Resident) -> tuple[float, float]:
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
        if exact:
            whole = Weighted(self.runner.footprint(), 1)
            return Seen(total, resident, [whole], [[], [], []], None, Grid((1, 1, 1), self.call.blocks), per_sm, total)
        neighbours = [
            [self.runner.footprints[n] for n in row if n in self.runner.footprints] for row in self._neighbours(first)
        ]
        grid = Grid(self.shape, self.runner.in_flight)
        return Seen(total, resident, self._weighted(first), neighbours, self.together, grid, per_sm, self.lone)

    def _weighted(self, first: int) -> list[Weighted]:
        """The footprints of all blocks that ran alone, each with the blocks it stands for; that of `first` leads."""
        made = [Weighted(self.runner.footprints[first], 0)]
        for sample in self.samples:
            blocks = [b for b in sample.drawn if b in self.runner.footprints] or list(sample.chosen)
            made += [Weighted(self.runner.footprints[block], sample.stratum.size / len(blocks)) for block in blocks]
        return made


def _are_different(sample: Sample) -> bool:
    """Whether the blocks that were seen of a stratum execute different things."""
    drawn = sample.sums / max(1, sample.draws)
    seen = [c[:, layout.EXECUTED] for c in [sample.mean(), *sample.chosen.values(), *drawn]]
    return any((c != seen[0]).any() for c in seen)


def _effort(counts: Counts) -> float:
    """What it took to count so much, in instructions."""
    return float(counts[:, layout.EXECUTED].sum() + (ACCESS_EFFORT - 1) * counts[:, layout.REQUESTS].sum())
