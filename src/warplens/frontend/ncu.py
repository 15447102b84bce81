"""What Nsight Compute exports as CSV: the source page has a row per instruction, the raw page one per launch.

    ncu -i r.ncu-rep --page source --csv
    ncu -i r.ncu-rep --page raw --csv

ncu flushes the caches before each of its passes: these are numbers of a cold L2.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from msgspec import Struct

from warplens.errors import FileError

SECTIONS = (
    "SourceCounters", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "SpeedOfLight", "WarpStateStats",
    "LaunchStats", "Occupancy",
)  # fmt: skip
# a short name -> ncu's column of the source page
INSTRUCTION = {
    "executed": "Instructions Executed",
    "threads": "Predicated-On Thread Instructions Executed",
    "tag_requests": "L1 Tag Requests Global",
    "shared_wavefronts": "L1 Wavefronts Shared",
    "global_sectors": "L2 Theoretical Sectors Global",
    "samples": "# Samples",
}
# a short name -> ncu's metric
LAUNCH = {
    "time_ns": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "sm_clock_hz": "smsp__cycles_elapsed.avg.per_second",
    "instructions": "smsp__inst_executed.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "blocks_per_sm": "launch__occupancy_limit_blocks",
    "issue_active_percent": "smsp__issue_active.avg.pct",
}
# ncu chooses a unit for each column; we keep bytes and nanoseconds
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
         "nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9}  # fmt: skip


class Record(Struct, frozen=True):
    """One launch as ncu counted it: a number per instruction for the whole grid, and counters of the launch."""

    kernel: str
    executed: list[int] = []
    threads: list[int] = []
    tag_requests: list[int] = []
    shared_wavefronts: list[int] = []
    global_sectors: list[int] = []
    samples: list[int] = []
    stalls: dict[str, list[int]] = {}
    counters: dict[str, float] = {}


def records(source: str, raw: str, what: str = "ncu") -> list[Record]:
    """Read both pages of a report; `what` is for messages."""
    listings = [_reduced(kernel) for kernel in _kernels(_rows(source))]
    rows = _rows(raw)
    if len(rows) < 2:
        raise FileError(f"{what}: the raw page has no launches")
    units, launches = dict(zip(rows[0], rows[1], strict=False)), [dict(zip(rows[0], r, strict=False)) for r in rows[2:]]
    if len(listings) != len(launches):
        raise FileError(f"{what}: {len(listings)} listings, {len(launches)} rows of counters")
    made = []
    for listing, row in zip(listings, launches, strict=True):
        values = {
            short: round(value * UNITS.get(units[metric], 1), 3)
            for short, metric in LAUNCH.items()
            if metric in row and (value := number(row[metric])) is not None
        }
        made.append(Record(**listing, counters=values))
    return made


def number(text: str) -> float | None:
    """Return a number of ncu's CSV, without its thousands separators; None for an empty field."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a page; what ncu says of itself (==PROF== ...) is not among them."""
    lines = [line for line in text.splitlines() if not line.startswith("==")]
    return [row for row in csv.reader(io.StringIO("\n".join(lines))) if row]


def _kernels(rows: list[list[str]]) -> list[dict[str, Any]]:
    """Return one table per profiled kernel of the source page."""
    found: list[dict[str, Any]] = []
    columns: list[str] = []
    for row in rows:
        if row[0] == "Kernel Name":
            found.append({"kernel": row[1] if len(row) > 1 else "", "rows": []})
            columns = []
        elif not columns:
            columns = row
        elif found:
            found[-1]["rows"].append(dict(zip(columns, row, strict=False)))
    # a kernel with a constant bank or several files is printed twice, at the same addresses
    if len(found) % 2 == 0 and found[::2] == found[1::2]:  # all are: launches in a row may be alike too
        return found[::2]
    return [kernel for kernel, before in zip(found, [None, *found], strict=False) if kernel != before]


def _reduced(kernel: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that are read; stalls only where there are samples."""
    rows = kernel["rows"]
    made: dict[str, Any] = {"kernel": kernel["kernel"]}
    for name, column in INSTRUCTION.items():
        values = [int(number(row.get(column, "")) or 0) for row in rows]
        if any(values):
            made[name] = values
    stalls = [c for c in rows[0] if c.startswith("stall_") and "Not Issued" not in c] if rows else []
    made["stalls"] = {
        c.removeprefix("stall_"): values
        for c in stalls
        if any(values := [int(number(row.get(c, "")) or 0) for row in rows])
    }
    return made
