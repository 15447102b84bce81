// Cast of single to half precision with a clip, and zeros after the last element up to the padded size.
#include <cuda_fp16.h>
extern "C" __global__ void cast_half(int n, int padded, float limit, const float *__restrict__ in, __half *__restrict__ out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < padded; i += gridDim.x * blockDim.x)
    out[i] = i < n ? __float2half_rn(fminf(fmaxf(in[i], -limit), limit)) : __float2half_rn(0.0f);
}
