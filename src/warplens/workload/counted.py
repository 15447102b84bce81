"""Workload of a program, its call and its profile: the counts of a mean warp, its chain, and what is not modelled.

The chain is that of the commonest path of a warp, alone on an SM: the cycles of each step of its longest chain, as so
many latencies of the step's class, so that the chain takes as long as the control codes say. Loops of a path run for a
few iterations (`Walk`), the later half of which stands for all that are left out.

Features that are not modelled are named in the answer, line by line, with a wider interval or none. A table lists
instructions (files/unmodelled.toml), a function each of what is not a single instruction. A factor widens the interval
on both sides; without a factor there is no interval.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.files import convert, read_toml
from warplens.machine import KINDS, Machine
from warplens.program.dataflow import clocked, counter, spins
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import Floats, Ints, chain, facts_of, issue_alone, issue_in_order
from warplens.program.program import Program
from warplens.program.static_analysis import mean_parallelism
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path, Profile, Unmodelled
from warplens.workload.workload import Access, Launch, Link, Workload

SECTOR_BYTES = 32
_SPACES = {"LDG": "global", "STG": "global", "LD": "global", "ST": "global", "LDS": "shared", "STS": "shared",
           "LDL": "local", "STL": "local", "LDSM": "shared", "STSM": "shared", "ATOMS": "shared",
           "ATOM": "global", "ATOMG": "global", "RED": "global", "REDG": "global", "LDGSTS": "global"}  # fmt: skip
_ATOMICS = frozenset(("ATOM", "ATOMG", "ATOMS", "RED", "REDG"))
_FEW = 4  # lines that are named; fences of a warp of which nothing is said
_LONGEST_SLEEP = 1e-3  # seconds, by the PTX manual; an H200 sleeps 1.05 ms (data/experiments/fences/nanosleep.json)
_TRIPS, _LONG, _LONGEST = 8, 1024, 20_000  # of a loop: iterations run, instructions run; of a whole path


def workload_of(program: Program, call: KernelCall, profile: Profile, machine: Machine) -> Workload:
    """Return the workload of a program, by its call and the profile of that."""
    warps = profile.grid_blocks * profile.warps_per_block
    executed = profile.counts["executed"]
    accesses, counts, barriers = list[Access](), dict[str, float](), 0.0
    written = sum(t.l2_written_bytes for t in profile.traffic)
    l2_hits = 1 - min(1.0, profile.dram_written_bytes / written) if written else 1.0  # of what is written
    for i, x in enumerate(program.instructions):
        each = executed[i] / warps
        if not each:
            continue
        if x.opcode in _SPACES and profile.counts["requests"][i]:
            accesses.append(_access(x, i, profile, warps, l2_hits))
            counts["int"] = counts.get("int", 0.0) + max(0.0, each - float(accesses[-1].count))  # predicated off
        elif x.kind == "barrier":
            barriers += each
        else:
            kind = "int" if KINDS[x.kind] in ("memory system", "shared memory") else x.kind
            counts[kind] = counts.get(kind, 0.0) + each
    ilp, mlp = mean_parallelism(program, executed)
    return Workload(
        name=program.demangled.partition("(")[0] or program.name,
        source=program.origin,
        tools=program.tools,
        launch=Launch(
            grid=list(call.grid_shape),
            block=list(call.block_shape),
            registers_per_thread=program.resources.registers,
            shared_bytes_per_block=program.resources.static_shared_bytes + call.dynamic_shared_bytes,
        ),
        instructions={kind: count for kind, count in counts.items() if count > 1e-9},
        accesses=_merged(accesses),
        barriers=barriers,
        ilp=max(1.0, ilp),
        mlp=max(1.0, mlp),
        links=_links(program, profile, machine),
        array_types={a.name: a.element for a in call.arguments if a.is_pointer and a.name},
        code=program.instructions,
        spills=program.resources.spills if program.resources.registers else None,  # nothing is known without a cubin
        profile=profile,
        unmodelled=unmodelled(program, profile),
    )


def _access(x: Instruction, i: int, profile: Profile, warps: int, l2_hits: float) -> Access:
    """Return the accesses of instruction i; `l2_hits` is the share of bytes written to L2 that do not reach DRAM."""
    count = {name: column[i] for name, column in profile.counts.items()}
    requests, threads = count["requests"], max(count["threads"], 1.0)
    space = _SPACES[x.opcode]
    kind = "atomic" if x.opcode in _ATOMICS else "store" if x.opcode.startswith("ST") else "load"
    bytes_each = max(1.0, count["useful_bytes"] / threads)
    if space == "shared":
        wavefronts = max(1.0, count["wavefronts"] / requests)
        bytes_each = min(bytes_each, 4 * wavefronts)  # threads that ask for the same need fewer than their width says
        degree = wavefronts / max(1.0, bytes_each / 4)  # of its width (`workload.wavefronts`)
        return Access(requests / warps, "shared", kind, bytes_each, conflict_degree=round(degree, 3))  # type: ignore[arg-type]
    if count.get("transactions"):  # an old machine's own rules
        each, moved = count["transactions"] / requests, count["moved_bytes"] / count["transactions"]
        dense = each * moved <= 2 * max(count["useful_bytes"] / requests, SECTOR_BYTES)
        return Access(requests / warps, space, kind, bytes_each, each, moved, coalesced=bool(dense))  # type: ignore[arg-type]
    sectors = max(count["sectors"] / requests, 1.0)
    asked = count["l2_sectors"] / max(count["sectors"], 1.0)  # of the sectors, what passes L1
    if kind == "load":
        missed = asked * (1 - count["l2_hit_sectors"] / max(count["l2_sectors"], 1e-9)) if asked else 0.0
    else:
        missed = asked * (1 - l2_hits)
    dense = sectors * SECTOR_BYTES <= 2 * max(count["useful_bytes"] / requests, SECTOR_BYTES)
    return Access(
        count=requests / warps,
        space=space,  # type: ignore[arg-type]
        kind=kind,  # type: ignore[arg-type]
        bytes_per_thread=bytes_each,
        transactions=sectors,
        transaction_bytes=SECTOR_BYTES,
        coalesced=bool(dense),
        hit_fraction=min(1.0, max(0.0, 1 - missed)),
    )


def _merged(accesses: list[Access]) -> list[Access]:
    """Return the accesses with equal ones added up."""
    found: dict[Access, float] = {}
    for access in accesses:
        rounded = replace(
            access,
            count=0.0,
            bytes_per_thread=round(float(access.bytes_per_thread), 3),
            transactions=round(float(access.transactions), 2),
            hit_fraction=round(access.hit_fraction, 3),
        )
        found[rounded] = found.get(rounded, 0.0) + float(access.count)
    return [replace(access, count=count) for access, count in found.items()]


def _links(program: Program, profile: Profile, machine: Machine) -> list[Link]:
    """Return the chain of the commonest path, scaled to the instructions of the mean warp."""
    if not profile.paths:
        return []
    path = max(profile.paths, key=lambda p: (p.warps, p.instructions))
    walked = walk(path)
    warps = profile.grid_blocks * profile.warps_per_block
    scale = profile.total("executed") / warps / max(1.0, walked.counted)
    kinds = sorted({x.kind for x in program.instructions})
    number = {kind: i for i, kind in enumerate(kinds)}
    kind = np.array([number[x.kind] for x in program.instructions])
    first, then, cycles = _steps(program.instructions, walked, machine)
    pairs, met, which = np.unique(kind[first] * len(kinds) + kind[then], return_index=True, return_inverse=True)
    links = [(kinds[pair // len(kinds)], kinds[pair % len(kinds)]) for pair in pairs.tolist()]
    latencies = np.array([_latency(machine, *link) for link in links])
    counts = np.bincount(which, scale * cycles / np.where(latencies, latencies, np.inf)[which]).tolist()
    return [Link(links[i][0], links[i][1], counts[i]) for i in np.argsort(met).tolist() if latencies[i]]


def _latency(machine: Machine, producer: str, consumer: str) -> float:
    usual = machine.timing(producer).latency_cycles or machine.timing("fp32").latency_cycles or 0.0
    return machine.timing(producer).latency_to.get(consumer, usual)


class Walk(Struct, frozen=True, dict=True):
    """A shortened path: instruction numbers, for how many each one stands, positions of branches that are taken."""

    code: list[int]
    weights: list[float]
    taken: set[int]

    @cached_property
    def stands_for(self) -> Floats:
        """The weights as an array."""
        return np.array(self.weights)

    @cached_property
    def counted(self) -> float:
        """The number of instructions for which all of them stand."""
        return sum(self.weights)


def walk(path: Path) -> Walk:
    """Return a path whose loops run for a few iterations; the later half of these stands for all that are left out."""
    code: list[int] = []
    weights: list[float] = []
    taken: set[int] = set()
    for segment in path.segments:
        size = sum(stop - first for first, stop in segment.runs)
        trips = min(segment.times, 2 * max(2, min(_TRIPS, _LONG // max(1, size))))
        half = trips // 2
        for trip in range(trips):
            late = trips < segment.times and trip >= half
            weight = (segment.times - half) / (trips - half) if late else 1.0
            for first, stop in segment.runs:
                if code and code[-1] + 1 != first:
                    taken.add(len(code) - 1)
                code += range(first, stop)
                weights += [weight] * (stop - first)
        if len(code) > _LONGEST:
            break
    return Walk(code, weights, taken)


def _steps(code: list[Instruction], walked: Walk, machine: Machine) -> tuple[Ints, Ints, Floats]:
    """Return the longest chain of a lone warp: the instructions from which and to which, and the cycles between."""
    if all(code[i].control is None for i in walked.code):
        alone = issue_alone([code[i] for i in walked.code], machine, taken=walked.taken)
        cycles, decided = np.array(alone.issue_cycles), alone.decided_by
    else:
        cycles, _, by = issue_in_order(facts_of(code, machine)[walked.code], machine, walked.taken)
        decided = by.tolist()
    numbers, weights, steps = np.array(walked.code, np.int64), walked.stands_for, np.array(chain(decided), np.int64)
    at, to = steps[:-1], steps[1:]
    return numbers[at], numbers[to], weights[at] * (cycles[to] - cycles[at])


def lone_warp_cycles(run: Floats, walked: Walk, machine: Machine) -> float:
    """Return the cycles of a lone warp along a path; `run` has a row of `facts_of` for each position."""
    cycles, _, _ = issue_in_order(run, machine, walked.taken)
    return float(np.cumsum(walked.stands_for * np.diff(cycles))[-1])


class Rule(Struct, frozen=True):
    """Instructions by the first words of their names, with any of some modifiers if there are such."""

    names: list[str]
    thing: str
    says: str
    factor: float | None = None
    modifiers: list[str] = []

    def fits(self, x: Instruction) -> bool:
        """Return whether this is such an instruction."""
        named = any(x.name == name or x.name.startswith(f"{name}.") for name in self.names)
        return named and (not self.modifiers or not set(self.modifiers).isdisjoint(x.modifiers))


class _File(Struct, frozen=True):
    instruction: list[Rule]
    assumed: dict[str, tuple[str, str]]  # what, and what is said of it


_FILE = pathlib.Path(__file__).parent / "files" / "unmodelled.toml"
_KNOWN = convert(read_toml(_FILE), _File, str(_FILE))
RULES = _KNOWN.instruction
_MOVED_ELSEWHERE = ("CCTL", "PREFETCH", "QSPC", "UBLKCP", "UBLKRED")  # accesses without requests of their own
_SYSTEM = {"vprintf": "printf", "__assertfail": "assert"}  # as the programmer calls the driver's functions


def unmodelled(program: Program, profile: Profile) -> list[Unmodelled]:
    """Return the unmodelled features of a call, by its program and its profile; those without an interval first."""
    ran = [x for x, threads in zip(program.instructions, profile.counts["threads"], strict=True) if threads]
    measured = profile.emulated_blocks == 0  # a profiler has counted the bytes
    rules = [rule for rule in RULES if not (measured and "bytes" in rule.says)]
    found = [
        *(u for rule in rules for u in _found([x for x in ran if rule.fits(x)], rule.thing, rule.says, rule.factor)),
        *_sleeps(ran),
        *_of_the_driver(program, profile),
        *_waits(program, profile, ran),
        *_past_l1(program, profile),
        *_assumed(program, profile),
        *_unknown(program, profile),
    ]
    cluster = program.resources.cluster
    if cluster is not None and max(cluster) > 1:
        shape = ", ".join(str(n) for n in cluster)
        found.insert(0, Unmodelled(f"__cluster_dims__({shape})", "its blocks are taken as blocks without a cluster"))
    return sorted(found, key=lambda u: u.factor is not None)


def texts(found: Iterable[Unmodelled]) -> list[str]:
    """Return the sentence on each, with the factor of the interval."""
    return [u.text + ("" if u.factor in (None, 1.0) else f" (interval widened {u.factor:g} times)") for u in found]


def sleep_seconds(x: Instruction) -> float | None:
    """Return the seconds that an instruction asks to sleep; None where a register says it, 0 for others."""
    if x.opcode != "NANOSLEEP" or "SYNCS" in x.modifiers:  # .SYNCS: until a barrier's phase, which comes by itself
        return 0.0
    known = next((o.value for o in x.operands if o.kind == "immediate"), None)
    return None if known is None else min(1e-9 * known, _LONGEST_SLEEP)


def _found(code: Sequence[Instruction], thing: str, says: str, factor: float | None = None) -> list[Unmodelled]:
    """Return a finding of some instructions, with their lines, if there are any."""
    if not code:
        return []
    lines = sorted({x.line for x in code if x.line is not None})
    named = ", ".join(str(n) for n in lines[:_FEW]) + (", ..." if len(lines) > _FEW else "")
    where = f"line{'s' if len(lines) > 1 else ''} {named}" if lines else f"{code[0].offset:04x} {code[0].name}"
    return [Unmodelled(thing, says, where, factor)]


def _sleeps(ran: Sequence[Instruction]) -> Iterator[Unmodelled]:
    sleeps = [x for x in ran if sleep_seconds(x) != 0.0]
    known, unknown = ([x for x in sleeps if (sleep_seconds(x) is None) == computed] for computed in (False, True))
    yield from _found(known, "__nanosleep", "counted as long as it asks for; it may take from none to twice that", 2.0)
    yield from _found(unknown, "__nanosleep", "for a time that is computed: it is not counted")


def _of_the_driver(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the driver's functions that are called: their code is not in the kernel."""
    calls: dict[str, list[int]] = {}
    for i, x in enumerate(program.instructions):
        if x.opcode == "CALL" and "ABS" in x.modifiers and (name := _callee(program, i)):
            calls.setdefault(name, []).append(i)
    for name, positions in calls.items():
        ran = [program.instructions[i] for i in positions if profile.counts["threads"][i]]
        yield from _found(ran, _SYSTEM.get(name, name), "the driver's code, whose time is not counted")
        if not ran and not profile.exact:
            code = [program.instructions[i] for i in positions]
            yield from _found(code, _SYSTEM.get(name, name), "called by no block that was emulated: not counted", 1.0)


def _callee(program: Program, at: int) -> str:
    """Return the driver's function that a call goes to, by the address that is loaded for it; all, if unclear."""
    addresses = {program.symbols[name]: name for name in program.system if name in program.symbols}
    code, register = program.instructions, program.instructions[at].operands[0].registers[:1]
    load = _writer(code, at, register)
    if load is None or not addresses:
        return ""
    i, x = load
    address = re.search(r"c\[0x4\]\s*\[(?:(U?R\d+))?\+?(0x[0-9a-f]+)?\]", x.text)
    if address is None:
        named = re.search(r"32@lo\(+([\w.$]+)", x.text)
        return named[1] if named and named[1] in program.system else ""
    offset = int(address[2] or "0", 16)
    if address[1] and (index := _writer(code, i, (address[1],))) is not None:
        offset += int(next((o.value for o in index[1].operands if o.kind == "immediate" and o.value), 0))
    raw = program.constants.get(4, b"")[offset : offset + 8]
    return addresses.get(int.from_bytes(raw, "little"), "")


def _writer(code: Sequence[Instruction], at: int, registers: Sequence[str]) -> tuple[int, Instruction] | None:
    """Return the last instruction before position `at` that writes these registers."""
    return next(((i, code[i]) for i in range(at - 1, -1, -1) if set(registers) & set(code[i].writes)), None)


def _waits(program: Program, profile: Profile, ran: Sequence[Instruction]) -> Iterator[Unmodelled]:
    queue = counter(program)
    if queue is not None and not profile.exact:
        says = (
            "blocks take their work from a counter; each of the few that were emulated did all of it, and counts and "
            "time are far too high; --exact counts the whole grid"
        )
        yield from _found([queue], "a work queue", says)
    waits = [x for x in spins(program) if any(x is y for y in ran)]
    yield from _found(
        waits, "a loop until another thread has written", "how often it goes round is as the emulator's order has it"
    )
    clocks, barriers = ([x for x in found if any(x is y for y in ran)] for found in clocked(program))
    yield from _found(clocks, "a branch that depends on a clock", "the emulator's clock counts instructions")
    yield from _found(barriers, "a wait for a barrier (mbarrier)", "it asks a clock, and its time is not modelled")


def _past_l1(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the loads that bypass L1 and are counted as hits there, and the fences that empty it, if they are many."""
    code, executed = program.instructions, profile.counts["executed"]
    hits = zip(code, profile.counts["l1_hit_sectors"], strict=True)
    volatile = [x for x, n in hits if n and x.opcode in ("LD", "LDG") and "STRONG" in x.modifiers]
    yield from _found(volatile, "a volatile load", "counted as one that L1 may serve", 1.5)
    counted = [(x, n) for x, n in zip(code, executed, strict=True) if n]
    fences = [(x, n) for x, n in counted if x.opcode == "CCTL" and "IVALL" in x.modifiers]
    if sum(n for _, n in fences) > _FEW * profile.grid_blocks * profile.warps_per_block:
        says = "it empties L1, and later accesses are counted as if it did not"
        yield from _found([x for x, _ in fences], "a fence", says, 1.25)


def _assumed(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the values on which the kernel's control flow depends, and that the launch does not give."""
    for assumption in profile.assumed:
        code = [program.instructions[i] for i in assumption.instructions]
        thing, says = (text.replace("NAME", assumption.name) for text in _KNOWN.assumed[assumption.kind])
        yield from _found(code, thing, says)


def _unknown(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name instructions that neither table nor machine file has, and accesses that the emulator does not follow."""
    counts = zip(program.instructions, profile.counts["threads"], profile.counts["requests"], strict=True)
    threads = [(x, asked) for x, n, asked in counts if n and not any(rule.fits(x) for rule in RULES)]
    for name in dict.fromkeys(x.name for x, _ in threads if x.kind == "other"):
        code = [x for x, _ in threads if x.name == name]
        yield from _found(code, name, "an instruction whose rate is not known: counted as an issue slot", 1.5)
    if profile.emulated_blocks == 0:
        return
    lost = [x for x, asked in threads if x.kind in ("load", "store") and not asked and x.opcode not in _MOVED_ELSEWHERE]
    for name in dict.fromkeys(x.name for x in lost):
        yield from _found([x for x in lost if x.name == name], name, "the bytes that it moves are not counted")
