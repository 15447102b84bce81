"""What two events around a kernel add to its duration as ncu reports it: launches that were timed both ways."""

from __future__ import annotations

import gzip
import json
import statistics
from functools import cache
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "data" / "h200" / "suite" / "kernels"
UP_TO_US = 100.0


@cache
def two_events_us() -> float:
    """Return the median in microseconds, over launches of up to 100."""
    both = [json.loads(gzip.decompress((KERNELS / f"{of}.json.gz").read_bytes()))["launches"]
            for of in ("times", "durations")]  # fmt: skip
    short = [name for name, timed in both[0].items() if timed["warm_us"] < UP_TO_US]
    return float(statistics.median(both[0][n]["warm_us"] - both[1][n]["warm_us"] for n in short))
