"""Contents of the papers against their items: every table, figure, listing and example is there, with a verdict.

The numbers below are those of the papers' texts; `papers/contents.toml` names the item of each.
"""

from __future__ import annotations

import pytest

from warplens.papers import counts, entries, item_ids
from warplens.papers.contents import contents, found, tally
from warplens.papers.item import Item, Row


def numbered(kind: str, last: int, chapter: str = "") -> set[str]:
    """Return `Figure 4.1` to `Figure 4.N`, or `Figure 1` to `Figure N`."""
    return {f"{kind} {chapter}{n}" for n in range(1, last + 1)}


PAPERS = {
    "volkov": {"Example of §4.8"}.union(
        *(numbered("Figure", last, f"{c}.") for c, last in ((1, 3), (2, 4), (3, 11), (4, 13), (5, 5), (6, 6), (7, 14))),
        *(numbered("Table", last, f"{c}.") for c, last in ((2, 9), (3, 4), (4, 3), (6, 7), (7, 1))),
        *(numbered("Listing", last, f"{c}.") for c, last in ((1, 1), (3, 7))),
    ),
    "hong-kim": numbered("Figure", 31) | numbered("Table", 7) | numbered("Algorithm", 2),
    "kothapalli": numbered("Figure", 7)
    | {"Listing B.1", "Listing B.2"}
    | {"Example of §3.2.1", "Example of §3.2.2", "Example of §5.1", "Example of §5.2"},
    "sim": numbered("Figure", 16) | numbered("Table", 5) | numbered("Algorithm", 1),
    "lemeire": numbered("Figure", 3)
    | {"Table I", "Table II", "Table III", "Equation 1", "Algorithm 1", "Listing 1"}
    | {"Configurations of §IV.A", "Further work of §V"},
}
# Papers of which items that `contents.toml` names are still to be written. Delete a line and the paper is enforced.
TO_DO: set[str] = set()


@pytest.mark.parametrize("paper", PAPERS)
def test_the_contents_are_those_of_the_paper(paper: str) -> None:
    assert {entry.number for entry in contents() if entry.paper == paper} == PAPERS[paper]


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if paper not in TO_DO])
def test_every_entry_has_an_item_or_a_reason(paper: str) -> None:
    known = set(item_ids())
    missing = [e.number for e in contents() if e.paper == paper and not e.reason and e.item not in known]
    assert not missing


def test_no_item_of_a_paper_is_without_an_entry() -> None:
    named = {entry.item for entry in contents()}
    own = {"kothapalli", "lemeire"}
    assert {i for i in item_ids() if i.partition("-")[0] in own} - named <= {
        "lemeire-matrix-on-the-h200",
        "lemeire-compiled-kernels",
    }


def test_verdicts_say_what_agrees_and_what_is_not_made() -> None:
    made = Item("kothapalli-figure-5", "t", "s", [Row("x", 2.0, "2"), Row("y", 4.0, "4", given=True), Row("z", 1, "3")])
    rows = {row.number: row.verdict for row in found([made], ["kothapalli-figure-4"], "kothapalli")}
    assert rows["Figure 5"] == "1 of 2 printed numbers agree, 1 inputs as printed"
    assert rows["Figure 4"] == "on request: `warplens reproduce kothapalli-figure-4`"
    assert rows["Figure 3"] == "missing"
    assert rows["Figure 7"].startswith("drawing: ")
    assert counts([made])["given"] == 1 and counts([made])["digit"] == 1


def test_an_input_that_is_not_as_printed_differs() -> None:
    assert Row("x", 5.0, "4", given=True).verdict == "differs"


def test_one_item_lists_no_contents_and_a_paper_only_its_own() -> None:
    assert entries([], "lemeire-figure-1") == []
    own = entries([], "lemeire")
    assert {entry.paper for entry in own} == {"lemeire"}
    assert tally(own)["lemeire"].startswith("11 tables, figures, listings and examples: 11 reproduced")
    assert len(entries([], None)) == sum(len(entry) for entry in PAPERS.values())
