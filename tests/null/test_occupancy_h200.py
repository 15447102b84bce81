"""Occupancy against the driver's own answer on an H200: every combination in data/h200/occupancy.json.gz."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

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
