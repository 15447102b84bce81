"""Hand-written graphs from files: both modes, and what users get wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.models.published.lemeire import equation_1
from warplens.papers.lemeire_graph import Graph, GraphNode, load_graph
from warplens.papers.lemeire_simulator import simulate
from warplens.simulator import Simulation

ROW = Path(__file__).parents[2] / "examples/graphs/row.toml"


def simulated(graph: Graph | Path, gpu: Machine | str, **given: Any) -> Simulation:
    """Simulate a graph, or that of a file."""
    work = load_graph(graph) if isinstance(graph, Path) else graph
    return simulate(work, load_machine(gpu) if isinstance(gpu, str) else gpu, **given)


def chain(folder: Path, length: int, warps: int, *, more: str = "") -> Path:
    """Write a graph of so many nodes in a row, for one block of so many warps."""
    nodes = [
        f'[[node]]\nname = "n{i}"\noperation = "fp32"\n{more}' + (f'needs = ["n{i - 1}"]\n' if i else "")
        for i in range(length)
    ]
    file = folder / "chain.toml"
    file.write_text(f"grid = 1\nblock = {32 * warps}\n" + "\n".join(nodes))
    return file


@pytest.mark.parametrize(("length", "warps"), [(1, 1), (7, 3), (12, 20)])
def test_a_chain_in_the_papers_mode_is_equation_1(tmp_path: Path, length: int, warps: int) -> None:
    made = simulated(chain(tmp_path, length, warps, more="issue = 2\nlatency = 18\n"), "c2050", mode="lemeire")
    assert made.cycles == float(equation_1(2.0, 18.0, length, warps))


def test_a_chain_alone_takes_its_latencies(tmp_path: Path) -> None:
    machine = load_machine("gtx980")
    made = simulated(chain(tmp_path, 10, 1), machine)
    assert made.cycles == 10 * machine.latency_cycles("fp32") + (machine.sm.block_replacement_cycles or 0)
    assert simulated(chain(tmp_path, 10, 1, more="latency = 50\n"), machine).cycles == made.cycles + 10 * (
        50 - machine.latency_cycles("fp32")
    )


def test_the_example_runs_in_both_modes(capsys: pytest.CaptureFixture[str]) -> None:
    paper, own = simulated(ROW, "c2050", mode="lemeire"), simulated(ROW, "c2050")
    assert paper.lines[0].executed == own.lines[0].executed == 2
    assert [x.text for x in own.lines][:3] == ["index: fadd", "a0: memory", "b0: memory"]
    slower = simulated(ROW, "c2050", mode="lemeire", changes={"lemeire.memory.completion": 2000.0})
    assert slower.cycles > paper.cycles + 1000
    assert main(["simulate", str(ROW), "--gpu", "c2050", "--mode", "lemeire", "--json"]) == 0
    assert json.loads(capsys.readouterr()[0])["simulation"]["cycles"] == paper.cycles


def test_warps_of_a_block_may_have_different_graphs(tmp_path: Path) -> None:
    """The second warp alone has the slow branch; what needs its result goes without it in the first one."""
    file = tmp_path / "branch.toml"
    file.write_text(
        'grid = 1\nblock = 64\n[[node]]\nname = "x"\noperation = "fp32"\nlatency = 10\nissue = 1\n'
        '[[node]]\nname = "slow"\noperation = "sfu"\nlatency = 500\nissue = 1\nneeds = ["x"]\nwarps = [1, 1]\n'
        '[[node]]\noperation = "fp32"\nlatency = 10\nissue = 1\nneeds = ["slow"]\n'
    )
    paper = simulated(file, "c2050", mode="lemeire")
    assert paper.cycles == 1 + 10 + 500 + 10  # the second warp begins a cycle behind
    assert [line.executed for line in paper.lines] == [1, 1, 1, 1, 1]  # two nodes of one warp, three of the other
    own = simulated(file, "c2050")
    assert [line.executed for line in own.lines] == [2, 1, 2]
    assert own.cycles > 510


@pytest.mark.parametrize("warps", ["[0, 2]", "[1, 0]", "[-1, 0]"])
def test_warps_that_a_block_has_not_are_refused(warps: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f'grid = 1\nblock = 64\n{NODE}[[node]]\noperation = "fp32"\nwarps = {warps}\n')
    with pytest.raises(WarplensError, match=r"node\.1\.warps: the first and the last warp, 0 to 1, not"):
        load_graph(file)


def test_nobody_waits_for_a_store() -> None:
    assert simulated(ROW, "gtx980", changes={"load.latency": 400.0}).lines[-1].stalls.keys() <= {"selected", "wait"}


NODE = '[[node]]\nname = "a"\noperation = "fp32"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            NODE + 'needs = ["b"]\n[[node]]\nname = "b"\noperation = "sfu"\nneeds = ["a"]',
            "the graph is a circle: 0 (a)",
        ),
        (NODE + 'needs = ["a"]', "the graph is a circle: 0 (a) needs 0 (a)"),
        (NODE + "latency = 0", "node.0.latency: must be a number > 0, not 0"),
        (NODE + 'needs = ["x"]', "'a' needs 'x', which no node is named"),
        (NODE + NODE, "two nodes are named 'a'"),
        ('[[node]]\noperation = "fp33"', "no operation 'fp33'; did you mean 'fp32'?"),
        (NODE + "latencies = 3", "latencies: unknown key"),
        ("node = []", "node: 1 to 20,000 of them, not 0"),
        ("", "the launch file names no `file`"),
        ("node = 3", "node: must be a list"),
        ('[[node]]\nname = "a"', "operation: missing"),
    ],
)
def test_a_wrong_graph_is_one_line(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f"grid = 1\nblock = 32\n{text}\n")
    assert main(["simulate", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and expected in err


@pytest.mark.parametrize(("grid", "block", "expected"), [(0, 32, "grid: must be"), (1, 0, "block: must be")])
def test_no_blocks_and_no_threads_are_refused(
    grid: int, block: int, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f"grid = {grid}\nblock = {block}\n{NODE}")
    assert main(["simulate", str(file)]) == 2
    assert expected in capsys.readouterr()[1]


@pytest.mark.parametrize(
    ("key", "value"), [("grid", 0), ("grid", 1.5), ("block", 0), ("block", 5000), ("blocks_per_sm", 0)]
)
def test_a_graph_made_in_python_is_checked_as_a_file(key: str, value: float) -> None:
    """No blocks took 1e30 cycles, no threads were divided by."""
    made = {"grid": 1, "block": 32, "nodes": [GraphNode(operation="fp32")], key: value}
    with pytest.raises(WarplensError, match=f"graph: {key}: must be a whole number"):
        simulated(Graph(**made), "h200")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -3, math.nan])
def test_latencies_of_a_graph_made_in_python_are_checked(value: float) -> None:
    with pytest.raises(WarplensError, match=r"node\.0\.latency: must be a number > 0"):
        simulated(Graph(grid=1, block=32, nodes=[GraphNode(operation="fp32", latency=value)]), "h200")
