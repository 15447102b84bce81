"""Remedies for what a launch occupies: warps, registers and shared memory of an SM, block size, grid, spills."""

from __future__ import annotations

import math

from msgspec.structs import replace

from warplens.advisor.case import LOCAL, Answer, Case, Proposal, Refusal
from warplens.advisor.dataflow import inside, is_register
from warplens.advisor.overlay import regrouped, with_fewer, with_instructions, with_launch
from warplens.advisor.rewrite import Trace, as_written, dropped, fewer_blocks, with_segments
from warplens.machine.occupancy import step
from warplens.program.instruction import Instruction
from warplens.workload.profile import LEAST_LOST, Fewer, L1Contention, Segment

_SHRINK = {  # what limits occupancy: the launch's value, and its unit
    "registers": ("registers_per_thread", "registers per thread"),
    "shared memory": ("shared_bytes_per_block", "B of shared memory"),
}
_SIZES = (2, 4, 8, 16, 32)  # warps per block
_LONGEST_PATH = 50_000  # instructions of a path whose live registers are counted
_EQUAL_WORK = 1.001  # instructions of the longest block over those of the shortest: no difference
_TAIL = 1.03  # time of whole waves of blocks over that of even ones, from which a tail matters


def raise_occupancy(case: Case) -> Answer:
    """Fit more blocks on an SM: name what the limiting resource would have to shrink to.

    Applies where: more blocks fit with fewer registers or less shared memory, not below the live registers.
    Overlay: the smaller number; no spills.
    """
    now = case.occupancy
    on_sm = -(-case.profile.grid_blocks // case.sms)
    most = min(on_sm, int(case.machine.sm.warps_max // now.warps_per_block))
    if now.warps_per_sm >= case.machine.sm.warps_max and on_sm >= now.blocks_per_sm:
        return Refusal(f"occupancy is 100 % already ({now.warps_per_sm} warps per SM)")
    if on_sm <= now.blocks_per_sm:
        return Refusal("the grid has no more blocks for an SM")
    proposals, live, too_few = list[Proposal](), most_live(case), 0
    for blocks in dict.fromkeys((now.blocks_per_sm + 1, 2 * now.blocks_per_sm, most)):
        found = step(case.machine, now, min(blocks, most), registers_per_thread=case.launch.registers_per_thread)
        if found is None or found.blocks_per_sm <= now.blocks_per_sm:
            continue
        if "registers" in found.at_most and found.at_most["registers"] < live:
            too_few = max(too_few, found.at_most["registers"])
            continue
        shrink = {key: found.at_most[what] for what, (key, _) in _SHRINK.items() if what in found.at_most}
        costs = [f"{getattr(case.launch, k):,} to {shrink[k]:,} {unit}" for k, unit in _SHRINK.values() if k in shrink]
        proposals.append(
            Proposal(
                title=f"raise occupancy: {now.warps_per_sm} to {found.warps_per_sm} warps per SM by {', '.join(costs)}",
                workload=with_launch(case.workload, **shrink),
                assumption="the kernel can do with less of what limits it, without spills or more traffic",
                changes=shrink,
                no_help=f"{now.warps_per_sm} warps per SM are enough to hide the latency",
            )
        )
    if too_few and not proposals:
        return Refusal(f"{live} registers are alive at a time, more warps would leave it {too_few}: it would spill")
    return proposals or Refusal(f"{now.limiter} of the machine limit it: another block size might")


def most_live(case: Case) -> int:
    """Return the most registers live at a time on the commonest path, in the order of the code (0: unknown).

    A loop is followed twice, as an iteration reads what the one before it wrote.
    """
    path = max(case.profile.paths, key=lambda p: p.warps * p.instructions, default=None)
    if path is None or sum(s.instructions // s.times for s in path.segments) > _LONGEST_PATH:
        return 0
    live, most = set[str](), 0
    for segment in reversed(path.segments):
        for i in reversed(inside(segment) * (2 if segment.times > 1 else 1)):
            x = case.code[i]
            written = {r for r in x.writes if r.startswith("R")}
            most = max(most, len(live | written))
            live -= set() if x.guard else written
            live |= {r for r in x.reads if r.startswith("R")}
    return most


def block_size(case: Case) -> Answer:
    """Put the same threads into blocks of another size, where nothing ties the warps of a block together.

    Applies where: no barriers, no shared memory.
    Overlay: the same warps in blocks of 64 to 1024 threads.
    """
    if case.tied():
        return Refusal("barriers or shared memory tie the threads of a block together")
    now = case.profile.warps_per_block
    title = f"blocks of {{}} threads instead of {32 * now}"
    return [_blocks_of(case, n, title, "the block size does not limit") for n in _SIZES if n != now]


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


def lower_occupancy(case: Case) -> Answer:
    """Fit fewer blocks on an SM, so that L1 keeps their data; the emulator counted the hits for fewer.

    Applies where: L1 loses 10 % or more of what loads ask of L2, and resident blocks read 1.7 times its size.
    Overlay: half, a quarter, ... of the blocks on an SM, with the hit rates counted for them.
    """
    now, known = case.occupancy, case.profile.l1_contention
    on_sm = min(now.blocks_per_sm, -(-case.profile.grid_blocks // case.sms))
    if on_sm <= 1:
        return Refusal("one block per SM is the least")
    if not case.profile.total("sectors"):
        return case.without_global
    if known is None:
        return Refusal("what L1 keeps for fewer blocks was not counted; `warplens analyze` counts it")
    if not known.fits(case.profile):
        return Refusal("what L1 keeps for fewer blocks was counted before its accesses changed")
    if not known.fewer:
        return _no_contention(known)
    return [_with_fewer(case, on_sm * now.warps_per_block, f) for f in known.fewer]


def _no_contention(known: L1Contention) -> Refusal:
    if known.is_high:
        return Refusal("a block costs too much to be emulated again with fewer beside it")
    lost = f"{known.lost_share:.0%} of what loads ask of L2 was there before"
    if known.lost_share < LEAST_LOST:
        return Refusal(f"L1 keeps what blocks come back to: {lost}")
    read = f"blocks on an SM read {known.times_l1:.2g} times what L1 holds"
    return Refusal(f"{read}, which keeps most of so little more")


def _with_fewer(case: Case, warps_now: int, counted: Fewer) -> Proposal:
    blocks = counted.blocks_per_sm
    warps, grid = blocks * case.profile.warps_per_block, blocks * case.sms
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
    """Launch more blocks with fewer iterations each, so that every SM has as many as fit.

    Applies where: fewer blocks than fit at once, and loops.
    Overlay: more blocks with fewer iterations each (split-K).
    """
    at_once, blocks = case.sms * case.occupancy.blocks_per_sm, case.profile.grid_blocks
    if blocks >= at_once:
        return Refusal(f"{blocks:,} blocks fill all {case.sms} SMs")
    loops = (s for path in case.profile.paths for s in path.segments if not case.only_waits(s))
    factor = min(64, at_once // blocks, max((s.times for s in loops), default=1))
    if factor < 2:
        return Refusal("it has no loop whose iterations other blocks could take")

    def fewer_iterations(s: Segment) -> Trace:
        return [(as_written(s), s.times if case.only_waits(s) else max(1, round(s.times / factor)))]

    fewer = fewer_blocks(with_segments(case.workload, fewer_iterations), 1 / factor)
    return Proposal(
        title=f"spread the work over {factor * blocks:,} blocks instead of {blocks:,}",
        workload=fewer,
        assumption="iterations of its loops do not depend on one another, so that other blocks can take them",
        changes={"grid": factor * blocks, "turns": 1 / factor},
        no_help="the blocks that are there do all that memory allows",
    )


def fix_tail(case: Case) -> Answer:
    """Shorten the last wave of blocks, which leaves SMs idle: smaller blocks, or equal work for all.

    Applies where: whole rounds of blocks take 3 % longer than even ones, or blocks differ.
    Overlay: smaller blocks, or equal ones.
    """
    resident, blocks = case.occupancy.blocks_per_sm, case.profile.grid_blocks
    rounds = blocks / (case.sms * resident)
    whole = math.ceil(math.ceil(blocks / case.sms) / resident)
    done = [n for _, n in case.profile.sampled]  # by the emulated blocks, where these are known one by one
    if max(done) > _EQUAL_WORK * min(done) if done else case.profile.heaviest:
        return _even(case)
    if whole == 1:
        return Refusal("all blocks are on the SMs at once: there is no last round")
    if whole / rounds < _TAIL:
        return Refusal(f"{rounds:.3g} rounds of blocks: the last one leaves little idle")
    if case.tied():
        return Refusal(f"{rounds:.3g} rounds of blocks, but the threads of a block are tied together")
    title = f"{rounds:.3g} rounds of blocks: blocks of {{}} threads leave a shorter tail"
    sizes = [n for n in (1, 2, 4, 8) if n < case.profile.warps_per_block]
    smaller = [_blocks_of(case, n, title, "the last round of blocks costs little") for n in sizes]
    return smaller or Refusal("its blocks are as small as they can be")


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
    """Give a thread enough registers for what is spilled to local memory.

    Applies where: local accesses that the compiler marks as spills.
    Overlay: they go; a register more per word.
    """
    local, marked = [s for s in case.sites if s.instruction.opcode in LOCAL], case.workload.spills
    sites = [s for s in local if marked is None or s.instruction.offset in marked]
    if not sites:
        return Refusal("it spills no registers" + (": its local memory has arrays, or stacks" if local else ""))
    words = {s.operand for s in sites}
    registers = case.registers(len(words))
    unspilled = with_launch(dropped(case.workload, {s.index for s in sites}), registers_per_thread=registers)
    unspilled = with_instructions(unspilled, {i: _without_bank_conflicts(x) for i, x in enumerate(unspilled.code)})
    return Proposal(
        title=f"{registers} registers per thread instead of {case.launch.registers_per_thread}: no spills",
        workload=unspilled,
        assumption="a register for each word that is spilled, so that occupancy falls; with so many the compiler "
        "finds some of different banks",
        where=case.locations(s.index for s in sites),
        changes={"registers_per_thread": registers},
        no_help="local memory is served by L1 beside the rest",
    )


def _without_bank_conflicts(x: Instruction) -> Instruction:
    """Return an instruction that reads one register of each bank: its registers were chosen among too few."""
    of_banks = {int(name[1:]) % 2: name for name in reversed(x.reads) if is_register(name)}.values()
    return replace(x, reads=tuple(r for r in x.reads if r in of_banks or not is_register(r)))
