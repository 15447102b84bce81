"""What accesses cost a machine that has rules of its own for them (before compute capability 3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warplens.emulator import layout
from warplens.machine import Machine
from warplens.workload.memory_access import transactions


def transactions_per_access(machine: Machine, samples: npt.NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Return transactions and bytes per access, by the machine's generation, of the accesses that were kept."""
    capability = float(machine.compute_capability or 9)
    made: list[tuple[float, float]] = []
    for rows in samples:
        found = [
            transactions(
                capability,
                [int(a) if row[layout.SAMPLE_LANES] >> l & 1 else None
                 for l, a in enumerate(row[layout.SAMPLE_PLACES :])],
                int(row[layout.SAMPLE_SIZE]),
            )
            for row in rows
            if row[layout.SAMPLE_LANES]
        ]  # fmt: skip
        made.append(
            (float(np.mean([n for n, _ in found])), float(np.mean([b for _, b in found]))) if found else (0.0, 0.0)
        )
    return [n for n, _ in made], [b for _, b in made]
