"""Two measurements side by side: what is promised, and what the committed runs on different H200s show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens.cli import main
from warplens.laboratory.agree import FIXED, MEMORY, Pair, agree, promised, told
from warplens.laboratory.instructions import best
from warplens.laboratory.samples import Samples

from .journals import FULL, QUICK, TOGETHER, events, numbers, part, samples

pytestmark = TOGETHER


@pytest.mark.parametrize(
    ("key", "percent"),
    [
        ("operations.fadd.latency_cycles", FIXED),
        ("operations.mufu_rsq.peak_ops_per_cycle_per_scheduler", FIXED),
        ("tensor.group_f16_256.peak_flops_per_cycle_per_sm", FIXED),
        ("instructions.fp32.latency_to.sfu", FIXED),
        ("instructions.load.latency_cycles", MEMORY),
        ("bandwidth.dram_read_16.bytes_per_second", MEMORY),
        ("cache.l2_latency_cycles", MEMORY),
        ("memory.extra_transaction_cycles", MEMORY),
        ("operations.fadd.at_90_percent_warps_per_scheduler", None),
        ("latency_distribution.6.max_cycles", None),
        ("launch.round_trip_seconds", None),
    ],
)
def test_what_is_promised(key: str, percent: float | None) -> None:
    assert promised(key) == percent


def test_a_pair_says_how_far_it_is_apart() -> None:
    assert Pair("a", 102.0, 100.0, 1.0).percent == pytest.approx(2)
    assert not Pair("a", 102.0, 100.0, 1.0).agrees
    assert Pair("a", 102.0, 100.0, 3.0).agrees
    assert Pair("a", 200.0, 100.0).agrees  # nothing was promised
    assert not Pair("a", 1.0, 0.0, 1.0).agrees


def test_the_runs_are_of_different_gpus() -> None:
    assert len({samples(name).head["facts"]["uuid"] for name in FULL}) == len(FULL)


def test_two_gpus_with_dram_of_one_kind_agree() -> None:
    """Every fixed number within 1 %, every memory rate, latency and fitted size within 3 %."""
    pairs = agree(numbers("measured_again"), numbers("measured_third"))
    assert sum(pair.promised_percent == FIXED for pair in pairs) == 277
    assert sum(pair.promised_percent == MEMORY for pair in pairs) == 177
    assert all(pair.agrees for pair in pairs)


@pytest.mark.parametrize(("other", "many"), [("measured_again", 8), ("measured_third", 9)])
def test_two_gpus_with_dram_of_two_kinds_agree_in_all_but_dram(other: str, many: int) -> None:
    """Every fixed number within 1 %, every memory rate and latency within 3 %, but for DRAM's and code from DRAM."""
    pairs = agree(numbers("measured"), numbers(other))
    assert sum(pair.promised_percent == FIXED for pair in pairs) == 277
    assert sum(pair.promised_percent == MEMORY for pair in pairs) == 177
    code, apart = "instruction_cache.cold_interval_cycles", [pair for pair in pairs if not pair.agrees]
    assert code in {pair.key for pair in apart} and all(pair.promised_percent == MEMORY for pair in apart)
    assert all("DRAM" in pair.why for pair in apart if pair.key != code) and len(apart) == many + 1
    back = [pair.key for pair in agree(numbers(other), numbers("measured")) if not pair.agrees]
    assert back == [pair.key for pair in apart]


def test_what_waiting_gives_is_the_same_on_both_kinds() -> None:
    """Whole numbers are the same; code from DRAM is less than 6 % apart, the fit of split sectors less than 3."""
    pairs = {pair.key: pair for pair in agree(numbers("measured"), numbers("measured_again"))}
    for key in ("sm.sfu_queue_release_cycles", "sm.queued_per_scheduler", "sm.barrier_data_path_cycles",
                "instruction_cache.kept_bytes", "instructions.sfu.read_cycles", "instructions.shared.read_cycles",
                "instructions.shuffle.read_cycles"):  # fmt: skip
        assert pairs[key].percent == 0, key
    for key, percent in (("instruction_cache.cold_interval_cycles", 6.0), ("scattered.split_sector_seconds", 3.0),
                         ("scattered.split_blocks_bytes", 3.0), ("scattered.split_warps_bytes", 3.0)):  # fmt: skip
        assert pairs[key].promised_percent == MEMORY and abs(pairs[key].percent) < percent, key


def test_a_journal_of_ones_own_makes_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "volkov-table-6.1", "--gpu", str(QUICK)]) == 0
    assert "Hopper" in capsys.readouterr().out
    assert main(["reproduce", "volkov-table-6.1", "--gpu", "nowhere.jsonl"]) == 2
    assert "nowhere.jsonl: No such file" in capsys.readouterr().err


def test_a_run_agrees_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    quick = str(QUICK)
    assert main(["machine", "agree", quick, quick, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["numbers"]
    assert {"key", "values", "percent", "promised_percent", "agrees", "why"} == set(found[0])
    assert len(found) > 400 and all(pair["agrees"] and pair["percent"] == 0 for pair in found)
    assert main(["machine", "agree", quick, "nowhere.jsonl"]) == 2
    assert "nowhere.jsonl: No such file" in capsys.readouterr().err


def test_what_cannot_be_compared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adds, head = part(tmp_path / "adds.jsonl", "instruction.fadd"), events("measured_quick")[0]
    for changed, text in ((head, "have no number in common"), ({**head, "gpu": "NVIDIA A100"}, "two kinds of GPU")):
        (tmp_path / "x.jsonl").write_text(json.dumps(changed) + "\n")
        assert main(["machine", "agree", str(adds), str(tmp_path / "x.jsonl")]) == 2
        assert text in capsys.readouterr().err
    assert main(["machine", "derive", str(adds), "--also", str(tmp_path / "x.jsonl")]) == 2
    assert "is of another kind of GPU, NVIDIA A100, than" in capsys.readouterr().err


def test_what_one_run_alone_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, less = part(tmp_path / "more.jsonl", "instruction.f"), part(tmp_path / "less.jsonl", "instruction.fadd")
    assert main(["machine", "agree", str(more), str(less)]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"only {more} has: ") and last.endswith(" more")
    assert main(["machine", "agree", str(more), str(less), "--json"]) == 0
    assert capsys.readouterr().err.splitlines() == [last]


def test_a_peak_is_not_known_before_several_chains_were_measured() -> None:
    """FFMA with one chain comes to 16 of 25.8; where those with more chains failed, it is the best that is known."""
    some = [e for e in events("measured_quick") if e["is"] == "head" or e.get("entry", "") == "instruction.ffma"]
    assert best(Samples(some), "instruction.ffma") is None
    failed = [{"is": "error", "entry": f"instruction.ffma.ilp{n}", "message": "not as it was meant"} for n in (2, 4)]
    assert best(Samples([*some, *failed]), "instruction.ffma") is not None


def test_differences_are_of_the_smaller_number() -> None:
    one, other = Pair("a", 100.0, 103.05, 3.0), Pair("a", 103.05, 100.0, 3.0)
    assert (one.agrees, other.agrees) == (False, False) and one.percent == -other.percent == pytest.approx(-3.05)
    assert Pair("a", 0.0, 0.0, 3.0).agrees and not Pair("a", 0.0, 1.0, 3.0).agrees


def test_what_a_journal_does_not_give_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "x.jsonl", tmp_path / "x.toml"
    file.write_text(json.dumps(events("measured_quick")[0]) + "\n")
    assert main(["machine", "derive", str(file), "--out", str(out)]) == 2
    assert "no measurement that a number follows from came to its end" in capsys.readouterr().err
    assert not out.exists()
    part(file, "instruction.fadd")
    assert main(["machine", "derive", str(file), "--out", str(out)]) == 0
    assert f"numbers are not from {file}, which does not give them, but from data/h200" in capsys.readouterr().err


def test_reasons_are_told() -> None:
    lines = list(told([Pair("contention.a_cycles", 707.0, 682.0, MEMORY), Pair("a", 1.0, 1.0, FIXED)]))
    assert lines[:2] == [
        "fixed latencies and peak rates: 1 of 1 agree within 1 %",
        "memory rates and latencies: 0 of 1 agree within 3 %",
    ]
    assert lines[2].startswith("  contention.a_cycles: 707 and 682, +3.7 %")
