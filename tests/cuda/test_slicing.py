"""A profile computes only what addresses and branches depend on; what is counted must not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cuda.programs import program_of, programs
from tests.cuda.test_profile import FILES
from warplens.emulator import ops
from warplens.emulator.emulator import Emulator
from warplens.emulator.layout import EXECUTED, THREADS
from warplens.emulator.slicing import as_seen
from warplens.emulator.uniformity import Ways
from warplens.program import Options, load_programs
from warplens.program.nvrtc import compile_source
from warplens.workload.launch import KernelCall, load_launch, parse_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]


def _skipped(emulator: Emulator) -> int:
    return int((emulator.code.table[:, ops.GROUP] == ops.NOTHING).sum())


@pytest.mark.parametrize(
    ("name", "skips"),
    [("hgemm_mma", True), ("sgemm_tiled", True), ("fft_radix4", True), ("svm_coalesced", True), ("spmv_vector", True),
     ("list_ranking", False), ("cutoff_binned", True), ("hash_probe", True), ("gelu", True)],
)  # fmt: skip
def test_counts_are_the_same(name: str, skips: bool) -> None:
    """Every column of every instruction: executions, threads, sectors, wavefronts; and so after `forget`."""
    call = load_launch(FILES[name], "small")
    program = program_of(call)
    blocks = range(min(4, call.blocks))
    whole, sliced = Emulator(program, call), Emulator(program, call, values=False)
    for emulator in (whole, sliced):
        emulator.run(blocks)
    assert np.array_equal(whole.stats, sliced.stats)
    assert (_skipped(sliced) > _skipped(whole) + 5) == skips
    once = sliced.stats.copy()
    sliced.forget()
    sliced.run(blocks)
    assert np.array_equal(sliced.stats[:, :5], 2 * once[:, :5])


QUOTIENT = """
extern "C" __global__ void quotient(int n, int m, const float* x, float* out) {
  float sum = 0;
  for (int k = 0; k < n; k++) sum += expf(x[blockIdx.x * 256 + k * 32 + threadIdx.x]) * k;
  out[blockIdx.x * blockDim.x + threadIdx.x] = m / sum;
}
"""


def test_further_blocks_ask_less_of_data(tmp_path: Path) -> None:
    """Neither guards of what nothing depends on nor the exponent before a division: all else is counted as before."""
    (tmp_path / "quotient.cu").write_text(QUOTIENT)
    (program,) = programs(tmp_path / "quotient.cu", Options(arch="sm_90")).values()
    arrays = [{"name": n, "type": "f32*", "count": 512} for n in ("x", "out")]
    numbers = [{"name": n, "type": "i32", "value": 8} for n in ("n", "m")]
    call = parse_launch({"kernel": "quotient", "grid": 2, "block": 32, "arg": [*numbers, *arrays]}, "quotient.toml")
    asking, other = (Emulator(program, call, values=False) for _ in range(2))
    asking.run([0])
    other.code = as_seen(other.code, program, asking.stats[:, EXECUTED].astype(np.float64), ())
    rows = other.code.table[:, ops.GUARD] != asking.code.table[:, ops.GUARD]
    floats = [i for i, x in enumerate(program.instructions) if x.kind in ("fp32", "sfu") and asking.stats[i, EXECUTED]]
    assert len(floats) > 30
    assert (asking.code.table[floats, ops.GROUP] != ops.NOTHING).all()
    assert (other.code.table[floats, ops.GROUP] == ops.NOTHING).all()
    for emulator in (asking, other):
        emulator.stats[:] = 0
        emulator.forget()
        emulator.run([1])
    asking.stats[rows, THREADS] = other.stats[rows, THREADS] = 0
    assert np.array_equal(asking.stats, other.stats)


LATER = """
extern "C" __global__ void later(int n, float y, const float* x, float* out) {
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < n; k++) {
    float q = x[k + threadIdx.x] / (blockIdx.x ? y : 0.5f);
    if (q > 1)
#pragma unroll 1
      for (int j = 0; j < 8; j++) sum = sum * 1.5f + 1;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def test_a_quotient_that_a_branch_depends_on_is_computed_in_further_blocks(tmp_path: Path) -> None:
    """The first block divides by 0.5, the next by a denormal number, for which there is the slow path."""
    (tmp_path / "later.cu").write_text(LATER)
    (program,) = programs(tmp_path / "later.cu", Options(arch="sm_90")).values()
    arrays = [{"name": n, "type": "f32*", "count": 64, "fill": "random"} for n in ("x", "out")]
    numbers = [{"name": "n", "type": "i32", "value": 8}, {"name": "y", "type": "f32", "value": 1e-40}]
    call = parse_launch({"kernel": "later", "grid": 2, "block": 32, "arg": [*numbers, *arrays]}, "later.toml")
    asking, other = (Emulator(program, call, values=False) for _ in range(2))
    asking.run([0])
    slow = [i for i, x in enumerate(program.instructions) if x.opcode == "CALL" and "_slowpath" in x.text]
    assert slow and not asking.stats[slow, EXECUTED].any()
    other.code = as_seen(other.code, program, asking.stats[:, EXECUTED].astype(np.float64), other.pointers)
    asking.stats[:] = 0
    for emulator in (asking, other):
        emulator.run([1])
    assert asking.stats[slow, EXECUTED].any()
    assert np.array_equal(asking.stats[:, EXECUTED], other.stats[:, EXECUTED])


def test_what_is_written_is_forgotten_and_what_is_read_is_kept() -> None:
    call = load_launch(FILES["saxpy"], "small")
    emulator = Emulator(program_of(call), call)
    first = emulator.array(3)
    emulator.run([0])
    pages_in_use = int(emulator.pages.table[-1])
    assert not np.array_equal(emulator.array(3), first)
    emulator.forget()
    assert np.array_equal(emulator.array(3), first)
    emulator.run([0])
    assert int(emulator.pages.table[-1]) == pages_in_use


STEADY = """
#define KERNEL(name, condition) \\
  extern "C" __global__ void name(int n, int m, const int* x, int* out) { \\
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y; \\
    if (condition) out[j * n + i] = x[j * n + i]; \\
  }
KERNEL(inside, i < n)
KERNEL(within, i < n && j < m)
KERNEL(one, blockIdx.x == n)
KERNEL(some, i % 3 < n)
KERNEL(gap, i < 1000 || i > 1040)
KERNEL(window, i > n && i < m)
KERNEL(square, i * j < n)
KERNEL(data, x[i] < n)
extern "C" __global__ void gather(int n, int m, const int* x, int* out) { out[threadIdx.x] = x[x[threadIdx.x]]; }
extern "C" __global__ void strided(int n, int m, const int* x, int* out) {
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += m) out[i & 1023] = x[i];
}
extern "C" __global__ void busy(int n, int m, const float *x, float *out) {
  float s = 0, t = blockIdx.x < m ? 1 : 2;
#pragma unroll 1
  for (int k = 0; k < n; k++) {
    s = s * t + x[k * 32 + threadIdx.x];
    s = s * s + 3;
#pragma unroll 1
    for (int q = 0; q < x[k]; q++) t = s * s * 5 + t;
  }
  out[threadIdx.x] = s + t;
}
"""


ARRAYS = """
#define KERNEL(name, to) \
  extern "C" __global__ void name(int n, int m, int* x, int* out) { \
    int i = threadIdx.x; \
    (to)[i] = x[i] * m % 7 + 1; \
    __syncthreads(); \
    out[8 + x[i ^ 1] % 8] = n; \
  }
KERNEL(other, out)
KERNEL(same, x)
KERNEL(either, n > m ? out : x)
__device__ int between[32];
extern "C" __global__ void variable(int n, int m, int* x, int* out) {
  int i = threadIdx.x;
  (n > m ? out : between)[i] = i * m % 7 * 8;
  __syncthreads();
  out[(n > m ? x : between)[i ^ 1] % 32] = n;
}
"""


@pytest.mark.parametrize("options", [(), ("-rdc=true",)])
def test_stores_to_an_array_matter_to_loads_from_it(options: tuple[str, ...], tmp_path: Path) -> None:
    """The other array's need not be computed; the same array's have to be, and those that may go to either or to a
    variable of the module: its address is in a constant bank or, in relocatable code, in the code."""
    compile_source(ARRAYS, "arrays.cu", "sm_90", [*options], tmp_path / "arrays.cubin")
    for name, program in load_programs(tmp_path / "arrays.cubin").items():
        assert any("32@lo(between)" in x.text for x in program.instructions) == bool(options and name == "variable")
        call = _any_call(name, 32)
        whole, sliced = Emulator(program, call), Emulator(program, call, values=False)
        for emulator in (whole, sliced):
            emulator.run([0])
        assert np.array_equal(whole.stats, sliced.stats), name
        assert (_skipped(sliced) > _skipped(whole) + 5) == (name == "other"), name


def test_steady_programs_are_told_from_others(tmp_path: Path) -> None:
    """What the corners of a grid tell of its inside: linear bounds along each axis, not gaps, single blocks, data."""
    (tmp_path / "steady.cu").write_text(STEADY)
    made = programs(tmp_path / "steady.cu", Options(arch="sm_90"))
    codes = {name: Emulator(program, _any_call(name), values=False).code for name, program in made.items()}
    ways = {name: Ways(code) for name, code in codes.items()}
    assert {name for name, way in ways.items() if way.are_steady()} == {"inside", "within", "strided"}
    open_ones = {name for name, way in ways.items() if way.undecided()}
    assert open_ones == codes.keys() - {"inside", "within", "strided", "gather"}  # of the last, addresses alone
    assert {name for name, way in ways.items() if not way.undecided(corners=False)} == {"gather"}
    assert any(last > first + 1 for first, (last, _, _) in ways["busy"].idle.items())
    for name, code in codes.items():  # what does nothing is gone over at once: one by one they say the same
        one_by_one = Ways(code)
        one_by_one.idle.clear()
        both = [(w.are_steady(), w.undecided(), w.undecided(corners=False)) for w in (ways[name], one_by_one)]
        assert both[0] == both[1]


def _any_call(name: str, count: int = 8) -> KernelCall:
    arrays = [{"name": n, "type": "i32*", "count": count} for n in ("x", "out")]
    numbers = [{"name": n, "type": "i32", "value": 1} for n in ("n", "m")]
    return parse_launch({"kernel": name, "grid": 1, "block": 32, "arg": [*numbers, *arrays]}, "steady.toml")
