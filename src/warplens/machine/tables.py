"""Tables of a machine file: kinds of numbers with their physical ranges, and what each table holds.

Field names carry their unit (see `warplens.core.units`); the ranges are what is physically possible, so that a slip of
the decimal point does not get through. The tables from `Operation` on are those that only the laboratory fills
(`warplens machine derive`): all of their numbers are optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

# What an instruction does, and so which hardware serves it. `KINDS` maps each class to its resource.
KINDS: dict[str, str] = {
    "fp32": "cuda cores",  # single-precision add, multiply, fused multiply-add
    "int": "cuda cores",  # integer add, logic, move, compare, select, special-register read
    "imul": "cuda cores",  # 32-bit integer multiply and multiply-add
    "imul_wide": "cuda cores",  # products of 64 bits, or their upper half: addresses, divisions
    "fdiv": "cuda cores",  # single-precision division (a sequence of instructions)
    "idiv": "cuda cores",  # integer division (a sequence)
    "imod": "cuda cores",  # integer modulo (a sequence)
    "sfu": "sfu units",  # reciprocal square root, sine, exponential, ...
    "fp64": "fp64 units",
    "half": "cuda cores",  # packed half and bfloat16 arithmetic
    "convert": "sfu units",  # conversions between number types, count and find bits
    "tensor": "tensor cores",  # matrix multiply-accumulate
    "uniform": "issue",  # the uniform datapath: one result for the whole warp
    "shuffle": "shuffle",  # exchange between the lanes of a warp
    "constant": "issue",  # loads from constant memory
    "other": "issue",  # what we do not know
    "shared": "shared memory",  # shared-memory access without bank conflicts
    "shared_2way": "shared memory",  # the same with 2-way conflicts
    "load": "memory system",  # global load, coalesced, missing in the caches
    "load_random": "memory system",  # global load, every thread in another transaction
    "store": "memory system",
    "branch": "issue",
    "barrier": "issue",
    "exit": "issue",
}

if TYPE_CHECKING:
    InstructionClass = str
else:  # in files: one of KINDS, anything else is refused
    InstructionClass = Literal[tuple(KINDS)]

Cycles = Annotated[float, Meta(ge=0, le=1e6)]
Interval = Annotated[float, Meta(gt=0, le=1e4)]
Hertz = Annotated[float, Meta(ge=1e7, le=1e11)]
BytesPerSecond = Annotated[float, Meta(ge=1e8, le=1e15)]
FlopsPerSecond = Annotated[float, Meta(ge=1e8, le=1e18)]
Bytes = Annotated[float, Meta(ge=1, le=1e15)]
Count = Annotated[float, Meta(ge=1, le=1e7, multiple_of=1)]
OpsPerCycle = Annotated[float, Meta(gt=0, le=1e5)]
Seconds = Annotated[float, Meta(gt=0, le=1)]
Warps = Annotated[float, Meta(gt=0, le=1e4)]
Factor = Annotated[float, Meta(gt=0, le=1e4)]
Ratio = Annotated[float, Meta(ge=0, le=1e4)]  # below 1, and nothing, too
Fraction = Annotated[float, Meta(ge=0, le=1)]
Ipc = Annotated[float, Meta(gt=0, le=1e3)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a machine file: an unknown key is refused, a missing one is None."""


class Chip(Section, frozen=True):
    """The device as a whole."""

    sm_count: Count
    clock_hz: Hertz
    graphics_clock_hz: Hertz | None = None
    tensor_clock_hz: Hertz | None = None
    processing_elements: Count | None = None
    peak_flops_per_second: FlopsPerSecond | None = None


class Memory(Section, frozen=True):
    """DRAM and the way to it. `sustained` is the best read rate seen in practice, `pin` the data sheet's."""

    pin_bytes_per_second: BytesPerSecond | None = None
    sustained_bytes_per_second: BytesPerSecond | None = None
    capacity_bytes: Bytes | None = None
    transaction_bytes: Bytes | None = None
    coalesced_transactions: Count | None = None
    extra_transaction_cycles: Cycles | None = None
    mshrs_per_sm: Count | None = None
    departure_coalesced_cycles: Cycles | None = None
    departure_uncoalesced_cycles: Cycles | None = None
    queued_loads_per_sm: Count | None = None
    correlated_warps: Warps | None = None


class Cache(Section, frozen=True):
    """The data caches in front of DRAM."""

    l1_bytes: Bytes | None = None
    l1_hit_bytes: Bytes | None = None
    l1_latency_cycles: Cycles | None = None
    l1_request_interval_cycles: Interval | None = None
    l1_line_interval_cycles: Cycles | None = None
    l1_conflict_interval_cycles: Cycles | None = None
    l1_extra_line_cycles: Cycles | None = None
    l2_bytes: Bytes | None = None
    l2_partitions: Count | None = None
    l2_dirty_bytes: Bytes | None = None
    l2_pair_saving_fraction: Fraction | None = None
    dram_bytes: Bytes | None = None
    line_bytes: Bytes | None = None
    sector_bytes: Bytes | None = None
    l2_hit_bytes: Bytes | None = None
    l2_hit_by_all_bytes: Bytes | None = None
    l2_resident_bytes: Bytes | None = None
    l2_latency_cycles: Cycles | None = None
    l2_near_latency_cycles: Cycles | None = None
    l2_far_latency_cycles: Cycles | None = None
    l2_bytes_per_second: BytesPerSecond | None = None


class Sm(Section, frozen=True):
    """One streaming multiprocessor: what issues, what executes, and what a block may occupy."""

    schedulers: Count
    issue_interval_cycles: Interval
    issue_width: Count
    warps_max: Count
    warp_size: Count = 32
    warps_per_scheduler_max: Count | None = None
    blocks_max: Count | None = None
    threads_per_block_max: Count | None = None
    registers: Count | None = None
    register_unit: Count | None = None
    register_scope: Literal["warp", "block"] = "warp"
    registers_per_thread_max: Count | None = None
    shared_bytes: Bytes | None = None
    shared_per_block_max_bytes: Bytes | None = None
    shared_unit_bytes: Bytes | None = None
    shared_reserved_bytes: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    shared_steps_bytes: list[Annotated[float, Meta(ge=0, le=1e7)]] | None = None
    barriers: Count | None = None
    cuda_cores: Count | None = None
    sfu_units: Count | None = None
    fp64_units: Count | None = None
    ilp_latency_cycles: Cycles | None = None
    block_replacement_cycles: Cycles | None = None
    block_replacement_per_warp_cycles: Cycles | None = None
    block_exchange_cycles: Cycles | None = None
    branch_taken_cycles: Cycles | None = None
    branch_not_taken_cycles: Cycles | None = None
    divergence_cycles: Cycles | None = None
    barrier_cycles: Cycles | None = None
    barrier_per_warp_cycles: Cycles | None = None
    barrier_data_path_cycles: Cycles | None = None
    reconverge_cycles: Cycles | None = None
    reconverge_interval_cycles: Cycles | None = None
    fence_cycles: Cycles | None = None
    register_banks: Annotated[float, Meta(ge=2, le=2)] | None = None
    queued_per_scheduler: Count | None = None
    sfu_queue_release_cycles: Cycles | None = None
    issues_counted: Annotated[float, Meta(ge=1, le=1 << 20)] | None = None
    issue_counts_cycles: Annotated[float, Meta(ge=1, le=7)] | None = None


class SharedMemory(Section, frozen=True):
    """The banks of shared memory."""

    banks: Count
    bank_bytes: Bytes
    access_interval_cycles: Interval
    conflict_cycles: Cycles | None = None
    conflict_interval_cycles: Cycles | None = None


class InstructionTiming(Section, frozen=True):
    """Register dependency latency and peak rate of one class of instructions."""

    latency_cycles: Interval | None = None
    latency_to: dict[InstructionClass, Cycles] = msgspec.field(default_factory=dict)
    peak_ops_per_cycle_per_scheduler: OpsPerCycle | None = None
    needed_warps_per_scheduler: Warps | None = None
    ilp_latency_cycles: Cycles | None = None
    read_cycles: Cycles | None = None
    extra_stall_cycles: Cycles | None = None
    issue_slots: Annotated[float, Meta(ge=0.1, le=1000)] | None = None
    fitted_issue_slots: Annotated[float, Meta(ge=0.1, le=1000)] | None = None


class ThroughputTable(Section, frozen=True):
    """Measured throughput against occupancy, for models that read it off (Zhang & Owens)."""

    warps_per_sm: list[Annotated[float, Meta(ge=0, le=1e4)]]
    ops_per_cycle_per_sm: list[Annotated[float, Meta(ge=0, le=1e5)]]


class Contention(Section, frozen=True):
    """Mean memory latency against throughput x: a + b x / (c - x) [+ b2 x / (c2 - x)].

    `written_cycles`: what a read waits in addition, times the share of c that is written.
    """

    a_cycles: Cycles
    b_cycles: Cycles
    c_bytes_per_second: BytesPerSecond
    written_cycles: Cycles | None = None
    b2_cycles: Cycles | None = None
    c2_bytes_per_second: BytesPerSecond | None = None


class StreamSaturation(Section, frozen=True):
    """Occupancy that streaming reads need (Volkov Table 6.4)."""

    linear_warps_per_scheduler: Warps
    at_90_percent_warps_per_scheduler: Warps
    at_95_percent_warps_per_scheduler: Warps
    at_linear_fraction: Fraction


class LatencyPercentiles(Section, frozen=True):
    """The spread of single memory latencies at one throughput (Volkov Table 6.6)."""

    throughput_bytes_per_second: BytesPerSecond
    min_cycles: Cycles
    p5_cycles: Cycles
    p25_cycles: Cycles
    p50_cycles: Cycles
    p75_cycles: Cycles
    p95_cycles: Cycles
    max_cycles: Cycles
    p99_cycles: Cycles | None = None


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
    """Time of L2 for a packet, all that a warp's access asks of one line, when all SMs send them.

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
    """Cost of a launch beyond its blocks' own time, and the rate at which blocks come and go.

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
