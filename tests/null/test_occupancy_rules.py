"""The occupancy rules, derived by hand from the published tables, and a second implementation that walks.

The tables: Compute Capabilities of the CUDA C++ Programming Guide, and `cuda_occupancy.h`. 65536 registers
are 16384 per scheduler, given to warps in units of 256. Shared memory is given to blocks in units of 256 B
(7.5) or 128 B, with 1 KiB reserved per block from 8.0 on. Barriers limit from 9.0 on.
"""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.core.errors import WarplensError
from warplens.machine import Machine, Occupancy, load_machine, occupancy
from warplens.machine.occupancy import lacking, most_registers, most_shared_bytes, step

K = 1024


def up(amount: int, unit: int) -> int:
    """Round up to a multiple of the allocation unit."""
    return ceil(amount / unit) * unit


# Threads, registers per thread, shared bytes, barriers per block; blocks on an SM, as arithmetic; the limiter.
Case = tuple[int, int, int, int, int, str]
CASES: dict[str, list[Case]] = {
    "t4": [  # 7.5: 32 warps, 16 blocks, 64 KiB in units of 256 B, nothing reserved
        (1024, 0, 0, 0, 32 // 32, "warps"),
        (256, 32, 0, 1, 32 // 8, "warps"),
        (96, 16, 0, 1, 32 // 3, "warps"),
        (64, 16, 0, 1, min(32 // 2, 16), "warps"),
        (32, 16, 0, 1, 16, "blocks"),
        (1, 8, 0, 0, 16, "blocks"),
        (256, 72, 0, 1, 4 * (16384 // (72 * 32)) // 8, "registers"),  # 72 x 32 = 9 units: 7 warps a scheduler
        (256, 65, 0, 1, 4 * (16384 // up(65 * 32, 256)) // 8, "registers"),  # 65 costs what 72 does
        (128, 96, 0, 1, 4 * (16384 // (96 * 32)) // 4, "registers"),  # 5 warps a scheduler, 1024 registers idle
        (32, 255, 0, 1, 4 * (16384 // up(255 * 32, 256)), "registers"),  # 2 warps a scheduler
        (192, 128, 0, 1, 4 * (16384 // (128 * 32)) // 6, "registers"),
        (64, 24, 10000, 1, 64 * K // up(10000, 256), "shared memory"),
        (128, 24, 8193, 1, 64 * K // up(8193, 256), "shared memory"),  # one byte costs a unit
        (64, 24, 32 * K, 1, 2, "shared memory"),
        (64, 24, 64 * K, 1, 1, "shared memory"),
        (32, 16, 0, 16, 16, "blocks"),  # 16 barriers a block: no limit below 9.0
    ],
    "a100": [  # 8.0: 64 warps, 32 blocks, 164 KiB in units of 128 B, 1 KiB reserved per block
        (1024, 32, 0, 1, 64 // 32, "warps"),
        (256, 32, 0, 1, 64 // 8, "warps"),
        (96, 24, 0, 1, 64 // 3, "warps"),
        (64, 24, 0, 1, min(64 // 2, 32), "warps"),
        (32, 24, 0, 1, 32, "blocks"),
        (33, 24, 0, 1, min(64 // 2, 32), "warps"),  # 33 threads are two warps
        (256, 33, 0, 1, 4 * (16384 // up(33 * 32, 256)) // 8, "registers"),  # 33 costs what 40 does
        (256, 64, 0, 1, 4 * (16384 // (64 * 32)) // 8, "registers"),
        (384, 72, 0, 1, 4 * (16384 // (72 * 32)) // 12, "registers"),  # 28 warps, two blocks of 12
        (512, 128, 0, 1, 4 * (16384 // (128 * 32)) // 16, "registers"),
        (32, 168, 0, 1, 4 * (16384 // (168 * 32)), "registers"),
        (128, 16, 20000, 1, 164 * K // up(20000 + K, 128), "shared memory"),
        (128, 16, 11 * K, 1, 164 * K // (12 * K), "shared memory"),
        (128, 16, 81 * K, 1, 2, "shared memory"),  # 81 + 1 KiB: exactly two
        (128, 16, 81 * K + 1, 1, 1, "shared memory"),
        (128, 16, 163 * K, 1, 1, "shared memory"),
        (32, 24, 0, 16, 32, "blocks"),  # barriers do not limit below 9.0
    ],
    "a40": [  # 8.6: 48 warps, 16 blocks, 100 KiB
        (1024, 32, 0, 1, 48 // 32, "warps"),
        (256, 32, 0, 1, 48 // 8, "warps"),
        (512, 32, 0, 1, 48 // 16, "warps"),
        (96, 24, 0, 1, min(48 // 3, 16), "warps"),
        (64, 24, 0, 1, 16, "blocks"),
        (32, 24, 0, 1, 16, "blocks"),
        (256, 48, 0, 1, 4 * (16384 // (48 * 32)) // 8, "registers"),  # 10 warps a scheduler
        (256, 41, 0, 1, 4 * (16384 // up(41 * 32, 256)) // 8, "registers"),
        (128, 80, 0, 1, 4 * (16384 // (80 * 32)) // 4, "registers"),
        (64, 200, 0, 1, 4 * (16384 // (200 * 32)) // 2, "registers"),
        (1024, 64, 0, 1, 4 * (16384 // (64 * 32)) // 32, "warps"),  # registers for one block, warps for one
        (128, 32, 15 * K, 1, 100 * K // (16 * K), "shared memory"),
        (128, 32, 10000, 1, 100 * K // up(10000 + K, 128), "shared memory"),
        (128, 32, 49 * K, 1, 2, "shared memory"),
        (128, 32, 99 * K, 1, 1, "shared memory"),
        (64, 24, 0, 16, 16, "blocks"),
    ],
    "rtx4090": [  # 8.9: 48 warps, 24 blocks, 100 KiB
        (1024, 32, 0, 1, 48 // 32, "warps"),
        (256, 32, 0, 1, 48 // 8, "warps"),
        (768, 32, 0, 1, 48 // 24, "warps"),
        (64, 24, 0, 1, min(48 // 2, 24), "warps"),
        (32, 24, 0, 1, 24, "blocks"),
        (17, 24, 0, 1, 24, "blocks"),
        (256, 48, 0, 1, 4 * (16384 // (48 * 32)) // 8, "registers"),
        (64, 104, 0, 1, 4 * (16384 // (104 * 32)) // 2, "registers"),
        (32, 97, 0, 1, 4 * (16384 // up(97 * 32, 256)), "registers"),  # 97 costs what 104 does: 4 warps
        (512, 64, 0, 1, 4 * (16384 // (64 * 32)) // 16, "registers"),
        (32, 255, 0, 1, 4 * 2, "registers"),
        (64, 24, 4000, 1, 100 * K // up(4000 + K, 128), "shared memory"),
        (64, 24, 24 * K, 1, 100 * K // (25 * K), "shared memory"),
        (64, 24, 24 * K + 1, 1, 100 * K // up(25 * K + 1, 128), "shared memory"),
        (64, 24, 99 * K, 1, 1, "shared memory"),
        (32, 24, 0, 16, 24, "blocks"),
    ],
    "h200": [  # 9.0: 64 warps, 32 blocks, 228 KiB, 64 barriers
        (1024, 32, 0, 1, 64 // 32, "warps"),
        (256, 32, 0, 1, 64 // 8, "warps"),
        (32, 24, 0, 1, 32, "blocks"),
        (256, 40, 0, 1, 4 * (16384 // (40 * 32)) // 8, "registers"),
        (384, 168, 0, 1, 4 * (16384 // (168 * 32)) // 12, "registers"),
        (128, 128, 0, 1, 4 * (16384 // (128 * 32)) // 4, "registers"),
        (32, 65, 0, 1, 4 * (16384 // up(65 * 32, 256)), "registers"),
        (128, 24, 40000, 1, 228 * K // up(40000 + K, 128), "shared memory"),
        (128, 24, 113 * K, 1, 2, "shared memory"),
        (128, 24, 227 * K, 1, 1, "shared memory"),
        (32, 24, 0, 3, 64 // 3, "barriers"),
        (128, 24, 0, 5, 64 // 5, "barriers"),
        (64, 24, 0, 16, 64 // 16, "barriers"),
        (32, 24, 0, 2, 32, "blocks"),  # 64 // 2 is the limit of blocks
    ],
    "b200": [  # 10.0: as 9.0
        (1024, 32, 0, 1, 64 // 32, "warps"),
        (512, 32, 0, 1, 64 // 16, "warps"),
        (160, 24, 0, 1, 64 // 5, "warps"),
        (32, 24, 0, 1, 32, "blocks"),
        (256, 48, 0, 1, 4 * (16384 // (48 * 32)) // 8, "registers"),
        (224, 56, 0, 1, 4 * (16384 // (56 * 32)) // 7, "registers"),  # 36 warps, five blocks of 7
        (128, 255, 0, 1, 4 * 2 // 4, "registers"),
        (32, 113, 0, 1, 4 * (16384 // up(113 * 32, 256)), "registers"),
        (256, 24, 50000, 1, 228 * K // up(50000 + K, 128), "shared memory"),
        (256, 24, 56 * K, 1, 228 * K // (57 * K), "shared memory"),
        (256, 24, 227 * K, 1, 1, "shared memory"),
        (64, 24, 0, 7, 64 // 7, "barriers"),  # 9: what Nsight Compute prints for such a kernel on a B200
        (32, 24, 0, 4, 64 // 4, "barriers"),
    ],
    "rtx5090": [  # 12.0: 48 warps, 24 blocks, 100 KiB, 24 barriers
        (1024, 32, 0, 1, 48 // 32, "warps"),
        (256, 32, 0, 1, 48 // 8, "warps"),
        (768, 32, 0, 1, 48 // 24, "warps"),
        (32, 24, 0, 1, 24, "blocks"),
        (256, 56, 0, 1, 4 * (16384 // (56 * 32)) // 8, "registers"),
        (128, 88, 0, 1, 4 * (16384 // (88 * 32)) // 4, "registers"),
        (32, 121, 0, 1, 4 * (16384 // up(121 * 32, 256)), "registers"),
        (64, 24, 8 * K, 1, 100 * K // (9 * K), "shared memory"),
        (64, 24, 8 * K - 1023, 1, 100 * K // up(9 * K - 1023, 128), "shared memory"),
        (64, 24, 99 * K, 1, 1, "shared memory"),
        (64, 24, 0, 2, 24 // 2, "barriers"),
        (32, 24, 0, 3, 24 // 3, "barriers"),
        (32, 24, 0, 16, 24 // 16, "barriers"),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_as_derived_by_hand(name: str) -> None:
    machine, cases = load_machine(name), CASES[name]
    assert len(cases) >= 12
    for threads, registers, shared, barriers, blocks, limiter in cases:
        fits = _fits(machine, threads, registers, shared, barriers)
        assert (fits.blocks_per_sm, fits.limiter) == (blocks, limiter), (name, threads, registers, shared, barriers)
        assert fits.warps_per_sm == blocks * ceil(threads / 32)
    limiters = {"warps", "blocks", "registers", "shared memory"}
    limiters |= {"barriers"} if machine.sm.barriers is not None else set()
    assert {case[-1] for case in cases} == limiters


def test_the_rtx_3090_and_the_a40_hold_the_same() -> None:
    for threads, registers, shared, barriers, blocks, _ in CASES["a40"]:
        assert _fits(load_machine("rtx3090"), threads, registers, shared, barriers).blocks_per_sm == blocks


def _fits(machine: Machine, threads: int, registers: int, shared: int, barriers: int) -> Occupancy:
    return occupancy(
        machine,
        threads_per_block=threads,
        registers_per_thread=registers,
        shared_bytes_per_block=shared,
        barriers_per_block=barriers,
    )


def walked(machine: Machine, threads: int, registers: int, shared: int, barriers: int) -> int:
    """Place block after block, warp after warp, each on the scheduler with the most room, until one does not fit."""
    sm = machine.sm
    schedulers = [[int(sm.registers or 0) // 4, int(sm.warps_max) // 4] for _ in range(4)]  # registers, warp slots
    bytes_left, slots, bars = int(sm.shared_bytes or 0), int(sm.blocks_max or 0), sm.barriers
    warp_registers = up(registers * 32, int(sm.register_unit or 1))
    block_bytes = up(shared + int(sm.shared_reserved_bytes or 0), int(sm.shared_unit_bytes or 1))
    placed = 0
    while slots and block_bytes <= bytes_left and (bars is None or barriers <= bars):
        for _ in range(ceil(threads / 32)):
            room = max(schedulers, key=lambda s: (s[1] > 0, s[0]))
            if room[1] == 0 or room[0] < warp_registers:
                return placed
            room[0] -= warp_registers
            room[1] -= 1
        slots, bytes_left, bars = slots - 1, bytes_left - block_bytes, None if bars is None else bars - barriers
        placed += 1
    return placed


KERNELS = st.tuples(
    st.sampled_from([*CASES, "rtx3090"]).map(load_machine),
    st.integers(1, 1024),
    st.integers(0, 255),
    st.integers(0, 227 * K),
    st.integers(0, 16),
)


@given(KERNELS)
@settings(max_examples=400, deadline=None)
def test_walking_gives_the_same(kernel: tuple[Machine, int, int, int, int]) -> None:
    machine, threads, registers, shared, barriers = kernel
    shared = min(shared, int(machine.sm.shared_per_block_max_bytes or 0))
    try:
        ours = _fits(machine, threads, registers, shared, barriers).blocks_per_sm
    except WarplensError as error:
        assert "not even one block fits" in str(error)
        ours = 0
    assert ours == walked(machine, threads, registers, shared, barriers)


@given(KERNELS)
@settings(max_examples=200, deadline=None)
def test_what_a_step_promises_holds_and_is_tight(kernel: tuple[Machine, int, int, int, int]) -> None:
    machine, threads, registers, shared, barriers = kernel
    shared = min(shared, int(machine.sm.shared_per_block_max_bytes or 0))
    try:
        fits = _fits(machine, threads, registers, shared, barriers)
    except WarplensError:
        return
    wanted = fits.blocks_per_sm + 1
    found = step(machine, fits, wanted, registers_per_thread=registers)
    if found is None:  # only what the machine has no more of, or what cannot shrink to one
        assert min(fits.limits["warps"], fits.limits["blocks"]) < wanted or min(most_of(machine, threads, wanted)) < 1
        return
    less = {
        "registers": min(registers, found.at_most.get("registers", 255)),
        "shared memory": min(shared, found.at_most.get("shared memory", shared)),
        "barriers": min(barriers, found.at_most.get("barriers", 16)),
    }
    then = _fits(machine, threads, *less.values())
    assert then.blocks_per_sm == found.blocks_per_sm >= wanted
    assert found.warps_per_sm == then.warps_per_sm and found.fraction == pytest.approx(then.fraction)
    for resource, most in found.at_most.items():  # one more of it and the block is gone
        more = {**less, resource: most + 1}
        assert _fits(machine, threads, *more.values()).blocks_per_sm < wanted


def most_of(machine: Machine, threads: int, blocks: int) -> list[int]:
    """Registers, shared bytes and barriers that so many blocks may have; 0 for none (shared memory: -1)."""
    shared = most_shared_bytes(machine, blocks)
    barriers = 16 if machine.sm.barriers is None else int(machine.sm.barriers // blocks)
    return [most_registers(machine, threads, blocks) or 0, 1 if shared is None or shared >= 0 else 0, barriers]


def test_what_does_not_fit_says_why_and_what_would() -> None:
    a100 = load_machine("a100")
    with pytest.raises(WarplensError, match="too many registers per block; with 64 registers per thread one would fit"):
        _fits(a100, 1024, 65, 0, 0)
    with pytest.raises(WarplensError, match="166913 B of shared memory per block: NVIDIA A100 80GB SXM allows at most"):
        _fits(a100, 64, 0, 163 * K + 1, 0)
    for threads, registers, shared, barriers in ((0, 1, 0, 0), (-5, 1, 0, 0), (32, -1, 0, 0), (32, 0, -1, 0),
                                                 (32, 0, 0, -1)):  # fmt: skip
        with pytest.raises(WarplensError, match="must"):
            _fits(a100, threads, registers, shared, barriers)


def test_lacking_facts_are_named() -> None:
    assert lacking(load_machine("a100"), registers_per_thread=40, shared_bytes_per_block=100) == []
    synthetic = load_machine("huang-synthetic")
    assert lacking(synthetic) == ["sm.blocks_max", "sm.threads_per_block_max"]
    assert "sm.shared_bytes" in lacking(synthetic, shared_bytes_per_block=1)
    assert "sm.registers" in lacking(synthetic, registers_per_thread=1)
