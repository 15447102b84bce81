"""What L2 and DRAM take for the accesses of a counted kernel: streams and accesses that lie alone, at their rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from warplens.machine import Machine
from warplens.program.instruction import Instruction
from warplens.workload.profile import Profile

SECTOR_BYTES, LINE_BYTES = 32, 128
_WITH_RESULT = frozenset(("ATOM", "ATOMG"))
ATOMICS = _WITH_RESULT | {"RED", "REDG"}


def l1_miss_cycles(profile: Profile, machine: Machine, which: Sequence[int]) -> float:
    """Return the cycles in which one SM alone could get from L2 all sectors that pass L1, of these instructions."""
    whole = machine.bandwidth.get("l2_load_16")
    if not (whole and whole.one_sm_bytes_per_second):
        return 0.0
    sectors = sum(profile.counts["l2_sectors"][i] for i in which)
    return sectors * SECTOR_BYTES * machine.chip.clock_hz / whole.one_sm_bytes_per_second


def l2_seconds(code: Sequence[Instruction], profile: Profile, machine: Machine) -> tuple[float, float]:
    """Return the time that L2 takes for the packets of the whole grid, on the way there and on the way back."""
    each = [packet_seconds(x, i, profile, machine) for i, x in enumerate(code)]
    fetched = sum(_fetching_seconds(i, profile, machine, each[i][0]) for i, x in enumerate(code) if x.kind == "store")
    return sum(there for there, _ in each) + fetched, sum(back for _, back in each)


def packet_seconds(x: Instruction, i: int, profile: Profile, machine: Machine) -> tuple[float, float]:
    """Return the time that L2 takes for all packets of instruction i, on the way there and on the way back."""
    packets, rate, sectors = machine.packets, machine.cache.l2_bytes_per_second, profile.counts["l2_sectors"][i]
    if rate is None or not sectors:
        return 0.0, 0.0
    lines = sectors * profile.counts["lines"][i] / max(1.0, profile.counts["sectors"][i])
    if x.kind == "load" and x.opcode not in ATOMICS:
        left = 1 - (machine.cache.l2_pair_saving_fraction or 0.0) * read_together(profile)
        by_sectors = sectors * (packets.load_sector_seconds or SECTOR_BYTES / rate)
        replies = max(lines * (packets.load_reply_seconds or 0.0), by_sectors)
        return left * lines * (packets.load_request_seconds or 0.0), left * replies
    whole = packets.store_sector_seconds or SECTOR_BYTES / rate
    part = 1.0 if x.opcode in ATOMICS else _partial(i, profile)
    by_sectors = sectors * _mixed(part, whole, packets.partial_sector_seconds or whole)
    return lines * (packets.store_seconds or 0.0) + by_sectors, 0.0


def _fetching_seconds(i: int, profile: Profile, machine: Machine, packets: float) -> float:
    """Return what stores to parts of sectors take of L2 beyond their packets: what is not there has to be fetched.

    Where all of these sectors are missing, L2 takes them at the rate of parts of sectors that lie alone; where they
    fill up by and by, only the first store to each misses (columns.json). No SM waits for it.
    """
    rate, sectors = machine.scattered.dram_partial_store_bytes_per_second, profile.counts["l2_sectors"][i]
    stored = sum(t.l2_written_bytes for t in profile.traffic)
    if not rate or not stored or not sectors:
        return 0.0
    cold = profile.l2 == "cold"  # then the first store to a sector misses, whatever is written to DRAM later
    absent = sum(t.written_alone * max(t.dram_written_bytes, cold * t.written_footprint_bytes) for t in profile.traffic)
    missing = min(1.0, absent / stored)
    return missing * _partial(i, profile) * max(0.0, sectors * SECTOR_BYTES / rate - packets)


def read_together(profile: Profile) -> float:
    """Return the share of what is asked of L2 to read that the next block in x, on the SM beside, asks for too.

    Both SMs of a pair get what they ask for at about the same time for one request (shared_reads.json).
    """
    asked = sum(t.l2_read_bytes for t in profile.traffic)
    return sum(t.read_together * t.l2_read_bytes for t in profile.traffic) / asked if asked else 0.0


def _partial(i: int, profile: Profile) -> float:
    """Return the share of the sectors of a store that reach L2 filled in part: all where they are half full or less."""
    filled = profile.counts["useful_bytes"][i] / max(1.0, profile.counts["l2_sectors"][i]) / SECTOR_BYTES
    return min(1.0, max(0.0, 2 * (1 - filled)))


def _mixed(share: float, others: float, alone: float) -> float:
    """Return a share of one time and the rest of another."""
    return share * alone + (1 - share) * others


def dram_seconds(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the time that DRAM takes for the whole grid: streams at the rate of their mix, halves of lines alone."""
    read, written, lone = profile.dram_read_bytes, profile.dram_written_bytes, machine.scattered
    if not read + written:
        return 0.0
    seconds = 0.0
    if lone.dram_load_bytes_per_second:
        alone = sum(t.read_alone * t.dram_read_bytes for t in profile.traffic)
        seconds, read = seconds + alone / lone.dram_load_bytes_per_second, read - alone
    if lone.dram_store_bytes_per_second:
        alone = sum(t.written_alone * t.dram_written_bytes for t in profile.traffic)
        part = alone * _partial_stores(code, profile) if lone.dram_partial_store_bytes_per_second else 0.0
        seconds += part / (lone.dram_partial_store_bytes_per_second or 1.0)
        seconds, written = seconds + (alone - part) / lone.dram_store_bytes_per_second, written - alone
    streamed = read + written
    if streamed > 0:
        seconds += streamed / dram_rate(machine, written / streamed)
    return seconds + _split_seconds(code, profile, machine)


def _split_seconds(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return what sectors take that leave L2 half stored, and come back: the more, the more is stored in between.

    Of what blocks in flight store in their lives that is the part by which neighbours have drifted apart.
    """
    lone, course = machine.scattered, course_of(code, profile)
    blocks, warps = sum(t.split_blocks for t in profile.traffic), sum(t.split_warps for t in profile.traffic)
    between = course.drift * sum(t.stored_in_flight_bytes for t in profile.traffic)
    if not (lone.split_sector_seconds and lone.split_blocks_bytes and lone.split_warps_bytes) or not between:
        return 0.0
    left = blocks / (1 + (lone.split_blocks_bytes / between) ** 2)
    left += course.apart * warps / (1 + (lone.split_warps_bytes / between) ** 2)
    return lone.split_sector_seconds * left


class Course(Struct, frozen=True):
    """The way of a warp between loads and stores.

    `waits`: for loads that pass L1. `drift`: how far neighbours that began together are apart when they store, of their
    lives. `apart`: the share of the stores that come behind no barrier, or behind a wait that came after it.
    """

    waits: float
    drift: float
    apart: float


def course_of(code: Sequence[Instruction], profile: Profile) -> Course:
    """Follow the way that most warps go: neighbours drift apart with the square root of the times that they wait.

    Loads that were sent together are one wait. Normed so that stores all along a way of so many waits have a drift of
    one over their square root, as in row_alignment.json; with no load to wait for they are as far apart as they live.
    """
    counts, sent = profile.counts, dict[int, float]()
    waits, stores, root, apart, alone = 0.0, 0.0, 0.0, True, 0.0
    ways = max(profile.paths, key=lambda path: path.warps).segments if profile.paths else []
    for segment, times in ((s, t) for s in ways for t in (1, s.times - 1) if t):  # once, and all other times together
        before, stored = waits, 0.0
        for i in (i for first, stop in segment.runs for i in range(first, stop)):
            x, control = code[i], code[i].control
            waited = max((sent.pop(s, 0.0) for s in control.waits), default=0.0) if control else 0.0
            if waited:
                waits, sent = waits + times * waited, {}
            apart = (apart or waited > 0.0) and x.opcode != "BAR"
            if x.kind == "load" and control and control.write_scoreboard is not None and counts["requests"][i]:
                passed = counts.get("passed", counts["requests"])[i] / counts["requests"][i]
                passed = min(1.0, passed or float(counts["l2_sectors"][i] > 0))  # 0: none, or not known
                sent[control.write_scoreboard] = max(sent.get(control.write_scoreboard, 0.0), passed)
            elif x.kind == "store":
                stored, alone = stored + times, alone + times * apart
        stores, root = stores + stored, root + stored * _mean_root(before, waits)
    drift = 1.5 * root / stores / waits if waits >= 1 and stores else 1.0
    return Course(waits, min(1.0, drift), alone / stores if stores else 0.0)


def _mean_root(low: float, high: float) -> float:
    """Return the mean square root between two numbers."""
    return (high**1.5 - low**1.5) / 1.5 / (high - low) if high > low else math.sqrt(low)


def _partial_stores(code: Sequence[Instruction], profile: Profile) -> float:
    """Return the share of all stored sectors that are filled in part."""
    stores = [(profile.counts["l2_sectors"][i], _partial(i, profile)) for i, x in enumerate(code) if x.kind == "store"]
    total = sum(sectors for sectors, _ in stores)
    return sum(sectors * part for sectors, part in stores) / total if total else 0.0


def dram_rate(machine: Machine, share: float) -> float:
    """Return the DRAM rate in B/s at a share of writes, between the measured mixes, each at its best."""
    mixes = {"read": 0.0, "r3w1": 0.25, "r2w1": 1 / 3, "r1w1": 0.5, "r1w2": 2 / 3, "r1w3": 0.75, "write": 1.0}
    points = []
    for name, writes in mixes.items():
        found = [b.bytes_per_second for key, b in machine.bandwidth.items() if key.startswith(f"dram_{name}_")]
        rates = [rate for rate in found if rate]
        points += [(writes, max(rates))] if rates else []
    if not points:
        return machine.dram_bytes_per_second(model="warplens")
    for (left, low), (right, high) in pairwise(points):
        if left <= share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return points[0][1]


def atomic_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles of the atomics on the array where they take longest: few lines are in few slices of L2."""
    old = any(x.opcode in _WITH_RESULT and profile.counts["executed"][i] for i, x in enumerate(code))
    rates = _rates_by_lines(machine, "global" if old else "global_reduce")
    if not rates:
        return 0.0
    cycles = 0.0
    for t in profile.traffic:
        if t.atomic_passes:
            lines = max(1.0, t.written_footprint_bytes / LINE_BYTES)
            rate = math.exp(np.interp(math.log(lines), [at for at, _ in rates], [rate for _, rate in rates]))
            cycles = max(cycles, t.atomic_passes / (rate * machine.chip.sm_count))
    return cycles


def _rates_by_lines(machine: Machine, name: str) -> list[tuple[float, float]]:
    """Return logarithms of lines and of passes per cycle and SM, as `atomics.NAME_lines_N` says."""
    start = f"{name}_lines_"
    found = {float(key.removeprefix(start)): a for key, a in machine.atomics.items() if key.startswith(start)}
    known = [(n, found[n].peak_ops_per_cycle_per_sm) for n in sorted(found)]
    return [(math.log(n), math.log(rate)) for n, rate in known if rate]
