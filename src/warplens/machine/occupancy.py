"""Occupancy: the number of blocks of a kernel on one SM at a time, and the resource that limits it.

The rules are those of the vendor's occupancy calculator: warps, blocks, registers (given out in units, per
warp since Fermi and per block before), shared memory (given out in units, with a reserve per block) and, from
compute capability 9.0 on, named barriers. They are in `docs/explain/how-a-prediction-is-made.md`.

A table has one block size, all others, a map over block sizes and registers, and the changes that would give more.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.machine.machine import Machine

_WARP = 32
_DEFAULT_THREADS = 256
_COLUMNS = 32  # of the map


class Occupancy(Struct, frozen=True):
    """Blocks and warps that one SM holds, the limit of each resource alone, and the one that binds."""

    blocks_per_sm: int
    warps_per_block: int
    warps_per_sm: int
    fraction: float
    limits: dict[str, int]
    limiter: str


class Step(Struct, frozen=True):
    """A number of blocks that would fit if each resource in `at_most` were no larger than that.

    Registers are per thread; bytes of shared memory and barriers are per block.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    at_most: dict[str, int]


def occupancy(
    machine: Machine,
    *,
    threads_per_block: int,
    registers_per_thread: int = 0,
    shared_bytes_per_block: int = 0,
    barriers_per_block: int = 0,
) -> Occupancy:
    """Return the occupancy of one SM; a block that does not fit at all is an error that says why.

    A limit that the machine file does not give does not limit; `lacking` names such.
    """
    sm = machine.sm
    _check(machine, threads_per_block, registers_per_thread, shared_bytes_per_block, barriers_per_block)
    warps = math.ceil(threads_per_block / sm.warp_size)
    limits = {"warps": int(sm.warps_max // warps)}
    if sm.blocks_max is not None:
        limits["blocks"] = int(sm.blocks_max)
    if sm.registers is not None and registers_per_thread:
        limits["registers"] = _blocks_by_registers(machine, warps, registers_per_thread)
    if sm.shared_bytes is not None and shared_bytes_per_block:
        limits["shared memory"] = _blocks_by_shared_bytes(machine, shared_bytes_per_block)
    if sm.barriers is not None and barriers_per_block:
        limits["barriers"] = int(sm.barriers // barriers_per_block)
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    if blocks == 0:
        most = most_registers(machine, threads_per_block, 1) if limiter == "registers" else None
        hint = "" if most is None else f"; with {most} registers per thread one would fit"
        what = f"too {'much' if limiter == 'shared memory' else 'many'} {limiter} per block"
        raise WarplensError(f"not even one block fits on an SM of {machine.name}: {what}{hint}")
    return Occupancy(blocks, warps, blocks * warps, blocks * warps / sm.warps_max, limits, limiter)


def check_grid(machine: Machine, shape: tuple[int, int, int]) -> None:
    """Refuse a grid that is too large for a machine before compute capability 3.0 (CUDA C programming guide, table 14).

    Later ones take 2147483647 blocks in x and 65535 in y and z, which a launch file cannot exceed.
    """
    if machine.compute_capability is None or float(machine.compute_capability) >= 3:
        return
    most = (65535, 65535, 65535 if float(machine.compute_capability) >= 2 else 1)
    for axis, blocks, limit in zip("xyz", shape, most, strict=True):
        if blocks > limit:
            raise WarplensError(f"grid: {blocks} blocks in {axis}; {machine.name} takes at most {limit} there")


def step(machine: Machine, fits: Occupancy, blocks: int, *, registers_per_thread: int) -> Step | None:
    """Return the resources that must shrink for so many blocks to fit, None where no resource of the kernel would help.

    The blocks of the answer are those that then fit, which may be more.
    """
    sm, at_most, after = machine.sm, {}, dict(fits.limits)
    for resource, limit in fits.limits.items():
        most = None  # of warps and blocks: the machine's own limits
        if limit >= blocks:
            continue
        if resource == "registers":
            threads = fits.warps_per_block * int(sm.warp_size)
            most = most_registers(machine, threads, blocks, below=registers_per_thread)
            after[resource] = 0 if most is None else _blocks_by_registers(machine, fits.warps_per_block, most)
        elif resource == "shared memory":
            most = most_shared_bytes(machine, blocks)
            after[resource] = 0 if most is None else _blocks_by_shared_bytes(machine, most)
        elif resource == "barriers":
            most = int((sm.barriers or 0) // blocks) or None
            after[resource] = 0 if most is None else int((sm.barriers or 0) // most)
        if most is None:
            return None
        at_most[resource] = most
    blocks = min(after.values())
    warps = blocks * fits.warps_per_block
    return Step(blocks, warps, warps / sm.warps_max, at_most)


def most_registers(machine: Machine, threads_per_block: int, blocks: int, *, below: int | None = None) -> int | None:
    """Return the most registers per thread with which so many blocks fit, None where one is too many."""
    if machine.sm.registers is None:
        return None
    warps = math.ceil(threads_per_block / machine.sm.warp_size)
    top = int(machine.sm.registers_per_thread_max or 255) if below is None else below
    return next((r for r in range(top, 0, -1) if _blocks_by_registers(machine, warps, r) >= blocks), None)


def most_shared_bytes(machine: Machine, blocks: int) -> int | None:
    """Return the most shared memory per block, in bytes, with which so many blocks fit."""
    sm = machine.sm
    if sm.shared_bytes is None:
        return None
    unit, reserved = sm.shared_unit_bytes or 1, sm.shared_reserved_bytes or 0
    most = int(sm.shared_bytes // blocks // unit * unit - reserved)
    most = most if sm.shared_per_block_max_bytes is None else min(most, int(sm.shared_per_block_max_bytes))
    return most if most >= 0 else None


def lacking(machine: Machine, *, registers_per_thread: int = 0, shared_bytes_per_block: int = 0) -> list[str]:
    """Return the keys of the machine file that the occupancy of such a kernel needs and that it does not give.

    The barriers are not among them: below compute capability 9.0 the vendor's calculator has no such limit.
    """
    needed = ["blocks_max", "threads_per_block_max"]
    needed += ["registers", "register_unit"] if registers_per_thread else []
    needed += ["shared_bytes", "shared_unit_bytes"] if shared_bytes_per_block else []
    return [f"sm.{key}" for key in needed if getattr(machine.sm, key) is None]


def _check(machine: Machine, threads: int, registers: int, shared: int, barriers: int) -> None:
    """Refuse resources that no launch may ask for."""
    sm, gpu = machine.sm, machine.name
    if threads < 1:
        raise WarplensError(f"a block of {threads} threads: there must be at least one")
    for what, value in {"registers": registers, "bytes of shared memory": shared, "barriers": barriers}.items():
        if value < 0:
            raise WarplensError(f"{value} {what}: must not be below zero")
    for value, most, what, allows in (
        (threads, sm.threads_per_block_max, f"a block of {threads} threads", "takes"),
        (registers, sm.registers_per_thread_max, f"{registers} registers per thread", "has"),
        (shared, sm.shared_per_block_max_bytes, f"{shared} B of shared memory per block", "allows"),
    ):
        if most is not None and value > most:
            raise WarplensError(f"{what}: {gpu} {allows} at most {most:.0f}")


def _blocks_by_registers(machine: Machine, warps: int, registers_per_thread: int) -> int:
    sm = machine.sm
    unit = sm.register_unit or 1
    assert sm.registers is not None
    if sm.register_scope == "block":  # G80, GT200: one allocation per block, warps in pairs
        taken = math.ceil(math.ceil(warps / 2) * 2 * sm.warp_size * registers_per_thread / unit) * unit
        return int(sm.registers // taken)
    per_warp = math.ceil(registers_per_thread * sm.warp_size / unit) * unit
    per_scheduler = sm.registers // sm.schedulers // per_warp  # each scheduler has its own register file
    return int(per_scheduler * sm.schedulers // warps)


def _blocks_by_shared_bytes(machine: Machine, shared_bytes_per_block: int) -> int:
    sm = machine.sm
    unit, reserved = sm.shared_unit_bytes or 1, sm.shared_reserved_bytes or 0
    assert sm.shared_bytes is not None
    taken = math.ceil((shared_bytes_per_block + reserved) / unit) * unit
    return int(sm.shared_bytes // taken) if taken else int(sm.warps_max)  # nothing taken: no limit


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
    sm = machine.sm
    own_needs = {
        "registers_per_thread": needs.registers_per_thread, "shared_bytes_per_block": needs.shared_bytes_per_block
    }  # fmt: skip
    if missing := lacking(machine, **own_needs):
        raise machine.missing("occupancy", ", ".join(missing))
    largest = min(int(sm.threads_per_block_max or 0), needs.threads_max or 10**9)
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
    registers, most_shared = needs.registers_per_thread, int(sm.shared_per_block_max_bytes or sm.shared_bytes or 0)
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
        by_registers={
            r: _warps(machine, replace(needs, registers_per_thread=r), own)
            for r in range(1, int(sm.registers_per_thread_max or 255) + 1)
        },
        by_shared_bytes={
            s: _warps(machine, replace(needs, shared_bytes_per_block=s), own) for s in range(0, most_shared + 1, 1024)
        },
    )


def best_blocks(rows: dict[int, Occupancy]) -> list[int]:
    """Return the block sizes that give the most warps per SM."""
    most = max(fits.warps_per_sm for fits in rows.values())
    return [threads for threads, fits in rows.items() if fits.warps_per_sm == most]


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


def _warps(machine: Machine, needs: Needs, threads: int) -> int:
    """Return the warps on an SM, 0 where no block fits."""
    fits = _maybe(machine, needs, threads)
    return 0 if fits is None else fits.warps_per_sm


def _map(machine: Machine, needs: Needs, own: int, sizes: list[int]) -> OccupancyMap:
    """Return the warps per SM over block sizes, coarser for large blocks, and register counts in allocation units."""
    sm = machine.sm
    largest = int(sm.registers_per_thread_max or 255)
    unit = (sm.register_unit or 1) / sm.warp_size if sm.register_scope == "warp" else 1
    width = max(math.ceil(unit), math.ceil(largest / _COLUMNS))
    columns = sorted({*range(width, largest, width), largest})
    some = [t for t in sizes if t == own or t <= 256 or t % (64 if t <= 512 else 128) == 0]
    wants = [replace(needs, registers_per_thread=r) for r in columns]
    return OccupancyMap(some, columns, [[_warps(machine, want, threads) for want in wants] for threads in some])
