"""A machine as the engine sees it: pipes, latencies and rates per SM, and what is not known and so left out."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine
from warplens.simulate import layout as at
from warplens.simulate.code import Floats

POLICIES = {
    "youngest": (at.YOUNGEST, 0),
    "oldest": (at.OLDEST, 0),
    "greedy-oldest": (at.OLDEST, 1),
    "greedy-youngest": (at.YOUNGEST, 1),
    "round-robin": (at.ROUND_ROBIN, 0),
}
# Which pipe serves which resource; the cores and the SFUs belong to a scheduler, memory to the whole SM.
# In programs (Volta and later) whole numbers have units of their own, and their products others; counts follow Volkov's
# worksheet, which puts all on the CUDA cores.
PIPES = (
    "cuda cores",
    "integer",
    "product",
    "sfu units",
    "fp64 units",
    "tensor cores",
    "shared memory",
    "memory system",
)
_SM_WIDE = ("shared memory", "memory system")
_QUEUED = ("sfu units", "shared memory", "shuffle")
INFINITE = 1e30


class Unit(Struct, frozen=True):
    """How an instruction class uses the machine: its pipe, passes through it, latency and class for the engine."""

    pipe: int
    passes: float
    kind: int
    reason: int
    holds: float
    read: float
    latency: float


class Units(Struct, frozen=True):
    """The pipes of an SM, the settings of the engine, how many SMs share the memory, and what is left out."""

    machine: Machine
    sms: float
    pipes: Floats
    settings: Floats
    banks: int
    mshrs: int
    notes: list[str]

    def unit(self, kind: str, *, program: bool = False) -> Unit:
        """Return how an instruction class uses the machine; in a program whole numbers have units of their own."""
        machine = self.machine
        resource = KINDS[kind]
        queued = resource in _QUEUED
        where = "shared memory" if resource == "shuffle" else resource
        if program and kind in ("int", "imul", "imul_wide"):
            where = "integer" if kind == "int" else "product"
        pipe = PIPES.index(where) if where in PIPES else -1
        timing = machine.timing(kind)
        holds = machine.sm.issue_interval_cycles * (timing.issue_slots or 1.0)
        passes = 1.0
        if where not in _SM_WIDE and pipe >= 0:
            try:
                passes = machine.sm.schedulers / machine.peak_ipc(kind)
            except MissingField:
                pipe = -1
        engine = at.LOAD if kind.startswith("load") else at.STORE if kind == "store" else at.BARRIER
        if kind != "barrier" and resource != "memory system":
            engine = at.QUEUED if queued else at.FIXED
        reason = at.LONG if resource == "memory system" else at.SHORT if queued else at.WAIT
        return Unit(pipe, passes, engine, reason, holds, timing.read_cycles or 0.0, timing.latency_cycles or 0.0)

    def loaded_cycles(self, bytes_per_cycle: float) -> float:
        """Return the mean latency of a DRAM access when each SM moves so many bytes per cycle (Volkov §6.4)."""
        unloaded = self.machine.timing("load").latency_cycles or 0.0
        curve = self.machine.contention
        if curve is None:
            return unloaded
        x = bytes_per_cycle * self.sms * self.machine.chip.clock_hz
        c = curve.c_bytes_per_second
        x = min(x, 0.999 * c)
        return max(unloaded, curve.a_cycles + curve.b_cycles * x / (c - x))

    def spread(self, bytes_per_cycle: float) -> Floats:
        """Return the quantiles of DRAM latencies over their mean, in equal steps, at the nearest measured load."""
        rows = self.machine.latency_distribution
        if not rows:
            return np.ones(1)
        x = bytes_per_cycle * self.sms * self.machine.chip.clock_hz
        row = min(rows, key=lambda d: abs(d.throughput_bytes_per_second - x))
        known = {
            0.0: row.min_cycles, 0.05: row.p5_cycles, 0.25: row.p25_cycles, 0.5: row.p50_cycles, 0.75: row.p75_cycles,
            0.95: row.p95_cycles, 0.99: row.p99_cycles, 1.0: row.max_cycles,
        }  # fmt: skip
        shares = [share for share, cycles in known.items() if cycles is not None]
        quantiles = np.interp(np.linspace(0, 1, 201), shares, [known[share] or 0.0 for share in shares])
        mean = float((quantiles[1:] + quantiles[:-1]).mean() / 2)
        return np.asarray(quantiles / mean, np.float64)


def units(machine: Machine, active_sms: float | None = None) -> Units:
    """Read a machine, of which so many SMs are in use; what it does not give is left out, with a note each."""
    sms = machine.chip.sm_count if active_sms is None else min(active_sms, machine.chip.sm_count)
    notes: list[str] = []
    sm, cache, memory = machine.sm, machine.cache, machine.memory
    pipes = np.zeros((len(PIPES), at.PIPE_COLUMNS))
    ahead = sm.queue_ahead_cycles
    if ahead is None:
        notes.append("sm.queue_ahead_cycles is not known: queues before memory and SFUs have no end")
    for i, resource in enumerate(PIPES):
        pipes[i, at.INTERVAL] = 0.0 if resource in _SM_WIDE else 1.0
        pipes[i, at.SHARED] = float(resource in _SM_WIDE)
        queue = INFINITE if ahead is None or resource == "memory system" else ahead
        pipes[i, at.DEPTH] = queue if resource in (*_QUEUED, *_SM_WIDE) else 0.0
    try:
        pipes[PIPES.index("shared memory"), at.INTERVAL] = 1 / machine.peak_ipc("shared")
    except MissingField:
        notes.append("shared memory's rate is not known: it has no limit")
    if cache.l1_request_interval_cycles is not None:
        pipes[PIPES.index("memory system"), at.INTERVAL] = cache.l1_request_interval_cycles
    else:
        notes.append("cache.l1_request_interval_cycles is not known: accesses to L1 take no time of its pipe")
    if memory.queued_loads_per_sm is not None and cache.l1_request_interval_cycles is not None:
        queue = memory.queued_loads_per_sm * cache.l1_request_interval_cycles
        pipes[PIPES.index("memory system"), at.DEPTH] = queue
    settings = np.zeros(at.SETTING_COLUMNS)
    settings[at.TIME_LIMIT] = INFINITE
    settings[at.MARK_EVERY] = INFINITE
    settings[at.REPLACE] = _known(sm.block_replacement_cycles, "sm.block_replacement_cycles", notes)
    settings[at.BARRIER_WAIT] = _known(sm.barrier_cycles, "sm.barrier_cycles", notes)
    settings[at.BRANCH_TAKEN] = _known(sm.branch_taken_cycles, "sm.branch_taken_cycles", notes)
    settings[at.L1_LATENCY] = _known(cache.l1_latency_cycles, "cache.l1_latency_cycles", notes)
    settings[at.L2_LATENCY] = _known(cache.l2_latency_cycles, "cache.l2_latency_cycles", notes)
    per_sm = sms * machine.chip.clock_hz
    settings[at.L2_RATE] = cache.l2_bytes_per_second / per_sm if cache.l2_bytes_per_second else INFINITE
    if not cache.l2_bytes_per_second:
        notes.append("cache.l2_bytes_per_second is not known: L2 has no limit")
    try:
        settings[at.DRAM_RATE] = machine.dram_bytes_per_second() / per_sm
    except MissingField:
        settings[at.DRAM_RATE] = INFINITE
        notes.append("the rate of DRAM is not known: it has no limit")
    if machine.contention is None:
        notes.append("[contention] is not known: latency grows only by queueing for DRAM")
    if not machine.latency_distribution:
        notes.append("[[latency_distribution]] is not known: every access to DRAM takes the mean latency")
    if sm.register_banks is None:
        notes.append("sm.register_banks is not known: register ports have no limit")
    return Units(machine, sms, pipes, settings, int(sm.register_banks or 0), int(memory.mshrs_per_sm or 0), notes)


def _known(value: float | None, name: str, notes: list[str]) -> float:
    if value is None:
        notes.append(f"{name} is not known: taken as 0")
    return value or 0.0


def policy(name: str) -> tuple[int, int]:
    """Return the engine's numbers for a policy's name."""
    if name not in POLICIES:
        raise WarplensError(f"unknown policy {name!r}; one of: {', '.join(POLICIES)}")
    return POLICIES[name]
