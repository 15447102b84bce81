// Layer norm in single precision and RMS norm in half precision, one block per row.
// Stresses DRAM; each row waits for one or two reductions over the block. Columns are a multiple of 4 (8 for RMS norm).
#include <cuda_fp16.h>

__device__ float block_sum(float sum, float *parts) {
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0;
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  return sum;
}

extern "C" __global__ void layer_norm(int columns, float epsilon, const float4 *in, const float4 *gain,
                                      const float4 *bias, float4 *out) {
  __shared__ float parts[2][32];
  int fours = columns / 4;
  in += (long long)blockIdx.x * fours;
  out += (long long)blockIdx.x * fours;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < fours; i += blockDim.x) {
    float4 v = in[i];
    sum += v.x + v.y + v.z + v.w;
  }
  float mean = block_sum(sum, parts[0]) / columns;
  for (int i = threadIdx.x; i < fours; i += blockDim.x) {
    float4 v = in[i];
    float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
    squares += a * a + b * b + c * c + d * d;
  }
  float scale = 1 / sqrtf(block_sum(squares, parts[1]) / columns + epsilon);
  for (int i = threadIdx.x; i < fours; i += blockDim.x) {
    float4 v = in[i], g = gain[i], b = bias[i];
    out[i] = make_float4((v.x - mean) * scale * g.x + b.x, (v.y - mean) * scale * g.y + b.y,
                         (v.z - mean) * scale * g.z + b.z, (v.w - mean) * scale * g.w + b.w);
  }
}

extern "C" __global__ void rms_norm(int columns, float epsilon, const uint4 *in, const uint4 *gain, uint4 *out) {
  __shared__ float parts[32];
  int eights = columns / 8;
  in += (long long)blockIdx.x * eights;
  out += (long long)blockIdx.x * eights;
  float squares = 0;
  for (int i = threadIdx.x; i < eights; i += blockDim.x) {
    uint4 v = in[i];
    const __half2 *pairs = (const __half2 *)&v;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float2 pair = __half22float2(pairs[j]);
      squares += pair.x * pair.x + pair.y * pair.y;
    }
  }
  float scale = 1 / sqrtf(block_sum(squares, parts) / columns + epsilon);
  for (int i = threadIdx.x; i < eights; i += blockDim.x) {
    uint4 v = in[i], g = gain[i];
    __half2 *pairs = (__half2 *)&v;
    const __half2 *gains = (const __half2 *)&g;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float2 pair = __half22float2(pairs[j]), factor = __half22float2(gains[j]);
      pairs[j] = __floats2half2_rn(pair.x * scale * factor.x, pair.y * scale * factor.y);
    }
    out[i] = v;
  }
}
