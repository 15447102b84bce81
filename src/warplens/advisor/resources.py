"""Remedies for what a launch occupies: warps, registers and shared memory of an SM, block size, grid, spills."""

from __future__ import annotations

import math

from msgspec.structs import replace

from warplens.advisor.case import LOCAL, Answer, Case, Proposal, refused
from warplens.advisor.overlay import regrouped, with_fewer, with_instructions, with_launch
from warplens.advisor.rewrite import Trace, as_written, dropped, fewer_blocks, with_segments
from warplens.machine.occupancy import step
from warplens.program.instruction import Instruction
from warplens.workload.profile import LEAST_LOST, Fewer, L1Contention, Segment

_SIZES = (2, 4, 8, 16, 32)  # warps per block
_LONGEST_PATH = 50_000  # instructions of a path whose live registers are counted
_EQUAL_WORK = 1.001  # instructions of the longest block over those of the shortest: no difference
_TAIL = 1.03  # time of whole waves of blocks over that of even ones, from which a tail matters


def raise_occupancy(case: Case) -> Answer:
    """Fit more blocks on an SM: name what the limiting resource would have to shrink to."""
    now = case.occupancy
    on_sm = -(-case.profile.grid_blocks // int(case.machine.chip.sm_count))
    most = min(on_sm, int(case.machine.sm.warps_max // now.warps_per_block))
    if now.warps_per_sm >= case.machine.sm.warps_max and on_sm >= now.blocks_per_sm:
        return refused(f"occupancy is 100 % already ({now.warps_per_sm} warps per SM)")
    if on_sm <= now.blocks_per_sm:
        return refused("the grid has no more blocks for an SM")
    proposals, live, too_few = list[Proposal](), None, 0
    for blocks in dict.fromkeys((now.blocks_per_sm + 1, 2 * now.blocks_per_sm, most)):
        found = step(case.machine, now, min(blocks, most), registers_per_thread=case.launch.registers_per_thread)
        if found is None or found.blocks_per_sm <= now.blocks_per_sm:
            continue
        if "registers" in found.at_most:
            live = most_live(case) if live is None else live
            if found.at_most["registers"] < live:
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
        proposals.append(
            Proposal(
                title=f"raise occupancy: {now.warps_per_sm} to {found.warps_per_sm} warps per SM by {', '.join(costs)}",
                workload=with_launch(case.workload, **shrink),
                assumption="the kernel can do with less of what limits it, without spills or more traffic",
                changes=dict(shrink),
                no_help=f"{now.warps_per_sm} warps per SM are enough to hide the latency",
            )
        )
    if too_few and not proposals:
        return refused(f"{live} registers are alive at a time, more warps would leave it {too_few}: it would spill")
    return proposals or refused(f"{now.limiter} of the machine limit it: another block size might")


def most_live(case: Case) -> int:
    """Return the most registers live at a time on the commonest path, in the order of the code (0: unknown).

    A loop is followed twice, as an iteration reads what the one before it wrote.
    """
    path = max(case.profile.paths, key=lambda p: p.warps * p.instructions, default=None)
    if path is None or sum(s.instructions // s.times for s in path.segments) > _LONGEST_PATH:
        return 0
    live, most = set[str](), 0
    for segment in reversed(path.segments):
        order = [i for first, stop in segment.runs for i in range(first, stop)]
        for i in reversed(order * (2 if segment.times > 1 else 1)):
            x = case.code[i]
            written = {r for r in x.writes if r.startswith("R")}
            most = max(most, len(live | written))
            live -= set() if x.guard else written
            live |= {r for r in x.reads if r.startswith("R")}
    return most


def block_size(case: Case) -> Answer:
    """Put the same threads into blocks of another size, where nothing ties the warps of a block together."""
    if _tied(case):
        return refused("barriers or shared memory tie the threads of a block together")
    now = case.profile.warps_per_block
    sizes = [n for n in _SIZES if n != now and n * case.profile.grid_blocks != 0]
    title = f"blocks of {{}} threads instead of {32 * now}"
    return [_blocks_of(case, n, title, "the block size does not limit") for n in sizes]


def _blocks_of(case: Case, warps: int, title: str, no_help: str) -> Proposal:
    """Propose blocks of so many warps; `title` names the threads."""
    return Proposal(
        title=title.format(32 * warps),
        workload=regrouped(case.workload, warps),
        assumption="the kernel takes any block size",
        changes={"block": 32 * warps},
        joins=frozenset(("block",)),
        no_help=no_help,
    )


def _tied(case: Case) -> bool:
    barriers = any(x.kind == "barrier" and n for x, n in zip(case.code, case.executed, strict=True))
    return barriers or bool(case.shared_sites)


def lower_occupancy(case: Case) -> Answer:
    """Fit fewer blocks on an SM, so that L1 keeps their data; the emulator counted the hits for fewer."""
    now, known = case.occupancy, case.profile.l1_contention
    on_sm = min(now.blocks_per_sm, -(-case.profile.grid_blocks // int(case.machine.chip.sm_count)))
    if on_sm <= 1:
        return refused("one block per SM is the least")
    if not case.profile.total("sectors"):
        return refused(case.without_global)
    if known is None:
        return refused("what L1 keeps for fewer blocks was not counted; `warplens analyze` counts it")
    if not known.fits(case.profile):
        return refused("what L1 keeps for fewer blocks was counted before its accesses changed")
    if not known.fewer:
        return refused(_no_contention(known))
    return [_with_fewer(case, on_sm * now.warps_per_block, f) for f in known.fewer]


def _no_contention(known: L1Contention) -> str:
    if known.is_high:
        return "a block costs too much to be emulated again with fewer beside it"
    if known.lost_share < LEAST_LOST:
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
        title=f"lower occupancy: {warps_now} to {warps} warps per SM, for {after:.0%} L1 hits instead of {before:.0%}",
        workload=workload,
        assumption=f"{grid:,} blocks that each do the work of several; unused shared memory would take from L1",
        where=case.locations(spared),
        changes={"blocks_per_sm": blocks},
        no_help=f"L1 would find {after:.0%} instead of {before:.0%} with {warps} warps per SM, which buys nothing",
    )


def fill_the_gpu(case: Case) -> Answer:
    """Launch more blocks with fewer iterations each, so that every SM has as many as fit."""
    sms = int(case.machine.chip.sm_count)
    at_once = sms * case.occupancy.blocks_per_sm
    blocks = case.profile.grid_blocks
    if blocks >= at_once:
        return refused(f"{blocks:,} blocks fill all {sms} SMs")
    factor = min(64, at_once // blocks)
    loops = (s for path in case.profile.paths for s in path.segments if not case.only_waits(s))
    iterations = max((s.times for s in loops), default=1)
    factor = min(factor, iterations)
    if factor < 2:
        return refused("it has no loop whose iterations other blocks could take")

    def fewer_iterations(s: Segment) -> Trace:
        return [(as_written(s), s.times if case.only_waits(s) else max(1, round(s.times / factor)))]

    fewer = fewer_blocks(with_segments(case.workload, fewer_iterations), 1 / factor)
    return [
        Proposal(
            title=f"spread the work over {factor * blocks:,} blocks instead of {blocks:,}",
            workload=fewer,
            assumption="iterations of its loops do not depend on one another, so that other blocks can take them",
            changes={"grid": factor * blocks, "turns": 1 / factor},
            no_help="the blocks that are there do all that memory allows",
        )
    ]


def fix_tail(case: Case) -> Answer:
    """Shorten the last wave of blocks, which leaves SMs idle: smaller blocks, or equal work for all."""
    sms = int(case.machine.chip.sm_count)
    resident = case.occupancy.blocks_per_sm
    blocks = case.profile.grid_blocks
    rounds = blocks / (sms * resident)
    whole = math.ceil(math.ceil(blocks / sms) / resident)
    if _differ(case):
        return [_even(case)]
    if whole == 1:
        return refused("all blocks are on the SMs at once: there is no last round")
    if whole / rounds < _TAIL:
        return refused(f"{rounds:.3g} rounds of blocks: the last one leaves little idle")
    if _tied(case):
        return refused(f"{rounds:.3g} rounds of blocks, but the threads of a block are tied together")
    title = f"{rounds:.3g} rounds of blocks: blocks of {{}} threads leave a shorter tail"
    sizes = [n for n in (1, 2, 4, 8) if n < case.profile.warps_per_block]
    smaller = [_blocks_of(case, n, title, "the last round of blocks costs little") for n in sizes]
    return smaller or refused("its blocks are as small as they can be")


def _differ(case: Case) -> bool:
    """Return True if blocks differ in work: by the emulated ones, where these are known one by one."""
    done = [n for _, n in case.profile.sampled]
    return max(done) > _EQUAL_WORK * min(done) if done else case.profile.heaviest


def _even(case: Case) -> Proposal:
    """Propose equal work for all blocks."""
    return Proposal(
        title="give all blocks as much to do: they differ, and the last ones keep few SMs busy",
        workload=case.workload.with_values(profile=replace(case.profile, sampled=[], heaviest=False)),
        assumption="the work can be split evenly, for instance by blocks that fetch it piece by piece",
        changes={"even": True},
        no_help="blocks differ, but there are enough of them to even that out",
    )


def avoid_spills(case: Case) -> Answer:
    """Give a thread enough registers for what is spilled to local memory."""
    local, marked = [s for s in case.sites if s.instruction.opcode in LOCAL], case.workload.spills
    sites = [s for s in local if marked is None or s.instruction.offset in marked]
    if not sites:
        return refused("it spills no registers" + (": its local memory has arrays, or stacks" if local else ""))
    words = {o.text for s in sites for o in s.instruction.operands if o.kind == "memory"}
    registers = min(255, case.launch.registers_per_thread + len(words))
    unspilled = with_launch(dropped(case.workload, {s.index for s in sites}), registers_per_thread=registers)
    unspilled = with_instructions(unspilled, {i: _without_bank_conflicts(x) for i, x in enumerate(unspilled.code)})
    return [
        Proposal(
            title=f"{registers} registers per thread instead of {case.launch.registers_per_thread}: no spills",
            workload=unspilled,
            assumption="a register for each word that is spilled, so that occupancy falls; with so many the compiler "
            "finds some of different banks",
            where=case.locations(s.index for s in sites),
            changes={"registers_per_thread": registers},
            no_help="local memory is served by L1 beside the rest",
        )
    ]


def _without_bank_conflicts(x: Instruction) -> Instruction:
    """Return an instruction that reads one register of each bank: its registers were chosen among too few."""
    banks: dict[int, str] = {}
    for name in x.reads:
        if name[0] == "R" and name[1:].isdigit():
            banks.setdefault(int(name[1:]) % 2, name)
    per_bank = set(banks.values())
    return replace(x, reads=tuple(r for r in x.reads if r in per_bank or not (r[0] == "R" and r[1:].isdigit())))
