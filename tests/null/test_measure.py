"""The laboratory without a GPU: plans, journal, stamps, what is said where there is none."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.laboratory import block_lifetime, build, plan, run, stamps
from warplens.laboratory.catalogue import HELPERS, entries
from warplens.laboratory.gpu_session import Laboratory
from warplens.laboratory.journal import Journal, read
from warplens.laboratory.plan import Effort
from warplens.laboratory.run import Progress

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
    assert "no NVIDIA driver" in err and "run this on a machine with one" in err
    assert not Path("nowhere").exists()


def test_measuring_needs_the_driver_python_and_numpy_only() -> None:
    """With kernels that were compiled before; to compile and check them the front end is needed, and is asked for."""
    program = """
import sys
import time
sys.modules |= dict.fromkeys(("msgspec", "rich", "numba", "llvmlite"))
from warplens.cli import main
from warplens.laboratory import catalogue, gpu_session, run
assert not any(name.startswith(("warplens.program", "warplens.machine")) for name in sys.modules)
assert main(["machine", "measure", "--check", "--only", "chase.l2"]) == 2
sys.exit(main(["machine", "measure", "--list"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "chase.l2" in done.stdout
    assert "needs msgspec, which measuring itself does not: install it, or name a folder" in done.stderr


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


def test_a_sample_in_which_twice_as_much_took_no_longer_is_redone() -> None:
    lab = laboratory(FakeGpu())
    taken = iter([(3.0, 2.0), (1.0, 2.0)])
    assert lab.steady(lambda: dict(zip(("seconds_n", "seconds_2n"), next(taken), strict=True))) == {
        "seconds_n": 1.0, "seconds_2n": 2.0, "redone": 1,
    }  # fmt: skip


def test_every_sample_has_a_clock() -> None:
    """Whatever times it, stamps or events: at another clock it is marked, in every entry."""
    gpu = FakeGpu()
    lab = laboratory(gpu)
    lab.find_reference()
    gpu.ghz = 1.8
    lab.redo_seconds = 0.0
    for entry in ENTRIES:
        if entry.quick and not entry.parameters.get("own_clock"):
            _, values = next(iter(entry.plan(lab, entry, Effort(quick=True, repetitions=1))))
            assert any(key.startswith("off_clock") for key in values), entry.name


def test_lives_of_blocks_are_reduced() -> None:
    """Blocks of two warps in one place of each of six SMs: waits of 500 and 700 cycles; the clock runs over."""
    clock = 1 << 32
    blocks = [
        [((begin - w) % clock, 1, (begin + 10) % clock, (begin + 510 + 200 * w) % clock, sm, w, 0, 0) for w in range(2)]
        for begin in range(clock - 40_000, clock + 40_000, 1400)
        for sm in range(6)
    ]
    found = block_lifetime.lifetimes(np.array(blocks))
    assert (found["latency"], found["longest"]) == (600, 700)
    assert found["drawn_1"] == pytest.approx(650, abs=1)  # 700 unless both are 500
    assert found["drawn_2"] == 600
    assert found["block"] == 1 + 710  # the second warp began a cycle before the first
    assert found["period"] == 1400


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


def test_what_was_measured_before_says_nothing_about_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = Progress(100)
    bar.step(90, "a", "was measured before", skipped=True)
    assert bar.left_seconds() == 0  # nobody knows yet
    now[0] = 2.0
    bar.step(1, "b")
    assert bar.left_seconds() == 18


def test_another_plan_measures_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, gpu = ENTRIES[0], facts()
    first = run.mark_of(entry, gpu, Effort())
    assert first == run.mark_of(entry, gpu, Effort())
    assert first != run.mark_of(entry, gpu, Effort(repetitions=4))
    assert first != run.mark_of(replace(entry, parameters={**entry.parameters, "warps": (4,)}), gpu, Effort())
    assert first != run.mark_of(replace(entry, plan=plan.block_sweep), gpu, Effort())
    monkeypatch.setattr(run, "_text", lambda module: "another")
    assert first != run.mark_of(entry, gpu, Effort())


def test_a_number_that_is_none_does_not_spoil_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "measured.jsonl")
    journal.write("head", gpu="x")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.write("sample", entry="a", point={}, values={"x": float("nan")})
    journal.write("done", entry="b", fingerprint="g")
    journal.close()
    assert [event["is"] for event in read(tmp_path / "measured.jsonl")] == ["head", "done"]


def test_what_is_asked_for_is_known_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["--list", "--only", "nope", "chase.l2"], "no measurement is called nope;"),
        (["--check", "--arch", "foo"], "--arch takes an architecture such as sm_90, not 'foo'"),
        (["--repetitions", "0"], "--repetitions takes 1 or more"),
    ):
        assert main(["machine", "measure", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and text in err


def test_kept_kernels_that_cannot_be_read_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()

    def one(batch: list[Any], arch: str) -> tuple[bytes, list[str], str]:
        made.append(batch[0].name)
        return b"cubin", ["NVRTC"], ""

    monkeypatch.setattr(build, "_one", one)
    kernels = HELPERS[:1]
    for spoil in (None, "missing", "{"):
        if spoil:
            (kept,) = tmp_path.glob("*.json")
            kept.unlink() if spoil == "missing" else kept.write_text(spoil)
        assert build.build(kernels, "sm_90", tmp_path).cubins == {HELPERS[0].name: b"cubin"}
    assert len(made) == 3
    assert build.build(kernels, "sm_90", tmp_path).tools == ["NVRTC"] and len(made) == 3
    (tmp_path / "file").touch()
    with pytest.raises(WarplensError, match="cannot make this folder"):
        build.build(kernels, "sm_90", tmp_path / "file")
