"""Control flow: barriers, branches, loops, fences; caches of instructions and of constants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import SCHEDULERS, Laboratory
from warplens.laboratory.launches import slope_of
from warplens.laboratory.loaded_latency import ADDRESS_CYCLES
from warplens.laboratory.plan import NEVER, Effort, Entry, Sample, block_sweep, kept, some_sm
from warplens.laboratory.samples import Number, Samples, digits, number, per_link
from warplens.laboratory.source import Expectation, Kernel

NOP_CYCLES = 5  # of what stands in the place of BSYNC: as long as its own stall count, so that the rest is the same

_LAG = 0.3  # of a pass, from warp to warp


def barrier_kernel(doubled: bool = False) -> Kernel:
    """Return the kernel of barriers of a whole block one after the other."""
    count = 64 if doubled else 32
    name = f"barrier_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("bar.sync 0;" ::: "memory"); }}
    STOP
  }}
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({r"BAR\.SYNC.*": count}, 12), facts={"links": count})


def fence_kernel(doubled: bool = False) -> Kernel:
    """Return the kernel of fences of the whole device one after the other, with nothing to wait for."""
    count = 16 if doubled else 8
    name = f"fence_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) __threadfence(); }}
    STOP
  }}
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({r"MEMBAR.*": count}, 12 + 4 * count), facts={"links": count})


def branch_kernel(kind: str, doubled: bool = False) -> Kernel:
    """Return the kernel of branches in a row, each around dependent multiplications: too many for predication.

    a: lanes below it skip. `uniform`: the compiler knows that all lanes agree, and there is nothing to bring together
    again; `divergent`: it does not know. Whether a branch is taken is a's: 32 all skip, 0 none, 16 half of them.
    `region`: as `divergent`, around few, with adds behind it; `straight`: without the points where lanes come together.
    """
    count = 32 if doubled else 16
    name = f"branch_{kind}_n{count}"
    body = {"uniform": 8, "divergent": 40}.get(kind, 9)
    behind = 0 if kind in ("uniform", "divergent") else 8
    inner = "".join(["mul.f32 %0, %0, %2; "] * body)
    bra = "bra.uni" if kind == "uniform" else "bra"
    adds = f' UNROLL for (int i = 0; i < {behind}; i++) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));'
    one = (
        f'asm volatile("{{ .reg .pred p; setp.lt.s32 p, %1, %3; @p {bra} SKIP; {inner} SKIP: }}" '
        ': "+f"(x) : "r"(lane), "f"(y), "r"(limit) : "memory");'
    ) + (adds if behind else "")
    lane = "((volatile int *)out)[16]" + ("" if kind == "uniform" else " + threadIdx.x % 32")
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  int lane = {lane}, limit = (int)a;
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) {{ {one} }} }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    expect = Expectation({"FMUL": body * count, r"BRA.*": count}, (4 + behind) * count + 20, over=1)
    return Kernel(name, text, expect, facts={"links": count, "kind": kind, "body": body},
                  patch=f"drop BSYNC.{NOP_CYCLES}" if kind == "straight" else "")  # fmt: skip


def loop_kernel(doubled: bool = False) -> Kernel:
    """Return the kernel of a loop of few adds: what the loop itself costs, a taken branch in it."""
    count = 16 if doubled else 8
    name = f"loop_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y)); }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({"FADD": count}, 4), facts={"links": count})


def code_kernel(length: int) -> Kernel:
    """Return the kernel of a loop of so many independent multiply-adds: fits an instruction cache, or does not."""
    name = f"code_{length}"
    start = ", ".join(f"{x} = ((volatile float *)out)[{i}]" for i, x in enumerate("xyzv"))
    each = " ".join(f'asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"({x}));' for x in "xyzv")
    text = f"""\
KERNEL({name}, 1024) {{
  float {start};
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {length // 4}; u++) {{ {each} }} }}
    STOP
  }}
  KEEP(x + y + z + v == 12345.0f)
  record(records, c0, c1, (u64)trips * {length});
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 8), facts={"links": length})


def constant_kernel() -> Kernel:
    """Return the kernel of a chain of loads from constant memory; whoever launches fills the table.

    trips: trips of 8 loads; a: start; b: the only SM that works.
    """
    text = """\
__constant__ u32 table[16384];
KERNEL(constant_chase, 1024) {
  if (sm_id() != b) return;
  u32 x = a + ((volatile u32 *)out)[16];
  PASSES {
    START
    LOOP { UNROLL for (int u = 0; u < 8; u++) x = table[x]; }
    KEEP(x == c)
    STOP
  }
  record(records, c0, c1, trips * 8ull);
}
"""
    return Kernel("constant_chase", text, Expectation({r"LDC.*": 8}, 30))


def fetch_kernel(length: int) -> Kernel:
    """Return the kernel of a loop of multiply-adds that outgrows an instruction cache; warps begin a cycles apart.

    The second and the third of four passes count: all warps are then at work, each at another place of the code.
    """
    name = f"fetch_{length}"
    start = ", ".join(f"{x} = ((volatile float *)out)[{i}]" for i, x in enumerate("xyzv"))
    each = " ".join(f'asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"({x}));' for x in "xyzv")
    text = f"""\
KERNEL({name}, 1024) {{
  __shared__ u64 origin;
  u64 c0, c1 = 0, now;
  const u32 pass = 0;
  float {start};
  START_TOGETHER
  u64 from = c0 + (u64)a * (threadIdx.x / 32);
  while (cycles() < from) {{}}
  _Pragma("unroll 1") for (u32 turn = 0; turn < 4; turn++) {{
    now = cycles();
    c0 = turn == 1 ? now : c0;
    c1 = turn == 3 ? now : c1;
    UNROLL for (int u = 0; u < {length // 4}; u++) {{ {each} }}
  }}
  KEEP(x + y + z + v == 12345.0f)
  record(records, c0, c1, {2 * length});
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 24), facts={"links": length, "passes": 2})


def entries() -> list[Entry]:
    """Return the measurements: barriers, loops, branches, fences, long code, constants."""
    sizes = (128, 256, 512, 768, 1024, 1536, 1792, 2048, 2560, 3072, 4096, 6144, 8192, 9216, 10240, 12288, 16384)
    barriers, loops = (barrier_kernel(), barrier_kernel(True)), (loop_kernel(), loop_kernel(True))
    uniforms = branch_kernel("uniform"), branch_kernel("uniform", True)
    divergents = branch_kernel("divergent"), branch_kernel("divergent", True)
    regions = branch_kernel("region"), branch_kernel("region", True)
    straight = branch_kernel("straight"), branch_kernel("straight", True)
    some = (1, 4, 16, 32)
    return [
        Entry("control.barrier", barriers, block_sweep, "barrier by warps per block"),
        Entry("control.loop", loops, block_sweep, "a loop's own instructions", {"warps": some}),
        Entry("control.branch.uniform", uniforms, block_sweep, "branches that all lanes take, or none",
              {"a": (0, 32), "warps": some}),
        Entry("control.branch.divergent", divergents, block_sweep,
              "branches with a point of reconvergence: none, half, all of the lanes skip",
              {"a": (0, 16, 32), "warps": some}),
        Entry("control.branch.region", regions, block_sweep, "as divergent: all lanes skip a little",
              {"a": (32,), "warps": (1,)}, weight=0.1),
        Entry("control.branch.straight", straight, block_sweep, "the same, nothing brings lanes together",
              {"a": (32,), "warps": (1,)}, weight=0.1),
        Entry("control.fence", (fence_kernel(), fence_kernel(True)), block_sweep, "a fence of the device",
              {"warps": (1, 8, 32)}, weight=0.1),
        Entry("control.code", tuple(code_kernel(n) for n in sizes), measure_code, "instruction caches",
              weight=2.0),
        Entry("control.constant", (constant_kernel(),), measure_constants, "constant caches"),
        Entry("control.fetch", (fetch_kernel(8192),), measure_fetches, "warps at different places of long code",
              weight=0.2),
    ]  # fmt: skip


def measure_code(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure loops of growing length in one warp per SM, and in one per scheduler: instruction caches."""
    lab.operands("f")
    for kernel in entry.kernels:
        for warps in (1, SCHEDULERS):
            resident = lab.residency(kernel.name, warps)
            trips = max(4, 100_000 // kernel.facts["links"])
            for repetition in range(effort.repetitions):
                sample = lab.sample(
                    kernel.name, lab.facts.sm_count, resident.threads, resident.shared, trips=trips, c=NEVER
                )
                yield {"warps": warps, "trips": trips, **kernel.facts, "repetition": repetition}, kept(sample)


def measure_constants(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure a chain through growing parts of constant memory, 64 bytes from load to load, in one warp."""
    kernel = entry.kernels[0]
    lab.zeros()
    table, stride = lab.variable(kernel.name, "table"), 16
    for size in (256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 24576, 32768, 49152, 65536):
        nodes = size // 4 // stride
        content = np.zeros(16384, np.uint32)
        content[np.arange(nodes) * stride] = (np.arange(nodes) + 1) % nodes * stride
        lab.gpu.put(table, content)
        resident, trips = lab.residency(kernel.name, 1), max(32, 2 * nodes // 8)
        for repetition in range(2 * effort.repetitions):
            sm = some_sm(lab, repetition)
            launched = (kernel.name, lab.facts.sm_count, 32, resident.shared)
            lab.stamped(*launched, trips=trips, b=sm, c=0xFFFFFFF)  # the whole chain once
            sample = lab.sample(*launched, trips=trips, b=sm, c=0xFFFFFFF)
            yield {"bytes": size, "loads": 8 * trips, "sm": sm, "repetition": repetition}, kept(sample)


_INSTRUCTION_BYTES = 16


def measure_fetches(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure warps a third of a pass behind one another in code that outgrows the first instruction cache."""
    lab.operands("f")
    for kernel in entry.kernels:
        later = 0
        for warps in (1, 2, 4):
            resident = lab.residency(kernel.name, warps)
            given: dict[str, Any] = {"a": later if warps > 1 else 0, "c": NEVER}
            launched = (kernel.name, lab.facts.sm_count, resident.threads, resident.shared)
            alone = stamps.reduce(lab.stamped(*launched, **given))  # fills the caches
            if warps == 1:
                later = int(_LAG * alone["mean_warp_cycles"] / kernel.facts["passes"])
            for repetition in range(effort.repetitions):
                sample = kept(lab.sample(*launched, **given))
                yield {"fetching": warps, "apart": given["a"], **kernel.facts, "repetition": repetition}, sample


def derive_barriers(samples: Samples) -> Iterator[Number]:
    """Derive from one barrier to the next: one warp, and what each further warp of the block adds."""
    by_warps = samples.take("control.barrier", per_link, "warps")
    yield from number("sm.barrier_cycles", by_warps.get(1), "control.barrier", "one warp, 2N barriers less N")
    if len(by_warps) > 2:
        slope, off = slope_of(by_warps)
        how = f"slope over {min(by_warps)} to {max(by_warps)} warps per block, off by at most {off:.2f} cycles"
        yield Number("sm.barrier_per_warp_cycles", digits(slope, 3), "control.barrier", how)


def derive_branches(samples: Samples) -> Iterator[Number]:
    """Derive a branch that is not taken, beyond what it skips; the cost of the other half of a warp."""
    entry = "control.branch.uniform"
    flat = samples.take(entry, per_link, "a", "body", warps=1)
    multiply = samples.one("instruction.fmul", per_link, warps=1, stride=1)
    if (0, 8) in flat and multiply:
        cycles = flat[0, 8].median - 8 * multiply.median
        how = f"one warp, branch and 8 FMUL, less these; {flat[0, 8]}"
        yield Number("sm.branch_not_taken_cycles", digits(max(0.0, cycles), 3), entry, how)
    if (32, 8) in flat:
        how = f"one warp, branches that all lanes take, in whole cycles; {flat[32, 8]}"
        yield Number("sm.branch_taken_cycles", float(round(flat[32, 8].median)), entry, how)
    entry = "control.branch.region"
    with_it = samples.one(entry, per_link, warps=1)
    without = samples.one("control.branch.straight", per_link, warps=1)
    if with_it and without:
        cycles = with_it.median - without.median + NOP_CYCLES
        how = f"one warp, all lanes skip: less the same with a NOP in place of each BSYNC; {with_it}"
        yield Number("sm.reconverge_cycles", digits(cycles, 3), entry, how)
    alone = samples.one("control.fence", per_link, warps=1)
    yield from number("sm.fence_cycles", alone, "control.fence", "one warp, 2N fences less N", worth=3)
    entry = "control.branch.divergent"
    split = samples.take(entry, per_link, "a", warps=1)
    if 0 in split and 16 in split:
        how = f"one warp: half of the lanes skip 40 FMUL, less none does; {split[16]}"
        yield Number("sm.divergence_cycles", digits(max(0.0, split[16].median - split[0].median), 3), entry, how)


def derive_code(samples: Samples) -> Iterator[Number]:
    """Derive loops of growing length: what the instruction caches keep, cycles per instruction beyond."""
    found = samples.take("control.code", lambda p, v: v["mean_warp_cycles"] / p["trips"] / p["links"], "links", warps=1)
    levels = plateaus([(n, found[n].median) for n in sorted(found)])
    if len(levels) != 3:
        return
    how = "FFMA in a loop, one warp: last length before the cycles per instruction rise"
    names = ("first", "second")
    for name, (last, _), (_, beyond), far in zip(names, levels, levels[1:], ("second", "memory"), strict=False):
        yield Number(f"instruction_cache.{name}_bytes", float(last * _INSTRUCTION_BYTES), "control.code", how)
        key = f"instruction_cache.{far}_interval_cycles"
        yield Number(key, digits(beyond, 3), "control.code", "cycles per instruction beyond")


def plateaus(points: list[tuple[int, float]], step: float = 1.1) -> list[tuple[int, float]]:
    """Split a rising curve into levels: for each the last size that is on it, and the value there.

    A level begins where two neighbours are within `step` of one another; sizes between two levels belong to none.
    """
    levels: list[tuple[int, float]] = []
    for (size, value), (larger, next_value) in pairwise(points):
        if next_value <= step * value:
            if levels and value <= step * levels[-1][1]:
                levels[-1] = (larger, levels[-1][1])
            else:
                levels.append((larger, value))
        elif levels and value <= step * levels[-1][1]:
            levels[-1] = (size, levels[-1][1])
    return levels


def derive_constants(samples: Samples) -> Iterator[Number]:
    """Derive a chain of indexed loads from constant memory over growing footprints."""
    entry = "control.constant"
    found = samples.take(entry, lambda p, v: v["mean_warp_cycles"] / p["loads"], "bytes")
    if len(found) < 4:
        return
    least, most = found[min(found)], found[max(found)]
    largest = max(size for size, r in found.items() if r.median < (least.median + most.median) / 2)
    how = "last footprint whose latency is nearer to that of the least than to that of 64 KiB"
    yield Number("constant_cache.first_bytes", float(largest), entry, how)
    for key, reading, size in (
        ("constant_cache.first_latency_cycles", least, min(found)),
        ("constant_cache.second_latency_cycles", most, max(found)),
        ("instructions.constant.latency_cycles", least, min(found)),
    ):
        how = f"LDC over {size} B, less {ADDRESS_CYCLES} for the address, in whole cycles; {reading}"
        yield Number(key, float(round(reading.median - ADDRESS_CYCLES)), entry, how)


def derive_fetches(samples: Samples) -> Iterator[Number]:
    """Derive the cycles per instruction of an SM's warps in different parts of long code, all SMs at work."""
    entry = "control.fetch"
    taken = samples.take(
        entry, lambda p, v: v["mean_warp_cycles"] / (p["passes"] * p["links"] * p["fetching"]), "fetching"
    )
    if 2 in taken and 4 in taken:
        two, four = taken[2], taken[4]
        how = (
            f"8192 multiply-adds, two ({two.median:.3f}) and four ({four.median:.3f}) warps of each SM a third of a "
            f"pass apart, second and third pass; {four}"
        )
        mean = (two.median + four.median) / 2
        yield Number("instruction_cache.fetch_interval_cycles", digits(mean, 3), entry, how)
