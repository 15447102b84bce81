"""Profiler reports (.ncu-rep) of an H200: the counts in them are the emulator's; what is missing is named."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warplens import api
from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.emulator.profiler import profile
from warplens.program import toolchain
from warplens.workload import ncu_report as report
from warplens.workload.launch import load_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "data" / "h200" / "suite" / "reports"
LAUNCHES = {"vector_add": "vector/vector_add", "reduction_k6": "reduction/reduction_k6",
            "matmul_tiled16": "matmul/matmul_tiled16"}  # fmt: skip
ncu_report = pytest.mark.skipif(find_spec("ncu_report") is None, reason="needs the extra ncu")


@ncu_report
@pytest.mark.parametrize("name", LAUNCHES)
def test_the_same_counts_as_the_emulators(name: str) -> None:
    ((workload, call),) = api.load_report(REPORTS / f"{name}.ncu-rep")
    launch = load_launch(ROOT / "examples" / f"{LAUNCHES[name]}.toml", "small")
    assert call.grid_shape == launch.grid_shape and call.block_shape == launch.block_shape
    (found,) = report.load_report(REPORTS / f"{name}.ncu-rep")
    emulated, counted = profile(found.program, launch, api.load_machine("h200")), workload.profile
    assert counted is not None
    assert counted.counts["executed"] == emulated.counts["executed"]
    assert counted.counts["threads"] == emulated.counts["threads"]
    accesses = [i for i, x in enumerate(found.program.instructions) if x.opcode in ("LDG", "STG")]
    assert [counted.counts["sectors"][i] for i in accesses] == [emulated.counts["sectors"][i] for i in accesses]
    shared = [i for i, x in enumerate(found.program.instructions) if x.opcode in ("LDS", "STS")]
    assert [counted.counts["wavefronts"][i] for i in shared] == [emulated.counts["wavefronts"][i] for i in shared]
    assert sum(p.instructions for p in counted.paths) == pytest.approx(
        counted.total("executed") / call.blocks / 8, rel=0.3
    )


@ncu_report
def test_commands_take_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(REPORTS / "reduction_k6.ncu-rep")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "reduce6 on NVIDIA H200, grid 8, block 256" in out and "the profiler measured 3.936 us" in out
    assert main(["predict", str(REPORTS / "vector_add.ncu-rep")]) == 0
    assert "limited by" in capsys.readouterr().out


@ncu_report
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("vector_add.basic.ncu-rep", "the report has no counts per instruction (ncu --section SourceCounters"),
        ("junk.ncu-rep", "no profiled kernel in it, or not a report of Nsight Compute"),
    ],
)
def test_what_a_report_lacks_is_one_line(
    file: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "junk.ncu-rep").write_text("junk")
    path = REPORTS / file if (REPORTS / file).exists() else tmp_path / file
    assert main(["analyze", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def _action(metrics: dict[str, Any]) -> Any:
    """What ncu-report gives of a launch: a number, or (for a list) one for each instruction from address 4096 on."""

    class Metric:
        def __init__(self, value: Any) -> None:
            self.given = value

        def has_value(self) -> bool:
            return not isinstance(self.given, list)

        def value(self) -> Any:
            return self.given

        def unit(self) -> str:
            return "usecond" if self.given == 3.5 else ""

        def has_correlation_ids(self) -> bool:
            return isinstance(self.given, list)

        def num_instances(self) -> int:
            return len(self.given)

        def as_uint64(self, i: int) -> int:
            return int(self.given[i])

        def correlation_ids(self) -> Metric:
            return Metric([4096 + 16 * i for i in range(len(self.given))])

    return SimpleNamespace(
        NameBase_MANGLED=1,
        name=lambda base: "vector_add",
        metric_names=lambda: metrics,
        metric_by_name=lambda name: Metric(metrics[name]) if name in metrics else None,
    )


def test_every_launch_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shape: dict[str, Any] = {f"launch__{what}_dim_{axis}": 1 for what in ("grid", "block") for axis in "xyz"}
    shape |= {"launch__grid_dim_x": 8, "launch__block_dim_x": 256, "device__attribute_display_name": "NVIDIA H100"}
    counted = {**shape, "inst_executed": [64] * 17, "gpu__time_duration.sum": 3.5}
    actions = [_action(counted), _action(shape)]
    rows = SimpleNamespace(num_actions=lambda: 2, action_by_idx=lambda i: actions[i])
    context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda i: rows)
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda path: context))
    monkeypatch.setattr(toolchain, "serve", lambda module, given, *limits: (0, report.answered(given)))
    first, second = report.load_report(REPORTS / "vector_add.ncu-rep")
    assert first.record.executed == [64] * 17 + [0] and first.record.counters == {"time_ns": 3500.0}
    assert first.call.blocks == 8 and first.program.has_control
    assert first.missing[0].startswith("hits in L1 (ncu --section MemoryWorkloadAnalysis)")
    assert second.missing[0].startswith("counts per instruction")
    with pytest.raises(WarplensError, match="vector_add: the report has no counts per instruction"):
        api.load_report(REPORTS / "vector_add.ncu-rep")
    actions.pop()
    rows.num_actions = lambda: 1
    ((workload, _),) = api.load_report(REPORTS / "vector_add.ncu-rep")
    assert "profiled on NVIDIA H100" in workload.notes and any("3.5 us" in note for note in workload.notes)
    with pytest.raises(WarplensError, match="no kernel 'other' in it"):
        api.load_report(REPORTS / "vector_add.ncu-rep", kernel="other")
    assert api.predict(workload, "h200", "warplens-fast").seconds


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os; os.abort()", "ncu-report broke off (exit code -6): the report was damaged or cut short"),
        ("x = bytearray(3 << 30)", "not read by ncu-report: MemoryError()"),
        ("print('{', flush=True); raise KeyError('x' * 9)", "not read by ncu-report: KeyError('xxxxxxxxx')"),
    ],
)
def test_a_library_that_aborts_ends_its_own_process_only(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of 269 damaged reports ended warplens by SIGABRT."""
    (tmp_path / "ncu_report.py").write_text(f"def load_report(path):\n    {body}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert main(["analyze", str(REPORTS / "vector_add.ncu-rep")]) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


@pytest.mark.skipif(find_spec("ncu_report") is not None, reason="it is there")
def test_without_ncu_report_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(REPORTS / "vector_add.ncu-rep")]) == 2
    assert "pip install ncu-report" in capsys.readouterr().err


@ncu_report
def test_a_report_that_was_cut_short_is_told(tmp_path: Path) -> None:
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes((REPORTS / "vector_add.ncu-rep").read_bytes()[:100_000])
    with pytest.raises(WarplensError, match="damaged or cut short"):
        api.load_report(cut)


@ncu_report
def test_a_report_passes_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(REPORTS / "vector_add.ncu-rep")
    assert main(["check", file, "--against", file, "--max-time", "1ms"]) == 0
    assert main(["check", file, "--max-time", "1ns"]) == 1
    assert "over the limit" in capsys.readouterr().out
