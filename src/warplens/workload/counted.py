"""From a program, its call and its profile to a workload: what one warp does on average, as the models count it.

The chain of dependences is that of the commonest way of a warp, alone on an SM: the cycles that each step of its
longest path takes, as so many latencies of the step's class, so that the chain takes what the control codes say.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction
from warplens.program.parallelism import mean_parallelism
from warplens.program.program import Program
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Profile
from warplens.workload.unmodelled import unmodelled
from warplens.workload.walk import steps, walk
from warplens.workload.workload import Access, Launch, Link, Workload

SECTOR_BYTES = 32
_SPACES = {"LDG": "global", "STG": "global", "LD": "global", "ST": "global", "LDS": "shared", "STS": "shared",
           "LDL": "local", "STL": "local", "LDSM": "shared", "STSM": "shared", "ATOMS": "shared",
           "ATOM": "global", "ATOMG": "global", "RED": "global", "REDG": "global", "LDGSTS": "global"}  # fmt: skip
_ATOMICS = frozenset(("ATOM", "ATOMG", "ATOMS", "RED", "REDG"))


def workload_of(program: Program, call: KernelCall, profile: Profile, machine: Machine) -> Workload:
    """Join what a program is and what its call did."""
    warps = profile.grid_blocks * profile.warps_per_block
    executed = profile.counts["executed"]
    accesses, counts, barriers = list[Access](), dict[str, float](), 0.0
    hits = _dram_hits(profile)
    for i, x in enumerate(program.instructions):
        each = executed[i] / warps
        if not each:
            continue
        if x.opcode in _SPACES and profile.counts["requests"][i]:
            accesses.append(_access(x, i, profile, warps, hits))
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


def _dram_hits(profile: Profile) -> tuple[float, float]:
    """Share of the bytes asked of L2 that do not reach DRAM, read and written."""
    read, written = sum(t.l2_read_bytes for t in profile.traffic), sum(t.l2_written_bytes for t in profile.traffic)
    return (
        1 - min(1.0, profile.dram_read_bytes / read) if read else 1.0,
        1 - min(1.0, profile.dram_written_bytes / written) if written else 1.0,
    )


def _access(x: Instruction, i: int, profile: Profile, warps: int, hits: tuple[float, float]) -> Access:
    count = {name: column[i] for name, column in profile.counts.items()}
    requests, threads = count["requests"], max(count["threads"], 1.0)
    space = _SPACES[x.opcode]
    kind = "atomic" if x.opcode in _ATOMICS else "store" if x.opcode.startswith("ST") else "load"
    bytes_each = max(1.0, count["useful_bytes"] / threads)
    if space == "shared":
        turns = max(1.0, count["wavefronts"] / requests)
        bytes_each = min(bytes_each, 4 * turns)  # threads that ask for the same have it in fewer turns than their width
        degree = turns / max(1.0, bytes_each / 4)  # of its width (`width.wavefronts`)
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
        missed = asked * (1 - hits[1])
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
    """Join accesses that are alike."""
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
    """Return the chain of the commonest way, scaled to the instructions of the mean warp."""
    if not profile.paths:
        return []
    path = max(profile.paths, key=lambda p: (p.warps, p.instructions))
    way = walk(path)
    warps = profile.grid_blocks * profile.warps_per_block
    scale = profile.total("executed") / warps / max(1.0, way.counted)
    kinds = sorted({x.kind for x in program.instructions})
    number = {kind: i for i, kind in enumerate(kinds)}
    kind = np.array([number[x.kind] for x in program.instructions])
    first, then, cycles = steps(program.instructions, way, machine)
    pairs, met, which = np.unique(kind[first] * len(kinds) + kind[then], return_index=True, return_inverse=True)
    links = [(kinds[pair // len(kinds)], kinds[pair % len(kinds)]) for pair in pairs.tolist()]
    latencies = np.array([_latency(machine, *link) for link in links])
    counts = np.bincount(which, scale * cycles / np.where(latencies, latencies, np.inf)[which]).tolist()
    return [Link(links[i][0], links[i][1], counts[i]) for i in np.argsort(met).tolist() if latencies[i]]


def _latency(machine: Machine, producer: str, consumer: str) -> float:
    usual = machine.timing(producer).latency_cycles or machine.timing("fp32").latency_cycles or 0.0
    return machine.timing(producer).latency_to.get(consumer, usual)
