"""Traffic of the accesses of a counted kernel: passes, bytes and cycles of each in its pipe, in L2 and in DRAM.

Streams and scattered accesses are taken at the rates that were measured for each; all are means over the grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine
from warplens.program.instruction import Instruction, access_bytes
from warplens.simulator import layout as at
from warplens.simulator.code import Step
from warplens.simulator.units import PIPES, Units
from warplens.workload.profile import Profile
from warplens.workload.workload import Access, wavefronts

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
    each = part * (packets.partial_sector_seconds or whole) + (1 - part) * whole
    return lines * (packets.store_seconds or 0.0) + sectors * each, 0.0


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
    """Return the time of sectors that leave L2 half stored, and come back: the more, the more is stored in between.

    Of all bytes that blocks in flight store that is the share by which neighbours have drifted.
    """
    lone, course = machine.scattered, course_of(code, profile)
    blocks, warps = sum(t.split_blocks for t in profile.traffic), sum(t.split_warps for t in profile.traffic)
    between = course.drift * sum(t.stored_in_flight_bytes for t in profile.traffic)
    if not (lone.split_sector_seconds and lone.split_blocks_bytes and lone.split_warps_bytes) or not between:
        return 0.0
    left = blocks / (1 + (lone.split_blocks_bytes / between) ** 2)
    left += course.unordered * warps / (1 + (lone.split_warps_bytes / between) ** 2)
    return lone.split_sector_seconds * left


class Course(Struct, frozen=True):
    """Waits and drift of a warp between loads and stores.

    `waits`: for loads that pass L1. `drift`: the distance of neighbours that began together when they store, as a share
    of their time. `unordered`: the share of the stores behind no barrier, or behind a wait that came after it.
    """

    waits: float
    drift: float
    unordered: float


def course_of(code: Sequence[Instruction], profile: Profile) -> Course:
    """Follow the path of most warps: neighbours drift with the square root of the times that they wait.

    Loads that were sent together are one wait. Normed so that stores all along a path of so many waits have a drift of
    one over their square root, as in row_alignment.json; with no load to wait for the drift is one.
    """
    counts, sent = profile.counts, dict[int, float]()
    waits, stores, root, unordered, loose = 0.0, 0.0, 0.0, 0.0, True
    path = max(profile.paths, key=lambda path: path.warps).segments if profile.paths else []
    for segment, times in ((s, t) for s in path for t in (1, s.times - 1) if t):  # once, and all other times together
        before, stored = waits, 0.0
        for i in (i for first, stop in segment.runs for i in range(first, stop)):
            x, control = code[i], code[i].control
            waited = max((sent.pop(s, 0.0) for s in control.waits), default=0.0) if control else 0.0
            if waited:
                waits, sent = waits + times * waited, {}
            loose = (loose or waited > 0.0) and x.opcode != "BAR"
            if x.kind == "load" and control and control.write_scoreboard is not None and counts["requests"][i]:
                passed = counts.get("passed", counts["requests"])[i] / counts["requests"][i]
                passed = min(1.0, passed or float(counts["l2_sectors"][i] > 0))  # 0: none, or not known
                sent[control.write_scoreboard] = max(sent.get(control.write_scoreboard, 0.0), passed)
            elif x.kind == "store":
                stored, unordered = stored + times, unordered + times * loose
        stores, root = stores + stored, root + stored * _mean_root(before, waits)
    drift = 1.5 * root / stores / waits if waits >= 1 and stores else 1.0
    return Course(waits, min(1.0, drift), unordered / stores if stores else 0.0)


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


class Traffic(Struct, frozen=True):
    """Traffic of a kernel to DRAM where its sectors do not tell: bytes per byte that loads miss or stores ask for.

    `cycles_per_byte`: of this SM's part of DRAM, for streams and scattered accesses as this kernel has them. `back`:
    the packets from L2 take longer than those to it. `atomic_cycles`: of the chip, for one operation of an atomic in
    L2, where they are fewer than packets are.
    """

    cycles_per_byte: float
    back: bool = False
    read: float = 1.0
    written: float = 1.0
    atomic_cycles: float = 0.0


def traffic_of(
    instructions: Sequence[Instruction], kinds: Mapping[str, int], units: Units, profile: Profile | None
) -> Traffic:
    """Return how the traffic to DRAM of a kernel follows from its accesses; `kinds`: the engine's, by class."""
    if profile is None:
        return Traffic(1 / units.dram_rate)
    there, back = l2_seconds(instructions, profile, units.machine)
    if not profile.traffic:
        return Traffic(1 / units.dram_rate, back > there)
    missed = asked = 0.0
    for i, x in enumerate(instructions):
        if kinds[x.kind] == at.LOAD:
            missed += SECTOR_BYTES * (profile.counts["l2_sectors"][i] - profile.counts["l2_hit_sectors"][i])
        elif kinds[x.kind] == at.STORE:
            asked += SECTOR_BYTES * profile.counts["l2_sectors"][i]
    moved = profile.dram_read_bytes + profile.dram_written_bytes
    per_sm = units.sms * units.machine.chip.clock_hz
    return Traffic(
        dram_seconds(instructions, profile, units.machine) * per_sm / moved if moved else 1 / units.dram_rate,
        back > there,
        profile.dram_read_bytes / missed if missed else 1.0,
        profile.dram_written_bytes / asked if asked else 1.0,
        atomic_cycles(instructions, profile, units.machine) / max(1.0, sum(t.atomic_passes for t in profile.traffic)),
    )


def access(
    x: Step, instruction: Instruction, units: Units, profile: Profile | None, i: int, traffic: Traffic
) -> dict[str, float]:
    """Return what one execution of an access asks for; coalesced and missing in the caches where nothing is known."""
    machine, load = units.machine, x.kind == at.LOAD
    interval = machine.cache.l1_request_interval_cycles or 1.0
    if profile is None and x.kind not in (at.LOAD, at.STORE):
        return {"passes": float(wavefronts(Access(1.0, "shared", bytes_per_thread=access_bytes(instruction)), machine))}
    if profile is None or not profile.counts["requests"][i]:
        lines = access_bytes(instruction) / 4 if profile is None else 0.0  # a byte of each thread is a quarter of one
        full = 4 * SECTOR_BYTES * lines
        return {
            "passes": max(1.0, lines / interval), "l2_bytes": full, "dram_bytes": full,
            "l2_cycles": full / units.l2_rate, "dram_cycles": full * traffic.cycles_per_byte,
        }  # fmt: skip
    column = {name: values[i] for name, values in profile.counts.items()}
    requests, sectors, asked = column["requests"], column["sectors"], column["l2_sectors"]
    share = min(1.0, requests / column["executed"])  # the others had no thread that took part
    passes, same_address = max(1.0, column["wavefronts"] / requests), column["queue"] / requests
    if x.kind not in (at.LOAD, at.STORE):  # an atomic serves one thread at an address, but counting joins them all
        return {"passes": share * max(passes, 1.0 if "POPC" in instruction.modifiers else same_address)}
    missed, memory = asked - column["l2_hit_sectors"], machine.memory
    extra = max(0.0, sectors / requests - (memory.coalesced_transactions or 4.0))  # transactions that are too many
    lines = max(1.0, column["lines"] / requests)
    l1_hit, l2_hit = 0.0, 0.0
    if load and sectors:  # a request waits for the last of its lines: all of them have to hit
        by_line, passed = column["l1_hit_sectors"] / sectors, column.get("passed", 0.0)
        l1_hit = 1 - min(1.0, passed / requests) if passed else by_line**lines
        passing = max(1.0, lines * (1 - by_line) / max(1e-9, 1 - l1_hit))
        l2_hit = (column["l2_hit_sectors"] / asked) ** passing if asked else 0.0
    beyond = max(1e-9, 1 - l1_hit)  # those that pass L1, and L2, move so much more than the mean access
    far = max(1e-9, beyond * (1 - l2_hit))
    dram_bytes = SECTOR_BYTES / requests * (missed * traffic.read if load else asked * traffic.written) / far
    l2_cycles = packet_seconds(instruction, i, profile, machine)[traffic.back] * units.sms * machine.chip.clock_hz
    if instruction.opcode in ATOMICS:
        operations = asked + column["queue"] - requests
        l2_cycles = max(l2_cycles, operations * traffic.atomic_cycles * units.sms)
    return {
        # A wavefront takes a cycle, an access the interval at least (bandwidth.l1_load_* of the H200).
        "passes": share * max(1.0, (passes + column.get("replays", 0.0) / requests) / interval),
        "latency": x.latency + extra * (memory.extra_transaction_cycles or 0.0),
        "l1_hit": 1 - share * (1 - l1_hit),
        "l2_hit": l2_hit,
        "l2_bytes": SECTOR_BYTES * asked / requests / beyond,
        "dram_bytes": dram_bytes,
        "l2_cycles": max(l2_cycles, l1_miss_cycles(profile, machine, [i])) / requests / beyond,
        "dram_cycles": dram_bytes * traffic.cycles_per_byte,
    }


def sent(step: Step, x: Instruction, units: Units) -> Step:
    """Return an instruction of shared memory with the times of its registers and wavefronts, where they are known.

    The last register is sent in the cycle of the first wavefront, an address alone at once; the result is there the
    latency of a load behind the last wavefront, and a cycle later for each register more, but no more of them than
    wavefronts.
    """
    if step.kind != at.QUEUED or step.pipe != PIPES.index("shared memory"):
        return step
    each, latency = register_cycles(units.machine), units.machine.timing(x.kind).latency_cycles
    if not each or latency is None or not units.machine.sm.queued_per_scheduler:
        return step
    words = max(1, access_bytes(x) // 4)
    given = [o for o in x.operands if o.kind in ("register", "memory") and any(r[0] == "R" for r in o.registers)]
    results = sum(r[0] == "R" for r in x.writes)
    read = given[1:] if results else given
    registers = max(1, sum(words if o.kind == "register" else 1 for o in read))
    sends, alone = each * registers, x.opcode in ("LDS", "LDSM")
    enters = 0.0 if alone else sends - 1.0
    further = max(0.0, step.passes - 1.0)
    returns = min(results, 1 + int(further))
    latency += enters + at.WAVEFRONT_CYCLES * further + max(0, returns - 1)
    if x.kind == "shuffle":  # measured with one register
        latency -= each - 1.0
    if not read:  # no address to wait for (shared_memory_results.json.gz)
        latency -= 1.0
    return replace(
        step, sends=sends, enters=enters, latency=latency, read=step.read + sends - each
    )  # fmt: skip


def register_cycles(machine: Machine) -> float:
    """Return the cycles in which a scheduler sends a register to shared memory; 0 where it is not known.

    A lone warp's stores of 32, 64 and 128 bits, with their address two, three and five registers, take 4, 6 and 10.
    """
    wide, widest = (machine.operations.get(name) for name in ("sts_64", "sts_128"))
    if not machine.sm.register_banks or not wide or not widest or not wide.latency_cycles or not widest.latency_cycles:
        return 0.0
    return max(0.0, float(round((widest.latency_cycles - wide.latency_cycles) / 2)))
