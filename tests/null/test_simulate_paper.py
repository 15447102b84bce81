"""The simulator in the paper's mode: Lemeire et al.'s equation, figures and tables (2017)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens import api
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.machine.papers import LemeireOperation
from warplens.models.published.lemeire import equation_1
from warplens.papers.lemeire_code import Node, from_workload
from warplens.papers.lemeire_matrix import configurations, figure_3, performance
from warplens.papers.lemeire_simulator import from_nodes, simulate
from warplens.papers.validation.kernels import launches
from warplens.simulator.run import Options, run
from warplens.simulator.units import units
from warplens.workload import Launch, Workload, mix

ROUND = Options(policy="round-robin")
GPUS = ("c2050", "gtx1060")
# Groups of 2 and of 8 warps at a time, the most that fit.
MOST = {("c2050", 8): 8, ("c2050", 16): 6, ("gtx1060", 8): 32, ("gtx1060", 16): 8}


@settings(max_examples=150, deadline=None)
@given(
    instructions=st.integers(1, 40),
    warps=st.integers(1, 64),
    issue=st.sampled_from([0.25, 0.5, 1.0, 1.75, 2.0, 4.0, 8.0, 23.0]),
    more=st.sampled_from([0.0, 0.25, 5.0, 17.0, 40.5, 498.0]),
)
def test_equation_1_holds_exactly(instructions: int, warps: int, issue: float, more: float) -> None:
    table = {"op": LemeireOperation(issue_cycles=issue, completion_cycles=issue + more)}
    nodes = [Node("op", (i - 1,) if i else ()) for i in range(instructions)]
    made = run(from_nodes(nodes, table, warps), units(load_machine("c2050")), ROUND, resident=1, blocks=1)
    assert made.end_cycle == float(equation_1(issue, issue + more, instructions, warps))
    assert made.issued == instructions * warps


@pytest.mark.parametrize("gpu", GPUS)
def test_figure_1_is_the_sum_that_the_paper_prints(gpu: str) -> None:
    machine = load_machine(gpu)
    made = simulate(api.load_workload("lemeire-figure-1").with_values(launch=None), machine, mode="lemeire")
    index, memory, fmadd = (machine.lemeire[name] for name in ("fadd", "memory", "fmadd"))
    # L_index + l_mem + L_mem + L_fmadd + l_mem: two loads back to back, the store counts with its issue
    assert made.cycles == (
        index.completion_cycles + memory.issue_cycles + memory.completion_cycles + fmadd.completion_cycles
        + memory.issue_cycles
    )  # fmt: skip


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("operation", ["fadd", "cos", "loop", "memory"])
def test_table_2_is_a_boat_hull_from_completion_to_issue_latency(gpu: str, operation: str) -> None:
    machine = load_machine(gpu)
    own = machine.lemeire[operation]
    nodes = [Node(operation, (i - 1,) if i else ()) for i in range(200)]
    per = []
    for warps in (1, int(machine.sm.warps_max)):
        made = run(from_nodes(nodes, machine.lemeire, warps), units(machine), ROUND, resident=1, blocks=1)
        per.append(made.end_cycle / (200 * warps))
    assert per[0] == own.completion_cycles
    assert per[1] == pytest.approx(max(own.issue_cycles, own.completion_cycles / machine.sm.warps_max), rel=0.02)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("tile", [8, 16])
def test_figure_3_more_groups_help_up_to_a_plateau_and_conflicts_hurt(gpu: str, tile: int) -> None:
    few, some, many = (performance(gpu, tile, groups) for groups in (1, 2, MOST[gpu, tile]))
    assert some == pytest.approx(2 * few, rel=0.06)  # latency-bound at first
    assert many >= some * 0.99
    slow, slower = (performance(gpu, tile, groups, conflict=True) for groups in (MOST[gpu, tile], 1))
    assert slower <= slow < 0.55 * many  # the local memory becomes the bottleneck
    machine = load_machine(gpu)
    conflict = machine.lemeire["local_memory_conflict"].issue_cycles
    # Two conflicting accesses per multiply-add of 32 threads, one pipeline per compute unit: no more than this.
    bound = 2 * 32 / (2 * conflict) * machine.chip.sm_count * machine.chip.clock_hz / 1e9
    assert slow <= bound
    assert slow == pytest.approx(bound, rel=0.08)


def test_16_by_16_is_faster_than_8_by_8_as_in_figure_3() -> None:
    for gpu in GPUS:
        assert performance(gpu, 16, 4) > 1.5 * performance(gpu, 8, 8)


@pytest.mark.parametrize(("gpu", "configured", "warp_counts"), [("c2050", 34, 18), ("gtx1060", 78, 43)])
def test_the_configurations_are_as_many_as_the_paper_counts(gpu: str, configured: int, warp_counts: int) -> None:
    made = configurations(load_machine(gpu))
    assert len(made) == len(set(made)) == configured
    assert len({size * groups for size, groups in made}) == warp_counts
    for tile in (8, 16):
        assert max(n for size, n in made if size == tile * tile // 32) == MOST[gpu, tile]


@pytest.mark.slow
def test_figure_3_over_all_configurations() -> None:
    """More groups never hurt by more than the last round's tail; with conflicts both kernels meet one bound."""
    item = figure_3()
    assert all(row.verdict == "digit" for row in item.rows if row.paper)
    for plot in item.plots:
        curves = {series.name: list(series.y) for series in plot.series}
        assert [len(y) for y in curves.values()] in ([8, 8, 6, 6], [26, 26, 7, 7])
        assert all(b > 0.97 * a for y in curves.values() for a, b in pairwise(y))
        ends = [curves[f"mmul{tile}, conflicts"][-1] for tile in ("08", "16")]
        assert ends[0] == pytest.approx(ends[1], rel=0.02)


MATRIX = ("matmul_tiled16", "matmul_tiled16.conflicts")  # of the train set


@pytest.mark.parametrize("name", MATRIX)
def test_machine_code_is_a_graph_that_counts_what_the_machine_counted(name: str) -> None:
    """Every warp's path is a graph; with the pipelines of the H200 no answer is under the busiest one's issues."""
    work, h200 = {x.name: x.workload for x in launches()}[name], load_machine("h200")
    assert work.profile is not None
    graphs = from_workload(work, h200, h200.lemeire)
    assert [len(nodes) for nodes in graphs.nodes] == [path.instructions for path in work.profile.paths]
    per_block = sum(len(graphs.nodes[graph]) for graph in graphs.blocks[0])
    assert per_block * graphs.groups == pytest.approx(work.profile.total("executed"), rel=1e-3)
    # A multiply-add needs both of its loads from local memory, and a barrier all accesses to it since the last one.
    nodes = graphs.nodes[0]
    assert all(m < n for n, x in enumerate(nodes) for m in x.needs)
    product = next(x for x in nodes[len(nodes) // 2 :] if x.label.startswith("FFMA"))
    assert {nodes[m].operation for m in product.needs} >= {"local_memory"}
    barrier = [x for x in nodes if x.operation == "barrier"][1]
    assert {nodes[m].operation for m in barrier.needs} >= {"local_memory"}
    busiest = sum(x.issue_cycles or 0.0 for x in nodes if x.pipeline == 2) * len(graphs.blocks[0])
    found = simulate(work, h200, mode="lemeire")
    assert found.cycles >= busiest * graphs.groups / h200.chip.sm_count
    assert found.mode == "lemeire" and found.per == "kernel"


def test_warps_of_different_paths_have_different_graphs() -> None:
    work = {x.name: x.workload for x in launches()}["reduction_k3_k5"]
    graphs = from_workload(work, load_machine("h200"), load_machine("h200").lemeire)
    assert len(graphs.nodes) > 1 and len({graph for block in graphs.blocks for graph in block}) == len(graphs.nodes)


def test_the_mix_is_a_chain_and_its_refinements_are_the_papers_further_work() -> None:
    """One warp takes its latencies, many as long as memory lets them; under load memory takes longer."""
    h200, mixed = load_machine("h200"), mix(16.0)
    memory, add = h200.lemeire["memory"], h200.lemeire["fmadd"]
    alone = simulate(mixed, h200, mode="lemeire", warps_per_sm=1)
    assert alone.per == "body and SM"
    assert alone.cycles == pytest.approx(memory.completion_cycles + 16 * add.completion_cycles, rel=0.01)
    many = simulate(mixed, h200, mode="lemeire", warps_per_sm=64)
    assert many.cycles >= max(memory.issue_cycles, (memory.completion_cycles + 64) / 64) * 0.99
    near_the_knee = [
        simulate(mixed, h200, mode=mode, warps_per_sm=64).cycles for mode in ("lemeire", "lemeire-refined")
    ]
    assert near_the_knee[1] > 1.02 * near_the_knee[0]


def test_the_refined_mode_has_an_issue_limit() -> None:
    """Four pipelines take 4.01 additions, a cosine and an access a cycle; an SM of the H200 issues four in all."""
    work = Workload(
        name="beyond", instructions={"fp32": 4000.0, "sfu": 400.0}, launch=Launch(grid=132, block=1024), ilp=8.0
    )
    free, limited = (simulate(work, load_machine("h200"), mode=mode).cycles for mode in ("lemeire", "lemeire-refined"))
    issued = 32 * 4400 / load_machine("h200").issue_ipc()
    assert free < issued <= limited


def test_a_circle_in_the_graph_is_named() -> None:
    nodes = [Node("fadd", (2,)), Node("fadd", (0,)), Node("cos", (1,))]
    with pytest.raises(WarplensError, match=r"circle: 0 \(fadd\) needs 2 \(cos\) needs 1 \(fadd\) needs 0 \(fadd\)"):
        from_nodes(nodes, load_machine("c2050").lemeire, 1)


def test_bad_graphs_are_one_line_each() -> None:
    table = load_machine("c2050").lemeire
    with pytest.raises(WarplensError, match="no latencies of 'fad'; did you mean 'fadd'"):
        from_nodes([Node("fad")], table, 1)
    with pytest.raises(WarplensError, match="latency of zero"):
        from_nodes([Node("x")], {"x": LemeireOperation(issue_cycles=0, completion_cycles=4)}, 1)
    with pytest.raises(WarplensError, match="needs a node that is not there"):
        from_nodes([Node("fadd", (7,))], table, 1)
    with pytest.raises(WarplensError, match="no warps"):
        run(from_nodes([Node("fadd")], table, 0), units(load_machine("c2050")), ROUND, resident=1, blocks=1)
    with pytest.raises(WarplensError, match=r"lemeire, which machine gtx980 does not give"):
        simulate(api.load_workload("lemeire-figure-1"), load_machine("gtx980"), mode="lemeire")
