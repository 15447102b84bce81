"""Remedies for spilled registers and for atomics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from warplens.advisor.case import LOCAL, SECTOR_BYTES, Answer, Case, Proposal, Site, refused
from warplens.advisor.overlay import with_counts, with_instructions, with_launch, with_traffic
from warplens.advisor.rewrite import Copy, Way, as_written, dropped, rewritten
from warplens.program.instruction import Instruction
from warplens.workload.profile import Path
from warplens.workload.workload import Workload

_WORD = 4  # bytes of a sum
_CHAIN_STALL = 5  # cycles between instructions that wait for one another
_GLOBAL_ATOMICS = frozenset(("RED", "REDG", "ATOM", "ATOMG"))


def avoid_spills(case: Case) -> Answer:
    """Enough registers for what is spilled to local memory."""
    name = "avoid-spills"
    local, marked = [s for s in case.sites if s.instruction.opcode in LOCAL], case.workload.spills
    sites = [s for s in local if marked is None or s.instruction.offset in marked]
    if not sites:
        return refused(name, "it spills no registers" + (": its local memory has arrays, or stacks" if local else ""))
    words = {o.text for s in sites for o in s.instruction.operands if o.kind == "memory"}
    registers = min(255, case.launch.registers_per_thread + len(words))
    made = with_launch(dropped(case.workload, {s.index for s in sites}), registers_per_thread=registers)
    made = with_instructions(made, {i: _with_room(x) for i, x in enumerate(made.code)})
    return [
        Proposal(
            name=name,
            title=f"{registers} registers per thread instead of {case.launch.registers_per_thread}: no spills",
            workload=made,
            assumption="a register for each word that is spilled, so that occupancy falls; with so many the compiler "
            "finds some of different banks",
            where=case.places(s.index for s in sites),
            changes={"registers_per_thread": registers},
            no_help="local memory is served by L1 beside the rest",
        )
    ]


def _with_room(x: Instruction) -> Instruction:
    """Let an instruction read one register of each bank: those that it has now were chosen among too few."""
    banks: dict[int, str] = {}
    for name in x.reads:
        if name[0] == "R" and name[1:].isdigit():
            banks.setdefault(int(name[1:]) % 2, name)
    kept = set(banks.values())
    return replace(x, reads=tuple(r for r in x.reads if r in kept or not (r[0] == "R" and r[1:].isdigit())))


def privatise_atomics(case: Case) -> Answer:
    """Atomics on shared memory first, one addition per address and block to global memory at the end."""
    name = "privatise-atomics"
    sites = [s for s in case.global_sites if s.instruction.opcode in _GLOBAL_ATOMICS]
    if not sites:
        return refused(name, "it has no atomics on global memory")
    addresses = max((t.written_footprint_bytes for t in case.profile.traffic if t.atomic_passes), default=0.0) / _WORD
    per_block = sum(s.threads for s in sites) / case.profile.grid_blocks
    if not addresses:
        return refused(name, "which addresses its atomics go to is not known")
    if per_block <= addresses:
        return refused(
            name, f"a block has no more atomics ({per_block:.0f}) than there are addresses ({addresses:.0f})"
        )
    made = _added_up(case, sites, addresses)
    code = {s.index: replace(s.instruction, opcode="ATOMS", kind="shared") for s in sites}
    none = dict.fromkeys(("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors"), 0.0)
    counts = {s.index: {**none, "wavefronts": s.least_wavefronts} for s in sites}
    made = with_counts(with_instructions(made, code), counts)
    shared = case.launch.shared_bytes_per_block + round(_WORD * addresses)
    return [
        Proposal(
            name=name,
            title=f"add up in shared memory first: {addresses:.0f} atomics on global memory per block",
            workload=with_launch(made, shared_bytes_per_block=shared),
            assumption="the addresses fit into shared memory, and every block clears and adds all of them",
            where=case.places(s.index for s in sites),
            changes={"shared_atomics": [s.index for s in sites]},
            no_help="atomics do not limit",
        )
    ]


def _added_up(case: Case, sites: Sequence[Site], addresses: float) -> Workload:
    """Let a block clear its sums first and add them to those in global memory at its end."""
    site, turns = sites[0].index, addresses / float(case.launch.threads_per_block)
    store, barrier, load = (Copy(site, becomes=name) for name in ("STS", "BAR", "LDS"))
    count = Copy(site, _CHAIN_STALL, False, becomes="IMAD")

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        def way(times: int) -> Way:
            clear, add = [(count, store)] * times, [(count, load, Copy(site))] * times
            parts: Way = [(as_written(s), s.times) for s in path.segments]
            ending, (runs, n) = parts[:-1], parts[-1]
            return [([*clear, (barrier,)], 1), *ending, (runs, n - 1), ([*runs[:-1], runs[-1][:-1]], 1),
                    ([(barrier,), *add, runs[-1][-1:]], 1)]  # fmt: skip

        more = turns - math.floor(turns)
        low, high = (way(f(turns)) for f in (math.floor, math.ceil))
        return [(low, 1 - more), (high, more)] if more else [(low, 1.0)]

    made = rewritten(case.workload, rewrite)
    assert made.profile is not None
    executed, total = made.profile.counts["executed"], addresses * case.profile.grid_blocks
    index = next((i for i in range(len(case.code), len(made.code)) if made.code[i].text == case.code[site].text), None)
    if index is not None:
        sectors = max(executed[index], total * _WORD / SECTOR_BYTES)
        flat = dict.fromkeys(("sectors", "l2_sectors", "l2_hit_sectors"), sectors)
        ask = dict.fromkeys(("requests", "lines", "wavefronts"), executed[index])
        made = with_counts(
            made, {index: {**flat, **ask, "threads": total, "useful_bytes": _WORD * total, "queue": 0.0}}
        )
    passes = total * _WORD / SECTOR_BYTES
    return with_traffic(made, lambda t: replace(t, atomic_passes=min(t.atomic_passes, passes)))
