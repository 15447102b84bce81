"""HTML reports: one file, everything inside, nothing from outside, names as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warplens.api import compare
from warplens.cli import main
from warplens.papers.item import Item, Plot, Row, line
from warplens.papers.report import items
from warplens.report.page.markup import seconds
from warplens.report.page.svg import figure


def pictures(text: str) -> list[str]:
    return re.findall(r'<svg class="picture wide".*?</svg></svg>', text, re.S)


def test_comparison_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.html"
    assert main(["compare", "saxpy", "--html", str(path)]) == 0
    text = path.read_text()
    assert len(text) < 1_500_000
    answer = compare("saxpy", "h200").headline
    assert answer is not None and answer.seconds is not None
    assert f'<p class="answer">{seconds(float(answer.seconds))}</p>' in text and answer.model in text
    assert len(pictures(text)) == 1
    assert not re.search(r'(?:src|href)\s*=\s*["\']?https?://', text)  # nothing is fetched


def test_reproduction_report_is_under_its_size_and_has_all_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "papers.html"
    assert main(["reproduce", "--html", str(path)]) == 0
    text = path.read_text()
    assert len(pictures(text)) > 250
    assert len(text.encode()) < 12_000 * len(pictures(text))  # with its numbers, each
    assert text.count("<h2>") > 40


def test_names_cannot_break_out() -> None:
    evil = '</script><script>alert("x")</script>'
    item = Item(
        evil, evil, evil, [Row(evil, 1.0, "2", evil, evil)], [Plot(evil, "x", "y", [line(evil, [1, 2], [1, 2])])]
    )
    text = items.page([item])
    assert evil not in text and text.count("<script>") == 1
    assert len(pictures(text)) == 1


def test_every_series_can_be_told_from_the_others_and_has_its_numbers() -> None:
    many = [line(f"line {i}", [1, 2, 3], [i, i + 1, i]) for i in range(24)]
    drawn = figure(Plot("many", "x", "y", [*many, line("dots", [2.5], [7.125], "points")]))
    styles = re.findall(r'<g class="series (\w+ c-\w+)"><path d="M0 6H28"([^>]*)>', drawn)
    assert len(set(styles)) == len(styles) == 24
    assert drawn.count("<title>") == 2 * 25 and ">7.125</td>" in drawn


def test_axes_cut_off_what_they_cannot_show() -> None:
    above = Plot("above", "x", "y", [line("a", [1, 2, 3], [1, 50, 1])], y_max=2.0)
    assert "-" in pictures(figure(above))[0].split('class="series line')[1]  # above the top of the inner picture
    nothing = Plot("zero", "x", "y", [line("a", [0, 1, 10], [0, 1, 10])], log_x=True, log_y=True)
    path = re.search(r'series line [^>]*><title>a</title><path d="([^"]*)"', figure(nothing))
    assert path is not None and path[1].count(" ") == 2  # a logarithm has no place for zero
    assert figure(Plot("empty", "x", "y", [line("a", [], [])]))


def test_bars_at_one_place_stand_side_by_side() -> None:
    drawn = pictures(figure(Plot("bars", "x", "y", [line(n, [1, 2], [3, 4], "bar") for n in "ab"])))[0]
    left = [float(x) for x in re.findall(r'd="M([\d.]+) ', drawn.split("series bar", 1)[1])]
    assert len(left) == 2 and left[1] - left[0] > 5
