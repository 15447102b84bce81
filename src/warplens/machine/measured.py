"""Tables of a machine file that only the laboratory fills (`warplens machine derive`): all of them optional."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from warplens.machine.quantities import (
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
    Interval,
    OpsPerCycle,
    Seconds,
    Section,
    Warps,
)


class Operation(Section, frozen=True):
    """One instruction of a class, or a short sequence that takes turns: `operations.fadd`, `operations.lds_128`.

    The latency is that of the whole sequence; the rate counts sequences, as operations of single threads. Issue slots
    are what one of them takes from adds that would fill them all.
    """

    kind: str | None = None
    instructions: Count | None = None
    latency_cycles: Interval | None = None
    peak_ops_per_cycle_per_scheduler: OpsPerCycle | None = None
    at_90_percent_warps_per_scheduler: Warps | None = None
    at_95_percent_warps_per_scheduler: Warps | None = None
    issue_slots: Annotated[float, Meta(ge=0.1, le=1000)] | None = None
    ilp_latency_cycles: Interval | None = None


class Tensor(Section, frozen=True):
    """One matrix instruction: `tensor.f16` of a warp (mma.sync), `tensor.group_f16_256` of four warps (wgmma)."""

    latency_cycles: Interval | None = None
    peak_flops_per_cycle_per_sm: OpsPerCycle | None = None
    at_90_percent_warps_per_scheduler: Warps | None = None
    at_95_percent_warps_per_scheduler: Warps | None = None


class Atomic(Section, frozen=True):
    """Atomic additions in one pattern of addresses: `atomics.global_spread`; a thread's addition is one operation."""

    latency_cycles: Cycles | None = None
    peak_ops_per_cycle_per_sm: OpsPerCycle | None = None


class Bandwidth(Section, frozen=True):
    """Useful bytes that all SMs together, and one alone, move: `bandwidth.l2_load_16`, `bandwidth.dram_r2w1_16`."""

    bytes_per_second: BytesPerSecond | None = None
    one_sm_bytes_per_second: BytesPerSecond | None = None


class Scattered(Section, frozen=True):
    """Rates of accesses to DRAM that lie alone: loads of halves of lines (64 bytes each), stores of sectors (32).

    `partial`: stores that fill a part of a sector. `split`: what L2 and DRAM take for a sector that two stores fill,
    one part each, when it has left L2 in between. Of those that two blocks fill, half have when `split_blocks_bytes`
    are stored in between; of those that two warps of a block fill, when `split_warps_bytes` are.
    """

    dram_load_bytes_per_second: BytesPerSecond | None = None
    dram_store_bytes_per_second: BytesPerSecond | None = None
    dram_partial_store_bytes_per_second: BytesPerSecond | None = None
    split_sector_seconds: Seconds | None = None
    split_blocks_bytes: Bytes | None = None
    split_warps_bytes: Bytes | None = None


class Packets(Section, frozen=True):
    """What L2 takes for a packet, all of what a warp's access asks of one line, when all SMs send them.

    On the way there a load takes `load_request_seconds`; a store `store_seconds`, and for each of its sectors
    `store_sector_seconds`, or `partial_sector_seconds` where it fills a part of it. On the way back a load takes
    `load_sector_seconds` for each sector, and `load_reply_seconds` at least.
    """

    load_request_seconds: Seconds | None = None
    load_reply_seconds: Seconds | None = None
    load_sector_seconds: Seconds | None = None
    store_seconds: Seconds | None = None
    store_sector_seconds: Seconds | None = None
    partial_sector_seconds: Seconds | None = None


class RandomAccess(Section, frozen=True):
    """Every lane of a load somewhere else in an array of so many bytes: bytes of 32-byte sectors per second."""

    footprint_bytes: list[Bytes] | None = None
    sector_bytes_per_second: list[BytesPerSecond] | None = None


class LaunchCost(Section, frozen=True):
    """What a launch costs beyond its blocks' own time, and how fast blocks come and go.

    An empty kernel of one warp takes `empty_kernel_seconds`, as a profiler reports it. Two events around a kernel add
    `events_seconds`: an empty one then seems to take `empty_between_events_seconds`. In a row of kernels one follows
    the other after `interval_seconds`. Constants and translations are not in the caches when a kernel
    begins: where it accesses global memory that takes `cold_start_one_seconds` with one SM, `cold_start_seconds` with
    16 or more. A grid with more blocks than fit takes a wave more even for one of them: `tail_block_cycles` beyond that
    block's own time; a whole further wave takes `wave_cycles` beyond its blocks' time.
    The ends of blocks are noted one by one, `block_interval_cycles` apart over all SMs: before that no other comes in
    their place, and the launch goes on.
    """

    empty_kernel_seconds: Seconds | None = None
    empty_between_events_seconds: Seconds | None = None
    events_seconds: Seconds | None = None
    interval_seconds: Seconds | None = None
    cold_start_one_seconds: Seconds | None = None
    cold_start_seconds: Seconds | None = None
    round_trip_seconds: Seconds | None = None
    block_interval_cycles: Cycles | None = None
    tail_block_cycles: Cycles | None = None
    wave_cycles: Cycles | None = None


class InstructionCache(Section, frozen=True):
    """Loops up to `first_bytes` run at full speed; beyond, and beyond `second_bytes`, an instruction takes so long.

    Where all SMs fetch, warps that are at different places of the code have one instruction in `fetch_interval_cycles`
    together, from either level. After a flush of L2 each instruction beyond the first `kept_bytes` of what a kernel
    executes takes `cold_interval_cycles` more, once. A line of instructions takes the port of its scheduler for
    `port_cycles`.
    """

    first_bytes: Bytes | None = None
    second_interval_cycles: Interval | None = None
    second_bytes: Bytes | None = None
    memory_interval_cycles: Interval | None = None
    fetch_interval_cycles: Interval | None = None
    kept_bytes: Bytes | None = None
    cold_interval_cycles: Interval | None = None
    port_cycles: Cycles | None = None


class ConstantCache(Section, frozen=True):
    """Indexed loads from constant memory: the footprint that the first level holds, latency there and beyond."""

    first_bytes: Bytes | None = None
    first_latency_cycles: Cycles | None = None
    second_latency_cycles: Cycles | None = None


class Tlb(Section, frozen=True):
    """The footprint within which a translation is near, and what one further away adds to a load's latency."""

    reach_bytes: Bytes | None = None
    miss_cycles: Cycles | None = None
