"""Workload of a program, its call and its profile: the counts of a mean warp, and its chain of dependences.

The chain is that of the commonest path of a warp, alone on an SM: the cycles of each step of its longest chain, as so
many latencies of the step's class, so that the chain takes as long as the control codes say. Loops of a path run for a
few iterations (`Walk`), the later half of which stands for all that are left out.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import Floats, Ints, chain, facts_of, issue_alone, issue_in_order
from warplens.program.program import Program
from warplens.program.static_analysis import mean_parallelism
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Path, Profile
from warplens.workload.unmodelled import unmodelled
from warplens.workload.workload import Access, Launch, Link, Workload

SECTOR_BYTES = 32
_SPACES = {"LDG": "global", "STG": "global", "LD": "global", "ST": "global", "LDS": "shared", "STS": "shared",
           "LDL": "local", "STL": "local", "LDSM": "shared", "STSM": "shared", "ATOMS": "shared",
           "ATOM": "global", "ATOMG": "global", "RED": "global", "REDG": "global", "LDGSTS": "global"}  # fmt: skip
_ATOMICS = frozenset(("ATOM", "ATOMG", "ATOMS", "RED", "REDG"))
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
        degree = wavefronts / max(1.0, bytes_each / 4)  # of its width (`memory_access.wavefronts`)
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
