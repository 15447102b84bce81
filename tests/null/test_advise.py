"""The advisor: overlays keep what they should keep, and advice on measured kernels says what was measured."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import warplens as wl
from warplens.advise import REMEDIES
from warplens.advise.advice import Advised
from warplens.advise.rewrite import Repeat, as_written, dropped, joined_threads, joined_turns, rewritten
from warplens.cli import main
from warplens.errors import WarplensError
from warplens.kernel import Workload
from warplens.kernel.profile import Profile
from warplens.study.kernels import Launch, launches

GPU = wl.load_machine("h200")


@cache
def measured(name: str) -> Launch:
    return next(x for x in launches() if x.name == name)


def counted(name: str) -> tuple[Workload, Profile]:
    workload = measured(name).workload
    assert workload.profile is not None
    return workload, workload.profile


@cache
def advised(name: str) -> Advised:
    return wl.advise(measured(name).workload, GPU)


def profile(workload: Workload) -> Profile:
    assert workload.profile is not None
    return workload.profile


def test_a_way_that_is_not_changed_leaves_the_workload_as_it_is() -> None:
    workload, _ = counted("matmul_tiled16")
    same = rewritten(workload, lambda path: [([(as_written(s), s.times) for s in path.segments], 1.0)])
    assert same == workload


def test_what_is_dropped_is_gone_from_ways_and_counts_and_the_rest_stays() -> None:
    workload, before = counted("matmul_tiled16")
    barriers = {i for i, x in enumerate(workload.code) if x.opcode == "BAR"}
    made = dropped(workload, barriers)
    after = profile(made)
    gone = sum(before.counts["executed"][i] for i in barriers)
    assert after.total("executed") == pytest.approx(before.total("executed") - gone)
    assert after.total("wavefronts") == pytest.approx(before.total("wavefronts"))
    assert not any(made.code[i].opcode == "BAR" for path in after.paths for i in path.walk())


def test_joined_turns_do_the_same_work_with_fewer_accesses() -> None:
    workload, before = counted("svm_coalesced")
    loads = {i for i, x in enumerate(workload.code) if x.opcode == "LDG"}
    made = joined_turns(workload, 2, lambda i: Repeat(1, 2.0) if i in loads else Repeat(2), lambda segment: True)
    after = profile(made)
    for column in ("useful_bytes", "sectors", "l2_sectors"):  # what is moved stays
        assert after.total(column) == pytest.approx(before.total(column))
    requests = sum(before.counts["requests"][i] for i in loads)
    assert after.total("requests") < before.total("requests") - 0.4 * requests  # nearly half of the loads
    arithmetic = [
        sum(n for x, n in zip(w.code, p.counts["executed"], strict=True) if x.kind == "fp32")
        for w, p in ((workload, before), (made, after))
    ]
    assert arithmetic[1] == pytest.approx(arithmetic[0])


def test_joined_threads_are_fewer_and_do_the_same_work() -> None:
    workload, before = counted("vector_add")
    made = joined_threads(workload, 4, lambda i: Repeat(4))
    after = profile(made)
    assert after.grid_blocks * 4 == before.grid_blocks
    for column in before.counts:
        assert after.total(column) == pytest.approx(before.total(column), rel=1e-9)


@pytest.mark.parametrize(
    ("before", "after", "remedy"),
    [
        ("bank.bank4", "bank", "remove-conflicts"),
        ("matmul_tiled16.conflicts", "matmul_tiled16", "remove-conflicts"),
        ("mb.mb2-uncoalesced", "mb.mb2-coalesced", "coalesce"),
        ("itilp", "itilp.ilp4", "more-ilp"),
        ("spill.limit32", "spill", "avoid-spills"),
    ],
)
def test_a_remedy_that_was_applied_bought_about_what_is_said(before: str, after: str, remedy: str) -> None:
    found = advised(before).named(remedy)
    assert found is not None and found.helps
    assert found in advised(before).advice[:3]
    assert found.speedup == pytest.approx(measured(before).seconds / measured(after).seconds, rel=0.2)


def test_advice_is_in_order_and_every_refusal_has_its_reason() -> None:
    made = advised("matmul_tiled16.conflicts")
    helping = [a.helps for a in made]
    assert helping == sorted(helping, reverse=True)
    assert [a.speedup for a in made.helpful] == sorted((a.speedup for a in made.helpful), reverse=True)
    assert {a.name for a in made} == set(REMEDIES)
    assert all(a.reason for a in made if not a.helps)
    assert all(a.assumption and a.bound_after for a in made.helpful)
    conflicts = made.named("remove-conflicts")
    assert conflicts is not None
    assert str(conflicts.where[0]) == "matmul_tiled.cu:23"  # sum += a_tile[y][k] * b_tile[x][k]


def test_the_best_together_are_at_least_as_good_as_the_best_alone() -> None:
    made = wl.advise(measured("matmul_tiled16.conflicts").workload, GPU, simulated=0)  # all in the closed form
    assert made.combinations
    for both in made.combinations:
        assert len(both.name.split("+")) >= 2
        assert both.speedup >= 0.99 * made.advice[0].speedup


def test_a_workload_that_was_not_counted_gets_no_advice() -> None:
    with pytest.raises(WarplensError, match="profile"):
        wl.advise("saxpy", GPU)


def test_the_command_line_advises_on_a_saved_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bank.json"
    measured("bank.bank4").workload.save(file)
    assert main(["advise", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["advice"][0]["name"] == "remove-conflicts"
    assert data["advice"][0]["where"][0]["line"] == 10
    assert data["benefits"]["b_serial"] > 0
    assert main(["advise", str(file)]) == 0
    out = capsys.readouterr().out
    assert "what would help" in out and "remove the bank conflicts" in out and "bank.cu:10" in out
    assert main(["advise", "saxpy.cu"]) == 2
    assert "--launch" in capsys.readouterr().err
