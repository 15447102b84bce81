// Rotary embedding of a few rows in half precision: one block per (head, row), one thread per pair (first half, second half).
#include <cuda_fp16.h>
extern "C" __global__ void rope_rows(int heads, int half_dim, float log2_base, const int *__restrict__ position,
                                     const __half *__restrict__ x, __half *__restrict__ out) {
  int head = blockIdx.x, row = blockIdx.y, p = threadIdx.x;
  if (p >= half_dim)
    return;
  float inv = exp2f(-log2_base * (float)p / (float)half_dim);
  float s, c;
  sincosf((float)position[row] * inv, &s, &c);
  size_t at = ((size_t)row * heads + head) * (2 * half_dim) + p;
  float a = __half2float(x[at]), b = __half2float(x[at + half_dim]);
  out[at] = __float2half(a * c - b * s);
  out[at + half_dim] = __float2half(a * s + b * c);
}
