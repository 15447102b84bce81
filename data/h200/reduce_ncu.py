"""Reduce what ncu exported to what is read: per launch its counters, and per instruction counts and stalls.

    ncu --clock-control none --section SourceCounters --section MemoryWorkloadAnalysis
        --section MemoryWorkloadAnalysis_Tables --section SpeedOfLight --section WarpStateStats --section LaunchStats
        --section Occupancy -o r python data/h200/run_launches.py --all-once --out FOLDER
    ncu -i r.ncu-rep --page source --csv > FOLDER/source.csv
    ncu -i r.ncu-rep --page raw --csv > FOLDER/raw.csv
    python data/h200/reduce_ncu.py FOLDER ... RESULTS/ncu.json.gz
    python data/h200/keep_results.py RESULTS

ncu flushes the caches before each of its passes: these are numbers of a cold L2.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

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
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def number(text: str) -> float | None:
    """Return a number of ncu's CSV, without its thousands separators; None for an empty field."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def kernels(path: Path) -> list[dict[str, Any]]:
    """Return one record per profiled kernel: a list per column."""
    found: list[dict[str, Any]] = []
    columns: list[str] = []
    for row in csv.reader(path.open(newline="")):
        if row[:1] == ["Kernel Name"]:
            found.append({"kernel": row[1], "rows": []})
            columns = []
        elif row and not columns:
            columns = row
        elif row:
            found[-1]["rows"].append(dict(zip(columns, row, strict=False)))
    # a kernel with a constant bank or several files is printed twice, at the same addresses
    twice = [a["rows"] == b["rows"] and a["kernel"] == b["kernel"] for a, b in zip(found, found[1:], strict=False)]
    return [kernel for kernel, again in zip(found, [False, *twice], strict=True) if not again]


def reduced(kernel: dict[str, Any]) -> dict[str, Any]:
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


def launches(folder: Path, names: list[str]) -> dict[str, Any]:
    """Return the listing and the counters of each launch in a folder."""
    per_instruction = [reduced(kernel) for kernel in kernels(folder / "source.csv")]
    rows = list(csv.DictReader((folder / "raw.csv").open(newline="")))
    units, rows = rows[0], rows[1:]
    if not len(names) == len(per_instruction) == len(rows):
        raise SystemExit(
            f"{folder}: {len(names)} launches, {len(per_instruction)} listings, {len(rows)} rows of counters"
        )
    made = {}
    for name, listing, row in zip(names, per_instruction, rows, strict=True):
        values = {
            short: round(value * UNITS.get(units[metric], 1), 3)
            for short, metric in LAUNCH.items()
            if metric in row and (value := number(row[metric])) is not None
        }
        made[name] = {**listing, "counters": values}
    return made


def main() -> None:
    """Read the folders, write the file."""
    *folders, target = map(Path, sys.argv[1:])
    about: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for folder in folders:
        order = json.loads((folder / "order.json").read_text())
        ran = [name for name, result in order.pop("launches").items() if "error" not in result]
        made |= launches(folder, ran)
        about = about or order
    text = json.dumps({**about, "launches": made}, separators=(",", ":"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{target}: {len(made)} launches, {target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
