"""GPUPerf's evaluation on the H200: what each figure claims, from the measured launches and both models."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.papers import sim_cases, sim_fmm
from warplens.papers.catalogue import item_ids
from warplens.papers.item import Item


def row(item: Item, what: str) -> float:
    (found,) = [r.ours for r in item.rows if r.what == what]
    return found


def holds(item: Item, said: str) -> bool:
    (found,) = [note for note in item.notes if said in note]
    return found.startswith("Holds on the H200: ")


def test_every_figure_and_table_of_the_evaluation_is_an_item() -> None:
    figures = {f"sim-figure-{n}" for n in ("1", "4", "6-and-7", "8", *range(9, 17))}
    assert figures | {f"sim-table-{n}" for n in range(2, 6)} <= set(item_ids(which="sim"))


def test_gpuperf_orders_the_variants_and_beats_mwp_cwp() -> None:
    """Figures 9 and 10: over 44 variants, the paper's main claim."""
    ten, nine = sim_fmm.figure_10(), sim_fmm.figure_9()
    assert row(ten, "variants") == len(sim_fmm.variants()) == 44
    assert row(ten, "mean error of the speedup, sim2012") == pytest.approx(7.6, abs=0.1)
    assert row(ten, "mean error of the speedup, hong-kim") > 100
    assert row(ten, "rank correlation of the times, sim2012") == pytest.approx(0.964, abs=0.002)
    assert holds(ten, "it finds the best combinations")
    assert holds(nine, "GPUPerf predicts the improvements more accurately than MWP-CWP")
    assert not holds(nine, "prefetching improves the kernel")


def test_speedups_are_times_before_over_times_after() -> None:
    found = sim_fmm.variants()
    s = sim_fmm.speedups(found[""], [found[""], found["rsqrt"]])
    assert s.measured[0] == s.newer[0] == s.older[0] == 1
    assert s.measured[1] == found[""].seconds / found["rsqrt"].seconds
    newer, older = s.errors()
    assert newer == pytest.approx(abs(s.newer[1] / s.measured[1] - 1) / 2)
    assert older == pytest.approx(abs(s.older[1] / s.measured[1] - 1) / 2)


def test_b_itilp_says_nothing_of_shared_memory_on_the_h200() -> None:
    """Figure 11: the inter-thread parallelism is at its peak, and shared memory helps all the same."""
    item = sim_fmm.figure_11()
    (grid,) = item.grids
    assert {cells[2] for cells in grid.rows} == {"0.000"}
    assert min(float(cells[1]) for cells in grid.rows) > 0
    assert not holds(item, "B_itilp predicts the benefit")


def test_the_benefit_chart_has_three_points_of_each_kernel_and_the_diagonal() -> None:
    (plot,) = sim_fmm.figure_4().plots
    *kernels, diagonal = plot.series
    assert len(kernels) == 2
    assert diagonal.x == diagonal.y
    for one in kernels:
        (memory, rest, ideal), (computation, same, fp) = one.x, one.y
        assert memory >= rest >= 0
        assert computation == same >= fp
        assert ideal >= 0


def test_reductions_become_limited_by_memory() -> None:
    item = sim_cases.figure_14()
    assert holds(item, "K6 is limited by memory")
    assert holds(item, "B_memlp and B_itilp of K0 to K5 are nothing")
    counted = sim_cases.table_4()
    assert holds(counted, "the number of instructions was significantly reduced")
    assert np.all(np.diff([r.ours for r in counted.rows]) < 0)


def test_cutcp_gains_and_tpacf_does_not() -> None:
    item = sim_cases.figure_15()
    assert row(item, "cutcp: speedup, measured") == pytest.approx(9.5, abs=0.1)
    assert row(item, "tpacf: speedup, measured") == pytest.approx(1.1, abs=0.01)
    assert holds(item, "the model predicts both")
