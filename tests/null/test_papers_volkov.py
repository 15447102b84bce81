"""Volkov 2016: the printed numbers, each with its derivation."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.machine import load_machine
from warplens.models import needed_warps, predict
from warplens.models.bounds import totals, worksheet
from warplens.models.prediction import Prediction
from warplens.program import parse_listing
from warplens.program.lone_warp import schedule
from warplens.workload import load_workload, mix

GPUS = ("8800gtx", "gtx280", "gtx480", "gtx680", "gtx980")


def value(p: Prediction, term: str) -> float:
    return float(p.terms[term].value)


def test_table_3_4_worksheet() -> None:
    uses = worksheet(load_workload("volkov-table-3.2"), load_machine("volkov-table-3.3"), "volkov")
    cycles = {name: float(c) for name, c in totals(uses).items()}
    assert cycles["cuda cores"] == 100 * 32 / 128  # 25
    assert cycles["sfu units"] == 5 * 32 / 32  # 5
    assert cycles["shared memory"] == 10 * 1 + 10 * 2  # 30
    assert cycles["issue"] == (135 - 5 + 15) / 4  # 36.25: 5 pairs share an issue, 15 are issued again
    # the paper rounds the 12.307... cycles of 128 bytes at 10.4 B/cycle to 12.3 before it adds
    each = [float(u.cycles_each) for u in uses if u.resource == "dram bandwidth"]
    assert sum(5 * round(e, 1) for e in each) == pytest.approx(184.5)
    assert cycles["dram bandwidth"] == pytest.approx(184.5, rel=1e-3)


def test_listing_3_5_on_kepler() -> None:
    kepler, workload = load_machine("kepler"), load_workload("volkov-listing-3.5")
    one = predict(workload, kepler, "volkov", warps_per_sm=1)
    assert value(one, "latency bound") == 544  # 33 to issue the second load + 301 + 9 + 201 to replace the block
    bound = 154e9 / (8 * 1.124e9) / (3 * 128)
    assert value(one, "throughput bound") == pytest.approx(bound)
    assert bound == pytest.approx(0.0445, abs=1e-4)
    n = np.array([1.0, 8.0, 16.0, 24.0, 24.3, 32.0, 64.0])
    gbs = np.asarray(predict(workload, kepler, "volkov", warps_per_sm=n).dram_bytes_per_second) / 1e9
    assert gbs == pytest.approx(np.minimum(6.347 * n, 154), rel=1e-3)
    pairs = schedule([parse_listing(workload.warps[0].listing)], kepler).dual_issued[0]
    assert sum(pairs) == 4


@pytest.mark.parametrize(
    ("name", "gpu", "cycles"),
    [
        ("volkov-listing-3.1", "kepler", [[0, 301, 325, 334, 343]]),
        ("volkov-listing-3.2-add", "fermi", [[0, 6, 12, 18, 24, 30, 36]]),
        ("volkov-listing-3.2-store", "fermi", [[0, 34, 68, 102, 136, 170, 204]]),
        ("volkov-listing-3.3", "fermi", [[0, 28, 540, 546, 580], [0, 32, 580]]),
    ],
)
def test_listings(name: str, gpu: str, cycles: list[list[float]]) -> None:
    codes = [parse_listing(w.listing) for w in load_workload(name).warps]
    assert schedule(codes, load_machine(gpu)).issue_cycles == cycles


def test_listing_1_1_repeats_with_the_sum_of_its_latencies() -> None:
    p = predict(load_workload("volkov-listing-1.1"), load_machine("maxwell"), "volkov", warps_per_sm=1)
    assert value(p, "latency bound") == 368 + 3 * 6


@pytest.mark.parametrize(
    ("gpu", "mem_lat", "alu_lat", "mem_thru", "third"),
    [
        ("8800gtx", 444, 20, 0.0268, lambda a: 0.25 / a),
        ("gtx280", 434, 24, 0.0277, lambda a: 0.25 / a),
        ("gtx480", 513, 18, 0.0599, lambda a: 1 / (a + 1)),
        ("gtx680", 301, 9, 0.1338, lambda a: 4 / (a + 1)),
        ("gtx980", 368, 6, 0.0814, lambda a: 4 / (a + 1)),
    ],
)
def test_table_4_2(gpu: str, mem_lat: float, alu_lat: float, mem_thru: float, third) -> None:  # type: ignore[no-untyped-def]
    alpha = np.array([1.0, 4.0, 16.0, 37.0, 64.0, 300.0])[:, None]
    n = np.array([1.0, 3.0, 10.0, 24.0, 48.0])
    ours = predict(mix(alpha), load_machine(gpu), "volkov", warps_per_sm=n).fp32_ops_per_cycle
    printed = 32 * alpha * np.minimum(n / (mem_lat + alu_lat * alpha), np.minimum(mem_thru, third(alpha)))
    assert ours == pytest.approx(printed, rel=2.5e-3)  # mem_thru is printed with three digits


def test_limit_cases_alpha_zero_and_infinity() -> None:
    maxwell = load_machine("maxwell")
    n = np.array([1.0, 12.0, 24.0, 64.0])
    adds = predict(mix(np.inf), maxwell, "volkov", warps_per_sm=n).ipc
    assert adds == pytest.approx(np.minimum(n / 6, 4))  # §4.2
    loads = predict(mix(0.0), maxwell, "volkov", warps_per_sm=n).ipc
    assert loads == pytest.approx(np.minimum(n / 368, 211e9 / (128 * 16 * 1.266e9)))


@pytest.mark.parametrize("gpu", GPUS)
def test_cusp(gpu: str) -> None:
    """§4.5: the largest occupancy is needed where both limits meet, and is the sum of the ends."""
    m = load_machine(gpu)
    alu = min(m.peak_ipc("fp32"), m.issue_ipc())
    memory = m.dram_bytes_per_cycle() / 128
    left, right = m.latency_cycles("load") * memory, m.latency_cycles("fp32") * alu
    assert needed_warps(mix(0.0), m, "volkov") == pytest.approx(left)
    assert needed_warps(mix(np.inf), m, "volkov") == pytest.approx(right)
    # by arithmetic the branches meet at alu/mem, by issue one instruction earlier
    one = 1 if m.issue_ipc() <= alu else 0
    meet = alu / memory - one
    top = needed_warps(mix(meet), m, "volkov")
    assert top == pytest.approx((m.latency_cycles("load") + meet * m.latency_cycles("fp32")) * memory)
    assert top == pytest.approx(left + right - one * m.latency_cycles("fp32") * memory)
    for other in (0.7 * meet, 1.4 * meet):
        assert (needed_warps(mix(other), m, "volkov") or 0) < (top or 0)


def test_cusp_on_maxwell_as_printed() -> None:
    maxwell = load_machine("maxwell")
    alphas = np.geomspace(1, 512, 2000)
    needed = np.asarray(predict(mix(alphas), maxwell, "volkov").needed_warps_per_sm)
    assert needed.max() == pytest.approx(54, abs=0.6)
    assert alphas[needed.argmax()] == pytest.approx(49, abs=1)
    assert round(needed_warps(mix(0.0), maxwell, "volkov") or 0) == 30
    assert round(needed_warps(mix(np.inf), maxwell, "volkov") or 0) == 24


def test_section_4_6_concurrent_instructions() -> None:
    """alpha = 4, alu_lat = 3, mem_lat = 12, alu_thru = 1: 6 warps run 3 arithmetic and 3 memory instructions."""
    m = load_machine("maxwell").with_values(
        instructions__fp32__latency_cycles=3.0, instructions__load__latency_cycles=12.0, sm__cuda_cores=32.0,
        memory__sustained_bytes_per_second=1e15,
    )  # fmt: skip
    p = predict(mix(4.0), m, "volkov", warps_per_sm=6)
    assert p.needed_warps_per_sm == pytest.approx(6)
    assert value(p, "arithmetic instructions in execution") == pytest.approx(3)
    assert value(p, "memory instructions in execution") == pytest.approx(3)


def test_table_4_3_the_guide() -> None:
    printed = {
        "8800gtx": (16, "6.9"),
        "gtx280": (16, "6.8"),
        "gtx480": (32, "16"),
        "gtx680": (32, "38"),
        "gtx980": (64, "23"),
    }
    for gpu, (alpha, warps) in printed.items():
        ours = predict(mix(float(alpha)), load_machine(gpu), "cuda-guide").needed_warps_per_sm
        decimals = len(warps.partition(".")[2])
        assert f"{ours:.{decimals}f}" == warps
    kepler = load_machine("kepler")
    guide = float(predict(mix(32.0), kepler, "cuda-guide").needed_warps_per_sm or 0)
    assert round(guide + 9 * 4) == 74  # alu_lat x alu_thru more
    refined = predict(mix(30.0), load_machine("gtx280"), "cuda-guide-refined").needed_warps_per_sm
    assert refined == pytest.approx(434 / (4 * 31) + 1)


def test_table_6_4_linear_and_contention() -> None:
    printed = {"8800gtx": (12, 75), "gtx280": (12, 84), "gtx480": (15.5, 80), "gtx680": (10, 78), "gtx980": (7.5, 80)}
    for gpu, (linear, percent) in printed.items():
        m = load_machine(gpu)
        ours = float(predict(mix(0.0), m, "volkov").needed_warps_per_sm or 0) / m.sm.schedulers
        assert round(ours * 2) / 2 == linear or ours == pytest.approx(linear, abs=0.15)
        at = predict(mix(0.0), m, "volkov-contention", warps_per_sm=linear * m.sm.schedulers)
        share = 100 * float(at.dram_bytes_per_second or 0) / float(m.memory.sustained_bytes_per_second or 1)
        assert share == pytest.approx(percent, abs=4)


def test_contention_equation_on_kepler() -> None:
    """§6.5: x = min( n / (300 + 32 x / (0.1477 - x) + 9 alpha), 0.1338, 4 / (alpha + 1) ), floor 301."""
    kepler = load_machine("kepler")
    c = 170e9 / (128 * 8 * 1.124e9)
    assert c == pytest.approx(0.1477, abs=5e-5)
    for alpha in (0.0, 16.0, 64.0, 128.0):
        for n in (4.0, 16.0, 40.0, 64.0):
            x = float(predict(mix(alpha), kepler, "volkov-contention", warps_per_sm=n).throughput_warps_per_cycle or 0)
            latency = max(301, 300 + 32 * x / (c - x)) + 9 * alpha
            assert x == pytest.approx(min(n / latency, 154e9 / (128 * 8 * 1.124e9), 4 / (alpha + 1)), rel=1e-9)


def test_refined_fit_for_the_g80_is_a_root_too() -> None:
    g80 = load_machine("g80")
    for n in (4.0, 12.0, 20.0, 24.0):
        p = predict(mix(0.0), g80, "volkov-contention-refined", warps_per_sm=n)
        x = float(p.dram_bytes_per_second or 0) / 1e9
        ipc = float(p.throughput_warps_per_cycle or 0)
        latency = max(444, 441 + 4 * x / (71 - x) + 156 * x / (121 - x))
        assert ipc == pytest.approx(min(n / latency, 74e9 / (128 * 16 * 1.35e9)), rel=1e-9)


def test_quadratic_and_bisection_agree() -> None:
    from warplens.models.published.volkov_contention import _bisection, _quadratic

    curve = load_machine("kepler").contention
    assert curve is not None
    n = np.linspace(0.5, 80, 200)
    arguments = (n, 90.0, 1.0, 301.0, 128 * 8 * 1.124e9, 0.1338, curve)
    assert _quadratic(*arguments) == pytest.approx(_bisection(*arguments), rel=1e-9)


def test_table_6_7() -> None:
    printed = {"8800gtx": "6.7", "gtx280": "7.6", "gtx480": "34", "gtx680": "33", "gtx980": "5.9"}
    for gpu, text in printed.items():
        m = load_machine(gpu)
        base = float(m.memory.coalesced_transactions or 0)
        extra = (m.latency_cycles("load_random") - m.latency_cycles("load")) / (32 - base)
        assert f"{extra:.{len(text.partition('.')[2])}f}" == text


def test_table_7_1() -> None:
    for gpu, text in {"gtx480": "30.7", "gtx680": "40.3", "gtx980": "29.9"}.items():
        p = predict(mix(32.0), load_machine(gpu), "sim2012")
        assert f"{value(p, 'MWP_peak_bw'):.1f}" == text


def test_latency_pairs_of_section_4_7_on_maxwell() -> None:
    """SFU to add is 9 cycles, SFU to SFU 13: with alpha >= 1 every SFU is followed by an add."""
    maxwell = load_machine("maxwell")
    p = predict(mix(4.0, other="sfu"), maxwell, "volkov", warps_per_sm=1)
    assert value(p, "latency bound") == 9 + 4 * 6
    p = predict(mix(0.25, other="sfu"), maxwell, "volkov", warps_per_sm=1)  # 4 SFU per add, counted per SFU
    assert value(p, "latency bound") == pytest.approx((3 * 13 + 9 + 6) / 4)
    p = predict(mix(2.0, other="shared"), maxwell, "volkov", warps_per_sm=1)
    assert value(p, "latency bound") == 22 + 2 * 6
