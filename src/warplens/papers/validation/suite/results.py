"""Results of runs, reduced to what is read and merged into data/h200/suite/kernels.

Durations as ncu reports them:

    ncu --profile-from-start off --metrics gpu__time_duration.sum --clock-control none --cache-control none
        --csv --log-file FOLDER/ncu.csv python -m warplens.papers.validation.suite run --durations --out FOLDER
    python -m warplens.papers.validation.suite durations FOLDER RESULT.json.gz

Counters and stalls of each instruction, with a cold L2, as ncu flushes the caches before each of its passes:

    ncu --clock-control none --section SourceCounters --section MemoryWorkloadAnalysis
        --section MemoryWorkloadAnalysis_Tables --section SpeedOfLight --section WarpStateStats --section LaunchStats
        --section Occupancy -o r python -m warplens.papers.validation.suite run --once --out FOLDER
    ncu -i r.ncu-rep --page source --csv > FOLDER/source.csv
    ncu -i r.ncu-rep --page raw --csv > FOLDER/raw.csv
    python -m warplens.papers.validation.suite counters FOLDER ... RESULTS/ncu.json.gz

Rules of Nsight Compute, for the launches that steps of ladders begin with: `ncu --set full`, and

    ncu -i r.ncu-rep --page details --csv | gzip > FOLDER/details.csv.gz
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

import msgspec
import numpy as np

from warplens.core.errors import WarplensError
from warplens.papers.validation.ncu_pages import records

_TIME = "gpu__time_duration.sum"
_MICROSECONDS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}
Results = dict[str, Any]


def _read(path: Path) -> Results:
    data = path.read_bytes()
    return dict(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


def _write(target: Path, head: Results, launches: Results) -> str:
    """Write results, a launch per line."""
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(r, separators=(',', ':'))}" for name, r in launches.items())
    text = json.dumps(head)[:-1] + ', "launches": {\n' + lines + "\n}}\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return f"{target.name}: {len(launches)} launches, {target.stat().st_size / 1e3:.0f} kB"


def _order(folder: Path) -> tuple[Results, Results]:
    """Return what a folder says of its run, and the launches that ran, in order."""
    head = _read(folder / "order.json")
    launches = head.pop("launches")
    for name in [name for name, result in launches.items() if "error" in result]:
        print(f"{name}: {launches.pop(name)['error']}", file=sys.stderr)
    return head, launches


def _profiled(log: Path) -> Iterator[dict[str, float]]:
    """Yield the metrics of each profiled launch, in order; times in microseconds."""
    lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    found, last = dict[str, float](), ""
    for row in csv.DictReader(lines):
        if row["ID"] != last and found:
            yield found
            found = {}
        value = float(row["Metric Value"].replace(",", ""))
        found[row["Metric Name"]] = value * _MICROSECONDS.get(row["Metric Unit"], 1.0)
        last = row["ID"]
    if found:
        yield found


def durations(folders: list[Path], target: Path) -> str:
    """Write medians and samples in microseconds, warm and cold; other metrics as medians of the warm runs."""
    head, kept = Results(), Results()
    for folder in folders:
        head, order = _order(folder)
        left = _profiled(folder / "ncu.csv")
        for name, count in order.items():
            found = {kind: [next(left) for _ in range(count[kind])] for kind in ("warm", "cold")}
            times = {kind: [round(run[_TIME], 3) for run in runs] for kind, runs in found.items()}
            entry: Results = {f"{kind}_us": round(statistics.median(t), 3) for kind, t in times.items() if t}
            for metric in found["warm"][0].keys() - {_TIME}:
                entry[metric] = statistics.median(run[metric] for run in found["warm"])
            kept[name] = {**entry, "samples_us": times}
        if next(left, None) is not None:
            raise WarplensError(f"{folder}: ncu profiled more launches than ran; run it again")
    return _write(target, head, kept)


def counters(folders: list[Path], target: Path) -> str:
    """Write the listing and the counters of each launch."""
    head, kept = Results(), Results()
    for folder in folders:
        about, order = _order(folder)
        found = records((folder / "source.csv").read_text(), (folder / "raw.csv").read_text(), str(folder))
        if len(order) != len(found):
            raise WarplensError(f"{folder}: {len(order)} launches ran, {len(found)} are in the report; run it again")
        head = head or about
        for name, record in zip(order, found, strict=True):
            kept[name] = {k: v for k, v in msgspec.to_builtins(record).items() if v or k == "stalls"}
    return _write(target, head, kept)


def rules(folder: Path, target: Path) -> str:
    """Write the rules with an estimated speedup: percent of the time of the kernel (global) or of a part (local)."""
    head, order = _order(folder)
    names, kept = list(order), {name: list[Results]() for name in order}
    with gzip.open(folder / "details.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row.get("Rule Name") and row.get("Estimated Speedup"):
                text = " ".join(row["Rule Description"].split())[:300]
                percent, kind = float(row["Estimated Speedup"]), row["Estimated Speedup Type"]
                rule = {"rule": row["Rule Name"], "kind": kind, "percent": percent, "text": text}
                kept[names[int(row["ID"])]].append(rule)
    about = {key: value for key, value in head.items() if key in ("gpu", "cuda", "driver", "date")}
    return _write(target, {**about, "command": "ncu --clock-control none --set full"}, kept)


def _merged(old: Results, new: Results) -> Results:
    """Return both, the new launches in place of old ones of the same name; `earlier` names older batches."""
    launches = {name: result for name, result in new["launches"].items() if "error" not in result}
    for name in new["launches"].keys() - launches.keys():
        print(f"{name}: {new['launches'][name]['error']}", file=sys.stderr)
    head = {key: value for key, value in old.items() if key not in ("launches", "earlier")}
    named = {name for batch in old.get("earlier", []) for name in batch["names"]}
    before = [*old.get("earlier", []), {**head, "names": sorted(set(old["launches"]) - named)}]
    earlier = [{**batch, "names": [name for name in batch["names"] if name not in launches]} for batch in before]
    about = {key: value for key, value in new.items() if key != "launches"}
    return {**about, "earlier": [b for b in earlier if b["names"]], "launches": {**old["launches"], **launches}}


def keep(folders: list[Path], kept: Path) -> str:
    """Put times.json, ncu.json.gz and outputs.npz of folders among the kept results; return a line for each."""
    lines = []
    for folder in folders:
        for name in ("times.json", "ncu.json.gz"):
            source, target = folder / name, kept / f"{name.removesuffix('.gz')}.gz"
            if source.exists():
                both = _merged(_read(target), _read(source)) if target.exists() else _read(source)
                launches = both.pop("launches")
                lines.append(_write(target, both, launches))
        if (folder / "outputs.npz").exists():
            new, target = dict(np.load(folder / "outputs.npz")), kept / "outputs.npz"
            launches = {key.partition("/")[0] for key in new}
            old = dict(np.load(target)) if target.exists() else {}
            arrays = {key: value for key, value in old.items() if key.partition("/")[0] not in launches} | new
            np.savez_compressed(target, **arrays)
            lines.append(f"{target.name}: {len(arrays)} arrays")
    return "\n".join(lines)
