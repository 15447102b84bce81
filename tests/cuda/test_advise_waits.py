"""Remedies for kernels that wait, call, or use other memory: none for what is no cost of the kernel's own code."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from warplens.advisor.advice import Advice
from warplens.advisor.advise import advise
from warplens.machine import load_machine
from warplens.models import Prediction
from warplens.workload import Workload
from warplens.workload.launch import Argument

from .test_unmodelled import ZEROS, N, X, analysed, array

pytestmark = pytest.mark.cuda


@cache
def advised(name: str, *arguments: Argument) -> tuple[Workload, Prediction, dict[str, Advice]]:
    """Return a kernel of unmodelled.cu as the closed form predicts it, and what is advised."""
    workload, p = analysed(name, list(arguments))
    return workload, p, {a.name: a for a in advise(workload, load_machine("h200"), simulated=0).advice}


def test_a_sleep_is_no_address_or_condition() -> None:
    _, _, advice = advised("sleeps", X)
    # 1 ms of sleep, and 1.8 us for all else, the launch of 1.7 us among it: nothing saves 1 %.
    assert all(a.speedup < 1.01 for a in advice.values())


@pytest.mark.parametrize("name", ["waits_for_clock", "waits_for_time"])
def test_a_loop_that_waits_for_a_clock_has_no_remedy(name: str) -> None:
    _, _, advice = advised(name, X, N)
    for remedy in ("fewer-instructions", "unroll", "fill-the-gpu", "more-ilp", "more-loads-in-flight"):
        assert not advice[remedy].helps, (remedy, advice[remedy].title)


@pytest.mark.parametrize(("name", "argument"), [("prints", X), ("calls_itself", array("x", "i32"))])
def test_arguments_and_stacks_of_functions_are_no_spills(name: str, argument: Argument) -> None:
    workload, _, advice = advised(name, argument)
    assert workload.spills == () and any(x.opcode in ("LDL", "STL") for x in workload.code)
    assert advice["avoid-spills"].reason == "it spills no registers: its local memory has arrays, or stacks"


def test_global_memory_that_only_bulk_copies_access_is_not_said_to_be_unused() -> None:
    _, _, advice = advised("loads_tensor", X)
    for remedy in ("coalesce", "vector-loads"):
        assert advice[remedy].reason == "only bulk copies (TMA) access its global memory"


def test_atomics_on_shared_memory_of_a_cluster_are_not_added_up_in_shared_memory() -> None:
    workload, _, advice = advised("adds_in_cluster", X, ZEROS)
    assert any(x.opcode == "ATOM" for x in workload.code)  # a generic address, in the window of the cluster
    assert {workload.code[i].opcode for p in advice["privatise-atomics"].where for i in p.instructions} == {"REDG"}


def test_the_launch_is_the_limit_where_it_takes_longer_than_the_bound() -> None:
    _, p, _ = advised("allocates", X)
    p = replace(p, bounds=["l2 bandwidth"], bound_index=0)
    assert float(p.limits["l2 bandwidth"]) < float(p.parts["launch"])
    assert p.limited_by == "launch" == next(iter(p.alone))
