"""Blocks that take their work from a counter are told from those that only count (`program/dataflow.py`)."""

from __future__ import annotations

from pathlib import Path

from warplens import api
from warplens.program import Options, list_kernels, load_program
from warplens.program.dataflow import counter

SOURCE = """
extern "C" __global__ void alone(int n, int *next, float *x) {
  for (;;) { int i = atomicAdd(next, 1); if (i >= n) break; x[i] *= 2; }
}
extern "C" __global__ void together(int n, int *next, float *x) {
  __shared__ int tile;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    int t = tile;
    if (t * 256 >= n) break;
    x[t * 256 + threadIdx.x] *= 2;
  }
}
extern "C" __global__ void compact(int n, int *count, const int *in, int *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    if (in[i] > 0) out[atomicAdd(count, 1)] = in[i];
}
extern "C" __global__ void insert(int n, const int *in, int *table) {
  int at = in[threadIdx.x] & 1023;
  while (atomicCAS(&table[at], 0, n) != 0) at = (at + 1) & 1023;
}
"""
LAUNCH = """
file = "queue.cu"
kernel = "together"
grid = 4096
block = 256
arg = [
    { name = "n", type = "i32", value = 1048576 },
    { name = "next", type = "i32*", count = 1 },
    { name = "x", type = "f32*", count = 1048576 },
]
"""


def test_a_counter_that_hands_out_work(tmp_path: Path) -> None:
    file = tmp_path / "queue.cu"
    file.write_text(SOURCE)
    for arch in ("sm_80", "sm_90"):
        found = {name: counter(load_program(file, name, Options(arch=arch))) for name in list_kernels(file)}
        assert {name.partition("(")[0] for name, x in found.items() if x is not None} == {"alone", "together"}
    (tmp_path / "queue.toml").write_text(LAUNCH)
    made = api.count(None, tmp_path / "queue.toml", "h200").unmodelled
    assert made[0].where == "line 9" and "blocks take their work from a counter" in made[0].says
    assert made[0].factor is None
