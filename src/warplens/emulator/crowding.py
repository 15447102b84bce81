"""What blocks on one SM take from one another in L1: sectors that loads have to ask L2 for again."""

from __future__ import annotations

import numpy as np

from warplens.emulator import layout
from warplens.emulator.footprint import Block
from warplens.emulator.sample import Counts
from warplens.program.instruction import Instruction
from warplens.workload.profile import CACHED, COLUMNS, Fewer, Traffic

_LOADS, _LOCAL, _COPY = ("LDG", "LD"), "LDL", "LDGSTS"


def lost_share(code: list[Instruction], counts: Counts, together: Block) -> float:
    """Return the share of what loads through L1 ask of L2 that L1 had before: what blocks touch is asked for once.

    Of local memory all of it: a word is stored, and is in L1 then, before it is loaded.
    """
    by_l1 = [x.opcode in _LOADS or (x.opcode == _COPY and "BYPASS" not in x.modifiers) for x in code]
    local = float(counts[[x.opcode == _LOCAL for x in code], layout.L2_SECTORS].sum())
    asked = float(counts[by_l1, layout.L2_SECTORS].sum())
    once = sum(footprint.sectors for footprint in together.read)
    return (max(0.0, asked - once) + local) / max(1.0, asked + local)


def fewer(blocks_per_sm: int, l1_bytes: float, total: Counts, traffic: list[Traffic]) -> Fewer:
    """Keep what a grid does with the caches when so many blocks share an SM."""
    accesses = np.flatnonzero(total[:, layout.SECTORS])
    columns = {name: total[accesses, COLUMNS.index(name)].tolist() for name in CACHED}
    return Fewer(
        blocks_per_sm=blocks_per_sm, l1_bytes=l1_bytes, accesses=accesses.tolist(), counts=columns, traffic=traffic
    )
