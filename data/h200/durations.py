"""Durations of launches as ncu reports them, from its log and the order of the launches.

    ncu --profile-from-start off --metrics gpu__time_duration.sum --clock-control none --cache-control none
        --csv --log-file FOLDER/ncu.csv python data/h200/run_launches.py --durations --out FOLDER
    python data/h200/durations.py FOLDER ... RESULT.json.gz

The result has the medians and all samples of each launch, in microseconds, with a warm L2 and with a cleared one;
other metrics that were asked for stand beside them as medians of the warm runs.
"""

from __future__ import annotations

import csv
import gzip
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIME = "gpu__time_duration.sum"
MICROSECONDS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}


def rows(log: Path) -> Iterator[dict[str, float]]:
    """Yield the metrics of each profiled launch, in order; times in microseconds."""
    lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    made, last = dict[str, float](), ""
    for row in csv.DictReader(lines):
        if row["ID"] != last and made:
            yield made
            made = {}
        value, unit = float(row["Metric Value"].replace(",", "")), row["Metric Unit"]
        made[row["Metric Name"]] = value * MICROSECONDS.get(unit, 1.0)
        last = row["ID"]
    if made:
        yield made


def launches(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a folder says of the measurement, and the durations of each launch in it."""
    order = json.loads((folder / "order.json").read_text())
    left, made = rows(folder / "ncu.csv"), dict[str, Any]()
    for name, count in order.pop("launches").items():
        if "error" in count:
            print(f"{name}: {count['error']}", file=sys.stderr)
            continue
        found = {kind: [next(left) for _ in range(count[kind])] for kind in ("warm", "cold")}
        times = {kind: [round(run[TIME], 3) for run in runs] for kind, runs in found.items()}
        entry = {f"{kind}_us": round(statistics.median(t), 3) for kind, t in times.items() if t}
        for metric in found["warm"][0].keys() - {TIME}:
            entry[metric] = statistics.median(run[metric] for run in found["warm"])
        made[name] = {**entry, "samples_us": times}
    if next(left, None) is not None:
        raise SystemExit(f"{folder}: more launches were profiled than ran")
    return order, made


def main() -> None:
    """Read the folders, write the file."""
    *folders, target = map(Path, sys.argv[1:])
    about, made = dict[str, Any](), dict[str, Any]()
    for folder in folders:
        head, found = launches(folder)
        about, made = head, made | found
    text = ",\n".join(f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in made.items())
    head_text = json.dumps(about)[:-1] + ', "launches": {\n' + text + "\n}}\n"
    target.write_bytes(gzip.compress(head_text.encode(), 9, mtime=0))
    print(f"{target}: {len(made)} launches, {target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
