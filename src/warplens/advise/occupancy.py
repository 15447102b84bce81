"""Remedies for occupancy: more warps on an SM, by fewer registers or less shared memory; other block sizes."""

from __future__ import annotations

from warplens.advise.case import Answer, Case, Proposal, refused
from warplens.advise.overlay import regrouped, with_launch
from warplens.machine import Occupancy, occupancy
from warplens.machine.occupancy import step

_SIZES = (2, 4, 8, 16, 32)  # warps per block


def fits(case: Case) -> Occupancy:
    """Return what fits on an SM now."""
    return occupancy(
        case.machine,
        threads_per_block=int(case.launch.threads_per_block),
        registers_per_thread=case.launch.registers_per_thread,
        shared_bytes_per_block=case.launch.shared_bytes_per_block,
    )


def raise_occupancy(case: Case) -> Answer:
    """More blocks on an SM: what the resource that limits would have to shrink to."""
    name, now = "raise-occupancy", fits(case)
    on_sm = -(-case.profile.grid_blocks // int(case.machine.chip.sm_count))
    most = min(on_sm, int(case.machine.sm.warps_max // now.warps_per_block))
    if now.warps_per_sm >= case.machine.sm.warps_max and on_sm >= now.blocks_per_sm:
        return refused(name, f"all {now.warps_per_sm} warps that an SM holds are there")
    if on_sm <= now.blocks_per_sm:
        return refused(name, "the grid has no more blocks for an SM")
    made = list[Proposal]()
    for blocks in dict.fromkeys((now.blocks_per_sm + 1, 2 * now.blocks_per_sm, most)):
        found = step(case.machine, now, min(blocks, most), registers_per_thread=case.launch.registers_per_thread)
        if found is None or found.blocks_per_sm <= now.blocks_per_sm:
            continue
        shrink, costs = dict[str, int](), list[str]()
        if "registers" in found.at_most:
            shrink["registers_per_thread"] = found.at_most["registers"]
            costs.append(f"{case.launch.registers_per_thread} to {found.at_most['registers']} registers per thread")
        if "shared memory" in found.at_most:
            shrink["shared_bytes_per_block"] = found.at_most["shared memory"]
            costs.append(
                f"{case.launch.shared_bytes_per_block:,} to {found.at_most['shared memory']:,} B of shared memory"
            )
        made.append(
            Proposal(
                name=name,
                title=f"raise occupancy: {now.warps_per_sm} to {found.warps_per_sm} warps per SM by {', '.join(costs)}",
                workload=with_launch(case.workload, **shrink),
                assumption="the kernel can do with less of what limits it, without spills or more traffic",
                changes=dict(shrink),
                no_help=f"{now.warps_per_sm} warps per SM are enough to hide the latency",
            )
        )
    return made or refused(name, f"{now.limiter} of the machine limit it: another block size might")


def block_size(case: Case) -> Answer:
    """The same threads in blocks of another size, where nothing ties the warps of a block together."""
    name = "block-size"
    if _tied(case):
        return refused(name, "barriers or shared memory tie the threads of a block together")
    made = []
    for warps in _SIZES:
        if warps == case.profile.warps_per_block or warps * case.profile.grid_blocks == 0:
            continue
        made.append(
            Proposal(
                name=name,
                title=f"blocks of {32 * warps} threads instead of {32 * case.profile.warps_per_block}",
                workload=regrouped(case.workload, warps),
                assumption="the kernel takes any block size",
                changes={"block": 32 * warps},
                joins=frozenset(("block",)),
                no_help="the block size does not limit",
            )
        )
    return made


def _tied(case: Case) -> bool:
    barriers = any(x.kind == "barrier" and n for x, n in zip(case.code, case.executed, strict=True))
    return barriers or bool(case.shared_sites)


def lower_occupancy(case: Case) -> Answer:
    """Fewer warps, so that each has more of the caches: only where their loads come back to what L1 has lost."""
    now = fits(case)
    hits = case.profile.l1_hit_share
    if now.blocks_per_sm <= 1:
        return refused("lower-occupancy", "one block per SM is the least")
    about = f"{hits:.0%} of the sectors hit in L1" if case.profile.total("sectors") else "it uses no global memory"
    return refused("lower-occupancy", f"{about}; hit rates with fewer warps are not predicted")
