"""What the documents state and the tool computes cannot drift apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.null.predicted import ASKED, predicted
from warplens.papers import counts, reproduce, validate
from warplens.papers.validation.kernels import Part, launches

ROOT = Path(__file__).parents[2]
FAR, NEAR = 20.0, 18.0  # percent: from here on a launch is named, and up to here no longer


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


@pytest.mark.parametrize("part", ASKED)
def test_every_launch_that_is_far_off_is_named_and_no_other(part: Part) -> None:
    unnamed, stale, which = _misplaced(part)
    said = f"{unnamed} beyond {FAR:.0f} % are not named, {stale} within {NEAR:.0f} % are{which}"
    assert (unnamed, stale) == (0, 0), said


def test_the_log_states_how_many_launches_the_page_of_the_test_set_names() -> None:
    stated = re.search(r"Of the test set (\d+) of (\d+) launches are off by more than 20 %", _entry_21())
    found = len(_named("test")), sum(x.part == "test" for x in launches())
    assert stated is not None and found == (int(stated[1]), int(stated[2]))


def _misplaced(part: Part) -> tuple[int, int, str]:
    """Count the launches that the page of a set should name, and those that it should not; say which of the train set.

    Of the test set only numbers leave this function: whoever changes the model sees what it returns.
    """
    off, named = {p.launch.name: abs(p.percent) for p in predicted(part)}, _named(part)
    unnamed = {name for name, percent in off.items() if percent > FAR} - named
    stale = {name for name in named if off.get(name, 0.0) <= NEAR}
    return len(unnamed), len(stale), f": {sorted(unnamed | stale)}" if part == "train" else ""


def _named(part: Part) -> set[str]:
    """Return the launches in the first column of a set's table."""
    text = _entry_21() if part == "train" else (ROOT / "docs/mispredictions_test.md").read_text()
    return set(re.findall(r"^\| `([\w.-]+)` \|", text, re.M))


def _entry_21() -> str:
    """Return the entry of the log that names the launches of the train set."""
    return (ROOT / "docs/mispredictions.md").read_text().partition("\n## 21. ")[2].partition("\n## ")[0]
