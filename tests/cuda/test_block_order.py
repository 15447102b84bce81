"""The law of blocks that do not communicate: counts and results do not depend on the order in which blocks run."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cuda.programs import programs
from warplens.emulator.emulator import Emulator
from warplens.emulator.layout import L1_HITS
from warplens.program import Options
from warplens.program.program import Program
from warplens.workload.launch import parse_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
BLOCKS, THREADS = 12, 96
# Blocks differ by data and by their index: trips of a loop, the threads of a branch, strides, bank conflicts.
SOURCE = """
extern "C" __global__ void blocks(const int* x, int* y) {
  __shared__ int s[96 * 4];
  int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int k = 0; k < x[i] % 7; k++) sum += x[(i * (blockIdx.x + 1) + k) % (12 * 96)];
  s[threadIdx.x * (1 + blockIdx.x % 4)] = sum;
  __syncthreads();
  if (blockIdx.x % 3 == 0 && sum & 1) sum += s[(threadIdx.x ^ 1) * (1 + blockIdx.x % 4)];
  y[i] = sum;
}
"""


@cache
def _program() -> Program:
    with TemporaryDirectory() as folder:
        (file := Path(folder) / "blocks.cu").write_text(SOURCE)
        return programs(file, Options(arch="sm_90"))["blocks"]


def _emulator() -> Emulator:
    arrays = [{"name": name, "type": "i32*", "count": BLOCKS * THREADS, "fill": fill} for name, fill in FILLS.items()]
    return Emulator(_program(), parse_launch({"grid": BLOCKS, "block": THREADS, "arg": arrays}, "blocks.toml"))


FILLS = {"x": "random_int(0, 1000)", "y": "zeros"}


@cache
def _in_order() -> tuple[np.ndarray, np.ndarray]:
    emulator = _emulator()
    emulator.run(range(BLOCKS))
    return emulator.stats[:, :L1_HITS].copy(), emulator.array("y")


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(BLOCKS)), cuts=st.sets(st.integers(1, BLOCKS - 1)))
def test_counts_do_not_depend_on_the_order_of_blocks(order: list[int], cuts: set[int]) -> None:
    """In any order, and in any groups that run side by side, one group after the other."""
    emulator, ends = _emulator(), [0, *sorted(cuts), BLOCKS]
    for first, end in pairwise(ends):
        emulator.run(order[first:end])
    counts, results = _in_order()
    assert np.array_equal(emulator.stats[:, :L1_HITS], counts)
    assert np.array_equal(emulator.array("y"), results)
