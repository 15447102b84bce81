"""Short grids of loads, as `analyze` sees them, against the times of short_grids.json.gz."""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path

import pytest

import warplens as wl
from tests.events import two_events_us

DATA = Path(__file__).parents[2] / "data/experiments/block_scheduling"
GPU = wl.load_machine("h200")
CASES = (  # loads at a time, turns, warps of a block, blocks
    (1, 1, 2, 4224), (1, 4, 2, 8448), (1, 4, 8, 1056), (1, 16, 8, 528), (4, 4, 8, 2112), (4, 1, 32, 264),
    (1, 16, 32, 396), (4, 16, 8, 1320),
)  # fmt: skip

pytestmark = pytest.mark.cuda


def _launch(loads: int, turns: int, warps: int, blocks: int) -> str:
    """Return the launch file of a sample."""
    words = 32 * warps * blocks
    return f"""\
kernel = "ends"
defines = ["LOADS={loads}"]
l2 = "cold"
grid = {blocks}
block = {32 * warps}
arg = [
  {{ name = "in", type = "f32*", count = {words * loads * turns} }},
  {{ name = "turns", type = "i32", value = {turns} }},
  {{ name = "pitch", type = "u32", value = {words} }},
  {{ name = "out", type = "u32*", count = {5 * warps * blocks} }},
]
"""


def test_grids_of_a_round_or_a_few_take_what_they_took(tmp_path: Path) -> None:
    samples = json.loads(gzip.decompress((DATA / "short_grids.json.gz").read_bytes()))["samples"]
    took = {(s["loads"], s["turns"], s["warps"], s["blocks"]): [one[0] for one in s["launches"]] for s in samples}
    off = dict[tuple[int, ...], float]()
    for loads, turns, warps, blocks in CASES:
        file = tmp_path / "ends.toml"
        file.write_text(_launch(loads, turns, warps, blocks))
        work = wl.count(DATA / "short_grids.cu", launch=file, machine=GPU)
        predicted = 1e6 * float(wl.predict(work, GPU, "warplens").seconds or 0.0) + two_events_us()
        off[loads, turns, warps, blocks] = predicted / statistics.median(took[loads, turns, warps, blocks]) - 1
    assert statistics.mean(map(abs, off.values())) < 0.05, off
    assert max(map(abs, off.values())) < 0.1, off
