"""Where the page's numbers come from, in words: the equation, and the machine file's numbers with their sources."""

from __future__ import annotations

from functools import reduce
from typing import Any

from warplens.core.units import quantity, unit_of
from warplens.machine import KINDS, Machine
from warplens.models import Prediction
from warplens.models.prediction import Term
from warplens.workload import Workload

_OWN = "docs/explain/how-a-prediction-is-made.md"
# What each limit alone takes, and the keys of the machine file it rests on.
_LIMITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "launch": ("an empty kernel, a cold start, handing out the first blocks", ("launch.empty_kernel_seconds",)),
    "latency": ("rounds of resident blocks x what a warp takes alone, latencies under the kernel's own load; at most "
                "the kernel's own time",
                ("contention.a_cycles", "cache.l2_latency_cycles", "sm.block_replacement_cycles")),
    "dram bandwidth": ("bytes that the grid moves from and to DRAM / the rate of their mix of reads and writes",
                       ("memory.sustained_bytes_per_second",)),
    "l2 bandwidth": ("requests and sectors that pass L1 x the time that L2 takes for each",
                     ("cache.l2_bytes_per_second",)),
    "l1 misses": ("sectors that one SM asks of L2 / the rate of one SM alone",
                  ("bandwidth.l2_load_16.one_sm_bytes_per_second",)),
    "shared memory and l1": ("wavefronts of shared memory and L1 x cycles each, on the busiest SM",
                             ("shared_memory.access_interval_cycles", "cache.l1_request_interval_cycles")),
    "issue": ("issue slots of all warps of the busiest SM / schedulers", ("sm.schedulers",)),
    "atomics": ("turns of L2 for atomics on the array where they take longest / their rate", ()),
}  # fmt: skip


def limit(name: str, p: Prediction, machine: Machine) -> str:
    """Say what one limit's time is made of."""
    cycles = quantity(p.alone[name], "cycles")
    if not p.model.startswith("warplens"):
        return f"{cycles} at {quantity(machine.chip.clock_hz, 'Hz')}; limits of {p.model} (docs/reference/models.md)"
    known = name if name in p.limits or name == "launch" else "latency"
    what, keys = _LIMITS.get(known, (f"instructions for {name} x cycles each, on the busiest SM", ()))
    return ". ".join([f"{cycles}: {what} ({_OWN})", *filter(None, (number_of(machine, key) for key in keys))])


def term(name: str, t: Term, model: str) -> str:
    """Say where a term of a model comes from."""
    return f"{name}: {t.equation or 'an intermediate value'}; {model} (docs/reference/models.md)"


def number_of(machine: Machine, key: str) -> str:
    """Say what a number of the machine file is and who says so; nothing where the file lacks it."""
    source = machine.sources.get(key)
    if source is None:
        return ""
    found = value_of(machine, key)
    written = quantity(found, unit_of(key.rpartition(".")[2])) if isinstance(found, (int, float)) else str(found)
    date = f", {source.date}" if source.date else ""
    return f"{key} = {written}, {source.source}{date}: {source.ref}"


def value_of(machine: Machine, key: str) -> Any:
    """Return the value of a dotted key."""
    return reduce(_inside, key.split("."), machine)


def _inside(thing: Any, name: str) -> Any:
    if isinstance(thing, dict):
        return thing[name]
    return thing[int(name)] if isinstance(thing, (list, tuple)) else getattr(thing, name)


def used_keys(workload: Workload, machine: Machine) -> list[str]:
    """Return the keys of the machine file that a prediction of this workload may rest on."""
    kinds = {*workload.executed(), *(x.kind for x in workload.code)} & KINDS.keys()
    starts = ("chip.", "sm.", "memory.", "cache.", "shared_memory.", "contention.", "contention_l2.", "launch.",
              "packets.", "scattered.", *(f"instructions.{kind}." for kind in kinds))  # fmt: skip
    return [key for key in machine.sources if key.startswith(starts)]
