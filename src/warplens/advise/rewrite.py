"""The way of warps, rewritten: instructions dropped, done several times side by side, or done once for several.

A remedy changes what a warp executes. The code stays as it is; changed stretches are laid behind it, and the ways of
warps lead through them. What the whole grid does follows: an instruction that a way now has half as often has half the
counts. All functions return a new workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Path, Profile, Segment
from warplens.kernel.workload import Workload

PER_EXECUTION = ("executed", "threads", "requests")  # columns that count executions; the others are data moved


class Copy(Struct, frozen=True):
    """An instruction of the original code in a rewritten stretch.

    `stall` replaces its stall count; without `waits` it waits for no scoreboard; it moves `carries` times the data.
    A load `becomes` one from shared memory (LDS), or the store there of what it has loaded (STS); an address of 64 bits
    one of 32 (IMAD).
    """

    origin: int
    stall: int | None = None
    waits: bool = True
    carries: float = 1.0
    becomes: Literal["", "LDS", "STS", "IMAD"] = ""


Run = tuple[Copy, ...]
Part = tuple[list[Run], int]  # straight runs in a row, and how often
Way = list[Part]
Rewrite = Callable[[Path], Sequence[tuple[Way, float]]]  # the ways that replace a path, each with its share of warps


def as_written(segment: Segment) -> list[Run]:
    """Return the runs of a segment unchanged."""
    return [tuple(Copy(i) for i in range(first, stop)) for first, stop in segment.runs]


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

    def placed(self, runs: Sequence[Run]) -> list[tuple[int, int]]:
        """Return where the runs lie; neighbours that are unchanged stay where they are."""
        return [self._place(run) for run in runs if run]

    def _place(self, run: Run) -> tuple[int, int]:
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
        for column, values in profile.counts.items():
            new = [
                value * after[i] / before[i] if before[i] else value  # not on a way that was kept: as it was
                for i, value in enumerate(values)
            ]
            for k, copy in enumerate(self.copies, start=self.original):
                share = after[k] / before[copy.origin] if before[copy.origin] else 0.0
                near = copy.becomes in ("LDS", "STS")
                value = _near(column, copy.origin, profile) if near else values[copy.origin]
                new.append(value * share * (1.0 if column in PER_EXECUTION else copy.carries))
            made[column] = new
        return made


def _near(column: str, i: int, profile: Profile) -> float:
    """Return a count of an access that has come to shared memory: no sectors, no conflicts."""
    if column == "wavefronts":
        return max(profile.counts["requests"][i], profile.counts["useful_bytes"][i] / 128)
    return profile.counts[column][i] if column in (*PER_EXECUTION, "useful_bytes") else 0.0


def _edited(x: Instruction, copy: Copy) -> Instruction:
    control = x.control
    if copy.becomes:
        kind = "int" if copy.becomes == "IMAD" else "shared"
        x = replace(x, opcode=copy.becomes, kind=kind, text=f"{copy.becomes} for {x.text}")
    if copy.becomes == "STS" and control is not None:  # waits for the load, gives no result
        board = 0 if control.write_scoreboard is None else 1 << control.write_scoreboard
        control = replace(control, write_scoreboard=None, read_scoreboard=None, wait_mask=board, stall=1)
        return replace(x, writes=(), control=control)
    if control is None or (copy.stall is None and copy.waits):
        return x
    stall = control.stall if copy.stall is None else copy.stall
    return replace(x, control=replace(control, stall=stall, wait_mask=control.wait_mask if copy.waits else 0))


def _executions(paths: Sequence[Path]) -> Counter[int]:
    """Count how often the kept warps execute each instruction."""
    ends = Counter[tuple[int, int]]()
    for path in paths:
        for segment in path.segments:
            for run in segment.runs:
                ends[run[0], run[1]] += segment.times * path.warps
    found = Counter[int]()
    for (first, stop), times in ends.items():
        for i in range(first, stop):
            found[i] += times
    return found


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

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        return [([([kept(run) for run in as_written(s)], s.times) for s in path.segments], 1.0)]

    def kept(run: Run) -> Run:
        return tuple(copy for copy in run if copy.origin not in indices)

    return rewritten(workload, rewrite)


class Repeat(Struct, frozen=True):
    """How an instruction comes when several turns or threads are joined: so many copies, each with so much data."""

    copies: int
    carries: float = 1.0


def side_by_side(run: Run, repeats: Callable[[int], Repeat], code: Sequence[Instruction]) -> Run:
    """Return a run with its instructions repeated side by side, so that the copies hide one another's latency."""
    made: list[Copy] = []
    for copy in run:
        repeat, control = repeats(copy.origin), code[copy.origin].control
        if repeat.copies == 1:
            made.append(replace(copy, carries=repeat.carries))
            continue
        left = (1 if control is None else control.stall) - repeat.copies + 1  # of the stall, behind the last copy
        for k in range(repeat.copies):
            stall = max(1, left) if k == repeat.copies - 1 else 1
            made.append(Copy(copy.origin, stall, k == 0, repeat.carries))
    return tuple(made)


def joined_turns(
    workload: Workload, factor: int, repeats: Callable[[int], Repeat], loops: Callable[[Segment], bool]
) -> Workload:
    """Return the workload with `factor` turns of these loops done as one; turns that are left over stay as they are."""

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for segment in path.segments:
            runs = as_written(segment)
            if segment.times < factor or not loops(segment):
                way.append((runs, segment.times))
                continue
            way.append(([side_by_side(run, repeats, workload.code) for run in runs], segment.times // factor))
            way.append((runs, segment.times % factor))
        return [(way, 1.0)]

    return rewritten(workload, rewrite)


def joined_threads(workload: Workload, factor: int, repeats: Callable[[int], Repeat]) -> Workload:
    """Return the workload with the work of `factor` threads done by one: so many fewer blocks."""

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        return [
            ([([side_by_side(r, repeats, workload.code) for r in as_written(s)], s.times) for s in path.segments], 1.0)
        ]

    return fewer_blocks(rewritten(workload, rewrite), factor)


def fewer_blocks(workload: Workload, factor: float) -> Workload:
    """Return the workload with fewer blocks that do the same each (`factor` below one: more)."""
    profile, launch = workload.profile, workload.launch
    assert profile is not None and launch is not None
    blocks = max(1, round(profile.grid_blocks / factor))
    share = blocks / profile.grid_blocks
    counts = {name: [share * x for x in values] for name, values in profile.counts.items()}
    return workload.with_values(
        profile=replace(profile, grid_blocks=blocks, counts=counts),
        launch=replace(launch, grid=float(blocks)),
    )
