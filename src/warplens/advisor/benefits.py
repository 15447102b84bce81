"""The four potential benefits of Sim et al. 2012 for a workload.

Their Gamma, what a barrier costs, is a parameter of the machine that the paper took from simulations (64: C2050). So
do we for machines without a [sim] section: on an H200 our simulator takes 4.4 cycles longer per barrier and warp for
examples/micro/barrier than without its barriers, which is 0.03 times latency times memory ratio (8).
"""

from __future__ import annotations

from warplens.advisor.advice import Benefits
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.published import sim2012
from warplens.models.residency import residency
from warplens.workload.workload import Workload

GAMMA = 0.03
_SYMBOLS = {
    "t_exec": "T_exec", "t_comp": "T_comp", "t_mem": "T_mem", "t_overlap": "T_overlap", "t_fp": "T_fp",
    "t_mem_min": "T_mem_min", "b_itilp": "B_itilp", "b_memlp": "B_memlp", "b_fp": "B_fp", "b_serial": "B_serial",
}  # fmt: skip


def benefits(workload: Workload, machine: Machine) -> Benefits | None:
    """Return Sim's metrics in cycles, None where that model cannot speak."""
    try:
        terms = sim2012.predict(workload, machine, residency(workload, machine), gamma=GAMMA).terms
    except WarplensError:
        return None
    return Benefits(**{name: float(terms[symbol].value) for name, symbol in _SYMBOLS.items()})
