"""Results of a sweep: `results.jsonl` and, with pyarrow, `results.parquet`, one row per point in their order.

Both are written whole, from the journal, a piece at a time. pyarrow, and not another writer of Parquet, because it
writes row group after row group and needs nothing beside itself (extra `parquet`). Closed-form points of workloads cost
a microsecond each by broadcasting: they are predicted here, and the journal does not have them.
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

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import writing
from warplens.machine import load_machine
from warplens.models import predict
from warplens.tuner.expression import Value
from warplens.tuner.journal import Journal
from warplens.tuner.points import Row
from warplens.tuner.spec import NUMBERS, Array, Sweep, WorkloadSpace, workload_of
from warplens.workload import Workload, mix
from warplens.workload.counted import texts

_ROW_GROUP = 50_000
CHUNK = 100_000  # closed-form points that are predicted at a time
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
    """Remove the files of an earlier run."""
    for name in ("results.jsonl", "results.parquet"):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(f"{folder / name}: {error.strerror}") from None


NO_PARQUET = "no results.parquet: that needs pyarrow (pip install pyarrow, then the same command again)"


def write(folder: Path, sweep: Sweep, journal: Journal) -> tuple[int, list[str], list[Best], list[str]]:
    """Write the files; return the number of closed-form points, the paths, the best points, and notes.

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
    _write_parquet(table, sweep, lines)
    return closed_points, [str(lines), str(table)], list(best.values()), _most(notes)


def _most(notes: Counter[str]) -> list[str]:
    """Return the commonest notes, each with its points."""
    common = [f"{count:,} points: {note}" for note, count in notes.most_common(_MOST_NOTES)]
    return common + ([f"{len(notes) - len(common):,} more, which the rows say"] if len(notes) > len(common) else [])


def _compare(best: dict[tuple[str, str], Best], new: Best) -> None:
    """Count a point, or the best of some, among the best points."""
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
        for part in chunks(space, sweep.folder, sweep.gpus, sweep.models, first):
            yield {_column(n) if n in space.axis else n: v for n, v in part.items()}
        first += space.size


def _by_row(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    count = len(part["number"])
    columns = [v.tolist() if isinstance(v, np.ndarray) else [v] * count for v in part.values()]
    return (dict(zip(part, row, strict=True)) for row in zip(*columns, strict=True))


def _flat(row: Row) -> dict[str, Any]:
    """Return a point as one level of keys; an axis that is named like one of ours keeps its name behind `axis.`."""
    tree = {key: value for key, value in msgspec.structs.asdict(row).items() if key != "values"}
    return tree | {_column(axis): value for axis, value in row.values.items()}


def _column(axis: str) -> str:
    return f"axis.{axis}" if axis in _TYPES else axis


def _write_parquet(path: Path, sweep: Sweep, rows: Path) -> None:
    """Write the rows of results.jsonl as a table, a group of rows at a time."""
    import pyarrow
    import pyarrow.parquet

    axes = [axis for kernel in sweep.kernels for axis in kernel.axes]
    axes += [axis for space in sweep.workloads for axis in space.axis]
    kinds = _TYPES | {_column(axis): _kind(axis, sweep) for axis in axes}
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in kinds.items()])
    try:
        with rows.open("rb") as lines, writing(path) as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
            while trees := [msgspec.json.decode(line) for line in islice(lines, _ROW_GROUP)]:
                for tree in trees:  # texts stand beside numbers on some axes
                    tree.update((n, str(v)) for n, v in tree.items() if kinds[n] == "string" and v is not None)
                writer.write_table(pyarrow.Table.from_pylist(trees, schema))
    except (pyarrow.ArrowException, KeyError, ValueError, TypeError, OverflowError) as error:
        why = f"a row of the journal is none of this sweep ({error}); results.jsonl has all rows"
        raise FileError(f"{path}: not written: {why}; begin anew with --restart") from None


def _kind(axis: str, sweep: Sweep) -> str:
    """Return the type of an axis's column: that of its values over all kernels, a number where a workload has it."""
    values = [value for kernel in sweep.kernels for value in kernel.axes.get(axis, [])]
    values += [0.0 for space in sweep.workloads if axis in space.axis]
    if all(isinstance(value, int) for value in values):
        return "int64"
    return "string" if any(isinstance(value, str) for value in values) else "float64"


def chunks(
    space: WorkloadSpace, folder: str, gpus: list[str], models: list[str], first: int
) -> Iterator[dict[str, Any]]:
    """Yield the points of a workload space by the chunk, as columns; `first` is the number of the first one."""
    workload = workload_of(space, folder)
    for gpu in gpus:
        for model in models:
            for start in range(0, space.size, CHUNK):
                numbers = np.arange(start, min(space.size, start + CHUNK))
                values = space.at(numbers)
                common = {"number": first + numbers, "kernel": Path(space.workload).stem, "gpu": gpu, "model": model}
                yield {**common, **_predicted(workload, values, gpu, model, len(numbers)), **values}


def _predicted(workload: Workload, values: dict[str, Array], gpu: str, model: str, count: int) -> dict[str, Any]:
    """Return seconds, cycles, bound, error and note of these points: columns, or one value for all of them."""
    try:
        p = predict(_varied(workload, values), load_machine(gpu), model, warps_per_sm=values.get("warps_per_sm"))
        if p.seconds is None or p.cycles is None:
            raise WarplensError(f"{model} gives no time")
    except WarplensError as error:
        return {"seconds": None, "cycles": None, "bound": None, "error": str(error), "note": None}
    numbers = {
        name: np.broadcast_to(np.asarray(x, float), count) for name, x in (("seconds", p.seconds), ("cycles", p.cycles))
    }
    bound = p.bound if isinstance(p.bound, str) else np.broadcast_to(p.bound, count)
    return {**numbers, "bound": bound, "error": None, "note": "; ".join(texts(workload.unmodelled)) or None}


def _varied(workload: Workload, values: dict[str, Array]) -> Workload:
    if "alpha" in values and workload.mix is not None:
        given = workload.mix
        workload = mix(values["alpha"], given.op, given.other, stride=given.stride)
    counts = {n.partition(".")[2]: v for n, v in values.items() if n.startswith("instructions.")}
    numbers = {name: value for name, value in values.items() if name in NUMBERS}
    return workload.with_values(instructions={**workload.instructions, **counts}, **numbers)
