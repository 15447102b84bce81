// A state-space layer in time: a channel per thread with sixteen states in registers; a chunk of B and C in shared memory.
#define STATES 16
#define CHUNK 32
extern "C" __global__ void selective_scan(int length, int channels, const float *__restrict__ u,
                                          const float *__restrict__ delta, const float *__restrict__ a,
                                          const float *__restrict__ b, const float *__restrict__ c, float *__restrict__ out) {
  __shared__ float bs[CHUNK][STATES], cs[CHUNK][STATES];
  int channel = blockIdx.x * blockDim.x + threadIdx.x;
  size_t first = (size_t)blockIdx.y * length;
  float h[STATES], decay[STATES];
#pragma unroll
  for (int s = 0; s < STATES; s++) {
    h[s] = 0.0f;
    decay[s] = -a[(size_t)s * channels + channel] * 1.442695f;
  }
  for (int t0 = 0; t0 < length; t0 += CHUNK) {
    for (int i = threadIdx.x; i < CHUNK * STATES; i += blockDim.x) {
      bs[i / STATES][i % STATES] = b[(first + t0) * STATES + i];
      cs[i / STATES][i % STATES] = c[(first + t0) * STATES + i];
    }
    __syncthreads();
    for (int t = 0; t < CHUNK; t++) {
      size_t at = (first + t0 + t) * channels + channel;
      float dt = delta[at], x = u[at] * dt, y = 0.0f;
#pragma unroll
      for (int s = 0; s < STATES; s++) {
        h[s] = h[s] * exp2f(dt * decay[s]) + x * bs[t][s];
        y += h[s] * cs[t][s];
      }
      out[at] = y;
    }
    __syncthreads();
  }
}
