"""Softmax of the rows of a matrix, in Triton: a program has one row at a time in its registers."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, rows, columns, row_stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Normalise every `programs`-th row; BLOCK is the power of two that holds a row."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * row_stride + column, mask=inside, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * row_stride + column, powers / tl.sum(powers, axis=0), mask=inside)
