"""What single warps do from the first cycle on: issuing, waiting for what, ready but not issued.

The engine runs the first blocks of a kernel for some thousand cycles and tells every event. Waits for operands and at
barriers have their reason; what lies between the end of such a wait and the next issue is `READY`: the pipe or its
queue was full, or the scheduler took another warp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.simulator import layout as at
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, run
from warplens.simulator.units import units
from warplens.workload.workload import Workload

READY = "ready"
_LONGEST = 4000  # cycles that are shown of a kernel whose blocks run longer
_WHOLE = 8000  # a first block that ends by then is shown to its end
_EVENTS = 120_000
_TAKEN = (at.NOT_SELECTED, at.MATH, at.MIO, at.LG)


class Slice(Struct, frozen=True, array_like=True):
    """What a warp did from one cycle up to another: a reason of Nsight's, or `READY`."""

    first_cycle: int
    end_cycle: int
    what: str


class Timeline(Struct, frozen=True, kw_only=True):
    """The warps of one scheduler over the first cycles, of so many warps on the SM."""

    cycles: int
    warps_on_sm: int
    schedulers: int
    warps: dict[int, list[Slice]]

    def shares(self, warp: int) -> dict[str, float]:
        """Return how a warp's cycles fall to what it did."""
        found: dict[str, float] = {}
        for s in self.warps[warp]:
            found[s.what] = found.get(s.what, 0.0) + s.end_cycle - s.first_cycle
        total = sum(found.values()) or 1.0
        return {what: cycles / total for what, cycles in found.items()}


def timeline(workload: Workload, machine: Machine, warps_per_sm: float) -> Timeline:
    """Run a counted kernel's first cycles on one SM."""
    if not workload.code or workload.profile is None:
        raise WarplensError(f"{workload.name}: a timeline needs a workload that was counted from machine code")
    made = units(machine, min(machine.chip.sm_count, workload.profile.grid_blocks))
    code = from_program(workload.code, made, workload.profile, name=workload.name)
    resident = max(1, int(warps_per_sm // code.warps_per_block))
    done = run(
        code, made, Options(events=_EVENTS), resident=resident, blocks=2 * resident, limit=float(_WHOLE)
    )  # fmt: skip
    ended = [end for _, end, _ in done.blocks if end > 0]
    cycles = min(_WHOLE, int(1.1 * min(ended))) if ended else _LONGEST
    if len(done.events) == _EVENTS:  # the later ones were not kept
        cycles = min(cycles, int(done.events[-1, 0]))
    schedulers, lanes = int(machine.sm.schedulers), resident * code.warps_per_block
    ends = {i for i, x in enumerate(workload.code) if x.opcode == "EXIT"}
    warps = {}
    later = code.warps_per_block % schedulers == 0  # blocks of whole rounds begin one scheduler later (blocks.home_of)
    for warp in range(lanes):
        place = warp // code.warps_per_block
        if (warp + later * place) % schedulers:
            continue
        starts = [int(start) for start, _, where in done.blocks if int(where) == place and start > 0]
        warps[warp] = _slices(done.events[done.events[:, 2] == warp], cycles, ends, starts)
    return Timeline(cycles=cycles, warps_on_sm=lanes, schedulers=schedulers, warps=warps)


def _slices(events: Any, limit: int, ends: set[int], starts: list[int]) -> list[Slice]:
    """Turn the events of a warp into what it did, up to a cycle.

    There is a gap from its last instruction (one of `ends`) until a new block comes to its place (`starts`).
    """
    found: list[Slice] = []
    since, last = 0, READY

    def until(cycle: int, what: str) -> None:
        nonlocal since
        if cycle > since and since < limit:
            found.append(Slice(since, min(cycle, limit), what))
        since = max(since, cycle)

    for cycle, kind, _, instruction, detail in events[np.argsort(events[:, 0], kind="stable")].tolist():
        since = max([since, *(start for start in starts if start <= cycle)])
        if kind == at.ISSUED:
            until(cycle, READY)
            until(cycle + 1, at.REASONS[at.SELECTED])
            last = "" if instruction in ends else READY
        elif kind == at.STALLED and detail != at.DRAIN:
            until(cycle, READY if detail in _TAKEN else at.REASONS[detail])
        elif kind == at.REACHED:
            last = at.REASONS[at.AT_BARRIER]
        elif kind == at.LEFT:
            until(cycle, at.REASONS[at.AT_BARRIER])
            last = READY
    if last:  # nothing more happened to it
        until(limit, last)
    return found
