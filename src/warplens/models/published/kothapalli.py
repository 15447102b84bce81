"""Kothapalli et al. 2009: a thread's compute and memory cycles, their maximum or sum, times threads.

Equations (1) to (4). A transaction shared by k threads costs (500 + k)/k cycles each, a k-way bank conflict
4k. What the paper does not price (division, special functions, double precision) costs an addition; a barrier inside a
kernel costs nothing, though the paper knows its 4 cycles (§3.1). Occupancy plays no role. What the [kothapalli] section
does not give is read so that the peak arithmetic rate comes out: add cycles and pipeline depth are both the CUDA cores'
latency.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.machine import KINDS, Machine
from warplens.machine.papers import Kothapalli
from warplens.models.bounds import Residency, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload


class Parameters(Struct, frozen=True):
    """§2 and §3's machine parameters for one GPU."""

    cores: float
    depth: float
    clock: float
    add: float
    imul: float
    imod: float | None
    global_access: float
    shared_access: float


def parameters(machine: Machine, model: str) -> Parameters:
    """Read the parameters from the [kothapalli] section; those that it does not give from the general ones."""
    own, add = machine.kothapalli or Kothapalli(), machine.latency_cycles("fp32", model=model)
    return Parameters(
        cores=own.cores_per_sm or machine.peak_ipc("fp32", model=model) * machine.sm.warp_size,
        depth=own.pipeline_depth or add,
        clock=own.clock_hz or machine.chip.clock_hz,
        add=own.add_cycles or add,
        imul=own.imul_cycles or machine.latency_cycles("imul", model=model),
        imod=own.imod_cycles,
        global_access=own.global_cycles or memory_latency(machine, model),
        shared_access=own.shared_cycles or machine.timing("shared").latency_cycles or add,
    )


def predict(workload: Workload, machine: Machine, residency: Residency, *, combine: str = "max") -> Prediction:
    """Predict by the MAX model (latencies hidden) or the SUM model (not hidden)."""
    model = f"kothapalli-{combine}"
    p = parameters(machine, model)
    n_comp, n_memory = thread_cycles(workload, machine, p, model)
    c_t = np.maximum(n_comp, n_memory) if combine == "max" else n_comp + n_memory  # §3.3, (2)
    launch = workload.launch
    n_b: Number = 1.0 if launch is None else np.ceil(launch.blocks / machine.chip.sm_count)
    n_w: Number = 1.0 if launch is None else launch.warps_per_block
    cycles = n_b * n_w * machine.sm.warp_size * c_t / (p.cores * p.depth)  # (3)
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=cycles,
        clock_hz=p.clock,
        bounds={"memory": np.greater(n_memory, n_comp), "computation": True},
        limits={
            "computation": n_b * n_w * machine.sm.warp_size * n_comp / (p.cores * p.depth),
            "memory": n_b * n_w * machine.sm.warp_size * n_memory / (p.cores * p.depth),
        },
        terms={
            "N_comp": Term(n_comp, "cycles", "§3.2.1"),
            "N_memory": Term(n_memory, "cycles", "§3.2.2"),
            "C_T": Term(c_t, "cycles", "(2)"),
            "N_B": Term(n_b, "blocks/SM", "(3)"),
            "N_w": Term(n_w, "warps/block", "(3)"),
            "N_t": Term(machine.sm.warp_size, "threads/warp", "(3)"),
            "N_C": Term(p.cores, "", "(3)"),
            "D": Term(p.depth, "", "(3)"),
            "C(K)": Term(cycles, "cycles", "(3)"),
            "T(K)": Term(cycles / p.clock, "s", "(4)"),
        },
    )


def thread_cycles(workload: Workload, machine: Machine, p: Parameters, model: str) -> tuple[Number, Number]:
    """Return N_comp and N_memory: the cycles one thread computes and accesses memory."""
    if workload.given is not None:
        return workload.given.compute_cycles, workload.given.memory_cycles
    cost: dict[str, float | None] = {"imul": p.imul, "imod": p.imod}
    compute: Number = 0.0
    for kind, count in workload.executed().items():
        if KINDS[kind] in ("shared memory", "memory system") or kind == "barrier":
            continue  # §3.1: synchronisation inside a kernel is ignored
        cycles = cost.get(kind, p.add)
        if cycles is None:
            raise machine.missing(model, f"kothapalli.{kind}_cycles")
        compute = compute + count * cycles
    memory: Number = 0.0
    for access in workload.accesses:
        if access.space == "shared":
            each: Number = p.shared_access * access.conflict_degree
        elif access.space in ("global", "local"):
            k = access.threads_per_transaction
            if k is None:  # how many threads of a half-warp one transaction serves
                k = np.maximum(1.0, 16.0 / np.maximum(access.transactions, 1.0))
            # a transaction that serves one thread only is not coalesced: the full latency (§3.2.2)
            each = np.where(np.greater(k, 1), (p.global_access + k) / k, p.global_access)
        else:
            continue
        memory = memory + access.count * workload.iterations * each
    return compute, memory
