"""Laws that the simulator obeys: bounds, more warps, shorter latencies, extrapolation within what it says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import warplens as wl
from tests.null.test_simulate import listing
from warplens import api
from warplens.machine import load_machine
from warplens.machine.tables import InstructionClass
from warplens.models import predict
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.from_workload import ENDLESS, from_workload
from warplens.simulator.run import Options, Run, run
from warplens.simulator.units import PIPES, POLICIES, units
from warplens.workload import Access, Launch, Number, Workload, mix

OLD = ("gtx480", "gtx680", "gtx980")


@settings(max_examples=40, deadline=None, derandomize=True)
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


@settings(max_examples=100, deadline=None, derandomize=True)
@given(work=anything(), warps=st.integers(1, 24), gpu=st.sampled_from([*OLD, "gtx280", "h200"]))
def test_what_nobody_waits_for_takes_its_time_too(work: Workload, warps: int, gpu: str) -> None:
    """On machines with and without rates of L1 and L2; one latency for all, since the bound knows only their mean."""
    machine = load_machine(gpu).with_values(latency_distribution=[])
    made = api.simulate(work, machine, warps_per_sm=None if work.launch else warps)
    bound = predict(work, machine, "volkov", warps_per_sm=float(made.warps_per_sm))
    assert made.cycles >= float(bound.cycles or 0) * 0.99 - made.error_cycles


@settings(max_examples=25, deadline=None, derandomize=True)
@given(work=anything(), policy=st.sampled_from([None, *POLICIES]), gpu=st.sampled_from([*OLD, "h200"]))
def test_compiled_and_plain_python_agree_on_any_counts(work: Workload, policy: str | None, gpu: str) -> None:
    made = units(load_machine(gpu))
    code, blocks = from_workload(work, made, 6.0), 1 if work.launch is None else 5
    one, two = (
        run(code, made, Options(policy=policy, compiled=c, events=500), resident=2, blocks=blocks, limit=800.0)
        for c in (True, False)
    )
    assert (one.end_cycle, one.issued, one.dram_bytes) == (two.end_cycle, two.issued, two.dram_bytes)
    for what in ("stalls", "blocks", "events"):
        assert np.array_equal(getattr(one, what), getattr(two, what)), what


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
    nearer, far = [], 0
    for alpha in (0.0, 4.0, 32.0):
        for warps in (4, 16, 32, 48):
            work = mix(alpha, other=other)  # type: ignore[arg-type]
            bound = predict(work, machine, "volkov", warps_per_sm=float(warps))
            loaded = float(predict(work, machine, "volkov-contention", warps_per_sm=float(warps)).cycles or 0)
            made = api.simulate(work, machine, warps_per_sm=warps).cycles
            limits = sorted(float(x) for x in bound.limits.values())
            assert made >= 0.998 * float(bound.cycles or 0)
            if limits[-1] > 3 * limits[-2]:  # far from the knee; a load's latency grows with load all the same
                assert made == pytest.approx(loaded, rel=0.03)
                assert made <= 1.03 * float(bound.cycles or 0)
                far += 1
            nearer.append((abs(made / loaded - 1), abs(float(bound.cycles or 0) / loaded - 1)))
    assert far
    if other == "load":
        assert sum(x for x, _ in nearer) < 0.5 * sum(x for _, x in nearer)


LATENCIES = {"cuda cores": 4.0, "sfu units": 18.0, "shared memory": 23.0}  # of the H200, whole cycles


def step(pipe: str, slot: int, waits: tuple[int, ...], yields: bool) -> Step:
    """Return an instruction that gives a slot its value and waits for others."""
    return Step(
        label=pipe, pipe=PIPES.index(pipe), kind=at.FIXED if pipe == "cuda cores" else at.QUEUED, yields=yields,
        latency=LATENCIES[pipe], passes=2.0 if pipe == "sfu units" else 1.0, values=(slot,),
        waits=tuple((k, 0.0) for k in waits),
    )  # fmt: skip


@st.composite
def loops(draw: st.DrawFn, pipes: tuple[str, ...] = tuple(LATENCIES)) -> list[Step]:
    """Return a loop of instructions on some pipes that wait for one another in some way, and yield or do not."""
    some, slots = st.sampled_from(pipes), st.sets(st.integers(0, 2))
    return [
        step(draw(some), i % 3, tuple(sorted(draw(slots))), draw(st.booleans())) for i in range(draw(st.integers(1, 8)))
    ]


def run_block(
    steps: list[Step], policy: str | None, block: list[int], times: tuple[int, ...], limit: float = 1e30,
    later: float = 0.0, stagger: float = 0.0, **other: float,
) -> Run:  # fmt: skip
    """Run one block of warps on the H200, each as often around the loop as its kind says, from `later` on."""
    at_once = {"sm__block_replacement_cycles": later, "sm__block_replacement_per_warp_cycles": 0.0, **other}
    machine = load_machine("h200").with_values(**at_once)
    code = Code(name="x", steps=steps, paths=[WarpPath([([(0, len(steps))], n)]) for n in times], blocks=[block])
    return run(code, units(machine), Options(policy=policy), resident=1, blocks=1, limit=limit, stagger=stagger)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=loops(), warps=st.integers(1, 24), times=st.integers(1, 40), policy=st.sampled_from(list(POLICIES)))
def test_another_warp_costs_no_more_than_its_share_and_a_tail(
    steps: list[Step], warps: int, times: int, policy: str
) -> None:
    """The tail: what one warp takes alone. Of 1,500 random loops the worst took 0.77 of it."""
    alone, some, more = (run_block(steps, policy, [0] * n, (times,)).end_cycle for n in (1, warps, warps + 1))
    assert more <= some * (warps + 1) / warps + alone


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=loops(), warps=st.integers(1, 24))
def test_another_warp_never_lowers_the_rate_of_a_loop_without_end(steps: list[Step], warps: int) -> None:
    """The same loops each time; of some 500 others one lost 4 %, below. Other policies lose up to 11 %."""
    few, more = (run_block(steps, None, [0] * n, (ENDLESS,), 8000.0).issued for n in (warps, warps + 1))
    assert more >= 0.99 * few


@pytest.mark.parametrize(
    "apart",
    [0.0, 64.0],
)
def test_another_warp_never_lowers_the_rate_of_this_loop(apart: float) -> None:
    """Found by hypothesis: with three places before shared memory warps that began together stayed in step.

    The H200 has such steps in other loops (docs/explain/simulator.md, laws).
    """
    shared, cores = "shared memory", "cuda cores"
    rows = [
        (shared, (0,)),
        (shared, ()),
        (cores, ()),
        (cores, ()),
        (cores, ()),
        (cores, (0, 1)),
        (shared, ()),
        (cores, ()),
    ]
    steps = [step(pipe, i % 3, waits, False) for i, (pipe, waits) in enumerate(rows)]
    few, more = (run_block(steps, None, [0] * n, (ENDLESS,), 8000.0, stagger=apart).issued for n in (19, 20))
    assert more >= 0.99 * few


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    other=st.sampled_from(["load", "sfu", "shared"]),
    alpha=st.sampled_from([0.0, 1.0, 4.0, 16.0, 64.0]),
    warps=st.integers(1, 47),
)
def test_another_warp_never_lowers_the_throughput_of_a_mix(other: str, alpha: float, warps: int) -> None:
    work = mix(alpha, other=other)  # type: ignore[arg-type]
    few, more = (api.simulate(work, "h200", warps_per_sm=n) for n in (warps, warps + 1))
    assert more.cycles - more.error_cycles <= 1.01 * (few.cycles + few.error_cycles)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    latencies=st.lists(st.sampled_from([2.0, 4.0, 6.0, 17.0, 24.0, 100.0]), min_size=1, max_size=12),
    warps=st.integers(1, 16),
    policy=st.sampled_from(list(POLICIES)),
)
def test_half_of_every_latency_is_never_slower(latencies: list[float], warps: int, policy: str) -> None:
    """A chain on one pipe, in throughput. The end of a short run may come later: see the anomaly below."""
    done = [run_chain(latencies, factor, warps, policy, ENDLESS, 6000.0).issued for factor in (1.0, 0.5)]
    assert done[1] >= 0.99 * done[0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=loops(), warps=st.integers(1, 24))
def test_half_of_every_latency_is_never_slower_in_turn(steps: list[Step], warps: int) -> None:
    """Any loop on several pipes, round-robin."""
    half = [replace(x, latency=x.latency / 2) for x in steps]
    done = [run_block(x, "round-robin", [0] * warps, (ENDLESS,), 12_000.0).issued for x in (steps, half)]
    assert done[1] >= 0.99 * done[0]


def run_chain(latencies: list[float], factor: float, warps: int, policy: str, times: int, limit: float = 1e30) -> Run:
    """Run warps whose instructions each wait for the one before, on one pipe per scheduler."""
    steps = [
        Step(label=str(i), pipe=0, latency=c * factor, values=(i % 2,), waits=(((i + 1) % 2, 0.0),))
        for i, c in enumerate(latencies)
    ]
    code = Code(name="x", steps=steps, paths=[WarpPath([([(0, len(steps))], times)])], blocks=[[0] * warps])
    return run(code, units(load_machine("gtx980")), Options(policy=policy), resident=1, blocks=1, limit=limit)


def test_an_anomaly_of_greedy_orders_is_as_documented() -> None:
    """Found by hypothesis: with shorter latencies two of three warps run ahead, and the third ends alone."""
    ends = {p: [run_chain([2.0, 4.0, 4.0], f, 9, p, 60).end_cycle for f in (1.0, 0.5)] for p in POLICIES}
    assert ends["greedy-oldest"] == [546.0, 601.0]
    assert ends["round-robin"][1] <= 1.01 * ends["round-robin"][0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=loops(), warps=st.integers(1, 24))
def test_half_of_every_latency_is_never_slower_on_several_pipes(steps: list[Step], warps: int) -> None:
    """In the default order too; chains on one pipe have an anomaly in another order (above)."""
    half = [replace(x, latency=x.latency / 2) for x in steps]
    done = [run_block(x, None, [0] * warps, (ENDLESS,), 12_000.0).issued for x in (steps, half)]
    assert done[1] >= 0.99 * done[0]


def test_two_loops_that_were_anomalies_are_none() -> None:
    """While an idle SFU took an instruction only through its one place: a fifth slower, and an eighth."""
    adds = [("cuda cores", 1, (), False), ("cuda cores", 0, (1,), True), ("cuda cores", 1, (), False)]
    steps = [step("sfu units", 0, (), True), *(step(*add) for add in adds)]
    half = [replace(x, latency=x.latency / 2) for x in steps]
    place = {"sm__sfu_queue_release_cycles": 4.0}
    ends = [run_block(x, None, 23 * [0], (ENDLESS,), 12_000.0, **place).issued for x in (steps, half)]
    assert ends[1] >= ends[0]
    loads = [step("shared memory", 2, (), False), step("shared memory", 0, (2,), True)]
    steps = [step("sfu units", 1, (), False), *loads, step("sfu units", 1, (), True)]
    ends = [run_block(steps, "greedy-oldest", n * [0], (ENDLESS,), 12_000.0, **place).issued for n in (11, 12)]
    assert ends[1] >= ends[0]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    steps=loops(),
    warps=st.lists(st.sampled_from([(0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 0, 0), (0, 1, 1, 1)]), min_size=1, max_size=5),
    times=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    turned=st.integers(1, 3),
    policy=st.sampled_from(list(POLICIES)),
)
def test_equal_events_may_come_in_any_order(
    steps: list[Step], warps: list[tuple[int, ...]], times: tuple[int, int], turned: int, policy: str
) -> None:
    """All schedulers look at once, and which is first at a unit that they share is a matter of turn, not of its number.

    So warps that sit so many schedulers further and begin as many cycles later find the same; and the order in which
    an instruction's sources and results are listed is nothing to it.
    """
    listed = [replace(x, waits=x.waits[::-1], values=(*x.values, *x.values)) for x in steps]
    further = [row[(s - turned) % 4] for row in warps for s in range(4)]
    here, there = (
        run_block(steps, policy, [kind for row in warps for kind in row], times),
        run_block(listed, policy, further, times, later=turned),
    )
    assert there.end_cycle - turned == pytest.approx(here.end_cycle, abs=1e-6)
    assert np.array_equal(there.counts, here.counts) and np.allclose(there.stalls.sum(1), here.stalls.sum(1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=loops(("cuda cores", "sfu units")),
    warps=st.lists(st.tuples(*4 * [st.integers(0, 1)]), min_size=1, max_size=5),
    times=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    order=st.permutations(range(4)),
    policy=st.sampled_from(list(POLICIES)),
)
def test_which_scheduler_has_which_warps_is_nothing_to_units_of_their_own(
    steps: list[Step], warps: list[tuple[int, ...]], times: tuple[int, int], order: list[int], policy: str
) -> None:
    one, two = (
        run_block(steps, policy, [row[s] for row in warps for s in seats], times) for seats in (range(4), order)
    )
    assert one.end_cycle == two.end_cycle and np.array_equal(one.counts, two.counts)


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


def test_two_loops_lose_with_half_the_latencies() -> None:
    """Found among 3,000 random loops; the law of half the latencies holds to 1 % for all but three of these."""
    adds, sfu = partial(step, "cuda cores", yields=False), partial(step, "sfu units", yields=False)
    for policy, warps, loop in (
        (None, 12, [sfu(0, ()), adds(1, ()), adds(2, (1,)), sfu(0, ())]),
        ("round-robin", 10, [adds(0, ()), adds(1, ()), sfu(2, (1,)), sfu(0, ())]),
    ):
        half = [replace(x, latency=x.latency / 2) for x in loop]
        whole, less = (run_block(x, policy, [0] * warps, (ENDLESS,), 12_000.0).issued for x in (loop, half))
        assert 0.97 < less / whole < 0.99
