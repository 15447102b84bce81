"""`warplens profile` with a made-up ncu on the PATH that prints what the real one counted of saxpy on an H200."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from warplens import api
from warplens.cli import main
from warplens.frontend.ncu import INSTRUCTION, LAUNCH
from warplens.measure.ncu import base_name
from warplens.study.validation import read

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
ROOT = Path(__file__).parents[2]
LAUNCH_FILE = str(ROOT / "examples" / "saxpy.toml")

# Like ncu: with -i it prints a page of the report, else it runs the program behind the options and writes the report.
FAKE = """#!{python}
import pathlib, subprocess, sys
here, given = pathlib.Path(__file__).parent, sys.argv[1:]
if "-i" in given:
    assert pathlib.Path(given[given.index("-i") + 1]).read_text() == "report"
    print((here / (given[given.index("--page") + 1] + ".csv")).read_text())
else:
    (here / "arguments.txt").write_text("\\n".join(given))
    at = given.index("-o")
    done = subprocess.run(given[at + 2 :])
    if done.returncode:
        sys.exit("==ERROR== The application returned an error code (%d)." % done.returncode)
    print("==PROF== Disconnected from process 7")
    if "nothing" not in given:
        pathlib.Path(given[at + 1]).write_text("report")
"""


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


def _once(ask: Callable[..., api.Profiled]) -> Callable[..., api.Profiled]:
    """Answer a second time what was answered before: the command is asked for text and for JSON."""
    found: list[api.Profiled] = []

    def answer(*arguments: Any, **options: Any) -> api.Profiled:
        if not found:
            found.append(ask(*arguments, **options))
        return found[0]

    return answer


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    record = read("h200/kernels/ncu.json.gz")["launches"]["saxpy"]
    names = [name for name in INSTRUCTION if name in record]
    columns = [[f"{n:,}" for n in record[name]] for name in names]
    listing = [["Kernel Name", record["kernel"]], [INSTRUCTION[name] for name in names], *zip(*columns, strict=True)]
    counters = {LAUNCH[name]: value for name, value in record["counters"].items()}
    units = {"gpu__time_duration.sum": "us", "dram__bytes_read.sum": "Mbyte"}
    scale = {"us": 1e3, "Mbyte": 1e6}
    raw = [["ID", *counters], ["", *(units.get(c, "") for c in counters)],
           ["0", *(v / scale.get(units.get(c, ""), 1) for c, v in counters.items())]]  # fmt: skip
    (tmp_path / "source.csv").write_text("==PROF== hello\n" + _csv(listing))
    (tmp_path / "raw.csv").write_text(_csv(raw))
    tool = tmp_path / "ncu"
    tool.write_text(FAKE.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_both_predictions_stand_beside_the_measurement(
    fake_ncu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = [sys.executable, "-c", "print('ran')", "one two"]
    monkeypatch.setattr(api, "profile_program", _once(api.profile_program))
    assert main(["profile", "--launch", LAUNCH_FILE, "--model", "warplens-fast", *program]) == 0
    out = capsys.readouterr().out
    assert "from the profiler's counts" in out and "from the emulator's counts" in out and "read from DRAM" in out
    assert main(["profile", "--launch", LAUNCH_FILE, "--model", "warplens-fast", "--json", "--", *program]) == 0
    data = json.loads(capsys.readouterr().out)
    record = read("h200/kernels/ncu.json.gz")["launches"]["saxpy"]
    assert data["measured_seconds"] == pytest.approx(1e-9 * record["counters"]["time_ns"])
    assert set(data["predictions"]) == {"profiler", "emulator"}
    assert all(abs(error) < 15 for error in data["error_percent"].values())
    counts = {c["what"]: (c["measured"], c["emulated"]) for c in data["counts"]}
    assert counts["instructions"][0] == counts["instructions"][1] == sum(record["executed"])
    assert counts["read from DRAM"][0] == pytest.approx(record["counters"]["dram_read_bytes"])
    asked = (fake_ncu / "arguments.txt").read_text().split("\n")
    assert asked[asked.index("--kernel-name") + 1] == "saxpy4" and asked[-1] == "one two"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([sys.executable, "-c", "raise SystemExit(3)"], "ncu: ==ERROR== The application returned an error code (3)"),
        ([sys.executable, "-c", "", "nothing"], "ncu saw no launch of saxpy4"),
        (
            [
                sys.executable,
                "-c",
                "print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')",
                "nothing",
            ],
            "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): run this as root, or have an administrator load",
        ),
        ([], "name the program to run"),
    ],
)
def test_what_goes_wrong_is_one_line(
    fake_ncu: Path, program: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--launch", LAUNCH_FILE, *program]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_without_ncu_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("warplens.measure.ncu.INSTALLED", tmp_path)
    assert main(["profile", "--launch", LAUNCH_FILE, "x"]) == 2
    assert capsys.readouterr().err.startswith("warplens: ncu is not on the PATH: `warplens profile` needs")


def test_names_as_ncu_filters_them() -> None:
    names = {"saxpy4": "saxpy4", "void a::b::gemm<float, 4>(int)": "gemm", "scan(unsigned int*)": "scan"}
    assert {name: base_name(name) for name in names} == names
