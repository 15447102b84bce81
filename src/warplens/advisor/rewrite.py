"""Rewriting of warp traces: instructions dropped, repeated side by side, or executed once for several threads.

A trace is the sequence of segments that a warp executes. A remedy changes it; the code stays as it is, changed runs are
appended to it, and traces lead through them. The counts of the grid follow: an instruction that the traces have half as
often has half its counts. All functions return a new workload.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import cache, lru_cache
from itertools import accumulate
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from warplens.program.instruction import Instruction
from warplens.workload.profile import Path, Profile, Segment
from warplens.workload.workload import Workload

PER_EXECUTION = ("executed", "threads", "requests")  # columns that count executions; the others are data moved


class Copy(Struct, frozen=True):
    """An instruction of the original code in a rewritten run."""

    origin: int  # its number in the original code
    stall: int | None = None  # replaces the stall count
    waits: bool = True  # for its scoreboards
    carries: float = 1.0  # times the data of the original
    # A load from shared memory, the store there of a loaded value, a 32-bit address, a barrier.
    becomes: Literal["", "LDS", "STS", "IMAD", "BAR"] = ""
    passes: float | None = None  # times the wavefronts (None: as the data)
    mask: int | None = None  # replaces the scoreboards that it waits for
    board: int | None = None  # replaces the scoreboard of its result (-1: none)
    shares: bool = False  # an operand with the copies beside it, by the reuse cache


Run = tuple[Copy, ...]
Trace = list[tuple[list[Run], int]]  # straight runs in a row, and how often they are executed
Rewrite = Callable[[Path], Sequence[tuple[Trace, float]]]  # the traces that replace a path, each with a share of warps


def as_written(segment: Segment) -> list[Run]:
    """Return the runs of a segment unchanged."""
    return [_straight(first, stop) for first, stop in segment.runs]


@lru_cache(maxsize=4096)
def _straight(first: int, stop: int) -> Run:
    return tuple(Copy(i) for i in range(first, stop))


def rewritten(workload: Workload, rewrite: Rewrite) -> Workload:
    """Return the workload with every trace of a warp replaced."""
    profile = workload.profile
    assert profile is not None
    code = _AppendedCode(list(workload.code))
    paths, numbers = list[Path](), list[list[int]]()  # of all new paths, and those that replace each old one
    for path in profile.paths:
        traces = rewrite(path)
        numbers.append([])
        shares = _whole([share for _, share in traces], path.warps)
        for (trace, _), warps in zip(traces, shares, strict=True):
            numbers[-1].append(len(paths))
            segments = [Segment([code.range_of(r) for r in runs if r], n) for runs, n in trace if any(runs) and n > 0]
            paths.append(Path(segments, warps))
    blocks = [_assigned(block, numbers, paths) for block in profile.blocks]
    before, after = _executions(profile.paths), _executions(paths)
    new = replace(profile, paths=paths, blocks=blocks, counts=code.counts(profile, before, after))
    return workload.with_values(code=code.code, profile=_with_totals(new, profile))


class _AppendedCode:
    """The code with rewritten runs appended to it, equal runs once."""

    def __init__(self, code: list[Instruction]) -> None:
        self.code = code
        self.original = len(code)
        self.copies: list[Copy] = []
        self.range_of = cache(self._range_of)

    def _range_of(self, run: Run) -> tuple[int, int]:
        """Return the range of instructions that is a run; an unchanged one keeps its own."""
        first = run[0].origin
        if all(copy == Copy(first + k) for k, copy in enumerate(run)):
            return first, first + len(run)
        start = len(self.code)
        self.copies += run
        self.code += [_edited(self.code[copy.origin], copy) for copy in run]
        return start, len(self.code)

    def counts(self, profile: Profile, before: Counter[int], after: Counter[int]) -> dict[str, list[float]]:
        """Return the counts of all instructions: those of the original, in proportion to executions."""
        counts: dict[str, list[float]] = {}
        shares = [
            after[k] / before[c.origin] if before[c.origin] else 0.0 for k, c in enumerate(self.copies, self.original)
        ]
        for column, values in profile.counts.items():  # most are zero: few instructions access memory
            # What is on no trace stays as it is.
            old = [n * after[i] / before[i] if n and before[i] else n for i, n in enumerate(values)]
            new = [0.0] * len(self.copies)
            for k, (copy, share) in enumerate(zip(self.copies, shares, strict=True)):
                if copy.becomes or values[copy.origin]:
                    new[k] = _count(column, copy, profile) * share * _times(column, copy)
            counts[column] = old + new
        return counts


def _times(column: str, copy: Copy) -> float:
    """Return the data that a copy moves over the original's, by the column that counts them."""
    if column in PER_EXECUTION:
        return 1.0
    return copy.carries if copy.passes is None or column != "wavefronts" else copy.passes


def _count(column: str, copy: Copy, profile: Profile) -> float:
    """Return a count of a copy's original as what the copy has become: in shared memory no sectors, no conflicts."""
    i, counts = copy.origin, profile.counts
    if copy.becomes in ("LDS", "STS"):
        if column == "wavefronts":
            return max(counts["requests"][i], counts["useful_bytes"][i] / 128)
        return counts[column][i] if column in (*PER_EXECUTION, "useful_bytes") else 0.0
    if copy.becomes in ("BAR", "IMAD") and column not in ("executed", "threads"):
        return 0.0
    return counts[column][i]


_SOURCE = re.compile(r"(?<=, )R(\d+)(?![\d.])")


def _sharing(x: Instruction) -> Instruction:
    """Return an instruction that keeps operands of its last operand's bank in the reuse cache."""
    found = list(_SOURCE.finditer(x.text))
    if len(found) < 3:
        return x
    bank, text = int(found[-1][1]) % 2, x.text
    for m in reversed(found[:-1]):
        text = f"{text[: m.end()]}.reuse{text[m.end() :]}" if int(m[1]) % 2 == bank else text
    return replace(x, text=text)


def _edited(x: Instruction, copy: Copy) -> Instruction:
    """Return the instruction that a copy stands for."""
    control = x.control
    if copy.shares:
        x = _sharing(x)
    if copy.becomes == "BAR":
        plain = None if control is None else replace(control, write_scoreboard=None, read_scoreboard=None, wait_mask=0)
        return Instruction("BAR.SYNC", "BAR", "barrier", control=plain, line=x.line)
    if copy.becomes:
        kind = "int" if copy.becomes == "IMAD" else "shared"
        x = replace(x, opcode=copy.becomes, kind=kind, text=f"{copy.becomes} for {x.text}")
    if copy.becomes == "STS" and control is not None:  # waits for the load, gives no result
        loaded = 0 if control.write_scoreboard is None else 1 << control.write_scoreboard
        control = replace(control, write_scoreboard=None, read_scoreboard=None, wait_mask=loaded, stall=1, yields=False)
        return replace(x, writes=(), control=control)
    if control is None or (copy.stall is None and copy.waits and copy.mask is None):
        return x
    stall = control.stall if copy.stall is None else copy.stall
    mask = (control.wait_mask if copy.waits else 0) if copy.mask is None else copy.mask
    board = control.write_scoreboard if copy.board is None else None if copy.board < 0 else copy.board
    yields = control.yields and stall > 1  # no compiler asks for another warp behind one cycle
    return replace(x, control=replace(control, stall=stall, yields=yields, wait_mask=mask, write_scoreboard=board))


def _executions(paths: Sequence[Path]) -> Counter[int]:
    """Count how often the warps of these paths execute each instruction."""
    often, more = Counter[tuple[int, int]](), Counter[int]()  # of each run; than the instruction before
    for path in paths:
        for segment in path.segments:
            times = segment.times * path.warps
            for run in segment.runs:
                often[run] += times
    for (first, stop), times in often.items():
        more[first] += times
        more[stop] -= times
    return Counter(dict(enumerate(accumulate(more[i] for i in range(max(more, default=0))))))


def _whole(shares: Sequence[float], warps: int) -> list[int]:
    """Return whole numbers of warps by their shares, at least one each where there are enough."""
    total, numbers, done = sum(shares), [], 0.0
    for share in shares:
        upto = done + share / total * warps
        numbers.append(max(1, round(upto) - round(done)))
        done = upto
    return numbers


def _assigned(block: Sequence[int], numbers: Sequence[Sequence[int]], paths: Sequence[Path]) -> list[int]:
    """Return the new paths of a block's warps: where a path became several, in proportion to their shares."""
    assigned, seen = list[int](), Counter[int]()
    for old in block:
        new = numbers[old]
        left = (seen[old] + 0.5) / max(1, block.count(old)) * sum(paths[n].warps for n in new)
        seen[old] += 1
        for n in new:
            left -= paths[n].warps
            if left < 0 or n == new[-1]:
                assigned.append(n)
                break
    return assigned


def _with_totals(new: Profile, old: Profile) -> Profile:
    """Scale the instructions per block to the new executions."""
    before = old.total("executed")
    share = new.total("executed") / before if before else 1.0
    return replace(
        new,
        block_instructions=[share * n for n in old.block_instructions],
        sampled=[(block, share * n) for block, n in old.sampled],
    )


def dropped(workload: Workload, indices: set[int]) -> Workload:
    """Return the workload without these instructions."""
    return with_runs(workload, lambda run: without(run, indices, workload.code))


def with_runs(workload: Workload, change: Callable[[Run], Run]) -> Workload:
    """Return the workload with every run of every trace changed."""
    changed = cache(change)
    return with_segments(workload, lambda s: [([changed(run) for run in as_written(s)], s.times)])


def with_segments(workload: Workload, change: Callable[[Segment], Trace]) -> Workload:
    """Return the workload with every segment of every trace replaced."""
    return rewritten(workload, lambda path: [([part for s in path.segments for part in change(s)], 1.0)])


def on_average(times: float, trace: Callable[[int], Trace]) -> list[tuple[Trace, float]]:
    """Return traces by a whole number of iterations, with shares of warps that have so many on average."""
    more = times - math.floor(times)
    if not more:
        return [(trace(round(times)), 1.0)]
    return [(trace(math.floor(times)), 1 - more), (trace(math.ceil(times)), more)]


def without(run: Run, indices: set[int], code: Sequence[Instruction]) -> Run:
    """Return a run without some instructions: the next reader of what they waited for waits instead."""
    kept, awaited = list[Copy](), dict[str, int]()
    for copy in run:
        x = code[copy.origin]
        mask = x.control.wait_mask if x.control is not None and copy.waits else 0
        if copy.origin in indices:
            awaited |= {r: awaited.get(r, 0) | mask for r in x.reads if mask}
            continue
        more = mask
        for register in x.reads:
            more |= awaited.pop(register, 0)
        for register in x.writes:
            awaited.pop(register, None)
        kept.append(copy if more == mask else replace(copy, mask=more))
    return tuple(kept)


class Repeat(Struct, frozen=True):
    """An instruction where several iterations or threads are joined: its copies, and the data of each (`Copy`)."""

    copies: int
    carries: float = 1.0
    passes: float | None = None
    shares: bool = False


Repeats = Callable[[int], Repeat]  # by the number of an instruction


def all_but(once: Set[int], copies: int) -> Repeats:
    """Repeat all instructions but those done once."""
    return lambda i: Repeat(1 if i in once else copies)


def side_by_side(run: Run, repeats: Repeats, code: Sequence[Instruction]) -> Run:
    """Return a run with its instructions repeated side by side, so that the copies hide one another's latency."""
    copies: list[Copy] = []
    for copy in run:
        repeat, control = repeats(copy.origin), code[copy.origin].control
        if repeat.copies == 1:
            copies.append(replace(copy, carries=repeat.carries, passes=repeat.passes))
            continue
        left = (1 if control is None else control.stall) - repeat.copies + 1  # of the stall, behind the last copy
        for k in range(repeat.copies):
            stall = max(1, left) if k == repeat.copies - 1 else 1
            copies.append(Copy(copy.origin, stall, k == 0, repeat.carries, passes=repeat.passes, shares=repeat.shares))
    return tuple(copies)


def joined_iterations(workload: Workload, factor: int, repeats: Repeats, loops: Callable[[Segment], bool]) -> Workload:
    """Return the workload with `factor` iterations of these loops done as one; those left over stay as they are."""
    joined = cache(lambda run: side_by_side(run, repeats, workload.code))

    def join(segment: Segment) -> Trace:
        runs = as_written(segment)
        if segment.times < factor or not loops(segment):
            return [(runs, segment.times)]
        return [([joined(run) for run in runs], segment.times // factor), (runs, segment.times % factor)]

    return with_segments(workload, join)


def joined_threads(workload: Workload, factor: int, repeats: Repeats) -> Workload:
    """Return the workload with the work of `factor` threads done by one: so many fewer blocks."""
    return fewer_blocks(with_runs(workload, lambda run: side_by_side(run, repeats, workload.code)), factor)


def fewer_blocks(workload: Workload, factor: float) -> Workload:
    """Return the workload with fewer blocks that do the same each (`factor` below one: more).

    The hits for fewer of them on an SM are unknown: each block reads more or less than those that were counted.
    """
    profile, launch = workload.profile, workload.launch
    assert profile is not None and launch is not None
    blocks = max(1, round(profile.grid_blocks / factor))
    share = blocks / profile.grid_blocks
    counts = {name: [share * x for x in values] for name, values in profile.counts.items()}
    return workload.with_values(
        profile=replace(profile, grid_blocks=blocks, counts=counts, l1_contention=None),
        launch=replace(launch, grid=float(blocks)),
    )
