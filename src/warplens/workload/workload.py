"""Workload of a kernel: the counts of one warp, and the launch. Every model consumes one.

It is counted from machine code by the front end and the emulator, or
written by hand (TOML), or saved and loaded (JSON, the same tree). All counts are per warp. A count may also
be a NumPy array: models then broadcast, and a million configurations are one call.

A workload with a `launch` is a kernel and its time is the kernel's. Without one it is steady state: an
endless repetition of the counted body on every warp, and its time is what one SM spends per body.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct, field

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import write_whole
from warplens.machine import KINDS
from warplens.machine.tables import InstructionClass
from warplens.program.instruction import Instruction
from warplens.workload.profile import Profile, Unmodelled

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Number = float | npt.NDArray[np.float64]
    Parallelism = Number
    Positive = Number
else:  # in files a number is a number; arrays come only from Python
    Number = Annotated[float, Meta(ge=0, le=1e18)]
    Parallelism = Annotated[float, Meta(ge=1, le=1e4)]
    Positive = Annotated[float, Meta(gt=0, le=1e18)]

WARP = 32


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a workload: an unknown key is refused, defaults are not written."""


class Launch(_Part, frozen=True):
    """Grid, block and what a block occupies. `blocks_per_sm` is given only where occupancy is not computed."""

    grid: Number | list[int]
    block: Number | list[int]
    registers_per_thread: Annotated[int, Meta(ge=0, le=1024)] = 0
    shared_bytes_per_block: Annotated[int, Meta(ge=0, le=1 << 24)] = 0
    blocks_per_sm: Annotated[int, Meta(ge=1, le=1024)] | None = None

    @property
    def blocks(self) -> Number:
        """Total number of blocks."""
        return float(math.prod(self.grid)) if isinstance(self.grid, list) else self.grid

    @property
    def threads_per_block(self) -> Number:
        """Threads of one block."""
        return float(math.prod(self.block)) if isinstance(self.block, list) else self.block

    @property
    def warps_per_block(self) -> Number:
        """Warps of one block, rounded up."""
        return -(-self.threads_per_block // WARP)


class Access(_Part, frozen=True):
    """One kind of memory access: how often a warp does it, and what the memory system has to move."""

    count: Number
    space: Literal["global", "shared", "local", "constant"] = "global"
    kind: Literal["load", "store", "atomic"] = "load"
    bytes_per_thread: Positive = 4
    transactions: Positive = 1
    transaction_bytes: Positive = 128
    coalesced: bool = True
    conflict_degree: Parallelism = 1
    independent: Number = 0
    hit_fraction: Annotated[float, Meta(ge=0, le=1)] = 0
    threads_per_transaction: Positive | None = None

    @property
    def instruction_class(self) -> str:
        """The instruction class whose latency and rate this access has."""
        if self.space in ("shared", "constant"):
            return self.space
        if self.kind == "store":
            return "store"
        return "load"

    @property
    def dram_bytes(self) -> Number:
        """Bytes that all these accesses of one warp move from or to DRAM."""
        if self.space not in ("global", "local"):
            return 0.0
        return self.count * self.transactions * self.transaction_bytes * (1 - self.hit_fraction)


class Link(_Part, frozen=True):
    """A number of dependences from an instruction class to another along the longest chain of one warp."""

    producer: InstructionClass
    consumer: InstructionClass
    count: Number


class WarpListing(_Part, frozen=True):
    """The instructions one warp executes, as text (see `warplens.program.decoding`)."""

    listing: str


class Mix(_Part, frozen=True):
    """Volkov's synthetic kernel: `alpha` arithmetic instructions per other one, all back to back dependent."""

    alpha: Annotated[float, Meta(ge=0)] | Literal["inf"]
    op: Literal["add"] = "add"
    other: Literal["load", "sfu", "shared"] = "load"
    stride: Annotated[int, Meta(ge=1, le=32)] = 1


class Issue(_Part, frozen=True):
    """Issue slots beyond one per instruction: pairs that share a slot, and instructions issued again."""

    dual_issues: Number = 0
    reissues: Number = 0


class Given(_Part, frozen=True):
    """Cycles per thread as a paper counts them by hand, where it gives no instruction counts."""

    compute_cycles: Number
    memory_cycles: Number


class Essential(_Part, frozen=True):
    """The work that no optimisation removes: Sim's #FP_insts of a whole warp, bytes of data of the whole grid."""

    fp_instructions: Number | None = None
    data_bytes: Number | None = None


class Workload(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The input of every model. `code`, `profile` and `unmodelled` are there where it was counted from machine code.

    `array_types` are the types of elements by the name of their array, where a launch file says them. `spills` has the
    offsets of the instructions that the compiler marked as spilling; None where that is not known.
    """

    format: Literal[1] = 1
    name: Annotated[str, Meta(min_length=1, max_length=400)]
    source: str = ""
    tools: list[str] = []
    notes: list[str] = []
    launch: Launch | None = None
    instructions: dict[InstructionClass, Number] = {}
    divergent: dict[InstructionClass, Number] = {}
    accesses: list[Access] = field(default_factory=list, name="access")
    barriers: Number = 0
    iterations: Positive = 1
    ilp: Parallelism = 1
    mlp: Parallelism = 1
    links: list[Link] = field(default_factory=list, name="link")
    warps: list[WarpListing] = field(default_factory=list, name="warp")
    issue: Issue = Issue()
    essential: Essential = Essential()
    given: Given | None = None
    mix: Mix | None = None
    kernels: list[Workload] = field(default_factory=list, name="kernel")
    array_types: dict[str, str] = {}
    code: list[Instruction] = []
    spills: tuple[int, ...] | None = None
    profile: Profile | None = None
    unmodelled: list[Unmodelled] = []

    @property
    def steady(self) -> bool:
        """True of an endless repetition, false of a kernel with a beginning and an end."""
        return self.launch is None

    @property
    def total_warps(self) -> Number:
        """Warps of the whole grid."""
        launch = self.launch
        return 1.0 if launch is None else launch.blocks * launch.warps_per_block

    def executed(self) -> dict[str, Number]:
        """Return the instructions per warp by class, memory accesses, barriers and divergent extra ones included."""
        counts: dict[str, Number] = {}
        for source in (self.instructions, self.divergent):
            for kind, count in source.items():
                counts[kind] = counts.get(kind, 0.0) + count * self.iterations
        for access in self.accesses:
            kind = access.instruction_class
            counts[kind] = counts.get(kind, 0.0) + access.count * self.iterations
        if not (isinstance(self.barriers, (int, float)) and self.barriers == 0):
            counts["barrier"] = counts.get("barrier", 0.0) + self.barriers * self.iterations
        return counts

    def total(self, keep: Callable[[str], bool] = lambda kind: True) -> Number:
        """Sum the executed instructions per warp over the classes to keep."""
        return sum((count for kind, count in self.executed().items() if keep(kind)), start=0.0)

    def memory_instructions(self, *, coalesced: bool | None = None) -> Number:
        """Return the accesses to global and local memory per warp, all or only those (un)coalesced."""
        chosen = [a for a in self.accesses if a.space in ("global", "local")]
        if coalesced is not None:
            chosen = [a for a in chosen if a.coalesced is coalesced]
        return sum((a.count * self.iterations for a in chosen), start=0.0)

    def dram_bytes(self) -> Number:
        """Return the bytes that one warp moves from or to DRAM."""
        return sum((a.dram_bytes * self.iterations for a in self.accesses), start=0.0)

    def dependences(self) -> list[Link]:
        """Return the longest chain of one warp: `links`, or every instruction behind the one before, over `ilp`."""
        if self.links:
            return [Link(link.producer, link.consumer, link.count * self.iterations) for link in self.links]
        chain = []
        for kind, count in self.executed().items():
            parallel = self.mlp if KINDS[kind] == "memory system" else self.ilp
            if kind not in ("store", "exit", "barrier"):
                chain.append(Link(kind, kind, count / parallel))
        return chain

    def with_values(self, **values: Any) -> Self:
        """Return the same workload with some fields replaced."""
        for name in (name for name in values if name not in self.__struct_fields__):
            raise WarplensError(f"a workload has no field {name!r}")
        return msgspec.structs.replace(self, **values)

    def save(self, path: str | Path) -> None:
        """Write the workload as JSON, whole or not at all."""
        tree: Any = self
        if self.mix is not None:  # its counts follow from alpha
            mix = msgspec.structs.replace(self.mix, alpha="inf" if self.mix.alpha == math.inf else self.mix.alpha)
            tree = Workload(name=self.name, source=self.source, notes=self.notes, mix=mix)
        try:
            content = {"format": self.format, **msgspec.to_builtins(tree)}
            text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
        except TypeError:
            raise FileError(f"{path}: a workload with arrays cannot be saved; save one configuration") from None
        write_whole(Path(path), text + "\n")


def mix(
    alpha: Number,
    op: Literal["add"] = "add",
    other: Literal["load", "sfu", "shared"] = "load",
    *,
    stride: int = 1,
) -> Workload:
    """Return Volkov's synthetic kernel (2016 §4.1, §4.7): `alpha` adds per one load, SFU or shared-memory instruction.

    `alpha` may be below one (one add per 1/alpha others), zero, infinite (adds only) or an array of such
    values. The body is one other instruction and alpha adds, or a single add where alpha is infinite.
    `stride` spreads each load over so many 128-byte lines.
    """
    import numpy as np  # here, so that the command line starts without it

    if op != "add" or other not in ("load", "sfu", "shared") or not 1 <= stride <= 32:
        raise WarplensError(f"a mix is of add and load, sfu or shared, stride 1 to 32; not {op}, {other}, {stride}")
    try:
        alpha = np.asarray(alpha, dtype=float)
    except (TypeError, ValueError):
        raise WarplensError(f"alpha must be a number or an array of numbers, not {alpha!r}") from None
    if np.any(np.isnan(alpha)) or np.any(np.asarray(alpha) < 0):
        raise WarplensError(f"alpha must be zero or more, not {alpha}")
    endless = np.isinf(alpha)
    # plain numbers where there is one value, so that the workload can be saved
    adds, others = (x if x.ndim else float(x) for x in (np.where(endless, 1.0, alpha), np.where(endless, 0.0, 1.0)))
    both = x if (x := np.minimum(adds, others)).ndim else float(x)
    kind: InstructionClass = other
    # Evenly interleaved: with alpha > 1 the adds follow one another, with alpha < 1 the others do (§4.7).
    links = [
        Link(kind, "fp32", both),
        Link("fp32", kind, both),
        Link("fp32", "fp32", adds - both),
        Link(kind, kind, others - both),
    ]
    accesses = []
    instructions: dict[InstructionClass, Number] = {"fp32": adds}
    if other == "sfu":
        instructions["sfu"] = others
    elif other == "shared":
        accesses.append(Access(count=others, space="shared"))
    else:
        accesses.append(Access(count=others, transactions=float(stride), coalesced=stride == 1))
    label = "array" if np.ndim(alpha) else f"{float(alpha):g}"
    return Workload(
        name=f"mix of {op} and {other}, alpha {label}" + (f", stride {stride}" if stride > 1 else ""),
        source="Volkov 2016 §4.1, §4.7",
        instructions=instructions,
        accesses=accesses,
        links=links,
    )


def from_mix(workload: Workload, table: Mix) -> Workload:
    """Return the workload that a `[mix]` table stands for, under the name and source of its file."""
    alpha = float(table.alpha)
    counted = mix(alpha, table.op, table.other, stride=table.stride)
    name = f"{workload.name.partition(' (alpha ')[0]} (alpha {alpha:g})"
    table = msgspec.structs.replace(table, alpha=alpha)
    return counted.with_values(name=name, source=workload.source, notes=workload.notes, mix=table)
