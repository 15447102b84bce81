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

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from warplens.papers.validation.ncu_pages import records


def launches(folder: Path, names: list[str]) -> dict[str, Any]:
    """Return the listing and the counters of each launch in a folder."""
    found = records((folder / "source.csv").read_text(), (folder / "raw.csv").read_text(), str(folder))
    if len(names) != len(found):
        raise SystemExit(f"{folder}: {len(names)} launches, {len(found)} in the report")
    return {name: {key: value for key, value in msgspec.to_builtins(r).items() if value or key == "stalls"}
            for name, r in zip(names, found, strict=True)}  # fmt: skip


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
