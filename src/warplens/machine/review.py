"""Review of a machine file: numbers that it lacks, and numbers that disagree with the vendor's or with physics.

A file that loads has every number with a source, a unit and a possible value. This says more:

    disagrees: memory.sustained_bytes_per_second 5e12 is more than the pins give, 4.8e12
    lacks: contention (volkov-contention)

Each rule is a function from a machine to findings; what a rule needs and the file does not have is no finding of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from warplens.core.units import number
from warplens.machine.machine import Machine, at_key

_CLOSE = 0.01  # arithmetic peaks against units
_COPY = 0.03  # our copy against the driver's
_SIZE = 0.05  # what a cache was seen to hold against its size
_MATRICES_SINCE = 7  # compute capability with tensor cores
_LEAST_OF_PINS = 0.5  # less is no measurement of DRAM
_UNITS = (
    ("fadd", "cuda_cores"), ("fmul", "cuda_cores"), ("ffma_1", "cuda_cores"), ("mufu_rsq", "sfu_units"),
    ("dadd", "fp64_units"), ("dfma_1", "fp64_units"),
)  # fmt: skip
# What is needed most, and by whom.
_WANTED = {
    "instructions.fp32.latency_cycles": "all models of latency",
    "instructions.load.latency_cycles": "all models of memory latency",
    "instructions.shared.latency_cycles": "kernels with shared memory",
    "instructions.sfu.latency_cycles": "kernels with special functions",
    "memory.sustained_bytes_per_second": "every throughput bound; else the pins count",
    "memory.extra_transaction_cycles": "uncoalesced loads",
    "contention": "volkov-contention",
    "throughput": "zhang-owens",
    "sm.barrier_cycles": "kernels with barriers",
    "sm.block_replacement_cycles": "kernels of many short blocks",
    "sm.branch_taken_cycles": "listings and `show`",
    "sm.registers": "occupancy",
    "sm.shared_bytes": "occupancy",
    "cache.l1_latency_cycles": "kernels that hit in L1",
    "cache.l2_latency_cycles": "kernels that hit in L2",
    "cache.l2_bytes_per_second": "kernels that hit in L2",
    "launch.empty_kernel_seconds": "launch overhead",
    "operations": "`machine derive` fills it",
    "latency_distribution": "the spread of memory latency",
    "contention_l2": "latency of L2 under load",
    "bandwidth": "reads and writes mixed",
    "packets.store_seconds": "accesses in no order",
    "atomics": "kernels with atomics",
    "tensor": "kernels with matrix instructions",
    "instruction_cache.first_bytes": "code that is longer than its cache",
}


class Finding(Struct, frozen=True):
    """One remark about a machine file."""

    kind: Literal["disagrees", "lacks"]
    key: str
    text: str

    def __str__(self) -> str:
        """Return the remark as one line."""
        return f"{self.kind}: {self.key} {self.text}"


def review(machine: Machine) -> list[Finding]:
    """Return the findings on a machine, disagreements first."""
    return [*(finding for rule in _RULES for finding in rule(machine)), *_lacking(machine)]


def _lacking(machine: Machine) -> Iterator[Finding]:
    major = (machine.compute_capability or "").partition(".")[0]
    matrices = major.isdecimal() and int(major) >= _MATRICES_SINCE
    for key, who in _WANTED.items():
        if at_key(machine, key) in (None, {}, []) and (matrices or key != "tensor"):
            yield Finding("lacks", key, f"({who})")


def _off(key: str, value: float, what: str, expected: float, tolerance: float) -> Iterator[Finding]:
    if expected and abs(value / expected - 1) > tolerance:
        percent = f"{100 * (value / expected - 1):+.1f} %"
        yield Finding("disagrees", key, f"{number(value)} is {percent} off {what}, {number(expected)}")


def _ordered(machine: Machine, keys: list[str], why: str) -> Iterator[Finding]:
    """Say where a number is not below the next one, of those that the file has."""
    known = [(key, float(value)) for key in keys if (value := at_key(machine, key)) is not None]
    for (low, x), (high, y) in pairwise(known):
        if x > y:
            yield Finding("disagrees", low, f"{number(x)} is more than {high}, {number(y)}: {why}")


def _units(machine: Machine) -> Iterator[Finding]:
    """Yield measured peaks that are not those of the vendor's unit counts."""
    per = machine.sm.schedulers
    for operation, units in _UNITS:
        peak = at_key(machine, f"operations.{operation}.peak_ops_per_cycle_per_scheduler")
        count = at_key(machine, f"sm.{units}")
        if peak is not None and count is not None:
            key = f"operations.{operation}.peak_ops_per_cycle_per_scheduler"
            yield from _off(key, peak * per, f"sm.{units}", count, _CLOSE)
    flops, cores = machine.chip.peak_flops_per_second, machine.sm.cuda_cores
    if flops is not None and cores is not None:
        expected = 2 * cores * machine.chip.sm_count * machine.chip.clock_hz
        yield from _off("chip.peak_flops_per_second", flops, "2 x cores x SMs x clock", expected, 0.05)
    each, most = machine.sm.warps_per_scheduler_max, machine.sm.warps_max
    if each is not None and each * per != most:
        yield Finding(
            "disagrees", "sm.warps_per_scheduler_max", f"{number(each)} x {number(per)} is not {number(most)}"
        )


def _issue(machine: Machine) -> Iterator[Finding]:
    """Yield instructions that leave faster than a scheduler issues, or are done before they have left."""
    sm = machine.sm
    most = sm.warp_size * sm.issue_width / sm.issue_interval_cycles
    for name, operation in machine.operations.items():
        rate, latency = operation.peak_ops_per_cycle_per_scheduler, operation.latency_cycles
        if rate is not None and rate > (1 + _CLOSE) * most:
            key = f"operations.{name}.peak_ops_per_cycle_per_scheduler"
            yield Finding("disagrees", key, f"{number(rate)} is more than a scheduler issues, {number(most)}")
        if latency is not None and latency < sm.issue_interval_cycles:
            key = f"operations.{name}.latency_cycles"
            yield Finding("disagrees", key, f"{number(latency)} is less than it takes to issue one")


def _bandwidth(machine: Machine) -> Iterator[Finding]:
    """Yield levels that give more than the one before them, and DRAM if it gives more than its pins."""
    pins = "memory.pin_bytes_per_second"
    yield from _ordered(machine, ["memory.sustained_bytes_per_second", pins], "more than the pins give")
    yield from _ordered(machine, ["memory.sustained_bytes_per_second", "contention.c_bytes_per_second"],
                        "the curve would end before the peak")  # fmt: skip
    sustained, limit = machine.memory.sustained_bytes_per_second, machine.memory.pin_bytes_per_second
    if sustained is not None and limit is not None and sustained < _LEAST_OF_PINS * limit:
        text = f"{number(sustained)} is less than half of what the pins give, {number(limit)}"
        yield Finding("disagrees", "memory.sustained_bytes_per_second", text)
    l1 = "bandwidth.l1_load_16.bytes_per_second"
    for levels in (
        ["memory.sustained_bytes_per_second", "cache.l2_bytes_per_second", l1],
        ["bandwidth.l2_load_16.bytes_per_second", l1],
    ):
        yield from _ordered(machine, levels, "a cache is faster than what is behind it")
    for name, found in machine.bandwidth.items():
        rate = found.bytes_per_second
        if name.startswith("dram") and limit is not None and rate is not None and rate > limit:
            yield Finding(
                "disagrees", f"bandwidth.{name}.bytes_per_second", f"{number(rate)} is more than the pins give"
            )
    copies = [machine.bandwidth[name].bytes_per_second for name in machine.bandwidth if name.startswith("dram_r1w1")]
    ours = max((rate for rate in copies if rate is not None), default=None)
    driver = at_key(machine, "bandwidth.dram_driver_copy.bytes_per_second")
    if ours is not None and driver is not None:
        yield from _off("bandwidth.dram_driver_copy.bytes_per_second", driver, "the best copy of ours", ours, _COPY)


def _latencies(machine: Machine) -> Iterator[Finding]:
    """Yield levels that are faster than a nearer one, and fixed latencies that are no whole cycles."""
    levels = ["cache.l1_latency_cycles", "cache.l2_near_latency_cycles", "cache.l2_latency_cycles",
           "cache.l2_far_latency_cycles", "instructions.load.latency_cycles"]  # fmt: skip
    yield from _ordered(machine, levels, "further away takes longer")
    for part, whole_key in (("l1_hit", "l1"), ("l2_hit", "l2"), ("l2_hit_by_all", "l2")):
        yield from _ordered(machine, [f"cache.{part}_bytes", f"cache.{whole_key}_bytes"], "more than there is")
    resident, whole = machine.cache.l2_resident_bytes, machine.cache.l2_bytes
    if resident is not None and whole is not None:
        yield from _off("cache.l2_resident_bytes", resident, "cache.l2_bytes", whole, _SIZE)
    for kind in ("fp32", "int", "imul", "fp64", "half"):
        latency = at_key(machine, f"instructions.{kind}.latency_cycles")
        if latency is not None and latency != round(latency):
            text = f"{number(latency)} is no whole number of cycles, as the compiler's stall counts are"
            yield Finding("disagrees", f"instructions.{kind}.latency_cycles", text)


def _spreads(machine: Machine) -> Iterator[Finding]:
    """Yield percentiles that do not rise, and medians that do not rise with the load."""
    names = ("min", "p5", "p25", "p50", "p75", "p95", "p99", "max")
    for i, spread in enumerate(machine.latency_distribution):
        marks = [x for name in names if (x := getattr(spread, f"{name}_cycles")) is not None]
        if marks != sorted(marks):
            yield Finding("disagrees", f"latency_distribution.{i}", "has percentiles that do not rise")
    medians = [spread.p50_cycles for spread in machine.latency_distribution]
    if medians and medians[-1] < medians[0]:
        yield Finding("disagrees", "latency_distribution", "has a lower median at the highest load than at the lowest")


_RULES = (_units, _issue, _bandwidth, _latencies, _spreads)
