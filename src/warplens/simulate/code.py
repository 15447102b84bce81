"""What is simulated: instructions as arrays, and the way of each warp through them.

Programs with control codes, dependence graphs, listings and mixes all become this. What an instruction waits for is a
slot: a scoreboard where there are control codes, a register or another instruction where there are none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from warplens.errors import WarplensError
from warplens.simulate import layout as at

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


LONG_TURNS = 24  # loops up to so many turns are never cut


class Step(Struct, frozen=True, kw_only=True):
    """One instruction. Latencies and intervals in cycles; `waits` are slots, each with cycles to add to its time."""

    label: str
    pipe: int = -1
    kind: int = at.FIXED
    reason: int = at.WAIT  # what its consumers say they wait for
    holds: float = 1.0  # cycles of the issue port
    stall: float = 1.0  # cycles until the warp may issue its next instruction
    latency: float = 0.0
    read: float = 0.0
    passes: float = 1.0
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0
    l1_hit: float = 0.0
    l2_hit: float = 0.0
    branch: float = 0.0  # cycles until the instruction behind a branch is there
    pairs: bool = False  # may issue together with the one before
    waits: tuple[tuple[int, float], ...] = ()
    values: tuple[int, ...] = ()  # slots that its result releases
    reads: tuple[int, ...] = ()  # slots that are released when its sources have been read
    bank_reads: tuple[int, int] = (0, 0)
    bank_writes: tuple[int, int] = (0, 0)


class Way(Struct, frozen=True):
    """The way of a warp: sequences of straight runs (first, one behind the last), each so often in a row."""

    segments: list[tuple[list[tuple[int, int]], int]]

    @property
    def instructions(self) -> int:
        """Instructions from start to end."""
        return sum(times * sum(stop - first for first, stop in runs) for runs, times in self.segments)

    def shortened(self, turns: int, share: float) -> Way:
        """Return the way with long sequences cut to a share of their times, but to so many turns at least.

        Sequences that come no more than three times as often as `turns` asks for stay whole.
        """
        cut = [
            (runs, times if times <= LONG_TURNS else max(turns, round(times * share))) for runs, times in self.segments
        ]
        return Way(cut)


class Code(Struct, frozen=True, kw_only=True):
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
    notes: list[str] = []

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return len(self.blocks[0])


class Arrays(Struct, frozen=True):
    """The engine's view of a code, in the order of its arguments."""

    code: Ints
    timing: Floats
    sources: Ints
    deltas: Floats
    results: Ints
    result_kinds: Ints
    path_at: Ints
    segments: Ints
    runs: Ints
    warp_paths: Ints


def arrays(code: Code) -> Arrays:
    """Lay a code out for the engine."""
    _check(code)
    steps = code.steps
    whole = np.zeros((len(steps), at.INSTRUCTION_COLUMNS), np.int64)
    timing = np.zeros((len(steps), at.TIMING_COLUMNS))
    sources: list[tuple[int, float]] = []
    results: list[tuple[int, int]] = []
    for i, x in enumerate(steps):
        first, behind = len(sources), len(results)
        sources += x.waits
        results += [(slot, at.VALUE) for slot in x.values] + [(slot, at.SOURCES_READ) for slot in x.reads]
        whole[i] = (
            x.pipe, x.kind, first, len(sources), behind, len(results), x.pairs, x.reason, *x.bank_reads, *x.bank_writes,
        )  # fmt: skip
        timing[i] = (
            x.holds, x.stall, x.latency, x.read, x.passes, x.l2_bytes, x.dram_bytes, x.l1_hit, x.l2_hit, x.branch,
        )  # fmt: skip
    path_at, segments, runs = [0], list[tuple[int, int, int]](), list[tuple[int, int]]()
    for way in code.ways:
        for sequence, times in way.segments:
            segments.append((len(runs), len(runs) + len(sequence), times))
            runs += sequence
        path_at.append(len(segments))
    return Arrays(
        whole, timing,
        np.array([slot for slot, _ in sources], np.int64), np.array([delta for _, delta in sources], np.float64),
        np.array([slot for slot, _ in results], np.int64), np.array([kind for _, kind in results], np.int64),
        np.array(path_at, np.int64), np.array(segments, np.int64).reshape(-1, 3),
        np.array(runs, np.int64).reshape(-1, 2), np.array(code.blocks, np.int64),
    )  # fmt: skip


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


def shortened(code: Code, turns: int, share: float) -> Code:
    """Return the code with every way cut (`Way.shortened`)."""
    return replace(code, ways=[way.shortened(turns, share) for way in code.ways])
