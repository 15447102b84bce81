"""Remedy of tiles in shared memory for data that a block reads again: within loops, or with a halo around them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct

from warplens.advisor.case import SECTOR_BYTES, Answer, Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import (
    ADDRESS_KINDS,
    control_flow,
    freed,
    iterations_at_once,
    loop_condition,
    pointers,
    same_for_rows,
    twice,
)  # fmt: skip
from warplens.advisor.overlay import with_counts, with_launch
from warplens.advisor.rewrite import Copy, Run, Trace, as_written, on_average, rewritten
from warplens.advisor.schedule import Scheduler
from warplens.workload.profile import Path
from warplens.workload.workload import Workload

_WORTH = 2.0  # times that a block reads the data that it loads, from which a tile is proposed
_OFTEN = 0.1  # of the iterations of the innermost loop: loads around it are few
_MISSED = 0.9  # of its sectors, from which a load finds nothing in L1
_WORD, _WIDEST = 4, 16  # bytes; of one access of a thread to shared memory
_UNROLLED = 32  # iterations over a tile that nvcc unrolls in full (constants.py): every address is a constant
_BROADCAST_PASSES = 2.0  # of a 16-byte access to few addresses (emulator/wavefronts.py)
# Instructions of a warp beside loads, stores and barriers, counted in compiled code (tests/cuda/remedies/constants.py):
# for each tile with a halo and for each element of a thread, in a loop and where there is one tile only; and by how
# much the loads of a warp are more than the elements of a thread, as some of its threads have one more than others.
_TILE, _ELEMENT = 24, 6
_TILE_ONCE, _ELEMENT_ONCE = 22, 17
_SIDE = 9  # the same for each side of a tile, where a thread loads its own element and edge threads the halo
_PARTLY = 0.5
_TILES = 32  # in a row, whose fetches differ
_CHAIN_STALL = 5  # cycles between them: they wait for one another

Fetch = Callable[[int], Run]  # the instructions that load the tile of a number to shared memory


class _Stream(Struct, frozen=True):
    """The accesses of a thread that walk through one array: the same address register, some offsets apart."""

    sites: tuple[Site, ...]

    @property
    def again(self) -> float:
        """Requests of a block's threads for a byte that misses L1 once."""
        asked, from_l2 = sum(s.useful_bytes for s in self.sites), sum(s.l2_sectors for s in self.sites)
        return asked / max(SECTOR_BYTES * from_l2, asked / 1024)

    def at_once(self, rows: set[int]) -> int:
        """Return how many neighbouring elements one access loads, where all threads of a row read the same ones."""
        same = all(s.index in rows or s.sectors <= 1.05 * s.requests for s in self.sites)
        many = int(_WIDEST // max(_WORD, *(s.bytes_per_thread for s in self.sites)))
        registers = {r for s in self.sites for r in pointers(s.instruction)}
        return max(1, many) if same and len(registers) <= math.ceil(len(self.sites) / many) else 1


def keep_in_shared(case: Case) -> Answer:
    """Read repeated loads from shared memory, to which a block loads each element once.

    Applies where: a block asks twice or more for what passes L1 once.
    Overlay: loads read a tile in shared memory; a store and two barriers per tile.
    """
    loads = [s for s in case.global_sites if s.instruction.opcode == "LDG"]
    repeated, rest = ([s for s in loads if (s.index in case.in_loops) is looped] for looped in (True, False))
    most = max((s.executed for s in repeated), default=0.0)
    streams = [t for t in _streams(case, [s for s in repeated if s.executed > _OFTEN * most]) if t.again >= _WORTH]
    if streams:
        return _tile(case, streams)
    found = [s for s in rest if s.l2_sectors < _MISSED * s.sectors]  # one neighbourhood, with the first of the others
    straight = _Stream((*[s for s in rest if s not in found][:1], *found))
    if len(straight.sites) > 2 and straight.again >= _WORTH and not case.shared_sites:
        return [_halo(case, straight), _halo(case, straight, by_edges=True)]
    return Refusal("no load comes back to what its block has read")


def _streams(case: Case, sites: Sequence[Site]) -> list[_Stream]:
    """Group loads whose addresses come from one another: the same register, or one counted up from it."""
    walked, found = dict[str, int](), dict[int, int]()  # the first load of the group of a register, or of a load
    chosen = {s.index for s in sites}
    for i, x in twice(case.code):
        if i in chosen:
            found[i] = walked.setdefault(pointers(x)[0], i)
        counted = next((walked[r] for r in reversed(x.reads) if r in walked), None) if x.kind in ADDRESS_KINDS else None
        for register in x.writes:
            walked.pop(register, None)
            if counted is not None:
                walked[register] = counted
    groups: dict[int, list[Site]] = {}
    for s in sites:
        groups.setdefault(found[s.index], []).append(s)
    return [_Stream(tuple(group)) for group in groups.values()]


def _tile(case: Case, streams: Sequence[_Stream]) -> Proposal:
    """Load a tile every so many iterations; the iterations between read it."""
    streams = [_Stream(tuple(t.sites) + _copies(case, t.sites)) for t in streams]
    sites = [s for t in streams for s in t.sites]
    threads = int(case.launch.threads_per_block)
    again = min(_Stream(tuple(sites)).again, threads)  # reads of a word that a block loads
    loads, repeated = {s.index for s in sites}, [s for s in sites if s.index in case.in_loops]
    windows = [t for t in streams if any(_needed(s) * s.bytes_per_thread < SECTOR_BYTES for s in t.sites)]
    if windows:
        every, loaded = 1, max(1, round(len(repeated) / again))
        fetch = _windows(case, windows, [t for t in streams if t not in windows])
    else:
        every = max(1, round(again / max(Counter(s.pointer for s in repeated).values())))
        loaded = max(1, round(every * len(repeated) / again))  # loads of a thread for a tile
        fetch = _squares(min(loads), loaded)
    tiled = _with_l2_traffic(_tiled(case, streams, every, fetch), sites)
    shared = loaded * threads * max(s.bytes_per_thread for s in sites)
    return Proposal(
        title=f"keep in shared memory what is read again: {len(loads)} loads, each element {again:.0f} times",
        workload=with_launch(tiled, shared_bytes_per_block=case.launch.shared_bytes_per_block + round(shared)),
        assumption="a block brings each element once, coalesced; shared memory is read without conflicts",
        where=case.locations(loads),
        changes={"shared": sorted(loads), "read_again": round(again)},
        no_help="L1 serves these loads as fast",
    )


def _needed(site: Site) -> float:
    """Return how many elements of a loaded sector a block needs: of one beside others only the first."""
    return (abs(site.offset) if _is_beside(site) else SECTOR_BYTES) / max(_WORD, site.bytes_per_thread)


def _is_beside(site: Site) -> bool:
    """Return True if an access is to elements a little beside the thread's own."""
    return 0 < abs(site.offset) < SECTOR_BYTES and site.sectors > 1.05 * site.least_sectors


def _copies(case: Case, sites: Sequence[Site]) -> tuple[Site, ...]:
    """Return the copies of these loads in a first or last iteration that an earlier remedy has appended."""
    offsets, chosen = {s.instruction.offset for s in sites}, {s.index for s in sites}
    return tuple(s for s in case.global_sites if s.instruction.offset in offsets and s.index not in chosen)


def _squares(first: int, loads: int) -> Fetch:
    """Return the fetch of a tile of so many elements per thread: barrier, addresses, loads, stores, barrier."""
    barrier, address = Copy(first, becomes="BAR"), Copy(first, _CHAIN_STALL, False, becomes="IMAD")
    return lambda _: (
        barrier,
        *(address, address, Copy(first)) * loads,
        *(Copy(first, becomes="STS"),) * loads,
        barrier,
    )


def _windows(case: Case, windows: Sequence[_Stream], others: Sequence[_Stream]) -> Fetch:
    """Return the fetch of tiles with a halo, one per iteration of the source: by a loop over their elements.

    Data that are the same for all threads are loaded beside them, by as many threads as they have elements.
    """
    loop = max(case.loops, key=lambda s: sum(x.index in case.inside([s]) for t in windows for x in t.sites))
    at_once, threads = iterations_at_once(case.code, loop), case.launch.threads_per_block
    first = min(s.index for t in windows for s in t.sites)
    barrier, number = Copy(first, becomes="BAR"), Copy(first, _CHAIN_STALL, False, becomes="IMAD")
    element = (*(number,) * _ELEMENT, Copy(first), Copy(first, becomes="STS"))
    start = (*(number,) * _TILE, *(element if others else ()))
    inside = case.inside([loop])
    per_warp = sum(s.l2_sectors * _needed(s) / s.executed for t in windows for s in t.sites if s.index in inside)
    elements = max(1.0, per_warp * case.profile.warps_per_block / at_once / threads) + _PARTLY  # of a thread

    def fetch(tile: int) -> Run:
        run: list[Copy] = []
        for k in range(tile * at_once, (tile + 1) * at_once):
            some = math.floor((k + 1) * elements) - math.floor(k * elements)
            run += (barrier, *start, *element * some, barrier)
        return tuple(run)

    return fetch


def _tiled(case: Case, streams: Sequence[_Stream], every: int, fetch: Fetch) -> Workload:
    """Rewrite loops so that they fetch a tile every so many iterations and read it from shared memory."""
    order = {s.index: k for t in streams for k, s in enumerate(t.sites)}
    words = {s.index: len(t.sites) for t in streams for s in t.sites}
    rows = same_for_rows(case.code)
    at_once = {s.index: t.at_once(rows) for t in streams for s in t.sites}
    superfluous = _superfluous(case, set(order), every * max(words.values()))
    scheduler, most = Scheduler(case.code, case.machine), _WIDEST // _WORD

    @cache
    def from_tile(run: Run, iteration: int) -> list[Run]:
        """Read an iteration's data from the tile: up to 16 bytes of a broadcast at once."""
        near: list[Copy] = []
        for c in run:
            many = at_once.get(c.origin, 0)
            if many > 1:
                if (iteration * words[c.origin] + order[c.origin]) % many == 0:
                    passes = _BROADCAST_PASSES * many * _WORD / _WIDEST
                    near.append(Copy(c.origin, carries=many, passes=passes, becomes="LDS"))
            elif many:
                near.append(Copy(c.origin, becomes="LDS"))
            elif c.origin not in superfluous:
                near.append(c)
        return scheduler.ordered(tuple(near))

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        trace: Trace = []
        left = 0  # iterations since the last tile
        for s in path.segments:
            runs = as_written(s)
            if not any(c.origin in order for run in runs for c in run):
                trace.append((runs, s.times))
                continue
            few = [[part for r in runs for part in from_tile(r, k)] for k in range(min(every, most))]
            whole = [part for k in range(every) for part in few[k % most]]
            for tile, times in _fetches(fetch, s.times // every):
                trace.append(([tile, *whole], times))
            left += s.times % every
            rest = [part for k in range(s.times % every) for part in few[k % most]]
            trace.append(([fetch(0), *rest] if left >= every else rest, 1))
            left %= every
        return [(trace, 1.0)]

    return rewritten(case.workload, rewrite)


def _fetches(fetch: Fetch, times: int) -> list[tuple[Run, int]]:
    """Return the fetches of some tiles, equal ones counted."""
    counted = Counter(fetch(k) for k in range(min(times, _TILES)))
    return [(run, n if times <= _TILES else round(n * times / _TILES)) for run, n in counted.items()]


def _superfluous(case: Case, loads: set[int], iterations: int) -> set[int]:
    """Return the address instructions that go: the size of a tile is known to the compiler."""
    conditions = {i for s in case.loops for i in loop_condition(case.code, s)}
    superfluous = case.addresses - control_flow(case.code)
    if any(case.executed[i] for i in conditions & case.from_data):
        return {i for i in superfluous if "X" in case.code[i].modifiers}  # a search, not a walk: only upper halves go
    superfluous = superfluous - case.from_data
    superfluous = superfluous - conditions if iterations > _UNROLLED else superfluous | conditions
    return superfluous | freed(case.code, loads)


def _with_l2_traffic(workload: Workload, sites: Sequence[Site]) -> Workload:
    """Give the loads that remain all requests to L2 that these sites had, coalesced."""
    assert workload.profile is not None
    counts, texts = workload.profile.counts, {s.instruction.text for s in sites}
    mine = [i for i, x in enumerate(workload.code) if x.text in texts and counts["requests"][i]]
    requests, new = sum(counts["requests"][i] for i in mine), dict[int, dict[str, float]]()
    for i in mine:
        share = counts["requests"][i] / requests
        l2, hit = (share * sum(getattr(s, n) for s in sites) for n in ("l2_sectors", "l2_hit_sectors"))
        lines = max(counts["requests"][i], l2 / 4)
        new[i] = {
            "sectors": l2, "l2_sectors": l2, "l2_hit_sectors": hit, "l1_hit_sectors": 0.0, "lines": lines,
            "wavefronts": lines, "queue": 0.0, "useful_bytes": SECTOR_BYTES * l2,
        }  # fmt: skip
    return with_counts(workload, new)


def _sides(stream: _Stream) -> list[float]:
    """Return, for each side of a tile, the share of warps that load something from beyond it.

    Loads a little beside the thread's own element lie in the rows of the tile; other pointers lead to rows beyond it.
    """
    beside, rows = dict[bool, float](), dict[str, float]()
    for s in stream.sites:
        if _is_beside(s):
            beside[s.offset > 0] = max(beside.get(s.offset > 0, 0.0), min(1.0, s.l2_sectors / s.requests))
        else:
            rows[s.pointer] = max(rows.get(s.pointer, 0.0), s.l2_sectors / s.sectors)
    few = [share for share in rows.values() if 0 < share < _MISSED]
    beyond = max(0, len(rows) - 1)  # one of the rows is the thread's own
    return [*beside.values(), *(min(few, default=0.0),) * beyond]


def _halo(case: Case, stream: _Stream, *, by_edges: bool = False) -> Proposal:
    """Load a tile and its halo first, by a loop over its elements, or by the threads along its edges; then read it."""
    loads = {s.index for s in stream.sites}
    threads = int(case.launch.threads_per_block)
    elements = sum(s.l2_sectors * _needed(s) for s in stream.sites) / case.profile.grid_blocks
    shares = _sides(stream)
    each = 1 + sum(shares) if by_edges else max(1.0, elements / threads) + _PARTLY  # elements of a thread
    first, number = min(loads), max((i for i in case.addresses if i < max(loads)), default=min(loads))
    step = Copy(number, _CHAIN_STALL, False, becomes="IMAD")
    fetch = (*(step,) * _ELEMENT_ONCE, Copy(first), Copy(first, becomes="STS"))
    start, barrier = (step,) * (_SIDE * len(shares) if by_edges else _TILE_ONCE), Copy(first, becomes="BAR")
    superfluous = freed(case.code, loads)

    def loaded(times: int) -> Trace:
        """Load one element after the other; or all of a thread, then store them."""
        at_once = (*(Copy(first),) * times, *(Copy(first, becomes="STS"),) * times)
        return [([at_once], 1)] if by_edges else [([fetch], times)]

    def from_tile(run: Run) -> list[Run]:
        kept = [c for c in run if c.origin not in superfluous]
        near = tuple(Copy(c.origin, becomes="LDS") if c.origin in loads else c for c in kept)
        k = next((k for k, c in enumerate(kept) if c.origin in loads), None)
        return [near] if k is None else [near[:k], near[k:]]

    def rewrite(path: Path) -> list[tuple[Trace, float]]:
        def trace(times: int) -> Trace:
            parts: Trace = []
            begun = False
            for s in path.segments:
                runs = [r for run in as_written(s) for r in from_tile(run)]
                at = next((k for k, r in enumerate(runs) if any(c.origin in loads for c in r)), None)
                if begun or at is None:
                    parts.append((runs, s.times))
                    continue
                begun = True
                tile = loaded(times)
                parts += [([*runs[:at], start], 1), *tile, ([(barrier,)], 1), (runs[at:], 1), (runs, s.times - 1)]
            return parts

        return on_average(each, trace)

    tiled = _with_l2_traffic(rewritten(case.workload, rewrite), stream.sites)
    shared, how = _WORD * math.ceil(elements), "by the threads along its edges" if by_edges else "in a loop"
    return Proposal(
        title=f"keep in shared memory what neighbouring threads read too: {elements:.0f} elements per block",
        workload=with_launch(tiled, shared_bytes_per_block=shared),
        assumption=f"a block brings its elements and those around them {how}; shared memory has no conflicts",
        where=case.locations(loads),
        changes={"shared": sorted(loads), "read_again": round(stream.again), "halo": "edges" if by_edges else "loop"},
        no_help="L1 serves these loads as fast, and bringing a tile costs instructions and a barrier",
    )
