"""Limits of a counted kernel: the cycles of each unit of an SM, of L2 and DRAM alone, and the latency of a lone warp.

Units of an SM come from the simulator's lowering of the machine code (its pipes, passes and register banks), so that
both say the same. L2 and DRAM take streams and scattered accesses at the rates that were measured for each.

A warp's accesses to DRAM have random latencies of the measured distribution, so that a warp that waits for several of
them waits for the longest. Latencies grow with the share of its rate that a level is used at (Volkov §6.4); how much
that is depends on the time, and the time on the latencies: a fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine
from warplens.machine.tables import Contention
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import LATENCY, facts_of
from warplens.simulator.code import Step
from warplens.simulator.traffic import SECTOR_BYTES as SECTOR_BYTES
from warplens.simulator.traffic import atomic_cycles as atomic_cycles
from warplens.simulator.traffic import dram_seconds, l1_miss_cycles, l2_seconds
from warplens.simulator.units import PIPES, Units
from warplens.workload.counted import Walk, lone_warp_cycles, walk
from warplens.workload.profile import Profile

_NAMES = {
    "cuda cores": "fp32", "integer": "integer", "product": "integer products", "sfu units": "sfu", "fp64 units": "fp64",
    "tensor cores": "tensor cores", "warp-group products": "tensor cores",
    "shared memory": "shared memory and l1", "memory system": "shared memory and l1",
}  # fmt: skip


def unit_cycles(steps: Sequence[Step], profile: Profile, on: Units) -> dict[str, float]:
    """Return the cycles for which the whole grid keeps each unit of an SM busy, as if one SM did all."""
    schedulers = on.machine.sm.schedulers
    busy, beside = {"issue": 0.0}, 0.0
    widths = [(float(pipe.interval), 1.0 if pipe.shared else schedulers) for pipe in on.pipes]
    for step, count in zip(steps, profile.counts["executed"], strict=True):
        busy["issue"] += count * step.issue_cycles / schedulers
        beside += count * step.beside
        if step.pipe >= 0 and count and PIPES[step.pipe] in _NAMES:
            name, (interval, width) = _NAMES[PIPES[step.pipe]], widths[step.pipe]
            busy[name] = busy.get(name, 0.0) + count * step.passes * interval / width
    if beside:
        busy["shared memory and l1"] = busy.get("shared memory and l1", 0.0) + beside
    misses = l1_miss_cycles(profile, on.machine, range(len(steps)))
    return busy | ({"l1 misses": misses} if misses else {})


def l2_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that L2 takes for the packets of the whole grid: the longer of those to it and from it."""
    return machine.chip.clock_hz * max(l2_seconds(code, profile, machine))


def dram_cycles(code: Sequence[Instruction], profile: Profile, machine: Machine) -> float:
    """Return the cycles that DRAM takes for the whole grid."""
    return machine.chip.clock_hz * dram_seconds(code, profile, machine)


Floats = npt.NDArray[np.float64]
_HALVINGS = 30  # until the fixed point is found
_SLOWER = 1.5
_FULL = 0.98  # no level is used at more than this share of its rate


class Load(Struct, frozen=True):
    """The cycles that DRAM, L2 and the slowest of all limits would take for the grid, on these units."""

    dram: float
    l2: float
    slowest: float
    units: Units


class Levels(Struct, frozen=True):
    """Latencies of the levels of memory, in cycles, under a load; the spread of those of DRAM, over their mean."""

    l1: float
    l2: float
    dram: float
    spread: Floats

    @staticmethod
    def under_load(load: Load, cycles: float) -> Levels:
        """Return the latencies when the grid's traffic takes so many cycles."""
        machine = load.units.machine
        dram = _loaded(machine.timing("load").latency_cycles or 0.0, machine.contention, load.dram / cycles)
        l2 = _loaded(machine.cache.l2_latency_cycles or dram, machine.contention_l2, load.l2 / cycles)
        rate = machine.contention.c_bytes_per_second if machine.contention else 0.0
        traffic = load.dram / cycles * rate / machine.chip.clock_hz / load.units.sms
        spread = load.units.spread[int(np.abs(load.units.loads - traffic).argmin())]
        return Levels(machine.cache.l1_latency_cycles or l2, l2, dram, spread)

    def shares(self, profile: Profile) -> list[tuple[str, float]]:
        """Return the share of each level in the waits for memory: sectors by where they are found."""
        asked, found = profile.total("l2_sectors"), profile.total("l2_hit_sectors")
        times = {"l1": profile.total("l1_hit_sectors") * self.l1, "l2": found * self.l2,
                 "dram": (asked - found) * self.dram}  # fmt: skip
        total = sum(times.values())
        return [(level, time / total) for level, time in times.items()] if total else [("dram", 1.0)]


def _loaded(unloaded: float, curve: Contention | None, used: float) -> float:
    """Return a level's latency when a share of its rate is used: a + b x / (c - x), with x / c that share."""
    if curve is None:
        return unloaded
    used = min(_FULL, used)
    return max(unloaded, curve.a_cycles + curve.b_cycles * used / (1 - used))


def latency_bound(code: list[Instruction], profile: Profile, load: Load, rounds: float) -> tuple[float, Levels]:
    """Return the cycles of all rounds of blocks if each takes the time of a lone warp, and the latencies.

    A warp's time is walked with the latencies of idle memory, and with DRAM, then L2, half as slow again; between
    and beyond these it goes on along straight lines.
    """
    machine = load.units.machine
    chosen = sorted(profile.paths, key=lambda path: -path.warps)[:4]
    table = np.array([_access(x, i, profile, machine) for i, x in enumerate(code)])
    known = facts_of(code, machine)
    walks = [(path.warps, walk(path)) for path in chosen]
    paths = [_Path(walked, warps, _Accesses.of(table, walked), known[walked.code]) for warps, walked in walks]
    between = machine.sm.block_replacement_cycles or 0.0
    between += (machine.sm.block_replacement_per_warp_cycles or 0.0) * profile.warps_per_block
    idle = Levels.under_load(load, math.inf)
    busy = Levels.under_load(load, load.slowest or 1.0)

    def lone(levels: Levels) -> float:
        return _warp_cycles(profile, paths, machine, replace(levels, spread=busy.spread))

    alone, by_dram, by_l2 = lone(idle), 0.0, 0.0
    if any(p.accesses.far.any() for p in paths):
        by_dram = (lone(replace(idle, dram=_SLOWER * idle.dram)) - alone) / ((_SLOWER - 1) * idle.dram)
    if any(p.accesses.beyond.any() for p in paths):
        by_l2 = (lone(replace(idle, l2=_SLOWER * idle.l2)) - alone) / ((_SLOWER - 1) * idle.l2)

    def all_rounds(levels: Levels) -> float:
        longer = by_dram * (levels.dram - idle.dram) + by_l2 * (levels.l2 - idle.l2)
        return rounds * (alone + longer + between)

    low, high = max(1.0, load.slowest), max(load.slowest, all_rounds(busy))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if all_rounds(Levels.under_load(load, middle)) > middle else (low, middle)
    levels = Levels.under_load(load, high)
    return all_rounds(levels), levels


class _Path(Struct, frozen=True):
    """Path of some warps, its accesses, and the dependences of each position."""

    walked: Walk
    warps: int
    accesses: _Accesses
    run: Floats


class _Accesses(Struct, frozen=True, dict=True):
    """For each position of a path: a fixed latency, or shares beyond L1 and L2, lines waited for, a random number."""

    fixed: Floats
    beyond: Floats
    far: Floats
    lines: Floats
    draw: Floats

    @staticmethod
    def of(table: Floats, walked: Walk) -> _Accesses:
        """Return the accesses along a path, from those of each instruction (`_access`)."""
        along = table[walked.code]
        draw = np.random.default_rng(0).random(len(walked.code))
        return _Accesses(along[:, 0], along[:, 1], along[:, 2], along[:, 3], draw)

    def latencies(self, levels: Levels) -> Floats:
        """Return the latency of each position: an access's by where its draw says that it is found."""
        steps = np.linspace(0, 1, len(levels.spread))
        dram = levels.dram * np.interp(self._at, steps, levels.spread)
        found = np.where(self.draw < self.far, dram, np.where(self.draw < self.beyond, levels.l2, levels.l1))
        return np.where(np.isnan(self.fixed), found, self.fixed)

    @cached_property
    def _at(self) -> Floats:
        """Where among all latencies of DRAM that of each position is: that of the last of several lines."""
        share: Floats = (self.draw / np.maximum(self.far, 1e-9)).clip(0, 1) ** (1 / self.lines)
        return share


def _access(x: Instruction, i: int, profile: Profile, machine: Machine) -> tuple[float, float, float, float]:
    """Return an instruction's fixed latency, or none, and shares beyond L1 and L2 and the lines that come from DRAM."""
    counts, timing = profile.counts, machine.timing(x.kind).latency_cycles or 0.0
    requests = counts["requests"][i]
    if requests and x.kind in ("load", "store"):
        missed = counts["l2_sectors"][i] - counts["l2_hit_sectors"][i]
        beyond = min(1.0, counts["l2_sectors"][i] / requests)
        lines = missed / requests * counts["lines"][i] / max(1.0, counts["sectors"][i])
        return np.nan, beyond, min(beyond, missed / requests), max(1.0, lines)
    if requests and counts["wavefronts"][i]:
        conflict = machine.shared_memory.conflict_cycles if machine.shared_memory else None
        timing += (conflict or 0.0) * max(0.0, counts["wavefronts"][i] / requests - 1)
    return timing, 0.0, 0.0, 1.0


def _warp_cycles(profile: Profile, paths: Sequence[_Path], machine: Machine, levels: Levels) -> float:
    """Return the cycles of a lone warp: the mean over the paths of warps, scaled to the mean warp's instructions."""
    for p in paths:
        p.run[:, LATENCY] = p.accesses.latencies(levels)
    alone = [lone_warp_cycles(p.run, p.walked, machine) for p in paths]
    if profile.heaviest:
        return max(alone)
    total = sum(p.warps for p in paths)
    cycles = sum(p.warps * c for p, c in zip(paths, alone, strict=True)) / total
    counted = sum(p.warps * p.walked.counted for p in paths) / total
    mean = profile.total("executed") / (profile.grid_blocks * profile.warps_per_block)
    return cycles * mean / max(1.0, counted)
