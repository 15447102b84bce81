"""Occupancy: the number of blocks of a kernel on one SM at a time, and the resource that limits it.

The rules are those of the vendor's occupancy calculator: warps, blocks, registers (given out in units, per
warp since Fermi and per block before), shared memory (given out in units, with a reserve per block) and, from
compute capability 9.0 on, named barriers. They are in
`docs/explain/how-a-prediction-is-made.md`.
"""

from __future__ import annotations

import math

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine.machine import Machine


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
        limits["registers"] = _by_registers(machine, warps, registers_per_thread)
    if sm.shared_bytes is not None and shared_bytes_per_block:
        limits["shared memory"] = _by_shared_bytes(machine, shared_bytes_per_block)
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
            after[resource] = 0 if most is None else _by_registers(machine, fits.warps_per_block, most)
        elif resource == "shared memory":
            most = most_shared_bytes(machine, blocks)
            after[resource] = 0 if most is None else _by_shared_bytes(machine, most)
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
    return next((r for r in range(top, 0, -1) if _by_registers(machine, warps, r) >= blocks), None)


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
    sm = machine.sm
    if threads < 1:
        raise WarplensError(f"a block of {threads} threads: there must be at least one")
    for what, value in {"registers": registers, "bytes of shared memory": shared, "barriers": barriers}.items():
        if value < 0:
            raise WarplensError(f"{value} {what}: must not be below zero")
    if sm.threads_per_block_max is not None and threads > sm.threads_per_block_max:
        raise WarplensError(
            f"a block of {threads} threads: {machine.name} takes at most {sm.threads_per_block_max:.0f}"
        )
    if sm.registers_per_thread_max is not None and registers > sm.registers_per_thread_max:
        raise WarplensError(
            f"{registers} registers per thread: {machine.name} has at most {sm.registers_per_thread_max:.0f}"
        )
    if sm.shared_per_block_max_bytes is not None and shared > sm.shared_per_block_max_bytes:
        raise WarplensError(
            f"{shared} B of shared memory per block: {machine.name} allows at most {sm.shared_per_block_max_bytes:.0f}"
        )


def _by_registers(machine: Machine, warps: int, registers_per_thread: int) -> int:
    sm = machine.sm
    unit = sm.register_unit or 1
    assert sm.registers is not None
    if sm.register_scope == "block":  # G80, GT200: one allocation per block, warps in pairs
        taken = math.ceil(math.ceil(warps / 2) * 2 * sm.warp_size * registers_per_thread / unit) * unit
        return int(sm.registers // taken)
    per_warp = math.ceil(registers_per_thread * sm.warp_size / unit) * unit
    per_scheduler = sm.registers // sm.schedulers // per_warp  # each scheduler has its own register file
    return int(per_scheduler * sm.schedulers // warps)


def _by_shared_bytes(machine: Machine, shared_bytes_per_block: int) -> int:
    sm = machine.sm
    unit, reserved = sm.shared_unit_bytes or 1, sm.shared_reserved_bytes or 0
    assert sm.shared_bytes is not None
    taken = math.ceil((shared_bytes_per_block + reserved) / unit) * unit
    return int(sm.shared_bytes // taken) if taken else int(sm.warps_max)  # nothing taken: no limit
