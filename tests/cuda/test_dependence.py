"""The dependence graph of real machine code: equal to a walk along all paths, and respected by the compiler."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.cuda.programs import programs
from tests.null.test_dependence import producers_by_walking
from warplens.machine import load_machine
from warplens.program import Options
from warplens.program.static_analysis import static_analysis

pytestmark = pytest.mark.cuda
CORPUS = Path(__file__).parents[1] / "corpus"
# cycles from a result of fixed latency to its use on sm_90 (data/experiments/lone_warp/lone_warp.json); IMAD.WIDE and
# IADD3 pass the lower word of a 64-bit sum on after 3
LEAST = {("fp32", "fp32"): 4, ("int", "int"): 4, ("imul", "imul"): 4, ("imul", "int"): 3, ("fp64", "fp64"): 8}


@pytest.mark.parametrize("source", ["integer.cu", "math.cu", "gemm.cu", "atomics.cu"])
def test_no_result_is_used_before_it_is_there(source: str) -> None:
    machine, nearest = load_machine("h200"), defaultdict[tuple[str, str], float](lambda: 1e9)
    checked = 0
    for program in list(programs(CORPUS / source, Options("sm_90")).values())[:5]:
        a, code = static_analysis(program, machine), program.instructions
        for e in a.edges:
            x, y = code[e.producer], code[e.consumer]
            assert x.control is not None
            here = any(b.first <= e.producer <= b.last and b.first <= e.consumer <= b.last for b in a.flow.blocks)
            if here and e.carried is None and e.kind == "data" and x.control.write_scoreboard is None:
                gap = a.issue_cycles[e.consumer] - a.issue_cycles[e.producer]
                nearest[x.kind, y.kind] = min(nearest[x.kind, y.kind], gap)
                checked += 1
        edges = defaultdict[tuple[int, str], set[int]](set)
        for e in a.edges:
            edges[e.consumer, e.what].add(e.producer)
        for i, x in enumerate(code[:300]):
            for register in x.reads[:3]:
                theirs = producers_by_walking(code, a.flow, i, register)
                assert edges[i, register] == theirs, f"{x.offset:04x} {x.text}: {register}"
    assert checked > 200
    assert ("int", "int") in nearest  # and so the bounds below say something
    for pair, least in LEAST.items():
        assert nearest[pair] >= least, pair
