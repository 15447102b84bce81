"""Machine as the engine sees it: pipes, latencies and rates of an SM, with a note on each number that is missing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine
from warplens.simulator import layout as at
from warplens.simulator.code import Floats, Step

# The warp that goes first; round robin; the last one goes again before all others; of the warps of a block the one goes
# that has issued least of late.
POLICIES = {
    "least-issued": (at.OLDEST, 0, 1, 1),
    "greedy-oldest": (at.OLDEST, 0, 1, 0),
    "greedy-youngest": (at.YOUNGEST, 0, 1, 0),
    "oldest": (at.OLDEST, 0, 0, 0),
    "youngest": (at.YOUNGEST, 0, 0, 0),
    "round-robin": (at.OLDEST, 1, 0, 0),
}
# Which pipe serves which resource; the cores and the SFUs belong to a scheduler, memory to the whole SM.
# In programs (Volta and later) whole numbers have units of their own, and their products others; counts follow Volkov's
# worksheet, which puts all on the CUDA cores.
PIPES = (
    "cuda cores",
    "integer",
    "product",
    "sfu units",
    "special registers",
    "fp64 units",
    "tensor cores",
    "warp-group products",
    "shared memory",
    "memory system",
    "barrier unit",
    "uniform datapath",
    "constant cache",
    "convergence unit",
)
_SM_WIDE = ("shared memory", "memory system", "barrier unit", "special registers", "constant cache", "convergence unit")
_OF_PROGRAMS = {"int": "integer", "imul": "product", "imul_wide": "product", "uniform": "uniform datapath"}
_QUEUED = ("sfu units", "special registers", "shared memory", "shuffle", "constant cache")
INFINITE = 1e30
# The last length that was measured to fit, and a bit: the next one, a quarter longer (first level) or an eighth
# (second), did not. Where between them the end lies is not known; half of an eighth is assumed.
_CACHED = 1 + 1 / 16
AVERAGE_CYCLES = 4096.0  # over which the traffic to DRAM is averaged that the latency follows


class Units(Struct, frozen=True):
    """The pipes of an SM, how the engine is set up, how many SMs share memory.

    `l2_rate` and `dram_rate` are this SM's part in B/cycle, `curves` the latencies of DRAM and L2 under load. `loads`
    are the DRAM traffics in B/cycle and SM at which latencies were measured one by one; `spread` has for each of them
    the quantiles of these latencies over their mean, in equal steps.
    """

    machine: Machine
    sms: float
    pipes: Any
    setup: Any
    l2_rate: float
    dram_rate: float
    curves: Any
    loads: Floats
    spread: Floats
    notes: list[str]

    def unit(self, kind: str, *, program: bool = False) -> Step:
        """Return an instruction of a class, without its accesses; in a program whole numbers have their own units."""
        machine = self.machine
        resource = "constant cache" if program and kind == "constant" else KINDS[kind]
        queued, memory = resource in _QUEUED, resource == "memory system"
        own = {"barrier": "barrier unit", **(_OF_PROGRAMS if program else {})}
        where = own.get(kind, "shared memory" if resource == "shuffle" else resource)
        pipe = PIPES.index(where) if where in PIPES else -1
        timing, passes = machine.timing(kind), 1.0
        if where not in _SM_WIDE and pipe >= 0:
            try:
                passes = _whole(machine.sm.schedulers / machine.peak_ipc(kind))
            except MissingField:
                pipe = -1
        engine = at.LOAD if kind.startswith("load") else at.STORE if kind == "store" else at.BARRIER
        if kind != "barrier" and not memory:
            engine = at.QUEUED if queued else at.FIXED
        return Step(
            label=kind, pipe=pipe, passes=passes, kind=engine,
            reason=at.LONG if memory else at.SHORT if queued else at.WAIT,
            issue_cycles=machine.sm.issue_interval_cycles * (timing.issue_slots or 1.0),
            read=timing.read_cycles or 0.0, latency=timing.latency_cycles or 0.0,
        )  # fmt: skip


def _whole(cycles: float) -> float:
    """Return the whole cycles that a unit takes, where a measured rate is within 2 % of them."""
    return float(round(cycles)) if abs(cycles - round(cycles)) <= 0.02 * cycles else cycles


def units(machine: Machine, active_sms: float | None = None) -> Units:
    """Return a machine for the engine, so many of its SMs in use; a number that it does not give is left out."""
    sms = machine.chip.sm_count if active_sms is None else min(active_sms, machine.chip.sm_count)
    notes: list[str] = []
    return Units(
        machine, sms, _pipes(machine, notes), _setup(machine, sms, notes), *_rates(machine, sms, notes),
        _curves(machine, sms, notes), *_spread(machine, sms, notes), notes,
    )  # fmt: skip


def _pipes(machine: Machine, notes: list[str]) -> Any:
    """Return the pipes: of the cores one per scheduler, of memory and barriers one per SM."""
    sm, cache, memory = machine.sm, machine.cache, machine.memory
    pipes = at.rows(at.PIPE, len(PIPES))
    queued, loads = sm.queued_per_scheduler, memory.queued_loads_per_sm
    if queued is None:
        notes.append("sm.queued_per_scheduler is not known: queues before shared memory and SFUs have no end")
    entries = {
        "memory system": -1 if loads is None else max(1, int(loads / sm.schedulers)),
        "barrier unit": -1,
        "convergence unit": -1,
        "warp-group products": -1,  # eight in a row issue at once (data/h200/suite/triton/ncu.json.gz, flash attention)
        **dict.fromkeys(_QUEUED, -1 if queued is None else int(queued)),
    }
    if sm.sfu_queue_release_cycles is not None:
        entries["sfu units"] = 1
    l1, shared = PIPES.index("memory system"), PIPES.index("shared memory")
    intervals = {
        "special registers": 1.0,
        "convergence unit": sm.reconverge_interval_cycles or 0.0,
        "barrier unit": sm.barrier_per_warp_cycles or 0.0,
        "memory system": cache.l1_request_interval_cycles or 0.0,
    }
    with suppress(MissingField):  # a fixed latency
        intervals["constant cache"] = 1 / machine.peak_ipc("constant")
    try:
        intervals["shared memory"] = 1 / machine.peak_ipc("shared")
    except MissingField:
        notes.append("shared memory's rate is not known: it has no limit")
    for i, resource in enumerate(PIPES):
        pipes.shared[i] = resource in _SM_WIDE
        pipes.interval[i] = intervals.get(resource, 0.0 if pipes.shared[i] else 1.0)
        pipes.unit[i] = i
        pipes["places"][i] = entries.get(resource, 0)
    if cache.l1_request_interval_cycles is not None:
        pipes.unit[shared] = l1  # one data path
    else:
        notes.append("cache.l1_request_interval_cycles is not known: accesses to L1 take no time of its pipe")
    if sm.register_banks and _halves(machine):
        pipes.half[PIPES.index("cuda cores")], pipes.half[PIPES.index("product")] = at.EITHER, at.ONE
    pipes["held"][PIPES.index("sfu units")] = sm.sfu_queue_release_cycles or 0.0
    return pipes


def _halves(machine: Machine) -> bool:
    """Return whether products run on one half of the cores, over two cycles each: at half their rate."""
    try:
        return machine.peak_ipc("fp32") == machine.sm.schedulers == 2 * machine.peak_ipc("imul")
    except MissingField:
        return False


def _setup(machine: Machine, sms: float, notes: list[str]) -> Any:
    """Return what the engine knows of the machine: latencies in cycles, rates in B/cycle of one SM."""
    sm, code = machine.sm, machine.instruction_cache
    setups = at.rows(at.SETUP, 1)
    setup = setups[0]
    setup.time_limit = setup.mark_every = setup.window = INFINITE
    for field, section, key in (
        ("replace", "sm", "block_replacement_cycles"),
        ("barrier_wait", "sm", "barrier_cycles"),
        ("branch_taken", "sm", "branch_taken_cycles"),
        ("l1_latency", "cache", "l1_latency_cycles"),
        ("l2_latency", "cache", "l2_latency_cycles"),
    ):
        value = getattr(getattr(machine, section), key)
        setup[field] = value or 0.0
        if value is None:
            notes.append(f"{section}.{key} is not known: taken as 0")
    setup.drain = setup.l1_latency  # a store has left the SM when it has passed L1
    setup.port = code.port_cycles or 0.0
    setup.note_every = sms * (machine.launch.block_interval_cycles or 0.0)
    if sm.register_banks is None:
        notes.append("sm.register_banks is not known: register ports have no limit")
    setup.banks, setup.mshrs = int(sm.register_banks or 0), int(machine.memory.mshrs_per_sm or 0)
    setup["alike"] = int(machine.memory.correlated_warps or 0)
    setup.data_path, setup["barrier_held"] = PIPES.index("memory system"), sm.barrier_data_path_cycles or 0.0
    setup.late, setup.average = PIPES.index("sfu units"), AVERAGE_CYCLES
    if code.first_bytes and code.second_interval_cycles:
        setup.first_lines = int(_CACHED * code.first_bytes) // at.LINE_BYTES
        setup.second_lines = int(_CACHED * (code.second_bytes or 1 << 40)) // at.LINE_BYTES
        setup.second_wait = at.LINE_INSTRUCTIONS * code.second_interval_cycles
        setup.memory_wait = at.LINE_INSTRUCTIONS * (code.memory_interval_cycles or code.second_interval_cycles)
        each = code.fetch_interval_cycles or code.second_interval_cycles  # with all SMs at work
        setup.fetch_interval = at.LINE_INSTRUCTIONS * each * sms / machine.chip.sm_count
    return setups


def _rates(machine: Machine, sms: float, notes: list[str]) -> tuple[float, float]:
    """Return this SM's part of what L2 and DRAM give, in B/cycle."""
    per_sm, l2 = sms * machine.chip.clock_hz, machine.cache.l2_bytes_per_second
    if not l2:
        notes.append("cache.l2_bytes_per_second is not known: L2 has no limit")
    try:
        dram = machine.dram_bytes_per_second() / per_sm
    except MissingField:
        dram = INFINITE
        notes.append("the rate of DRAM is not known: it has no limit")
    return l2 / per_sm if l2 else INFINITE, dram


def _curves(machine: Machine, sms: float, notes: list[str]) -> Any:
    """Return the latencies of DRAM and of L2 under load."""
    curves = at.rows(at.CURVE, 2)
    unloaded = (machine.timing("load").latency_cycles or 0.0, machine.cache.l2_latency_cycles or 0.0)
    for row, least, known in zip(curves, unloaded, (machine.contention, machine.contention_l2), strict=True):
        row.unloaded, row.a, row.c = least, least, INFINITE
        if known is not None:
            row.a, row.b = known.a_cycles, known.b_cycles
            row.c = known.c_bytes_per_second / sms / machine.chip.clock_hz
            row.written = known.written_cycles or 0.0
    if machine.contention is None:
        notes.append("[contention] is not known: latency grows only by queueing for DRAM")
    return curves


def _spread(machine: Machine, sms: float, notes: list[str]) -> tuple[Floats, Floats]:
    """Return the loads at which single latencies of DRAM were measured, and their quantiles over the mean."""
    table = []
    for row in sorted(machine.latency_distribution, key=lambda d: d.throughput_bytes_per_second):
        known = {
            0.0: row.min_cycles, 0.05: row.p5_cycles, 0.25: row.p25_cycles, 0.5: row.p50_cycles, 0.75: row.p75_cycles,
            0.95: row.p95_cycles, 0.99: row.p99_cycles, 1.0: row.max_cycles,
        }  # fmt: skip
        shares = [share for share, cycles in known.items() if cycles is not None]
        quantiles = np.interp(np.linspace(0, 1, 201), shares, [known[share] or 0.0 for share in shares])
        mean = float((quantiles[1:] + quantiles[:-1]).mean() / 2)
        table.append((row.throughput_bytes_per_second / sms / machine.chip.clock_hz, quantiles / mean))
    if not table:
        notes.append("[[latency_distribution]] is not known: every access to DRAM takes the mean latency")
        return np.zeros(1), np.ones((1, 1))
    return np.array([load for load, _ in table]), np.array([quantiles for _, quantiles in table])


def default_policy(machine: Machine) -> str:
    """Return the order of warps that is taken where none is named: as measured, or by age."""
    return "greedy-oldest" if machine.sm.issues_counted is None else "least-issued"


def policy(name: str | None, machine: Machine) -> tuple[int, int, int, int]:
    """Return the engine's numbers for a policy's name, or for the one that is taken where none is named."""
    name = default_policy(machine) if name is None else name
    if name not in POLICIES:
        raise WarplensError(f"unknown policy {name!r}; one of: {', '.join(POLICIES)}")
    return POLICIES[name]
