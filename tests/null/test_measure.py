"""The laboratory without a GPU: plans, journal, stamps, what is said where there is none."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warplens.cli import main
from warplens.measure import stamps
from warplens.measure.catalogue import HELPERS, entries
from warplens.measure.entry import Effort
from warplens.measure.journal import Journal, read
from warplens.measure.laboratory import Laboratory

from .fake_gpu import FakeGpu, FakeWatch, facts

ENTRIES = entries()


def laboratory(gpu: Any) -> Laboratory:
    cubins = {k.name: b"" for k in (*HELPERS, *(k for e in ENTRIES for k in e.kernels))}
    watch: Any = FakeWatch()
    return Laboratory(gpu, facts(), watch, cubins)


def no_driver(*_: object) -> None:
    raise OSError("libcuda.so.1: cannot open shared object file")


def test_without_a_driver_one_line_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    assert main(["machine", "measure", "--out", "nowhere"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "no NVIDIA driver" in err
    assert not Path("nowhere").exists()


def test_measuring_needs_no_rich() -> None:
    program = (
        "import sys; sys.modules['rich'] = None; from warplens.cli import main; "
        "sys.exit(main(['machine', 'measure', '--list']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "chase.l2" in done.stdout


def test_every_plan_runs_and_yields() -> None:
    lab = laboratory(FakeGpu())
    lab.find_reference()
    assert lab.reference_ghz == pytest.approx(2.0, rel=1e-6)
    for entry in ENTRIES:
        if entry.quick:
            samples = list(entry.plan(lab, entry, Effort(quick=True, repetitions=1)))
            assert samples, entry.name
            json.dumps(samples)


def test_a_sample_at_another_clock_is_redone_and_marked() -> None:
    gpu = FakeGpu()
    lab = laboratory(gpu)
    lab.find_reference()
    gpu.ghz = 1.8
    lab.redo_seconds = 0.2
    values = lab.sample("blocks", 12, 256, size=1_000_000)
    assert values["off_clock"] == 1
    assert values["redone"] >= 1
    gpu.ghz = 2.0
    assert "off_clock" not in lab.sample("blocks", 12, 256, size=1_000_000)


def test_occupancy_is_tracked_from_stamps() -> None:
    # SM 0: two warps overlap, a third starts as the first ends; SM 5: one after the other
    rows = [(0, 10, 0), (5, 20, 0), (10, 30, 0), (0, 10, 5), (10, 20, 5)]
    records = np.array([(start + 1, end + 1, 0, 0, sm, 4, 0, 0) for start, end, sm in rows], np.uint64).ravel()
    values = stamps.reduce(records)
    assert (values["warps_least"], values["warps_most"], values["sms"]) == (1, 2, 2)
    assert values["span_cycles"] == 30
    assert values["mean_warp_cycles"] == (10 + 15 + 20 + 10 + 10) / 5


def test_a_journal_survives_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "measured.jsonl"
    journal = Journal(path)
    journal.write("head", gpu="x")
    journal.write("done", entry="a", fingerprint="f")
    journal.close()
    path.write_text(path.read_text() + '{"is":"sample","entry":"b","val')
    again = Journal(path)
    assert again.done == {"a": "f"}
    again.write("done", entry="b", fingerprint="g")
    again.close()
    assert Journal(path).done == {"a": "f", "b": "g"}
    assert [event["is"] for event in read(path)] == ["head", "done", "done"]
