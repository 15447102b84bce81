// A vector times a matrix of 4-bit weights with a scale for each 128 of them: one warp per row, the vector in shared memory.
#include <cuda_fp16.h>
extern "C" __global__ void gemv_int4(int rows, int columns, const uint4 *__restrict__ weights,
                                     const __half *__restrict__ scales, const __half2 *__restrict__ x,
                                     __half *__restrict__ out) {
  extern __shared__ __half2 xs[];
  for (int i = threadIdx.x; i < columns / 2; i += blockDim.x)
    xs[i] = x[i];
  __syncthreads();
  int lane = threadIdx.x % 32, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows)
    return;
  int packs = columns / 32;
  const uint4 *w = weights + (size_t)row * packs;
  const __half *s = scales + (size_t)row * (columns / 128);
  float sum = 0.0f;
  for (int i = lane; i < packs; i += 32) {
    uint4 q = w[i];
    unsigned word[4] = {q.x, q.y, q.z, q.w};
    float scale = __half2float(s[i / 4]);
    __half2 part = __float2half2_rn(0.0f);
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        unsigned pair = ((word[k] >> (4 * j)) & 0x000f000fu) | 0x64006400u; // 1024 + nibble
        __half2 h = __hsub2(*(__half2 *)&pair, __float2half2_rn(1032.0f));
        part = __hfma2(h, xs[i * 16 + k * 4 + j], part);
      }
    sum += scale * (__low2float(part) + __high2float(part));
  }
  for (int d = 16; d > 0; d >>= 1)
    sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane == 0)
    out[row] = __float2half(sum);
}
