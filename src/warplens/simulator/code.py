"""Code as the engine takes it: instructions as arrays, and the path of each warp through them.

Programs with control codes, dependence graphs, listings and mixes all become this. What an instruction waits for is a
slot: a scoreboard where there are control codes, a register or another instruction where there are none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.simulator import layout as at
from warplens.simulator.operands import Operands

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Runs = tuple[tuple[int, int], ...]  # straight runs, one behind the other


TURNS, TURN_INSTRUCTIONS = 4, 1024  # a loop keeps so many turns at least, two if they are longer than this together


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One instruction. Latencies and intervals in cycles; `waits` are slots, each with cycles to add to its time."""

    label: str
    line: int | None = None  # of the source or the listing
    pipe: int = -1
    kind: int = at.FIXED
    reason: int = at.WAIT  # what its consumers say they wait for
    holds: float = 1.0  # cycles of the issue port
    stall: float = 1.0  # cycles until the warp may issue its next instruction
    latency: float = 0.0
    read: float = 0.0
    passes: float = 1.0
    takes: float = 0.0  # passes of its unit, where its registers take longer to read; 0: as above
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0
    l2_cycles: float = 0.0  # of this SM's part of L2, of DRAM
    dram_cycles: float = 0.0
    l1_hit: float = 0.0
    l2_hit: float = 0.0
    branch: float = 0.0  # cycles until the instruction behind a branch is there
    late: float = 0.0  # cycles beyond the stall counts before a wide product has its operand
    sends: float = 0.0  # cycles in which a scheduler sends its registers to shared memory; 0: not known
    enters: float = 0.0  # cycles from then until its first wavefront
    moves: float = 0.0  # registers that a product of a warp group moves in each of its cycles
    beside: float = 0.0  # cycles of shared memory beside its own pipe: for bounds, the engine does not queue them
    yields: int = 1  # its warp lets the others go first
    pairs: bool = False  # may issue together with the one before
    waits: tuple[tuple[int, float], ...] = ()
    values: tuple[int, ...] = ()  # slots that its result releases
    reads: tuple[int, ...] = ()  # slots that are released when its sources have been read
    moved: tuple[int, ...] = ()  # slots that take over what the slot before them has, in this order
    operands: Operands = Operands()  # the registers that arithmetic reads, of each bank
    both: bool = False  # takes both halves of the cores


class Way(Struct, frozen=True, dict=True):
    """The way of a warp: sequences of straight runs (first, one behind the last), each so often in a row."""

    segments: list[tuple[list[tuple[int, int]], int]]

    @cached_property
    def instructions(self) -> int:
        """Instructions from start to end."""
        return sum(times * sum(stop - first for first, stop in runs) for runs, times in self.segments)

    def sampled(self, numbers: Sequence[int], shares: Sequence[float]) -> Way:
        """Return a part of the way: of each sequence of runs a share of its times, spread evenly over the way.

        `numbers`: which of the shares is that of each segment's sequence.
        """
        segments, seen = [], dict[int, int]()
        for (runs, times), number in zip(self.segments, numbers, strict=True):
            so_far, share = seen.get(number, 0), shares[number]
            seen[number] = so_far + times
            left = math.ceil((so_far + times) * share - 1e-9) - math.ceil(so_far * share - 1e-9)
            if left:
                segments.append((runs, left))
        return Way(segments)

    def first(self, instructions: int) -> Way:
        """Return the first part of the way, of so many instructions."""
        segments: list[tuple[list[tuple[int, int]], int]] = []
        left = instructions
        for runs, times in self.segments:
            size = sum(stop - first for first, stop in runs)
            if times * size <= left:
                segments.append((runs, times))
                left -= times * size
                continue
            if left // size:
                segments.append((runs, left // size))
                left -= left // size * size
            for first, stop in runs:
                if left > 0:
                    segments.append(([(first, min(stop, first + left))], 1))
                    left -= stop - first
            break
        return Way(segments)

    def behind(self, instructions: int) -> Way:
        """Return what is left of the way behind its first so many instructions."""
        segments: list[tuple[list[tuple[int, int]], int]] = []
        passed = instructions
        for runs, times in self.segments:
            turns, within = divmod(passed, sum(stop - first for first, stop in runs))
            passed = max(0, passed - times * sum(stop - first for first, stop in runs))
            left = times - turns
            if left > 0 and within:
                part = list[tuple[int, int]]()
                for first, stop in runs:
                    if within < stop - first:
                        part.append((first + within, stop))
                    within = max(0, within - (stop - first))
                segments.append((part, 1))
                left -= 1
            if left > 0:
                segments.append((runs, left))
        return Way(segments)


class Code(Struct, frozen=True, kw_only=True, dict=True):
    """Instructions and ways. `blocks` has for each kind of block the way of each of its warps.

    With `streams` above one every warp has so many ways, one per pipeline, that only their dependences join.
    """

    name: str
    steps: list[Step]
    ways: list[Way]
    blocks: list[list[int]]
    streams: int = 1
    bodies: float = 1.0  # repetitions of a workload's body that one way makes (steady state)
    steady: bool = False
    controlled: bool = False  # by control codes: jumps cost the time to fetch, barriers open with the stall count
    grid_mean: float | None = None  # instructions of a block, mean over the grid; None: over `blocks`
    notes: list[str] = []

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return len(self.blocks[0])

    @cached_property
    def block_instructions(self) -> float:
        """Instructions of a block, mean over the kinds of blocks."""
        length = [sum(w.instructions for w in self.ways[k * self.streams : (k + 1) * self.streams])
                  for k in range(len(self.ways) // self.streams)]  # fmt: skip
        return sum(length[w] for block in self.blocks for w in block) / len(self.blocks)

    @cached_property
    def sequences(self) -> tuple[list[int], list[list[int]]]:
        """Instructions of each sequence of runs that comes anywhere, and for each way which of them it goes."""
        known: dict[Runs, int] = {}
        numbers = [[known.setdefault(tuple(runs), len(known)) for runs, _ in way.segments] for way in self.ways]
        return [sum(stop - first for first, stop in runs) for runs in known], numbers

    def executed(self) -> Floats:
        """Return how often a block makes each instruction, mean over the kinds of blocks, scaled to the grid's mean."""
        found = np.zeros(len(self.steps) + 1)  # by how much it is more often than the one before
        for kind, times in Counter(w for block in self.blocks for w in block).items():
            for way in self.ways[kind * self.streams : (kind + 1) * self.streams]:
                for runs, turns in way.segments:
                    for first, stop in runs:
                        found[first] += times * turns
                        found[stop] -= times * turns
        mean = self.block_instructions
        return np.cumsum(found)[:-1] / len(self.blocks) * (self.grid_mean or mean) / mean


class StepArrays(Struct, frozen=True):
    """The engine's view of instructions: records, in the order of its arguments."""

    steps: Any
    sources: Any
    results: Any


class WayArrays(Struct, frozen=True):
    """The engine's view of the ways of warps, in the order of its arguments."""

    path_at: Ints
    segments: Any
    runs: Any
    warp_paths: Ints


_SAME = ("pipe", "kind", "yields", "both", "pairs", "reason", "holds", "stall", "latency", "read", "passes", "l2_bytes",
         "dram_bytes", "l2_cycles", "dram_cycles", "l1_hit", "l2_hit", "branch", "late",
         "sends", "enters", "moves")  # fmt: skip


_READS = ("even", "odd", "apart", "made", "extra", "writes", "rows")


_LAST: list[tuple[Sequence[Step], StepArrays]] = []  # the same steps are laid out for the engine and the fluid one


def lay_steps(steps: Sequence[Step]) -> StepArrays:
    """Lay instructions out for the engine, which does not change them."""
    for known, made in _LAST:
        if known is steps:
            return made
    _LAST[:] = [(steps, _laid(steps))]
    return _LAST[0][1]


def _laid(steps: Sequence[Step]) -> StepArrays:
    laid = at.rows(at.STEP, len(steps))
    alike, which = _alike(map(attrgetter(*_SAME), steps))
    for name, column in zip(_SAME, zip(*alike, strict=True), strict=False):
        laid[name] = np.array(column)[which]
    laid.room = at.ROOM[laid.kind]
    laid.takes = [x.takes or x.passes for x in steps]
    alike, which = _alike(map(attrgetter(*_READS), [x.operands for x in steps]))
    for name, column in zip(_READS, zip(*alike, strict=True), strict=True):
        laid[name] = np.array(column)[which]
    waits = [wait for x in steps for wait in x.waits]
    gives = [_given(x.values, x.reads, x.moved) for x in steps]
    laid.sources_end = np.cumsum([len(x.waits) for x in steps])
    laid.results_end = np.cumsum([len(g) for g in gives])
    laid.sources[1:], laid.results[1:] = laid.sources_end[:-1], laid.results_end[:-1]
    return StepArrays(laid, _table(at.SOURCE, waits), _table(at.RESULT, [pair for g in gives for pair in g]))


def _alike(rows: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Return the different ones of some rows, and which of them each row is: most instructions are like others."""
    known: dict[tuple[Any, ...], int] = {}
    which = np.array([known.setdefault(row, len(known)) for row in rows], np.int64)
    return list(known), which


@cache
def _given(values: tuple[int, ...], reads: tuple[int, ...], moved: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the slots that an instruction gives a time to, and which time."""
    kinds = (at.VALUE, values), (at.SOURCES_READ, reads), (at.MOVED, moved)
    return [(slot, kind) for kind, slots in kinds for slot in slots]


def lay_ways(code: Code) -> WayArrays:
    """Lay the ways of warps out for the engine."""
    _check(code)
    path_at, segments, runs = [0], list[tuple[int, int, int]](), list[tuple[int, int]]()
    for way in code.ways:
        for sequence, times in way.segments:
            segments.append((len(runs), len(runs) + len(sequence), times))
            runs += sequence
        path_at.append(len(segments))
    return WayArrays(
        np.array(path_at, np.int64), _table(at.SEGMENT, segments), _table(at.RUN, runs), np.array(code.blocks, np.int64)
    )


def _table(kind: np.dtype[Any], values: Sequence[tuple[float, ...]]) -> Any:
    return np.array(values, kind).view(np.recarray)


def _check(code: Code) -> None:
    """Refuse what the engine cannot run: no warps, no instructions, ways of different lengths."""
    if not code.blocks or not code.blocks[0]:
        raise WarplensError(f"{code.name}: no warps to simulate")
    if not code.steps or not any(way.instructions for way in code.ways):
        raise WarplensError(f"{code.name}: no instructions to simulate")
    if len({len(block) for block in code.blocks}) > 1:
        raise WarplensError(f"{code.name}: blocks of different sizes")
    most = len(code.ways) // code.streams
    if any(not 0 <= way < most for block in code.blocks for way in block):
        raise WarplensError(f"{code.name}: a block names a way that is not there")
    for way in code.ways:
        if any(not 0 <= a < b <= len(code.steps) or times < 1 for runs, times in way.segments for a, b in runs):
            raise WarplensError(f"{code.name}: a way leaves the code")


def straight(steps: list[Step], times: int = 1) -> Way:
    """Return the way through all steps in order, so many times."""
    return Way([([(0, len(steps))], times)])


def sampled(code: Code, share: float, length: int = 1) -> Code:
    """Return the code with a part of every way: of each loop this share of its turns.

    A loop is a sequence of runs, wherever it comes; where it comes most often it keeps `length` times a few turns at
    least. What comes no more than six times as often on any way stays whole, and so does what comes once.
    """
    sizes, numbers = code.sequences
    most, shares = [0] * len(sizes), list[float]()
    for way, of_way in zip(code.ways, numbers, strict=True):
        turns = dict[int, int]()
        for number, (_, times) in zip(of_way, way.segments, strict=True):
            turns[number] = turns.get(number, 0) + times
        for number, times in turns.items():
            most[number] = max(times, most[number])
    for size, times in zip(sizes, most, strict=True):
        least = max(TURNS // 2, min(TURNS, TURN_INSTRUCTIONS // max(1, size)))
        shares.append(1.0 if times <= 6 * least else min(1.0, max(share, length * least / times)))
    return replace(code, ways=[way.sampled(n, shares) for way, n in zip(code.ways, numbers, strict=True)])


def first_part(code: Code, share: float) -> Code:
    """Return the code with the first part of every way, a share of its instructions."""
    return replace(code, ways=[way.first(max(1, round(way.instructions * share))) for way in code.ways])


def in_midst(code: Code, resident: int, further: int) -> Code:
    """Return the code for so many blocks at places spread evenly over their ways, the first one farthest on.

    So many whole blocks come behind them.
    """
    kinds, ways, blocks = len(code.blocks), list(code.ways), list[list[int]]()
    for k in range(resident):
        left: dict[int, int] = {}
        for w in code.blocks[k % kinds]:
            if w not in left:
                length = code.ways[w].instructions
                left[w] = len(ways)
                ways.append(code.ways[w].behind(length - math.ceil(length * (k + 0.5) / resident)))
        blocks.append([left[w] for w in code.blocks[k % kinds]])
    return replace(code, ways=ways, blocks=blocks + [code.blocks[(resident + i) % kinds] for i in range(further)])
