"""Machine: a GPU as plain numbers in nested structures, each with its source.

A model reads `machine.sm.schedulers` as a float; `machine.sources["sm.schedulers"]` says who measured or
published it. A hypothetical GPU is the same machine with one field replaced (`machine.with_values`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from warplens.core.errors import MissingField, WarplensError
from warplens.core.files import convert
from warplens.machine import papers, tables
from warplens.machine.tables import KINDS, InstructionClass, InstructionTiming

# A class without timing of its own is taken like the next one: all instructions that are not memory
# accesses run on the CUDA cores with their latency (Volkov 2016 §3.8).
_TAKEN_LIKE = {
    "int": "fp32", "imul": "int", "imul_wide": "imul", "half": "fp32", "convert": "sfu", "uniform": "int",
    "shuffle": "shared", "constant": "int", "other": "int", "exit": "int", "branch": "int", "barrier": "int",
    "shared_2way": "shared", "load_random": "load", "store": "load",
}  # fmt: skip


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where one number comes from."""

    unit: str
    source: Literal["measured", "vendor", "paper", "derived"]
    ref: Annotated[str, Meta(min_length=1)]
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None


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
    chip: tables.Chip
    sm: tables.Sm
    memory: tables.Memory = tables.Memory()
    cache: tables.Cache = tables.Cache()
    shared_memory: tables.SharedMemory | None = None
    instructions: dict[InstructionClass, InstructionTiming] = {}
    throughput: dict[InstructionClass, tables.ThroughputTable] = {}
    contention: tables.Contention | None = None
    contention_refined: tables.Contention | None = None
    contention_l2: tables.Contention | None = None
    contention_l1: tables.Contention | None = None
    stream_saturation: tables.StreamSaturation | None = None
    latency_distribution: list[tables.LatencyPercentiles] = []
    operations: dict[str, tables.Operation] = {}
    tensor: dict[str, tables.Tensor] = {}
    atomics: dict[str, tables.Atomic] = {}
    bandwidth: dict[str, tables.Bandwidth] = {}
    random_access: tables.RandomAccess = tables.RandomAccess()
    scattered: tables.Scattered = tables.Scattered()
    packets: tables.Packets = tables.Packets()
    launch: tables.LaunchCost = tables.LaunchCost()
    instruction_cache: tables.InstructionCache = tables.InstructionCache()
    constant_cache: tables.ConstantCache = tables.ConstantCache()
    tlb: tables.Tlb = tables.Tlb()
    hong_kim: papers.HongKim | None = None
    sim: papers.Sim | None = None
    kothapalli: papers.Kothapalli | None = None
    lemeire: dict[str, papers.LemeireOperation] = {}
    printed: papers.Printed = papers.Printed()
    sources: dict[str, Source] = {}

    def with_values(self, **values: Any) -> Self:
        """Return the same machine with some values replaced: `with_values(memory__pin_bytes_per_second=2e12)`.

        Two underscores descend into a section. The sources of the replaced values become "derived".
        """
        machine, paths = self, {path: path.split("__") for path in values}
        absent = {keys[0] for keys in paths.values() if len(keys) > 1 and getattr(self, keys[0], self) is None}
        for head in absent:
            given = {keys[1]: values[path] for path, keys in paths.items() if keys[0] == head and len(keys) == 2}
            machine = msgspec.structs.replace(machine, **{head: _section(self.id, head, given)})
        for path, keys in paths.items():
            machine = _replaced(machine, keys, values[path])
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
        """Make the error that says which number of this machine a model lacks, and how a paper's own is found."""
        section = field.partition(".")[0]
        remedy = f"`warplens machine measure --only published` finds it, a machine file states it under [{section}]"
        paper = section in ("hong_kim", "sim", "kothapalli")
        return MissingField(model, f"machine {self.id}", field, remedy if paper else "")

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


def _section(machine: str, name: str, given: dict[str, Any]) -> Any:
    """Return a section that a machine has not got, of the values given; one that lacks a required key is refused."""
    kind = next(one for one in get_args(get_type_hints(Machine)[name]) if one is not type(None))
    known = {field.name: field.required for field in msgspec.structs.fields(kind)}
    for unknown in given.keys() - known:
        raise WarplensError(f"{kind.__name__} has no field {unknown!r}")
    if lacking := [key for key, required in known.items() if required and key not in given]:
        keys = ", ".join(f"machine.{name}.{key}" for key in lacking)
        raise WarplensError(f"machine {machine} has no [{name}]: set {keys} as well")
    return kind(**given)


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


def at_key(thing: Any, dotted: str) -> Any:
    """Return what is under a key such as `latency_distribution.0.p50_cycles`, of tables or a tree; None: nothing."""
    for part in dotted.split("."):
        if isinstance(thing, list):
            thing = thing[int(part)] if part.isdigit() and int(part) < len(thing) else None
        else:
            thing = thing.get(part) if isinstance(thing, dict) else getattr(thing, part, None)
    return thing
