// Bias and exact GELU over rows of `cols` floats, four at a time.
__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
extern "C" __global__ void bias_gelu(int quads, int cols, const float4 *__restrict__ in, const float4 *__restrict__ bias,
                                     float4 *__restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads)
    return;
  float4 v = in[i], b = bias[i % (cols >> 2)];
  out[i] = make_float4(gelu(v.x + b.x), gelu(v.y + b.y), gelu(v.z + b.z), gelu(v.w + b.w));
}
