"""Ablation: a model's error on a machine without the numbers of one mechanism.

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
from warplens.machine.tables import Packets, Scattered
from warplens.papers.validation.kernels import PARTS, Launch, Part, launches
from warplens.papers.validation.points import Point, Run, Watch, points

ALL = "all mechanisms"
CHANGED = 0.01  # a prediction that moved by more than this is one that the mechanism touches


def _without(field: str, names: Callable[[str], bool]) -> Callable[[Machine], Any]:
    """Return what makes a table of a machine without the entries of these names."""
    return lambda machine: {name: row for name, row in getattr(machine, field).items() if not names(name)}


def _operations(*names: str) -> dict[str, Any]:
    """Return the change of a machine that takes these entries out of `operations`."""
    return {"operations": _without("operations", lambda name: name in names)}


def _timings(**fields: Any) -> dict[str, Any]:
    """Return the change of a machine that replaces fields of all instruction classes."""
    return {"instructions": lambda machine: {k: replace(t, **fields) for k, t in machine.instructions.items()}}


# Mechanism -> keys of the machine file (two underscores descend) and what they are replaced by.
MECHANISMS: dict[str, dict[str, Any]] = {
    # schedulers
    "order by issue counts": {"sm__issues_counted": None, "sm__issue_counts_cycles": None},
    "issue slots of wide products": _timings(issue_slots=None, extra_stall_cycles=None),
    "branch": {"sm__branch_taken_cycles": None, "sm__branch_not_taken_cycles": None},
    "port of a scheduler's instructions": {"instruction_cache__port_cycles": None},
    "instruction caches": {
        f"instruction_cache__{key}": None
        for key in (
            "first_bytes",
            "second_interval_cycles",
            "second_bytes",
            "memory_interval_cycles",
            "fetch_interval_cycles",
        )
    },
    "reconvergence": {"sm__reconverge_cycles": None},
    "reconvergence, one warp after another": {"sm__reconverge_interval_cycles": None},
    "barrier": {"sm__barrier_cycles": None, "sm__barrier_per_warp_cycles": None},
    "data path under a barrier": {"sm__barrier_data_path_cycles": None},
    "fence": {"sm__fence_cycles": None},
    # register file and units
    "register banks": {"sm__register_banks": None},
    "sources that are read late": _timings(read_cycles=None),
    "tensor rates": {"tensor": {}},
    "special registers": _operations("s2r", "s2ur"),
    "clock under matrix instructions": {"chip__tensor_clock_hz": None},
    # shared memory and L1
    "queue before memory and SFUs": {"sm__queued_per_scheduler": None, "sm__sfu_queue_release_cycles": None},
    "registers sent to shared memory": _operations("sts_64", "sts_128"),
    "wide loads from shared memory": _operations("lds_64", "lds_128"),
    "queue of loads of an SM": {"memory__queued_loads_per_sm": None},
    "L1 takes an access per interval": {"cache__l1_request_interval_cycles": None},
    "transactions beyond a line": {"memory__extra_transaction_cycles": None, "memory__coalesced_transactions": None},
    "latency of L1": {"cache__l1_latency_cycles": None},
    # L2 and DRAM
    "latency of L2": {"cache__l2_latency_cycles": None},
    "limit of L2": {"cache__l2_bytes_per_second": None},
    "packets of L2": {"packets": Packets()},
    "one request of a pair of SMs": {"cache__l2_pair_saving_fraction": None},
    "what one SM gets of L2": {"bandwidth": _without("bandwidth", lambda name: name == "l2_load_16")},
    "atomics by the lines that they share": {"atomics": _without("atomics", lambda name: "_lines_" in name)},
    "latency under load, DRAM": {"contention": None},
    "latency under load, L2": {"contention_l2": None},
    "reads wait for what is written": {"contention__written_cycles": None},
    "spread of DRAM latencies": {"latency_distribution": []},
    "correlated latencies of neighbouring warps": {"memory__correlated_warps": None},
    "DRAM by its mix of reads and writes": {"bandwidth": _without("bandwidth", lambda name: name.startswith("dram_r"))},
    "accesses that lie alone": {"scattered": Scattered()},
    # blocks and launches
    "block replacement": {
        "sm__block_replacement_cycles": None,
        "sm__block_replacement_per_warp_cycles": None,
        "sm__block_exchange_cycles": None,
    },
    "ends of blocks noted one by one": {"launch__block_interval_cycles": None},
    "launch cost": {"launch__empty_kernel_seconds": None},
    "cold start": {"launch__cold_start_one_seconds": None, "launch__cold_start_seconds": None},
    "cold code": {"instruction_cache__kept_bytes": None, "instruction_cache__cold_interval_cycles": None},
}

# What is read and is no mechanism: a pattern of keys, and why nothing is switched off by leaving it out.
NEEDED: dict[str, str] = {
    r"instructions\.\w+\.(latency_cycles|peak_ops_per_cycle_per_scheduler)": "how fast a class is: all need it",
    r"instructions\.\w+\.latency_to\.\w+": "stall counts of hand-written code; machine code brings its own",
    r"sm\.cuda_cores": "the rate of single precision and of what has no rate of its own",
    r"sm\.ilp_latency_cycles": "stall counts of hand-written code; machine code brings its own",
    r"sm\.(blocks_max|barriers|registers|shared_\w+|threads_per_block_max)": "occupancy, and with it the size of L1",
    r"memory\.transaction_bytes": "the size of an access of a hand-written workload",
    r"shared_memory\.conflict_cycles": "the limit `latency` that is shown beside the time",
    r"bandwidth\.dram_(write|driver_copy|sectors)\w*\.bytes_per_second": "the rate of writes alone",
    r"operations\.(fmnmx|popc|brev|vote|lds)\.\w+": "not read: their class has the numbers",
    r"cache\.(l1_bytes|l2_bytes|l2_partitions|l2_dirty_bytes|dram_bytes)": "the emulator's: in a workload's counts",
}


class Ablation(Struct, frozen=True):
    """The error without a mechanism over a set; `worse_percent` beside that with all; launches that it moves.

    `largest_percent`: the largest change of a launch's prediction, with its sign.
    """

    mechanism: str
    part: Part
    launches: int
    mean_percent: float
    worse_percent: float
    moved_percent: float
    largest_percent: float


def without(machine: Machine, mechanism: str) -> Machine:
    """Return the machine without the numbers of a mechanism."""
    changes = MECHANISMS[mechanism]
    return machine.with_values(**{key: new(machine) if callable(new) else new for key, new in changes.items()})


def lacks(machine: Machine, mechanism: str) -> bool:
    """Return whether a machine lacks every number of a mechanism."""
    bare = without(machine, mechanism)
    return all(getattr(bare, name) == getattr(machine, name) for name in bare.__struct_fields__ if name != "sources")


def ablate(
    gpu: str = "h200",
    model: str = "warplens",
    *,
    measured: Sequence[Launch] | None = None,
    every: int = 1,
    processes: int = 1,
    watch: Watch | None = None,
) -> list[Ablation]:
    """Return a model's error without each mechanism, over every n-th launch: those measured of the suite, or others."""
    machine = load_machine(gpu)
    there = [name for name in MECHANISMS if not lacks(machine, name)]
    runs = [Run(ALL, model, machine), *(Run(name, model, without(machine, name)) for name in there)]
    chosen = (launches(machine.id) if measured is None else measured)[::every]
    return compared(points(chosen, runs, processes=processes, watch=watch))


def compared(predicted: Sequence[Point]) -> list[Ablation]:
    """Return the error of each run beside that of all mechanisms, what is worth most on the train set first."""
    by_run: dict[str, dict[str, Point]] = {}
    for p in predicted:
        by_run.setdefault(p.run, {})[p.launch] = p
    base, found = by_run[ALL], []
    for run, all_of_it in by_run.items():
        for part in PARTS:
            both = [(p, base[p.launch]) for p in all_of_it.values() if p.part == part and p.launch in base]
            if not both:
                continue
            mean, full = (float(np.mean([abs(pair[i].percent) for pair in both])) for i in (0, 1))
            changes = [p.seconds / q.seconds - 1 for p, q in both]
            moved = 100 * float(np.mean([abs(change) > CHANGED for change in changes]))
            found.append(Ablation(run, part, len(both), mean, mean - full, moved, 100 * max(changes, key=abs)))
    worth = {a.mechanism: a.worse_percent for a in found if a.part == "train"}
    return sorted(found, key=lambda a: (a.mechanism != ALL, -worth.get(a.mechanism, 0.0), a.mechanism))
