"""Program of a kernel: its machine code, decoded, with the compiler's record of its resources and its module."""

from __future__ import annotations

from msgspec import Struct

from warplens.program.instruction import Instruction


class Resources(Struct, frozen=True):
    """The resources of a kernel, as the compiler recorded them; `spills` has the offsets of spilling instructions.

    `parameters` has the offset (from `parameter_offset` on) and the size of each, in bytes; `cluster` the blocks of a
    cluster in x, y and z, where the code says so (`__cluster_dims__`).
    """

    registers: int = 0
    static_shared_bytes: int = 0
    barriers: int = 0
    frame_bytes: int = 0
    threads_max: int | None = None
    threads_required: tuple[int, int, int] | None = None
    parameter_bytes: int = 0
    parameter_offset: int = 0x210
    parameters: tuple[tuple[int, int], ...] = ()
    spills: tuple[int, ...] = ()
    cluster: tuple[int, int, int] | None = None


class Segment(Struct, frozen=True):
    """A piece of a module's memory: its address, its size, and its initial bytes (zeros behind them)."""

    address: int
    size_bytes: int
    data: bytes = b""


class Program(Struct, frozen=True):
    """One kernel. `name` is the mangled name; `jump_targets` has the targets of each indirect branch by offset.

    `segments` are the module's variables, `symbols` their addresses and those of the functions, `system` the
    functions of the system that it calls, such as vprintf. `variables` are the module's `__device__` and `__constant__`
    variables: address and size in bytes by the name of the symbol.
    """

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
    segments: list[Segment] = []
    symbols: dict[str, int] = {}
    variables: dict[str, tuple[int, int]] = {}
    system: list[str] = []

    @property
    def has_control(self) -> bool:
        """True if every instruction carries its control field."""
        return all(i.control is not None for i in self.instructions)
