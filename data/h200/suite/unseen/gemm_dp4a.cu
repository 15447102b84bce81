// Bytes times bytes into 32-bit sums by dp4a: 64 x 64 tiles, 4 x 4 per thread; both matrices have rows of k bytes.
extern "C" __global__ void __launch_bounds__(256) gemm_dp4a(int m, int n, int words, const int *__restrict__ a,
                                                            const int *__restrict__ b, int *__restrict__ out) {
  __shared__ int as[8][64 + 1], bs[8][64 + 1];
  int tid = threadIdx.x, tx = tid % 16, ty = tid / 16, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  int sum[4][4] = {};
  for (int k0 = 0; k0 < words; k0 += 8) {
    for (int i = tid; i < 512; i += 256) {
      as[i % 8][i / 8] = a[(size_t)(row0 + i / 8) * words + k0 + i % 8];
      bs[i % 8][i / 8] = b[(size_t)(col0 + i / 8) * words + k0 + i % 8];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; k++) {
      int x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        x[i] = as[k][ty * 4 + i];
        y[i] = bs[k][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          sum[i][j] = __dp4a(x[i], y[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      out[(size_t)(row0 + ty * 4 + i) * n + col0 + tx + 16 * j] = sum[i][j];
}
