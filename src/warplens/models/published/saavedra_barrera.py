"""Saavedra-Barrera, Culler & von Eicken 1990, deterministic form, as used in Volkov 2016 §4.9.

Threads run R cycles, wait L, a switch costs C. Threads needed: L / (R + C) + 1 (their Eq. 4). Efficiency is
n R / (R + C + L) below that and R / (R + C) above. One latency only, no bandwidth.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.run_lengths import run_length
from warplens.workload import Workload

NAME = "saavedra-barrera"


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict from processor efficiency."""
    k, n = run_length(workload, machine, NAME), residency.warps_per_sm
    needed = k.latency / (k.run + k.switch) + 1
    efficiency = np.minimum(n * k.run / (k.run + k.switch + k.latency), k.run / (k.run + k.switch))
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=k.run / efficiency * k.accesses * residency.warps_on_sm,
        bounds={"latency": n < needed, "computation": True},
        needed=needed,
        terms={
            "R": Term(k.run, "cycles", "§4.9"),
            "L": Term(k.latency, "cycles", "§4.9"),
            "C": Term(k.switch, "cycles", "§4.9"),
            "threads needed": Term(needed, "warps/SM", "Eq. 4"),
            "efficiency": Term(efficiency, "", "1990 paper, linear and saturated regions"),
        },
    )
