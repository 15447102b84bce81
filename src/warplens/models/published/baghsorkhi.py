"""Baghsorkhi et al. 2010 (work flow graph), as Volkov 2016 §7.2 writes it out.

Each memory instruction is a node whose weight is what bandwidth or exposed latency makes of it; arithmetic
between them takes max(issue, latency/n) each. The kernel's time is the sum of all warp latencies.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import KINDS, Machine
from warplens.models.bounds import Residency, arithmetic_ipc, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Workload

NAME = "baghsorkhi"


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict the sum of warp latencies on one SM."""
    n = residency.warps_per_sm
    issue = 1 / arithmetic_ipc(machine, NAME)
    num_mem = workload.memory_instructions()
    num_sync = workload.barriers * workload.iterations
    arithmetic = sum(
        (
            count * np.maximum(issue, machine.latency_cycles(kind, model=NAME) / n)
            for kind, count in workload.executed().items()
            if KINDS[kind] not in ("memory system", "issue")
        ),
        start=0.0,
    )  # Eq. 3 and the passage behind it
    control = workload.total(lambda kind: KINDS[kind] == "issue") * issue
    cyc_compute = arithmetic + control + num_mem * issue
    has_memory = np.greater(num_mem, 0)
    nodes = np.where(has_memory, num_mem, 1.0)
    moved = workload.dram_bytes()
    cyc_mem = moved / machine.dram_bytes_per_cycle(model=NAME) if np.any(moved) else 0.0
    latency_bw = issue + np.maximum(0.0, cyc_mem - cyc_compute) / nodes  # Eq. 4
    stops = num_mem + num_sync + (0.0 if workload.steady else 1.0)
    nbc_avg = cyc_compute / np.where(np.greater(stops, 0), stops, 1.0)  # Eq. 5
    mem_lat = memory_latency(machine, NAME) if np.any(num_mem) else 0.0
    exposed = mem_lat - (n - 1) * nbc_avg  # Eq. 6
    warp = arithmetic + control + np.where(has_memory, num_mem * np.maximum(latency_bw, exposed), 0.0)
    by_bandwidth = has_memory & (latency_bw >= exposed) & (cyc_mem > cyc_compute)
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=warp * residency.warps_on_sm,
        bounds={
            "latency": has_memory & (exposed > latency_bw),
            "dram bandwidth": by_bandwidth,
            "computation": True,
        },
        terms={
            "CYC_compute": Term(cyc_compute, "cycles", "Eq. 3"),
            "CYC_mem": Term(cyc_mem, "cycles", "§7.2"),
            "Latency_BW": Term(latency_bw, "cycles", "Eq. 4"),
            "NBC_avg": Term(nbc_avg, "cycles", "Eq. 5"),
            "Latency_exposed": Term(exposed, "cycles", "Eq. 6"),
            "Warp latency": Term(warp, "cycles", "§7.2"),
        },
    )
