"""Loads in flight: single latencies under load, requests of a warp and of an SM, cycles between two that leave."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import GIB, KIB, MIB, SCHEDULERS, Laboratory, Residency, Unfit
from warplens.laboratory.loaded_latency import BUDGET_CYCLES, sections
from warplens.laboratory.plan import Effort, Entry, Sample, kept, some_sm, timed
from warplens.laboratory.samples import Number, Samples, digits, number
from warplens.laboratory.source import LANES, SCOPE, Expectation, Kernel

_SINGLES = ("samples", "mean_cycles", "percentiles", "bin_cycles", "histogram")  # of single latencies
MORE = 4  # repetitions for each that others have: of short times, that vary


def distribution_kernel(chains: int = 1) -> Kernel:
    """Return the kernel as `stream` for 4-byte loads, but in warp 0 of a block one load in eight is timed alone (§6.6).

    trips: most loads of a chain; size: cycles. The times, at most 512 per block, go to out from word 32 on.
    """
    name = f"distribution_i{chains}"
    load = 'asm volatile("ld.global.u32 %0, [%1];" : "=r"(x[k]) : "l"((const u32 *)data + x[k]));'
    text = f"""\
KERNEL({name}, 1024) {{
  __shared__ u32 taken[512];
  __shared__ volatile u32 last;
  __shared__ u64 origin;
  u32 x[{chains}], times = 0, done = 0;
  UNROLL for (int k = 0; k < {chains}; k++) x[k] = (blockIdx.x * {chains} + k) * a + threadIdx.x;
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) taken[i] = 0;
  u64 c0, c1;
  const u32 pass = 0;
  START_TOGETHER
  if (threadIdx.x < 32) {{
    _Pragma("unroll 1") do {{
      UNROLL for (int u = 0; u < 7; u++) UNROLL for (int k = 0; k < {chains}; k++) {load}
      last = x[0];
      u64 begin = cycles();
      {{ const int k = 0; {load} }}
      last = x[0];
      u32 end = (u32)(cycles() - begin);
      if (times < 512) taken[times++] = end;
      UNROLL for (int k = 1; k < {chains}; k++) {load}
      done += 8;
    }} while (done + 8 <= trips && cycles() - c0 < size);
  }} else {{
    _Pragma("unroll 1") do {{
      UNROLL for (int u = 0; u < 8; u++) UNROLL for (int k = 0; k < {chains}; k++) {load}
      done += 8;
    }} while (done + 8 <= trips && cycles() - c0 < size);
  }}
  u32 sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) sum += x[k];
  KEEP(sum == c)  // the clock waits for the last loads
  STOP
  __syncthreads();
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) ((u32 *)(out + 32))[blockIdx.x * 512 + i] = taken[i];
  record(records, c0, c1, done);
}}
"""
    expect = {rf"LDG\.E{SCOPE}": 8 * chains}
    return Kernel(name, text, Expectation(expect, 60 + 8 * chains), facts={"chains": chains})


def in_flight_kernel(count: int = 40) -> Kernel:
    """Return the kernel of independent loads back to back, each issue noted: how many are under way (Listing 3.2).

    A thread reads data + warp * b + lane * a + load * 64 KiB: a is 4 for one line per load, more for several. The first
    pass reads 2 KiB beside, so that the pages are known and the lines are not in a cache. Times of the issues, after
    the first clock, go to out from word 32 on: count per warp, then the time when all had come.
    """
    name = f"in_flight_{count}"
    text = f"""\
KERNEL({name}, 512) {{
  __shared__ volatile u32 last[16];
  u32 v[{count}], t[{count}], begin = 0, end = 0;
  u64 c0 = 0, c1 = 0;
  const char *at = data + (u64)(threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)) * b + threadIdx.x % 32 * a + 2048;
  _Pragma("unroll 1") for (u32 pass = 0; pass < 2; pass++, at -= 2048) {{
    START
    begin = (u32)cycles();
    UNROLL for (int i = 0; i < {count}; i++) {{
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[i]) : "l"(at + i * 65536));
      t[i] = (u32)cycles();
    }}
    u32 sum = 0;
    UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
    last[threadIdx.x / 32] = sum;  // the clock waits for all
    end = (u32)cycles();
    STOP
  }}
  if (threadIdx.x % 32 == 0) {{
    u32 *to = (u32 *)(out + 32) + (u64)(threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)) * {count + 1};
    UNROLL for (int i = 0; i < {count}; i++) to[i] = t[i] - begin;
    to[{count}] = end - begin;
  }}
  record(records, c0, c1, {count});
}}
"""
    expect = {rf"LDG\.E{SCOPE}": count}
    return Kernel(name, text, Expectation(expect, 4 * count + 60, True), facts={"count": count})


def departures_kernel(count: int) -> Kernel:
    """Return the kernel of so many independent loads of one warp at once: the cycles between two that leave an SM.

    As `in_flight`, but with no clock between the loads; both passes read the same, so that it comes from the L2 cache.
    c: the only SM that works.
    """
    name = f"burst_{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  if (sm_id() != c) return;
  __shared__ volatile u32 last[32];
  u32 v[{count}];
  const char *at = data + (u64)(threadIdx.x / 32) * b + threadIdx.x % 32 * a;
  PASSES {{
    START
    UNROLL for (int i = 0; i < {count}; i++)
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[i]) : "l"(at + i * 4096));
    u32 sum = 0;
    UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
    last[threadIdx.x / 32] = sum;  // the clock waits for all
    STOP
  }}
  record(records, c0, c1, {count});
}}
"""
    return Kernel(name, text, Expectation({rf"LDG\.E{SCOPE}": count}, 2 * count + 80, True), facts={"count": count})


def entries() -> list[Entry]:
    """Return the measurements: single latencies under load, requests in flight, departure delays."""
    return [
        Entry("distribution.dram", (distribution_kernel(1), distribution_kernel(2)), measure_distributions,
              "single latencies at seven loads (Table 6.6)"),
        Entry("in_flight.dram", (in_flight_kernel(),), measure_requests, "requests in flight by warp and SM"),
        Entry("in_flight.burst", tuple(departures_kernel(n) for n in (10, 20, 40)), measure_departures,
              "departure delays"),
    ]  # fmt: skip


def measure_distributions(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure single latencies of loads from DRAM at seven loads (§6.6): percentiles and histogram."""
    lab.zeros()
    full = lab.facts.warps_per_sm_max
    loads = [(1, 2), (1, full // 4), (1, full // 2), (1, full * 3 // 4), (1, full), (2, full * 3 // 4), (2, full)]
    for chains, warps in loads:
        kernel = entry.kernels[chains - 1]
        try:
            resident = lab.residency(kernel.name, warps)
        except Unfit:
            continue
        section, most = sections(lab, "dram", resident, chains, 4)
        blocks = resident.blocks_per_sm * lab.facts.sm_count
        for repetition in range(effort.repetitions):
            given = {"size": 2 * BUDGET_CYCLES, "trips": most, "a": section, "c": 0x7FC12345}
            found = lab.steady(partial(_one_by_one, lab, kernel.name, blocks, resident, given))
            yield {"chains": chains, "warps": warps, "repetition": repetition}, {
                **timed(found), **{key: found[key] for key in _SINGLES}}  # fmt: skip


def _one_by_one(lab: Laboratory, name: str, blocks: int, resident: Residency, given: dict[str, int]) -> dict[str, Any]:
    lab.flush()
    sample = stamps.reduce(lab.stamped(name, blocks, resident.threads, resident.shared, **given))
    taken = lab.results(blocks * 512)
    taken = taken[taken > 0]
    marks = np.percentile(taken, [0, 5, 25, 50, 75, 95, 100])
    counts = np.histogram(taken, np.arange(0, 8001, 8))[0]
    found = len(taken), float(taken.mean()), np.round(marks, 1).tolist(), 8, np.trim_zeros(counts, "b").tolist()
    return {**sample, **dict(zip(_SINGLES, found, strict=True))}


def measure_requests(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Record when each of many independent loads is issued, by warps and by lines of a load: limits and delays."""
    kernel, sms = entry.kernels[0], lab.facts.sm_count
    count = kernel.facts["count"]
    lab.zeros()
    for blocks in (1, sms):
        for lines, pitch in ((1, 4), (4, 16), (8, 32), (32, 128)):
            for warps in (1, 2, 4, 8, 16):
                if (blocks * warps + 1) * 4 * MIB > lab.data_bytes - GIB:
                    continue
                for repetition in range(effort.repetitions):
                    sample, taken = _issued(lab, kernel.name, blocks, warps, pitch, count)
                    point = {
                        "blocks": blocks,
                        "sectors": {1: 4, 4: 16, 8: 32, 32: 32}[lines],
                        "lines": lines,
                        "warps": warps,
                    }
                    yield {**point, "repetition": repetition}, {
                        "issued": np.round(taken[:, :count].mean(axis=0), 1).tolist(),
                        "all_back": float(taken[:, count].mean()), **kept(sample),
                    }  # fmt: skip


def _issued(
    lab: Laboratory, name: str, blocks: int, warps: int, pitch: int, count: int
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Return the stamps of a launch at the reference clock, and when each load of each warp was issued."""

    def take() -> dict[str, Any]:
        lab.flush()
        sample = stamps.reduce(lab.stamped(name, blocks, 32 * warps, a=pitch, b=4 * MIB))
        return {**sample, "taken": lab.results(blocks * warps * (count + 1)).reshape(-1, count + 1)}

    sample = lab.watched(take)
    return sample, sample["taken"]


def measure_departures(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure so many loads at once from L2, by warps and lines per load, one SM: cycles between two that leave."""
    lab.zeros()
    for kernel in entry.kernels:
        for lines, pitch in ((1, 4), (4, 16), (8, 32), (32, 128)):
            for warps in (1, 4, 16, 32):
                for repetition in range(MORE * effort.repetitions):
                    given = {"a": pitch, "b": 256 * KIB, "c": some_sm(lab, repetition)}
                    sample = lab.watched(partial(_departing, lab, kernel.name, 32 * warps, given))
                    yield {"lines": lines, "warps": warps, **kernel.facts, "repetition": repetition}, kept(sample)


def _departing(lab: Laboratory, name: str, threads: int, given: dict[str, int]) -> dict[str, float]:
    return stamps.reduce(lab.stamped(name, lab.facts.sm_count, threads, **given))


def derive_distribution(samples: Samples) -> Iterator[Number]:
    """Derive single latencies at seven loads (Table 6.6): percentiles over all repetitions' histograms."""
    entry = "distribution.dram"
    clock = samples.head["reference_ghz"] * 1e9
    loads = samples.take(entry, lambda p, v: v["rate"] * p["chains"] * LANES * 4 * clock, "chains", "warps")
    for i, ((chains, warps), reading) in enumerate(sorted(loads.items(), key=lambda one: one[1].median)):
        key, at = f"latency_distribution.{i}", {"chains": chains, "warps": warps}
        how = f"{warps} warps per SM, {chains} load(s) in flight each"
        yield from number(f"{key}.throughput_bytes_per_second", reading, entry, how)
        names = ("min", "p5", "p25", "p50", "p75", "p95", "max")
        for n, name in enumerate(names):
            marks = samples.one(entry, lambda p, v, n=n: v["percentiles"][n], **at)  # type: ignore[misc]
            yield from number(f"{key}.{name}_cycles", marks, entry, how)
        yield from number(f"{key}.p99_cycles", samples.one(entry, _p99, **at), entry, f"{how}, bins of 8 cycles")


def _p99(point: dict[str, Any], values: dict[str, Any]) -> float:
    share = np.cumsum(values["histogram"]) / sum(values["histogram"])
    return float((np.searchsorted(share, 0.99) + 1) * values["bin_cycles"])


def derive_departures(samples: Samples) -> Iterator[Number]:
    """Derive the cycles between two loads, and two transactions of one, that leave an SM; the queue (Listing 3.2)."""
    entry, at_once = "in_flight.dram", "in_flight.burst"

    def interval(point: dict[str, Any], values: dict[str, Any]) -> float:
        issued = values["issued"]
        return float((issued[-1] - issued[-16]) / 15 / point["warps"])

    for name, lines in (("coalesced", 1), ("uncoalesced", 32)):
        key, each = f"memory.departure_{name}_cycles", f", over {lines} lines" if lines > 1 else ""
        back = samples.take(at_once, lambda p, v: v["mean_warp_cycles"], "count", lines=lines, warps=32)
        if 20 in back and 40 in back:
            cycles = (back[40].median - back[20].median) / (20 * 32 * lines)
            how = f"one SM, 32 warps, loads from L2 until all are back: 40 each less 20{each}; {back[40]}"
            yield Number(key, digits(cycles, 3), at_once, how)
        else:
            found = samples.one(entry, interval, blocks=1, lines=lines, warps=16)
            how = f"one SM, 16 warps: cycles between the issues of its last loads{each}"
            yield from number(key, found, entry, how, 1 / lines, 3)
    waiting = samples.one(entry, _queued, blocks=1, lines=LANES, warps=SCHEDULERS)
    if waiting and waiting.median > 0:
        how = (
            "one SM, a warp on each scheduler, 32 lines per load, so that few leave meanwhile: loads issued before "
            f"issue slows down, less those gone at a line per cycle; {waiting}"
        )
        yield Number("memory.queued_loads_per_sm", float(round(waiting.median)), entry, how)


def _queued(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Return the loads of an SM that wait when further ones begin to be held back; 0 where none is."""
    issued = np.array(values["issued"])
    gaps = np.diff(issued)
    last = int(np.argmax(gaps > 2 * gaps[:3].mean()))
    return float((last + 1) * point["warps"] - issued[last] / point["lines"]) if last else 0.0
