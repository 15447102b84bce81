"""Machine: a GPU as plain numbers in nested structures, each with its source.

A model reads `machine.sm.schedulers` as a float; `machine.sources["sm.schedulers"]` says who measured or
published it. A hypothetical GPU is the same machine with one field replaced (`machine.with_values`).
Field names carry their unit (see `warplens.core.units`); the ranges here are what is physically possible, so
that a slip of the decimal point does not get through.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct

from warplens.core.errors import MissingField, WarplensError
from warplens.core.files import convert
from warplens.machine.measured import (
    Atomic,
    Bandwidth,
    ConstantCache,
    InstructionCache,
    LaunchCost,
    Operation,
    Packets,
    RandomAccess,
    Scattered,
    Tensor,
    Tlb,
)
from warplens.machine.papers import HongKim, Kothapalli, LemeireOperation, Printed, Sim
from warplens.machine.quantities import (
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
    FlopsPerSecond,
    Fraction,
    Hertz,
    Interval,
    OpsPerCycle,
    Section,
    Warps,
)

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

# A class without timing of its own is taken like the next one: all instructions that are not memory
# accesses run on the CUDA cores with their latency (Volkov 2016 §3.8).
_TAKEN_LIKE: dict[str, str] = {
    "int": "fp32",
    "imul": "int",
    "imul_wide": "imul",
    "half": "fp32",
    "convert": "sfu",
    "uniform": "int",
    "shuffle": "shared",
    "constant": "int",
    "other": "int",
    "exit": "int",
    "branch": "int",
    "barrier": "int",
    "shared_2way": "shared",
    "load_random": "load",
    "store": "load",
}

if TYPE_CHECKING:
    InstructionClass = str
else:  # in files: one of KINDS, anything else is refused
    InstructionClass = Literal[tuple(KINDS)]


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where one number comes from."""

    unit: str
    source: Literal["measured", "vendor", "paper", "derived"]
    ref: Annotated[str, Meta(min_length=1)]
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None


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
    """How one class of instructions behaves: register dependency latency and peak rate."""

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
    """How much occupancy streaming reads need (Volkov Table 6.4)."""

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


class Machine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One GPU, as its machine file describes it."""

    format: Literal[1]
    id: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    name: Annotated[str, Meta(min_length=1)]
    architecture: str
    compute_capability: str | None = None
    base: str | None = None
    aliases: list[str] = []
    notes: list[str] = []
    chip: Chip
    sm: Sm
    memory: Memory = Memory()
    cache: Cache = Cache()
    shared_memory: SharedMemory | None = None
    instructions: dict[InstructionClass, InstructionTiming] = {}
    throughput: dict[InstructionClass, ThroughputTable] = {}
    contention: Contention | None = None
    contention_refined: Contention | None = None
    contention_l2: Contention | None = None
    contention_l1: Contention | None = None
    stream_saturation: StreamSaturation | None = None
    latency_distribution: list[LatencyPercentiles] = []
    operations: dict[str, Operation] = {}
    tensor: dict[str, Tensor] = {}
    atomics: dict[str, Atomic] = {}
    bandwidth: dict[str, Bandwidth] = {}
    random_access: RandomAccess = RandomAccess()
    scattered: Scattered = Scattered()
    packets: Packets = Packets()
    launch: LaunchCost = LaunchCost()
    instruction_cache: InstructionCache = InstructionCache()
    constant_cache: ConstantCache = ConstantCache()
    tlb: Tlb = Tlb()
    hong_kim: HongKim | None = None
    sim: Sim | None = None
    kothapalli: Kothapalli | None = None
    lemeire: dict[str, LemeireOperation] = {}
    printed: Printed = Printed()
    sources: dict[str, Source] = {}

    def with_values(self, **values: Any) -> Self:
        """Return the same machine with some values replaced: `with_values(memory__pin_bytes_per_second=2e12)`.

        Two underscores descend into a section. The sources of the replaced values become "derived".
        """
        machine = self
        for path, value in values.items():
            keys = path.split("__")
            machine = _replaced(machine, keys, value)
            source = Source(unit="", source="derived", ref="what-if: replaced by the caller")
            machine = msgspec.structs.replace(machine, sources={**machine.sources, ".".join(keys): source})
        if all(isinstance(value, (int, float)) for value in values.values()):
            plain = msgspec.to_builtins(machine)
            convert({**plain, "sources": {}}, Machine, f"{self.id}, what if")  # ranges hold for a what-if too
        return machine

    def timing(self, kind: str) -> InstructionTiming:
        """Return the timing of an instruction class; a field it lacks is that of the class it is taken like."""
        if kind not in self._timings:
            own = self.instructions.get(kind, InstructionTiming())
            if kind in _TAKEN_LIKE:
                other = self.timing(_TAKEN_LIKE[kind])
                names = [name for name in own.__struct_fields__ if getattr(own, name) in (None, {})]
                own = msgspec.structs.replace(own, **{name: getattr(other, name) for name in names})
            self._timings[kind] = own
        return self._timings[kind]

    @cached_property
    def _timings(self) -> dict[str, InstructionTiming]:
        """The timings that were asked for: models ask once per instruction of a program."""
        return {}

    def latency_cycles(self, producer: str, consumer: str | None = None, *, model: str = "the model") -> float:
        """Return the register dependency latency in cycles, for this consumer where the file knows it."""
        timing = self.timing(producer)
        if consumer is not None and consumer in timing.latency_to:
            return timing.latency_to[consumer]
        if timing.latency_cycles is None:
            raise self.missing(model, f"instructions.{producer}.latency_cycles")
        return timing.latency_cycles

    def missing(self, model: str, field: str) -> MissingField:
        """Make the error that says which number of this machine a model lacks."""
        return MissingField(model, f"machine {self.id}", field)

    def issue_ipc(self) -> float:
        """Return the peak issue rate, instructions per cycle per SM at one instruction per issue."""
        return self.sm.schedulers / self.sm.issue_interval_cycles

    def peak_ipc(self, kind: str, *, model: str = "the model") -> float:
        """Return the peak rate of an instruction class in instructions per cycle per SM.

        CUDA cores are counted where the file counts them (their rate may need dual issue, which is
        a limit of its own); otherwise the measured rate holds, then the number of units.
        """
        size, sm = self.sm.warp_size, self.sm
        units = {"cuda cores": sm.cuda_cores, "sfu units": sm.sfu_units, "fp64 units": sm.fp64_units}
        count, rate = units.get(KINDS[kind]), self.timing(kind).peak_ops_per_cycle_per_scheduler
        own = self.instructions.get(kind)
        slower = kind != "fp32" and own is not None and own.peak_ops_per_cycle_per_scheduler is not None
        if KINDS[kind] == "cuda cores" and count is not None and not slower:
            return count / size
        if rate is not None:
            return rate * sm.schedulers / size
        if count is not None:
            return count / size
        if KINDS[kind] == "shared memory" and self.shared_memory is not None:
            return self.shared_memory.banks / self.shared_memory.access_interval_cycles / size
        raise self.missing(model, f"instructions.{kind}.peak_ops_per_cycle_per_scheduler")

    def dram_bytes_per_second(self, *, model: str = "the model") -> float:
        """Return the best sustained DRAM rate in B/s, or the pin rate where none is known."""
        rate = self.memory.sustained_bytes_per_second or self.memory.pin_bytes_per_second
        if rate is None:
            raise self.missing(model, "memory.sustained_bytes_per_second")
        return rate

    def dram_bytes_per_cycle(self, *, model: str = "the model") -> float:
        """Return one SM's share of the DRAM rate in bytes per cycle."""
        return self.dram_bytes_per_second(model=model) / (self.chip.sm_count * self.chip.clock_hz)


def _replaced(thing: Any, keys: list[str], value: Any) -> Any:
    """Return a copy of nested structures and dictionaries with the value at this path replaced."""
    head, rest = keys[0], keys[1:]
    if isinstance(thing, dict):
        if rest and head not in thing:
            raise WarplensError(f"no {head!r} here to replace a value in")
        return {**thing, head: _replaced(thing[head], rest, value) if rest else value}
    if not hasattr(thing, head):
        raise WarplensError(f"{type(thing).__name__} has no field {head!r}")
    new = _replaced(getattr(thing, head), rest, value) if rest else value
    return msgspec.structs.replace(thing, **{head: new})
