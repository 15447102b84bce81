// An array times a number: half precision one element or eight at a time, single precision four at a time.
// Stresses loads in flight (half), DRAM bandwidth (half8, float4).
#include <cuda_fp16.h>

extern "C" __global__ void scale_half(int n, float a, const __half *x, __half *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = __float2half(a * __half2float(x[i]));
}

extern "C" __global__ void scale_half8(int n, float a, const uint4 *x, uint4 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint4 v = x[i];
  __half2 *pairs = (__half2 *)&v;
  for (int j = 0; j < 4; j++) {
    float2 pair = __half22float2(pairs[j]);
    pairs[j] = __floats2half2_rn(a * pair.x, a * pair.y);
  }
  out[i] = v;
}

extern "C" __global__ void scale_float4(int n, float a, const float4 *x, float4 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float4 v = x[i];
  out[i] = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
}
