"""C = A B of fp16 matrices with fp32 sums, in Triton."""

import triton
import triton.language as tl


@triton.jit
def tile_of(program, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Return the row and the column of a program's tile: GROUP rows of tiles at a time, so that tiles share in L2."""
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = program // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    within = program % (GROUP * tiles_n)
    return group * GROUP + within % rows, within // rows


@triton.jit
def matmul(
    a, b, out, m, n, k, a_stride, b_stride, out_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of BLOCK_M x BLOCK_N, BLOCK_K of the depth at a time."""
    tile_m, tile_n = tile_of(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP)
    row = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    deep = tl.arange(0, BLOCK_K)
    a_at = a + row[:, None] * a_stride + deep[None, :]
    b_at = b + deep[:, None] * b_stride + column[None, :]
    sums = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        part_a = tl.load(a_at, mask=deep[None, :] < k - start, other=0.0)
        part_b = tl.load(b_at, mask=deep[:, None] < k - start, other=0.0)
        sums = tl.dot(part_a, part_b, sums)
        a_at += BLOCK_K
        b_at += BLOCK_K * b_stride
    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * out_stride + column[None, :], sums.to(tl.float16), mask=inside)
