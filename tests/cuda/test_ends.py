"""Short grids of loads, as `analyze` sees them, against the times of ends.json.gz."""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path

import pytest

import warplens as wl
from tests.events import two_events_us
from tests.null.by_hand import script

DATA = Path(__file__).parents[2] / "data" / "h200"
GPU = wl.load_machine("h200")
CASES = (  # loads at a time, turns, warps of a block, blocks
    (1, 1, 2, 4224), (1, 4, 2, 8448), (1, 4, 8, 1056), (1, 16, 8, 528), (4, 4, 8, 2112), (4, 1, 32, 264),
    (1, 16, 32, 396), (4, 16, 8, 1320),
)  # fmt: skip

pytestmark = pytest.mark.cuda


def test_grids_of_a_round_or_a_few_take_what_they_took(tmp_path: Path) -> None:
    samples = json.loads(gzip.decompress((DATA / "ends.json.gz").read_bytes()))["samples"]
    took = {(s["loads"], s["turns"], s["warps"], s["blocks"]): [one[0] for one in s["launches"]] for s in samples}
    off = dict[tuple[int, ...], float]()
    for loads, turns, warps, blocks in CASES:
        file = tmp_path / "ends.toml"
        file.write_text(script("ends").launch_of({"loads": loads, "turns": turns, "warps": warps, "blocks": blocks}))
        work = wl.count(DATA / "ends.cu", launch=file, machine=GPU)
        predicted = 1e6 * float(wl.predict(work, GPU, "warplens").seconds or 0.0) + two_events_us()
        off[loads, turns, warps, blocks] = predicted / statistics.median(took[loads, turns, warps, blocks]) - 1
    assert statistics.mean(map(abs, off.values())) < 0.05, off
    assert max(map(abs, off.values())) < 0.1, off
