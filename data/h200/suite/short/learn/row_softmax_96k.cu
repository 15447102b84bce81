// Softmax of a long row that is kept in dynamic shared memory, one block per row.
__device__ __forceinline__ float all(float v, bool is_max, float *red) {
#pragma unroll
  for (int d = 16; d; d >>= 1) {
    float o = __shfl_xor_sync(~0u, v, d);
    v = is_max ? fmaxf(v, o) : v + o;
  }
  if ((threadIdx.x & 31) == 0)
    red[threadIdx.x >> 5] = v;
  __syncthreads();
  int warps = blockDim.x >> 5, lane = threadIdx.x & 31;
  v = lane < warps ? red[lane] : (is_max ? -1e30f : 0.0f);
#pragma unroll
  for (int d = 16; d; d >>= 1) {
    float o = __shfl_xor_sync(~0u, v, d);
    v = is_max ? fmaxf(v, o) : v + o;
  }
  return v;
}
extern "C" __global__ void row_softmax_96k(int quads, float scale, const float4 *__restrict__ x, float4 *__restrict__ out) {
  extern __shared__ float4 row[];
  __shared__ float red[64];
  const float4 *p = x + (size_t)blockIdx.x * quads;
  float m = -1e30f, s = 0.0f;
  for (int i = threadIdx.x; i < quads; i += blockDim.x) {
    float4 v = p[i];
    v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
    row[i] = v;
    m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  m = all(m, true, red);
  for (int i = threadIdx.x; i < quads; i += blockDim.x) {
    float4 v = row[i];
    v.x = __expf(v.x - m), v.y = __expf(v.y - m), v.z = __expf(v.z - m), v.w = __expf(v.w - m);
    row[i] = v;
    s += (v.x + v.y) + (v.z + v.w);
  }
  float r = 1.0f / all(s, false, red + 32);
  for (int i = threadIdx.x; i < quads; i += blockDim.x) {
    float4 v = row[i];
    out[(size_t)blockIdx.x * quads + i] = make_float4(v.x * r, v.y * r, v.z * r, v.w * r);
  }
}
