"""Residency, rates and latencies of a workload on a machine, and the throughput worksheet, for several models.

The worksheet is Volkov's Table 3.4: for each hardware resource, which instructions use it, how many cycles
of exclusive use each takes on one SM, and the total. No warp throughput can exceed one over any total.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine, Occupancy, occupancy
from warplens.program import parse_listing
from warplens.program.lone_warp import period, schedule
from warplens.workload import Number, Workload
from warplens.workload.workload import Access, extra_latency, wavefronts


class Residency(Struct, frozen=True):
    """Warps and blocks of a launch on an SM."""

    warps_per_sm: Number  # at a time
    blocks_per_sm: Number  # at a time
    warps_per_block: Number
    active_sms: Number
    warps_on_sm: Number  # in total, on the busiest SM
    limiter: str


def residency(workload: Workload, machine: Machine, warps_per_sm: Number | None = None) -> Residency:
    """Return the residency of a workload on a machine; `warps_per_sm` overrides the occupancy.

    A steady-state workload fills the machine unless told otherwise, and counts one body per SM.
    """
    if warps_per_sm is not None:
        _check(warps_per_sm)
    launch = workload.launch
    if launch is None:
        n = machine.sm.warps_max if warps_per_sm is None else warps_per_sm
        return Residency(n, 1.0, n, machine.chip.sm_count, 1.0, "warps")
    sms, per_block = machine.chip.sm_count, launch.warps_per_block
    active = np.minimum(sms, launch.blocks)
    on_sm = np.ceil(launch.blocks / sms) * per_block  # on the busiest SM: a block is not split
    if warps_per_sm is not None:
        warps_per_sm = np.minimum(warps_per_sm, on_sm)  # no more than there are
        return Residency(warps_per_sm, warps_per_sm / per_block, per_block, active, on_sm, "given")
    if launch.blocks_per_sm is not None:
        fit, limiter = launch.blocks_per_sm, "given"
    else:
        fits = occupancy_of(workload, machine)
        assert fits is not None
        fit, limiter = fits.blocks_per_sm, fits.limiter
    blocks = np.minimum(fit, np.ceil(launch.blocks / sms))  # no more than there are
    few = bool(np.all(blocks < fit))
    return Residency(blocks * per_block, blocks, per_block, active, on_sm, "blocks in the grid" if few else limiter)


def _check(n: Number) -> None:
    try:
        values = np.atleast_1d(np.asarray(n, dtype=float))
    except (TypeError, ValueError):
        raise WarplensError(f"warps per SM must be a number or an array of numbers, not {n!r}") from None
    if values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise WarplensError("warps per SM must be finite and above zero")


def occupancy_of(workload: Workload, machine: Machine) -> Occupancy | None:
    """Return how many blocks and warps fit on an SM and what limits that; None without a launch."""
    launch = workload.launch
    if launch is None:
        return None
    if np.ndim(launch.threads_per_block):
        raise WarplensError("an array of block sizes has no single occupancy: give warps_per_sm")
    return occupancy(
        machine,
        threads_per_block=math.ceil(float(launch.threads_per_block)),
        registers_per_thread=launch.registers_per_thread,
        shared_bytes_per_block=launch.shared_bytes_per_block,
    )


class Use(Struct, frozen=True):
    """One line of the worksheet: so many instructions of a warp use a resource for so many cycles each."""

    resource: str
    user: str
    cycles_each: Number
    count: Number

    @property
    def cycles(self) -> Number:
        """Cycles of exclusive use per warp on one SM."""
        return self.cycles_each * self.count


def worksheet(workload: Workload, machine: Machine, model: str) -> list[Use]:
    """Return how one warp uses each throughput-limited resource of an SM."""
    uses = []
    times = workload.iterations
    executed = workload.executed()
    for kind, count in executed.items():
        if KINDS[kind] in ("cuda cores", "sfu units", "fp64 units"):
            uses.append(Use(KINDS[kind], kind, 1 / machine.peak_ipc(kind, model=model), count))
    for access in workload.accesses:
        if access.space == "shared":
            cycles = wavefronts(access, machine) / machine.peak_ipc("shared", model=model)
            uses.append(Use("shared memory", f"{_degree(access)} access", cycles, access.count * times))
        elif access.space in ("global", "local"):
            moved = access.transactions * access.transaction_bytes * (1 - access.hit_fraction)
            each = moved / machine.dram_bytes_per_cycle(model=model)
            what = f"{'coalesced' if access.coalesced else 'uncoalesced'} {access.kind}"
            uses.append(Use("dram bandwidth", what, each, access.count * times))
    each = 1 / machine.issue_ipc()
    for kind, count in executed.items():
        uses.append(Use("issue", kind, each * (machine.timing(kind).issue_slots or 1), count))
    dual = workload.issue.dual_issues * times + dual_issues(workload, machine)
    if np.any(dual):
        uses.append(Use("issue", "dual issue", -each, dual))
    if np.any(workload.issue.reissues):
        uses.append(Use("issue", "reissue", each, workload.issue.reissues * times))
    return uses


def totals(uses: list[Use]) -> dict[str, Number]:
    """Sum a worksheet: cycles per warp and SM that each resource alone would take."""
    cycles: dict[str, Number] = {}
    for use in uses:
        cycles[use.resource] = cycles.get(use.resource, 0.0) + use.cycles
    return cycles


def dual_issues(workload: Workload, machine: Machine) -> float:
    """Return how many instructions of a listing issue together with the one before (0 without a listing)."""
    if not workload.warps or machine.sm.issue_width < 2:
        return 0.0
    codes = [parse_listing(w.listing, workload.name) for w in workload.warps]
    try:
        pairs = schedule(codes, machine).dual_issued
    except MissingField:
        return 0.0
    return sum(map(sum, pairs)) / len(codes)


def arithmetic_ipc(machine: Machine, model: str) -> float:
    """Return alu_thru: the rate of CUDA core instructions, single issue factored in (Volkov §4.1)."""
    return min(machine.peak_ipc("fp32", model=model), machine.issue_ipc())


def memory_latency(machine: Machine, model: str) -> float:
    """Return mem_lat: the unloaded latency of a coalesced load that misses the caches, in cycles."""
    return machine.latency_cycles("load", model=model)


def latency_bound(workload: Workload, machine: Machine, model: str, *, extra: bool = True) -> Number:
    """Return a lower bound on one warp's latency in cycles, with no other warp and no throughput limit.

    A listing is scheduled along its dependence graph (§3.7); counts are a chain of dependences, divided by
    ILP and MLP, that cannot issue faster than the ILP latency lets it. `extra=False` leaves out what
    conflicts and further transactions add, for models that know one latency per instruction.
    """
    if workload.warps:
        codes = [parse_listing(w.listing, workload.name) for w in workload.warps]
        if workload.steady:
            return max(period(code, machine) for code in codes) * workload.iterations
        once = schedule(codes, machine, replacement=False).latency_cycles
        return once * workload.iterations + (machine.sm.block_replacement_cycles or 0.0)
    total: Number = 0.0
    for link in workload.dependences():
        if np.any(link.count):
            total = total + link.count * machine.latency_cycles(link.producer, link.consumer, model=model)
    for access in workload.accesses if extra else []:
        parallel = workload.ilp if access.space == "shared" else workload.mlp
        total = total + access.count * workload.iterations * extra_latency(access, machine) / parallel
    total = total + workload.barriers * workload.iterations * (machine.sm.barrier_cycles or 0.0)
    if machine.sm.ilp_latency_cycles is not None:
        total = np.maximum(total, workload.total() * machine.sm.ilp_latency_cycles)
    return total if workload.steady else total + (machine.sm.block_replacement_cycles or 0.0)


def loads_on_chain(workload: Workload, machine: Machine) -> Number:
    """Return how many global load latencies one warp waits for in a row."""
    if workload.warps:
        codes = [parse_listing(w.listing, workload.name) for w in workload.warps]
        awaited = schedule(codes[:1], machine).awaited
        return sum(codes[0][i].kind == "load" for i in awaited) * workload.iterations
    return sum((k.count for k in workload.dependences() if k.producer == "load"), start=0.0)


def issue_units(machine: Machine) -> float:
    """Return how many independent issue units of one instruction per cycle an SM has (at least one).

    Models made for one issue per cycle and SM take n as occupancy per scheduler on later GPUs (§7.5).
    """
    return max(1.0, float(np.floor(machine.issue_ipc())))


def _degree(access: Access) -> str:
    degree = access.conflict_degree
    if np.ndim(degree):
        return "conflicting"
    return "no-conflict" if degree == 1 else f"{float(degree):g}-way"
