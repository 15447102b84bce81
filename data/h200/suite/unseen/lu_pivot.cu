// LU with partial pivoting of many small matrices, one block each, in shared memory.
#ifndef N
#define N 32
#endif
extern "C" __global__ void lu_pivot(const float *__restrict__ a, float *__restrict__ out, int *__restrict__ out_pivot) {
  __shared__ float m[N][N + 1];
  __shared__ int chosen;
  int tid = threadIdx.x, threads = blockDim.x;
  size_t base = (size_t)blockIdx.x * N * N;
  for (int i = tid; i < N * N; i += threads)
    m[i / N][i % N] = a[base + i];
  __syncthreads();
  for (int k = 0; k < N; k++) {
    if (tid < 32) {
      float best = -1.0f;
      int row = k;
      for (int r = k + tid; r < N; r += 32) {
        float v = fabsf(m[r][k]);
        if (v > best) {
          best = v;
          row = r;
        }
      }
      for (int d = 16; d > 0; d >>= 1) {
        float other = __shfl_down_sync(0xffffffffu, best, d);
        int other_row = __shfl_down_sync(0xffffffffu, row, d);
        if (other > best) {
          best = other;
          row = other_row;
        }
      }
      if (tid == 0) {
        chosen = row;
        out_pivot[blockIdx.x * N + k] = row;
      }
    }
    __syncthreads();
    int p = chosen;
    if (p != k && tid < N) {
      float t = m[k][tid];
      m[k][tid] = m[p][tid];
      m[p][tid] = t;
    }
    __syncthreads();
    float inv = 1.0f / m[k][k];
    for (int r = k + 1 + tid; r < N; r += threads)
      m[r][k] *= inv;
    __syncthreads();
    int left = N - 1 - k;
    for (int i = tid; i < left * left; i += threads) {
      int r = k + 1 + i / left, c = k + 1 + i % left;
      m[r][c] -= m[r][k] * m[k][c];
    }
    __syncthreads();
  }
  for (int i = tid; i < N * N; i += threads)
    out[base + i] = m[i / N][i % N];
}
