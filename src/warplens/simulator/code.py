"""Code as the engine takes it: instructions as arrays, and the path of each warp through them.

Programs with control codes, dependence graphs, listings and mixes all become this. An instruction waits for slots: a
scoreboard where there are control codes, a register or another instruction where there are none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

# A loop keeps so many iterations at least, two if they are longer than this together.
ITERATIONS, ITERATION_INSTRUCTIONS = 4, 1024


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One instruction. Latencies and intervals in cycles; `waits` are slots, each with cycles to add to its time."""

    label: str
    line: int | None = None  # of the source or the listing
    pipe: int = -1
    kind: int = at.FIXED
    reason: int = at.WAIT  # the stall reason of its consumers
    issue_cycles: float = 1.0  # of the issue port
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


class WarpPath(Struct, frozen=True, dict=True):
    """Path of a warp: sequences of straight runs (first, one behind the last), each so often in a row."""

    segments: list[tuple[list[tuple[int, int]], int]]

    @cached_property
    def instructions(self) -> int:
        """Instructions from start to end."""
        return sum(times * _size(runs) for runs, times in self.segments)

    def sampled(self, numbers: Sequence[int], shares: Sequence[float]) -> WarpPath:
        """Return a part of the path: of each sequence of runs a share of its times, spread evenly over the path.

        `numbers`: which of the shares is that of each segment's sequence.
        """
        segments, seen = [], Counter[int]()
        for (runs, times), number in zip(self.segments, numbers, strict=True):
            so_far, share = seen[number], shares[number]
            seen[number] += times
            left = math.ceil((so_far + times) * share - 1e-9) - math.ceil(so_far * share - 1e-9)
            if left:
                segments.append((runs, left))
        return WarpPath(segments)

    def part(self, first: int, stop: int) -> WarpPath:
        """Return the path from one of its instructions to before another."""
        segments, passed = list[tuple[list[tuple[int, int]], int]](), 0
        for runs, times in self.segments:
            size = _size(runs)
            begin, end = max(0, first - passed), min(times * size, stop - passed)
            passed += times * size
            while begin < end:
                within = begin % size
                if not within and end - begin >= size:
                    segments.append((runs, (end - begin) // size))
                    begin += (end - begin) // size * size
                    continue
                behind = min(size, within + end - begin)
                segments.append((_cut(runs, within, behind), 1))
                begin += behind - within
        return WarpPath(segments)


def _size(runs: Iterable[tuple[int, int]]) -> int:
    return sum([stop - first for first, stop in runs])


def _cut(runs: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the part of straight runs from one of their instructions to before another."""
    part, passed = list[tuple[int, int]](), 0
    for first, stop in runs:
        low, high = max(first, first + begin - passed), min(stop, first + end - passed)
        if low < high:
            part.append((low, high))
        passed += stop - first
    return part


class Code(Struct, frozen=True, kw_only=True, dict=True):
    """Instructions and paths. `blocks` has for each kind of block the path of each of its warps.

    With `streams` above one every warp has so many paths, one per pipeline, that only their dependences join.
    """

    name: str
    steps: list[Step]
    paths: list[WarpPath]
    blocks: list[list[int]]
    streams: int = 1
    bodies: float = 1.0  # repetitions of a workload's body that one path makes (steady state)
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
        length = [sum(p.instructions for p in self.paths[k * self.streams : (k + 1) * self.streams])
                  for k in range(len(self.paths) // self.streams)]  # fmt: skip
        return sum(length[k] for block in self.blocks for k in block) / len(self.blocks)

    @cached_property
    def sequences(self) -> tuple[list[int], list[list[int]]]:
        """Instructions of each sequence of runs that comes anywhere, and for each path which of them it follows."""
        known: dict[tuple[tuple[int, int], ...], int] = {}
        numbers = [[known.setdefault(tuple(runs), len(known)) for runs, _ in path.segments] for path in self.paths]
        return [_size(runs) for runs in known], numbers

    @cached_property
    def counts(self) -> Floats:
        """Executions of each instruction by one block of each kind."""
        found = np.zeros(len(self.steps) + 1)  # by how much it is more often than the one before
        for kind, warps in Counter(k for block in self.blocks for k in block).items():
            for path in self.paths[kind * self.streams : (kind + 1) * self.streams]:
                for runs, times in path.segments:
                    for first, stop in runs:
                        found[first] += warps * times
                        found[stop] -= warps * times
        return np.cumsum(found)[:-1]

    def executed(self) -> Floats:
        """Return how often a block makes each instruction, mean over the kinds of blocks, scaled to the grid's mean."""
        mean = self.block_instructions
        return self.counts / len(self.blocks) * (self.grid_mean or mean) / mean


class StepArrays(Struct, frozen=True):
    """Instructions as the engine's records, in the order of its arguments."""

    steps: Any
    sources: Any
    results: Any


class PathArrays(Struct, frozen=True):
    """Paths of warps as the engine's records, in the order of its arguments."""

    path_at: Ints
    segments: Any
    runs: Any
    warp_paths: Ints


# Fields of the engine's record of an instruction, with their names here where these differ.
_COLUMNS = (
    "pipe", "kind", "yields", "both", "pairs", "reason", "stall", "latency", "read", "passes", "l2_bytes", "dram_bytes",
    "l2_cycles", "dram_cycles", "l1_hit", "l2_hit", "branch", "late", "sends", "enters", "moves",
)  # fmt: skip
_OF_STEP = {"holds": "issue_cycles", **{name: name for name in _COLUMNS}}
_OF_OPERANDS = {"apart": "double", "made": "result_cycles",
                **{name: name for name in ("even", "odd", "extra", "writes", "rows")}}  # fmt: skip
_LAST: list[tuple[Sequence[Step], StepArrays]] = []  # the engine and the fluid one ask for the same steps


def step_arrays(steps: Sequence[Step]) -> StepArrays:
    """Return instructions as the engine's records, which it does not change."""
    for known, arrays in _LAST:
        if known is steps:
            return arrays
    records = at.rows(at.STEP, len(steps))
    _fill(records, _OF_STEP, steps)
    _fill(records, _OF_OPERANDS, [x.operands for x in steps])
    records["room"] = at.ROOM[records.kind]
    records.takes = [x.takes or x.passes for x in steps]
    results = [_results(x.values, x.reads, x.moved) for x in steps]
    records.sources_end = np.cumsum([len(x.waits) for x in steps])
    records.results_end = np.cumsum([len(r) for r in results])
    records.sources[1:], records.results[1:] = records.sources_end[:-1], records.results_end[:-1]
    arrays = StepArrays(
        records,
        _table(at.SOURCE, [wait for x in steps for wait in x.waits]),
        _table(at.RESULT, [pair for r in results for pair in r]),
    )
    _LAST[:] = [(steps, arrays)]
    return arrays


def _fill(records: Any, fields: Mapping[str, str], rows: Iterable[Any]) -> None:
    """Write attributes of some rows into fields of records; most instructions are like others."""
    known: dict[tuple[Any, ...], int] = {}
    values = map(attrgetter(*fields.values()), rows)
    which = np.array([known.setdefault(row, len(known)) for row in values], np.int64)
    for name, column in zip(fields, zip(*known, strict=True), strict=False):
        records[name] = np.array(column)[which]


@cache
def _results(values: tuple[int, ...], reads: tuple[int, ...], moved: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the slots that an instruction gives a time to, and which time."""
    kinds = (at.VALUE, values), (at.SOURCES_READ, reads), (at.MOVED, moved)
    return [(slot, kind) for kind, slots in kinds for slot in slots]


def path_arrays(code: Code) -> PathArrays:
    """Return the paths of warps as the engine's records; refuse code that it cannot run."""
    _check(code)
    path_at, segments, runs = [0], list[tuple[int, int, int]](), list[tuple[int, int]]()
    for path in code.paths:
        for sequence, times in path.segments:
            segments.append((len(runs), len(runs) + len(sequence), times))
            runs += sequence
        path_at.append(len(segments))
    blocks = np.array(code.blocks, np.int64)
    return PathArrays(np.array(path_at, np.int64), _table(at.SEGMENT, segments), _table(at.RUN, runs), blocks)


def _table(kind: np.dtype[Any], values: Sequence[tuple[float, ...]]) -> Any:
    return np.array(values, kind).view(np.recarray)


def _check(code: Code) -> None:
    """Refuse code without warps or instructions, blocks of different sizes, and paths that leave the code."""
    count, most = len(code.steps), len(code.paths) // code.streams
    runs = [(*run, times) for path in code.paths for sequence, times in path.segments for run in sequence]
    refused = {
        "no warps to simulate": not code.blocks or not code.blocks[0],
        "no instructions to simulate": not count or not any(path.instructions for path in code.paths),
        "blocks of different sizes": len({len(block) for block in code.blocks}) > 1,
        "a block names a path that is not there": any(not 0 <= k < most for block in code.blocks for k in block),
        "a path leaves the code": any(not 0 <= a < b <= count or times < 1 for a, b, times in runs),
    }
    for reason, found in refused.items():
        if found:
            raise WarplensError(f"{code.name}: {reason}")


def straight(steps: list[Step], times: int = 1) -> WarpPath:
    """Return the path through all steps in order, so many times."""
    return WarpPath([([(0, len(steps))], times)])


def sampled(code: Code, share: float, length: int = 1) -> Code:
    """Return the code with a part of every path: of each loop this share of its iterations.

    A loop is a sequence of runs, wherever it comes; where it comes most often it keeps `length` times a few iterations
    at least. What comes no more than six times as often on any path stays whole, and so does what comes once.
    """
    sizes, numbers = code.sequences
    most, shares = Counter[int](), list[float]()
    for path, of_path in zip(code.paths, numbers, strict=True):
        iterations = Counter[int]()
        for number, (_, times) in zip(of_path, path.segments, strict=True):
            iterations[number] += times
        most |= iterations
    for number, size in enumerate(sizes):
        least = max(ITERATIONS // 2, min(ITERATIONS, ITERATION_INSTRUCTIONS // max(1, size)))
        times = most[number]
        shares.append(1.0 if times <= 6 * least else min(1.0, max(share, length * least / times)))
    return replace(code, paths=[path.sampled(n, shares) for path, n in zip(code.paths, numbers, strict=True)])


def first_part(code: Code, share: float) -> Code:
    """Return the code with the first part of every path, a share of its instructions."""
    return replace(code, paths=[p.part(0, max(1, round(p.instructions * share))) for p in code.paths])


def in_midst(code: Code, resident: int, further: int) -> Code:
    """Return the code for so many blocks that are spread evenly over their paths, the first one farthest on.

    So many whole blocks come behind them.
    """
    kinds, paths, blocks = len(code.blocks), list(code.paths), list[list[int]]()
    for k in range(resident):
        left: dict[int, int] = {}
        for w in code.blocks[k % kinds]:
            if w not in left:
                length = code.paths[w].instructions
                left[w] = len(paths)
                paths.append(code.paths[w].part(length - math.ceil(length * (k + 0.5) / resident), length))
        blocks.append([left[w] for w in code.blocks[k % kinds]])
    return replace(code, paths=paths, blocks=blocks + [code.blocks[(resident + i) % kinds] for i in range(further)])
