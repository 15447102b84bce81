"""Accesses in no order: packets to L2 and to DRAM, what L2 has to write back, how many lines it holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.bandwidth import SLICE, SUFFIX, access, bandwidth_kernel
from warplens.laboratory.chase import reach
from warplens.laboratory.gpu_session import GIB, MIB, Laboratory
from warplens.laboratory.plan import Effort, Entry, Sample
from warplens.laboratory.samples import Number, Point, Reading, Samples, digits, number
from warplens.laboratory.source import LANES, SCOPE, SECTOR_BYTES, Expectation, Kernel

BLOCKS_PER_SM, THREADS = 2, 1024
TRIPS, FEW_TRIPS = 32, 8  # of four accesses; where few words are shared by all
_AHEAD_CYCLES = 200_000  # in which all that is to be timed is asked for
_VISITS = 12  # of each line before single ones are timed
_SINGLES, _FIRST = 512, 32  # accesses that each SM times, and others before them, which fill the instruction caches
LINE_BYTES, _BIN_CYCLES = 128, 32
AT_ONCE = 4  # accesses in flight of a thread
NEXT_RANDOM = "x = x * 1664525u + 1013904223u;"
RANDOM_INDEX = "__umul64hi((u64)(x ^ x >> 15) << 32, {})"


def packets_kernel(kind: str, width: int = 4) -> Kernel:
    """Return random loads, stores, or loads and stores of what was loaded to the same places elsewhere (`both`).

    size: bytes of an array; a: lanes to a place; b: bytes from lane to lane; c: bytes of a place; trips: of four.
    """
    name = f"packets_{kind}_b{width}"
    words = width // 4
    load, store = access(width, "data + at[i]", False), access(width, "to + at[i]", True)
    each = f"UNROLL for (int i = 0; i < {AT_ONCE}; i++)"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    draw = RANDOM_INDEX.format("places")
    text = f"""\
KERNEL({name}, 1024) {{
  u32 id = blockIdx.x * blockDim.x + threadIdx.x, x = id / a * 2654435761u + 12345u, sum = 0;
  u64 places = size / c, at[{AT_ONCE}];
  char *to = data + {"size" if kind == "both" else "0"};
  u32 v[{AT_ONCE}][{words}];
  {each} UNROLL for (int n = 0; n < {words}; n++) v[i][n] = id;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {each} {{ {NEXT_RANDOM} at[i] = {draw} * c + id % a * b; }}
    {f"{each} {load}" if kind != "store" else ""}
    {f"{each} {{ {fold} }}" if kind == "load" else f"{each} {store}"}
  }}
  KEEP(sum == 0x7FC12345)
}}
"""
    loads, stores = (0 if kind == "store" else AT_ONCE), (0 if kind == "load" else AT_ONCE)
    expect = {rf"LDG\.E{SUFFIX[width]}{SCOPE}": loads, rf"STG\.E{SUFFIX[width]}{SCOPE}": stores}
    facts = {"kind": kind, "width": width, "accesses": AT_ONCE}
    return Kernel(name, text, Expectation({k: n for k, n in expect.items() if n}, 120), facts=facts)


ASKED = {
    "atomic": ("atom.global.or.b32 %0, [%1], 0;", r"ATOMG?\.E\.OR.*"),  # where the line is at home
    "load": ("ld.global.cg.u32 %0, [%1];", rf"LDG\.E{SCOPE}"),
}


def visits_kernel(kind: str, timed: bool) -> Kernel:
    """Return accesses to random ones of `size` lines: by all threads, or by a lane of each SM that times each of them.

    c: where the drawing begins; trips: of four, or single ones, at most 1024, whose cycles go to out from word 32 on.
    """
    name = f"{'timed' if timed else 'all'}_visits_{kind}"
    text, pattern = ASKED[kind]
    draw = f"{NEXT_RANDOM} char *p = data + (u64)__umulhi(x ^ x >> 15, (u32)size) * 128; u32 v;"
    ask = f'asm volatile("{text}" : "=r"(v) : "l"(p) : "memory");'
    if not timed:
        body = f"""\
  u32 x = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + c, sum = 0;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {AT_ONCE}; k++) {{ {draw} {ask} sum |= v; }}
  KEEP(sum == 0x7FC12345)"""
    else:
        body = f"""\
  __shared__ u32 taken[1024], last;
  if (threadIdx.x) return;
  stamp_begin(records);
  u64 c0 = cycles();
  u32 x = sm_id() * 2654435761u + c;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {draw}
    u32 begin = clock32();
    {ask}
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(shared_address(&last)), "r"(v) : "memory");
    taken[turn] = clock32() - begin;
  }}
  u64 c1 = cycles();
  for (u32 i = 0; i < trips; i++) ((u32 *)(out + 32))[(u64)blockIdx.x * trips + i] = taken[i];
  record(records, c0, c1, trips);"""
    expect = Expectation({pattern: 1 if timed else AT_ONCE}, 40 if timed else 80)
    return Kernel(name, f"KERNEL({name}, {32 if timed else 1024}) {{\n{body}\n}}\n", expect, facts={"kind": kind})


def entries() -> list[Entry]:
    """Return the measurements: packets to L2 and to DRAM, what L2 has to write back, how many lines it holds."""
    spans = tuple((32, stride, 32 * stride) for stride in (16, 32, 64, 128))
    stores = packets_kernel("store"), packets_kernel("store", 16)
    both = packets_kernel("both"), packets_kernel("both", 16)
    visits = tuple(visits_kernel(kind, timed) for kind in ASKED for timed in (False, True))
    l2, pairs = {"bytes": 16 * MIB, "shapes": spans}, ((2, 16, 32), (1, 0, 16))
    return [
        Entry("packets.load", (packets_kernel("load"),), measure_packets,
              "loads from L2 by the sectors of a line", l2, weight=0.3),
        Entry("packets.store", stores, measure_packets,
              "stores to L2 by the sectors of a line, whole or in part", l2, weight=0.3),
        Entry("packets.both", both, measure_packets, "loads and stores of the same packets",
              {**l2, "bytes": 8 * MIB}, weight=0.3),
        Entry("packets.dram.load", (packets_kernel("load"),), measure_packets,
              "loads of sectors anywhere in DRAM", {"bytes": 2 * GIB, "shapes": ((1, 0, 32),)}, weight=0.2),
        Entry("packets.dram.store", (packets_kernel("store", 16),), measure_packets,
              "stores of sectors and of halves of sectors anywhere in DRAM", {"bytes": 8 * GIB, "shapes": pairs},
              weight=0.3),
        Entry("bandwidth.l2.dirty", (bandwidth_kernel(0, 1, 16), bandwidth_kernel(1, 0, 16)),
              measure_written, "how much of what was written L2 keeps", weight=0.5),
        Entry("resident.l2", visits, measure_residence,
              "how many lines L2 holds, each at one place, or read by all",
              {"of": 30, "parts": [4, 8, *range(12, 37), 40, 48, 60, 120, 1920],
               "quick_parts": [8, 14, 15, 16, 18, 24, 28, 29, 30, 31, 32]}, weight=0.5),
    ]  # fmt: skip


def twice(lab: Laboratory, name: str, trips: int, **given: Any) -> dict[str, float]:
    """Return the seconds of a launch with so many trips and with twice as many."""
    seconds = []
    for times in (trips, 2 * trips):
        lab.launch("blocks", 1, 32, size=_AHEAD_CYCLES)  # the others wait behind it, one close to the other
        lab.gpu.mark(0)
        lab.launch(name, BLOCKS_PER_SM * lab.facts.sm_count, THREADS, trips=times, **given)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def measure_packets(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure every kernel with the entry's shapes: lanes to a place, bytes from lane to lane, bytes of a place."""
    size = entry.parameters["bytes"]
    if 2 * size + GIB > lab.data_bytes:
        return
    for kernel in entry.kernels:
        for lanes, pitch, piece_bytes in entry.parameters["shapes"]:
            if lanes > 1 and pitch < kernel.facts["width"]:
                continue
            given = {"size": size, "a": lanes, "b": pitch, "c": piece_bytes}
            threads = BLOCKS_PER_SM * lab.facts.sm_count * THREADS
            point = {"bytes": size, "lanes": lanes, "apart": pitch, "place": piece_bytes, **kernel.facts,
                     "threads": threads, "trips": TRIPS}  # fmt: skip
            twice(lab, kernel.name, TRIPS, **given)  # loads the kernel, fills the L2 cache
            for repetition in range(2 * effort.repetitions):
                values = lab.watched(partial(twice, lab, kernel.name, TRIPS, **given))
                yield {**point, "repetition": repetition}, values
    lab.forget()


def measure_written(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Write some bytes, then read many others: how much longer that takes by how much was written.

    While the L2 cache keeps all that was written, each further byte must be written back while the others are read;
    beyond, it was written back before.
    """
    write, read = entry.kernels
    many = 256 * MIB
    for size in [MIB * n for n in (0, 8, 16, 20, 24, 28, 32, 40, 64, 96, 128)]:
        for repetition in range(8 * effort.repetitions):
            values = lab.watched(partial(_read_behind, lab, write.name, read.name, size, many))
            yield {"bytes": size, "read": many, "repetition": repetition}, values
    lab.forget()


def _read_behind(lab: Laboratory, write: str, read: str, size: int, many: int) -> dict[str, float]:
    lab.launch("blocks", 1, 32, size=500_000)  # the others wait behind it, one close to the other
    lab.flush()
    if size:
        lab.launch(write, size // (256 * SLICE * 16), 256, size=size, trips=1, c=0x7FC12345)
    lab.gpu.mark(0)
    lab.launch(read, many // (256 * SLICE * 16), 256, size=many, trips=1, c=0x7FC12345, offset=GIB)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def measure_residence(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure L2's lines after random visits by all SMs to a footprint: how many of them it still has.

    A line that is asked for by atomics is at one place; one that is read may be kept in both halves of L2.
    """
    whole = lab.facts.attributes["l2_bytes"]
    for visit, single in (entry.kernels[:2], entry.kernels[2:]):
        for part in entry.parameters["quick_parts" if effort.quick else "parts"]:
            lines = whole * part // entry.parameters["of"] // LINE_BYTES
            if lines * LINE_BYTES + GIB > lab.data_bytes:
                continue
            for repetition in range(effort.repetitions):
                found = lab.watched(partial(_visited, lab, visit.name, single.name, lines, repetition))
                point = {"bytes": lines * LINE_BYTES, **single.facts, "repetition": repetition}
                yield point, found


def _visited(lab: Laboratory, visit: str, single: str, lines: int, repetition: int) -> dict[str, Any]:
    lab.flush()
    sms, seed = lab.facts.sm_count, repetition * 7919 + 12345
    threads = BLOCKS_PER_SM * sms * THREADS
    trips = -(-min(_VISITS * lines, 1 << 24) // (4 * threads))
    lab.launch(visit, BLOCKS_PER_SM * sms, THREADS, size=lines, trips=trips, c=seed)
    resident, many = lab.residency(single, 1), _FIRST + _SINGLES
    stamps.columns(lab.stamped(single, sms, 32, resident.shared, size=lines, trips=many, c=seed + 1))
    taken = lab.results(sms * many).reshape(sms, many)[:, _FIRST:]
    counts = np.bincount(np.minimum(taken // _BIN_CYCLES, 63).ravel().astype(int))
    return {"mean_cycles": round(float(taken.mean()), 2), "bin_cycles": _BIN_CYCLES, "histogram": counts.tolist()}


_LEVEL = 1.04  # up to where latency is that of small footprints
_DRAM_BYTES = 64  # half of a line, that DRAM gives for a sector


def _packet_seconds(point: Point, values: dict[str, Any]) -> float:
    """Return the seconds per packet: of one access of a group of lanes to one line."""
    packets = max(1, point["place"] // LINE_BYTES) * point["threads"] / point["lanes"]
    return float((values["seconds_2n"] - values["seconds_n"]) / (packets * point["accesses"] * point["trips"]))


def derive_random_access(samples: Samples) -> Iterator[Number]:
    """Derive bytes of sectors per second where every lane of a load is somewhere else, by footprint."""
    clock, entry = samples.head["reference_ghz"] * 1e9, "stream.random"
    most = samples.head["facts"]["attributes"]["threads_per_sm_max"] // LANES

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        return float(values["rate"] * point["chains"] * LANES * SECTOR_BYTES * clock)

    by_size = samples.take(entry, rate, "bytes", warps=most)
    if len(by_size) < 2:
        return
    sizes = sorted(by_size)
    worst = max(by_size[size].spread for size in sizes)
    how = (
        f"4-byte loads, every lane in another sector, {most} warps per SM; medians, spread at most {100 * worst:.2g} %"
    )
    yield Number("random_access.footprint_bytes", [float(size) for size in sizes], entry, how)
    found = [digits(by_size[size].median) for size in sizes]
    yield Number("random_access.sector_bytes_per_second", found, entry, how)


def derive_packets(samples: Samples) -> Iterator[Number]:
    """Derive the seconds of L2 per packet and per sector, of loads and stores; a packet is a part in one line."""

    shapes = [(width, pitch) for width in (4, 16) for pitch in (16, 32, 64, 128)]
    load, store, both = (
        samples.take(f"packets.{kind}", _packet_seconds, "width", "apart") for kind in ("load", "store", "both")
    )
    if not (load.keys() >= {(4, 128), (4, 32)} and store.keys() >= set(shapes) and both.keys() >= set(shapes)):
        return
    one, two, four = (store[4, pitch] for pitch in (128, 64, 32))
    sector = ((four.median - one.median) / 3 + (two.median - one.median) + (four.median - two.median) / 2) / 3
    whole = store[16, 16]
    more = [both[shape].median - store[shape].median for shape in shapes]
    how = "what loads add to stores of the same packets, mean over widths and strides: "
    how += f"{1e12 * min(more):.1f} to {1e12 * max(more):.1f} ps"
    yield Number("packets.load_request_seconds", digits(float(np.mean(more)), 3), "packets.both", how)
    yield from number("packets.load_reply_seconds", load[4, 128], "packets.load",
                      "loads of one sector of each line", worth=3)  # fmt: skip
    yield from number("packets.load_sector_seconds", load[4, 32], "packets.load",
                      "loads of four sectors of each line", 1 / 4, 3)  # fmt: skip
    how = f"stores to one sector of each line, less the sector; {one}"
    yield Number("packets.store_seconds", digits(one.median - sector, 3), "packets.store", how)
    how = f"16-byte stores of whole lines, less the packet; {whole}"
    sectors = (whole.median - one.median + sector) / 4
    yield Number("packets.store_sector_seconds", digits(sectors, 3), "packets.store", how)
    how = f"stores of 4 bytes to 1, 2, 4 sectors of each line: slope; {four}"
    yield Number("packets.partial_sector_seconds", digits(sector, 3), "packets.store", how)


def derive_anywhere(samples: Samples) -> Iterator[Number]:
    """Derive the bytes per second of DRAM where every address is somewhere else."""
    for key, entry, piece_bytes, each, how in (
        ("load", "load", 32, _DRAM_BYTES, "loads, every lane in a sector somewhere in 2 GiB: half a line each"),
        ("store", "store", 32, 32, "stores of 32 bytes somewhere in 8 GiB"),
        ("partial_store", "store", 16, 32, "stores of 16 bytes somewhere in 8 GiB, a sector each"),
    ):
        taken = samples.one(f"packets.dram.{entry}", _packet_seconds, place=piece_bytes)
        if taken:
            rate = Reading(tuple(each / seconds for seconds in taken.all))
            yield from number(f"scattered.dram_{key}_bytes_per_second", rate, f"packets.dram.{entry}", how, worth=3)


def derive_written(samples: Samples) -> Iterator[Number]:
    """Derive how many bytes the L2 cache keeps that must be written back."""
    entry = "bandwidth.l2.dirty"
    found = samples.take(entry, lambda p, v: v["seconds"], "bytes")
    if len(found) < 6:
        return
    sizes = np.array(sorted(found), float)
    taken = np.array([found[int(n)].median for n in sizes])

    def fit(kept: float) -> tuple[float, float]:
        """Return the error of start + slope min(size, kept), and the slope."""
        basis = np.stack([np.ones_like(sizes), np.minimum(sizes, kept)], axis=1)
        best, *_ = np.linalg.lstsq(basis, taken, rcond=None)
        return float(((basis @ best - taken) ** 2).sum()), float(best[1])

    kept = min(np.arange(8e6, 64e6, 0.5e6).tolist(), key=lambda n: fit(n)[0])
    how = (
        "reading 256 MiB takes longer, the more was written before, up to so many bytes: least squares over "
        f"{len(sizes)} sizes, {1e-12 / fit(kept)[1]:.1f} TB/s"
    )
    yield Number("cache.l2_dirty_bytes", digits(kept, 3), entry, how)


def derive_residence(samples: Samples) -> Iterator[Number]:
    """Derive the largest footprint that the L2 cache holds: by atomics, each line at one place; by loads of all SMs."""
    entry, whole = "resident.l2", samples.head["facts"]["attributes"].get("l2_bytes", 0)
    for kind, key in (("atomic", "cache.l2_resident_bytes"), ("load", "cache.l2_hit_by_all_bytes")):
        taken = samples.take(entry, lambda p, v: v["mean_cycles"], "bytes", kind=kind)
        if taken:
            yield reach(key, taken, _LEVEL, entry, max(whole // 3, min(taken)))
