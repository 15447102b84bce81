"""What each mechanism of a model is worth: its error on a machine without that mechanism's numbers.

Every mechanism has its parameter in the machine file, and a model leaves out what a machine does not give. So a
mechanism is switched off by a machine that lacks the number, and no model needs a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.machine.measured import Packets, Scattered
from warplens.papers.validation.kernels import PARTS, Part, launches
from warplens.papers.validation.points import Point, Run, Watch, points

ALL = "all mechanisms"
CHANGED = 0.01  # a prediction that moved by more than this is one that the mechanism touches


def _without(field: str, names: Callable[[str], bool]) -> Callable[[Machine], Any]:
    """Return what makes a table of a machine without the entries of these names."""
    return lambda machine: {name: row for name, row in getattr(machine, field).items() if not names(name)}


def _no_slots(machine: Machine) -> Any:
    return {kind: replace(timing, issue_slots=None) for kind, timing in machine.instructions.items()}


# Mechanism -> keys of the machine file (two underscores descend) and what they are replaced by.
MECHANISMS: dict[str, dict[str, Any]] = {
    "register banks": {"sm__register_banks": None},
    "queue before memory and SFUs": {"sm__queued_per_scheduler": None, "sm__sfu_place_cycles": None},
    "queue of loads of an SM": {"memory__queued_loads_per_sm": None},
    "issue slots of wide products": {"instructions": _no_slots},
    "L1 takes an access per interval": {"cache__l1_request_interval_cycles": None},
    "transactions beyond a line": {"memory__extra_transaction_cycles": None},
    "barrier": {"sm__barrier_cycles": None, "sm__barrier_per_warp_cycles": None, "sm__barrier_data_path_cycles": None},
    "branch": {"sm__branch_taken_cycles": None, "sm__branch_not_taken_cycles": None},
    "reconvergence": {"sm__reconverge_cycles": None},
    "tensor rates": {"tensor": {}},
    "clock under matrix instructions": {"chip__tensor_clock_hz": None},
    "latency of L1": {"cache__l1_latency_cycles": None},
    "latency under load, DRAM": {"contention": None},
    "latency under load, L2": {"contention_l2": None},
    "reads wait for what is written": {"contention__written_cycles": None},
    "spread of DRAM latencies": {"latency_distribution": []},
    "neighbouring warps wait alike": {"memory__alike_warps": None},
    "limit of L2": {"cache__l2_bytes_per_second": None},
    "packets of L2": {"packets": Packets()},
    "atomics by the lines that they share": {"atomics": _without("atomics", lambda name: "_lines_" in name)},
    "what one SM gets of L2": {"bandwidth": _without("bandwidth", lambda name: name == "l2_load_16")},
    "DRAM by its mix of reads and writes": {"bandwidth": _without("bandwidth", lambda name: name.startswith("dram_r"))},
    "accesses that lie alone": {"scattered": Scattered()},
    "block replacement": {
        "sm__block_replacement_cycles": None,
        "sm__block_replacement_per_warp_cycles": None,
        "sm__block_exchange_cycles": None,
    },
    "launch cost": {"launch__empty_kernel_seconds": None},
    "cold start": {"launch__cold_start_one_seconds": None, "launch__cold_start_seconds": None},
    "ends of blocks noted one by one": {"launch__block_interval_cycles": None},
}


class Ablation(Struct, frozen=True):
    """The error without a mechanism over a set; `worse_percent` beside that with all; launches that it moves."""

    mechanism: str
    part: Part
    launches: int
    mean_percent: float
    worse_percent: float
    moved_percent: float


def without(machine: Machine, mechanism: str) -> Machine:
    """Return the machine without the numbers of a mechanism."""
    changes = MECHANISMS[mechanism]
    return machine.with_values(**{key: new(machine) if callable(new) else new for key, new in changes.items()})


def lacks(machine: Machine, mechanism: str) -> bool:
    """Whether a machine has no number of a mechanism anyway."""
    bare = without(machine, mechanism)
    return all(getattr(bare, name) == getattr(machine, name) for name in bare.__struct_fields__ if name != "sources")


def ablate(
    gpu: str = "h200",
    model: str = "warplens",
    *,
    every: int = 1,
    processes: int = 1,
    watch: Watch | None = None,
) -> list[Ablation]:
    """Return a model's error without each mechanism, over every n-th measured launch."""
    machine = load_machine(gpu)
    there = [name for name in MECHANISMS if not lacks(machine, name)]
    runs = [Run(ALL, model, machine), *(Run(name, model, without(machine, name)) for name in there)]
    return compared(points(launches(machine.id)[::every], runs, processes=processes, watch=watch))


def compared(made: Sequence[Point]) -> list[Ablation]:
    """Return the error of each run beside that of all mechanisms, what is worth most on the train set first."""
    by_run: dict[str, dict[str, Point]] = {}
    for p in made:
        by_run.setdefault(p.run, {})[p.launch] = p
    base, found = by_run[ALL], []
    for run, all_of_it in by_run.items():
        for part in PARTS:
            both = [(p, base[p.launch]) for p in all_of_it.values() if p.part == part and p.launch in base]
            if not both:
                continue
            mean, full = (float(np.mean([abs(pair[i].percent) for pair in both])) for i in (0, 1))
            moved = 100 * float(np.mean([abs(p.seconds / q.seconds - 1) > CHANGED for p, q in both]))
            found.append(Ablation(run, part, len(both), mean, mean - full, moved))
    worth = {a.mechanism: a.worse_percent for a in found if a.part == "train"}
    return sorted(found, key=lambda a: (a.mechanism != ALL, -worth.get(a.mechanism, 0.0), a.mechanism))
