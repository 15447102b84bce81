"""Occupancy against an H200: the driver's answers in data/h200/occupancy, and blocks counted there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from warplens.core.errors import WarplensError
from warplens.machine import load_machine, occupancy


def test_occupancy_equals_the_drivers() -> None:
    file = Path(__file__).parents[2] / "data/h200/occupancy/occupancy.json.gz"
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


def test_barriers_limit_as_counted() -> None:
    """Driver's answer and blocks counted at a time, for kernels with 1 to 16 named barriers."""
    rows = json.loads((Path(__file__).parents[2] / "data/h200/occupancy/occupancy_barriers.json").read_text())["rows"]
    h200 = load_machine("h200")
    assert len(rows) == 64
    for barriers, threads, registers, *counted in rows:
        fits = occupancy(h200, threads_per_block=threads, registers_per_thread=registers, barriers_per_block=barriers)
        assert counted == [fits.blocks_per_sm] * 3, (barriers, threads)
        without = occupancy(h200, threads_per_block=threads).blocks_per_sm
        assert (fits.limiter == "barriers") == (fits.blocks_per_sm < without)
