// RMSNorm with a residual added first: one block per row of bfloat16, the sum rests in shared memory between the passes.
#include <cuda_bf16.h>
extern "C" __global__ void rmsnorm_bf16(int pairs, float epsilon, const __nv_bfloat162 *__restrict__ in,
                                        __nv_bfloat162 *residual, const __nv_bfloat162 *__restrict__ gain,
                                        __nv_bfloat162 *__restrict__ out) {
  __shared__ float2 row[4096];
  __shared__ float partial[32];
  size_t base = (size_t)blockIdx.x * pairs;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 a = __bfloat1622float2(in[base + i]), b = __bfloat1622float2(residual[base + i]);
    float2 c = make_float2(0.5f * (a.x + b.x), 0.5f * (a.y + b.y));
    row[i] = c;
    residual[base + i] = __floats2bfloat162_rn(c.x, c.y);
    sum += c.x * c.x + c.y * c.y;
  }
  for (int o = 16; o; o >>= 1)
    sum += __shfl_xor_sync(~0u, sum, o);
  if ((threadIdx.x & 31) == 0)
    partial[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    float s = threadIdx.x < (blockDim.x >> 5) ? partial[threadIdx.x] : 0.0f;
    for (int o = 16; o; o >>= 1)
      s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x == 0)
      partial[0] = rsqrtf(s / (2.0f * pairs) + epsilon);
  }
  __syncthreads();
  float by = partial[0];
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 c = row[i], g = __bfloat1622float2(gain[i]);
    out[base + i] = __floats2bfloat162_rn(c.x * by * g.x, c.y * by * g.y);
  }
}
