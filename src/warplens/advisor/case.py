"""Case: the kernel that advice is asked for, with what remedies read of it; and the answers of a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from warplens.advisor.advice import Location
from warplens.advisor.dataflow import address_instructions, from_data, inside, pointers, waiting
from warplens.core.errors import MissingField
from warplens.machine import KINDS, Machine, Occupancy
from warplens.models.bounds import occupancy_of
from warplens.models.prediction import Prediction
from warplens.program.instruction import Instruction, byte_offset
from warplens.workload.profile import Profile, Segment
from warplens.workload.workload import Launch, Workload

SECTOR_BYTES, LINE_BYTES = 32, 128
GLOBAL = frozenset(("LDG", "STG", "LD", "ST", "LDGSTS", "ATOM", "ATOMG", "RED", "REDG"))
_BULK = ("UTMA", "UBLK")
_GENERIC = frozenset(("LD", "ST", "ATOM"))
LOCAL = frozenset(("LDL", "STL"))


class Proposal(Struct, frozen=True, kw_only=True):
    """The workload as a remedy would change it, and what to say about it."""

    title: str
    workload: Workload
    assumption: str
    where: tuple[Location, ...] = ()
    changes: dict[str, Any] = {}
    no_help: str = ""  # what to say if it buys nothing
    # The object of its change: "threads", iterations (instructions of loops) that are joined, a "block", or "overhead".
    joins: frozenset[str | int] = frozenset()
    how: str = ""  # what to write, where that is not the remedy's usual form (HOW)
    reorders_sums: bool = False


class Refusal(Struct, frozen=True):
    """The reason in one line why a remedy does not apply to this kernel."""

    reason: str


Answer = Refusal | Proposal | Sequence[Proposal]
Remedy = Callable[["Case"], Answer]


class Site(Struct, frozen=True):
    """One instruction that accesses memory, with its counts over the whole grid."""

    index: int
    instruction: Instruction
    executed: float
    requests: float
    threads: float
    useful_bytes: float
    sectors: float
    lines: float
    wavefronts: float
    queue: float
    l1_hit_sectors: float
    l2_sectors: float
    l2_hit_sectors: float

    @property
    def bytes_per_thread(self) -> float:
        """Bytes that a thread requests."""
        return self.useful_bytes / max(1.0, self.threads)

    @property
    def pointer(self) -> str:
        """The first register of its address."""
        return next(iter(pointers(self.instruction)), "")

    @property
    def operand(self) -> str:
        """Its memory operand as written."""
        return next((o.text for o in self.instruction.operands if o.kind == "memory"), "")

    @property
    def base(self) -> str:
        """Its memory operand without the offset."""
        return self.operand.partition("+")[0].rstrip("]")

    @property
    def offset(self) -> int:
        """Bytes that its operand adds to the address register."""
        return byte_offset(self.operand)

    @property
    def least_sectors(self) -> float:
        """Sectors that its bytes would fill, if every access were dense."""
        return max(self.requests, self.useful_bytes / SECTOR_BYTES)

    @property
    def least_lines(self) -> float:
        """Lines that its bytes would fill; in shared memory wavefronts without conflicts."""
        return max(self.requests, self.useful_bytes / LINE_BYTES)


class Case:
    """A counted kernel on a machine, with its prediction; immutable."""

    def __init__(self, workload: Workload, machine: Machine, prediction: Prediction) -> None:
        """Take a workload that was counted from machine code."""
        if workload.profile is None or not workload.code or workload.launch is None:
            raise MissingField("advise", f"workload {workload.name}", "profile (count it with `warplens analyze`)")
        self.workload, self.machine, self.prediction = workload, machine, prediction
        self.profile: Profile = workload.profile
        self.launch: Launch = workload.launch
        self.code: list[Instruction] = workload.code

    @cached_property
    def occupancy(self) -> Occupancy:
        """Blocks and warps that fit on an SM."""
        found = occupancy_of(self.workload, self.machine)
        assert found is not None
        return found

    @property
    def sms(self) -> int:
        """SMs of the machine."""
        return int(self.machine.chip.sm_count)

    @cached_property
    def warps(self) -> int:
        """Warps of the whole grid."""
        return self.profile.grid_blocks * self.profile.warps_per_block

    @cached_property
    def executed(self) -> list[float]:
        """Executions of each instruction, of the whole grid."""
        return self.profile.counts["executed"]

    @cached_property
    def total(self) -> float:
        """Executions of all instructions."""
        return sum(self.executed)

    @cached_property
    def sites(self) -> list[Site]:
        """All instructions that accessed memory."""
        counts = self.profile.counts
        names = Site.__struct_fields__[2:]
        return [
            Site(i, x, *(counts[name][i] for name in names)) for i, x in enumerate(self.code) if counts["requests"][i]
        ]

    @cached_property
    def shared_sites(self) -> list[Site]:
        """Accesses to shared memory."""
        return [s for s in self.sites if KINDS[s.instruction.kind] == "shared memory"]

    @cached_property
    def global_sites(self) -> list[Site]:
        """Accesses to global memory, atomics too; generic ones that touch no sector go to shared memory."""
        sites = (s for s in self.sites if s.instruction.opcode in GLOBAL)
        return [s for s in sites if s.sectors or s.instruction.opcode not in _GENERIC]

    @cached_property
    def loads(self) -> list[Site]:
        """Loads from global memory."""
        return [s for s in self.global_sites if s.instruction.kind == "load"]

    @property
    def without_global(self) -> Refusal:
        """The refusal of remedies for global memory where a kernel has no such accesses."""
        copies = any(x.opcode.startswith(_BULK) for x in self.ran)
        return Refusal("only bulk copies (TMA) access its global memory" if copies else "it uses no global memory")

    @property
    def ran(self) -> list[Instruction]:
        """Instructions that some warp executes."""
        return [x for x, n in zip(self.code, self.executed, strict=True) if n]

    @cached_property
    def addresses(self) -> set[int]:
        """Instructions whose results lead only to addresses, branches and guards."""
        return address_instructions(self.code)

    @cached_property
    def from_data(self) -> set[int]:
        """Instructions whose results depend on values that are loaded as often."""
        return from_data(self.code, self.executed)

    @cached_property
    def waits(self) -> set[int]:
        """Instructions that only wait, for a time or for other threads: fewer of them save nothing."""
        return waiting(self.code)

    def share(self, indices: Iterable[int]) -> float:
        """Return the share of all executions that these instructions have."""
        return sum(self.executed[i] for i in indices) / max(1.0, self.total)

    def locations(self, indices: Iterable[int], most: int = 4) -> tuple[Location, ...]:
        """Return the source lines of instructions, the one with the most executions first."""
        lines: dict[int | None, list[int]] = {}
        for i in indices:
            lines.setdefault(self.code[i].line, []).append(i)
        ranked = sorted(lines.items(), key=lambda item: -sum(self.executed[i] for i in item[1]))
        return tuple(Location(self.workload.source, line, tuple(group)) for line, group in ranked[:most])

    def boards(self, indices: Iterable[int]) -> frozenset[int]:
        """Return the scoreboards that the results of instructions come by."""
        controls = [c for i in indices if (c := self.code[i].control) is not None]
        return frozenset(c.write_scoreboard for c in controls if c.write_scoreboard is not None)

    def tied(self) -> bool:
        """Return True if barriers or shared memory tie the threads of a block together."""
        return bool(self.shared_sites) or any(x.kind == "barrier" for x in self.ran)

    def registers(self, more: float) -> int:
        """Return the registers of a thread that needs so many more."""
        return min(255, self.launch.registers_per_thread + round(more))

    def only_waits(self, segment: Segment) -> bool:
        """Return True if no instruction of a segment does anything but wait."""
        return self.waits.issuperset(inside(segment))

    @cached_property
    def loops(self) -> list[Segment]:
        """The repeated segments of the paths that do not only wait, those with the most instructions first."""
        found: dict[tuple[tuple[int, int], ...], int] = {}
        for path in self.profile.paths:
            for s in path.segments:
                if s.times > 1 and not self.only_waits(s):
                    found[tuple(s.runs)] = found.get(tuple(s.runs), 0) + s.instructions * path.warps
        return [Segment(list(runs), 2) for runs, _ in sorted(found.items(), key=lambda item: -item[1])]

    @cached_property
    def in_loops(self) -> set[int]:
        """The instructions of its loops."""
        return self.inside(self.loops)

    def inside(self, segments: Iterable[Segment]) -> set[int]:
        """Return the instructions of segments."""
        return {i for s in segments for i in inside(s)}
