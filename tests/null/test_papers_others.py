"""Hong & Kim, Sim, Kothapalli, Baghsorkhi, Huang, Zhang & Owens, and the early models: printed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from warplens.machine import load_machine
from warplens.models import predict
from warplens.models.prediction import Prediction
from warplens.models.published.lemeire import equation_1
from warplens.papers.coalescing import coalesced_before_1_3, transactions_1_3
from warplens.workload import load_workload, mix
from warplens.workload.workload import Access, Workload, sectors_and_lines, transactions


def value(p: Prediction, term: str) -> float:
    return float(p.terms[term].value)


def test_given_blocks_per_sm_are_cut_to_the_blocks_that_an_sm_has() -> None:
    """No model answers below its own latency bound, and no repetition is less than one."""
    given, h200 = load_workload("hong-kim-figure12"), load_machine("h200")
    assert given.launch is not None and given.launch.blocks_per_sm == 5
    alone = given.with_values(launch=structs.replace(given.launch, grid=1))
    free = alone.with_values(launch=structs.replace(given.launch, grid=1, blocks_per_sm=None))
    p = predict(alone, h200, "volkov")
    assert p.cycles == predict(free, h200, "volkov").cycles == value(p, "latency bound")
    for grid, repetitions in ((1, 1.0), (132 * 5, 1.0), (132 * 5 + 1, 1.2)):  # whole blocks of the busiest SM
        work = given.with_values(launch=structs.replace(given.launch, grid=grid))
        assert value(predict(work, h200, "hong-kim"), "#Rep") == repetitions


# --- Hong & Kim 2009 -------------------------------------------------------------------------------------


def test_hong_kim_table_2() -> None:
    p = predict(load_workload("hong-kim-figure12"), load_machine("hong-kim-example"), "hong-kim")
    expected = {
        "#Active_warps_per_SM (N)": 128 / 32 * 5,
        "Departure_delay": 32 * 10,
        "Mem_L": 420 + (32 - 1) * 10,
        "MWP_Without_BW_full": 730 / 320,
        "BW_per_warp": 1e9 * 128 / 730,
        "MWP_peak_BW": 80e9 / (1e9 * 128 / 730 * 16),
        "MWP": 730 / 320,
        "Comp_cycles": 4 * (27 + 6),
        "Mem_cycles": 730 * 6,
        "CWP_full": (4380 + 132) / 132,
        "CWP": 20,
        "#Rep": 80 / (16 * 5),
        "Exec_cycles_app": 4380 * 20 / (730 / 320) + 132 / 6 * (730 / 320 - 1),
        "Synch_cost": 320 * (730 / 320 - 1) * 6 * 5,
        "Exec_cycles_with_synch": 50728.1875,
    }
    for term, number in expected.items():
        assert value(p, term) == pytest.approx(number), term
    # what is printed, with MWP rounded to 2.28 on the way
    printed = {"Exec_cycles_app": 38450, "Synch_cost": 12288, "Exec_cycles_with_synch": 50738, "MWP_peak_BW": 28.57}
    for term, number in printed.items():
        assert value(p, term) == pytest.approx(number, rel=2e-3 if term == "MWP_peak_BW" else 1e-3)
    assert p.cycles == pytest.approx(50738, rel=1e-3)


def test_hong_kim_on_gtx280_as_volkov_section_7_1() -> None:
    m = load_machine("gtx280").with_values(hong_kim__mem_ld_cycles=434.0, hong_kim__clock_hz=1.296e9)
    p = predict(mix(32.0), m, "hong-kim", warps_per_sm=32)
    assert value(p, "MWP_peak_BW") == pytest.approx(12.4, abs=0.05)
    assert value(p, "CWP_full") == pytest.approx(4.3, abs=0.05)
    n = np.arange(1.0, 33.0)
    ours = np.asarray(predict(mix(32.0), m, "volkov", warps_per_sm=n).throughput_warps_per_cycle)
    theirs = np.asarray(predict(mix(32.0), m, "hong-kim", warps_per_sm=n).throughput_warps_per_cycle)
    assert (theirs / ours).max() == pytest.approx(2.1, abs=0.05)  # (434 + 24 x 32) / (434 + 4 x 33)
    flat = predict(mix(np.inf), m, "hong-kim", warps_per_sm=n).ipc
    assert flat == pytest.approx(np.full(32, 0.25))  # 4 CPI at all occupancies


def test_hong_kim_independent_requests_never_lower_n_pw() -> None:
    m = load_machine("fx5600")
    base = Workload(name="x", instructions={"fp32": 10.0}, accesses=[Access(count=4.0)])
    assert value(predict(base, m, "hong-kim", warps_per_sm=6), "N_pw") == 6
    few = base.with_values(accesses=[Access(count=4.0, independent=1.0)])
    assert value(predict(few, m, "hong-kim", warps_per_sm=6), "N_pw") == 6  # (29) as printed gives 2
    many = base.with_values(accesses=[Access(count=4.0, independent=3.0)])
    assert value(predict(many, m, "hong-kim", warps_per_sm=6), "N_pw") == 18


def test_hong_kim_m_factor_and_divergence() -> None:
    m = load_machine("fx5600")
    plain = Workload(name="x", instructions={"fp32": 10.0})
    slow = Workload(name="x", instructions={"fp32": 8.0, "imul": 1.0, "idiv": 1.0})
    both = Workload(name="x", instructions={"fp32": 10.0}, divergent={"fp32": 5.0})
    assert value(predict(plain, m, "hong-kim"), "Comp_cycles") == 4 * 10
    assert value(predict(slow, m, "hong-kim"), "Comp_cycles") == pytest.approx(4 * (8 + 4.3 + 30))
    assert value(predict(both, m, "hong-kim"), "Comp_cycles") == 4 * 15  # all paths are executed


def test_hong_kim_svm_limits_on_fx5600() -> None:
    fx5600 = load_machine("fx5600")
    coalesced = predict(load_workload("hong-kim-svm-optimized"), fx5600, "hong-kim")
    assert round(value(coalesced, "MWP_peak_BW")) == 12  # §5.3
    naive = predict(load_workload("hong-kim-svm-naive"), fx5600, "hong-kim")
    assert round(value(naive, "MWP_Without_BW_full")) == 2


def test_algorithms_1_and_2() -> None:
    starts = range(0, 128, 16)
    assert coalesced_before_1_3(4, 1, starts)
    assert not coalesced_before_1_3(4, 1, [s + 1 for s in starts])  # not aligned
    assert not coalesced_before_1_3(4, 2, starts)  # stride
    assert not coalesced_before_1_3(12, 1, starts)  # a size that does not coalesce
    assert transactions_1_3(4, 1, starts) == (128, 1)  # 64 bytes of a half-warp in one segment of 128
    assert transactions_1_3(4, 1, [1, 17]) == (128, 2)
    assert transactions_1_3(4, 4, starts) == (128, 2)
    assert transactions_1_3(1, 1, starts) == (32, 1)
    assert transactions_1_3(2, 8, starts) == (64, 4)
    assert sectors_and_lines([4 * t for t in range(32)], 4) == (4, 1)
    assert sectors_and_lines([128 * t for t in range(32)], 4) == (32, 32)
    assert sectors_and_lines([4 * t + 4 for t in range(32)], 4) == (5, 2)


# --- Sim et al. 2012 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0, 32.0, 128.0])
@pytest.mark.parametrize("n", [1.0, 2.0, 10.0, 30.0, 48.0])
def test_sim_on_fermi_as_volkov_section_7_4(alpha: float, n: float) -> None:
    p = predict(mix(alpha), load_machine("fermi"), "sim2012", warps_per_sm=n)
    peak = 161e9 / (1.4e9 * 128 / 513 * 15)  # MWP_peak_bw from the best sustained throughput
    t_comp = (alpha + 1) * n * max(18 / n, 1)
    cwp = min(n, 1 + 513 / ((alpha + 1) * max(18 / n, 1)))
    mwp = min(n, peak)
    t_mem = n * 513 / min(mwp, max(1, cwp - 1))
    t_exec = max(t_comp, t_mem) if cwp > mwp else max(t_comp, t_mem + t_comp / n)
    assert f"{value(p, 'MWP_peak_bw'):.1f}" == "30.7"
    assert value(p, "T_comp") == pytest.approx(t_comp)
    assert value(p, "T_mem") == pytest.approx(t_mem)
    assert value(p, "T_exec") == pytest.approx(t_exec)
    assert p.fp32_ops_per_cycle == pytest.approx(32 * n * alpha / t_exec)


def test_sim_departure_cap_on_c2050() -> None:
    c2050 = load_machine("c2050")
    capped = predict(mix(0.0), c2050, "sim2012", warps_per_sm=48)
    free = predict(mix(0.0), c2050, "sim2012-no-departure", warps_per_sm=48)
    assert value(capped, "MWP") == 440 / 20  # 22
    assert f"{value(free, 'MWP'):.1f}" == "30.7"
    per_warp = value(capped, "BW_per_warp")
    assert per_warp == pytest.approx(0.335e9, rel=2e-3)
    assert round(per_warp * value(capped, "MWP") * 14 / 1e9) == 103


def test_sim_equation_1_and_benefits_add_up() -> None:
    p = predict(load_workload("sim-sfu-8"), load_machine("c2050"), "sim2012")
    assert value(p, "T_exec") == pytest.approx(value(p, "T_comp") + value(p, "T_mem") - value(p, "T_overlap"))
    parts = value(p, "T_fp") + value(p, "B_fp") + value(p, "B_itilp") + value(p, "B_serial")
    assert value(p, "T_comp") == pytest.approx(parts)  # (22)
    assert value(p, "B_serial") == value(p, "W_serial") > 0
    hidden = predict(load_workload("sim-sfu-1"), load_machine("c2050"), "sim2012")
    assert value(hidden, "O_SFU") == 0  # one SFU per eight FMA is the ratio of the units: (10) is zero


def test_sim_itilp_saturates_at_18() -> None:
    n = np.arange(1.0, 49.0)
    for ilp, knee in ((1, 18), (2, 9), (3, 6)):
        p = predict(load_workload(f"sim-itilp-ilp{ilp}"), load_machine("c2050"), "sim2012", warps_per_sm=n)
        cycles = np.asarray(p.cycles)
        assert n[np.argmax(cycles <= cycles.min() * 1.0001)] == knee


# --- Kothapalli et al. 2009 ------------------------------------------------------------------------------


def test_kothapalli_costs() -> None:
    gtx280 = load_machine("gtx280")
    work = Workload(name="x", instructions={"int": 2.0, "imul": 2.0})
    cycles = value(predict(work, gtx280, "kothapalli-sum"), "N_comp")
    # The paper prints 2 x 4 + 2 x 16 = 72. Its terms sum to 40; 72 would need 32 cycles per multiplication.
    assert cycles == 2 * 4 + 2 * 16 == 40
    dearer = gtx280.with_values(kothapalli__imul_cycles=32.0)
    assert value(predict(work, dearer, "kothapalli-sum"), "N_comp") == 72
    for k in (2.0, 8.0, 16.0):
        shared = Workload(name="x", accesses=[Access(count=1.0, threads_per_transaction=k)])
        assert value(predict(shared, gtx280, "kothapalli-max"), "N_memory") == pytest.approx((500 + k) / k)
        conflict = Workload(name="x", accesses=[Access(count=1.0, space="shared", conflict_degree=k)])
        assert value(predict(conflict, gtx280, "kothapalli-max"), "N_memory") == 4 * k
    alone = Workload(name="x", accesses=[Access(count=1.0, transactions=32.0, coalesced=False)])
    assert value(predict(alone, gtx280, "kothapalli-max"), "N_memory") == 500


def test_kothapalli_case_studies() -> None:
    gtx280 = load_machine("gtx280")
    ranking = predict(load_workload("kothapalli-list-ranking"), gtx280, "kothapalli-max")
    # 373 blocks of 512 threads on 30 SMs: 13 each, 16 warps, 4 log2(N) x 3 x 500 cycles over 8 x 4, at 1.3 GHz
    assert ranking.seconds == pytest.approx(13 * 16 * 32 * 132000 / 32 / 1.3e9)
    assert float(ranking.seconds or 0) * 1e3 == pytest.approx(21.1, abs=0.05)
    matmul = predict(load_workload("kothapalli-matmul"), gtx280, "kothapalli-max")
    formula = 128**2 / (256 * 30) * 8 * 32 * 760 * 128 / 16 / (32 * 1.3e9)
    assert formula == pytest.approx(0.08e-3, rel=0.01)  # not the printed 11 ms
    assert matmul.seconds == pytest.approx(formula * 3 / (64 / 30))  # whole blocks: 3 on the busiest SM
    program = predict(load_workload("kothapalli-program"), gtx280, "kothapalli-max")
    assert program.seconds == pytest.approx(float(ranking.seconds or 0) + float(matmul.seconds or 0))  # (1)
    total = predict(load_workload("kothapalli-matmul"), gtx280, "kothapalli-sum")
    assert float(total.seconds or 0) / float(matmul.seconds or 1) == pytest.approx((760 + 240) / 760)


# --- Baghsorkhi, Zhang & Owens, early models -------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0, 11.0, 32.0])
@pytest.mark.parametrize("n", [1.0, 2.0, 5.0, 20.0, 24.0])
def test_baghsorkhi_on_g80(alpha: float, n: float) -> None:
    g80 = load_machine("g80")
    x = alpha * max(4, 20 / n) + 4
    memory = 128 / g80.dram_bytes_per_cycle()
    assert round(memory) == 37
    p = predict(mix(alpha), g80, "baghsorkhi", warps_per_sm=n)
    assert value(p, "Warp latency") == pytest.approx(max(memory, x, 440 - (n - 2) * x))
    assert value(p, "Warp latency") == pytest.approx(max(37, x, 440 - (n - 2) * x), rel=0.01)


def test_zhang_owens_reads_the_tables() -> None:
    gt200 = load_machine("gt200")
    fp32, load = gt200.throughput["fp32"], gt200.throughput["load"]
    for n in (1.0, 7.0, 20.0):
        rate = min(
            float(np.interp(n, fp32.warps_per_sm, fp32.ops_per_cycle_per_sm)),
            16 * float(np.interp(n, load.warps_per_sm, load.ops_per_cycle_per_sm)),
        )  # Throughput = min( alu(n), alpha mem(n) )
        ours = predict(mix(16.0), gt200, "zhang-owens", warps_per_sm=n).fp32_ops_per_cycle
        assert ours == pytest.approx(rate)


def test_early_models() -> None:
    gt200 = load_machine("gt200")
    run = 33 * 4.0  # (alpha + 1) x instruction time
    needed = predict(mix(32.0), gt200, "saavedra-barrera").needed_warps_per_sm
    assert needed == pytest.approx(434 / run + 1)
    assert predict(mix(32.0), gt200, "agarwal").needed_warps_per_sm == pytest.approx((run + 434) / run)
    assert predict(mix(32.0), gt200, "mowry").needed_warps_per_sm == pytest.approx(434 / run)
    assert predict(mix(32.0), gt200, "mowry").seconds is None
    for n in (1.0, 3.0, 20.0):
        expected = min(n / (run + 434), 1 / run)
        for model in ("saavedra-barrera", "agarwal"):
            p = predict(mix(32.0), gt200, model, warps_per_sm=n)
            assert p.throughput_warps_per_cycle == pytest.approx(expected)


def test_chen_aamodt_on_fermi() -> None:
    fermi = load_machine("fermi")
    pi = 33 / (513 + 32 * 18)
    for n in (1.0, 8.0, 48.0):
        for variant, rate in ((1, pi), (2, n * pi), (3, 1 - (1 - pi) ** n)):
            assert predict(mix(32.0), fermi, f"chen-aamodt-{variant}", warps_per_sm=n).ipc == pytest.approx(rate)


def test_roofline_on_h200() -> None:
    p = predict(load_workload("saxpy"), load_machine("h200"), "roofline")
    assert p.bound == "dram bandwidth"
    # two reads and a write of 4 bytes per thread; the busiest of 132 SMs has 993 of the 131072 blocks
    best = load_machine("h200").memory.sustained_bytes_per_second or 0
    assert p.seconds == pytest.approx(3 * 4 * 993 * 132 * 256 / best)


# --- Huang et al. 2014 -----------------------------------------------------------------------------------


def test_huang_bandwidth_term_on_the_synthetic_gpu() -> None:
    gpu = load_machine("huang-synthetic")
    assert value(predict(mix(0.0), gpu, "huang-rr-bandwidth", warps_per_sm=32), "rho") == pytest.approx(1.14, abs=0.005)
    p = predict(mix(0.0), gpu, "huang-rr-bandwidth", warps_per_sm=29)
    assert value(p, "rho") == pytest.approx(1.03, abs=0.005)
    assert value(p, "Bandwidth_delay") == pytest.approx(-11, abs=0.1)
    assert value(p, "CPI_final") == pytest.approx(-0.7, abs=0.01)
    assert any("negative time" in flag for flag in p.flags)
    n = np.linspace(20, 32, 24001)
    delay = np.asarray(predict(mix(16.0), gpu, "huang-rr-bandwidth", warps_per_sm=n).terms["Bandwidth_delay"].value)
    assert n[np.argmin(delay)] == pytest.approx(28.1, abs=0.03)  # singular at 300 / (16 x 0.667)


def test_huang_negative_throughput_on_fermi() -> None:
    fermi = load_machine("fermi")
    for policy in ("rr", "gto"):
        p = predict(mix(32.0), fermi, f"huang-{policy}-bandwidth", warps_per_sm=34)
        assert p.fp32_ops_per_cycle == pytest.approx(-12, abs=0.5)
        p = predict(mix(0.0, stride=2), fermi, f"huang-{policy}-bandwidth", warps_per_sm=17)
        assert value(p, "Bandwidth_delay") == pytest.approx(-120, abs=0.5)
        assert value(p, "CPI_final") == pytest.approx(-89, abs=0.5)
        assert any("negative time" in flag for flag in p.flags)


def test_huang_exceeds_the_hardware_and_is_flagged() -> None:
    maxwell, fermi = load_machine("maxwell"), load_machine("fermi")
    p = predict(mix(np.inf), maxwell, "huang-rr", warps_per_sm=64)
    assert round(float(p.fp32_ops_per_cycle or 0)) == 341  # 64 / 6 x 32, with 128 cores
    assert any("cuda cores" in flag for flag in p.flags)
    p = predict(mix(np.inf), maxwell, "huang-gto", warps_per_sm=1e6)
    assert float(p.ipc or 0) / 4 == pytest.approx(1.2, abs=1e-3)  # 1 / (1 - 1/6): 20 % over peak
    assert any("issue" in flag for flag in p.flags)
    p = predict(mix(0.0), fermi, "huang-rr", warps_per_sm=48)
    assert round(float(p.dram_bytes_per_second or 0) / 1e9) == 252  # 48/513 IPC, where the pins have 177 GB/s
    assert any("dram bandwidth" in flag for flag in p.flags)


# --- Lemeire et al. 2017 ---------------------------------------------------------------------------------


def test_lemeire_equation_1() -> None:
    issue, completion, count = 1.0, 18.0, 1000.0
    assert equation_1(issue, completion, count, 6.0) == 1000 * 18 + 5
    assert equation_1(issue, completion, count, 18.0) == pytest.approx(18 + (1000 * 18 - 1))  # both cases meet
    assert equation_1(issue, completion, count, 40.0) == 18 + (1000 * 40 - 1)
    p = predict(load_workload("lemeire-fadd"), load_machine("c2050"), "lemeire", warps_per_sm=6)
    assert p.cycles == pytest.approx(1000 * 18 + 5)


def _lanes(step: int, start: int = 0, idle: int = 0) -> list[int | None]:
    return [None if lane < idle else start + step * lane for lane in range(32)]


@pytest.mark.parametrize(
    ("capability", "addresses", "size", "expected"),
    [
        (1.0, _lanes(4), 4, (2, 128)),  # two half-warps of 64 bytes
        (1.0, _lanes(4, start=4), 4, (32, 32 * 32)),  # misaligned: a transaction per thread
        (1.0, _lanes(8), 4, (32, 32 * 32)),  # not neighbouring
        (1.0, _lanes(16), 16, (4, 512)),  # two of 128 bytes per half-warp
        (1.1, _lanes(4, idle=3), 4, (2, 128)),  # idle lanes do not matter
        (1.3, _lanes(4), 4, (2, 128)),  # 64 of 128 bytes each
        (1.3, _lanes(4, start=4), 4, (3, 64 + 128 + 32)),  # 4..67 shrinks not; 68..131 is 128 of 0 and 32 of 128
        (1.3, _lanes(8), 4, (2, 256)),
        (1.3, _lanes(128), 4, (32, 32 * 32)),  # each segment shrinks to 32 bytes
        (1.3, _lanes(1), 1, (2, 64)),
        (2.0, _lanes(4), 4, (1, 128)),
        (2.0, _lanes(128), 4, (32, 32 * 128)),
        (9.0, _lanes(8), 4, (8, 256)),
        (9.0, [None] * 32, 4, (0, 0)),
    ],
)
def test_transactions_by_generation(
    capability: float, addresses: list[int | None], size: int, expected: tuple[int, int]
) -> None:
    assert transactions(capability, addresses, size) == expected
