"""Triton's machine code in suite/triton: emulated, predicted, and compiled again where Triton is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warplens import api
from warplens.api.request import Request, load
from warplens.core.errors import WarplensError
from warplens.emulator.emulator import Emulator
from warplens.laboratory import tensor
from warplens.laboratory.build import build
from warplens.papers.validation.stored import read
from warplens.papers.validation.triton import error, triton_launches
from warplens.program import load_program, load_programs
from warplens.program.program import Program
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.matrix import operand_wavefronts
from warplens.simulator.run import Options, run
from warplens.simulator.units import units
from warplens.workload.compiled_call import compile_kernel
from warplens.workload.launch import KernelCall, load_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
ROOT = Path(__file__).parents[2]
COMPILED, EXAMPLES = ROOT / "data" / "h200" / "suite" / "triton", ROOT / "examples" / "triton"
triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the extra triton")


def _emulated(name: str) -> dict[str, Any]:
    call = load_launch(COMPILED / f"{name}.toml")
    emulator = Emulator(load_program(COMPILED / str(call.file), call.kernel), call)
    before = {a.name: emulator.array(a.name).copy() for a in call.arguments if a.is_pointer and a.count}
    emulator.run(range(call.blocks))
    return {f"{name} before": array for name, array in before.items()} | {
        a.name: emulator.array(a.name) if a.is_pointer and a.count else a.value for a in call.arguments
    }


def test_vector_add() -> None:
    made = _emulated("triton_vector_add.small")
    assert np.array_equal(made["out"], made["x"] + made["y"])


@pytest.mark.parametrize("name", ["triton_softmax.small", "triton_softmax.short.small"])
def test_softmax(name: str) -> None:
    made = _emulated(name)
    rows, columns, stride = made["rows"], made["columns"], made["row_stride"]
    x = made["x"][: rows * stride].reshape(rows, stride)[:, :columns].astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    out = made["out"][: rows * stride].reshape(rows, stride)[:, :columns]
    assert np.allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_layer_norm() -> None:
    made = _emulated("triton_layer_norm.narrow.small")
    columns = made["columns"]
    x = made["x"][: 5 * columns].reshape(5, columns).astype(np.float64)
    assert np.allclose(made["out_mean"][:5], x.mean(axis=1), rtol=1e-5)
    assert np.allclose(made["out_scale"][:5], 1 / np.sqrt(x.var(axis=1) + 1e-5), rtol=1e-4)
    weight, bias = (made[name][:columns].astype(np.float64) for name in ("weight", "bias"))
    wanted = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * weight + bias
    assert np.allclose(made["out"][: 5 * columns].reshape(5, columns), wanted, atol=4e-3)  # fp16


def test_matrix_products_are_counted() -> None:
    call = load_launch(COMPILED / "triton_matmul.small.toml")
    program = load_program(COMPILED / str(call.file), call.kernel)
    emulator = Emulator(program, call)
    emulator.run(range(call.blocks))
    flops = sum(
        2 * 64 * 128 * 16 / 4 * executed
        for x, executed in zip(program.instructions, emulator.stats[:, 0], strict=True)
        if x.opcode == "HGMMA"
    )
    assert flops == 2 * 128 * 256 * 192  # two tiles of 128 x 128, three steps of 64 for a depth of 160
    assert not emulator.known("out").any()  # the values of a group's product are not computed


def test_lines_are_the_kernels_own() -> None:
    for name, lines in (("triton_vector_add", {8, 10, 11, 12}), ("triton_softmax", {8, 10, 11, 12, 13, 14, 15})):
        call = load_launch(COMPILED / f"{name}.toml")
        program = load_program(COMPILED / str(call.file), call.kernel)
        assert {x.line for x in program.instructions if x.line} == lines
        assert program.source_file == f"examples/triton/{call.kernel}.py"
    loads = {x.line for x in program.instructions if x.opcode == "LDGSTS"}
    assert loads == {13}  # tl.load, with what Triton puts before the loop and into it


def _program(call: KernelCall, file: str | Path | None = None) -> Program:
    request = Request(file=None if file is None else str(file), launch=call)
    return load(request, api.load_machine("h200"))[0]


@triton
def test_compiling_again_gives_the_committed_machine_code() -> None:
    call = load_launch(EXAMPLES / "triton_vector_add.toml")
    made = compile_kernel(EXAMPLES / "vector_add.py", None, call, "sm_90")
    kept = load_launch(COMPILED / "triton_vector_add.toml")
    assert made.call.arguments == kept.arguments and made.call.block_shape == kept.block_shape
    (here, there) = (
        api.load_program(COMPILED / str(kept.file)),
        _program(call, EXAMPLES / "vector_add.py"),
    )
    if "Triton 3.9.0" in there.tools:
        assert [x.text for x in here.instructions] == [x.text for x in there.instructions]


@triton
def test_what_triton_refuses_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, tl.arange(0, 3))\n"
    )
    (tmp_path / "l.toml").write_text('grid = 1\nnum_warps = 4\n[[arg]]\ntype = "i32*"\ncount = 4\n')
    with pytest.raises(WarplensError, match=r"wrong.py:k: .*arange's range must be a power of 2"):
        _program(load_launch(tmp_path / "l.toml"), f"{file}:k")


def test_without_triton_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="needs num_warps"):
        _program(load_launch(COMPILED / "triton_vector_add.toml"), EXAMPLES / "vector_add.py")
    with pytest.raises(WarplensError, match="compiled for a launch: give --launch"):
        load_program(EXAMPLES / "vector_add.py")
    if find_spec("triton") is None:
        with pytest.raises(WarplensError, match=r"Triton is not installed .*pip install triton"):
            _program(load_launch(EXAMPLES / "triton_vector_add.toml"))


def test_outputs_are_those_of_the_gpu() -> None:
    kept = np.load(COMPILED / "outputs.npz")
    made = _emulated("triton_vector_add.small")
    assert np.array_equal(made["out"], kept["triton_vector_add/out"])
    made = _emulated("triton_layer_norm.narrow.small")
    assert np.allclose(made["out"].astype(np.float32), kept["triton_layer_norm.narrow/out"], atol=4e-3)
    assert np.allclose(made["out_scale"], kept["triton_layer_norm.narrow/out_scale"], rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["vector_add", "softmax", "layer_norm", "matmul",
     "flash_attention"],
)  # fmt: skip
def test_predictions_beside_the_measured_times(name: str) -> None:
    known = {launch.name: launch for launch in triton_launches()}
    assert abs(error(known[f"triton_{name}"])) < 0.15


def test_counts_are_the_profilers() -> None:
    measured = read("h200/suite/triton/ncu.json.gz")["launches"]
    for launch in triton_launches():
        profile, record = launch.workload.profile, measured[launch.name]
        assert profile is not None
        assert profile.total("executed") == pytest.approx(sum(record["executed"]), rel=0.01), launch.name


@pytest.mark.parametrize("name", ["matmul", "matmul.wide", "flash_attention", "flash_attention.deep"])
def test_factors_of_products_come_in_as_many_wavefronts_as_were_counted(name: str) -> None:
    record = read("h200/suite/triton/ncu.json.gz")["launches"][f"triton_{name}"]
    call = load_launch(COMPILED / f"triton_{name}.toml")
    products = [
        (i, x) for i, x in enumerate(load_program(COMPILED / str(call.file)).instructions) if "GMMA" in x.opcode
    ]
    assert products
    for i, x in products:
        assert operand_wavefronts(x) * record["executed"][i] == record["shared_wavefronts"][i]


@pytest.mark.parametrize(("columns", "trip_cycles"), [(64, 332.0), (128, 589.6), (256, 1104.0)])
def test_a_wait_for_products_takes_what_was_measured(columns: int, trip_cycles: float, tmp_path: Path) -> None:
    group = next(g for g in tensor.GROUPS if g.name == "f16")
    (tmp_path / "k.cubin").write_bytes(
        next(iter(build([tensor.wgmma_kernel(group, columns)], "sm_90").cubins.values()))
    )
    (program,) = load_programs(tmp_path / "k.cubin").values()
    products = [i for i, x in enumerate(program.instructions) if x.opcode == "HGMMA"]
    stop = next(i for i, x in enumerate(program.instructions) if i > products[-1] and x.opcode == "BRA")
    goes_to = program.instructions[stop].target
    first = next(i for i, x in enumerate(program.instructions) if x.offset == goes_to)
    machine = units(api.load_machine("h200"), 1)
    ends = []
    for trips in (50, 100):
        code = from_program(program, machine, paths=[WarpPath([([(first, stop + 1)], trips)])], blocks=[[0] * 4])
        ends.append(run(code, machine, Options(), resident=1, blocks=1).end_cycle)
    assert (ends[1] - ends[0]) / 50 == pytest.approx(trip_cycles, rel=0.01)  # data/h200/journal/measured.jsonl.xz
