"""Queues before units, barriers beside shared memory, strips that drift apart, cold code.

`queue` notes when each of several instructions in a row was issued: how far issue runs ahead of the unit that they go
to is what the places before it hold. `turns` has accesses to shared memory and a barrier, or none. `strips` copies
columns of a table whose rows begin at whole sectors or not. `straight` runs through code once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.gpu_session import SCHEDULERS, Laboratory, Residency
from warplens.laboratory.plan import NEVER, Effort, Entry, Sample, between_events, kept
from warplens.laboratory.samples import Number, Point, Samples, digits, per_link
from warplens.laboratory.source import LANES, SCOPE, ZERO_AT, Expectation, Kernel

ACCESSES = (4, 8, 16)  # of shared memory in a turn
AT_ONCE = 4  # rows that a thread of a strip loads before it stores them
WORDS, ROWS = 4096, 32768  # of the table that strips are cut from
LENGTHS = (1024, 4096, 6144, 7168, 8192, 12288)  # of code, in instructions
COPY_AT = 1 << 30  # byte of the data where the copy of the table begins
# What goes to a unit: PTX, its register's type and C type, its machine code, what is changed in it.
_QUEUES = {
    "mufu": ("rsqrt.approx.ftz.f32 %0, %0;", "f", "float", r"MUFU\.RSQ", "stall MUFU.2"),
    "lds": ("ld.shared.u32 %0, [%0];", "r", "u32", r"LDS(\.U)?", ""),
}
QUEUED = {"mufu": (2, 3, 4, 12, 16), "lds": (2, 4, 8, 12, 16, 20, 24, 32, 40, 48)}  # instructions in a row


def queue_kernel(unit: str, count: int) -> Kernel:
    """Return the kernel of so many independent instructions of one unit back to back, and a wait for their results.

    a: words from lane to lane in shared memory, where a word holds its own address. Counted are the cycles from before
    the first until the last was issued, whose result nobody waits for then.
    """
    ptx, register, kind, pattern, patch = _QUEUES[unit]
    name = f"queue_{unit}_{count}"
    first = "((volatile float *)out)[i % 4]" if unit == "mufu" else "mine"
    text = f"""\
KERNEL({name}, 128) {{
  __shared__ u32 words[1024];
  __shared__ volatile {kind} last[4];
  for (u32 i = threadIdx.x; i < 1024; i += blockDim.x) words[i] = shared_address(words + i);
  u32 mine = shared_address(words + threadIdx.x % 32 * a);
  u64 issuing = 0, zero = ((volatile u32 *)((char *)out + threadIdx.x * b))[{ZERO_AT // 4}];
  {kind} v[{count}], sum;
  UNROLL for (int i = 0; i < {count}; i++) v[i] = {first};
  PASSES {{
    START_TOGETHER
    issuing = zero;
    LOOP {{
      u64 from = cycles();
      UNROLL for (int i = 0; i < {count}; i++) asm volatile("{ptx}" : "+{register}"(v[i]) :: "memory");
      issuing += cycles() - from;
      sum = 0;
      UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
      last[threadIdx.x / 32] = sum;  // the next clock waits for all
    }}
    STOP
  }}
  record(records, c0, c1, issuing);
}}
"""
    expect = Expectation({pattern: count}, 2 * count + 40, True)
    return Kernel(name, text, expect, facts={"unit": unit, "count": count}, patch=patch)


def barrier_kernel(store: bool, count: int, barrier: bool) -> Kernel:
    """Return the kernel of iterations of so many reads of shared memory, or stores, and a barrier, or none."""
    name = f"meeting_{'store' if store else 'read'}{count}" + ("" if barrier else "_none")
    address = "at + 128 * (k % 4)"
    one = f'asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[k]) : "r"({address}) : "memory"); '
    if store:
        one = f'asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"({address}), "r"(turn) : "memory"); '
    text = f"""\
KERNEL({name}, 128) {{
  __shared__ u32 tile[128];
  u32 at = shared_address(tile + threadIdx.x % 32), v[{count}] = {{}}, sum = 0;
  PASSES {{
    START_TOGETHER
    LOOP {{
      UNROLL for (int k = 0; k < {count}; k++) {{ {one}}}
      UNROLL for (int k = 0; k < {count}; k++) sum ^= v[k];
      {'asm volatile("bar.sync 0;" ::: "memory");' if barrier else ""}
    }}
    STOP
  }}
  KEEP(sum == c + 1)
  record(records, c0, c1, trips);
}}
"""
    expect = {r"STS" if store else r"LDS(\.U)?": count, **({r"BAR\.SYNC.*": 1} if barrier else {})}
    facts = {"store": store, "accesses": count, "barrier": barrier}
    return Kernel(name, text, Expectation(expect, 20 + count), facts=facts)


def strips_kernel(width: int) -> Kernel:
    """Copy strips of so many words of a table from top to bottom, four rows at once, turn by turn (`trips`).

    size: words from row to row; a: words from a line to where rows begin. Neighbours begin together and drift apart.
    """
    name, threads = f"strips_{width}", max(128, width)
    high, each = threads // width, f"UNROLL for (int k = 0; k < {AT_ONCE}; k++)"
    load = 'asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[k]) : "l"(in + at + k * step));'
    text = f"""\
KERNEL({name}, {threads}) {{
  const float *in = (const float *)data;
  float *to = (float *)(data + {COPY_AT}u), sum = 0, v[{AT_ONCE}];
  u64 down = blockIdx.x / {WORDS // width} * (u64)trips * {AT_ONCE * high} + threadIdx.x / {width};
  u64 at = down * size + blockIdx.x % {WORDS // width} * {width} + threadIdx.x % {width} + a, step = {high} * size;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {each} {load}
    {each} sum += v[k];
    {each} to[at + k * step] = v[k] + sum;
    at += {AT_ONCE} * step + (sum == 12345.0f);
  }}
}}
"""
    expect = {rf"LDG\.E{SCOPE}": AT_ONCE, rf"STG\.E{SCOPE}": AT_ONCE}
    facts = {"words": width, "rows": AT_ONCE * high}
    return Kernel(name, text, Expectation(expect, 60), facts=facts)


def straight_kernel(length: int) -> Kernel:
    """Return the kernel of so many dependent multiply-adds, once: what they take when their code is in no cache."""
    name = f"straight_{length}"
    text = f"""\
KERNEL({name}, 32) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  UNROLL for (int i = 0; i < {length}; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  KEEP(x == 12345.0f)
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 40, True, loop=False), facts={"links": length, "chains": 1})


_QUEUE_TRIPS = 100
_MEETING_ACCESSES = 6400  # of a warp: long enough for a clock while the data path is busy
CONFLICT_WORDS = 32  # from lane to lane: all in one bank, so that an access takes 32 cycles
BLOCK_WARPS = 4  # of the blocks that meet: as many of them as fit, so that others always have something to ask for
ITERATIONS = (2, 4, 8, 16, 32)  # of a strip
_COPIES = 20  # of each in a sample
SHIFTS = (1, 8)  # words from a line to where a row begins: in the middle of a sector, and at a whole one


def measure_queues(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure so many instructions of one unit in a row: cycles until the last issues; one warp, one per scheduler."""
    lab.operands("f")
    for kernel in entry.kernels:
        for warps in (1, SCHEDULERS):
            resident = lab.residency(kernel.name, warps)
            for repetition in range(effort.repetitions):
                values = lab.steady(partial(_issuing, lab, kernel, resident))
                yield {"warps": warps, **kernel.facts, "repetition": repetition}, values


def _issuing(lab: Laboratory, kernel: Kernel, resident: Residency) -> dict[str, float]:
    """Return the cycles until the last instruction of a row was issued: mean over warps, and the longest."""
    given = {"trips": _QUEUE_TRIPS, "a": CONFLICT_WORDS, "c": NEVER}
    records = lab.stamped(kernel.name, lab.facts.sm_count, resident.threads, resident.shared, **given)
    sample, each = stamps.reduce(records), stamps.columns(records)["count"] / _QUEUE_TRIPS
    return {"issuing": round(float(each.mean()), 3), "longest": round(float(each.max()), 3), **kept(sample),
            "span_ns": sample["span_ns"]}  # fmt: skip


def measure_barriers(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure blocks of four warps, as many as fit, in iterations of shared-memory accesses and a barrier: N and 2N."""
    warps = lab.facts.warps_per_sm_max
    for kernel in entry.kernels:
        resident = lab.residency(kernel.name, warps, threads=32 * BLOCK_WARPS)
        grid = resident.blocks_per_sm * lab.facts.sm_count
        iterations = _MEETING_ACCESSES // kernel.facts["accesses"]
        for repetition in range(effort.repetitions):
            values: dict[str, float] = {}
            for suffix, trips in (("_n", iterations), ("_2n", 2 * iterations)):
                sample = lab.sample(kernel.name, grid, resident.threads, resident.shared, trips=trips, c=NEVER)
                values |= {**kept(sample, suffix), f"mean_span_cycles{suffix}": round(sample["mean_span_cycles"], 2)}
            point = {"warps": warps, "blocks": resident.blocks_per_sm, "turns": iterations, **kernel.facts}
            yield {**point, "repetition": repetition}, values


def measure_strips(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure strips of a table copied from top to bottom, half and all of it, by width, iterations and shift of rows.

    The GPU may lower its clock for them, on some more than on others: they are watched by the clock that they hold.
    """
    if lab.data_bytes < 2 * COPY_AT:
        return
    for kernel in entry.kernels:
        for shift in SHIFTS:
            copied = partial(_copied, lab, kernel.name, kernel.facts, shift)
            with lab.at_own_clock(partial(lab.clocked, partial(copied, ITERATIONS[0], 3))):
                for iterations in ITERATIONS:
                    for repetition in range(2 * effort.repetitions):
                        point = {"turns": iterations, "shift": shift, **kernel.facts, "repetition": repetition}
                        yield point, lab.watched(partial(copied, iterations))
    lab.forget()


def _copied(
    lab: Laboratory, name: str, facts: dict[str, int], shift: int, iterations: int, copies: int = _COPIES
) -> dict[str, float]:
    """Return the seconds of half a table and of all of it: the mean of some turns, without the fastest and slowest."""
    blocks = WORDS // facts["words"] * (ROWS // (iterations * facts["rows"]))
    given = {"size": WORDS + 2 * shift, "trips": iterations, "a": shift}
    taken = np.sort([
        [between_events(lab, name, n, max(128, facts["words"]), **given)["seconds"] for n in (blocks // 2, blocks)]
        for _ in range(copies)
    ], axis=0)  # fmt: skip
    half, whole = taken[1:-1].mean(axis=0)
    return {"seconds_n": float(f"{half:.6g}"), "seconds_2n": float(f"{whole:.6g}")}


def measure_cold_code(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Measure long code on all SMs, one warp each, just after it ran and after L2 was filled with something else."""
    lab.operands("f")
    for kernel in entry.kernels:
        for flushed in (False, True):
            for repetition in range(5 * effort.repetitions):
                values = lab.watched(partial(_run_through, lab, kernel.name, flushed))
                yield {"flushed": flushed, **kernel.facts, "repetition": repetition}, values


def _run_through(lab: Laboratory, name: str, flushed: bool) -> dict[str, float]:
    if flushed:
        lab.flush()
    else:
        lab.launch(name, lab.facts.sm_count, 32, c=NEVER)
    return between_events(lab, name, lab.facts.sm_count, 32, c=NEVER)


def entries() -> list[Entry]:
    """Return the measurements of queues before units, barriers beside shared memory, strips, code in no cache."""
    meetings = [
        barrier_kernel(store, n, barrier) for store in (False, True) for n in ACCESSES for barrier in (False, True)
    ]
    return [
        Entry("wait.queue.sfu", tuple(queue_kernel("mufu", n) for n in QUEUED["mufu"]), measure_queues,
              "instructions that wait before the SFUs", weight=0.1),
        Entry("wait.queue.shared", tuple(queue_kernel("lds", n) for n in QUEUED["lds"]), measure_queues,
              "instructions that wait before shared memory", weight=0.1),
        Entry("wait.barrier", tuple(meetings), measure_barriers,
              "what a barrier takes of the data path of shared memory", weight=0.1),
        Entry("wait.strips", tuple(strips_kernel(w) for w in (16, 32, 64, 256, 1024)), measure_strips,
              "strips of a table, copied: sectors that two blocks or warps fill", {"own_clock": True}, weight=0.5),
        Entry("wait.code", tuple(map(straight_kernel, LENGTHS)),
              measure_cold_code, "code that L2 has lost", weight=0.2),
    ]  # fmt: skip


_KINDS = {"mufu_rsq": "sfu", "lds": "shared", "shfl": "shuffle"}
_MUFU_STALL = 2  # cycles from one MUFU to the next: their stall count
_WAITING = 8  # cycles of a warp per instruction of a row, from which on issue waits for the unit
_WORD_BYTES, _INSTRUCTION_BYTES = 4, 16
_SLOWER = 0.1  # of its own time, by which code that L2 has lost takes longer


def derive_sources(samples: Samples) -> Iterator[Number]:
    """Derive from issue until the sources have been read: from one to the next, which waits for that."""
    for name, kind in _KINDS.items():
        entry = f"wait.sources.{name}"
        taken = samples.one(entry, lambda p, v: per_link(p, v) / p["chains"], warps=1)
        if taken:
            how = f"one warp, each waits until the one before has read its sources, in whole cycles; {taken}"
            yield Number(f"instructions.{kind}.read_cycles", float(round(taken.median)), entry, how)


def derive_queues(samples: Samples) -> Iterator[Number]:
    """Derive how far the issue of a row of instructions runs ahead of their unit: the entries of its queue."""
    entry = "wait.queue.sfu"
    issuing = samples.take(entry, lambda p, v: v["issuing"], "count", warps=1)
    if len(issuing) > 3 and 2 in issuing:
        *_, fewer, many = sorted(issuing)
        each = (issuing[many].median - issuing[fewer].median) / (many - fewer)
        # the first is taken at once, the second waits, the third is issued when the second was taken, and so on
        late = issuing[many].median - issuing[2].median + _MUFU_STALL - each * (many - 2)
        how = (
            f"one warp, {many} in a row: one per {each:.2f} cycles, each issued so long after the one before was taken"
        )
        yield Number("sm.sfu_queue_release_cycles", float(round(late)), entry, f"{how}; {issuing[many]}")
    entry = "wait.queue.shared"
    longest = samples.take(entry, lambda p, v: v["longest"], "count", warps=SCHEDULERS)
    queued = {n: SCHEDULERS * n - r.median / CONFLICT_WORDS for n, r in longest.items() if r.median > _WAITING * n}
    if len(queued) > 2:
        listed = ", ".join(f"{n}: {queued[n]:.0f}" for n in sorted(queued))
        how = (
            f"a warp on each scheduler reads {CONFLICT_WORDS} words of one bank, so many times in a row: issued in all "
            f"less those done, one per {CONFLICT_WORDS} cycles, when the last is issued: {listed}; a quarter of these"
        )
        yield Number(
            "sm.queued_per_scheduler", float(round(float(np.median([*queued.values()])) / SCHEDULERS)), entry, how
        )


def derive_barriers(samples: Samples) -> Iterator[Number]:
    """Derive for how long the data path stands at a barrier: an iteration with one less an iteration without."""
    entry = "wait.barrier"

    def cycles(point: Point, values: dict[str, Any]) -> float:
        longer: float = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        return float(longer / (point["turns"] * point["blocks"]))

    taken = samples.take(entry, cycles, "store", "accesses", "barrier")
    both = [at[:2] for at in taken if at[2] and (*at[:2], False) in taken]
    more = {
        store: [taken[*at, True].median - taken[*at, False].median for at in both if at[0] == store]
        for store in (False, True)
    }
    if all(more.values()):
        reads, stores = (", ".join(f"{one:.1f}" for one in more[store]) for store in (False, True))
        how = (
            f"blocks of {BLOCK_WARPS} warps, as many as fit: cycles of a turn of some reads and a barrier less those "
            f"without, {reads}, of some stores, {stores}: mean of reads and stores, in whole cycles"
        )
        mean = (np.mean(more[False]) + np.mean(more[True])) / 2
        yield Number("sm.barrier_data_path_cycles", float(round(mean)), entry, how)


def derive_split_sectors(samples: Samples) -> Iterator[Number]:
    """Derive what a sector takes of DRAM that two stores fill, if it leaves L2 in between, and when half of them do.

    Neighbours drift apart with the root of the turns, each of which waits: between two stores to a sector the threads
    in flight store what all of them store in their lives over that root.
    """
    entry = "wait.strips"
    taken = samples.take(entry, _row_seconds, "words", "turns", "shift")
    shapes = sorted({at[:2] for at in taken if all((*at[:2], shift) in taken for shift in SHIFTS)})
    if len(shapes) < 10:
        return
    attributes = samples.head["facts"]["attributes"]
    in_flight = attributes["sm_count"] * attributes["threads_per_sm_max"]
    split, whole = SHIFTS
    words, iterations = np.array(shapes, float).T
    own = np.minimum(1.0, LANES / words)  # of the ends of a warp's words those that are a block's
    per_row = np.maximum(1.0, LANES / words)
    more = np.array([taken[*at, split].median - taken[*at, whole].median for at in shapes]) / per_row
    between = _WORD_BYTES * in_flight * AT_ONCE * np.sqrt(iterations)

    grid = np.geomspace(1e6, 1e8, 921)  # steps of half a percent
    gone = 1 / (1 + (grid[:, None] / between) ** 2)
    of_blocks, of_warps = own * gone, (1 - own) * gone
    # for each pair of the grid, least squares of the seconds: with left = of_blocks + of_warps, left.more / left.left
    both = np.add.outer(of_blocks @ more, of_warps @ more)
    squares = np.add.outer((of_blocks**2).sum(1), (of_warps**2).sum(1)) + 2 * of_blocks @ of_warps.T
    b, w = np.unravel_index(np.argmax(both**2 / squares), both.shape)
    blocks, warps, seconds = grid[b], grid[w], both[b, w] / squares[b, w]
    error = (more @ more - both[b, w] * seconds) / len(more)
    how = f"copies of {AT_ONCE} rows at once, one word off the sectors less at whole ones: least squares of three"
    how += f" numbers over {len(shapes)} widths and turns, {1e12 * np.sqrt(error):.1f} ps off (rms)"
    for key, value in (("sector_seconds", seconds), ("blocks_bytes", blocks), ("warps_bytes", warps)):
        yield Number(f"scattered.split_{key}", digits(float(value), 3), entry, how)


def _row_seconds(point: Point, values: dict[str, Any]) -> float:
    """Return the seconds that the copy of 32 words takes, of the second half of the table."""
    return float((values["seconds_2n"] - values["seconds_n"]) / (WORDS * ROWS / 2 / LANES))


def derive_cold_code(samples: Samples) -> Iterator[Number]:
    """Derive straight code after a flush of L2: how much of it is kept elsewhere, cycles per instruction beyond."""
    entry, clock = "wait.code", samples.head["reference_ghz"] * 1e9
    taken = samples.take(entry, lambda p, v: v["seconds"] * clock, "links", "flushed", chains=1)
    more = {n: taken[n, True].median - at.median for (n, flushed), at in taken.items() if not flushed}
    kept = [n for n, longer in more.items() if longer < _SLOWER * taken[n, False].median]
    beyond = sorted(n for n in more if kept and n > max(kept))
    if not beyond:
        return
    start = float(np.median([more[n] for n in kept]))  # arguments and first instructions
    each = (more[beyond[-1]] - start) / (beyond[-1] - max(kept))
    listed = ", ".join(f"{n}: {more[n]:.0f}" for n in sorted(more))
    how = f"dependent multiply-adds on all SMs, cycles more after a flush of L2, by their number: {listed}; "
    kept_bytes = float(max(kept) * _INSTRUCTION_BYTES)
    yield Number("instruction_cache.kept_bytes", kept_bytes, entry, f"{how}the last that take less than a tenth longer")
    how += f"{beyond[-1]} less those, per instruction"
    yield Number("instruction_cache.cold_interval_cycles", digits(each, 3), entry, how)
