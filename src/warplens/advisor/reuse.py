"""Remedies that reuse data: in registers, in constant memory; asynchronous copies to shared memory."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from msgspec.structs import replace

from warplens.advisor.case import LINE_BYTES, Answer, Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import freed, is_register, pointers, same_for_all, same_for_rows, slowest, twice
from warplens.advisor.overlay import regrouped, with_counts, with_instructions, with_launch, without_waits
from warplens.advisor.rewrite import (
    Repeat,
    Trace,
    as_written,
    dropped,
    fewer_blocks,
    joined_threads,
    side_by_side,
    with_segments,
)
from warplens.program.instruction import Instruction
from warplens.workload.profile import Segment
from warplens.workload.workload import Workload

_CONSTANT_BYTES = 1 << 16
_WORD, _WIDEST = 4, 16  # bytes; of one access of a thread
_SAME, _MOST_WORDS = 0.02, 64  # bytes that count as those of the whole array; words that a thread can keep
_SHARED = 1.5  # times the bytes of the arrays are asked for, where results share operands
_BLOCKS = (2, 4, 8)  # elements along a side that a thread keeps in registers
# Registers that a further result needs beside its sum and what it is made of (tests/cuda/remedies/constants.py).
_TEMPORARY = 2
_MOST_CODE = 6000  # instructions of a rewritten kernel
_BLOCK_WARPS = 8  # of a block with squares of results: larger ones have too many registers


def keep_in_registers(case: Case) -> Answer:
    """Compute several results per thread: each operand that it loads serves some of them.

    Applies where: a loop adds up results of operands that are equal for a warp, or loads them from shared memory.
    Overlay: 2 to 8 results per thread, each operand once.
    """
    if again := _read_once(case):
        return again
    inside = [i for i in case.in_loops if case.executed[i]]
    loads = {s.index for s in case.sites if s.index in case.in_loops and s.instruction.opcode in ("LDS", "LDG")}
    if not _is_product([case.code[i] for i in sorted(inside)]):
        return Refusal("no loop that sums up products of loaded operands")
    if _loaded_once(case, loads):
        return Refusal("each element is loaded by one thread, once: no two results share an operand")
    if case.share(loads) < 0.05:
        return Refusal(f"loading operands takes {case.share(loads):.0%} of the instructions")
    proposals, only = _results(case, {s.index: s for s in case.sites if s.index in loads})
    if only:
        return proposals
    work = {i for i in inside if case.code[i].kind in ("fp32", "fp64", "half", "sfu")}
    proposals += [
        Proposal(
            title=f"{side} x {side} results per thread: each operand loaded serves {side} of them",
            workload=_squares(case, side, loads, work),
            assumption="results of neighbouring threads share operands along both sides, as in a matrix product",
            where=case.locations(loads),
            changes={"results_per_thread": side * side, "sides": 2},
            joins=frozenset(("threads",)),
            no_help="loading operands does not limit",
        )
        for side in _BLOCKS
        if case.warps / side**2 >= 4 * case.sms and len(work) * side**2 <= _MOST_CODE  # few threads, long code
    ]
    return proposals or Refusal("too few blocks to give a thread more")


def _read_once(case: Case) -> Proposal | None:
    """Keep in registers what a later loop reads again: the loads of a line that read a whole array again."""
    sizes = Counter(round(t.read_footprint_bytes) for t in case.profile.traffic if t.read_footprint_bytes)
    lines: dict[int, list[Site]] = {}
    for s in case.global_sites:
        if s.instruction.opcode == "LDG":
            lines.setdefault(-1 - s.index if s.instruction.line is None else s.instruction.line, []).append(s)
    later, words = set[int](), 0.0
    for size, arrays in sizes.items():
        whole = [group for group in lines.values() if abs(sum(s.useful_bytes for s in group) / size - 1) < _SAME]
        if len(whole) > arrays:  # more loads of so much than arrays of that size
            later |= {s.index for group in whole[arrays:] for s in group}
            words += arrays * size / (32 * case.warps) / _WORD
    if not later or words > _MOST_WORDS:
        return None
    registers = case.registers(words)
    return Proposal(
        title=f"read once, keep {words:.0f} words per thread in registers: {len(later)} loads go",
        workload=with_launch(dropped(case.workload, later), registers_per_thread=registers),
        assumption="a thread comes back to the same elements, and their number is known to the compiler",
        where=case.locations(later),
        changes={"read_once": sorted(later), "registers_per_thread": registers},
        no_help="reading again is served by the caches as fast",
    )


def _loaded_once(case: Case, loads: Collection[int]) -> bool:
    """Return True if loads are of global memory alone and ask for hardly more than the arrays have."""
    sites = [s for s in case.sites if s.index in loads]
    asked, read = sum(s.useful_bytes for s in sites), sum(t.read_footprint_bytes for t in case.profile.traffic)
    return all(s.instruction.opcode == "LDG" for s in sites) and asked < _SHARED * read


def _is_product(loop: Sequence[Instruction]) -> bool:
    """Return True if a loop adds up results of loaded operands, and stores none of them to shared memory meanwhile."""
    computed, sums = set[str](), False
    for _, x in twice(loop):
        if x.opcode == "STS" and computed & set(x.reads) - set(pointers(x)):
            return False
        if x.opcode in ("LDS", "LDG"):
            computed -= set(x.writes)
        elif x.kind in ("fp32", "fp64", "half"):
            sums |= x.opcode in ("FFMA", "DFMA", "HFMA2", "FADD", "DADD") and not set(x.writes).isdisjoint(x.reads)
            computed |= set(x.writes)
    return sums


def _results(case: Case, loads: Mapping[int, Site]) -> tuple[list[Proposal], bool]:
    """Return proposals of several results per operand loaded, and True if all operands are the same for a warp.

    Operands that are the same for the whole warp serve all results of a thread, if all of them are. Beside operands of
    a thread's own, they differ by result: they are loaded for each.
    """
    same = same_for_rows(case.code)
    shared = {i for i, s in loads.items() if (s.sectors <= 1.05 * s.requests if s.sectors else i in same)}
    only = len(shared) == len(loads)
    if not only and any(case.code[i].opcode == "LDS" for i in loads):
        return [], False  # tiles in shared memory: squares of results
    once = (case.addresses - case.from_data) | loads.keys()
    loop = {i for i in case.in_loops if case.executed[i]}
    work = ((loop - once) | (set[int]() if only else shared)) & slowest(case.code)  # the rest is the same for all
    live = _carried(case.code, work, loop) + _TEMPORARY
    proposals = []
    for results in _BLOCKS:
        if len(work) * results > _MOST_CODE or case.profile.grid_blocks < 2 * results:
            continue
        registers = case.registers((results - 1) * live)
        proposals.append(
            Proposal(
                title=f"{results} results per thread: each operand loaded serves all of them",
                workload=with_launch(_repeated(case, results, work), registers_per_thread=registers),
                assumption=f"results do not depend on one another; {registers} registers per thread",
                where=case.locations(loads),
                changes={"results_per_thread": results, "sides": 1, "registers_per_thread": registers},
                joins=frozenset(("threads",)),
                no_help="loading operands does not limit, or too few threads are left to hide latency",
            )
        )
    return proposals, only


def _carried(code: Sequence[Instruction], work: set[int], loop: set[int]) -> int:
    """Count the registers that an iteration's work reads from before it: sums, and values of the thread's own."""
    written, found = set[str](), set[str]()
    for i in sorted(loop):
        found |= {r for r in code[i].reads if i in work and is_register(r)} - written
        written |= set(code[i].writes)
    return len(found)


def _repeated(case: Case, results: int, work: set[int]) -> Workload:
    """Repeat the work of loops: side by side, but one after another where it branches by its data."""
    own, code = {s.index for s in case.global_sites} - case.in_loops, case.code

    def repeats(i: int) -> Repeat:
        return Repeat(results, shares=True) if i in work or i in own else Repeat(1)

    again = cache(lambda run: tuple(c for c in run if c.origin in work))
    beside = cache(lambda run: side_by_side(run, repeats, code))

    def change(s: Segment) -> Trace:
        runs = as_written(s)
        if any(code[c.origin].kind == "branch" and c.origin in work for run in runs for c in run):
            return [(runs + [again(run) for run in runs] * (results - 1), s.times)]
        return [([beside(run) for run in runs], s.times)]

    return fewer_blocks(with_segments(case.workload, change), results)


def _squares(case: Case, side: int, loads: set[int], work: set[int]) -> Workload:
    """Give a thread a square of results: an operand serves a row or a column of them."""
    wide = {s.index: _WIDEST / max(_WORD, s.bytes_per_thread) for s in case.sites}  # of its elements in one access
    smaller = max(1.0, case.profile.warps_per_block / _BLOCK_WARPS)  # a block's square shrinks with its threads
    shared = {s.index for s in case.shared_sites if s.instruction.opcode in ("LDS", "STS")} | loads
    same = same_for_rows(case.code) & loads
    fetches = {s.index for s in case.global_sites} & loads | {i for i in shared if case.code[i].opcode == "STS"}
    direct = fetches & loads if not case.shared_sites else set[int]()

    def repeats(i: int) -> Repeat:
        if i in direct:  # words from anywhere in global memory, one by one
            return Repeat(side)
        if i in shared:  # a side of the square, by accesses of up to 16 bytes
            more = round(math.sqrt(smaller)) if i in fetches else 1
            copies = max(1, math.ceil(side / wide.get(i, 1.0)))
            return Repeat(more * copies, side / copies, side / copies / 2 if i in same else None)
        return Repeat(side * side, shares=True) if i in work else Repeat(1)

    joined = joined_threads(case.workload, side * side, repeats)
    if smaller > 1:
        joined = regrouped(joined, _BLOCK_WARPS)
    tile, registers = case.launch.shared_bytes_per_block * side / math.sqrt(smaller), case.registers(side * (side + 2))
    return with_launch(joined, registers_per_thread=registers, shared_bytes_per_block=round(tile))


def keep_in_constant(case: Case) -> Answer:
    """Read small arrays from constant memory, where the address is the same for the whole warp.

    Applies where: loads of one address per warp from an array of at most 64 KB.
    Overlay: constant loads without address instructions.
    """
    small = [t for t in case.profile.traffic if 0 < t.read_footprint_bytes <= _CONSTANT_BYTES]
    sites = [
        s for s in case.global_sites
        if s.instruction.opcode == "LDG" and s.threads > 16 * s.requests and s.sectors <= 1.01 * s.requests
        and s.bytes_per_thread > 1  # 32 neighbouring bytes are one sector, too
    ]  # fmt: skip
    if not sites:
        return Refusal("no load has the same address for all threads of a warp")
    if not small:
        return Refusal("no array that it reads fits into 64 KB")
    same = same_for_all(case.code)  # of all threads: the uniform datapath loads them, two words at once
    new = {
        s.index: replace(without_waits(s.instruction), opcode=name, kind=kind, text=f"{name} {s.instruction.text}")
        for s in sites
        for name, kind in [("ULDC", "uniform") if s.index in same else ("LDC", "constant")]
    }
    none = dict.fromkeys(set(case.profile.counts) - {"executed", "threads"}, 0.0)
    constant = with_counts(with_instructions(case.workload, new), dict.fromkeys(new, none))
    unused = freed(case.code, set(new)) | _second_words([s for s in sites if s.index in same])
    return Proposal(
        title=f"constant memory for {', '.join(t.name for t in small)}: {len(sites)} loads are uniform in a warp",
        workload=dropped(constant, unused),
        assumption="the arrays do not change while the kernel runs",
        where=case.locations(new),
        changes={"constant": sorted(new)},
        no_help="L1 serves these loads beside the others",
    )


def _second_words(sites: Sequence[Site]) -> set[int]:
    """Return every second load of neighbouring words of 4 bytes from one pointer."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for s in sites:
        if s.operand and s.bytes_per_thread <= _WORD:
            rows.setdefault(s.base, []).append((s.offset, s.index))
    found = set[int]()
    for row in rows.values():
        for (low, first), (high, second) in itertools.pairwise(sorted(row)):
            if high - low == _WORD and first not in found:
                found.add(second)
    return found


def asynchronous_copies(case: Case) -> Answer:
    """Copy tiles to shared memory asynchronously, two iterations ahead: no registers, no wait for the load.

    Applies where: a loop loads from global and stores to shared memory.
    Overlay: no store, no wait for the load; three tiles of shared memory.
    """
    pairs = _copies(case.code, sorted(i for i in case.in_loops if case.executed[i]))
    if not pairs:
        return Refusal("no loop brings global memory to shared memory")
    loads, stores = {a for a, _ in pairs}, {b for _, b in pairs}
    boards = case.boards(loads)
    relaxed = {i: without_waits(case.code[i], boards) for i in case.in_loops}
    sites = {s.index: s for s in case.sites}
    copied = {a: _copied(sites[a], sites[b]) for a, b in pairs if a in sites and b in sites}
    copies = dropped(with_counts(with_instructions(case.workload, relaxed), copied), stores)
    depth = case.launch.shared_bytes_per_block
    return Proposal(
        title=f"copy tiles asynchronously, two iterations ahead: {len(pairs)} loads no longer waited for",
        workload=with_launch(copies, shared_bytes_per_block=min(3 * depth, 227 << 10)),
        assumption="three tiles fit into shared memory; a copy takes no longer than two iterations",
        where=case.locations(loads),
        changes={"stages": 3, "shared_bytes_per_block": 3 * depth},
        no_help="warps wait little for these loads",
    )


def _copied(load: Site, store: Site) -> dict[str, float]:
    """Return the counts of a load and its store as one copy: whole lines go at once, parts of lines one by one.

    Measured on an H200 (data/experiments/l1_data_path/asynchronous_copies.json); copies of 16 bytes bypass L1.
    """
    lines = load.useful_bytes / LINE_BYTES
    whole = load.wavefronts <= 1.05 * lines and store.wavefronts <= 1.05 * lines
    passes = max(load.wavefronts, store.wavefronts) if whole else load.wavefronts + store.wavefronts
    if load.bytes_per_thread < _WIDEST:
        return {"wavefronts": passes}
    hits = load.l2_hit_sectors + load.sectors - load.l2_sectors
    return {"wavefronts": passes, "l2_sectors": load.sectors, "l1_hit_sectors": 0.0, "l2_hit_sectors": hits}


def _copies(code: Sequence[Instruction], inside: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of a load from global memory and the store of its result to shared memory."""
    pairs, loaded = list[tuple[int, int]](), dict[str, int]()
    for i in (*inside, *inside):
        x = code[i]
        if x.opcode == "STS":
            pairs += [(loaded[r], i) for r in x.reads if r in loaded]
        for register in x.writes:
            loaded.pop(register, None)
        if x.opcode == "LDG":
            loaded |= dict.fromkeys(x.writes, i)
    return list(dict.fromkeys(pairs))
