"""Launches that cannot be: what `warplens analyze` says, one line each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warplens.cli import main

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]

SOURCE = """
extern "C" __global__ void twice(int n, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = 2 * x[i];
}
extern "C" __global__ void askew(int n, const float* x, float* y) {
  y[threadIdx.x] = *(const float*)((const char*)x + 4 * threadIdx.x + 2);
}
extern "C" __global__ void forever(int n, const float* x, float* y) {
  int turns = 0;
  while (y[threadIdx.x] < 1)
    turns += x[threadIdx.x] > 0;
  y[n] = turns;
}
"""
FINE = """
file = "bad.cu"
kernel = "twice"
grid = 4
block = 256
arg = [
    { name = "n", type = "i32", value = 1024 },
    { name = "x", type = "f32*", count = 1024 },
    { name = "y", type = "f32*", count = 1024 },
]
"""
X, Y = '{ name = "x", type = "f32*", count = 1024 }', '    { name = "y", type = "f32*", count = 1024 },\n'
BAD = [
    ("twice", "forever", r"forever, line 12, \w+ BRA: still running after [\d,]+ warp instructions: an endless loop\?"),
    (X, '{ name = "x", type = "f32*", value = 0 }', r"twice, line 5, .* of block .* a null pointer \(x\)"),
    ("twice", "askew", r"askew, line 8, .* thread \(0, 0, 0\) .* 0x1000000002, which is not a multiple of 4"),
    (Y, "", "twice takes 24 bytes of arguments, .* gives 16 .*; number 3, of 8 bytes, is missing"),
    (X, '{ name = "x", type = "i32", value = 0 }', r".*; number 2 \(x\) has 4 bytes, the kernel's has 8"),
    ('"i32"', '"i64"', r"twice: arg.n \(i64, 8 bytes\) does not fit .*: there is one of 4 bytes"),
    ("grid = 4", "grid = [4, 70000]", ".*grid: 70000 blocks in y; a grid has at most 65535 there"),
    ("grid = 4", "grid = 3000000000", ".*grid: must be a whole number <= 2147483647, not 3000000000"),
    ("block = 256", "block = 2048", ".*block: 2048 threads; a block has at most 1024"),
    ('count = 1024 },\n]', "count = 1000 },\n]", r"twice, line 5, .* thread \(232, 0, 0\) .* behind the end of y"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "says"), [pytest.param(*bad, marks=pytest.mark.slow if bad[1] == "forever" else ()) for bad in BAD]
)
def test_a_launch_that_cannot_be(
    was: str, now: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.cu").write_text(SOURCE)
    (tmp_path / "bad.toml").write_text(FINE.replace(was, now))
    assert main(["analyze", "--launch", str(tmp_path / "bad.toml")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert re.fullmatch(f"warplens: {says}\n", said.err), said.err


@pytest.mark.parametrize(
    ("gpu", "grid", "says"),
    [
        ("gtx480", "65536", "grid: 65536 blocks in x; GeForce GTX 480 takes at most 65535 there"),
        ("gtx280", "[4, 4, 2]", "grid: 2 blocks in z; GeForce GTX 280 takes at most 1 there"),
    ],
)
def test_a_grid_too_large_for_an_old_machine(
    gpu: str, grid: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.cu").write_text(SOURCE)
    (tmp_path / "bad.toml").write_text(FINE.replace("grid = 4", f"grid = {grid}"))
    assert main(["analyze", "--gpu", gpu, "--launch", str(tmp_path / "bad.toml")]) == 2
    assert capsys.readouterr().err == f"warplens: {says}\n"


def test_a_line_is_of_the_kernels_own_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "get.cuh").write_text(
        "__device__ float get(const float* x) {\n\n\n\n\n\n\n\n\n\n\n\n\n  return *x;\n}\n"
    )
    lines = [line.replace("2 * x[i]", "2 * get(x + i)") for line in SOURCE.splitlines()]
    (tmp_path / "all.cuh").write_text("\n".join(lines))
    (tmp_path / "bad.toml").write_text(FINE.replace(X, X.replace("1024", "1000")))
    for text, place in (("\n".join(lines), "twice, line 5"), ('#include "all.cuh"', "twice, all.cuh line 5")):
        (tmp_path / "bad.cu").write_text('#include "get.cuh"\n' + text.removeprefix("\n"))
        assert main(["analyze", "--launch", str(tmp_path / "bad.toml")]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"warplens: {place}, "), said
        assert "behind the end of x" in said
