"""Roofline (Williams et al. 2009): the larger of arithmetic at peak rate and DRAM traffic at full bandwidth.

Arithmetic is what runs on CUDA cores, SFUs and fp64 units, one operation per instruction and thread; issue,
shared memory and latency play no role. Bandwidth is the best sustained one, the pins' where none is known.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.models.bounds import Residency, totals, worksheet
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.volkov import tightest
from warplens.workload import Workload

NAME = "roofline"
_NAMES = {"cuda cores": "computation", "sfu units": "sfu units", "fp64 units": "fp64 units",
          "dram bandwidth": "dram bandwidth"}  # fmt: skip


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict the time at the roof."""
    uses = totals(worksheet(workload, machine, NAME))
    roofs = {_NAMES[resource]: cycles for resource, cycles in uses.items() if resource in _NAMES}
    if not roofs:
        roofs = {"issue": uses["issue"]}
    slowest, conditions = tightest(roofs)
    operations = workload.total(lambda kind: kind in ("fp32", "sfu", "fp64")) * machine.sm.warp_size
    with np.errstate(divide="ignore", invalid="ignore"):
        intensity = operations / np.asarray(workload.dram_bytes())
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=slowest * residency.warps_on_sm,
        bounds=conditions,
        limits={name: cycles * residency.warps_on_sm for name, cycles in roofs.items()},
        terms={
            "operational intensity": Term(intensity, "ops/B", "Williams et al. 2009"),
            **{
                f"{name} roof": Term(cycles, "cycles per warp", "Williams et al. 2009")
                for name, cycles in roofs.items()
            },
        },
    )
