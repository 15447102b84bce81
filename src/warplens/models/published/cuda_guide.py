"""The CUDA C Programming Guide, chapter 5.2.3, as Volkov 2016 §4.8 states it: warps needed, and no more.

    original:  mem_lat / (instruction time x alpha)
    refined:   mem_lat / (instruction time x (alpha + 1)) + 1

alpha is the number of other instructions per memory instruction. The guide gives no time.
"""

from __future__ import annotations

import numpy as np

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.bounds import Residency, arithmetic_ipc, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Workload


def predict(workload: Workload, machine: Machine, residency: Residency, *, refined: bool = False) -> Prediction:
    """Say how many warps per SM hide the memory latency."""
    model = "cuda-guide-refined" if refined else "cuda-guide"
    memory = workload.memory_instructions()
    if not np.any(memory):
        raise WarplensError(f"{model} speaks about memory latency only, and {workload.name} accesses no memory")
    latency = memory_latency(machine, model)
    time = 1 / arithmetic_ipc(machine, model)
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = (workload.total() - memory) / memory
        needed = latency / (time * (alpha + 1)) + 1 if refined else np.divide(latency, time * alpha)
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=None,
        bounds={"latency": residency.warps_per_sm < needed, "computation": True},
        needed=needed,
        terms={
            "mem_lat": Term(latency, "cycles", "§4.8"),
            "instruction time": Term(time, "cycles", "§4.8"),
            "alpha": Term(alpha, "", "§4.8"),
            "warps needed": Term(needed, "warps/SM", "§4.8"),
        },
        notes=["says how many warps are needed, not how long the kernel takes"],
    )
