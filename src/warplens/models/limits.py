"""What each unit of an SM, L2 and DRAM would take for a counted kernel if it were the only limit, in cycles.

Units of an SM come from the simulator's reading of the machine code (its pipes, passes and register banks), so that
both say the same. L2 and DRAM take streams and accesses that lie alone at the rates that were measured for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Profile
from warplens.machine import Machine
from warplens.simulate import layout as at
from warplens.simulate.code import Step
from warplens.simulate.units import PIPES, Units

SECTOR_BYTES, LINE_BYTES = 32, 128
_NAMES = {
    "cuda cores": "fp32", "integer": "integer", "product": "integer products", "sfu units": "sfu", "fp64 units": "fp64",
    "tensor cores": "tensor cores", "shared memory": "shared memory and l1", "memory system": "shared memory and l1",
}  # fmt: skip
_WITH_RESULT = frozenset(("ATOM", "ATOMG"))
_ATOMICS = _WITH_RESULT | {"RED", "REDG"}


def unit_cycles(steps: Sequence[Step], profile: Profile, units: Units) -> dict[str, float]:
    """Return the cycles for which the whole grid keeps each unit of an SM busy, as if one SM did all."""
    schedulers = units.machine.sm.schedulers
    busy = {"issue": 0.0}
    for step, count in zip(steps, profile.counts["executed"], strict=True):
        busy["issue"] += count * step.holds / schedulers
        if step.pipe >= 0 and count:
            name, pipe = _NAMES[PIPES[step.pipe]], units.pipes[step.pipe]
            width = 1.0 if pipe[at.SHARED] else schedulers
            busy[name] = busy.get(name, 0.0) + count * step.passes * float(pipe[at.INTERVAL]) / width
    misses = l1_miss_cycles(profile, units.machine)
    return busy | ({"l1 misses": misses} if misses else {})


def l1_miss_cycles(profile: Profile, machine: Machine) -> float:
    """Return the cycles in which one SM could ask L2 for all lines and sectors that pass L1."""
    alone, whole = machine.bandwidth.get("l2_load_4_stride_32"), machine.bandwidth.get("l2_load_16")
    if not (alone and whole and alone.one_sm_bytes_per_second and whole.one_sm_bytes_per_second):
        return 0.0
    clock, lines, sectors = machine.chip.clock_hz, 0.0, 0.0
    for i, passed in enumerate(profile.counts["l2_sectors"]):
        sectors += passed
        lines += profile.counts["lines"][i] * passed / max(1.0, profile.counts["sectors"][i])
    return max(
        lines * 4 * clock / alone.one_sm_bytes_per_second,  # there every line gives 4 bytes
        sectors * SECTOR_BYTES * clock / whole.one_sm_bytes_per_second,
    )


def _partial(i: int, profile: Profile) -> float:
    """Return the share of the sectors of a store that it fills in part: all where they are half full or less."""
    filled = profile.counts["useful_bytes"][i] / max(1.0, profile.counts["sectors"][i]) / SECTOR_BYTES
    return min(1.0, max(0.0, 2 * (1 - filled)))


def l2_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that L2 takes for the packets of the whole grid: the longer of the way there and back."""
    packets, rate = machine.packets, machine.cache.l2_bytes_per_second
    if rate is None:
        return 0.0
    there = back = 0.0
    for i, x in enumerate(code):
        sectors = profile.counts["l2_sectors"][i]
        if not sectors:
            continue
        lines = sectors * profile.counts["lines"][i] / max(1.0, profile.counts["sectors"][i])
        if x.kind == "load" and x.opcode not in _ATOMICS:
            there += lines * (packets.load_request_seconds or 0.0)
            back += max(
                lines * (packets.load_reply_seconds or 0.0),
                sectors * (packets.load_sector_seconds or SECTOR_BYTES / rate),
            )
        else:
            whole = packets.store_sector_seconds or SECTOR_BYTES / rate
            part = 1.0 if x.opcode in _ATOMICS else _partial(i, profile)
            there += lines * (packets.store_seconds or 0.0)
            there += sectors * _mixed(part, whole, packets.partial_sector_seconds or whole)
    return max(there, back) * machine.chip.clock_hz


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


def _mixed(share: float, others: float, alone: float) -> float:
    """Return a share of one time and the rest of another."""
    return share * alone + (1 - share) * others


def dram_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that DRAM takes for the whole grid: streams at the rate of their mix, halves of lines alone."""
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
    return seconds * machine.chip.clock_hz


def _partial_stores(code: Sequence[Instruction], profile: Profile) -> float:
    """Return the share of all stored sectors that are filled in part."""
    stores = [(profile.counts["l2_sectors"][i], _partial(i, profile)) for i, x in enumerate(code) if x.kind == "store"]
    total = sum(sectors for sectors, _ in stores)
    return sum(sectors * part for sectors, part in stores) / total if total else 0.0


def dram_rate(machine: Machine, share: float) -> float:
    """Return the DRAM rate in B/s at a share of writes, between the measured mixes, each at its best width."""
    mixes = {"read": 0.0, "r3w1": 0.25, "r2w1": 1 / 3, "r1w1": 0.5, "r1w2": 2 / 3, "r1w3": 0.75, "write": 1.0}
    points = []
    for name, writes in mixes.items():
        found = [machine.bandwidth.get(f"dram_{name}_{width}") for width in (4, 8, 16)]
        rates = [b.bytes_per_second for b in found if b is not None and b.bytes_per_second]
        points += [(writes, max(rates))] if rates else []
    if not points:
        return machine.dram_bytes_per_second(model="warplens")
    for (left, low), (right, high) in pairwise(points):
        if left <= share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return points[0][1]
