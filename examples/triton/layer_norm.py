"""Layer normalisation of the rows of a matrix, in Triton: mean, variance and the result in three passes over a row."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(x, weight, bias, out, out_mean, out_scale, columns, row_stride, epsilon, BLOCK: tl.constexpr):
    """Normalise one row, BLOCK elements at a time; mean and 1/deviation are kept for the way back."""
    row = tl.program_id(0)
    x += row * row_stride
    out += row * row_stride
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        apart = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32) - mean
        squares += tl.where(at < columns, apart * apart, 0.0)
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + epsilon)
    tl.store(out_mean + row, mean)
    tl.store(out_scale + row, scale)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        made = (value - mean) * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(out + at, made, mask=inside)
