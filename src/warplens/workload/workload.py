"""Workload of a kernel: the counts of one warp, and the launch; shape, wavefronts and added latency of its accesses.

Every model consumes one. It is counted from machine code by the front end and the emulator, or written by hand (TOML),
or saved and loaded (JSON, the same tree). All counts are per warp. A count may also be a NumPy array: models then
broadcast, and a million configurations are one call.

A workload with a `launch` is a kernel and its time is the kernel's. Without one it is steady state: an
endless repetition of the counted body on every warp, and its time is what one SM spends per body.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import write_whole
from warplens.machine import KINDS, Machine
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


_LINE_BYTES = 128
_WARP, _HALF_WARP = 32, 16


def access_of(kind: str, width: int) -> Access | None:
    """Return one access of a class, of so many bytes per thread, where nothing counts its addresses.

    It is coalesced, without conflicts and misses in the caches, unless the class says otherwise. A class without
    memory accesses has none.
    """
    if kind in ("shared", "shared_2way"):
        return Access(1.0, "shared", bytes_per_thread=width, conflict_degree=2 if kind == "shared_2way" else 1)
    if kind == "load_random":
        return Access(1.0, bytes_per_thread=width, transactions=32, coalesced=False)
    if kind in ("load", "store"):
        lines, each = max(1, width * _WARP // _LINE_BYTES), min(_LINE_BYTES, width * _WARP)
        return replace(Access(1.0, bytes_per_thread=width, transactions=lines, transaction_bytes=each), kind=kind)
    return None


def wavefronts(access: Access, machine: Machine) -> Number:
    """Return the wavefronts of an access to shared memory: those of its width, times its bank conflicts."""
    import numpy as np  # who only loads a kernel has no need of it

    bank = machine.shared_memory.bank_bytes if machine.shared_memory else 4.0
    return access.conflict_degree * np.maximum(1.0, access.bytes_per_thread / bank)


def extra_latency(access: Access, machine: Machine) -> Number:
    """Return the cycles that conflicts, width or further transactions add to a latency (Volkov 2016 §6.2, §6.7)."""
    import numpy as np

    from warplens.program.lone_warp import wide_cycles

    if access.space == "shared":
        plain, conflict = machine.timing("shared"), machine.timing("shared_2way")
        wide = wide_cycles(access.bytes_per_thread, machine) if access.kind == "load" else 0.0
        if plain.latency_cycles is None or conflict.latency_cycles is None:
            return wide
        return (access.conflict_degree - 1) * (conflict.latency_cycles - plain.latency_cycles) + wide
    memory = machine.memory
    if memory.extra_transaction_cycles is None or access.kind != "load" or access.coalesced:
        return 0.0  # measured on diverging accesses; a wide coalesced one is no such
    base = memory.coalesced_transactions or 1.0
    transactions = np.minimum(machine.sm.warp_size, access.transactions * base)
    return np.maximum(0.0, transactions - base) * memory.extra_transaction_cycles


def sectors_and_lines(addresses: Sequence[int], element_bytes: int) -> tuple[int, int]:
    """Return how many 32-byte sectors and 128-byte lines an access of a warp touches."""
    last = element_bytes - 1
    sectors = {s for a in addresses for s in range(a // 32, (a + last) // 32 + 1)}
    return len(sectors), len({s // 4 for s in sectors})


def transactions(capability: float, addresses: Sequence[int | None], size: int) -> tuple[int, int]:
    """Return (transactions, bytes moved) of one warp's access by the rules of a compute capability.

    `addresses` has an entry per lane, None where a lane is idle. Below 1.2 (G80) a half-warp whose threads ask for
    neighbouring words in order, from an aligned start, takes one transaction (two of 16-byte words), any other one
    of 32 bytes per thread. 1.2 and 1.3 (GT200): as many segments of 128 bytes (64, 32 for small words) as a half-warp
    touches, each made half as long while one half of it is not asked for. 2.x (Fermi): lines of 128 bytes. Later:
    sectors of 32. (CUDA C Programming Guide 4.2, appendix F)
    """
    if capability >= 3:
        sectors, _ = sectors_and_lines([a for a in addresses if a is not None], size)
        return sectors, 32 * sectors
    if capability >= 2:
        _, lines = sectors_and_lines([a for a in addresses if a is not None], size)
        return lines, 128 * lines
    halves = [addresses[:_HALF_WARP], addresses[_HALF_WARP:]]
    each = [(_half_before_1_2 if capability < 1.2 else _half_1_2)(half, size) for half in halves]
    return sum(count for count, _ in each), sum(moved for _, moved in each)


def _half_before_1_2(half: Sequence[int | None], size: int) -> tuple[int, int]:
    asked = [(lane, a) for lane, a in enumerate(half) if a is not None]
    if not asked:
        return 0, 0
    start = asked[0][1] - asked[0][0] * size
    whole = _HALF_WARP * size
    if size in (4, 8, 16) and start % whole == 0 and all(a == start + lane * size for lane, a in asked):
        return max(1, whole // 128), whole
    return len(asked), 32 * len(asked)


def _half_1_2(half: Sequence[int | None], size: int) -> tuple[int, int]:
    longest = {1: 32, 2: 64}.get(size, 128)
    segments: dict[int, list[int]] = {}
    for a in half:
        if a is not None:
            for at in {a // longest, (a + size - 1) // longest}:
                segments.setdefault(at, []).append(a)
    moved = 0
    for at, asked in segments.items():
        low, high = at * longest, (at + 1) * longest
        while high - low > 32:
            middle = (low + high) // 2
            if all(a + size <= middle for a in asked):
                high = middle
            elif all(a >= middle for a in asked):
                low = middle
            else:
                break
        moved += high - low
    return len(segments), moved
