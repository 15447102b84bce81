"""Agarwal 1989, without cache and network terms, as used in Volkov 2016 §4.9.

A stall is overlapped with n - 1 runs and n switches: threads needed are (R + L) / (R + C), utilisation is
n R / (R + L) below that and R / (R + C) above. Equal to Saavedra-Barrera et al. where C = 0.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.run_lengths import run_length
from warplens.workload import Workload

NAME = "agarwal"


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict from processor utilisation."""
    k, n = run_length(workload, machine, NAME), residency.warps_per_sm
    needed = (k.run + k.latency) / (k.run + k.switch)
    utilisation = np.minimum(n * k.run / (k.run + k.latency), k.run / (k.run + k.switch))
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=k.run / utilisation * k.accesses * residency.warps_on_sm,
        bounds={"latency": n < needed, "computation": True},
        needed=needed,
        terms={
            "R": Term(k.run, "cycles", "§4.9"),
            "L": Term(k.latency, "cycles", "§4.9"),
            "C": Term(k.switch, "cycles", "§4.9"),
            "threads needed": Term(needed, "warps/SM", "1989 paper, section 2"),
            "utilisation": Term(utilisation, "", "1989 paper, section 2"),
        },
    )
