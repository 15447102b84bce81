// Rotary embedding of queries: pairs of halves, half a head apart, turned by an angle that grows with the position.
#include <cuda_fp16.h>
extern "C" __global__ void rope(int tokens, int heads, int dim, float log2_base, const int *__restrict__ position,
                                const __half2 *__restrict__ in, __half2 *__restrict__ out) {
  int token = blockIdx.x, quarter = dim / 4; // pairs of elements in half a head
  float p = (float)position[token];
  for (int i = threadIdx.x; i < heads * quarter; i += blockDim.x) {
    int head = i / quarter, j = i % quarter;
    size_t at = ((size_t)token * heads + head) * (dim / 2) + j;
    float2 a = __half22float2(in[at]), b = __half22float2(in[at + quarter]);
    float s0, c0, s1, c1;
    sincosf(p * exp2f(-log2_base * (4 * j) / dim), &s0, &c0);
    sincosf(p * exp2f(-log2_base * (4 * j + 2) / dim), &s1, &c1);
    out[at] = __floats2half2_rn(a.x * c0 - b.x * s0, a.y * c1 - b.y * s1);
    out[at + quarter] = __floats2half2_rn(b.x * c0 + a.x * s0, b.y * c1 + a.y * s1);
  }
}
