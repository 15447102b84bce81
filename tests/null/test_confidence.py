"""Intervals from measured errors: their quantiles and their coverage on made-up errors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import warplens as wl
from warplens.core.errors import FileError
from warplens.models.warplens import intervals
from warplens.models.warplens.intervals import FEWEST, Interval, Residual, around, similar, tails
from warplens.papers.validation import coverage as calibration
from warplens.papers.validation.coverage import coverage
from warplens.papers.validation.kernels import launches
from warplens.papers.validation.points import Point
from warplens.report.terminal import sure


def others(errors: list[float], bound: str = "latency", seconds: float = 1e-4) -> list[Residual]:
    return [Residual(f"k{i}", bound, seconds, e) for i, e in enumerate(errors)]


def test_quantiles_of_the_fewest_and_of_a_hundred() -> None:
    assert FEWEST == 19  # (19 + 1) * 5 % = 1: the smallest and the largest
    assert tails([(0.1 * i, f"k{i}") for i in range(19)]) == pytest.approx((0.0, 1.8))
    assert tails([(float(i), f"k{i}") for i in range(99)]) == (4, 94)  # k = (99 + 1) * 5 % = 5


def test_a_kernel_weighs_as_much_as_any_other_however_many_launches_it_has() -> None:
    others = [(float(i), f"k{i}") for i in range(98)]
    many = [(-1.0 - i / 1000, "many") for i in range(500)]
    assert tails([*others, *many]) == (3, 93)  # the 5 smallest kernels: many, 0, 1, 2, 3; the 5 largest: 97 to 93
    few = [(0.1 * i, "one" if i < 10 else "two") for i in range(20)]
    assert tails(few) == pytest.approx((0.0, 1.9))  # 0.15 kernels: the first launch, a tenth of one


def test_an_interval_turns_errors_around() -> None:
    known = others([-0.2] * 10 + [0.1] * 10)  # predictions were too short by up to 0.2 and too long by up to 0.1
    found = around(1.0, "latency", "mine", known)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx((math.exp(-0.1), math.exp(0.2)))
    assert found.low <= 1.0 <= found.high


def test_what_is_not_known_widens_it() -> None:
    known = others([-0.2] * 10 + [0.1] * 10)
    plain, sampled, unknown = (around(1.0, "latency", "mine", known, *more) for more in ((), (0.1,), (0.0, 0.05)))
    assert isinstance(plain, Interval) and isinstance(sampled, Interval) and isinstance(unknown, Interval)
    assert sampled.high == pytest.approx(math.exp(math.hypot(0.2, 1.6449 * 0.1)))
    assert unknown.low == pytest.approx(plain.low * 0.95) and unknown.high == pytest.approx(plain.high / 0.95)


def test_the_kernel_itself_does_not_count() -> None:
    known = [*others([0.01] * 30), *[Residual("wild", "latency", 1e-4, 3.0)] * 30]
    mine, other = around(1.0, "latency", "wild", known), around(1.0, "latency", "k99", known)
    assert isinstance(mine, Interval) and isinstance(other, Interval)
    assert mine.low == pytest.approx(math.exp(-0.01)) and other.low == pytest.approx(math.exp(-3))


def test_similar_is_by_limit_and_size_where_there_are_enough() -> None:
    dram, l2 = others([0.0] * 19, "dram bandwidth"), others([0.0] * 5, "l2 bandwidth")
    short, latency = others([0.0] * 19, "issue", 1e-6), others([0.0] * 2, "latency")
    known = [*dram, *l2, *short, *latency]
    ask = [("dram bandwidth", 1e-4), ("l2 bandwidth", 1e-4), ("sfu", 1e-6), ("sfu", 1e-4), ("latency", 1e-4)]
    expected = [
        (19, "limited by dram bandwidth, of 10 us or more"),
        (24, "limited by memory, of 10 us or more"),
        (19, "limited by units of an SM or launch, under 10 us"),
        (19, "limited by units of an SM"),
        (45, "of all kinds"),
    ]
    found = [similar(known, bound, seconds, "mine") for bound, seconds in ask]
    assert [(len(chosen), about) for chosen, about in found] == expected
    assert around(1.0, "latency", "mine", latency) == "no interval: 2 measured launches of other kernels are too few"


@pytest.mark.parametrize("bias", [0.0, -0.15])
def test_coverage_is_ninety_percent_of_errors_that_are_alike(bias: float) -> None:
    rng = np.random.default_rng(7)
    made = [
        Point(
            run="m", launch=f"k{k}.{v}", kernel=f"k{k}", function=f"k{k}", part="test" if k % 3 == 0 else "train",
            family="", bound="latency", seconds=1e-4 * math.exp(rng.normal(bias, 0.1)), measured_seconds=1e-4, alpha=1,
        )
        for k in range(300) for v in range(4)
    ]  # fmt: skip
    train, test = coverage(made)
    assert (train.part, train.launches, test.part, test.launches) == ("train", 800, "test", 400)
    assert 87 < train.covered_percent < 96 and 87 < test.covered_percent < 96  # above 90: a bias leaves one end at 0


def test_what_ships_is_read_and_says_of_which_machine(tmp_path: Path) -> None:
    known = intervals.shipped()
    assert known.gpu == "h200" and set(known.models) == {"warplens", "warplens-fast"}
    assert all(len(rows) > 150 for rows in known.models.values())
    calibration.save(known, tmp_path / "c.json")
    assert intervals.load(tmp_path / "c.json") == known == intervals.load(intervals.FILE)
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(FileError, match=r"c\.json"):
        intervals.load(tmp_path / "c.json")


def test_errors_that_are_no_longer_made_are_noticed() -> None:
    def points(ratio: float) -> list[Point]:
        return [
            Point(
                run="m", launch=f"k{i}", kernel=f"k{i}", function=f"k{i}", part="train", family="", bound="latency",
                seconds=ratio * 1e-4, measured_seconds=1e-4, alpha=1,
            )
            for i in range(3)
        ]  # fmt: skip

    kept = calibration.calibrate("h200", points(1.1), "made up")
    assert not calibration.outdated(points(1.1), kept) and calibration.outdated(points(1.15), kept)
    assert not calibration.outdated(points(1.15)[:2], kept)  # a part of the launches says nothing


def test_predictions_carry_it_and_say_why_not() -> None:
    launch = next(x for x in launches() if x.name == "saxpy")
    p = wl.predict(launch.workload, "h200", "warplens-fast")
    assert p.interval_seconds is not None and p.seconds is not None
    assert p.interval_seconds[0] <= p.seconds <= p.interval_seconds[1] and "measured launches" in p.interval_about
    assert wl.predict(launch.workload, "h200", "roofline").interval_seconds is None
    other = wl.load_machine("h200").with_values(id="h999")
    p = wl.predict(launch.workload, other, "warplens-fast")
    assert (p.interval_seconds, p.interval_about) == (None, "no interval: errors were measured on the H200 only")


def test_it_is_said_with_one_unit() -> None:
    assert sure((88.2e-6, 104.4e-6)) == "90 % sure of 88.2 to 104 us"
    assert sure((0.9e-3, 1.2e-3)) == "90 % sure of 900 us to 1.2 ms"
