"""The four potential benefits of Sim et al. 2012 for a workload, and their chart (the paper's Figures 4 and 14)."""

from __future__ import annotations

from warplens.advise.advice import Benefits
from warplens.errors import WarplensError
from warplens.kernel.workload import Workload
from warplens.machine import Machine
from warplens.models import predict

_SYMBOLS = {
    "t_exec": "T_exec", "t_comp": "T_comp", "t_mem": "T_mem", "t_overlap": "T_overlap", "t_fp": "T_fp",
    "t_mem_min": "T_mem_min", "b_itilp": "B_itilp", "b_memlp": "B_memlp", "b_fp": "B_fp", "b_serial": "B_serial",
}  # fmt: skip


def benefits(workload: Workload, machine: Machine) -> Benefits | None:
    """Return Sim's metrics in cycles, None where that model cannot speak."""
    try:
        terms = predict(workload, machine, "sim2012").terms
    except WarplensError:
        return None
    return Benefits(**{name: float(terms[symbol].value) for name, symbol in _SYMBOLS.items()})
