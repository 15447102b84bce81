"""Lifetime of a short block, and latencies of loads among stores, near and far."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import MIB, Laboratory, Unfit
from warplens.laboratory.loaded_latency import derive_contention
from warplens.laboratory.plan import NEVER, Effort, Entry, Sample, kept
from warplens.laboratory.samples import Number, Samples, digits
from warplens.laboratory.source import SCOPE, Expectation, Kernel

KEPT_SMS = 4  # whose warps keep all clocks in `life`: what the others write would be traffic of its own
LOADS = 4  # of a trip, each a load
_LOAD = 'asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"({}) : "l"({}));'
_STORE = 'asm volatile("st.global.cg.u32 [%0], %1;" :: "l"({}), "r"({}) : "memory");'
# The clock once a value is there.
_WHEN = (
    'asm volatile("{{ .reg .pred p; setp.ne.u32 p, %1, 0x7E967699; @p mov.u32 %0, %%clock; }}" '
    ': "+r"({}) : "r"({}) : "memory");'
)


def life_kernel(loads: int, stores: int) -> Kernel:
    """Return the kernel of blocks that load one or two words per thread, wait, store one or do not, and end.

    size: bytes from array to array. The warps of eight SMs leave when they start, their SM and their place on it
    (count), before they load. Those of four of them also leave when the loads were asked for (start_ns) and had come
    (end_ns); those of the others end then, with nothing to wait for.
    """
    name = f"life_l{loads}_s{stores}"
    asked = " ".join(_LOAD.format(f"v{k}", f"at + {k} * size") for k in range(loads))
    text = f"""\
KERNEL({name}, 1024) {{
  u32 start = clock32(), sm = sm_id(), v0 = 0, v1 = 0, came = 0, place;
  char *at = data + (blockIdx.x * (u64)blockDim.x + threadIdx.x) * 4;
  Record *to = own(records);
  if (sm < {2 * KEPT_SMS} && threadIdx.x % 32 == 0) {{
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(place));
    to->start = start; to->end = 1; to->sm = sm; to->count = place;
  }}
  u32 asked = clock32();
  {asked}
  {_WHEN.format("came", "v0 ^ v1")}
  {_STORE.format("at + 2 * size", "v0 ^ v1") if stores else ""}
  if (sm < {KEPT_SMS} && threadIdx.x % 32 == 0) {{ to->start_ns = asked; to->end_ns = came; }}
}}
"""
    expect = {rf"LDG\.E{SCOPE}": loads, **({rf"STG\.E{SCOPE}": 1} if stores else {})}
    facts = {"loads": loads, "stores": stores}
    return Kernel(name, text, Expectation(expect, 120, True, loop=False), facts=facts)


def loads_kernel(stores: int) -> Kernel:
    """Return the kernel of warps that load a word per thread and wait for it; of four iterations so many store it.

    trips: of four turns; size: bytes from the array that is read to the one that is written. Counted are the cycles
    that loads took.
    """
    name = f"turns_s{stores}"
    text = f"""\
KERNEL({name}, 256) {{
  __shared__ u64 origin;
  u64 c0, c1, pitch = gridDim.x * (u64)1024, waited = 0;
  const u32 pass = 0;
  char *at = data + (blockIdx.x * (u64)256 + threadIdx.x) * 4;
  START_TOGETHER
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {LOADS}; k++, at += pitch) {{
      u32 v, asked = clock32(), came = 0;
      {_LOAD.format("v", "at")}
      {_WHEN.format("came", "v")}
      if (k < {stores}) {_STORE.format("at + size", "v")}
      waited += came - asked;
    }}
  STOP
  record(records, c0, c1, waited);
}}
"""
    expect = {rf"LDG\.E{SCOPE}": LOADS, **({rf"STG\.E{SCOPE}": stores} if stores else {})}
    return Kernel(name, text, Expectation(expect, 90), facts={"stores": stores})


def together_kernel() -> Kernel:
    """Return the kernel of a block per SM that reads 64 KiB past L1 over and over, its own or those of its pair of SMs.

    a: 0 all read their own, 1 every other pair reads the same, 2 all pairs do. b: 0, which the compiler does not know.
    """
    text = """\
KERNEL(together, 512) {
  u32 sm = sm_id(), sum = 0, v[8][4];
  bool both = a == 2 || (a == 1 && sm / 2 % 2 == 0);
  const char *from = data + (u64)(both ? sm / 2 : gridDim.x + sm) * 65536 + threadIdx.x * 16;
  PASSES {
    START_TOGETHER
    TIMED_LOOP
      UNROLL for (int i = 0; i < 8; i++)
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[i][0]), "=r"(v[i][1]), "=r"(v[i][2]), "=r"(v[i][3]) : "l"(from + i * 8192));
      UNROLL for (int i = 0; i < 8; i++) sum ^= v[i][0] ^ v[i][1] ^ v[i][2] ^ v[i][3];
      from += b;
    UNTIL_TIME
  }
  KEEP(sum == c)
  record(records, TIMED, done);
}
"""
    return Kernel("together", text, Expectation({rf"LDG\.E\.128{SCOPE}": 8}, 40), facts={"bytes": 65536})


_ARRAY_BYTES = 512 * MIB  # from array to array
_WARPS = 3 << 17  # in all, 128 bytes each: 48 MiB
_ITERATIONS = 128  # and twice as many
_TOGETHER_CYCLES = 400_000
_CLOCK = 1 << 32
PARTS = (1, 2, 4, 8, 16)  # of the warps of a block: as many wait alike


def measure_blocks(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure many short blocks: latency of their loads, the longest of a block, how long its slot is empty."""
    if lab.data_bytes < 4 * _ARRAY_BYTES:
        return
    for kernel in entry.kernels:
        for warps in entry.parameters["block_warps"]:
            for repetition in range(effort.repetitions):
                values = lab.watched(partial(_lifetimes, lab, kernel.name, warps))
                yield {"block_warps": warps, **kernel.facts, "repetition": repetition}, values
    lab.forget()


def _lifetimes(lab: Laboratory, name: str, warps: int) -> dict[str, float]:
    lab.flush()
    records = lab.stamped(name, _WARPS // warps, 32 * warps, size=_ARRAY_BYTES)
    return lifetimes(records.reshape(-1, warps, 8).astype(np.int64))


def lifetimes(table: np.ndarray[Any, Any]) -> dict[str, float]:
    """Reduce the records of `life`, by block and warp: in cycles, of the blocks in the middle of the run.

    latency: of a warp's loads; longest: of those of a block; drawn_P: what it would be if a P-th of its warps waited
    each for itself; block: from a block's first start until its last loads have come, on the SMs that keep clocks;
    period: from one start to the next in the same place, on those that do not.
    """
    table = table[len(table) // 8 : len(table) * 7 // 8]
    table = table[table[:, 0, 1] > 0]
    whole = table[table[:, 0, 4] < KEPT_SMS]
    start, asked, came = whole[:, :, 0], whole[:, :, 2], whole[:, :, 3]
    latency = (came - asked) % _CLOCK  # of clocks of 32 bits
    ordered = np.sort(latency, axis=None)
    rank = np.arange(len(ordered) + 1) / len(ordered)
    warps = table.shape[1]
    expected = {
        f"drawn_{part}": float((np.diff(rank ** (warps / part)) * ordered).sum()) for part in PARTS if part <= warps
    }
    first = whole[:, :1, 0]  # any warp's start: from there forward and back
    block = ((came - first) % _CLOCK).max(axis=1) - _signed(start - first).min(axis=1)
    found = {"latency": latency.mean(), "longest": latency.max(axis=1).mean(), **expected, "block": block.mean()}
    found |= {"period": _period(table[table[:, 0, 4] >= KEPT_SMS])}
    return {"warps_seen": float(latency.size), **{key: round(float(value), 2) for key, value in found.items()}}


def _signed(cycles: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return differences of clocks of 32 bits, forward or back."""
    return (cycles + _CLOCK // 2) % _CLOCK - _CLOCK // 2


def _period(table: np.ndarray[Any, Any]) -> float:
    """Return the mean time from one start to the next in the same place of an SM."""
    start, slot = table[:, :, 0].ravel(), (table[:, :, 4] * 64 + table[:, :, 5]).ravel()
    if not len(start):
        return 0.0
    order = np.lexsort((_signed(start - start[0]), slot))
    same = np.diff(slot[order]) == 0
    return float(_signed(np.diff(start[order]))[same].mean()) if same.any() else 0.0


def measure_loads(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure loads of all warps in iterations, some followed by a store, N and 2N of them, by blocks per SM."""
    for kernel in entry.kernels:
        for blocks in entry.parameters["blocks"]:
            try:
                resident = lab.residency(kernel.name, 8 * blocks, threads=256)
            except Unfit:
                continue
            grid = resident.blocks_per_sm * lab.facts.sm_count
            if lab.data_bytes < 2 * _ARRAY_BYTES or 2 * _ITERATIONS * grid * 1024 > _ARRAY_BYTES:
                continue
            for repetition in range(effort.repetitions):
                values: dict[str, float] = {}
                for suffix, trips in (("_n", _ITERATIONS // LOADS), ("_2n", 2 * _ITERATIONS // LOADS)):
                    lab.flush()
                    sample = lab.sample(kernel.name, grid, 256, resident.shared, trips=trips, size=_ARRAY_BYTES)
                    values |= {
                        **kept(sample, suffix), f"waited_cycles{suffix}": sample["count"],
                        f"mean_span_cycles{suffix}": round(sample["mean_span_cycles"], 2),
                    }  # fmt: skip
                point = {"warps": 8 * blocks, "blocks": grid, "turns": _ITERATIONS, **kernel.facts}
                yield {**point, "repetition": repetition}, values
    lab.forget()


def measure_read_together(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure reads of L2 by all SMs: each its own data, every other pair the same, all pairs the same."""
    kernel, sms = entry.kernels[0], lab.facts.sm_count
    lab.touch(4 * sms * kernel.facts["bytes"])
    resident = lab.residency(kernel.name, 16)
    for pairs in (0, 1, 2):
        for repetition in range(2 * effort.repetitions):
            take = partial(_by_pairs, lab, kernel.name, resident.shared, pairs)
            yield {"pairs": pairs, **kernel.facts, "repetition": repetition}, lab.steady(take)


def _by_pairs(lab: Laboratory, name: str, shared: int, pairs: int) -> dict[str, float]:
    records = lab.stamped(name, lab.facts.sm_count, 512, shared, size=_TOGETHER_CYCLES, a=pairs, c=NEVER)
    sample, c = stamps.reduce(records), stamps.columns(records)
    rate = c["count"] / np.maximum(c["end"] - c["start"], 1)  # trips per cycle
    first = c["sm"] // 2 % 2 == 0
    return {
        "even_pairs": round(float(rate[first].mean()), 9), "odd_pairs": round(float(rate[~first].mean()), 9),
        "share": round(float(first.mean()), 6), "span_ns": sample["span_ns"], "ghz": sample["ghz"],
    }  # fmt: skip


def entries() -> list[Entry]:
    """Return the measurements of short blocks, reads among writes, pairs of SMs that read the same."""
    shapes = tuple(life_kernel(loads, stores) for loads in (1, 2) for stores in (0, 1))
    return [
        Entry("lives.blocks", shapes, measure_blocks, "latencies of a block's warps, its place taken again",
              {"block_warps": (4, 8, 16, 32)}),
        Entry("lives.turns", tuple(loads_kernel(stores) for stores in (0, 1, 2, 4)), measure_loads,
              "latency of loads among stores, by load", {"blocks": (2, 3, 4, 5, 6, 7, 8)}),
        Entry("bandwidth.l2.together", (together_kernel(),), measure_read_together,
              "pairs of SMs that read the same at once: how much of it L2 is asked for once", weight=0.1),
    ]  # fmt: skip


_END_CYCLES = 20  # from a warp's last clock to its end, by the stall counts in the machine code: a comparison, EXIT
_ITERATION_BYTES = 1024  # of a block: 256 threads


def derive_blocks(samples: Samples) -> Iterator[Number]:
    """Derive for how long the slot of a block stays empty, and how many of its warps wait alike for their loads."""
    entry = "lives.blocks"

    def exchange(point: dict[str, int], values: dict[str, float]) -> float:
        return values["period"] - values["block"] - _END_CYCLES

    taken = samples.take(entry, exchange, "block_warps", "loads", stores=0)
    found = [reading.median for (warps, _), reading in taken.items() if warps in (8, 16)]
    if found:
        how = (
            "from start to start in the same place of an SM, less from a block's first start until its last loads have "
            f"come, less {_END_CYCLES} to the end: blocks of 8 and 16 warps with 1 or 2 loads, median of "
            f"{', '.join(f'{one:.0f}' for one in found)}"
        )
        yield Number("sm.block_exchange_cycles", digits(float(np.median(found)), 3), entry, how)
    off = [_off(samples, entry, part) for part in PARTS]
    crossed = next((k for k, (one, more) in enumerate(pairwise(off)) if one and more and one >= 0 > more), None)
    if crossed is not None:
        one, more = off[crossed] or 0.0, off[crossed + 1] or 0.0
        alone = PARTS[crossed] * 2 ** (one / (one - more))
        each = ", ".join(f"{part}: {100 * (value or 0):+.1f} %" for part, value in zip(PARTS, off, strict=True))
        how = (
            f"the longest wait of a block's warps is that of {alone:.2f} times fewer draws from the waits of single "
            f"ones; mean difference of both over blocks of 4 to 32 warps by how many wait alike: {each}"
        )
        yield Number("memory.correlated_warps", float(round(alone)), entry, how)


def _off(samples: Samples, entry: str, part: int) -> float | None:
    """Return how much longer than a block's longest wait is that of a part of its warps, each for itself: the mean."""

    def excess(point: dict[str, int], values: dict[str, float]) -> float:
        few = min(part, point["block_warps"])
        return (values[f"drawn_{few}"] - values["longest"]) / values["latency"]

    found = samples.take(entry, excess, "block_warps", "loads", "stores")
    return float(np.mean([reading.median for reading in found.values()])) if found else None


def derive_writes(samples: Samples) -> Iterator[Number]:
    """Derive the wait of a read beyond the curve of reads alone, by the share of DRAM's rate that is written."""
    entry, curve = (
        "lives.turns",
        {n.key: n.value for n in derive_contention(samples) if n.key.startswith("contention.")},
    )
    b, c = curve.get("contention.b_cycles"), curve.get("contention.c_bytes_per_second")
    clock = samples.head["reference_ghz"] * 1e9
    rate = samples.take(
        entry,
        lambda p, v: p["blocks"] * p["turns"] * _ITERATION_BYTES * (1 + p["stores"] / 4) * clock
        / (v["mean_span_cycles_2n"] - v["mean_span_cycles_n"]),
        "stores", "warps",
    )  # fmt: skip
    wait = samples.take(
        entry,
        lambda p, v: (v["waited_cycles_2n"] - v["waited_cycles_n"]) / (p["blocks"] * 8 * p["turns"]),
        "stores", "warps",
    )  # fmt: skip
    if not (isinstance(b, float) and isinstance(c, float) and len(wait) > 8) or min(wait)[0] > 0:
        return
    at = sorted(wait)
    moved = np.array([rate[one].median for one in at]) / c
    written = moved * np.array([stores / (4 + stores) for stores, _ in at])
    beyond = np.array([wait[one].median for one in at]) - b * moved / (1 - moved)
    alone = beyond[0]  # the fewest warps without stores
    more, share = (beyond - alone)[written > 0], written[written > 0]
    slope = float(more @ share / (share @ share))
    rms = float(np.sqrt(np.mean((more - slope * share) ** 2)))
    how = (
        "loads among stores in 1, 2 and 4 turns of 4, by load, less the curve of contention and less the fewest warps "
        f"without stores: slope over the share of c that is written; {rms:.0f} cycles off (rms), {len(more)} points"
    )
    yield Number("contention.written_cycles", digits(slope), entry, how)


def derive_pairs(samples: Samples) -> Iterator[Number]:
    """Derive the share of what both SMs of a pair read at once that L2 is asked for only once.

    L2 is the limit all the while: what the pairs that read the same save of it, the others get. From their rates
    follows what the pairs took, without their own ports, which limit them, coming into it.
    """
    entry = "bandwidth.l2.together"
    share = samples.one(entry, lambda p, v: v["share"], pairs=1)
    own = samples.one(entry, lambda p, v: v["share"] * v["even_pairs"] + (1 - v["share"]) * v["odd_pairs"], pairs=0)
    even = samples.one(entry, lambda p, v: v["even_pairs"], pairs=1)
    odd = samples.one(entry, lambda p, v: v["odd_pairs"], pairs=1)
    every = samples.one(entry, lambda p, v: v["even_pairs"], pairs=2)
    if share and own and even and odd and every:
        part = share.median
        saved = 1 - (own.median - (1 - part) * odd.median) / (part * even.median)
        how = (
            f"every other pair of SMs reads the same 64 KiB from L2 over and over: {even.median / own.median:.2f} of "
            f"the rate of SMs that read each their own, and the others {odd.median / own.median:.3f} of it; all pairs "
            f"together {every.median / own.median:.2f}; {even}"
        )
        yield Number("cache.l2_pair_saving_fraction", digits(min(1.0, max(0.0, saved)), 3), entry, how)
