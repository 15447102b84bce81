"""Occupancy against an H200: the driver's own answers in data/h200/occupancy.json.gz, and blocks counted there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from warplens.errors import WarplensError
from warplens.machine import load_machine, occupancy


def test_occupancy_equals_the_drivers() -> None:
    file = Path(__file__).parents[2] / "data" / "h200" / "occupancy.json.gz"
    rows = json.loads(gzip.decompress(file.read_bytes()))["rows"]
    h200 = load_machine("h200")
    assert len(rows) >= 2000
    for registers, threads, shared, blocks in rows:
        try:
            fits = occupancy(
                h200, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=shared
            )
            ours = fits.blocks_per_sm
        except WarplensError:
            ours = 0  # not even one block
        assert ours == blocks, (registers, threads, shared)


# Blocks resident at a time on each of the 132 SMs, counted by the blocks themselves, of kernels with 1 to 16 named
# barriers and 14 registers per thread; the driver's answer was the same each time. H200, driver 580.159.04, 2026-11-15.
COUNTED = {
    32: [32, 32, 21, 16, 12, 10, 9, 8, 7, 6, 5, 5, 4, 4, 4, 4],
    64: [32, 32, 21, 16, 12, 10, 9, 8, 7, 6, 5, 5, 4, 4, 4, 4],
    128: [16, 16, 16, 16, 12, 10, 9, 8, 7, 6, 5, 5, 4, 4, 4, 4],
    1024: [2] * 16,
}


@pytest.mark.parametrize("threads", COUNTED)
def test_barriers_limit_as_counted(threads: int) -> None:
    h200 = load_machine("h200")
    for barriers, blocks in enumerate(COUNTED[threads], start=1):
        fits = occupancy(h200, threads_per_block=threads, registers_per_thread=14, barriers_per_block=barriers)
        assert fits.blocks_per_sm == blocks, barriers
        assert (fits.limiter == "barriers") == (blocks < occupancy(h200, threads_per_block=threads).blocks_per_sm)
