"""How the suite's results are reduced and merged: ncu's log to durations, batches to one file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from warplens.core.errors import WarplensError
from warplens.papers.validation.suite import results

_HEAD = {"gpu": "NVIDIA H200", "date": "2026-11-19"}


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(file.read_bytes())))


def _log(folder: Path, microseconds: list[float], launches: dict[str, Any]) -> None:
    rows = ['"ID","Metric Name","Metric Unit","Metric Value"']
    rows += [f'"{i}","gpu__time_duration.sum","ns","{1000 * us:,.0f}"' for i, us in enumerate(microseconds)]
    (folder / "ncu.csv").write_text("==PROF== connected\n" + "\n".join(rows) + "\n")
    (folder / "order.json").write_text(json.dumps({**_HEAD, "launches": launches}))


def test_durations_are_medians_in_microseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = {"saxpy": {"warm": 3, "cold": 2}, "broken": {"error": "no kernel"}, "vabs": {"warm": 1, "cold": 1}}
    _log(tmp_path, [1.5, 1.25, 1.75, 4, 5, 1250, 1300], order)
    results.durations([tmp_path], tmp_path / "durations.json.gz")
    found = _read(tmp_path / "durations.json.gz")
    assert found["gpu"] == "NVIDIA H200" and "broken" in capsys.readouterr().err
    assert found["launches"]["saxpy"]["warm_us"] == 1.5 and found["launches"]["saxpy"]["cold_us"] == 4.5
    assert found["launches"]["vabs"]["samples_us"] == {"warm": [1250.0], "cold": [1300.0]}


def test_a_log_of_other_launches_is_refused(tmp_path: Path) -> None:
    _log(tmp_path, [1, 2, 3], {"saxpy": {"warm": 1, "cold": 1}})
    with pytest.raises(WarplensError, match="more launches"):
        results.durations([tmp_path], tmp_path / "durations.json.gz")


def test_a_new_batch_replaces_its_launches_and_keeps_the_heads_of_others(tmp_path: Path) -> None:
    for day, times in ((1, {"a": 1, "b": 1}), (2, {"b": 2, "c": {"error": "x"}})):
        launches = {name: t if isinstance(t, dict) else {"warm_us": t} for name, t in times.items()}
        (tmp_path / "times.json").write_text(json.dumps({"date": day, "launches": launches}))
        results.keep([tmp_path], tmp_path / "kept")
    found = _read(tmp_path / "kept" / "times.json.gz")
    assert found["date"] == 2 and found["launches"] == {"a": {"warm_us": 1}, "b": {"warm_us": 2}}
    assert found["earlier"] == [{"date": 1, "names": ["a"]}]
