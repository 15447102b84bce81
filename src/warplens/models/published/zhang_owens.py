"""Zhang & Owens 2011, as Volkov 2016 §7.3 states it: measured throughput of each kind, at this occupancy.

Time is the largest over arithmetic, shared and global memory of instructions x 32 / throughput(n), read off
tables measured on the GPU (machine file, [throughput.*]). A kind without a table is left out and named;
branches and barriers count for nothing.
"""

from __future__ import annotations

import numpy as np

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.volkov import tightest
from warplens.workload import Number, Workload

NAME = "zhang-owens"
_TABLE = {"cuda cores": "fp32", "sfu units": "sfu", "fp64 units": "fp64", "shared memory": "shared",
          "memory system": "load"}  # fmt: skip


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict the largest of the times that each kind of instruction takes alone."""
    n = residency.warps_per_sm
    times: dict[str, Number] = {}
    rates: dict[str, Number] = {}
    left_out = []
    for unit, kind in _TABLE.items():
        count = _count(workload, unit)
        if not np.any(count):
            continue
        table = machine.throughput.get(kind)
        if table is None:
            left_out.append(unit)
            continue
        rates[kind] = np.interp(n, table.warps_per_sm, table.ops_per_cycle_per_sm)
        times[unit] = count * machine.sm.warp_size / rates[kind]
    left_out += sorted({KINDS[k] for k in workload.executed()} - {*_TABLE, "issue"})
    if not times and left_out and left_out[0] in _TABLE:
        raise machine.missing(NAME, f"throughput.{_TABLE[left_out[0]]}")
    if not times:
        raise WarplensError(f"{NAME} has no answer for {workload.name}: nothing in it that throughput tables cover")
    slowest, conditions = tightest(times)
    notes = [f"no measured throughput table for {unit}: left out" for unit in left_out]
    tables = [machine.throughput[kind] for kind in rates]
    if np.any(np.asarray(n) > min(t.warps_per_sm[-1] for t in tables)):
        notes.append("occupancy beyond the measured table: its last value is held")
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=slowest * residency.warps_on_sm,
        bounds=conditions,
        limits={name: cycles * residency.warps_on_sm for name, cycles in times.items()},
        terms={
            **{f"{kind} (n)": Term(rate, "ops/cycle/SM", "§7.3") for kind, rate in rates.items()},
            **{f"{unit} time": Term(cycles, "cycles", "§7.3") for unit, cycles in times.items()},
            "Time": Term(slowest, "cycles", "§7.3"),
        },
        notes=notes,
    )


def _count(workload: Workload, unit: str) -> Number:
    """Return the instructions of a unit per warp; a memory access counts once per 128-byte transaction."""
    if unit == "memory system":
        return workload.dram_bytes() / 128.0
    if unit == "shared memory":
        shared = [a for a in workload.accesses if a.space == "shared"]
        return sum((a.count * a.conflict_degree * workload.iterations for a in shared), start=0.0)
    return workload.total(lambda kind: KINDS[kind] == unit)
