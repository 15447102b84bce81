"""Remedies that keep data near: in shared memory, in registers, in constant memory; copies that need no registers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from warplens.advisor.case import LINE_BYTES, Answer, Case, Proposal, Site, refused
from warplens.advisor.overlay import regrouped, with_counts, with_instructions, with_launch, without_waits
from warplens.advisor.rewrite import (
    Repeat,
    Way,
    as_written,
    dropped,
    fewer_blocks,
    joined_threads,
    once_each,
    rewritten,
    side_by_side,
)
from warplens.advisor.slices import (
    address_instructions,
    carried,
    freed,
    from_data,
    same_for_all,
    same_for_rows,
    slowest,
)
from warplens.machine import KINDS
from warplens.program.instruction import Instruction, byte_offset
from warplens.workload.profile import Path
from warplens.workload.workload import Workload

_CONSTANT_BYTES = 1 << 16
_WORD, _WIDEST = 4, 16  # bytes; of one access of a thread
_SAME, _KEPT = 0.02, 64  # bytes that count as those of the whole array; words that a thread can keep
_BLOCKS = (2, 4, 8)  # elements along a side that a thread keeps in registers
# Registers that a further result needs beside its sum and what it is made of (tests/cuda/remedies/constants.py).
_TEMPORARY = 2


def keep_in_registers(case: Case) -> Answer:
    """A thread makes a small square of results: each operand it loads serves a row or a column of them."""
    name = "keep-in-registers"
    again = _read_once(case)
    if again:
        return again
    inside = case.inside(case.loops())
    loads = {s.index for s in case.sites if s.index in inside and s.instruction.opcode in ("LDS", "LDG")}
    work = {i for i in inside if case.code[i].kind in ("fp32", "fp64", "half", "sfu") and case.executed[i]}
    if not _is_product(case, sorted(i for i in inside if case.executed[i])):
        return refused(name, "no loop that sums up products of loaded operands")
    if case.share(loads) < 0.05:
        return refused(name, f"loading operands takes {case.share(loads):.0%} of the instructions")
    once = address_instructions(case.code) - loads
    made, only = _rows(case, {s.index: s for s in case.sites if s.index in loads})
    if only:
        return made
    for side in _BLOCKS:
        joined = _squares(case, side, loads, work, once)
        if joined is None:
            continue
        made.append(
            Proposal(
                name=name,
                title=f"{side} x {side} results per thread: each operand loaded serves {side} of them",
                workload=joined,
                assumption="results of neighbouring threads share operands along both sides, as in a matrix product",
                where=case.places(loads),
                changes={"results_per_thread": side * side, "sides": 2},
                joins=frozenset(("threads",)),
                no_help="loading operands does not limit",
            )
        )
    return made or refused(name, "too few blocks to give a thread more")


def _read_once(case: Case) -> list[Proposal]:
    """Let a thread keep what it reads again in a later loop: the loads of a line that bring a whole array again."""
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
    if not later or words > _KEPT:
        return []
    registers = min(255, case.launch.registers_per_thread + round(words))
    return [
        Proposal(
            name="keep-in-registers",
            title=f"read once, keep {words:.0f} words per thread in registers: {len(later)} loads go",
            workload=with_launch(dropped(case.workload, later), registers_per_thread=registers),
            assumption="a thread comes back to the same elements, and their number is known to the compiler",
            where=case.places(later),
            changes={"read_once": sorted(later), "registers_per_thread": registers},
            no_help="reading again is served by the caches as fast",
        )
    ]


def _is_product(case: Case, inside: Sequence[int]) -> bool:
    """Whether a loop adds up results of loaded operands, and stores none of them to shared memory on the way."""
    loaded, computed, sums = set[str](), set[str](), 0
    for i in (*inside, *inside):
        x = case.code[i]
        if x.opcode == "STS" and computed & {r for r in x.reads if r not in _pointers(x)}:
            return False
        if x.opcode in ("LDS", "LDG"):
            loaded |= set(x.writes)
            computed -= set(x.writes)
        elif x.kind in ("fp32", "fp64", "half"):
            sums += x.opcode in ("FFMA", "DFMA", "HFMA2", "FADD", "DADD") and bool(set(x.writes) & set(x.reads))
            loaded -= set(x.writes)
            computed |= set(x.writes)
    return sums > 0 and bool(inside)


def _pointers(x: Instruction) -> set[str]:
    return {r for o in x.operands if o.kind == "memory" for r in o.registers}


_MOST_CODE = 6000  # instructions of a rewritten kernel
_BLOCK_WARPS = 8  # of a block with squares of results: larger ones have too many registers


def _rows(case: Case, loads: Mapping[int, Site]) -> tuple[list[Proposal], bool]:
    """Let a thread make several results of an operand that it loads once; and whether all operands are of that kind.

    Operands that are the same for the whole warp serve all results of a thread, if all of them are. Beside others, that
    each thread has for itself, they are what the results differ by: theirs are loaded for each result.
    """
    same = same_for_rows(case.code)
    shared = {i for i, s in loads.items() if (s.sectors <= 1.05 * s.requests if s.sectors else i in same)}
    only = len(shared) == len(loads)
    if not only and any(case.code[i].opcode == "LDS" for i in loads):
        return [], False  # tiles in shared memory: squares of results
    once = (address_instructions(case.code) - from_data(case.code, case.executed)) | loads.keys()
    loop = {i for i in case.inside(case.loops()) if case.executed[i]}
    work = ((loop - once) | (set[int]() if only else shared)) & slowest(case.code)  # the rest is the same for all
    live = carried(case.code, work, loop) + _TEMPORARY
    made = []
    for results in _BLOCKS:
        if len(work) * results > _MOST_CODE or case.profile.grid_blocks < 2 * results:
            continue
        registers = min(255, case.launch.registers_per_thread + (results - 1) * live)
        made.append(
            Proposal(
                name="keep-in-registers",
                title=f"{results} results per thread: each operand loaded serves all of them",
                workload=with_launch(_repeated(case, results, work), registers_per_thread=registers),
                assumption=f"results do not depend on one another; {registers} registers per thread",
                where=case.places(loads),
                changes={"results_per_thread": results, "sides": 1, "registers_per_thread": registers},
                joins=frozenset(("threads",)),
                no_help="loading operands does not limit, or too few threads are left to hide latency",
            )
        )
    return made, only


def _repeated(case: Case, results: int, work: set[int]) -> Workload:
    """Repeat the work of loops: side by side, but for what branches by its data: that comes one behind the other."""
    own, code = {s.index for s in case.global_sites} - case.inside(case.loops()), case.code

    def repeats(i: int) -> Repeat:
        return Repeat(results, shares=True) if i in work or i in own else Repeat(1)

    again = once_each(lambda run: tuple(c for c in run if c.origin in work))
    beside = once_each(lambda run: side_by_side(run, repeats, code))

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for s in path.segments:
            runs = as_written(s)
            if any(code[c.origin].kind == "branch" and c.origin in work for run in runs for c in run):
                way.append((runs + [again(run) for run in runs] * (results - 1), s.times))
            else:
                way.append(([beside(run) for run in runs], s.times))
        return [(way, 1.0)]

    return fewer_blocks(rewritten(case.workload, rewrite), results)


def _squares(case: Case, side: int, loads: set[int], work: set[int], once: set[int]) -> Workload | None:
    if case.warps / side**2 < 4 * case.machine.chip.sm_count or len(work) * side**2 > _MOST_CODE:
        return None
    wide = {s.index: _WIDEST / max(_WORD, s.bytes_per_thread) for s in case.sites}  # of its elements in one access
    smaller = max(1.0, case.profile.warps_per_block / _BLOCK_WARPS)  # a block's square shrinks with its threads
    shared = {s.index for s in case.shared_sites if s.instruction.opcode in ("LDS", "STS")} | loads
    same = same_for_rows(case.code) & loads
    brought = {s.index for s in case.global_sites} & loads | {i for i in shared if case.code[i].opcode == "STS"}
    direct = brought & loads if not case.shared_sites else set[int]()

    def repeats(i: int) -> Repeat:
        if i in direct:  # words from anywhere in global memory, one by one
            return Repeat(side)
        if i in shared:  # a side of the square, by accesses of up to 16 bytes
            more = round(math.sqrt(smaller)) if i in brought else 1
            copies = max(1, math.ceil(side / wide.get(i, 1.0)))
            return Repeat(more * copies, side / copies, side / copies / 2 if i in same else None)
        return Repeat(1) if i in once or i not in work else Repeat(side * side, shares=True)

    joined = joined_threads(case.workload, side * side, repeats)
    if smaller > 1:
        joined = regrouped(joined, _BLOCK_WARPS)
    registers = min(255, case.launch.registers_per_thread + side * side + 2 * side)
    tile = case.launch.shared_bytes_per_block * side / math.sqrt(smaller)
    return with_launch(joined, registers_per_thread=registers, shared_bytes_per_block=round(tile))


def keep_in_constant(case: Case) -> Answer:
    """Loads whose address is the same for the whole warp, from small arrays, become constant operands."""
    name = "keep-in-constant"
    small = [t for t in case.profile.traffic if 0 < t.read_footprint_bytes <= _CONSTANT_BYTES]
    sites = [
        s for s in case.global_sites
        if s.instruction.opcode == "LDG" and s.threads > 16 * s.requests and s.sectors <= 1.01 * s.requests
    ]  # fmt: skip
    if not sites:
        return refused(name, "no load has the same address for all threads of a warp")
    if not small:
        return refused(name, "no array that it reads fits into 64 KB")
    free = same_for_all(case.code)  # of the thread: the uniform datapath brings them, two words at once
    new = {
        s.index: replace(without_waits(s.instruction), opcode=name, kind=kind, text=f"{name} {s.instruction.text}")
        for s in sites
        for name, kind in [("ULDC", "uniform") if s.index in free else ("LDC", "constant")]
    }
    none = dict.fromkeys(set(case.profile.counts) - {"executed", "threads"}, 0.0)
    made = with_counts(with_instructions(case.workload, new), dict.fromkeys(new, none))
    made = dropped(made, freed(case.code, set(new)) | _seconds([s for s in sites if s.index in free]))
    return [
        Proposal(
            name=name,
            title=f"constant memory for {', '.join(t.name for t in small)}: {len(sites)} loads are uniform in a warp",
            workload=made,
            assumption="the arrays do not change while the kernel runs",
            where=case.places(new),
            changes={"constant": sorted(new)},
            no_help="L1 serves these loads beside the others",
        )
    ]


def _seconds(sites: Sequence[Site]) -> set[int]:
    """Return every second load of neighbouring words of 4 bytes from one pointer."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for s in sites:
        memory = next((o for o in s.instruction.operands if o.kind == "memory"), None)
        if memory is not None and s.bytes_per_thread <= _WORD:
            rows.setdefault(memory.text.partition("+")[0].rstrip("]"), []).append((byte_offset(memory.text), s.index))
    found = set[int]()
    for row in rows.values():
        for (low, first), (high, second) in itertools.pairwise(sorted(row)):
            if high - low == _WORD and first not in found:
                found.add(second)
    return found


def asynchronous_copies(case: Case) -> Answer:
    """Tiles come to shared memory by asynchronous copies, some turns ahead: no registers, no wait for the load."""
    name = "asynchronous-copies"
    inside = case.inside(case.loops())
    pairs = _copies(case.code, sorted(i for i in inside if case.executed[i]))
    if not pairs:
        return refused(name, "no loop brings global memory to shared memory")
    loads, stores = {a for a, _ in pairs}, {b for _, b in pairs}
    controls = [c for i in loads if (c := case.code[i].control) is not None]
    boards = frozenset(c.write_scoreboard for c in controls if c.write_scoreboard is not None)
    relaxed = {i: without_waits(case.code[i], boards) for i in inside if case.code[i].control is not None}
    sites = {s.index: s for s in case.sites}
    copied = {a: _copied(sites[a], sites[b]) for a, b in pairs if a in sites and b in sites}
    made = with_counts(with_instructions(case.workload, relaxed), copied)
    made = dropped(made, stores)
    depth = case.launch.shared_bytes_per_block
    return [
        Proposal(
            name=name,
            title=f"copy tiles asynchronously, two iterations ahead: {len(pairs)} loads no longer waited for",
            workload=with_launch(made, shared_bytes_per_block=min(3 * depth, 227 << 10)),
            assumption="three tiles fit into shared memory; a copy takes no longer than two iterations",
            where=case.places(loads),
            changes={"stages": 3, "shared_bytes_per_block": 3 * depth},
            no_help="warps wait little for these loads",
        )
    ]


def _copied(load: Site, store: Site) -> dict[str, float]:
    """Return what a load and its store count as one copy: whole lines to whole lines go at once, parts one by one.

    Measured on an H200 (data/experiments/l1_data_path/asynchronous_copies.json); copies of 16 bytes pass by L1.
    """
    lines = load.useful_bytes / LINE_BYTES
    whole = load.wavefronts <= 1.05 * lines and store.wavefronts <= 1.05 * lines
    made = {"wavefronts": max(load.wavefronts, store.wavefronts) if whole else load.wavefronts + store.wavefronts}
    if load.bytes_per_thread >= _WIDEST:
        made |= {"l2_sectors": load.sectors, "l1_hit_sectors": 0.0,
                 "l2_hit_sectors": load.l2_hit_sectors + load.sectors - load.l2_sectors}  # fmt: skip
    return made


def _copies(code: Sequence[Instruction], inside: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of a load from global memory and the store of its result to shared memory."""
    made, loaded = list[tuple[int, int]](), dict[str, int]()
    for i in (*inside, *inside):
        x = code[i]
        if KINDS[x.kind] == "shared memory" and x.opcode == "STS":
            for register in x.reads:
                if register in loaded and (loaded[register], i) not in made:
                    made.append((loaded[register], i))
        if x.opcode == "LDG":
            loaded.update(dict.fromkeys(x.writes, i))
        else:
            for register in x.writes:
                loaded.pop(register, None)
    return made
