"""The way of warps, rewritten: instructions dropped, done several times side by side, or done once for several.

A remedy changes what a warp executes. The code stays as it is; changed stretches are laid behind it, and the ways of
warps lead through them. What the whole grid does follows: an instruction that a way now has half as often has half the
counts. All functions return a new workload.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from warplens.program.instruction import Instruction
from warplens.workload.profile import Path, Profile, Segment
from warplens.workload.workload import Workload

PER_EXECUTION = ("executed", "threads", "requests")  # columns that count executions; the others are data moved


class Copy(Struct, frozen=True):
    """An instruction of the original code in a rewritten stretch.

    `stall` replaces its stall count; without `waits` it waits for no scoreboard; it moves `carries` times the data, in
    `passes` times the wavefronts (None: as many as the data). A load `becomes` one from shared memory (LDS), or the
    store there of what it has loaded (STS); an address of 64 bits one of 32 (IMAD); anything a barrier (BAR) or an
    exchange between the lanes of a warp (SHFL).
    `mask` and `board` replace the scoreboards that it waits for and the one it gives its result by (-1: none).
    `shares` an operand with the copies beside it: no register bank is asked for two words at once.
    """

    origin: int
    stall: int | None = None
    waits: bool = True
    carries: float = 1.0
    becomes: Literal["", "LDS", "STS", "IMAD", "BAR", "SHFL"] = ""
    passes: float | None = None
    mask: int | None = None
    board: int | None = None
    shares: bool = False


Run = tuple[Copy, ...]
Part = tuple[list[Run], int]  # straight runs in a row, and how often
Way = list[Part]
Rewrite = Callable[[Path], Sequence[tuple[Way, float]]]  # the ways that replace a path, each with its share of warps


def as_written(segment: Segment) -> list[Run]:
    """Return the runs of a segment unchanged."""
    return [_straight(first, stop) for first, stop in segment.runs]


@lru_cache(maxsize=4096)
def _straight(first: int, stop: int) -> Run:
    """Return a run as it is written; the same object again, so that what is made of it can be found by that."""
    return tuple(Copy(i) for i in range(first, stop))


def once_each(change: Callable[[Run], Run]) -> Callable[[Run], Run]:
    """Return a change of runs that is made once for each: ways come through the same run many times."""
    done: dict[int, tuple[Run, Run]] = {}

    def changed(run: Run) -> Run:
        if id(run) not in done:
            done[id(run)] = run, change(run)  # the run is kept, so that no other gets its number
        return done[id(run)][1]

    return changed


def rewritten(workload: Workload, rewrite: Rewrite) -> Workload:
    """Return the workload with every way of a warp replaced."""
    profile = workload.profile
    assert profile is not None
    layout = _Layout(list(workload.code))
    ways, places = list[Path](), list[list[int]]()
    for path in profile.paths:
        made = rewrite(path)
        places.append([])
        shares = _whole([share for _, share in made], path.warps)
        for (way, _), warps in zip(made, shares, strict=True):
            places[-1].append(len(ways))
            ways.append(Path([Segment(layout.placed(runs), n) for runs, n in way if any(runs) and n > 0], warps))
    blocks = [_assigned(block, places, ways) for block in profile.blocks]
    before, after = _executions(profile.paths), _executions(ways)
    new = replace(profile, paths=ways, blocks=blocks, counts=layout.counts(profile, before, after))
    return workload.with_values(code=layout.code, profile=_with_totals(new, profile))


class _Layout:
    """The code with changed stretches behind it; a stretch that comes again is laid once."""

    def __init__(self, code: list[Instruction]) -> None:
        self.code = code
        self.original = len(code)
        self.copies: list[Copy] = []
        self.laid: dict[Run, tuple[int, int]] = {}
        self.seen: dict[int, tuple[Run, tuple[int, int]]] = {}

    def placed(self, runs: Sequence[Run]) -> list[tuple[int, int]]:
        """Return where the runs lie; neighbours that are unchanged stay where they are."""
        return [self._place(run) for run in runs if run]

    def _place(self, run: Run) -> tuple[int, int]:
        if id(run) not in self.seen:
            self.seen[id(run)] = run, self._laid(run)  # the run is kept, so that no other gets its number
        return self.seen[id(run)][1]

    def _laid(self, run: Run) -> tuple[int, int]:
        first = run[0].origin
        if all(copy == Copy(first + k) for k, copy in enumerate(run)):
            return first, first + len(run)
        if run not in self.laid:
            start = len(self.code)
            self.copies += run
            self.code += [_edited(self.code[copy.origin], copy) for copy in run]
            self.laid[run] = start, len(self.code)
        return self.laid[run]

    def counts(self, profile: Profile, before: Counter[int], after: Counter[int]) -> dict[str, list[float]]:
        """Return the counts of all instructions: those of the original, by how often each is now executed."""
        made: dict[str, list[float]] = {}
        shares = [
            after[k] / before[c.origin] if before[c.origin] else 0.0 for k, c in enumerate(self.copies, self.original)
        ]
        for column, values in profile.counts.items():  # most are zero: few instructions access memory
            new = [
                value * after[i] / before[i] if value and before[i] else value  # not on a way that was kept: as it was
                for i, value in enumerate(values)
            ]
            new += [
                _count(column, copy, profile) * share * _times(column, copy)
                if copy.becomes or values[copy.origin]
                else 0.0
                for copy, share in zip(self.copies, shares, strict=True)
            ]
            made[column] = new
        return made


def _times(column: str, copy: Copy) -> float:
    """Return how many times the original's data a copy moves, by the column that counts them."""
    if column in PER_EXECUTION:
        return 1.0
    return copy.carries if copy.passes is None or column != "wavefronts" else copy.passes


def _count(column: str, copy: Copy, profile: Profile) -> float:
    """Return a count of the instruction that a copy is of, as what it has become."""
    if copy.becomes in ("LDS", "STS"):
        return _near(column, copy.origin, profile)
    if copy.becomes in ("BAR", "IMAD", "SHFL") and column not in ("executed", "threads"):
        return 0.0
    return profile.counts[column][copy.origin]


def _near(column: str, i: int, profile: Profile) -> float:
    """Return a count of an access that has come to shared memory: no sectors, no conflicts."""
    if column == "wavefronts":
        return max(profile.counts["requests"][i], profile.counts["useful_bytes"][i] / 128)
    return profile.counts[column][i] if column in (*PER_EXECUTION, "useful_bytes") else 0.0


_SOURCE = re.compile(r"(?<=, )R(\d+)(?![\d.])")


def _sharing(x: Instruction) -> Instruction:
    """Return an instruction that keeps beside its unit what lies in the bank of its last operand."""
    found = list(_SOURCE.finditer(x.text))
    if len(found) < 3:
        return x
    bank, text = int(found[-1][1]) % 2, x.text
    for m in reversed(found[:-1]):
        text = f"{text[: m.end()]}.reuse{text[m.end() :]}" if int(m[1]) % 2 == bank else text
    return replace(x, text=text)


def _edited(x: Instruction, copy: Copy) -> Instruction:
    control = x.control
    if copy.shares:
        x = _sharing(x)
    if copy.becomes == "BAR":
        plain = None if control is None else replace(control, write_scoreboard=None, read_scoreboard=None, wait_mask=0)
        return Instruction("BAR.SYNC", "BAR", "barrier", control=plain, line=x.line)
    if copy.becomes:
        kind = {"IMAD": "int", "SHFL": "shuffle"}.get(copy.becomes, "shared")
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
    """Count how often the kept warps execute each instruction."""
    often, more = Counter[tuple[int, int]](), Counter[int]()  # each run; than the instruction before
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
    total, made, done = sum(shares), [], 0.0
    for share in shares:
        upto = done + share / total * warps
        made.append(max(1, round(upto) - round(done)))
        done = upto
    return made


def _assigned(block: Sequence[int], places: Sequence[Sequence[int]], ways: Sequence[Path]) -> list[int]:
    """Return the ways of a block's warps: where a path became several, in turn by their shares."""
    given, seen = list[int](), Counter[int]()
    for old in block:
        new = places[old]
        turn = (seen[old] + 0.5) / max(1, block.count(old)) * sum(ways[n].warps for n in new)
        seen[old] += 1
        for n in new:
            turn -= ways[n].warps
            if turn < 0 or n == new[-1]:
                given.append(n)
                break
    return given


def _with_totals(new: Profile, old: Profile) -> Profile:
    """Bring what is said of whole blocks up to date."""
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
    """Return the workload with every run of every way changed."""
    changed = once_each(change)

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        return [([([changed(run) for run in as_written(s)], s.times) for s in path.segments], 1.0)]

    return rewritten(workload, rewrite)


def without(run: Run, indices: set[int], code: Sequence[Instruction]) -> Run:
    """Return a run without some instructions: who reads next what they waited for waits instead."""
    made, awaited = list[Copy](), dict[str, int]()
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
        made.append(copy if more == mask else replace(copy, mask=more))
    return tuple(made)


class Repeat(Struct, frozen=True):
    """How an instruction comes when several turns or threads are joined: so many copies, each with so much data."""

    copies: int
    carries: float = 1.0
    passes: float | None = None  # times the wavefronts, where these are not as the data
    shares: bool = False  # an operand serves all copies


def side_by_side(run: Run, repeats: Callable[[int], Repeat], code: Sequence[Instruction]) -> Run:
    """Return a run with its instructions repeated side by side, so that the copies hide one another's latency."""
    made: list[Copy] = []
    for copy in run:
        repeat, control = repeats(copy.origin), code[copy.origin].control
        if repeat.copies == 1:
            made.append(replace(copy, carries=repeat.carries, passes=repeat.passes))
            continue
        left = (1 if control is None else control.stall) - repeat.copies + 1  # of the stall, behind the last copy
        for k in range(repeat.copies):
            stall = max(1, left) if k == repeat.copies - 1 else 1
            made.append(Copy(copy.origin, stall, k == 0, repeat.carries, passes=repeat.passes, shares=repeat.shares))
    return tuple(made)


def joined_turns(
    workload: Workload, factor: int, repeats: Callable[[int], Repeat], loops: Callable[[Segment], bool]
) -> Workload:
    """Return the workload with `factor` turns of these loops done as one; turns that are left over stay as they are."""
    joined = once_each(lambda run: side_by_side(run, repeats, workload.code))

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for segment in path.segments:
            runs = as_written(segment)
            if segment.times < factor or not loops(segment):
                way.append((runs, segment.times))
                continue
            way.append(([joined(run) for run in runs], segment.times // factor))
            way.append((runs, segment.times % factor))
        return [(way, 1.0)]

    return rewritten(workload, rewrite)


def joined_threads(workload: Workload, factor: int, repeats: Callable[[int], Repeat]) -> Workload:
    """Return the workload with the work of `factor` threads done by one: so many fewer blocks."""
    return fewer_blocks(with_runs(workload, lambda run: side_by_side(run, repeats, workload.code)), factor)


def fewer_blocks(workload: Workload, factor: float) -> Workload:
    """Return the workload with fewer blocks that do the same each (`factor` below one: more).

    What L1 keeps for some of them on an SM is not known: each reads more or less than those that were counted.
    """
    profile, launch = workload.profile, workload.launch
    assert profile is not None and launch is not None
    blocks = max(1, round(profile.grid_blocks / factor))
    share = blocks / profile.grid_blocks
    counts = {name: [share * x for x in values] for name, values in profile.counts.items()}
    return workload.with_values(
        profile=replace(profile, grid_blocks=blocks, counts=counts, crowding=None),
        launch=replace(launch, grid=float(blocks)),
    )
