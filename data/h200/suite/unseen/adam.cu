// Adam with decoupled decay: single-precision weights and moments, bfloat16 gradients, and a bfloat16 copy of the weights.
#include <cuda_bf16.h>
__device__ __forceinline__ float one(float &w, float &m, float &v, float g, float lr, float decay, float bias1, float bias2) {
  m = 0.9f * m + 0.1f * g;
  v = 0.999f * v + 0.001f * g * g;
  w -= lr * ((m * bias1) / (sqrtf(v * bias2) + 1e-8f) + decay * w);
  return w;
}
extern "C" __global__ void adam(int quads, float lr, float decay, float bias1, float bias2, float4 *__restrict__ weights,
                                float4 *__restrict__ first, float4 *__restrict__ second, const uint2 *__restrict__ gradient,
                                uint2 *__restrict__ out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
    float4 w = weights[i], m = first[i], v = second[i];
    uint2 raw = gradient[i];
    float2 g0 = __bfloat1622float2(*(__nv_bfloat162 *)&raw.x), g1 = __bfloat1622float2(*(__nv_bfloat162 *)&raw.y);
    __nv_bfloat162 lo = __floats2bfloat162_rn(one(w.x, m.x, v.x, g0.x, lr, decay, bias1, bias2),
                                              one(w.y, m.y, v.y, g0.y, lr, decay, bias1, bias2));
    __nv_bfloat162 hi = __floats2bfloat162_rn(one(w.z, m.z, v.z, g1.x, lr, decay, bias1, bias2),
                                              one(w.w, m.w, v.w, g1.y, lr, decay, bias1, bias2));
    weights[i] = w;
    first[i] = m;
    second[i] = v;
    out[i] = make_uint2(*(unsigned *)&lo, *(unsigned *)&hi);
  }
}
