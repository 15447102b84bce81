"""Numbers that a machine file takes from its base, a measured GPU, each by a rule that its `ref` names.

A number that the file gives itself stands. One that it lacks and a limit or the simulator reads is the base's, scaled
by what both files know; a number without a rule is not taken. On a GPU of the base's compute capability the SM is the
same one, and all that the base's file says of an SM is taken as it is.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from warplens.core.units import unit_of
from warplens.machine.machine import Machine, at_key

_DIGITS = 4
_CLOCK, _SMS, _PINS = "chip.clock_hz", "chip.sm_count", "memory.pin_bytes_per_second"
_DRAM, _L2 = "memory.sustained_bytes_per_second", "cache.l2_bytes_per_second"
_L2_LATENCY, _LOAD = "cache.l2_latency_cycles", "instructions.load.latency_cycles"
_L2_BYTES, _FP64 = "cache.l2_bytes", "sm.fp64_units"

Known = Callable[[str], float | None]


class Rule(NamedTuple):
    """A name, and the keys by whose ratio to the base's a number of the base is multiplied, or divided."""

    name: str
    times: tuple[str, ...] = ()
    over: tuple[str, ...] = ()

    def factor(self, own: Known, base: Known) -> float | None:
        """Return the factor; None where one of the two files lacks a key."""
        ratios = list[float]()
        for key in (*self.times, *self.over):
            mine, other = own(key), base(key)
            if mine is None or other is None:
                return None
            ratios.append(mine / other)
        return math.prod(ratios[: len(self.times)]) / math.prod(ratios[len(self.times) :])


_CYCLES = Rule("as many cycles, bytes or operations per cycle of an SM")
_SM_CLOCK = Rule("as many bytes per cycle of an SM", (_CLOCK,))
_TIME = Rule("as long")
_NANOSECONDS = Rule("as many nanoseconds", (_CLOCK,))
_ALL_SMS = Rule("as many bytes per cycle and SM", (_SMS, _CLOCK))
_SHARE = Rule("the same share of the pins' rate", (_PINS,))
_BY_DRAM = Rule("in proportion to memory.sustained", (_DRAM,))
_OVER_DRAM = Rule("in inverse proportion to memory.sustained", (), (_DRAM,))
_BY_L2 = Rule("in proportion to cache.l2_bytes_per_second", (_L2,))
_OVER_L2 = Rule("in inverse proportion to cache.l2_bytes_per_second", (), (_L2,))
_BY_SIZE = Rule("in proportion to cache.l2_bytes", (_L2_BYTES,))
_BY_LOAD = Rule("in proportion to the latency of a load", (_LOAD,))
_BY_L2_LATENCY = Rule("in proportion to the latency of L2", (_L2_LATENCY,))
_BY_FP64 = Rule("in proportion to sm.fp64_units", (_FP64,))
_ONE_CHIP = Rule("as many per cycle, all SMs together", (), (_SMS,))

# The first that fits. The numbers that others rest on come first in `_ANCHORS`.
_RULES: tuple[tuple[str, Rule], ...] = (
    # DRAM
    (re.escape(_DRAM), _SHARE),
    (r"bandwidth\.dram_\w+\.bytes_per_second", _BY_DRAM),
    (r"scattered\.dram_\w+", _BY_DRAM),
    (r"scattered\.split_sector_seconds", _OVER_DRAM),
    (r"scattered\.split_\w+_bytes", _BY_SIZE),
    (r"instructions\.load\.latency_cycles", _NANOSECONDS),
    (r"contention\.\w+_bytes_per_second", _BY_DRAM),
    (r"contention\.\w+_cycles", _BY_LOAD),
    (r"latency_distribution\.\d+\.throughput_bytes_per_second", _BY_DRAM),
    (r"latency_distribution\.\d+\.\w+_cycles", _BY_LOAD),
    (r"memory\.(extra_transaction_cycles|queued_loads_per_sm|correlated_warps)", _CYCLES),
    # L2
    (re.escape(_L2), _ALL_SMS),
    (r"bandwidth\.l2_load_16\.bytes_per_second", _BY_L2),
    (r"packets\.\w+_seconds", _OVER_L2),
    (re.escape(_L2_LATENCY), _NANOSECONDS),
    (r"contention_l2\.\w+_bytes_per_second", _BY_L2),
    (r"contention_l2\.\w+_cycles", _BY_L2_LATENCY),
    (r"cache\.l2_(dirty|hit)_bytes", _BY_SIZE),
    (r"cache\.(dram|line|sector)_bytes", _CYCLES),
    (r"atomics\.global(_reduce)?_lines_\d+\.peak_ops_per_cycle_per_sm", _ONE_CHIP),
    # an SM
    (r"bandwidth\.l2_load_16\.one_sm_bytes_per_second", _SM_CLOCK),
    (r"bandwidth\.l1_load_16\.bytes_per_second", _ALL_SMS),
    (r"bandwidth\.l1_load_16\.one_sm_bytes_per_second", _SM_CLOCK),
    (r"cache\.l1_(latency|request_interval|line_interval|conflict_interval|extra_line)_cycles", _CYCLES),
    (r"(operations\.f2f_double|tensor\.f64(_16816)?)\.peak_\w+", _BY_FP64),
    (r"operations\.(lds_64|lds_128|sts_64|sts_128|match|redux|atoms_add|atoms_cas|shfl_idx|f2f_double|s2r|s2ur)"
     r"\.(latency_cycles|peak_\w+)", _CYCLES),
    (r"instructions\.\w+\.(latency_cycles|latency_to\.\w+|peak_\w+|read_cycles|extra_stall_cycles|issue_slots)",
     _CYCLES),
    (r"tensor\.(f16|bf16|tf32|s8|f64|f64_16816)\.(latency_cycles|peak_\w+)", _CYCLES),
    (r"sm\.\w+|shared_memory\.\w+|instruction_cache\.\w+", _CYCLES),
    # the papers' own models
    (r"(hong_kim\.departure_del_(un)?coal|sim\.departure_delay|kothapalli\.barrier)_cycles|sim\.gamma", _CYCLES),
    # a launch
    (r"launch\.\w+_seconds", _TIME),
    (r"launch\.\w+_cycles", _CYCLES),
)  # fmt: skip
_ANCHORS = (_DRAM, _L2, _L2_LATENCY, _LOAD)
# All that the base says of an SM and of its L1, its vendor's facts too, where the SM is the same.
_SAME_SM = re.compile(
    r"sm\.|shared_memory\.|instructions\.(?!load\.)|operations\.|tensor\.|atomics\.shared|throughput\.(?!load)|"
    r"instruction_cache\.|constant_cache\.|cache\.l1_|memory\.(transaction|coalesced)"
)
_OF_THE_SM = Rule("the same SM")


def based(tree: dict[str, Any], base: Machine) -> dict[str, Any]:
    """Return the tree of a machine file with the numbers that it lacks taken from its base, each with its rule."""
    filled = copy.deepcopy(tree)
    plain: dict[str, Any] = msgspec.to_builtins(base)
    same = tree.get("compute_capability") == base.compute_capability

    own_table = "latency_distribution" in tree  # as a whole, or none of it
    lacking = [key for key in base.sources if not (own_table and key.startswith("latency_distribution."))]
    for key in sorted(lacking, key=lambda key: (key not in _ANCHORS, key)):
        rule = _rule(key, same=same, measured=base.sources[key].source == "measured")
        factor = (
            rule.factor(partial(_value, filled), partial(_value, plain))
            if rule and at_key(filled, key) is None
            else None
        )
        if rule is not None and factor is not None:
            ref = f"{base.id}, {rule.name}: {base.sources[key].ref}"
            value, unit = _scaled(at_key(plain, key), factor), base.sources[key].unit or unit_of(key.rpartition(".")[2])
            _put(filled, key.split("."), {"value": value, "unit": unit, "source": "derived", "ref": ref})
    for name, operation in base.operations.items():
        found = at_key(filled, f"operations.{name}")
        if isinstance(found, dict) and operation.kind is not None:
            found.setdefault("kind", operation.kind)
    return filled


def taken(machine: Machine) -> list[str]:
    """Return the keys of the numbers that are the base's, by a rule."""
    return [k for k, s in machine.sources.items() if s.source == "derived" and s.ref.startswith(f"{machine.base}, ")]


def evidence(machine: Machine) -> Literal["measured", "data sheet", "paper"]:
    """Return the evidence of a machine's numbers: our measurements, a data sheet and the base's, or a paper."""
    if machine.base is not None:
        return "data sheet"
    return "measured" if any(s.source == "measured" for s in machine.sources.values()) else "paper"


def _rule(key: str, *, same: bool, measured: bool) -> Rule | None:
    """Return the rule for a key; a vendor's fact about another SM has none."""
    if same and _SAME_SM.match(key):
        return _OF_THE_SM
    found = next((rule for pattern, rule in _RULES if re.fullmatch(pattern, key)), None)
    return found if measured else None


def _value(tree: Any, dotted: str) -> float | None:
    """Return the number under a key, of a file's tree or of plain tables; None where there is none."""
    found = at_key(tree, dotted)
    found = found.get("value") if isinstance(found, dict) else found
    return float(found) if isinstance(found, (int, float)) and found > 0 else None


def _put(tree: Any, path: list[str], quantity: dict[str, Any]) -> None:
    """Set a quantity, with the tables around it; a number in the path is an index of a list of tables."""
    head, *rest = path
    if not isinstance(tree, dict):
        return  # the loader refuses what stands there instead of a table
    if rest and rest[0].isdigit():
        rows = tree.setdefault(head, [])
        rows += [{} for _ in range(int(rest[0]) + 1 - len(rows))]
        _put(rows[int(rest[0])], rest[1:], quantity)
    elif rest:
        _put(tree.setdefault(head, {}), rest, quantity)
    else:
        tree[head] = quantity


def _scaled(value: Any, factor: float) -> Any:
    """Return a number or a list of numbers times a factor; a product has four digits."""
    if isinstance(value, list):
        return [_scaled(one, factor) for one in value]
    return value if factor == 1 else float(f"{value * factor:.{_DIGITS}g}")
