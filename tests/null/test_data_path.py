"""What a load that hits costs in L1's data path, by the pattern of its lanes, against an H200's times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warplens.emulator import layout
from warplens.emulator.bits import entry
from warplens.emulator.wavefronts import shared_wavefronts, tag_queue

DATA = Path(__file__).parents[2] / "data/experiments/l1_data_path/data_path.json"
POINTS: list[dict[str, Any]] = json.loads(DATA.read_text())["points"]
# The byte that a lane reads.
PLACES = {
    "shifted": lambda lane, a, b: lane * a + b,
    "rows": lambda lane, a, b: 4 * (lane % 16 + lane // 16 * a + b),
    "rows8": lambda lane, a, b: 4 * (lane % 8 + lane // 8 * a + b),
    "rows_bytes": lambda lane, a, b: lane % 16 + lane // 16 * a + b,
    "every": lambda lane, a, b: lane * a + b,
    "same": lambda lane, a, b: lane % a * b,
}
UNROLLED = 8  # loads of a trip, a line apart


@entry
def _longest(scratch: Any, width: Any, lines: Any) -> Any:
    return max(shared_wavefronts(scratch, np.uint32(0xFFFFFFFF), width), tag_queue(scratch, lines))


def _passes(places: list[int], width: int) -> int:
    scratch = np.zeros(layout.SCRATCH, np.int64)
    scratch[layout.ADDRESS : layout.ADDRESS + 32] = places
    lines = sorted({place >> 7 for place in places} | {(place + width - 1) >> 7 for place in places})
    scratch[layout.LINE : layout.LINE + 32] = np.resize(lines[:32], 32)
    return int(_longest(scratch, np.int64(width), np.int64(min(32, len(lines)))))


@pytest.mark.parametrize("pattern", sorted(PLACES))
def test_loads_that_hit(pattern: str) -> None:
    """All 411 patterns: the banks of the data and of the tags say how many cycles a load takes."""
    found = [p for p in POINTS if p.get("pattern") == pattern]
    assert len(found) > 20
    for p in found:
        width = p["width"]
        places = [PLACES[pattern](lane, p["a"], p["b"]) // width * width for lane in range(32)]
        passes = sum(_passes([place + 128 * u for place in places], width) for u in range(UNROLLED)) / UNROLLED
        assert passes == pytest.approx(p["cycles_per_load"], rel=0.02), p


def test_hits_and_misses_of_one_load_are_served_apart() -> None:
    """Beside reads of shared memory that fill the data path: hits in their passes, then one for each line missed."""
    cycles = {p["beside"]: p["cycles_per_trip"] for p in POINTS if p.get("shared_reads") == 64}
    alone = cycles["none"]
    assert cycles["half_hit"] - alone == pytest.approx(2, abs=0.1)
    assert cycles["conflict16_four_miss"] - alone == pytest.approx(16 + 4, abs=0.3)
    assert cycles["load16_miss"] - alone == pytest.approx(4.5, abs=0.1)  # none of it twice
