"""What an access takes longer than the latency of its class: conflicts and further transactions (Volkov 2016)."""

from __future__ import annotations

import numpy as np

from warplens.machine import Machine
from warplens.program.access_width import wide_cycles
from warplens.workload.workload import Access, Number


def extra_latency(access: Access, machine: Machine) -> Number:
    """Return the cycles that conflicts, width or further transactions add to an access's latency (§6.2, §6.7)."""
    if access.space == "shared":
        plain, conflict = machine.timing("shared"), machine.timing("shared_2way")
        wide = wide_cycles(access.bytes_per_thread, machine) if access.kind == "load" else 0.0
        if plain.latency_cycles is None or conflict.latency_cycles is None:
            return wide
        return (access.conflict_degree - 1) * (conflict.latency_cycles - plain.latency_cycles) + wide
    memory = machine.memory
    if memory.extra_transaction_cycles is None or access.kind != "load" or access.coalesced:
        return 0.0  # measured on diverging accesses; a wide coalesced one is no such
    base = memory.coalesced_transactions or 1.0
    made = np.minimum(machine.sm.warp_size, access.transactions * base)
    return np.maximum(0.0, made - base) * memory.extra_transaction_cycles
