"""Chen & Aamodt 2009, models 1 to 3, as Volkov 2016 §4.13 summarises them for equal threads.

pi is the throughput of one thread alone, in the unit of what an issue unit can issue at most:
1: pi, no effect of multithreading: each issue unit runs one warp, where there is one
2: n pi, no limits
3: 1 - (1 - pi)^n, gradual saturation of issue
"""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.models.bounds import Residency, issue_units, latency_bound
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload


def predict(workload: Workload, machine: Machine, residency: Residency, *, variant: int = 1) -> Prediction:
    """Predict with one of the three models."""
    model = f"chen-aamodt-{variant}"
    units = issue_units(machine)
    peak = machine.issue_ipc() / units
    n = residency.warps_per_sm / units
    pi = workload.total() / latency_bound(workload, machine, model) / peak
    rates: dict[int, Number] = {1: pi * np.minimum(n, 1.0), 2: n * pi, 3: 1 - (1 - np.minimum(pi, 1.0)) ** n}
    ipc = rates[variant] * peak * units
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=workload.total() / ipc * residency.warps_on_sm,
        bounds={"latency": rates[variant] < 0.99, "issue": True},
        terms={
            "pi": Term(pi, "of peak issue", "§4.13"),
            "n": Term(n, "warps per issue unit", "§4.13"),
            f"pi_{variant}(n)": Term(rates[variant], "of peak issue", "§4.13"),
        },
    )
