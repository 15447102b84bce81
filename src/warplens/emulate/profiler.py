"""Profile a kernel call: emulate enough blocks to know what the whole grid does.

First a block inside the grid, alone: its cost says what can be afforded. Then one of every place (corners, edges,
inside), the neighbours of the first block, whose footprints tell how blocks share data, and some by chance. Then the
blocks that are resident on one SM, together, with its L1. Where blocks differ, more are drawn by chance until the
counts are known well enough. A grid that costs little is run whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.emulate import layout
from warplens.emulate.cache import new_cache
from warplens.emulate.coalescing import transactions_per_access
from warplens.emulate.emulator import Emulator
from warplens.emulate.footprint import L2, SECTOR_BYTES, Block, Grid, Weighted, of_block
from warplens.emulate.sample import Counts, Sample, estimate, number, place, shifts, strata, whole_grid
from warplens.emulate.trace import paths_of
from warplens.emulate.traffic import Seen, spread_hits, traffic_of
from warplens.kernel.launch import SCALAR_BYTES, KernelCall
from warplens.kernel.profile import COLUMNS, Path, Profile
from warplens.kernel.program import Program
from warplens.machine import Machine, occupancy

# Budgets, in warp instructions: a grid that is run whole, the blocks of an SM, one block of each place, more of them
# (there an access to memory takes as long as eight others).
_WHOLE, _RESIDENT, _PLACES, _MORE = 2_000_000, 6_000_000, 3_000_000, 60_000_000
_SEQUENCES, _FIRST_DRAWS, _MOST_DRAWS = 8, 31, 4096  # of blocks drawn by chance; of each at first; in all of them
_UNEVEN = 1.1  # the heaviest block over the mean: from here on the SM that has it is looked at
_GOOD_ERROR = 0.005  # of all instructions, and of each that matters: no more blocks then
_MATTERS = 0.1  # of the executions of the commonest instruction
_ROW = 8  # neighbours in a row: as many as may share a sector of words
_PAGES = 1 << 18  # of memory that blocks may touch together: 256 MiB
_L1_WAYS = _L2_WAYS = 16
_TRACE_ROWS = 2_000_000
_MOST_SAMPLED = 2000  # blocks of which the instructions are told one by one
_SAMPLES = 32  # accesses of an instruction whose places are looked at, for a machine with rules of its own

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
    program: Program, call: KernelCall, machine: Machine, *, exact: bool = False, progress: Progress | None = None
) -> Profile:
    """Emulate a call, a part of its grid or (`exact`, or where that is cheap) all of it, as on this machine."""
    return _Profiler(program, call, machine, progress or (lambda text: None)).run(exact)


class _Profiler:
    def __init__(self, program: Program, call: KernelCall, machine: Machine, progress: Progress) -> None:
        self.program, self.call, self.machine, self.progress = program, call, machine, progress
        self.shape = call.grid_shape
        fits = occupancy(
            machine,
            threads_per_block=call.threads_per_block,
            registers_per_thread=program.resources.registers,
            shared_bytes_per_block=program.resources.static_shared_bytes + call.dynamic_shared_bytes,
            barriers_per_block=program.resources.barriers,
        )
        self.sms = int(machine.chip.sm_count)
        self.resident = min(fits.blocks_per_sm, -(-call.blocks // self.sms))
        self.l1_bytes = l1_bytes(machine, fits.blocks_per_sm, program.resources.static_shared_bytes, call)
        self.emulator = Emulator(program, call, (new_cache(1, self.l1_bytes, _L1_WAYS), new_cache(0, 0, 1)))
        self.samples = [Sample(stratum) for stratum in strata(self.shape)]
        self.most_blocks = 1
        self.sequences = _SEQUENCES
        self.shifts = np.zeros((0, 3))
        self.footprints: dict[int, Block] = {}
        self.together: Block | None = None
        self.in_flight = min(call.blocks, self.sms * self.resident)
        cache = machine.cache
        group = int(cache.dram_bytes or SECTOR_BYTES) // SECTOR_BYTES
        self.l2 = L2(cache.l2_bytes or 0.0, cache.l2_partitions or 1, cache.l2_dirty_bytes, group)
        self.accesses = 0.0
        self.row = 1  # neighbours in x that are looked at
        self.work: dict[int, float] = {}  # instructions of each block that ran
        self.arrays = np.zeros(len(program.instructions))  # the number of the array that each touches, and one
        self.per_access: tuple[list[float], list[float]] | None = None
        self.random = np.random.default_rng(1)

    # ---- running blocks

    def run(self, exact: bool) -> Profile:
        first = self._first()
        self.progress("the first block" if self.emulator.is_compiled() else "compiling the emulator, only this time")
        old = float(self.machine.compute_capability or 9) < 3
        if old:  # its own rules for what an access costs
            self.emulator.samples = np.zeros(
                (len(self.program.instructions), _SAMPLES, layout.SAMPLE_COLUMNS), np.int64
            )
        cost = max(1.0, float(self._alone(first)[:, layout.EXECUTED].sum()))
        self.most_blocks = self._side_by_side()
        self.per_access = transactions_per_access(self.machine, self.emulator.samples) if old else None
        self.emulator.samples = np.zeros((len(self.program.instructions), 0, layout.SAMPLE_COLUMNS), np.int64)
        if exact or (cost * self.call.blocks <= _WHOLE and self._blocks_with_room() >= self.call.blocks):
            return self._made(self._whole(), exact=True, first=first)
        affordable = max(1, int(_PLACES / cost))
        self.row = min(_ROW, affordable)
        neighbours = [n for axis in self._neighbours(first) for n in axis]
        places = [number(s.stratum.middle, self.shape) for s in self.samples]
        for block in [*neighbours, *places][: max(affordable, len(neighbours))]:
            self.progress("a block of every place")
            self._alone(block)
        self.sequences = _SEQUENCES if affordable > 8 * _SEQUENCES else _SEQUENCES // 2  # few blocks: longer ones
        self.shifts = shifts(self.sequences, np.random.default_rng(2))
        differ = self._differ()
        if differ:
            self._more()
        block, ratio = self._heaviest()
        if self.call.blocks <= self.sms * self.resident and ratio > _UNEVEN:  # it ends last, and the kernel with it
            resident = self._together(self._on_one_sm(block, cost * ratio))
            return self._made(resident, exact=False, first=first, heaviest=True)
        resident = self._together(self._on_one_sm(first, cost))
        if differ:
            resident = self._from_everywhere(resident)
        return self._made(resident, exact=False, first=first)

    def _first(self) -> int:
        """The block inside the grid that stands for most: in the middle wave."""
        return number(self.samples[0].stratum.middle, self.shape)

    def _heaviest(self) -> tuple[int, float]:
        """The block with the most instructions of those seen, and how many times the mean they are."""
        block = max(self.work, key=lambda b: self.work[b])
        return block, self.work[block] / max(1.0, float(np.mean(list(self.work.values()))))

    def _alone(self, block: int) -> Counts:
        """Run a block by itself (once), with an L1 of its own, for its place."""
        sample = self._sample(block)
        if block not in sample.chosen:
            sample.chosen[block] = self._single(block)
        return sample.chosen[block]

    def _single(self, block: int) -> Counts:
        self._fresh_l1(1.0)
        self.emulator.forget()
        counts = self._counted([block])
        self.footprints[block] = of_block(self.emulator.pages, self.emulator.touched)
        return counts

    def _batch(self, blocks: list[int]) -> Counts:
        """Run blocks side by side, each with an L1 of its own; return the sum of their counts."""
        total: Counts = np.zeros(self.emulator.stats.shape)
        for start in range(0, len(blocks), self.most_blocks):
            part = blocks[start : start + self.most_blocks]
            self._fresh_l1(1.0, len(part))
            self.emulator.forget()
            total += self._counted(part, list(range(len(part))))
        return total

    def _side_by_side(self) -> int:
        """How many blocks have room for their registers, and for the memory that they touch."""
        per_block = -(-self.call.threads_per_block // 32)
        row_bytes = per_block * 128 * (self.emulator.code.row_count + len(self.emulator.pool))
        return max(1, min((256 << 20) // row_bytes, self._blocks_with_room()))

    def _blocks_with_room(self) -> int:
        """How many blocks have room for the memory that they touch, by what the one that has just run did."""
        touched, all_pages = int(self.emulator.pages.table[-1]), len(self.emulator.pages.table)
        return self.call.blocks if all_pages <= _PAGES else _PAGES // max(1, touched)

    def _counted(self, blocks: list[int], sms: list[int] | None = None) -> Counts:
        self.emulator.stats[:] = 0
        before = len(self.emulator.work)
        self.emulator.run(blocks, sms)
        work = dict.fromkeys(blocks, 0.0)
        for block, instructions in self.emulator.work[before:]:
            work[block] += instructions
        self.work |= work
        self.accesses += float(self.emulator.stats[:, layout.REQUESTS].sum())
        self.arrays = np.maximum(self.arrays, self.emulator.stats[:, layout.ARRAY])
        return self.emulator.stats.astype(np.float64)

    def _fresh_l1(self, share: float, count: int = 1) -> None:
        size = max(16 << 10, int(self.l1_bytes * share)) if self.l1_bytes else 0  # 0: two lines, which keep nothing
        self.emulator.caches = new_cache(count, size, _L1_WAYS), self.emulator.caches[1]

    def _sample(self, block: int) -> Sample:
        where = place(block, self.shape)
        return next(s for s in self.samples if s.stratum.holds(where))

    def _neighbours(self, block: int) -> list[list[int]]:
        """The next blocks in x, several in a row, and in y and z one each; none where the grid has but one there."""
        where = place(block, self.shape)
        made: list[list[int]] = []
        for axis, extent in enumerate(self.shape):
            step = 1 if where[axis] + 1 < extent else -1
            made.append([])
            for k in range(1, 1 + (self.row if axis == 0 else 1)):
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
        wave = self.sms * self.resident
        if self.call.blocks <= wave:
            others = [b for b in range(first % self.sms, self.call.blocks, self.sms) if b != first]
            blocks = [first, *others]
        else:
            gaps = np.maximum(1, self.random.gamma(4, self.sms / 4, 2 * self.resident).astype(int))
            start = max(0, first - int(gaps[: self.resident // 2].sum()))
            places = start + np.concatenate([[0], np.cumsum(gaps)])
            blocks = [int(b) for b in places[: self.resident] if b < self.call.blocks]
        return blocks[: max(1, min(self.most_blocks, int(_RESIDENT / cost)))]

    def _together(self, blocks: list[int]) -> _Resident:
        """Run the blocks of an SM with its L1 and its part of L2."""
        self.progress("the blocks of one SM")
        self._fresh_l1(len(blocks) / self.resident)
        self.emulator.forget()
        l2_bytes = self.l2.single_copy_bytes * len(blocks) / self.in_flight
        self.emulator.caches = self.emulator.caches[0], new_cache(1, int(l2_bytes), _L2_WAYS, 64)
        counts, paths, ways, work = self._followed(blocks)
        self.emulator.caches = self.emulator.caches[0], new_cache(0, 0, 1)
        self.together = of_block(self.emulator.pages, self.emulator.touched)
        return _Resident(counts, blocks, paths, ways, work, self.l1_bytes)

    def _from_everywhere(self, resident: _Resident) -> _Resident:
        """Give resident blocks the ways of as many from all over the grid: where blocks differ, these stand for it."""
        grid = self.samples[0]
        drawn = [number(grid.stratum.spread(k, self.shifts[0]), self.shape) for k in range(self.resident)]
        mean = max(1.0, float(grid.mean()[:, layout.EXECUTED].sum()))
        self.emulator.caches = new_cache(0, 0, 1), new_cache(0, 0, 1)
        self.emulator.forget()
        _, paths, ways, work = self._followed(sorted(set(drawn[: max(1, int(_RESIDENT / mean))])))
        return replace(resident, paths=paths, ways=ways, work=work)

    def _followed(self, blocks: list[int]) -> tuple[Counts, list[Path], list[list[int]], list[float]]:
        """Run blocks side by side; return their counts, ways, the way of each warp, and instructions per block."""
        self.emulator.trace = np.zeros((_TRACE_ROWS, 3), np.int32)
        self.emulator.work.clear()
        counts = self._counted(blocks)
        made = self._ways(blocks)
        self.emulator.trace = np.zeros((0, 3), np.int32)
        return counts, *made

    def _ways(self, blocks: list[int]) -> tuple[list[Path], list[list[int]], list[float]]:
        per_block = -(-self.call.threads_per_block // 32)
        work = [float(sum(w for b, w in self.emulator.work if b == block)) for block in blocks]
        if self.emulator.traced > len(self.emulator.trace):
            return [], [], work
        paths, of_warp = paths_of(self.emulator.trace[: self.emulator.traced], per_block * len(blocks))
        whole = len(of_warp) // per_block
        return paths, [of_warp[i * per_block : (i + 1) * per_block] for i in range(whole)], work

    def _draw(self, sample: Sample, count: int) -> float:
        """Run so many more blocks of each sequence, or all if these are about as many; return what that cost."""
        if count * self.sequences >= sample.stratum.size:
            sample.whole = self._batch([number(p, self.shape) for p in sample.stratum.places()])
            return _effort(sample.whole)
        sums, seen = [], set[int]()
        for shift in self.shifts:
            ks = range(sample.draws, sample.draws + count)
            blocks = [number(sample.stratum.spread(k, shift), self.shape) for k in ks]
            sums.append(self._single(blocks[0]) if sample.draws == 0 and count == 1 else self._batch(blocks))
            seen.update(blocks)
        sample.add(np.array(sums), seen, count)
        return _effort(np.sum(sums, axis=0))

    def _differ(self) -> bool:
        """Whether blocks inside the grid, some of them by chance from all over it, execute different things."""
        inner = self.samples[0]
        if len(inner.chosen) < inner.stratum.size:
            self.progress("some blocks by chance")
            spent = self._draw(inner, 1)
            if inner.whole is None and spent < _PLACES:
                self._draw(inner, max(1, min(_FIRST_DRAWS, int(_PLACES / spent))))
        drawn = inner.sums / max(1, inner.draws)
        seen = [c[:, layout.EXECUTED] for c in [inner.mean(), *inner.chosen.values(), *drawn]]
        return any((c != seen[0]).any() for c in seen)

    def _more(self) -> None:
        """Draw blocks from all over the grid until all instructions that matter are known well enough."""
        grid = Sample(whole_grid(self.shape))
        self.samples = [grid]
        spent, enough = self._draw(grid, 1), False
        while not enough and grid.whole is None and grid.draws * self.sequences < _MOST_DRAWS:
            self.progress("more blocks, as they differ")
            count = min(grid.draws, int((_MORE - spent) / max(1.0, _effort(grid.mean())) / self.sequences))
            if count < 1:
                return
            spent += self._draw(grid, count)
            total, error = (x[:, layout.EXECUTED] for x in estimate(self.samples))
            matter = total > _MATTERS * total.max()
            enough = error.sum() <= _GOOD_ERROR * total.sum() and (error <= _GOOD_ERROR * total)[matter].all()
            enough = enough and spent > _PLACES  # few blocks do not show what few of them do

    def _whole(self) -> _Resident:
        """Run the whole grid, wave after wave, every SM with its L1."""
        count = self.call.blocks
        self._fresh_l1(1.0, min(self.sms, count))
        self.emulator.forget()
        self.emulator.work.clear()
        wave = min(self.sms * self.resident, self.most_blocks)
        total: Counts = np.zeros(self.emulator.stats.shape)
        paths: list[Path] = []
        ways: list[list[int]] = []
        for start in range(0, count, wave):
            self.progress(f"blocks {start:,} of {count:,}")
            blocks = list(range(start, min(start + wave, count)))
            self.emulator.trace = np.zeros((0 if start else _TRACE_ROWS, 3), np.int32)
            counts = self._counted(blocks, [b % self.sms for b in blocks])
            total[:, : layout.ARRAY] += counts[:, : layout.ARRAY]
            if not start:
                paths, ways, _ = self._ways(blocks)
        by_block: dict[int, float] = {}
        for block, work in self.emulator.work:
            by_block[block] = by_block.get(block, 0.0) + work
        return _Resident(total, list(range(count)), paths, ways, list(by_block.values()), self.l1_bytes)

    # ---- the result

    def _made(self, resident: _Resident, exact: bool, first: int, *, heaviest: bool = False) -> Profile:
        total, error = (resident.counts, np.zeros_like(resident.counts)) if exact else estimate(self.samples)
        total = np.array(total)
        executed = total[:, layout.EXECUTED]
        _spread_l1(total, resident.counts)
        total[:, layout.ARRAY] = self.arrays
        pointers = [(i, a) for i, a in enumerate(self.call.arguments) if self.emulator.addresses[i]]
        traffic = traffic_of(
            self.program,
            [a.name or str(i) for i, a in pointers],
            [(a.count or 0) * SCALAR_BYTES[a.element] for _, a in pointers],
            self._seen(total, resident.counts, exact, first),
            self.l2,
            self.call.l2 == "cold",
        )
        spread_hits(self.program, total, traffic)
        matter = executed > _MATTERS * executed.max()
        known = 1 - self.emulator.unknown_executed / max(1, self.emulator.executed)
        return Profile(
            grid_blocks=self.call.blocks,
            warps_per_block=-(-self.call.threads_per_block // 32),
            emulated_blocks=len(resident.blocks) if exact else sum(s.blocks for s in self.samples),
            exact=exact,
            error=float(error[:, layout.EXECUTED].sum() / max(1.0, executed.sum())),
            largest_error=float((error[matter, layout.EXECUTED] / executed[matter]).max(initial=0.0)),
            known_instructions=known,
            known_addresses=1 - min(1.0, self.emulator.assumed_accesses / max(1.0, self.accesses)),
            counts=self._columns(total),
            paths=resident.paths,
            blocks=resident.ways,
            block_instructions=resident.work,
            sampled=self._sampled(),
            heaviest=heaviest,
            traffic=traffic,
            l2=self.call.l2,
            l1_bytes=resident.l1_bytes,
        )

    def _sampled(self) -> list[tuple[int, float]]:
        """The instructions of the blocks that were seen, by their number; nothing where all are alike."""
        if len(set(self.work.values())) <= 1:
            return []
        kept = sorted(self.work.items())
        return kept[:: -(-len(kept) // _MOST_SAMPLED)]

    def _columns(self, total: Counts) -> dict[str, list[float]]:
        made = {name: [float(x) for x in total[:, i]] for i, name in enumerate(COLUMNS)}
        if self.per_access is not None:
            for name, each in zip(("transactions", "moved_bytes"), self.per_access, strict=True):
                made[name] = [n * requests for n, requests in zip(each, made["requests"], strict=True)]
        return made

    def _seen(self, total: Counts, resident: Counts, exact: bool, first: int) -> Seen:
        """Join what ran, for the traffic beyond L1; a grid that ran whole is one block."""
        if exact:
            whole = Weighted(of_block(self.emulator.pages, self.emulator.touched), 1)
            return Seen(total, resident, [whole], [[], [], []], None, Grid((1, 1, 1), self.call.blocks))
        neighbours = [[self.footprints[n] for n in row if n in self.footprints] for row in self._neighbours(first)]
        grid = Grid(self.shape, self.in_flight)
        return Seen(total, resident, self._weighted(first), neighbours, self.together, grid)

    def _weighted(self, first: int) -> list[Weighted]:
        """The footprints of all blocks that ran alone, each with the blocks it stands for; that of `first` leads."""
        made = [Weighted(self.footprints[first], 0)]
        for sample in self.samples:
            blocks = [b for b in sample.drawn if b in self.footprints] or list(sample.chosen)
            made += [Weighted(self.footprints[block], sample.stratum.size / len(blocks)) for block in blocks]
        return made


def _effort(counts: Counts) -> float:
    """What it took to count so much, in instructions."""
    return float(counts[:, layout.EXECUTED].sum() + 7 * counts[:, layout.REQUESTS].sum())


def _spread_l1(total: Counts, resident: Counts) -> None:
    """Give each instruction the L1 hits and L2 requests per sector that it has among the resident blocks."""
    sectors = resident[:, layout.SECTORS]
    seen = sectors > 0
    for column in (layout.L1_HITS, layout.L2_SECTORS):
        share = np.divide(resident[:, column], sectors, out=np.zeros_like(sectors), where=seen)
        total[seen, column] = share[seen] * total[seen, layout.SECTORS]


def l1_bytes(machine: Machine, blocks_per_sm: int, static_shared_bytes: int, call: KernelCall) -> int:
    """Return what is left of an SM's memory for L1 when its blocks have their shared memory."""
    whole = machine.cache.l1_bytes
    if whole is None:
        return 0
    per_block = static_shared_bytes + call.dynamic_shared_bytes
    if not per_block and not machine.sm.shared_reserved_bytes:
        return int(whole)
    need = blocks_per_sm * (per_block + (machine.sm.shared_reserved_bytes or 0)) if per_block else 0
    steps = machine.sm.shared_steps_bytes or [machine.sm.shared_bytes or 0]
    return int(whole - next((s for s in sorted(steps) if s >= need), max(steps)))
