"""Occupancy: how many blocks of a kernel live on one SM at a time, and what limits that number.

The rules are those of the vendor's occupancy calculator: warps, blocks, registers (given out in units, per
warp since Fermi and per block before) and shared memory (given out in units, with a reserve per block).
"""

from __future__ import annotations

import math

from msgspec import Struct

from warplens.errors import WarplensError
from warplens.machine.machine import Machine


class Occupancy(Struct, frozen=True):
    """Blocks and warps that one SM holds, the limit of each resource alone, and the one that binds."""

    blocks_per_sm: int
    warps_per_block: int
    warps_per_sm: int
    fraction: float
    limits: dict[str, int]
    limiter: str


def occupancy(
    machine: Machine,
    *,
    threads_per_block: int,
    registers_per_thread: int = 0,
    shared_bytes_per_block: int = 0,
) -> Occupancy:
    """Return what fits on one SM; a block that does not fit at all is an error that says why."""
    sm = machine.sm
    if sm.threads_per_block_max is not None and threads_per_block > sm.threads_per_block_max:
        raise WarplensError(
            f"a block of {threads_per_block} threads: {machine.name} takes at most {sm.threads_per_block_max:.0f}"
        )
    if sm.registers_per_thread_max is not None and registers_per_thread > sm.registers_per_thread_max:
        raise WarplensError(
            f"{registers_per_thread} registers per thread: {machine.name} has at most {sm.registers_per_thread_max:.0f}"
        )
    if sm.shared_per_block_max_bytes is not None and shared_bytes_per_block > sm.shared_per_block_max_bytes:
        raise WarplensError(
            f"{shared_bytes_per_block} B of shared memory per block: {machine.name} allows at most "
            f"{sm.shared_per_block_max_bytes:.0f}"
        )
    warps = math.ceil(threads_per_block / sm.warp_size)
    limits = {"warps": int(sm.warps_max // warps)}
    if sm.blocks_max is not None:
        limits["blocks"] = int(sm.blocks_max)
    if sm.registers is not None and registers_per_thread:
        limits["registers"] = _by_registers(machine, warps, registers_per_thread)
    if sm.shared_bytes is not None and shared_bytes_per_block:
        unit, reserved = sm.shared_unit_bytes or 1, sm.shared_reserved_bytes or 0
        taken = math.ceil((shared_bytes_per_block + reserved) / unit) * unit
        limits["shared memory"] = int(sm.shared_bytes // taken)
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    if blocks == 0:
        raise WarplensError(f"not even one block fits on an SM of {machine.name}: too much {limiter} per block")
    return Occupancy(blocks, warps, blocks * warps, blocks * warps / sm.warps_max, limits, limiter)


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
