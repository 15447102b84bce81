"""Latency under load: chains of loads over occupancies, the mixes of Volkov's dissertation, random access.

Chains follow Volkov 2016 §5.10: an entry of the array holds the index of the next entry that the same thread reads, one
block's width further, so that a warp reads whole lines, a block sweeps its own section, and no entry is read twice. In
a section that is small the chain goes round and stays in a cache. With a multiplier the next index is pseudo-random
(§6.7): one cycle through the whole array, every thread of a warp at another address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.laboratory.bandwidth import derive_dram
from warplens.laboratory.gpu_session import GIB, KIB, MIB, Laboratory, Residency, Unfit
from warplens.laboratory.operations import OPERATIONS, Operation, chain_kernel
from warplens.laboratory.plan import Effort, Entry, Sample, chain_sweep, chosen, repetitions, timed
from warplens.laboratory.samples import Number, Reading, Samples, digits
from warplens.laboratory.source import HINT, LANES, SCOPE, Expectation, Kernel

ALPHAS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)  # steps of about sqrt(2)
_QUICK_ALPHAS = (0, 4, 32, 128)
_CUSP_ALPHAS = (23, 32, 45)  # where DRAM and issue are both near their limits: only many loads in flight fill either
BUDGET_CYCLES = 200_000  # of a stream: 100 us
_MULTIPLIER, _INCREMENT = 1664525, 1013904223  # a full cycle through any power of two
CHAIN_STRIDE = 0x9E3779B1  # entries between the beginnings of two random chains
_COALESCED = 4  # transactions of a coalesced load: sectors of a line
ADDRESS_CYCLES = 6  # from the address's instruction to the load, by the stall counts in the machine code


def _load(width: int, level: str) -> str:
    """Return the assembly of a load of so many bytes."""
    return {
        4: f'"ld.global{HINT[level]}.u32 %0, [%1];" : "=r"(x[k]) : "l"((const u32 *)data + x[k])',
        8: f'"ld.global{HINT[level]}.u64 %0, [%1];" : "=l"(x[k]) : "l"(x[k])',
        16: f'"ld.global{HINT[level]}.v2.u64 {{%0, %1}}, [%2];" : "=l"(x[k]), "=l"(y[k]) : "l"(x[k])',
    }[width]


def _adds(alpha: int) -> str:
    """Return the adds behind a load."""
    if not alpha:
        return ""
    return (
        f"float f = __uint_as_float(x[k]); UNROLL for (int i = 0; i < {alpha}; i++) "
        'asm volatile("add.f32 %0, %0, %1;" : "+f"(f) : "f"(zero)); x[k] = __float_as_uint(f);'
    )


def stream_kernel(
    alpha: int = 0, chains: int = 1, width: int = 4, level: str = "default", unroll: int | None = None
) -> Kernel:
    """Return the kernel of chains of loads for a given time: latency and throughput, with alpha adds after each load.

    size: cycles to run; trips: most trips of the loop, `unroll` loads each; a: entries of a chain's section. With c not
    0 the chains start c entries apart from thread to thread, for the random pattern. The clock is read when a trip's
    last load has left, not when it is back: one load less than was made is counted.
    """
    unroll = unroll or max(1, min(4, 640 // ((alpha + 2) * chains)))
    name = f"stream_{level}_a{alpha}_i{chains}_w{width}"
    load, adds = _load(width, level), _adds(alpha)
    # With so many in flight the compiler runs out of scoreboards for what folds the words of a load: instead it is told
    # that they are volatile, and the machine code then loses that again.
    volatile = chains * width > 64
    if volatile:
        load = load.replace(f"ld.global{HINT[level]}", "ld.volatile.global")
    kind, other = ("u32", "") if width == 4 else ("u64", f" u64 y[{chains}];" if width == 16 else "")
    start = "at" if width == 4 else f"(u64)data + {width} * at"
    text = f"""\
KERNEL({name}, 1024) {{
  float zero = ((volatile float *)((char *)out + threadIdx.x * b))[16];
  {kind} x[{chains}];{other}
  UNROLL for (int k = 0; k < {chains}; k++) {{
    u64 at = ((u64)blockIdx.x * {chains} + k) * a + threadIdx.x;
    if (c) at = (((u64)blockIdx.x * blockDim.x + threadIdx.x) * {chains} + k) * c & (a - 1);
    x[k] = {start};
  }}
  PASSES {{
    START_TOGETHER
    u32 tried = 0;
    TIMED_LOOP
      UNROLL for (int u = 0; u < {unroll}; u++)
        UNROLL for (int k = 0; k < {chains}; k++) {{
          asm volatile({load});
          {adds}
          {"x[k] ^= y[k];" if width == 16 and not volatile else ""}
        }}
    UNTIL_TIME_OR(++tried >= turns)
  }}
  u64 sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) sum += x[k];
  KEEP(sum == size + 12345)
  record(records, c0, c0 + (done ? ended : budget), done ? (u64)done * {unroll} - 1 : 0);
}}
"""
    suffix = {4: "", 8: r"\.64", 16: r"\.128"}[width]
    loads = unroll * chains
    expect = {rf"LDG\.E{suffix}{SCOPE}": loads, **({"FADD": alpha * loads} if alpha else {})}
    slack = 22 + loads * {4: 2, 8: 0, 16: 3}[width]
    facts = {"alpha": alpha, "chains": chains, "width": width, "level": level, "unroll": unroll}
    if not volatile:
        return Kernel(name, text, Expectation(expect, slack), facts=facts)
    return Kernel(name, text, Expectation(expect, slack), 80, facts=facts, patch="" if level == "l2" else "weak LDG")


def measure_streams(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure chains of loads over occupancies, from DRAM, from a part of the L2 cache, or from the first level.

    `dirty`: the array is written anew before each launch, so that the L2 cache is full of what must be written back.
    `one_sm`: one block of the whole device. `threads`: the most of a block.
    """
    kernel = entry.kernels[0]
    where, width, chains = entry.parameters["where"], kernel.facts["width"], kernel.facts["chains"]
    lab.zeros()
    for warps in chosen(entry, lab):
        try:
            threads = entry.parameters.get("threads", 0)
            resident = lab.residency(kernel.name, warps, limit=where != "l1", threads=threads)
            if where == "l1":
                lab.gpu.carve_out(lab.function(kernel.name), 0)
            section, most = sections(lab, where, resident, chains, width)
        except Unfit:
            continue
        blocks = 1 if entry.parameters.get("one_sm") else resident.blocks_per_sm * lab.facts.sm_count
        given = {"size": BUDGET_CYCLES, "trips": most // kernel.facts["unroll"], "a": section}
        for repetition in range(repetitions(entry, effort)):
            if entry.parameters.get("dirty"):
                lab.forget()
                sections(lab, where, resident, chains, width)
            elif where == "dram":
                lab.flush()
            sample = lab.sample(kernel.name, blocks, resident.threads, resident.shared, **given)
            point = {
                "where": where,
                "warps": warps,
                **kernel.facts,
                "threads": resident.threads,
                "repetition": repetition,
            }
            yield point, timed(sample)


def sections(lab: Laboratory, where: str, resident: Residency, chains: int, width: int) -> tuple[int, int]:
    """Write the chain that a place needs; return the entries of a section and the most loads of a chain."""
    count = resident.blocks_per_sm * lab.facts.sm_count * chains
    if where == "dram":
        entries = min(4 * GIB, lab.data_bytes - GIB) // width
        section = entries // count // resident.threads * resident.threads
        lab.fill(entries, resident.threads, 0, width)
        return section, section // resident.threads - 8
    total = lab.facts.attributes["l2_bytes"] // 4 if where == "l2" else 16 * KIB * lab.facts.sm_count
    section = max(1, total // width // count // resident.threads) * resident.threads
    if where == "l1" and section * width * chains * resident.blocks_per_sm > 64 * KIB:
        raise Unfit("more than the first level holds")
    lab.fill(section * count, resident.threads, section, width)
    lab.touch(section * count * width // 16 * 16, times=2)
    return section, 1 << 30


def measure_random(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure loads at random addresses: by footprint at full occupancy, by occupancy at one footprint (§6.7)."""
    kernel = entry.kernels[0]
    lab.zeros()
    width = kernel.facts["width"]
    sizes = [s for s in (MIB << k for k in range(0, 15, 3 if effort.quick else 1)) if s + GIB <= lab.data_bytes]
    most = lab.facts.warps_per_sm_max
    points = [(size, most) for size in sizes] + [(GIB, w) for w in chosen(entry, lab)]
    for size, warps in points:
        entries = min(size // width, 1 << 30)
        try:
            resident = lab.residency(kernel.name, warps)
        except Unfit:
            continue
        lab.fill(entries, _MULTIPLIER, _INCREMENT, width, random=True)
        if size <= lab.facts.attributes["l2_bytes"]:
            lab.touch(size, times=2)
        blocks = resident.blocks_per_sm * lab.facts.sm_count
        given = {"size": BUDGET_CYCLES, "trips": 1 << 30, "a": entries, "c": CHAIN_STRIDE}
        for repetition in range(effort.repetitions):
            if size > lab.facts.attributes["l2_bytes"]:
                lab.flush()
            sample = lab.sample(kernel.name, blocks, resident.threads, resident.shared, **given)
            yield {"bytes": size, "warps": warps, **kernel.facts, "repetition": repetition}, timed(sample)
    one = lab.residency(kernel.name, 1)  # one warp of the whole device: the latency with nothing else going on
    lab.fill(GIB // width, _MULTIPLIER, _INCREMENT, width, random=True)
    for repetition in range(effort.repetitions):
        lab.flush()
        given = {"size": BUDGET_CYCLES, "trips": 1 << 30, "a": GIB // width, "c": CHAIN_STRIDE}
        sample = lab.sample(kernel.name, 1, 32, one.shared, **given)
        yield {"bytes": GIB, "warps": 0, **kernel.facts, "repetition": repetition}, timed(sample)


def mixes() -> list[Entry]:
    """Return the dissertation's mixes: alpha adds per load, special function or shared-memory access (§4.1, §4.7)."""
    found = []
    for other, op in _mixed().items():
        for alpha in ALPHAS:
            found.append(
                Entry(f"mix.{other}.a{alpha}", _pair(op, alpha), chain_sweep,
                      "throughput against occupancy (Figure 4.5)", {"register": op.register, "width": op.width},
                      quick=alpha in _QUICK_ALPHAS, weight=0.7)
            )  # fmt: skip
    for alpha in ALPHAS:
        found.append(
            Entry(f"mix.load.a{alpha}", (stream_kernel(alpha),), measure_streams,
                  "throughput and latency against occupancy (Figures 4.1, 5.5)", {"where": "dram"},
                  quick=alpha in _QUICK_ALPHAS, weight=1.0)
        )  # fmt: skip
    return [*found, *_variants()]


def _mixed() -> dict[str, Operation]:
    """Return the operations that adds are mixed with besides loads."""
    operations = {op.name: op for op in OPERATIONS}
    return {"sfu": operations["mufu_rsq"], "shared": operations["lds"]}


def _pair(op: Operation, alpha: int, chains: int = 1) -> tuple[Kernel, Kernel]:
    """Return the kernels of N and 2N links of a mix; the code of all chains together stays as long as that of one."""
    length = max(1, min(64, 256 // (alpha + 1)) // chains)
    return chain_kernel(op, chains, False, alpha, length), chain_kernel(op, chains, True, alpha, length)


def _variants() -> list[Entry]:
    """Return the mixes with several chains per warp, and in smaller blocks; three repetitions suffice for a picture."""
    found = []
    for alpha in ALPHAS:
        for suffix, chains, threads in (("ilp2", 2, 0), ("ilp4", 4, 0), ("t128", 1, 128), ("t256", 1, 256)):
            shape = {"most_repetitions": 3, **({"threads": threads} if threads else {})}
            text = "as the mix without the suffix, " + (
                f"in blocks of at most {threads} threads" if threads else f"{chains} chains per warp"
            )
            found.append(
                Entry(f"mix.load.a{alpha}.{suffix}", (stream_kernel(alpha, chains),), measure_streams, text,
                      {"where": "dram", **shape}, quick=False, weight=0.5)
            )  # fmt: skip
            for other, op in _mixed().items():
                found.append(
                    Entry(f"mix.{other}.a{alpha}.{suffix}", _pair(op, alpha, chains), chain_sweep, text,
                          {"register": op.register, "width": op.width, **shape}, quick=False, weight=0.3)
                )  # fmt: skip
    for alpha in _CUSP_ALPHAS:
        found.append(
            Entry(f"mix.load.a{alpha}.ilp8", (stream_kernel(alpha, 8),), measure_streams,
                  "as the mix without the suffix, 8 chains per warp", {"where": "dram", "most_repetitions": 3},
                  quick=False, weight=0.5)
        )  # fmt: skip
    return found


def streams() -> list[Entry]:
    """Return the measurements of latency under load: 1 to 8 loads in flight per warp, 4 to 16 bytes; first level."""
    found = []
    for where, level in (("dram", "default"), ("l2", "l2"), ("l1", "l1")):
        for chains in (1, 2, 4, 8):
            for width in (4, 8, 16):
                if (chains, width, where) == (1, 4, "dram"):  # mix.load.a0
                    continue
                quick = chains == 1 or (where != "l1" and (chains, width) == (4, 4))
                found.append(
                    Entry(f"stream.{where}.ilp{chains}.b{width}", (stream_kernel(0, chains, width, level),),
                          measure_streams, "loaded latency against throughput (§6.4)", {"where": where},
                          quick=quick, weight=1.0 if where == "dram" else 0.5)
                )  # fmt: skip
    return [
        *found,
        Entry("stream.dram.dirty", (stream_kernel(0, 1, 4, "default"),), measure_streams,
              "as mix.load.a0, with an L2 cache full of what must be written back", {"where": "dram", "dirty": True},
              quick=False, weight=2.0),
        Entry("stream.dram.one_sm", (stream_kernel(0, 4, 16, "default"),), measure_streams,
              "one SM alone: what it gets from DRAM", {"where": "dram", "one_sm": True, "warps": (4, 8, 16, 32)},
              weight=0.3),
        Entry("stream.random", (stream_kernel(0, 1, 4, "default"),), measure_random,
              "unstructured access: throughput by footprint, latency (§6.7, Table 6.7)", weight=2.0),
    ]  # fmt: skip


def _cycles(point: dict[str, Any], values: dict[str, Any]) -> float:
    return float(values["mean_cycles_per_count"])


def derive_dram_latency(samples: Samples) -> Iterator[Number]:
    """Derive latency of a coalesced load and what every further transaction adds."""
    alone = samples.take("mix.load.a0", _cycles, "warps")
    if not alone:
        return
    # a quarter of the most warps is too little load to matter; where the chains lie matters more
    light = Reading(tuple(reading.median for warps, reading in alone.items() if 4 * warps <= max(alone)))
    if not light.all:  # the others were at another clock
        return
    how = f"median over occupancies up to a quarter, less {ADDRESS_CYCLES} for the address; {light}"
    coalesced = light.median - ADDRESS_CYCLES
    yield Number("instructions.load.latency_cycles", float(round(coalesced)), "mix.load.a0", how)
    spread = samples.take("chase.lines", lambda p, v: v["mean_warp_cycles"] / p["loads"], "lines", where="dram")
    # later repetitions may walk the same way again and find it in the L2 cache
    random = samples.one("stream.random", _cycles, warps=0, repetition=0)
    pairs = samples.take("chase.further", _further, "few", "many", "pairs")
    for (few, many, each), reading in pairs.items():
        how = (
            f"one warp alone on {many} lines in DRAM less on {few}, over {many} less a coalesced load's {_COALESCED}: "
        )
        how += f"mean of {len(reading.all)} samples, each of {each} SMs and sets of places, spread {reading.spread:.2%}"
        extra = float(np.mean(reading.all))
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "chase.further", how)
    if pairs:
        return
    if 4 in spread and 32 in spread:
        extra = (spread[32].median - spread[4].median) / 28
        how = f"one warp alone on 32 lines in DRAM less on 4: over 28; {spread[32]}"
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "chase.lines", how)
    elif random:
        extra = (random.median - ADDRESS_CYCLES - coalesced) / (LANES - _COALESCED)
        how = "one warp alone, 32 sectors at random in 1 GiB, first repetition, less a coalesced load's 4: over 28"
        yield Number("memory.extra_transaction_cycles", digits(extra, 3), "stream.random", how)


def _further(point: dict[str, Any], values: dict[str, Any]) -> float:
    """Return the cycles per transaction beyond those of a coalesced load, as Table 6.7 counts them."""
    return float((values["many_cycles"] - values["few_cycles"]) / (point["many"] - _COALESCED))


def derive_load_table(samples: Samples) -> Iterator[Number]:
    """Derive throughput of loads against occupancy, one in flight per warp, as Zhang & Owens read it off."""
    entry, sms = "mix.load.a0", samples.head["facts"]["attributes"]["sm_count"]
    rates = samples.take(entry, lambda p, v: v["rate"] * LANES / sms, "warps")
    if len(rates) > 2:
        how = "4-byte loads, one in flight per warp; medians, with the point (0, 0) in front"
        yield Number("throughput.load.warps_per_sm", [0.0, *map(float, sorted(rates))], entry, how)
        found = [0.0, *(digits(rates[n].median) for n in sorted(rates))]
        yield Number("throughput.load.ops_per_cycle_per_sm", found, entry, how)


def derive_contention(samples: Samples) -> Iterator[Number]:
    """Derive latency against throughput, a + b x / (c - x), for DRAM, L2 and L1 (§6.4)."""
    clock = samples.head["reference_ghz"] * 1e9
    found = [n.value for n in derive_dram(samples) if n.key == "memory.sustained_bytes_per_second"]
    peak = next((value for value in found if isinstance(value, float)), 0.0)
    for section, where in (("contention", "dram"), ("contention_l2", "l2"), ("contention_l1", "l1")):
        curves = []
        for width in (4, 8, 16):
            entry = "mix.load.a0" if (where, width) == ("dram", 4) else f"stream.{where}.ilp1.b{width}"
            latency = samples.take(entry, _cycles, "warps")
            rate = samples.take(entry, lambda p, v: v["rate"] * LANES * p["width"] * clock, "warps")
            curves.append([(rate[n].median, latency[n].median) for n in sorted(latency)])
        if not all(len(curve) > 3 for curve in curves):
            continue
        fit = loaded_latency(curves, peak if where == "dram" else 0.0)
        entry = f"mix.load.a0, stream.{where}.ilp1.b8 and .b16" if where == "dram" else f"stream.{where}.ilp1.*"
        how = (
            f"least squares over widths of 4, 8 and 16 bytes with one a each, one b and c; off by {fit.mean_off:.1f} "
            f"cycles in the mean, {fit.most_off:.0f} at most, of {fit.points} points"
        )
        less = f"that of 4 bytes less {ADDRESS_CYCLES} for the address; {how}"
        yield Number(f"{section}.a_cycles", digits(fit.a[0] - ADDRESS_CYCLES), entry, less)
        yield Number(f"{section}.b_cycles", digits(fit.b), entry, how)
        yield Number(f"{section}.c_bytes_per_second", digits(fit.c), entry, how)


@dataclass(frozen=True)
class LoadedLatency:
    """Latency at throughput x of curve i: a[i] + b x / (c - x); and how far the points are from it, in cycles."""

    a: list[float]
    b: float
    c: float
    mean_off: float
    most_off: float
    points: int


def loaded_latency(curves: list[list[tuple[float, float]]], peak: float = 0.0) -> LoadedLatency:
    """Fit Volkov's curve (§6.4) to points (throughput, latency), with an a of its own for each curve.

    For each c above the highest throughput, a and b are a linear least-squares problem, in which a point's error counts
    relative to its latency: where the latency is high it is little known. The c with the least error is kept, of those
    above `peak`, a throughput that was reached otherwise: the curve cannot end before it.
    """
    x = np.array([point[0] for curve in curves for point in curve])
    y = np.array([point[1] for curve in curves for point in curve])
    which = np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])
    best: tuple[float, np.ndarray, float, np.ndarray] | None = None
    for c in max(1.002 * x.max(), peak) * np.geomspace(1.0, 1.5, 400):
        basis = np.stack([*(np.where(which == i, 1.0, 0.0) for i in range(len(curves))), x / (c - x)], axis=1)
        found, *_ = np.linalg.lstsq(basis / y[:, None], np.ones_like(y), rcond=None)
        off = basis @ found - y
        error = float(((off / y) ** 2).sum())
        if best is None or error < best[0]:
            best = error, found, float(c), np.abs(off)
    assert best is not None
    _, found, c, off = best
    return LoadedLatency(found[:-1].tolist(), float(found[-1]), c, float(off.mean()), float(off.max()), len(x))
