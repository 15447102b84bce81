"""One answer on one screen: limits, parts and names that agree with each other, on the launches that were measured."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

import warplens as wl
from warplens.models import Prediction
from warplens.papers.validation.kernels import launches
from warplens.report import simulation
from warplens.report.analysis import rest
from warplens.report.terminal import headline

GPU = wl.load_machine("h200")
CALL = wl.load_launch(Path(__file__).parents[2] / "examples" / "saxpy.toml")
NAMES = ("saxpy", "matmul_tiled16", "reduction_k6", "vabs", "permute_random", "histogram", "black_scholes")


@cache
def workload(name: str) -> wl.Workload:
    return next(x.workload for x in launches() if x.name == name)


@cache
def predicted(name: str) -> Prediction:
    return wl.predict(workload(name), GPU, "warplens-fast")


def screen(p: Prediction, w: wl.Workload) -> str:
    return "\n".join(map(str, [*headline(p, CALL, GPU), *rest(p, w)]))


@pytest.mark.parametrize("name", NAMES)
def test_no_limit_alone_takes_longer_than_the_whole(name: str) -> None:
    p = predicted(name)
    assert max(p.alone.values()) <= float(p.cycles or 0)
    assert p.alone["launch"] == p.parts["launch"]


@pytest.mark.parametrize("name", NAMES)
def test_what_limits_is_one_of_the_bars_or_a_part_of_the_time(name: str) -> None:
    p = predicted(name)
    assert p.limited_by in {*p.alone, "barriers", "the last blocks"}
    if p.bound == "latency":
        assert "latency" not in p.alone or not p.limited_by.endswith("latency")


def test_a_latency_that_limits_is_that_of_the_largest_part() -> None:
    """The parts of a reduction: DRAM 91 of 100; of an empty kernel: the launch 94 of 100."""
    p = predicted("saxpy")
    latency = replace(p, bounds=["latency"], bound_index=0, parts={"dram": 91.0, "issue": 6.0, "launch": 3.0})
    assert latency.limited_by == "dram latency" and "dram latency" in latency.alone and "latency" not in latency.alone
    empty = replace(latency, parts={"launch": 94.0, "issue": 6.0})
    assert empty.limited_by == "launch" and "latency" in empty.alone
    assert replace(p, parts={"issue": 90.0}).limited_by == "dram bandwidth"


def test_the_first_screen_has_one_answer() -> None:
    said = screen(predicted("saxpy"), workload("saxpy"))
    assert said.count("by warplens-fast") == 1
    assert "models within the hardware's limits" not in said and "launch" in said


@cache
def simulated() -> wl.Simulation:
    return wl.simulate(workload("reduction_k6"), GPU)


def said_of(s: wl.Simulation) -> str:
    made = Console(width=140)
    with made.capture() as out:
        for part in simulation.answer(s, GPU, 5, workload("reduction_k6").code):
            made.print(part)
    return out.get()


def test_the_costliest_instructions_come_first_with_their_source_lines() -> None:
    s, code = simulated(), workload("reduction_k6").code
    costly = sorted(range(len(s.lines)), key=lambda i: -s.lines[i].cycles)[:5]
    rows = [line.split() for line in said_of(s).partition("cycles each")[2].splitlines()[2:7]]
    assert [int(row[2]) for row in rows] == costly
    assert [int(row[1]) for row in rows] == [code[i].line for i in costly]


def test_reasons_to_wait_are_explained_and_the_error_is_named() -> None:
    said = said_of(replace(simulated(), error_cycles=0.1 * simulated().cycles))
    assert "long_sb" in said and "waits for data from global or local memory (long scoreboard)" in said
    assert "sampling error +- 10.0%" in said
