"""Huang et al. 2014 (GPUMech), as Volkov 2016 §7.5-7.8 states it, typos of the original mended there.

    IPC = n I / (total_cycles + NO)         I instructions per warp and body, NO non-overlapped ones

for two warp schedulers: round robin (rr) and greedy-then-oldest (gto). The bandwidth term adds a queueing
delay that turns negative where the arrival rate exceeds the bandwidth; it is reproduced as it is, and the
prediction is flagged. MSHR_delay is zero while the registers suffice, and nothing is known of it beyond.
Ours: intervals of `ilp` instructions (the dissertation writes out intervals of one); with a listing,
total_cycles follows its dependences, and greedy-then-oldest takes every instruction for an interval.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.models.bounds import Residency, issue_units, latency_bound, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload


def predict(
    workload: Workload, machine: Machine, residency: Residency, *, policy: str = "rr", bandwidth: bool = False
) -> Prediction:
    """Predict with this warp scheduler, with or without the bandwidth term."""
    model = f"huang-{policy}" + ("-bandwidth" if bandwidth else "")
    units = issue_units(machine)
    n = residency.warps_per_sm / units  # occupancy per issue unit (§7.5)
    insts = workload.total()
    total_cycles = latency_bound(workload, machine, model, extra=False)
    p = insts / total_cycles  # Eq. 9
    interval = workload.ilp
    if policy == "rr":
        overlapped = insts / interval * p * (n - 1) * (interval - 1)  # Eq. 10, 11
    else:
        overlapped = _gto(workload, machine, n, p, model)
    cpi = (total_cycles + overlapped) / (n * insts)  # Eq. 7, reciprocal
    notes: list[str] = []
    terms = {
        "total_cycles": Term(total_cycles, "cycles", "Eq. 9"),
        "p": Term(p, "IPC", "Eq. 9"),
        "NO": Term(overlapped, "insts", "Eq. 10-16"),
        "CPI_multithreading": Term(cpi, "cycles", "Eq. 7"),
    }
    if bandwidth:
        delay, more = _bandwidth_delay(workload, machine, residency, model, notes)
        contention = workload.memory_instructions() * delay / insts  # Eq. 17
        cpi = cpi + contention  # Eq. 3
        terms |= {**more, "CPI_rc_contention": Term(contention, "cycles", "Eq. 17")}
    terms["CPI_final"] = Term(cpi, "cycles", "Eq. 3")
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=cpi * insts / units * residency.warps_on_sm,
        bounds="latency",
        terms=terms,
        notes=notes,
    )


def _gto(workload: Workload, machine: Machine, n: Number, p: Number, model: str) -> Number:
    """Return NO under greedy-then-oldest: what others issue in a stall beyond the stall itself (Eq. 12-16)."""
    total: Number = 0.0
    for link in workload.dependences():
        if np.any(link.count):
            stall = machine.latency_cycles(link.producer, link.consumer, model=model) - 1
            issued = np.minimum(p * stall, 1.0) * (n - 1) * workload.ilp
            total = total + link.count * np.maximum(0.0, issued - stall)
    return total


def _bandwidth_delay(
    workload: Workload, machine: Machine, residency: Residency, model: str, notes: list[str]
) -> tuple[Number, dict[str, Term]]:
    """Return Bandwidth_delay (Eq. 21) with its terms."""
    memory = machine.memory
    pins = memory.pin_bytes_per_second
    if pins is None:
        raise machine.missing(model, "memory.pin_bytes_per_second")
    accesses = [a for a in workload.accesses if a.space in ("global", "local")]
    count = sum((a.count for a in accesses), start=0.0)
    requests = sum((a.count * a.transactions for a in accesses), start=0.0) / np.maximum(count, 1e-300)
    core_reqs = residency.warps_per_sm * requests  # Eq. 18
    if memory.mshrs_per_sm is not None and np.any(core_reqs > memory.mshrs_per_sm):
        notes.append("more requests than miss registers: MSHR_delay (Eq. 20) is taken as zero")
    arrival = core_reqs * machine.chip.sm_count / memory_latency(machine, model)  # Eq. 23
    service = machine.chip.clock_hz * 128.0 / pins
    rho = arrival * service  # Eq. 22
    with np.errstate(divide="ignore"):
        queue = arrival * service**2 / (2 * (1 - rho))
    delay = np.minimum(queue, service * core_reqs * machine.chip.sm_count / 2)  # Eq. 21
    return delay, {
        "lambda": Term(arrival, "1/cycle", "Eq. 23"),
        "s": Term(service, "cycles", "§7.7"),
        "rho": Term(rho, "", "Eq. 22"),
        "Bandwidth_delay": Term(delay, "cycles", "Eq. 21"),
    }
