"""Parameters of the papers' own models: departure delays, barriers beside loads, divisions.

Hong and Kim's departure delay is the least distance of two memory transactions that leave one SM (§3.3.1). It is
measured as in Volkov 2016 §7.4: one block on the device reads DRAM, by warps and by lines of a load. Sim's Gamma (8) is
the cost of a barrier over that of the memory instructions around it: two programs that differ in the barrier alone
(Hong and Kim, Figure 29), by blocks of an SM. M_Factor (31) is the cycles of an SM per instruction over those of an
addition. All other parameters are those of other experiments under the paper's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import Laboratory, Unfit
from warplens.laboratory.instructions import best, latency
from warplens.laboratory.loaded_latency import derive_dram_latency
from warplens.laboratory.plan import Effort, Entry, Sample, block_sweep, kept, some_sm
from warplens.laboratory.samples import Number, Point, Samples, digits, number, per_link
from warplens.laboratory.source import SCOPE, Expectation, Kernel

_LINE_BYTES, _WORD_BYTES = 128, 4
_AT_ONCE, _DEPARTURES = 8, 32  # independent loads of a trip; trips of N
_LOOP_INSTRUCTIONS = 7  # of a trip: its address, its counter, its branch
_TRIPS = 64  # of N, with a load and perhaps a barrier each
LINES, PRODUCTS = (1, 32), (1, 16)
_MEMORY_INSTRUCTIONS = 2  # of a trip
_DIVISIONS = ("fdiv", "idiv", "imod")
_RATES = {"int": "lop3", "imul": "imad", "imul_wide": "imad_wide", "fp64": "dadd", "sfu": "mufu_rsq",
          "convert": "popc", "shared": "lds"}  # fmt: skip
_BLOCKS, _WARPS_PER_BLOCK = (1, 2, 4), (1, 2, 4, 8, 16, 32)


def departure_kernel(lines: int) -> Kernel:
    """Independent loads from DRAM, each over so many lines, by all warps of one block: what leaves an SM.

    a: bytes from lane to lane; b: bytes from load to load of a warp; c: the only SM that works.
    """
    name = f"departure_{lines}"
    text = f"""\
KERNEL({name}, 1024) {{
  if (sm_id() != c) return;
  __shared__ volatile u32 last[32];
  u32 sum = 0;
  const char *at = data + (u64)(threadIdx.x / 32) * {lines * _LINE_BYTES} + threadIdx.x % 32 * a;
  PASSES {{
    START
    LOOP {{
      u32 v[{_AT_ONCE}];
      UNROLL for (int k = 0; k < {_AT_ONCE}; k++)
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[k]) : "l"(at + k * (u64)b));
      UNROLL for (int k = 0; k < {_AT_ONCE}; k++) sum += v[k];
      at += {_AT_ONCE} * (u64)b;
    }}
    last[threadIdx.x / 32] = sum;  // the clock waits for all
    STOP
  }}
  record(records, c0, c1, (u64)trips * {_AT_ONCE});
}}
"""
    expect = Expectation({rf"LDG\.E{SCOPE}": _AT_ONCE}, 6 * _AT_ONCE)
    return Kernel(name, text, expect, facts={"lines": lines, "loads": _AT_ONCE})


def barrier_kernel(products: int, barrier: bool) -> Kernel:
    """An array multiplied in place, so many products a trip, with a barrier behind them or without (Figure 29).

    size: bytes from trip to trip, of all blocks.
    """
    name = f"products_{products}_{'with' if barrier else 'without'}_barrier"
    inner = " ".join(["mul.f32 %0, %0, %1;"] * products)
    meeting = 'asm volatile("bar.sync 0;" ::: "memory");' if barrier else ""
    text = f"""\
KERNEL({name}, 1024) {{
  float y = value;
  char *at = data + (blockIdx.x * (u64)blockDim.x + threadIdx.x) * {_WORD_BYTES};
  PASSES {{
    START_TOGETHER
    LOOP {{
      float x;
      asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(at) : "memory");
      asm volatile("{inner}" : "+f"(x) : "f"(y));
      {meeting}
      asm volatile("st.global.f32 [%0], %1;" :: "l"(at), "f"(x) : "memory");
      at += size;
    }}
    STOP
  }}
  record(records, c0, c1, trips);
}}
"""
    inside = {rf"LDG\.E{SCOPE}": 1, r"STG\.E.*": 1, "FMUL": products}
    expect = Expectation(inside | ({r"BAR\.SYNC.*": 1} if barrier else {}), _LOOP_INSTRUCTIONS)
    facts = {"products": products, "barrier": barrier, "instructions": 2 + products + barrier + _LOOP_INSTRUCTIONS}
    return Kernel(name, text, expect, facts=facts)


def division_kernel(kind: str, doubled: bool = False) -> Kernel:
    """Dependent divisions in a row: of floats, of integers, or their remainders."""
    count = 16 if doubled else 8
    name = f"division_{kind}_n{count}"
    of, one = {"fdiv": ("float", "y / x"), "idiv": ("int", "y / x"), "imod": ("int", "y % x")}[kind]
    text = f"""\
KERNEL({name}, 1024) {{
  {of} x = ((volatile {of} *)out)[0], y = ((volatile {of} *)out)[1];
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) x = {one}; }}
    STOP
  }}
  KEEP(x == ({of})12345)
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    expect = Expectation({r"MUFU\.RCP.*": count}, 60 * count, conflicts=True)
    return Kernel(name, text, expect, facts={"links": count, "kind": kind})


def entries() -> list[Entry]:
    """Return the measurements: departure delays, barriers beside loads, divisions."""
    pairs = [barrier_kernel(products, barrier) for products in PRODUCTS for barrier in (False, True)]
    divisions = [
        Entry(f"published.{kind}", (division_kernel(kind), division_kernel(kind, True)), block_sweep,
              "a division: latency and rate", {"register": "f" if kind == "fdiv" else "r", "warps": (1, 32)},
              weight=0.1)
        for kind in _DIVISIONS
    ]  # fmt: skip
    return [
        Entry("published.departure", tuple(map(departure_kernel, LINES)), measure_departures,
              "cycles between transactions of one SM from DRAM (Hong & Kim §3.3.1)", weight=0.3),
        Entry("published.barrier", tuple(pairs), measure_barriers,
              "what a barrier adds beside a load (Hong & Kim, Figures 29 to 31)", weight=0.8),
        *divisions,
    ]  # fmt: skip


def measure_departures(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Loads of one block on the device, N and 2N of them, by warps and by lines of a load."""
    for kernel in entry.kernels:
        lines = kernel.facts["lines"]
        for warps in (4, 8, 16, 32):
            given = {"a": _WORD_BYTES if lines == 1 else _LINE_BYTES, "b": warps * lines * _LINE_BYTES}
            for repetition in range(4 * effort.repetitions):
                given["c"] = some_sm(lab, repetition)
                values: dict[str, float] = {}
                for suffix, trips in (("_n", _DEPARTURES), ("_2n", 2 * _DEPARTURES)):
                    launched = partial(_after_flush, lab, kernel.name, lab.facts.sm_count, 32 * warps, 0)
                    values |= kept(lab.steady(partial(launched, trips=trips, **given)), suffix)
                point = {"warps": warps, "trips": _DEPARTURES, **kernel.facts, "repetition": repetition}
                yield point, values


def measure_barriers(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """One block on the device, then blocks on all SMs: N and 2N trips, with a barrier and without."""
    lab.forget()
    shapes = [(1, 1, n) for n in _WARPS_PER_BLOCK]
    shapes += [(lab.facts.sm_count, blocks, n) for blocks in _BLOCKS for n in _WARPS_PER_BLOCK]
    for sms, blocks, each in shapes:
        for kernel in entry.kernels:
            try:
                residency = lab.residency(kernel.name, blocks * each, threads=32 * each)
            except Unfit:
                continue
            grid = sms * blocks
            given = {"size": grid * residency.threads * _WORD_BYTES, "value": 1.0}
            point = {"sms_used": sms, "blocks": blocks, "warps": blocks * each, "trips": _TRIPS, **kernel.facts}
            for repetition in range(effort.repetitions):
                values: dict[str, float] = {}
                for suffix, trips in (("_n", _TRIPS), ("_2n", 2 * _TRIPS)):
                    launched = partial(_after_flush, lab, kernel.name, grid, residency.threads, residency.shared)
                    values |= kept(lab.steady(partial(launched, trips=trips, **given)), suffix)
                yield {**point, "repetition": repetition}, values


def _after_flush(
    lab: Laboratory, name: str, blocks: int, threads: int, shared: int, **given: float
) -> dict[str, float]:
    """Launch with nothing of the data in L2."""
    lab.flush()
    return stamps.reduce(lab.stamped(name, blocks, threads, shared, **given))


def derive_departures(samples: Samples) -> Iterator[Number]:
    """Cycles between two loads of a line, and between two lines of one load, that leave one SM.

    The least over numbers of warps for the latter. For the former 256 loads in flight are too few, so that it follows
    from `in_flight.dram`, which has 640.
    """
    entry = "in_flight.dram"
    back = samples.take(entry, lambda p, v: v["all_back"], "warps", lines=1, blocks=1)
    if 8 in back and 16 in back:
        loads = len(samples.entries[entry][0][1]["issued"])  # of a warp
        least = (back[16].median - back[8].median) / (8 * loads)
        how = f"one block on the device, loads of a line from DRAM until all are back, 16 warps less 8; {back[16]}"
        yield Number("hong_kim.departure_del_coal_cycles", digits(least, 3), entry, how)
    entry = "published.departure"
    found = samples.take(entry, _between, "warps", lines=LINES[-1])
    if found:
        warps, reading = min(found.items(), key=lambda one: one[1].median)
        how = (
            f"one block on the device, {warps} warps, 2N less N loads of {LINES[-1]} lines from DRAM: a line; {reading}"
        )
        for key in ("hong_kim.departure_del_uncoal_cycles", "sim.departure_delay_cycles"):
            yield Number(key, digits(reading.median, 3), entry, how)


def _between(point: Point, values: dict[str, Any]) -> float:
    longer = values["mean_warp_cycles_2n"] - values["mean_warp_cycles_n"]
    return float(longer / (point["trips"] * point["loads"] * point["warps"] * point["lines"]))


def derive_gamma(samples: Samples) -> Iterator[Number]:
    """Gamma (8): what barriers add to a trip, over warps times latency times share of memory instructions."""
    entry = "published.barrier"
    keys = ("sms_used", "blocks", "warps", "products", "barrier", "instructions")
    trips = samples.take(entry, lambda p, v: (v["mean_warp_cycles_2n"] - v["mean_warp_cycles_n"]) / p["trips"], *keys)
    latency = [n.value for n in derive_dram_latency(samples) if n.key == "instructions.load.latency_cycles"]
    with_barrier = {key[:4]: (key[5], reading.median) for key, reading in trips.items() if key[4]}
    without = {key[:4]: reading.median for key, reading in trips.items() if not key[4]}
    both = sorted(with_barrier.keys() & without.keys())
    if not latency or len(both) < 3:
        return
    more = np.array([with_barrier[at][1] - without[at] for at in both])
    each = np.array([at[2] * latency[0] * _MEMORY_INSTRUCTIONS / with_barrier[at][0] for at in both])
    gamma = float(more @ each / (each @ each))
    off = float(np.sqrt(np.mean((more - gamma * each) ** 2)))
    how = (
        f"a trip with a load, products, a store and a barrier less one without, {more.min():.0f} to {more.max():.0f} "
        f"cycles, over warps x latency x share of memory instructions: least squares over {len(both)} launches, one SM "
        f"and all, {off:.0f} cycles off (rms)"
    )
    yield Number("sim.gamma", digits(max(0.0, gamma), 2), entry, how)


def derive_costs(samples: Samples) -> Iterator[Number]:
    """Cycles of an SM per instruction over those of an addition: M_Factor (31), and Kothapalli's cycles by it."""
    fastest, alone = best(samples, "instruction.fadd"), latency(samples, "instruction.fadd")
    if not fastest or not alone:
        return
    rates = {kind: best(samples, f"instruction.{name}") for kind, name in _RATES.items()}
    cycles = {kind: (f"instruction.{_RATES[kind]}", 1 / top[2].median) for kind, top in rates.items() if top}
    for kind in _DIVISIONS:
        all_warps = samples.one(f"published.{kind}", per_link, warps=32)
        if all_warps:
            cycles[kind] = (f"published.{kind}", all_warps.median / 32)
    for kind, (entry, each) in cycles.items():
        factor = each * fastest[2].median
        how = f"cycles of an SM per instruction, {each:.3g}, over those of an addition, {1 / fastest[2].median:.3g}"
        if kind != "shared":
            yield Number(f"hong_kim.{kind}_factor", digits(max(1.0, factor), 3), entry, how)
        if kind in ("imul", "imod", "shared"):
            how += f", times the latency of an addition, {alone.median:.3g}"
            yield Number(f"kothapalli.{kind}_cycles", digits(alone.median * max(1.0, factor), 3), entry, how)
    barrier = samples.one("control.barrier", per_link, warps=1)
    yield from number("kothapalli.barrier_cycles", barrier, "control.barrier", "one warp, 2N barriers less N", worth=3)
