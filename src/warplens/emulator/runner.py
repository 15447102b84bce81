"""Runner of a call's blocks with the caches of a machine: alone, side by side, on one SM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, cached_property
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warplens.emulator import layout, ops
from warplens.emulator.cache import new_cache
from warplens.emulator.emulator import Emulator
from warplens.emulator.engine import ACCESS_EFFORT, LINE_EFFORT
from warplens.emulator.footprint import SECTOR_BYTES, Block, of_block
from warplens.emulator.paths import paths_of
from warplens.emulator.sample import Counts
from warplens.emulator.slicing import as_seen
from warplens.machine import Machine, check_grid, occupancy
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path

_PAGES = 1 << 18  # of memory that blocks may touch together: 256 MiB
# An H200 keeps 215 KiB that it reads in a circle, 74 % of 256 KiB, 15 % of 304 KiB, none of 362 KiB
# (data/h200/journal/measured.jsonl.xz, chase.l1): what was used longest ago goes, and sets are small.
_L1_WAYS = 4
_L2_WAYS = 16
_TRACE_ROWS = 2_000_000
_DRAWN = 64  # blocks that run side by side, at most, when some are drawn by chance


@cache
def _trace() -> npt.NDArray[np.int32]:
    """Room for the runs of the blocks that run now: rows are written before they are read, so that all can share it."""
    return np.empty((_TRACE_ROWS, 3), np.int32)


class _Task:
    """Something that a thread of its own runs when it has its turn, unless it is dropped before."""

    def __init__(self, turn: Lock, run: Callable[[], None], *, has_turn: bool = False) -> None:
        self._turn, self._run, self._has_turn = turn, run, has_turn
        self._begun, self._wrong = Lock(), list[BaseException]()
        self._thread = Thread(target=self._take_turn)
        self._thread.start()

    def _take_turn(self) -> None:
        if not self._has_turn:
            self._turn.acquire()
        try:
            if self._begun.acquire(blocking=False):
                self._run()
        except BaseException as error:
            self._wrong.append(error)
        finally:
            self._turn.release()

    def is_dropped(self) -> bool:
        """Drop it if it has not begun; return whether that is so."""
        return self._begun.acquire(blocking=False)

    def wait(self) -> None:
        """Wait for its end; raise what it raised."""
        self._thread.join()
        for error in self._wrong:
            raise error


class OnSm(NamedTuple):
    """The blocks of one SM, run together: their counts, ways, the way of each warp, instructions of each, footprint."""

    counts: Counts
    paths: list[Path]
    ways: list[list[int]]
    work: list[float]
    work_of: dict[int, float]  # also of those that ran before them
    footprint: Block


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
        self._made_of = program, call, machine
        self.sms = int(machine.chip.sm_count)
        self.hold(min(fits.blocks_per_sm, -(-call.blocks // self.sms)))
        caches = new_cache(1, self.l1_bytes, _L1_WAYS), new_cache(0, 0, 1)
        self.emulator = Emulator(program, call, caches, values=False)
        self.footprints: dict[int, Block] = {}
        self.most_blocks = 1  # side by side, once `see_room` was called
        self.has_room_for_two = False  # likewise
        self.pages_effort = 0.0  # what it takes to make the pages that a block touches, in instructions; likewise
        self.costly = False  # a second thread is worth its memory
        self._turn = Lock()  # of the second thread's tasks
        self.work: dict[int, float] = {}  # instructions of each block that ran
        self.accesses = 0.0
        self.arrays = np.zeros(len(program.instructions))  # the number of the array that each touches, and one
        self.threads: tuple[npt.NDArray[np.int64], Counts] | None = None  # see `see_less`

    def see_less(self, seen: Counts) -> None:
        """Let further blocks ask less of data than those did that were counted: see `as_seen`.

        So many of the threads as there take part in each execution of what is not asked for any more; all that come to
        what was not executed there.
        """
        before = self.emulator.code
        self.emulator.code = as_seen(before, self._made_of[0], seen[:, layout.EXECUTED], self.emulator.pointers)
        changed = before.table[:, ops.GUARD] != self.emulator.code.table[:, ops.GUARD]
        rows = np.flatnonzero(changed & (seen[:, layout.EXECUTED] > 0))
        self.threads = rows, seen[rows, layout.THREADS] / seen[rows, layout.EXECUTED]
        self._with_threads(seen)

    def _with_threads(self, counts: Counts) -> Counts:
        if self.threads is not None:
            rows, each = self.threads
            counts[rows, layout.THREADS] = each * counts[rows, layout.EXECUTED]
        return counts

    def hold(self, blocks_per_sm: int) -> None:
        """Have no more than so many blocks on an SM; L1 is what these leave of its memory."""
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

    def _shared_out(self, groups: list[list[int]], how: Callable[[Runner, list[int]], Counts]) -> list[Counts]:
        """Run groups of blocks, by two threads that each take the next one: compiled code does not hold Python's lock.

        What comes of a group does not depend on those before it, nor does anything on which of the two is faster.
        """
        if not self.is_two or len(groups) < 2:
            return [how(self, group) for group in groups]
        before, left = dict(self.work), iter(range(len(groups)))
        twin = self._second()
        twin.most_blocks = self.most_blocks
        made: list[Counts] = [np.zeros(0)] * len(groups)
        wrong: dict[int, BaseException] = {}

        def run(runner: Runner) -> None:
            for i in left:
                if any(k < i for k in wrong):
                    return
                try:
                    made[i] = how(runner, groups[i])
                except BaseException as error:
                    wrong[i if isinstance(error, Exception) else -1] = error

        second = _Task(self._turn, lambda: run(twin))
        try:
            run(self)
            twin.emulator.stopped = any(k < 0 for k in wrong)
            if not second.is_dropped():
                second.wait()
                self._take_over(twin)
        except BaseException:
            twin.emulator.stopped = True
            raise
        if wrong:
            raise wrong[min(wrong)]
        self.work = before | {block: self.work[block] for group in groups for block in group}
        return made

    @property
    def is_two(self) -> bool:
        """Whether a second thread, with memory of its own, is worth it."""
        return self.costly and self.has_room_for_two

    def beside(self, blocks: list[int], before: list[int], l2_bytes: float) -> Callable[[], OnSm]:
        """Begin to run the blocks of an SM in a thread of its own; return what waits for it. See `on_sm`."""
        if not self.is_two:
            return lambda: self.on_sm(blocks, before, l2_bytes)
        twin, made = self._second(), list[OnSm]()
        self._turn.acquire()  # before any other
        task = _Task(self._turn, lambda: made.append(twin.on_sm(blocks, before, l2_bytes)), has_turn=True)

        def wait() -> OnSm:
            task.wait()
            self._take_over(twin)
            return made[0]

        return wait

    @cached_property
    def _twin(self) -> Runner:
        return Runner(*self._made_of)

    def _second(self) -> Runner:
        """Return the second thread's runner, which runs the same code."""
        self._twin.emulator.code, self._twin.threads = self.emulator.code, self.threads
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

    def see_room(self, affordable: float) -> int:
        """See how many blocks have room for the memory that they touch, by what the one that has just run did.

        `affordable`: so many may be run at all.
        """
        touched, all_pages = int(self.emulator.pages.table[-1]), len(self.emulator.pages.table)
        room = self.call.blocks if all_pages <= _PAGES else _PAGES // max(1, touched)
        per_block = -(-self.call.threads_per_block // 32)
        row_bytes = per_block * 128 * (self.emulator.code.row_count + len(self.emulator.pool))
        self.most_blocks = max(1, min((256 << 20) // row_bytes, room))
        self.has_room_for_two = min(all_pages, touched * min(_DRAWN, affordable)) <= _PAGES // 2
        self.pages_effort = float(ACCESS_EFFORT * LINE_EFFORT * touched)
        return room

    def counted(self, blocks: list[int], sms: list[int] | None = None) -> Counts:
        """Run blocks on these SMs; return their counts."""
        self.emulator.stats[:] = 0
        before = len(self.emulator.work)
        self.emulator.run(blocks, sms)
        work, times = dict.fromkeys(blocks, 0.0), Counter(blocks)  # some were drawn more than once
        for block, instructions in self.emulator.work[before:]:
            work[block] += instructions / times[block]
        self.work |= work
        self.accesses += float(self.emulator.stats[:, layout.REQUESTS].sum())
        self.arrays = np.maximum(self.arrays, self.emulator.stats[:, layout.ARRAY])
        return self._with_threads(self.emulator.stats.astype(np.float64))

    def fresh_l1(self, share: float, count: int = 1) -> None:
        """Empty L1: a share of it, for each of so many SMs."""
        size = max(16 << 10, int(self.l1_bytes * share)) if self.l1_bytes else 0  # 0: two lines, which keep nothing
        self.emulator.caches = new_cache(count, size, _L1_WAYS), self.emulator.caches[1]

    def part_of_l2(self, size_bytes: float) -> None:
        """Have an empty L2 of this size behind L1; of none, nothing is looked up there."""
        l2 = new_cache(1, int(size_bytes), _L2_WAYS, 64) if size_bytes else new_cache(0, 0, 1)
        self.emulator.caches = self.emulator.caches[0], l2

    def without_caches(self) -> None:
        """Have no caches at all, which is faster."""
        self.emulator.caches = new_cache(0, 0, 1), new_cache(0, 0, 1)

    def on_sm(self, blocks: list[int], before: list[int], l2_bytes: float) -> OnSm:
        """Run the blocks of an SM with its L1, in which is what others left that ran before, and its part of L2."""
        work, self.work = self.work, {}
        self.fresh_l1(len(blocks) / self.resident)
        self.emulator.forget()
        if before:
            self.counted(before)
            self.footprint()
        self.part_of_l2(l2_bytes)
        followed = self.followed(blocks)
        self.part_of_l2(0)
        made = OnSm(*followed, self.work, self.footprint())
        self.work = work
        return made

    def followed(self, blocks: list[int]) -> tuple[Counts, list[Path], list[list[int]], list[float]]:
        """Run blocks side by side; return their counts, ways, the way of each warp, and instructions per block."""
        self.keep_trace(True)
        self.emulator.work.clear()
        counts = self.counted(blocks)
        made = self.ways(blocks)
        self.keep_trace(False)
        return counts, *made

    def ways(self, blocks: list[int]) -> tuple[list[Path], list[list[int]], list[float]]:
        """Return the ways of the blocks that have just run, the way of each warp, and instructions per block."""
        per_block = -(-self.call.threads_per_block // 32)
        by_block = dict.fromkeys(blocks, 0.0)
        for block, instructions in self.emulator.work:
            if block in by_block:
                by_block[block] += instructions
        work = [by_block[block] for block in blocks]
        if self.emulator.traced > len(self.emulator.trace):
            return [], [], work
        paths, of_warp = paths_of(self.emulator.trace[: self.emulator.traced], per_block * len(blocks))
        whole = len(of_warp) // per_block
        return paths, [of_warp[i * per_block : (i + 1) * per_block] for i in range(whole)], work

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
