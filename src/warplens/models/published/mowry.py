"""Mowry, Lam & Gupta 1992: how many loop iterations ahead to prefetch, as used in Volkov 2016 §4.9.

Prefetch distance = l / s: memory latency over the time of one iteration. Gives no time.
"""

from __future__ import annotations

from warplens.machine import Machine
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.run_lengths import run_length
from warplens.workload import Workload

NAME = "mowry"


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Return how many iterations (or warps) overlap the memory latency."""
    k = run_length(workload, machine, NAME)
    distance = k.latency / k.run
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=None,
        bounds={"latency": residency.warps_per_sm < distance, "computation": True},
        needed=distance,
        terms={
            "l": Term(k.latency, "cycles", "§4.9"),
            "s": Term(k.run, "cycles", "§4.9"),
            "prefetch distance": Term(distance, "iterations", "§4.9"),
        },
        notes=["says how far ahead to prefetch, not how long the kernel takes"],
    )
