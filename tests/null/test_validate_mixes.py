"""The models on the measured mixes: the cusp and the errors against alpha, as pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.cli import main
from warplens.machine import load_machine
from warplens.papers.report import mixes
from warplens.papers.validation.mixes import judge, model_error
from warplens.papers.validation.stored import Judged, Sweep
from warplens.workload import Workload


def _sweep(alpha: int, cycles: list[float]) -> Sweep:
    return Sweep("sfu", alpha, Workload(name=f"add/sfu, alpha {alpha}"), [4.0, 8.0, 16.0], cycles)


# Rates of 1, 2 and 2: 1.8 is reached with 7.2 warps; 1, 1 and 2: with 14.4.
EARLY, LATE = [1.0, 0.5, 0.5], [1.0, 1.0, 0.5]


def test_the_cusp_is_where_most_warps_are_needed() -> None:
    sweeps = [_sweep(64, EARLY), _sweep(1, EARLY), _sweep(8, LATE)]
    flat = Judged("volkov", sweeps, [EARLY] * 3)
    measured, by_model = mixes.cusp("sfu", [flat]).series
    assert measured.x == by_model.x == [1, 8, 64]  # by alpha, as measured in no order
    assert measured.kind == "points" and measured.y == pytest.approx([7.2, 14.4, 7.2])
    assert by_model.name == "volkov" and by_model.y == pytest.approx([7.2] * 3)
    error = model_error(flat, load_machine("h200"))
    assert error.needed_warps_off == pytest.approx(-7.2 / 4) and error.needed_at == "add/sfu, alpha 8"


def test_a_model_that_does_not_speak_about_a_mix_has_no_line() -> None:
    loads = Sweep("load", 1, Workload(name="add/load, alpha 1"), [4.0, 8.0], [1.0, 0.5])
    plot = mixes.cusp("load", [Judged("volkov", [_sweep(1, EARLY)], [EARLY]), Judged("lemeire", [loads], [[1.0, 0.5]])])
    assert [s.name for s in plot.series] == ["measured", "lemeire"]


def test_errors_against_alpha_have_all_occupancies() -> None:
    plot = mixes.against_alpha(Judged("volkov", [_sweep(8, LATE)], [[1.0, 0.5, 1.0]]))
    assert plot.series[0].x == [8, 8, 8] and plot.series[0].y == pytest.approx([0, -50, 100])
    assert plot.y_max is None
    assert mixes.against_alpha(Judged("volkov", [_sweep(8, LATE)], [[1.0, 0.5, 5.0]])).y_max == 100


def test_measured_sfus_have_a_cusp_that_the_two_bounds_have_and_hong_and_kim_have_not() -> None:
    named = {each.model: each for each in judge(load_machine("h200"))}
    measured, bounds, hong_kim = mixes.cusp("sfu", [named["volkov"], named["hong-kim"]]).series
    for each in (measured, bounds):
        assert each.x[each.y.index(max(each.y))] == 8  # neither the first nor the last alpha
    assert max(hong_kim.y) < 1.05 * max(hong_kim.y[0], hong_kim.y[-1])


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixes.html"
    assert main(["validate", "--html", str(path)]) == 0
    assert f"pictures: {path}" in capsys.readouterr().out
    text = path.read_text()
    for title in ("Needed occupancy against alpha", "adds and shared: 90 % of the highest rate",
                  "volkov-contention: error against alpha", "roofline: error against alpha"):  # fmt: skip
        assert title in text
