"""Laws that the simulator obeys: bounds, more warps, shorter latencies, extrapolation within what it says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warplens as wl
from tests.null.test_simulate import listing
from warplens import api
from warplens.kernel import Access, Launch, Number, Workload, mix
from warplens.kernel.workload import WarpListing
from warplens.machine import load_machine
from warplens.machine.machine import InstructionClass
from warplens.models import predict
from warplens.simulate.code import Code, Step, Way
from warplens.simulate.from_workload import ENDLESS
from warplens.simulate.run import Options, Run, run
from warplens.simulate.units import POLICIES, units

OLD = ("gtx480", "gtx680", "gtx980")


@settings(max_examples=40, deadline=None)
@given(
    alpha=st.sampled_from([0.0, 1.0, 3.0, 8.0, 20.0, 64.0, 200.0]),
    other=st.sampled_from(["load", "sfu", "shared"]),
    warps=st.integers(1, 48),
    gpu=st.sampled_from([*OLD, "h200"]),
)
def test_never_faster_than_any_bound_of_volkov(alpha: float, other: str, warps: int, gpu: str) -> None:
    work = mix(alpha, other=other)  # type: ignore[arg-type]
    made = api.simulate(work, gpu, warps_per_sm=warps)
    bound = predict(work, load_machine(gpu), "volkov", warps_per_sm=float(warps))
    # Random latencies average to the mean within the run's own error.
    assert made.cycles >= float(bound.cycles or 0) * 0.99 - made.error_cycles


@st.composite
def anything(draw: st.DrawFn) -> Workload:
    """Return counts of any kind: loads and stores that nobody waits for, conflicts, hits, a launch or none."""
    few = st.sampled_from([1.0, 2.0, 5.0, 17.0])
    made: dict[InstructionClass, Number] = {
        kind: draw(few) for kind in draw(st.sets(st.sampled_from(["fp32", "int", "sfu"])))
    }
    accesses = []
    for _ in range(draw(st.integers(0 if made else 1, 2))):
        if draw(st.booleans()):
            degree = draw(st.sampled_from([1.0, 4.0, 16.0]))
            accesses.append(Access(count=draw(few), space="shared", conflict_degree=degree))
        else:
            wide = draw(st.sampled_from([1.0, 4.0, 32.0]))
            accesses.append(
                Access(count=draw(few), kind=draw(st.sampled_from(["load", "store"])), transactions=wide,
                       coalesced=wide == 1, hit_fraction=draw(st.sampled_from([0.0, 0.5])))
            )  # fmt: skip
    grid, block = draw(st.sampled_from([1, 7, 64, 500])), draw(st.sampled_from([32, 64, 256]))
    launch = draw(st.sampled_from([None, Launch(grid=grid, block=block, blocks_per_sm=draw(st.integers(1, 4)))]))
    times = draw(st.sampled_from([1.0, 3.0, 40.0])) if launch else 1.0
    side_by_side = st.sampled_from([1.0, 2.0, 4.0])
    return Workload(name="any", instructions=made, accesses=accesses, launch=launch, iterations=times,
                    ilp=draw(side_by_side), mlp=draw(side_by_side))  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(work=anything(), warps=st.integers(1, 24), gpu=st.sampled_from([*OLD, "gtx280", "h200"]))
def test_what_nobody_waits_for_takes_its_time_too(work: Workload, warps: int, gpu: str) -> None:
    """On machines with and without rates of L1 and L2; one latency for all, since the bound knows only their mean."""
    machine = load_machine(gpu).with_values(latency_distribution=[])
    made = api.simulate(work, machine, warps_per_sm=None if work.launch else warps)
    bound = predict(work, machine, "volkov", warps_per_sm=float(made.warps_per_sm))
    assert made.cycles >= float(bound.cycles or 0) * 0.99 - made.error_cycles


def test_a_stride_that_nobody_waits_for_takes_what_dram_takes() -> None:
    work = wl.load_workload("saxpy-naive-stride")
    for gpu in (*OLD, "h200"):
        made, bound = wl.simulate(work, gpu), predict(work, load_machine(gpu), "volkov")
        assert made.cycles >= 0.999 * float(bound.cycles or 0)
        assert made.dram_bytes_per_second <= 1.001 * load_machine(gpu).dram_bytes_per_second()


@pytest.mark.parametrize("gpu", OLD)
@pytest.mark.parametrize("other", ["load", "sfu", "shared"])
def test_old_gpus_meet_volkov_far_from_the_knee_and_contention_near_it(gpu: str, other: str) -> None:
    machine = load_machine(gpu)
    nearer = []
    for alpha in (0.0, 4.0, 32.0):
        for warps in (4, 16, 32, 48):
            work = mix(alpha, other=other)  # type: ignore[arg-type]
            bound = predict(work, machine, "volkov", warps_per_sm=float(warps))
            loaded = float(predict(work, machine, "volkov-contention", warps_per_sm=float(warps)).cycles or 0)
            made = api.simulate(work, machine, warps_per_sm=warps).cycles
            limits = sorted(float(x) for x in bound.limits.values())
            if limits[-1] > 3 * limits[-2]:  # far from the knee; a load's latency grows with load all the same
                assert made == pytest.approx(loaded, rel=0.03)
            nearer.append((abs(made / loaded - 1), abs(float(bound.cycles or 0) / loaded - 1)))
    if other == "load":
        assert sum(x for x, _ in nearer) < 0.5 * sum(x for _, x in nearer)


@pytest.mark.parametrize("other", ["load", "sfu", "shared"])
def test_another_warp_never_lowers_throughput_by_much(other: str) -> None:
    for alpha in (1.0, 16.0, 64.0):
        rates = [
            1 / api.simulate(mix(alpha, other=other), "h200", warps_per_sm=n).cycles  # type: ignore[arg-type]
            for n in (4, 5, 8, 9, 16, 17, 32, 33)
        ]
        assert all(b > 0.97 * a for a, b in pairwise(rates)), (alpha, rates)


@settings(max_examples=25, deadline=None)
@given(
    latencies=st.lists(st.sampled_from([2.0, 4.0, 6.0, 17.0, 24.0, 100.0]), min_size=1, max_size=12),
    warps=st.integers(1, 16),
    policy=st.sampled_from(list(POLICIES)),
)
def test_half_of_every_latency_is_never_slower(latencies: list[float], warps: int, policy: str) -> None:
    """In throughput. The end of a short run may come later: see the anomaly below."""
    done = [run_chain(latencies, factor, warps, policy, ENDLESS, 6000.0).issued for factor in (1.0, 0.5)]
    assert done[1] >= 0.99 * done[0]


def run_chain(latencies: list[float], factor: float, warps: int, policy: str, times: int, limit: float = 1e30) -> Run:
    """Run warps whose instructions each wait for the one before, on one pipe per scheduler."""
    steps = [
        Step(label=str(i), pipe=0, latency=c * factor, values=(i % 2,), waits=(((i + 1) % 2, 0.0),))
        for i, c in enumerate(latencies)
    ]
    code = Code(name="x", steps=steps, ways=[Way([([(0, len(steps))], times)])], blocks=[[0] * warps])
    return run(code, units(load_machine("gtx980")), Options(policy=policy), resident=1, blocks=1, limit=limit)


def test_an_anomaly_of_greedy_orders_is_as_documented() -> None:
    """Found by hypothesis: with shorter latencies two of three warps run ahead, and the third ends alone."""
    ends = {p: [run_chain([2.0, 4.0, 4.0], f, 9, p, 60).end_cycle for f in (1.0, 0.5)] for p in POLICIES}
    assert ends["greedy-oldest"] == [546.0, 601.0]
    assert ends["round-robin"][1] <= 1.01 * ends["round-robin"][0]


def test_the_order_of_equal_warps_does_not_matter() -> None:
    """Two kinds of warps, and blocks in which they change places: alike but for the policy's choice."""
    fast = "FADD R1, R1, R2\n" * 30
    slow = "MUFU R1, R1\n" * 12
    times = []
    for order in ([fast, slow, fast, slow], [slow, fast, slow, fast]):
        work = listing(
            "", warps=[WarpListing(text) for text in order], launch=Launch(grid=132, block=128, blocks_per_sm=1)
        )
        times.append(api.simulate(work, "h200").cycles)
    assert times[0] == times[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_differ_in_order_and_not_in_work(policy: str) -> None:
    made = api.simulate(mix(16.0, other="sfu"), "h200", warps_per_sm=20, options=Options(policy=policy))
    assert made.cycles == pytest.approx(5.0, rel=0.08)  # 17 instructions of 4 schedulers, and the SFU's share


def random_graph(seed: int) -> tuple[Workload, str]:
    """Return instructions that wait for one another in some way, in a long loop or in many rounds of blocks."""
    chance = np.random.default_rng(seed)
    opcodes = ("LD R{}, [R{}]", "FADD R{}, R{}, R5", "MUFU R{}, R{}", "LDS R{}, [R{}]")
    lines = [
        opcodes[chance.choice(4, p=(0.2, 0.4, 0.2, 0.2))].format(*chance.integers(1, 5, 2))
        for _ in range(chance.integers(2, 14))
    ]
    gpu = str(chance.choice(["h200", "gtx980", "gtx480"]))
    loop, sms = bool(chance.integers(2)), int(load_machine(gpu).chip.sm_count)
    rounds = chance.choice([1, 2, 5] if loop else [150, 333, 700])
    launch = Launch(grid=int(sms * rounds), block=int(chance.choice([64, 128, 256])), blocks_per_sm=4)
    times = int(chance.choice([2000, 5000] if loop else [20, 60]))
    return listing("\n".join(lines), iterations=times, launch=launch), gpu


SUITE = ("hong-kim-svm-naive", "hong-kim-blackscholes", "hong-kim-mb4-coalesced", "sim-sfu-1")


@pytest.mark.parametrize(
    "which",
    [
        *SUITE,
        *range(4),
        *(pytest.param(x, marks=pytest.mark.slow) for x in (*range(4, 60), "hong-kim-svm", "hong-kim-matmul-tiled")),
    ],
)
def test_the_error_of_extrapolation_is_within_the_bound(which: str | int) -> None:
    work, gpu = (wl.load_workload(which), "h200") if isinstance(which, str) else random_graph(which)
    short, whole = (api.simulate(work, gpu, options=Options(full=full)) for full in (False, True))
    assert abs(short.cycles - whole.cycles) <= short.error_cycles
    assert short.error_cycles < 0.1 * short.cycles
