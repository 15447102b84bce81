"""Run length R, memory latency L and switch cost C, for the models of coarse-grained multithreading."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.bounds import arithmetic_ipc, memory_latency
from warplens.workload import Number, Workload


class RunLength(Struct, frozen=True):
    """Per memory access: cycles a thread runs (R), cycles it waits (L), cycles a switch costs (C)."""

    run: Number
    latency: float
    switch: float
    accesses: Number


def run_length(workload: Workload, machine: Machine, model: str) -> RunLength:
    """Read R, L and C; a GPU switches for nothing, C = 0 (Volkov 2016 §4.9)."""
    accesses = workload.memory_instructions()
    if not np.any(accesses):
        raise WarplensError(f"{model} speaks about memory latency only, and {workload.name} accesses no memory")
    with np.errstate(divide="ignore", invalid="ignore"):
        run = workload.total() / accesses / arithmetic_ipc(machine, model)
    return RunLength(run, memory_latency(machine, model), 0.0, accesses)
