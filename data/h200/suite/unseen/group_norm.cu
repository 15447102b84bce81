// Group normalisation of an image's channels (half precision): Welford's running mean, merged by shuffles; a block per group.
#include <cuda_fp16.h>
__device__ __forceinline__ void merge(float &mean, float &m2, float &n, float mean_b, float m2_b, float n_b) {
  float total = n + n_b;
  if (total == 0.0f)
    return;
  float delta = mean_b - mean, part = n_b / total;
  mean += delta * part;
  m2 += m2_b + delta * delta * n * part;
  n = total;
}
extern "C" __global__ void group_norm(int groups, int channels_per_group, int pixels, const __half2 *__restrict__ in,
                                      const float *__restrict__ gamma, const float *__restrict__ beta,
                                      __half2 *__restrict__ out) {
  __shared__ float s_mean[32], s_m2[32], s_n[32];
  int pairs = channels_per_group * pixels / 2, group = blockIdx.x % groups;
  const __half2 *x = in + (size_t)blockIdx.x * pairs;
  float mean = 0.0f, m2 = 0.0f, n = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 v = __half22float2(x[i]);
    n += 1.0f;
    float d = v.x - mean;
    mean += d / n;
    m2 += d * (v.x - mean);
    n += 1.0f;
    d = v.y - mean;
    mean += d / n;
    m2 += d * (v.y - mean);
  }
  for (int d = 16; d > 0; d >>= 1)
    merge(mean, m2, n, __shfl_xor_sync(0xffffffffu, mean, d), __shfl_xor_sync(0xffffffffu, m2, d),
          __shfl_xor_sync(0xffffffffu, n, d));
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) {
    s_mean[warp] = mean;
    s_m2[warp] = m2;
    s_n[warp] = n;
  }
  __syncthreads();
  mean = s_mean[0];
  m2 = s_m2[0];
  n = s_n[0];
  for (int w = 1; w < (int)blockDim.x / 32; w++)
    merge(mean, m2, n, s_mean[w], s_m2[w], s_n[w]);
  float inv = rsqrtf(m2 / n + 1e-5f);
  __half2 *y = out + (size_t)blockIdx.x * pairs;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    int channel = group * channels_per_group + 2 * i / pixels;
    float scale = gamma[channel] * inv, shift = beta[channel] - mean * scale;
    float2 v = __half22float2(x[i]);
    y[i] = __floats2half2_rn(v.x * scale + shift, v.y * scale + shift);
  }
}
