"""Remedies that keep data near: in shared memory, in registers, in constant memory; copies that need no registers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from warplens.advise.case import Answer, Case, Proposal, Site, refused
from warplens.advise.overlay import with_counts, with_instructions, with_launch, without_waits
from warplens.advise.rewrite import Copy, Repeat, Run, Way, as_written, dropped, joined_threads, rewritten
from warplens.advise.slices import address_instructions, from_data
from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Path
from warplens.kernel.workload import Workload
from warplens.machine import KINDS

_CONSTANT_BYTES = 1 << 16
_WORD = 4  # bytes; and words of one access to shared memory
_SAME, _KEPT = 0.02, 64  # bytes that count as those of the whole array; words that a thread can keep
_BLOCKS = (2, 4, 8)  # elements along a side that a thread keeps in registers


def keep_in_shared(case: Case) -> Answer:
    """Loads that come again and again read from shared memory; each element is brought there once per block."""
    name = "keep-in-shared"
    inside = case.inside(case.loops())
    sites = [s for s in case.global_sites if s.instruction.opcode == "LDG" and s.index in inside and _again(s) >= 2]
    if not sites:
        return refused(name, "no load in a loop comes back to what its block has read")
    every = max(2, min(32, round(min(_again(s) for s in sites))))
    made = _staged(case, {s.index for s in sites}, every)
    return [
        Proposal(
            name=name,
            title=f"keep in shared memory what is read again: {len(sites)} loads, each element {every} times or more",
            workload=made,
            assumption="a block brings each element once, coalesced; shared memory is read without conflicts",
            where=case.places(s.index for s in sites),
            changes={"shared": [s.index for s in sites], "read_again": every},
            no_help="L1 serves these loads as fast",
        )
    ]


def _again(s: Site) -> float:
    """Return how often a byte is asked for that passes L1 once."""
    return s.sectors / max(s.l2_sectors, s.sectors / 32)


def _staged(case: Case, loads: set[int], every: int) -> Workload:
    """Turn loads into shared ones; one turn in so many brings the data, with a store and a barrier."""
    barrier = next((i for i, x in enumerate(case.code) if x.opcode == "BAR"), None)
    synchronised = () if barrier is None else (Copy(barrier),)

    spared = {i for i in address_instructions(case.code) if case.code[i].kind not in ("exit", "barrier")}
    if any(
        case.executed[i] for i in spared & from_data(case.code, case.executed)
    ):  # a search, not a walk: only upper halves go
        spared = {i for i in spared if "X" in case.code[i].modifiers}
    narrow = {s.index for s in case.sites if s.sectors <= 1.05 * s.lines and s.bytes_per_thread <= _WORD}  # broadcasts

    def near(run: Run, turn: int) -> Run:
        """A turn within the tile: its size is known, so that addresses are constants; four words come at once."""
        made = [c for c in run if c.origin not in spared and (c.origin not in narrow or turn % _WORD == 0)]
        return tuple(Copy(c.origin, becomes="LDS") if c.origin in loads else c for c in made)

    def brought(run: Run) -> Run:
        made: list[Copy] = []
        for c in run:
            made += [c, Copy(c.origin, becomes="STS"), Copy(c.origin, becomes="LDS")] if c.origin in loads else [c]
        return (*made, *synchronised) if any(c.origin in loads for c in run) else run

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        for s in path.segments:
            runs = as_written(s)
            if not any(c.origin in loads for run in runs for c in run):
                way.append((runs, s.times))
                continue
            turns = s.times // every
            inner = [near(r, turn) for turn in range(1, every) for r in runs]
            way.append(([brought(r) for r in runs] + inner, turns))
            way.append(([near(r, 0) for r in runs], s.times - turns * every))
        return [(way, 1.0)]

    return rewritten(case.workload, rewrite)


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
    made = []
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
                changes={"results_per_thread": side * side},
                no_help="loading operands does not limit",
            )
        )
    return made or refused(name, "too few blocks to give a thread more")


def _read_once(case: Case) -> list[Proposal]:
    """Let a thread keep what it reads again in a later loop: loads that each bring a whole array."""
    later, words = set[int](), 0.0
    for array in case.profile.traffic:
        whole = [
            s for s in case.global_sites
            if s.instruction.opcode == "LDG" and array.read_footprint_bytes
            and abs(s.useful_bytes / array.read_footprint_bytes - 1) < _SAME
        ]  # fmt: skip
        if len(whole) > 1:
            later |= {s.index for s in whole[1:]}
            words += whole[0].useful_bytes / (32 * case.warps) / _WORD
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


def _squares(case: Case, side: int, loads: set[int], work: set[int], once: set[int]) -> Workload | None:
    if case.warps / side**2 < 4 * case.machine.chip.sm_count or len(work) * side**2 > _MOST_CODE:
        return None
    wide = min(4, side)
    shared = {s.index for s in case.shared_sites if s.instruction.opcode in ("LDS", "STS")} | loads

    def repeats(i: int) -> Repeat:
        if i in shared:  # a side of the square, by accesses of up to 16 bytes
            return Repeat(max(1, side // wide), float(wide))
        return Repeat(1 if i in once or i not in work else side * side)

    joined = joined_threads(case.workload, side * side, repeats)
    registers = min(255, case.launch.registers_per_thread + side * side + 2 * side)
    return with_launch(
        joined, registers_per_thread=registers, shared_bytes_per_block=case.launch.shared_bytes_per_block * side
    )


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
    new = {
        s.index: replace(without_waits(s.instruction), opcode="LDC", kind="constant", text=f"LDC {s.instruction.text}")
        for s in sites
    }
    none = dict.fromkeys(set(case.profile.counts) - {"executed", "threads"}, 0.0)
    made = with_counts(with_instructions(case.workload, new), dict.fromkeys(new, none))
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
    made = dropped(with_instructions(case.workload, relaxed), stores)
    depth = case.launch.shared_bytes_per_block
    return [
        Proposal(
            name=name,
            title=f"copy tiles asynchronously, two turns ahead: {len(pairs)} loads no longer waited for",
            workload=with_launch(made, shared_bytes_per_block=min(3 * depth, 227 << 10)),
            assumption="three tiles fit into shared memory; a copy takes no longer than two turns",
            where=case.places(loads),
            changes={"stages": 3, "shared_bytes_per_block": 3 * depth},
            no_help="warps wait little for these loads",
        )
    ]


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
