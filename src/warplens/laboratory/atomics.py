"""Atomic additions to global memory: by pattern of their addresses, and on few lines that all SMs share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import GIB, MIB, Laboratory
from warplens.laboratory.loaded_latency import CHAIN_STRIDE
from warplens.laboratory.plan import Effort, Entry, Sample, timed
from warplens.laboratory.samples import Number, Point, Samples, digits, number
from warplens.laboratory.scattered import AT_ONCE, BLOCKS_PER_SM, FEW_TRIPS, NEXT_RANDOM, THREADS, TRIPS, twice
from warplens.laboratory.source import LANES, Expectation, Kernel

_BINS = (32, 1024, 32768)  # words of an array, every lane at another
# How long atomics run: where few words are asked by all, long enough for so many trips of a warp, within limits.
_ATOMICS_CYCLES, _ATOMICS_TRIPS, _ATOMICS_LONGER = 400_000, 32, 40
# From one repetition to the next: which parts of L2 words fall into. An array begins with a page, as allocations do;
# one that begins anywhere else lies less evenly over the parts of L2.
ELSEWHERE_BYTES = 18 * MIB
_REPEATED = 10  # repetitions for each that others have, of atomics that take little time
LINES = (1, 8, 32, 128, 512, 2048, 8192)  # that all additions share
ADDRESSES = 20  # where they lie, in each repetition: which parts of L2 they fall into decides


def atomic_kernel(kind: str) -> Kernel:
    """Return the kernel of atomic additions of zero to global memory; `atom` returns the old value, the next index.

    A thread's word: block * a + its index / 32 * b + lane * c, of which the bits of `trips` are kept. Trips
    of four are counted for `size` cycles.
    """
    name = f"{kind}_add"
    links = 4
    one = (
        'asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(x) : "l"((u32 *)data + x), "r"(zero) : "memory");'
        if kind == "atom"
        else 'asm volatile("red.global.add.u32 [%0], %1;" :: "l"((u32 *)data + x), "r"(zero) : "memory");'
    )
    text = f"""\
KERNEL({name}, 1024) {{
  u32 zero = ((volatile u32 *)out)[16];
  u32 x = (blockIdx.x * a + threadIdx.x / 32 * b + threadIdx.x % 32 * c) & trips;
  PASSES {{
    START_TOGETHER
    TIMED_LOOP UNROLL for (int u = 0; u < {links}; u++) {{ {one} }} UNTIL_TIME
  }}
  KEEP(x == 0xfffffff)
  record(records, TIMED, done);
}}
"""
    pattern = r"ATOMG?\.E\.ADD.*" if kind == "atom" else r"REDG?\.E\.ADD.*"
    return Kernel(name, text, Expectation({pattern: links}, 16 + 2 * links), facts={"links": links})


def reductions_kernel(old: bool) -> Kernel:
    """Return additions of a warp's first a lanes to random ones of `size` words; `old`: the old value is asked for."""
    name = f"additions_{'old' if old else 'red'}"
    one = "sum += atomicAdd(p, 1u);" if old else "atomicAdd(p, 1u);"
    text = f"""\
KERNEL({name}, 1024) {{
  u32 id = blockIdx.x * blockDim.x + threadIdx.x, x = id * 2654435761u + 12345u, sum = 0;
  if (id % 32 >= a) return;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {AT_ONCE}; k++) {{
      {NEXT_RANDOM}
      u32 *p = (u32 *)data + __umulhi(x ^ x >> 15, (u32)size);
      {one}
    }}
  KEEP(sum == c)
}}
"""
    pattern = r"ATOMG?\.E\.ADD.*" if old else r"REDG?\.E\.ADD.*"
    facts = {"old": old, "accesses": AT_ONCE}
    return Kernel(name, text, Expectation({pattern: AT_ONCE}, 80), facts=facts)


def entries() -> list[Entry]:
    """Return the measurements: additions by pattern, and to few lines."""
    return [
        Entry("atomic.lines", (reductions_kernel(True), reductions_kernel(False)), measure_additions,
              "additions to lines that all share", weight=2.0),
        Entry("atomic.global", (atomic_kernel("atom"), atomic_kernel("red")), measure_atomics,
              "atomics on global memory: spread, and all on one word", weight=2.0),
    ]  # fmt: skip


def measure_atomics(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure atomic additions for a time and twice that: a word per thread, per warp, one of all, some bins."""
    patterns = {"spread": (1024, 32, 1), "per warp": (1024, 32, 0), "per SM": (1024, 0, 0), "one": (0, 0, 0)}
    patterns |= {f"bins {bins}": (7919, 104729, CHAIN_STRIDE) for bins in _BINS}
    lab.zeros()
    for kernel in entry.kernels:
        for name, (a, b, c) in patterns.items():
            lab.fill(1 << 20, 0, 0, 4)
            words = int(name.removeprefix("bins ")) if name.startswith("bins") else 1 << 20
            for warps in (1, 4, 16, 32):
                resident = lab.residency(kernel.name, warps)
                blocks = resident.blocks_per_sm * lab.facts.sm_count
                given = {"a": a, "b": b, "c": c, "trips": words - 1, "size": _ATOMICS_CYCLES}
                probe = stamps.reduce(lab.stamped(kernel.name, blocks, resident.threads, resident.shared, **given))
                trips = probe["count"] / (resident.blocks_per_sm * resident.threads / 32 * probe["sms"])
                size = int(_ATOMICS_CYCLES * min(_ATOMICS_LONGER, max(1.0, _ATOMICS_TRIPS / max(trips, 0.1))))
                point = {"kernel": kernel.name, "pattern": name, "warps": warps, "cycles": size, **kernel.facts}
                for repetition in range((_REPEATED if size == _ATOMICS_CYCLES else 2) * effort.repetitions):
                    values: dict[str, float] = {}
                    given["offset"] = repetition * ELSEWHERE_BYTES
                    lab.fill(1 << 20, 0, 0, 4, offset=given["offset"])
                    for suffix, longer in (("_n", 1), ("_2n", 2)):
                        given["size"] = size * longer
                        sample = lab.sample(kernel.name, blocks, resident.threads, resident.shared, **given)
                        values |= {**timed(sample, suffix), f"count{suffix}": sample["count"]}
                    yield {**point, "repetition": repetition}, values


def measure_additions(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure additions to so many lines that all share, each alone in its sector, in many places."""
    for kernel in entry.kernels:
        for lines in LINES:
            lanes, words = (1 if lines < 64 else 8), (1 if lines == 1 else 32 * lines)
            trips = FEW_TRIPS if words < 1024 else TRIPS
            adds = BLOCKS_PER_SM * lab.facts.sm_count * THREADS // 32 * lanes * kernel.facts["accesses"] * trips
            twice(lab, kernel.name, 1, size=words, a=lanes)
            for repetition in range(effort.repetitions):
                given = {"name": kernel.name, "trips": trips, "size": words, "a": lanes}
                point = {"lines": lines, "lanes": lanes, "words": words, "adds": adds, **kernel.facts}
                values = lab.watched(partial(_at_addresses, lab, repetition, **given))
                yield {**point, "repetition": repetition}, values
    lab.forget()


def _at_addresses(lab: Laboratory, repetition: int, **given: Any) -> dict[str, list[int]]:
    """Return the nanoseconds of additions in many places, N and 2N of them."""
    taken = []
    for n in range(repetition * ADDRESSES, (repetition + 1) * ADDRESSES):
        taken.append(twice(lab, offset=n * ELSEWHERE_BYTES % (lab.data_bytes - GIB), **given))
    return {
        key: [round(1e9 * one[f"seconds_{end}"]) for one in taken]
        for key, end in (("nanoseconds_n", "n"), ("nanoseconds_2n", "2n"))
    }


_GOOD = 0.9  # of the places where words may lie: which parts of L2 they fall into decides; a peak is a good one's


def derive_atomics(samples: Samples) -> Iterator[Number]:
    """Derive atomic additions to global memory by pattern, with a result and without.

    All warps are at work while they count: the last ones to end would have the memory for themselves. What is
    on its way in the queues is the same after twice the time.
    """
    entry = "atomic.global"
    if not all("cycles" in point for point, _ in samples.entries.get(entry, [])):
        return  # a journal of before, when they made a number of trips

    def each(point: dict[str, Any], values: dict[str, Any]) -> float:
        return float(values["mean_cycles_per_count_2n"] / point["links"])

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        more = (values["count_2n"] - values["count_n"]) / values["sms_n"]
        return float(more * point["links"] * LANES / point["cycles"])

    short = {"spread": "spread", "per warp": "per_warp", "per SM": "per_sm", "one": "same"}
    short |= {f"bins {n}": f"bins_{n}" for n in (32, 1024, 32768)}
    for kernel, name in (("atom_add", "global"), ("red_add", "global_reduce")):
        for pattern, ending in short.items():
            key, at = f"atomics.{name}_{ending}", dict[str, Any](kernel=kernel, pattern=pattern)
            if kernel == "atom_add":
                alone = samples.one(entry, each, warps=1, **at)
                yield from number(f"{key}.latency_cycles", alone, entry, f"{pattern}, one warp on every SM")
            rates = samples.take(entry, rate, "warps", **at)
            tops = {warps: float(np.quantile(reading.all, _GOOD)) for warps, reading in rates.items()}
            if tops:
                warps = max(tops, key=lambda n: tops[n])
                how = f"{pattern}, all SMs, {warps} warps each, what one place in ten exceeds; {rates[warps]}"
                yield Number(f"{key}.peak_ops_per_cycle_per_sm", digits(tops[warps], 3), entry, how)


def derive_additions(samples: Samples) -> Iterator[Number]:
    """Derive atomic additions per cycle and SM, each alone in its sector, when all go to so many lines."""
    clock, sms = samples.head["reference_ghz"] * 1e9, samples.head["facts"]["attributes"]["sm_count"]

    def rate(point: Point, values: dict[str, Any]) -> float:
        longer = 1e-9 * (np.mean(values["nanoseconds_2n"]) - np.mean(values["nanoseconds_n"]))
        return float(point["adds"] / longer / clock / sms)

    for old, name in ((True, "global"), (False, "global_reduce")):
        for lines in LINES:
            taken = samples.one("atomic.lines", rate, old=old, lines=lines)
            lanes, words = (1 if lines < 64 else 8), (1 if lines == 1 else 32 * lines)
            how = f"{lanes} lane(s) of a warp to {words} words, all SMs, 2N additions less N"
            how += f", {ADDRESSES} places each time"
            yield from number(f"atomics.{name}_lines_{lines}.peak_ops_per_cycle_per_sm", taken, "atomic.lines", how,
                              worth=3)  # fmt: skip
