"""Simulation of a workload: its time, and the stalls of its warps, instruction by instruction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from warplens.core.errors import WarplensError
from warplens.machine import Machine, occupancy
from warplens.simulator import layout as at
from warplens.simulator.code import Code
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import from_workload
from warplens.simulator.overlay import overlay
from warplens.simulator.run import Options, check_last_barriers
from warplens.simulator.sampling import Measured, kernel, steady
from warplens.simulator.units import Units, default_policy, units
from warplens.workload.workload import Workload

MOST_EVENTS = 100_000_000
MOST_BLOCKS = 1 << 40  # of an SM
SEEN = 0.2  # of the time: a part that is named, where nothing of the kernel's own explains it


class Line(Struct, frozen=True):
    """One instruction: how often it issues on the SM, and its warps' cycles by reason."""

    text: str
    executed: int
    stalls: dict[str, float]

    @property
    def cycles(self) -> float:
        """All warp-cycles spent before and at this instruction."""
        return sum(self.stalls.values())


class Simulation(Struct, frozen=True, kw_only=True):
    """Answer of a simulation. `cycles` are the kernel's, or those that one SM spends per body of a steady state.

    `error_cycles` bounds the error by extrapolation or random latencies (a kernel) or the length of the run (a steady
    state). `stalls` are shares of all warp-cycles by Nsight's reasons, `sampled` (an option) those of its sampler (see
    `run.look`). `blocks` are start and end of each block simulated, `changes` the numbers replaced (`overlay`).
    """

    workload: str
    machine: str
    mode: str
    policy: str
    per: str
    warps_per_sm: int
    cycles: float
    error_cycles: float
    seconds: float
    ipc: float
    dram_bytes_per_second: float
    simulated_instructions: int
    stalls: dict[str, float]
    sampled: dict[str, float]
    lines: list[Line]
    blocks: list[tuple[float, float]] = []
    events: Any = None
    notes: list[str] = []
    changes: dict[str, float] = {}

    @property
    def cpi_stack(self) -> dict[str, float]:
        """Cycles of a warp per instruction, by reason: what a warp's time is made of."""
        executed = sum(line.executed for line in self.lines)
        total = sum(line.cycles for line in self.lines)
        return {reason: share * total / executed for reason, share in self.stalls.items()} if executed else {}


def simulate(
    workload: Workload,
    machine: Machine,
    *,
    warps_per_sm: float | None = None,
    changes: Mapping[str, float] | None = None,
    options: Options | None = None,
) -> Simulation:
    """Simulate a workload on one SM of a machine."""
    changed, work = overlay(machine, workload, changes or {})
    assert work is not None
    checked_warps(changed, warps_per_sm)
    found = _workload(work, changed, warps_per_sm, checked_options(options or Options()))
    idle = [key for key in changes or {} if _is_idle(key, changes or {}, workload, machine)]
    notes = [*(f"--set {key} changes nothing here" for key in idle), *found.notes]
    return replace(found, notes=notes, changes=dict(changes or {}))


def checked_warps(machine: Machine, warps_per_sm: float | None) -> None:
    """Refuse more warps than an SM takes."""
    most = machine.sm.warps_max
    if warps_per_sm is not None and not 1 <= warps_per_sm <= most:
        raise WarplensError(
            f"warps per SM must be between 1 and {most:g} (machine.sm.warps_max of {machine.id}), not {warps_per_sm:g}"
        )


def checked_options(options: Options) -> Options:
    """Return the options; refuse a seed or a number of events that is too large."""
    if not -(2**63) <= options.seed < 2**63 or not 0 <= options.events <= MOST_EVENTS:
        raise WarplensError(f"a seed of at most 64 bits, and 0 to {MOST_EVENTS:,} events to keep")
    return options


def _workload(workload: Workload, machine: Machine, warps: float | None, options: Options) -> Simulation:
    launch = workload.launch
    _refuse_arrays(workload)
    code, on = _code(workload, machine, warps)
    if launch is None:
        return _answer(code, on, options, steady(code, on, options), code.warps_per_block, "warplens")
    if not (workload.code and workload.profile is not None):
        options = replace(options, strict_barriers=True)
    if warps is None:
        resident = launch.blocks_per_sm or int(
            occupancy(
                machine,
                threads_per_block=math.ceil(float(launch.threads_per_block)),
                registers_per_thread=launch.registers_per_thread,
                shared_bytes_per_block=launch.shared_bytes_per_block,
            ).blocks_per_sm
        )
    else:
        resident = max(1, int(warps // code.warps_per_block))
        if warps < code.warps_per_block:
            on = replace(on, notes=[f"a block has {code.warps_per_block} warps: so many run", *on.notes])
    return simulated_kernel(code, on, options, resident, int(launch.blocks))


def _code(workload: Workload, machine: Machine, warps: float | None = None) -> tuple[Code, Units]:
    """Return a workload's code, and the machine that it runs on."""
    launch = workload.launch
    if launch is not None and workload.code and workload.profile is not None:
        return lowered(workload, machine, float(launch.blocks))
    on = units(machine)  # as in the closed forms: every SM as busy as this one
    return from_workload(workload, on, warps if launch is None else None), on


_LAST: list[tuple[Workload, Machine, float, Code, Units]] = []  # models and the simulation ask for the same


def lowered(workload: Workload, machine: Machine, blocks: float) -> tuple[Code, Units]:
    """Return the code of a counted kernel of so many blocks, and the units of the machine."""
    for known, last, of, code, on in _LAST:
        if known is workload and last is machine and of == blocks:
            return code, on
    on = units(machine, busy_sms(machine, blocks))
    code = from_program(workload.code, on, workload.profile, name=workload.name)
    _LAST[:] = [(workload, machine, blocks, code, on)]
    return code, on


def _is_idle(key: str, changes: Mapping[str, float], given: Workload, machine: Machine) -> bool:
    """Return whether the simulation is the same without one of the changes."""
    seen = []
    for chosen in (changes, {k: v for k, v in changes.items() if k != key}):
        try:
            changed, workload = overlay(machine, given, chosen)
            assert workload is not None
            code, on = _code(workload, changed)
        except WarplensError:  # without it nothing can be simulated
            return False
        arrays = (on.pipes, on.setup, on.curves, on.loads, on.spread)
        chip, launch = (changed.chip, changed.sm, changed.shared_memory), workload.launch
        seen.append((code, on.l2_rate, on.dram_rate, chip, launch, *(array.tobytes() for array in arrays)))
    return bool(seen[0] == seen[1])


def _refuse_arrays(workload: Workload) -> None:
    launch, counts = workload.launch, (workload.instructions, workload.divergent)
    numbers: list[Any] = [workload.iterations, workload.ilp, workload.mlp, workload.barriers]
    numbers += [] if launch is None else [launch.blocks, launch.threads_per_block]
    numbers += [x for table in counts for x in table.values()] + [link.count for link in workload.links]
    numbers += [x for a in workload.accesses for x in astuple(a)]
    if any(isinstance(x, np.ndarray) and x.ndim for x in numbers):
        raise WarplensError("a simulation takes one configuration, not arrays")


def busy_sms(machine: Machine, blocks: float) -> float:
    """Return how many SMs as busy as the busiest share L2 and DRAM: those with a block less ask for less."""
    return blocks / math.ceil(blocks / machine.chip.sm_count)


def simulated_kernel(
    code: Code, on: Units, options: Options, fits: int, grid: int, mode: str = "warplens"
) -> Simulation:
    """Simulate so many blocks of a code, of which so many fit on an SM; `mode` is how it was lowered."""
    sm, on_sm = on.machine.sm, math.ceil(grid / on.machine.chip.sm_count)
    if not 0 < on_sm <= MOST_BLOCKS:
        raise WarplensError(
            f"{code.name}: a grid of {grid:.3g} blocks; 1 to {MOST_BLOCKS:.0e} for each SM are simulated"
        )
    resident = min(fits, on_sm)
    if mode == "warplens" and resident * code.warps_per_block > sm.warps_max:
        raise WarplensError(
            f"{code.name}: {resident} blocks of {code.warps_per_block} warps are asked for on an SM, which holds "
            f"{sm.warps_max:g} warps (machine.sm.warps_max of {on.machine.id})"
        )
    if options.strict_barriers:
        check_last_barriers(code)
    measured = kernel(code, on, options, resident=resident, blocks=on_sm)
    replaced = 0.0 if code.controlled or mode != "warplens" else float(on.setup.replace[0])
    if replaced * on_sm / resident > SEEN * measured.cycles:
        note = f"before each block {replaced:g} cycles pass until its place is taken (sm.block_replacement_cycles)"
        measured = replace(measured, notes=[*measured.notes, note])
    return _answer(code, on, options, measured, resident * code.warps_per_block, mode)


def _answer(code: Code, on: Units, options: Options, measured: Measured, warps: int, mode: str) -> Simulation:
    run, machine = measured.run, on.machine
    shares, seen = (x / (x.sum() or 1.0) for x in (run.stalls.sum(axis=0), run.sampled))
    lines = [
        Line(x.label, int(count), {r: c for r, c in zip(at.REASONS, row, strict=True) if c})
        for x, count, row in zip(code.steps, run.counts.tolist(), run.stalls.tolist(), strict=True)
    ]
    ended = [(float(a), float(b)) for a, b, _ in run.blocks if b > 0]
    notes = [*measured.notes, *on.notes, *code.notes] if mode == "warplens" else measured.notes
    if run.more_events:
        last = int(run.events[:, 0].max())
        notes = [f"events kept up to about cycle {last:,}: the first {options.events:,}; --events N keeps more", *notes]
    moved = run.dram_bytes / max(1.0, run.end_cycle) * on.sms * machine.chip.clock_hz
    return Simulation(
        workload=code.name,
        machine=machine.id,
        mode=mode,
        policy=options.policy or default_policy(machine),
        per="body and SM" if code.steady else "kernel",
        warps_per_sm=warps,
        cycles=measured.cycles,
        error_cycles=measured.error_cycles,
        seconds=measured.cycles / machine.chip.clock_hz,
        ipc=run.issued / max(1.0, run.end_cycle),
        dram_bytes_per_second=moved,
        simulated_instructions=measured.simulated_instructions,
        stalls=dict(zip(at.REASONS, shares.tolist(), strict=True)),
        sampled=dict(zip(at.REASONS, seen.tolist(), strict=True)) if options.sampled else {},
        lines=lines,
        blocks=ended,
        events=run.events,
        notes=notes,
    )
