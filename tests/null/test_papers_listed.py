"""Every table, figure, listing and worked example of Volkov 2016 and of Hong & Kim 2009 against `warplens reproduce`.

The lists are the papers' own, in their order. What is not an item of its own says what it is.
"""

from __future__ import annotations

import re

import pytest

from warplens.papers.catalogue import _ALSO, item_ids, reproduce
from warplens.papers.item import Item


def numbered(kind: str, chapter: int, last: int) -> list[str]:
    """Name the figures or tables of a chapter."""
    return [f"{kind}-{chapter}.{n}" for n in range(1, last + 1)]


VOLKOV = [
    "figure-1.1", "figure-1.2", "listing-1.1", "figure-1.3",
    *numbered("table", 2, 9), *numbered("figure", 2, 4),
    *numbered("figure", 3, 11), *numbered("table", 3, 4), *numbered("listing", 3, 7),
    *numbered("figure", 4, 13), *numbered("table", 4, 3), "guide-example",
    *numbered("figure", 5, 5),
    *numbered("figure", 6, 6), *numbered("table", 6, 7),
    *numbered("figure", 7, 14), "table-7.1",
]  # fmt: skip
HONG_KIM = [
    *(f"figure-{n}" for n in range(1, 32)),
    *(f"table-{n}" for n in range(1, 8)),
    "algorithm-1",
    "algorithm-2",
]
NO_NUMBERS = {  # drawings, source code and definitions: no data, no numbers to compute
    "volkov-figure-2.3": "drawing: components of a GPU",
    "volkov-figure-2.4": "drawing: a warp scheduler picks a warp each cycle; its numbers are Table 2.8's",
    "volkov-listing-1.1": "code: the workload volkov-listing-1.1, the mix of Chapter 4",
    "volkov-listing-3.4": "code: the vector add of Listing 3.5 in CUDA",
    "volkov-listing-3.6": "code: the permutation of Figures 3.7 and 3.8",
    "volkov-listing-3.7": "code: the absolute values of Figures 3.9 and 3.10",
    "hong-kim-figure-1": "drawing: a GPU's architecture",
    "hong-kim-figure-2": "drawing: one request, or one for each thread",
    "hong-kim-figure-9": "drawing: the memory system of the model",
    "hong-kim-figure-10": "drawing: departure delays",
    "hong-kim-figure-11": "drawing: what a barrier adds",
    "hong-kim-table-1": "definitions of the model's parameters; their values are in Tables 2, 3 and 6",
}
# Figures of which only a curve is given, no number; with the H200's or a model's curve in their place.
CURVES_ALONE = ("volkov-figure-1.1", "volkov-figure-1.2", "volkov-figure-3.4")


def _all() -> list[str]:
    return [*(f"volkov-{name}" for name in VOLKOV), *(f"hong-kim-{name}" for name in HONG_KIM)]


def test_none_is_missing() -> None:
    known = set(item_ids())
    missing = [name for name in _all() if name not in NO_NUMBERS and _ALSO.get(name, name) not in known]
    assert not missing
    assert len(VOLKOV) == 56 + 24 + 8 + 1  # figures, tables, listings, the programming guide's example
    assert len(HONG_KIM) == 31 + 7 + 2  # figures, tables, algorithms


def test_none_is_listed_twice_and_every_item_is_of_the_papers() -> None:
    named = {_ALSO.get(name, name) for name in _all()} - set(NO_NUMBERS)
    items = {name for name in item_ids() if name.startswith(("volkov-", "hong-kim-"))}
    assert items == named
    assert len(set(_all())) == len(_all())


def test_what_has_no_numbers_is_no_item() -> None:
    assert not set(NO_NUMBERS) & set(item_ids())
    assert set(NO_NUMBERS) <= set(_all())


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """Make the items of both papers once, but for those that ask our own model at many occupancies."""
    slow = re.compile(r"volkov-figure-(1\.1|3\.(7|9|11))$")
    chosen = [n for n in item_ids() if n.startswith(("volkov-", "hong-kim-")) and not slow.match(n)]
    return [item for name in chosen for item in reproduce(name)]


@pytest.mark.slow
def test_each_has_a_picture_or_a_table_and_says_what_it_found(items: list[Item]) -> None:
    for item in items:
        assert item.plots or item.grids, item.id
        assert all(plot.series and all(len(s.x) == len(s.y) > 0 for s in plot.series) for plot in item.plots), item.id
        assert item.rows or item.grids or item.id in CURVES_ALONE, item.id
        assert item.verdict


@pytest.mark.slow
def test_inputs_do_not_count(items: list[Item]) -> None:
    """A number that the machine file repeats is given: Tables 2.5 to 2.8, latencies of Table 6.2, Table 6."""
    given = {item.id: sum(row.verdict == "given" for row in item.rows) for item in items}
    counted = {item.id: sum(row.verdict in ("digit", "near") for row in item.rows) for item in items}
    for name, inputs in (("table-2.5", 15), ("table-2.6", 20), ("table-2.7", 10), ("table-2.8", 20)):
        assert (given[f"volkov-{name}"], counted[f"volkov-{name}"]) == (inputs, 0)
    assert given["volkov-table-6.2"] == 30
    assert (given["hong-kim-table-6"], counted["hong-kim-table-6"]) == (6, 0)
