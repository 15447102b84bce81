"""Worked examples of Volkov and of Hong & Kim by hand; occupancy from stamps; the ladders of the H200."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.machine import load_machine
from warplens.papers import hong_kim_effects, hong_kim_threads, volkov_hardware, volkov_throughput
from warplens.papers.catalogue import reproduce
from warplens.papers.item import Row
from warplens.papers.occupancy_ladders import Timed, best, mean_occupancy, needed, occupancy, stamped, timed
from warplens.papers.volkov_little import little


def rows(name: str) -> dict[str, Row]:
    (item,) = reproduce(name)
    return {row.what: row for row in item.rows}


def test_diverging_threads_wait_on_the_stack() -> None:
    """Table 2.3: the else branch first, with threads 0 and 3, then the if branch with threads 1 and 2."""
    executed = volkov_hardware.simt("0110", "else")
    assert [at for at, _ in executed] == [0, 1, 5, 6, 7, 2, 3, 4, 8]
    assert [mask for _, mask in executed] == ["1111"] * 2 + ["1001"] * 3 + ["0110"] * 3 + ["1111"]
    assert [at for at, _ in volkov_hardware.simt("0110")] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [at for at, _ in volkov_hardware.simt("1111")] == [0, 1, 2, 3, 4, 8]
    assert [at for at, _ in volkov_hardware.simt("0000")] == [0, 1, 5, 6, 7, 8]


def test_transactions_and_banks_of_four_threads() -> None:
    assert volkov_hardware.transactions((1, 2, 3, 4)) == 2
    assert volkov_hardware.transactions_g80((4, 5, 6, 7)) == 1
    assert volkov_hardware.transactions_g80((1, 2, 3, 4)) == 4  # not aligned: one for each thread
    assert volkov_hardware.conflict_degree((0, 4, 8, 12)) == 4
    assert volkov_hardware.conflict_degree((1, 1, 1, 5)) == 2  # words 1 and 5 in bank 1


def test_little_law_of_two_items() -> None:
    made = little([(0, 4), (2, 8)], 0, 8)
    assert (made.latency, made.throughput, made.concurrency) == (5, 0.25, 1.25)
    assert made.concurrency == made.latency * made.throughput
    assert (made.fewest, made.most) == (1, 2)


def test_occupancy_from_starts_and_ends() -> None:
    times, counts = occupancy([(0, 10), (0, 6), (6, 12)])
    at = dict(zip(times.tolist(), counts.tolist(), strict=True))  # the last count at each time is what stays
    assert at == {0: 2, 6: 2, 10: 1, 12: 0}
    assert mean_occupancy([(0, 10), (0, 6), (6, 12)], 0, 12) == (10 + 6 + 6) / 12


def test_needed_warps_lie_on_the_line() -> None:
    made = [Timed(kernel="k", us=u, bytes=1e6, warps_per_sm=n) for n, u in ((8, 10.0), (16, 5.0), (16, 4.0))]
    assert best(made) == {8: 100.0, 16: 250.0}
    assert needed(best(made), 175.0) == 12
    assert needed(best(made), 300.0) is None


def test_ratios_of_figure_4_2() -> None:
    """Table 6.4 at 90 % over Table 6.3's adds: 20 / 5, 16 / 6, 21 / 9, 14 / 9, 10 / 6."""
    found = [row.ours for what, row in rows("volkov-figure-4.2").items() if "Table 6.3" in what]
    assert found == pytest.approx([20 / 5, 16 / 6, 21 / 9, 14 / 9, 10 / 6])


def test_memory_wall_of_the_g80() -> None:
    assert volkov_throughput.memory_wall(load_machine("g80")) == pytest.approx(86.4e9 / (16 * 8 * 1.35e9))


def test_programming_guide_example() -> None:
    made = rows("volkov-guide-example")
    assert made["warps that supply them"].ours == pytest.approx(600 / (4 * 30))
    assert made["by the two bounds, GT200's adds of 24 cycles"].ours == pytest.approx((600 + 30 * 24) / (4 * 30))


def test_loads_of_a_lone_warp_on_fermi() -> None:
    """The sixth load waits for the first of 513 cycles; the seventh 6 cycles more, for the second."""
    made = [row.ours for what, row in rows("volkov-listings").items() if what.startswith("listing-3.2-load: ")]
    assert made == [0, 6, 12, 18, 24, 513, 519]


def test_seventeen_warps_on_four_schedulers() -> None:
    made = rows("volkov-figure-5.2")
    assert made["17 warps: throughput below that of 12 or 16"].ours == pytest.approx(100 * (1 - 17 / 20))
    on_silicon = made.get("H200, 17 warps: throughput below that of 16")
    assert on_silicon is None or on_silicon.ours == pytest.approx(15, abs=0.5)


def test_table_6_1_follows_from_the_hardware() -> None:
    made = rows("volkov-table-6.1")
    assert made["Kepler fp32"].ours == 32  # 48 cores, one warp an issue
    assert made["Fermi shared"].ours == 32 / 2 / 2
    assert made["GT200 load"].ours == pytest.approx(138e9 / 1.296e9 / 30 / 4)
    assert made["G80 shared"].verdict == "measured"  # 8 by the banks, 6 found


def test_svm_versions() -> None:
    naive, constant, best_of_all = map(hong_kim_threads.svm, hong_kim_threads.SVM)
    assert naive.memory_instructions() == 2 * 819 == 2 * constant.memory_instructions()
    assert best_of_all.memory_instructions(coalesced=True) == 819


def test_tiles_between_the_ends_of_table_5() -> None:
    for tile, computation, memory in ((4, 24580, 1001), (20, 9780, 201)):
        made = hong_kim_threads.tiled(tile)
        assert made.instructions == {"fp32": pytest.approx(computation)}
        assert made.memory_instructions() == memory


def test_figure_21_is_the_8800gt() -> None:
    made = rows("hong-kim-figure-21")["coalesced, 8800GT: largest MWP"]
    assert made.ours == pytest.approx(57.6e9 / (1.5e9 * 128 / 420 * 14))
    assert made.verdict == "digit"


def test_a_cpi_below_the_issue_is_named() -> None:
    made = rows("hong-kim-table-4")
    assert made["GeForce 8800 GT: mb6-coalesced"].note.startswith("impossible")
    assert made["Quadro FX 5600: mb6-coalesced"].note == ""


def test_m_factor_weighs_arithmetic() -> None:
    assert rows("hong-kim-table-7")["idiv: Comp_cycles (31) over those of as many adds"].ours == pytest.approx(30)


def test_paths_of_the_divergent_kernel() -> None:
    trips = {
        path: sum(hong_kim_effects._BLOCKS_OF_CODE[b] for b in blocks)
        for path, blocks in hong_kim_effects._PATHS.items()
    }
    assert trips == {"path1": 7, "path2": 6, "path3": 6}


def test_barrier_alone_costs_nothing_for_one_warp() -> None:
    assert rows("hong-kim-figure-30")["cost for one warp"].ours == 0


@pytest.mark.skipif(not timed("ladders", "vabs"), reason="the H200's ladders are not installed")
def test_the_h200_saturates_as_the_paper_says() -> None:
    """§3.10: random accesses need far fewer warps; data that is only read needs more than data that is written."""
    at_90 = {}
    for name in ("permute_trivial", "permute_random"):
        rates = best(timed("ladders", name))
        at_90[name] = needed(rates, 0.9 * max(rates.values())) or 0.0
    assert 0 < at_90["permute_random"] < 0.25 * at_90["permute_trivial"]
    read, written = (best([t for t in timed("ladders", n) if t.threads == 256]) for n in ("vabs.positive", "vabs"))
    goal = 0.95 * max(read.values())
    assert 1.3 < (needed(read, goal) or 0.0) / (needed(written, goal) or 1.0) < 2


@pytest.mark.skipif(not stamped("5.1"), reason="the H200's stamps are not installed")
def test_stamps_of_the_h200_obey_little() -> None:
    (one,) = [s for s in stamped("5.1") if s.warps]
    span = max(end for _, end in one.warps)
    assert len(one.warps) == one.warps_per_sm * one.rounds
    latency = float(np.mean([end - start for start, end in one.warps]))
    assert mean_occupancy(one.warps, 0, span) == pytest.approx(latency * len(one.warps) / span)
    assert occupancy(one.warps)[1].max() <= 64
