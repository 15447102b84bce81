"""Attention without the matrix of scores in memory (FlashAttention, forward), in Triton, fp16 with fp32 sums."""

import triton
import triton.language as tl


@triton.jit
def flash_attention(
    q, k, v, out, scale, length, head_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Attend with BLOCK_M queries of one head to all its keys (CAUSAL: to those before), BLOCK_N at a time.

    A head lies as `length` rows of DEPTH elements; `scale` has log2(e) in it, since powers of two are taken.
    """
    first, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    query, key, deep = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DEPTH)
    base = head.to(tl.int64) * head_stride
    queries = tl.load(q + base + query[:, None] * DEPTH + deep[None, :])
    k_at = k + base + key[None, :] * DEPTH + deep[:, None]
    v_at = v + base + key[:, None] * DEPTH + deep[None, :]
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, DEPTH], tl.float32)
    for start in range(0, first + BLOCK_M if CAUSAL else length, BLOCK_N):
        scores = tl.dot(queries, tl.load(k_at)) * scale
        if CAUSAL:
            scores = tl.where(query[:, None] >= start + key[None, :], scores, -1.0e6)
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(largest - now)
        total = total * shrink + tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(tl.float16), tl.load(v_at), sums * shrink[:, None])
        largest = now
        k_at += BLOCK_N * DEPTH
        v_at += BLOCK_N * DEPTH
    sums = sums / total[:, None]
    tl.store(out + base + query[:, None] * DEPTH + deep[None, :], sums.to(tl.float16))
