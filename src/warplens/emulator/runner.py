"""Runner of a call's blocks with the caches of a machine: alone, side by side, on one SM; and the paths of warps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import layout
from warplens.emulator.bits import entry
from warplens.emulator.cache import new_cache
from warplens.emulator.emulator import Emulator
from warplens.emulator.engine import ACCESS_EFFORT, LINE_EFFORT
from warplens.emulator.footprint import SECTOR_BYTES, Block, of_block
from warplens.emulator.sample import Counts
from warplens.machine import Machine, check_grid, occupancy
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path, Segment

_PAGES = 1 << 18  # of memory that blocks may touch together: 256 MiB
# An H200 keeps 215 KiB that it reads in a circle, 74 % of 256 KiB, 15 % of 304 KiB, none of 362 KiB
# (data/h200/journal/measured.jsonl.xz, chase.l1): what was used longest ago goes, and sets are small.
_L1_ASSOCIATIVITY = 4
_L2_ASSOCIATIVITY = 16
_TRACE_ROWS = 2_000_000
_RANDOM = 64  # random blocks that run side by side, at most
_LONGEST_PERIOD = 64  # runs of a loop body that are looked for
_MOST_SEGMENTS = 20_000  # of all paths together


@cache
def _trace() -> npt.NDArray[np.int32]:
    """Return the rows for runs of warps: they are written before they are read, so that all emulators share them."""
    return np.empty((_TRACE_ROWS, 3), np.int32)


class Together(Struct, frozen=True):
    """The blocks of one SM, run together: counts with L1, paths, the path of each warp by block, and their footprint.

    `work`: instructions of each block; `heaviest`: they are those of the SM with the most work.
    """

    counts: Counts
    blocks: list[int]
    paths: list[Path]
    path_of_warp: list[list[int]]
    work: dict[int, float]
    footprint: Block
    l1_bytes: float
    heaviest: bool = False


class Runner:
    """Blocks of one call on one machine; what they count and touch."""

    def __init__(self, program: Program, call: KernelCall, machine: Machine) -> None:
        check_grid(machine, call.grid_shape)
        fits = occupancy(
            machine,
            threads_per_block=call.threads_per_block,
            registers_per_thread=program.resources.registers,
            shared_bytes_per_block=program.resources.static_shared_bytes + call.dynamic_shared_bytes,
            barriers_per_block=program.resources.barriers,
        )
        self.call, self.machine, self.static_shared_bytes = call, machine, program.resources.static_shared_bytes
        self._parts = program, call, machine
        self.sms = int(machine.chip.sm_count)
        self.limit(min(fits.blocks_per_sm, -(-call.blocks // self.sms)))
        caches = new_cache(1, self.l1_bytes, _L1_ASSOCIATIVITY), new_cache(0, 0, 1)
        self.emulator = Emulator(program, call, caches, values=False)
        self.footprints: dict[int, Block] = {}
        self.most_blocks = 1  # side by side, once `measure_memory` was called
        self.fits_twice = False  # likewise: there is memory for a second thread
        self.pages_effort = 0.0  # of the pages that a block touches, in instructions; likewise
        self.costly = False  # a second thread is worth its memory
        self._thread = ThreadPoolExecutor(1)  # started when it first has something to do
        self.work: dict[int, float] = {}  # instructions of each block that ran
        self.accesses = 0.0
        self.arrays = np.zeros(len(program.instructions))  # the number of the array that each touches, and one

    def limit(self, blocks_per_sm: int) -> None:
        """Put no more than so many blocks on an SM; L1 is what these leave of its memory."""
        self.resident = blocks_per_sm
        self.in_flight = min(self.call.blocks, self.sms * blocks_per_sm)
        self.l1_bytes = l1_bytes(self.machine, blocks_per_sm, self.static_shared_bytes, self.call)

    def single(self, block: int) -> Counts:
        """Run a block by itself, with an L1 of its own, and keep its footprint."""
        self.fresh_l1(1.0)
        self.emulator.forget()
        counts = self.counted([block])
        self.footprints[block] = self.footprint()
        return counts

    def singles(self, blocks: list[int]) -> list[Counts]:
        """Run blocks one by one, each by itself."""
        return self._shared_out([[block] for block in blocks], lambda runner, group: runner.single(group[0]))

    def batches(self, groups: list[list[int]]) -> list[Counts]:
        """Run groups of blocks, each side by side, without caches; return the sum of the counts of each group."""
        return self._shared_out(groups, Runner.batch)

    def _shared_out(self, groups: list[list[int]], one: Callable[[Runner, list[int]], Counts]) -> list[Counts]:
        """Run groups of blocks, by two threads that each take the next one: compiled code releases Python's lock.

        The counts of a group do not depend on those before it, nor does anything on which of the two is faster.
        """
        if not self.is_two or len(groups) < 2:
            return [one(self, group) for group in groups]
        before, left = dict(self.work), iter(range(len(groups)))
        twin = self._second()
        twin.most_blocks = self.most_blocks
        counts: list[Counts] = [np.zeros(0)] * len(groups)
        wrong: dict[int, BaseException] = {}

        def run(runner: Runner) -> None:
            for i in left:
                if any(k < i for k in wrong):
                    return
                try:
                    counts[i] = one(runner, groups[i])
                except BaseException as error:
                    wrong[i if isinstance(error, Exception) else -1] = error

        second = self._thread.submit(run, twin)
        try:
            run(self)
            twin.emulator.stopped = any(k < 0 for k in wrong)
            if not second.cancel():
                second.result()
                self._take_over(twin)
        except BaseException:
            twin.emulator.stopped = True
            raise
        if wrong:
            raise wrong[min(wrong)]
        self.work = before | {block: self.work[block] for group in groups for block in group}
        return counts

    @property
    def is_two(self) -> bool:
        """True if a second thread, with memory of its own, is worth it."""
        return self.costly and self.fits_twice

    def beside(self, blocks: list[int], before: list[int], l2_bytes: float) -> Callable[[], Together]:
        """Begin to run the blocks of an SM in a thread of its own; return the function that waits for it (`on_sm`)."""
        twin = self._second() if self.is_two else self
        task = self._thread.submit(twin.on_sm, blocks, before, l2_bytes) if self.is_two else None  # before any other

        def wait() -> Together:
            together, work = task.result() if task else self.on_sm(blocks, before, l2_bytes)
            if task:
                self._take_over(twin)
            self.work |= work
            return together

        return wait

    @cached_property
    def _twin(self) -> Runner:
        return Runner(*self._parts)

    def _second(self) -> Runner:
        """Return the second thread's runner."""
        self._twin.limit(self.resident)
        self._twin.emulator.stopped = False
        return self._twin

    def _take_over(self, twin: Runner) -> None:
        """Add what the other one counted to what is counted here."""
        self.footprints |= twin.footprints
        self.work |= twin.work
        self.accesses += twin.accesses
        self.arrays = np.maximum(self.arrays, twin.arrays)
        for name in ("executed", "unknown_executed", "assumed_accesses"):
            setattr(self.emulator, name, getattr(self.emulator, name) + getattr(twin.emulator, name))
            setattr(twin.emulator, name, 0)
        self.emulator.beyond |= twin.emulator.beyond
        twin.accesses = 0.0
        twin.footprints, twin.work = {}, {}

    def batch(self, blocks: list[int]) -> Counts:
        """Run blocks side by side, without caches; return the sum of their counts."""
        total: Counts = np.zeros(self.emulator.stats.shape)
        self.without_caches()
        for start in range(0, len(blocks), self.most_blocks):
            part = blocks[start : start + self.most_blocks]
            self.emulator.forget()
            total += self.counted(part)
        return total

    def side_by_side(self, blocks: list[int], sectors: float) -> Counts:
        """Run blocks at once, each on an SM of its own, before one L2 that keeps what they read: so much each."""
        work = dict(self.work)
        self.fresh_l1(1 / self.resident, len(blocks))
        self.part_of_l2(4.0 * SECTOR_BYTES * sectors * len(blocks))
        self.emulator.forget()
        counts = self.counted(blocks, list(range(len(blocks))))
        self.part_of_l2(0)
        self.footprint()
        self.work = work  # they are no sample of the grid
        return counts

    def footprint(self) -> Block:
        """Return what was touched beyond L1 since the last time."""
        return of_block(self.emulator.pages, self.emulator.touched)

    def measure_memory(self, affordable: float) -> int:
        """Return how many blocks fit into memory, if each touches as much as the one that has just run.

        `affordable`: so many may run at all.
        """
        touched, all_pages = int(self.emulator.pages.table[-1]), len(self.emulator.pages.table)
        fitting = self.call.blocks if all_pages <= _PAGES else _PAGES // max(1, touched)
        per_block = -(-self.call.threads_per_block // 32)
        row_bytes = per_block * 128 * (self.emulator.code.row_count + len(self.emulator.pool))
        self.most_blocks = max(1, min((256 << 20) // row_bytes, fitting))
        self.fits_twice = min(all_pages, touched * min(_RANDOM, affordable)) <= _PAGES // 2
        self.pages_effort = float(ACCESS_EFFORT * LINE_EFFORT * touched)
        return fitting

    def counted(self, blocks: list[int], sms: list[int] | None = None) -> Counts:
        """Run blocks on these SMs; return their counts."""
        self.emulator.stats[:] = 0
        before = len(self.emulator.work)
        self.emulator.run(blocks, sms)
        work, times = dict.fromkeys(blocks, 0.0), Counter(blocks)  # random blocks may come twice
        for block, instructions in self.emulator.work[before:]:
            work[block] += instructions / times[block]
        self.work |= work
        self.accesses += float(self.emulator.stats[:, layout.REQUESTS].sum())
        self.arrays = np.maximum(self.arrays, self.emulator.stats[:, layout.ARRAY])
        return self.emulator.stats.astype(np.float64)

    def fresh_l1(self, share: float, count: int = 1) -> None:
        """Empty L1: a share of it, for each of so many SMs."""
        size = max(16 << 10, int(self.l1_bytes * share)) if self.l1_bytes else 0  # 0: two lines, which keep nothing
        self.emulator.caches = new_cache(count, size, _L1_ASSOCIATIVITY), self.emulator.caches[1]

    def part_of_l2(self, size_bytes: float) -> None:
        """Put an empty L2 of this size behind L1; of none, nothing is looked up there."""
        l2 = new_cache(1, int(size_bytes), _L2_ASSOCIATIVITY, 64) if size_bytes else new_cache(0, 0, 1)
        self.emulator.caches = self.emulator.caches[0], l2

    def without_caches(self) -> None:
        """Run without caches, which is faster."""
        self.emulator.caches = new_cache(0, 0, 1), new_cache(0, 0, 1)

    def on_sm(self, blocks: list[int], before: list[int], l2_bytes: float) -> tuple[Together, dict[int, float]]:
        """Run the blocks of an SM with its part of L2, and its L1, in which is what the blocks before them left.

        Return them, and the instructions of each block that ran.
        """
        kept, self.work = self.work, {}
        self.fresh_l1(len(blocks) / self.resident)
        self.emulator.forget()
        if before:
            self.counted(before)
            self.footprint()
        self.part_of_l2(l2_bytes)
        counts, paths, path_of_warp, work = self.followed(blocks)
        self.part_of_l2(0)
        ran, self.work = self.work, kept
        return Together(counts, blocks, paths, path_of_warp, work, self.footprint(), self.l1_bytes), ran

    def followed(self, blocks: list[int]) -> tuple[Counts, list[Path], list[list[int]], dict[int, float]]:
        """Run blocks side by side; return their counts, paths, the path of each warp, and instructions per block."""
        self.keep_trace(True)
        self.emulator.work.clear()
        counts = self.counted(blocks)
        paths, path_of_warp = self.paths(blocks)
        work = dict.fromkeys(blocks, 0.0)
        for block, instructions in self.emulator.work:
            work[block] += instructions
        self.keep_trace(False)
        return counts, paths, path_of_warp, work

    def paths(self, blocks: list[int]) -> tuple[list[Path], list[list[int]]]:
        """Return the paths of the blocks that have just run, and the path of each warp."""
        per_block = -(-self.call.threads_per_block // 32)
        if self.emulator.traced > len(self.emulator.trace):
            return [], []
        paths, of_warp = paths_of(self.emulator.trace[: self.emulator.traced], per_block * len(blocks))
        whole = len(of_warp) // per_block
        return paths, [of_warp[i * per_block : (i + 1) * per_block] for i in range(whole)]

    def keep_trace(self, yes: bool) -> None:
        """Keep the runs of the next blocks, or not."""
        self.emulator.trace = _trace()[: _TRACE_ROWS if yes else 0]


def l1_bytes(machine: Machine, blocks_per_sm: int, static_shared_bytes: int, call: KernelCall) -> int:
    """Return what is left of an SM's memory for L1 when its blocks have their shared memory, and what is reserved."""
    whole = machine.cache.l1_bytes
    if whole is None:
        return 0
    per_block = static_shared_bytes + call.dynamic_shared_bytes
    need = blocks_per_sm * (per_block + (machine.sm.shared_reserved_bytes or 0))
    if not need:
        return int(whole)
    steps = machine.sm.shared_steps_bytes or [machine.sm.shared_bytes or 0]
    return int(whole - next((s for s in sorted(steps) if s >= need), max(steps)))


def _joined(runs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the runs of one warp, joined where one goes on where another stopped."""
    begins = np.ones(len(runs), np.bool_)
    begins[1:] = runs[1:, 0] != runs[:-1, 1]
    return np.stack([runs[begins, 0], runs[np.roll(begins, -1), 1]], axis=1)


@entry
def _repeats(runs: Any, out: Any, longest: int) -> int:
    """Find what repeats of runs, a word each: rows of (start, length, times) in `out`; return how many."""
    n = runs.shape[0]
    i = 0
    count = 0
    while i < n:
        best, best_times = 1, 1
        for period in range(1, min(longest, (n - i) // 2) + 1):
            same = 0
            while i + period + same < n and runs[i + same] == runs[i + period + same]:
                same += 1
            times = 1 + same // period
            if times > 1 and times * period > best * best_times:
                best, best_times = period, times
        out[count, 0], out[count, 1], out[count, 2] = i, best, best_times
        count += 1
        i += best * best_times
    return count


def _segments(runs: npt.NDArray[np.int32]) -> list[Segment]:
    """Return the segments of a path; single runs that follow one another make one."""
    found = np.zeros((len(runs), 3), np.int64)
    segments: list[Segment] = []
    alone = 0  # where the single runs begin that are not in a segment yet

    def keep(start: int, end: int, times: int) -> None:
        if end > start:
            firsts, stops = runs[start:end].T.tolist()
            segments.append(Segment(list(zip(firsts, stops, strict=True)), times))

    words = runs.view(np.int64).reshape(-1)
    for start, length, times in found[: _repeats(words, found, _LONGEST_PERIOD)].tolist():
        if times > 1:
            keep(alone, start, 1)
            keep(start, start + length, times)
            alone = start + length * times
    keep(alone, len(runs), 1)
    return segments


def paths_of(trace: npt.NDArray[np.int32], warps: int) -> tuple[list[Path], list[int]]:
    """Return the distinct paths, and the path of each warp; warps behind the most segments that are kept have none."""
    known, noted = dict[bytes, int](), dict[bytes, int]()
    paths, times, of_warp = list[list[Segment]](), list[int](), list[int]()
    order = np.argsort(trace[:, 0], kind="stable")
    sorted_runs = np.ascontiguousarray(trace[order, 1:])
    bounds = np.searchsorted(trace[order, 0], np.arange(warps + 1)).tolist()
    count = 0
    for start, end in pairwise(bounds):
        mine = sorted_runs[start:end]
        as_noted = mine.tobytes()
        if as_noted not in noted:
            runs = _joined(mine)
            key = runs.tobytes()
            if key not in known:
                segments = _segments(runs)
                count += len(segments)
                if count > _MOST_SEGMENTS and paths:
                    break
                known[key] = len(paths)
                paths.append(segments)
                times.append(0)
            noted[as_noted] = known[key]
        times[noted[as_noted]] += 1
        of_warp.append(noted[as_noted])
    return [Path(segments, warps) for segments, warps in zip(paths, times, strict=True)], of_warp
