"""Remedies for occupancy: more warps on an SM, by fewer registers or less shared memory; other block sizes."""

from __future__ import annotations

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.live_registers import most_alive
from warplens.advisor.overlay import regrouped, with_fewer, with_launch
from warplens.machine import Occupancy, occupancy
from warplens.machine.occupancy import step
from warplens.workload.profile import CROWDED, Crowding, Fewer

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
        return refused(name, f"occupancy is 100 % already ({now.warps_per_sm} warps per SM)")
    if on_sm <= now.blocks_per_sm:
        return refused(name, "the grid has no more blocks for an SM")
    made, alive, too_few = list[Proposal](), None, 0
    for blocks in dict.fromkeys((now.blocks_per_sm + 1, 2 * now.blocks_per_sm, most)):
        found = step(case.machine, now, min(blocks, most), registers_per_thread=case.launch.registers_per_thread)
        if found is None or found.blocks_per_sm <= now.blocks_per_sm:
            continue
        if "registers" in found.at_most:
            alive = most_alive(case) if alive is None else alive
            if found.at_most["registers"] < alive:
                too_few = max(too_few, found.at_most["registers"])
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
    if too_few and not made:
        return refused(
            name, f"{alive} registers are alive at a time, more warps would leave it {too_few}: it would spill"
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
    """Fewer blocks on an SM, so that L1 keeps what they come back to: hits as the emulator counted them for fewer."""
    name, now, known = "lower-occupancy", fits(case), case.profile.crowding
    on_sm = min(now.blocks_per_sm, -(-case.profile.grid_blocks // int(case.machine.chip.sm_count)))
    if on_sm <= 1:
        return refused(name, "one block per SM is the least")
    if not case.profile.total("sectors"):
        return refused(name, case.without_global)
    if known is None:
        return refused(name, "what L1 keeps for fewer blocks was not counted; `warplens analyze` counts it")
    if not known.fits(case.profile):
        return refused(name, "what L1 keeps for fewer blocks was counted before its accesses changed")
    if not known.fewer:
        return refused(name, _not_crowded(known))
    return [_with_fewer(case, on_sm * now.warps_per_block, f) for f in known.fewer]


def _not_crowded(known: Crowding) -> str:
    if known.crowded:
        return "a block costs too much to be emulated again with fewer beside it"
    if known.lost_share < CROWDED:
        return f"L1 keeps what blocks come back to: {known.lost_share:.0%} of what loads ask of L2 was there before"
    return f"blocks on an SM read {known.times_l1:.2g} times what L1 holds, which keeps most of so little more"


def _with_fewer(case: Case, warps_now: int, counted: Fewer) -> Proposal:
    blocks = counted.blocks_per_sm
    warps, grid = blocks * case.profile.warps_per_block, blocks * int(case.machine.chip.sm_count)
    workload = with_launch(with_fewer(case.workload, blocks), blocks_per_sm=blocks)
    assert workload.profile is not None
    before, after = case.profile.l1_hit_share, workload.profile.l1_hit_share
    asked = case.profile.counts["l2_sectors"]
    spared = [i for i, n in zip(counted.accesses, counted.counts["l2_sectors"], strict=True) if n < 0.95 * asked[i]]
    return Proposal(
        name="lower-occupancy",
        title=f"lower occupancy: {warps_now} to {warps} warps per SM, for {after:.0%} L1 hits instead of {before:.0%}",
        workload=workload,
        assumption=f"{grid:,} blocks that each do the work of several; unused shared memory would take from L1",
        where=case.places(spared),
        changes={"blocks_per_sm": blocks},
        no_help=f"L1 would find {after:.0%} instead of {before:.0%} with {warps} warps per SM, which buys nothing",
    )
