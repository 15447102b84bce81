"""The instrument that judges models on measured kernels: statistics of made-up points, commands on real ones."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

import warplens as wl
from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.papers.report import validation
from warplens.papers.validation.ablation import ALL, compared
from warplens.papers.validation.kernel_errors import (
    agreement,
    errors,
    groups,
    judged,
    rank_correlation,
    validate_kernels,
)
from warplens.papers.validation.kernels import is_test, launches
from warplens.papers.validation.points import Point, Run, alpha, points

TRAIN, TEST = "saxpy", next(name for name in map(str, range(99)) if is_test(name))


def made(
    run: str, ratio: float, part: str = "train", name: str = "k", bound: str = "latency", at: float = 1e-4
) -> Point:
    return Point(
        run=run, launch=f"{name}.v", kernel=name, function=name, part=part, family="made up", bound=bound,  # type: ignore[arg-type]
        seconds=ratio * at, measured_seconds=at, alpha=8.0,
    )  # fmt: skip


def test_statistics_of_three_points() -> None:
    (e,) = errors([made("m", 1.1, at=1e-5), made("m", 0.7, at=1e-4, name="far"), made("m", 1.0, at=1e-3)])
    assert e.mean_percent == pytest.approx((10 + 30 + 0) / 3)
    assert e.median_percent == pytest.approx(10)
    assert e.bias_percent == pytest.approx((10 - 30 + 0) / 3)
    assert e.within_20_percent == pytest.approx(100 * 2 / 3)
    assert e.rank_correlation == pytest.approx(1) and (e.worst_at, e.kernels) == ("far.v", 2)
    assert e.worst_percent == pytest.approx(-30)


def test_ranks_that_are_equal_share_their_mean() -> None:
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5/4, variances 4.5/4 and 5/4
    assert rank_correlation(np.array([1.0, 2, 2, 3]), np.array([1.0, 2, 3, 4])) == pytest.approx(
        4.5 / math.sqrt(4.5 * 5)
    )
    assert rank_correlation(np.array([1.0, 1]), np.array([1.0, 2])) == 0


def test_the_best_on_the_test_set_comes_first_and_no_test_launch_is_named() -> None:
    found = errors(
        [made("good on train", 1.0), made("good on train", 2.0, "test"), made("other", 1.5), made("other", 1.2, "test")]
    )
    assert [(e.model, e.part) for e in found][:2] == [("other", "test"), ("other", "train")]
    assert all(e.worst_at == "" for e in found if e.part == "test")


def test_groups_of_the_test_set_have_three_launches_or_more() -> None:
    few = [made("m", 1.1, "test", bound="issue")] * 2 + [made("m", 1.1, "test", bound="latency")] * 3
    found = groups([*few, made("m", 1.3, bound="issue")], lambda p: p.bound)
    assert [(e.group, e.part, e.launches) for e in found] == [("latency", "test", 3), ("issue", "train", 1)]


def test_agreement_counts_launches_where_both_speak() -> None:
    both = [made("warplens", 1.0, name=n) for n in "ab"] + [made("warplens-fast", 1.04, name="a")]
    (found,) = agreement([*both, made("warplens-fast", 1.2, name="b"), made("warplens-fast", 9.0, name="c")])
    assert (found.launches, found.within_5_percent) == (2, 50)
    assert found.mean_percent == pytest.approx((4 + 20) / 2)


def test_json_holds_single_launches_of_the_train_set_only() -> None:
    found = judged("h200", [made("warplens", 1.2), made("warplens", 3.0, "test", "secret")])
    assert [p["launch"] for p in validation.data(found)["points"]] == ["k.v"]
    assert [p.launch for p in validation.data(found)["worst"]] == ["k.v"]
    assert "secret.v" in [p["launch"] for p in validation.data(found, unblind=True)["points"]]


def test_pictures_have_all_points_and_the_diagonal() -> None:
    some = [made("warplens", 1.2), made("warplens", 0.9, "test", at=1e-5)]
    plot = validation.against_measured("warplens", some)
    diagonal = next(s for s in plot.series if s.name == "as measured")
    assert diagonal.x == diagonal.y == pytest.approx([10, 100])
    assert [(s.name, len(s.x)) for s in plot.series][:2] == [("train", 1), ("test", 1)]
    (train, test) = validation.against_alpha("warplens", some).series
    assert train.x == [8.0] and train.y == pytest.approx([20]) and test.y == pytest.approx([-10])


def test_points_of_processes_are_those_of_one() -> None:
    some, gpu = launches()[::150], load_machine("h200")
    runs, seen = [Run("r", "roofline", gpu), Run("silent", "cuda-guide", gpu)], list[tuple[int, int]]()
    one = points(some, runs, watch=lambda done, total: seen.append((done, total)))
    assert points(some, runs, processes=2) == one
    assert [p.launch for p in one] == [x.name for x in some] and {p.run for p in one} == {"r"}
    assert seen == [(i + 1, len(some)) for i in range(len(some))]
    assert all(p.alpha == alpha(x.workload) for p, x in zip(one, some, strict=True))


def test_families_are_folders_of_examples() -> None:
    by_name = {x.name: x.family for x in launches()}
    assert by_name["saxpy"] == "saxpy" and by_name["softmax_warp"] == "today/neural" and by_name["bank"] == "access"


def test_the_tables_fit_a_terminal() -> None:
    kernels = [(f"k{i}", "test" if i % 3 == 0 else "train") for i in range(40)]
    some = [made(run, 1.05, part, name) for run in ("warplens", "warplens-fast") for name, part in kernels]
    console = Console(width=110, file=io.StringIO(), force_terminal=False)
    console.print(*validation.answer(judged("h200", some), load_machine("h200")), sep="\n")
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert "warplens, by what limits" in out and "the 90 % interval of warplens-fast holds on 100 % of 26" in out
    assert "warplens-fast is within 5 % of warplens on 100 % of 14 launches of the test set" in out
    assert max(map(len, out.splitlines())) <= 110


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    some = ("--models", "warplens-fast,roofline", "--every", "60", "--processes", "1")
    assert main(["validate", "--kernels", *some, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {e["model"] for e in data["errors"]} == {"warplens-fast", "roofline"}
    assert data["points"] and not any(is_test(p["kernel"]) for p in data["points"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kernels", "--models", "rooflin"), "did you mean 'roofline'?"),
        (("--kernels", "--every", "0"), "--every takes a whole number from 1 on"),
        (("--kernels", "--gpu", "kepler"), "no kernels were measured on GeForce GTX 680"),
        (("--kernels", "--calibrate", "--every", "2"), "--calibrate takes all launches"),
        (("--stalls",), "--stalls is for --kernels"),
        (("--every", "0"), "--every is for --kernels"),
        (("--kernels", "--simulate"), "--simulate is for the mixes"),
        (("--simulate", "--html", "/"), "no file can be written there"),
        (("--ladders", "--html", "x.html"), "--html is for the mixes and --kernels"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *options]) == 2
    assert message in capsys.readouterr().err


def test_unknown_models_are_refused_before_any_work() -> None:
    with pytest.raises(WarplensError, match="unknown model"):
        validate_kernels(models=["nosuch"])


def test_what_a_mechanism_is_worth() -> None:
    full = [made(ALL, 1.1, name="a"), made(ALL, 0.9, name="b")]
    (base, off) = compared([*full, made("bank", 1.3, name="a"), made("bank", 0.9, name="b")])
    assert (base.mechanism, base.worse_percent, base.moved_percent) == (ALL, 0, 0)
    assert off.mean_percent == pytest.approx((30 + 10) / 2) and off.worse_percent == pytest.approx(10)
    assert off.moved_percent == 50


def test_the_commands_of_ablation_and_ncu(capsys: pytest.CaptureFixture[str]) -> None:
    some = ("--models", "warplens-fast", "--every", "150", "--processes", "1")
    assert main(["validate", "--kernels", "--ablation", *some]) == 0
    out = capsys.readouterr().out
    assert "launch cost" in out and "one of 150 launches" in out
    assert main(["validate", "--kernels", "--ncu", *some, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["errors"]
    assert {e["model"] for e in rows} == {"warplens-fast, emulated, warm", "warplens-fast, from ncu, cold"}
    assert len({e["launches"] for e in rows if e["part"] == "train"}) == 1
    assert main(["validate", "--kernels", "--ncu", "--ablation"]) == 2


@pytest.mark.parametrize("model", ["warplens", "warplens-fast"])
def test_atomics_on_global_memory_take_about_the_time_measured(model: str) -> None:
    """What a turn of L2 takes comes from all turns of a kernel: lost ones made histograms thousands of times slower."""
    known = {x.name: x for x in launches()}
    ratios = {}
    for name in ("histogram_global", "histogram_private", "histogram_private.bins4096", "angular_tiled"):
        x = known[name]
        assert x.workload.profile is not None and sum(t.atomic_passes for t in x.workload.profile.traffic) > 4000
        ratios[name] = (wl.predict(x.workload, "h200", model).seconds or math.inf) / x.seconds
    assert 0.5 < ratios.pop("histogram_global") < 2
    assert all(0.85 < ratio < 1.15 for ratio in ratios.values()), ratios


def test_atomics_are_what_a_histogram_takes_longer() -> None:
    x = next(x for x in launches() if x.name == "histogram_private")
    profile = x.workload.profile
    assert profile is not None
    none = [replace(t, atomic_passes=0.0) for t in profile.traffic]
    without_atomics = x.workload.with_values(profile=replace(profile, traffic=none))
    slow, fast = (wl.predict(w, "h200", "warplens").seconds for w in (x.workload, without_atomics))
    assert slow is not None and fast is not None and 1.1 < slow / fast < 1.4
