"""Our own model on emulated kernels: against an H200's times, and its laws."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.papers.validation.kernel_errors import rank_correlation
from warplens.papers.validation.kernels import is_test

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GPU = wl.load_machine("h200")


@cache
def _workload(name: str) -> wl.Workload:
    stem, _, variant = name.partition(".")
    return wl.count(None, FILES[stem], GPU, variant=variant)


@cache
def _times() -> dict[str, Any]:
    file = ROOT / "data" / "h200" / "suite" / "kernels" / "durations.json.gz"
    return dict(json.loads(gzip.decompress(file.read_bytes()))["launches"])


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("saxpy", 0.05),
        ("vector_add", 0.1),
        ("divergence.path1", 0.05),
        ("loads.many", 0.06),
    ],
)
def test_times_of_an_h200(name: str, off: float) -> None:
    seconds = wl.predict(_workload(name), GPU, "warplens").seconds
    assert seconds == pytest.approx(1e-6 * _times()[name]["warm_us"], rel=off)


def test_never_below_a_limit_but_the_latency() -> None:
    p = wl.predict(_workload("saxpy"), GPU, "warplens")
    assert float(p.cycles or 0) >= max(float(c) for name, c in p.limits.items() if name != "latency")
    fast = wl.predict(_workload("saxpy"), GPU, "warplens-fast")
    assert float(fast.cycles or 0) >= max(float(c) for c in fast.limits.values())


def test_a_slower_memory_takes_longer() -> None:
    w = _workload("saxpy")
    slow = GPU.with_values(chip__clock_hz=1e9)
    assert float(wl.predict(w, slow, "warplens-fast").seconds or 0) > 0
    assert wl.predict(w, GPU, "warplens-fast").bound == "dram bandwidth"


def test_without_machine_code_it_says_so() -> None:
    with pytest.raises(WarplensError, match="needs profile"):
        wl.predict("saxpy", GPU, "warplens")


def test_the_test_set_is_a_third_by_name() -> None:
    kernels = {name.partition(".")[0] for name in _times()}
    share = sum(map(is_test, kernels)) / len(kernels)
    assert 0.2 < share < 0.5
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([10.0, 30, 20])) == pytest.approx(0.5)


def test_the_time_comes_first_then_remedies_and_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from warplens.api import verbs
    from warplens.cli import main

    report, before, advise = tmp_path / "r.html", list[str](), verbs.advised

    def asked(*given: Any, **how: Any) -> Any:
        before.append(capsys.readouterr().out)
        return advise(*given, **how)

    monkeypatch.setattr("warplens.api.analysis.advised", asked)
    assert main(["analyze", "--launch", str(FILES["saxpy"])]) == 0
    assert "limited by: dram bandwidth" in before[0] and "what would help" not in before[0]
    after = capsys.readouterr().out
    assert "what would help" in after and "limited by" not in after
    assert main(["analyze", "--launch", str(FILES["saxpy"]), "--html", str(report)]) == 0
    assert before[1] == ""  # a file is written before anything is printed
    text = report.read_text()
    assert "warplens-fast" in text and 'id="data"' in text  # all models, and what --json prints
    assert 'id="L5"' in text and "LDG.E" in text  # the source's lines, and the machine code
