"""The latency bound of our model: what a warp alone takes, with memory as slow as the kernel's own traffic makes it.

A warp's accesses to DRAM take latencies drawn from the measured distribution, so that a warp that waits for
several of them waits for the longest. Latencies grow with the share of its rate that a level is used at (Volkov
§6.4); how much that is depends on the time, and the time on the latencies: a fixed point.
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
from warplens.simulator.units import Units
from warplens.workload.counted import Walk, lone_warp_cycles, walk
from warplens.workload.profile import Profile

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
        """Return how the time that is waited for memory falls to its levels: sectors by where they are found."""
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
    """Return the cycles of all rounds of blocks if each takes what a warp takes alone, and the latencies.

    A warp's time is walked with the latencies of idle memory, and with DRAM, then L2, half as slow again; between
    and beyond these it goes on along straight lines.
    """
    machine = load.units.machine
    chosen = sorted(profile.paths, key=lambda path: -path.warps)[:4]
    table = np.array([_access(x, i, profile, machine) for i, x in enumerate(code)])
    known = facts_of(code, machine)
    ways = [_Way(way, path.warps, _Accesses.of(table, way), known[way.code]) for path in chosen for way in [walk(path)]]
    between = machine.sm.block_replacement_cycles or 0.0
    between += (machine.sm.block_replacement_per_warp_cycles or 0.0) * profile.warps_per_block
    idle = Levels.under_load(load, math.inf)
    busy = Levels.under_load(load, load.slowest or 1.0)
    alone = _warp_cycles(profile, ways, machine, replace(idle, spread=busy.spread))
    slopes = [
        (_warp_cycles(profile, ways, machine, replace(slower, spread=busy.spread)) - alone) / more if found else 0.0
        for slower, more, found in (
            (
                replace(idle, dram=_SLOWER * idle.dram),
                (_SLOWER - 1) * idle.dram,
                any(w.accesses.far.any() for w in ways),
            ),
            (replace(idle, l2=_SLOWER * idle.l2), (_SLOWER - 1) * idle.l2, any(w.accesses.beyond.any() for w in ways)),
        )
    ]

    def all_rounds(levels: Levels) -> float:
        longer = slopes[0] * (levels.dram - idle.dram) + slopes[1] * (levels.l2 - idle.l2)
        return rounds * (alone + longer + between)

    low, high = max(1.0, load.slowest), max(load.slowest, all_rounds(busy))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if all_rounds(Levels.under_load(load, middle)) > middle else (low, middle)
    levels = Levels.under_load(load, high)
    return all_rounds(levels), levels


class _Way(Struct, frozen=True):
    """The way of some warps, what its accesses do, and what issuing each position depends on."""

    way: Walk
    warps: int
    accesses: _Accesses
    run: Floats


class _Accesses(Struct, frozen=True, dict=True):
    """For each position of a way: a fixed latency, or shares of requests beyond L1 and L2, lines waited for, a draw."""

    fixed: Floats
    beyond: Floats
    far: Floats
    lines: Floats
    draw: Floats

    @staticmethod
    def of(table: Floats, way: Walk) -> _Accesses:
        """Return what the accesses along a way do, from what those of each instruction do (`_access`)."""
        along = table[way.code]
        draw = np.random.default_rng(0).random(len(way.code))
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
        made: Floats = (self.draw / np.maximum(self.far, 1e-9)).clip(0, 1) ** (1 / self.lines)
        return made


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


def _warp_cycles(profile: Profile, ways: Sequence[_Way], machine: Machine, levels: Levels) -> float:
    """Return what a warp alone takes: the mean over the ways of warps, scaled to the mean warp's instructions."""
    for w in ways:
        w.run[:, LATENCY] = w.accesses.latencies(levels)
    alone = [lone_warp_cycles(w.run, w.way, machine) for w in ways]
    if profile.heaviest:
        return max(alone)
    total = sum(w.warps for w in ways)
    cycles = sum(w.warps * c for w, c in zip(ways, alone, strict=True)) / total
    counted = sum(w.warps * w.way.counted for w in ways) / total
    mean = profile.total("executed") / (profile.grid_blocks * profile.warps_per_block)
    return cycles * mean / max(1.0, counted)
