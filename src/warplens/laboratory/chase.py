"""One chain of loads alone: latency of each level, sizes of the caches, reach of the TLB, lines of a load."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import GIB, KIB, MIB, Laboratory, Residency
from warplens.laboratory.in_flight import MORE
from warplens.laboratory.plan import Effort, Entry, Sample, kept, some_sm
from warplens.laboratory.samples import Number, Reading, Samples, digits, number
from warplens.laboratory.source import HINT, SCOPE, Expectation, Kernel

_PAIRS, _NODES = 22, 1024  # SMs of a sample of further lines, each at so many places


def chase_kernel(level: str = "default") -> Kernel:
    """Return the kernel of one chain of 8-byte loads in one warp of one SM: the latency of memory with no other load.

    data + size: the first address; b: loads before the clock starts; trips: trips of 8 loads; a: the SM.
    """
    name = f"chase_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ volatile u64 last[32];
  if (sm_id() != a) return;
  u64 p = (u64)(data + size);
  _Pragma("unroll 1") for (u32 i = 0; i < b; i++) asm volatile("ld.global{HINT[level]}.u64 %0, [%0];" : "+l"(p));
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < 8; u++) asm volatile("ld.global{HINT[level]}.u64 %0, [%0];" : "+l"(p)); }}
    last[threadIdx.x] = p;  // the clock waits for the last load
    STOP
  }}
  KEEP(p == 1)
  record(records, c0, c1, trips * 8ull);
}}
"""
    expect = {rf"LDG\.E\.64{SCOPE}": 8}
    return Kernel(name, text, Expectation(expect, 8), facts={"level": level})


def probe_kernel(level: str = "l2") -> Kernel:
    """Time every single load of a chain: near and far parts of the L2 cache, the spread of latencies.

    As `chase`, on every SM one after the other or on one; trips: loads, at most 4096; a: the SM, or ~0 for all. The
    cycles of each go to out from word 32 on, SM by SM.
    """
    name = f"probe_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ u32 taken[4096];
  __shared__ u64 last;
  if (a != ~0u && sm_id() != a) return;
  stamp_begin(records);
  u64 c0 = cycles();
  _Pragma("unroll 1") for (u32 pass = 0; pass < 2; pass++) {{
    u64 p = (u64)(data + size);
    _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
      u64 begin = cycles();
      asm volatile("ld.global{HINT[level]}.u64 %0, [%0];" : "+l"(p));
      asm volatile("st.volatile.shared.u64 [%0], %1;" :: "r"(shared_address(&last)), "l"(p) : "memory");
      taken[turn] = (u32)(cycles() - begin);
    }}
  }}
  u64 c1 = cycles();
  for (u32 i = threadIdx.x; i < trips; i += 32) ((u32 *)(out + 32))[(u64)blockIdx.x * trips + i] = taken[i];
  record(records, c0, c1, trips);
}}
"""
    expect = {rf"LDG\.E\.64{SCOPE}": 1, r"CS2R.*|S2UR|CS2UR.*": 2}
    return Kernel(name, text, Expectation(expect, 14), facts={"level": level})


def lines_kernel(level: str = "l2") -> Kernel:
    """Return the kernel as `chase`, the lanes on so many lines: what a further transaction adds (Table 6.7).

    data + size: the first node, 4 KiB of which every line begins with the address of the next one; c: lines; b: loads
    before the clock starts; trips: trips of 8 loads; a: the SM.
    """
    name = f"lines_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ volatile u64 last[32];
  if (sm_id() != a) return;
  u64 p = (u64)(data + size), mine = threadIdx.x % c * 128;
  _Pragma("unroll 1") for (u32 i = 0; i < b; i++)
    asm volatile("ld.global{HINT[level]}.u64 %0, [%1];" : "=l"(p) : "l"(p + mine) : "memory");
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < 8; u++)
      asm volatile("ld.global{HINT[level]}.u64 %0, [%1];" : "=l"(p) : "l"(p + mine) : "memory"); }}
    last[threadIdx.x] = p;  // the clock waits for the last load
    STOP
  }}
  KEEP(p == 1)
  record(records, c0, c1, trips * 8ull);
}}
"""
    return Kernel(name, text, Expectation({rf"LDG\.E\.64{SCOPE}": 8}, 28), facts={"level": level})


def entries() -> list[Entry]:
    """Return the measurements of one chain alone: caches, DRAM, TLBs, parts of L2; lanes on several lines."""
    near_l1 = range(216 * KIB, 264 * KIB, 4 * KIB)
    near_l2 = range(36 * MIB, 84 * MIB, 4 * MIB)
    far = [64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 2 * GIB, 8 * GIB, 16 * GIB]
    sizes = {
        "l1": (
            128,
            sorted({*_steps(2 * KIB, 512 * KIB, 4), *near_l1}),
            [8 * KIB, 32 * KIB, 128 * KIB, 192 * KIB, 256 * KIB, 512 * KIB],
        ),
        "l1_sector": (32, _steps(2 * KIB, 64 * KIB, 1), [8 * KIB]),
        "l2": (128, sorted({*_steps(MIB, 256 * MIB, 4), *near_l2}), [MIB, 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB]),
        "dram": (4096, [GIB, 2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB, 32 * GIB], [2 * GIB]),
        "tlb_64k": (64 * KIB, _steps(64 * KIB, 512 * MIB, 2), []),
        "tlb_2m": (2 * MIB, _steps(2 * MIB, 16 * GIB, 2), far),
        "tlb_32m": (32 * MIB, _steps(32 * MIB, 63 * GIB, 2), []),
    }
    found = []
    for name, (stride, full, few) in sizes.items():
        first_level = name.startswith("l1")
        parameters = {"stride": stride, "sizes": full, "quick_sizes": few, "limit": not first_level,
                      "spread": name in ("l2", "dram"), "nodes": 4096 if name == "l2" else 8192}  # fmt: skip
        found.append(
            Entry(f"chase.{name}", (chase_kernel("l1" if first_level else "l2"),), measure_sizes,
                  "latency by footprint and stride, one warp alone", parameters, quick=bool(few), weight=1.5)
        )  # fmt: skip
    for shared in (16, 60, 96, 160, 192):
        sizes_of = {"sizes": list(range(16 * KIB, 264 * KIB, 8 * KIB)), "quick_sizes": []}
        parameters = {"stride": 128, **sizes_of, "limit": False, "shared_bytes": shared * KIB}
        found.append(
            Entry(f"chase.l1.shared_{shared}", (chase_kernel("l1"),), measure_sizes,
                  "latency by footprint where the block has so many KiB of shared memory", parameters, quick=False)
        )  # fmt: skip
    return [
        *found,
        Entry("probe.l2", (probe_kernel("l2"),), measure_probes,
              "latency of each line from each SM: near and far L2"),
        Entry("chase.lines", (lines_kernel("l2"), lines_kernel("l1")), measure_lines,
              "latency by lines of a load (Table 6.7)"),
        Entry("chase.further", (lines_kernel("l2"),), measure_further_lines,
              "what a further line adds in DRAM, the mean over many places", {"lines": (1, 32)}, weight=0.5),
    ]  # fmt: skip


def _steps(first: int, last: int, per_doubling: int) -> list[int]:
    """Return sizes from first to last, so many to a doubling, in whole kibibytes above 16 KiB."""
    found, n = [], 0
    while (size := first * 2 ** (n / per_doubling)) <= last * 1.001:
        found.append(round(size / KIB) * KIB if size >= 16 * KIB else round(size / 512) * 512)
        n += 1
    return found


def _chain(lab: Laboratory, offsets: np.ndarray[Any, Any], seed: int) -> int:
    """Link 8-byte addresses at these offsets of the data into one ring in random order; return the first offset."""
    order = np.random.default_rng(seed).permutation(offsets)
    pairs = np.stack([order, np.roll(order, -1)], axis=1).astype(np.uint64)
    lab.gpu.put(lab.out + 256, pairs)
    lab.launch("scatter", -(-len(order) // 256), 256, trips=len(order))
    lab.forget()
    return int(order[0])


def measure_sizes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure one chain over growing footprints: latency of each level, sizes of the caches, reach of the TLBs.

    At most `nodes` places are visited. Where the footprint has more, it is read as a whole first and the chain is a
    sample of it; where it has fewer, the chain is walked once before the clock starts.
    """
    kernel, stride = entry.kernels[0], entry.parameters["stride"]
    most: int = entry.parameters.get("nodes", 8192)
    resident = lab.residency(kernel.name, 1, limit=entry.parameters.get("limit", True))
    if not entry.parameters.get("limit", True):
        lab.gpu.carve_out(lab.function(kernel.name), 0)
    if shared := entry.parameters.get("shared_bytes", 0):
        lab.gpu.allow_shared(lab.function(kernel.name), shared)
        resident = Residency(resident.blocks_per_sm, resident.threads, shared)
    lab.zeros()
    for size in entry.parameters["quick_sizes" if effort.quick else "sizes"]:
        if size + GIB > lab.data_bytes:
            continue
        count = size // stride
        rng = np.random.default_rng(size)
        picked = np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
        offsets = picked * stride + (picked * 128 % 4096 if stride >= 4096 else 0)  # not all in one set of a cache
        for repetition in range(effort.repetitions):
            first = _chain(lab, offsets, repetition)
            if count > most and entry.parameters.get("touch", True):
                lab.touch(size // 16 * 16, times=2)
            loads = max(8, min(len(offsets) - 16 if count > most else 4096, 4096) // 8 * 8)
            given = {"size": first, "trips": loads // 8, "b": 0 if count > most else len(offsets)}
            sm = some_sm(lab, repetition) if entry.parameters.get("spread") else 0
            sample = _alone(lab, kernel.name, resident, sm, given)
            yield {"bytes": size, "stride": stride, "loads": loads, "sm": sm, "repetition": repetition}, kept(sample)


def _alone(lab: Laboratory, name: str, resident: Residency, sm: int, given: dict[str, int]) -> dict[str, float]:
    """Run on one SM: a block goes to every SM, and those on others leave at once."""
    blocks = lab.facts.sm_count * resident.blocks_per_sm
    return lab.steady(lambda: stamps.reduce(lab.stamped(name, blocks, 32, resident.shared, a=sm, **given)))


def measure_probes(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure single loads of every SM that hit in L2, line by line: how far each part of it is from each SM."""
    kernel, lines = entry.kernels[0], 256
    offsets = np.arange(lines) * (32 * KIB + 128)  # 8 MiB
    first = _chain(lab, offsets, 1)
    resident = lab.residency(kernel.name, 1)
    for repetition in range(effort.repetitions):
        given = {"size": first, "trips": lines, "a": 0xFFFFFFFF, "shared": resident.shared}
        found = lab.watched(partial(_probed, lab, kernel.name, lines, given))
        yield {"lines": lines, "repetition": repetition}, found


def _probed(lab: Laboratory, name: str, lines: int, given: dict[str, int]) -> dict[str, Any]:
    sms = lab.facts.sm_count
    ids = stamps.columns(lab.stamped(name, sms, 32, **given))["sm"]
    taken = lab.results(sms * lines).reshape(sms, lines)
    values, counts = np.unique(taken, return_counts=True)
    return {
        "cycles": values.tolist(), "counts": counts.tolist(), "sm": ids.tolist(),
        "sm_means": np.round(taken.mean(axis=1), 2).tolist(),
        "line_means": np.round(taken.mean(axis=0), 2).tolist(), "matrix": taken[:, :48].tolist(),
    }  # fmt: skip


def measure_lines(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure one warp's chain with its lanes on 1 to 32 lines: in L2, in DRAM (Table 6.7), in the first level.

    The nodes are 4 KiB each: 1024 of them lie in the L2 cache, or 4 MiB apart in DRAM; 32 in the first level.
    """
    beyond, first_level = entry.kernels
    for where, pitch, nodes, kernel in (
        ("l2", 4 * KIB, 1024, beyond), ("dram", 4 * MIB, 1024, beyond), ("l1", 4 * KIB, 32, first_level),
    ):  # fmt: skip
        if nodes * pitch + GIB > lab.data_bytes:
            continue
        resident = lab.residency(kernel.name, 1, limit=where != "l1")
        if where == "l1":
            lab.gpu.carve_out(lab.function(kernel.name), 0)
        begin = _nodes(lab, np.random.default_rng(1).permutation(nodes) * pitch)
        loads, before = (nodes - 32, 0) if where != "l1" else (1024, nodes)
        for lines in (1, 2, 4, 8, 16, 32):
            given = {"size": begin, "trips": loads // 8, "c": lines, "b": before}
            for repetition in range(MORE * effort.repetitions):
                sm = some_sm(lab, repetition)
                if where == "dram":
                    lab.flush()
                else:
                    _alone(lab, kernel.name, resident, sm, given)
                sample = _alone(lab, kernel.name, resident, sm, given)
                yield {"where": where, "lines": lines, "loads": loads, "repetition": repetition}, kept(sample)


def measure_further_lines(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure as `line_counts` in DRAM, on one line and on many, at other addresses and on another SM each time.

    A single difference moves by a twelfth with the places, so that it takes many.
    """
    kernel = entry.kernels[0]
    resident, rng = lab.residency(kernel.name, 1), np.random.default_rng(1)
    few, many = entry.parameters["lines"]
    for repetition in range(MORE * effort.repetitions):
        sms = [some_sm(lab, repetition * _PAIRS + n) for n in range(_PAIRS)]
        values = lab.watched(partial(_few_and_many, lab, kernel.name, resident, rng, sms, (few, many)))
        yield {"few": few, "many": many, "pairs": _PAIRS, "repetition": repetition}, values


def _few_and_many(
    lab: Laboratory, name: str, resident: Residency, rng: np.random.Generator, sms: list[int], lines: tuple[int, int]
) -> dict[str, Any]:
    """Return a warp's cycles per load with its lanes on so many lines each, the mean over SMs."""
    lines_in_memory, taken = (min(4 * GIB, lab.data_bytes - GIB)) // (4 * KIB), []
    for sm in sms:
        nodes = rng.permutation(np.unique(rng.integers(0, lines_in_memory, _NODES + 32)))
        begin, loads = _nodes(lab, nodes * (4 * KIB)), (len(nodes) - 32) // 8 * 8
        for count in lines:
            lab.flush()
            blocks, given = (
                lab.facts.sm_count * resident.blocks_per_sm,
                {"size": begin, "trips": loads // 8, "c": count},
            )
            sample = stamps.reduce(lab.stamped(name, blocks, 32, resident.shared, a=sm, **given))
            taken.append(sample["mean_warp_cycles"] / loads)
    return dict(zip(("few_cycles", "many_cycles"), np.reshape(taken, (-1, 2)).mean(axis=0).round(3), strict=True))


def _nodes(lab: Laboratory, order: np.ndarray[Any, Any]) -> int:
    """Link nodes of 32 lines at these offsets, every line with the address of the next node; return the first one."""
    order = order.astype(np.uint64)
    begins = np.repeat(order, 32) + np.tile(np.arange(32, dtype=np.uint64) * 128, len(order))
    pairs = np.stack([begins, np.repeat(np.roll(order, -1), 32)], axis=1).astype(np.uint64)
    lab.gpu.put(lab.out + 256, pairs)
    lab.launch("scatter", -(-len(pairs) // 256), 256, trips=len(pairs))
    lab.forget()
    return int(order[0])


def _chase(samples: Samples, entry: str) -> dict[int, Reading]:
    return samples.take(entry, lambda p, v: v["mean_warp_cycles"] / p["loads"], "bytes")


def derive_caches(samples: Samples) -> Iterator[Number]:
    """Derive the latency of the first level and of L2, near and far; how much each keeps."""
    first = _chase(samples, "chase.l1")
    if first:
        least = min(first)
        yield from number("cache.l1_latency_cycles", first[least], "chase.l1", f"one chain over {least} B")
        yield reach("cache.l1_hit_bytes", first, 1.02, "chase.l1", least)
    second = _chase(samples, "chase.l2")
    if second:
        quarter = samples.head["facts"]["attributes"].get("l2_bytes", 4 * min(second)) // 4
        yield reach("cache.l2_hit_bytes", second, 1.10, "chase.l2", max(quarter, min(second)))
    yield from _near_and_far(samples)


def reach(key: str, by_size: dict[int, Reading], tolerance: float, entry: str, small: int) -> Number:
    """Return the largest footprint up to which the latency stays that of small ones, in the median."""
    own, largest = float(np.median([r.median for size, r in by_size.items() if size <= small])), 0
    for size in sorted(by_size):
        if by_size[size].median > tolerance * own:
            break
        largest = size
    how = f"largest footprint within {100 * (tolerance - 1):.0f} % of the latency of those up to {small} B"
    return Number(key, float(largest), entry, how)


def _near_and_far(samples: Samples) -> Iterator[Number]:
    """Derive the mean L2 latency over SMs and lines, and of two groups that the measurements themselves form."""
    probed = samples.entries.get("probe.l2", [])
    if not probed:
        return
    means = [float(np.average(v["cycles"], weights=v["counts"])) for _, v in probed]
    reading = Reading(tuple(means))
    yield from number("cache.l2_latency_cycles", reading, "probe.l2", "mean over all SMs and 256 lines")
    matrix = np.array(next((v["matrix"] for _, v in probed if v["matrix"]), []), float)
    if not matrix.size:
        return
    rest = matrix - matrix.mean(0) - matrix.mean(1, keepdims=True) + matrix.mean()
    left, strength, right = np.linalg.svd(rest)
    many = 1 + (strength[0] > 2 * strength[1])
    how = (
        f"latency of each line from each SM, less both means: the first singular value {strength[0]:.0f}, the second "
        f"{strength[1]:.0f}: {'two halves that are far from one another' if many > 1 else 'no halves'}"
    )
    yield Number("cache.l2_partitions", float(many), "probe.l2", how)
    far = np.sign(np.outer(left[:, 0], right[0])) == np.sign((np.outer(left[:, 0], right[0]) * rest).sum())
    for name, group in (("near", ~far), ("far", far)):
        how = f"mean over the SMs and lines that are {name} to one another: by the sign of the first singular vectors"
        yield Number(f"cache.l2_{name}_latency_cycles", digits(float(matrix[group].mean())), "probe.l2", how)


def derive_tlb(samples: Samples) -> Iterator[Number]:
    """Derive how far one translation reaches and the cost of a further one, with a page of 2 MiB for every load."""
    by_size = {size: r.median for size, r in _chase(samples, "chase.tlb_2m").items() if size >= 64 << 20}
    if len(by_size) < 4:
        return
    largest, _ = max(pairwise(sorted(by_size)), key=lambda pair: by_size[pair[1]] - by_size[pair[0]])
    how = "2 MiB from load to load, lines in L2: last footprint before the largest rise of the latency"
    yield Number("tlb.reach_bytes", float(largest), "chase.tlb_2m", how)
    low = float(np.median([cycles for size, cycles in by_size.items() if size <= largest]))
    how = f"latency over {max(by_size) >> 30} GiB less the median from 64 MiB up to the reach"
    yield Number("tlb.miss_cycles", digits(by_size[max(by_size)] - low, 3), "chase.tlb_2m", how)
