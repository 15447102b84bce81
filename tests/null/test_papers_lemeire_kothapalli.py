"""Items of Lemeire et al. and Kothapalli et al.: the papers' numbers, and the H200's measurements beside them."""

from __future__ import annotations

import itertools
import random

import pytest

from warplens.machine import load_machine
from warplens.papers import reproduce
from warplens.papers.item import Item
from warplens.papers.kothapalli import expected_conflict


def item_of(name: str) -> Item:
    """Reproduce one item."""
    [item] = reproduce(name)
    return item


def value(item: Item, what: str) -> float:
    """Return our number of a row."""
    [row] = [row for row in item.rows if row.what == what]
    return row.ours


def test_lemeires_tables_are_inputs_and_its_errors_measurements() -> None:
    item = item_of("lemeire-tables-1-to-3")
    verdicts = {row.verdict for row in item.rows if row.paper is not None}
    assert verdicts == {"given", "measured"}  # nothing differs from what is printed
    assert sum(row.verdict == "given" for row in item.rows) == 2 * (3 + 2 * 12)
    section = load_machine("h200").lemeire["memory"]
    assert value(item, "Fermi memory: mean error (ours: H200)") == section.mean_error_percent


def test_figure_2_has_the_h200s_loads_and_the_latency_under_load_explains_the_gap() -> None:
    item = item_of("lemeire-figure-2")
    paper, refined = (
        value(item, f"H200, {mode}: mean error of the time")
        for mode in ("the paper's simulator", "with issue limit and loaded latency")
    )
    own = load_machine("h200").lemeire["memory"].mean_error_percent
    assert own is not None
    assert paper == pytest.approx(own, abs=0.5)  # the boat hull's error, from the journal's derivation
    assert abs(refined) < 1 < abs(paper)
    measured, simulated, _ = item.plots[-1].series
    assert all(a < 1.01 * b for a, b in zip(measured.y, simulated.y, strict=True))  # too fast, nowhere too slow


@pytest.mark.parametrize("kind", ["mmul08", "mmul16"])
def test_conflicts_make_the_simulation_more_accurate_as_the_paper_says(kind: str) -> None:
    item = item_of("lemeire-matrix-on-the-h200")
    free, conflicts = (value(item, f"{kind}{more}: simulated over measured") for more in ("", ", conflicts"))
    assert abs(conflicts - 1) < abs(free - 1)


@pytest.mark.parametrize(("threads", "banks"), [(1, 16), (2, 3), (3, 2), (4, 4)])
def test_the_expected_conflict_is_the_mean_over_all_cases(threads: int, banks: int) -> None:
    cases = list(itertools.product(range(banks), repeat=threads))
    mean = sum(max(map(case.count, case)) for case in cases) / len(cases)
    assert expected_conflict(threads, banks) == pytest.approx(mean)


def test_the_expected_conflict_of_a_warp_is_that_of_draws() -> None:
    draw = random.Random(1)
    drawn = [[draw.randrange(32) for _ in range(32)] for _ in range(4000)]
    assert expected_conflict(32, 32) == pytest.approx(sum(max(map(x.count, x)) for x in drawn) / 4000, rel=0.02)


def test_kothapalli_stands_beside_the_h200s_times() -> None:
    three, four, five = (item_of(f"kothapalli-figure-{n}") for n in (3, 4, 5))
    for item, rows in ((three, 11), (four, 3), (five, 1)):
        assert sum(row.what.startswith("H200") for row in item.rows) == rows
        assert any("H200, measured" in series.name for plot in item.plots for series in plot.series)
    conflict = [value(three, f"H200, experiment 2, bank {n}: MAX over measured") for n in (1, 2, 4, 8, 16)]
    assert max(conflict) < 1.05 * min(conflict)  # 4k, the linear contention function, has the right slope
    assert value(four, "matrix multiplication: two barriers per tile over C_T") == pytest.approx(8 / 760)


def test_eleven_milliseconds_are_a_hundred_times_the_formula() -> None:
    whole = value(item_of("kothapalli-figure-4"), "matrix multiplication, N = 128: blocks per SM rounded up")
    assert whole == pytest.approx(0.11225, rel=1e-3) and round(100 * whole) == 11
