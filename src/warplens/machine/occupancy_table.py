"""Occupancy over block sizes and registers: one block size, the others, a map, and the changes that would give more."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.machine.machine import Machine
from warplens.machine.occupancy import Occupancy, Step, lacking, occupancy, step

_WARP = 32
_DEFAULT_THREADS = 256
_COLUMNS = 32  # of the map


class Needs(Struct, frozen=True):
    """The resources that a kernel needs of an SM, at any block size; `threads_required` leaves only that block size."""

    registers_per_thread: int = 0
    shared_bytes_per_block: int = 0
    barriers_per_block: int = 0
    threads_max: int | None = None
    threads_required: int | None = None


class OccupancyMap(Struct, frozen=True):
    """Warps per SM: a row per block size, a column per number of registers per thread; 0 where no block fits."""

    threads_per_block: list[int]
    registers_per_thread: list[int]
    warps_per_sm: list[list[int]]


class OccupancyTable(Struct, frozen=True):
    """The occupancy of an SM for one block size (`block`), and for all others that the kernel allows.

    `one_more` says what one block more would take, `most` what as many blocks would take as the machine allows
    of this size; both are None where the machine itself is the limit. `steps` has the latter for each row.
    `by_registers` and `by_shared_bytes` are warps per SM against one need alone, the others as they are.
    """

    kernel: str
    arch: str
    machine: str
    needs: Needs
    block: int
    answer: Occupancy
    one_more: Step | None
    most: Step | None
    rows: dict[int, Occupancy]
    steps: dict[int, Step | None]
    map: OccupancyMap
    by_registers: dict[int, int]
    by_shared_bytes: dict[int, int]


def occupancy_table(
    machine: Machine, needs: Needs, *, kernel: str = "", arch: str = "", block: int | None = None
) -> OccupancyTable:
    """Return the occupancy of an SM by block size; a machine without the facts is an error that names them.

    `kernel` and `arch` (such as sm_90, where the needs come from compiled code) are kept for the reader.
    """
    _refuse_without_facts(machine, needs)
    largest = min(int(machine.sm.threads_per_block_max or 0), needs.threads_max or 10**9)
    default = needs.threads_required or needs.threads_max or _DEFAULT_THREADS
    own = min(default, largest) if block is None else block
    if needs.threads_required is not None and own != needs.threads_required:
        raise WarplensError(f"the kernel is compiled for blocks of {needs.threads_required} threads, not {own}")
    if needs.threads_max is not None and own > needs.threads_max:
        raise WarplensError(f"the kernel is compiled for blocks of at most {needs.threads_max} threads, not {own}")
    answer = _fits(machine, needs, own)
    sizes = [own] if needs.threads_required else sorted({own, *range(_WARP, largest + 1, _WARP)})
    found = {threads: _maybe(machine, needs, threads) for threads in sizes}
    rows = {threads: fits for threads, fits in found.items() if fits is not None}
    registers = needs.registers_per_thread
    return OccupancyTable(
        kernel=kernel,
        arch=arch,
        machine=machine.id,
        needs=needs,
        block=own,
        answer=answer,
        one_more=step(machine, answer, answer.blocks_per_sm + 1, registers_per_thread=registers),
        most=_to_most(machine, answer, registers),
        rows=rows,
        steps={threads: _to_most(machine, fits, registers) for threads, fits in rows.items()},
        map=_map(machine, needs, own, sizes),
        by_registers=_by_registers(machine, needs, own),
        by_shared_bytes=_by_shared_bytes(machine, needs, own),
    )


def best_blocks(rows: dict[int, Occupancy]) -> list[int]:
    """Return the block sizes that give the most warps per SM."""
    most = max(fits.warps_per_sm for fits in rows.values())
    return [threads for threads, fits in rows.items() if fits.warps_per_sm == most]


def _refuse_without_facts(machine: Machine, needs: Needs) -> None:
    missing = lacking(
        machine,
        registers_per_thread=needs.registers_per_thread,
        shared_bytes_per_block=needs.shared_bytes_per_block,
    )
    if missing:
        raise machine.missing("occupancy", ", ".join(missing))


def _fits(machine: Machine, needs: Needs, threads: int) -> Occupancy:
    return occupancy(
        machine,
        threads_per_block=threads,
        registers_per_thread=needs.registers_per_thread,
        shared_bytes_per_block=needs.shared_bytes_per_block,
        barriers_per_block=needs.barriers_per_block,
    )


def _maybe(machine: Machine, needs: Needs, threads: int) -> Occupancy | None:
    """Return the occupancy, None where not even one block fits."""
    try:
        return _fits(machine, needs, threads)
    except WarplensError:
        return None


def _to_most(machine: Machine, fits: Occupancy, registers: int) -> Step | None:
    """Return the step to the most blocks of this size, None where they fit already."""
    blocks = min(fits.limits["warps"], fits.limits.get("blocks", fits.limits["warps"]))
    return None if blocks <= fits.blocks_per_sm else step(machine, fits, blocks, registers_per_thread=registers)


def _by_registers(machine: Machine, needs: Needs, own: int) -> dict[int, int]:
    counts = range(1, int(machine.sm.registers_per_thread_max or 255) + 1)
    found = {r: _maybe(machine, replace(needs, registers_per_thread=r), own) for r in counts}
    return {r: 0 if fits is None else fits.warps_per_sm for r, fits in found.items()}


def _by_shared_bytes(machine: Machine, needs: Needs, own: int) -> dict[int, int]:
    most = int(machine.sm.shared_per_block_max_bytes or machine.sm.shared_bytes or 0)
    found = {s: _maybe(machine, replace(needs, shared_bytes_per_block=s), own) for s in range(0, most + 1, 1024)}
    return {s: 0 if fits is None else fits.warps_per_sm for s, fits in found.items()}


def _map(machine: Machine, needs: Needs, own: int, sizes: list[int]) -> OccupancyMap:
    """Return the warps per SM over block sizes, coarser for large blocks, and register counts in allocation units."""
    sm = machine.sm
    largest = int(sm.registers_per_thread_max or 255)
    unit = (sm.register_unit or 1) / sm.warp_size if sm.register_scope == "warp" else 1
    width = max(math.ceil(unit), math.ceil(largest / _COLUMNS))
    columns = sorted({*range(width, largest, width), largest})
    some = [t for t in sizes if t == own or t <= 256 or t % (64 if t <= 512 else 128) == 0]
    wants = [replace(needs, registers_per_thread=r) for r in columns]
    found = [[_maybe(machine, want, threads) for want in wants] for threads in some]
    return OccupancyMap(some, columns, [[0 if f is None else f.warps_per_sm for f in row] for row in found])
