// out = a x + y in half precision, eight elements per thread and access.
// Stresses DRAM bandwidth with 128-bit accesses, and the packed half-precision multiply-add.
#include <cuda_fp16.h>

extern "C" __global__ void axpy_half(int n, float a, const uint4 *x, const uint4 *y, uint4 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint4 u = x[i], v = y[i];
  __half2 *left = (__half2 *)&u, *right = (__half2 *)&v, factor = __float2half2_rn(a);
#pragma unroll
  for (int j = 0; j < 4; j++)
    right[j] = __hfma2(factor, left[j], right[j]);
  out[i] = v;
}
