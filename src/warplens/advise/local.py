"""Remedies for spilled registers and for atomics."""

from __future__ import annotations

from msgspec.structs import replace

from warplens.advise.case import LOCAL, Answer, Case, Proposal, refused
from warplens.advise.overlay import with_counts, with_instructions, with_launch, with_traffic
from warplens.advise.rewrite import dropped

_GLOBAL_ATOMICS = frozenset(("RED", "REDG", "ATOM", "ATOMG"))


def avoid_spills(case: Case) -> Answer:
    """Enough registers for what is spilled to local memory."""
    name = "avoid-spills"
    sites = [s for s in case.sites if s.instruction.opcode in LOCAL]
    if not sites:
        return refused(name, "it spills no registers")
    words = {o.text for s in sites for o in s.instruction.operands if o.kind == "memory"}
    registers = min(255, case.launch.registers_per_thread + len(words))
    made = with_launch(dropped(case.workload, {s.index for s in sites}), registers_per_thread=registers)
    return [
        Proposal(
            name=name,
            title=f"{registers} registers per thread instead of {case.launch.registers_per_thread}: no spills",
            workload=made,
            assumption="a register for each word that is spilled; occupancy falls accordingly",
            where=case.places(s.index for s in sites),
            changes={"registers_per_thread": registers},
            no_help="local memory is served by L1 beside the rest",
        )
    ]


def privatise_atomics(case: Case) -> Answer:
    """Atomics on shared memory first, one addition per address and block to global memory at the end."""
    name = "privatise-atomics"
    sites = [s for s in case.global_sites if s.instruction.opcode in _GLOBAL_ATOMICS]
    often = [s for s in sites if s.executed > 1.5 * case.warps]
    if not sites:
        return refused(name, "it has no atomics on global memory")
    if not often:
        return refused(name, "its atomics on global memory come once per warp at most")
    code = {s.index: replace(s.instruction, opcode="ATOMS", kind="shared") for s in often}
    none = dict.fromkeys(("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors"), 0.0)
    counts = {s.index: {**none, "wavefronts": s.least_wavefronts} for s in often}
    made = with_counts(with_instructions(case.workload, code), counts)
    return [
        Proposal(
            name=name,
            title="add up in shared memory first: atomics on global memory once per address and block",
            workload=with_traffic(made, lambda t: replace(t, atomic_passes=0.0)),
            assumption="the addresses fit into shared memory; what a block adds at its end costs little",
            where=case.places(s.index for s in often),
            changes={"shared_atomics": [s.index for s in often]},
            no_help="atomics do not limit",
        )
    ]
