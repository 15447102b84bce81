"""Derivation of a machine file from a journal: `warplens machine derive`. The same journal always gives the same file.

Every number has the entry of the journal, the statistic and the spread over repetitions in its `ref`, and the day of
the run. Vendor's facts of the file that it goes into are kept: a measured number replaces measured and derived ones.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.core.units import unit_of
from warplens.laboratory.catalogue import STEPS
from warplens.laboratory.journal import ENDINGS
from warplens.laboratory.samples import Number, Samples, load
from warplens.machine import Machine, list_machines
from warplens.machine.loader import parsed, tree_of
from warplens.machine.machine import Source

_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # of samples that are not there

_GUIDE = Source(unit="", source="vendor", ref="CUDA C++ Programming Guide 13, Compute Capabilities, cc 7.5 and later")
# What the driver does not say of a GPU that no file describes, and is so on all that the laboratory measures.
_KNOWN = {
    **dict.fromkeys(("sm.schedulers", "sm.issue_interval_cycles", "sm.issue_width"), _GUIDE),
    **dict.fromkeys(("shared_memory.banks", "shared_memory.bank_bytes"), _GUIDE),
}

# What counters tell better than times, and what other programs saw before: a file that has these from there keeps them.
_KEPT = (
    "cache.l2_dirty_bytes", "cache.l2_pair_saving_fraction", "instructions.shared.read_cycles",
    "sm.block_exchange_cycles", "memory.correlated_warps", "contention.written_cycles",
    "instruction_cache.fetch_interval_cycles", "launch.empty_kernel_seconds", "launch.cold_start_seconds",
    "scattered.split_sector_seconds", "scattered.split_blocks_bytes", "scattered.split_warps_bytes",
)  # fmt: skip


_JOURNAL = "; the journal: "  # in the ref of these, what it gives


def driver_facts(samples: Samples) -> Iterator[Number]:
    """Yield the driver's facts of the GPU, and the clock that it holds."""
    facts = samples.head["facts"]["attributes"]
    how = "the clock that all SMs hold under load"
    yield Number("chip.clock_hz", round(samples.head["reference_ghz"], 3) * 1e9, "head", how)
    if facts.get("l2_bytes"):
        yield Number("cache.l2_bytes", float(facts["l2_bytes"]), "head", "what the driver says")


def numbers(samples: Samples) -> Iterator[Number]:
    """Yield every number that a journal gives."""
    for step in STEPS:
        try:
            yield from step(samples)
        except _UNFIT as error:
            what, why = step.__name__.removeprefix("derive_").replace("_", " "), f"{type(error).__name__}: {error}"
            raise WarplensError(f"{samples.name}: {what} cannot be derived from these samples ({why})") from None


def _repeated(samples: Samples) -> dict[str, list[Any]]:
    """Return what each number would be by one repetition of every launch: how sure those are that no reading tells."""
    found: dict[str, list[Any]] = defaultdict(list)
    try:
        parts = samples.repetitions()
    except _UNFIT as error:
        raise WarplensError(f"{samples.name}: repetitions of these samples cannot be counted ({error})") from None
    for part in parts:
        for step in STEPS:
            with contextlib.suppress(*_UNFIT):
                for one in step(part):
                    found[one.key].append(one.value)
    return found


def derive(path: Path, base: Machine | None = None, also: Sequence[Path] = (), more: Sequence[Path] = ()) -> Machine:
    """Return a machine: `base`, or the one that ships for this GPU, or a new one, with the journal's numbers in it.

    `also`: another run on such a GPU; how far it is off stands in each number's `ref`. Either may be in several
    journals: `more` has what the first lacks.
    """
    samples = load(path, *more)
    if base and base.name != samples.head["gpu"]:
        raise WarplensError(f"{path} is of an {samples.head['gpu']}, the base file of an {base.name}: name another one")
    base = base or _shipped(samples.head["gpu"])
    tree, sources = (tree_of(base), base.sources) if base else (_bare(samples.head, str(path)), {})
    if base is None:
        asked = Source(unit="", source="measured", ref="driver", date=samples.head["date"])
        sources = {key: _KNOWN.get(key, asked) for key in _leaves(tree)}
    measured = list(numbers(samples))
    if measured:
        measured += driver_facts(samples)
    if not measured:
        raise WarplensError(f"{path}: no measurement that a number follows from came to its end in this journal")
    if any(n.key.startswith("latency_distribution.") for n in measured):  # a list is replaced as a whole
        tree.pop("latency_distribution", None)
        sources = {key: s for key, s in sources.items() if not key.startswith("latency_distribution.")}
    own = tuple(f"{one}: " for one in (path, *more))
    stale = [key for key, source in sources.items() if source.ref.startswith(own)]  # of an earlier derivation
    for key in stale:
        _drop(tree, key.split("."))
    sources = {key: source for key, source in sources.items() if key not in stale}
    second = load(*also) if also else None
    if second and second.head["gpu"] != samples.head["gpu"]:
        kinds = second.head["gpu"], samples.head["gpu"]
        raise WarplensError(f"{also[0]} is of another kind of GPU, {kinds[0]}, than {path}: {kinds[1]}")
    other = {n.key: n.value for n in (*numbers(second), *driver_facts(second))} if second else {}
    repeated = _repeated(samples)
    if base is None and not any(one.key == "shared_memory.access_interval_cycles" for one in measured):
        tree.pop("shared_memory")  # its banks say nothing without how long they take
        sources = {key: s for key, s in sources.items() if not key.startswith("shared_memory.")}
        measured = [one for one in measured if not one.key.startswith("shared_memory.")]
    for one in measured:
        old = sources.get(one.key)
        if old is not None and one.key in _KEPT:
            beside = f"{_JOURNAL}{one.value:g}{_spread(one, repeated, always=True)}{_beside(one, other)}"
            sources[one.key] = replace(old, ref=old.ref.partition(_JOURNAL)[0] + beside)
        if old is not None and (old.source in ("vendor", "paper") or one.key in _KEPT):
            continue
        _put(tree, one.key.split("."), one.value)
        if not isinstance(one.value, str):
            origin = samples.origin(one.entry)
            sources[one.key] = Source(
                unit="cycles" if ".latency_to." in one.key else unit_of(one.key.rpartition(".")[2]),
                source="measured", date=origin.head["date"],
                ref=f"{origin.name}: {one.entry}: {one.how}{_left_out(one, origin)}{_spread(one, repeated)}"
                f"{_beside(one, other)}",
            )  # fmt: skip
    return parsed(tree, sources, str(path))


def borrowed(machine: Machine, journal: str, *more: str) -> str:
    """Say which numbers of a derived machine are those of another journal, which its base came from; else nothing."""
    refs = (source.ref.partition(": ")[0] for source in machine.sources.values())
    others = [ref for ref in refs if ref not in (journal, *more) and ref.endswith(ENDINGS)]
    if not others:
        return ""
    return f"{len(others)} numbers are not from {journal}, which does not give them, but from {others[0]}"


def _left_out(one: Number, origin: Samples) -> str:
    """Say how many samples cannot be, where there are any."""
    many = origin.impossible.get(one.entry, 0)
    return f"; {many} of its samples left out: twice as much took no longer" if many else ""


def _spread(one: Number, repeated: dict[str, list[Any]], always: bool = False) -> str:
    """Say how far the repetitions are apart, each by itself, where the number's own words do not say it."""
    values = np.array([v for v in repeated.get(one.key, []) if np.shape(v) == np.shape(one.value)], float)
    if ("spread" in one.how and not always) or len(values) < 2 or one.key.endswith(".instructions"):
        return ""
    middle = np.abs(np.asarray(one.value, float))
    spread = (values.max(axis=0) - values.min(axis=0))[middle > 0] / middle[middle > 0]
    return f"; each of {len(values)} repetitions alone: spread {100 * spread.max(initial=0.0):.2g} %"


def _beside(one: Number, other: dict[str, Any]) -> str:
    """Say how far another run is off: `; another run: +0.3 %`."""
    value = other.get(one.key)
    if not isinstance(value, float) or not isinstance(one.value, float) or not one.value:
        return ""
    return f"; another run: {100 * (value / one.value - 1):+.2g} %"


def _shipped(name: str) -> Machine | None:
    return next((machine for machine in list_machines() if machine.name == name), None)


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a value in nested tables; a key that is a number is a place in a list of tables."""
    node: Any = tree
    for key, following in pairwise(keys):
        if isinstance(node, list):
            row = int(key)
            while len(node) <= row:
                node.append({})
            node = node[row]
        else:
            node = node.setdefault(key, [] if following.isdigit() else {})
    node[keys[-1]] = value


def _drop(tree: dict[str, Any], keys: list[str]) -> None:
    """Take a value out of nested tables."""
    node: Any = tree
    for key in keys[:-1]:
        node = node[key]
    del node[keys[-1]]


def _leaves(tree: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")
        elif isinstance(value, float):
            yield f"{path}{key}"


def _bare(head: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what the driver says about a GPU that no file describes; what it says nothing about (0) is left out."""
    try:
        tree = _told(head)
    except _UNFIT as error:
        why = f"{type(error).__name__}: {error}"
        raise WarplensError(f"{name}: the journal's head lacks what the driver says about the GPU ({why})") from None
    for section, key in (("memory", "pin_bytes_per_second"), ("cache", "l2_bytes")):
        if not tree[section][key]:
            del tree[section][key]
    return tree


def _told(head: dict[str, Any]) -> dict[str, Any]:
    a, name = head["facts"]["attributes"], head["gpu"]
    short = "".join(c for c in name.lower().removeprefix("nvidia ").replace(" ", "-") if c.isalnum() or c in ".-")
    return {
        "format": 1, "id": short, "name": name, "architecture": f"sm_{a['major']}{a['minor']}",
        "compute_capability": f"{a['major']}.{a['minor']}",
        "chip": {"sm_count": float(a["sm_count"]), "clock_hz": round(head["reference_ghz"], 3) * 1e9},
        "sm": {
            "schedulers": 4.0, "issue_interval_cycles": 1.0, "issue_width": 1.0,
            "warps_max": a["threads_per_sm_max"] / a["warp_size"], "warp_size": float(a["warp_size"]),
            "blocks_max": float(a["blocks_per_sm_max"]), "threads_per_block_max": float(a["threads_per_block_max"]),
            "registers": float(a["registers_per_sm"]), "shared_bytes": float(a["shared_per_sm_bytes"]),
            "shared_per_block_max_bytes": float(a["shared_per_block_max_bytes"]),
            "shared_reserved_bytes": float(a["shared_reserved_bytes"]),
        },
        "memory": {"capacity_bytes": float(head["facts"]["memory_bytes"]),
                   "pin_bytes_per_second": a["memory_clock_khz"] * 1e3 * 2 * a["memory_bus_bits"] / 8},
        "cache": {"l2_bytes": float(a["l2_bytes"])},
        "shared_memory": {"banks": 32.0, "bank_bytes": 4.0},
    }  # fmt: skip
