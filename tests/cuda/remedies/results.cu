// RESULTS results per thread of sums over all elements; loops of TURNS turns over a tile in shared memory.
#ifndef RESULTS
#define RESULTS 1
#endif
#ifndef TURNS
#define TURNS 32
#endif
template <class Term> __device__ void sums(int n, const float4 *all, float4 *mine, float *out, Term term) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * RESULTS;
  float sum[RESULTS] = {};
  float4 own[RESULTS];
#pragma unroll
  for (int r = 0; r < RESULTS; ++r)
    own[r] = mine[i + r];
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    float4 o = all[k];
#pragma unroll
    for (int r = 0; r < RESULTS; ++r)
      sum[r] += term(o, own[r]);
  }
#pragma unroll
  for (int r = 0; r < RESULTS; ++r)
    out[i + r] = sum[r];
}
extern "C" __global__ void pull1(int n, const float4 *all, float4 *mine, float *out) {
  sums(n, all, mine, out, [](float4 a, float4 b) { return a.y * rsqrtf((a.x - b.x) * (a.x - b.x) + 1); });
}
extern "C" __global__ void pull2(int n, const float4 *all, float4 *mine, float *out) {
  sums(n, all, mine, out, [](float4 a, float4 b) {
    float x = a.x - b.x, y = a.y - b.y;
    return a.z * expf(-x * x - y * y);
  });
}
extern "C" __global__ void pull3(int n, const float4 *all, float4 *mine, float *out) {
  sums(n, all, mine, out, [](float4 a, float4 b) {
    float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return a.w / sqrtf(x * x + y * y + z * z);
  });
}
template <class Step> __device__ void tile(int n, const float4 *in, float *out, Step step) {
  __shared__ float4 s[TURNS];
  float sum = threadIdx.x;
#pragma unroll 1
  for (int k0 = 0; k0 < n; k0 += TURNS) {
    if (threadIdx.x < TURNS)
      s[threadIdx.x] = in[k0 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < TURNS; ++k)
      sum = step(sum, s[k]);
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void along1(int n, const float4 *in, float *out) {
  tile(n, in, out, [](float v, float4 a) { return v * 0.5f + a.x; });
}
extern "C" __global__ void along2(int n, const float4 *in, float *out) {
  tile(n, in, out, [](float v, float4 a) { return v + a.w * rsqrtf((v - a.x) * (v - a.x) + (v - a.y) * (v - a.y)); });
}
extern "C" __global__ void along3(int n, const float4 *in, float *out) {
  tile(n, in, out, [](float v, float4 a) { return v + a.w / sqrtf((v - a.x) * (v - a.x) + (v - a.y) * (v - a.y)); });
}
