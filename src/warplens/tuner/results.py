"""The results of a sweep: `results.jsonl` and, with pyarrow, `results.parquet`, one row per point in their order.

Both are written whole, from the journal, a piece at a time. pyarrow, and not another writer of Parquet, because it
writes row group after row group and needs nothing beside itself (extra `parquet`).
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import writing
from warplens.tuner import closed
from warplens.tuner.expression import Value
from warplens.tuner.journal import Journal
from warplens.tuner.spec import Sweep
from warplens.tuner.worker import Row

_ROW_GROUP = 50_000
_MOST_NOTES = 3  # that are printed
_TYPES = {"number": "int64", "kernel": "string", "gpu": "string", "model": "string", "seconds": "float64",
          "cycles": "float64", "bound": "string", "error": "string", "note": "string"}  # fmt: skip


class Best(Struct):
    """The fastest configuration of a kernel on a GPU by a model, out of so many, and how long the slowest takes."""

    kernel: str
    gpu: str
    model: str
    values: dict[str, Value]
    seconds: float
    bound: str
    points: int = 1
    slowest_seconds: float = 0.0


def remove(folder: Path) -> None:
    """Take away the files of an earlier run."""
    for name in ("results.jsonl", "results.parquet"):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(f"{folder / name}: {error.strerror}") from None


NO_PARQUET = "no results.parquet: that needs pyarrow (pip install pyarrow, then the same command again)"


def write(folder: Path, sweep: Sweep, journal: Journal) -> tuple[int, list[str], list[Best], list[str]]:
    """Write the files; return how many points of closed form are among them, their paths, the best points, and notes.

    The notes say what is not modelled, of how many points.
    """
    lines, closed_points = folder / "results.jsonl", 0
    best: dict[tuple[str, str], Best] = {}
    notes = Counter[str]()
    with writing(lines) as stream:
        for row in journal.rows():
            stream.write(msgspec.json.encode(_flat(row)) + b"\n")
            notes.update([row.note] if row.note else [])
            if row.model == sweep.models[0] and row.seconds is not None:
                _compare(best, Best(row.kernel, row.gpu, row.model, row.values, row.seconds, row.bound or ""))
        for part in _closed(sweep):
            closed_points += len(part["number"])
            stream.writelines(msgspec.json.encode(row) + b"\n" for row in _by_row(part))
            notes.update({part["note"]: len(part["number"])} if part["note"] else {})
            if part["error"] is not None:
                journal.count_failed(part["error"], len(part["number"]))
            if part["model"] == sweep.models[0] and part["seconds"] is not None:
                _compare(best, _best_of(part))
    if importlib.util.find_spec("pyarrow") is None:
        return closed_points, [str(lines)], list(best.values()), _most(notes)
    table = folder / "results.parquet"
    _write_parquet(table, sweep, journal.rows())
    return closed_points, [str(lines), str(table)], list(best.values()), _most(notes)


def _most(notes: Counter[str]) -> list[str]:
    """Return the commonest notes, each with its points."""
    said = [f"{count:,} points: {note}" for note, count in notes.most_common(_MOST_NOTES)]
    return said + ([f"{len(notes) - len(said):,} more, which the rows say"] if len(notes) > len(said) else [])


def _compare(best: dict[tuple[str, str], Best], new: Best) -> None:
    """Take note of a point, or of the best of some."""
    new.slowest_seconds = max(new.seconds, new.slowest_seconds)
    old = best.setdefault((new.kernel, new.gpu), new)
    if old is not new:
        faster = new if new.seconds < old.seconds else old
        faster.points, slowest = old.points + new.points, max(old.slowest_seconds, new.slowest_seconds)
        faster.slowest_seconds = slowest
        best[new.kernel, new.gpu] = faster


def _best_of(part: dict[str, Any]) -> Best:
    """Return the best of some closed-form points."""
    at, seconds = int(np.nanargmin(part["seconds"])), part["seconds"]
    values = {n: v[at].item() for n, v in part.items() if isinstance(v, np.ndarray) and n not in _TYPES}
    bound = part["bound"] if isinstance(part["bound"], str) else str(part["bound"][at])
    kernel, gpu, model = part["kernel"], part["gpu"], part["model"]
    return Best(kernel, gpu, model, values, float(seconds[at]), bound, len(seconds), float(np.nanmax(seconds)))


def _closed(sweep: Sweep) -> Iterator[dict[str, Any]]:
    """Yield the points of workloads in columns; their numbers go on where those of kernels end."""
    first = sweep.size
    for space in sweep.workloads:
        for part in closed.chunks(space, sweep.folder, sweep.gpus, sweep.models, first):
            yield {_column(n) if n in space.axis else n: v for n, v in part.items()}
        first += space.size


def _by_row(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    count = len(part["number"])
    columns = [v.tolist() if isinstance(v, np.ndarray) else [v] * count for v in part.values()]
    return (dict(zip(part, row, strict=True)) for row in zip(*columns, strict=True))


def _flat(row: Row) -> dict[str, Any]:
    """A point as one level of keys; an axis that is called like one of ours keeps its name behind `axis.`."""
    tree = {key: value for key, value in msgspec.structs.asdict(row).items() if key != "values"}
    return tree | {_column(axis): value for axis, value in row.values.items()}


def _column(axis: str) -> str:
    return f"axis.{axis}" if axis in _TYPES else axis


def _write_parquet(path: Path, sweep: Sweep, rows: Iterator[Row]) -> None:
    import pyarrow
    import pyarrow.parquet

    axes = [axis for kernel in sweep.kernels for axis in kernel.axes]
    axes += [axis for space in sweep.workloads for axis in space.axis]
    kinds = _TYPES | {_column(axis): _kind(axis, sweep) for axis in axes}
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in kinds.items()])
    turned = {name: {"string": str, "float64": float}.get(kind, lambda value: value) for name, kind in kinds.items()}
    try:
        with writing(path) as stream, pyarrow.parquet.ParquetWriter(stream, schema) as writer:
            while part := [_flat(row) for row in islice(rows, _ROW_GROUP)]:
                trees = [{n: None if v is None else turned[n](v) for n, v in tree.items()} for tree in part]
                writer.write_table(pyarrow.Table.from_pylist(trees, schema))
            for columns in _closed(sweep):
                count = len(columns["number"])
                filled = [_array(pyarrow, columns.get(field.name), field.type, count) for field in schema]
                writer.write_table(pyarrow.Table.from_arrays(filled, schema=schema))
    except (pyarrow.ArrowException, KeyError, ValueError, TypeError, OverflowError) as error:
        why = f"a row of the journal is none of this sweep ({error}); results.jsonl has all rows"
        raise FileError(f"{path}: not written: {why}; begin anew with --restart") from None


def _array(pyarrow: Any, column: Any, kind: Any, count: int) -> Any:
    if column is None:
        return pyarrow.nulls(count, kind)
    if isinstance(column, np.ndarray):
        return pyarrow.array(column if kind != "string" else column.astype(str), kind)
    return pyarrow.repeat(pyarrow.scalar(column, kind), count)


def _kind(axis: str, sweep: Sweep) -> str:
    """The type of an axis's column: that of its values over all kernels, and numbers where a workload has it."""
    values = [value for kernel in sweep.kernels for value in kernel.axes.get(axis, [])]
    values += [0.0 for space in sweep.workloads if axis in space.axis]
    if all(isinstance(value, int) for value in values):
        return "int64"
    return "string" if any(isinstance(value, str) for value in values) else "float64"
