"""A program: one kernel's machine code, decoded, with what the compiler recorded about it."""

from __future__ import annotations

from msgspec import Struct

from warplens.kernel.instruction import Instruction


class Resources(Struct, frozen=True):
    """What a kernel occupies, as the compiler recorded it; `spills` has the offsets of spilling instructions."""

    registers: int = 0
    static_shared_bytes: int = 0
    barriers: int = 0
    frame_bytes: int = 0
    threads_max: int | None = None
    threads_required: tuple[int, int, int] | None = None
    parameter_bytes: int = 0
    parameter_offset: int = 0x210
    spills: tuple[int, ...] = ()


class Program(Struct, frozen=True):
    """One kernel. `name` is the mangled name; `jump_targets` has the targets of each indirect branch by offset."""

    name: str
    demangled: str
    arch: str
    instructions: list[Instruction]
    resources: Resources = Resources()
    labels: dict[str, int] = {}
    jump_targets: dict[int, tuple[int, ...]] = {}
    source_file: str = ""
    origin: str = ""
    tools: list[str] = []
    constants: dict[int, bytes] = {}

    @property
    def has_control(self) -> bool:
        """Whether every instruction carries its control field."""
        return all(i.control is not None for i in self.instructions)
