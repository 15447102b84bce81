"""What an access of a counted program asks of its pipe, of L2 and of DRAM: means over the whole grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine
from warplens.program.access_width import access_bytes
from warplens.program.instruction import Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import Step
from warplens.simulator.traffic import (
    ATOMICS,
    SECTOR_BYTES,
    atomic_cycles,
    dram_seconds,
    l1_miss_cycles,
    l2_seconds,
    packet_seconds,
)
from warplens.simulator.units import PIPES, Unit, Units
from warplens.workload.access_width import wavefronts
from warplens.workload.profile import Profile
from warplens.workload.workload import Access


class Traffic(Struct, frozen=True):
    """What the profile says of DRAM, where its sectors do not: bytes per byte that loads miss or stores ask for.

    `cycles_per_byte`: of this SM's part of DRAM, for streams and accesses that lie alone as this kernel has them.
    `busier_way`: to L2 (0), or from it (1), whichever takes longer for all packets of the kernel. `atomic_cycles`: of
    the chip, for a turn of L2 that an atomic takes, where they are fewer than packets are.
    """

    read: float
    written: float
    cycles_per_byte: float
    busier_way: int
    atomic_cycles: float = 0.0


def traffic_of(
    instructions: Sequence[Instruction], served: Mapping[str, Unit], units: Units, profile: Profile | None
) -> Traffic:
    """Return how the traffic to DRAM of a kernel follows from its accesses."""
    if profile is None:
        return Traffic(1.0, 1.0, 1 / units.dram_rate, 0)
    there, back = l2_seconds(instructions, profile, units.machine)
    if not profile.traffic:
        return Traffic(1.0, 1.0, 1 / units.dram_rate, int(back > there))
    missed = asked = 0.0
    for i, x in enumerate(instructions):
        kind = served[x.kind].kind
        if kind == at.LOAD:
            missed += SECTOR_BYTES * (profile.counts["l2_sectors"][i] - profile.counts["l2_hit_sectors"][i])
        elif kind == at.STORE:
            asked += SECTOR_BYTES * profile.counts["l2_sectors"][i]
    moved = profile.dram_read_bytes + profile.dram_written_bytes
    per_sm = units.sms * units.machine.chip.clock_hz
    each = dram_seconds(instructions, profile, units.machine) * per_sm / moved if moved else 1 / units.dram_rate
    return Traffic(
        profile.dram_read_bytes / missed if missed else 1.0,
        profile.dram_written_bytes / asked if asked else 1.0,
        each,
        int(back > there),
        atomic_cycles(instructions, profile, units.machine) / max(1.0, sum(t.atomic_passes for t in profile.traffic)),
    )


def access(
    x: Step, instruction: Instruction, units: Units, profile: Profile | None, i: int, traffic: Traffic
) -> dict[str, float]:
    """Return what one execution of an access asks for; coalesced and missing in the caches where nothing is known."""
    machine = units.machine
    if profile is None and x.kind not in (at.LOAD, at.STORE):
        return {"passes": float(wavefronts(Access(1.0, "shared", bytes_per_thread=access_bytes(instruction)), machine))}
    if profile is None or not profile.counts["requests"][i]:
        lines = access_bytes(instruction) / 4 if profile is None else 0.0  # a byte of each thread is a quarter of one
        full = 4 * SECTOR_BYTES * lines
        return {
            "passes": max(1.0, lines / (machine.cache.l1_request_interval_cycles or 1.0)), "l2_bytes": full,
            "dram_bytes": full, "l2_cycles": full / units.l2_rate, "dram_cycles": full * traffic.cycles_per_byte,
        }  # fmt: skip
    column = {name: values[i] for name, values in profile.counts.items()}
    requests, sectors, asked = column["requests"], column["sectors"], column["l2_sectors"]
    share = min(1.0, requests / column["executed"])  # the others had no thread that took part
    fronts = max(1.0, column["wavefronts"] / requests)
    if x.kind not in (at.LOAD, at.STORE):
        return {"passes": share * max(fronts, _queue(instruction, column["queue"] / requests))}
    missed, load = asked - column["l2_hit_sectors"], x.kind == at.LOAD
    memory, interval = machine.memory, machine.cache.l1_request_interval_cycles or 1.0
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
    on_the_way = packet_seconds(instruction, i, profile, machine)[traffic.busier_way]
    l2_cycles = on_the_way * units.sms * machine.chip.clock_hz
    if instruction.opcode in ATOMICS:
        turns = asked + column["queue"] - requests
        l2_cycles = max(l2_cycles, turns * traffic.atomic_cycles * units.sms)
    return {
        # A wavefront takes a cycle, an access the interval at least (bandwidth.l1_load_* of the H200).
        "passes": share * max(1.0, (fronts + column.get("replays", 0.0) / requests) / interval),
        "latency": x.latency + extra * (memory.extra_transaction_cycles or 0.0),
        "l1_hit": 1 - share * (1 - l1_hit),
        "l2_hit": l2_hit,
        "l2_bytes": SECTOR_BYTES * asked / requests / beyond,
        "dram_bytes": dram_bytes,
        "l2_cycles": max(l2_cycles, l1_miss_cycles(profile, machine, [i])) / requests / beyond,
        "dram_cycles": dram_bytes * traffic.cycles_per_byte,
    }


def _queue(x: Instruction, longest: float) -> float:
    """Return the turns of an atomic on shared memory: one per thread at an address, but counting joins them all."""
    return 1.0 if "POPC" in x.modifiers else longest


def sent(made: Step, x: Instruction, units: Units) -> Step:
    """Return an instruction of shared memory with how its registers and wavefronts get there, where that is known.

    All are alike (shared_times.json.gz): the last register is sent in the cycle of the first wavefront, an address
    alone at once; the result is there the latency of a load behind the last wavefront, and a cycle later for each
    register more, but no more of them than wavefronts.
    """
    if made.kind != at.QUEUED or made.pipe != PIPES.index("shared memory"):
        return made
    each, latency = register_cycles(units.machine), units.machine.timing(x.kind).latency_cycles
    if not each or latency is None or not units.machine.sm.queued_per_scheduler:
        return made
    words = max(1, access_bytes(x) // 4)
    given = [o for o in x.operands if o.kind in ("register", "memory") and any(r[0] == "R" for r in o.registers)]
    results = sum(r[0] == "R" for r in x.writes)
    read = given[1:] if results else given
    registers = max(1, sum(words if o.kind == "register" else 1 for o in read))
    sends, alone = each * registers, x.opcode in ("LDS", "LDSM")
    enters = 0.0 if alone else sends - 1.0
    further = max(0.0, made.passes - 1.0)
    returns = min(results, 1 + int(further))
    latency += enters + at.WAVEFRONT_CYCLES * further + max(0, returns - 1)
    if x.kind == "shuffle":  # measured with one register
        latency -= each - 1.0
    if not read:  # no address to wait for (shared_memory_results.json.gz)
        latency -= 1.0
    return replace(
        made, sends=sends, enters=enters, latency=latency, read=made.read + sends - each,
        words=0 if alone else registers, returns=returns,
    )  # fmt: skip


def register_cycles(machine: Machine) -> float:
    """Return the cycles in which a scheduler sends a register to shared memory; 0 where it is not known.

    A lone warp's stores of 32, 64 and 128 bits, with their address two, three and five registers, take 4, 6 and 10.
    """
    wide, widest = (machine.operations.get(name) for name in ("sts_64", "sts_128"))
    if not machine.sm.register_banks or not wide or not widest or not wide.latency_cycles or not widest.latency_cycles:
        return 0.0
    return max(0.0, float(round((widest.latency_cycles - wide.latency_cycles) / 2)))
