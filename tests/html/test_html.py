"""HTML reports: one file, everything inside, nothing from outside, names as data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from warplens.api import compare
from warplens.cli import main
from warplens.core.units import seconds
from warplens.papers.item import Item, Plot, Row, line
from warplens.papers.report import html

pytestmark = [pytest.mark.html, pytest.mark.xdist_group("html")]  # one worker bundles the scripts


def _specs(text: str) -> list[dict[str, object]]:
    found = re.findall(r'<script type="application/vnd.vegalite\+json">(.*?)</script>', text, re.S)
    return [json.loads(spec) for spec in found]


def test_comparison_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.html"
    assert main(["compare", "saxpy", "--html", str(path)]) == 0
    text = path.read_text()
    assert len(text) < 1_500_000
    answer = compare("saxpy", "h200").headline
    assert answer is not None and answer.seconds is not None
    assert f'<p class="answer">{seconds(float(answer.seconds))}</p>' in text and answer.model in text
    assert len(_specs(text)) == 1
    assert not re.search(r'(?:src|href)\s*=\s*["\']?https?://', text)  # nothing is fetched


def test_reproduction_report_is_under_its_size_and_has_all_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "papers.html"
    assert main(["reproduce", "--html", str(path)]) == 0
    text = path.read_text()
    assert len(text.encode()) < 1_500_000
    assert len(_specs(text)) > 40
    assert text.count("<h2>") > 40


def test_names_cannot_break_out() -> None:
    evil = '</script><script>alert("x")</script>'
    item = Item(
        evil, evil, evil, [Row(evil, 1.0, "2", evil, evil)], [Plot(evil, "x", "y", [line(evil, [1, 2], [1, 2])])]
    )
    text = html.reproduction([item])
    assert evil not in text
    spec = _specs(text)[0]
    assert spec["title"] == evil
