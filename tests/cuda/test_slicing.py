"""A profile computes only what addresses and branches depend on; what is counted must not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cuda.programs import program_of, programs
from tests.cuda.test_profile import FILES
from warplens.emulator import ops
from warplens.emulator.emulator import Emulator
from warplens.emulator.undecided import undecided
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


BRANCHES = """
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


def test_branches_on_which_blocks_may_differ(tmp_path: Path) -> None:
    """The corners of a grid decide linear bounds along each axis, not gaps, single blocks or data."""
    (tmp_path / "branches.cu").write_text(BRANCHES)
    found = programs(tmp_path / "branches.cu", Options(arch="sm_90"))
    codes = {name: Emulator(program, _any_call(name), values=False).code for name, program in found.items()}
    decided = {"inside", "within", "strided", "gather"}  # of the last, addresses alone depend on data
    assert {name for name, code in codes.items() if undecided(code)} == codes.keys() - decided
    assert {name for name, code in codes.items() if not undecided(code, corners=False)} == {"gather"}


def _any_call(name: str, count: int = 8) -> KernelCall:
    arrays = [{"name": n, "type": "i32*", "count": count} for n in ("x", "out")]
    numbers = [{"name": n, "type": "i32", "value": 1} for n in ("n", "m")]
    return parse_launch({"kernel": name, "grid": 1, "block": 32, "arg": [*numbers, *arrays]}, "branches.toml")
