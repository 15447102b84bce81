"""Nsight Compute's source and raw pages, read from CSV.

ncu -i r.ncu-rep --page source --csv
ncu -i r.ncu-rep --page raw --csv
"""

from __future__ import annotations

import csv
import io
from typing import Any

from warplens.core.errors import FileError
from warplens.papers.validation.profiler_counts import INSTRUCTION
from warplens.workload.ncu_report import LAUNCH, UNITS, Record


def records(source: str, raw: str, what: str = "ncu") -> list[Record]:
    """Read both pages of a report; `what` is for messages."""
    listings = [_reduced(kernel) for kernel in _kernels(_rows(source))]
    rows = _rows(raw)
    if len(rows) < 2:
        raise FileError(f"{what}: the raw page has no launches")
    units, launches = dict(zip(rows[0], rows[1], strict=False)), [dict(zip(rows[0], r, strict=False)) for r in rows[2:]]
    if len(listings) != len(launches):
        raise FileError(f"{what}: {len(listings)} listings, {len(launches)} rows of counters")
    records = []
    for listing, row in zip(listings, launches, strict=True):
        values = {
            short: round(value * UNITS.get(units[metric], 1), 3)
            for short, metric in LAUNCH.items()
            if metric in row and (value := number(row[metric])) is not None
        }
        records.append(Record(**listing, counters=values))
    return records


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
    record: dict[str, Any] = {"kernel": kernel["kernel"]}
    for name, column in INSTRUCTION.items():
        values = [int(number(row.get(column, "")) or 0) for row in rows]
        if any(values):
            record[name] = values
    stalls = [c for c in rows[0] if c.startswith("stall_") and "Not Issued" not in c] if rows else []
    record["stalls"] = {
        c.removeprefix("stall_"): values
        for c in stalls
        if any(values := [int(number(row.get(c, "")) or 0) for row in rows])
    }
    return record
