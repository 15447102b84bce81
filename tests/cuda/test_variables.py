"""`__constant__` and `__device__` variables of a launch file: the emulator sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warplens.core.errors import WarplensError
from warplens.emulator.emulator import Emulator
from warplens.program import load_program
from warplens.program.program import Program
from warplens.workload.launch import parse_launch

pytestmark = pytest.mark.cuda
SOURCE = """
__constant__ int rounds;
__constant__ float coef[4];
namespace tables { __device__ float scale[64]; __device__ int known = 7; }
__global__ void k(float *out) {
    float sum = 0;
    for (int i = 0; i < rounds; i++) sum += coef[i & 3];
    out[threadIdx.x] = sum * tables::scale[threadIdx.x] + tables::known;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    file = tmp_path_factory.mktemp("variables") / "k.cu"
    file.write_text(SOURCE)
    return load_program(file)


def _ran(program: Program, *variables: dict[str, Any]) -> Emulator:
    out = {"name": "out", "type": "f32*", "count": 64}
    call = parse_launch({"grid": 1, "block": 64, "arg": [out], "global": list(variables)}, "k.toml")
    emulator = Emulator(program, call)
    emulator.run([0])
    return emulator


def test_a_loop_runs_as_often_as_a_constant_says_and_reads_arrays_of_both_kinds(program: Program) -> None:
    assert set(program.variables) == {"rounds", "coef", "tables::scale", "tables::known"}
    assert program.variables["coef"][1] == 16 and program.variables["tables::scale"][1] == 256
    given: list[dict[str, Any]] = [
        {"name": "rounds", "type": "i32", "value": 6},
        {"name": "coef", "type": "f32", "fill": "linear(1, 1)"},  # 1 2 3 4; six rounds: 1 + 2 + 3 + 4 + 1 + 2 = 13
        {"name": "scale", "type": "f32", "count": 32, "fill": "iota"},  # the last part of a name; the rest stays 0
    ]
    found = _ran(program, *given).array("out")
    assert found.tolist() == [13.0 * i + 7 if i < 32 else 7.0 for i in range(64)]
    often, seldom = (_ran(program, {**given[0], "value": n}).executed for n in (1000, 10))
    assert often > 10 * seldom
    assert np.all(_ran(program).array("out") == 7)  # as the source initialises them


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ({"name": "round", "type": "i32", "value": 1}, "global.round: no such .* did you mean 'rounds'"),
        ({"name": "coef", "type": "f64", "fill": "ones", "count": 4}, "32 bytes are given, the variable has 16"),
        ({"name": "coef", "type": "f32", "fill": "one"}, "global.coef.fill: unknown fill 'one'; did you mean 'ones'"),
    ],
)
def test_what_does_not_fit_is_one_line(program: Program, variable: dict[str, Any], said: str) -> None:
    with pytest.raises(WarplensError, match=said):
        _ran(program, variable)
