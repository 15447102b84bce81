"""What the documents state and the tool computes cannot drift apart."""

from __future__ import annotations

import re
from pathlib import Path

from warplens.study import counts, reproduce, validate

ROOT = Path(__file__).parents[2]


def test_the_models_measured_errors_are_those_of_validate() -> None:
    table = (ROOT / "docs/models/README.md").read_text()
    stated = dict(re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+) %[^|]*\|$", table, re.M))
    found = {e.model: f"{e.mean_percent:.1f}" for e in validate("h200")}
    assert stated == found


def test_the_readme_states_what_reproduce_and_validate_find() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    totals = counts(list(reproduce()))
    printed = totals["digit"] + totals["near"] + totals["differs"]
    assert f"of {printed} numbers that they print, {totals['digit']} come out to the digit" in text
    assert f"{totals['near']} within 2 %, and {totals['differs']} disagree" in text
    assert f"{totals['formula']} values of printed formulas" in text and f"{totals['measured']} of the papers" in text
    best = {e.model: e for e in validate("h200")}
    assert f"{best['volkov-contention'].mean_percent:.1f} % mean error for `volkov-contention`" in text
    assert f"{best['volkov'].points} measured points" in text
