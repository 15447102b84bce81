"""Bytes per second by level, width, stride and mix of loads and stores; sectors and lines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from warplens.laboratory.gpu_session import GIB, KIB, MIB, Laboratory, Unfit
from warplens.laboratory.plan import Effort, Entry, Sample, kept, some_sm, trips_for
from warplens.laboratory.samples import Number, Reading, Samples, number
from warplens.laboratory.source import HINT, LANES, SCOPE, Expectation, Kernel

_KIND = {4: "u32", 8: "v2.u32", 16: "v4.u32"}
SUFFIX = {4: "", 8: r"\.64", 16: r"\.128"}
SLICE = 16  # accesses of a thread in one block's piece of the array
_GROUP = 8  # accesses in flight


def access(width: int, address: str, store: bool, hint: str = "") -> str:
    """Return one access of v[i] in inline assembly."""
    words = range(width // 4)
    registers = "{" + ", ".join(f"%{n + store}" for n in words) + "}" if width > 4 else f"%{int(store)}"
    values = ", ".join(f'"{"" if store else "="}r"(v[i][{n}])' for n in words)
    if store:
        return f'asm volatile("st.global.{_KIND[width]} [%0], {registers};" :: "l"({address}), {values} : "memory");'
    return f'asm volatile("ld.global{hint}.{_KIND[width]} {registers}, [%{len(words)}];" : {values} : "l"({address}));'


def bandwidth_kernel(reads: int, writes: int, width: int = 16, stride: int = 1, once: bool = False) -> Kernel:
    """Stream once through arrays with many small blocks: so many arrays read, so many written, from DRAM to DRAM.

    Array j begins size bytes after the one before; a block does its piece of every array and leaves. With a stride a
    thread's elements are so many elements from its neighbour's, and nobody reads what lies between. `once`: a thread
    makes one access to each array, as most kernels do; the piece of a block is then 256 accesses, not 4096.
    """
    name, words = f"bandwidth_r{reads}_w{writes}_b{width}" + (f"_s{stride}" if stride > 1 else ""), width // 4
    name += "_once" if once else ""
    pitch, slice_, group = width * stride, *((1, 1) if once else (SLICE, _GROUP))
    each = "UNROLL" if once else '_Pragma("unroll 1")'
    at = f"at + (u64)i * blockDim.x * {pitch}"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    text = f"""\
KERNEL({name}, 256) {{
  u32 sum = 0, v[{group}][{words}];
  UNROLL for (int i = 0; i < {group}; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = trips + n;
  char *at = data + ((u64)blockIdx.x * blockDim.x * {slice_} + threadIdx.x) * {pitch};
  u64 next = (u64){group} * blockDim.x * {pitch} - size * {reads + writes};
  _Pragma("unroll 1") for (u32 half = 0; half < {slice_ // group}; half++, at += next) {{
    {each} for (u32 j = 0; j < {reads}; j++, at += size) {{
      UNROLL for (int i = 0; i < {group}; i++) {access(width, at, False)}
      UNROLL for (int i = 0; i < {group}; i++) {{ {fold} }}
    }}
    {each} for (u32 j = 0; j < {writes}; j++, at += size)
      UNROLL for (int i = 0; i < {group}; i++) {access(width, at, True)}
  }}
  KEEP(sum == c)
}}
"""
    loads, stores = (reads, writes) if once else (group if reads else 0, group if writes else 0)
    expect = {rf"LDG\.E{SUFFIX[width]}{SCOPE}": loads, rf"STG\.E{SUFFIX[width]}{SCOPE}": stores}
    facts = {"reads": reads, "writes": writes, "width": width, "stride": stride, "slice": slice_}
    return Kernel(name, text, Expectation(expect, 2000, True, loop=False), facts=facts)


def resident_kernel(level: str, width: int = 16, store: bool = False, stride: int = 1) -> Kernel:
    """Return the kernel of independent loads or stores of the same lines over and over: bandwidth of the caches.

    Blocks have 1024 threads, `stride` elements of `width` bytes apart, and make `trips` trips of 8 accesses each, 4 of
    16 bytes; what is added to the block's beginning, blockIdx.x * a, stands in the instructions. With strides the
    accesses of a trip fall between one another, as far as there is room. b: 0, which the compiler does not know. size:
    one more than the only SM that works, or 0.
    """
    name = f"{'store' if store else 'load'}_{level}_b{width}_s{stride}"
    words, step, group = width // 4, 1024 * width * stride, 4 if width == 16 else 8
    inside = f"at + (i % {stride} * {width} + i / {stride} * {step})"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    text = f"""\
KERNEL({name}, 1024) {{
  if (size && sm_id() != (u32)size - 1) return;
  u32 sum = 0, v[{group}][{words}];
  UNROLL for (int i = 0; i < {group}; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = threadIdx.x + n;
  char *at = data + (u64)blockIdx.x * a + threadIdx.x * {width * stride};
  PASSES {{
    START_TOGETHER
    LOOP {{
      UNROLL for (int i = 0; i < {group}; i++) {access(width, inside, store, HINT[level])}
      {"" if store else f"UNROLL for (int i = 0; i < {group}; i++) {{ {fold} }}"}
      at += b;
    }}
    STOP
  }}
  KEEP(sum == c)
  record(records, c0, c1, trips * {group}ull);
}}
"""
    expect = {rf"{'STG' if store else 'LDG'}\.E{SUFFIX[width]}{SCOPE}": group}
    facts = {
        "level": level,
        "width": width,
        "store": store,
        "stride": stride,
        "reach": -(-group // stride) * step,
        "accesses": group,
    }
    return Kernel(name, text, Expectation(expect, 20 + group * words), facts=facts)


_FIRST_LEVEL_BYTES = 200 * KIB  # what surely lies in the first level, if it is given all that it may have


def measure_dram(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Stream through arrays of N and 2N bytes: the difference of the times is that of N bytes."""
    for kernel in entry.kernels:
        reads, writes, width = (kernel.facts[key] for key in ("reads", "writes", "width"))
        piece = 256 * kernel.facts["slice"] * width * kernel.facts["stride"]
        size = min(GIB, (lab.data_bytes - GIB) // (reads + writes) // 2) // piece * piece
        lab.launch(kernel.name, 1, 256, size=2 * size, trips=1, c=0x7FC12345)  # loads the kernel
        for repetition in range(4 * effort.repetitions):  # each is known to a percent, and the best counts
            point = {"bytes": size * (reads + writes), **kernel.facts, "repetition": repetition}
            yield point, lab.watched(partial(_streamed, lab, kernel.name, size, piece))
            if writes:
                lab.forget()


def _streamed(lab: Laboratory, name: str, size: int, piece: int) -> dict[str, float]:
    """Return the seconds of streaming through so many bytes of each array, and through twice as many."""
    seconds = []
    for bytes_each in (size, 2 * size):
        lab.flush()
        lab.gpu.mark(0)
        lab.launch(name, bytes_each // piece, 256, size=2 * size, trips=1, c=0x7FC12345)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def measure_copy(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure the driver's own copy within the GPU's memory, to compare with; counted both ways."""
    size = min(2 * GIB, (lab.data_bytes - GIB) // 2)
    lab.gpu.copy(lab.data + size, lab.data, size)
    for repetition in range(effort.repetitions):
        yield {"bytes": 2 * size, "repetition": repetition}, lab.watched(partial(_copied, lab, size))
    lab.forget()


def _copied(lab: Laboratory, size: int) -> dict[str, float]:
    lab.gpu.mark(0)
    lab.gpu.copy(lab.data + size, lab.data, size)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def measure_written_back(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Write the same bytes over and over, four times and eight, over growing footprints: what stays in the L2 cache."""
    kernel = entry.kernels[0]
    piece = 256 * SLICE * kernel.facts["width"]
    for size in [MIB * n for n in (2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512)]:
        for repetition in range(effort.repetitions):
            point = {"bytes": size, "passes": 4, **kernel.facts, "repetition": repetition}
            yield point, lab.watched(partial(_overwritten, lab, kernel.name, size, size // piece))
    lab.forget()


def _overwritten(lab: Laboratory, name: str, size: int, blocks: int) -> dict[str, float]:
    seconds = []
    for passes in (4, 8):
        lab.flush()
        lab.launch("blocks", 1, 32, size=1_000_000)  # the launches wait behind it, one close to the other
        lab.gpu.mark(0)
        for _ in range(passes):
            lab.launch(name, blocks, 256, size=size, trips=1, c=0x7FC12345)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def measure_caches(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure loads and stores of the same lines over and over: T and 2T trips, all SMs and one."""
    where = entry.parameters["where"]
    for kernel in entry.kernels:
        reach = kernel.facts["reach"]
        for warps in (32, lab.facts.warps_per_sm_max):
            try:
                resident = lab.residency(kernel.name, warps, limit=where != "l1")
            except Unfit:
                continue
            if where == "l1":
                lab.gpu.carve_out(lab.function(kernel.name), 0)
            each = reach * resident.blocks_per_sm
            if (
                each > _FIRST_LEVEL_BYTES
                if where == "l1"
                else 3 * each * lab.facts.sm_count > lab.facts.attributes["l2_bytes"]
            ):
                continue
            given = {"a": reach, "c": 0x7FC12345}
            trips = max(8, trips_for(lab, kernel.name, resident, **given))
            for sms in (lab.facts.sm_count, 1):
                if sms == 1 and resident.blocks_per_sm > 1:  # not all blocks would be on an SM of their own
                    continue
                point = {"where": where, "warps": warps, "sms": sms, "trips": trips, **kernel.facts}
                blocks = resident.blocks_per_sm * lab.facts.sm_count
                for repetition in range((2 if sms == 1 else 1) * effort.repetitions):
                    values: dict[str, float] = {}
                    given["size"] = some_sm(lab, repetition) + 1 if sms == 1 else 0
                    for suffix, n in (("_n", trips), ("_2n", 2 * trips)):
                        sample = lab.sample(kernel.name, blocks, resident.threads, resident.shared, trips=n, **given)
                        values |= {**kept(sample, suffix), f"mean_span_cycles{suffix}": sample["mean_span_cycles"]}
                    yield {**point, "repetition": repetition}, values
    lab.forget()


def entries() -> list[Entry]:
    """Return the measurements of bytes per second by level, width, stride and mix of loads and stores."""
    shapes = [(1, 0, w) for w in (4, 8, 16)] + [(0, 1, w) for w in (4, 8, 16)]
    shapes += [(1, 1, 4), (1, 1, 8), (1, 1, 16), (2, 1, 16), (3, 1, 16), (1, 2, 16), (1, 3, 16)]
    found = [
        Entry(f"bandwidth.dram.r{r}w{w}.b{b}", (bandwidth_kernel(r, w, b),), measure_dram,
              "DRAM bandwidth: reads, writes and mixes", weight=0.3)
        for r, w, b in shapes
    ]  # fmt: skip
    found += [
        Entry(f"bandwidth.dram.r{r}w{w}.b16.once", (bandwidth_kernel(r, w, once=True),),
              measure_dram, "DRAM bandwidth: one access of a thread to each array", weight=0.3)
        for r, w in ((1, 0), (3, 1), (2, 1), (1, 1), (1, 2), (1, 3), (0, 1))
    ]  # fmt: skip
    found += [
        Entry(f"bandwidth.dram.s{s}", (bandwidth_kernel(1, 0, 4, s),), measure_dram,
              "DRAM bandwidth of 4-byte reads, every s-th word: every sector from 8 on fewer", weight=0.3)
        for s in (8, 16, 32, 64)
    ]  # fmt: skip
    found.append(Entry("bandwidth.dram.copy", (), measure_copy, "the driver's own copy", weight=0.2))
    found.append(
        Entry("bandwidth.l2.written_back", (bandwidth_kernel(0, 1, 16),), measure_written_back,
              "stores over and over the same bytes, by footprint", quick=False)
    )  # fmt: skip
    for where in ("l1", "l2"):
        widths = tuple(resident_kernel(where, b) for b in (4, 8, 16))
        # odd strides keep the words of a load in different banks of the first level
        strides = (2, 4, 8, 16, 32) + ((3, 5, 9, 17, 33) if where == "l1" else ())
        strided = tuple(resident_kernel(where, 4, stride=s) for s in strides)
        for name, kernels in (("width", widths), ("stride", strided)):
            found.append(
                Entry(f"bandwidth.{where}.{name}", kernels, measure_caches,
                      f"{where.upper()} bandwidth by {name}", {"where": where}, weight=0.7)
            )  # fmt: skip
    stores = tuple(resident_kernel("l2", b, store=True) for b in (4, 8, 16))
    stores += tuple(resident_kernel("l2", 4, store=True, stride=s) for s in (2, 8, 32))
    found.append(
        Entry("bandwidth.l2.store", stores, measure_caches, "L2 bandwidth of stores", {"where": "l2"},
              weight=0.5)
    )  # fmt: skip
    return found


LOWERED = ", in cycles of a clock that the GPU lowered for it"  # where nothing else was measured


def derive_dram(samples: Samples) -> Iterator[Number]:
    """Derive DRAM bandwidth of reads, writes and mixes; the best of reads is what is sustained."""
    best: tuple[float, str, Reading] | None = None
    for entry in samples.entries:
        if not entry.startswith("bandwidth.dram.r"):
            continue
        # the first repetition loads the kernel
        reading = Reading(
            tuple(
                p["bytes"] / (v["seconds_2n"] - v["seconds_n"])
                for p, v in samples.entries[entry]
                if p["repetition"] > 0 or len(samples.entries[entry]) == 1
            )
        )
        if not reading.all:
            continue
        _, _, mix, width, *once = entry.split(".")
        name = "_".join(["dram", {"r1w0": "read", "r0w1": "write"}.get(mix, mix), width[1:], *once])
        key = f"bandwidth.{name}.bytes_per_second"
        yield from number(key, reading, entry, "2N bytes less N, without the first repetition")
        if mix == "r1w0" and (best is None or reading.median > best[0]):
            best = reading.median, entry, reading
    copy = samples.one("bandwidth.dram.copy", lambda p, v: p["bytes"] / v["seconds"])
    yield from number("bandwidth.dram_driver_copy.bytes_per_second", copy, "bandwidth.dram.copy", "read and written")
    if best:
        how = "best of 4, 8 and 16 bytes per access, 2N bytes less N"
        yield from number("memory.sustained_bytes_per_second", best[2], best[1], how)


def derive_caches(samples: Samples) -> Iterator[Number]:
    """Derive bandwidth of L1 and L2: loads by width and stride, stores; all SMs and one. Useful bytes count."""
    clock, sms = samples.head["reference_ghz"] * 1e9, samples.head["facts"]["attributes"]["sm_count"]

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        span = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        loads = point["trips"] * point.get("accesses", 8) * point["warps"]
        return float(loads * LANES * point["width"] / span)

    for level in ("l1", "l2"):
        for entry in (f"bandwidth.{level}.width", f"bandwidth.{level}.stride", f"bandwidth.{level}.store"):
            by, hot = (
                samples.take(entry, rate, "width", "stride", "sms", "warps", off_clock=off) for off in (False, True)
            )
            for width, stride in sorted({key[:2] for key in (*by, *hot)}):
                name = f"bandwidth.{level}_{'store' if entry.endswith('store') else 'load'}_{width}"
                name += f"_stride_{stride}" if stride > 1 else ""
                for count, field in ((sms, "bytes_per_second"), (1, "one_sm_bytes_per_second")):
                    for taken, note in ((by, ""), (hot, LOWERED)):
                        found = {key[3]: r for key, r in taken.items() if key[:3] == (width, stride, count)}
                        if found:
                            warps, top = max(found.items(), key=lambda one: one[1].median)
                            how = f"{warps} warps per SM, 2T trips less T{note}"
                            yield from number(f"{name}.{field}", top, entry, how, clock * count)
                            break
    loads = samples.take("bandwidth.l2.width", rate, "width", "warps", sms=sms)
    if loads:
        (width, _), top = max(loads.items(), key=lambda one: one[1].median)
        how = f"best over widths: {width} bytes per thread"
        yield from number("cache.l2_bytes_per_second", top, "bandwidth.l2.width", how, clock * sms)
