"""Laws that hold for every workload and machine, searched for counter-examples by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.machine import Machine, load_machine
from warplens.models import MODELS, needed_warps, predict
from warplens.models.bounds import totals, worksheet
from warplens.workload import Access, Launch, Number, Workload, mix

FIVE = [load_machine(gpu) for gpu in ("8800gtx", "gtx280", "gtx480", "gtx680", "gtx980")]
machines = st.sampled_from([*FIVE, load_machine("h200")])
counts = st.floats(0, 1e4)
some = st.floats(0.5, 1e4)
warps = st.floats(0.25, 64)
alphas = st.one_of(st.floats(0, 1000), st.just(np.inf))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A kernel in steady state: arithmetic, SFU, shared and global accesses, some parallelism."""
    accesses = [
        Access(count=draw(counts), space="shared", conflict_degree=float(draw(st.integers(1, 32)))),
        Access(count=draw(counts), transactions=float(draw(st.integers(1, 32))), coalesced=draw(st.booleans())),
        Access(count=draw(counts), kind="store"),
    ]
    return Workload(
        name="any",
        instructions={"fp32": draw(some), "int": draw(counts), "sfu": draw(counts)},
        accesses=accesses,
        ilp=draw(st.floats(1, 4)),
        mlp=draw(st.floats(1, 4)),
    )


@given(workloads(), machines, warps)
def test_volkov_never_exceeds_any_bound(workload: Workload, machine: Machine, n: float) -> None:
    p = predict(workload, machine, "volkov", warps_per_sm=n)
    rate = float(p.throughput_warps_per_cycle or 0)
    for cycles in totals(worksheet(workload, machine, "volkov")).values():
        assert rate * float(cycles) <= 1 + 1e-9
    assert rate * float(p.terms["latency bound"].value) <= n * (1 + 1e-9)
    assert not p.flags


@given(workloads(), machines, warps, st.floats(0.01, 1))
def test_latency_bound_throughput_is_linear_in_occupancy(w: Workload, machine: Machine, n: float, share: float) -> None:
    needed = float(predict(w, machine, "volkov", warps_per_sm=n).needed_warps_per_sm or 0)
    low = needed * share
    full = predict(w, machine, "volkov", warps_per_sm=needed).throughput_warps_per_cycle
    part = predict(w, machine, "volkov", warps_per_sm=low).throughput_warps_per_cycle
    assert part == pytest.approx(share * float(full or 0), rel=1e-9)


@given(workloads(), machines)
def test_needed_occupancy_is_latency_times_throughput_bound(workload: Workload, machine: Machine) -> None:
    p = predict(workload, machine, "volkov")
    product = float(p.terms["latency bound"].value) * float(p.terms["throughput bound"].value)
    assert p.needed_warps_per_sm == pytest.approx(product)


@settings(max_examples=25)
@given(st.floats(0, 300), st.sampled_from(FIVE), st.sampled_from([1.0, 0.95, 0.9]))
def test_needed_warps_is_where_the_throughput_is_first_attained(alpha: float, machine: Machine, share: float) -> None:
    found = needed_warps(mix(alpha), machine, "volkov", share)
    assert found == pytest.approx(
        share * float(predict(mix(alpha), machine, "volkov").needed_warps_per_sm or 0), rel=1e-6
    )


@given(workloads(), machines, warps)
def test_contention_is_never_above_volkov(workload: Workload, machine: Machine, n: float) -> None:
    plain = predict(workload, machine, "volkov", warps_per_sm=n).throughput_warps_per_cycle
    loaded = predict(workload, machine, "volkov-contention", warps_per_sm=n).throughput_warps_per_cycle
    assert 0 < float(loaded or 0) <= float(plain or 0) * (1 + 1e-9)


@given(alphas, machines, warps, st.floats(1.0, 3.0))
def test_contention_throughput_does_not_fall_with_occupancy(
    alpha: float, machine: Machine, n: float, more: float
) -> None:
    low, high = (
        predict(mix(alpha), machine, "volkov-contention", warps_per_sm=k).throughput_warps_per_cycle
        for k in (n, n * more)
    )
    assert float(high or 0) >= float(low or 0) * (1 - 1e-9)


# No time, one GPU only, or machine code needed (tests/cuda/test_own_model.py).
NEEDS_MORE = ("cuda-guide", "cuda-guide-refined", "mowry", "volkov-contention-refined", "warplens", "warplens-fast")
TIMED = [name for name in MODELS if name not in NEEDS_MORE]


@pytest.mark.parametrize("model", TIMED)
def test_time_scales_with_work(model: str) -> None:
    """Twice the blocks, twice the time, at the same occupancy and with all SMs full."""
    machine = load_machine("gtx480")
    if model == "zhang-owens" and not machine.throughput:
        pytest.skip("no table")
    body: dict[str, Number] = {"fp32": 64.0, "int": 8.0}
    times = []
    for blocks in (15 * 8 * 4, 15 * 8 * 8):
        w = Workload(name="w", instructions=body, accesses=[Access(count=4.0)], launch=Launch(blocks, 192))
        times.append(float(predict(w, machine, model, warps_per_sm=24).seconds or 0))
    assert times[1] == pytest.approx(2 * times[0])


some_launches = st.tuples(st.integers(1, 400), st.integers(1, 6), st.integers(1, 8))


@settings(max_examples=60)
@given(workloads(), st.sampled_from(FIVE), st.sampled_from(TIMED), some_launches)
def test_more_blocks_never_take_less_time(
    w: Workload, machine: Machine, model: str, launch: tuple[int, int, int]
) -> None:
    """Time grows with the grid, and doubles with it once every SM has whole rounds of blocks."""
    sms, (grid, more, warps) = int(machine.chip.sm_count), launch

    def seconds(blocks: int) -> float:
        launched = w.with_values(launch=Launch(float(blocks), 32.0 * warps))
        return float(predict(launched, machine, model).seconds or 0)

    if "bandwidth" in model:  # negative times are this model's own (§7.7)
        return
    if model.startswith("sim2012"):  # its own too: see the test below
        return
    assert seconds(grid + more) >= seconds(grid) * (1 - 1e-9)
    full = sms * 24 * 16
    assert seconds(2 * full) == pytest.approx(2 * seconds(full), rel=0.02)


def test_sim2012_may_take_less_time_for_more_blocks() -> None:
    """MWP_cp = min(max(1, CWP - 1), MWP) makes T_mem proportional to N / (N - 1): 3/2 with 3 warps, 4/3 with 4."""
    w = Workload(name="w", instructions={"fp32": 1.0}, accesses=[Access(count=1.0, coalesced=False)])
    machine = load_machine("8800gtx")
    times = [
        float(predict(w.with_values(launch=Launch(float(16 * n), 32.0)), machine, "sim2012").terms["T_mem"].value)
        for n in (3, 4)
    ]
    assert times[1] / times[0] == pytest.approx((4 / 3) / (3 / 2))


@given(workloads(), machines, st.integers(1, 5000), st.integers(1, 8))
def test_no_kernel_is_faster_than_one_of_its_warps(w: Workload, machine: Machine, grid: int, warps: int) -> None:
    launched = w.with_values(launch=Launch(float(grid), 32.0 * warps))
    p = predict(launched, machine, "volkov")
    assert float(p.cycles or 0) >= float(p.terms["latency bound"].value) * (1 - 1e-9)


@pytest.mark.parametrize("model", TIMED)
def test_arrays_give_what_single_numbers_give(model: str) -> None:
    machine = load_machine("gtx480")
    alpha, n = np.array([0.5, 4.0, 32.0, 200.0]), np.array([1.0, 7.0, 24.0, 48.0])
    grid = predict(mix(alpha[:, None]), machine, model, warps_per_sm=n)
    cycles = np.broadcast_to(np.asarray(grid.cycles), (4, 4))
    bounds = np.broadcast_to(np.asarray(grid.bound), (4, 4))
    for i, a in enumerate(alpha):
        for j, k in enumerate(n):
            one = predict(mix(float(a)), machine, model, warps_per_sm=float(k))
            assert cycles[i, j] == pytest.approx(float(one.cycles or 0), rel=1e-12)
            assert bounds[i, j] == one.bound
            for name, term in one.terms.items():
                many = np.broadcast_to(np.asarray(grid.terms[name].value), (4, 4))[i, j]
                assert many == pytest.approx(float(term.value), rel=1e-12), name
