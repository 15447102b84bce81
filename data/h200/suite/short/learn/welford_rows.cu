// Mean and variance of each row by Welford's update, merged across lanes and warps.
__device__ __forceinline__ void merge(float &n, float &m, float &s, float n2, float m2, float s2) {
  float t = n + n2;
  if (t > 0.0f) {
    float d = m2 - m, f = n2 / t;
    m += d * f;
    s += s2 + d * d * n * f;
    n = t;
  }
}
extern "C" __global__ void welford_rows(int cols, float eps, const float *__restrict__ x, float *__restrict__ out_mean,
                                        float *__restrict__ out_rstd) {
  __shared__ float sn[32], sm[32], ss[32];
  const float *row = x + (size_t)blockIdx.x * cols;
  float n = 0.0f, m = 0.0f, s = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    float v = row[i];
    n += 1.0f;
    float d = v - m;
    m += d / n;
    s += d * (v - m);
  }
#pragma unroll
  for (int d = 16; d; d >>= 1)
    merge(n, m, s, __shfl_down_sync(~0u, n, d), __shfl_down_sync(~0u, m, d), __shfl_down_sync(~0u, s, d));
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) {
    sn[warp] = n;
    sm[warp] = m;
    ss[warp] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < (int)(blockDim.x >> 5); w++)
      merge(n, m, s, sn[w], sm[w], ss[w]);
    out_mean[blockIdx.x] = m;
    out_rstd[blockIdx.x] = rsqrtf(s / n + eps);
  }
}
