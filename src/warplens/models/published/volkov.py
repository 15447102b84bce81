"""Volkov 2016, chapters 3 and 4: throughput is the smaller of two bounds, one of latency, one of throughput.

    warp throughput = min( n / latency bound, throughput bound )

The latency bound is the longest path through one warp's dependences; the throughput bound is the tightest
of the hardware's limits. Needed occupancy is their product (Little's law).
"""

from __future__ import annotations

import numpy as np

from warplens.machine import KINDS, Machine
from warplens.models.bounds import Residency, latency_bound, totals, worksheet
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload

NAME = "volkov"


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict with the two bounds of §3.5."""
    n = residency.warps_per_sm
    uses = totals(worksheet(workload, machine, NAME))
    latency = latency_bound(workload, machine, NAME)
    slowest, conditions = tightest(uses)
    by_latency = latency / n
    per_warp = np.maximum(by_latency, slowest)  # reciprocal of §3.5's min( n / latency, bound )
    rate = 1 / per_warp
    terms = {
        "n": Term(n, "warps/SM", "§3.4"),
        "latency bound": Term(latency, "cycles", "§3.7"),
        **{f"{name} cycles per warp": Term(c, "cycles", "§3.6, Table 3.4") for name, c in uses.items()},
        "throughput bound": Term(1 / slowest, "warps/cycle/SM", "§3.6"),
        "warp throughput": Term(rate, "warps/cycle/SM", "§3.5"),
        **concurrency(workload, machine, rate),
    }
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=per_warp * residency.warps_on_sm,
        bounds={"latency": by_latency > slowest, **conditions},
        limits={
            "latency": by_latency * residency.warps_on_sm,
            **{name: c * residency.warps_on_sm for name, c in uses.items()},
        },
        needed=latency / slowest,  # §3.10: warp latency x warp throughput
        terms=terms,
    )


def tightest(uses: dict[str, Number]) -> tuple[Number, dict[str, object]]:
    """Return the largest cycles per warp over all resources, and for each whether it is the one."""
    slowest: Number = 0.0
    for cycles in uses.values():
        slowest = np.maximum(slowest, cycles)
    return slowest, {name: np.equal(cycles, slowest) for name, cycles in uses.items()}


def concurrency(workload: Workload, machine: Machine, throughput: Number) -> dict[str, Term]:
    """Return the instructions in execution by kind: latency x rate, not the number of warps (§3.3, §4.6)."""
    terms = {}
    for kind in ("fp32", "sfu", "shared", "load"):
        count = workload.executed().get(kind)
        latency = machine.timing(kind).latency_cycles
        if count is not None and latency is not None:
            name = {"cuda cores": "arithmetic", "memory system": "memory"}.get(KINDS[kind], kind)
            terms[f"{name} instructions in execution"] = Term(latency * count * throughput, "per SM", "§4.6")
    return terms
