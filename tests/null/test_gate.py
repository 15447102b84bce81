"""`warplens check`: passes, fails with a reason, and says what is wrong with the question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.advisor.differences import parse_share, parse_time
from warplens.cli import main
from warplens.workload import load_workload


def _check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["check", *arguments, "--model", "volkov"])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _check(capsys, "saxpy", "--max-time", "1s")
    assert code == 0 and said.startswith("ok: saxpy")
    code, said = _check(capsys, "saxpy", "--max-time", "1ns")
    assert code == 1 and "over the limit of 1 ns" in said and "limited by" in said
    assert said.startswith("too slow: saxpy on NVIDIA H200: ") and said.count("\n") == 1  # the reason once


def test_a_workload_that_our_model_cannot_take_is_checked_by_one_that_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "volkov-add-load", "--max-time", "1us"]) == 0
    assert "by volkov-contention" in capsys.readouterr().out
    assert main(["check", "volkov-add-load", "--max-time", "1us", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["why_not_ours"].startswith("warplens needs profile")
    assert main(["check", "volkov-add-load", "--max-time", "1us", "--model", "warplens"]) == 2
    assert "warplens needs profile" in capsys.readouterr().err


def test_against_what_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = load_workload("saxpy")
    faster = now.with_values(accesses=now.accesses[:-1])  # one array less to move
    now.save(tmp_path / "now.json")
    faster.save(tmp_path / "faster.json")
    assert _check(capsys, "saxpy", "--against", str(tmp_path / "now.json"))[0] == 0
    assert _check(capsys, str(tmp_path / "faster.json"), "--against", str(tmp_path / "now.json"))[0] == 0
    code, said = _check(capsys, "saxpy", "--against", str(tmp_path / "faster.json"), "--tolerance", "2%", "--json")
    found = json.loads(said)
    assert code == 1 and not found["passed"]
    assert found["seconds"] > 1.02 * found["against_seconds"]
    assert "% slower than" in found["reasons"][0] and "limited by" in found["reasons"][0]
    assert _check(capsys, "saxpy", "--against", str(tmp_path / "faster.json"), "--tolerance", "400%")[0] == 0


@pytest.mark.parametrize(("more", "code"), [(0.004, 0), (0.05, 1)])
def test_a_percent_is_allowed_where_nothing_is_said(
    more: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = load_workload("saxpy")
    now.with_values(accesses=[replace(a, count=a.count * (1 - more)) for a in now.accesses]).save(tmp_path / "was.json")
    assert _check(capsys, "saxpy", "--against", str(tmp_path / "was.json"))[0] == code
    assert _check(capsys, "saxpy", "--against", str(tmp_path / "was.json"), "--tolerance", "0%")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["saxpy"], "nothing to check against"), (["saxpy", "--max-time", "120"], "written like 120us"),
     (["--max-time", "1s"], "name a workload"), (["saxpy", "--max-time", "1s", "--tolerance", "x"], "written like 2%"),
     (["saxpy", "--against", "nowhere.json"], "nowhere.json"),
     (["saxpy", "--max-time", "3 parsecs"], "written like 120us, 1.5ms or 2s, not '3 parsecs'")],
)  # fmt: skip
def test_a_wrong_question_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = _check(capsys, *arguments)
    assert code == 2 and said in told and told.count("\n") == 1


def test_a_hostile_name_does_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_workload("saxpy").with_values(name="k\x1b[31m\u202e").save(tmp_path / "evil.json")
    code, said = _check(capsys, str(tmp_path / "evil.json"), "--max-time", "1s")
    assert code == 0 and "\x1b" not in said and "\u202e" not in said


def test_times_and_shares() -> None:
    assert parse_time("1.5 ms") == pytest.approx(1.5e-3)
    assert parse_time("3e2ns") == pytest.approx(300e-9)
    assert parse_share("2%") == parse_share("0.02") == pytest.approx(0.02)
