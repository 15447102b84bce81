"""Views of a simulation's events: each takes one event after the other and answers in the end.

A new view is a class with `on` and `result`; the engine knows none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.simulator import layout as at
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, run
from warplens.simulator.simulation import Simulation
from warplens.simulator.units import units
from warplens.workload.workload import Workload


class Event(Struct, frozen=True):
    """Event of the engine: its cycle, its kind, warp and instruction; `detail` depends on the kind.

    issued: the scheduler. stalled: the reason's number. served: cycles since issue. block started, ended: its number.
    """

    cycle: int
    kind: str
    warp: int
    instruction: int
    detail: int


class View(Protocol):
    """Listener to events."""

    def on(self, event: Event) -> None:
        """Take one event."""

    def result(self) -> Any:
        """Return the answer after the last event."""


def events(simulation: Simulation) -> Iterator[Event]:
    """Yield the events that were kept, in the order of their cycles."""
    rows = [] if simulation.events is None else simulation.events
    first = {at.ENDED: 0, at.STARTED: 1}  # in one cycle a block leaves before the next comes
    for cycle, kind, warp, instruction, detail in sorted(map(tuple, rows), key=lambda r: (r[0], first.get(r[1], 2))):
        yield Event(int(cycle), at.EVENTS[int(kind)], int(warp), int(instruction), int(detail))


def listen(simulation: Simulation, views: Sequence[View]) -> list[Any]:
    """Send all events to all views; return their results."""
    for event in events(simulation):
        for view in views:
            view.on(event)
    return [view.result() for view in views]


class IssueRate:
    """Instructions per cycle over time, in windows of so many cycles."""

    def __init__(self, window_cycles: int = 256) -> None:
        self.window, self.counts = window_cycles, dict[int, int]()

    def on(self, event: Event) -> None:
        """Count an issue."""
        if event.kind == "issued":
            at_window = event.cycle // self.window
            self.counts[at_window] = self.counts.get(at_window, 0) + 1

    def result(self) -> list[tuple[int, float]]:
        """Return the start of each window and its rate."""
        return [(k * self.window, n / self.window) for k, n in sorted(self.counts.items())]


class Occupancy:
    """Warps on the SM over time (Volkov Figures 3.3 and 5.1)."""

    def __init__(self, warps_per_block: int) -> None:
        self.warps, self.steps, self.now = warps_per_block, list[tuple[int, int]](), 0

    def on(self, event: Event) -> None:
        """Count blocks that come and go."""
        change = {"block started": 1, "block ended": -1}.get(event.kind, 0)
        if change:
            self.now += change * self.warps
            self.steps.append((event.cycle, self.now))

    def result(self) -> list[tuple[int, int]]:
        """Return cycles and the warps from then on."""
        return self.steps


class Trace:
    """A trace for Perfetto and Chrome: warps as rows, instructions and stalls as slices, one microsecond per cycle."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels, self.rows, self.requests = labels, list[dict[str, Any]](), 0
        # The cycle up to which a row is filled; the start of the last block by its first warp.
        self.since, self.started = dict[int, int](), dict[int, int]()

    def on(self, event: Event) -> None:
        """Turn an event into slices."""
        if event.kind == "issued":
            self._slice(self.labels[event.instruction], "issue", event.warp, event.cycle, event.cycle + 1)
        elif event.kind in ("stalled", "barrier left"):
            begin = self.started[max(first for first in self.started if first <= event.warp)]
            reason = at.AT_BARRIER if event.kind == "barrier left" else event.detail
            self._slice(at.REASONS[reason], "stall", event.warp, max(begin, self.since.get(event.warp, 0)), event.cycle)
        elif event.kind == "served":
            name = f"{self.labels[event.instruction]} in flight"
            for phase, cycle in (("b", event.cycle - event.detail), ("e", event.cycle)):
                row = {"name": name, "cat": "memory", "ph": phase, "id": self.requests, "pid": 1, "ts": cycle}
                self.rows.append({**row, "tid": event.warp})
            self.requests += 1
        elif event.kind in ("block started", "block ended", "barrier reached"):
            if event.kind == "block started":
                self.started[event.warp] = event.cycle
            row = {"name": f"{event.kind} {event.detail}", "ph": "i", "s": "t", "pid": 1, "ts": event.cycle}
            self.rows.append({**row, "tid": event.warp})

    def result(self) -> dict[str, Any]:
        """Return the trace."""
        names: Iterable[int] = sorted({row["tid"] for row in self.rows})
        named = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": w, "args": {"name": f"warp {w}"}} for w in names]
        return {"traceEvents": [*named, *self.rows], "displayTimeUnit": "ms", "otherData": {"unit": "1 us is 1 cycle"}}

    def _slice(self, name: str, category: str, warp: int, begin: int, end: int) -> None:
        """Fill a row up to a cycle; slices of a row do not overlap."""
        if end > begin:
            row = {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": warp, "ts": begin, "dur": end - begin}
            self.rows.append(row)
            self.since[warp] = end


READY = "ready"
_LONGEST = 4000  # cycles that are shown of a kernel whose blocks run longer
_WHOLE = 8000  # a first block that ends by then is shown to its end
_EVENTS = 120_000
_TAKEN = (at.NOT_SELECTED, at.MATH, at.MIO, at.LG)


class Slice(Struct, frozen=True, array_like=True):
    """Part of a warp's row, from one cycle up to another: a stall reason of Nsight's, or `READY`."""

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
        """Return the shares of a warp's cycles by reason."""
        found: dict[str, float] = {}
        for s in self.warps[warp]:
            found[s.what] = found.get(s.what, 0.0) + s.end_cycle - s.first_cycle
        total = sum(found.values()) or 1.0
        return {what: cycles / total for what, cycles in found.items()}


def timeline(workload: Workload, machine: Machine, warps_per_sm: float) -> Timeline:
    """Run a counted kernel's first cycles on one SM."""
    if not workload.code or workload.profile is None:
        raise WarplensError(f"{workload.name}: a timeline needs a workload that was counted from machine code")
    on = units(machine, min(machine.chip.sm_count, workload.profile.grid_blocks))
    code = from_program(workload.code, on, workload.profile, name=workload.name)
    size = code.warps_per_block
    resident = max(1, int(warps_per_sm // size))
    done = run(code, on, Options(events=_EVENTS), resident=resident, blocks=2 * resident, limit=float(_WHOLE))
    ended = [end for _, end, _ in done.blocks if end > 0]
    cycles = min(_WHOLE, int(1.1 * min(ended))) if ended else _LONGEST
    if len(done.events) == _EVENTS:  # the later ones were not kept
        cycles = min(cycles, int(done.events[-1, 0]))
    schedulers, lanes = int(machine.sm.schedulers), resident * size
    ends = {i for i, x in enumerate(workload.code) if x.opcode == "EXIT"}
    warps = {}
    later = size % schedulers == 0  # blocks of whole rounds begin one scheduler later (blocks.home_of)
    for warp in range(lanes):
        slot = warp // size
        if (warp + later * slot) % schedulers == 0:
            starts = [int(start) for start, _, where in done.blocks if int(where) == slot and start > 0]
            warps[warp] = _slices(done.events[done.events[:, 2] == warp], cycles, ends, starts)
    return Timeline(cycles=cycles, warps_on_sm=lanes, schedulers=schedulers, warps=warps)


def _slices(events: Any, limit: int, ends: set[int], starts: list[int]) -> list[Slice]:
    """Turn the events of a warp into slices, up to a cycle.

    There is a gap from its last instruction (one of `ends`) until a new block starts in its block slot (`starts`).
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
